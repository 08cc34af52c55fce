#include "engine/train/room/company.h"

#include "base/log.h"
#include "base/sha256.h"
#include "engine/config/options.h"
#include "engine/model/state/trunk.h"
#include "kernels/devices/devices.h"

#include <string.h>

ft_status ft_company_device(const ft_config *c, const char *name, ft_room *room, char why[]) {
    ft_pack_member *member = ft_pack_present();
    FT_TRY(ft_device_open(name, (int)c->device.threads, c->device.isa, &room->device, why));
    if (member == NULL || ft_device_queues(room->device)) return FT_OK; // a device with memory of its own
    ft_device *shared;
    FT_TRY(ft_pack_cpu(member, (int)c->device.threads, c->device.isa, &shared));
    if (shared == NULL) return FT_OK;
    ft_device_close(room->device);
    room->device = shared;
    room->shares_device = true;
    return FT_OK;
}

// Options beside [model] that decide which numbers are frozen, how they are kept and where they stand.
static bool decides(const char *option) {
    static const char *const names[] = {"train.precision", "train.parameters", "adapter.bias", "adapter.modules_to_save", "memory.offload", "train.task"};
    if (strncmp(option, "model.", 6) == 0) return strstr(option, "dropout") == NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(option, names[i]) == 0) return true;
    return false;
}

static void add(ft_sha256_state *hash, const char *text) { ft_sha256_add(hash, text, strlen(text) + 1); }

static void key_of(const ft_room *room, char key[65]) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    unsigned char digest[32];
    ft_sha256_state hash;
    const ft_word_rows *words = room->job->word_rows;
    ft_sha256_begin(&hash);
    add(&hash, room->job->base_sha256);
    for (int i = 0; i < ft_option_count(); i++) {
        const ft_option *o = ft_option_at(i);
        const bool draws = room->config->model.init == FT_INIT_RANDOM && strcmp(o->name, "train.seed") == 0;
        if (!decides(o->name) && !draws) continue;
        add(&hash, o->name);
        add(&hash, ft_option_get(room->config, o, scratch));
    }
    if (words != NULL) ft_sha256_add(&hash, words->id_of, (size_t)words->held * sizeof *words->id_of);
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, key);
}

ft_status ft_company_join(ft_room *room) {
    const ft_config *c = room->config;
    ft_pack_member *member = ft_pack_present();
    char key[65];
    if (member == NULL || room->rehearses) return FT_OK;
    if (!room->shares_device || c->adapter.type == FT_ADAPTER_NONE || c->model.storage == FT_KEEP_AUTO)
        return ft_info("pack       alone: %s", !room->shares_device ? "it has another device or number of threads" : "it trains no adapter beside a frozen model"), FT_OK;
    ft_trunk *trunk = ft_pack_trunk(member);
    key_of(room, key);
    if (!ft_trunk_hold(trunk, key, room->device))
        return ft_info("pack       alone: the frozen model of the trials beside it is another, or kept otherwise"), FT_OK;
    room->trunk = trunk;
    if (trunk->holders == 1) trunk->program = room->job->held.start;
    ft_info("pack       beside %d other%s, which have the frozen model in common: it is no part of what follows", trunk->holders - 1, trunk->holders == 2 ? "" : "s");
    return FT_OK;
}

void ft_company_leave(ft_room *room) {
    if (room->trunk != NULL && !room->rehearses) ft_trunk_release(room->trunk);
    room->trunk = NULL;
}

size_t ft_company_owes(const ft_room *room) {
    const ft_trunk *t = room->trunk;
    return t != NULL && !t->reserved ? t->planned + t->program : 0;
}

void ft_company_reserved(ft_room *room, ft_ledger *reservation) {
    room->trunk->reservation = reservation;
    room->trunk->reserved = true;
}

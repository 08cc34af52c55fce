#include "engine/train/room/company.h"

#include "base/context.h"
#include "base/log.h"
#include "base/sha256.h"
#include "engine/config/options.h"
#include "engine/model/state/offload.h"
#include "engine/model/state/recorder.h"
#include "engine/model/state/trunk.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <string.h>

// A run whose steps are graphs or whose products are measured ones has a stream of its own. `auto` measures none on the CPU.
static bool has_own_stream(const ft_config *c, const char *name) {
    const bool tuned = c->device.gemm_tuning[0] != '\0' && !(ft_gemm_tuning_is_auto(c) && strcmp(name, "cpu") == 0);
    return c->device.graphs == FT_GRAPHS_ON || tuned;
}

static ft_status open_device(const ft_config *c, const char *name, ft_device **device, char why[]) {
    return ft_device_open(name, (int)c->device.threads, c->device.isa, device, why);
}

// What all have in common; NULL: the pack has another one.
static ft_status common_device(const ft_config *c, const char *name, ft_pack_member *member, ft_device **device, char why[]) {
    char asked[FT_PACK_ASKED];
    snprintf(asked, sizeof asked, "%s %d %s", name, (int)c->device.threads, c->device.isa);
    *device = ft_pack_device(member, asked);
    if (*device != NULL || ft_pack_has_device(member)) return FT_OK;
    ft_context *before = ft_context_enter(NULL); // its threads outlive the member's context
    const ft_status status = open_device(c, name, device, why);
    ft_context_enter(before);
    if (status == FT_OK) ft_pack_keep_device(member, asked, *device);
    return status;
}

ft_status ft_company_device(const ft_config *c, const char *name, ft_room *room, char why[]) {
    ft_pack_member *member = ft_pack_present();
    ft_device *common = NULL;
    if (member != NULL && !has_own_stream(c, name)) FT_TRY(common_device(c, name, member, &common, why));
    if (common == NULL) return open_device(c, name, &room->device, why);
    room->shares_device = true;
    return ft_recorder_open(common, &room->device);
}

// Options beside [model] that decide which numbers are frozen, how they are kept and where they stand.
static bool decides(const char *option) {
    static const char *const names[] = {"train.precision", "train.residual", "train.parameters", "adapter.bias", "adapter.modules_to_save", "memory.offload", "train.task"};
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

// Layers that travel are each run's own, as is where they are just now.
static bool may_send_layers(const ft_room *room, const ft_config *c) {
    return ft_device_queues(room->device) && (c->memory.offload == FT_OFFLOAD_AUTO || ft_offloads_trunk(c, room->device));
}

static const char *why_alone(const ft_room *room, const ft_config *c) {
    if (has_own_stream(c, room->device->name) && ft_device_queues(room->device)) return "device.graphs and device.gemm_tuning are for runs that queue their products themselves";
    if (!room->shares_device) return "it has another device or number of threads";
    if (c->adapter.type == FT_ADAPTER_NONE || c->model.storage == FT_KEEP_AUTO) return "it trains no adapter beside a frozen model";
    return may_send_layers(room, c) ? "memory.offload may send its frozen layers to the host" : NULL;
}

ft_status ft_company_join(ft_room *room) {
    const ft_config *c = room->config;
    ft_pack_member *member = ft_pack_present();
    char key[65];
    if (member == NULL || room->rehearses) return FT_OK;
    const char *alone = why_alone(room, c);
    if (alone != NULL) return ft_info("pack       alone: %s", alone), FT_OK;
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
    if (t == NULL || t->reserved) return 0;
    return ft_device_queues(room->device) ? t->planned : t->planned + t->program;
}

size_t ft_company_owes_host(const ft_room *room) {
    const ft_trunk *t = room->trunk;
    return t != NULL && !t->reserved && ft_device_queues(room->device) ? t->program : 0;
}

void ft_company_reserved(ft_room *room, ft_ledger *reservation, ft_ledger *host) {
    room->trunk->reservation = reservation;
    room->trunk->host_reservation = host;
    room->trunk->reserved = true;
}

// devices_pick.c - `ftengine devices --pick`: the name of the device that a run with device.name = auto would take, for
// scripts.
#include "engine/commands/commands.h"
#include "engine/config/options.h"
#include "engine/io/json.h"
#include "engine/memory/memory.h"
#include "engine/train/admission.h"
#include "kernels/cuda/chips.h"
#include "kernels/cuda/kernels.h"

#include <stdio.h>
#include <string.h>

typedef struct offer {
    int count;
    ft_candidate candidates[FT_CANDIDATES];
    size_t free[FT_CANDIDATES];
} offer;

static ft_status add_cpu(offer *o) {
    ft_ledger_state state;
    ft_candidate *c = &o->candidates[o->count];
    FT_TRY(ft_candidate_cpu(c));
    FT_TRY(ft_candidate_read(c, &state));
    o->free[o->count++] = state.free;
    return FT_OK;
}

// Only the first one is trained on: the others are offered, and never chosen.
static ft_status add_cuda(offer *o) {
    ft_cuda_driver *driver;
    int count = 0;
    ft_status status = ft_cuda_driver_open(NULL, &driver);
    if (status == FT_NO_MEMORY) return status; // the host's: says nothing about the driver
    if (status == FT_OK) status = ft_cuda_chip_count(driver, &count);
    for (int i = 0; status == FT_OK && i < count && o->count < FT_CANDIDATES; i++) {
        ft_cuda_chip chip;
        ft_candidate *c = &o->candidates[o->count];
        if (ft_cuda_chip_read(driver, i, &chip) != FT_OK) continue;
        bool usable = i == 0 && ft_cuda_chip_check(&chip) == FT_OK && ft_cuda_look_for_kernels(driver) == FT_OK;
        ft_ledger_state state;
        if (ft_candidate_cuda(i, chip.pci, chip.total_bytes, c) != FT_OK || ft_candidate_read(c, &state) != FT_OK)
            continue;
        c->trains = usable;
        size_t *unused = &o->free[o->count];
        if (ft_cuda_chip_free_bytes(driver, &chip, unused) != FT_OK) continue;
        if (state.free < *unused) *unused = state.free; // reserved, and not taken yet
        o->count++;
    }
    ft_error_clear(); // a device that does not answer is no offer
    ft_cuda_driver_close(driver);
    return FT_OK;
}

static ft_status refuse(const offer *o, size_t min_free) {
    char need[24], has[24];
    ft_fail(FT_NO_DEVICE, "devices", "no device to train on has %s free", ft_bytes_text(min_free, need));
    for (int i = 0; i < o->count && i < 3; i++)
        ft_hint("%s has %s free%s", o->candidates[i].name, ft_bytes_text(o->free[i], has),
                o->candidates[i].trains ? "" : ", but cannot be trained on");
    return FT_NO_DEVICE;
}

static ft_status print(const offer *o, int chosen, bool as_json) {
    if (!as_json) return printf("%s\n", o->candidates[chosen].name), FT_OK;
    json_t *root = json_pack("{s:i, s:s, s:I}", "format_version", 1, "device", o->candidates[chosen].name, "free_bytes",
                             (json_int_t)o->free[chosen]);
    if (root == NULL) return ft_fail_memory(0, "the device as JSON");
    ft_json_write(stdout, root);
    json_decref(root);
    return FT_OK;
}

ft_status ft_devices_pick(const char *min_free, bool as_json) {
    ft_config config = {0};
    offer o = {.count = 0};
    if (min_free != NULL)
        FT_TRY(ft_option_set(&config, &ft_options[ft_option_find("device.min_free_memory")], min_free, NULL,
                             "--min-free"));
    ft_admission_request request = ft_admission_request_of(&config, 0);
    ft_config_free(&config);
    FT_TRY(add_cpu(&o));
    FT_TRY(add_cuda(&o));
    int chosen = ft_admission_choose(o.count, o.candidates, o.free, &request);
    return chosen >= 0 ? print(&o, chosen, as_json) : refuse(&o, request.min_free);
}

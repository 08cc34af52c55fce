#include "engine/train/room/device_choice.h"

#include "base/log.h"
#include "engine/memory/memory.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <string.h>

ft_status ft_offer_add_cpu(ft_offer *o) {
    ft_ledger_state state;
    ft_candidate *c = &o->candidates[o->count];
    FT_TRY(ft_candidate_cpu(c));
    FT_TRY(ft_candidate_read(c, &state));
    o->free[o->count++] = state.free;
    return FT_OK;
}

static void add_gpu(ft_offer *o, const ft_gpus *gpus, int ordinal, bool kernels) {
    ft_gpu gpu;
    ft_ledger_state state;
    ft_candidate *c = &o->candidates[o->count];
    size_t *unused = &o->free[o->count];
    if (ft_gpus_read(gpus, ordinal, &gpu) != FT_OK) return;
    if (ft_candidate_cuda(ordinal, gpu.uuid, gpu.total_bytes, c) != FT_OK || ft_candidate_read(c, &state) != FT_OK) return;
    if (ft_gpus_free_bytes(gpus, &gpu, unused) != FT_OK) return;
    c->trains = kernels && ft_gpu_check(&gpu) == FT_OK;
    if (state.free < *unused) *unused = state.free; // reserved, and not taken yet
    o->count++;
}

ft_status ft_offer_add_cuda(ft_offer *o) {
    ft_gpus *gpus;
    int count = 0;
    ft_status status = ft_gpus_open(&gpus);
    if (status == FT_NO_MEMORY) return status; // says nothing about the driver
    if (status == FT_OK) status = ft_gpus_count(gpus, &count);
    bool kernels = status == FT_OK && count > 0 && ft_gpus_check_libraries(gpus, NULL) == FT_OK;
    for (int i = 0; status == FT_OK && i < count && o->count < FT_CANDIDATES; i++) add_gpu(o, gpus, i, kernels);
    ft_error_clear(); // a device that does not answer is no offer
    ft_gpus_close(gpus);
    return FT_OK;
}

// Asking what is free takes a context: of a single device nobody asks.
static bool several_devices(void) {
    ft_gpus *gpus;
    int count = 0;
    if (ft_gpus_open(&gpus) != FT_OK || ft_gpus_count(gpus, &count) != FT_OK) count = 0;
    ft_error_clear(); // opening says it again
    ft_gpus_close(gpus);
    return count > 1;
}

ft_status ft_choose_device(const ft_config *config, char name[24]) {
    ft_offer offer = {.count = 0};
    snprintf(name, 24, "%s", config->device.name);
    if (strcmp(config->device.name, "auto") != 0 || !several_devices()) return FT_OK;
    FT_TRY(ft_offer_add_cuda(&offer));
    ft_admission_request request = ft_admission_request_of(config, 0);
    int best = ft_admission_choose(offer.count, offer.candidates, offer.free, &request);
    if (best < 0) return FT_OK;
    memcpy(name, offer.candidates[best].name, sizeof offer.candidates[best].name);
    char text[24];
    ft_info("device     device.name=auto is %s: %s are free there, the most of all", name, ft_bytes_text(offer.free[best], text));
    return FT_OK;
}

void ft_device_tell(const ft_device *device) {
    if (ft_device_remark(device)[0] != '\0') ft_warn("%s", ft_device_remark(device));
}

// The first GPU of this machine; "" where there is none, or no driver to ask.
static void find_gpu(char name[static 96]) {
    ft_gpus *gpus;
    ft_gpu gpu;
    if (ft_gpus_open(&gpus) == FT_OK && ft_gpus_read(gpus, 0, &gpu) == FT_OK) snprintf(name, 96, "%s", gpu.name);
    ft_gpus_close(gpus);
    ft_error_clear();
}

// No GPU is an ordinary machine. One that is there and lacks something is a run of days instead of hours, and easily overlooked.
void ft_cpu_tell(const char *why, bool always, char idle_gpu[static 96]) {
    idle_gpu[0] = '\0';
    if (why[0] == '\0') return;
    find_gpu(idle_gpu);
    if (idle_gpu[0] == '\0' && !always) return;
    if (idle_gpu[0] == '\0') ft_info("device     device.name=auto is the CPU: %s", why);
    else ft_warn("a GPU (%s) is not used, device.name=auto is the CPU: %s", idle_gpu, why);
}

#include "engine/model/state/trunk.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool ft_trunk_hold(ft_trunk *t, const char *key, ft_device *recorder) {
    ft_device *device = ft_device_under(recorder);
    if (t->holders > 0 && (strcmp(t->key, key) != 0 || t->device != device)) return false;
    if (t->holders++ > 0) return true;
    *t = (ft_trunk){.holders = 1, .device = device};
    snprintf(t->key, sizeof t->key, "%s", key);
    return true;
}

void ft_trunk_release(ft_trunk *t) {
    if (--t->holders > 0) return;
    if (t->memory != NULL) {
        ft_memory_free(t->memory, t->block);
        (void)ft_memory_destroy(t->memory);
    }
    ft_ledger_close(t->host_reservation);
    ft_ledger_close(t->reservation);
    *t = (ft_trunk){.holders = 0};
}

static ft_status take(ft_memory *memory, size_t bytes, void **block) { return ft_memory_alloc(memory, bytes, FT_MEM_WEIGHTS, "weights", block); }

// What its memory comes to: the same requests, on a device that computes nothing.
static ft_status plan(ft_trunk *t) {
    ft_device *device;
    ft_memory *memory = NULL;
    void *block = NULL;
    FT_TRY(ft_plan_open(t->device->name, t->device->target, SIZE_MAX / 4, &device));
    ft_status status = ft_memory_create(device, 0, &memory);
    if (status == FT_OK) status = take(memory, t->bytes, &block);
    if (status == FT_OK) t->planned = ft_memory_read(memory).peak_reserved;
    if (memory != NULL) ft_memory_free(memory, block);
    ft_status closed = ft_memory_destroy(memory);
    ft_device_close(device);
    return status != FT_OK ? status : closed;
}

static ft_status allocate(ft_trunk *t) {
    ft_status status = ft_memory_create(t->device, 0, &t->memory);
    if (status == FT_OK) status = take(t->memory, t->bytes, &t->block);
    if (status == FT_OK) status = t->device->functions->fill(t->device, t->block, 0, t->bytes);
    if (status == FT_OK) return FT_OK;
    if (t->memory != NULL) {
        ft_memory_free(t->memory, t->block);
        (void)ft_memory_destroy(t->memory);
    }
    t->memory = NULL;
    t->block = NULL;
    return status;
}

ft_status ft_trunk_lend(ft_trunk *t, ft_memory *memory, size_t bytes, void **block) {
    if (t->bytes == 0) t->bytes = bytes;
    if (t->bytes != bytes)
        return ft_fail(FT_FAILED, "trunk", "frozen weights of %zu bytes, where other trials of the process have %zu", bytes, t->bytes);
    if (t->planned == 0) FT_TRY(plan(t));
    *block = (void *)(uintptr_t)4096; // of a plan: nobody looks there
    if (ft_device_under(ft_memory_device(memory)) != t->device) return FT_OK;
    if (t->memory == NULL) FT_TRY(allocate(t));
    *block = t->block;
    return FT_OK;
}

#include "engine/model/state/staging.h"

#include "kernels/half.h"

#include <string.h>

ft_status ft_staging_open(ft_memory *memory, ft_staging *staging) {
    void *data;
    *staging = (ft_staging){.memory = memory};
    const size_t floats = (size_t)FT_STAGING_FLOATS * sizeof *staging->data, tails = (size_t)FT_STAGING_FLOATS * sizeof *staging->tails;
    FT_TRY(ft_memory_alloc_staging(memory, floats + tails, "staging of tensors", &data));
    staging->data = data;
    staging->tails = (uint16_t *)((char *)data + floats);
    return FT_OK;
}

// The window goes back to the device as well: what follows finds the allocator as if it had never been.
void ft_staging_close(ft_staging *staging) {
    if (staging->memory == NULL) return;
    ft_memory_free_staging(staging->memory, staging->data);
    ft_memory_trim(staging->memory);
    *staging = (ft_staging){.memory = NULL};
}

static char *address_of(ft_tensor tensor, int64_t element) {
    return (char *)tensor.data + (size_t)element * ft_dtype_size(tensor.dtype);
}

enum { PIECE = 1024 };

// In place: the bits take the front half of the numbers' room. tails: NULL, or where the rest of them goes.
static void narrow_in_place(ft_dtype dtype, float *data, uint16_t *tails, int64_t count) {
    uint16_t bits[PIECE];
    for (int64_t i = 0; i < count; i += PIECE) {
        int64_t n = count - i < PIECE ? count - i : PIECE;
        if (tails != NULL) ft_split_all(data + i, bits, tails + i, n);
        else ft_narrow_weights(dtype, data + i, bits, n);
        memcpy((char *)data + (size_t)i * sizeof *bits, bits, (size_t)n * sizeof *bits);
    }
}

// In place: the bits stand in the back half of the numbers' room, which the numbers reach only behind them.
static void widen_in_place(ft_dtype dtype, float *data, const uint16_t *tails, int64_t count) {
    uint16_t bits[PIECE];
    for (int64_t i = 0; i < count; i += PIECE) {
        int64_t n = count - i < PIECE ? count - i : PIECE;
        memcpy(bits, (char *)data + (size_t)(count + i) * sizeof *bits, (size_t)n * sizeof *bits);
        if (tails != NULL) ft_join_all(bits, tails + i, data + i, n);
        else ft_widen(dtype, bits, data + i, n);
    }
}

void ft_staging_round(ft_dtype dtype, float *data, int64_t count) {
    uint16_t bits[PIECE];
    for (int64_t i = 0; dtype != FT_F32 && i < count; i += PIECE) {
        int64_t n = count - i < PIECE ? count - i : PIECE;
        ft_narrow_weights(dtype, data + i, bits, n);
        ft_widen(dtype, bits, data + i, n);
    }
}

// What of elements [first, first + count), which lie in the window at `data`, is here of an exact form.
static ft_status upload_part(ft_staging *staging, const ft_staged *to, void *exact, const void *data, size_t size, int64_t first, int64_t count) {
    const int64_t from = to->dealt && to->from > first ? to->from : first, end = to->dealt && to->to < first + count ? to->to : first + count;
    if (from >= end) return FT_OK;
    return ft_memory_upload(staging->memory, (char *)exact + (size_t)(from - (to->dealt ? to->from : 0)) * size,
                            (const char *)data + (size_t)(from - first) * size, (size_t)(end - from) * size);
}

static ft_status upload_window(ft_staging *staging, const ft_staged *to, int64_t first, int64_t count) {
    ft_device *device = ft_memory_device(staging->memory);
    const ft_tensor tensor = to->tensor;
    if (to->copy.data != NULL) { // of an exact tensor
        FT_TRY(upload_part(staging, to, tensor.data, staging->data, sizeof(float), first, count));
        FT_TRY(device->functions->sync(device));
        narrow_in_place(to->copy.dtype, staging->data, NULL, count);
        FT_TRY(ft_memory_upload(staging->memory, address_of(to->copy, first), staging->data, (size_t)count * ft_dtype_size(to->copy.dtype)));
        return device->functions->sync(device);
    }
    if (tensor.dtype != FT_F32) narrow_in_place(tensor.dtype, staging->data, to->tail != NULL ? staging->tails : NULL, count);
    FT_TRY(ft_memory_upload(staging->memory, address_of(tensor, first), staging->data, (size_t)count * ft_dtype_size(tensor.dtype)));
    if (to->tail != NULL) FT_TRY(upload_part(staging, to, to->tail, staging->tails, sizeof *to->tail, first, count));
    return device->functions->sync(device); // the window is used again
}

ft_status ft_staging_upload(ft_staging *staging, ft_staged to, int64_t count, ft_staging_source source, void *context) {
    for (int64_t first = 0; first < count; first += FT_STAGING_FLOATS) {
        int64_t piece = count - first < FT_STAGING_FLOATS ? count - first : FT_STAGING_FLOATS;
        FT_TRY(source(context, first, piece, staging->data));
        FT_TRY(upload_window(staging, &to, to.first + first, piece));
    }
    return FT_OK;
}

ft_status ft_staging_download(ft_staging *staging, ft_staged from, int64_t count, int64_t at) {
    ft_device *device = ft_memory_device(staging->memory);
    ft_dtype dtype = from.tensor.dtype;
    float *data = staging->data + at;
    size_t bytes = (size_t)count * ft_dtype_size(dtype);
    char *to = (char *)data + (dtype == FT_F32 ? 0 : bytes);
    if (from.dealt) return ft_fail(FT_FAILED, "weights", "they are read as they are trained, and other ranks have parts of them");
    if (from.mapped) {
        if (!device->planned) memcpy(to, address_of(from.tensor, from.first), bytes);
    } else FT_TRY(ft_memory_download(staging->memory, to, address_of(from.tensor, from.first), bytes));
    if (from.tail != NULL)
        FT_TRY(ft_memory_download(staging->memory, staging->tails, from.tail + from.first, (size_t)count * sizeof *from.tail));
    FT_TRY(device->functions->sync(device));
    if (dtype != FT_F32) widen_in_place(dtype, data, from.tail != NULL ? staging->tails : NULL, count);
    return FT_OK;
}

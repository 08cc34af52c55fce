#include "engine/model/state/kept.h"

#include "base/arena.h"

#include <stdlib.h>

bool ft_kept_quantised(const ft_parameters *p, int index) {
    return p->list[index].kept && p->storage.kind == FT_STORAGE_QUANTISED;
}

static ft_status send(ft_staging *staging, void *to, const void *from, size_t bytes) {
    ft_device *device = ft_memory_device(staging->memory);
    FT_TRY(ft_memory_upload(staging->memory, to, from, bytes));
    return device->functions->sync(device); // `from` is used again
}

// Codes go piece by piece; scales, which are a sixty-fourth of the numbers or one a row, come together in `scales`.
static ft_status send_codes(ft_staging *staging, ft_quantisation format, const ft_parameter *q, ft_staging_source source, void *context,
                            char *to, float *scales) {
    const int64_t of_scale = format == FT_INT8 ? q->cols : FT_NF4_BLOCK, window = FT_STAGING_FLOATS / of_scale * of_scale;
    uint8_t *codes = (uint8_t *)staging->tails; // as many bytes as numbers, and more
    if (window == 0)
        return ft_fail(FT_INVALID, q->name, "a row of %lld numbers is too long for int8", (long long)q->cols);
    for (int64_t first = 0, n; first < q->count; first += n) {
        n = q->count - first < window ? q->count - first : window;
        FT_TRY(source(context, first, n, staging->data));
        FT_TRY(ft_quantise_piece(format, q->cols, first, n, staging->data, codes, scales + first / of_scale));
        FT_TRY(send(staging, to + ft_quantised_code_bytes(format, first), codes, ft_quantised_code_bytes(format, n)));
    }
    return FT_OK;
}

ft_status ft_kept_upload(ft_staging *staging, const ft_parameters *p, int index, ft_staging_source source, void *context) {
    const ft_quantisation format = p->storage.format;
    const ft_parameter *q = &p->list[index];
    const ft_quantised_layout l = ft_quantised_layout_of(format, q->rows, q->cols);
    const size_t behind = l.bytes - l.scales, room = (size_t)l.scale_count * sizeof(float);
    char *to = ft_parameter_weight(p, index).data;
    float *scales = ft_calloc(1, room + behind, "scales of a matrix");
    if (scales == NULL) return FT_NO_MEMORY;
    void *small = (char *)scales + room;
    ft_status status = send_codes(staging, format, q, source, context, to + l.codes, scales);
    if (status == FT_OK && format == FT_NF4_DOUBLE) {
        ft_quantise_scales(&l, scales, small);
        status = send(staging, to + l.scales, small, behind);
    } else if (status == FT_OK)
        status = send(staging, to + l.scales, scales, room);
    free(scales);
    return status;
}

ft_status ft_kept_download(ft_staging *staging, const ft_parameters *p, int index, int64_t first, int64_t count, int64_t at) {
    const ft_quantisation format = p->storage.format;
    const ft_parameter *q = &p->list[index];
    const ft_quantised_layout l = ft_quantised_layout_of(format, q->rows, q->cols);
    const char *from = ft_parameter_weight(p, index).data;
    const int64_t begin = format == FT_INT8 ? first : first / 2;
    const size_t codes = format == FT_INT8 ? (size_t)count : (size_t)((first + count + 1) / 2 - begin);
    ft_device *device = ft_memory_device(staging->memory);
    void *scales = ft_calloc(1, l.bytes - l.scales, "scales of a matrix");
    if (scales == NULL) return FT_NO_MEMORY;
    ft_status status = ft_memory_download(staging->memory, staging->tails, from + l.codes + begin, codes);
    if (status == FT_OK) status = ft_memory_download(staging->memory, scales, from + l.scales, l.bytes - l.scales);
    if (status == FT_OK) status = device->functions->sync(device);
    if (status == FT_OK)
        ft_dequantise_numbers(format, &l, q->cols, first, count, (const uint8_t *)staging->tails, scales, staging->data + at);
    free(scales);
    return status;
}

#include "engine/model/state/kept.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

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
    char *to = ft_parameter_home(p, index).data;
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

// ---- as a file has it ---------------------------------------------------------------------------------------------------------

// Numbers that stand together: those of a scale, or of a scale of scales.
static int64_t unit_of(ft_quantisation format, const ft_parameter *q) {
    return format == FT_INT8 ? q->cols : format == FT_NF4 ? FT_NF4_BLOCK : FT_NF4_BLOCK * FT_NF4_GROUP;
}

bool ft_kept_takes(const ft_parameters *p, int index, const ft_packed *packed) {
    const ft_quantisation format = p->storage.format;
    const ft_parameter *q = &p->list[index];
    if (!ft_kept_quantised(p, index) || strcmp(packed->type, format == FT_INT8 ? "int8" : "nf4") != 0) return false;
    if (format != FT_INT8 && (packed->nested != (format == FT_NF4_DOUBLE) || memcmp(packed->values, ft_nf4_values, sizeof packed->values) != 0)) return false;
    const int64_t unit = unit_of(format, q);
    for (int64_t first = 0, n; first < q->count; first += n) {
        n = q->count - first;
        const int64_t element = ft_parameter_source(q, first, &n);
        if (n < q->count && (first % unit != 0 || element % unit != 0 || n % unit != 0)) return false;
    }
    return true;
}

// A run of elements that follow each other in the file, at `element` there: its codes, window by window, and its scales.
static ft_status take_run(ft_staging *staging, ft_quantisation format, const ft_quantised_layout *l, const ft_parameter *q, const ft_packed *packed,
                          int64_t first, int64_t element, int64_t n, char *to, unsigned char *small) {
    const int64_t of_scale = format == FT_INT8 ? q->cols : FT_NF4_BLOCK, scales = (n + of_scale - 1) / of_scale;
    const size_t size = format == FT_NF4_DOUBLE ? 1 : sizeof(float), window = FT_STAGING_FLOATS, bytes = ft_quantised_code_bytes(format, n);
    const unsigned char *codes = packed->codes + ft_quantised_code_bytes(format, element);
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = bytes - done < window ? bytes - done : window;
        memcpy(staging->tails, codes + done, piece);
        FT_TRY(send(staging, to + l->codes + ft_quantised_code_bytes(format, first) + done, staging->tails, piece));
    }
    memcpy(small + (size_t)(first / of_scale) * size, packed->scales + (size_t)(element / of_scale) * size, (size_t)scales * size);
    if (format != FT_NF4_DOUBLE) return FT_OK;
    const int64_t of_group = FT_NF4_BLOCK * FT_NF4_GROUP, groups = (n + of_group - 1) / of_group;
    memcpy(small + (l->groups - l->scales) + (size_t)(first / of_group) * sizeof(float), packed->groups + (size_t)(element / of_group) * sizeof(float),
           (size_t)groups * sizeof(float));
    return FT_OK;
}

ft_status ft_kept_upload_packed(ft_staging *staging, const ft_parameters *p, int index, const ft_packed *packed) {
    const ft_quantisation format = p->storage.format;
    const ft_parameter *q = &p->list[index];
    const ft_quantised_layout l = ft_quantised_layout_of(format, q->rows, q->cols);
    char *to = ft_parameter_home(p, index).data;
    if (!ft_packed_is_finite(packed)) return ft_fail(FT_INVALID, q->name, "a scale of the matrix is not finite");
    unsigned char *small = ft_calloc(1, l.bytes - l.scales, "scales of a matrix");
    if (small == NULL) return FT_NO_MEMORY;
    ft_status status = FT_OK;
    for (int64_t first = 0, n; first < q->count && status == FT_OK; first += n) {
        n = q->count - first;
        const int64_t element = ft_parameter_source(q, first, &n);
        status = take_run(staging, format, &l, q, packed, first, element, n, to, small);
    }
    if (format == FT_NF4_DOUBLE) {
        memcpy(small + (l.map - l.scales), packed->map, FT_NF4_MAP * sizeof(float));
        memcpy(small + (l.mean - l.scales), &packed->mean, sizeof packed->mean);
    }
    if (status == FT_OK) status = send(staging, to + l.scales, small, l.bytes - l.scales);
    free(small);
    return status;
}

ft_status ft_kept_download(ft_staging *staging, const ft_parameters *p, int index, int64_t first, int64_t count, int64_t at) {
    const ft_quantisation format = p->storage.format;
    const ft_parameter *q = &p->list[index];
    const ft_quantised_layout l = ft_quantised_layout_of(format, q->rows, q->cols);
    const char *from = ft_parameter_home(p, index).data;
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

#include "engine/data/pictures/mat.h"

#include "base/files.h"
#include "base/heap.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// Types of elements, and classes of arrays, as the format numbers them.
enum { MI_INT8 = 1, MI_UINT8, MI_INT16, MI_UINT16, MI_INT32, MI_UINT32, MI_SINGLE, MI_DOUBLE = 9, MI_INT64 = 12, MI_UINT64, MI_MATRIX, MI_COMPRESSED };
enum { MX_FIRST_NUMBER = 6, MX_LAST_NUMBER = 15, FLAG_COMPLEX = 0x08 };
enum { HEADER = 128, TAG = 8 };

typedef struct span {
    const unsigned char *at, *end;
} span;

typedef struct element {
    uint32_t type;
    span data;
} element;

static size_t left(const span *s) { return (size_t)(s->end - s->at); }
static uint32_t word(const unsigned char *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }
static ft_status damaged(const char *path) { return ft_fail(FT_INVALID, path, "a damaged or truncated MATLAB file"); }

// Elements begin at multiples of 8, packed ones excepted; up to 4 bytes may lie in the tag itself.
static ft_status next_element(span *s, const char *path, element *e) {
    if (left(s) < TAG) return damaged(path);
    const uint32_t first = word(s->at), small = first >> 16;
    if (small != 0) {
        if (small > 4) return damaged(path);
        *e = (element){first & 0xFFFF, {s->at + 4, s->at + 4 + small}};
        s->at += TAG;
        return FT_OK;
    }
    const size_t bytes = word(s->at + 4);
    if (bytes > left(s) - TAG) return damaged(path);
    *e = (element){first, {s->at + TAG, s->at + TAG + bytes}};
    const size_t padded = first == MI_COMPRESSED ? bytes : (bytes + 7) / 8 * 8;
    s->at += TAG + (padded < left(s) - TAG ? padded : left(s) - TAG);
    return FT_OK;
}

static size_t size_of(uint32_t type) {
    switch (type) {
    case MI_INT8:
    case MI_UINT8: return 1;
    case MI_INT16:
    case MI_UINT16: return 2;
    case MI_INT32:
    case MI_UINT32:
    case MI_SINGLE: return 4;
    case MI_DOUBLE:
    case MI_INT64:
    case MI_UINT64: return 8;
    default: return 0;
    }
}

// The machine's own order of bytes is the file's: both are little-endian (ft_mat_parse looks).
static double number(uint32_t type, const unsigned char *at) {
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f;
        double d;
    } v;
    memcpy(&v, at, size_of(type));
    switch (type) {
    case MI_INT8: return v.i8;
    case MI_UINT8: return at[0];
    case MI_INT16: return v.i16;
    case MI_UINT16: return v.u16;
    case MI_INT32: return v.i32;
    case MI_UINT32: return v.u32;
    case MI_INT64: return (double)v.i64;
    case MI_UINT64: return (double)v.u64;
    case MI_SINGLE: return (double)v.f;
    default: return v.d;
    }
}

// ---- an array ---------------------------------------------------------------------------------------------------------------

static ft_status take_numbers(const element *data, int64_t count, const char *path, ft_mat_vector *out) {
    const size_t size = size_of(data->type);
    if (size == 0 || left(&data->data) / size != (size_t)count || left(&data->data) % size != 0) return damaged(path);
    out->value = ft_calloc((size_t)count + 1, sizeof *out->value, "numbers of a MATLAB file");
    if (out->value == NULL) return FT_NO_MEMORY;
    out->count = count;
    for (int64_t i = 0; i < count; i++) {
        const double value = number(data->type, data->data.at + (size_t)i * size);
        if (!(fabs(value) < 9007199254740992.0) || value != floor(value))
            return ft_fail(FT_INVALID, path, "\"%s\" holds %g, which is no whole number", out->name, value);
        out->value[i] = (int64_t)value;
    }
    return FT_OK;
}

// Rows and columns: one of them is 1.
static ft_status length_of(const element *dims, const char *path, const char *name, int64_t *count) {
    if (dims->type != MI_INT32 || left(&dims->data) < 8 || left(&dims->data) % 4 != 0) return damaged(path);
    const uint32_t rows = word(dims->data.at), columns = word(dims->data.at + 4);
    if (left(&dims->data) != 8 || (rows != 1 && columns != 1)) return ft_fail(FT_INVALID, path, "\"%s\" is no row or column of numbers", name);
    *count = (int64_t)rows * columns;
    return FT_OK;
}

static ft_mat_vector *wanted(const element *name, int count, ft_mat_vector *vector) {
    const size_t length = left(&name->data);
    for (int i = 0; i < count; i++)
        if (strlen(vector[i].name) == length && memcmp(vector[i].name, name->data.at, length) == 0) return &vector[i];
    return NULL;
}

static ft_status take_array(span inside, const char *path, int count, ft_mat_vector *vector) {
    element flags, dims, name, data;
    int64_t length = 0;
    FT_TRY(next_element(&inside, path, &flags));
    FT_TRY(next_element(&inside, path, &dims));
    FT_TRY(next_element(&inside, path, &name));
    if (flags.type != MI_UINT32 || left(&flags.data) < 8) return damaged(path);
    ft_mat_vector *out = wanted(&name, count, vector);
    if (out == NULL) return FT_OK;
    const uint32_t kind = flags.data.at[0];
    if (kind < MX_FIRST_NUMBER || kind > MX_LAST_NUMBER || (flags.data.at[1] & FLAG_COMPLEX) != 0)
        return ft_fail(FT_INVALID, path, "\"%s\" is no array of plain numbers", out->name);
    if (out->value != NULL) return ft_fail(FT_INVALID, path, "\"%s\" is there twice", out->name);
    FT_TRY(length_of(&dims, path, out->name, &length));
    FT_TRY(next_element(&inside, path, &data));
    return take_numbers(&data, length, path, out);
}

// ---- a file -----------------------------------------------------------------------------------------------------------------

static ft_status unpack(const element *e, const char *path, unsigned char **out, size_t *length) {
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)e->data.at, .avail_in = (uInt)left(&e->data)};
    size_t room = 0;
    int result = Z_OK;
    *out = NULL;
    *length = 0;
    if (inflateInit(&z) != Z_OK) return ft_fail_memory(0, "zlib");
    while (result == Z_OK) {
        if (room >= FT_MAT_MOST) break;
        room = room == 0 ? 1 << 12 : 2 * room;
        unsigned char *grown = ft_realloc(*out, room, 1, "a MATLAB file");
        if (grown == NULL) break;
        *out = grown;
        z.next_out = grown + *length;
        z.avail_out = (uInt)(room - *length);
        result = inflate(&z, Z_NO_FLUSH);
        *length = room - z.avail_out;
        if (result == Z_OK && z.avail_out > 0) result = Z_DATA_ERROR; // the input is over, and it was not the end
    }
    inflateEnd(&z);
    if (result == Z_STREAM_END) return FT_OK;
    if (result != Z_OK) return damaged(path);
    return room >= FT_MAT_MOST ? ft_fail(FT_INVALID, path, "more than %d bytes are packed in it", FT_MAT_MOST) : FT_NO_MEMORY;
}

static ft_status take_element(const element *e, const char *path, int count, ft_mat_vector *vector) {
    if (e->type == MI_MATRIX) return take_array(e->data, path, count, vector);
    if (e->type != MI_COMPRESSED) return FT_OK;
    unsigned char *plain;
    size_t length;
    element inner;
    ft_status status = unpack(e, path, &plain, &length);
    span s = {plain, plain != NULL ? plain + length : NULL};
    if (status == FT_OK) status = next_element(&s, path, &inner);
    if (status == FT_OK && inner.type == MI_MATRIX) status = take_array(inner.data, path, count, vector);
    free(plain);
    return status;
}

ft_status ft_mat_parse(const void *bytes, size_t length, const char *path, int count, ft_mat_vector *vector) {
    const unsigned char *all = bytes;
    for (int i = 0; i < count; i++) vector[i] = (ft_mat_vector){.name = vector[i].name};
    if (length < HEADER || memcmp(all, "MATLAB ", 7) != 0) return ft_fail(FT_INVALID, path, "not a MATLAB file");
    if (memcmp(all, "MATLAB 7.3", 10) == 0) {
        ft_fail(FT_INVALID, path, "a MATLAB 7.3 file, which is HDF5: it is not supported");
        ft_hint("save it in MATLAB with -v7, or in Python with scipy.io.savemat");
        return FT_INVALID;
    }
    if (memcmp(all + 124, "\0\1IM", 4) != 0) return ft_fail(FT_INVALID, path, "a MATLAB file of another version, or of a big-endian machine");
    for (span s = {all + HEADER, all + length}; left(&s) > 0;) {
        element e;
        FT_TRY(next_element(&s, path, &e));
        FT_TRY(take_element(&e, path, count, vector));
    }
    for (int i = 0; i < count; i++)
        if (vector[i].value == NULL) return ft_fail(FT_INVALID, path, "there is no \"%s\" in it", vector[i].name);
    return FT_OK;
}

ft_status ft_mat_read(const char *path, int count, ft_mat_vector *vector) {
    char *data;
    size_t length;
    for (int i = 0; i < count; i++) vector[i] = (ft_mat_vector){.name = vector[i].name};
    FT_TRY(ft_read_file(path, FT_MAT_MOST, &data, &length));
    const ft_status status = ft_mat_parse(data, length, path, count, vector);
    free(data);
    return status;
}

void ft_mat_free(int count, ft_mat_vector *vector) {
    for (int i = 0; i < count; i++) {
        free(vector[i].value);
        vector[i].value = NULL;
    }
}

#include "engine/files/safetensors.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the data of a file are used as they lie there");

enum { LENGTH_BYTES = 8, LARGEST_HEADER = 100 * 1000 * 1000, MOST_DIMENSIONS = 8 };

struct ft_safetensors {
    const unsigned char *map;
    size_t size;
    json_t *header;      // owns all names and metadata
    ft_safetensor *list; // by offset
    int count;
    const ft_safetensor **by_name;
    const char *path;
    ft_arena arena;
};

static const struct {
    const char *name;
    ft_dtype dtype;
    unsigned bits;
} types[] = {
    {"F32", FT_F32, 32},
    {"BF16", FT_BF16, 16},
    {"F16", FT_F16, 16},
    {"F64", FT_F64, 64},
    {"I32", FT_I32, 32},
    {"I64", FT_I64, 64},
    {"U8", FT_U8, 8},
    {"I8", FT_U8, 8},
    {"BOOL", FT_U8, 8},
    {"I16", FT_SAFETENSOR_OTHER, 16},
    {"U16", FT_SAFETENSOR_OTHER, 16},
    {"U32", FT_SAFETENSOR_OTHER, 32},
    {"U64", FT_SAFETENSOR_OTHER, 64},
    {"C64", FT_SAFETENSOR_OTHER, 64},
    {"F8_E4M3", FT_SAFETENSOR_OTHER, 8},
    {"F8_E5M2", FT_SAFETENSOR_OTHER, 8},
    {"F8_E8M0", FT_SAFETENSOR_OTHER, 8},
    {"F6_E2M3", FT_SAFETENSOR_OTHER, 6},
    {"F6_E3M2", FT_SAFETENSOR_OTHER, 6},
    {"F4", FT_SAFETENSOR_OTHER, 4},
};
enum { TYPES = sizeof types / sizeof types[0] };

// ---- the header ---------------------------------------------------------------------------------------------------

#define TENSOR "tensor %.200s: "

static ft_status read_dtype(const ft_safetensors *f, const json_t *entry, ft_safetensor *t, unsigned *bits) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (name == NULL) return ft_fail(FT_INVALID, f->path, TENSOR "\"dtype\" must be a string", t->name);
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        t->dtype = types[i].dtype;
        t->dtype_name = types[i].name;
        *bits = types[i].bits;
        return FT_OK;
    }
    return ft_fail(FT_INVALID, f->path, TENSOR "unknown dtype \"%.40s\"", t->name, name);
}

// The sizes and what they come to in bits.
static ft_status read_shape(const ft_safetensors *f, const json_t *entry, ft_safetensor *t, uint64_t *bits) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) return ft_fail(FT_INVALID, f->path, TENSOR "\"shape\" must be a list", t->name);
    if (json_array_size(shape) > MOST_DIMENSIONS)
        return ft_fail(FT_INVALID, f->path, TENSOR "%zu dimensions, at most %d are supported", t->name,
                       json_array_size(shape), MOST_DIMENSIONS);
    t->rank = (int)json_array_size(shape);
    for (int i = 0; i < t->rank; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        t->shape[i] = json_integer_value(size);
        if (!json_is_integer(size) || t->shape[i] < 0)
            return ft_fail(FT_INVALID, f->path, TENSOR "dimension %d of its shape is no size", t->name, i);
        if (__builtin_mul_overflow(*bits, (uint64_t)t->shape[i], bits))
            return ft_fail(FT_INVALID, f->path, TENSOR "its shape is impossibly large", t->name);
    }
    return FT_OK;
}

static ft_status read_place(const ft_safetensors *f, const json_t *entry, size_t data_start, uint64_t bits,
                            ft_safetensor *t) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return ft_fail(FT_INVALID, f->path, TENSOR "\"data_offsets\" must be two integers", t->name);
    int64_t begin = json_integer_value(first), end = json_integer_value(second);
    size_t data_bytes = f->size - data_start;
    if (begin < 0 || end < begin || (uint64_t)end > data_bytes) {
        ft_fail(FT_INVALID, f->path, TENSOR "offsets %lld to %lld do not lie in the %zu bytes of data", t->name,
                (long long)begin, (long long)end, data_bytes);
        if (begin >= 0 && end >= begin)
            ft_hint("the file was probably cut off: a download or a copy that did not finish");
        return FT_INVALID;
    }
    t->bytes = (size_t)(end - begin);
    if (bits % 8 != 0 || bits / 8 != t->bytes)
        return ft_fail(FT_INVALID, f->path, TENSOR "dtype and shape need %llu bytes, its offsets hold %zu", t->name,
                       (unsigned long long)(bits / 8 + (bits % 8 != 0)), t->bytes);
    t->data = f->map + data_start + begin;
    return FT_OK;
}

static ft_status read_entry(const ft_safetensors *f, const json_t *entry, size_t data_start, ft_safetensor *t) {
    if (!json_is_object(entry)) return ft_fail(FT_INVALID, f->path, TENSOR "its entry must be an object", t->name);
    unsigned element = 0;
    FT_TRY(read_dtype(f, entry, t, &element));
    uint64_t bits = element;
    FT_TRY(read_shape(f, entry, t, &bits));
    return read_place(f, entry, data_start, bits, t);
}

static int compare_places(const void *a, const void *b) {
    const ft_safetensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); // empty ones first
}

static int compare_names(const void *a, const void *b) {
    const ft_safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

// The tensors must cover the data from the first byte to the last, each byte once.
static ft_status check_cover(const ft_safetensors *f, size_t data_start) {
    const unsigned char *expected = f->map + data_start, *end = f->map + f->size;
    for (int i = 0; i < f->count; i++) {
        const ft_safetensor *t = &f->list[i];
        const unsigned char *data = t->data;
        if (data < expected)
            return ft_fail(FT_INVALID, f->path, TENSOR "overlaps tensor %.200s", t->name, f->list[i - 1].name);
        if (data > expected)
            return ft_fail(FT_INVALID, f->path, TENSOR "%td bytes before it belong to no tensor", t->name,
                           data - expected);
        expected += t->bytes;
    }
    if (expected != end) return ft_fail(FT_INVALID, f->path, "the last %td bytes belong to no tensor", end - expected);
    return FT_OK;
}

static ft_status check_metadata(const ft_safetensors *f) {
    json_t *metadata = json_object_get(f->header, "__metadata__");
    if (metadata == NULL || json_is_null(metadata)) return FT_OK;
    if (!json_is_object(metadata)) return ft_fail(FT_INVALID, f->path, "\"__metadata__\" must be an object");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return ft_fail(FT_INVALID, f->path, "\"__metadata__\": \"%.200s\" must be a string", key);
    }
    return FT_OK;
}

static ft_status read_header(ft_safetensors *f, size_t data_start) {
    if (!json_is_object(f->header)) return ft_fail(FT_INVALID, f->path, "the header must be a JSON object");
    size_t entries = json_object_size(f->header);
    if (entries > INT_MAX) return ft_fail(FT_INVALID, f->path, "the header lists %zu tensors", entries);
    FT_TRY(check_metadata(f));
    f->list = ft_arena_alloc(&f->arena, (entries + 1) * sizeof *f->list);
    f->by_name = ft_arena_alloc(&f->arena, (entries + 1) * sizeof *f->by_name);
    if (f->list == NULL || f->by_name == NULL) return FT_NO_MEMORY;
    const char *name;
    json_t *entry;
    json_object_foreach(f->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        f->list[f->count].name = name;
        FT_TRY(read_entry(f, entry, data_start, &f->list[f->count]));
        f->count++;
    }
    qsort(f->list, (size_t)f->count, sizeof *f->list, compare_places);
    for (int i = 0; i < f->count; i++)
        f->by_name[i] = &f->list[i];
    qsort(f->by_name, (size_t)f->count, sizeof *f->by_name, compare_names);
    return check_cover(f, data_start);
}

static ft_status fail_start(const ft_safetensors *f, const char *what, unsigned long long number) {
    ft_fail(FT_INVALID, f->path, "not a safetensors file: it has %zu bytes and %s %llu", f->size, what, number);
    ft_hint("a file of git-lfs instead of its content, a failed download and a .bin file look like this");
    return FT_INVALID;
}

static ft_status read_all(ft_safetensors *f) {
    uint64_t length;
    if (f->size < LENGTH_BYTES) return fail_start(f, "needs at least", LENGTH_BYTES);
    memcpy(&length, f->map, LENGTH_BYTES);
    if (length > LARGEST_HEADER) return fail_start(f, "its header would have", length);
    if (length > f->size - LENGTH_BYTES) return fail_start(f, "is cut off in its header of", length);
    char where[512];
    snprintf(where, sizeof where, "%.*s, header", (int)sizeof where - 16, f->path);
    FT_TRY(ft_json_parse((const char *)f->map + LENGTH_BYTES, (size_t)length, where, &f->header));
    return read_header(f, LENGTH_BYTES + (size_t)length);
}

// ---- the file -----------------------------------------------------------------------------------------------------

ft_status ft_safetensors_open(const char *path, ft_safetensors **file) {
    *file = NULL;
    ft_status status = FT_NO_MEMORY;
    ft_safetensors *f = ft_calloc(1, sizeof *f, path);
    if (f == NULL) return FT_NO_MEMORY;
    if ((f->path = ft_arena_strdup(&f->arena, path)) != NULL) status = ft_map_file(path, (const void **)&f->map, &f->size);
    if (status == FT_OK) status = read_all(f);
    if (status == FT_OK)
        *file = f;
    else
        ft_safetensors_close(f);
    return status;
}

void ft_safetensors_close(ft_safetensors *file) {
    if (file == NULL) return;
    json_decref(file->header);
    ft_unmap_file(file->map, file->size);
    ft_arena_free(&file->arena);
    free(file);
}

int ft_safetensors_count(const ft_safetensors *file) { return file->count; }
const ft_safetensor *ft_safetensors_at(const ft_safetensors *file, int index) { return &file->list[index]; }
const char *ft_safetensors_path(const ft_safetensors *file) { return file->path; }

const ft_safetensor *ft_safetensors_find(const ft_safetensors *file, const char *name) {
    const ft_safetensor wanted = {.name = name}, *key = &wanted;
    const ft_safetensor **found =
        bsearch(&key, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return found != NULL ? *found : NULL;
}

const char *ft_safetensors_metadata(const ft_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

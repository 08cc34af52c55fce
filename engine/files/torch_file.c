#include "engine/files/torch_file.h"

#include "base/arena.h"
#include "base/files.h"
#include "engine/files/pickle.h"
#include "engine/files/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGEST_PICKLE = 8 << 20,
    LONGEST_KEY = 256,
    LONGEST_ROOT = 512,
    LONGEST_TENSOR_NAME = 4096,
    MOST_DIMENSIONS = 8
};

// What a pickle of tensors may name. Storages give the type of their elements.
static const struct {
    const char *name;
    ft_dtype dtype;
    unsigned bytes; // of an element; 0: no storage
    const char *dtype_name;
} names[] = {
    {"torch.FloatStorage", FT_F32, 4, "F32"},
    {"torch.HalfStorage", FT_F16, 2, "F16"},
    {"torch.BFloat16Storage", FT_BF16, 2, "BF16"},
    {"torch.DoubleStorage", FT_F64, 8, "F64"},
    {"torch.LongStorage", FT_I64, 8, "I64"},
    {"torch.IntStorage", FT_I32, 4, "I32"},
    {"torch.ShortStorage", FT_SAFETENSOR_OTHER, 2, "I16"},
    {"torch.CharStorage", FT_U8, 1, "I8"},
    {"torch.ByteStorage", FT_U8, 1, "U8"},
    {"torch.BoolStorage", FT_U8, 1, "BOOL"},
    {"torch._utils._rebuild_tensor_v2", FT_SAFETENSOR_OTHER, 0, ""},
    {"torch._utils._rebuild_tensor", FT_SAFETENSOR_OTHER, 0, ""},
    {"torch._utils._rebuild_parameter", FT_SAFETENSOR_OTHER, 0, ""},
    {"collections.OrderedDict", FT_SAFETENSOR_OTHER, 0, ""},
};
enum { NAMES = sizeof names / sizeof names[0] };

typedef struct legacy_storage { // in files from before the archive
    const char *key;
    size_t key_length;
    const unsigned char *data;
    int64_t elements;
    unsigned bytes; // of an element
} legacy_storage;

struct ft_torch_file {
    const unsigned char *data;
    size_t size;
    char *path, *label; // label: in errors about the pickle
    ft_zip zip;         // no entries: a file from before the archive
    const char *root;   // of the archive's names
    size_t root_length;
    legacy_storage *storages;
    size_t storage_count; // by key
    ft_safetensor *list;  // by name
    int count;
    ft_arena arena;
};

static int name_index(const char *name) {
    for (int i = 0; i < NAMES; i++)
        if (strcmp(names[i].name, name) == 0) return i;
    return -1;
}

static bool allowed(void *context, const char *name) { return name_index(name) >= 0; }

static ft_status fail_at(const ft_torch_file *f, const ft_pickle_value *v, const char *tensor, const char *what) {
    char where[512];
    snprintf(where, sizeof where, "%.*s, byte %zu", (int)sizeof where - 40, f->label, v->offset);
    if (tensor == NULL) return ft_fail(FT_INVALID, where, "%s", what);
    return ft_fail(FT_INVALID, where, "tensor %.200s: %s", tensor, what);
}

// ---- storages -----------------------------------------------------------------------------------------------------

static int compare_keys(const void *a, const void *b) {
    const legacy_storage *x = a, *y = b;
    size_t shorter = x->key_length < y->key_length ? x->key_length : y->key_length;
    int order = memcmp(x->key, y->key, shorter);
    return order != 0 ? order : (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

static const legacy_storage *find_key(const legacy_storage *sorted, size_t count, const char *key, size_t length) {
    const legacy_storage wanted = {.key = key, .key_length = length};
    return bsearch(&wanted, sorted, count, sizeof *sorted, compare_keys);
}

typedef struct storage {
    int type; // in names
    const unsigned char *data;
    int64_t elements;
} storage;

// ("storage", type, key, device, elements), of old files with a sixth part that is None.
static ft_status read_storage(const ft_torch_file *f, const ft_pickle_value *v, const char *tensor, storage *out) {
    const ft_pickle_value *d = v->kind == FT_PICKLE_OUTSIDE ? v->items[0] : v;
    bool right = v->kind == FT_PICKLE_OUTSIDE && d->kind == FT_PICKLE_TUPLE && (d->count == 5 || d->count == 6) &&
                 d->items[0]->kind == FT_PICKLE_TEXT && d->items[1]->kind == FT_PICKLE_NAME &&
                 d->items[2]->kind == FT_PICKLE_TEXT && d->items[4]->kind == FT_PICKLE_INT;
    if (!right || d->items[0]->length != 7 || memcmp(d->items[0]->text, "storage", 7) != 0)
        return fail_at(f, v, tensor, "its data are described in a way that is not PyTorch's");
    if (d->count == 6 && d->items[5]->kind != FT_PICKLE_NONE)
        return fail_at(f, v, tensor, "its data are a part of another storage, as PyTorch before 0.4 wrote them");
    out->type = name_index(d->items[1]->text);
    out->elements = d->items[4]->number;
    if (out->type < 0 || names[out->type].bytes == 0) return fail_at(f, v, tensor, "its data are of no known type");
    if (out->elements < 0 || out->elements > INT64_MAX / 16)
        return fail_at(f, v, tensor, "its data have an impossible size");
    const ft_pickle_value *key = d->items[2];
    if (key->length > LONGEST_KEY) return fail_at(f, v, tensor, "the name of its data is too long");
    size_t bytes = (size_t)out->elements * names[out->type].bytes, have;
    if (f->storages != NULL) {
        const legacy_storage *s = find_key(f->storages, f->storage_count, key->text, key->length);
        if (s == NULL) return fail_at(f, v, tensor, "its data are not in the file");
        out->data = s->data;
        have = (size_t)s->elements * s->bytes;
        if (s->bytes != names[out->type].bytes)
            return fail_at(f, v, tensor, "its data are of another type than another tensor says");
    } else {
        char name[LONGEST_ROOT + LONGEST_KEY + 16];
        int length =
            snprintf(name, sizeof name, "%.*s/data/%.*s", (int)f->root_length, f->root, (int)key->length, key->text);
        FT_TRY(ft_zip_find(&f->zip, name, (size_t)length, &out->data, &have));
        if (out->data == NULL) return fail_at(f, v, tensor, "its data are not in the archive");
    }
    if (have == bytes) return FT_OK;
    return fail_at(f, v, tensor, "its data have another size than the pickle says");
}

// ---- tensors ------------------------------------------------------------------------------------------------------

static bool is_ints(const ft_pickle_value *v) {
    if (v->kind != FT_PICKLE_TUPLE) return false;
    for (size_t i = 0; i < v->count; i++)
        if (v->items[i]->kind != FT_PICKLE_INT) return false;
    return true;
}

// The view's elements must lie in the storage. All the numbers are the file's, so every product and sum is checked.
static ft_status place_view(const ft_torch_file *f, const ft_pickle_value *v, const storage *s, int64_t first,
                            int64_t *strides, ft_safetensor *t) {
    int64_t elements = 1, last = first, dense = 1, reach;
    bool empty = false, is_dense = true, fits = first >= 0;
    for (int i = 0; i < t->rank; i++)
        empty = empty || t->shape[i] == 0;
    for (int i = t->rank - 1; i >= 0 && fits; i--) {
        fits = t->shape[i] >= 0 && strides[i] >= 0 && !__builtin_mul_overflow(elements, t->shape[i], &elements);
        if (!fits || empty) continue;
        fits =
            !__builtin_mul_overflow(t->shape[i] - 1, strides[i], &reach) && !__builtin_add_overflow(last, reach, &last);
        if (t->shape[i] != 1 && strides[i] != dense) is_dense = false;
        if (fits) fits = !__builtin_mul_overflow(dense, t->shape[i], &dense);
    }
    fits = fits && elements <= INT64_MAX / 16 && (empty || last < s->elements) && first <= s->elements;
    if (!fits) return fail_at(f, v, t->name, "it does not lie in its data");
    unsigned bytes = names[s->type].bytes;
    t->dtype = names[s->type].dtype;
    t->dtype_name = names[s->type].dtype_name;
    t->data = s->data + (size_t)first * bytes;
    t->bytes = (size_t)elements * bytes;
    for (int i = 0; i < t->rank; i++) // never stepped, so any number may stand there
        if (t->shape[i] <= 1) strides[i] = 0;
    t->strides = is_dense || empty ? NULL : strides;
    return FT_OK;
}

// _rebuild_tensor_v2(storage, first element, shape, strides, requires_grad, hooks), of old files the first four only.
static ft_status read_view(ft_torch_file *f, const ft_pickle_value *v, ft_safetensor *t) {
    const ft_pickle_value *a = v->items[1];
    if (a->count < 4 || a->items[1]->kind != FT_PICKLE_INT || !is_ints(a->items[2]) || !is_ints(a->items[3]) ||
        a->items[2]->count != a->items[3]->count)
        return fail_at(f, v, t->name, "it is described in a way that is not PyTorch's");
    if (a->items[2]->count > MOST_DIMENSIONS) return fail_at(f, v, t->name, "more than 8 dimensions are not supported");
    storage s;
    FT_TRY(read_storage(f, a->items[0], t->name, &s));
    t->rank = (int)a->items[2]->count;
    int64_t *strides = ft_arena_alloc(&f->arena, MOST_DIMENSIONS * sizeof *strides);
    if (strides == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < t->rank; i++) {
        t->shape[i] = a->items[2]->items[i]->number;
        strides[i] = a->items[3]->items[i]->number;
    }
    return place_view(f, v, &s, a->items[1]->number, strides, t);
}

static bool calls(const ft_pickle_value *v, const char *name) {
    return v->kind == FT_PICKLE_CALL && strcmp(v->items[0]->text, name) == 0;
}

// A tensor, or a parameter: that is a tensor in a wrapping. *is: false for what is neither.
static ft_status read_value(ft_torch_file *f, const ft_pickle_value *v, ft_safetensor *t, bool *is) {
    if (calls(v, "torch._utils._rebuild_parameter")) {
        if (v->items[1]->count == 0) return fail_at(f, v, t->name, "a parameter without a tensor");
        v = v->items[1]->items[0];
        if (v->kind != FT_PICKLE_CALL) return fail_at(f, v, t->name, "a parameter that is no tensor");
    }
    *is = v->kind == FT_PICKLE_CALL;
    if (!*is) return FT_OK;
    if (!calls(v, "torch._utils._rebuild_tensor_v2") && !calls(v, "torch._utils._rebuild_tensor"))
        return fail_at(f, v, t->name, "it is no tensor");
    return read_view(f, v, t);
}

static ft_status read_name(ft_torch_file *f, const ft_pickle_value *key, const char **name) {
    if (key->kind != FT_PICKLE_TEXT) return fail_at(f, key, NULL, "the name of a tensor is no text");
    if (key->length > LONGEST_TENSOR_NAME) return fail_at(f, key, NULL, "the name of a tensor is too long");
    if (memchr(key->text, '\0', key->length) != NULL) return fail_at(f, key, NULL, "the name of a tensor holds a NUL");
    *name = ft_arena_strndup(&f->arena, key->text, key->length);
    return *name != NULL ? FT_OK : FT_NO_MEMORY;
}

static int compare_names(const void *a, const void *b) {
    const ft_safetensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static ft_status read_dictionary(ft_torch_file *f, const ft_pickle_value *top) {
    if (top->kind != FT_PICKLE_DICT) return fail_at(f, top, NULL, "the pickle holds no dictionary of tensors");
    f->list = ft_arena_alloc(&f->arena, (top->count / 2 + 1) * sizeof *f->list);
    if (f->list == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i + 1 < top->count; i += 2) {
        ft_safetensor t = {0};
        bool is;
        FT_TRY(read_name(f, top->items[i], &t.name));
        FT_TRY(read_value(f, top->items[i + 1], &t, &is));
        if (is) f->list[f->count++] = t;
    }
    qsort(f->list, (size_t)f->count, sizeof *f->list, compare_names);
    for (int i = 1; i < f->count; i++)
        if (compare_names(&f->list[i - 1], &f->list[i]) == 0)
            return ft_fail(FT_INVALID, f->label, "tensor %.200s occurs twice", f->list[i].name);
    if (f->count > 0 || top->count == 0) return FT_OK;
    fail_at(f, top, NULL, "the dictionary holds no tensors");
    ft_hint("a training checkpoint keeps them one level deeper: save only its model's state_dict");
    return FT_INVALID;
}

// ---- the archive --------------------------------------------------------------------------------------------------

// An entry of the archive at ROOT/name.
static ft_status find_entry(const ft_torch_file *f, const char *name, const unsigned char **data, size_t *size) {
    char whole[LONGEST_ROOT + 32];
    int length = snprintf(whole, sizeof whole, "%.*s/%s", (int)f->root_length, f->root, name);
    return ft_zip_find(&f->zip, whole, (size_t)length, data, size);
}

static ft_status read_archive(ft_torch_file *f) {
    FT_TRY(ft_zip_read(f->data, f->size, f->path, &f->arena, &f->zip));
    const char *slash = f->zip.count > 0 ? memchr(f->zip.first, '/', f->zip.first_length) : NULL;
    f->root = f->zip.first;
    f->root_length = slash != NULL ? (size_t)(slash - f->zip.first) : 0;
    const unsigned char *pickle = NULL, *order = NULL;
    size_t size = 0, order_size = 0, at = 0;
    if (slash != NULL && f->root_length <= LONGEST_ROOT) {
        FT_TRY(find_entry(f, "data.pkl", &pickle, &size));
        FT_TRY(find_entry(f, "byteorder", &order, &order_size));
    }
    if (pickle == NULL) return ft_fail(FT_INVALID, f->path, "a ZIP archive without data.pkl: not a file of torch.save");
    if (order != NULL && (order_size != 6 || memcmp(order, "little", 6) != 0))
        return ft_fail(FT_INVALID, f->path, "the weights are stored with the most significant byte first");
    f->label = ft_arena_format(&f->arena, "%s: data.pkl", f->path);
    if (f->label == NULL) return FT_NO_MEMORY;
    if (size > LARGEST_PICKLE)
        return ft_fail(FT_INVALID, f->label, "%zu bytes are too many for a list of tensors (at most %d)", size,
                       LARGEST_PICKLE);
    const ft_pickle_value *top;
    FT_TRY(ft_pickle_read(pickle, size, &at, f->label, allowed, NULL, &f->arena, &top));
    return read_dictionary(f, top);
}

// ---- files from before the archive ----------------------------------------------------------------------------------

// Pickles one behind the other: a magic number, the protocol 1001, facts about the machine, the dictionary, the names
// of the storages. Then the storages in the order of these names, each behind the count of its elements (64 bits).
static const unsigned char magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
enum { LEGACY_PROTOCOL = 1001 };

static bool is_legacy(const ft_torch_file *f) {
    return f->size > 4 + sizeof magic && f->data[0] == 0x80 && f->data[2] == 0x8a && f->data[3] == sizeof magic &&
           memcmp(f->data + 4, magic, sizeof magic) == 0;
}

static ft_status next_pickle(ft_torch_file *f, size_t *at, const ft_pickle_value **value) {
    size_t end = f->size - *at > LARGEST_PICKLE ? *at + LARGEST_PICKLE : f->size;
    return ft_pickle_read(f->data, end, at, f->label, allowed, NULL, &f->arena, value);
}

static ft_status check_machine(const ft_torch_file *f, const ft_pickle_value *protocol, const ft_pickle_value *facts) {
    if (protocol->kind != FT_PICKLE_INT || protocol->number != LEGACY_PROTOCOL)
        return fail_at(f, protocol, NULL, "not the protocol of a file of torch.save");
    for (size_t i = 0; facts->kind == FT_PICKLE_DICT && i + 1 < facts->count; i += 2) {
        const ft_pickle_value *key = facts->items[i], *value = facts->items[i + 1];
        if (key->kind == FT_PICKLE_TEXT && key->length == 13 && memcmp(key->text, "little_endian", 13) == 0 &&
            value->kind == FT_PICKLE_BOOL && value->number == 0)
            return fail_at(f, value, NULL, "the weights are stored with the most significant byte first");
    }
    return FT_OK;
}

// What a tensor of the dictionary says of its storage; false when it is none, or says nothing.
static bool describe(const ft_pickle_value *v, legacy_storage *s) {
    if (calls(v, "torch._utils._rebuild_parameter") && v->items[1]->count > 0) v = v->items[1]->items[0];
    if (v->kind != FT_PICKLE_CALL || v->items[1]->count == 0) return false;
    const ft_pickle_value *outside = v->items[1]->items[0];
    const ft_pickle_value *d = outside->kind == FT_PICKLE_OUTSIDE ? outside->items[0] : outside;
    if (outside->kind != FT_PICKLE_OUTSIDE || d->kind != FT_PICKLE_TUPLE || d->count < 3) return false;
    const ft_pickle_value *type = d->items[1], *key = d->items[2];
    int index = type->kind == FT_PICKLE_NAME ? name_index(type->text) : -1;
    *s = (legacy_storage){.key = key->text, .key_length = key->length};
    if (index >= 0) s->bytes = names[index].bytes;
    return key->kind == FT_PICKLE_TEXT && s->bytes > 0;
}

// The storages in the file say how many elements they have, and only the tensors how wide these are.
static ft_status list_widths(ft_torch_file *f, const ft_pickle_value *top, legacy_storage **widths, size_t *count) {
    size_t most = top->kind == FT_PICKLE_DICT ? top->count / 2 : 0;
    *count = 0;
    *widths = ft_arena_alloc(&f->arena, (most + 1) * sizeof **widths);
    if (*widths == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < most; i++)
        *count += describe(top->items[2 * i + 1], &(*widths)[*count]);
    qsort(*widths, *count, sizeof **widths, compare_keys);
    return FT_OK;
}

static ft_status read_storage_data(ft_torch_file *f, const ft_pickle_value *key, size_t *at, legacy_storage *s) {
    size_t left = f->size - *at;
    if (left < sizeof s->elements) return fail_at(f, key, NULL, "the file ends before these data");
    memcpy(&s->elements, f->data + *at, sizeof s->elements);
    left -= sizeof s->elements;
    if (s->elements < 0 || (uint64_t)s->elements > left / s->bytes)
        return fail_at(f, key, NULL, "the file ends inside of these data");
    s->data = f->data + *at + sizeof s->elements;
    *at += sizeof s->elements + (size_t)s->elements * s->bytes;
    return FT_OK;
}

static ft_status read_storages(ft_torch_file *f, size_t at, const ft_pickle_value *top, const ft_pickle_value *keys) {
    legacy_storage *widths;
    size_t count;
    if (keys->kind != FT_PICKLE_TUPLE) return fail_at(f, keys, NULL, "the names of the data are no list");
    FT_TRY(list_widths(f, top, &widths, &count));
    f->storages = ft_arena_alloc(&f->arena, (keys->count + 1) * sizeof *f->storages);
    if (f->storages == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < keys->count; i++) {
        const ft_pickle_value *key = keys->items[i];
        if (key->kind != FT_PICKLE_TEXT) return fail_at(f, key, NULL, "the name of data is no text");
        const legacy_storage *width = find_key(widths, count, key->text, key->length);
        if (width == NULL) {
            fail_at(f, key, NULL, "data that belong to no tensor of the dictionary");
            ft_hint("a training checkpoint keeps its tensors one level deeper: save only its model's state_dict");
            return FT_INVALID;
        }
        f->storages[i] = (legacy_storage){.key = key->text, .key_length = key->length, .bytes = width->bytes};
        FT_TRY(read_storage_data(f, key, &at, &f->storages[i]));
        f->storage_count++;
    }
    qsort(f->storages, f->storage_count, sizeof *f->storages, compare_keys);
    for (size_t i = 1; i < f->storage_count; i++)
        if (compare_keys(&f->storages[i - 1], &f->storages[i]) == 0)
            return fail_at(f, keys, NULL, "two of the data have the same name");
    return FT_OK;
}

static ft_status read_legacy(ft_torch_file *f) {
    const ft_pickle_value *part[5];
    size_t at = 0;
    f->label = f->path;
    for (int i = 0; i < 5; i++)
        FT_TRY(next_pickle(f, &at, &part[i]));
    FT_TRY(check_machine(f, part[1], part[2]));
    FT_TRY(read_storages(f, at, part[3], part[4]));
    return read_dictionary(f, part[3]);
}

// ---- the file -----------------------------------------------------------------------------------------------------

static ft_status read_file(ft_torch_file *f) {
    if (ft_zip_is(f->data, f->size)) return read_archive(f);
    if (is_legacy(f)) return read_legacy(f);
    ft_fail(FT_INVALID, f->path, "not a file of torch.save: neither a ZIP archive nor a pickle with its magic number");
    ft_hint("a file of git-lfs instead of its content and a failed download look like this");
    return FT_INVALID;
}

ft_status ft_torch_open(const char *path, ft_torch_file **file) {
    *file = NULL;
    ft_status status = FT_NO_MEMORY;
    ft_torch_file *f = ft_calloc(1, sizeof *f, path);
    if (f == NULL) return FT_NO_MEMORY;
    if ((f->path = ft_arena_strdup(&f->arena, path)) != NULL)
        status = ft_map_file(path, (const void **)&f->data, &f->size);
    if (status == FT_OK) status = read_file(f);
    if (status == FT_OK)
        *file = f;
    else
        ft_torch_close(f);
    return status;
}

void ft_torch_close(ft_torch_file *file) {
    if (file == NULL) return;
    ft_unmap_file(file->data, file->size);
    ft_arena_free(&file->arena);
    free(file);
}

int ft_torch_count(const ft_torch_file *file) { return file->count; }
const ft_safetensor *ft_torch_at(const ft_torch_file *file, int index) { return &file->list[index]; }

const ft_safetensor *ft_torch_find(const ft_torch_file *file, const char *name) {
    const ft_safetensor wanted = {.name = name};
    return bsearch(&wanted, file->list, (size_t)file->count, sizeof *file->list, compare_names);
}

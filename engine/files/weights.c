#include "engine/files/weights.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"
#include "engine/files/bitsandbytes.h"
#include "engine/files/torch_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FILES = 4096 };

typedef struct weights_file {
    const char *name, *path;     // name: as the index has it
    ft_safetensors *safetensors; // one of the two
    ft_torch_file *torch;
} weights_file;

typedef struct weights_entry {
    const ft_safetensor *tensor;
    int file;
    const ft_packed *packed; // the tensor is made up, of these parts; NULL: it is as the file has it
} weights_entry;

struct ft_weights {
    const char *list_path;
    weights_file *files;
    int file_count;
    weights_entry *entries; // by name
    int count;
    ft_arena arena;
};

static const struct {
    const char *name;
    bool index, torch;
} forms[] = {{"model.safetensors", false, false},
             {"model.safetensors.index.json", true, false},
             {"pytorch_model.bin", false, true},
             {"pytorch_model.bin.index.json", true, true}};
enum { FORMS = sizeof forms / sizeof forms[0] };

static int compare(const void *a, const void *b) {
    const weights_entry *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

// ---- one file -----------------------------------------------------------------------------------------------------

static ft_status open_file(weights_file *f, bool torch) {
    return torch ? ft_torch_open(f->path, &f->torch) : ft_safetensors_open(f->path, &f->safetensors);
}

static int file_count(const weights_file *f) {
    return f->torch != NULL ? ft_torch_count(f->torch) : ft_safetensors_count(f->safetensors);
}

static const ft_safetensor *file_at(const weights_file *f, int index) {
    return f->torch != NULL ? ft_torch_at(f->torch, index) : ft_safetensors_at(f->safetensors, index);
}

static const ft_safetensor *file_find(const weights_file *f, const char *name) {
    return f->torch != NULL ? ft_torch_find(f->torch, name) : ft_safetensors_find(f->safetensors, name);
}

static ft_status open_single(ft_weights *w, bool torch) {
    w->files = ft_arena_alloc(&w->arena, sizeof *w->files);
    if (w->files == NULL) return FT_NO_MEMORY;
    w->file_count = 1;
    w->files[0].path = w->list_path;
    FT_TRY(open_file(&w->files[0], torch));
    w->count = file_count(&w->files[0]);
    w->entries = ft_arena_alloc(&w->arena, ((size_t)w->count + 1) * sizeof *w->entries);
    if (w->entries == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < w->count; i++)
        w->entries[i].tensor = file_at(&w->files[0], i);
    return FT_OK;
}

// ---- several files and their index ----------------------------------------------------------------------------------

// Opens the file that the index names, once. It must lie beside the index: another place is none of a model's business.
static ft_status shard(ft_weights *w, const char *directory, const char *name, bool torch, int *file) {
    for (*file = w->file_count - 1; *file >= 0; --*file) // neighbours in the map are mostly in the same file
        if (strcmp(w->files[*file].name, name) == 0) return FT_OK;
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return ft_fail(FT_INVALID, w->list_path, "\"%.200s\" is not the name of a file beside the index", name);
    if (w->file_count == MOST_FILES) return ft_fail(FT_INVALID, w->list_path, "more than %d files", MOST_FILES);
    weights_file f = {.name = ft_arena_strdup(&w->arena, name), .path = ft_path_join(&w->arena, directory, name)};
    if (f.name == NULL || f.path == NULL) return FT_NO_MEMORY;
    FT_TRY(open_file(&f, torch));
    *file = w->file_count;
    w->files[w->file_count++] = f;
    return FT_OK;
}

static ft_status read_map(ft_weights *w, const char *directory, const json_t *map, bool torch) {
    size_t entries = json_object_size(map);
    w->files = ft_arena_alloc(&w->arena, (entries < MOST_FILES ? entries + 1 : MOST_FILES) * sizeof *w->files);
    w->entries = ft_arena_alloc(&w->arena, (entries + 1) * sizeof *w->entries);
    if (w->files == NULL || w->entries == NULL) return FT_NO_MEMORY;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)map, name, value) {
        weights_entry *e = &w->entries[w->count];
        if (!json_is_string(value))
            return ft_fail(FT_INVALID, w->list_path, "\"weight_map\": \"%.200s\" must be the name of a file", name);
        FT_TRY(shard(w, directory, json_string_value(value), torch, &e->file));
        e->tensor = file_find(&w->files[e->file], name);
        if (e->tensor == NULL)
            return ft_fail(FT_INVALID, w->files[e->file].path, "tensor %.200s is missing, which the index places here",
                           name);
        w->count++;
    }
    return FT_OK;
}

static ft_status open_index(ft_weights *w, const char *directory, bool torch) {
    json_t *root;
    FT_TRY(ft_json_load(w->list_path, &root));
    const json_t *map = json_object_get(root, "weight_map");
    ft_status status = json_is_object(map) ? read_map(w, directory, map, torch)
                                           : ft_fail(FT_INVALID, w->list_path, "\"weight_map\" must be an object");
    json_decref(root);
    return status;
}

// ---- the directory ------------------------------------------------------------------------------------------------

ft_status ft_weights_exist(const char *directory, bool *exist) {
    ft_arena arena = {0};
    ft_status status = FT_OK;
    *exist = false;
    for (int i = 0; i < FORMS && !*exist && status == FT_OK; i++) {
        const char *path = ft_path_join(&arena, directory, forms[i].name);
        if (path == NULL) status = FT_NO_MEMORY;
        else *exist = ft_path_exists(path);
    }
    ft_arena_free(&arena);
    return status;
}

// Of all files there that end so.
static size_t bytes_of_kind(const char *directory, const char *ending) {
    size_t bytes = 0;
    DIR *entries = opendir(directory);
    for (const struct dirent *e; entries != NULL && (e = readdir(entries)) != NULL;) {
        struct stat st;
        const size_t length = strlen(e->d_name), end = strlen(ending);
        if (length < end || strcmp(e->d_name + length - end, ending) != 0) continue;
        if (fstatat(dirfd(entries), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode)) bytes += (size_t)st.st_size;
    }
    if (entries != NULL) closedir(entries);
    return bytes;
}

size_t ft_weights_bytes(const char *directory) {
    const size_t bytes = bytes_of_kind(directory, ".safetensors");
    return bytes > 0 ? bytes : bytes_of_kind(directory, ".bin");
}

static ft_status no_weights(ft_weights *w, const char *directory) {
    static const char *const others[] = {"tf_model.h5", "flax_model.msgpack", "model.ckpt.index", "rust_model.ot",
                                         "model.onnx"};
    ft_fail(FT_INVALID, directory, "no weights: neither %s nor %s is there, and no index of several files",
            forms[0].name, forms[2].name);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const char *path = ft_path_join(&w->arena, directory, others[i]);
        if (path == NULL) return FT_NO_MEMORY;
        if (!ft_path_exists(path)) continue;
        ft_hint("%s cannot be read here: save the model with transformers' save_pretrained, as safetensors", others[i]);
        break;
    }
    return FT_INVALID;
}

// A matrix that bitsandbytes left in several tensors becomes one of its shape; what belongs to it is nobody's then.
static ft_status fold(ft_weights *w) {
    const ft_packed **found = ft_arena_alloc(&w->arena, ((size_t)w->count + 1) * sizeof *found);
    bool *hidden = ft_arena_alloc(&w->arena, (size_t)w->count + 1);
    if (found == NULL || hidden == NULL) return FT_NO_MEMORY;
    int packed = 0, kept = 0;
    for (int i = 0; i < w->count; i++) {
        ft_packed *p;
        FT_TRY(ft_packed_find(w, i, &w->arena, &p));
        found[i] = p;
        packed += p != NULL;
    }
    if (packed == 0) return FT_OK;
    for (int i = 0; i < w->count; i++) {
        char matrix[FT_PACKED_NAME];
        const int of = ft_packed_part_of(w->entries[i].tensor->name, matrix) ? ft_weights_find(w, matrix) : -1;
        hidden[i] = of >= 0 && found[of] != NULL;
    }
    for (int i = 0; i < w->count; i++) {
        weights_entry e = w->entries[i];
        if (hidden[i]) continue;
        if (found[i] != NULL) {
            ft_safetensor *whole = ft_arena_alloc(&w->arena, sizeof *whole);
            if (whole == NULL) return FT_NO_MEMORY;
            *whole = *e.tensor;
            whole->rank = 2, whole->shape[0] = found[i]->rows, whole->shape[1] = found[i]->cols;
            whole->dtype = FT_SAFETENSOR_OTHER, whole->dtype_name = found[i]->type, whole->strides = NULL;
            e.tensor = whole, e.packed = found[i];
        }
        w->entries[kept++] = e;
    }
    w->count = kept;
    return FT_OK;
}

static ft_status open_all(ft_weights *w, const char *directory) {
    int form = 0;
    for (; form < FORMS; form++) {
        w->list_path = ft_path_join(&w->arena, directory, forms[form].name);
        if (w->list_path == NULL) return FT_NO_MEMORY;
        if (ft_path_exists(w->list_path)) break;
    }
    if (form == FORMS) return no_weights(w, directory);
    FT_TRY(forms[form].index ? open_index(w, directory, forms[form].torch) : open_single(w, forms[form].torch));
    qsort(w->entries, (size_t)w->count, sizeof *w->entries, compare);
    return fold(w);
}

ft_status ft_weights_open(const char *directory, ft_weights **weights) {
    *weights = NULL;
    ft_weights *w = ft_calloc(1, sizeof *w, "a list of weights");
    if (w == NULL) return FT_NO_MEMORY;
    ft_status status = open_all(w, directory);
    if (status == FT_OK)
        *weights = w;
    else
        ft_weights_close(w);
    return status;
}

void ft_weights_close(ft_weights *weights) {
    if (weights == NULL) return;
    for (int i = 0; i < weights->file_count; i++) {
        ft_safetensors_close(weights->files[i].safetensors);
        ft_torch_close(weights->files[i].torch);
    }
    ft_arena_free(&weights->arena);
    free(weights);
}

int ft_weights_count(const ft_weights *weights) { return weights->count; }
const ft_safetensor *ft_weights_at(const ft_weights *weights, int index) { return weights->entries[index].tensor; }
const char *ft_weights_list_path(const ft_weights *weights) { return weights->list_path; }

const char *ft_weights_path(const ft_weights *weights, int index) {
    return weights->files[weights->entries[index].file].path;
}

const ft_packed *ft_weights_packed(const ft_weights *weights, int index) { return weights->entries[index].packed; }

int ft_weights_find(const ft_weights *weights, const char *name) {
    const ft_safetensor wanted = {.name = name};
    const weights_entry key = {.tensor = &wanted},
                        *found = bsearch(&key, weights->entries, (size_t)weights->count, sizeof key, compare);
    return found != NULL ? (int)(found - weights->entries) : -1;
}

ft_status ft_weights_part_to_f32(const ft_weights *weights, int index, int64_t first, int64_t count, float *out) {
    const ft_packed *packed = weights->entries[index].packed;
    if (packed != NULL && first >= 0 && count >= 0 && first <= packed->rows * packed->cols - count)
        return ft_packed_numbers(packed, first, count, out), FT_OK;
    return ft_tensor_part_to_f32(ft_weights_path(weights, index), ft_weights_at(weights, index), first, count, out);
}

// ---- which weights these are ------------------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b) { return strcmp(((const weights_file *)a)->name, ((const weights_file *)b)->name); }

ft_status ft_weights_digest(const char *directory, char hex[65]) {
    ft_weights *w;
    ft_arena arena = {0};
    FT_TRY(ft_weights_open(directory, &w));
    ft_status status = w->file_count == 1 ? ft_sha256_file(w->files[0].path, hex) : FT_OK;
    if (w->file_count > 1) {
        char *lines = "";
        qsort(w->files, (size_t)w->file_count, sizeof *w->files, compare_names);
        for (int i = 0; i < w->file_count && status == FT_OK; i++) {
            status = ft_sha256_file(w->files[i].path, hex);
            if (status == FT_OK) lines = ft_arena_format(&arena, "%s%s  %s\n", lines, hex, w->files[i].name);
            if (lines == NULL) status = FT_NO_MEMORY;
        }
        if (status == FT_OK) status = ft_sha256(lines, strlen(lines), hex);
    }
    ft_weights_close(w);
    ft_arena_free(&arena);
    return status;
}

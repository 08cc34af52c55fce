#include "engine/model/model_files.h"

#include "engine/io/files.h"
#include "engine/io/safetensors.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- drawing ----------------------------------------------------------------------------------------------------------

static uint64_t name_hash(const char *name) { // FNV-1a: the stream of a parameter does not depend on its neighbours
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

static double uniform(uint64_t key, uint64_t index) { // (0, 1), 53 bits
    return ((double)(ft_splitmix64(key + index * 0x9E3779B97F4A7C15u) >> 11) + 0.5) * 0x1p-53;
}

static bool is_norm_weight(const char *name) {
    const char *at = strstr(name, "LayerNorm.weight");
    return at != NULL && at[strlen("LayerNorm.weight")] == '\0';
}

// Room for the largest parameter, from the run's memory like every buffer.
static ft_status take_staging(ft_model *m, float **staging) {
    int64_t largest = 0;
    for (int i = 0; i < m->parameters.count; i++)
        if (m->parameters.list[i].count > largest) largest = m->parameters.list[i].count;
    void *data;
    FT_TRY(ft_memory_alloc(m->memory, (size_t)largest * sizeof(float), FT_MEM_DATA, "staging of weights", &data));
    *staging = data;
    return FT_OK;
}

static ft_status upload(ft_model *m, int index, const float *staging) {
    const ft_device_functions *f = m->device->functions;
    ft_tensor weight = ft_parameter_weight(&m->parameters, index);
    FT_TRY(f->upload(m->device, weight.data, staging, (size_t)m->parameters.list[index].count * sizeof(float)));
    return f->sync(m->device); // the staging is used again
}

static ft_status draw_parameter(ft_model *m, int index, double initializer_range, uint64_t seed, float *staging) {
    const ft_parameter *p = &m->parameters.list[index];
    uint64_t key = ft_splitmix64(seed) ^ name_hash(p->name);
    for (int64_t i = 0; i < p->count; i += 2) { // Box-Muller
        double radius = sqrt(-2.0 * log(uniform(key, (uint64_t)i))), angle = 6.283185307179586 * uniform(key, (uint64_t)i + 1);
        staging[i] = p->rows > 0 ? (float)(initializer_range * radius * cos(angle)) : is_norm_weight(p->name) ? 1.0f : 0.0f;
        if (i + 1 < p->count) staging[i + 1] = p->rows > 0 ? (float)(initializer_range * radius * sin(angle)) : staging[i];
    }
    if (index == m->word && m->padding_id >= 0)
        memset(staging + (int64_t)m->padding_id * p->cols, 0, (size_t)p->cols * sizeof(float));
    return upload(m, index, staging);
}

ft_status ft_model_draw(ft_model *model, double initializer_range, uint64_t seed) {
    float *staging;
    FT_TRY(take_staging(model, &staging));
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < model->parameters.count; i++) status = draw_parameter(model, i, initializer_range, seed, staging);
    ft_memory_free(model->memory, staging);
    return status;
}

// ---- loading ----------------------------------------------------------------------------------------------------------

// The names under which a file may hold parameter `name`, most usual first.
static const ft_safetensor *find(const ft_safetensors *file, const char *name) {
    const char *bare = strncmp(name, "bert.", 5) == 0 ? name + 5 : name;
    for (int prefix = 0; prefix < 2; prefix++) {
        const char *base = prefix == 0 ? name : bare;
        const ft_safetensor *t = ft_safetensors_find(file, base);
        if (t != NULL) return t;
        const char *norm = strstr(base, "LayerNorm.");
        if (norm == NULL) continue;
        char old[256];
        bool is_weight = strcmp(norm, "LayerNorm.weight") == 0;
        snprintf(old, sizeof old, "%.*sLayerNorm.%s", (int)(norm - base), base, is_weight ? "gamma" : "beta");
        t = ft_safetensors_find(file, old);
        if (t != NULL) return t;
    }
    return NULL;
}

static void shape_text(const int64_t *shape, int rank, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
}

static ft_status check_shape(const ft_model *m, const ft_safetensors *file, const ft_safetensor *t, const ft_parameter *p) {
    int rank = p->rows > 0 ? 2 : 1;
    int64_t want[2] = {p->rows > 0 ? p->rows : p->cols, p->cols};
    if (t->rank == rank && t->shape[0] == want[0] && (rank == 1 || t->shape[1] == want[1])) return FT_OK;
    char have_text[128], want_text[64];
    shape_text(t->shape, t->rank, have_text, sizeof have_text);
    shape_text(want, rank, want_text, sizeof want_text);
    ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s has shape [%s], the model needs [%s]", t->name, have_text, want_text);
    if (p->head && t->rank == rank && t->shape[0] != want[0])
        ft_hint("the file's head was trained for %lld outputs, this task has %d; model.ignore_mismatched_sizes = true draws a new one",
                (long long)t->shape[0], m->labels);
    else if (p->head)
        ft_hint("the file's head is another than model.head.hidden asks for; model.ignore_mismatched_sizes = true draws a new one");
    return FT_INVALID;
}

static ft_status load_parameter(ft_model *m, const ft_safetensors *file, const ft_safetensor *t, int index, float *staging) {
    const ft_parameter *p = &m->parameters.list[index];
    FT_TRY(ft_safetensor_to_f32(file, t, staging, p->count));
    for (int64_t i = 0; i < p->count; i++)
        if (!isfinite(staging[i]))
            return ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s holds a value that is not finite at element %lld", t->name,
                           (long long)i);
    return upload(m, index, staging);
}

static ft_status load_all(ft_model *m, const ft_safetensors *file, double range, uint64_t seed, float *staging, ft_arena *arena,
                          ft_load_report *report) {
    int tensors = ft_safetensors_count(file);
    bool *used = ft_arena_alloc(arena, (size_t)tensors + 1);
    report->drawn = ft_arena_alloc(arena, (size_t)m->parameters.count * sizeof *report->drawn);
    report->ignored = ft_arena_alloc(arena, ((size_t)tensors + 1) * sizeof *report->ignored);
    if (used == NULL || report->drawn == NULL || report->ignored == NULL) return FT_NO_MEMORY;
    bool new_layer = false; // the weight just handled was drawn because the file's has another shape
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *p = &m->parameters.list[i];
        const ft_safetensor *t = find(file, p->name);
        if (new_layer && p->rows == 0) t = NULL; // its bias belongs to the old weight
        new_layer = false;
        if (t != NULL && p->head && m->ignore_mismatched_sizes && check_shape(m, file, t, p) != FT_OK) {
            ft_error_clear();
            t = NULL;
            new_layer = p->rows > 0;
        }
        if (t == NULL) {
            if (!p->head)
                return ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s is missing", p->name);
            FT_TRY(draw_parameter(m, i, range, seed, staging));
            report->drawn[report->drawn_count++] = p->name;
            continue;
        }
        FT_TRY(check_shape(m, file, t, p));
        FT_TRY(load_parameter(m, file, t, i, staging));
        for (int k = 0; k < tensors; k++)
            if (ft_safetensors_at(file, k) == t) used[k] = true;
    }
    for (int k = 0; k < tensors; k++) {
        if (used[k]) continue;
        const char *name = ft_arena_strdup(arena, ft_safetensors_at(file, k)->name);
        if (name == NULL) return FT_NO_MEMORY;
        report->ignored[report->ignored_count++] = name;
    }
    return FT_OK;
}

ft_status ft_model_load(ft_model *model, const char *model_dir, double initializer_range, uint64_t seed, ft_arena *arena,
                        ft_load_report *report) {
    memset(report, 0, sizeof *report);
    const char *path = ft_path_join(arena, model_dir, "model.safetensors");
    const char *index = ft_path_join(arena, model_dir, "model.safetensors.index.json");
    if (path == NULL || index == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(path) && ft_path_exists(index)) {
        ft_fail(FT_INVALID, index, "the weights are split into several files, which is not supported");
        ft_hint("save the model as one model.safetensors");
        return FT_INVALID;
    }
    ft_safetensors *file;
    FT_TRY(ft_safetensors_open(path, &file));
    float *staging;
    ft_status status = take_staging(model, &staging);
    if (status == FT_OK) {
        status = load_all(model, file, initializer_range, seed, staging, arena, report);
        ft_memory_free(model->memory, staging);
    }
    ft_safetensors_close(file);
    return status;
}

// ---- saving -----------------------------------------------------------------------------------------------------------

typedef struct weights_source {
    ft_model *model;
    float *staging; // room for the largest parameter
} weights_source;

static ft_status fetch_weight(void *context, int index, const void **data) {
    weights_source *s = context;
    ft_device *device = s->model->device;
    ft_tensor w = ft_parameter_weight(&s->model->parameters, index);
    FT_TRY(device->functions->download(device, s->staging, w.data, (size_t)s->model->parameters.list[index].count * sizeof(float)));
    FT_TRY(device->functions->sync(device));
    *data = s->staging;
    return FT_OK;
}

static ft_status write_weights(ft_model *m, const char *path, FILE *out, ft_arena *arena) {
    int count = m->parameters.count;
    ft_safetensor *tensors = ft_arena_alloc(arena, (size_t)count * sizeof *tensors);
    if (tensors == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        const ft_parameter *p = &m->parameters.list[i];
        tensors[i] = (ft_safetensor){.name = p->name,
                                     .dtype = FT_F32,
                                     .rank = p->rows > 0 ? 2 : 1,
                                     .shape = {p->rows > 0 ? p->rows : p->cols, p->rows > 0 ? p->cols : 0},
                                     .bytes = (size_t)p->count * sizeof(float)};
    }
    float *staging;
    FT_TRY(take_staging(m, &staging));
    weights_source source = {m, staging};
    static const char *const metadata[] = {"format", "pt", NULL};
    ft_status status = ft_safetensors_write_from(out, path, count, tensors, metadata, fetch_weight, &source);
    ft_memory_free(m->memory, staging);
    return status;
}

ft_status ft_model_save_weights(ft_model *model, const char *directory) {
    ft_arena arena = {0};
    ft_atomic_file file = {0};
    char *path = ft_path_join(&arena, directory, "model.safetensors");
    ft_status status = path == NULL ? FT_NO_MEMORY : ft_atomic_open(&file, path);
    if (status == FT_OK) status = write_weights(model, path, file.stream, &arena);
    if (status == FT_OK) status = ft_atomic_commit(&file);
    else ft_atomic_abort(&file);
    ft_arena_free(&arena);
    return status;
}

#include "engine/model/adapter_files.h"

#include "base/files.h"
#include "engine/files/safetensors.h"
#include "engine/model/spec/adapter_config.h"
#include "engine/model/state/builder.h"
#include "engine/model/state/staging.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 320 };

static bool is_bias_of_adapted(const ft_model *m, const char *name) {
    char a[LONGEST];
    const size_t length = strlen(name), end = strlen(".bias");
    if (length <= end || strcmp(name + length - end, ".bias") != 0) return false;
    snprintf(a, sizeof a, "%.*s.lora_A.weight", (int)(length - end), name);
    return ft_parameters_find(&m->parameters, a) >= 0;
}

// The bias of a layer with an adapter lies inside of it.
static void own_name(const ft_model *m, const ft_parameter *p, char out[LONGEST]) {
    const size_t end = strlen(".bias"), length = strlen(p->name);
    if (is_bias_of_adapted(m, p->name)) snprintf(out, LONGEST, FT_ADAPTER_PREFIX "%.*s.base_layer.bias", (int)(length - end), p->name);
    else snprintf(out, LONGEST, FT_ADAPTER_PREFIX "%s", p->name);
}

// As transformers 5 has it.
static void name_in_file(const ft_model *m, const ft_parameter *p, char out[LONGEST]) {
    char own[LONGEST];
    own_name(m, p, own);
    ft_family_module(m->family, own, out, LONGEST);
}

// Files of transformers 4 have adapters called as models' files are.
static const ft_safetensor *find_tensor(const ft_model *m, const ft_safetensors *file, const ft_parameter *p, char name[LONGEST]) {
    char own[LONGEST];
    name_in_file(m, p, name);
    const ft_safetensor *t = ft_safetensors_find(file, name);
    if (t != NULL) return t;
    own_name(m, p, own);
    return ft_safetensors_find(file, own);
}

// ---- reading ------------------------------------------------------------------------------------------------------------

typedef struct loading {
    const ft_safetensors *file;
    const ft_safetensor *tensor;
    int64_t from;
} loading;

static ft_status load_part(void *context, int64_t first, int64_t count, float *out) {
    const loading *l = context;
    FT_TRY(ft_safetensor_part_to_f32(l->file, l->tensor, l->from + first, count, out));
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return ft_fail(FT_INVALID, ft_safetensors_path(l->file), "tensor %s holds a value that is not finite at element %lld", l->tensor->name,
                           (long long)(l->from + first + i));
    return FT_OK;
}

static ft_status check_shape(const ft_safetensors *file, const ft_safetensor *t, const ft_parameter *p) {
    int64_t want[FT_PARAMETER_RANK];
    const int rank = ft_parameter_shape(p, want);
    if (t->rank == rank && memcmp(t->shape, want, (size_t)rank * sizeof *want) == 0) return FT_OK;
    ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s has shape [%lld%s%.0lld], this model needs [%lld%s%.0lld]", t->name,
            (long long)t->shape[0], t->rank > 1 ? ", " : "", t->rank > 1 ? (long long)t->shape[1] : 0, (long long)want[0], rank > 1 ? ", " : "",
            rank > 1 ? (long long)want[1] : 0);
    ft_hint("the adapter was trained on another model, or for another number of labels");
    return FT_INVALID;
}

static ft_status load_one(ft_model *m, int index, const ft_safetensors *file, ft_staging *staging) {
    const ft_parameter *p = &m->parameters.list[index];
    char name[LONGEST];
    const ft_safetensor *t = find_tensor(m, file, p, name);
    if (t == NULL) {
        ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s is missing", name);
        ft_hint("the adapter was trained on another model, or its adapter_config.json is another's");
        return FT_INVALID;
    }
    FT_TRY(check_shape(file, t, p));
    ft_staged to = ft_parameter_stored(&m->parameters, index);
    for (int64_t done = 0, count; done < p->count; done += count) {
        count = p->count - done;
        to.first = ft_parameter_place(p, done, &count);
        FT_TRY(ft_staging_upload(staging, to, count, load_part, &(loading){file, t, done}));
    }
    return FT_OK;
}

// What PEFT writes twice is passed over.
static bool is_copy(const char *name) { return strstr(name, ".original_module.") != NULL || strstr(name, ".modules_to_save.") != NULL; }

static ft_status check_places(const ft_model *m, const ft_safetensors *file) {
    for (int k = 0; k < ft_safetensors_count(file); k++) {
        const char *name = ft_safetensors_at(file, k)->name;
        bool known = is_copy(name);
        for (int i = 0; i < m->parameters.count && !known; i++) {
            char own[LONGEST];
            if (!m->parameters.list[i].trainable) continue;
            const ft_safetensor *t = find_tensor(m, file, &m->parameters.list[i], own);
            known = t != NULL && strcmp(t->name, name) == 0;
        }
        if (known) continue;
        ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s has no place in this model", name);
        ft_hint("the adapter was trained on another model, or its adapter_config.json is another's");
        return FT_INVALID;
    }
    return FT_OK;
}

static ft_status load_all(ft_model *m, const ft_safetensors *file, ft_staging *staging) {
    for (int i = 0; i < m->parameters.count; i++)
        if (m->parameters.list[i].trainable) FT_TRY(load_one(m, i, file, staging));
    return check_places(m, file);
}

ft_status ft_model_load_adapter(ft_model *m, const char *directory) {
    ft_arena arena = {0};
    ft_safetensors *file = NULL;
    ft_staging staging = {0};
    char *path = ft_path_join(&arena, directory, FT_ADAPTER_WEIGHTS);
    ft_memory_set_phase(m->memory, FT_PHASE_LOAD);
    ft_status status = path != NULL ? ft_safetensors_open(path, &file) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_staging_open(m->memory, &staging);
    if (status == FT_OK) status = load_all(m, file, &staging);
    ft_staging_close(&staging);
    ft_safetensors_close(file);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_adapter_outputs(const char *directory, const ft_model_config *config, int64_t *outputs) {
    if (config->language_head) return *outputs = 1, FT_OK;
    ft_arena arena = {0};
    ft_safetensors *file = NULL;
    char name[LONGEST], *path = ft_path_join(&arena, directory, FT_ADAPTER_WEIGHTS);
    snprintf(name, sizeof name, FT_ADAPTER_PREFIX "%s.weight", ft_model_config_classifier(config));
    ft_status status = path != NULL ? ft_safetensors_open(path, &file) : FT_NO_MEMORY;
    const ft_safetensor *t = status == FT_OK ? ft_safetensors_find(file, name) : NULL;
    if (t != NULL && t->rank == 2) *outputs = t->shape[0];
    else if (status == FT_OK) status = ft_fail(FT_INVALID, path, "tensor %s is missing: the adapter has no classifier", name);
    ft_safetensors_close(file);
    ft_arena_free(&arena);
    return status;
}

// ---- writing ------------------------------------------------------------------------------------------------------------

typedef struct saving {
    ft_model *model;
    const int *index; // of the parameters in the file
    ft_staging staging;
} saving;

static ft_status fetch(void *context, int index, size_t offset, size_t bytes, const void **data) {
    saving *s = context;
    const ft_parameter *p = &s->model->parameters.list[s->index[index]];
    ft_staged from = ft_parameter_stored(&s->model->parameters, s->index[index]);
    const int64_t first = (int64_t)(offset / sizeof(float)), total = (int64_t)(bytes / sizeof(float));
    *data = s->staging.data;
    for (int64_t done = 0, count; done < total; done += count) {
        count = total - done;
        from.first = ft_parameter_place(p, first + done, &count);
        FT_TRY(ft_staging_download(&s->staging, from, count, done));
    }
    return FT_OK;
}

static ft_status write_all(saving *s, const char *path, FILE *out, ft_arena *arena) {
    static const char *const metadata[] = {"format", "pt", NULL};
    const ft_model *m = s->model;
    ft_safetensor *tensors = ft_arena_alloc(arena, ((size_t)m->parameters.count + 1) * sizeof *tensors);
    int *index = ft_arena_alloc(arena, ((size_t)m->parameters.count + 1) * sizeof *index), count = 0;
    if (tensors == NULL || index == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *p = &m->parameters.list[i];
        char name[LONGEST];
        if (!p->trainable) continue;
        name_in_file(m, p, name);
        tensors[count] = (ft_safetensor){.name = ft_arena_strdup(arena, name), .dtype = FT_F32, .bytes = (size_t)p->count * sizeof(float)};
        if (tensors[count].name == NULL) return FT_NO_MEMORY;
        tensors[count].rank = ft_parameter_shape(p, tensors[count].shape);
        index[count++] = i;
    }
    s->index = index;
    return ft_safetensors_write_from(out, path, count, tensors, metadata, (size_t)FT_STAGING_FLOATS * sizeof(float), fetch, s);
}

ft_status ft_model_save_adapter(ft_model *m, const char *directory) {
    ft_arena arena = {0};
    ft_atomic_file file = {0};
    saving s = {.model = m};
    char *path = ft_path_join(&arena, directory, FT_ADAPTER_WEIGHTS);
    ft_status status = path != NULL ? ft_atomic_open(&file, path) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_staging_open(m->memory, &s.staging);
    if (status == FT_OK) status = write_all(&s, path, file.stream, &arena);
    if (status == FT_OK) status = ft_atomic_commit(&file);
    else ft_atomic_abort(&file);
    ft_staging_close(&s.staging);
    ft_arena_free(&arena);
    return status;
}

// ---- merging ------------------------------------------------------------------------------------------------------------

// W += s B A, and rows to the length of their magnitude if they have one (-1: none); the products of one element are few: sums in double
// precision, rounded once. B becomes 0, and magnitudes the lengths that rows have then.
static void merge_one(ft_model *m, int weight, int a, int b, int magnitude, double scale) {
    const ft_parameter *of_a = &m->parameters.list[a], *of_b = &m->parameters.list[b];
    const float *low = ft_parameter_weight(&m->parameters, a).data;
    float *high = ft_parameter_weight(&m->parameters, b).data, *w = ft_parameter_weight(&m->parameters, weight).data;
    float *length = magnitude >= 0 ? ft_parameter_weight(&m->parameters, magnitude).data : NULL;
    for (int64_t i = 0; i < of_b->rows; i++) {
        float *row = w + i * of_a->cols;
        double squares = 0, now = 0;
        for (int pass = 0; pass < (length != NULL ? 2 : 1); pass++) {
            const double g = pass == 0 ? 1 : squares > 0 ? (double)length[i] / sqrt(squares) : 0;
            for (int64_t j = 0; j < of_a->cols; j++) {
                double sum = 0;
                for (int64_t k = 0; k < of_a->rows; k++) sum += (double)high[i * of_a->rows + k] * (double)low[k * of_a->cols + j];
                const double v = (double)row[j] + scale * sum;
                squares += pass == 0 ? v * v : 0;
                if (pass == 0 && length != NULL) continue;
                row[j] = (float)(g * v);
                now += (double)row[j] * (double)row[j];
            }
        }
        if (length != NULL) length[i] = (float)sqrt(now);
    }
    memset(high, 0, (size_t)of_b->count * sizeof *high);
}

ft_status ft_model_merge_adapters(ft_model *m, const ft_model_config *config, const ft_config *options) {
    if (m->dtype != FT_F32 || m->device->place[0] != '\0') return ft_fail(FT_FAILED, "merge", "a model is merged in fp32 on the CPU");
    for (int i = 0; m->modules != NULL && i < m->modules->count; i++) {
        const char *module = m->modules->names[i];
        const ft_adapter_shape shape = ft_adapter_of(options, config, module);
        char name[4][LONGEST];
        int index[4] = {0, 0, 0, -1};
        if (shape.rank == 0) continue;
        static const char *const suffix[] = {"weight", "lora_A.weight", "lora_B.weight", "lora_magnitude_vector"};
        for (int k = 0; k < (options->adapter.type == FT_ADAPTER_DORA ? 4 : 3); k++) {
            snprintf(name[k], sizeof name[k], "%s.%s", module, suffix[k]);
            index[k] = ft_parameters_find(&m->parameters, name[k]);
            if (index[k] < 0) return ft_fail(FT_FAILED, name[k], "is no parameter");
        }
        merge_one(m, index[0], index[1], index[2], index[3], shape.scale);
    }
    return FT_OK;
}

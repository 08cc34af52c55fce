// model_fixture.h - a small golden model on the CPU: opened from tests/vectors, with its inputs as a data set.
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/data/input.h"
#include "engine/model/gradients.h"
#include "engine/io/safetensors.h"
#include "engine/model/model_files.h"
#include "engine/train/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    ft_device *device;
    ft_memory *memory;
    ft_model_config config;
    ft_config options;
    ft_model model;
    ft_safetensors *expect;
    ft_dataset data;
    ft_arena arena;
} fixture;

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

static inline float *expected(const fixture *f, const char *name, int64_t *count) {
    const ft_safetensor *t = ft_safetensors_find(f->expect, name);
    if (t == NULL) fail_msg("%s is not in expect.safetensors", name);
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    float *out = malloc((size_t)n * sizeof *out);
    OK(ft_safetensor_to_f32(f->expect, t, out, n));
    if (count != NULL) *count = n;
    return out;
}

// "<what>.<name of the parameter>", its rows in the order in which the model has them.
static inline float *expected_parameter(const fixture *f, const char *what, const ft_parameter *p) {
    char name[256];
    int64_t n;
    snprintf(name, sizeof name, "%s.%s", what, p->name);
    float *file = expected(f, name, &n);
    assert_int_equal(n, p->count);
    if (p->heads == 0) return file;
    float *out = malloc((size_t)n * sizeof *out);
    int64_t hidden = p->cols, width = hidden / p->heads; // rows of the file: q, k, v of head 0, of head 1, ...
    for (int64_t part = 0; part < 3; part++)
        for (int64_t channel = 0; channel < hidden; channel++) {
            int64_t row = channel / width * 3 * width + part * width + channel % width;
            memcpy(out + (part * hidden + channel) * p->cols, file + row * p->cols, (size_t)p->cols * sizeof *out);
        }
    free(file);
    return out;
}

static inline int32_t *expected_ints(const fixture *f, const char *name, int64_t *count) {
    const ft_safetensor *t = ft_safetensors_find(f->expect, name);
    if (t == NULL || t->dtype != FT_I32) fail_msg("%s is not an int32 tensor of expect.safetensors", name);
    int32_t *out = malloc(t->bytes ? t->bytes : 1);
    memcpy(out, t->data, t->bytes);
    if (count != NULL) *count = (int64_t)(t->bytes / 4);
    return out;
}

// overrides: section.key=value words, NULL-terminated.
static inline void open_fixture(fixture *f, const char *name, int threads, const char *isa, const char *const *overrides) {
    memset(f, 0, sizeof *f);
    char dir[512], path[600];
    snprintf(dir, sizeof dir, "%s/%s", FT_TEST_VECTORS, name);
    snprintf(path, sizeof path, "%s/expect.safetensors", dir);
    int count = 0;
    while (overrides != NULL && overrides[count] != NULL) count++;
    OK(ft_config_load(&f->options, 0, NULL, count, overrides));
    OK(ft_cpu_open(threads, isa, &f->device));
    OK(ft_memory_create(f->device, 0, &f->memory));
    OK(ft_model_config_load(dir, &f->config));
    OK(ft_model_create(f->memory, &f->config, &f->options, (int32_t)f->config.num_labels, &f->model));
    ft_load_report report;
    OK(ft_model_load(&f->model, dir, 0.02, 1, &f->arena, &report));
    OK(ft_model_prepare_training(&f->model, 0.01));
    OK(ft_gradients_hold(&f->model.parameters, false));
    OK(ft_safetensors_open(path, &f->expect));
    int64_t bounds;
    int32_t *cu = expected_ints(f, "cu_seqlens", &bounds);
    f->data.examples = f->data.sequences = bounds - 1;
    f->data.input = &ft_text_input;
    f->data.offset = calloc((size_t)bounds, sizeof *f->data.offset);
    for (int64_t i = 0; i < bounds; i++) f->data.offset[i] = cu[i];
    free(cu);
    f->data.ids = expected_ints(f, "input_ids", &f->data.tokens);
    f->data.label = expected_ints(f, "labels", NULL);
}

static inline void close_fixture(fixture *f) {
    ft_model_free(&f->model);
    OK(ft_memory_destroy(f->memory));
    ft_device_close(f->device);
    ft_model_config_free(&f->config);
    ft_config_free(&f->options);
    ft_safetensors_close(f->expect);
    ft_dataset_free(&f->data);
    ft_arena_free(&f->arena);
}

static inline double norm_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static inline double distance(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum);
}

// Every element finite and within `tolerance` of the other.
static inline void assert_close(const char *what, const float *got, const float *want, int64_t n, double tolerance) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance)) fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)i, got[i], want[i]);
}

// Adds the gradients of examples order[first .. last) (NULL: 0, 1, ...) in micro-batches of at most `limits`; gradients
// are cleared first. losses: [last - first], host.
static inline void gradients_of(fixture *f, const int32_t *order, int64_t first, int64_t last, ft_batch_limits limits,
                                ft_step_state state, float *losses) {
    const ft_device_functions *d = f->device->functions;
    ft_capacity capacity = {.most_reads = FT_DATASET_READS};
    for (int64_t at = first; at < last;) {
        int64_t count = ft_batch_cut(&f->data, order, at, last, limits);
        int32_t tokens = 0;
        for (int64_t i = at; i < at + count; i++) {
            int64_t e = order ? order[i] : i;
            int32_t length = (int32_t)(f->data.offset[e + 1] - f->data.offset[e]);
            tokens += length;
            if (length > capacity.longest) capacity.longest = length;
        }
        if (tokens > capacity.tokens) capacity.tokens = tokens;
        if (count > capacity.sequences) capacity.sequences = capacity.reads = (int32_t)count;
        at += count;
    }
    ft_batch_buffers buffers;
    OK(ft_batch_buffers_create(&f->model, capacity, true, &buffers));
    OK(ft_model_hold_positions(&f->model, capacity, capacity));
    void *step, *device_losses;
    OK(ft_memory_alloc(f->memory, sizeof state, FT_MEM_DATA, "step", &step));
    OK(ft_memory_alloc(f->memory, (size_t)(last - first) * sizeof(float), FT_MEM_DATA, "losses", &device_losses));
    OK(d->upload(f->device, step, &state, sizeof state));
    OK(ft_gradients_clear(&f->model.parameters));
    OK(ft_model_begin_step(&f->model, capacity, step));
    for (int64_t at = first; at < last;) {
        int64_t count = ft_batch_cut(&f->data, order, at, last, limits);
        OK(ft_batch_buffers_load(&buffers, &f->data, order, at, count, (int32_t)(at - first)));
        OK(ft_model_train_batch(&f->model, &buffers.device, capacity, step, ft_vector((float *)device_losses + (at - first), count, FT_F32)));
        at += count;
    }
    OK(ft_model_end_step(&f->model, capacity, step));
    ft_model_release_positions(&f->model);
    OK(d->download(f->device, losses, device_losses, (size_t)(last - first) * sizeof(float)));
    OK(d->sync(f->device));
    ft_memory_free(f->memory, device_losses);
    ft_memory_free(f->memory, step);
    ft_batch_buffers_free(&buffers);
}

// A host copy of the flat gradients; free() it.
static inline float *host_gradients(fixture *f) {
    size_t bytes = (size_t)f->model.parameters.trainable * sizeof(float);
    float *out = malloc(bytes);
    OK(f->device->functions->download(f->device, out, f->model.parameters.gradients, bytes));
    return out;
}

#endif

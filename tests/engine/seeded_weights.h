// seeded_weights.h - models whose weights are a function of their tensors' names, as in tests/vectors/make_family_vectors.py,
// and what is compared with its expectations.
#ifndef SEEDED_WEIGHTS_H
#define SEEDED_WEIGHTS_H

#include "model_fixture.h"

#include "kernels/philox.h"

static inline uint64_t fnv1a64(const char *name) {
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

// Element `index` of the stream with this key, in [-1, 1).
static inline double drawn(uint64_t key, int64_t index) {
    return (double)(ft_splitmix64(key + (uint64_t)index * 0x9E3779B97F4A7C15u) >> 40) / 0x1p23 - 1;
}

static inline bool name_ends(const char *name, const char *end) {
    size_t n = strlen(name), tail = strlen(end);
    return n >= tail && strcmp(name + n - tail, end) == 0;
}

// On the CPU, whose device memory is the host's.
static inline void fill_seeded(ft_model *model) {
    for (int i = 0; i < model->parameters.count; i++) {
        const ft_parameter *p = &model->parameters.list[i];
        uint64_t key = fnv1a64(p->name);
        float *weight = ft_parameter_weight(&model->parameters, i).data;
        double base = 0, scale = sqrt(3.0 / (double)p->cols);
        if (p->rows > 0 && name_ends(p->name, "embeddings.weight")) scale = 1;
        if (p->rows == 0) base = name_ends(p->name, ".weight") ? 1 : 0, scale = base == 1 ? 0.25 : 0.1;
        for (int64_t done = 0, count; done < p->count; done += count) {
            count = p->count - done;
            int64_t place = ft_parameter_place(p, done, &count);
            for (int64_t k = 0; k < count; k++) weight[place + k] = (float)(base + scale * drawn(key, done + k));
        }
    }
}

// A model of so many labels on two threads with these weights, and the data of `path`. Close it with close_fixture.
// layers: > 0 makes the model no deeper than that. Without `labels` in the file the data set has none.
static inline void open_seeded(fixture *f, const char *model, const char *path, int64_t layers, int32_t labels) {
    memset(f, 0, sizeof *f);
    OK(ft_config_load(&f->options, 0, NULL, 0, NULL));
    OK(ft_cpu_open(2, NULL, &f->device));
    OK(ft_memory_create(f->device, 0, &f->memory));
    OK(ft_model_config_load(model, &f->config));
    if (layers > 0) f->config.num_hidden_layers = layers;
    OK(ft_model_create(f->memory, &f->config, &f->options, labels, &f->model));
    fill_seeded(&f->model);
    OK(ft_safetensors_open(path, &f->expect));
    int64_t bounds;
    int32_t *cu = expected_ints(f, "cu_seqlens", &bounds);
    f->data.examples = f->data.sequences = bounds - 1;
    f->data.input = &ft_text_input;
    f->data.offset = calloc((size_t)bounds, sizeof *f->data.offset);
    for (int64_t i = 0; i < bounds; i++) f->data.offset[i] = cu[i];
    free(cu);
    f->data.ids = expected_ints(f, "input_ids", &f->data.tokens);
    if (ft_safetensors_find(f->expect, "labels") != NULL) f->data.label = expected_ints(f, "labels", NULL);
}

#endif

#include "engine/model/state/builder.h"

#include "engine/model/spec/adapter.h"
#include "engine/model/spec/trained.h"
#include "engine/model/state/points.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ft_build_prefix(ft_builder *b, const char *format, ...) {
    va_list arguments;
    int length = snprintf(b->prefix, sizeof b->prefix, "%s", b->model->family->prefix);
    va_start(arguments, format);
    vsnprintf(b->prefix + length, sizeof b->prefix - (size_t)length, format, arguments);
    va_end(arguments);
}

static bool trains(const ft_builder *b, const ft_parameter_spec *spec, const char *name) {
    if (spec->adapter) return true;
    if (b->options->train.precision == FT_PRECISION_INT8 && b->options->adapter.type == FT_ADAPTER_NONE) return false; // it predicts
    if (b->options->adapter.type != FT_ADAPTER_NONE) return ft_adapter_trains(b->options, b->config, name);
    return b->trainable && (b->head || ft_trained_by_name(b->options, name));
}

int ft_build_parameter(ft_builder *b, const char *suffix, const char *kind, ft_parameter_spec spec) {
    char name[256];
    snprintf(name, sizeof name, "%s%s%s", b->prefix, suffix, kind);
    spec.name = name;
    spec.trainable = trains(b, &spec, name);
    spec.head = b->head && !spec.adapter;
    spec.depth = b->depth;
    spec.point = ft_backward_point(b->depth, b->half);
    int index = ft_parameters_add(&b->model->parameters, spec);
    if (index < 0) b->failed = true;
    return index;
}

int ft_build_matrix(ft_builder *b, const char *name, int64_t rows, int64_t cols) {
    return ft_build_parameter(b, name, ".weight", (ft_parameter_spec){.rows = rows, .cols = cols, .decay = true});
}

int ft_build_factor(ft_builder *b, const char *name, ft_parameter_spec spec) {
    spec.decay = spec.factor = true;
    return ft_build_parameter(b, name, ".weight", spec);
}

int ft_build_bias(ft_builder *b, const char *name, int64_t width) {
    return ft_build_parameter(b, name, ".bias", (ft_parameter_spec){.cols = width});
}

ft_linear ft_build_linear_without_bias(ft_builder *b, const char *name, int64_t outputs, int64_t inputs) {
    const int weight = ft_build_factor(b, name, (ft_parameter_spec){.rows = outputs, .cols = inputs});
    ft_linear l = {.weight = weight, .bias = -1, .inputs = inputs, .outputs = outputs, .parts = 1, .lead = outputs};
    ft_build_adapters(b, &l, 1, &name);
    return l;
}

ft_linear ft_build_linear(ft_builder *b, const char *name, int64_t outputs, int64_t inputs) {
    ft_linear l = ft_build_linear_without_bias(b, name, outputs, inputs);
    l.bias = ft_build_bias(b, name, outputs);
    return l;
}

ft_linear ft_build_layer_linear(ft_builder *b, ft_layer_linear which, const char *name, int64_t outputs, int64_t inputs) {
    const bool without = (b->config->unbiased & which) != 0;
    return without ? ft_build_linear_without_bias(b, name, outputs, inputs) : ft_build_linear(b, name, outputs, inputs);
}

// ---- adapters -----------------------------------------------------------------------------------------------------------

// Notes the name of a module; NULL with `failed` set.
static const char *note_module(ft_builder *b, const char *suffix) {
    ft_modules *m = b->model->modules;
    if (m->count == m->capacity) {
        const int capacity = m->capacity > 0 ? 2 * m->capacity : 64;
        const char **grown = ft_arena_alloc(&b->model->arena, (size_t)capacity * sizeof *grown);
        if (grown != NULL && m->count > 0) memcpy(grown, m->names, (size_t)m->count * sizeof *grown);
        b->failed |= grown == NULL;
        if (grown == NULL) return NULL;
        m->names = grown;
        m->capacity = capacity;
    }
    const char *name = ft_arena_format(&b->model->arena, "%s%s", b->prefix, suffix);
    b->failed |= name == NULL;
    return name != NULL ? m->names[m->count++] = name : NULL;
}

// How A and B are drawn: B is 0 at first, so that the model is, unless it was asked for otherwise.
static ft_drawn drawn_a(const ft_config *o, double inputs, double rank) {
    const bool gaussian = o->adapter.init == FT_ADAPTER_INIT_GAUSSIAN;
    return gaussian ? (ft_drawn){.kind = FT_DRAWN_NORMAL, .size = 1 / rank} : (ft_drawn){.kind = FT_DRAWN_UNIFORM, .size = 1 / sqrt(inputs)};
}
static ft_drawn drawn_b(const ft_config *o, double rank) {
    return o->adapter.init == FT_ADAPTER_INIT_FALSE ? (ft_drawn){.kind = FT_DRAWN_UNIFORM, .size = 1 / sqrt(rank)} : (ft_drawn){.kind = FT_DRAWN_ZERO, .size = 0};
}

static bool rank_fits(const ft_builder *b, const char *module, int64_t rank, int64_t outputs, int64_t inputs) {
    if (rank <= outputs && rank <= inputs) return true;
    const bool own = rank != b->options->adapter.r;
    ft_fail(FT_INVALID, own ? "adapter.rank_pattern" : "adapter.r", "rank %lld is larger than a side of %s, which is %lld x %lld", (long long)rank, module,
            (long long)outputs, (long long)inputs);
    return false;
}

uint32_t ft_build_adapter_number(ft_builder *b, const ft_adapter *first) {
    return b->options->adapter.dropout_mask == FT_ADAPTER_MASK_SHARED && first != NULL ? first->number : b->model->modules->adapters++;
}

void ft_build_adapters(ft_builder *b, ft_linear *l, int count, const char *const *names) {
    ft_adapter some[FT_MOST_ADAPTERS];
    const char *of[FT_MOST_ADAPTERS];
    const int parts = l->parts / count;
    int adapters = 0;
    if (b->model->modules == NULL || b->failed) return;
    for (int i = 0; i < count; i++) {
        const char *module = note_module(b, names[i]);
        if (module == NULL) return;
        const ft_adapter_shape shape = ft_adapter_of(b->options, b->config, module);
        if (shape.rank == 0) continue;
        const int64_t outputs = count == 1 ? l->outputs : i == 0 ? l->lead : l->width;
        b->failed |= !rank_fits(b, module, shape.rank, outputs, l->inputs);
        some[adapters] = (ft_adapter){.rank = shape.rank, .scale = (float)shape.scale, .dropout = (float)b->options->adapter.dropout,
                                      .number = ft_build_adapter_number(b, adapters > 0 ? some : NULL), .first = i * parts, .parts = parts};
        of[adapters++] = names[i];
    }
    if (adapters == 0 || b->failed) return;
    const int heads = count == 1 ? b->model->parameters.list[l->weight].heads : 0; // rows of B as those of W are
    for (int k = 0; k < adapters; k++) {
        const ft_drawn drawn = drawn_a(b->options, (double)l->inputs, (double)some[k].rank);
        some[k].a = ft_build_parameter(b, of[k], ".lora_A.weight", (ft_parameter_spec){.rows = some[k].rank, .cols = l->inputs, .decay = true,
                                                                                       .adapter = true, .joins_group = k > 0, .drawn = drawn});
    }
    for (int k = 0; k < adapters; k++) {
        const int64_t outputs = count == 1 ? l->outputs : some[k].first == 0 ? l->lead : l->width;
        some[k].b = ft_build_parameter(b, of[k], ".lora_B.weight", (ft_parameter_spec){.rows = outputs, .cols = some[k].rank, .heads = heads, .decay = true,
                                                                                       .adapter = true, .drawn = drawn_b(b->options, (double)some[k].rank)});
    }
    const bool dora = b->options->adapter.type == FT_ADAPTER_DORA;
    for (int k = 0; k < adapters && !b->failed; k++) {
        const int64_t outputs = count == 1 ? l->outputs : some[k].first == 0 ? l->lead : l->width;
        const bool zero = b->options->adapter.init != FT_ADAPTER_INIT_FALSE;
        const ft_drawn drawn = {FT_DRAWN_NORMS, some[k].scale, l->weight + (count == 1 ? 0 : some[k].first), some[k].a, zero ? -1 : some[k].b};
        some[k].magnitude = !dora ? -1 : ft_build_parameter(b, of[k], ".lora_magnitude_vector", (ft_parameter_spec){
            .rows = outputs, .cols = 1, .heads = heads, .column = true, .wide = true, .decay = true, .adapter = true, .drawn = drawn});
    }
    ft_adapter *kept = ft_arena_alloc(&b->model->arena, (size_t)adapters * sizeof *kept);
    b->failed |= kept == NULL;
    if (kept == NULL) return;
    memcpy(kept, some, (size_t)adapters * sizeof *kept);
    l->adapters = kept;
    l->adapter_count = adapters;
}

int ft_build_mixing(ft_builder *b, const char *name, int64_t heads) {
    const int weight = ft_build_matrix(b, name, heads, heads);
    if (b->model->modules == NULL || b->failed) return weight;
    const char *module = note_module(b, name);
    if (module == NULL || ft_adapter_of(b->options, b->config, module).rank == 0) return weight;
    ft_fail(FT_INVALID, "adapter.targets", "%s mixes the heads of an attention: it can have no adapter here", module);
    ft_hint("set adapter.exclude=%s", strrchr(module, '.') + 1);
    b->failed = true;
    return weight;
}

ft_norm ft_build_norm(ft_builder *b, const char *name, int64_t width) {
    const int gamma = ft_build_parameter(b, name, ".weight", (ft_parameter_spec){.cols = width, .wide = true});
    const bool rms = b->config->rms_norms;
    if (b->config->unbiased_norms || rms) return (ft_norm){gamma, -1, rms};
    return (ft_norm){gamma, ft_build_parameter(b, name, ".bias", (ft_parameter_spec){.cols = width, .wide = true}), false};
}

// Parameters that are trained stand together, and so do frozen ones.
static bool are_alike(const ft_parameter *first, int count) {
    for (int i = 1; i < count; i++)
        if (first[i].trainable != first->trainable) return false;
    return true;
}

void ft_build_apart(ft_builder *b, ft_linear *l) {
    if (b->failed) return;
    ft_parameter *weight = &b->model->parameters.list[l->weight], *bias = l->bias >= 0 ? &b->model->parameters.list[l->bias] : NULL;
    l->apart = !are_alike(weight, l->parts) || (bias != NULL && !are_alike(bias, l->parts));
    for (int i = 0; i < l->parts && l->apart; i++) {
        weight[i].starts_group = true;
        if (bias != NULL) bias[i].starts_group = true;
    }
}

void ft_build_until_end(ft_builder *b, int index) {
    const int end = ft_backward_point(b->model->layers + 2, 0);
    if (index >= 0 && !b->failed) ft_parameters_share_end(&b->model->parameters, index, end);
}

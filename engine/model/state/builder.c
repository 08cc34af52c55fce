#include "engine/model/state/builder.h"

#include "engine/model/state/gradients.h"

#include <stdarg.h>
#include <stdio.h>

void ft_build_prefix(ft_builder *b, const char *format, ...) {
    va_list arguments;
    int length = snprintf(b->prefix, sizeof b->prefix, "%s", b->model->family->prefix);
    va_start(arguments, format);
    vsnprintf(b->prefix + length, sizeof b->prefix - (size_t)length, format, arguments);
    va_end(arguments);
}

int ft_build_parameter(ft_builder *b, const char *suffix, const char *kind, ft_parameter_spec spec) {
    char name[256];
    snprintf(name, sizeof name, "%s%s%s", b->prefix, suffix, kind);
    spec.name = name;
    spec.trainable = b->trainable;
    spec.head = b->head;
    spec.depth = b->depth;
    spec.point = ft_backward_point(b->depth, b->half);
    int index = ft_parameters_add(&b->model->parameters, spec);
    if (index < 0) b->failed = true;
    return index;
}

int ft_build_matrix(ft_builder *b, const char *name, int64_t rows, int64_t cols) {
    return ft_build_parameter(b, name, ".weight", (ft_parameter_spec){.rows = rows, .cols = cols, .decay = true});
}

int ft_build_bias(ft_builder *b, const char *name, int64_t width) {
    return ft_build_parameter(b, name, ".bias", (ft_parameter_spec){.cols = width});
}

ft_linear ft_build_linear_without_bias(ft_builder *b, const char *name, int64_t outputs, int64_t inputs) {
    const int weight = ft_build_matrix(b, name, outputs, inputs);
    return (ft_linear){.weight = weight, .bias = -1, .inputs = inputs, .outputs = outputs, .parts = 1, .lead = outputs};
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

ft_norm ft_build_norm(ft_builder *b, const char *name, int64_t width) {
    const int gamma = ft_build_parameter(b, name, ".weight", (ft_parameter_spec){.cols = width, .wide = true});
    if (b->config->unbiased_norms) return (ft_norm){gamma, -1};
    return (ft_norm){gamma, ft_build_parameter(b, name, ".bias", (ft_parameter_spec){.cols = width, .wide = true})};
}

void ft_build_until_end(ft_builder *b, int index) {
    const int end = ft_backward_point(b->model->layers + 2, 0);
    if (index >= 0 && !b->failed) ft_parameters_share(&b->model->parameters, index, end);
}

// builder.h - registers the parameters of a model, block by block: in the order in which the backward pass completes their gradients.
//
// Names are "<prefix><name>.weight" and "<prefix><name>.bias". What fails is known at the end: `failed`, with the error set.
#ifndef FT_BUILDER_H
#define FT_BUILDER_H

#include "engine/model/state/net.h"

typedef struct ft_builder {
    ft_model *model;
    const ft_model_config *config;
    char prefix[96];
    bool trainable, head; // of the parameters added now
    int depth, half;      // of which block they are, and when the backward pass comes to them (gradients.h)
    bool failed;
} ft_builder;

// Names of a layer begin with the family's prefix and its number.
void ft_build_prefix(ft_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The index in the registry; of `spec` the name, and what the builder knows, are filled in here.
int ft_build_parameter(ft_builder *b, const char *name, const char *kind, ft_parameter_spec spec);
int ft_build_matrix(ft_builder *b, const char *name, int64_t rows, int64_t cols);
int ft_build_bias(ft_builder *b, const char *name, int64_t width);
ft_linear ft_build_linear(ft_builder *b, const char *name, int64_t outputs, int64_t inputs);
ft_linear ft_build_linear_without_bias(ft_builder *b, const char *name, int64_t outputs, int64_t inputs);
// One of the layers that families name: with a bias, unless the family says otherwise.
ft_linear ft_build_layer_linear(ft_builder *b, ft_layer_linear which, const char *name, int64_t outputs, int64_t inputs);
ft_norm ft_build_norm(ft_builder *b, const char *name, int64_t width);
// The gradient of the parameter is not complete before the end of the step; index -1: there is none.
void ft_build_until_end(ft_builder *b, int index);

#endif

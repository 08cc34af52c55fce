// builder.h - registers the parameters of a model, block by block: in the order in which the backward pass completes their gradients.
//
// Names are "<prefix><name>.weight" and "<prefix><name>.bias". What fails is known at the end: `failed`, with the error set.
#ifndef FT_BUILDER_H
#define FT_BUILDER_H

#include "engine/model/state/net.h"

// The linear layers there are, where some have adapters.
typedef struct ft_modules {
    int count, capacity;
    const char **names;
    uint32_t adapters;
} ft_modules;

// Weights that layers may share: the layer that was built with them, and which of the registry are theirs.
typedef struct ft_layer_weights {
    bool built, trainable;
    int layer, first, end;
} ft_layer_weights;

typedef struct ft_builder {
    ft_model *model;
    const ft_model_config *config;
    const ft_config *options;
    char prefix[96];
    ft_layer_weights *weights; // [layers]
    bool trainable, head; // of the parameters added now; of the trunk those are trained that train.parameters names
    int depth, half;      // of which block they are, and when the backward pass comes to them (gradients.h)
    bool failed;
} ft_builder;

// Names of a layer begin with the family's prefix and its number.
void ft_build_prefix(ft_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The index in the registry; of `spec` the name, and what the builder knows, are filled in here.
int ft_build_parameter(ft_builder *b, const char *name, const char *kind, ft_parameter_spec spec);
int ft_build_matrix(ft_builder *b, const char *name, int64_t rows, int64_t cols);
// The weight of a linear layer.
int ft_build_factor(ft_builder *b, const char *name, ft_parameter_spec spec);
int ft_build_bias(ft_builder *b, const char *name, int64_t width);
ft_linear ft_build_linear(ft_builder *b, const char *name, int64_t outputs, int64_t inputs);
ft_linear ft_build_linear_without_bias(ft_builder *b, const char *name, int64_t outputs, int64_t inputs);
// One of the layers that families name: with a bias, unless the family says otherwise.
ft_linear ft_build_layer_linear(ft_builder *b, ft_layer_linear which, const char *name, int64_t outputs, int64_t inputs);
// By which heads are mixed: a matrix like others, but one that can have no adapter.
int ft_build_mixing(ft_builder *b, const char *name, int64_t heads);
// Adapters of a layer whose parts are called so: as many names as parts, or one for all of them. Behind its weights.
void ft_build_adapters(ft_builder *b, ft_linear *l, int count, const char *const *names);
// By which the next adapter of a layer drops what it reads; `first`: the layer's first adapter, NULL: this is it.
uint32_t ft_build_adapter_number(ft_builder *b, const ft_adapter *first);
ft_norm ft_build_norm(ft_builder *b, const char *name, int64_t width);
// Of a layer whose parts are parameters of their own: do all of them stand together?
void ft_build_apart(ft_builder *b, ft_linear *l);
// The gradient of the parameter is not complete before the end of the step; index -1: there is none.
void ft_build_until_end(ft_builder *b, int index);

#endif

// model.c - which parameters a classifier has, in the order their gradients are completed.
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Registers one parameter; names are "<prefix><name><kind>".
typedef struct builder {
    ft_parameters *parameters;
    char prefix[96];
    bool trainable, head;
    bool failed;
} builder;

static int add(builder *b, const char *suffix, const char *kind, int64_t rows, int64_t cols, bool decay, bool joins) {
    char name[256];
    snprintf(name, sizeof name, "%s%s%s", b->prefix, suffix, kind);
    int index = ft_parameters_add(b->parameters, (ft_parameter_spec){.name = name,
                                                                     .rows = rows,
                                                                     .cols = cols,
                                                                     .trainable = b->trainable,
                                                                     .decay = decay,
                                                                     .joins_group = joins,
                                                                     .head = b->head});
    if (index < 0) b->failed = true;
    return index;
}

static ft_linear_parameters add_linear(builder *b, const char *name, int64_t outputs, int64_t inputs) {
    int weight = add(b, name, ".weight", outputs, inputs, true, false);
    return (ft_linear_parameters){weight, add(b, name, ".bias", 0, outputs, false, false), inputs, outputs};
}

static void add_norm(builder *b, const char *name, int64_t width, int *gamma, int *beta) {
    *gamma = add(b, name, ".weight", 0, width, false, false);
    *beta = add(b, name, ".bias", 0, width, false, false);
}

static void add_layer(builder *b, ft_model *m, int index) {
    ft_layer_parameters *l = &m->layer[index];
    const ft_layer_names *n = &m->family->names;
    int64_t h = m->hidden, f = m->intermediate;
    snprintf(b->prefix, sizeof b->prefix, "%s%s.%d.", m->family->prefix, m->family->layer, index);
    add_norm(b, n->norm2, h, &l->norm2_gamma, &l->norm2_beta);
    ft_linear_parameters down = add_linear(b, n->down, h, f), up = add_linear(b, n->up, f, h);
    l->down_weight = down.weight, l->down_bias = down.bias;
    l->up_weight = up.weight, l->up_bias = up.bias;
    add_norm(b, n->norm1, h, &l->norm1_gamma, &l->norm1_beta);
    ft_linear_parameters output = add_linear(b, n->output, h, h);
    l->output_weight = output.weight, l->output_bias = output.bias;
    l->qkv_weight = add(b, n->query, ".weight", h, h, true, false);
    add(b, n->key, ".weight", h, h, true, true);
    add(b, n->value, ".weight", h, h, true, true);
    l->qkv_bias = add(b, n->query, ".bias", 0, h, false, false);
    add(b, n->key, ".bias", 0, h, false, true);
    add(b, n->value, ".bias", 0, h, false, true);
}

static void add_head(builder *b, ft_model *m, const ft_int_list *hidden) {
    b->trainable = b->head = true;
    for (int i = m->head_count - 1; i >= 0; i--) {
        int64_t inputs = i == 0 ? m->hidden : hidden->values[i - 1];
        bool last = i == m->head_count - 1;
        char name[48];
        snprintf(name, sizeof name, "head.hidden.%d", i);
        m->head[i] = add_linear(b, last ? m->family->classifier : name, last ? m->labels : hidden->values[i], inputs);
    }
    m->pooler = add_linear(b, m->family->pooler, m->hidden, m->hidden);
    b->head = false;
}

static void add_embeddings(builder *b, ft_model *m, const ft_model_config *c) {
    int64_t width = m->embedding_width;
    b->trainable = m->embeddings_trained;
    m->widening.weight = m->widening.bias = m->token_type = -1;
    snprintf(b->prefix, sizeof b->prefix, "%s", m->family->prefix);
    if (width != m->hidden) m->widening = add_linear(b, m->family->widening_name, m->hidden, width);
    snprintf(b->prefix, sizeof b->prefix, "%sembeddings.", m->family->prefix);
    add_norm(b, "LayerNorm", width, &m->embedding_gamma, &m->embedding_beta);
    if (c->type_vocab_size > 0)
        m->token_type = add(b, "token_type_embeddings", ".weight", c->type_vocab_size, width, true, false);
    m->position = add(b, "position_embeddings", ".weight", c->position_rows, width, true, false);
    m->word = add(b, "word_embeddings", ".weight", c->vocab_size, width, true, false);
}

static double or_else(double value, double fallback) { return isnan(value) ? fallback : value; }

static ft_status check_options(const ft_model_config *c, const ft_config *o) {
    if (o->model.freeze_layers > c->num_hidden_layers)
        return ft_fail(FT_INVALID, "model.freeze_layers", "%lld layers cannot be frozen, the model has %lld",
                       (long long)o->model.freeze_layers, (long long)c->num_hidden_layers);
    if (o->train.gradient_checkpointing != FT_AUTO && o->train.gradient_checkpointing > c->num_hidden_layers)
        return ft_fail(FT_INVALID, "train.gradient_checkpointing", "every %lld layers, but the model has %lld",
                       (long long)o->train.gradient_checkpointing, (long long)c->num_hidden_layers);
    return FT_OK;
}

ft_status ft_model_create(ft_memory *memory, const ft_model_config *c, const ft_config *o, int32_t label_count, ft_model *m) {
    memset(m, 0, sizeof *m);
    FT_TRY(check_options(c, o));
    m->family = c->family;
    m->memory = memory;
    m->device = ft_memory_device(memory);
    m->layers = (int32_t)c->num_hidden_layers;
    m->heads = (int32_t)c->num_attention_heads;
    m->head_dim = (int32_t)(c->hidden_size / c->num_attention_heads);
    m->hidden = c->hidden_size;
    m->intermediate = c->intermediate_size;
    m->embedding_width = c->embedding_size;
    m->activation = c->hidden_act;
    m->epsilon = (float)c->layer_norm_eps;
    m->labels = label_count;
    m->padding_id = (int32_t)c->pad_token_id;
    m->first_position = (int32_t)(c->position_rows - c->max_position_embeddings);
    m->hidden_dropout = (float)or_else(o->model.hidden_dropout, c->hidden_dropout_prob);
    m->attention_dropout = (float)or_else(o->model.attention_dropout, c->attention_probs_dropout_prob);
    // An override of the hidden dropout reaches the classifier where config.json leaves it to the hidden one.
    m->classifier_dropout = (float)or_else(o->model.classifier_dropout, c->classifier_dropout);
    m->head_dropout = (float)or_else(o->model.head.dropout, m->classifier_dropout);
    m->attention_output_dropout = m->family->attention_output_dropout ? m->hidden_dropout : 0;
    m->pooler_dropout = m->family->dropout_before_pooler ? m->classifier_dropout : 0;
    m->pooler_activation = m->family->pooler_activation;
    m->checkpoint_every = o->train.gradient_checkpointing == FT_AUTO ? 0 : (int32_t)o->train.gradient_checkpointing;
    m->embeddings_trained = o->model.freeze == FT_FREEZE_NONE && o->model.freeze_layers == 0;
    m->first_trained_layer = o->model.freeze == FT_FREEZE_ENCODER ? m->layers : (int32_t)o->model.freeze_layers;
    FT_TRY(ft_activation_from_name(o->model.head.activation, &m->head_activation));

    m->head_count = o->model.head.hidden.count + 1;
    m->layer = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *m->layer);
    m->head = ft_arena_alloc(&m->arena, (size_t)m->head_count * sizeof *m->head);
    if (m->layer == NULL || m->head == NULL) return FT_NO_MEMORY;

    builder b = {.parameters = &m->parameters};
    add_head(&b, m, &o->model.head.hidden);
    for (int l = m->layers - 1; l >= 0; l--) {
        b.trainable = l >= m->first_trained_layer;
        add_layer(&b, m, l);
    }
    add_embeddings(&b, m, c);
    if (b.failed) return FT_NO_MEMORY;
    return ft_parameters_allocate(&m->parameters, memory);
}

ft_status ft_model_prepare_training(ft_model *model, double weight_decay) {
    return ft_parameters_allocate_training(&model->parameters, weight_decay);
}

void ft_model_free(ft_model *model) {
    ft_parameters_free(&model->parameters);
    ft_arena_free(&model->arena);
    memset(model, 0, sizeof *model);
}

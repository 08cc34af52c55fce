// model.c - which parameters a BERT classifier has, in the order their gradients are completed.
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Registers one parameter; names are "<prefix>.<suffix>".
typedef struct builder {
    ft_parameters *parameters;
    char prefix[96];
    bool trainable, head;
    bool failed;
} builder;

static int add(builder *b, const char *suffix, int64_t rows, int64_t cols, bool decay, bool joins) {
    char name[192];
    snprintf(name, sizeof name, "%s%s%s", b->prefix, b->prefix[0] ? "." : "", suffix);
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
    char weight[96], bias[96];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return (ft_linear_parameters){add(b, weight, outputs, inputs, true, false), add(b, bias, 0, outputs, false, false), inputs,
                                  outputs};
}

static void add_layer(builder *b, ft_model *m, int index) {
    ft_layer_parameters *l = &m->layer[index];
    int64_t h = m->hidden, f = m->intermediate;
    snprintf(b->prefix, sizeof b->prefix, "bert.encoder.layer.%d", index);
    l->norm2_gamma = add(b, "output.LayerNorm.weight", 0, h, false, false);
    l->norm2_beta = add(b, "output.LayerNorm.bias", 0, h, false, false);
    l->down_weight = add(b, "output.dense.weight", h, f, true, false);
    l->down_bias = add(b, "output.dense.bias", 0, h, false, false);
    l->up_weight = add(b, "intermediate.dense.weight", f, h, true, false);
    l->up_bias = add(b, "intermediate.dense.bias", 0, f, false, false);
    l->norm1_gamma = add(b, "attention.output.LayerNorm.weight", 0, h, false, false);
    l->norm1_beta = add(b, "attention.output.LayerNorm.bias", 0, h, false, false);
    l->output_weight = add(b, "attention.output.dense.weight", h, h, true, false);
    l->output_bias = add(b, "attention.output.dense.bias", 0, h, false, false);
    l->qkv_weight = add(b, "attention.self.query.weight", h, h, true, false);
    add(b, "attention.self.key.weight", h, h, true, true);
    add(b, "attention.self.value.weight", h, h, true, true);
    l->qkv_bias = add(b, "attention.self.query.bias", 0, h, false, false);
    add(b, "attention.self.key.bias", 0, h, false, true);
    add(b, "attention.self.value.bias", 0, h, false, true);
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
    m->memory = memory;
    m->device = ft_memory_device(memory);
    m->layers = (int32_t)c->num_hidden_layers;
    m->heads = (int32_t)c->num_attention_heads;
    m->head_dim = (int32_t)(c->hidden_size / c->num_attention_heads);
    m->hidden = c->hidden_size;
    m->intermediate = c->intermediate_size;
    m->activation = c->hidden_act;
    m->epsilon = (float)c->layer_norm_eps;
    m->labels = label_count;
    m->padding_id = (int32_t)c->pad_token_id;
    m->max_positions = (int32_t)c->max_position_embeddings;
    m->hidden_dropout = (float)or_else(o->model.hidden_dropout, c->hidden_dropout_prob);
    m->attention_dropout = (float)or_else(o->model.attention_dropout, c->attention_probs_dropout_prob);
    // An override of the hidden dropout reaches the classifier where config.json leaves it to the hidden one.
    m->classifier_dropout = (float)or_else(o->model.classifier_dropout, c->classifier_dropout);
    m->head_dropout = (float)or_else(o->model.head.dropout, m->classifier_dropout);
    m->checkpoint_every = o->train.gradient_checkpointing == FT_AUTO ? 0 : (int32_t)o->train.gradient_checkpointing;
    m->embeddings_trained = o->model.freeze == FT_FREEZE_NONE && o->model.freeze_layers == 0;
    m->first_trained_layer = o->model.freeze == FT_FREEZE_ENCODER ? m->layers : (int32_t)o->model.freeze_layers;
    FT_TRY(ft_activation_from_name(o->model.head.activation, &m->head_activation));

    m->head_count = o->model.head.hidden.count + 1;
    m->layer = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *m->layer);
    m->head = ft_arena_alloc(&m->arena, (size_t)m->head_count * sizeof *m->head);
    if (m->layer == NULL || m->head == NULL) return FT_NO_MEMORY;

    builder b = {.parameters = &m->parameters, .trainable = true, .head = true};
    for (int i = m->head_count - 1; i >= 0; i--) {
        int64_t inputs = i == 0 ? m->hidden : o->model.head.hidden.values[i - 1];
        bool last = i == m->head_count - 1;
        char name[48];
        snprintf(name, sizeof name, last ? "classifier" : "head.hidden.%d", i);
        m->head[i] = add_linear(&b, name, last ? label_count : o->model.head.hidden.values[i], inputs);
    }
    snprintf(b.prefix, sizeof b.prefix, "bert.pooler");
    m->pooler = add_linear(&b, "dense", m->hidden, m->hidden);
    b.head = false;
    for (int l = m->layers - 1; l >= 0; l--) {
        b.trainable = l >= m->first_trained_layer;
        add_layer(&b, m, l);
    }
    b.trainable = m->embeddings_trained;
    snprintf(b.prefix, sizeof b.prefix, "bert.embeddings");
    m->embedding_gamma = add(&b, "LayerNorm.weight", 0, m->hidden, false, false);
    m->embedding_beta = add(&b, "LayerNorm.bias", 0, m->hidden, false, false);
    m->token_type = add(&b, "token_type_embeddings.weight", c->type_vocab_size, m->hidden, true, false);
    m->position = add(&b, "position_embeddings.weight", c->max_position_embeddings, m->hidden, true, false);
    m->word = add(&b, "word_embeddings.weight", c->vocab_size, m->hidden, true, false);
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

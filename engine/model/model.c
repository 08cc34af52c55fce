// model.c - which parameters a classifier has, in the order their gradients are completed.
#include "engine/model/model.h"

#include "engine/model/blocks/linear.h"
#include "engine/model/state/gradients.h"
#include "kernels/ops/disentangled_attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Registers one parameter; names are "<prefix><name><kind>".
typedef struct builder {
    ft_parameters *parameters;
    char prefix[96];
    bool trainable, head;
    int depth, half; // of the parameters added now: of which block, and when the backward pass comes to them (gradients.h)
    bool failed;
} builder;

static int add(builder *b, const char *suffix, const char *kind, ft_parameter_spec spec) {
    char name[256];
    snprintf(name, sizeof name, "%s%s%s", b->prefix, suffix, kind);
    spec.name = name;
    spec.trainable = b->trainable;
    spec.head = b->head;
    spec.depth = b->depth;
    spec.point = ft_backward_point(b->depth, b->half);
    int index = ft_parameters_add(b->parameters, spec);
    if (index < 0) b->failed = true;
    return index;
}

static int add_matrix(builder *b, const char *name, int64_t rows, int64_t cols) {
    return add(b, name, ".weight", (ft_parameter_spec){.rows = rows, .cols = cols, .decay = true});
}

static int add_bias(builder *b, const char *name, int64_t width) { return add(b, name, ".bias", (ft_parameter_spec){.cols = width}); }

static ft_linear add_linear_without_bias(builder *b, const char *name, int64_t outputs, int64_t inputs) {
    return (ft_linear){.weight = add_matrix(b, name, outputs, inputs), .bias = -1, .inputs = inputs, .outputs = outputs, .parts = 1};
}

static ft_linear add_linear(builder *b, const char *name, int64_t outputs, int64_t inputs) {
    ft_linear l = add_linear_without_bias(b, name, outputs, inputs);
    l.bias = add_bias(b, name, outputs);
    return l;
}

static ft_norm add_norm(builder *b, const char *name, int64_t width) {
    int gamma = add(b, name, ".weight", (ft_parameter_spec){.cols = width, .wide = true});
    return (ft_norm){gamma, add(b, name, ".bias", (ft_parameter_spec){.cols = width, .wide = true})};
}

// The parts of qkv: their weights in one block and their biases in another.
static void add_qkv(builder *b, const ft_model *m, ft_layer_parameters *l) {
    const ft_layer_names *n = &m->family->names;
    int64_t h = m->hidden;
    l->qkv = (ft_linear){.inputs = h, .outputs = FT_QKV_PARTS * h, .parts = FT_QKV_PARTS};
    if (n->qkv != NULL) {
        l->qkv.weight = add(b, n->qkv, ".weight", (ft_parameter_spec){.rows = 3 * h, .cols = h, .heads = m->heads, .decay = true});
        l->qkv.bias = add(b, n->query, "", (ft_parameter_spec){.cols = h});
        add(b, n->value, "", (ft_parameter_spec){.cols = h, .gap = h, .joins_group = true});
        l->qkv.unbiased = 1u << FT_KEY;
        return;
    }
    const ft_parameter_spec weight = {.rows = h, .cols = h, .decay = true, .joins_group = true};
    const ft_parameter_spec bias = {.cols = h, .joins_group = true};
    l->qkv.weight = add_matrix(b, n->query, h, h);
    add(b, n->key, ".weight", weight);
    add(b, n->value, ".weight", weight);
    l->qkv.bias = add_bias(b, n->query, h);
    add(b, n->key, ".bias", bias);
    add(b, n->value, ".bias", bias);
}

// What the relative positions read has its gradient from the end of the step.
static void share_with_end(builder *b, const ft_model *m, int index) {
    if (index >= 0 && !b->failed) ft_parameters_share(b->parameters, index, ft_backward_point(m->layers + 2, 0));
}

// Parts that are used by themselves are parameters of their own, one behind the other.
static void share_linear_with_end(builder *b, const ft_model *m, const ft_linear *l) {
    if (l->weight >= 0) share_with_end(b, m, l->weight + l->first);
    if (l->bias >= 0) share_with_end(b, m, l->bias + l->first);
}

// The layer's own key and query project the relative positions, or two layers of their own do.
static void add_position_projections(builder *b, ft_model *m, const ft_relative_config *r, ft_layer_parameters *l) {
    const ft_layer_names *n = &m->family->names;
    int64_t h = m->hidden;
    l->pos_key = l->pos_query = (ft_linear){.weight = -1, .bias = -1};
    if (r->c2p && r->shared) l->pos_key = ft_linear_parts(&l->qkv, FT_KEY, 1);
    else if (r->c2p && n->pos_key_without_bias) l->pos_key = add_linear_without_bias(b, n->pos_key, h, h);
    else if (r->c2p) l->pos_key = add_linear(b, n->pos_key, h, h);
    if (r->p2c && r->shared) l->pos_query = ft_linear_parts(&l->qkv, FT_QUERY, 1);
    else if (r->p2c) l->pos_query = add_linear(b, n->pos_query, h, h);
    share_linear_with_end(b, m, &l->pos_key);
    share_linear_with_end(b, m, &l->pos_query);
}

static void add_layer(builder *b, ft_model *m, const ft_relative_config *r, int index) {
    ft_layer_parameters *l = &m->layer[index];
    const ft_layer_names *n = &m->family->names;
    int64_t h = m->hidden, f = m->intermediate;
    snprintf(b->prefix, sizeof b->prefix, "%s%s.%d.", m->family->prefix, m->family->layer, index);
    l->norm2 = add_norm(b, n->norm2, h);
    l->down = add_linear(b, n->down, h, f);
    l->up = add_linear(b, n->up, f, h);
    b->half = 1;
    l->norm1 = add_norm(b, n->norm1, h);
    l->output = add_linear(b, n->output, h, h);
    add_qkv(b, m, l);
    add_position_projections(b, m, r, l);
    b->half = 0;
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

// The convolution stands behind layer 0 and is trained with it.
static void add_convolution(builder *b, ft_model *m, const ft_convolution_config *c) {
    int64_t h = m->hidden;
    m->convolution = (ft_convolution){.taps = c->taps, .activation = c->activation};
    if (c->taps == 0) return;
    snprintf(b->prefix, sizeof b->prefix, "%sencoder.conv.", m->family->prefix);
    m->convolution.norm = add_norm(b, "LayerNorm", h);
    ft_linear *l = &m->convolution.linear;
    *l = (ft_linear){.inputs = h / c->groups * c->taps, .outputs = h, .parts = c->groups};
    l->weight = add(b, "conv", ".weight", (ft_parameter_spec){.rows = h, .cols = l->inputs, .taps = c->taps, .decay = true});
    l->bias = add_bias(b, "conv", h);
}

static void add_relative(builder *b, ft_model *m, const ft_relative_config *r) {
    m->relative = (ft_relative){.table = -1, .norm = {-1, -1}};
    if (!r->table) return;
    m->relative.rule = r->rule;
    m->relative.rows = 2 * ft_relative_span(r->rule);
    snprintf(b->prefix, sizeof b->prefix, "%sencoder.", m->family->prefix);
    if (r->norm) m->relative.norm = add_norm(b, "LayerNorm", m->hidden);
    m->relative.table = add_matrix(b, "rel_embeddings", m->relative.rows, m->hidden);
    const int used[] = {m->relative.table, m->relative.norm.gamma, m->relative.norm.beta};
    for (int i = 0; i < 3; i++) share_with_end(b, m, used[i]);
}

// The numbers that the attention and the dropout of the table read, on the device.
static ft_status upload_slots(ft_model *m, const ft_model_config *c) {
    ft_relative *r = &m->relative;
    if (r->rows == 0) return FT_OK;
    const ft_device_functions *d = m->device->functions;
    r->reach = ft_relative_reach(c->relative.rule, (int32_t)c->max_position_embeddings);
    size_t slots = 2 * (size_t)r->reach + 1, rows = (size_t)r->rows, bytes = (slots + 2 * rows) * sizeof(int32_t);
    int32_t *host = ft_calloc(slots + 2 * rows, sizeof *host, "the slots of relative positions");
    if (host == NULL) return FT_NO_MEMORY;
    ft_relative_slots(c->relative.rule, r->reach, host);
    for (size_t i = 0; i < rows; i++) host[slots + i] = (int32_t)i;
    void *data = NULL;
    ft_status status = ft_memory_alloc(m->memory, bytes, FT_MEM_WEIGHTS, "slots of relative positions", &data);
    r->slots = data;
    r->row_number = status == FT_OK ? r->slots + slots : NULL;
    r->zero = status == FT_OK ? r->row_number + rows : NULL;
    if (status == FT_OK) status = d->upload(m->device, data, host, bytes);
    if (status == FT_OK) status = d->sync(m->device); // `host` goes away
    free(host);
    return status;
}

static void add_embeddings(builder *b, ft_model *m, const ft_model_config *c) {
    int64_t width = m->embedding_width;
    m->widening.weight = m->widening.bias = m->token_type = m->position = -1;
    bool behind = m->family->widening == FT_WIDEN_AFTER_NORM;
    snprintf(b->prefix, sizeof b->prefix, "%s", m->family->prefix);
    if (width != m->hidden && behind) m->widening = add_linear(b, m->family->widening_name, m->hidden, width);
    snprintf(b->prefix, sizeof b->prefix, "%sembeddings.", m->family->prefix);
    m->embedding_norm = add_norm(b, "LayerNorm", behind ? width : m->hidden);
    if (width != m->hidden && !behind) {
        snprintf(b->prefix, sizeof b->prefix, "%s", m->family->prefix);
        m->widening = add_linear_without_bias(b, m->family->widening_name, m->hidden, width);
        snprintf(b->prefix, sizeof b->prefix, "%sembeddings.", m->family->prefix);
    }
    if (c->type_vocab_size > 0)
        m->token_type = add_matrix(b, "token_type_embeddings", c->type_vocab_size, width);
    if (c->position_rows > 0)
        m->position = add_matrix(b, "position_embeddings", c->position_rows, width);
    m->word = add_matrix(b, "word_embeddings", c->vocab_size, width);
}

static double or_else(double value, double fallback) { return isnan(value) ? fallback : value; }

static ft_status check_options(const ft_model_config *c, const ft_config *o) {
    if (o->model.freeze_layers > c->num_hidden_layers)
        return ft_fail(FT_INVALID, "model.freeze_layers", "%lld layers cannot be frozen, the model has %lld",
                       (long long)o->model.freeze_layers, (long long)c->num_hidden_layers);
    if (o->train.gradient_checkpointing != FT_AUTO && o->train.gradient_checkpointing > c->num_hidden_layers)
        return ft_fail(FT_INVALID, "train.gradient_checkpointing", "every %lld layers, but the model has %lld",
                       (long long)o->train.gradient_checkpointing, (long long)c->num_hidden_layers);
    return ft_recompute_check(o);
}

static ft_dtype dtype_of(ft_precision precision) {
    static const ft_dtype dtypes[] = {[FT_PRECISION_FP32] = FT_F32, [FT_PRECISION_BF16] = FT_BF16, [FT_PRECISION_FP16] = FT_F16};
    return dtypes[precision];
}

static bool trains_layer(const ft_config *o, int layer) {
    return o->model.freeze != FT_FREEZE_ENCODER && layer >= o->model.freeze_layers;
}

bool ft_model_trains_embeddings(const ft_config *o) { return o->model.freeze == FT_FREEZE_NONE && trains_layer(o, 0); }

// How deep the backward pass must go: to the lowest block of which a parameter is trained.
static void find_lowest_trained(ft_model *m) {
    int lowest = 0;
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *q = &m->parameters.list[i];
        if (q->trainable && ft_backward_block(q->arrives) > lowest) lowest = ft_backward_block(q->arrives);
    }
    m->embeddings_trained = lowest > m->layers;
    m->first_trained_layer = m->embeddings_trained ? 0 : m->layers - lowest;
}

ft_status ft_model_create(ft_memory *memory, const ft_model_config *c, const ft_config *o, int32_t label_count, ft_model *m) {
    return ft_model_create_with(memory, c, o, label_count, NULL, m);
}

ft_status ft_model_create_with(ft_memory *memory, const ft_model_config *c, const ft_config *o, int32_t label_count,
                               const ft_word_rows *word_rows, ft_model *m) {
    memset(m, 0, sizeof *m);
    FT_TRY(check_options(c, o));
    m->family = c->family;
    m->memory = memory;
    m->device = ft_memory_device(memory);
    m->dtype = m->parameters.dtype = dtype_of(o->train.precision);
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
    m->position_padding = c->family->positions == FT_POSITIONS_BEHIND_PADDING ? m->padding_id : -1;
    m->score_scale = 1.0f / sqrtf((float)(m->head_dim * c->relative.factor));
    m->hidden_dropout = (float)or_else(o->model.hidden_dropout, c->hidden_dropout_prob);
    m->attention_dropout = (float)or_else(o->model.attention_dropout, c->attention_probs_dropout_prob);
    // An override of the hidden dropout reaches the classifier where config.json leaves it to the hidden one.
    m->classifier_dropout = (float)or_else(o->model.classifier_dropout, c->classifier_dropout);
    m->head_dropout = (float)or_else(o->model.head.dropout, m->classifier_dropout);
    m->attention_output_dropout = m->family->attention_output_dropout ? m->hidden_dropout : 0;
    m->pooler_dropout = m->family->dropout_before_pooler ? m->classifier_dropout : (float)c->relative.pooler_dropout;
    m->pooler_activation = c->relative.pooler_activation;
    ft_model_set_recomputation(m, o);
    m->layer_lr_decay = o->train.layer_lr_decay > 0 ? o->train.layer_lr_decay : 1;
    FT_TRY(ft_activation_from_name(o->model.head.activation, &m->head_activation));

    m->head_count = o->model.head.hidden.count + 1;
    m->layer = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *m->layer);
    m->head = ft_arena_alloc(&m->arena, (size_t)m->head_count * sizeof *m->head);
    if (m->layer == NULL || m->head == NULL) return FT_NO_MEMORY;

    builder b = {.parameters = &m->parameters};
    add_head(&b, m, &o->model.head.hidden);
    for (int l = m->layers - 1; l >= 0; l--) {
        b.trainable = trains_layer(o, l);
        b.depth = m->layers - l;
        if (l == 0) add_convolution(&b, m, &c->convolution);
        add_layer(&b, m, &c->relative, l);
    }
    b.depth = m->layers + 1;
    b.trainable = ft_model_trains_embeddings(o);
    add_relative(&b, m, &c->relative);
    add_embeddings(&b, m, c);
    if (b.failed) return FT_NO_MEMORY;
    find_lowest_trained(m);
    const ft_word_rows *v = word_rows;
    m->absent = (ft_absent_rows){.word_rows = v, .parameters = &m->parameters};
    m->parameters.place = ft_offloads_optimizer(o, m->device) ? FT_PLACE_HOST : FT_PLACE_DEVICE;
    ft_parameters_set_table(&m->parameters, m->word, v ? v->held : c->vocab_size, v ? v->trained : c->vocab_size);
    FT_TRY(ft_parameters_allocate(&m->parameters, memory));
    return upload_slots(m, c);
}

ft_status ft_model_keep_master(ft_model *model) { return ft_parameters_allocate_master(&model->parameters); }

ft_status ft_model_set_loss(ft_model *m, const ft_loss *loss) {
    m->loss = *loss;
    const bool targets = loss->kind == FT_LOSS_BCE || loss->kind == FT_LOSS_MSE;
    m->targets = targets ? m->labels : 0;
    if (loss->class_weight == NULL) return FT_OK;
    const ft_device_functions *f = m->device->functions;
    void *data;
    size_t bytes = (size_t)m->labels * sizeof(float);
    FT_TRY(ft_memory_alloc(m->memory, bytes, FT_MEM_DATA, "class weights", &data));
    m->class_weight = data;
    FT_TRY(f->upload(m->device, data, loss->class_weight, bytes));
    return f->sync(m->device); // the caller's weights may go away
}

ft_status ft_model_prepare_training(ft_model *model, double weight_decay) {
    const ft_word_rows *v = model->parameters.list[model->word].trainable ? model->absent.word_rows : NULL;
    FT_TRY(ft_parameters_allocate_training(&model->parameters, weight_decay, model->layer_lr_decay, v != NULL ? v->blocks : NULL));
    return ft_absent_rows_prepare(&model->absent);
}

void ft_model_free(ft_model *model) {
    if (model->class_weight != NULL) ft_memory_free(model->memory, model->class_weight);
    if (model->memory != NULL) ft_model_release_positions(model);
    ft_model_release_inputs(model);
    if (model->relative.slots != NULL) ft_memory_free(model->memory, model->relative.slots);
    ft_absent_rows_free(&model->absent);
    ft_parameters_free(&model->parameters);
    ft_arena_free(&model->arena);
    memset(model, 0, sizeof *model);
}

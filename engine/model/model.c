// model.c - a classifier put together: blocks register parameters in the order in which their gradients are completed.
#include "engine/model/model.h"

#include "engine/model/blocks/convolution.h"
#include "engine/model/blocks/patches.h"
#include "engine/model/blocks/position_bias.h"
#include "engine/model/blocks/relative.h"
#include "engine/model/blocks/rotary.h"
#include "engine/model/mapped_files.h"
#include "engine/model/spec/adapter.h"
#include "engine/model/spec/trained.h"
#include "engine/model/gradients/gradients.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double or_else(double value, double fallback) { return isnan(value) ? fallback : value; }

static ft_status check_options(const ft_model_config *c, const ft_config *o) {
    if (o->model.freeze_layers > c->num_hidden_layers)
        return ft_fail(FT_INVALID, "model.freeze_layers", "%lld layers cannot be frozen, the model has %lld",
                       (long long)o->model.freeze_layers, (long long)c->num_hidden_layers);
    if (o->train.gradient_checkpointing != FT_AUTO && o->train.gradient_checkpointing > c->num_hidden_layers)
        return ft_fail(FT_INVALID, "train.gradient_checkpointing", "every %lld layers, but the model has %lld",
                       (long long)o->train.gradient_checkpointing, (long long)c->num_hidden_layers);
    if (o->adapter.type != FT_ADAPTER_NONE && c->family->other_modules)
        return ft_fail(FT_INVALID, "adapter.type", "adapters beside %s are not supported: its modules have other names in transformers than in its files", c->model_type);
    FT_TRY(ft_adapter_check(o));
    return ft_recompute_check(o);
}

static ft_dtype dtype_of(ft_precision precision) {
    static const ft_dtype dtypes[] = {[FT_PRECISION_FP32] = FT_F32, [FT_PRECISION_BF16] = FT_BF16, [FT_PRECISION_FP16] = FT_F16,
                                      [FT_PRECISION_AUTO] = FT_F32, [FT_PRECISION_INT8] = FT_F32};
    return dtypes[precision];
}

static ft_dtype row_dtype_of(const ft_config *o) {
    const bool rounds = o->train.residual == FT_RESIDUAL_16BIT && ft_precision_is_half(o->train.precision);
    return rounds ? dtype_of(o->train.precision) : FT_F32;
}

static bool trains_layer(const ft_config *o, int layer) {
    return o->model.freeze != FT_FREEZE_ENCODER && layer >= o->model.freeze_layers;
}

static bool trains_embeddings(const ft_config *o) { return o->model.freeze == FT_FREEZE_NONE && trains_layer(o, 0); }

bool ft_model_trains_words(const ft_model_config *c, const ft_config *o) {
    char name[128];
    if (ft_model_config_reads_pictures(c)) return false;
    snprintf(name, sizeof name, "%s%s.weight", c->family->prefix, c->family->embeddings.word);
    if (o->adapter.type != FT_ADAPTER_NONE) return ft_adapter_trains(o, c, name);
    return trains_embeddings(o) && ft_trained_by_name(o, name);
}

// How deep the backward pass must go: to the lowest block of which a parameter is trained.
static void find_lowest_trained(ft_model *m) {
    int lowest = 0;
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *q = &m->parameters.list[i];
        if (q->trainable && q->lowest > lowest) lowest = q->lowest;
    }
    m->embeddings_trained = ft_backward_block(lowest) > m->layers;
    m->first_trained_layer = m->embeddings_trained ? 0 : m->layers - ft_backward_block(lowest);
    m->lowest_trained_block = m->embeddings_trained ? 0 : FT_LAYER_BLOCKS - 1 - ft_backward_half(lowest);
}

static bool frozen_drops(const ft_config *o) {
    return o->train.frozen_dropout == FT_FROZEN_DROPOUT_ON ||
           (o->train.frozen_dropout == FT_FROZEN_DROPOUT_AUTO && !ft_trained_is_probe(o));
}

bool ft_model_trunk_is_fixed(const ft_config *o) {
    const bool frozen = ft_trained_is_probe(o) || o->model.freeze == FT_FREEZE_ENCODER;
    return frozen && o->adapter.type == FT_ADAPTER_NONE && !frozen_drops(o);
}

size_t ft_model_feature_bytes(const ft_model *m) { return (size_t)m->read_width * ft_dtype_size(m->dtype); }
int64_t ft_model_patch_numbers(const ft_model *m) { return m->patches != NULL ? m->patches->inputs : 0; }
bool ft_model_trains_patch_vectors(const ft_model *m) {
    bool any = false;
    for (int i = 0; m->patches != NULL && i < m->patches->vectors; i++) any |= m->parameters.list[m->patches->vector[i]].trainable;
    return any;
}
void ft_model_read_features(ft_model *m, bool reads) { m->reads_features = reads; }

// Layers, and the embeddings, that drop nothing: of which nothing is trained, where it was asked for.
static ft_status find_quiet(ft_model *m, const ft_config *o) {
    if (frozen_drops(o)) return FT_OK;
    m->quiet = ft_arena_alloc(&m->arena, ((size_t)m->layers + 1) * sizeof *m->quiet);
    if (m->quiet == NULL) return FT_NO_MEMORY;
    for (int i = 0; i <= m->layers; i++) m->quiet[i] = true;
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *q = &m->parameters.list[i];
        const int block = ft_backward_block(q->arrives); // 0 is the head, which is trained
        if (!q->trainable || q->adapter || block == 0) continue;
        if (block > m->layers) m->quiet[0] = false;
        for (int l = 0; block <= m->layers && l < m->layers; l++) // and where else these weights are
            if (m->layer[l].qkv.weight == m->layer[m->layers - block].qkv.weight) m->quiet[l + 1] = false;
    }
    return FT_OK;
}

int ft_model_quiet_parts(const ft_model *m) {
    int quiet = 0;
    for (int i = 0; m->quiet != NULL && i <= m->layers; i++) quiet += m->quiet[i];
    return quiet;
}

static const char *name_at(const void *context, int index) { return ((const ft_model *)context)->parameters.list[index].name; }

ft_status ft_model_create(ft_memory *memory, const ft_model_config *c, const ft_config *o, int32_t label_count, ft_model *m) {
    return ft_model_create_with(memory, c, o, label_count, NULL, NULL, false, m);
}

static void set_shape(ft_model *m, const ft_model_config *c, int32_t label_count) {
    m->layers = (int32_t)c->num_hidden_layers;
    m->heads.count = (int32_t)c->num_attention_heads;
    m->heads.key_values = (int32_t)c->key_value_heads;
    m->heads.width = (int32_t)c->head_width;
    m->heads.scale = 1.0f / sqrtf((float)(m->heads.width * c->relative.factor));
    m->hidden = c->hidden_size;
    m->intermediate = c->intermediate_size;
    m->embedding_width = c->embedding_size;
    m->activation = c->hidden_act;
    m->epsilon = (float)c->layer_norm_eps;
    m->labels = label_count;
    m->vocabulary = c->language_head ? c->vocab_size : 0;
    m->padding_id = (int32_t)c->pad_token_id;
    m->sinusoidal_positions = c->sinusoidal;
    m->position_padding = c->family->position_rule == FT_POSITIONS_BEHIND_PADDING ? m->padding_id : -1;
    m->pooler_activation = c->relative.pooler_activation;
    m->first_and_mean = c->family->first_and_mean;
    m->read_width = ft_model_config_read_width(c);
    m->mean_pooling = c->mean_pooling || m->first_and_mean;
    m->late_pooling = c->late_pooling;
    m->causal = c->family->causal;
    m->last_pooling = c->last_pooling;
    // Of the last layer a last token alone can be computed, which sees all; other queries, and those with windows, stand where they do.
    const bool narrow = m->causal && (!c->last_pooling || c->sights[c->num_hidden_layers - 1].window > 0 || c->family->names.query_norm != NULL);
    m->ends_whole = narrow || m->mean_pooling || c->token_head || c->all_rows || (c->convolution.taps > 0 && c->num_hidden_layers == 1);
}

static void set_dropout(ft_model *m, const ft_model_config *c, const ft_config *o) {
    m->hidden_dropout = (float)or_else(o->model.hidden_dropout, c->hidden_dropout_prob);
    m->embedding_dropout = (float)or_else(o->model.hidden_dropout, c->embedding_dropout);
    m->attention_dropout = (float)or_else(o->model.attention_dropout, c->attention_probs_dropout_prob);
    // An override of the hidden dropout reaches the classifier where config.json leaves it to the hidden one.
    m->classifier_dropout = (float)or_else(o->model.classifier_dropout, c->classifier_dropout);
    m->head_dropout = (float)or_else(o->model.head.dropout, m->classifier_dropout);
    m->attention_output_dropout = m->family->attention_output_dropout   ? m->hidden_dropout
                                  : m->family->attention_dropout_behind ? m->attention_dropout
                                                                        : 0;
    const ft_feed_forward_drops drops = m->family->feed_forward_drops;
    m->feed_forward_dropout = drops == FT_DROPS_BEHIND || drops == FT_DROPS_BOTH ? m->hidden_dropout : 0;
    m->gate_dropout = drops == FT_DROPS_GATED || drops == FT_DROPS_BOTH ? m->hidden_dropout : 0;
    m->pooler_dropout = c->token_head || c->mean_head ? 0 : m->family->dropout_before_pooler ? m->classifier_dropout : (float)c->relative.pooler_dropout;
}

// In the order in which the backward pass completes the gradients.
static ft_status build(ft_model *m, const ft_model_config *c, const ft_config *o) {
    ft_builder b = {.model = m, .config = c, .options = o};
    m->head_count = o->model.head.hidden.count + 1;
    m->layer = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *m->layer);
    m->head = ft_arena_alloc(&m->arena, (size_t)m->head_count * sizeof *m->head);
    b.weights = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *b.weights);
    if (m->layer == NULL || m->head == NULL || b.weights == NULL) return FT_NO_MEMORY;
    if (o->adapter.type != FT_ADAPTER_NONE && (m->modules = ft_arena_alloc(&m->arena, sizeof *m->modules)) == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_position_bias_create(m, c));
    FT_TRY(ft_relative_create(m, c));
    FT_TRY(ft_rotary_create(m, c));
    ft_head_build(&b, &o->model.head.hidden);
    for (int l = m->layers - 1; l >= 0; l--) {
        b.trainable = trains_layer(o, l);
        b.depth = m->layers - l;
        if (l == 0) ft_convolution_build(&b);
        ft_layer_build(&b, l);
    }
    b.depth = m->layers + 1;
    b.trainable = trains_embeddings(o);
    ft_position_bias_build(&b);
    ft_relative_build_table(&b);
    ft_embeddings_build(&b);
    if (c->language_head) ft_language_tie(&b);
    if (b.failed) return ft_error_code();
    if (m->modules != NULL) return ft_adapter_check_targets(o, c, m->modules->count, m->modules->names);
    return ft_trained_check(o, m->parameters.count, name_at, m);
}

static ft_storage storage_of(ft_keep keep) {
    static const ft_storage forms[] = {[FT_KEEP_AS_READ] = {.kind = FT_STORAGE_AS_READ},
                                       [FT_KEEP_FP32] = {FT_STORAGE_TYPE, .dtype = FT_F32},
                                       [FT_KEEP_BF16] = {FT_STORAGE_TYPE, .dtype = FT_BF16},
                                       [FT_KEEP_FP16] = {FT_STORAGE_TYPE, .dtype = FT_F16},
                                       [FT_KEEP_INT8] = {FT_STORAGE_QUANTISED, .format = FT_INT8},
                                       [FT_KEEP_NF4] = {FT_STORAGE_QUANTISED, .format = FT_NF4},
                                       [FT_KEEP_NF4_DOUBLE] = {FT_STORAGE_QUANTISED, .format = FT_NF4_DOUBLE},
                                       [FT_KEEP_AUTO] = {.kind = FT_STORAGE_AS_READ}}; // of whoever chooses none (autofit.h)
    return forms[keep];
}

// What is kept in another form is frozen, and products read it by way of fp32 or of few bits.
static ft_status set_storage(ft_model *m, const ft_config *o) {
    ft_parameters *p = &m->parameters;
    const bool usual = o->model.storage == FT_KEEP_AS_READ || o->model.storage == FT_KEEP_AUTO || o->model.storage == FT_KEEP_INT8;
    if (o->train.precision == FT_PRECISION_INT8) {
        if (!usual) {
            ft_fail(FT_INVALID, "model.storage", "%s beside train.precision=int8, which keeps the weights of layers in int8", ft_keep_name(o->model.storage));
            ft_hint("model.storage=int8 takes the numbers of the model's file for it");
            return FT_INVALID;
        }
        p->storage = (ft_storage){FT_STORAGE_QUANTISED, .format = FT_INT8, .multiplied = true};
        return FT_OK;
    }
    p->storage = storage_of(o->model.storage);
    if (p->storage.kind == FT_STORAGE_AS_READ || (p->storage.kind == FT_STORAGE_TYPE && p->storage.dtype == m->dtype)) return FT_OK;
    if (p->storage.kind == FT_STORAGE_TYPE && p->storage.dtype != FT_F32 && m->dtype != FT_F32)
        return ft_fail(FT_INVALID, "model.storage", "%s beside train.precision=%s: of the types of 16 bits only that of the precision", ft_dtype_name(p->storage.dtype),
                       ft_dtype_name(m->dtype));
    if (ft_parameters_frozen_factors(p) > 0) return FT_OK;
    ft_fail(FT_INVALID, "model.storage", "nothing is frozen: weights that are trained are kept in train.precision");
    ft_hint("adapter.type=lora trains beside a frozen model, train.parameters=classifier the head alone");
    return FT_INVALID;
}

// Frozen layers may lie on the host, where there are any.
static ft_status set_homes(ft_model *m, const ft_config *o) {
    ft_parameters *p = &m->parameters;
    p->layers = m->layers;
    p->frozen_place = ft_offloads_trunk(o, m->device) ? FT_PLACE_HOST : FT_PLACE_DEVICE;
    p->table_is_factor = m->vocabulary > 0 && m->head[0].weight == m->word;
    if ((o->memory.offload & FT_OFFLOAD_TRUNK) == 0 || ft_parameters_frozen_in_layers(p) > 0) return FT_OK;
    const unsigned others = o->memory.offload & FT_OFFLOAD_ALL;
    ft_fail(FT_INVALID, "memory.offload", "%s keeps frozen layers on the host, and no layer of this run has frozen weights", ft_offload_name(o->memory.offload));
    ft_hint("memory.offload=%s is for what is trained; adapter.type=lora trains beside a frozen model", ft_offload_name(others != 0 ? others : FT_OFFLOAD_OPTIMIZER));
    return FT_INVALID;
}

ft_status ft_model_create_with(ft_memory *memory, const ft_model_config *c, const ft_config *o, int32_t label_count,
                               const ft_word_rows *word_rows, struct ft_trunk *trunk, bool head_alone, ft_model *m) {
    const ft_word_rows *v = word_rows;
    memset(m, 0, sizeof *m);
    FT_TRY(check_options(c, o));
    m->family = c->family;
    m->memory = memory;
    m->device = ft_memory_device(memory);
    m->dtype = m->parameters.dtype = dtype_of(o->train.precision);
    m->row_dtype = row_dtype_of(o);
    set_shape(m, c, label_count);
    set_dropout(m, c, o);
    ft_model_set_recomputation(m, o);
    m->loss_rows = (int32_t)o->memory.loss_rows;
    m->layer_lr_decay = o->train.layer_lr_decay > 0 ? o->train.layer_lr_decay : 1;
    FT_TRY(ft_activation_from_name(o->model.head.activation, &m->head_activation));
    FT_TRY(build(m, c, o));
    find_lowest_trained(m);
    FT_TRY(find_quiet(m, o));
    m->absent = (ft_absent_rows){.word_rows = v, .parameters = &m->parameters};
    m->parameters.place = ft_offloads_optimizer(o, m->device) ? FT_PLACE_HOST : FT_PLACE_DEVICE;
    m->parameters.deals = (o->distributed.shard == FT_SHARD_OPTIMIZER || o->distributed.shard == FT_SHARD_GRADIENTS) && ft_memory_ranks_of(memory).apart && m->parameters.place == FT_PLACE_DEVICE;
    m->parameters.deals_gradients = m->parameters.deals && o->distributed.shard == FT_SHARD_GRADIENTS;
    FT_TRY(set_homes(m, o));
    FT_TRY(set_storage(m, o));
    if (m->word >= 0) ft_parameters_set_table(&m->parameters, m->word, v ? v->held : c->vocab_size, v ? v->trained : c->vocab_size);
    else m->parameters.table = -1;
    m->parameters.trunk = trunk;
    m->parameters.head_alone = head_alone;
    if (!head_alone) FT_TRY(ft_model_map_weights(m, c, o)); // else nobody reads them
    FT_TRY(ft_parameters_allocate(&m->parameters, memory));
    FT_TRY(ft_position_bias_upload(m));
    FT_TRY(ft_rotary_upload(m, (int32_t)c->max_position_embeddings));
    return ft_relative_upload(m, (int32_t)c->max_position_embeddings);
}

json_t *ft_model_identity(const ft_model *m) {
    return json_pack("{s:s, s:i, s:i, s:f, s:i, s:f, s:f, s:f, s:f, s:i, s:i}", "type", m->family->model_type, "heads", m->heads.count,
                     "activation", m->activation, "epsilon", (double)m->epsilon, "padding", m->padding_id, "hidden_dropout",
                     (double)m->hidden_dropout, "attention_dropout", (double)m->attention_dropout, "classifier_dropout",
                     (double)m->classifier_dropout, "head_dropout", (double)m->head_dropout, "head_activation", m->head_activation,
                     "layers", m->layers);
}

ft_status ft_model_keep_master(ft_model *model) { return ft_parameters_allocate_master(&model->parameters); }

ft_status ft_model_set_loss(ft_model *m, const ft_loss *loss) {
    m->loss = *loss;
    m->targets = ft_loss_reads_targets(loss->kind) ? m->labels : 0;
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
    const ft_word_rows *v = model->word >= 0 && model->parameters.list[model->word].trainable ? model->absent.word_rows : NULL;
    FT_TRY(ft_parameters_allocate_training(&model->parameters, weight_decay, model->layer_lr_decay, v != NULL ? v->blocks : NULL));
    return ft_absent_rows_prepare(&model->absent);
}

void ft_model_free(ft_model *model) {
    if (model->class_weight != NULL) ft_memory_free(model->memory, model->class_weight);
    if (model->memory != NULL) ft_model_release_positions(model);
    ft_model_release_inputs(model);
    if (model->memory != NULL) ft_position_bias_free(model);
    if (model->memory != NULL) ft_relative_free(model);
    if (model->memory != NULL) ft_rotary_free(model);
    ft_absent_rows_free(&model->absent);
    if (model->memory != NULL) ft_gradients_release(&model->parameters);
    ft_parameters_free(&model->parameters);
    ft_arena_free(&model->arena);
    memset(model, 0, sizeof *model);
}

// relative_tables.c - what there is of DeBERTa's relative positions: parameters, memory, and the attention that reads them.
#include "engine/model/blocks/relative.h"

#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/run_op.h"
#include "engine/model/gradients/gradients.h"

#include <stdlib.h>

enum { ALIGN = 256 }; // bytes: tables begin at multiples of it, like buffers

// ---- making a model -------------------------------------------------------------------------------------------------

ft_status ft_relative_create(ft_model *m, const ft_model_config *c) {
    if ((c->positions & FT_POSITIONS_RELATIVE) == 0) return FT_OK;
    ft_relative *r = ft_arena_alloc(&m->arena, sizeof *r);
    if (r == NULL) return FT_NO_MEMORY;
    r->rule = c->relative.rule;
    r->rows = 2 * ft_relative_span(r->rule);
    r->layer = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *r->layer);
    m->relative = r;
    return r->layer != NULL ? FT_OK : FT_NO_MEMORY;
}

// What is read at the end of the step has a part of its gradient from there. Parts of a layer that are read by themselves are parameters
// of their own, one behind the other.
static void read_at_end(ft_builder *b, const ft_linear *l) {
    if (l->weight >= 0) ft_build_until_end(b, l->weight + l->first);
    if (l->bias >= 0) ft_build_until_end(b, l->bias + l->first);
    for (int i = 0; i < l->adapter_count; i++) {
        const ft_adapter *a = &l->adapters[i];
        if (a->first + a->parts <= l->first || a->first >= l->first + l->parts) continue;
        ft_build_until_end(b, a->a);
        ft_build_until_end(b, a->b);
        ft_build_until_end(b, a->magnitude);
    }
}

// The layer's own key and query project the relative positions, or two layers of their own do.
void ft_relative_build_layer(ft_builder *b, int layer) {
    const ft_model *m = b->model;
    const ft_relative_config *c = &b->config->relative;
    const ft_layer_names *n = &m->family->names;
    const ft_linear *qkv = &m->layer[layer].qkv;
    const int64_t width = ft_query_columns(&m->heads);
    if (m->relative == NULL) return;
    ft_relative_projections *p = &m->relative->layer[layer];
    p->key = p->query = (ft_linear){.weight = -1, .bias = -1};
    if (c->c2p && c->shared) p->key = ft_linear_parts(qkv, FT_KEY, 1);
    else if (c->c2p) p->key = ft_build_layer_linear(b, FT_LINEAR_POS_KEY, n->pos_key, width, m->hidden);
    if (c->p2c && c->shared) p->query = ft_linear_parts(qkv, FT_QUERY, 1);
    else if (c->p2c) p->query = ft_build_layer_linear(b, FT_LINEAR_POS_QUERY, n->pos_query, width, m->hidden);
    read_at_end(b, &p->key);
    read_at_end(b, &p->query);
}

void ft_relative_build_table(ft_builder *b) {
    ft_relative *r = b->model->relative;
    if (r == NULL) return;
    ft_build_prefix(b, "encoder.");
    r->norm = (ft_norm){.gamma = -1, .beta = -1};
    if (b->config->relative.norm) r->norm = ft_build_norm(b, "LayerNorm", b->model->hidden);
    r->table = ft_build_matrix(b, "rel_embeddings", r->rows, b->model->hidden);
    const int used[] = {r->table, r->norm.gamma, r->norm.beta};
    for (int i = 0; i < 3; i++) ft_build_until_end(b, used[i]);
}

ft_status ft_relative_upload(ft_model *m, int32_t positions) {
    ft_relative *r = m->relative;
    if (r == NULL) return FT_OK;
    const ft_device_functions *d = m->device->functions;
    r->reach = ft_relative_reach(r->rule, positions);
    size_t slots = 2 * (size_t)r->reach + 1, rows = (size_t)r->rows, bytes = (slots + 2 * rows) * sizeof(int32_t);
    int32_t *host = ft_calloc(slots + 2 * rows, sizeof *host, "the slots of relative positions");
    if (host == NULL) return FT_NO_MEMORY;
    ft_relative_slots(r->rule, r->reach, host);
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

void ft_relative_free(ft_model *m) {
    if (m->relative != NULL && m->relative->slots != NULL) ft_memory_free(m->memory, m->relative->slots);
}

// ---- the memory -----------------------------------------------------------------------------------------------------

// Of every layer alike: PK where a query meets positions, PQ where a key does.
int ft_relative_kinds(const ft_model *m) {
    const ft_relative *r = m->relative;
    return r == NULL ? 0 : (r->layer[0].key.weight >= 0) + (r->layer[0].query.weight >= 0);
}

ft_relative_window ft_relative_window_of(const ft_model *m, int32_t longest) {
    const ft_relative *r = m->relative;
    if (r == NULL || longest < 1) return (ft_relative_window){.rows = 0};
    int32_t first = ft_relative_slot(r->rule, 1 - longest); // slots never fall with the distance
    return (ft_relative_window){.first = first, .rows = ft_relative_slot(r->rule, longest - 1) - first + 1};
}

static size_t one_table_bytes(const ft_model *m, ft_dtype dtype, int64_t rows) {
    return ((size_t)(rows * ft_query_columns(&m->heads)) * ft_dtype_size(dtype) + ALIGN - 1) / ALIGN * ALIGN;
}

// Of the tables of so many layers, for sequences of up to `longest` tokens.
size_t ft_relative_table_bytes(const ft_model *m, ft_dtype dtype, int32_t layers, int32_t longest) {
    int64_t rows = ft_relative_window_of(m, longest).rows;
    return (size_t)(ft_relative_kinds(m) * layers) * one_table_bytes(m, dtype, rows);
}

static ft_status hold(ft_model *m, size_t bytes, const char *site, void **data) {
    *data = NULL;
    return bytes > 0 ? ft_memory_alloc(m->memory, bytes, FT_MEM_ACTIVATIONS, site, data) : FT_OK;
}

ft_status ft_relative_hold(ft_model *m, ft_capacity train, ft_capacity predict) {
    ft_relative *t = m->relative;
    if (t == NULL) return FT_OK;
    int32_t longest = train.longest > predict.longest ? train.longest : predict.longest;
    t->projected_bytes = ft_relative_table_bytes(m, m->dtype, m->layers, longest);
    t->gradient_bytes = ft_relative_table_bytes(m, FT_F32, m->layers - m->first_trained_layer, train.longest);
    FT_TRY(hold(m, t->projected_bytes, "position projections", &t->projected));
    t->gradients = NULL;
    if (t->gradient_bytes == 0) return FT_OK;
    return ft_memory_alloc_sums(m->memory, t->gradient_bytes, FT_MEM_ACTIVATIONS, "position projection gradients", &t->gradients);
}

// A layer's are written by its attention.
ft_status ft_relative_add_parts(const ft_model *m, ft_chain_parts *parts) {
    const int layers = m->layers - m->first_trained_layer;
    if (m->relative == NULL || m->relative->gradients == NULL) return FT_OK;
    const int64_t each = (int64_t)(m->relative->gradient_bytes / sizeof(float)) / layers;
    for (int i = 0; i < layers; i++)
        FT_TRY(ft_chain_parts_add(parts, (ft_chain_part){.point = ft_backward_point(layers - i, 1),
                                                         .data = (float *)m->relative->gradients + i * each,
                                                         .count = each}));
    return FT_OK;
}

void ft_relative_release(ft_model *m) {
    ft_relative *t = m->relative;
    if (t == NULL) return;
    ft_memory_free(m->memory, t->projected);
    ft_memory_free(m->memory, t->gradients);
    t->projected = t->gradients = NULL;
    t->projected_bytes = t->gradient_bytes = 0;
    t->longest = 0;
    t->training = false;
}

// Table `n` of layer `layer` within a block that begins with layer `first`.
static ft_tensor table_at(const ft_pass *pass, void *block, ft_dtype dtype, int first, int layer, int n) {
    const ft_model *m = pass->model;
    size_t at = (size_t)((layer - first) * ft_relative_kinds(m) + n) * one_table_bytes(m, dtype, pass->relative.rows);
    return ft_matrix((char *)block + at, pass->relative.rows, ft_query_columns(&m->heads), dtype);
}

ft_layer_positions ft_relative_tables(const ft_pass *pass, int layer) {
    const ft_model *m = pass->model;
    const ft_relative *t = m->relative;
    ft_layer_positions p = {ft_absent(), ft_absent(), ft_absent(), ft_absent()};
    if (ft_relative_kinds(m) == 0) return p;
    const ft_relative_projections *l = &t->layer[layer];
    const bool keys = l->key.weight >= 0, queries = l->query.weight >= 0, trained = layer >= m->first_trained_layer;
    if (keys) p.key = table_at(pass, t->projected, m->dtype, 0, layer, 0);
    if (queries) p.query = table_at(pass, t->projected, m->dtype, 0, layer, keys);
    if (pass->step == NULL || !trained) return p;
    if (keys) p.dkey = table_at(pass, t->gradients, FT_F32, m->first_trained_layer, layer, 0);
    if (queries) p.dquery = table_at(pass, t->gradients, FT_F32, m->first_trained_layer, layer, keys);
    return p;
}

ft_status ft_relative_check(const ft_pass *pass) {
    const ft_relative *t = pass->model->relative;
    if (ft_relative_kinds(pass->model) == 0 || (t->longest == pass->capacity.longest && t->training == (pass->step != NULL))) return FT_OK;
    return ft_fail(FT_FAILED, "position projections", "are those of no step or pass for up to %d tokens that has begun",
                   pass->capacity.longest);
}

// ---- attention ------------------------------------------------------------------------------------------------------

ft_disentangled_shape ft_relative_shape(const ft_pass *pass, ft_rows_kind queries, int layer) {
    const ft_relative *r = pass->model->relative;
    // Its scratch for shorter sequences may be the larger one: the longest of the run bounds every micro-batch.
    ft_attention_shape attention = ft_pass_largest_shape(pass, queries, ft_pass_attention_shape(pass, queries, layer));
    attention.sequences = pass->batch->sequences;
    if (r == NULL) return (ft_disentangled_shape){.attention = attention};
    // Scratch is linear in the reach: no more of it than the longest sequence of the run can use.
    int32_t reach = pass->capacity.longest - 1 < r->reach ? pass->capacity.longest - 1 : r->reach;
    return (ft_disentangled_shape){.attention = attention, .reach = reach, .slots = r->slots + (r->reach - reach)};
}

static ft_tensor whole_table(const ft_pass *pass, ft_tensor within_reach) {
    if (within_reach.data == NULL) return within_reach;
    const size_t before = (size_t)(pass->relative.first * within_reach.stride) * ft_dtype_size(within_reach.dtype);
    within_reach.data = (char *)within_reach.data - before;
    within_reach.rows = pass->model->relative->rows;
    return within_reach;
}

ft_layer_positions ft_relative_whole_tables(const ft_pass *pass, int layer) {
    const ft_layer_positions p = ft_relative_tables(pass, layer);
    return (ft_layer_positions){whole_table(pass, p.key), whole_table(pass, p.query), whole_table(pass, p.dkey), whole_table(pass, p.dquery)};
}

ft_status ft_relative_attention_forward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_forward_args plain) {
    const ft_layer_positions positions = ft_relative_whole_tables(pass, layer);
    ft_disentangled_attention_forward_args args = {.shape = ft_relative_shape(pass, queries, layer),
                                                   .q = plain.q,
                                                   .k = plain.k,
                                                   .v = plain.v,
                                                   .pos_key = positions.key,
                                                   .pos_query = positions.query,
                                                   .out = plain.out,
                                                   .lse = plain.lse};
    ft_disentangled_attention_forward_args largest = args;
    largest.shape.attention = ft_pass_largest_shape(pass, queries, args.shape.attention);
    largest.q.rows = largest.out.rows = ft_pass_capacity(pass, queries);
    largest.k.rows = largest.v.rows = pass->capacity.tokens;
    if (args.lse.data != NULL) largest.lse.rows = largest.q.rows;
    RUN_WITH_WORKSPACE(pass, disentangled_attention_forward, args, largest);
}

ft_status ft_relative_attention_backward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_backward_args plain) {
    const ft_layer_positions positions = ft_relative_whole_tables(pass, layer);
    ft_disentangled_attention_backward_args args = {.shape = ft_relative_shape(pass, queries, layer),
                                                    .q = plain.q,
                                                    .k = plain.k,
                                                    .v = plain.v,
                                                    .pos_key = positions.key,
                                                    .pos_query = positions.query,
                                                    .dpos_key = positions.dkey,
                                                    .dpos_query = positions.dquery,
                                                    .out = plain.out,
                                                    .lse = plain.lse,
                                                    .dout = plain.dout,
                                                    .dq = plain.dq,
                                                    .dk = plain.dk,
                                                    .dv = plain.dv};
    ft_disentangled_attention_backward_args largest = args;
    largest.shape.attention = ft_pass_largest_shape(pass, queries, args.shape.attention);
    largest.q.rows = largest.out.rows = largest.dout.rows = largest.dq.rows = largest.lse.rows = ft_pass_capacity(pass, queries);
    largest.k.rows = largest.v.rows = largest.dk.rows = largest.dv.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, disentangled_attention_backward, args, largest);
}

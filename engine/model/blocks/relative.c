// relative.c - DeBERTa's table of relative positions: projected for every layer once a step, and back once a step.
//
// Sequences of up to L tokens reach the rows of distances up to L - 1 only: the others are neither normalised nor projected,
// and their gradient is zero. The longest of the run decides, as it does about scratch.
//
//   R = LN(table) or the table;  R_l = dropout(R);  PK_l = R_l Wk^T (+ bk);  PQ_l = R_l Wq^T + bq
// None of it depends on a text, and the dropout of R_l is keyed by step and layer alone. So the layers of all micro-batches,
// and those that are computed again, read the same PK and PQ, and every sequence adds to the same dPK and dPQ, one after the
// other: what becomes of these sums at the end of the step has the same bits for any split into micro-batches.
// Kept meanwhile are PK and PQ of all layers, dPK and dPQ (sums, so in fp32) of the trained ones; R, its norm and its dropout
// are cheap and computed again at the end.
#include "engine/model/blocks/relative.h"

#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/blocks/run_op.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"

static ft_tensor weight(const ft_pass *pass, int index) { return ft_parameter_weight(&pass->model->parameters, index); }
static ft_tensor gradient(const ft_pass *pass, int index) { return ft_parameter_gradient(&pass->model->parameters, index); }

// ---- R --------------------------------------------------------------------------------------------------------------

static ft_status temporary(ft_pass *pass, int64_t cols, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, FT_ROWS_RELATIVE, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

// The rows within reach of the parameter or its gradient.
static ft_tensor within_reach(const ft_pass *pass, ft_tensor table) {
    return ft_rows(table, pass->relative.first, pass->relative.rows);
}

typedef struct relative_table {
    ft_tensor table;  // R: `normed`, or the parameter itself
    ft_tensor normed; // absent without a norm
    ft_norm_saved norm;
} relative_table;

static ft_status open_table(ft_pass *pass, relative_table *r) {
    const ft_relative *p = pass->model->relative;
    *r = (relative_table){.table = within_reach(pass, weight(pass, p->table))};
    if (p->norm.gamma < 0) return FT_OK;
    FT_TRY(temporary(pass, pass->model->hidden, "relative positions", &r->normed));
    FT_TRY(ft_norm_keep(pass, FT_ROWS_RELATIVE, -1, "relative norm", &r->norm));
    FT_TRY(ft_norm_forward(pass, FT_ROWS_RELATIVE, &p->norm, &r->norm,
                           (ft_layernorm_forward_args){.x = r->table,
                                                       .y = r->normed}));
    r->table = r->normed;
    return FT_OK;
}

static void close_table(ft_pass *pass, relative_table *r) {
    ft_pass_free(pass, &r->normed);
    ft_norm_forget(pass, &r->norm);
}

static ft_dropout dropout_of(const ft_pass *pass, int layer) {
    // The table is an embedding too; layer 0 of that site belongs to the tokens.
    return ft_pass_dropout(pass, FT_ROWS_RELATIVE, pass->model->hidden_dropout, (uint32_t)layer + 1, FT_SITE_EMBEDDING);
}

// R_l; `own` is its memory when there is dropout, for the caller to free.
static ft_status dropped(ft_pass *pass, int layer, ft_tensor table, ft_tensor *own, ft_tensor *out) {
    ft_dropout dropout = dropout_of(pass, layer);
    *own = ft_absent();
    *out = table;
    if (dropout.probability <= 0) return FT_OK;
    FT_TRY(temporary(pass, pass->model->hidden, "dropped relative positions", own));
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_RELATIVE, dropout, table, *own));
    *out = *own;
    return FT_OK;
}

// ---- forward --------------------------------------------------------------------------------------------------------

static ft_status project_layer(ft_pass *pass, int layer, ft_tensor table) {
    const ft_relative_projections *l = &pass->model->relative->layer[layer];
    const ft_layer_positions p = ft_relative_tables(pass, layer);
    const struct {
        ft_tensor y;
        const ft_linear *linear;
    } parts[2] = {{p.key, &l->key}, {p.query, &l->query}};
    ft_tensor own, x;
    FT_TRY(dropped(pass, layer, table, &own, &x));
    for (int i = 0; i < 2; i++) {
        if (parts[i].y.data == NULL) continue;
        FT_TRY(ft_linear_forward(pass, FT_ROWS_RELATIVE, parts[i].linear, x, parts[i].y));
    }
    ft_pass_free(pass, &own);
    return FT_OK;
}

static ft_status project(ft_pass *pass) {
    relative_table r;
    FT_TRY(open_table(pass, &r));
    for (int layer = 0, end = pass->model->layers; layer < end; layer++) {
        FT_TRY(ft_layer_enter(pass, layer, layer + 1 < end ? layer + 1 : 0));
        FT_TRY(project_layer(pass, layer, r.table));
    }
    close_table(pass, &r);
    return FT_OK;
}

// Of the table alone: there is no batch.
static ft_pass pass_without_batch(ft_model *m, ft_capacity capacity, const ft_step_state *step) {
    return (ft_pass){.model = m, .capacity = capacity, .step = step, .relative = ft_relative_window_of(m, capacity.longest)};
}

// FT_FAILED: what is held was not meant for sequences of this length.
static ft_status check_room(const ft_pass *pass) {
    const ft_model *m = pass->model;
    const int32_t trained = pass->step != NULL ? m->layers - m->first_trained_layer : 0, longest = pass->capacity.longest;
    if (ft_relative_table_bytes(m, m->dtype, m->layers, longest) <= m->relative->projected_bytes &&
        ft_relative_table_bytes(m, FT_F32, trained, longest) <= m->relative->gradient_bytes)
        return FT_OK;
    return ft_fail(FT_FAILED, "position projections", "%zu bytes are held, too few for sequences of %d tokens",
                   m->relative->projected_bytes + m->relative->gradient_bytes, longest);
}

static ft_status begin(ft_model *m, ft_capacity capacity, const ft_step_state *step, ft_scope scope) {
    ft_relative *t = m->relative;
    ft_pass pass = pass_without_batch(m, capacity, step);
    if (ft_relative_kinds(m) == 0 || capacity.longest == 0) return FT_OK;
    FT_TRY(check_room(&pass));
    t->longest = 0;
    FT_TRY(ft_memory_scope_begin(m->memory, scope));
    FT_TRY(ft_memory_scope_end(m->memory, project(&pass)));
    t->longest = capacity.longest;
    t->training = step != NULL;
    return FT_OK;
}

ft_status ft_relative_begin(ft_model *m, ft_capacity capacity, const ft_step_state *step) {
    FT_TRY(begin(m, capacity, step, step != NULL ? FT_SCOPE_STEP_BEGIN : FT_SCOPE_PREDICT_BEGIN));
    if (step == NULL) return FT_OK;
    size_t bytes = ft_relative_table_bytes(m, FT_F32, m->layers - m->first_trained_layer, capacity.longest);
    return bytes > 0 && !ft_memory_is_guest_of_sums(m->memory) ? m->device->functions->fill(m->device, m->relative->gradients, 0, bytes) : FT_OK;
}

void ft_relative_mark(ft_model *m, ft_capacity capacity, bool begun) {
    if (ft_relative_kinds(m) == 0) return;
    m->relative->longest = begun ? capacity.longest : 0;
    m->relative->training = begun;
}

// y += x, rows of the table within reach
static ft_status add_rows(ft_pass *pass, ft_tensor x, ft_tensor y) {
    ft_scatter_rows_add_args args = {.index = pass->model->relative->row_number, .x = x, .y = y}, largest = args;
    RUN_WITH_WORKSPACE(pass, scatter_rows_add, args, largest);
}

// ---- backward -------------------------------------------------------------------------------------------------------

static ft_status sums(ft_pass *pass, const char *name, ft_tensor *out) {
    return ft_pass_float_tensor(pass, FT_ROWS_RELATIVE, pass->model->hidden, FT_MEM_ACTIVATIONS, -1, name, out);
}

// From dPK and dPQ of a layer to its projections and, where `dtable` (fp32) is present, to R: added there.
static ft_status layer_backward(ft_pass *pass, int layer, ft_tensor table, ft_tensor dtable, bool first) {
    const ft_relative_projections *l = &pass->model->relative->layer[layer];
    const ft_layer_positions p = ft_relative_tables(pass, layer);
    struct {
        ft_tensor sum, own, dy;
        const ft_linear *linear;
    } parts[2] = {{.sum = p.dkey, .linear = &l->key}, {.sum = p.dquery, .linear = &l->query}};
    ft_tensor own, x, dx = dtable;
    FT_TRY(dropped(pass, layer, table, &own, &x));
    for (int i = 0; i < 2; i++) {
        FT_TRY(ft_pass_rounded(pass, FT_ROWS_RELATIVE, parts[i].sum, "rounded relative gradient", &parts[i].own, &parts[i].dy));
        if (parts[i].dy.data == NULL) continue;
        FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_RELATIVE, parts[i].linear, parts[i].sum));
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_RELATIVE, parts[i].linear, parts[i].dy, x));
    }
    ft_pass_free(pass, &own);
    if (dtable.data != NULL && !first) FT_TRY(sums(pass, "relative gradient of a layer", &dx));
    for (int i = 0, written = 0; i < 2; i++) {
        if (parts[i].dy.data == NULL) continue;
        if (dtable.data != NULL)
            FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_RELATIVE, parts[i].linear, parts[i].dy, written, dx));
        ft_pass_free(pass, &parts[i].own);
        written = 1;
    }
    if (dtable.data == NULL) return FT_OK;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_RELATIVE, dropout_of(pass, layer), dx, dx));
    if (first) return FT_OK;
    FT_TRY(add_rows(pass, dx, dtable));
    ft_pass_free(pass, &dx);
    return FT_OK;
}

static ft_status table_backward(ft_pass *pass, const relative_table *r, ft_tensor dtable) {
    const ft_relative *p = pass->model->relative;
    const ft_tensor rows = gradient(pass, p->table);
    if (p->norm.gamma < 0) return add_rows(pass, dtable, within_reach(pass, rows));
    FT_TRY(ft_norm_backward(pass, FT_ROWS_RELATIVE, &p->norm, &r->norm,
                            (ft_layernorm_backward_args){.dy = dtable,
                                                         .s = within_reach(pass, weight(pass, p->table)),
                                                         .ds = dtable}));
    return rows.data != NULL ? add_rows(pass, dtable, within_reach(pass, rows)) : FT_OK;
}

// The rows, or their norm.
static bool trains_table(const ft_pass *pass) {
    const ft_relative *p = pass->model->relative;
    const int parts[] = {p->table, p->norm.gamma, p->norm.beta};
    bool trains = false;
    for (int i = 0; i < 3; i++) trains |= parts[i] >= 0 && pass->model->parameters.list[parts[i]].trainable;
    return trains;
}

// Layers from the last to the first, as everywhere in a backward pass.
static ft_status back(ft_pass *pass) {
    const ft_model *m = pass->model;
    relative_table r;
    ft_tensor dtable = ft_absent();
    FT_TRY(ft_gradients_share(&pass->model->parameters, ft_backward_point(m->layers + 2, 0)));
    FT_TRY(ft_word_sums_hold(&pass->model->parameters));
    FT_TRY(open_table(pass, &r));
    if (trains_table(pass)) FT_TRY(sums(pass, "relative gradient", &dtable));
    for (int layer = m->layers - 1; layer >= m->first_trained_layer; layer--) {
        FT_TRY(ft_layer_enter(pass, layer, layer > m->first_trained_layer ? layer - 1 : 0));
        FT_TRY(layer_backward(pass, layer, r.table, dtable, layer == m->layers - 1));
    }
    if (dtable.data != NULL) FT_TRY(table_backward(pass, &r, dtable));
    ft_pass_free(pass, &dtable);
    close_table(pass, &r);
    return FT_OK;
}

ft_status ft_relative_end(ft_model *m, ft_capacity capacity, const ft_step_state *step) {
    ft_pass pass = pass_without_batch(m, capacity, step);
    if (ft_relative_kinds(m) == 0) return FT_OK;
    if (step == NULL) {
        m->relative->longest = 0;
        return FT_OK;
    }
    FT_TRY(ft_relative_check(&pass));
    m->relative->longest = 0; // the update is next, and then they are those of other weights
    if (m->first_trained_layer == m->layers || ft_memory_is_guest_of_sums(m->memory)) return FT_OK; // the first rank does it for all
    ft_memory_set_phase(m->memory, FT_PHASE_BACKWARD);
    FT_TRY(ft_memory_scope_begin(m->memory, FT_SCOPE_STEP_END));
    return ft_memory_scope_end(m->memory, back(&pass));
}

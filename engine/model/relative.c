// relative.c - DeBERTa's table of relative positions: normalised once a micro-batch, projected once a layer, and back.
//
// Sequences of up to L tokens reach the rows of distances up to L - 1 only: the others are neither normalised nor projected,
// and their gradient is zero. The longest of the run decides, as it does about scratch.
//
//   R = LN(table) or the table;  R_l = dropout(R);  PK = R_l Wk^T (+ bk);  PQ = R_l Wq^T + bq
// The dropout of R_l is keyed by step and layer alone: all sequences of a step share it, however they are split.
#include "engine/model/layers.h"

// Absent for the bias that a projection may lack.
static ft_tensor weight(const ft_pass *pass, int index) {
    return index < 0 ? ft_absent() : ft_parameter_weight(&pass->model->parameters, index);
}
static ft_tensor gradient(const ft_pass *pass, int index) {
    return index < 0 ? ft_absent() : ft_parameter_gradient(&pass->model->parameters, index);
}

static ft_status table_of(ft_pass *pass, int64_t cols, int layer, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, FT_ROWS_RELATIVE, cols, FT_MEM_ACTIVATIONS, layer, name, out);
}

static ft_status zeros(ft_pass *pass, int layer, const char *name, ft_tensor *out) {
    ft_device *device = pass->model->device;
    FT_TRY(table_of(pass, pass->model->hidden, layer, name, out));
    return device->functions->fill(device, out->data, 0, (size_t)out->rows * (size_t)out->cols * sizeof(float));
}

void ft_relative_window(ft_pass *pass) {
    const ft_relative *r = &pass->model->relative;
    ft_relative_state *s = &pass->relative;
    if (r->rows == 0) return;
    int32_t furthest = pass->capacity.longest - 1; // slots never fall with the distance
    s->first = ft_relative_slot(r->rule, -furthest);
    s->rows = ft_relative_slot(r->rule, furthest) - s->first + 1;
}

// The rows within reach of the parameter or its gradient.
static ft_tensor within_reach(const ft_pass *pass, ft_tensor table) {
    return ft_rows(table, pass->relative.first, pass->relative.rows);
}

ft_status ft_relative_begin(ft_pass *pass) {
    const ft_relative *r = &pass->model->relative;
    ft_relative_state *s = &pass->relative;
    if (r->rows == 0) return FT_OK;
    s->table = within_reach(pass, weight(pass, r->table));
    if (r->gamma < 0) return FT_OK;
    FT_TRY(table_of(pass, pass->model->hidden, -1, "relative positions", &s->normed));
    FT_TRY(table_of(pass, 1, -1, "relative norm mean", &s->mean));
    FT_TRY(table_of(pass, 1, -1, "relative norm rstd", &s->rstd));
    s->mean = ft_vector(s->mean.data, s->mean.rows, FT_F32);
    s->rstd = ft_vector(s->rstd.data, s->rstd.rows, FT_F32);
    FT_TRY(ft_pass_layernorm_forward(pass, FT_ROWS_RELATIVE,
                                     (ft_layernorm_forward_args){.x = s->table,
                                                                 .gamma = weight(pass, r->gamma),
                                                                 .beta = weight(pass, r->beta),
                                                                 .epsilon = pass->model->epsilon,
                                                                 .y = s->normed,
                                                                 .mean = s->mean,
                                                                 .rstd = s->rstd}));
    s->table = s->normed;
    return FT_OK;
}

static ft_dropout dropout_of(const ft_pass *pass, int layer) {
    // The table is an embedding too; layer 0 of that site belongs to the tokens.
    return ft_pass_dropout(pass, FT_ROWS_RELATIVE, pass->model->hidden_dropout, (uint32_t)layer + 1, FT_SITE_EMBEDDING);
}

// R_l; `own` is its memory when there is dropout, for the caller to free.
static ft_status dropped(ft_pass *pass, int layer, ft_tensor *own, ft_tensor *table) {
    ft_dropout dropout = dropout_of(pass, layer);
    *own = ft_absent();
    *table = pass->relative.table;
    if (dropout.probability <= 0) return FT_OK;
    FT_TRY(table_of(pass, pass->model->hidden, layer, "relative positions", own));
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_RELATIVE, dropout, *table, *own));
    *table = *own;
    return FT_OK;
}

ft_status ft_relative_project(ft_pass *pass, int layer, ft_tensor *pos_key, ft_tensor *pos_query) {
    const ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    *pos_key = *pos_query = ft_absent();
    if (l->pos_key.weight < 0 && l->pos_query.weight < 0) return FT_OK;
    ft_tensor own, table;
    FT_TRY(dropped(pass, layer, &own, &table));
    if (l->pos_key.weight >= 0) {
        FT_TRY(table_of(pass, m->hidden, layer, "position keys", pos_key));
        FT_TRY(ft_linear(pass, FT_ROWS_RELATIVE, table, weight(pass, l->pos_key.weight), weight(pass, l->pos_key.bias), *pos_key));
    }
    if (l->pos_query.weight >= 0) {
        FT_TRY(table_of(pass, m->hidden, layer, "position queries", pos_query));
        FT_TRY(ft_linear(pass, FT_ROWS_RELATIVE, table, weight(pass, l->pos_query.weight), weight(pass, l->pos_query.bias), *pos_query));
    }
    ft_pass_free(pass, &own);
    return FT_OK;
}

ft_status ft_relative_gradients(ft_pass *pass, int layer, ft_tensor *dpos_key, ft_tensor *dpos_query) {
    const ft_layer_parameters *l = &pass->model->layer[layer];
    *dpos_key = *dpos_query = ft_absent();
    if (l->pos_key.weight >= 0) FT_TRY(zeros(pass, layer, "position key gradient", dpos_key));
    if (l->pos_query.weight >= 0) FT_TRY(zeros(pass, layer, "position query gradient", dpos_query));
    return FT_OK;
}

ft_status ft_relative_backward(ft_pass *pass, int layer, ft_tensor *dpos_key, ft_tensor *dpos_query) {
    const ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    if (dpos_key->data == NULL && dpos_query->data == NULL) return FT_OK;
    const struct {
        ft_tensor *dy;
        ft_linear_parameters linear;
    } parts[2] = {{dpos_key, l->pos_key}, {dpos_query, l->pos_query}};
    ft_tensor own, table, dtable = ft_absent();
    FT_TRY(dropped(pass, layer, &own, &table));
    for (int i = 0; i < 2; i++) {
        if (parts[i].dy->data == NULL) continue;
        FT_TRY(ft_bias_gradient(pass, FT_ROWS_RELATIVE, *parts[i].dy, gradient(pass, parts[i].linear.bias)));
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_RELATIVE, *parts[i].dy, table, gradient(pass, parts[i].linear.weight)));
    }
    ft_pass_free(pass, &own);
    bool wanted = gradient(pass, m->relative.table).data != NULL;
    if (wanted) FT_TRY(table_of(pass, m->hidden, layer, "relative gradient", &dtable));
    for (int i = 0, written = 0; wanted && i < 2; i++) {
        if (parts[i].dy->data == NULL) continue;
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_RELATIVE, *parts[i].dy, weight(pass, parts[i].linear.weight), written, dtable));
        written = 1;
    }
    ft_pass_free(pass, dpos_key);
    ft_pass_free(pass, dpos_query);
    if (!wanted) return FT_OK;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_RELATIVE, dropout_of(pass, layer), dtable, dtable));
    if (pass->relative.gradient.data == NULL) {
        pass->relative.gradient = dtable;
        return FT_OK;
    }
    FT_TRY(ft_pass_add_relative(pass, dtable, pass->relative.gradient));
    ft_pass_free(pass, &dtable);
    return FT_OK;
}

ft_status ft_relative_end(ft_pass *pass) {
    const ft_relative *r = &pass->model->relative;
    ft_relative_state *s = &pass->relative;
    if (s->gradient.data != NULL) {
        if (r->gamma >= 0)
            FT_TRY(ft_pass_layernorm_backward(pass, FT_ROWS_RELATIVE,
                                              (ft_layernorm_backward_args){.dy = s->gradient,
                                                                           .s = within_reach(pass, weight(pass, r->table)),
                                                                           .mean = s->mean,
                                                                           .rstd = s->rstd,
                                                                           .gamma = weight(pass, r->gamma),
                                                                           .ds = s->gradient,
                                                                           .dgamma = gradient(pass, r->gamma),
                                                                           .dbeta = gradient(pass, r->beta)}));
        FT_TRY(ft_pass_add_relative(pass, s->gradient, within_reach(pass, gradient(pass, r->table))));
    }
    ft_pass_free(pass, &s->gradient);
    ft_pass_free(pass, &s->normed);
    ft_pass_free(pass, &s->mean);
    ft_pass_free(pass, &s->rstd);
    return FT_OK;
}

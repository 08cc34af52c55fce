#include "engine/model/blocks/rotary.h"

#include "engine/model/blocks/run_op.h"

#include <stdlib.h>

ft_status ft_rotary_create(ft_model *m, const ft_model_config *c) {
    if (c->sights == NULL) return FT_OK;
    ft_rotary *r = m->rotary = ft_arena_alloc(&m->arena, sizeof *r);
    if (r == NULL) return FT_NO_MEMORY;
    *r = (ft_rotary){.scaling = c->sights[0].scaling, .layer = ft_arena_alloc(&m->arena, (size_t)m->layers * sizeof *r->layer)};
    if (r->layer == NULL) return FT_NO_MEMORY;
    for (int32_t l = 0; l < m->layers; l++) {
        int table = 0;
        while (table < r->tables && r->theta[table] != c->sights[l].theta) table++;
        if (table == r->tables) r->theta[r->tables++] = c->sights[l].theta; // model_config.c: one of full, one of sliding layers
        r->layer[l] = (ft_rotary_layer){.window = c->sights[l].window, .table = table};
    }
    return FT_OK;
}

static ft_status upload_table(ft_model *m, int n, int32_t positions) {
    ft_rotary *r = m->rotary;
    const ft_device_functions *d = m->device->functions;
    const size_t bytes = (size_t)positions * (size_t)m->heads.width * sizeof(float);
    float *host = ft_calloc(bytes / sizeof *host, sizeof *host, "the angles of rotary positions");
    if (host == NULL) return FT_NO_MEMORY;
    ft_rope_angles(r->theta[n], &r->scaling, m->heads.width, positions, host);
    void *data = NULL;
    ft_status status = ft_memory_alloc(m->memory, bytes, FT_MEM_WEIGHTS, "angles of rotary positions", &data);
    r->table[n] = status == FT_OK ? ft_matrix(data, positions, m->heads.width, FT_F32) : ft_absent();
    if (status == FT_OK) status = d->upload(m->device, data, host, bytes);
    if (status == FT_OK) status = d->sync(m->device); // `host` goes away
    free(host);
    return status;
}

ft_status ft_rotary_upload(ft_model *m, int32_t positions) {
    for (int n = 0; m->rotary != NULL && n < m->rotary->tables; n++) FT_TRY(upload_table(m, n, positions));
    return FT_OK;
}

void ft_rotary_free(ft_model *m) {
    for (int n = 0; m->rotary != NULL && n < m->rotary->tables; n++)
        if (m->rotary->table[n].data != NULL) ft_memory_free(m->memory, m->rotary->table[n].data);
}

int32_t ft_rotary_window(const ft_model *m, int layer) { return m->rotary != NULL ? m->rotary->layer[layer].window : 0; }

ft_status ft_rotary_turn(ft_pass *pass, ft_rows_kind kind, int layer, bool back, ft_tensor x) {
    const ft_rotary *r = pass->model->rotary;
    if (r == NULL) return FT_OK;
    ft_rope_args args = {.head_dim = pass->model->heads.width,
                         .inverse = back,
                         .position = kind == FT_ROWS_TOKENS ? pass->batch->token_position : pass->batch->read_position,
                         .table = r->table[r->layer[layer].table],
                         .x = x};
    ft_rope_args largest = args;
    largest.x.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, rope, args, largest);
}

#include "engine/model/blocks/patches.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/run_op.h"

static int whole(ft_builder *b, const char *name, ft_parameter_spec spec) {
    spec.decay = true;
    return ft_build_parameter(b, name, "", spec);
}

ft_status ft_patches_build(ft_builder *b) {
    ft_model *m = b->model;
    const ft_patch_names *n = m->family->patches;
    const ft_picture_config *c = &b->config->picture;
    ft_patches *p = ft_arena_alloc(&m->arena, sizeof *p);
    if (p == NULL) return FT_NO_MEMORY;
    m->patches = p;
    m->word = m->token_type = -1;
    p->height = c->height / c->patch;
    p->width = c->width / c->patch;
    p->inputs = c->channels * c->patch * c->patch;
    m->position = whole(b, n->position, (ft_parameter_spec){.rows = b->config->position_rows, .cols = m->hidden, .leading = 1});
    p->weight = whole(b, n->weight, (ft_parameter_spec){.rows = m->hidden, .cols = p->inputs, .side = (int)c->patch});
    p->vector[p->vectors++] = ft_build_parameter(b, n->bias, "", (ft_parameter_spec){.cols = m->hidden});
    p->vector[p->vectors++] = whole(b, n->first, (ft_parameter_spec){.rows = 1, .cols = m->hidden, .leading = 1});
    if (n->second != NULL) p->vector[p->vectors++] = whole(b, n->second, (ft_parameter_spec){.rows = 1, .cols = m->hidden, .leading = 1});
    return FT_OK;
}

static ft_status copy(ft_pass *pass, ft_tensor from, void *to) {
    ft_device *device = pass->model->device;
    return device->functions->copy(device, to, from.data, (size_t)(from.rows * from.cols) * ft_dtype_size(from.dtype));
}

static ft_status new_table(ft_pass *pass, ft_dtype dtype, const char *name, ft_tensor *table) {
    const ft_model *m = pass->model;
    void *data;
    FT_TRY(ft_memory_alloc(m->memory, (size_t)(m->patches->vectors * m->hidden) * ft_dtype_size(dtype), FT_MEM_ACTIVATIONS, name, &data));
    *table = ft_matrix(data, m->patches->vectors, m->hidden, dtype);
    return FT_OK;
}
static void *row_of(ft_tensor table, int row) { return (char *)table.data + (size_t)(row * table.cols) * ft_dtype_size(table.dtype); }

static ft_status rows_of_ids(ft_pass *pass, ft_embedding_forward_args args) {
    ft_embedding_forward_args largest = args;
    largest.out.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, embedding_forward, args, largest);
}

static ft_status rows_of_ids_backward(ft_pass *pass, ft_embedding_backward_args args) {
    ft_embedding_backward_args largest = args;
    largest.dout.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, embedding_backward, args, largest);
}

static ft_status multiply(ft_pass *pass, ft_gemm_args args) {
    ft_gemm_args largest = args;
    largest.a.rows = pass->capacity.tokens;
    if (args.trans_a) largest.b.rows = pass->capacity.tokens;
    else largest.c.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

static ft_tensor patches_of(const ft_pass *pass) { return ft_matrix(pass->batch->patch, pass->batch->tokens, pass->model->patches->inputs, pass->model->dtype); }

ft_status ft_patches_forward(ft_pass *pass, ft_tensor sum) {
    const ft_model *m = pass->model;
    const ft_patches *p = m->patches;
    ft_tensor table;
    FT_TRY(new_table(pass, m->dtype, "vectors of rows", &table));
    for (int i = 0; i < p->vectors; i++) FT_TRY(copy(pass, ft_parameter_weight(&m->parameters, p->vector[i]), row_of(table, i)));
    FT_TRY(rows_of_ids(pass, (ft_embedding_forward_args){.word_ids = pass->batch->ids, .position_ids = pass->batch->position_row, .word = table,
                                                         .position = ft_parameter_weight(&m->parameters, m->position), .out = sum}));
    ft_pass_free(pass, &table);
    return multiply(pass, (ft_gemm_args){.a = patches_of(pass), .b = ft_parameter_weight(&m->parameters, p->weight), .c = sum, .trans_b = true, .accumulate = true});
}

// Their gradients go on where they are, a chain of additions each over all rows of a step: so any micro-batches give the same bits.
static ft_status vectors_backward(ft_pass *pass, ft_tensor dx) {
    const ft_model *m = pass->model;
    const ft_patches *p = m->patches;
    ft_device *device = m->device;
    ft_tensor table, gradient[FT_PATCH_VECTORS];
    bool any = false;
    for (int i = 0; i < p->vectors; i++) any |= (gradient[i] = ft_parameter_gradient(&m->parameters, p->vector[i])).data != NULL;
    if (!any) return FT_OK;
    FT_TRY(new_table(pass, FT_F32, "gradients of vectors of rows", &table));
    FT_TRY(device->functions->fill(device, table.data, 0, (size_t)(table.rows * table.cols) * sizeof(float)));
    for (int i = 0; i < p->vectors; i++)
        if (gradient[i].data != NULL) FT_TRY(copy(pass, gradient[i], row_of(table, i)));
    FT_TRY(rows_of_ids_backward(
        pass, (ft_embedding_backward_args){.ids = pass->batch->ids, .order = pass->batch->word_order, .dout = dx, .table_gradient = table, .padding_id = -1}));
    for (int i = 0; i < p->vectors; i++)
        if (gradient[i].data != NULL) FT_TRY(copy(pass, ft_rows(table, i, 1), gradient[i].data));
    ft_pass_free(pass, &table);
    return FT_OK;
}

ft_status ft_patches_backward(ft_pass *pass, ft_tensor dx) {
    const ft_model *m = pass->model;
    const ft_tensor position = ft_parameter_gradient(&m->parameters, m->position), weight = ft_parameter_gradient(&m->parameters, m->patches->weight);
    if (position.data != NULL)
        FT_TRY(rows_of_ids_backward(pass, (ft_embedding_backward_args){.ids = pass->batch->position_row, .order = pass->batch->position_order, .dout = dx,
                                                                       .table_gradient = position, .padding_id = -1}));
    FT_TRY(vectors_backward(pass, dx));
    if (weight.data == NULL) return FT_OK;
    ft_tensor own, dy;
    FT_TRY(ft_pass_rounded(pass, FT_ROWS_TOKENS, dx, "rounded embedding gradient", &own, &dy));
    FT_TRY(multiply(pass, (ft_gemm_args){.a = dy, .b = patches_of(pass), .c = weight, .trans_a = true, .accumulate = true}));
    ft_pass_free(pass, &own);
    return FT_OK;
}

#include "engine/model/blocks/position_bias.h"

#include "engine/model/blocks/run_op.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"

#include <stdlib.h>

// Distances from which on the rows behind the first eight are; from the last of them on all is one row.
static const int32_t first_of_row[] = {8, 12, 16, 23, 32, 46, 64, 91};
enum { OWN_ROWS = 8, FAR_ROWS = sizeof first_of_row / sizeof first_of_row[0], REACH = 91, SIDE = FT_BIAS_BUCKETS / 2 };

int32_t ft_position_bias_slot(int32_t delta) {
    const int32_t distance = abs(delta);
    int32_t row = distance;
    if (distance >= OWN_ROWS) {
        row = OWN_ROWS;
        while (row < OWN_ROWS + FAR_ROWS - 1 && distance >= first_of_row[row - OWN_ROWS + 1]) row++;
    }
    return delta < 0 ? SIDE + row : row;
}

ft_status ft_position_bias_create(ft_model *m, const ft_model_config *c) {
    if (c->bias_rows == 0) return FT_OK;
    m->position_bias = ft_arena_alloc(&m->arena, sizeof *m->position_bias);
    if (m->position_bias == NULL) return FT_NO_MEMORY;
    *m->position_bias = (ft_position_bias){.table = -1, .rows = c->bias_rows};
    return FT_OK;
}

// fp32 for attention in every precision, as weights of norms are; "bias" in its name leaves it without weight decay.
void ft_position_bias_build(ft_builder *b) {
    ft_position_bias *p = b->model->position_bias;
    if (p == NULL) return;
    ft_build_prefix(b, "encoder.");
    p->table = ft_build_parameter(b, "relative_attention_bias", ".weight",
                                  (ft_parameter_spec){.rows = p->rows, .cols = b->model->heads.count, .wide = true});
    ft_build_until_end(b, p->table);
}

ft_status ft_position_bias_upload(ft_model *m) {
    ft_position_bias *p = m->position_bias;
    int32_t slots[2 * REACH + 1];
    if (p == NULL) return FT_OK;
    for (int32_t i = 0; i <= 2 * REACH; i++) slots[i] = ft_position_bias_slot(i - REACH);
    void *data;
    FT_TRY(ft_memory_alloc(m->memory, sizeof slots, FT_MEM_WEIGHTS, "slots of biases by distance", &data));
    p->slots = data;
    FT_TRY(m->device->functions->upload(m->device, data, slots, sizeof slots));
    return m->device->functions->sync(m->device); // `slots` goes away
}

void ft_position_bias_free(ft_model *m) {
    if (m->position_bias != NULL && m->position_bias->slots != NULL) ft_memory_free(m->memory, m->position_bias->slots);
}

// ---- a step ---------------------------------------------------------------------------------------------------------

static int64_t numbers(const ft_model *m) { return m->position_bias->rows * m->heads.count; }
static size_t sum_bytes(const ft_model *m) { return (size_t)(m->layers * numbers(m)) * sizeof(float); }
static bool is_trained(const ft_model *m) { return m->parameters.list[m->position_bias->table].trainable; }

ft_status ft_position_bias_hold(ft_model *m, bool trains) {
    void *data;
    if (m->position_bias == NULL || !trains || !is_trained(m)) return FT_OK;
    FT_TRY(ft_memory_alloc_sums(m->memory, sum_bytes(m), FT_MEM_ACTIVATIONS, "gradients of biases by distance", &data));
    m->position_bias->sums = data;
    return FT_OK;
}

// A layer's are written by its attention.
ft_status ft_position_bias_add_parts(const ft_model *m, ft_chain_parts *parts) {
    if (m->position_bias == NULL || m->position_bias->sums == NULL) return FT_OK;
    for (int layer = 0; layer < m->layers; layer++)
        FT_TRY(ft_chain_parts_add(parts, (ft_chain_part){.point = ft_backward_point(m->layers - layer, 1),
                                                         .data = m->position_bias->sums + layer * numbers(m),
                                                         .count = numbers(m)}));
    return FT_OK;
}

void ft_position_bias_release(ft_model *m) {
    if (m->position_bias == NULL) return;
    ft_memory_free(m->memory, m->position_bias->sums);
    m->position_bias->sums = NULL;
}

ft_status ft_position_bias_begin(ft_model *m) {
    if (m->position_bias == NULL || m->position_bias->sums == NULL || ft_memory_is_guest_of_sums(m->memory)) return FT_OK;
    return m->device->functions->fill(m->device, m->position_bias->sums, 0, sum_bytes(m));
}

static ft_status add_layers(ft_pass *pass) {
    const ft_model *m = pass->model;
    FT_TRY(ft_gradients_share(&pass->model->parameters, ft_backward_point(m->layers + 2, 0)));
    FT_TRY(ft_word_sums_hold(&pass->model->parameters));
    ft_tensor gradient = ft_parameter_gradient(&m->parameters, m->position_bias->table);
    gradient = ft_vector(gradient.data, numbers(m), FT_F32);
    ft_column_sum_args args = {.x = ft_matrix(m->position_bias->sums, m->layers, numbers(m), FT_F32), .out = gradient}, largest = args;
    RUN_WITH_WORKSPACE(pass, column_sum, args, largest);
}

ft_status ft_position_bias_end(ft_model *m, ft_capacity capacity, const ft_step_state *step) {
    ft_pass pass = {.model = m, .capacity = capacity, .step = step};
    if (m->position_bias == NULL || m->position_bias->sums == NULL || step == NULL) return FT_OK;
    if (ft_memory_is_guest_of_sums(m->memory)) return FT_OK; // the first rank does it for all
    ft_memory_set_phase(m->memory, FT_PHASE_BACKWARD);
    FT_TRY(ft_memory_scope_begin(m->memory, FT_SCOPE_STEP_END));
    return ft_memory_scope_end(m->memory, add_layers(&pass));
}

// ---- attention ------------------------------------------------------------------------------------------------------

ft_attention_bias ft_position_bias_of(const ft_model *m) {
    const ft_position_bias *p = m->position_bias;
    if (p == NULL) return (ft_attention_bias){.table = ft_absent()};
    void *table = ft_parameter_weight(&m->parameters, p->table).data; // of fp32, whatever shape it is stored in
    return (ft_attention_bias){.table = ft_matrix(table, p->rows, m->heads.count, FT_F32), .slots = p->slots, .reach = REACH};
}

ft_tensor ft_position_bias_gradient(const ft_pass *pass, int layer) {
    const ft_model *m = pass->model;
    if (m->position_bias == NULL || m->position_bias->sums == NULL) return ft_absent();
    return ft_matrix(m->position_bias->sums + layer * numbers(m), m->position_bias->rows, m->heads.count, FT_F32);
}

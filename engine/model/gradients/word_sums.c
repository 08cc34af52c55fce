#include "engine/model/gradients/word_sums.h"

#include "engine/model/gradients/gradient_parts.h"
#include "engine/model/gradients/gradients.h"
#include "kernels/ops/backend.h"

static size_t in_places(size_t bytes) { return (bytes + FT_MEMORY_PLACE - 1) / FT_MEMORY_PLACE * FT_MEMORY_PLACE; }

// A plan has no ranks to sum with: it asks for memory alone.
static bool is_plan(const ft_parameters *p) { return ft_memory_ranks_of(p->memory).group == NULL; }

int64_t ft_word_sums_room(const ft_parameters *p, int64_t tokens) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    if (ranks.ranks < 2 || !ranks.apart || p->table < 0 || !ft_bucket_is_words(p, p->table)) return 0;
    const ft_parameter *table = &p->list[p->table];
    const int64_t most = table->rows / 4 * 3, room = tokens < most ? tokens : most;
    return room < table->trained ? room : table->trained;
}

size_t ft_word_sums_bytes(const ft_parameters *p) {
    return in_places((size_t)(p->words->room * p->list[p->table].cols) * sizeof(float));
}

float *ft_word_sums_table(const ft_parameters *p) { return p->gradients + p->list[p->table].offset; }

// ---- rows and table

static ft_tensor matrix_of(const ft_parameters *p, float *table) {
    return ft_matrix(table, p->list[p->table].trained, p->list[p->table].cols, FT_F32);
}

static ft_tensor rows_of(const ft_parameters *p) {
    return ft_matrix(p->words->sums, p->words->count, p->list[p->table].cols, FT_F32);
}

ft_status ft_word_sums_gather_rows(const ft_parameters *p, float *table, ft_range *part) {
    ft_device *device = ft_memory_device(p->memory);
    const ft_tensor rows = rows_of(p);
    *part = (ft_range){rows.data, rows.rows * rows.cols, FT_F32};
    return FT_RUN(device, gather_rows,
                  (&(ft_gather_rows_args){.index = p->words->rows, .x = matrix_of(p, table), .y = rows}));
}

ft_status ft_word_sums_clear(const ft_parameters *p, float *table) {
    ft_device *device = ft_memory_device(p->memory);
    const ft_tensor all = matrix_of(p, table);
    return device->functions->fill(device, table, 0, (size_t)(all.rows * all.cols) * sizeof(float));
}

// 0 and a sum: that sum.
ft_status ft_word_sums_put_rows(const ft_parameters *p, float *table) {
    ft_device *device = ft_memory_device(p->memory);
    return FT_RUN(device, scatter_rows_add,
                  (&(ft_scatter_rows_add_args){.index = p->words->rows, .x = rows_of(p), .y = matrix_of(p, table)}));
}

// ---- of gradients that every rank has whole

ft_status ft_word_sums_hold(const ft_parameters *p) {
    void *data;
    if (!ft_word_sums_hold_room(p) || p->parts == NULL || ft_gradient_parts_deal(p)) return FT_OK;
    const size_t at = p->gradients_in_steps ? in_places((size_t)p->trainable * sizeof(float)) : 0;
    FT_TRY(ft_memory_alloc_at(p->memory, at, ft_word_sums_bytes(p), FT_MEM_COMMUNICATION, "rows of words", &data));
    p->words->sums = data;
    return FT_OK;
}

static ft_status enter(ft_parameters *p) {
    FT_TRY(ft_gradients_share(p, p->gradients_point));
    return ft_word_sums_hold(p);
}

ft_status ft_word_sums_gather(ft_parameters *p, ft_range *part) {
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_WORDS));
    ft_status status = enter(p);
    if (status == FT_OK) status = ft_word_sums_gather_rows(p, ft_word_sums_table(p), part);
    return ft_memory_scope_end(p->memory, status);
}

ft_status ft_word_sums_put(ft_parameters *p) {
    if (!ft_word_sums_go_by_row(p) || ft_gradient_parts_deal(p)) return FT_OK;
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_WORDS));
    ft_status status = enter(p);
    if (status == FT_OK && !is_plan(p)) status = ft_word_sums_put_rows(p, ft_word_sums_table(p));
    return ft_memory_scope_end(p->memory, status);
}

#include "engine/model/blocks/cache.h"

#include "engine/model/blocks/rotary.h"
#include "engine/model/blocks/run_op.h"

static ft_status find_windows(const ft_model *m, ft_cache *c) {
    for (int l = 0; l < m->layers; l++) {
        const int32_t window = ft_rotary_window(m, l);
        int n = 0;
        while (n < c->windows && c->window[n] != window)
            n++;
        if (n < c->windows) continue;
        if (c->windows == FT_CACHE_WINDOWS)
            return ft_fail(FT_FAILED, "cache", "layers have more than %d windows", FT_CACHE_WINDOWS);
        c->window[c->windows++] = window;
    }
    return FT_OK;
}

ft_status ft_cache_create(const ft_model *m, int32_t slots, int32_t room, ft_cache *c) {
    *c = (ft_cache){
        .memory = m->memory, .slots = slots, .room = room, .layers = m->layers, .width = ft_key_columns(&m->heads)};
    FT_TRY(find_windows(m, c));
    const int64_t rows = (int64_t)m->layers * slots * room;
    void *data;
    FT_TRY(ft_memory_alloc(m->memory, (size_t)rows * (size_t)(2 * c->width) * ft_dtype_size(m->dtype),
                           FT_MEM_ACTIVATIONS, "keys and values of texts", &data));
    c->rows = ft_matrix(data, rows, 2 * c->width, m->dtype);
    return FT_OK;
}

void ft_cache_free(ft_cache *c) {
    if (c->memory != NULL) ft_memory_free(c->memory, c->rows.data);
    *c = (ft_cache){.memory = NULL};
}

static ft_tensor rows_of(const ft_cache *c, int layer) {
    const int64_t rows = (int64_t)c->slots * c->room;
    return ft_rows(c->rows, layer * rows, rows);
}

ft_status ft_cache_clear(const ft_cache *c, int32_t slot) {
    ft_device *device = ft_memory_device(c->memory);
    const size_t bytes = (size_t)c->room * (size_t)c->rows.cols * ft_dtype_size(c->rows.dtype);
    for (int l = 0; l < c->layers; l++)
        FT_TRY(
            device->functions->fill(device, ft_rows(rows_of(c, l), (int64_t)slot * c->room, c->room).data, 0, bytes));
    return FT_OK;
}

int32_t ft_cache_first(const ft_cache *c, int window, int32_t count) {
    const int32_t sees = c->window[window] + 1;
    return c->window[window] > 0 && count > sees ? count - sees : 0;
}

static ft_status scatter(ft_pass *pass, ft_scatter_rows_add_args args) {
    ft_scatter_rows_add_args largest = args;
    largest.x.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, scatter_rows_add, args, largest);
}

ft_status ft_cache_keep(ft_pass *pass, int layer, ft_tensor k, ft_tensor v) {
    const ft_cache *c = pass->cache;
    const ft_tensor rows = rows_of(c, layer);
    FT_TRY(scatter(pass, (ft_scatter_rows_add_args){.index = c->row, .x = k, .y = ft_columns(rows, 0, c->width)}));
    return scatter(pass,
                   (ft_scatter_rows_add_args){.index = c->row, .x = v, .y = ft_columns(rows, c->width, c->width)});
}

// Its one query sees all keys that it is given: what is in front of the window is not among them.
ft_status ft_cache_attend(ft_pass *pass, int layer, ft_tensor q, ft_tensor out) {
    const ft_cache *c = pass->cache;
    const ft_tensor rows = rows_of(c, layer);
    int n = 0;
    while (c->window[n] != ft_rotary_window(pass->model, layer))
        n++;
    ft_attention_forward_args args = {.shape = ft_pass_attention_shape(pass, FT_ROWS_TOKENS, layer),
                                      .q = q,
                                      .k = ft_columns(rows, 0, c->width),
                                      .v = ft_columns(rows, c->width, c->width),
                                      .out = out};
    args.shape.sequences = 2 * c->slots;
    args.shape.max_queries = 1;
    args.shape.max_keys = c->window[n] > 0 ? 2 * c->room : c->room; // of those between two slots there may be as many
    args.shape.cu_queries = c->cu_queries;
    args.shape.cu_keys = c->cu_keys[n];
    args.shape.window = 0;
    args.shape.causal = false;
    ft_attention_forward_args largest = args;
    largest.q.rows = largest.out.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, attention_forward, args, largest);
}

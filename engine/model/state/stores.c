#include "engine/model/state/stores.h"

size_t ft_store_weight_bytes(const ft_store *s) { return s->absent || s->home == FT_PLACE_FILE ? 0 : (size_t)s->count * ft_dtype_size(s->format.dtype); }

size_t ft_store_state_size(const ft_store *s, ft_store_state state) {
    static const size_t exact[] = {[FT_EXACT_AS_READ] = 0, [FT_EXACT_BY_TAILS] = sizeof(uint16_t), [FT_EXACT_BY_MASTER] = sizeof(float)};
    if (!s->trainable) return 0;
    return state == FT_STATE_EXACT ? exact[s->format.exact] : sizeof(float);
}

size_t ft_store_state_bytes(const ft_store *s, ft_store_state state) {
    return (size_t)(state == FT_STATE_EXACT && !s->deals_exact ? s->count : s->own.room) * ft_store_state_size(s, state);
}

static const char *site_of(const ft_store *s, ft_store_state state) {
    if (state == FT_STATE_EXACT) return s->format.exact == FT_EXACT_BY_TAILS ? "tails of weights" : "master weights";
    return state == FT_STATE_M ? "adamw first moment" : "adamw second moment";
}

ft_status ft_store_allocate_state(ft_store *s, ft_store_state state) {
    const size_t bytes = ft_store_state_bytes(s, state);
    const ft_memory_category category = state == FT_STATE_EXACT ? s->category : FT_MEM_OPTIMIZER;
    if (bytes == 0) return FT_OK;
    if (s->place == FT_PLACE_HOST) return ft_memory_alloc_pinned(s->owner, bytes, site_of(s, state), &s->state[state]);
    return ft_memory_alloc_common(s->owner, bytes, category, site_of(s, state), &s->state[state]);
}

void ft_store_free_state(ft_store *s) {
    // Tails and master copies go first, as they came.
    static const ft_store_state order[FT_STATES] = {FT_STATE_EXACT, FT_STATE_M, FT_STATE_V};
    for (int i = 0; i < FT_STATES; i++) {
        void **data = &s->state[order[i]];
        if (s->place == FT_PLACE_HOST) ft_memory_free_pinned(s->owner, *data);
        else ft_memory_free(s->owner, *data);
        *data = NULL;
    }
    ft_offload_free(s);
}

static void *at(void *array, int64_t element, size_t size) { return (char *)array + (size_t)element * size; }

ft_tensor ft_store_weights(const ft_store *s, int64_t first, int64_t rows, int64_t cols) {
    return ft_matrix(at(s->weights, first, ft_dtype_size(s->format.dtype)), rows, cols, s->format.dtype);
}

ft_staged ft_store_exact(const ft_store *s, int64_t first, int64_t rows, int64_t cols) {
    const ft_tensor weights = ft_store_weights(s, first, rows, cols);
    if (s->state[FT_STATE_EXACT] == NULL) return (ft_staged){.tensor = weights};
    const bool dealt = s->deals_exact && s->collected == NULL;
    const size_t size = ft_store_state_size(s, FT_STATE_EXACT);
    void *exact = at(dealt || s->collected == NULL ? s->state[FT_STATE_EXACT] : s->collected, dealt ? 0 : first, size);
    ft_staged all = {.dealt = dealt};
    if (dealt) { // counted from `first`
        const int64_t begin = s->own.first - first, end = begin + s->own.count;
        all.from = begin > 0 ? begin : 0;
        all.to = end < rows * cols ? end : rows * cols;
        if (all.from >= all.to) all.from = all.to = 0;
        else exact = at(exact, all.from - begin, size);
    }
    all.tensor = s->format.exact == FT_EXACT_BY_TAILS ? weights : ft_matrix(exact, rows, cols, FT_F32);
    if (s->format.exact == FT_EXACT_BY_TAILS) all.tail = exact;
    else all.copy = weights;
    return all;
}

#include "engine/model/state/shards.h"

enum { PART = 64 }; // elements: parts begin where lines of the memory do, in every type

ft_shard ft_shard_of(int64_t count, int rank, int ranks) {
    const int64_t parts = (count + PART - 1) / PART, each = (parts + ranks - 1) / ranks * PART, first = each * rank,
                  end = first + each;
    return (ft_shard){.first = first < count ? first : count,
                      .count = first >= count ? 0 : (end < count ? end : count) - first,
                      .room = each};
}

void ft_shards_find(ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    for (int i = 0; i < p->store_count; i++) {
        ft_store *s = &p->stores[i];
        s->own =
            p->deals ? ft_shard_of(s->count, ranks.rank, ranks.ranks) : (ft_shard){.count = s->count, .room = s->count};
        s->deals_exact = p->deals && s->category != FT_MEM_ADAPTERS;
    }
}

// What of [first, first + count) a part has; false: nothing.
static bool meet(const ft_shard *part, int64_t first, int64_t count, int64_t *from, int64_t *to) {
    *from = first > part->first ? first : part->first;
    *to = first + count < part->first + part->count ? first + count : part->first + part->count;
    return *from < *to;
}

ft_status ft_shards_cut(ft_parameters *p, ft_store *s) {
    if (!p->deals) return FT_OK;
    ft_adamw_range *cut = ft_arena_alloc(&p->arena, (size_t)(s->range_count + 1) * sizeof *cut);
    int kept = 0;
    if (cut == NULL) return FT_NO_MEMORY;
    s->all_ranges = s->ranges;
    s->all_count = s->range_count;
    for (int i = 0; i < s->all_count; i++) {
        ft_adamw_range r = s->all_ranges[i];
        int64_t from, to;
        if (!meet(&s->own, r.first, r.count, &from, &to)) continue;
        if (r.wide != NULL) r.wide += from - r.first;
        r.first = from - s->own.first;
        r.count = to - from;
        cut[kept++] = r;
    }
    s->ranges = cut;
    s->range_count = kept;
    return FT_OK;
}

static ft_status spread(ft_group *group, int root, void *data, int64_t first, int64_t count, ft_dtype dtype) {
    return ft_group_broadcast(group, root,
                              (ft_range){(char *)data + (size_t)first * ft_dtype_size(dtype), count, dtype});
}

static ft_status spread_part(ft_group *group, const ft_store *s, int root, const ft_shard *part) {
    void *exact = s->deals_exact ? NULL : s->state[FT_STATE_EXACT];
    const bool tails = s->format.exact == FT_EXACT_BY_TAILS;
    FT_TRY(spread(group, root, s->weights, part->first, part->count, s->format.dtype));
    if (exact != NULL && tails) FT_TRY(spread(group, root, exact, part->first * 2, part->count * 2, FT_U8));
    if (exact != NULL && !tails) FT_TRY(spread(group, root, exact, part->first, part->count, FT_F32));
    for (int i = 0; i < s->all_count; i++) {
        const ft_adamw_range *r = &s->all_ranges[i];
        int64_t from, to;
        if (r->wide != NULL && meet(part, r->first, r->count, &from, &to))
            FT_TRY(spread(group, root, r->wide, from - r->first, to - from, FT_F32));
    }
    return FT_OK;
}

ft_status ft_shards_spread(const ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    FT_TRY(ft_group_begin_together(ranks.group));
    for (int i = 0; i < p->store_count; i++) {
        const ft_store *s = &p->stores[i];
        for (int r = 0; s->trainable && r < ranks.ranks; r++) {
            const ft_shard part = ft_shard_of(s->count, r, ranks.ranks);
            if (part.count > 0) FT_TRY(spread_part(ranks.group, s, r, &part));
        }
    }
    FT_TRY(ft_group_end_together(ranks.group));
    return ft_group_join(ranks.group);
}

ft_status ft_shards_bring(const ft_parameters *p, const ft_store *s, ft_store_state moment, int64_t first,
                          int64_t count, float *to) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    ft_device *device = ft_memory_device(p->memory);
    for (int r = 0; r < ranks.ranks; r++) {
        const ft_shard part = ft_shard_of(s->count, r, ranks.ranks);
        int64_t from, end;
        if (!meet(&part, first, count, &from, &end)) continue;
        if (r == ranks.rank)
            FT_TRY(device->functions->copy(device, to + (from - first), (float *)s->state[moment] + (from - part.first),
                                           (size_t)(end - from) * sizeof *to));
        FT_TRY(ft_group_broadcast(ranks.group, r, (ft_range){to + (from - first), end - from, FT_F32}));
    }
    return ft_group_join(ranks.group);
}

static size_t in_places(size_t bytes) { return (bytes + FT_MEMORY_PLACE - 1) / FT_MEMORY_PLACE * FT_MEMORY_PLACE; }

// Bytes of all of the exact form of a store, where ranks have parts of it.
static size_t dealt_bytes(const ft_store *s) {
    return s->deals_exact ? (size_t)s->count * ft_store_state_size(s, FT_STATE_EXACT) : 0;
}

static ft_status collect_store(const ft_parameters *p, const ft_store *s) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    ft_device *device = ft_memory_device(p->memory);
    const size_t size = ft_store_state_size(s, FT_STATE_EXACT);
    if (s->own.count > 0)
        FT_TRY(device->functions->copy(device, (char *)s->collected + (size_t)s->own.first * size,
                                       s->state[FT_STATE_EXACT], (size_t)s->own.count * size));
    for (int r = 0; ranks.group != NULL && r < ranks.ranks; r++) {
        const ft_shard part = ft_shard_of(s->count, r, ranks.ranks);
        const ft_range range = {(char *)s->collected + (size_t)part.first * size, part.count * (int64_t)size, FT_U8};
        if (part.count > 0) FT_TRY(ft_group_broadcast(ranks.group, r, range));
    }
    return FT_OK;
}

static ft_status collect(ft_parameters *p, size_t bytes) {
    void *data;
    FT_TRY(ft_memory_alloc_at(p->memory, 0, bytes, p->stores[FT_STORE_TRAINED].category, "exact weights of all ranks",
                              &data));
    char *at = data;
    for (int i = 0; i < p->store_count; i++) {
        if (dealt_bytes(&p->stores[i]) == 0) continue;
        p->stores[i].collected = at;
        at += in_places(dealt_bytes(&p->stores[i]));
        FT_TRY(collect_store(p, &p->stores[i]));
    }
    ft_group *group = ft_memory_ranks_of(p->memory).group; // NULL: this is a plan
    return group != NULL ? ft_group_join(group) : FT_OK;
}

ft_status ft_shards_collect(ft_parameters *p) {
    size_t bytes = 0;
    for (int i = 0; i < p->store_count; i++)
        bytes += in_places(dealt_bytes(&p->stores[i]));
    if (bytes == 0) return FT_OK;
    ft_memory_set_phase(p->memory, FT_PHASE_SAVE);
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_COLLECT));
    return ft_memory_scope_end(p->memory, collect(p, bytes));
}

void ft_shards_release(ft_parameters *p) {
    for (int i = 0; i < p->store_count; i++)
        p->stores[i].collected = NULL;
}

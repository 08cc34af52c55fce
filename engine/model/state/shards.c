#include "engine/model/state/shards.h"

enum { PART = 64 }; // elements: parts begin where lines of the memory do, in every type

ft_shard ft_shard_of(int64_t count, int rank, int ranks) {
    const int64_t parts = (count + PART - 1) / PART, each = (parts + ranks - 1) / ranks * PART, first = each * rank,
                  end = first + each;
    return (ft_shard){.first = first < count ? first : count,
                      .count = first >= count ? 0 : (end < count ? end : count) - first,
                      .room = each};
}

ft_shard ft_shard_here(const ft_parameters *p, int64_t count) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    return p->deals ? ft_shard_of(count, ranks.rank, ranks.ranks) : (ft_shard){.count = count, .room = count};
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
    void *exact = s->state[FT_STATE_EXACT];
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
    for (int i = 0; i < p->store_count; i++) {
        const ft_store *s = &p->stores[i];
        for (int r = 0; s->trainable && r < ranks.ranks; r++) {
            const ft_shard part = ft_shard_of(s->count, r, ranks.ranks);
            if (part.count > 0) FT_TRY(spread_part(ranks.group, s, r, &part));
        }
    }
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

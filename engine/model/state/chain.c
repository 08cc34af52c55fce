#include "engine/model/state/chain.h"

// A rank's FT_CHAIN_BATCH: the micro-batch that it computes and, in the lower bits, what is left behind: all points
// below that.
enum { POINT_BITS = 20 };

static uint64_t left(uint64_t batch, uint64_t points) { return batch << POINT_BITS | points; }
static int rank_of(const ft_chain *c, uint64_t batch) { return (int)((batch - c->first) % (uint64_t)c->ranks); }

void ft_chain_open(ft_chain *c, const ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    *c = (ft_chain){.group = ranks.group, .rank = ranks.rank, .ranks = ranks.ranks};
}

// A share that begins where a cache line does.
ft_status ft_chain_clear(ft_chain *c, const ft_parameters *p) {
    enum { LINE = 64 };
    ft_device *device = ft_memory_device(p->memory);
    const int64_t lines = (p->trainable + LINE - 1) / LINE, first = lines * c->rank / c->ranks * LINE,
                  end = lines * (c->rank + 1) / c->ranks * LINE;
    const int64_t count = (end < p->trainable ? end : p->trainable) - first;
    if (count > 0) FT_TRY(device->functions->fill(device, p->gradients + first, 0, (size_t)count * sizeof(float)));
    return FT_OK;
}

bool ft_chain_is_mine(const ft_chain *c, int64_t index) { return index % c->ranks == c->rank; }

void ft_chain_open_step(ft_chain *c) {
    c->steps++;
    if (c->group != NULL) ft_group_raise(c->group, FT_CHAIN_CLEARED, c->steps);
}

void ft_chain_begin(ft_chain *c, int64_t index) { c->batch = c->first + (uint64_t)index; }

// Behind which point of a micro-batch nothing more is added to what is written at this one.
static int last_of(const ft_parameters *p, int point) {
    int last = point;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->trainable && q->arrives <= point && q->last >= point && q->last > last) last = q->last;
    }
    return last;
}

// Of the step's first micro-batch nothing is in front but that all have cleared their part; the others wait for that
// one.
static ft_status wait_for_clear(ft_chain *c) {
    for (int r = 0; r < c->ranks; r++)
        FT_TRY(ft_group_await(c->group, r, FT_CHAIN_CLEARED, c->steps));
    return FT_OK;
}

ft_status ft_chain_reach(ft_chain *c, const ft_parameters *p, int point) {
    if (c->group == NULL) return FT_OK;
    const uint64_t before = c->batch - 1;
    ft_group_raise(c->group, FT_CHAIN_BATCH, left(c->batch, (uint64_t)point));
    if (c->batch == c->first) return wait_for_clear(c);
    return ft_group_await(c->group, rank_of(c, before), FT_CHAIN_BATCH, left(before, (uint64_t)last_of(p, point) + 1));
}

ft_status ft_chain_end(ft_chain *c) {
    if (c->group == NULL) return FT_OK;
    if (c->batch > c->first)
        FT_TRY(ft_group_await(c->group, rank_of(c, c->batch - 1), FT_CHAIN_BATCH, left(c->batch, 0)));
    else
        FT_TRY(wait_for_clear(c));
    ft_group_raise(c->group, FT_CHAIN_BATCH, left(c->batch + 1, 0));
    return FT_OK;
}

ft_status ft_chain_finish(ft_chain *c, int64_t batches) {
    const uint64_t end = c->first + (uint64_t)batches;
    if (c->group != NULL && batches > 0)
        FT_TRY(ft_group_await(c->group, rank_of(c, end - 1), FT_CHAIN_BATCH, left(end, 0)));
    return FT_OK;
}

ft_status ft_chain_close_step(ft_chain *c, int64_t batches) {
    c->first += (uint64_t)batches;
    if (c->group == NULL) return FT_OK;
    if (c->rank > 0) return ft_group_await(c->group, 0, FT_CHAIN_CLOSED, c->steps);
    ft_group_raise(c->group, FT_CHAIN_CLOSED, c->steps);
    return FT_OK;
}

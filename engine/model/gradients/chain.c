#include "engine/model/gradients/chain.h"

#include <limits.h>

// A rank's FT_CHAIN_BATCH: the micro-batch that it computes and, in the lower bits, what is left behind: all points
// below that.
enum { POINT_BITS = 20, ALL_POINTS = INT_MAX };

static uint64_t left(uint64_t batch, uint64_t points) { return batch << POINT_BITS | points; }
static int rank_of(const ft_chain *c, uint64_t batch) { return (int)((batch - c->first) % (uint64_t)c->ranks); }

void ft_chain_open(ft_chain *c, const ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    *c = (ft_chain){.group = ranks.run, .rank = ranks.run_rank, .ranks = ranks.run_ranks};
    if (ranks.run != NULL) c->near = ft_group_near(ranks.run);
}

void ft_chain_close(ft_chain *c) { ft_chain_parts_free(&c->parts); }

static bool has_hosts(const ft_chain *c) { return c->group != NULL && c->group->hosts > 1; }

ft_status ft_chain_hold(ft_chain *c, const ft_parameters *p) {
    return has_hosts(c) ? ft_chain_parts_find(&c->parts, p) : FT_OK;
}

// A share that begins where a cache line does.
ft_status ft_chain_clear(ft_chain *c, const ft_parameters *p) {
    enum { LINE = 64 };
    ft_device *device = ft_memory_device(p->memory);
    const ft_memory_ranks near = ft_memory_ranks_of(p->memory);
    const int64_t lines = (p->trainable + LINE - 1) / LINE, first = lines * near.rank / near.ranks * LINE,
                  end = lines * (near.rank + 1) / near.ranks * LINE;
    const int64_t count = (end < p->trainable ? end : p->trainable) - first;
    if (count > 0) FT_TRY(device->functions->fill(device, p->gradients + first, 0, (size_t)count * sizeof(float)));
    return FT_OK;
}

bool ft_chain_is_mine(const ft_chain *c, int64_t index) { return index % c->ranks == c->rank; }

void ft_chain_open_step(ft_chain *c) {
    c->steps++;
    if (c->group != NULL) ft_group_raise(c->near, FT_CHAIN_CLEARED, c->steps);
}

void ft_chain_begin(ft_chain *c, int64_t index, bool last) {
    c->batch = c->first + (uint64_t)index;
    c->last = last;
    c->received = c->sent = 0;
}

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
// one. What comes from another host, too, comes to where nobody clears any more.
static ft_status wait_for_clear(ft_chain *c) {
    for (int r = 0; r < c->near->ranks; r++)
        FT_TRY(ft_group_await(c->near, r, FT_CHAIN_CLEARED, c->steps));
    return FT_OK;
}

// ---- between hosts

// To the rank of the next micro-batch where that is on another host, and behind the last one to all other hosts.
static ft_status send(ft_chain *c, ft_range part) {
    const int next = rank_of(c, c->batch + 1);
    if (!c->last) return ft_group_is_near(c->group, next) ? FT_OK : ft_group_send(c->group, next, part);
    for (int r = 0; r < c->ranks; r++)
        if (c->group->at[r] == 0 && !ft_group_is_near(c->group, r)) FT_TRY(ft_group_send(c->group, r, part));
    return FT_OK;
}

// What is left below that point.
static ft_status send_below(ft_chain *c, int point) {
    for (; c->sent < c->parts.count && c->parts.list[c->sent].point < point; c->sent++) {
        const ft_chain_part *part = &c->parts.list[c->sent];
        FT_TRY(send(c, (ft_range){part->data, part->count, FT_F32}));
    }
    return FT_OK;
}

// The same of the micro-batch before, by rank `from`.
static ft_status receive_below(ft_chain *c, int from, int64_t point) {
    for (; c->received < c->parts.count && c->parts.list[c->received].point < point; c->received++) {
        const ft_chain_part *part = &c->parts.list[c->received];
        FT_TRY(ft_group_receive(c->group, from, (ft_range){part->data, part->count, FT_F32}));
    }
    return FT_OK;
}

static ft_status receive_all(ft_chain *c, int from, ft_tensor losses) {
    FT_TRY(wait_for_clear(c));
    FT_TRY(receive_below(c, from, (int64_t)ALL_POINTS + 1));
    return ft_group_receive(c->group, from, (ft_range){losses.data, losses.cols, FT_F32});
}

// ---- a micro-batch

// Until the one before has left all below `points`.
static ft_status wait_for_batch_before(ft_chain *c, int64_t points) {
    const int before = rank_of(c, c->batch - 1);
    if (ft_group_is_near(c->group, before))
        return ft_group_await(c->near, c->group->at[before], FT_CHAIN_BATCH, left(c->batch - 1, (uint64_t)points));
    FT_TRY(wait_for_clear(c));
    return receive_below(c, before, points);
}

ft_status ft_chain_reach(ft_chain *c, const ft_parameters *p, int point) {
    if (c->group == NULL) return FT_OK;
    ft_group_raise(c->near, FT_CHAIN_BATCH, left(c->batch, (uint64_t)point));
    FT_TRY(send_below(c, point));
    if (c->batch == c->first) return wait_for_clear(c);
    return wait_for_batch_before(c, (int64_t)last_of(p, point) + 1);
}

ft_status ft_chain_end(ft_chain *c, ft_tensor losses, int64_t rows) {
    if (c->group == NULL) return FT_OK;
    const int before = c->batch > c->first ? rank_of(c, c->batch - 1) : c->rank;
    if (c->batch == c->first)
        FT_TRY(wait_for_clear(c));
    else if (ft_group_is_near(c->group, before))
        FT_TRY(ft_group_await(c->near, c->group->at[before], FT_CHAIN_BATCH, left(c->batch, 0)));
    else
        FT_TRY(receive_all(c, before, losses));
    FT_TRY(send_below(c, ALL_POINTS));
    if (has_hosts(c)) FT_TRY(send(c, (ft_range){losses.data, losses.cols + rows, FT_F32}));
    ft_group_raise(c->near, FT_CHAIN_BATCH, left(c->batch + 1, 0));
    return ft_group_finish(c->group); // what was sent is read until then
}

// ---- the end of a step

ft_status ft_chain_finish(ft_chain *c, int64_t batches, ft_tensor losses) {
    const uint64_t end = c->first + (uint64_t)batches;
    if (c->group == NULL || batches == 0) return FT_OK;
    const int last = rank_of(c, end - 1);
    if (ft_group_is_near(c->group, last))
        return ft_group_await(c->near, c->group->at[last], FT_CHAIN_BATCH, left(end, 0));
    if (c->near->rank > 0) return ft_group_await(c->near, 0, FT_CHAIN_ARRIVED, c->steps);
    c->received = 0;
    FT_TRY(receive_all(c, last, losses));
    ft_group_raise(c->near, FT_CHAIN_ARRIVED, c->steps);
    return FT_OK;
}

ft_status ft_chain_close_step(ft_chain *c, int64_t batches) {
    c->first += (uint64_t)batches;
    if (c->group == NULL) return FT_OK;
    if (c->near->rank > 0) return ft_group_await(c->near, 0, FT_CHAIN_CLOSED, c->steps);
    ft_group_raise(c->near, FT_CHAIN_CLOSED, c->steps);
    return FT_OK;
}

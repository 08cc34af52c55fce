#include "engine/model/gradients/gradient_sums.h"

#include "engine/model/gradients/gradient_parts.h"
#include "base/heap.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"
#include "kernels/ops/backend.h"

#include <stdlib.h>

// Of ranks that share memory: what a layer or less has left is in the caches still. And a rank's FT_SUMS_LEFT: the step
// and, in the lower bits, how many pieces of it are left.
enum { SLOT_PIECE = 1 << 20, PIECE_BITS = 20, LINE = 16 };

ft_status ft_gradient_sums_open(ft_gradient_sums *r, const ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    const bool hosts = ranks.run != NULL && ranks.run->hosts > 1;
    *r = (ft_gradient_sums){.rank = ranks.run_rank,
                            .ranks = ranks.run_ranks,
                            .near = p->gradients_in_slots && hosts ? ranks.group : NULL,
                            .in_slots = p->gradients_in_slots && !hosts,
                            .steps = r->steps};
    const size_t first = r->in_slots ? SLOT_PIECE : FT_BUCKET_FIRST, others = r->in_slots ? SLOT_PIECE : FT_BUCKET_BYTES;
    FT_TRY(ft_buckets_of_step(p, first, others, &r->pieces, &r->count));
    r->parts = ft_calloc((size_t)r->count, sizeof *r->parts, "the order of gradients");
    if (r->parts == NULL) return ft_gradient_sums_close(r), FT_NO_MEMORY;
    r->group = ranks.run;
    return FT_OK;
}

void ft_gradient_sums_close(ft_gradient_sums *r) {
    free(r->pieces);
    free(r->parts);
    *r = (ft_gradient_sums){.group = NULL, .steps = r->steps};
}

bool ft_gradient_sums_is_mine(const ft_gradient_sums *r, int64_t index) { return index % r->ranks == r->rank; }

void ft_gradient_sums_begin(ft_gradient_sums *r) {
    r->sent = r->summed = 0;
    r->going = false;
    r->steps++;
}

void ft_gradient_sums_go(ft_gradient_sums *r) { r->going = true; }

// ---- in slots that all ranks see

static uint64_t left(const ft_gradient_sums *r, int pieces) { return r->steps << PIECE_BITS | (uint64_t)pieces; }

static bool all_have_left(const ft_gradient_sums *r, int piece) {
    for (int k = 0; k < r->ranks; k++)
        if (!ft_group_has_raised(r->group, k, FT_SUMS_LEFT, left(r, piece + 1))) return false;
    return true;
}

// This rank's part of a piece: whole lines of caches, so that no two ranks write to one.
static ft_status sum_part(const ft_gradient_sums *r, const ft_parameters *p, int piece) {
    ft_device *device = ft_memory_device(p->memory);
    const ft_bucket *b = &r->pieces[piece];
    const int64_t lines = (b->count + LINE - 1) / LINE, from = lines * r->rank / r->ranks * LINE,
                  end = lines * (r->rank + 1) / r->ranks * LINE, count = (end < b->count ? end : b->count) - from;
    float *sum = ft_gradients_summed(p) + b->first + from, *others = sum + ft_gradient_slot(p);
    if (count <= 0) return FT_OK;
    const ft_tensor x = {others, r->ranks - 1, count, ft_gradient_slot(p), FT_F32};
    return FT_RUN(device, column_sum, (&(ft_column_sum_args){.x = x, .out = ft_vector(sum, count, FT_F32)}));
}

static ft_status sum_what_all_left(ft_gradient_sums *r, const ft_parameters *p) {
    for (; r->summed < r->sent && all_have_left(r, r->summed); r->summed++)
        FT_TRY(sum_part(r, p, r->summed));
    return FT_OK;
}

// Behind it all sums are there.
static ft_status finish_slots(ft_gradient_sums *r, const ft_parameters *p) {
    r->sent = r->count;
    ft_group_raise(r->group, FT_SUMS_LEFT, left(r, r->count));
    for (; r->summed < r->count; r->summed++) {
        for (int k = 0; k < r->ranks; k++)
            FT_TRY(ft_group_await(r->group, k, FT_SUMS_LEFT, left(r, r->summed + 1)));
        FT_TRY(sum_part(r, p, r->summed));
    }
    return ft_group_barrier(r->group);
}

// ---- by the group

// The next pieces that are complete at the same point, as one operation.
static ft_status send(ft_gradient_sums *r, ft_parameters *p) {
    const int count = ft_buckets_at_once(r->pieces, r->count, r->sent);
    bool words = false;
    for (int i = 0; i < count; i++) {
        const ft_bucket *b = &r->pieces[r->sent + i];
        const bool rows = b->words && ft_word_sums_go_by_row(p);
        r->parts[i] = (ft_range){p->gradients + b->first, b->count, FT_F32};
        if (rows) FT_TRY(ft_word_sums_gather(p, &r->parts[i]));
        words = words || rows;
    }
    r->sent += count;
    FT_TRY(ft_group_all_reduce_all(r->group, r->parts, count));
    return words ? ft_word_sums_clear(p, ft_word_sums_table(p)) : FT_OK;
}

ft_status ft_gradient_sums_reach(ft_gradient_sums *r, ft_parameters *p, int point) {
    const int before = r->sent;
    while (r->going && r->sent < r->count && r->pieces[r->sent].completes < point) {
        if (r->in_slots)
            r->sent++;
        else
            FT_TRY(send(r, p));
    }
    if (!r->in_slots || !r->going) return FT_OK;
    if (r->sent > before) ft_group_raise(r->group, FT_SUMS_LEFT, left(r, r->sent));
    return sum_what_all_left(r, p);
}

ft_status ft_gradient_sums_leave(ft_gradient_sums *r, ft_parameters *p) {
    const bool here = !r->in_slots && !ft_gradient_parts_deal(p);
    while (here && r->sent < r->count && !r->pieces[r->sent].late)
        FT_TRY(send(r, p));
    return FT_OK;
}

ft_status ft_gradient_sums_finish(ft_gradient_sums *r, ft_parameters *p) {
    r->going = false;
    if (r->in_slots) return finish_slots(r, p);
    if (ft_gradient_parts_deal(p)) return ft_gradient_parts_finish(p);
    while (r->sent < r->count)
        FT_TRY(send(r, p));
    return r->near != NULL ? ft_group_barrier(r->near) : FT_OK;
}

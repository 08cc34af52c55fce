#include "engine/model/state/gradient_sums.h"

#include "engine/model/state/gradients.h"

#include <stdlib.h>

// Where the same point completes several, in their order.
static int by_completion(const void *a, const void *b) {
    const ft_bucket *x = a, *y = b;
    if (x->completes != y->completes) return x->completes < y->completes ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

// What no bucket has - trained stores beside the first one - goes with the last, behind all.
static void take_rest(const ft_parameters *p, ft_gradient_sums *r) {
    if (r->count == 0) r->pieces[r->count++] = (ft_bucket){.first = 0};
    ft_bucket *last = &r->pieces[r->count - 1];
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->trainable && q->store != FT_STORE_TRAINED && q->completes > last->completes)
            last->completes = q->completes;
    }
    last->count = p->trainable - last->first;
}

ft_status ft_gradient_sums_open(ft_gradient_sums *r, const ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    *r = (ft_gradient_sums){.rank = ranks.rank, .ranks = ranks.ranks};
    FT_TRY(ft_buckets_cut(p, FT_BUCKET_FIRST, FT_BUCKET_BYTES, &r->pieces, &r->count));
    r->group = ranks.group;
    take_rest(p, r);
    qsort(r->pieces, (size_t)r->count, sizeof *r->pieces, by_completion);
    return FT_OK;
}

void ft_gradient_sums_close(ft_gradient_sums *r) {
    free(r->pieces);
    *r = (ft_gradient_sums){.group = NULL};
}

bool ft_gradient_sums_is_mine(const ft_gradient_sums *r, int64_t index) { return index % r->ranks == r->rank; }

void ft_gradient_sums_begin(ft_gradient_sums *r) {
    r->sent = 0;
    r->going = false;
}

void ft_gradient_sums_go(ft_gradient_sums *r) { r->going = true; }

static ft_status send(ft_gradient_sums *r, const ft_parameters *p) {
    const ft_bucket *b = &r->pieces[r->sent++];
    return ft_group_all_reduce(r->group, (ft_range){p->gradients + b->first, b->count, FT_F32});
}

ft_status ft_gradient_sums_reach(ft_gradient_sums *r, const ft_parameters *p, int point) {
    while (r->going && r->sent < r->count && r->pieces[r->sent].completes < point)
        FT_TRY(send(r, p));
    return FT_OK;
}

ft_status ft_gradient_sums_finish(ft_gradient_sums *r, const ft_parameters *p) {
    r->going = false;
    while (r->sent < r->count)
        FT_TRY(send(r, p));
    return FT_OK;
}

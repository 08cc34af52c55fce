#include "engine/model/gradients/gradient_sums.h"

#include "engine/model/gradients/gradient_parts.h"

#include <stdlib.h>

ft_status ft_gradient_sums_open(ft_gradient_sums *r, const ft_parameters *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    *r = (ft_gradient_sums){.rank = ranks.rank, .ranks = ranks.ranks};
    FT_TRY(ft_buckets_of_step(p, &r->pieces, &r->count));
    r->group = ranks.group;
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
    if (ft_gradient_parts_deal(p)) return ft_gradient_parts_finish(p);
    while (r->sent < r->count)
        FT_TRY(send(r, p));
    return FT_OK;
}

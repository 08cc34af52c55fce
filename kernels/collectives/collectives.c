#include "kernels/collectives/collectives.h"

static ft_status check_range(const ft_group *group, const char *what, ft_range all, bool in_parts, bool sums) {
    if (all.count < 0 || (all.count > 0 && all.data == NULL))
        return ft_fail(FT_FAILED, what, "%lld elements of nothing", (long long)all.count);
    if (in_parts && all.count % group->ranks != 0)
        return ft_fail(FT_FAILED, what, "%lld elements are not %d equal parts", (long long)all.count, group->ranks);
    if (sums && all.dtype == FT_U8)
        return ft_fail(FT_FAILED, what, "there are no sums of %s", ft_dtype_name(all.dtype));
    return ft_group_check((ft_group *)group);
}

ft_status ft_group_all_reduce(ft_group *g, ft_range all) {
    FT_TRY(check_range(g, "all_reduce", all, false, true));
    return g->functions->all_reduce(g, all);
}

ft_status ft_group_all_reduce_all(ft_group *g, const ft_range *part, int count) {
    if (count == 1) return ft_group_all_reduce(g, part[0]);
    FT_TRY(ft_group_begin_together(g));
    for (int i = 0; i < count; i++)
        FT_TRY(ft_group_all_reduce(g, part[i]));
    return ft_group_end_together(g);
}

ft_status ft_group_begin_together(ft_group *g) {
    return g->functions->together != NULL ? g->functions->together(g, true) : ft_group_check(g);
}

ft_status ft_group_end_together(ft_group *g) {
    return g->functions->together != NULL ? g->functions->together(g, false) : FT_OK;
}

ft_status ft_group_reduce_scatter(ft_group *g, ft_range all) {
    FT_TRY(check_range(g, "reduce_scatter", all, true, true));
    return g->functions->reduce_scatter(g, all);
}

ft_status ft_group_all_gather(ft_group *g, ft_range all) {
    FT_TRY(check_range(g, "all_gather", all, true, false));
    return g->functions->all_gather(g, all);
}

ft_status ft_group_broadcast(ft_group *g, int root, ft_range all) {
    FT_TRY(check_range(g, "broadcast", all, false, false));
    if (root < 0 || root >= g->ranks)
        return ft_fail(FT_FAILED, "broadcast", "there is no rank %d of %d", root, g->ranks);
    return g->functions->broadcast(g, root, all);
}

ft_status ft_group_barrier(ft_group *g) {
    FT_TRY(ft_group_check(g));
    return g->functions->barrier(g);
}

ft_status ft_group_join(ft_group *g) { return g->functions->join != NULL ? g->functions->join(g) : ft_group_check(g); }
ft_status ft_group_finish(ft_group *g) {
    return g->functions->finish != NULL ? g->functions->finish(g) : ft_group_check(g);
}
ft_status ft_group_check(ft_group *g) { return g->functions->check(g); }
ft_status ft_group_look(ft_group *g) { return g->functions->look != NULL ? g->functions->look(g) : ft_group_check(g); }
void ft_group_abort(ft_group *g, const ft_error *error) { g->functions->abort(g, error); }

ft_status ft_group_share(ft_group *g, size_t bytes, void **data) {
    *data = NULL;
    if (g->functions->share == NULL) return ft_fail(FT_FAILED, g->backend, "its ranks have no memory in common");
    FT_TRY(ft_group_check(g));
    return g->functions->share(g, bytes, data);
}

void ft_group_unshare(ft_group *g, void *data, size_t bytes) {
    if (data != NULL) g->functions->unshare(g, data, bytes);
}

void ft_group_raise(ft_group *g, int point, uint64_t value) { g->functions->raise(g, point, value); }
ft_status ft_group_await(ft_group *g, int rank, int point, uint64_t value) {
    return g->functions->await(g, rank, point, value);
}

bool ft_group_has_raised(ft_group *g, int rank, int point, uint64_t value) {
    return g->functions->has_raised(g, rank, point, value);
}

static ft_status check_part(const ft_group *g, const char *what, int other) {
    if (g->hosts < 2) return ft_fail(FT_FAILED, what, "all ranks are on one host");
    if (other >= 0 && other < g->ranks && !ft_group_is_near(g, other)) return FT_OK;
    return ft_fail(FT_FAILED, what, "there is no rank %d on another host", other);
}

ft_status ft_group_send(ft_group *g, int to, ft_range part) {
    FT_TRY(check_part(g, "send", to));
    return part.count > 0 ? g->functions->send(g, to, part) : FT_OK;
}

ft_status ft_group_receive(ft_group *g, int from, ft_range part) {
    FT_TRY(check_part(g, "receive", from));
    return part.count > 0 ? g->functions->receive(g, from, part) : FT_OK;
}

ft_status ft_group_complete(ft_group *g, ft_range all) {
    FT_TRY(check_range(g, "complete", all, true, false));
    ft_group *near = ft_group_near(g);
    const int64_t part = all.count / g->ranks;
    FT_TRY(ft_group_barrier(near));
    if (g->hosts < 2) return FT_OK;
    for (int r = 0; part > 0 && near->rank == 0 && r < g->ranks; r++) {
        char *data = (char *)all.data + (size_t)(r * part) * ft_dtype_size(all.dtype);
        FT_TRY(g->functions->spread(g, r, (ft_range){data, part, all.dtype}));
    }
    return ft_group_barrier(near);
}

void ft_group_close(ft_group *g) {
    if (g != NULL) g->functions->close(g);
}

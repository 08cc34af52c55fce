#include "kernels/collectives/mpi/messages.h"
#include "kernels/collectives/sums.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { STAGE = 256 << 10 };

typedef struct mpi_group {
    ft_group group; // first
    ft_mpi *mpi;
    char *stage; // [ranks][STAGE]; NULL: nothing was summed yet
    ft_mpi_request *sent;
    size_t sent_count, sent_capacity;
} mpi_group;

static mpi_group *of(ft_group *g) { return (mpi_group *)g; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t bytes_of(ft_range r) { return (size_t)r.count * ft_dtype_size(r.dtype); }

// ---- operations of all ranks

static ft_status mpi_barrier(ft_group *group) {
    ft_mpi *mpi = of(group)->mpi;
    ft_mpi_request request;
    FT_TRY(ft_mpi_check(mpi, mpi->table->barrier(FT_MPI_ALL, &request), "barrier"));
    return ft_mpi_wait(mpi, &request, "barrier");
}

static ft_status need_stage(mpi_group *g) {
    if (g->stage == NULL) g->stage = ft_calloc((size_t)g->group.ranks, STAGE, "sums over MPI");
    return g->stage != NULL ? FT_OK : FT_NO_MEMORY;
}

// Every rank gets what all bring, and adds in the order of ranks.
static ft_status mpi_all_reduce(ft_group *group, ft_range all) {
    mpi_group *g = of(group);
    const size_t size = ft_dtype_size(all.dtype), total = bytes_of(all);
    char *data = all.data;
    FT_TRY(need_stage(g));
    for (size_t at = 0; at < total; at += STAGE) {
        const size_t bytes = least(STAGE, total - at);
        memcpy(g->stage + (size_t)group->rank * bytes, data + at, bytes);
        FT_TRY(ft_mpi_gather(g->mpi, g->stage, (int)bytes));
        ft_sum_parts(g->stage, bytes, group->ranks, (int64_t)(bytes / size), all.dtype, data + at);
    }
    return FT_OK;
}

static ft_status mpi_all_gather(ft_group *group, ft_range all) {
    mpi_group *g = of(group);
    const size_t part = bytes_of(all) / (size_t)group->ranks;
    char *data = all.data;
    if (part <= FT_MPI_MESSAGE) return ft_mpi_gather(g->mpi, data, (int)part);
    FT_TRY(need_stage(g));
    for (size_t at = 0; at < part; at += STAGE) {
        const size_t bytes = least(STAGE, part - at);
        memcpy(g->stage + (size_t)group->rank * bytes, data + (size_t)group->rank * part + at, bytes);
        FT_TRY(ft_mpi_gather(g->mpi, g->stage, (int)bytes));
        for (int r = 0; r < group->ranks; r++)
            memcpy(data + (size_t)r * part + at, g->stage + (size_t)r * bytes, bytes);
    }
    return FT_OK;
}

static ft_status broadcast(mpi_group *g, ft_mpi_circle circle, int root, ft_range all) {
    ft_mpi_request request;
    const size_t total = bytes_of(all);
    for (size_t at = 0; at < total; at += FT_MPI_MESSAGE) {
        const int bytes = (int)least(FT_MPI_MESSAGE, total - at);
        FT_TRY(ft_mpi_check(g->mpi, g->mpi->table->broadcast(circle, (char *)all.data + at, bytes, root, &request),
                            "broadcast"));
        FT_TRY(ft_mpi_wait(g->mpi, &request, "broadcast"));
    }
    return FT_OK;
}

static ft_status mpi_broadcast(ft_group *group, int root, ft_range all) {
    return broadcast(of(group), FT_MPI_ALL, root, all);
}

// ---- between hosts

static ft_status mpi_spread(ft_group *group, int root, ft_range part) {
    return broadcast(of(group), FT_MPI_LEADERS, group->place[root], part);
}

static ft_status make_room(mpi_group *g) {
    if (g->sent_count < g->sent_capacity) return FT_OK;
    const size_t capacity = g->sent_capacity ? 2 * g->sent_capacity : 64;
    ft_mpi_request *grown = ft_realloc(g->sent, capacity, sizeof *grown, "messages over MPI");
    if (grown == NULL) return FT_NO_MEMORY;
    g->sent = grown;
    g->sent_capacity = capacity;
    return FT_OK;
}

static ft_status mpi_send(ft_group *group, int to, ft_range part) {
    mpi_group *g = of(group);
    const size_t total = bytes_of(part);
    for (size_t at = 0; at < total; at += FT_MPI_MESSAGE) {
        const int bytes = (int)least(FT_MPI_MESSAGE, total - at);
        FT_TRY(make_room(g));
        FT_TRY(ft_mpi_check(
            g->mpi, g->mpi->table->send(FT_MPI_ALL, (const char *)part.data + at, bytes, to, &g->sent[g->sent_count]),
            "send"));
        g->sent_count++;
    }
    return FT_OK;
}

static ft_status mpi_receive(ft_group *group, int from, ft_range part) {
    ft_mpi *mpi = of(group)->mpi;
    ft_mpi_request request;
    const size_t total = bytes_of(part);
    for (size_t at = 0; at < total; at += FT_MPI_MESSAGE) {
        const int bytes = (int)least(FT_MPI_MESSAGE, total - at);
        FT_TRY(ft_mpi_check(mpi, mpi->table->receive(FT_MPI_ALL, (char *)part.data + at, bytes, from, &request),
                            "receive"));
        FT_TRY(ft_mpi_wait(mpi, &request, "receive"));
    }
    return FT_OK;
}

static ft_status mpi_finish(ft_group *group) {
    mpi_group *g = of(group);
    for (size_t i = 0; i < g->sent_count; i++)
        FT_TRY(ft_mpi_wait(g->mpi, &g->sent[i], "send"));
    g->sent_count = 0;
    return FT_OK;
}

// ---- ends

static ft_status mpi_look(ft_group *group) { return ft_mpi_look(of(group)->mpi); }

static ft_status mpi_check(ft_group *group) {
    ft_mpi *mpi = of(group)->mpi;
    if (mpi->ended) return ft_error_restore(&mpi->error), mpi->error.code;
    return ft_group_check(group->near);
}

static void mpi_abort(ft_group *group, const ft_error *error) {
    ft_group_abort(group->near, error);
    ft_mpi_abort(of(group)->mpi, error);
}

static void mpi_close(ft_group *group) {
    mpi_group *g = of(group);
    g->mpi->near = NULL;
    ft_group_close(group->near);
    free(g->stage);
    free(g->sent);
    free(g);
}

static const ft_group_functions functions = {
    .all_reduce = mpi_all_reduce,
    .reduce_scatter = mpi_all_reduce, // what is not this rank's part may be anything
    .all_gather = mpi_all_gather,
    .broadcast = mpi_broadcast,
    .barrier = mpi_barrier,
    .finish = mpi_finish,
    .send = mpi_send,
    .receive = mpi_receive,
    .spread = mpi_spread,
    .check = mpi_check,
    .look = mpi_look,
    .abort = mpi_abort,
    .close = mpi_close,
};

// Who leads the host of each, and which of them it is there: hosts are told apart by their first ranks.
typedef struct stand {
    int leader, at;
} stand;

static ft_status find_places(mpi_group *g) {
    ft_group *group = &g->group, *near = group->near;
    stand all[FT_GROUP_RANKS];
    int numbers[FT_GROUP_RANKS] = {0};
    numbers[near->rank] = group->rank;
    FT_TRY(ft_group_all_gather(near, (ft_range){numbers, near->ranks, FT_I32}));
    memcpy(near->number, numbers, sizeof numbers);
    all[group->rank] = (stand){numbers[0], near->rank};
    FT_TRY(ft_mpi_gather(g->mpi, all, sizeof *all));
    for (int r = 0; r < group->ranks; r++) {
        group->number[r] = r;
        group->at[r] = all[r].at;
        group->place[r] = -1;
        for (int i = 0; i < r && group->place[r] < 0; i++)
            if (all[i].leader == all[r].leader) group->place[r] = group->place[i];
        if (group->place[r] < 0 && all[r].at != 0)
            return ft_fail(FT_FAILED, "ranks", "rank %d is the first on its host, and not counted so there", r);
        if (group->place[r] < 0) group->place[r] = group->hosts++;
        memcpy(group->host[r], g->mpi->host[r], FT_GROUP_HOST);
    }
    return ft_mpi_check(g->mpi, g->mpi->table->split(near->rank == 0), "MPI_Comm_split");
}

ft_status ft_mpi_group_open(ft_mpi *mpi, ft_group *near, ft_group **group) {
    *group = NULL;
    mpi_group *g = ft_calloc(1, sizeof *g, "a group of ranks");
    if (g == NULL) {
        ft_group_close(near);
        return FT_NO_MEMORY;
    }
    g->group = (ft_group){.rank = mpi->rank,
                          .ranks = mpi->ranks,
                          .backend = "MPI",
                          .ordered = true,
                          .near = near,
                          .functions = &functions};
    g->mpi = mpi;
    mpi->near = near;
    const ft_status status = find_places(g);
    if (status == FT_OK) return *group = &g->group, FT_OK;
    mpi_close(&g->group);
    return status;
}

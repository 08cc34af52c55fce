// group.c - a group of ranks on GPUs.
#include "kernels/collectives/nccl/nccl.h"

#include "base/arena.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_NS = 50000, LOOKS_A_SEARCH = 1000 }; // between two looks at what is on its way

typedef struct nccl_group {
    ft_group group; // first
    const ft_nccl *nccl;
    ft_cuda *cuda;
    ft_group *control;
    uint64_t asked;      // how often it was
    ft_nccl_comm comm;   // NULL: there is none, or it was aborted
    ft_cu_stream stream; // of the operations
    ft_cu_event computed, done;
    bool together; // what is asked is noted for one launch
} nccl_group;

static nccl_group *of(ft_group *group) { return (nccl_group *)group; }

static void pause_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL); }

// What the others say; now and then also whether their processes are still there.
static ft_status ask_others(nccl_group *g) {
    return ++g->asked % LOOKS_A_SEARCH == 0 ? ft_group_look(g->control) : ft_group_check(g->control);
}

// ---- failures

// What is on its way is given up; the library waits for nobody then.
static void give_up(nccl_group *g) {
    if (g->comm != NULL) (void)g->nccl->abort(g->comm);
    g->comm = NULL;
}

// The group ends, with the present error as the reason; it says whose it is.
static ft_status end(nccl_group *g, ft_status status) {
    ft_error error, mine;
    ft_error_save(&mine);
    error = mine;
    snprintf(error.message, sizeof error.message, "rank %d on %s: %.800s", g->group.rank, g->group.host[g->group.rank],
             mine.message);
    ft_group_abort(g->control, &error);
    give_up(g);
    ft_error_restore(&mine);
    return status;
}

static ft_status fail(nccl_group *g, const char *call, int result) {
    const char *words = g->nccl->error_string(result), *more = g->comm != NULL ? g->nccl->last_error(g->comm) : NULL;
    const bool told = more != NULL && more[0] != '\0';
    ft_fail(FT_FAILED, call, "NCCL answers %s (%d)%s%.300s", words != NULL ? words : "an unknown result", result,
            told ? ": " : "", told ? more : "");
    if (result == FT_NCCL_CUDA_ERROR) ft_error_is_of_device(); // it does not say which error
    // Where a rank is gone the others know more of it than NCCL does.
    ft_error error;
    ft_error_save(&error);
    if (result == FT_NCCL_REMOTE_ERROR && ft_group_look(g->control) != FT_OK) return give_up(g), FT_FAILED;
    ft_error_restore(&error);
    return end(g, FT_FAILED);
}

// Nothing has failed yet, here or elsewhere.
static ft_status look(nccl_group *g) {
    int result = FT_NCCL_SUCCESS;
    const ft_status others = ask_others(g);
    if (others != FT_OK) return give_up(g), others;
    if (g->comm == NULL) return ft_fail(FT_FAILED, "NCCL", "the group of ranks has ended");
    if (g->nccl->async_error(g->comm, &result) != FT_NCCL_SUCCESS) result = FT_NCCL_CUDA_ERROR;
    if (result == FT_NCCL_SUCCESS || result == FT_NCCL_IN_PROGRESS) return FT_OK;
    return fail(g, "ncclCommGetAsyncError", result);
}

// Calls return before they are through (blocking = 0), so that another rank's failure can be noticed meanwhile. What is
// asked together is through with its end.
static ft_status settle(nccl_group *g, const char *call, int result) {
    if (g->together && result == FT_NCCL_IN_PROGRESS) return FT_OK;
    while (result == FT_NCCL_IN_PROGRESS) {
        const ft_status others = ask_others(g);
        if (others != FT_OK) return give_up(g), others;
        int now = FT_NCCL_SUCCESS;
        result = g->nccl->async_error(g->comm, &now);
        if (result == FT_NCCL_SUCCESS) result = now;
        if (result == FT_NCCL_IN_PROGRESS) pause_a_little();
    }
    return result == FT_NCCL_SUCCESS ? FT_OK : fail(g, call, result);
}

// A failed call of the driver ends the group as well.
static ft_status driver_status(nccl_group *g, ft_status status) { return status == FT_OK ? FT_OK : end(g, status); }

// ---- operations

static int type_of(ft_dtype dtype) {
    switch (dtype) {
    case FT_F32: return FT_NCCL_F32;
    case FT_F64: return FT_NCCL_F64;
    case FT_I32: return FT_NCCL_I32;
    case FT_I64: return FT_NCCL_I64;
    case FT_BF16: return FT_NCCL_BF16;
    case FT_F16: return FT_NCCL_F16;
    case FT_U8: break;
    }
    return FT_NCCL_U8;
}

// The operation begins when what is computed by now is.
static ft_status begin(nccl_group *g) {
    const ft_cuda_driver *d = g->cuda->driver;
    if (g->together) return FT_OK; // with the first of them
    FT_TRY(look(g));
    FT_TRY(driver_status(g, ft_cuda_enter(g->cuda)));
    FT_TRY(driver_status(g, FT_CUDA(d, event_record, g->computed, g->cuda->stream)));
    return driver_status(g, FT_CUDA(d, stream_wait_event, g->stream, g->computed, FT_CU_EVENT_WAIT_DEFAULT));
}

static ft_status nccl_all_reduce(ft_group *group, ft_range all) {
    nccl_group *g = of(group);
    FT_TRY(begin(g));
    return settle(g, "ncclAllReduce",
                  g->nccl->all_reduce(all.data, all.data, (size_t)all.count, type_of(all.dtype), FT_NCCL_SUM, g->comm,
                                      g->stream));
}

static char *part_of(const ft_group *group, ft_range all, size_t *count) {
    *count = (size_t)(all.count / group->ranks);
    return (char *)all.data + (size_t)group->rank * *count * ft_dtype_size(all.dtype);
}

static ft_status nccl_reduce_scatter(ft_group *group, ft_range all) {
    nccl_group *g = of(group);
    size_t count;
    char *part = part_of(group, all, &count);
    FT_TRY(begin(g));
    return settle(g, "ncclReduceScatter",
                  g->nccl->reduce_scatter(all.data, part, count, type_of(all.dtype), FT_NCCL_SUM, g->comm, g->stream));
}

static ft_status nccl_all_gather(ft_group *group, ft_range all) {
    nccl_group *g = of(group);
    size_t count;
    char *part = part_of(group, all, &count);
    FT_TRY(begin(g));
    return settle(g, "ncclAllGather",
                  g->nccl->all_gather(part, all.data, count, type_of(all.dtype), g->comm, g->stream));
}

static ft_status nccl_broadcast(ft_group *group, int root, ft_range all) {
    nccl_group *g = of(group);
    FT_TRY(begin(g));
    return settle(
        g, "ncclBroadcast",
        g->nccl->broadcast(all.data, all.data, (size_t)all.count, type_of(all.dtype), root, g->comm, g->stream));
}

static ft_status nccl_together(ft_group *group, bool starts) {
    nccl_group *g = of(group);
    if (starts) {
        FT_TRY(begin(g));
        FT_TRY(settle(g, "ncclGroupStart", g->nccl->group_start()));
        g->together = true;
        return FT_OK;
    }
    g->together = false;
    return settle(g, "ncclGroupEnd", g->nccl->group_end());
}

static ft_status nccl_join(ft_group *group) {
    nccl_group *g = of(group);
    const ft_cuda_driver *d = g->cuda->driver;
    FT_TRY(driver_status(g, ft_cuda_enter(g->cuda)));
    FT_TRY(driver_status(g, FT_CUDA(d, event_record, g->done, g->stream)));
    return driver_status(g, FT_CUDA(d, stream_wait_event, g->cuda->stream, g->done, FT_CU_EVENT_WAIT_DEFAULT));
}

// Looks again and again: a rank that is gone would be waited for for ever.
static ft_status nccl_finish(ft_group *group) {
    nccl_group *g = of(group);
    const ft_cuda_driver *d = g->cuda->driver;
    FT_TRY(driver_status(g, ft_cuda_enter(g->cuda)));
    FT_TRY(driver_status(g, FT_CUDA(d, event_record, g->done, g->stream)));
    for (;;) {
        const int result = d->event_query(g->done);
        if (result != FT_CU_SUCCESS && result != FT_CU_NOT_READY)
            return driver_status(g, ft_cuda_fail(d, ft_cuda_symbol_event_query, result));
        FT_TRY(look(g)); // an operation that failed is through, too
        if (result == FT_CU_SUCCESS) return FT_OK;
        pause_a_little();
    }
}

static ft_status nccl_barrier(ft_group *group) { return ft_group_barrier(of(group)->control); }
static ft_status nccl_check(ft_group *group) { return look(of(group)); }

static void nccl_abort(ft_group *group, const ft_error *error) {
    ft_group_abort(of(group)->control, error);
    give_up(of(group));
}

// ---- coming and going

static void nccl_close(ft_group *group) {
    nccl_group *g = of(group);
    ft_error present;
    ft_error_save(&present);
    if (g->comm != NULL && ft_group_check(g->control) != FT_OK) give_up(g);
    if (g->comm != NULL && settle(g, "ncclCommFinalize", g->nccl->finalize(g->comm)) == FT_OK)
        (void)g->nccl->destroy(g->comm);
    if (ft_cuda_enter(g->cuda) == FT_OK) { // errors have no reader any more
        const ft_cuda_driver *d = g->cuda->driver;
        if (g->stream != NULL && d->stream_synchronize(g->stream) == FT_CU_SUCCESS) (void)d->stream_destroy(g->stream);
        if (g->computed != NULL) (void)d->event_destroy(g->computed);
        if (g->done != NULL) (void)d->event_destroy(g->done);
    }
    free(g);
    ft_error_restore(&present);
}

static const ft_group_functions functions = {
    .all_reduce = nccl_all_reduce,
    .reduce_scatter = nccl_reduce_scatter,
    .all_gather = nccl_all_gather,
    .broadcast = nccl_broadcast,
    .barrier = nccl_barrier,
    .join = nccl_join,
    .finish = nccl_finish,
    .together = nccl_together,
    .check = nccl_check,
    .abort = nccl_abort,
    .close = nccl_close,
};

static ft_status open_streams(nccl_group *g) {
    const ft_cuda_driver *d = g->cuda->driver;
    FT_TRY(ft_cuda_enter(g->cuda));
    FT_TRY(FT_CUDA(d, stream_create, &g->stream, FT_CU_STREAM_NON_BLOCKING));
    FT_TRY(FT_CUDA(d, event_create, &g->computed, FT_CU_EVENT_DISABLE_TIMING));
    return FT_CUDA(d, event_create, &g->done, FT_CU_EVENT_DISABLE_TIMING);
}

static ft_status meet(nccl_group *g, int channels) {
    ft_nccl_id id = {{0}};
    int result = FT_NCCL_SUCCESS;
    if (g->group.rank == 0) result = g->nccl->get_unique_id(&id);
    if (result != FT_NCCL_SUCCESS) return fail(g, "ncclGetUniqueId", result);
    FT_TRY(ft_group_broadcast(g->control, 0, (ft_range){id.bytes, sizeof id.bytes, FT_U8}));
    ft_nccl_config config = {.size = sizeof config,
                             .magic = FT_NCCL_CONFIG_MAGIC,
                             .version = FT_NCCL_CONFIG_VERSION,
                             .blocking = 0,
                             .cga_cluster_size = INT_MIN,
                             .least_ctas = channels,
                             .most_ctas = channels,
                             .split_share = INT_MIN};
    return settle(g, "ncclCommInitRankConfig",
                  g->nccl->init_rank(&g->comm, g->group.ranks, id, g->group.rank, &config));
}

ft_status ft_nccl_group_join(const ft_nccl *nccl, ft_device *device, ft_group *control, int channels,
                             ft_group **group) {
    *group = NULL;
    nccl_group *g = ft_calloc(1, sizeof *g, "a group of ranks");
    if (g == NULL) return FT_NO_MEMORY;
    *g = (nccl_group){.group = *control, .nccl = nccl, .cuda = ft_cuda_of(device), .control = control};
    g->group.backend = "NCCL";
    g->group.ordered = false;
    g->group.functions = &functions;
    ft_status status = open_streams(g);
    if (status == FT_OK) status = meet(g, channels);
    if (status == FT_OK) return *group = &g->group, FT_OK;
    (void)end(g, status); // nobody waits for this rank
    nccl_close(&g->group);
    return status;
}

// collectives.h - what the processes that train one model say to each other: a group of ranks 0..ranks-1, and
// operations that all of them call.
//
//     FT_TRY(ft_group_all_reduce(group, (ft_range){gradients, count, FT_F32}));
//     FT_TRY(ft_group_finish(group)); // where the group queues: the host waits
//
// An operation is a collective: every rank calls the same ones in the same order, with the same count, type and root.
// Data are flat buffers where the group's device has them, and each works in place. Where a group has queues (NCCL) an
// operation is queued on a stream of the group's own behind what the device's FT_STREAM_COMPUTE has by then, and
// returns at once; work that is queued on FT_STREAM_COMPUTE behind ft_group_join(group) finds its result. Where it has
// none (shared memory, MPI) an operation has happened when it returns, and join and finish do nothing; but for
// ft_group_send, which finish waits for.
//
// Sums: of fp32, fp64, int32 and int64 in that type, of bf16 and fp16 in fp32, rounded once. The result has the same
// bits on every rank. In shared memory it is ((x0 + x1) + x2) + ... whatever the count; other groups say in `ordered`
// whether theirs is.
//
// A group that shares memory can do more, and a run on the CPU counts on it (ft_group_shares): buffers that all ranks
// see, and points - numbers that one rank raises and others wait for - with which ranks go on with each other's sums,
// range by range, and nothing is copied.
//
// Where a group is of several hosts (MPI), the ranks of each have a group of their own, which shares memory
// (ft_group_near); what stands in its buffers is there once a host. Ranks of different hosts send each other parts of
// them, and ft_group_complete makes the whole of a buffer to which all ranks have written their part.
//
// Failures. A rank that fails, dies or is told to stop ends the group: ft_group_abort, or what the group notices of a
// process that is gone. From then on every operation and every wait on every rank returns FT_FAILED, those that are
// waiting within a second; nothing hangs. The error of a rank that only learnt of it says so. A group that was aborted
// is good for nothing but closing. One thread of a process uses a group.
#ifndef FT_COLLECTIVES_H
#define FT_COLLECTIVES_H

#include "base/status.h"
#include "kernels/dtype.h"

#include <stdint.h>

enum { FT_GROUP_RANKS = 64, FT_GROUP_HOST = 64, FT_GROUP_POINTS = 8 };

typedef struct ft_group ft_group;
typedef struct ft_range {
    void *data;
    int64_t count; // elements
    ft_dtype dtype;
} ft_range;

// What an implementation brings. NULL where it has none, as said below.
typedef struct ft_group_functions {
    ft_status (*all_reduce)(ft_group *group, ft_range all);
    ft_status (*reduce_scatter)(ft_group *group, ft_range all); // count: a multiple of ranks
    ft_status (*all_gather)(ft_group *group, ft_range all);     // the same
    ft_status (*broadcast)(ft_group *group, int root, ft_range all);
    ft_status (*barrier)(ft_group *group);
    ft_status (*join)(ft_group *group);   // NULL: there are no queues
    ft_status (*finish)(ft_group *group); // the same
    ft_status (*together)(ft_group *group, bool begin); // or its end; NULL: one behind the other
    // Of groups that share memory.
    ft_status (*share)(ft_group *group, size_t bytes, void **data);
    void (*unshare)(ft_group *group, void *data, size_t bytes);
    void (*raise)(ft_group *group, int point, uint64_t value);
    ft_status (*await)(ft_group *group, int rank, int point, uint64_t value);
    bool (*has_raised)(ft_group *group, int rank, int point, uint64_t value);
    ft_status (*check)(ft_group *group);
    // Of groups over several hosts.
    ft_status (*send)(ft_group *group, int to, ft_range part);
    ft_status (*receive)(ft_group *group, int from, ft_range part);
    ft_status (*spread)(ft_group *group, int root, ft_range part);
    ft_status (*look)(ft_group *group); // NULL: check
    void (*abort)(ft_group *group, const ft_error *error);
    void (*close)(ft_group *group);
} ft_group_functions;

// The head of every implementation's own.
struct ft_group {
    int rank, ranks;
    const char *backend;                      // "shared memory", "NCCL", "MPI"
    bool ordered;                             // sums are in the order of ranks
    char host[FT_GROUP_RANKS][FT_GROUP_HOST]; // where each is, for people
    int number[FT_GROUP_RANKS];               // and what they call it: its rank in the run
    ft_group *near;                           // the ranks of this host; NULL: all are
    int hosts;                                // 0: one
    int place[FT_GROUP_RANKS];                // on which host each is: 0, 1, ..., in the order of their first ranks
    int at[FT_GROUP_RANKS];                   // its rank in the group of its host
    const ft_group_functions *functions;
};

static inline ft_group *ft_group_near(ft_group *group) { return group->near != NULL ? group->near : group; }
static inline bool ft_group_is_near(const ft_group *group, int rank) {
    return group->place[rank] == group->place[group->rank];
}

static inline bool ft_group_shares(const ft_group *group) { return group->functions->share != NULL; }

// [count] on every rank becomes the sum over ranks.
ft_status ft_group_all_reduce(ft_group *group, ft_range all);
// The same of each of several buffers, which do not overlap, as one operation.
ft_status ft_group_all_reduce_all(ft_group *group, const ft_range *part, int count);
// The r-th of `ranks` equal parts becomes, on rank r, the sum over ranks of that part; the other parts are undefined.
// count is a multiple of ranks.
ft_status ft_group_reduce_scatter(ft_group *group, ft_range all);
// The r-th of `ranks` equal parts is rank r's; on every rank all become those. count is a multiple of ranks.
ft_status ft_group_all_gather(ft_group *group, ft_range all);
// What `root` has.
ft_status ft_group_broadcast(ft_group *group, int root, ft_range all);
// What is asked between these two is one operation where the group can (NCCL), which is begun once, with what is computed
// by the first: all ranks put the same together. Behind a failure in between there is no end.
ft_status ft_group_begin_together(ft_group *group);
ft_status ft_group_end_together(ft_group *group);
// Returns when all have called it. Where there are queues, they are not waited for.
ft_status ft_group_barrier(ft_group *group);
// What is queued on the device's FT_STREAM_COMPUTE from now on finds the results of the operations so far.
ft_status ft_group_join(ft_group *group);
// The host waits until all operations so far have happened, and gets their errors.
ft_status ft_group_finish(ft_group *group);

// ---- groups that share memory (ft_group_shares)
// A collective: zeros that all ranks see, aligned to a page. Sizes that differ are FT_FAILED. Who unshares a buffer
// does not see it any more; its memory goes with the last one. The group gives back what was not unshared when it is
// closed.
ft_status ft_group_share(ft_group *group, size_t bytes, void **data);
void ft_group_unshare(ft_group *group, void *data, size_t bytes); // NULL is fine
size_t ft_group_share_bytes(size_t bytes);                        // what such a buffer takes of the host
// Point `point` (0..FT_GROUP_POINTS-1) of this rank becomes `value`, which is at least what it was; at first it is 0.
// What this rank wrote to shared memory before is seen by whoever awaited it.
void ft_group_raise(ft_group *group, int point, uint64_t value);
// Waits until that point of `rank` is at least `value`.
ft_status ft_group_await(ft_group *group, int rank, int point, uint64_t value);
// Is it by now? Never waits. Where it is, what that rank wrote before is seen.
bool ft_group_has_raised(ft_group *group, int rank, int point, uint64_t value);

// ---- groups over several hosts (hosts > 1)
// The part goes to a rank of another host, which receives as much. It has not arrived when this returns: what stands
// there stays until ft_group_finish.
ft_status ft_group_send(ft_group *group, int to, ft_range part);
ft_status ft_group_receive(ft_group *group, int from, ft_range part); // it is there
// Of a buffer that the ranks of a host share, and each host has, of `ranks` equal parts: every rank has written its
// own, and then all are there on every host. A collective; where there is one host a barrier. count is a multiple of
// ranks.
ft_status ft_group_complete(ft_group *group, ft_range all);

// ---- ends
// FT_FAILED where the group has ended. Never waits.
ft_status ft_group_check(ft_group *group);
// The same, and it is looked whether a rank's process is gone. For who waits for something else than the group, ten
// times a second or so.
ft_status ft_group_look(ft_group *group);
// Ends the group for all, because of this rank's `error` (copied; the first one of all ranks counts).
void ft_group_abort(ft_group *group, const ft_error *error);
void ft_group_close(ft_group *group); // NULL is fine. Not a collective

#endif

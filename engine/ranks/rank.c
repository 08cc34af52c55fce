#include "engine/ranks/rank.h"

#include "engine/ranks/nodelist.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PORT = 65535, MOST_ATTEMPTS = 1000000 };

typedef struct reader {
    ft_environment get;
    void *owner;
} reader;

// Names of the four numbers, which three launchers say alike.
typedef struct launcher_row {
    ft_launcher launcher;
    const char *name;
    const char *rank, *size, *local_rank, *local_size;
} launcher_row;

static const launcher_row rows[] = {
    {FT_LAUNCHER_TORCHRUN, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {FT_LAUNCHER_OPEN_MPI, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {FT_LAUNCHER_MPICH, "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const char *ft_launcher_name(ft_launcher launcher) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].launcher == launcher) return rows[i].name;
    return launcher == FT_LAUNCHER_SLURM ? "Slurm" : "none";
}

static const char *text(const reader *r, const char *name) {
    const char *value = r->get(r->owner, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

// From 0 to `most`; absent: *value stays.
static ft_status number(const reader *r, const char *name, int most, int *value) {
    const char *given = text(r, name);
    if (given == NULL) return FT_OK;
    char *end;
    errno = 0;
    long n = strtol(given, &end, 10);
    if (given[0] < '0' || given[0] > '9' || *end != '\0' || errno != 0 || n > most)
        return ft_fail(FT_INVALID, name, "a number from 0 to %d is expected, not '%.100s'", most, given);
    *value = (int)n;
    return FT_OK;
}

static ft_status half(const char *there, const char *missing) {
    ft_fail(FT_INVALID, missing, "%s is set, but %s is not: half of what a launcher sets", there, missing);
    ft_hint("start ranks with torchrun, mpirun or srun; for a run of one process: unset %s", there);
    return FT_INVALID;
}

static ft_status need(const reader *r, const char *there, const char *name) {
    return text(r, name) != NULL ? FT_OK : half(there, name);
}

// Where a rank stands among all and on its host.
static ft_status check_bounds(const ft_rank *k, const char *rank_name, const char *size_name, const char *local_name) {
    if (k->size < 1) return ft_fail(FT_INVALID, size_name, "there is at least one rank, not %d", k->size);
    if (k->rank >= k->size)
        return ft_fail(FT_INVALID, rank_name, "rank %d of %d ranks (%s) cannot be: they count from 0", k->rank, k->size,
                       size_name);
    if (k->local_size < 1 || k->local_size > k->size || k->local_rank >= k->local_size || k->local_rank > k->rank)
        return ft_fail(FT_INVALID, local_name, "rank %d of %d cannot be number %d of %d on its host", k->rank, k->size,
                       k->local_rank, k->local_size);
    return FT_OK;
}

// The four numbers. *found: they are set.
static ft_status read_row(const reader *r, const launcher_row *row, ft_rank *k, bool *found) {
    const bool rank = text(r, row->rank) != NULL, size = text(r, row->size) != NULL;
    *found = false;
    if (!rank && !size) return FT_OK;
    if (!rank || !size) return half(rank ? row->rank : row->size, rank ? row->size : row->rank);
    // Slurm's own library for MPI sets these two as well, and says the rest as Slurm does.
    if (row->launcher == FT_LAUNCHER_MPICH && text(r, row->local_rank) == NULL && text(r, "SLURM_PROCID") != NULL)
        return FT_OK;
    *k = (ft_rank){.launcher = row->launcher, .local_size = 1, .proxy = -1};
    FT_TRY(number(r, row->rank, FT_RANKS_MOST - 1, &k->rank));
    FT_TRY(number(r, row->size, FT_RANKS_MOST, &k->size));
    if (k->size > 1) {
        FT_TRY(need(r, row->rank, row->local_rank));
        FT_TRY(need(r, row->rank, row->local_size));
        FT_TRY(number(r, row->local_rank, FT_RANKS_MOST - 1, &k->local_rank));
        FT_TRY(number(r, row->local_size, FT_RANKS_MOST, &k->local_size));
    }
    *found = true;
    return check_bounds(k, row->rank, row->size, row->local_rank);
}

// Started again with fewer ranks than before, this may be the only one.
static ft_status take_attempt(const reader *r, ft_rank *k) {
    if (k->launcher == FT_LAUNCHER_TORCHRUN)
        return number(r, "TORCHELASTIC_RESTART_COUNT", MOST_ATTEMPTS, &k->attempt);
    return k->launcher == FT_LAUNCHER_SLURM ? number(r, "SLURM_RESTART_COUNT", MOST_ATTEMPTS, &k->attempt) : FT_OK;
}

static ft_status take_torchrun(const reader *r, ft_rank *k) {
    FT_TRY(need(r, "RANK", "MASTER_ADDR"));
    FT_TRY(need(r, "RANK", "MASTER_PORT"));
    const char *address = text(r, "MASTER_ADDR"), *id = text(r, "TORCHELASTIC_RUN_ID");
    if (snprintf(k->address, sizeof k->address, "%s", address) >= (int)sizeof k->address)
        return ft_fail(FT_INVALID, "MASTER_ADDR", "no name of a host is so long");
    FT_TRY(number(r, "MASTER_PORT", MOST_PORT, &k->port));
    if (k->port == 0) return ft_fail(FT_INVALID, "MASTER_PORT", "0 is no port that others could find");
    FT_TRY(take_attempt(r, k));
    snprintf(k->job, sizeof k->job, "%d %.200s", k->port, id != NULL ? id : "");
    return FT_OK;
}

// A job's number may be another one's as well; who serves it listens at a port that is nobody else's.
static ft_status take_open_mpi(const reader *r, ft_rank *k) {
    static const char *const numbers[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", NULL};
    static const char *const servers[] = {"PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2",
                                          "OMPI_MCA_orte_local_daemon_uri", NULL};
    const char *job = NULL, *server = NULL;
    for (int i = 0; job == NULL && numbers[i] != NULL; i++)
        job = text(r, numbers[i]);
    for (int i = 0; server == NULL && servers[i] != NULL; i++)
        server = text(r, servers[i]);
    if (job == NULL) return half("OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE");
    if (server == NULL) return half("OMPI_COMM_WORLD_RANK", "PMIX_SERVER_URI2");
    snprintf(k->job, sizeof k->job, "%.60s %.240s", job, server);
    return FT_OK;
}

// Nothing in the variables names the job, but each rank has a socket to the one proxy of its host, or the address of
// that.
static ft_status take_mpich(const reader *r, ft_rank *k) {
    const char *address = text(r, "PMI_PORT");
    if (address != NULL) return snprintf(k->job, sizeof k->job, "%.300s", address), FT_OK;
    FT_TRY(need(r, "PMI_RANK", "PMI_FD"));
    return number(r, "PMI_FD", FT_RANKS_MOST, &k->proxy);
}

// srun's own: a script of sbatch has SLURM_PROCID=0 and SLURM_NTASKS too, and is one process.
static bool is_step(const reader *r) {
    return text(r, "SLURM_PROCID") != NULL &&
           (text(r, "SLURM_STEP_NUM_TASKS") != NULL || text(r, "SLURM_STEP_NODELIST") != NULL);
}

// Ranks on this host: all of them where there is one host, else as the list of tasks says.
static ft_status count_local(const reader *r, ft_rank *k) {
    const char *hosts = text(r, "SLURM_STEP_NODELIST"), *tasks = text(r, "SLURM_STEP_TASKS_PER_NODE");
    int64_t count = 0, here = 0, sum = 0;
    int nodes = 0, node = -1;
    FT_TRY(number(r, "SLURM_STEP_NUM_NODES", FT_RANKS_MOST, &nodes));
    FT_TRY(number(r, "SLURM_NODEID", FT_RANKS_MOST, &node));
    if (hosts != NULL) FT_TRY(ft_nodelist_host(hosts, "SLURM_STEP_NODELIST", 0, k->address, sizeof k->address, &count));
    if (hosts != NULL && nodes > 0 && count != nodes)
        return ft_fail(FT_INVALID, "SLURM_STEP_NUM_NODES", "%d hosts, but SLURM_STEP_NODELIST has %lld", nodes,
                       (long long)count);
    if (count == 0) count = nodes;
    if (count == 0) return half("SLURM_PROCID", "SLURM_STEP_NODELIST");
    if (count == 1) return k->local_size = k->size, FT_OK;
    if (node < 0) return half("SLURM_PROCID", "SLURM_NODEID");
    if (node >= count)
        return ft_fail(FT_INVALID, "SLURM_NODEID", "host %d of %lld cannot be: they count from 0", node,
                       (long long)count);
    if (tasks == NULL) return half("SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE");
    FT_TRY(ft_nodelist_tasks(tasks, "SLURM_STEP_TASKS_PER_NODE", node, &here, &sum));
    if (sum != k->size)
        return ft_fail(FT_INVALID, "SLURM_STEP_TASKS_PER_NODE", "%lld tasks in '%.100s', but there are %d ranks",
                       (long long)sum, tasks, k->size);
    return k->local_size = (int)here, FT_OK;
}

static ft_status read_slurm(const reader *r, ft_rank *k, bool *found) {
    const char *size = text(r, "SLURM_STEP_NUM_TASKS") != NULL ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    *found = false;
    if (!is_step(r)) return FT_OK;
    FT_TRY(need(r, "SLURM_PROCID", size));
    *k = (ft_rank){.launcher = FT_LAUNCHER_SLURM, .local_size = 1, .proxy = -1};
    FT_TRY(number(r, "SLURM_PROCID", FT_RANKS_MOST - 1, &k->rank));
    FT_TRY(number(r, size, FT_RANKS_MOST, &k->size));
    if (k->size > 1) {
        FT_TRY(need(r, "SLURM_PROCID", "SLURM_LOCALID"));
        FT_TRY(need(r, "SLURM_PROCID", "SLURM_JOB_ID"));
        FT_TRY(number(r, "SLURM_LOCALID", FT_RANKS_MOST - 1, &k->local_rank));
        FT_TRY(count_local(r, k));
    }
    *found = true;
    return check_bounds(k, "SLURM_PROCID", size, "SLURM_LOCALID");
}

// The port is any below those that a system gives away by itself, the same for all ranks of the step.
static ft_status take_slurm(const reader *r, ft_rank *k) {
    int job = 0, step = 0;
    FT_TRY(number(r, "SLURM_JOB_ID", INT32_MAX, &job));
    FT_TRY(number(r, "SLURM_STEP_ID", INT32_MAX, &step));
    FT_TRY(take_attempt(r, k));
    k->port = 15000 + (int)(((int64_t)job * 31 + step) % 15000);
    snprintf(k->job, sizeof k->job, "%d.%d", job, step);
    return FT_OK;
}

static ft_status contradict(const launcher_row *outer, const ft_rank *outer_says, const launcher_row *inner,
                            const ft_rank *inner_says) {
    ft_fail(FT_INVALID, inner->rank, "%s says rank %d of %d, %s says rank %d of %d (%s)", inner->name, inner_says->rank,
            inner_says->size, outer->name, outer_says->rank, outer_says->size, outer->rank);
    ft_hint("unset %s and %s, or %s and %s", inner->rank, inner->size, outer->rank, outer->size);
    return FT_INVALID;
}

static const launcher_row slurm = {FT_LAUNCHER_SLURM, "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL};

// torchrun says that it is one, and may be started by anything, as may mpirun by Slurm. What was set by hand is to say
// what the launcher does.
static bool may_differ(const reader *r, ft_launcher inner, const ft_rank *outer) {
    if (text(r, "TORCHELASTIC_RUN_ID") != NULL) return inner == FT_LAUNCHER_TORCHRUN;
    return outer->launcher == FT_LAUNCHER_SLURM && (inner != FT_LAUNCHER_TORCHRUN || outer->size == 1);
}

static ft_status take_job(const reader *r, ft_rank *k) {
    switch (k->launcher) {
    case FT_LAUNCHER_TORCHRUN: return take_torchrun(r, k);
    case FT_LAUNCHER_OPEN_MPI: return take_open_mpi(r, k);
    case FT_LAUNCHER_MPICH: return take_mpich(r, k);
    case FT_LAUNCHER_SLURM: return take_slurm(r, k);
    case FT_LAUNCHER_NONE: break;
    }
    return FT_OK;
}

ft_status ft_rank_find(ft_environment get, void *owner, ft_rank *rank) {
    const reader r = {get, owner};
    const launcher_row *inner = NULL;
    *rank = (ft_rank){.size = 1, .local_size = 1, .proxy = -1};
    for (int i = 0; i <= ROWS; i++) {
        const launcher_row *row = i < ROWS ? &rows[i] : &slurm;
        ft_rank k;
        bool found;
        FT_TRY(i < ROWS ? read_row(&r, row, &k, &found) : read_slurm(&r, &k, &found));
        if (!found) continue;
        if (inner == NULL)
            *rank = k, inner = row;
        else if ((k.rank != rank->rank || k.size != rank->size) && !may_differ(&r, rank->launcher, &k))
            return contradict(row, &k, inner, rank);
    }
    return rank->size > 1 ? take_job(&r, rank) : take_attempt(&r, rank);
}

static const char *variable(void *owner, const char *name) { return getenv(name); }

ft_status ft_rank_find_here(ft_rank *rank) { return ft_rank_find(variable, NULL, rank); }

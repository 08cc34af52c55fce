#include "engine/commands/launched.h"

#include "base/context.h"
#include "base/files.h"
#include "base/log.h"
#include "engine/commands/ranks.h"
#include "engine/config/device_list.h"
#include "engine/ranks/meeting.h"
#include "kernels/collectives/mpi/mpi_group.h"
#include "kernels/collectives/shared_memory.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double WAIT_SECONDS = 300, LAST_WORD_SECONDS = 20;
enum { PRINTING_US = 300000 };

typedef struct launched {
    const ft_rank *me;
    ft_mpi *mpi;         // NULL: one host
    ft_rank here;        // among those of this host
    ft_meeting *meeting; // of these; NULL: there is one
    ft_shared_watch *watch;
    ft_ranks *ranks;
} launched;

// torchrun starts ranks that do not know of each other but by an address; between hosts this program has no transport
// of its own.
static ft_status refuse_torchrun(const ft_rank *me) {
    ft_fail(FT_INVALID, "ranks",
            "torchrun has started %d ranks on several hosts (%d of them here): ranks on the CPU need MPI between hosts",
            me->size, me->local_size);
    ft_hint("mpirun or srun start them (docs/launchers.md): mpirun -n %d --host A:%d,B:%d ftengine train ...", me->size,
            me->local_size, me->size - me->local_size);
    ft_hint("on one host: torchrun --nnodes 1");
    return FT_INVALID;
}

// What was started by a library other than the module's is a run of one process each.
static ft_status check_hosts(const launched *l) {
    if (ft_mpi_ranks(l->mpi) == l->me->size && ft_mpi_rank(l->mpi) == l->me->rank) return FT_OK;
    ft_fail(FT_INVALID, "ranks",
            "%s has started rank %d of %d, and for the module's library (%s) this is rank %d of %d",
            ft_launcher_name(l->me->launcher), l->me->rank, l->me->size, ft_mpi_library(l->mpi), ft_mpi_rank(l->mpi),
            ft_mpi_ranks(l->mpi));
    ft_hint("start the ranks with the mpirun of that library, or build the module with the mpicc of the launcher's "
            "(cmake -DFT_MPICC=...); srun needs --mpi=pmix or pmi2 as that library has it");
    return FT_INVALID;
}

static ft_status meet_hosts(launched *l, const char *build) {
    if (l->me->launcher == FT_LAUNCHER_TORCHRUN) return refuse_torchrun(l->me);
    FT_TRY(ft_mpi_open(&l->mpi));
    FT_TRY(check_hosts(l));
    FT_TRY(ft_mpi_agree(l->mpi, "version of ftengine", FT_VERSION));
    return ft_mpi_agree(l->mpi, "build of ftengine", build);
}

// What is shared has the form that one build gives it.
static ft_status meet(launched *l) {
    char build[65];
    if (l->me->size > FT_GROUP_RANKS)
        return ft_fail(FT_INVALID, "ranks", "%d ranks; at most %d are a run", l->me->size, FT_GROUP_RANKS);
    if (!ft_rank_on_one_host(l->me)) {
        FT_TRY(ft_sha256_file("/proc/self/exe", build));
        FT_TRY(meet_hosts(l, build));
        if (l->here.size == 1) return FT_OK;
    }
    FT_TRY(ft_meeting_open(&l->here, WAIT_SECONDS, &l->meeting));
    FT_TRY(ft_meeting_all(l->meeting, ft_sha256_file("/proc/self/exe", build)));
    return ft_meeting_agree(l->meeting, 2,
                            (ft_fact[]){{"version of ftengine", FT_VERSION}, {"build of ftengine", build}});
}

// Nobody waits for a rank that could not come so far.
static ft_status share(launched *l, int *file) {
    if (l->meeting == NULL) {
        FT_TRY(ft_shared_group_create(1, file));
        return ft_shared_watch_open(*file, &l->watch);
    }
    FT_TRY(ft_meeting_all(l->meeting, l->here.rank == 0 ? ft_shared_group_create(l->here.size, file) : FT_OK));
    FT_TRY(ft_meeting_hand_out(l->meeting, file));
    return ft_meeting_all(l->meeting, ft_shared_watch_open(*file, &l->watch));
}

static ft_status join(launched *l) {
    ft_group *group;
    int file = -1;
    ft_status status = share(l, &file);
    if (status == FT_OK)
        status = ft_shared_group_join(file, l->here.rank, l->here.size, &group);
    else if (file >= 0)
        close(file);
    if (status == FT_OK && l->mpi != NULL) status = ft_mpi_group_open(l->mpi, group, &group);
    if (status == FT_OK) status = ft_ranks_open(group, &l->ranks);
    if (status == FT_OK) l->ranks->attempt = l->me->attempt;
    return status;
}

// The first failure of all, with whose it is.
static void take_failure(const launched *l) {
    ft_error error;
    char message[sizeof error.message];
    int rank;
    if (!ft_shared_watch_failure(l->watch, &rank, &error)) return; // this rank's own
    rank = ft_group_near(l->ranks->group)->number[rank];
    if (error.code != FT_INVALID && strncmp(error.message, "rank ", 5) != 0) {
        snprintf(message, sizeof message, "rank %d: %.900s", rank, error.message);
        memcpy(error.message, message, sizeof message);
    }
    ft_error_restore(&error);
}

static void say_nothing(void *owner, const char *text) {}

// Rank 0 has the error, and where that is gone the next one. Launchers end all ranks when one has ended badly, so the
// others let it speak first.
static void leave_word(const launched *l) {
    const bool told =
        l->mpi != NULL ? ft_mpi_word(l->mpi, LAST_WORD_SECONDS) : ft_meeting_word(l->meeting, LAST_WORD_SECONDS);
    if (l->me->rank == 0 || (!told && l->me->rank == 1)) {
        take_failure(l);
        ft_context_now()->sink.line = NULL;
        return;
    }
    ft_error_clear();
    usleep(PRINTING_US);
}

// Before all of them are a group. What all find wrong is rank 0's to say; what one does, it tells the others.
static void fail_hosts(const launched *l) {
    ft_error error;
    ft_error_save(&error);
    ft_mpi_abort(l->mpi, &error);
    const bool told = ft_mpi_word(l->mpi, LAST_WORD_SECONDS);
    if (l->me->rank == 0 || (!told && l->me->rank == 1)) {
        ft_context_now()->sink.line = NULL;
        return;
    }
    ft_error_clear();
    usleep(PRINTING_US);
}

ft_status ft_launched_train(const ft_rank *me, const ft_section *const *sections, int argc, char **argv) {
    launched l = {.me = me, .here = *me};
    ft_context *context = ft_context_now();
    l.here.rank = me->local_rank;
    l.here.size = me->local_size;
    ft_status status = meet(&l);
    if (status == FT_OK) status = join(&l);
    const bool joined = status == FT_OK;
    if (me->rank > 0 && (joined || l.meeting != NULL || l.mpi != NULL))
        context->sink.line = say_nothing; // what it says is in rank-N.log
    if (joined) {
        status = ft_ranks_train(l.ranks, sections, argc, argv);
        if (status != FT_OK) leave_word(&l);
    } else if (l.mpi != NULL) {
        fail_hosts(&l);
    } else if (l.meeting != NULL && me->rank > 0) {
        ft_error_clear(); // rank 0 has the same
    }
    ft_ranks_close(l.ranks);
    ft_shared_watch_close(l.watch);
    ft_meeting_close(l.meeting);
    ft_mpi_close(l.mpi, status == FT_OK);
    return status;
}

void ft_launched_again(ft_config *config, int attempt) {
    if (attempt == 0 || config->output.exists != FT_EXISTS_ERROR) return;
    config->output.exists = FT_EXISTS_RESUME;
    ft_info("attempt    %d of the launcher: goes on where the last one was", attempt);
}

// The first GPUs in their order, as a run has them that a launcher started with another number of ranks.
static bool is_of_launcher(const char *names, int count) {
    char name[FT_DEVICE_NAME], expected[FT_DEVICE_NAME];
    for (int i = 0; i < count; i++) {
        ft_device_list_name(names, i, name);
        snprintf(expected, sizeof expected, "cuda:%d", i);
        if (strcmp(name, expected) != 0) return false;
    }
    return true;
}

ft_status ft_launched_devices(ft_config *config, int ranks) {
    char name[FT_DEVICE_NAME], other[FT_DEVICE_NAME];
    ft_device_facts facts;
    const int count = ft_device_list_count(config->device.name);
    if (count == ranks) return FT_OK;
    if (count > 1 && config->output.exists == FT_EXISTS_RESUME && is_of_launcher(config->device.name, count)) {
        config->device.name = ft_device_list_of_gpus(&config->arena, ranks);
        return config->device.name != NULL ? FT_OK : FT_NO_MEMORY;
    }
    ft_device_list_name(config->device.name, 0, name);
    for (int i = 1; i < count; i++) {
        ft_device_list_name(config->device.name, i, other);
        if (strcmp(name, other) != 0)
            return ft_fail(FT_INVALID, "device.name", "%s names %d devices, and there are %d ranks",
                           config->device.name, count, ranks);
    }
    if (strcmp(name, "auto") == 0) {
        FT_TRY(ft_device_look(name, (int)config->device.threads, &facts));
        snprintf(name, sizeof name, "%s", facts.name);
    }
    if (strncmp(name, "cuda", 4) == 0) { // a rank on each
        config->device.name = ft_device_list_of_gpus(&config->arena, ranks);
        return config->device.name != NULL ? FT_OK : FT_NO_MEMORY;
    }
    char *list = ft_arena_alloc(&config->arena, (size_t)ranks * (strlen(name) + 1));
    if (list == NULL) return FT_NO_MEMORY;
    for (int r = 0; r < ranks; r++) {
        if (r > 0) strcat(list, ",");
        strcat(list, name);
    }
    config->device.name = list;
    return FT_OK;
}

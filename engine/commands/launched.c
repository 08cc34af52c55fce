#include "engine/commands/launched.h"

#include "base/context.h"
#include "base/files.h"
#include "engine/commands/ranks.h"
#include "engine/config/device_list.h"
#include "engine/ranks/meeting.h"
#include "kernels/collectives/shared_memory.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double WAIT_SECONDS = 300, LAST_WORD_SECONDS = 20;
enum { PRINTING_US = 300000 };

typedef struct launched {
    const ft_rank *me;
    ft_meeting *meeting;
    ft_shared_watch *watch;
    ft_ranks *ranks;
} launched;

static ft_status refuse_hosts(const ft_rank *me) {
    ft_fail(FT_INVALID, "ranks",
            "%s has started %d ranks on several hosts (%d of them here): ranks on the CPU need MPI between hosts",
            ft_launcher_name(me->launcher), me->size, me->local_size);
    ft_hint("they would be started by mpirun, with this program's module for MPI; that module does not exist yet");
    ft_hint("on one host: %s", me->launcher == FT_LAUNCHER_SLURM      ? "srun --nodes 1"
                               : me->launcher == FT_LAUNCHER_TORCHRUN ? "torchrun --nnodes 1"
                                                                      : "mpirun with that host alone");
    return FT_INVALID;
}

// What is shared has the form that one build gives it.
static ft_status meet(launched *l) {
    char build[65];
    if (!ft_rank_on_one_host(l->me)) return refuse_hosts(l->me);
    if (l->me->size > FT_GROUP_RANKS)
        return ft_fail(FT_INVALID, "ranks", "%d ranks; at most %d share a host's memory", l->me->size, FT_GROUP_RANKS);
    FT_TRY(ft_meeting_open(l->me, WAIT_SECONDS, &l->meeting));
    FT_TRY(ft_meeting_all(l->meeting, ft_sha256_file("/proc/self/exe", build)));
    return ft_meeting_agree(l->meeting, 2,
                            (ft_fact[]){{"version of ftengine", FT_VERSION}, {"build of ftengine", build}});
}

// Nobody waits for a rank that could not come so far.
static ft_status share(launched *l, int *file) {
    FT_TRY(ft_meeting_all(l->meeting, l->me->rank == 0 ? ft_shared_group_create(l->me->size, file) : FT_OK));
    FT_TRY(ft_meeting_hand_out(l->meeting, file));
    return ft_meeting_all(l->meeting, ft_shared_watch_open(*file, &l->watch));
}

static ft_status join(launched *l) {
    ft_group *group;
    int file = -1;
    ft_status status = share(l, &file);
    if (status == FT_OK)
        status = ft_shared_group_join(file, l->me->rank, l->me->size, &group);
    else if (file >= 0)
        close(file);
    return status == FT_OK ? ft_ranks_open(group, &l->ranks) : status;
}

// The first failure of all, with whose it is.
static void take_failure(const launched *l) {
    ft_error error;
    char message[sizeof error.message];
    int rank;
    if (!ft_shared_watch_failure(l->watch, &rank, &error)) return; // this rank's own
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
    const bool told = ft_meeting_word(l->meeting, LAST_WORD_SECONDS);
    if (l->me->rank == 0 || (!told && l->me->rank == 1)) {
        take_failure(l);
        ft_context_now()->sink.line = NULL;
        return;
    }
    ft_error_clear();
    usleep(PRINTING_US);
}

ft_status ft_launched_train(const ft_rank *me, const ft_section *const *sections, int argc, char **argv) {
    launched l = {.me = me};
    ft_context *context = ft_context_now();
    ft_status status = meet(&l);
    if (status == FT_OK) status = join(&l);
    const bool joined = status == FT_OK;
    if (me->rank > 0 && (joined || l.meeting != NULL))
        context->sink.line = say_nothing; // what it says is in rank-N.log
    if (joined) {
        status = ft_ranks_train(l.ranks, sections, argc, argv);
        if (status != FT_OK) leave_word(&l);
    } else if (l.meeting != NULL && me->rank > 0) {
        ft_error_clear(); // rank 0 has the same
    }
    ft_ranks_close(l.ranks);
    ft_shared_watch_close(l.watch);
    ft_meeting_close(l.meeting);
    return status;
}

ft_status ft_launched_devices(ft_config *config, int ranks) {
    char name[FT_DEVICE_NAME], other[FT_DEVICE_NAME];
    ft_device_facts facts;
    const int count = ft_device_list_count(config->device.name);
    if (count == ranks) return FT_OK;
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

// room.h - where a job is worked on: a device, how much of its memory may be taken, the model's state on it, and the sizes of what
// goes through it. A run has one; a rehearsal (run_rehearsal.h) is another one over the same job, on a device that computes nothing; a run
// that moves to another device has a second one for as long as it packs (move.c).
#ifndef FT_TRAIN_ROOM_H
#define FT_TRAIN_ROOM_H

#include "engine/memory/ledger.h"
#include "engine/memory/memory.h"
#include "engine/model/model.h"
#include "engine/model/model_files.h"
#include "engine/train/job/job.h"
#include "engine/train/room/budget.h"
#include "engine/train/room/fitting.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/room/host.h"
#include "engine/train/room/observer.h"
#include "engine/train/room/ranks.h"

// Weights and moments on their way from one device to another.
typedef struct ft_carried_state {
    void *values; // first and second moments and all weights, as they lie on the device; NULL: nothing is under way
    ft_absent_rows absent; // its part on the host
    ft_update_state update;
} ft_carried_state;

typedef struct ft_room {
    const ft_job *job;
    const ft_config *config;   // in force: the job's, that of a rehearsal, or `fitted`
    ft_config fitted;          // differs in what was `auto` and had to be fitted
    ft_autofit autofit;
    ft_device *device;
    bool rehearses;            // a plan device: weights are neither read nor drawn, nothing is reserved
    char gemm_tuning[FT_TUNING_HASH]; // of the file that its products were chosen from; "": none
    bool shares_device;        // it stands for the pack's (pack.h)
    bool head_alone;           // features are there, and frozen layers are not (parameters.h)
    struct ft_elsewhere *elsewhere; // where those are then (elsewhere.h); NULL: a rehearsal, or they are in memory
    struct ft_trunk *trunk;    // that lends it frozen weights (company.h); NULL: they are its own
    ft_memory *memory;
    ft_ranks *ranks;           // that work on the job together, each in a room of its own; NULL: this one alone, or a rehearsal
    int rank;                  // of them, also where they are planned
    struct ft_nccl *nccl;      // of ranks with a GPU each (joining.h); NULL: there are none
    ft_group *group;           // of these, over it; NULL: they have not joined
    size_t communication;      // bytes by which the device's free memory fell for it
    ft_budget budget;          // of a run once it is forecast; of a rehearsal only what may be pinned
    ft_ledger *reservation;    // on the device; NULL: a rehearsal, or no ledger could be kept
    ft_ledger *host_reservation; // of the process, beside a device with memory of its own; NULL: there is none
    ft_model model;
    char idle_gpu[96]; // of a run whose device.name=auto is the CPU though a GPU is there: that one's name
    ft_load_report load_report; // in `arena`
    ft_run_plan plan;
    ft_batch_limits eval_limits; // of the micro-batches of evaluations (eval_budget.h)
    ft_capacity eval_capacity; // of the largest of them; tokens 0: there is none
    size_t eval_extra;         // bytes by which arena and held tensors are larger for it than training needs
    bool state_built, laid_out; // what is on the device (build.c)
    ft_carried_state carried;  // for the next state that is built
    ft_memory_counters planned; // by the forecast
    ft_host_memory host;       // of the process; by the forecast too
    ft_step_price price;       // the same, where a watcher asks (observer.h); else {0}
    ft_memory_refusal refusal; // of the forecast; bytes 0: there was none
    ft_arena arena;
} ft_room;

// Close a room in any case, also when opening it failed.
// As the configuration says. `job` is pointed to, and need not be open yet. FT_INVALID also for what can never be on such a device.
ft_status ft_room_open(const ft_job *job, const ft_config *config, ft_room *room);
// On the device of that name, for a run that has begun elsewhere.
ft_status ft_room_open_on(const ft_job *job, const char *name, ft_room *room);
// On a plan device, which is taken over, also by a failure; of no more than `limit` bytes (0: memory.limit).
ft_status ft_room_open_plan(const ft_job *job, const ft_config *config, ft_device *device, size_t limit, ft_room *room);
// Refuses what can never be on such a device: graphs, or memory beside it, where it was asked for by name and has none.
ft_status ft_room_check(const ft_config *config, const ft_device *device);
// Gives everything back but what build.c made. FT_FAILED on a leak.
ft_status ft_room_close(ft_room *room);
// `room` is closed, and is what `with` was, which is empty then; what is carried goes along.
ft_status ft_room_replace(ft_room *room, ft_room *with);

// reserve.c. What was planned, and what a run takes besides (budget.h), is reserved on the device, after a wait if so
// configured (admission.h); beside a device with memory of its own what the process takes of the host's, pinned or not, is reserved in the
// CPU's ledger too, for runs on the CPU and other GPUs take from there.
ft_status ft_room_reserve(ft_room *room, bool may_wait);
// What is planned from here on is less: others may have the rest. What is reserved never becomes more by it.
ft_status ft_room_reserve_less(ft_room *room, const ft_memory_counters *planned, const ft_host_memory *host);

#endif

// room.h - where a job is worked on: a device, how much of its memory may be taken, the model's state on it, and the sizes of what
// goes through it.
#ifndef FT_TRAIN_ROOM_H
#define FT_TRAIN_ROOM_H

#include "engine/memory/ledger.h"
#include "engine/memory/memory.h"
#include "engine/model/model.h"
#include "engine/model/model_files.h"
#include "engine/train/autofit.h"
#include "engine/train/gemm_tuning.h"
#include "engine/train/job.h"
#include "engine/train/ladder.h"
#include "engine/train/run_plan.h"

typedef struct ft_room {
    const ft_job *job;
    const ft_config *config;   // in force: the job's, or `fitted`
    ft_config fitted;          // differs in what was `auto` and had to be fitted
    ft_autofit autofit;
    ft_device *device;
    char gemm_tuning[FT_TUNING_HASH]; // of the file that its products were chosen from; "": none
    ft_memory *memory;
    ft_ledger *reservation;    // on the device; NULL: a rehearsal, or no ledger could be kept
    ft_ledger *host_reservation; // of what is pinned in the host's memory meanwhile (memory.offload); NULL: nothing
    ft_model model;
    ft_load_report load_report; // in `arena`
    ft_run_plan plan;
    ft_batch_limits eval_limits; // of the micro-batches of evaluations (eval_budget.h)
    ft_capacity eval_capacity; // of the largest of them; tokens 0: there is none
    size_t eval_extra;         // bytes by which arena and held tensors are larger for it than training needs
    bool state_built, laid_out; // what is on the device (build.c)
    ft_carried_state carried;  // weights and moments between two devices
    ft_ladder ladder;
    ft_memory_counters planned; // by the forecast
    ft_memory_refusal refusal; // of the forecast; bytes 0: there was none
    ft_arena arena;
} ft_room;

#endif

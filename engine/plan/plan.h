// plan.h - the memory of a run, to the byte, without running it.
//
// Nothing is estimated: the trainer itself is opened on the plan back end (kernels/plan/), one step, one evaluation and
// one save are rehearsed in the sizes of the run's largest micro-batch, and the meter is read. With data.train the
// lengths and the order are the real ones; without, every text is as long as data.max_length allows.
#ifndef FT_PLAN_H
#define FT_PLAN_H

#include "engine/config/config.h"
#include "engine/memory/json.h"
#include "engine/memory/memory.h"
#include "engine/model/model.h"
#include "engine/plan/cards.h"
#include "engine/plan/scaling.h"
#include "engine/train/fit/autofit.h"

#include <jansson.h>

enum { FT_PLAN_SITES = 24 };

typedef struct ft_plan_request {
    size_t budget_bytes; // 0: memory.limit of the configuration, else the memory of the device
    int labels;          // classes when there is no training file; 0: those of config.json
    const ft_card *card; // the device, unless device.name is cpu; its host is not known. NULL: the device of this machine
    bool whole_device;   // memory.limit is what the device has, whatever this machine's has
    const ft_scaling_request *scaling; // it is the share of one of several ranks; NULL: it is alone
} ft_plan_request;

typedef struct ft_plan {
    bool fits;              // under budget_bytes, on a device that the kernels run on
    bool not_supported;     // they do not run on this chip: its compute capability is too low. The figures are as if they did
    size_t budget_bytes;    // what reserved bytes may come to
    size_t graph_bytes;     // of the device's memory, left free for its driver by device.graphs: no part of the budget
    size_t communication_bytes; // likewise, for NCCL, where the run is on several GPUs
    bool host_short;        // !fits: what was asked to lie on the host is more than host_bytes, which are available there
    size_t host_bytes;      // and that the host's ledger could hold, were it empty; 0: unknown
    ft_memory_counters memory; // of the whole run; when it does not fit, as it would be without a budget
    ft_memory_use sites[FT_PLAN_SITES]; // alive at the peak, largest first
    int site_count;
    ft_autofit autofit;        // chosen: the whole batch does not fit, and this is what fits instead
    ft_memory_refusal refusal; // !fits but for the host, or autofit.chosen: the request that failed
    // the model and what was resolved
    ft_dtype dtype;            // train.precision
    int64_t parameters, trained_parameters;
    int64_t rows, rows_held, rows_trained; // of the word table: all, on the device, with gradient and moments
    int64_t rows_save;                     // bytes of the device that memory.active_vocabulary saves; 0: all rows are there
    ft_capacity train, eval; // largest micro-batches; eval.tokens == 0: no evaluation
    ft_capacity trunk;       // of the pass that makes features; tokens 0: there is none
    const char *alone;       // as ft_job_alone (engine/train/job/alone.h)
    bool features;           // steps and evaluations read features: train and eval count rows
    size_t eval_extra;       // bytes held for it beyond what training needs
    int64_t checkpoint_every; // 0: off
    bool keeps_activation, rebuilds_norms; // memory.recompute_activation is false, memory.recompute_layernorm true
    ft_keep storage; // of frozen weights
    bool offloads, offloads_inputs; // AdamW's state and inputs of recomputed layers lie on the host (memory.peak_pinned)
    bool offloads_trunk;            // and frozen layers
    bool freezes_layers;            // there are some
    double step_seconds;      // predicted, of an average optimizer step: for comparing plans (kernels/devices/cost.h)
    double product_seconds;   // of it, in the matrix products of its batches
    int64_t total_steps;      // 0: unknown without data
    int max_length;
    bool with_data;
    int64_t fold;             // of data.folds, the one that this is the plan of: of all folds it takes most; 0: there are none
    int64_t share;            // the same of data.shares; 0: there are none
    bool of_seeds;            // the same of train.seeds, whose orders of texts differ:
    int64_t seed;             // the one
    int threads;              // of the CPU; 0: planned for CUDA
    int compute_capability;   // of a CUDA chip
    ft_host_memory host, host_others; // of the whole process; and of it all but what the allocator of a CPU device reserves
    bool of_process;          // the least that the run could take was planned, since its process may have too little for any of it
    bool process_short;       // !fits: a limit of the process is not kept, as process_verdict says
    ft_host_verdict process_verdict; // under the tightest of memory.host_limit and, for a run here, of the system's
    const ft_scaling_request *ranks; // as was asked
    ft_scaling scaling;       // among them; devices 0: alone
    size_t outside_bytes;     // outside the allocator
    bool outside_measured;    // for this machine, else assumed
} ft_plan;

// Of runs for every fold and seed, or share (data.folds, train.seeds, data.shares) the plan of the one that takes most memory, or that does not fit.
// Errors are those of training: FT_INVALID for configuration and files. Not fitting is not an error.
ft_status ft_plan_run(const ft_config *config, const ft_plan_request *request, ft_plan *plan);
const char *ft_plan_verdict(const ft_plan *plan); // "fits", "does_not_fit", "not_supported"
// The document of `ftengine plan --json`; NULL with the error set. json_decref() it.
json_t *ft_plan_json(const ft_plan *plan);
json_t *ft_plan_autofit_json(const ft_autofit *autofit); // null where nothing was chosen

#endif

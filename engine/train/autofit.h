// autofit.h - the settings of memory left at `auto`, chosen so that the run fits and is the fastest of those that do.
//
// The knobs: train.micro_batch_tokens (with train.micro_batch at auto too), train.gradient_checkpointing,
// memory.recompute_activation, memory.recompute_layernorm and memory.offload. On the
// CPU they change no bit of a result, on a GPU nothing beyond rounding. auto means the whole batch, no recomputation and nothing on
// the host wherever that fits; only where it does not is there anything to choose. Whether a setting fits is found by rehearsing the
// run on a plan device, its price by what the rehearsed ops would take (kernels/cost.h). The choice depends on configuration, data,
// target and limit alone.
#ifndef FT_AUTOFIT_H
#define FT_AUTOFIT_H

#include "engine/train/run_plan.h"

#include <stddef.h>

struct ft_trainer;

// Ways to need less that take more time, each by itself.
typedef enum ft_saving {
    FT_SAVE_ACTIVATION = 1, // memory.recompute_activation
    FT_SAVE_NORMS = 2,      // memory.recompute_layernorm
    FT_SAVE_OPTIMIZER = 4,  // memory.offload
    FT_SAVE_INPUTS = 8,     // the same of activations; only where layers are recomputed
    FT_SAVINGS = 16         // one beyond all of them together
} ft_saving;

typedef struct ft_fitting {
    int64_t micro_batch_tokens;     // FT_AUTO: as many sequences as train.micro_batch or the batch has
    int64_t gradient_checkpointing; // 0 off, else every k layers
    unsigned savings;               // a set of ft_saving
    double step_seconds;            // predicted, of an optimizer step of average length
    size_t reserved;                // planned peak
    size_t pinned;                  // the same of the host's memory that the device copies to and from
} ft_fitting;

typedef struct ft_autofit {
    bool chosen;        // something had to be, and could be
    size_t limit;       // reserved bytes that it was chosen for
    ft_fitting ideal;   // as if memory were unlimited
    ft_fitting choice;
    ft_fitting next;    // the next fastest of those tried, which all that can be the fastest are; reserved 0: there is none
    ft_run_plan plan;   // steps of the choice
    ft_batch_limits eval_limits;
    ft_capacity eval_capacity;
    size_t eval_extra;
} ft_autofit;

enum { FT_FITTING_GRAIN = 16 }; // tokens: the choice fits, so many more do not

// `t` is open with its data, and needs more than `limit` (reserved bytes). *config: t's own with the choice in it; its
// strings stay t's. FT_OK with fit->chosen false: nothing is at auto, or nothing of it fits. *fit is set in any case.
ft_status ft_autofit_choose(const struct ft_trainer *t, size_t limit, ft_config *config, ft_autofit *fit);
// For a run whose memory turned out to be short (ladder.h): as above, but micro-batches that were named are cut too, as far
// as memory.min_micro_batch allows; where nothing fits, what needs least; and no more of the host's memory than was planned, for
// that is what is reserved there. fit->chosen false: nothing needs less than now.
ft_status ft_autofit_reduce(const struct ft_trainer *t, size_t limit, ft_config *config, ft_autofit *fit);
// `t` goes on with the choice: its configuration, steps and evaluation, for which nothing is on the device yet.
void ft_autofit_take(struct ft_trainer *t, const ft_config *config, const ft_autofit *fit);
// "micro-batches of 4096 tokens, recomputing every layer": for people.
enum { FT_FITTING_TEXT = 200 };
const char *ft_fitting_text(const ft_fitting *fitting, char out[FT_FITTING_TEXT]);

#endif

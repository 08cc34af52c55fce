// autofit.h - the settings of memory left at `auto`, chosen so that the run fits and is the fastest of those that do.
//
// The knobs: train.micro_batch_tokens (with train.micro_batch at auto too), train.gradient_checkpointing,
// memory.recompute_activation, memory.recompute_layernorm and memory.offload; and, where nothing of these is enough, model.storage, which
// changes results and is ours only where it is `auto` by name: then the most exact form is taken with which anything fits. On the
// CPU the others change no bit of a result, on a GPU nothing beyond rounding. auto means the whole batch, no recomputation and nothing on
// the host wherever that fits; only where it does not is there anything to choose. Whether a setting fits is found by rehearsing the
// run on a plan device, its price by what the rehearsed ops would take (kernels/devices/cost.h). The choice depends on configuration, data,
// target and limit alone.
#ifndef FT_AUTOFIT_H
#define FT_AUTOFIT_H

#include "engine/train/room/room.h"

enum { FT_FITTING_GRAIN = 16 }; // tokens: the choice fits, so many more do not

// `room` has its steps planned, and needs more than `limit` (reserved bytes). *config: the room's own with the choice in it; its
// strings stay those. FT_OK with fit->chosen false: nothing is at auto, or nothing of it fits. *fit is set in any case.
ft_status ft_autofit_choose(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit);
// For a run whose memory turned out to be short (ladder.h): as above, but micro-batches that were named are cut too, as far
// as memory.min_micro_batch allows; where nothing fits, what needs least; and no more of the host's memory than was planned, for
// that is what is reserved there. fit->chosen false: nothing needs less than now.
ft_status ft_autofit_reduce(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit);
// What takes least of all that is left to us, whatever that is: for who has to say what would be needed. fit->chosen false: nothing takes less
// than the run as it was asked for.
ft_status ft_autofit_least(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit);
// The room goes on with the choice: its configuration, steps and evaluation, for which nothing is on the device yet.
// Would ft_autofit_choose find anything? In a fraction of its time.
ft_status ft_autofit_can(const ft_room *room, size_t limit, bool *can);
void ft_autofit_take(ft_room *room, const ft_config *config, const ft_autofit *fit);
unsigned ft_fitting_offload(const ft_fitting *fitting); // as memory.offload has it: a set of ft_offload_choice
// "micro-batches of 4096 tokens, recomputing every layer": for people.
enum { FT_FITTING_TEXT = 240 };
const char *ft_fitting_text(const ft_fitting *fitting, char out[FT_FITTING_TEXT]);

#endif

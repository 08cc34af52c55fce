// launched.h - one run of the processes that torchrun, mpirun or srun started (engine/ranks).
#ifndef FT_COMMANDS_LAUNCHED_H
#define FT_COMMANDS_LAUNCHED_H

#include "engine/commands/commands.h"
#include "engine/ranks/rank.h"
#include "engine/train/room/ranks.h"

// `ftengine train` with these arguments as rank `me` of several. The first failure of any is the error of rank 0; the
// others return its status and no error, for one tells it.
ft_status ft_launched_train(const ft_rank *me, const ft_section *const *sections, int argc, char **argv);

// device.name is one device a rank: a single name is that of each, and so is a list of one name, as a run has it that
// was of another number of ranks. A single GPU, and cuda:all, are as many of them as there are ranks, from the first
// on; so are the first GPUs of a run that goes on and had another number of them.
ft_status ft_launched_devices(ft_config *config, int ranks);

// A launcher that has started all ranks again after a failure - as many as before, more, fewer or one - means the run
// that there is, where the configuration has any run there for an error. attempt: how often it has.
void ft_launched_again(ft_config *config, int attempt);

#endif

// ranks.h - a run on several devices of this host: a process for each, started and watched by the one that was asked
// for the run.
#ifndef FT_COMMANDS_RANKS_H
#define FT_COMMANDS_RANKS_H

#include "engine/commands/commands.h"
#include "engine/train/room/ranks.h"

// Starts `ranks` processes, each `ftengine rank R N FILE` with these arguments of `train`, and waits until all have
// ended. The first failure of any is the error; then the others are ended. A request to stop reaches all. None outlives
// this process. Where one was lost - killed by a signal that nobody sent to stop the run - all begin again at the last
// checkpoint, at most `restarts` times.
ft_status ft_ranks_run(int ranks, int64_t restarts, int argc, char **argv);
// One of them: ftengine rank R N FILE train's arguments. Its error is told by who started it, and not here.
ft_status ft_command_rank(const ft_section *const *sections, int argc, char **argv);

// `ftengine train` with these arguments as one of `ranks`. A failure ends the group, with the error of this rank, which
// is set too.
ft_status ft_ranks_train(ft_ranks *ranks, const ft_section *const *sections, int argc, char **argv);

#endif

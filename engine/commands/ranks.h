// ranks.h - a run on several devices of this host: a process for each, started and watched by the one that was asked
// for the run.
#ifndef FT_COMMANDS_RANKS_H
#define FT_COMMANDS_RANKS_H

#include "engine/commands/commands.h"
#include "engine/train/room/ranks.h"

// Starts a process for each of device.name, `ftengine rank R N FILE` with these arguments of `train`, and waits until
// all have ended. The first failure of any is the error; then the others are ended. A request to stop reaches all. None
// outlives this process. Where one was lost - killed by a signal that nobody sent to stop the run, or by its GPU - all
// begin again at the last checkpoint, at most distributed.max_restarts times, on the devices that are left
// (engine/ranks/attempts.h): on one, as a run of one process.
ft_status ft_ranks_run(const ft_config *config, int argc, char **argv);
// One of them: ftengine rank R N FILE train's arguments. Its error is told by who started it, and not here.
ft_status ft_command_rank(const ft_section *const *sections, int argc, char **argv);

// `ftengine train` with these arguments as one of `ranks`. A failure ends the group, with the error of this rank, which
// is set too.
ft_status ft_ranks_train(ft_ranks *ranks, const ft_section *const *sections, int argc, char **argv);

// ---- work that is no `train` of a command line

typedef ft_status (*ft_rank_work)(void *context); // of a rank; ft_ranks_present() says which

// This process is rank 0 of `ranks` for as long as `work` takes. The others are processes `ftengine COMMAND R N FILE`
// with these arguments, started and watched as above: they end with this process, and have ended when this returns. The
// first failure of any is the error; one that is killed ends the work of all (FT_FAILED, with its name). The calling
// thread has to be one that lives as long as the process: the kernel takes its end for that of the process.
ft_status ft_ranks_lead(int ranks, const char *command, int argc, char **argv, ft_rank_work work, void *context);
// One of the others; argv: R N FILE and what follows. As with ft_command_rank the error is told elsewhere.
ft_status ft_ranks_follow(int argc, char **argv, ft_rank_work work, void *context);

#endif

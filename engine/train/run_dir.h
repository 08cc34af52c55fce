// run_dir.h - where a run is: its directory, and the right to write there.
#ifndef FT_RUN_DIR_H
#define FT_RUN_DIR_H

#include "base/arena.h"
#include "base/status.h"
#include "engine/config/config.h"

// The directory of output.dir and output.exists, absolute, created when it was not there; *dir lives in the arena or in
// the configuration. FT_INVALID: it holds something that is in the way.
// One process a run directory: the lock goes with the descriptor (close() it), however the process ends. *lock is -1 when
// there is none. With output.exists = new, who finds it taken between two looks takes the next number.
ft_status ft_run_dir_take(const ft_config *config, ft_arena *arena, const char **dir, int *lock);

// Is anything of a run in this directory, which need not be there?
ft_status ft_run_dir_begun(const char *dir, bool *begun);

// RUN/config.ini where `path` is a run directory, NULL where it is none (no error).
const char *ft_run_dir_config(const char *path, ft_arena *arena);
// The run directory whose config.ini this file is, NULL where it is none (no error).
const char *ft_run_dir_of_config(const char *file, ft_arena *arena);
// The step of the newest checkpoint of a run directory, -1 where there is none (no error).
int64_t ft_run_dir_checkpoint(const char *dir);
// checkpoints/, model/ and adapter/ go; logs, figures and predictions stay.
ft_status ft_run_dir_make_lean(const char *dir);

#endif

// trial.h - one trial as a child process: `ftengine train` in a run directory of its own, watched through the files
// that it leaves there. Knows nothing of studies.
//
// The child dies with its parent (kill -9 included), is in a process group of its own, so that Ctrl-C reaches it only
// through ft_trial_stop(), and writes its messages to log.txt.
#ifndef FT_HPO_TRIAL_H
#define FT_HPO_TRIAL_H

#include "kernels/arena.h"
#include "kernels/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ft_trial_process {
    const char *directory; // absolute
    pid_t pid;             // 0: not running
    int alive;             // closes when the process ends
    bool stopping;
    double started; // ft_now()
    // metrics.jsonl as far as it has been read
    int64_t line_at, line_length; // the last line read
    char *line;
    int64_t step; // of that line
} ft_trial_process;

// Starts `/proc/self/exe train DIRECTORY/config.ini`, resuming what is there. The directory with its config.ini must
// exist; it must be absolute and outlive the process. Waits up to 30 s for an earlier process that still holds it.
ft_status ft_trial_start(const char *directory, ft_trial_process *process);
// For reading what a trial left that runs no more.
void ft_trial_attach(const char *directory, ft_trial_process *process);
// Until the process ends or `seconds` are over. *ended: it has ended, and `code` is its exit code, or minus the signal
// that killed it.
ft_status ft_trial_wait(ft_trial_process *process, double seconds, bool *ended, int *code);
// The next whole line of metrics.jsonl of a step beyond those before (json_decref it), NULL when there is none now. A
// resumed trial cuts the file at its checkpoint and writes the same lines again: what lies before the step read last is
// passed over, lines of that step itself may come again.
ft_status ft_trial_line(ft_trial_process *process, json_t **line);
// Asks it to save and stop; the second time, or after `patience` seconds in ft_trial_end(), it is killed.
void ft_trial_stop(ft_trial_process *process, int signal_number);
// Waits for a process that was asked to stop and kills it when it does not. Afterwards its lines are told again from
// the beginning. One that ended before gives code 0.
ft_status ft_trial_end(ft_trial_process *process, double patience, int *code);
// Resident bytes at this moment, 0 when not known.
int64_t ft_trial_memory(const ft_trial_process *process);
// The last error in log.txt, "" when there is none. NULL when out of memory.
const char *ft_trial_error(const char *directory, ft_arena *arena);

#endif

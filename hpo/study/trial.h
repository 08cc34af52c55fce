// trial.h - what a trial leaves in its run directory, read while a worker trains in it: metrics.jsonl line by line,
// however often it was cut off and resumed, and log.txt. Knows nothing of studies.
#ifndef FT_HPO_TRIAL_H
#define FT_HPO_TRIAL_H

#include "base/arena.h"
#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

typedef struct ft_trial_files {
    const char *directory; // absolute
    // metrics.jsonl as far as it has been read
    int64_t line_at, line_length; // the last line read
    char *line;
    int64_t step; // of that line
} ft_trial_files;

void ft_trial_attach(const char *directory, ft_trial_files *files); // the path is kept by reference
void ft_trial_detach(ft_trial_files *files);                        // {0} is fine
// The next whole line of metrics.jsonl of a step beyond those before (json_decref it), NULL when there is none now. A
// resumed trial cuts the file at its checkpoint and writes the same lines again: what lies before the step read last is
// passed over, lines of that step itself may come again.
ft_status ft_trial_line(ft_trial_files *files, json_t **line);
// Whether somebody trains in the directory: after a kill -9 of a coordinator its workers may take a moment to die, and until
// then they hold their run directories. One that is not there is nobody's.
bool ft_trial_held(const char *directory);
// The last error in log.txt, "" when there is none. NULL when out of memory.
const char *ft_trial_error(const char *directory, ft_arena *arena);
// The last lines of log.txt, of `most` bytes together at most; "" when there are none. NULL when out of memory.
char *ft_trial_log_tail(const char *directory, size_t most, ft_arena *arena);

#endif

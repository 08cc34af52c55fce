// run_record.h - a run directory seen from outside: what was asked for, what happened, and how it went on the way.
//
// A run that is still going, or was killed, has no run.json; its options then come from config.ini and its figures from
// the last lines of metrics.jsonl.
#ifndef FT_RUN_RECORD_H
#define FT_RUN_RECORD_H

#include "base/arena.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

// One figure of metrics.jsonl over the steps at which it is there as a finite number.
typedef struct ft_run_curve {
    const char *name; // "loss", "grad_norm", "eval_accuracy", ...
    int64_t count, capacity;
    double *step, *value;
} ft_run_curve;

struct ft_section;

typedef struct ft_run_record {
    const char *path;     // as given
    const char *name;     // its last part; of a trial the study's name too: "tune/00042"
    const char *status;   // as in run.json; "unfinished" without one
    json_t *run;          // run.json; NULL: there is none
    json_t *config;       // option -> its value as text
    json_t *figures;      // name -> number: "eval.accuracy", "seconds.total", ...; those that this run has.
                          // Of folds and seeds also "eval.accuracy.sd", the standard deviation over the runs
    ft_run_curve *curves; // in the order of their first appearance
    int curve_count;
    ft_arena arena;
} ft_run_record;

// Is there a run in this directory?
bool ft_run_is_there(const char *path);
// Close it also when opening failed. FT_INVALID: `path` is no run directory (the message says what it is), or a file in it
// is damaged (file:line). A last line of metrics.jsonl without its end is one that is being written, and left out.
// `sections`: those that config.ini may have beside a run's (engine/config/options.h).
ft_status ft_run_record_open(const struct ft_section *const *sections, const char *path, ft_run_record *record);
void ft_run_record_close(ft_run_record *record); // {0} is fine

// The curve of this name, or NULL.
const ft_run_curve *ft_run_curve_find(const ft_run_record *record, const char *name);
// The text of an option, or NULL.
const char *ft_run_option(const ft_run_record *record, const char *name);

#endif

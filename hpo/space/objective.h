// objective.h - what a study looks for: names of figures that a run leaves in run.json, each with a direction; and what
// a trial must keep to, figures with a limit.
#ifndef FT_HPO_OBJECTIVE_H
#define FT_HPO_OBJECTIVE_H

#include "engine/config/config.h"

#include <jansson.h>

#define FT_OBJECTIVE_LIMIT 8

typedef struct ft_objective {
    const char *name; // "eval.accuracy"
    bool maximize;
    const char *object, *key; // in run.json: "metrics", "eval_accuracy"; object NULL: at the top
    bool reported;            // each evaluation leaves a value under `key` in metrics.jsonl
} ft_objective;

typedef struct ft_objectives {
    ft_objective list[FT_OBJECTIVE_LIMIT];
    int count;
} ft_objectives;

// study.objective: "maximize eval.accuracy, minimize seconds.total". The direction may be left out where it goes
// without saying; an empty text stands for eval.metric. Texts live in the arena. FT_INVALID for names that are none,
// with the nearest, and for figures that this configuration does not produce.
ft_status ft_objectives_read(const ft_config *config, ft_arena *arena, ft_objectives *out);
typedef struct ft_limit {
    ft_objective figure;
    bool at_most;
    double bound;
} ft_limit;

typedef struct ft_limits {
    ft_limit list[FT_OBJECTIVE_LIMIT];
    int count;
} ft_limits;

// study.constraints: "memory.peak_reserved_bytes <= 8GiB, eval.accuracy >= 0.8". Units are those of sizes and
// durations.
ft_status ft_limits_read(const ft_config *config, ft_arena *arena, ft_limits *out);
// A figure as people read it, with about so many digits: bytes as 6.0MiB where its name ends in _bytes, whole numbers without an
// exponent. Returns `out`.
enum { FT_FIGURE_TEXT = 40 };
bool ft_figure_is_bytes(const char *name);
const char *ft_figure_text(const char *name, double value, int digits, char out[FT_FIGURE_TEXT]);
// The objective's figure in a run.json; false when it is absent or no finite number.
bool ft_objective_value(const ft_objective *objective, const json_t *run, double *value);

#endif

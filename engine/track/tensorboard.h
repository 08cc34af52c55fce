// tensorboard.h - what TensorBoard shows of a run or a trial: event files in DIRECTORY/tensorboard.
//
// Names are those that transformers' Trainer gives TensorBoard: eval_X is eval/X, test_X test/X, all else train/X;
// memory is ours. When a run goes on a new file begins with "from step s on": readers drop what earlier files have from
// there, so that no step is there twice. What metrics.jsonl keeps of step s itself is written again.
#ifndef FT_TRACK_TENSORBOARD_H
#define FT_TRACK_TENSORBOARD_H

#include "engine/config/config.h"
#include "engine/memory/counters.h"

#include <jansson.h>

typedef struct ft_tensorboard ft_tensorboard;

// The run in `directory` goes on from `step`, 0: it begins, and its configuration is written as a text. metrics.jsonl
// is as the run left it at that step.
ft_status ft_tensorboard_open(const char *directory, int64_t step, const ft_config *config, ft_tensorboard **board);
// The figures of a line of metrics.jsonl, at its step.
ft_status ft_tensorboard_line(ft_tensorboard *board, const json_t *line);
// One figure under its own name.
ft_status ft_tensorboard_scalar(ft_tensorboard *board, int64_t step, const char *tag, double value);
// Peaks so far, and who held it at the peak; what has not changed since the last call is left out, unless `last`.
ft_status ft_tensorboard_memory(ft_tensorboard *board, int64_t step, const ft_memory_counters *peaks, bool last);
ft_status ft_tensorboard_flush(ft_tensorboard *board); // readers see what was added
ft_status ft_tensorboard_close(ft_tensorboard *board); // NULL is fine

// A trial that has ended, for the HPARAMS page: a file of its own, behind those that its run has written.
typedef struct ft_hparam {
    const char *name;
    const char *text; // NULL: a number
    double number;
} ft_hparam;
typedef struct ft_trial_summary {
    int64_t number, step;
    double started, ended; // seconds since 1970
    bool success;
    int params, values;
    const ft_hparam *param;
    const char *const *objective; // [values] "eval.accuracy"; shown as objective/eval.accuracy
    const double *value;          // [values]; NULL: it has none
} ft_trial_summary;
ft_status ft_tensorboard_trial(const char *directory, const ft_trial_summary *trial);

#endif

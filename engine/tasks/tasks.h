// tasks.h - what a run learns (train.task): a row of one table a task, and all that differs between tasks is in it.
//
// Names, the usual loss and the help are in the task's line of engine/config/tasks.def; the row is in a file of its own.
#ifndef FT_TASKS_H
#define FT_TASKS_H

#include "engine/data/labels/labels.h"
#include "engine/data/tables/cells.h"
#include "engine/metrics/metrics.h"
#include "engine/metrics/window_pooling.h"
#include "engine/tasks/answer.h"
#include "engine/tasks/span_answer.h"
#include "engine/tasks/token_answer.h"

// What outputs are found from.
typedef struct ft_task_tables {
    const ft_table *train, *validation; // NULL: there is no validation set
    const char *train_path, *validation_path;
    const char *separator; // of several names in one cell
} ft_task_tables;

typedef struct ft_task_spec {
    ft_task id;

    // Of a file: what a text is given; may it be given nothing; is a table one for this task, where train.task = auto (NULL: none is).
    ft_label_kind labels;
    bool empty_labels;
    bool grouped; // examples are documents of queries, by data.group or by the first text: figures are means over queries
    bool (*suits)(const ft_table *train);
    // The outputs, by name, in the arena. FT_INVALID: there is nothing to learn, or these are no labels of this task.
    ft_status (*outputs)(const ft_task_tables *tables, ft_arena *arena, ft_labels *labels);
    bool named; // a checkpoint that has outputs of these names goes on with them

    // Of a loss: the weight of a class with `own` of `examples` where class_weights = balanced, `present` classes having any (NULL: its
    // classes have no weights, or it has none); and the plain loss of an example, whatever training has: label, or target [outputs].
    double (*balance)(double examples, double own, int present);
    float (*loss)(const float *logits, int outputs, int32_t label, const float *target);

    // Of judging.
    ft_scoring scoring;
    ft_pool *pool;      // of the windows of a long text
    ft_metric shown[4]; // what people look at first

    // Of predictions, for people and programs: what is decided about a text under which name, as JSON, as the cells of a table with
    // their heads (NULL behind the last), and what would have been right. Where nothing is decided: NULL, and no heads.
    const char *decided_key;
    const char *const *decided_heads;
    json_t *(*decided)(const ft_answer *answer, bool *failed);
    ft_status (*write_decided)(const ft_answer *answer, ft_cell_writer *out);
    void (*put_truth)(const ft_answer *answer, int32_t label, const float *target, json_t *line, bool *failed);
} ft_task_spec;

// AUTO is what a model is taken for that does not say: one class a text.
const ft_task_spec *ft_task_spec_of(ft_task task);
// What a training table is for.
const ft_task_spec *ft_task_suiting(const ft_table *train);

// Is it asked where in a context an answer stands? Its predictions are written by span_answer.h.
static inline bool ft_task_has_spans(const ft_task_spec *task) { return task->labels == FT_LABELS_ANSWERS; }
// Is it a language model, which says of every token how likely the next one is? Labels are ids of the vocabulary, and its one output is the
// loss of a row (blocks/language.c).
static inline bool ft_task_has_language(const ft_task_spec *task) { return task->labels == FT_LABELS_NEXT_TOKENS; }
// Is something said about every row of a text, or about many of them?
static inline bool ft_task_reads_rows(const ft_task_spec *task) {
    return task->labels == FT_LABELS_TAGS || task->labels == FT_LABELS_ANSWERS || task->labels == FT_LABELS_NEXT_TOKENS;
}
// Has every word a label of its own, and not the text? Its predictions are written by token_answer.h.
static inline bool ft_task_has_tokens(const ft_task_spec *task) { return task->labels == FT_LABELS_TAGS; }

static inline bool ft_task_has_classes(const ft_task_spec *task) { return task->scoring.probabilities != NULL; }

// Writes a line of predictions: the members of `head` (which it takes), decided_key or `key` (NULL: decided_key), "probabilities" or
// "values", and with `logits` these behind the probabilities. Failed writes are left in ferror(out).
ft_status ft_task_write_line(const ft_task_spec *task, const ft_answer *answer, const char *key, bool logits, json_t *head, FILE *out);

#endif

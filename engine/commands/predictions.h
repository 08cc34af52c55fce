// predictions.h - what one or several models say about a table of texts, added up and written.
#ifndef FT_PREDICTIONS_H
#define FT_PREDICTIONS_H

#include "engine/commands/commands.h"
#include "engine/metrics/answers.h"
#include "engine/metrics/entities.h"

// In which form, and what of it.
typedef struct ft_prediction_form {
    ft_format format; // TSV, CSV or JSONL; of questions SQUAD too: one object {id: text}
    bool logits;      // in place of probabilities
    const char *id;   // the column that is copied; NULL: none
    FILE *nbest;      // of questions, their n best too: one object {id: [...]} as run_qa's nbest_predictions.json; NULL: not wanted
} ft_prediction_form;

typedef struct ft_predictions {
    int64_t first, examples; // rows of the table; the first one's number in the file
    int64_t rows;            // that something is said about: those, or of words with tags the words
    int64_t *first_row;      // of words [examples + 1], those of each text
    int32_t *word;           // [rows] which word of its text each is
    ft_tag_set tags;
    ft_dataset questions;    // of questions: the first model's, which says where rows stand
    ft_answer_rules rules;   // of their answers
    bool written;            // something was, of an object
    bool pictures;           // texts are names of pictures
    int classes;
    int models; // that were added
    const ft_task_spec *task;
    const char **names;    // [classes], no two the same
    const char *const *keys; // of them (ft_answer_keys)
    const char *separator; // of several labels in one cell, in none of the names
    double *threshold;     // the mean of the models', in threshold_room; NULL: none has one
    double *threshold_room;
    double *probability;   // [rows * classes] sum over models, then mean (base/spill.h)
    double *logits;        // the same of the logits
    int64_t capacity;      // rows that there is room for
    ft_arena arena;
} ft_predictions; // {0} is empty

// The first model says what the classes are called. Two of one name get their numbers behind it, and a warning.
ft_status ft_predictions_begin(const ft_classifier *first, ft_predictions *predictions);
// Another table: nothing is known about its rows.
ft_status ft_predictions_table(ft_predictions *predictions, int64_t rows);
// Bytes of the host that it takes to say something about so many rows, of one model at a time.
size_t ft_predictions_host_bytes(int64_t rows, int classes);
// Whether a model that will say something about the table fits, so that of several none begins where a later one would be refused.
ft_status ft_predictions_foresee(ft_predictions *predictions, ft_classifier *model, const char *path, const ft_table *table, const char *data);
// Of texts that come a piece after the other: how many rows a piece has at most; and the weights, under the bound of all pieces of so many
// rows and FT_LARGEST_PIECE bytes. size: bytes of all texts; 0: nobody knows.
int64_t ft_predictions_piece(int classes);
ft_status ft_predictions_load(ft_classifier *model, int64_t rows, size_t size);
// What a model says about the table; its weights are read first, where they are not there. path: the model's. progress: see
// ft_predict_dataset.
ft_status ft_predictions_add(ft_predictions *predictions, ft_classifier *model, const char *path, const ft_table *table,
                             const char *data, ft_predict_progress progress, void *context);
// decided [classes]: 1 where a text of one model's table is said to be of that class, else 0.
void ft_predictions_decide(const ft_predictions *predictions, int64_t row, signed char *decided);
ft_status ft_predictions_write_header(const ft_predictions *predictions, const ft_table *table, const ft_prediction_form *form,
                                      FILE *out);
// The rows, of means over the models.
ft_status ft_predictions_write(ft_predictions *predictions, const ft_table *table, const ft_prediction_form *form, FILE *out);
// Behind the last row; header and end are those of form->nbest too.
void ft_predictions_write_end(const ft_prediction_form *form, FILE *out);
void ft_predictions_free(ft_predictions *predictions);

#endif

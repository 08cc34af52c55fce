// job.h - what a run learns: from which texts, which task with which outputs, on which model. No device and no weights.
//
// A job is read-only once it is open, so that several may work on it: the run, the rehearsals that plan it (rehearsal.h), later
// the ranks of a run on several devices.
#ifndef FT_TRAIN_JOB_H
#define FT_TRAIN_JOB_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"
#include "engine/data/report.h"
#include "engine/model/loss.h"
#include "engine/model/model_config.h"
#include "engine/model/word_rows.h"
#include "engine/tasks/tasks.h"
#include "engine/text/tokenizer.h"

typedef enum ft_split { FT_SPLIT_TRAIN = 0, FT_SPLIT_VALIDATION, FT_SPLIT_TEST, FT_SPLITS } ft_split;
const char *ft_split_name(ft_split split); // "train", "validation", "test"

typedef struct ft_split_data {
    bool present, from_cache;
    const char *path;
    ft_table table;
    int64_t *source_row; // [table.rows] of which row of the file each is (in the job's arena); NULL: the table is the whole file
    ft_dataset data;
    ft_data_report report; // of a real run, not of a plan
} ft_split_data;

typedef struct ft_job {
    const ft_config *config;   // what was asked for; what a run does may differ in memory's settings alone (ft_room.config)
    const char *model_dir;     // model.path, or the snapshot in the cache that it names
    const char *tokenizer_dir; // the model's, or model.stand_in_tokenizer
    ft_tokenizer *tokenizer;
    ft_model_config model_config;
    ft_split_data split[FT_SPLITS];
    const ft_task_spec *task;
    ft_loss loss;              // of training
    ft_labels labels;          // as the data spell them
    const char *const *label_names; // as the saved model names them
    int max_length;
    ft_long_text long_text;    // what becomes of texts that are longer
    const ft_word_rows *word_rows; // the rows of the word table that are there; NULL: all. active_rows.h
    ft_word_rows own_word_rows;    // where it is not another job's
    int64_t word_rows_save;        // bytes of the device
    bool without_data;         // planned without texts
    bool without_weights;      // planned: they are neither read nor drawn
    ft_arena arena;            // of all that is found out while it is opened
} ft_job;

#endif

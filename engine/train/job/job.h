// job.h - what a run learns: from which texts, which task with which outputs, on which model. No device and no weights.
//
// A job is read-only once it is open, so that several may work on it: the run, the rehearsals that plan it (rehearsal.h), later
// the ranks of a run on several devices.
#ifndef FT_TRAIN_JOB_H
#define FT_TRAIN_JOB_H

#include "engine/config/config.h"
#include "engine/data/augment/augment.h"
#include "engine/data/broken_pictures.h"
#include "engine/data/feature_cache.h"
#include "engine/data/input.h"
#include "engine/data/report.h"
#include "engine/files/weights.h"
#include "engine/model/spec/loss.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/state/word_rows.h"
#include "engine/tasks/tasks.h"

typedef enum ft_split { FT_SPLIT_TRAIN = 0, FT_SPLIT_VALIDATION, FT_SPLIT_TEST, FT_SPLITS } ft_split;
const char *ft_split_name(ft_split split); // "train", "validation", "test"

typedef struct ft_split_data {
    bool present, from_cache;
    const char *path;
    ft_table table;
    int64_t *source_row; // [examples] of which row of the file each is (base/spill.h); NULL: the table is the whole file
    ft_dataset data;
    ft_broken_pictures broken; // that were left out (data.broken_pictures), before anything else was done with the table
    ft_data_report report; // ft_job_measure; all zero without
} ft_split_data;

// What the process held (process.h) at stages of its opening. (The most that it asked for meanwhile: base/heap.h.)
typedef struct ft_job_held {
    size_t start, tokenizer, data;
} ft_job_held;

// Where the head alone is trained: rows of what it reads, by the file that the texts stand in (features.h).
enum { FT_MOST_FEATURE_PARTS = 2 };
typedef struct ft_feature_set {
    ft_features features;
    int parts;
    ft_split split[FT_MOST_FEATURE_PARTS];
    int32_t *row[FT_MOST_FEATURE_PARTS]; // [sequences] of the part (base/spill.h); NULL: in order
} ft_feature_set;

typedef struct ft_job_features {
    bool on;
    bool from_cache;       // all of them were found
    int compute_capability, sm_count; // of the device that they were looked for; 0 on the CPU
    int sets;
    ft_feature_set set[FT_SPLITS];
    const char *directory; // where they are kept; NULL: nowhere
} ft_job_features;

typedef struct ft_job {
    const ft_config *config;   // what was asked for; what a run does may differ in memory's settings alone (ft_room.config)
    const char *model_dir;     // model.path, or the snapshot in the cache that it names
    char base_sha256[65];      // with an adapter, or where the head alone is trained: of the model's files; "": there are none
    const char *tokenizer_dir; // the model's, or model.stand_in_tokenizer
    ft_input input;            // none where there are no data
    ft_model_config model_config;
    ft_split_data split[FT_SPLITS];
    const ft_task_spec *wanted; // the task that files are read for, before it is known which one train.task = auto means
    const ft_task_spec *task;
    ft_loss loss;              // of training
    ft_augment augment;        // of pictures, in training
    ft_labels labels;          // as the data spell them
    const char *const *label_names; // as the saved model names them
    int max_length;            // rows of a sequence
    const ft_word_rows *word_rows; // the rows of the word table that are there; NULL: all. active_rows.h
    ft_word_rows own_word_rows;    // where not all are
    int64_t word_rows_save;        // bytes of the device
    bool without_data;         // planned without texts
    ft_job_features features;
    ft_job_held held;
    ft_weights *files;         // the same, mapped, for frozen weights that are read there (model_config.files); NULL: none
    size_t weights_bytes;      // of the files that its weights are read from; 0: none are there
    ft_arena arena;            // of all that is found out while it is opened
} ft_job;

// What a job that is only planned has instead of the real things; all zero for a real one.
typedef struct ft_job_source {
    bool without_weights; // nobody reads them: the model may be known by name alone
    bool without_data;    // no files: every text is as long as possible, and there is an evaluation
    int labels;           // without data; 0: the model's
} ft_job_source;

// Finds the model and its tokenizer, reads the texts and what the task makes of their labels. `config` is kept by reference. Close
// the job in any case. Errors: FT_INVALID for what the configuration, the model or the data cannot mean.
ft_status ft_job_open(const ft_config *config, const ft_job_source *source, ft_job *job);
// The rest, which takes its time: texts become tokens (those of a cache at once), the loss and the rows of the word table follow
// from them. The status of a signal that came meanwhile (stop.h). Behind this a job is read-only, but for:
ft_status ft_job_tokenise(ft_job *job);
// What is repeated, contradicted, empty and cut in each split, for a job that is run and not only planned. At once behind
// ft_job_tokenise, before anybody else has the job.
ft_status ft_job_measure(ft_job *job);
// The texts and the labels as they stood in the files are not needed any more, once they were tokenised, measured and reported about.
void ft_job_forget_texts(ft_job *job);
size_t ft_job_texts_bytes(const ft_job *job); // that the process does not hold any more then
bool ft_job_evaluates(const ft_job *job, ft_split split); // is it ever judged in a run?
void ft_job_close(ft_job *job);                           // one that is all zero is fine

#endif

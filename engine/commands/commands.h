// commands.h - the subcommands of ftengine. Each gets the arguments behind its name, and the sections that a configuration may have
// beside a run's (ft_config_load_with), and returns a status; the error is set.
#ifndef FT_COMMANDS_H
#define FT_COMMANDS_H

#include "base/json/json.h"
#include "base/status.h"
#include "engine/config/config.h"
#include "engine/data/input.h"
#include "engine/generate/generator.h"
#include "engine/model/model.h"
#include "engine/model/spec/settings.h"
#include "engine/train/room/room.h"
#include "engine/train/step/predict.h"

typedef ft_status (*ft_command_function)(const ft_section *const *sections, int argc, char **argv);
// A row of the program's table. usage and help are for people; completion finds the flags of a command in them.
typedef struct ft_command {
    const char *name;
    ft_command_function run;
    const char *usage, *what, *help;
} ft_command;
ft_status ft_command_train(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_eval(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_predict(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_embed(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_tokenize(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_compare(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_report(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_devices(const ft_section *const *sections, int argc, char **argv);
// `ftengine devices --pick`: prints the name of the best device with so much free ("4GiB"; NULL: any), FT_NO_DEVICE if none.
ft_status ft_devices_pick(const char *min_free, bool as_json);
// `ftengine devices --watch`: looks again and again, every `interval` ("2s"; NULL: that), until it is stopped or nobody reads.
ft_status ft_devices_watch(const char *interval, bool as_json);
ft_status ft_command_tune_gemm(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_merge(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_config(const ft_section *const *sections, int argc, char **argv);
ft_status ft_command_pull(const ft_section *const *sections, int argc, char **argv);

// ---- arguments --------------------------------------------------------------------------------------------------------

// One option of a command line: "--name VALUE" or "--name=VALUE", or a bare flag.
typedef struct ft_flag {
    const char *name;       // "--data"
    const char **value;     // set to its argument; NULL for a bare flag
    bool *present;          // set when it occurs; may be NULL
} ft_flag;

// Splits a command line into flags, overrides (section.key=value) and other words, in order. --quiet and --verbose are
// known everywhere. FT_INVALID with the nearest flag for unknown ones. The arrays have room for argc entries.
typedef struct ft_words {
    const char **plain, **overrides;
    int plain_count, override_count;
} ft_words;
ft_status ft_parse_words(const char *command, int argc, char **argv, int flag_count, const ft_flag *flags, ft_arena *arena,
                         ft_words *words);
// A flag that is the short name of an option: "option=value" behind the overrides, unless value is NULL. Every flag of a
// command line has room.
ft_status ft_words_set(ft_words *words, ft_arena *arena, const char *option, const char *value);
// Texts that are read must not be what is written (NULL: standard output). what: "predictions".
ft_status ft_check_output(const char *data, const char *output, const char *what);

// Prints the document of --json, with format_version in it, and takes it. `failed`: it could not be built.
ft_status ft_print_document(json_t *document, bool failed);
// A command that may follow, as it is typed: document["next_commands"] is a list of lists of words. `command` and `of`
// (NULL: none) stand in front of the words (NULL: none). *failed as ft_json_put has it.
void ft_document_next(json_t *document, const char *command, const char *of, const ft_words *words, bool *failed);

// ---- a saved model ----------------------------------------------------------------------------------------------------

// A model directory opened for prediction: a run directory (its model/ or adapter/), a Hugging Face model with a classifier, or an adapter in
// PEFT's files beside the model that it was trained on.
typedef struct ft_classifier {
    const char *path;               // of the model, or of the adapter
    const char *weights;            // where the model's are: `path`, or the adapter's base
    ft_room room;                   // its device, memory and model, and what was planned and reserved there
    ft_weights *files;              // mapped, of `weights`: what computes reads them there; NULL: they are copied
    ft_input input;
    ft_model_config config;
    ft_model_settings settings;
    ft_config options;
    const ft_task_spec *task;
    const double *threshold;        // see train/decision.h; NULL: 1/2, the largest
    ft_labels labels;               // as data spell them
    const char *const *label_names; // as config.json names them
    int max_length;
    ft_job_held held;        // of the host, when it was opened
    bool loaded;             // its weights are there
    ft_capacity planned;     // the largest micro-batch
    ft_capacity laid;        // what memory is laid out for; 0 tokens: nothing yet
    ft_generator_sizes generator; // of texts that are gone on with, as they were planned; slots 0: none are
    ft_batch_limits limits;  // of micro-batches: about 4096 tokens, fewer where there is no room for them, or eval.batch_size texts
    bool rows;               // opened for what comes out of its layers, and not for its logits
    ft_arena arena;
} ft_classifier;

// What is to be done with it.
typedef struct ft_classifier_work {
    const ft_dataset *data; // NULL: texts will come a piece after the other
    ft_generator_sizes generator; // texts are gone on with, behind a pass over `data` or, without data, alone; slots 0: they are not
    bool computes;          // else its weights are read and written alone
    bool only_judge;        // whether it fits is the question: nothing is reserved, and no weights are read
    size_t input;           // without data, bytes of the files; 0: nobody knows
    size_t host;            // of the host that the work takes beside the device
    size_t mapped;          // of addresses alone
    size_t files;           // that are written
} ft_classifier_work;
// Everything but the weights. What is read from here on until ft_classifier_load is watched (base/heap.h). base: the model that an adapter
// stands beside; NULL: the one that its files name. Close it in any case.
ft_status ft_classifier_open(const ft_section *const *sections, const char *path, const char *base, int override_count,
                             const char *const *overrides, ft_classifier *classifier);
// Where such a directory, run or name in the cache has its model, or its adapter: in the arena.
ft_status ft_classifier_find(const char *path, ft_arena *arena, const char **directory);
// The same for what comes out of its layers, single texts cut at their ends: no classifier has to be there.
typedef struct ft_rows_request {
    bool mean, all;     // of a text the mean of its rows, or all of them; else its first
    bool lower_case;
    int64_t max_length; // unless data.max_length says; 0: a run's own, else as far as tokenizer and model go
} ft_rows_request;
ft_status ft_classifier_open_rows(const ft_section *const *sections, const char *path, const char *base, int override_count,
                                  const char *const *overrides, const ft_rows_request *rows, ft_classifier *classifier);
// Lays memory out for a pass over the data set, in micro-batches of classifier->limits, which change when memory is refused.
ft_status ft_classifier_lay_out(ft_classifier *classifier, const ft_dataset *data);
ft_status ft_classifier_close(ft_classifier *classifier); // FT_FAILED on a leak
// Plans the work, with all that the process will hold, judges it under the limits of the process, reserves it in the device's ledger, and
// then reads the weights. FT_NO_MEMORY with the name of the limit that does not hold it, FT_NO_DEVICE where others have the room. Once;
// nothing where the weights are there. classifier_load.c
ft_status ft_classifier_load(ft_classifier *classifier, const ft_classifier_work *work);
// Reading on, behind ft_classifier_load, is watched between these two.
void ft_classifier_watch(const ft_classifier *classifier);
void ft_classifier_watch_end(void);
// Logits of the calibrated probabilities, and, unless NULL, losses [examples]. progress (optional): see ft_predict_dataset.
ft_status ft_classifier_predict(ft_classifier *classifier, const ft_dataset *data, ft_logits *logits, float *losses,
                                ft_predict_progress progress, void *context);

// Of a model of pictures, with data.broken_pictures=skip: those that cannot be read leave the table, with warnings. No row may be left.
ft_status ft_classifier_leave_out(const ft_classifier *classifier, ft_table *table, const char *path);
// The data set of a table, as the model was trained on such; labels NULL: unlabelled. path: the file, for messages.
ft_status ft_classifier_build(const ft_classifier *classifier, const ft_table *table, const char *path, const ft_labels *labels,
                              ft_dataset *dataset);
// What a model wants of a file: the columns that it was trained on, or those of data.text_column and its like.
ft_table_request ft_classifier_request(const ft_classifier *classifier, ft_format format, ft_table_label need);
// The argument of --format. plain: "text" is one.
ft_status ft_parse_format(const char *name, bool plain, ft_format *format);

#endif

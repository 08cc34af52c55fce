// commands.h - the subcommands of ftengine. Each gets the arguments behind its name, and the sections that a configuration may have
// beside a run's (ft_config_load_with), and returns a status; the error is set.
#ifndef FT_COMMANDS_H
#define FT_COMMANDS_H

#include "base/status.h"
#include "engine/config/config.h"
#include "engine/data/input.h"
#include "engine/model/model.h"
#include "engine/model/spec/settings.h"
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
// A flag that is the short name of an option: "option=value" behind the overrides, unless value is NULL. One flag of a command
// line has room.
ft_status ft_words_set(ft_words *words, ft_arena *arena, const char *option, const char *value);
// Texts that are read must not be what is written (NULL: standard output). what: "predictions".
ft_status ft_check_output(const char *data, const char *output, const char *what);

// ---- a saved model ----------------------------------------------------------------------------------------------------

// A model directory opened for prediction: a run directory (its model/ or adapter/), a Hugging Face model with a classifier, or an adapter in
// PEFT's files beside the model that it was trained on.
typedef struct ft_classifier {
    const char *path;               // of the model, or of the adapter
    const char *weights;            // where the model's are: `path`, or the adapter's base
    ft_device *device;
    ft_memory *memory;
    ft_input input;
    ft_model_config config;
    ft_model_settings settings;
    ft_config options;
    ft_model model;
    const ft_task_spec *task;
    const double *threshold;        // see train/decision.h; NULL: 1/2, the largest
    ft_labels labels;               // as data spell them
    const char *const *label_names; // as config.json names them
    int max_length;
    ft_capacity laid;        // what memory is laid out for; 0 tokens: nothing yet
    int32_t tokens_at_once;  // in a micro-batch, fewer after a refusal; 0: eval.batch_size says
    bool rows;               // opened for what comes out of its layers, and not for its logits
    ft_arena arena;
} ft_classifier;
// base: the model that an adapter stands beside; NULL: the one that its files name.
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
// Lays memory out for a pass over the data set, in micro-batches of these limits, which change when memory is refused.
ft_status ft_classifier_lay_out(ft_classifier *classifier, const ft_dataset *data, ft_batch_limits *limits);
ft_status ft_classifier_close(ft_classifier *classifier); // FT_FAILED on a leak
// Logits of the calibrated probabilities, and, unless NULL, losses [examples]; in micro-batches of about 4096 tokens, or of
// eval.batch_size texts. progress (optional): see ft_predict_dataset.
ft_status ft_classifier_predict(ft_classifier *classifier, const ft_dataset *data, ft_logits *logits, float *losses,
                                ft_predict_progress progress, void *context);

// The data set of a table, as the model was trained on such; labels NULL: unlabelled. path: the file, for messages.
ft_status ft_classifier_build(const ft_classifier *classifier, const ft_table *table, const char *path, const ft_labels *labels,
                              ft_dataset *dataset);
// What a model wants of a file: the columns that it was trained on, or those of data.text_column and its like.
ft_table_request ft_classifier_request(const ft_classifier *classifier, ft_format format, ft_table_label need);
// The argument of --format. plain: "text" is one.
ft_status ft_parse_format(const char *name, bool plain, ft_format *format);

#endif

// ftengine.h - fine-tuning and prediction as a C library: what the program `ftengine` does, for programs that do it themselves.
//
//     ftengine *engine;
//     if (ftengine_new(&engine) != FTENGINE_OK) return 1; // no memory
//     char *run = NULL;
//     const char *words[] = {"my.ini", "train.epochs=2"};
//     if (ftengine_train(engine, 2, words, &run) != FTENGINE_OK) fprintf(stderr, "%s\n", ftengine_error(engine));
//     else puts(run); // run.json as text
//     ftengine_string_free(run);
//     ftengine_free(engine);
//
// Rules for all of it
// - Words are what stands behind the command on the program's command line: configuration files, section.key=value, flags; `ftengine help
//   COMMAND` and docs/reference have them. Documents are what `--json` prints there, as text that ends with \0: bytes and seconds, null for
//   what is no number, members are only added. Texts are UTF-8. Relative paths are relative to the working directory.
// - Functions return a code, which is the program's exit code. The error belongs to the engine and stays until its next call; its text is the
//   program's. Nothing is printed, nothing exits, no signal is handled.
// - An engine is for one call at a time, from any thread: a second one meanwhile is FTENGINE_BUSY and changes nothing. Several engines work
//   beside each other in as many threads; each run reserves its planned memory where runs of other processes see it. Models belong to the engine
//   that loaded them. Only ftengine_stop may be called at any time.
// - Who passes a pointer keeps it; who is handed a char * frees it with ftengine_string_free. What is returned as const char * belongs to
//   the engine or the model, until its next call.
// - The functions stay as they are while FTENGINE_ABI does; structs begin with their size and grow at their end.
// - Words, lists of some, names and paths that are NULL, and counts below 0, are FTENGINE_INVALID. An engine, a model, a sampler and the place of a
//   result have to be there.
// - After fork() the child must not use what the parent has opened.
#ifndef FTENGINE_H
#define FTENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define FTENGINE_ABI 1

enum {
    FTENGINE_OK = 0,
    FTENGINE_FAILED = 1,       // while running: a file, the system
    FTENGINE_INVALID = 2,      // words, configuration or input
    FTENGINE_NO_MEMORY = 3,    // does not fit: a plan's verdict, or a run that found no memory
    FTENGINE_NO_DEVICE = 4,    // no suitable device in time
    FTENGINE_DIVERGED = 5,     // the loss is not finite
    FTENGINE_INTERRUPTED = 130, // stopped by ftengine_stop, after saving
    FTENGINE_BUSY = -1         // another call is under way on this engine; its error is not touched
};

// "0.2.0"; and the FTENGINE_ABI that the library was built with.
const char *ftengine_version(void);
int ftengine_abi(void);

typedef struct ftengine ftengine;
// FTENGINE_NO_MEMORY: *engine is NULL.
int ftengine_new(ftengine **engine);
// NULL is fine. Its models are unloaded before.
void ftengine_free(ftengine *engine);
void ftengine_string_free(char *text); // NULL is fine

// The error of the last call that failed: "WHAT (WHERE)", then a line "hint: ..." each; "" when there was none. The other two have the
// parts: `where` is file:line, an option, a tensor; hint NULL behind the last.
const char *ftengine_error(const ftengine *engine);
const char *ftengine_error_message(const ftengine *engine);
const char *ftengine_error_where(const ftengine *engine);
const char *ftengine_error_hint(const ftengine *engine, int index);

// Lines that the program would print on standard error, warnings ("warning: ...") among them, from whatever thread says them, one at a time.
// line NULL: nobody has them, as at first. level: -1 nothing, 0 warnings, 1 what a run tells (at first), 2 details.
int ftengine_on_message(ftengine *engine, int level, void (*line)(void *user, const char *text), void *user);

// How a training comes along.
enum { FTENGINE_OPENED = 0, FTENGINE_STEPPED, FTENGINE_LOGGED, FTENGINE_EVALUATED };
typedef struct ftengine_progress {
    size_t size;     // of this struct
    int event;       // OPENED: there is a run directory; a step is done; a line of metrics.jsonl is written; an evaluation is done
    const char *run; // its directory, absolute. Of several seeds or folds their common one comes first, then each its own
    int64_t step, steps; // optimizer steps done, of so many; 0, 0 of OPENED
    double epoch, loss, learning_rate, gradient_norm;
    double tokens_per_second, seconds_left;
    uint64_t bytes;  // the most that was allocated on the device
    int best;        // of EVALUATED: the best so far
    int metric_count; // of EVALUATED, else 0
    const char *const *metric_names;
    const double *metric_values;
} ftengine_progress;
// Called between two steps, in the thread of the call. Not 0: stop, as ftengine_stop. The struct is valid during the call.
int ftengine_on_progress(ftengine *engine, int (*told)(void *user, const ftengine_progress *progress), void *user);

// Asks the call that is under way, or the next one when none is, to stop: a training saves its state and can be resumed, a study its trials.
// From any thread and from a handler of signals. It is forgotten when the call ends.
void ftengine_stop(ftengine *engine);

// The program `ftengine`, which ftengine_tune starts as workers; copied. Without it the one in ../bin beside the library is taken, else
// the first in PATH.
int ftengine_set_program(ftengine *engine, const char *path);

// ---- documents --------------------------------------------------------------------------------------------------------------------
// *json is set also with a code other than FTENGINE_OK when there is something to tell (the plan of what does not fit, the run that
// diverged), else to NULL. json NULL: nobody wants it.

// The memory of a run, to the byte, without running it. FTENGINE_NO_MEMORY: it does not fit, as "fits" and "verdict" say too.
int ftengine_plan(ftengine *engine, int count, const char *const *words, char **json);
// What a run or a study will take: bytes exactly, seconds from a few steps on this machine ({"seconds": {"estimate", "low", "high"}, ...}); "--seconds"
// says how long is measured.
int ftengine_quote(ftengine *engine, int count, const char *const *words, char **json);
// Trains, and writes a run directory: "run" names it, the rest is its run.json.
int ftengine_train(ftengine *engine, int count, const char *const *words, char **json);
// Goes on with a run directory, with the same bits as if it had not stopped; words: changed options (those that may change).
int ftengine_resume(ftengine *engine, const char *run, int count, const char *const *words, char **json);
// Searches hyper-parameters, by workers that are processes; the document is that of `ftengine study show --json`.
int ftengine_tune(ftengine *engine, int count, const char *const *words, char **json);
// Metrics of a run or model directory on labelled data: {"RUN", "--data", "FILE"}.
int ftengine_eval(ftengine *engine, int count, const char *const *words, char **json);
// The page of a run, with its pictures: {"RUN", "--output", "FILE"}; "report" names it.
int ftengine_report(ftengine *engine, int count, const char *const *words, char **json);
// `ftengine study`, the first word being what is to be done: create, list, show, best, trials, enqueue, ask, tell, thaw or import.
int ftengine_study(ftengine *engine, int count, const char *const *words, char **json);
// What a configuration comes to; without words every option with its type, bounds, default and names known elsewhere.
int ftengine_config(ftengine *engine, int count, const char *const *words, char **json);
// What there is to run on. And the device that a run would take, with so much free ("4GiB"; NULL: any): {"device", "free_bytes"}.
int ftengine_devices(ftengine *engine, char **json);
int ftengine_best_device(ftengine *engine, const char *min_free, char **json);

// ---- a model in memory --------------------------------------------------------------------------------------------------------------

typedef struct ftengine_model ftengine_model;
// A run directory, a model or adapter directory, or a name in the cache of huggingface_hub. base: the model that an adapter stands beside;
// NULL: the one that its files name. words: section.key=value, as device.threads=2.
int ftengine_load(ftengine *engine, const char *path, const char *base, int count, const char *const *words, ftengine_model **model);
// NULL is fine. FTENGINE_FAILED: memory was left behind, which is a fault of the library.
int ftengine_unload(ftengine_model *model);
// {"path", "task", "classes": [names], "reads": "texts" | "pairs" | "words" | "questions" | "prompts", "max_length", "thresholds" (null: the largest, or
// 1/2), "device", "bytes"}.
int ftengine_model_info(ftengine_model *model, char **json);
int ftengine_model_outputs(const ftengine_model *model); // classes, or numbers of a regression
// values [count * outputs], row by row: probabilities, or the numbers of a regression; decided [count * outputs]: 1 where the class is what
// is said, by the model's thresholds. Either may be NULL. pairs NULL: single texts. FTENGINE_INVALID for models that say something about
// every word, or answer questions: ftengine_answers.
int ftengine_predict(ftengine_model *model, int64_t count, const char *const *texts, const char *const *pairs, double *values,
                     signed char *decided);
// The same in words, for every task: JSON lines as `ftengine predict --json` writes them, "id" being the number of the text.
int ftengine_answers(ftengine_model *model, int64_t count, const char *const *texts, const char *const *pairs, char **jsonl);
// What a language model writes behind prompts (in ftengine_answers with no words): the JSON lines of `ftengine predict`, in the order of prompts. chats: each
// prompt is a JSON list of messages, of which an assistant's last one is no part. words: --max-new-tokens N, --sample, --temperature T, --top-p P,
// --top-k K, --seed S, as two words each or as --seed=7. The weights are read in the first call, and again where a later one needs memory for more
// or longer texts.
int ftengine_generate(ftengine_model *model, int64_t count, const char *const *prompts, int chats, int word_count, const char *const *words,
                      char **jsonl);

// ---- a sampler ------------------------------------------------------------------------------------------------------------------------
// The search of `ftengine tune` for trials that another program keeps: it tells of those that are new or have ended, and asks for values. The same
// options, seed and trials give the same values, to the bit, in whatever order they are asked for; nothing is carried from trial to trial beside
// the trials themselves. A sampler belongs to its engine: one call at a time.

enum { FTENGINE_OBJECTIVES = 64 }; // at most
enum { FTENGINE_TRIAL_RUNNING = 0, FTENGINE_TRIAL_COMPLETE, FTENGINE_TRIAL_PRUNED, FTENGINE_TRIAL_FAILED, FTENGINE_TRIAL_WAITING };

typedef struct ftengine_sampler ftengine_sampler;
// maximize [objectives]: 1 or 0. words: options of [study], as study.sampler=gp, study.seed=7, and no others; a grid is refused.
int ftengine_sampler_new(ftengine *engine, int objectives, const signed char *maximize, int count, const char *const *words,
                         ftengine_sampler **sampler);
// NULL is fine. Before its engine is freed.
int ftengine_sampler_close(ftengine_sampler *sampler);
// The number of a parameter with this range; the same number for the same. distribution: as Optuna writes it,
// {"name": "FloatDistribution", "attributes": {"low": 0.0, "high": 1.0, "step": null, "log": false}}.
int ftengine_sampler_parameter(ftengine_sampler *sampler, const char *name, const char *distribution, int *parameter);

typedef struct ftengine_trial {
    size_t size; // of this struct
    int64_t number; // from 0 without gaps: one that is known and has not ended, or the next
    int state;
    int parameter_count; // those that it has, or those that are new
    const int *parameters;
    const double *parameter_values; // numbers as they are, of a choice its index
    int value_count; // of COMPLETE one an objective; of PRUNED 0, or 1 where there is one objective; else 0
    const double *values;
    int constraint_count;
    const double *constraints; // <= 0 is kept
    int64_t step; // of the last report, -1: there is none
    double reported;
} ftengine_trial;
int ftengine_sampler_tell(ftengine_sampler *sampler, const ftengine_trial *trial);

// What is drawn together for a trial that runs, once a trial: *count parameters and their values, which belong to the sampler until the next call.
// Others are drawn alone. None is drawn before enough trials have ended, by samplers that draw alone, and of spaces that have nothing in common.
int ftengine_sampler_draw(ftengine_sampler *sampler, int64_t number, int *count, const int **parameters, const double **values);
// The value of one parameter: that which the trial has; that which was drawn together, where the range has it; else one drawn for it alone, to
// go with those that the trial has.
int ftengine_sampler_suggest(ftengine_sampler *sampler, int64_t number, int parameter, double *value);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif

// trainer.h - one fine-tuning run, from configuration to run directory.
//
// A run is a value: everything it owns hangs off ft_trainer. ft_train() does it all; the parts below are its rooms:
// setup.c opens data and model, loop.c trains (steps.c), evaluation.c judges, checkpoint.c saves and resumes, run_files.c writes
// what people and programs read.
#ifndef FT_TRAINER_H
#define FT_TRAINER_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"
#include "engine/data/report.h"
#include "engine/io/clock.h"
#include "engine/memory/ledger.h"
#include "engine/memory/memory.h"
#include "engine/model/model.h"
#include "engine/model/model_files.h"
#include "engine/text/tokenizer.h"
#include "engine/train/autofit.h"
#include "engine/train/gemm_tuning.h"
#include "engine/train/ladder.h"
#include "engine/train/metrics.h"
#include "engine/train/predict.h"
#include "engine/train/rehearsal.h"
#include "engine/train/run_plan.h"
#include "engine/train/step_graphs.h"
#include "engine/train/steps.h"

typedef enum ft_split { FT_SPLIT_TRAIN = 0, FT_SPLIT_VALIDATION, FT_SPLIT_TEST, FT_SPLITS } ft_split;
const char *ft_split_name(ft_split split); // "train", "validation", "test"

typedef struct ft_split_data {
    bool present, from_cache;
    const char *path;
    ft_table table;
    int64_t *source_row; // [table.rows] of which row of the file each is (in t->arena); NULL: the table is the whole file
    ft_dataset data;
    ft_data_report report; // of a real run, not of a plan
} ft_split_data;

// What a checkpoint carries besides the tensors: enough to go on with the same bits.
typedef struct ft_train_state {
    int64_t step;             // optimizer steps done
    int64_t tokens;           // real tokens trained on
    double loss_sum;          // of the steps since the last logged line
    int64_t loss_steps;
    double learning_rate, gradient_norm; // of the last step
    double last_loss;
    int64_t skipped_steps;    // of those, the ones that overflowed fp16 and changed nothing
    double loss_scale;        // of the next step
    double best_value;        // of eval.metric
    int64_t best_step;        // -1: not evaluated yet
    double best_metrics[FT_METRIC_COUNT]; // all metrics of the best evaluation; NaN where one does not exist
    int64_t bad_evaluations;  // in a row without improvement
    bool stopped_early;
    bool evaluation_pending;  // stopped during the evaluation that belongs to this step
    int64_t metrics_bytes;    // length of metrics.jsonl
    double seconds_total, seconds_train, seconds_eval;
} ft_train_state;

typedef struct ft_trainer {
    const ft_config *config;   // what the run does
    const ft_config *asked;    // what it was asked for; differs in what was `auto` and had to be fitted
    ft_config fitted;          // config, then
    ft_autofit autofit;
    ft_device *device;
    char gemm_tuning[FT_TUNING_HASH]; // of the file that its products were chosen from; "": none
    ft_memory *memory;
    ft_ledger *reservation;    // of this run on its device; NULL: a rehearsal, or no ledger could be kept
    ft_ledger *host_reservation; // of what it pins in the host's memory meanwhile (memory.offload); NULL: nothing
    ft_tokenizer *tokenizer;
    const char *model_dir;     // model.path, or the snapshot in the cache that it names
    const char *tokenizer_dir; // the model's, or model.stand_in_tokenizer
    ft_model_config model_config;
    ft_split_data split[FT_SPLITS];
    ft_task task;
    ft_loss loss;              // of training
    double temperature;        // of the probabilities; 1 without eval.calibrate
    double *threshold;         // see decision.h; NULL: 1/2, the largest
    ft_labels labels;          // as the data spell them
    const char *const *label_names; // as the saved model names them
    int max_length;
    ft_long_text long_text;    // what becomes of texts that are longer
    const ft_word_rows *word_rows; // the rows of the word table that are there; NULL: all. active_rows.h
    ft_word_rows own_word_rows;    // where it is not another trainer's
    int64_t word_rows_save;        // bytes of the device
    ft_model model;
    ft_load_report load_report;
    ft_run_plan plan;
    ft_batch_limits eval_limits; // of the micro-batches of evaluations (eval_budget.h)
    ft_capacity eval_capacity; // of the largest of them; tokens 0: there is none
    size_t eval_extra;         // bytes by which arena and held tensors are larger for it than training needs
    ft_train_state state;
    ft_metrics test_metrics;
    bool have_test_metrics;
    bool without_data;         // planned without texts
    bool without_weights;      // planned: they are neither read nor drawn

    // what is on the device (build.c)
    bool state_built, laid_out;
    ft_carried_state carried;  // weights and moments between two devices
    ft_ladder ladder;
    ft_batch_buffers buffers;
    ft_step_state *step_state;
    ft_update_state *update_state;
    float *losses;             // [effective batch]
    float *batch_losses;       // [plan.capacity.sequences], where there are graphs: of one micro-batch, on their way to the above
    ft_step_graphs graphs;
    ft_steps steps;            // queued and not yet booked
    int32_t *order;            // of the present epoch
    int64_t order_epoch;

    const char *dir;           // run directory, absolute
    int dir_lock;              // its descriptor, locked while this process trains; -1: none
    ft_memory_counters earlier; // peaks of the sessions before a resume, on the device that it has now
    struct json_t *earlier_devices; // those that it has left, for run.json (device_history.h); NULL: none
    int64_t device_step;        // optimizer steps done when it came to this device
    ft_memory_counters start_memory; // when training began
    ft_memory_counters planned;      // by the forecast
    ft_memory_refusal refusal;       // of the forecast; bytes 0: there was none
    FILE *metrics_file;        // metrics.jsonl, appended
    double started;            // monotonic seconds
    double seconds_before;     // of earlier sessions of a resumed run
    double progress_shown;     // when the progress line was last drawn
    int64_t session_step;      // steps, tokens and training seconds done when this session began
    int64_t session_tokens;
    double session_seconds;
    int64_t logged_tokens;     // tokens and training seconds at the last logged line
    double logged_seconds;
    size_t device_used;          // of the whole device, by the driver after this session's first step
    size_t device_used_reserved; // by the allocator then
    double queueing_seconds;   // of this session, in which the host queued steps; it was not waiting for a batch's slot in them
    double logged_queueing;    // of them at the last logged line
    double queueing_share;     // of the training seconds between the last two logged lines
    ft_arena arena;
} ft_trainer;

// Runs the configuration. On return the run directory holds what happened, also when it failed after it was created.
// FT_INTERRUPTED / FT_TERMINATED after saving a checkpoint. FT_NO_MEMORY: *refusal (may be NULL) is the request that could
// not be met; its bytes are 0 when the host, not the device, had no memory.
ft_status ft_train(const ft_config *config, ft_memory_refusal *refusal);

// What a run that is only planned has instead of the real things; all zero for a real one.
typedef struct ft_trainer_source {
    ft_device *device;    // taken over; NULL: the one of the configuration
    size_t limit;         // of reserved bytes; 0: memory.limit
    bool without_weights; // they are neither read nor drawn
    bool without_data;    // no files: every text is as long as possible, and there is an evaluation
    int labels;           // without data
    const struct ft_trainer *like; // data and steps are those of another trainer, which is only read
    bool other_steps;     // like: but micro-batches are cut as this configuration says
} ft_trainer_source;

// ---- rooms (internal) ---------------------------------------------------------------------------------------------------
ft_status ft_trainer_open(const ft_config *config, const ft_trainer_source *source, ft_trainer *t); // setup.c
// forecast.c. Every stage of a run after it was opened, once, in its largest sizes: the allocator is free of history at
// the end of each, so that a thousand of them need no more. validates: there is an evaluation even without a file for it.
ft_status ft_trainer_rehearse(ft_trainer *t, bool validates);
// t->planned: the memory of this run, whose settings at `auto` are fitted first if they must. FT_NO_MEMORY, and t->refusal,
// when it would not fit.
ft_status ft_trainer_forecast(ft_trainer *t);
// Another trainer like this one, on a plan device, under `limit`, opened and rehearsed with the settings of `config`, which
// may differ in memory alone. FT_NO_MEMORY: it does not fit. Close `other` in any case.
ft_status ft_trainer_rehearse_like(const ft_trainer *t, const ft_config *config, size_t limit, ft_trainer *other);
// What an optimizer step of t's data would take with the settings of `planned`, opened by the above: kernels/cost.h.
ft_status ft_trainer_price(const ft_trainer *t, ft_trainer *planned, double *seconds);
// reserve.c. The planned bytes, and what the process holds besides, are reserved on the device, after a wait if so
// configured (admission.h); what memory.offload pins of the host's memory in the CPU's ledger too, for runs on the CPU and other
// GPUs take from there.
ft_status ft_trainer_reserve(ft_trainer *t, bool may_wait);
// What a run may pin of the host's memory now, as far as is known, beside what is reserved there (by nobody, for a plan); 0: unknown.
size_t ft_trainer_host_room(const ft_trainer *t);
// The most that the allocator may reserve: memory.limit; no more than the device's ledger could ever give beside what graphs are
// left; and for a run of a study, where nobody is there to lower the limit, beside what the process holds.
ft_status ft_trainer_most(const ft_trainer *t, size_t *limit);
// build.c. What of the device a run holds: its state (weights, moments, scalars of a step), and its layout
// (gradients, batch buffers and the steps' arena). Makes what is not there; a part that fails leaves nothing of itself behind.
ft_status ft_trainer_build_state(ft_trainer *t);
ft_status ft_trainer_build_layout(ft_trainer *t); // of t->plan and t->eval_capacity, on a state that is there
void ft_trainer_drop_layout(ft_trainer *t);
void ft_trainer_drop_state(ft_trainer *t);
// build.c. Moves the state into memory of the host, from where the next ft_trainer_build_state takes it. FT_NO_MEMORY: the
// host has not so much; everything is as it was.
ft_status ft_trainer_carry_state(ft_trainer *t);
// move.c. The run goes on on the device of that name, if it can be planned and has room there at once; what is on the old one
// is carried, that is given back, and the next ft_ladder_climb builds it anew. An error: everything is as it was.
ft_status ft_trainer_move(ft_trainer *t, const char *name);
ft_status ft_trainer_plan_steps(ft_trainer *t);                      // setup.c: steps and evaluations of t->config on t->device
ft_step_sizes ft_trainer_sizes(const ft_trainer *t);                 // setup.c: the largest of everything
bool ft_trainer_evaluates(const ft_trainer *t, ft_split split);      // setup.c: is it ever judged in this run?
ft_status ft_trainer_close(ft_trainer *t);                           // FT_FAILED on a leak
ft_status ft_trainer_loop(ft_trainer *t);                            // loop.c
ft_status ft_trainer_evaluate(ft_trainer *t, bool *stop);            // evaluation.c: validation, best model, early stopping
ft_status ft_trainer_test(ft_trainer *t);                            // evaluation.c: test set with the best model

// run_files.c
ft_status ft_run_dir_open(ft_trainer *t);                            // chooses, creates and locks it
ft_status ft_run_write_config(ft_trainer *t);                        // config.ini
ft_status ft_run_metrics_open(ft_trainer *t);                        // metrics.jsonl, cut at state.metrics_bytes
ft_status ft_run_log_train(ft_trainer *t);                           // a line of the steps since the last
ft_status ft_run_log_eval(ft_trainer *t, const ft_metrics *metrics);
ft_status ft_run_log_refusal(ft_trainer *t, const ft_ladder_event *event);
ft_status ft_run_save_model(ft_trainer *t);                          // model/, atomically
ft_status ft_run_save_predictions(ft_trainer *t, ft_split split, const float *logits);
ft_status ft_run_write_json(ft_trainer *t, ft_status outcome);       // run.json (run_json.c)
const char *ft_run_status_name(ft_status outcome);                   // "completed", "diverged", ... as in run.json
ft_memory_counters ft_run_peaks(const ft_trainer *t);                // on its device, in all sessions

// checkpoint.c
ft_status ft_checkpoint_save(ft_trainer *t);
ft_status ft_checkpoint_resume(ft_trainer *t, bool *found);          // the newest one

// progress.c
void ft_progress_start(const ft_trainer *t);
void ft_progress_step(ft_trainer *t);
void ft_progress_log(const ft_trainer *t, double loss);
void ft_progress_eval(const ft_trainer *t, const ft_metrics *metrics, bool best);
void ft_progress_end(const ft_trainer *t, ft_status outcome);
// Of a file that takes its time: a line once it has taken a second, and signs of life for whoever watches the run.
typedef struct ft_progress_saving {
    const char *what;
    double started, shown; // monotonic seconds; 0: not yet
} ft_progress_saving;
void ft_progress_save(void *saving, int64_t done, int64_t total); // bytes; an ft_save_watch

#endif

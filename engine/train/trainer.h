// trainer.h - one fine-tuning run, from configuration to run directory.
//
// A run is a value: what it learns (job.h), where (room.h), its steps (step.h), and what is of the run itself: its directory,
// its progress and its result. Everything it owns hangs off ft_trainer. ft_train() does it all; the parts below are its rooms:
// setup.c opens data and model, loop.c trains (steps.c), evaluation.c judges, checkpoint.c saves and resumes, run_files.c writes
// what people and programs read.
#ifndef FT_TRAINER_H
#define FT_TRAINER_H

#include "engine/io/clock.h"
#include "engine/train/step.h"
#include "engine/train/predict.h"
#include "engine/train/rehearsal.h"

typedef struct ft_trainer {
    ft_job job;
    ft_room room;
    ft_step step;
    double temperature;        // of the probabilities; 1 without eval.calibrate
    double *threshold;         // see decision.h; NULL: 1/2, the largest
    ft_metrics test_metrics;
    bool have_test_metrics;
    const char *dir;           // run directory, absolute
    int dir_lock;              // its descriptor, locked while this process trains; -1: none
    ft_memory_counters earlier; // peaks of the sessions before a resume, on the device that it has now
    struct json_t *earlier_devices; // those that it has left, for run.json (device_history.h); NULL: none
    int64_t device_step;        // optimizer steps done when it came to this device
    ft_memory_counters start_memory; // when training began
    FILE *metrics_file;        // metrics.jsonl, appended
    double started;            // monotonic seconds
    double seconds_before;     // of earlier sessions of a resumed run
    double progress_shown;     // when the progress line was last drawn
    int64_t session_step;      // steps, tokens and training seconds done when this session began
    int64_t session_tokens;
    double session_seconds;
    int64_t logged_tokens;     // tokens and training seconds at the last logged line
    double logged_seconds;
    double logged_queueing;    // step.queueing_seconds at the last logged line
    double queueing_share;     // of the training seconds between the last two logged lines
    size_t device_used;          // of the whole device, by the driver after this session's first step
    size_t device_used_reserved; // by the allocator then
    ft_arena arena;              // of paths and decisions
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

// trainer.h - one fine-tuning run, from configuration to run directory.
//
// A run is a value: what it learns (job.h), where (room.h), its steps (step.h), and what is of the run itself: its directory,
// its progress and its result. Everything it owns hangs off ft_trainer. ft_train() does it all: open.c opens the three and says
// what they are, loop.c trains (steps.c), evaluation.c judges, checkpoint.c saves and resumes, run_files.c writes what people and
// programs read.
#ifndef FT_TRAINER_H
#define FT_TRAINER_H

#include "base/clock.h"
#include "base/log_copy.h"
#include "engine/train/refusals.h"
#include "engine/train/step/step.h"

// Seconds, the longest of each in this session; 0: there was none.
typedef struct ft_run_deadline {
    double at; // monotonic; 0: the run has none
    double first_step, step, evaluation, model, checkpoint;
    int64_t evaluated; // the step of the last evaluation, -1
    bool reached;      // the run ended for it
} ft_run_deadline;

// How far a resumed run came, and whether it goes on from another state than it was left in (run_end.h).
typedef struct ft_run_end {
    bool unscheduled;          // it is at an end whose line or evaluation no longer run has at this step
    ft_train_state before;     // if so: what it was in front of these
    int64_t planned;           // steps that it was to have in the session before; 0: there was none
    bool renewed;              // it goes on as a run that never had this end, or has more steps: to be saved before anything else
    struct json_t *earlier;    // numbers of steps that it was to have before; NULL: none
} ft_run_end;

typedef struct ft_trainer {
    ft_job job;
    ft_room room;
    ft_step step;
    ft_ladder ladder;          // what was done when memory was short
    double temperature;        // of the probabilities; 1 without eval.calibrate
    size_t held_most;          // of the host's memory by the process: at the ends of evaluations and of the run
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
    struct ft_tensorboard *board; // its figures for TensorBoard; NULL: nobody wants them
    struct ft_tracker *tracker;   // who tells MLflow of it; NULL: nobody
    ft_log_copy *log;          // train.log; NULL: none
    double started;            // monotonic seconds
    double seconds_before;     // of earlier sessions of a resumed run
    double progress_shown;     // when the progress line was last drawn
    double progress_noted;     // when it was last told beside the reservation
    double features_seconds;   // that making features took
    int64_t session_step;      // steps, tokens and training seconds done when this session began
    int64_t session_tokens;
    double session_seconds;
    int64_t logged_tokens;     // tokens and training seconds at the last logged line
    double logged_seconds;
    double logged_queueing;    // step.queueing_seconds at the last logged line
    double queueing_share;     // of the training seconds between the last two logged lines
    size_t device_used;          // of the whole device, by the driver after this session's first step
    size_t device_used_reserved; // by the allocator then
    ft_run_deadline deadline;
    ft_run_end end;
    ft_arena arena;              // of paths and decisions
} ft_trainer;

// Of several ranks the first writes the run directory, and speaks; all others do the same work for themselves.
static inline bool ft_trainer_leads(const ft_trainer *t) { return t->room.rank == 0; }
// Who reads what the model is to be: the first one for all that share its memory, else every one.
static inline bool ft_trainer_loads(const ft_trainer *t) { return !ft_memory_is_guest(t->room.memory); }

// ---- parts (internal) ---------------------------------------------------------------------------------------------------
// open.c. From a configuration to a run that can take its first step. Close it in any case.
ft_status ft_trainer_open(const ft_config *config, ft_trainer *t);
// What was asked to lie on the host fits there, as far as that is known, and the whole process into what it may have (host.h): of a
// room that is forecast. FT_NO_MEMORY with room->refusal.
ft_status ft_room_check_host(ft_room *room);
// move.c. The run goes on on the device of that name, if it can be planned and has room there at once; what is on the old one
// is carried, that is given back, and the next ft_ladder_climb builds it anew. An error: everything is as it was.
ft_status ft_trainer_move(ft_trainer *t, const char *name);
ft_status ft_trainer_close(ft_trainer *t);                           // FT_FAILED on a leak
// features.c. Where the head alone is trained: makes what it reads of every text, if nobody has before.
ft_status ft_trainer_make_features(ft_trainer *t);
// products.c. Of device.gemm_tuning = auto, in a run directory that is open: what the run takes up, or has begun with. measures: also what
// nobody has measured yet. Before the first step.
ft_status ft_trainer_choose_products(ft_trainer *t, bool measures);
const char *ft_trainer_own_products(ft_trainer *t);                  // the file in the run directory; NULL: no memory
ft_status ft_trainer_loop(ft_trainer *t);                            // loop.c
ft_status ft_trainer_step(ft_trainer *t, bool queues);               // loop.c: books one; queues: others may follow it at once
// deadline.c. What of train.deadline is known when the run begins; FT_INVALID: it is past.
ft_status ft_deadline_begin(const ft_config *config, ft_run_deadline *deadline);
void ft_deadline_took(double *longest, double since);
void ft_deadline_took_step(ft_trainer *t, double since);
// Would another step be too late? saves: a checkpoint is due behind it.
bool ft_deadline_is_near(const ft_trainer *t, bool saves);
ft_status ft_deadline_end(ft_trainer *t);                            // what is left to do: the evaluation of this step
ft_status ft_trainer_evaluate(ft_trainer *t, bool *stop);            // evaluation.c: validation, best model, early stopping
ft_status ft_trainer_test(ft_trainer *t);                            // evaluation.c: test set with the best model

// run_files.c
ft_status ft_run_dir_open(ft_trainer *t);                            // chooses, creates and locks it
ft_status ft_run_write_config(ft_trainer *t);                        // config.ini
ft_status ft_run_log_open(ft_trainer *t);                            // train.log
ft_status ft_run_metrics_open(ft_trainer *t);                        // metrics.jsonl, cut at state.metrics_bytes
ft_status ft_run_log_train(ft_trainer *t);                           // a line of the steps since the last
ft_status ft_run_log_eval(ft_trainer *t, const ft_metrics *metrics);
ft_status ft_run_log_refusal(ft_trainer *t, const ft_ladder_event *event);
const char *ft_run_result(const ft_config *config);                  // where: "model", or "adapter"
ft_status ft_run_save_model(ft_trainer *t);                          // that, atomically
ft_status ft_card_save(ft_trainer *t, const char *dir);              // card.c: README.md of what is about to be the model
ft_status ft_card_renew(ft_trainer *t);                              // and once more, at the end of the run, with its figures
ft_status ft_run_save_predictions(ft_trainer *t, ft_split split, ft_logits *logits);
ft_status ft_run_write_json(ft_trainer *t, ft_status outcome);       // run.json (run_json.c)
void ft_run_note_rank(const ft_trainer *t);                          // run_json.c: what this rank takes, for rank 0's run.json
ft_memory_counters ft_run_peaks(const ft_trainer *t);                // on its device, in all sessions

// tracking.c: other programs that show what a run does. What fails there costs a warning.
void ft_run_track_open(ft_trainer *t);                               // once metrics.jsonl is open
void ft_run_track_line(ft_trainer *t, const struct json_t *line);    // of metrics.jsonl
void ft_run_track_end(ft_trainer *t, ft_status outcome);             // before run.json

// checkpoint.c
ft_status ft_checkpoint_save(ft_trainer *t);
ft_status ft_checkpoint_resume(ft_trainer *t, bool *found);          // the newest one

// progress.c
void ft_progress_start(const ft_trainer *t);
void ft_progress_step(ft_trainer *t);
// Tells who looks at the device what the run does, in a word ("trains", "evaluates"). Twice a second it is told by itself.
void ft_progress_note(ft_trainer *t, const char *doing);
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

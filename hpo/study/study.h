// study.h - what `ftengine tune` does: one coordinator that asks the sampler, has workers (workers/process.h) run the
// trials, lets the pruner judge what they report, and stores everything at once.
//
//     FT_TRY(ft_tune(&config, &call));
//
// which is
//
//     ft_tuning tuning;
//     FT_TRY(ft_tuning_open(&config, &call, &tuning));   // checks all, then makes or opens the study
//     ft_status status = ft_tuning_run(&tuning);
//     FT_TRY(ft_tuning_close(&tuning));
//
// again and again while the disk is too full for what the study writes.
//
// 1. A trial's number, parameters and attributes are stored in one transaction; so are a report, the pruner's verdict
//    and the end that it brings. A kill at any moment leaves a study that goes on: the running trial from its
//    checkpoint, under its number.
// 2. With the same seed the same study, bit for bit, however often it was stopped: draws are functions of seed, number,
//    name and history; a verdict is a function of the reported values, judged in order, whatever the worker has done
//    since. What a pruner finds out by itself (an automatic resource) is stored when it is found. With several workers
//    the history at a draw depends on who was faster: the same order of beginnings and ends gives the same study.
// 3. Any number of coordinators on a study, as long as all have its runs in one directory (share.c): no trial is
//    run by two of them, what a dead one leaves the others take up, and all learn from all trials. study.trials counts
//    those of the study, --add those of this coordinator.
// 4. What goes wrong in a worker costs at most its trial: the worker is replaced, the others go on.
#ifndef FT_HPO_STUDY_H
#define FT_HPO_STUDY_H

#include "engine/train/room/host.h"
#include "hpo/pruner/pruner.h"
#include "hpo/space/objective.h"
#include "hpo/space/options_study.h"
#include "hpo/space/space.h"
#include "hpo/storage/locate.h"
#include "hpo/storage/storage.h"
#include "hpo/study/devices.h"
#include "hpo/study/full_disk.h"
#include "hpo/study/trial.h"

// What processes of trials need, of plans of some points of the space: bytes of the whole process (engine/train/room/host.h), what the
// allocator of a CPU device reserves included. largest 0: nothing is known.
enum { FT_PACK_PLANNED = 8 };
typedef struct ft_tuning_need {
    size_t least, largest; // of the smallest point; of the largest that fits where it is alone, beside the coordinator
    size_t others;         // the most of all but what the allocator of a CPU device reserves, of points that fit so
    size_t trunk;          // of the largest, the frozen weights on the CPU that trials of one process can share; 0: not all points have such
    size_t device_trunk, device_largest, device_bytes; // the same on a GPU, and what a trial reserves there, of what it has; 0: they are on the CPU
    double gain;           // predicted: FT_PACK_PLANNED trials' steps one after the other, by that of a batch as large as all of them; 0: unknown
    bool fits;             // some point does
    char alone[64];        // what of some point several devices cannot train together; "": nothing
    bool all;              // every point of the space was planned
    int unread;            // points whose texts could not be read for want of memory
    bool killed;           // so it was of all, or the process that planned was killed for want of memory
} ft_tuning_need;

typedef struct ft_tuning_call {
    const char *study, *storage; // as given, NULL: the configuration's
    ft_tuning_need need;
    int64_t add;                 // > 0: so many trials of this call's own, in place of study.trials
    double deadline;             // ft_now() at which all has to be saved; 0: none
    bool untold;                 // the result is not printed: the caller has it in another form
    // Of a call that opens its study once more; {0} at first.
    double started; // ft_now()
    bool opened;    // it had the study open
    int64_t ran;    // trials that have ended in it
    int failures;   // the latest of these, in a row
    double paused;  // as ft_tuning.paused
    struct ft_notifier *notifier; // engine/track/notify.h; NULL: nobody is told
    struct ft_tracker *tracker;   // engine/track/tracker.h; NULL: MLflow is not told
} ft_tuning_call;

typedef struct ft_slot ft_slot; // slots.h

typedef struct ft_tuning {
    const ft_config *config;
    const ft_study_options *options; // its [study]
    ft_space space;
    ft_objectives objectives;
    ft_limits limits;
    ft_study_place place;
    bool storage_given; // the file is not the one of the study's own directory
    char *directory;    // of the study, absolute
    size_t there;       // bytes of its path that were there before
    int lock; // the directory, open
    ft_storage *storage;
    ft_stored *study;
    struct ft_sampler *sampler; // sampler.h
    struct ft_grid_axis *axes;  // of a grid
    struct ft_lessons *lessons; // what it learns from (learn.c); NULL: nothing
    const char *learnt_from;    // as it is stored and shown
    ft_pruner *pruner;
    struct ft_pausing_study *pausing; // pausing.h; NULL: nothing is known yet
    int64_t resource;                 // what the pruner found out; 0: nothing yet
    int64_t goal;                     // finished trials of the study; 0: no end
    int64_t add;                      // > 0: instead of it, trials of this call
    bool untold;                      // as in the call
    double started;                   // ft_now()
    double deadline;                  // as in the call
    double quiet;                     // the longest that a trial which trains gave no sign of life
    int failures;                     // in a row
    int64_t ran;                      // trials that ended in this call
    int64_t outlook_at;               // finished trials when it was asked last whether going on pays (study.no_improvement = auto)
    const char *stopped_by;           // why the study ended, NULL: it has not
    bool *lean;                       // [lean_count] by trial: nothing big is left in its directory
    int64_t lean_count, best_written; // whose best.ini is there, -1
    bool *front;                      // [front_count] by trial: its file in front/ is written
    int64_t front_count;
    ft_slot *slots;                   // [slot_count]
    int slot_count;
    int pack;               // trials of a worker at a time, as found out; 0: nobody has
    int crew;               // trials at a time that there is memory for; 0: nobody knows
    ft_trial_devices devices; // of each trial; in `arena`
    size_t coordinator;     // bytes that this process may come to hold
    int threads;            // of each worker; 0: those of device.threads
    int64_t fresh;          // the trial that this process asked for last, -1: the last one was in the queue
    uint64_t room;          // counts the moments at which a device may have got room for a waiting trial
    double room_looked;     // when it was counted last
    uint64_t company;       // counts the moments at which a trial came to a device or left one
    struct {                // steps of trials that had their device alone, in this call
        double seconds, predicted;
        int64_t steps;
    } alone;
    double held;            // since when, or last told, a trial waits for its directory; 0: none does
    double beat;            // when the trials' heartbeats were stored last
    bool outside;           // somebody else stopped a trial: the machine is going down, or a person did it
    ft_status gives_up;     // not FT_OK: the study ends with `why`, as soon as the trials that run have saved
    ft_error why;
    bool unsure;            // an error may have left the history in memory other than the file's: nothing is removed or stored by it
    uint64_t trial_disk;    // most that a trial has left on disk in this call, bytes
    double paused;          // when a want of disk space was told last; 0: there is none
    ft_full_disk full;      // as a trial found it last
    int64_t ooms;           // trials that ran out of memory, of all calls and coordinators
    bool *looked;           // [looked_count] by trial: whether `ooms` has it is known
    int64_t looked_count;
    bool memory_claimed;    // a trial of this coordinator has memory, or tries to
    struct ft_claim_file *machine; // share.c: of a study on several machines, claims of this one; NULL: none yet
    bool asks;      // the last look for a trial to begin has found one: the next one is asked for at once
    double refused; // ft_now() when there was none, 0: since then a trial has ended here
    struct {        // the trial whose end was stored last, here
        bool known;
        int64_t number;
        char status[16], error[240]; // as its attributes say it, the latter cut
    } ended;
    double shown;
    struct ft_notifier *notifier; // NULL: nobody is told
    int64_t failed_trials;        // in this call, as told
    int64_t oom_trials;
    ft_arena arena;
} ft_tuning;

// Nothing is written before everything has been looked at: space, objectives, options of sampler and pruner, paths,
// and, of a study that exists, that space and objectives are the same (FT_INVALID with the difference).
ft_status ft_tuning_open(const ft_config *config, const ft_tuning_call *call, ft_tuning *tuning);
// Until a stop rule, a signal or an error. FT_OK: the study is at its end (or its time was up) with a completed trial.
// FT_FAILED: none completed, or too many failures in a row. FT_NO_DEVICE: a trial found no room for
// FT_LEAVING_SECONDS (admission.h), with nobody of this study to wait for. FT_INTERRUPTED, FT_TERMINATED: stopped. However it ends early, the trials that run are saved and go
// on at the next call.
ft_status ft_tuning_run(ft_tuning *tuning);
ft_status ft_tuning_close(ft_tuning *tuning); // {0} is fine
bool ft_tuning_time_is_up(const ft_tuning *tuning); // study.timeout, or a deadline less what saving may take
// All of it. A full disk pauses the study: what runs is stopped, and everything opened again as after a kill, until there is room,
// a signal, or study.timeout is over.
ft_status ft_tune(const ft_config *config, const ft_tuning_call *call);

// ---- rooms (internal) -----------------------------------------------------------------------------------------------

// crew.c: how many workers there is memory for beside the coordinator; FT_NO_MEMORY, before anything is written: not for one.
size_t ft_tuning_coordinator_bytes(void); // that this process may come to hold, asked before a study is open
ft_status ft_tuning_fit_crew(ft_tuning *tuning, const ft_tuning_need *need);
// Of `asked` trials at a time, `pack` in a process. *verdict: of the first number above it, if that is less than asked.
int ft_crew_of(const ft_config *config, const ft_tuning_need *need, size_t coordinator, const ft_host_limits *limits, int asked, int pack,
               ft_host_verdict *verdict);
// study.pack = auto, for `asked` trials at a time of which the host has memory for `crew` in processes of their own: how many share one.
int ft_pack_of(const ft_tuning_need *need, int asked, int crew);
// settings.c: sampler and pruner as the configuration wants them.
struct ft_sampler_options ft_study_sampler_options(const ft_study_options *options); // without a grid's axes
ft_status ft_tuning_sampler(ft_tuning *tuning, ft_trials *trials, struct ft_sampler **out);
ft_status ft_tuning_pruner(const ft_tuning *tuning, const char *study_name, ft_pruner **out);
bool ft_tuning_pruner_waits(const ft_tuning *tuning); // for a resource that it has to find out
bool ft_tuning_reports_runs(const ft_tuning *tuning); // the pruner judges by each run of a trial, not by their mean so far
// learn.c: study.learn_from. What is learnt is read, and looked at, before a new study is made, and stored with it; from then on it is the
// study's own.
ft_status ft_tuning_learn(ft_tuning *tuning);         // from the studies that are named, if any; FT_INVALID: not of this space
ft_status ft_tuning_store_lessons(ft_tuning *tuning); // in a group
ft_status ft_tuning_load_lessons(ft_tuning *tuning);  // NULL where the study has none
ft_status ft_tuning_keep_lessons(ft_tuning *tuning);  // of a study that is there: those it was made with
ft_status ft_tuning_find_lessons(ft_tuning *tuning, bool *fresh); // the same; *fresh: learnt just now, and not stored yet
// identity.c: what must not change from one call to the next.
ft_status ft_tuning_check_identity(ft_tuning *tuning);
ft_status ft_tuning_store_identity(ft_tuning *tuning);
ft_status ft_tuning_write_config(ft_tuning *tuning); // config.ini of the study
// Warns of settings and data that are not those the study began with; a study that knows none takes those of now.
ft_status ft_tuning_check_beginning(ft_tuning *tuning);
// owner.c: whose runs the directory holds. FT_INVALID: another study's. `there`: the database has this study.
ft_status ft_tuning_check_owner(ft_tuning *tuning, bool there);
ft_status ft_tuning_write_owner(ft_tuning *tuning);
// ask.c: the next trial, with its parameters, in the file; its directory with config.ini.
// Claimed. -1: none now, for others run all that is left to do, or, `stopped_by` says so, a grid is at its end.
ft_status ft_tuning_next(ft_tuning *tuning, int64_t *number);
// Trials that run and those that nobody runs any more, *left, leave room for one more before the study's goal.
ft_status ft_tuning_may_ask(ft_tuning *tuning, bool *may, int64_t *left);
// Draws and stores the values of a new trial, those that it was enqueued with as they are. values [FT_OPTION_LIMIT] by
// option, NULL at first: what each is set to, in `arena` or the space. `queued`: it was in the queue, perhaps with
// values.
ft_status ft_tuning_draw(ft_tuning *tuning, int64_t number, bool queued, ft_arena *arena, const char **values);
ft_status ft_tuning_prepare(ft_tuning *tuning, int64_t number); // FT_INVALID: the values do not go together
ft_status ft_tuning_trial_config(const ft_tuning *tuning, int64_t number, ft_config *config); // free its arena only
char *ft_tuning_trial_directory(const ft_tuning *tuning, int64_t number, ft_arena *arena);
bool ft_tuning_is_ours(ft_tuning *tuning, int64_t number); // started by ftengine, not by another program
// share.c: several coordinators on one study.
ft_status ft_tuning_open_directory(ft_tuning *tuning); // and locks it
// false: somebody keeps it locked, for seconds or, `longer`, half a minute.
bool ft_tuning_lock_directory(ft_tuning *tuning, bool longer);
void ft_tuning_unlock_directory(ft_tuning *tuning);
ft_status ft_tuning_join(ft_tuning *tuning); // FT_INVALID: it is run from another directory
void ft_tuning_joined(ft_tuning *tuning);    // the study is there: others may open it
// A trial belongs to one coordinator, from before it is seen to be RUNNING until its worker has left it.
ft_status ft_tuning_claim(ft_tuning *tuning, int64_t number, bool *got);
ft_status ft_tuning_claim_surely(ft_tuning *tuning, int64_t number);    // in the group that begins it
ft_status ft_tuning_commit_released(ft_tuning *tuning, int64_t number); // the group that ends it
ft_status ft_tuning_claimed(ft_tuning *tuning, int64_t number, bool *by_others);
void ft_tuning_release(ft_tuning *tuning, int64_t number);
// RUNNING trials that are not in a slot: those of living coordinators, and what dead ones have left.
ft_status ft_tuning_count_running(ft_tuning *tuning, int64_t *elsewhere, int64_t *left);
int64_t ft_tuning_to_do(const ft_tuning *tuning); // trials that have to end; -1: without end
// Says whether a trial of this coordinator has its memory or is about to try, and then asks whether one of others does.
ft_status ft_tuning_claim_memory(ft_tuning *tuning, bool holds, bool *others);
// judge.c: what a trial reported and how it ended.
// Stores these attributes, in a group, and keeps them for those who show the end; `error` may be "".
ft_status ft_tuning_set_end(ft_tuning *tuning, int64_t number, const char *status, const char *error);
bool ft_tuning_ended_last(const ft_tuning *tuning, int64_t number); // those of `tuning.ended` are this trial's
ft_status ft_tuning_load_resource(ft_tuning *tuning);
// Stores a report and what the pruner says of it; in a group.
ft_status ft_tuning_weigh(ft_tuning *tuning, int64_t number, int64_t step, double value, bool *prune);
ft_status ft_tuning_judge(ft_tuning *tuning, ft_slot *slot, const json_t *line, bool *pruned);
// In a group: a trial that was paused is given up, and is as one that a pruner stopped.
ft_status ft_tuning_give_up(ft_tuning *tuning, int64_t number);
ft_status ft_tuning_fail(ft_tuning *tuning, int64_t number, const char *status, const char *error);
// How a trial ended that was not pruned.
typedef struct ft_trial_end {
    int code;             // an ft_status; or, `gone`, that of its worker: an exit code, or minus a signal
    bool gone;            // the worker did not tell
    const char *error;    // "" when there is none
    bool entered;         // it had its memory
    bool accelerator;     // on a device with memory of its own
    bool disk_full;       // FT_FAILED: that is all that was wrong
    size_t needed, limit; // FT_NO_MEMORY: bytes; 0: not known
    size_t peak;          // bytes that it had reserved at most; 0: none, or not known
} ft_trial_end;
// *retry: the cause lies outside the trial, which stays RUNNING and goes on from its checkpoint. Its worker has left
// it: it is released.
ft_status ft_tuning_finish(ft_tuning *tuning, int64_t number, const ft_trial_end *end, bool *retry);
ft_status ft_tuning_count_ooms(ft_tuning *tuning); // of those that have ended since
// memory.c: a trial that needs more memory than there is, in the transaction that ends it. Foreseen: it would not have
// fitted, and was not begun; else it ran out of memory, its own or the host's, at whatever moment.
bool ft_tuning_foreseen(const ft_trial_end *end);
ft_status ft_tuning_store_oom(ft_tuning *tuning, int64_t number, const ft_trial_end *end, const json_t *run);
void ft_tuning_show_oom(const ft_tuning *tuning, int64_t number, const ft_trial_end *end);
ft_status ft_tuning_report_memory(const ft_tuning *tuning); // the list of study.report_memory_over
// boot.c: whether what is in a trial's directory was left since the machine has been up. Marked before the trial's
// worker begins, which removes the run.json of an earlier boot.
bool ft_boot_is_same(const char *directory);
ft_status ft_boot_mark(const char *directory);
// slots.h: workers and the trials in them. neighbours.h: those that are on one device. disk.h: room on the study's disk.
// best.c: best.ini, front/, and what stays on disk.
bool ft_tuning_keeps_few(const ft_tuning *tuning); // no model, or that of the best trial in the one objective
// Before a trial is said to be complete. *replaces: the model of another one may be removed for its sake, so that has to be on
// the disk too.
ft_status ft_tuning_sync(const ft_tuning *tuning, int64_t number, const json_t *run, bool *replaces);
int64_t ft_tuning_best(const ft_tuning *tuning); // in the first objective; -1: none
ft_status ft_tuning_tidy(ft_tuning *tuning, bool last); // `last`: nothing of this call comes after it
// track.c: tells other programs how a trial ended. What fails there costs a warning.
void ft_tuning_track(ft_tuning *tuning, int64_t number);
// Tells people of the study: its name, how many trials there are, the best one; `why` behind it. trial -1: of none.
void ft_tuning_tell(ft_tuning *tuning, const char *event, const char *why, int64_t trial);
void ft_tuning_tell_end(ft_tuning *tuning, ft_status outcome); // with the present error
// display.c
void ft_display_start(const ft_tuning *tuning);
void ft_display_trials(ft_tuning *tuning);                         // those that run
void ft_display_memory(const ft_tuning *tuning, char *out, size_t size); // a bar for each device that trials are on
void ft_display_finished(const ft_tuning *tuning, int64_t number); // a line that stays
ft_status ft_display_end(const ft_tuning *tuning);                 // the result, on standard output

#endif

// train.c - a run from beginning to end.
#include "engine/train/room/observer.h"
#include "engine/train/room/ranks.h"
#include "engine/train/room/stages.h"
#include "engine/train/longer.h"
#include "engine/train/run_end.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"
#include "engine/train/watch.h"

#include "base/files.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/track/follow.h"
#include "engine/track/notify.h"
#include "engine/track/tracker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// From the first step (or the checkpoint's) to the saved model.
static ft_status run(ft_trainer *t) {
    if (t->room.ranks != NULL) ft_stop_by_agreement(true);
    FT_TRY(ft_run_write_config(t));
    FT_TRY(ft_run_log_open(t));
    if (t->end.renewed) FT_TRY(ft_checkpoint_save(t)); // of that run, before a file of the old end changes
    FT_TRY(ft_run_end_put_back(t));
    FT_TRY(ft_run_metrics_open(t));
    ft_run_track_open(t);
    t->session_step = t->step.state.step;
    t->session_tokens = t->logged_tokens = t->step.state.tokens;
    t->session_seconds = t->logged_seconds = t->step.state.seconds_train;
    ft_progress_start(t);
    ft_progress_note(t, "trains");
    t->start_memory = ft_memory_read(t->room.memory);
    ft_stage_log(&t->room, "Training Start");
    FT_TRY(ft_trainer_loop(t));
    // The state at the end: `output.exists = resume` then finds a finished run, not an old checkpoint.
    if (!ft_run_taken()) FT_TRY(ft_checkpoint_save(t));
    if (t->step.state.best_step < 0) FT_TRY(ft_run_save_model(t)); // never evaluated: the last model is the result
    FT_TRY(ft_trainer_test(t));
    ft_run_note_rank(t);
    if (t->room.ranks != NULL) FT_TRY(ft_ranks_tell(t->room.ranks));
    return ft_card_renew(t);
}

static ft_status write_timeline(ft_trainer *t) {
    if (!ft_trainer_leads(t)) return FT_OK;
    const char *path = ft_path_join(&t->arena, t->dir, "memory_timeline.json");
    return path != NULL ? ft_memory_trace_write(t->room.memory, path) : FT_NO_MEMORY;
}

static ft_status train_in(ft_trainer *t) {
    FT_TRY(ft_run_dir_open(t));
    ft_status chosen = ft_trainer_choose_products(t, true);
    if (chosen != FT_OK && ft_trainer_leads(t)) (void)rmdir(t->dir); // it was made for this run if it is empty
    FT_TRY(chosen);
    if (ft_trainer_leads(t)) ft_run_tell(&(ft_run_news){.event = FT_RUN_OPENED, .dir = t->dir});
    if (t->room.config->output.exists == FT_EXISTS_RESUME) {
        bool found; // a refused resume leaves the old run as it is
        FT_TRY(ft_checkpoint_resume(t, &found));
        if (!found) FT_TRY(ft_longer_check_gone(t));
        if (!found) FT_TRY(ft_run_end_forget(t));
        if (!found) ft_info("nothing to resume in %s, starting anew", t->dir);
    }
    ft_status outcome = run(t);
    ft_error error;
    ft_error_save(&error);
    ft_progress_end(t, outcome);
    ft_stage_end(&t->room, &t->start_memory, outcome);
    ft_status traced = write_timeline(t); // before run.json, which says how it ended
    if (outcome != FT_OK) {
        ft_error_restore(&error);
    } else if (traced != FT_OK) {
        outcome = traced;
        ft_error_save(&error);
    }
    ft_run_track_end(t, outcome);
    ft_status written = ft_run_write_json(t, outcome);
    if (outcome == FT_OK) return written;
    ft_error_restore(&error); // what went wrong first is the news, also when run.json could not be written
    return outcome;
}

// What stays of a run for those who are told of its end.
typedef struct remains {
    char *directory; // on the heap; NULL: it did not come so far
    ft_tracker *tracker;
} remains;

static ft_status train(const ft_config *config, const ft_run_deadline *deadline, ft_memory_refusal *refusal, remains *left) {
    ft_trainer t;
    double started = ft_now();
    ft_stop_begin();
    ft_log_copy *log = ft_log_copy_begin();
    ft_status status = ft_trainer_open(config, &t);
    t.started = started;
    t.log = log;
    t.deadline = *deadline;
    if (status == FT_OK) status = train_in(&t);
    else if (t.room.memory != NULL) ft_stage_end(&t.room, &t.start_memory, status);
    if (t.room.memory != NULL) (void)ft_memory_refused(t.room.memory, &t.room.refusal);
    if (refusal != NULL) *refusal = t.room.refusal;
    ft_run_ended(t.room.memory);
    // After a failure buffers may still be out; they are freed here, and the first error is the news.
    ft_error error;
    ft_error_save(&error);
    if (t.dir != NULL) left->directory = strdup(t.dir);
    left->tracker = t.tracker;
    // What is queued on this rank's GPU waits for the others', and giving memory back waits for that.
    if (t.room.group != NULL && ft_ranks_fail(t.room.ranks, status)) ft_group_abort(t.room.group, &error);
    ft_status closed = ft_trainer_close(&t);
    if (status == FT_OK) status = closed;
    else ft_error_restore(&error);
    ft_log_copy_end(log, status == FT_OK);
    return status;
}

// A study tells of its trials itself. What can be refused is refused before anything is begun.
ft_status ft_train(const ft_config *config, ft_memory_refusal *refusal) {
    ft_notifier *notifier = NULL;
    remains left = {.directory = NULL};
    ft_run_deadline deadline;
    FT_TRY(ft_deadline_begin(config, &deadline));
    const ft_ranks *ranks = ft_ranks_present();
    if (ft_run_observer_of() == NULL && (ranks == NULL || ranks->rank == 0)) {
        FT_TRY(ft_follow_check(config));
        FT_TRY(ft_notifier_open(config, &notifier));
    }
    const ft_status status = train(config, &deadline, refusal, &left);
    ft_tracker_end(left.tracker);
    ft_notify_run(notifier, left.directory, status);
    free(left.directory);
    return status;
}

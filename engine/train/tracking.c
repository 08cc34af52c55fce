// tracking.c - other programs that show what a run does. The run directory is the truth, and theirs are copies: what
// goes wrong with them is a warning, and no run ends by it.
#include "engine/train/trainer.h"

#include "base/log.h"
#include "engine/track/tensorboard.h"
#include "engine/track/tracker.h"
#include "engine/train/room/observer.h"

#include <math.h>

// The first failure ends it.
static void drop(ft_trainer *t) {
    ft_error error;
    ft_error_save(&error);
    ft_warn("no more figures for TensorBoard: %s (%s)", error.message, error.where);
    (void)ft_tensorboard_close(t->board);
    t->board = NULL;
    ft_error_clear();
}

// A study tells MLflow of its trials itself.
void ft_run_track_open(ft_trainer *t) {
    if (!ft_trainer_leads(t)) return;
    if (ft_run_observer_of() == NULL) ft_tracker_start(t->job.config, t->dir, NULL, &t->tracker);
    if (!t->room.config->track.tensorboard) return;
    if (ft_tensorboard_open(t->dir, t->step.state.step, t->job.config, &t->board) != FT_OK) drop(t);
}

static ft_status add_line(ft_trainer *t, const json_t *line) {
    const ft_memory_counters peaks = ft_run_peaks(t);
    FT_TRY(ft_tensorboard_line(t->board, line));
    FT_TRY(ft_tensorboard_memory(t->board, t->step.state.step, &peaks, false));
    return ft_tensorboard_flush(t->board);
}

void ft_run_track_line(ft_trainer *t, const json_t *line) {
    if (t->board != NULL && add_line(t, line) != FT_OK) drop(t);
}

// As the Trainer's last lines; the test set's figures are those of the best model.
static ft_status add_end(ft_trainer *t) {
    const ft_train_state *s = &t->step.state;
    const double seconds = t->seconds_before + ft_now() - t->started;
    for (int k = 0; k < FT_METRIC_COUNT && t->have_test_metrics; k++) {
        char tag[80];
        const double value = ft_metric_value(&t->test_metrics, (ft_metric)k);
        snprintf(tag, sizeof tag, "test/%s", ft_metric_name((ft_metric)k));
        if (isfinite(value)) FT_TRY(ft_tensorboard_scalar(t->board, s->step, tag, value));
    }
    FT_TRY(ft_tensorboard_scalar(t->board, s->step, "train/train_runtime", seconds));
    return ft_tensorboard_scalar(t->board, s->step, "train/train_steps_per_second",
                                 s->seconds_train > 0 ? (double)s->step / s->seconds_train : 0);
}

// A run that was stopped goes on, and has its end then.
void ft_run_track_end(ft_trainer *t, ft_status outcome) {
    if (t->board == NULL) return;
    const ft_memory_counters peaks = ft_run_peaks(t);
    ft_error error;
    ft_error_save(&error); // how the run went is the news
    ft_status status = ft_tensorboard_memory(t->board, t->step.state.step, &peaks, false);
    if (status == FT_OK && outcome == FT_OK) status = add_end(t);
    if (status == FT_OK) status = ft_tensorboard_flush(t->board);
    if (status != FT_OK) drop(t);
    ft_error_restore(&error);
}

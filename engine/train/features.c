// features.c - where the head alone is trained: what the frozen trunk makes of the texts, made before the first step.
#include "engine/train/fit/forecast.h"
#include "engine/train/job/features.h"
#include "engine/train/ladder.h"
#include "engine/train/room/observer.h"
#include "engine/train/step/trunk_pass.h"
#include "engine/train/trainer.h"

#include "base/log.h"
#include "base/stop.h"

typedef struct progress {
    double shown;
} progress;

static ft_status show(void *context, int64_t done, int64_t total) {
    progress *p = context;
    const double now = ft_now();
    ft_run_alive(NULL, 0, 0, false);
    if (now - p->shown > 0.1) {
        ft_status_line("features %lld / %lld", (long long)done, (long long)total);
        p->shown = now;
    }
    return ft_stop_signal() == 0 ? FT_OK : ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped before the first step");
}

// The frozen layers go, and others may have their memory.
static ft_status give_back(ft_trainer *t) {
    ft_room *room = &t->room;
    ft_memory_counters planned;
    ft_host_memory host;
    char rest[24];
    ft_step_leave_trunk(&t->step);
    if (!room->head_alone) return FT_OK;
    FT_TRY(ft_room_forecast_rest(room, &planned, &host));
    FT_TRY(ft_room_reserve_less(room, &planned, &host));
    ft_info("           the frozen layers are not needed from here on: %s reserved", ft_bytes_text(planned.peak_reserved, rest));
    return FT_OK;
}

static ft_status make(ft_trainer *t, void *context) { return ft_trunk_pass(&t->room, show, context); }

ft_status ft_trainer_make_features(ft_trainer *t) {
    ft_job_features *f = &t->job.features;
    const double before = ft_now();
    progress shown = {.shown = before};
    int64_t rows = 0;
    if (!ft_job_lacks_features(&t->job)) return ft_step_leave_trunk(&t->step), FT_OK; // as it was planned and reserved
    for (int i = 0; i < f->sets; i++) {
        if (f->set[i].features.data != NULL) continue;
        FT_TRY(ft_features_make(&f->set[i].features));
        rows += f->set[i].features.rows;
    }
    ft_status status = ft_ladder_climb(t, FT_LADDER_STATE, make, &shown);
    ft_status_line("%s", "");
    FT_TRY(status);
    ft_job_take_features(&t->job, &t->room.device->target, t->room.autofit.chosen);
    t->features_seconds = ft_now() - before;
    ft_info("features   of %lld texts made in %.1f s: epochs train the head alone%s%s", (long long)rows, t->features_seconds,
            f->directory != NULL ? "  " : "", f->directory != NULL ? f->directory : "");
    return give_back(t);
}

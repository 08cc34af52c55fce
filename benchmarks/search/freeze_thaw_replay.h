// freeze_thaw_replay.h - a study whose trials are paused and go on as hpo/search/curves chooses, on recorded curves.
#ifndef FT_FREEZE_THAW_REPLAY_H
#define FT_FREEZE_THAW_REPLAY_H

#include "benchmarks/search/recorded_curves.h"
#include "hpo/study/study.h"

typedef struct freeze_thaw_replay {
    recorded_race race;
    int64_t trials, paused;
    double seconds; // of a choice, on average
} freeze_thaw_replay;

// Until all of `goal` is reached, or its steps are taken. No sampler: a trial begins where those around let most
// expect. All steps cost the same.
ft_status freeze_thaw_replay_run(const recorded_curves *curves, ft_tuning *tuning, const recorded_race *goal,
                                 freeze_thaw_replay *out);

#endif

// freeze_thaw_replay.h - a study whose trials are paused and go on as hpo/search/curves chooses, on recorded curves.
#ifndef FT_FREEZE_THAW_REPLAY_H
#define FT_FREEZE_THAW_REPLAY_H

#include "benchmarks/search/recorded_curves.h"
#include "hpo/study/study.h"

typedef struct freeze_thaw_replay {
    double best; // of the trials that came to their ends; NaN: none has
    int64_t steps, trials, paused;
    double seconds; // of a choice, on average
} freeze_thaw_replay;

// Until a trial has ended with a value as good as `goal`, or `most` steps are taken. No sampler: a trial begins where those around let most
// expect. All steps cost the same.
ft_status freeze_thaw_replay_run(const recorded_curves *curves, ft_tuning *tuning, double goal, int64_t most,
                                 freeze_thaw_replay *out);

#endif

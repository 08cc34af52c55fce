// study_belief.h - of `ftengine study show`: where the Gaussian process expects the best, where it would look next, and
// what it believed of a trial before that began.
#ifndef FT_HPO_COMMANDS_STUDY_BELIEF_H
#define FT_HPO_COMMANDS_STUDY_BELIEF_H

#include "hpo/commands/study.h"
#include "hpo/report/belief.h"
#include "hpo/search/gp/lessons.h"

typedef struct ft_study_beliefs {
    ft_study_belief *now;
    ft_gp_place best, next; // of `now`, where that speaks
    int64_t best_trial;     // which one was at `best`, -1: none yet
    int64_t trial;          // the one that is explained, -1: none
    const char *chosen_by;  // "person", "start", a sampler's name; NULL: nobody knows
    bool learns;            // from other studies
    ft_gp_silence silence;  // about the trial
    ft_gp_view view;        // of it, before it began
} ft_study_beliefs;

// trial: as typed, NULL: the newest one that has begun. lessons: those of the study, or NULL.
ft_status ft_study_beliefs_load(study_call *call, const char *trial, const ft_lessons *lessons, ft_study_beliefs *out);
// A line or two; where nothing is believed why, unless there are just too few trials.
ft_status ft_study_beliefs_print(study_call *call, const ft_study_beliefs *beliefs, const char *objective);
// Two members of the document: belief and chosen.
void ft_study_beliefs_put(study_call *call, const ft_study_beliefs *beliefs, json_t *document, bool *failed);

#endif

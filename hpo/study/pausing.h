// pausing.h - study.pruner = freeze_thaw: after each evaluation it is decided which trial goes on, or whether a new one
// begins (hpo/search/curves/pausing.h). A trial whose turn it is not is paused: it saves and leaves its worker, and
// stays RUNNING in the study, without a claim, as one that was cut off; so a kill is no case of its own.
//
// What decides is in the study: reports, what was drawn, the lengths and predicted seconds that a trial stored with its
// first report, and the widths stored with the trial that began by them. Evaluations are judged in order, one at a
// time: those that a worker ran ahead by are told again, and judged, when the trial goes on.
#ifndef FT_HPO_STUDY_PAUSING_H
#define FT_HPO_STUDY_PAUSING_H

#include "hpo/search/curves/pausing.h"
#include "hpo/study/study.h"

struct ft_pausing_study; // what is known of the trials beside their history

bool ft_tuning_pauses(const ft_tuning *tuning);
ft_status ft_tuning_check_pausing(const ft_tuning *tuning); // FT_INVALID: such trials cannot be paused
void ft_tuning_free_pausing(ft_tuning *tuning);

// In a group, after a report of the trial in `slot`. *goes_on: it is still its turn. *given_up: no new trial may begin,
// and it will hardly become the best one.
ft_status ft_tuning_its_turn(ft_tuning *tuning, const ft_slot *slot, bool may_begin, bool *goes_on, bool *given_up);

// In a group: whose turn it is while a worker is idle, and who is given up: [gives_up_count], in the arena.
typedef struct ft_next_stage {
    ft_pausing_choice choice;
    int64_t *gives_up;
    int gives_up_count;
} ft_next_stage;
ft_status ft_tuning_next_stage(ft_tuning *tuning, bool may_begin, ft_arena *arena, ft_next_stage *next);
// In the group that begins a trial which was chosen so: where it is to be, and by what that was found.
ft_status ft_tuning_place(ft_tuning *tuning, int64_t number, const ft_pausing_choice *choice);

#endif

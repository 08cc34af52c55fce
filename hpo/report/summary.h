// summary.h - a study as its report sees it: what became of each trial, when, on what, with how much memory; which
// parameters there are and what they can take; who is best. Everything a picture needs, read once.
#ifndef FT_HPO_SUMMARY_H
#define FT_HPO_SUMMARY_H

#include "engine/report/axis.h"
#include "hpo/report/belief.h"
#include "hpo/sharing/record.h"
#include "hpo/storage/locate.h"

// What became of a trial. INFEASIBLE: complete, and a constraint is violated. OOM: pruned since memory ran out.
typedef enum ft_fate {
    FT_FATE_COMPLETE,
    FT_FATE_INFEASIBLE,
    FT_FATE_PRUNED,
    FT_FATE_OOM,
    FT_FATE_FAILED,
    FT_FATE_RUNNING,
    FT_FATE_WAITING,
    FT_FATES
} ft_fate;
const char *ft_fate_name(ft_fate fate); // "complete", "out of memory", ...

typedef struct ft_report_trial {
    const ft_trial *trial;
    ft_fate fate;
    bool front;               // no other trial beats it; of one objective the best alone
    double start, end;        // seconds since the study's first start; NaN: not known. RUNNING: end is NaN
    double planned, measured; // bytes of memory, reserved at the peak; NaN: not known
    const char *device;       // NULL: not known
    const char *error;        // NULL: none
} ft_report_trial;

typedef struct ft_report_param {
    int name; // id
    const char *text;
    double importance; // -1: cannot be told
    double *alone;     // [objectives] for each by itself; NULL: there is one
    const ft_distribution *distribution;
    ft_axis axis;   // over all that the study's ranges allow and its trials have
    int64_t trials; // that have it
    bool varies;    // two of them differ in it
} ft_report_param;

typedef struct ft_summary {
    const ft_trials *study;
    const char *name;
    const char **objectives; // [study->objectives] names
    ft_report_trial *trials; // [count], by number
    int64_t count, fates[FT_FATES];
    int64_t *front, front_count; // numbers
    ft_report_param *params;     // the most important first
    int param_count, varying;    // how many vary; those come first
    double *share;        // [objectives][count]: which share of the complete trials is better, 0 to 1; NaN: it is none
    double seconds, busy; // from the first start to the last end; all trials' own together
    double memory_over;   // study.report_memory_over in bytes; 0: none
    ft_sharing_record *sharing; // [sharing_count] trials that had a device together, or were held back, by number
    int64_t sharing_count;
    bool undated;         // no trial has a start and an end
    ft_study_belief *belief;
} ft_summary;

// `study` must outlive the summary, whose own parts live in the arena. `directory`: the study's, where config.ini may
// lie.
ft_status ft_summary_make(ft_stored *study, const char *directory, ft_arena *arena, ft_summary *out);

// The trial's finite value of an objective, when it is complete (feasible or not); NaN otherwise.
double ft_report_value(const ft_summary *summary, int64_t number, int objective);
// The finite value at which it was pruned; NaN when there is none.
double ft_report_pruned_at(const ft_summary *summary, int64_t number);
// Its finite value of a parameter, as on the parameter's axis; NaN when it has none.
double ft_report_param_value(const ft_summary *summary, int64_t number, const ft_report_param *param);
// 0 for the worst tenth of the complete trials, 9 for the best.
int ft_report_class(const ft_summary *summary, int64_t number, int objective);
bool ft_report_over_memory(const ft_summary *summary, int64_t number);

#endif

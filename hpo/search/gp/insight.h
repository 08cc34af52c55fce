// insight.h - what the Gaussian process believes, for people to read: at a place, over the plane of two parameters,
// where it expects the best, where it would look next, and what it believed of a trial before that began. The models
// are those of a suggestion (drawing.h).
//
// Values are the objective's own where they are better than that of the middle trial. Beyond, the process has seen
// ranks alone (targets.h), so a place there is `worse` and has no value.
#ifndef FT_HPO_GP_INSIGHT_H
#define FT_HPO_GP_INSIGHT_H

#include "hpo/search/gp/gp.h"

typedef enum ft_gp_silence {
    FT_GP_SPEAKS,
    FT_GP_OBJECTIVES, // several
    FT_GP_PARAMETERS, // more than FT_INSIGHT_PARAMETERS
    FT_GP_MANY,       // trials, more than FT_INSIGHT_MOST
    FT_GP_FEW,        // trials with a value, fewer than FT_INSIGHT_FEWEST
    FT_GP_ONE_POINT,  // no parameter has two values
    FT_GP_BROKEN,     // no trial is complete and within all limits
    FT_GP_ALIKE,      // the better half of the trials: there is no scale to tell values by
    FT_GP_NOTHING     // no model fits the trials
} ft_gp_silence;
// The search asks the process from so many trials on, and up to so many of so many parameters (sampler.h).
enum { FT_INSIGHT_FEWEST = 10, FT_INSIGHT_MOST = 250, FT_INSIGHT_PARAMETERS = 20 };
const char *ft_gp_silence_text(ft_gp_silence silence); // behind "since": "there are several objectives"

// What is believed of a place.
typedef struct ft_gp_view {
    double mean;      // of the objective; no number where worse
    bool worse;       // than the middle trial
    double deviation; // of the mean: the luck of one trial is not in it
    double gain;      // expected, on what the best trial is believed to be worth; the objective's units, at least 0
    double chance;    // that a trial there comes to its end within all limits
} ft_gp_view;

typedef struct ft_gp_place {
    ft_trial_param *params; // [count] by name
    int count;
    ft_gp_view view;
} ft_gp_place;

typedef struct ft_gp_insight {
    struct ft_gp_drawing *drawing;
    struct ft_gp_branches *branches;
    int64_t best;  // the best trial
    double middle; // what `worse` is worse than
} ft_gp_insight;

// Lives in the arena; `trials` and `options` must outlive it. always: however many trials and parameters there are.
// *out is of use where *silence is FT_GP_SPEAKS.
ft_status ft_gp_insight_of(const ft_trials *trials, const ft_gp_options *options, bool always, ft_arena *arena,
                           ft_gp_insight *out, ft_gp_silence *silence);
// At a point of the axes of drawing.h.
ft_gp_view ft_gp_insight_at(const ft_gp_insight *insight, const double *point);
// Where the objective is expected to be best; *trial: which one was there, -1: none yet.
ft_status ft_gp_insight_best(const ft_gp_insight *insight, ft_arena *arena, ft_gp_place *out, int64_t *trial);
// Where the process would look next, with these options. FT_GP's next trial where its seed is the study's.
ft_status ft_gp_insight_next(const ft_gp_insight *insight, ft_arena *arena, ft_gp_place *out);

// Two parameters, all others as the best trial has them that goes with the two.
typedef struct ft_gp_plane {
    int columns, rows;
    double *x, *y;    // [columns + 1], [rows + 1] values at the cells' edges; of choices k - 1/2
    ft_gp_view *view; // [rows][columns]
    bool *known;      // [rows][columns] does some trial have such a combination?
    int64_t trial;    // whose values the others are; -1: of no cell
    bool mixed;       // of some cells another's
} ft_gp_plane;
enum { FT_INSIGHT_CELLS = 24 }; // along a parameter of numbers
ft_status ft_gp_insight_plane(const ft_gp_insight *insight, int x, int y, ft_arena *arena, ft_gp_plane *out);

// What was believed of trial `number` before it began. then [number]: which earlier trials had ended by then; others were
// running. options: of the sampler, with its teachers. always: as above.
ft_status ft_gp_insight_before(const ft_trials *trials, const ft_gp_options *options, int64_t number, const bool *then,
                               bool always, ft_gp_view *out, ft_gp_silence *silence);

#endif

// gp.h - what a trial takes next, by a Gaussian process: losses and constraints of ended trials are learned by
// processes with scales of their own (fit.h), whether a trial comes to an end by a classifier, and the next one is
// where the expected improvement is largest, chances considered (acquire.h). Trials that run count with the value that
// is expected of them.
//
// A function of seed, number and history alone: nothing is kept, so a killed study repeats, whatever ran meanwhile.
#ifndef FT_HPO_GP_H
#define FT_HPO_GP_H

#include "hpo/search/gp/targets.h"
#include "hpo/search/gp/teachers.h"

typedef struct ft_gp_options {
    uint64_t seed;
    ft_gp_warp warp;
    int fitted;               // trials that scales are found from, at most
    int modelled;             // trials that are learned from, at most: the better half and others evenly over the study
    int candidates;           // points that are looked at
    int starts;               // of them, that steps begin from
    bool pending;             // trials that run count
    bool rough;               // near trials may differ by more than noise (model.h)
    ft_gp_teachers *teachers; // what other studies have found (belief.h); NULL: there are none
} ft_gp_options;

ft_gp_options ft_gp_defaults(void);

// All that trial `number` may need, as far as earlier trials tell what goes together: values of params it has stay, the
// others become `relative` of it. Nothing, when no trial ended yet.
ft_status ft_gp_draw(ft_trials *trials, const ft_gp_options *options, int64_t number);
// One parameter that it asks for beside these, to go with the values that it has.
ft_status ft_gp_draw_alone(ft_trials *trials, const ft_gp_options *options, int64_t number, int name, int distribution,
                           double *value);

#endif

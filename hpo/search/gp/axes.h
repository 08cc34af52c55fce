// axes.h - the parameters of a study as axes of a unit cube: logarithms where they are searched so, ranges widened by
// half a step as for TPE, so that all values of a grid have equal room. A parameter whose range changed has one axis,
// over all of its ranges.
#ifndef FT_HPO_GP_AXES_H
#define FT_HPO_GP_AXES_H

#include "hpo/search/history/trials.h"

typedef struct ft_gp_axis {
    int name; // id
    bool log;
    double low, high; // as logarithms where log
} ft_gp_axis;

typedef struct ft_gp_axes {
    ft_gp_axis *axis; // [count] by name, bytewise: ids say when a name was first used, which must not matter
    bool *choice;     // [count]
    int count;
    int *of_name; // [names] the axis, or -1: it never has two values
} ft_gp_axes;

// Axes of all that trials have, WAITING ones aside, and of one more parameter that is asked for; name -1: none.
ft_status ft_gp_axes_of(const ft_trials *trials, int name, int distribution, ft_arena *arena, ft_gp_axes *out);
double ft_gp_unit(const ft_gp_axes *axes, int axis, double value);
double ft_gp_axis_value(const ft_gp_axis *axis, double unit); // of an axis of numbers
// The value of a distribution nearest to a point of the axis.
double ft_gp_value(const ft_gp_axes *axes, int axis, const ft_distribution *distribution, double unit);
// point [count]: where a trial lies, NaN where it lacks the axis. With `announced` also by what it drew and has not
// asked for.
void ft_gp_point(const ft_gp_axes *axes, const ft_trial *trial, bool announced, double *point);

#endif

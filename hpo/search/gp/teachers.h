// teachers.h - models of what other studies have found (lessons.h), and how far this study may trust them: a teacher
// counts as much as it ranks the trials of this study right.
#ifndef FT_HPO_GP_TEACHERS_H
#define FT_HPO_GP_TEACHERS_H

#include "hpo/search/gp/lessons.h"
#include "hpo/search/gp/model.h"

typedef struct ft_gp_teachers {
    const ft_lessons *lessons; // which must outlive them
    ft_gp_model *model;        // [sources] of losses of mean 0 and variance 1
    bool *choice;              // [axes]
    bool *known;               // [sources][axes] does it say anything along this axis?
    double *point;             // [axes] scratch
    ft_arena arena;
} ft_gp_teachers;

ft_status ft_gp_teachers_init(const ft_lessons *lessons, ft_gp_teachers *teachers);
void ft_gp_teachers_free(ft_gp_teachers *teachers); // {0} is fine

// point [axes of lessons]: where a trial of this study lies, with `announced` also by what it drew and has not asked
// for. NaN where it lacks the axis.
void ft_gp_teachers_point(const ft_gp_teachers *teachers, const ft_trials *trials, const ft_trial *trial,
                          bool announced, double *point);
// The loss that one of them expects there, and its gradient [axes] by coordinates of numbers, or NULL. What it has no
// trial of makes no difference to it.
double ft_gp_teachers_mean(ft_gp_teachers *teachers, int source, const double *point, double *gradient);

// weight [sources]: by how much more often than not a teacher ranks two trials of this study right (Kendall's tau),
// less what chance would do; 0 is none. *judged: trials that were held against them, at most FT_TEACHERS_JUDGED; below
// FT_TEACHERS_UNJUDGED of them nothing is known, and all weights are 1. Of a study with one objective.
enum { FT_TEACHERS_UNJUDGED = 4, FT_TEACHERS_JUDGED = 200 };
enum { FT_TEACHERS_HEARD = 40 }; // trials with a loss, beyond which this study has a mind of its own
ft_status ft_gp_teachers_weigh(ft_gp_teachers *teachers, const ft_trials *trials, double *weight, int *judged);

#endif

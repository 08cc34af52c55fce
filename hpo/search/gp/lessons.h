// lessons.h - what other studies of the same space have found: their trials, in terms of this study's parameters. Data
// alone, which does not change as long as a study lives; teachers.h makes models of it.
//
//     ft_lessons lessons = {0};
//     FT_TRY(ft_lessons_axis(&lessons, &arena, "train.learning_rate", &distribution));   // for each of this study's
//     FT_TRY(ft_lessons_add(&lessons, &arena, "other", &trials_of_another_study));
//
// All of it lives in the arena.
#ifndef FT_HPO_GP_LESSONS_H
#define FT_HPO_GP_LESSONS_H

#include "hpo/search/history/trials.h"

typedef struct ft_lesson_axis {
    const char *name;
    bool choice, log;
    double low, high; // of numbers: the ranges of all studies together, half a step wider; as logarithms where log
    const ft_distribution *of; // this study's first one of the name; NULL once stored and read again
} ft_lesson_axis;

typedef struct ft_lesson_source {
    const char *study;
    int count;
    double *value; // [count][axes] internal values of this study's distributions; NaN: the trial lacks it; a choice
                   // that this study has not: FT_LESSON_UNKNOWN
    double *loss;  // [count] finite, smaller is better
} ft_lesson_source;

typedef struct ft_lessons {
    int axes, sources;
    ft_lesson_axis *axis;
    ft_lesson_source *source;
} ft_lessons;

enum { FT_LESSON_UNKNOWN = -2 };
enum { FT_LESSON_TRIALS = 100 }; // of a study, at most: the better half, the others of every age

// A parameter of this study, before the first source; again with another range: the axis holds both. One of a single value is no axis.
ft_status ft_lessons_axis(ft_lessons *lessons, ft_arena *arena, const char *name, const ft_distribution *distribution);
// Its completed and pruned trials within their limits, by the first objective. Parameters that are no axis are left
// out, and values that do not go with theirs.
ft_status ft_lessons_add(ft_lessons *lessons, ft_arena *arena, const char *study, const ft_trials *trials);

// Whether values of theirs can be taken for some of this axis: numbers on one scale, or choices of which one is on both
// sides. Of an axis that was not stored and read again.
bool ft_lessons_goes_with(const ft_lesson_axis *axis, const ft_distribution *theirs);
// Whether some trial of a source has a value along an axis that this study has too.
bool ft_lessons_known(const ft_lessons *lessons, int source, int axis);

int ft_lessons_find(const ft_lessons *lessons, const char *name); // an axis, -1: none
// Where a value lies: 0 to 1 within the ranges, a choice as its index.
double ft_lessons_unit(const ft_lesson_axis *axis, double value);

#endif

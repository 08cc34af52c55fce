// survey.h - a search space before a study: which of its points fit, which with what is left at auto fitted, and which never.
//
// Every point is the configuration that a trial would have, planned as a run of it (engine/plan/outlook.h); nothing is judged from its
// neighbours. Several threads share the points; the answer does not depend on how many.
#ifndef FT_HPO_SURVEY_H
#define FT_HPO_SURVEY_H

#include "engine/plan/outlook.h"
#include "engine/plan/texts.h"
#include "hpo/plan/points.h"

enum { FT_SURVEY_INVALID = FT_OUTLOOK_KINDS, FT_SURVEY_KINDS }; // beside ft_outlook_kind: values that do not go together

typedef struct ft_survey_point {
    int kind;
    size_t bytes, budget; // as ft_outlook has them; 0 of an invalid one
} ft_survey_point;

typedef struct ft_survey {
    ft_space space;
    ft_points points;
    ft_survey_point *of;             // [points.count]
    int64_t count[FT_SURVEY_KINDS];  // of all points, or, where they are not all there are, of the sample
    double share[FT_SURVEY_KINDS];   // of random draws
    int64_t worst;                   // the point that takes most; -1: all are invalid
    char invalid[512];               // what is wrong with the first that is
    char missing[FT_PLAN_MISSING];   // of the texts of some point, which was planned without
    double seconds;
} ft_survey;

typedef struct ft_survey_request {
    const ft_config *config;         // loaded with [study] and [space]
    const ft_plan_request *plan;
    int threads;                     // 0: as many as the machine has for this process
} ft_survey_request;

// A space that varies nothing has one point. FT_INVALID: the space is none (ft_space_read), or every point is invalid, with what is
// wrong with the first. Give it to ft_survey_free in any case.
ft_status ft_survey_make(const ft_survey_request *request, ft_survey *survey);
void ft_survey_free(ft_survey *survey); // {0} is fine

// A value, or a stretch of values, of a parameter, and what became of the points that have it: shares are of those that do.
typedef struct ft_survey_row {
    char label[64];
    double share[FT_SURVEY_KINDS];
    size_t most; // bytes of the largest
    double weight;
} ft_survey_row;
enum { FT_SURVEY_ROWS = 16 };
// By the values of an axis, of points.axes; a numeric one with more than FT_SURVEY_ROWS in stretches. *count 0: memory does not
// depend on it, or it has one value.
ft_status ft_survey_by(const ft_survey *survey, int axis, ft_survey_row rows[FT_SURVEY_ROWS], int *count);

#endif

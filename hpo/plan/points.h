// points.h - the points of a search space that memory can tell apart.
//
// A parameter is an axis where memory depends on it (engine/plan/relevance.h), or where a condition of such a one looks at it; the
// others change no byte and are left as the configuration has them. Of an axis that is only looked at, values that all
// conditions judge alike are one. A point has a weight, the share of random draws that come to it: a branch with many values
// does not count for more than it is drawn.
#ifndef FT_HPO_POINTS_H
#define FT_HPO_POINTS_H

#include "engine/config/options.h"
#include "hpo/space/space.h"

enum { FT_MOST_POINTS = 100000, FT_SAMPLED_POINTS = 1000, FT_MOST_CORNERS = 1000 };

typedef struct ft_axis_value {
    double value; // stands for all that are alike
    double weight;
} ft_axis_value;

typedef struct ft_axis {
    const ft_space_rule *rule;
    bool matters;          // else conditions look at it, or only whether it is 0 counts
    bool finite;           // false: values are what is drawn
    ft_axis_value *values; // [count]
    int count;
} ft_axis;

typedef struct ft_points {
    const ft_space *space;
    bool of_option[FT_OPTION_LIMIT]; // does the option of this number make points? Rules of others are passed over
    ft_axis *axes;       // [axis_count] one for each rule that is drawn, in the order of the space
    int axis_count;
    int *axis_of;        // [space->count] by rule; -1: none
    bool exhaustive;     // else the points are corners, then a sample, whose weights are equal; those of corners are 0
    bool all_corners;
    int64_t corners;
    double *value;       // [count * axis_count]; NaN: the point does not draw it
    double *weight;      // [count]; they add up to 1
    int64_t count, capacity;
    ft_arena arena;
} ft_points;

// with_texts: what says how texts come together counts. seed: of the sample. FT_NO_MEMORY only.
ft_status ft_points_make(const ft_space *space, bool with_texts, uint64_t seed, ft_points *points);
void ft_points_free(ft_points *points); // {0} is fine
// The texts that the options of a point are set to, by number of an option; NULL: as the configuration has it. Texts live in `arena`
// or in the space.
ft_status ft_points_texts(const ft_points *points, int64_t index, ft_arena *arena, const char *texts[FT_OPTION_LIMIT]);

// The configuration of a trial there, checked: `config` and what the point sets. FT_INVALID: the values do not go together. Free its arena.
ft_status ft_points_config(const ft_points *points, const ft_config *config, int64_t index, ft_config *out);

#endif

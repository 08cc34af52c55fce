// grid.h - every combination once. A trial takes the first point that no other trial has taken; which those are is read
// from the trials, so grids resume, share their points with enqueued trials, and skip what a condition left unused: a
// trial without a parameter of the grid stands for all of its values.
#ifndef FT_HPO_GRID_H
#define FT_HPO_GRID_H

#include "hpo/search/history/trials.h"

typedef struct ft_grid_axis {
    const char *name;
    const ft_distribution *distribution; // must outlive the grid, like the name
    int points; // of a float without a step: so many, evenly spaced (in logarithms); else ignored
} ft_grid_axis;

typedef struct ft_grid {
    const ft_grid_axis *axes; // the last one changes fastest
    int axis_count;
    int *size;      // [axis_count]
    int64_t points; // product
    bool *taken;    // [points]
} ft_grid;

ft_status ft_grid_init(ft_grid *grid, const ft_grid_axis *axes, int axis_count);
void ft_grid_free(ft_grid *grid); // {0} is fine
// The number of points that no trial has taken, RUNNING and failed ones included.
ft_status ft_grid_left(ft_grid *grid, ft_trials *trials, int64_t *left);
// Sets `relative` of the trial to its point; FT_FAILED when all are taken.
ft_status ft_grid_draw(ft_grid *grid, ft_trials *trials, int64_t number);
double ft_grid_value(const ft_grid_axis *axis, int size, int index);

#endif

// evolution.h - CMA-ES (Hansen 2023, arXiv 1604.00772): a normal distribution of points that moves towards the better
// half of each generation, learns which directions go together, and unlearns those of the worse half. It is told
// points from anywhere, its own or not: a step that is too long for its own is shortened (Hansen 2011, arXiv
// 1110.4181).
#ifndef FT_HPO_EVOLUTION_H
#define FT_HPO_EVOLUTION_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct ft_evolution {
    int n, lambda;                                        // dimensions; points of a generation
    double *weight;                                       // [lambda] the best first; of sum 1 where positive
    double effective, cc, c1, cmu, cs, damping, expected; // as the tutorial calls them; E|N(0, I)|
    double sigma;
    double *mean, *path, *path_sigma; // [n]
    double *covariance;               // [n][n]
    double *axis, *length;            // [n][n] its vectors as columns, [n] the square roots of its values
    double *step, *squared;           // [lambda][n] from the mean, [lambda] how long, in deviations
    double *rotated, *scratch;        // [n], [n][n]
    int generations;
} ft_evolution;

int ft_evolution_lambda(int n); // 4 + 3 ln n, what a first run takes
ft_status ft_evolution_init(int n, int lambda, ft_arena *arena, ft_evolution *out);
// From a mean [n] and a matrix [n][n], NULL: the unit matrix.
void ft_evolution_begin(ft_evolution *e, const double *mean, double sigma, const double *covariance);
// points [lambda] of [n], the best first.
void ft_evolution_tell(ft_evolution *e, const double *const *points);
// out [n] = the point that normal numbers z [n] stand for.
void ft_evolution_point(const ft_evolution *e, const double *z, double *out);
double ft_evolution_deviation(const ft_evolution *e, int axis); // of one coordinate
double ft_evolution_condition(const ft_evolution *e);           // largest beside smallest value of the matrix

#endif

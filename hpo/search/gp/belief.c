#include "hpo/search/gp/belief.h"

#include <math.h>
#include <string.h>

static void map(ft_gp_belief *b, const ft_trials *trials, const ft_gp_axes *axes) {
    const ft_lessons *lessons = b->teachers->lessons;
    for (int l = 0; l < lessons->axes; l++) {
        const ft_lesson_axis *theirs = &lessons->axis[l];
        const int name = ft_trials_find_name(trials, theirs->name);
        const int a = name >= 0 ? axes->of_name[name] : -1;
        b->axis[l] = a;
        b->stretch[l] = 1;
        if (a < 0 || theirs->choice) continue;
        const double width = theirs->high - theirs->low;
        b->shift[l] = (axes->axis[a].low - theirs->low) / width;
        b->stretch[l] = (axes->axis[a].high - axes->axis[a].low) / width;
    }
}

ft_status ft_gp_belief_of(ft_gp_teachers *teachers, const ft_trials *trials, const ft_gp_axes *axes, ft_arena *arena,
                          ft_gp_belief *b, bool *trusted) {
    const size_t theirs = (size_t)teachers->lessons->axes + 1;
    const int sources = teachers->lessons->sources;
    double *room = ft_arena_alloc(arena, (4 * theirs + (size_t)sources) * sizeof *room), sum = 0;
    int judged;
    *b = (ft_gp_belief){.teachers = teachers, .axis = ft_arena_alloc(arena, theirs * sizeof *b->axis), .scale = 1};
    *trusted = false;
    if (room == NULL || b->axis == NULL) return FT_NO_MEMORY;
    b->shift = room, b->stretch = room + theirs, b->point = room + 2 * theirs, b->gradient = room + 3 * theirs;
    b->weight = room + 4 * theirs;
    FT_TRY(ft_gp_teachers_weigh(teachers, trials, b->weight, &judged));
    for (int s = 0; s < sources; s++)
        sum += b->weight[s];
    if (judged < FT_TEACHERS_UNJUDGED || !(sum > 0)) return FT_OK;
    for (int s = 0; s < sources; s++)
        b->weight[s] /= sum;
    map(b, trials, axes);
    *trusted = true;
    return FT_OK;
}

// The teachers' weighted mean at a point of this study; adds `factor` times its gradient.
static double taught(ft_gp_belief *b, const double *point, double factor, double *gradient) {
    const int theirs = b->teachers->lessons->axes;
    double mean = 0;
    for (int l = 0; l < theirs; l++)
        b->point[l] = b->axis[l] < 0 ? NAN : b->shift[l] + b->stretch[l] * point[b->axis[l]];
    for (int s = 0; s < b->teachers->lessons->sources; s++) {
        if (b->weight[s] == 0) continue;
        mean += b->weight[s] * ft_gp_teachers_mean(b->teachers, s, b->point, gradient != NULL ? b->gradient : NULL);
        for (int l = 0; gradient != NULL && l < theirs; l++)
            if (b->axis[l] >= 0) gradient[b->axis[l]] += factor * b->weight[s] * b->stretch[l] * b->gradient[l];
    }
    return mean;
}

bool ft_gp_belief_regress(ft_gp_belief *b, const double *const *points, const double *y, int n, double *residual) {
    double mean = 0, mean_y = 0, both = 0, square = 0, left = 0;
    for (int i = 0; i < n; i++) {
        residual[i] = taught(b, points[i], 0, NULL);
        mean += residual[i] / n;
        mean_y += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        both += (residual[i] - mean) * (y[i] - mean_y);
        square += (residual[i] - mean) * (residual[i] - mean);
    }
    if (!(both > 0) || !(square > 0)) return false;
    b->slope = both / square;
    b->base = mean_y - b->slope * mean;
    for (int i = 0; i < n; i++) {
        residual[i] = y[i] - b->base - b->slope * residual[i];
        left += residual[i] * residual[i] / n;
    }
    b->scale = fmax(sqrt(left), 1e-6);
    for (int i = 0; i < n; i++)
        residual[i] /= b->scale;
    return true;
}

double ft_gp_belief_cost(const ft_gp_belief *b, int n) { return n * log(b->scale) + log(n); }

void ft_gp_belief_add(ft_gp_belief *b, int axes, const double *point, double *mean, double *variance,
                      double *mean_gradient, double *variance_gradient) {
    *mean *= b->scale;
    *variance *= b->scale * b->scale;
    for (int a = 0; mean_gradient != NULL && a < axes; a++) {
        mean_gradient[a] *= b->scale;
        variance_gradient[a] *= b->scale * b->scale;
    }
    *mean += b->base + b->slope * taught(b, point, b->slope, mean_gradient);
}

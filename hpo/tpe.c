#include "hpo/tpe.h"

#include "hpo/random_stream.h"
#include "hpo/split.h"

#include <stdlib.h>
#include <string.h>

static ft_status init(const ft_trials *trials, const ft_subspace *subspace, bool equal, ft_parzen *out) {
    const ft_distribution **d = ft_calloc((size_t)subspace->count, sizeof *d, "a Parzen estimator");
    if (d == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < subspace->count; i++)
        d[i] = trials->distributions[subspace->distribution[i]];
    ft_status status = ft_parzen_init(out, d, subspace->count, equal);
    free(d);
    return status;
}

static ft_status build(const ft_trials *trials, const ft_tpe_options *options, const ft_subspace *subspace,
                       const uint8_t *sides, ft_side side, double *scratch, ft_parzen *out) {
    FT_TRY(init(trials, subspace, side == FT_BELOW && trials->objectives > 1, out));
    int count = 0;
    for (int64_t i = 0; i < trials->count; i++)
        if (sides[i] == side && ft_subspace_values(subspace, &trials->trial[i], options->announced,
                                                   scratch + (size_t)count * (size_t)subspace->count))
            count++;
    return ft_parzen_build(out, scratch, count);
}

ft_status ft_tpe_estimators(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                            const ft_subspace *subspace, ft_parzen *below, ft_parzen *above) {
    *below = *above = (ft_parzen){0};
    size_t count = (size_t)trials->count + 1;
    uint8_t *sides = ft_calloc(count, sizeof *sides, "trials");
    bool *among = ft_calloc(count, sizeof *among, "trials");
    double *scratch = ft_calloc(count, (size_t)subspace->count * sizeof *scratch, "trials");
    ft_status status = sides == NULL || among == NULL || scratch == NULL ? FT_NO_MEMORY : FT_OK;
    if (status != FT_OK) goto done;
    for (int64_t i = 0; options->branch_split && i < trials->count; i++)
        among[i] = ft_subspace_values(subspace, &trials->trial[i], options->announced, scratch);
    FT_TRY_GOTO(ft_split(trials, number, options->constant_liar, options->branch_split ? among : NULL, sides), done);
    FT_TRY_GOTO(build(trials, options, subspace, sides, FT_BELOW, scratch, below), done);
    FT_TRY_GOTO(build(trials, options, subspace, sides, FT_ABOVE, scratch, above), done);
done:
    free(sides);
    free(among);
    free(scratch);
    return status;
}

ft_status ft_tpe_draw(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                      const ft_subspace *subspace, const ft_parzen *below, double *points) {
    int *kernel = ft_calloc((size_t)options->candidates, sizeof *kernel, "candidates");
    if (kernel == NULL) return FT_NO_MEMORY;
    // The stream carries the first name, so that parameters drawn one by one do not all take the same kernels.
    ft_random_stream stream =
        ft_random_stream_of(options->seed, number, FT_DRAW_KERNEL, trials->names.name[subspace->name[0]]);
    for (int c = 0; c < options->candidates; c++)
        kernel[c] = ft_parzen_pick(below, ft_random_double(&stream));
    for (int i = 0; i < subspace->count; i++) {
        stream = ft_random_stream_of(options->seed, number, FT_DRAW_CANDIDATE, trials->names.name[subspace->name[i]]);
        for (int c = 0; c < options->candidates; c++)
            points[c * subspace->count + i] = ft_parzen_draw(below, i, kernel[c], ft_random_double(&stream));
    }
    free(kernel);
    return FT_OK;
}

int ft_tpe_choose(const double *good, const double *other, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (good[i] - other[i] > good[best] - other[best]) best = i;
    return best;
}

ft_status ft_tpe_suggest(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                         const ft_subspace *subspace, double *values) {
    ft_parzen below = {0}, above = {0};
    size_t candidates = (size_t)options->candidates, width = (size_t)subspace->count;
    double *points = ft_calloc(candidates, width * sizeof *points, "candidates");
    double *density = ft_calloc(2 * candidates, sizeof *density, "candidates");
    double *scratch = ft_calloc((size_t)trials->count + 1, sizeof *scratch, "trials");
    ft_status status = points == NULL || density == NULL || scratch == NULL ? FT_NO_MEMORY : FT_OK;
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(ft_tpe_estimators(trials, options, number, subspace, &below, &above), done);
    FT_TRY_GOTO(ft_tpe_draw(trials, options, number, subspace, &below, points), done);
    for (size_t c = 0; c < candidates; c++) {
        density[c] = ft_parzen_log_density(&below, points + c * width, scratch);
        density[candidates + c] = ft_parzen_log_density(&above, points + c * width, scratch);
    }
    int best = ft_tpe_choose(density, density + candidates, options->candidates);
    memcpy(values, points + (size_t)best * width, width * sizeof *values);
done:
    ft_parzen_free(&below);
    ft_parzen_free(&above);
    free(points);
    free(density);
    free(scratch);
    return status;
}

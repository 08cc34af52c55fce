#include "hpo/search/tpe/tpe.h"

#include "hpo/search/history/random_stream.h"
#include "hpo/search/tpe/split.h"

#include <stdlib.h>
#include <string.h>

static ft_status init(const ft_trials *trials, const ft_tpe_options *options, const ft_subspace *subspace, bool equal,
                      ft_parzen *out) {
    const ft_distribution **d = ft_calloc((size_t)subspace->count, sizeof *d, "a Parzen estimator");
    if (d == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < subspace->count; i++)
        d[i] = trials->distributions[subspace->distribution[i]];
    ft_status status = ft_parzen_init(out, d, subspace->count, equal);
    out->fine = options->fine;
    free(d);
    return status;
}

// The values of the trials of one side that have these parameters, oldest first; how many there are.
static int gather(const ft_trials *trials, const ft_tpe_options *options, const ft_subspace *subspace,
                  const uint8_t *sides, ft_side side, double *values) {
    int count = 0;
    for (int64_t i = 0; i < trials->count; i++)
        if (sides[i] == side && ft_subspace_values(subspace, &trials->trial[i], options->announced,
                                                   values + (size_t)count * (size_t)subspace->count))
            count++;
    return count;
}

int64_t ft_tpe_most_others(const ft_tpe_options *options) { return options->fine ? FT_TPE_OTHERS : 0; }

ft_status ft_tpe_split(const ft_trials *trials, const ft_tpe_options *options, int64_t number, const bool *among,
                       uint8_t *sides, int *stands_for) {
    return ft_split(trials, number, options->constant_liar, options->failed, options->branch_split ? among : NULL,
                    ft_tpe_most_others(options), sides, stands_for);
}

void ft_tpe_set_width(const ft_tpe_options *options, ft_parzen *below, int good, int64_t others) {
    below->wanted = options->fine ? ft_parzen_fine_parts(good + others) : 0;
}

ft_status ft_tpe_estimators(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                            const ft_subspace *subspace, ft_parzen *below, ft_parzen *above) {
    *below = *above = (ft_parzen){0};
    size_t count = (size_t)trials->count + 1, width = (size_t)subspace->count;
    uint8_t *sides = ft_calloc(count, sizeof *sides, "trials");
    bool *among = ft_calloc(count, sizeof *among, "trials");
    double *values = ft_calloc(2 * count, width * sizeof *values, "trials"), *others;
    ft_status status = sides == NULL || among == NULL || values == NULL ? FT_NO_MEMORY : FT_OK;
    int stands_for;
    if (status != FT_OK) goto done;
    for (int64_t i = 0; options->branch_split && i < trials->count; i++)
        among[i] = ft_subspace_values(subspace, &trials->trial[i], options->announced, values);
    FT_TRY_GOTO(ft_tpe_split(trials, options, number, among, sides, &stands_for), done);
    FT_TRY_GOTO(init(trials, options, subspace, trials->objectives > 1, below), done);
    FT_TRY_GOTO(init(trials, options, subspace, false, above), done);
    int good_count = gather(trials, options, subspace, sides, FT_BELOW, values);
    others = values + (size_t)good_count * width;
    int other_count = gather(trials, options, subspace, sides, FT_ABOVE, others);
    ft_tpe_set_width(options, below, good_count, (int64_t)other_count * stands_for);
    FT_TRY_GOTO(ft_parzen_build(below, values, good_count), done);
    FT_TRY_GOTO(ft_parzen_build(above, others, other_count), done);
done:
    free(sides);
    free(among);
    free(values);
    return status;
}

// Which values the trial has already, and they themselves; the first name that it has not.
static const char *known_values(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                                const ft_subspace *subspace, bool *known, double *point) {
    int first = -1;
    for (int i = 0; i < subspace->count; i++) {
        const ft_trial_param *param =
            options->given ? ft_trial_find_param(&trials->trial[number], subspace->name[i]) : NULL;
        known[i] = param != NULL && param->distribution == subspace->distribution[i];
        if (known[i]) point[i] = param->value;
        if (!known[i] && first < 0) first = i;
    }
    return trials->names.name[subspace->name[first >= 0 ? first : 0]];
}

// weight [below->count + 1] and known [subspace->count] are scratch.
static void draw(const ft_trials *trials, const ft_tpe_options *options, int64_t number, const ft_subspace *subspace,
                 const ft_parzen *below, int *kernel, double *weight, bool *known, double *points) {
    const int width = subspace->count, candidates = options->candidates;
    // The stream carries the first name, so that parameters drawn one by one do not all take the same kernels.
    const char *first = known_values(trials, options, number, subspace, known, points);
    ft_random_stream stream = ft_random_stream_of(options->seed, number, FT_DRAW_KERNEL, first);
    if (options->given) ft_parzen_given(below, points, known, weight);
    for (int c = 0; c < candidates; c++)
        kernel[c] = ft_parzen_pick(below, options->given ? weight : below->weight, ft_random_double(&stream));
    for (int i = 0; i < width; i++) {
        stream = ft_random_stream_of(options->seed, number, FT_DRAW_CANDIDATE, trials->names.name[subspace->name[i]]);
        for (int c = 0; c < candidates; c++)
            points[c * width + i] =
                known[i] ? points[i] : ft_parzen_draw(below, i, kernel[c], ft_random_double(&stream));
    }
}

ft_status ft_tpe_draw(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                      const ft_subspace *subspace, const ft_parzen *below, double *points) {
    int *kernel = ft_calloc((size_t)options->candidates, sizeof *kernel, "candidates");
    double *weight = ft_calloc((size_t)below->count + 1, sizeof *weight, "candidates");
    bool *known = ft_calloc((size_t)subspace->count, sizeof *known, "candidates");
    bool room = kernel != NULL && weight != NULL && known != NULL;
    if (room) draw(trials, options, number, subspace, below, kernel, weight, known, points);
    free(kernel);
    free(weight);
    free(known);
    return room ? FT_OK : FT_NO_MEMORY;
}

void ft_tpe_lean(const ft_tpe_options *options, const double *points, size_t width, double *good) {
    for (int c = 0; options->lean != NULL && c < options->candidates; c++)
        good[c] += options->lean(options->lean_context, points + (size_t)c * width);
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
    ft_tpe_lean(options, points, width, density);
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

// sampler.c - the search of studies for a program that keeps trials of its own: it tells of what is new, and asks for
// values.
#include "library/engine.h"

#include "base/arena.h"
#include "base/heap.h"
#include "hpo/search/sampler.h"
#include "hpo/storage/distribution_json.h"
#include "hpo/study/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)FTENGINE_TRIAL_RUNNING == FT_RUNNING && (int)FTENGINE_TRIAL_COMPLETE == FT_COMPLETE &&
                   (int)FTENGINE_TRIAL_PRUNED == FT_PRUNED && (int)FTENGINE_TRIAL_FAILED == FT_FAIL &&
                   (int)FTENGINE_TRIAL_WAITING == FT_WAITING,
               "states are those of a history");

typedef struct ranged {
    int name, distribution;
} ranged;

struct ftengine_sampler {
    ftengine *engine;
    ft_trials trials;
    ft_sampler *sampler;
    ranged *parameters; // a pair never twice
    int count, capacity;
    int *drawn; // what ftengine_sampler_draw hands out
    double *values;
    int room;
};

// ---- a sampler ----------------------------------------------------------------------------------------------------

static ft_status read_options(int count, const char *const *words, ft_sampler_options *options) {
    ft_config config;
    FT_TRY(ft_library_check_words(count, words));
    FT_TRY(ft_study_config_load(&config, 0, NULL, count, words));
    *options = ft_study_sampler_options(ft_study_options_of(&config));
    const bool learns = ft_study_options_of(&config)->learn_from[0] != '\0';
    ft_config_free(&config);
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], "study.", 6) == 0) continue;
        ft_fail(FT_INVALID, words[i], "a sampler takes no such setting");
        ft_hint("those of [study] that are about suggesting, as study.seed=7");
        return FT_INVALID;
    }
    if (learns) return ft_fail(FT_INVALID, "study.learn_from", "is of studies of `ftengine tune`, which keep what they learnt");
    if (options->kind != FT_SAMPLER_GRID) return FT_OK;
    ft_fail(FT_INVALID, "study.sampler", "a grid needs all of its space beforehand, which is not known here");
    ft_hint("tpe, auto, gp, cmaes, random or quasi_random");
    return FT_INVALID;
}

static void close_sampler(ftengine_sampler *s) {
    ft_sampler_free(s->sampler);
    ft_trials_free(&s->trials);
    free(s->parameters);
    free(s->drawn);
    free(s->values);
    free(s);
}

static ft_status open_sampler(ftengine *engine, int objectives, const signed char *maximize, int count,
                              const char *const *words, ftengine_sampler **out) {
    ft_sampler_options options;
    FT_TRY(read_options(count, words, &options));
    if (objectives < 1 || objectives > FTENGINE_OBJECTIVES)
        return ft_fail(FT_INVALID, "objectives", "from 1 to %d, got %d", FTENGINE_OBJECTIVES, objectives);
    FT_TRY(ft_library_check_list("maximize", objectives, maximize));
    bool up[FTENGINE_OBJECTIVES];
    for (int i = 0; i < objectives; i++)
        up[i] = maximize[i] != 0;
    ftengine_sampler *s = ft_calloc(1, sizeof *s, "a sampler");
    if (s == NULL) return FT_NO_MEMORY;
    s->engine = engine;
    ft_status status = ft_trials_init(&s->trials, objectives, up);
    if (status == FT_OK) status = ft_sampler_new(&options, &s->trials, &s->sampler);
    if (status == FT_OK)
        *out = s;
    else
        close_sampler(s);
    return status;
}

int ftengine_sampler_new(ftengine *engine, int objectives, const signed char *maximize, int count,
                         const char *const *words, ftengine_sampler **sampler) {
    *sampler = NULL;
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    return ft_engine_leave(engine, open_sampler(engine, objectives, maximize, count, words, sampler));
}

int ftengine_sampler_close(ftengine_sampler *sampler) {
    if (sampler == NULL) return FTENGINE_OK;
    ftengine *engine = sampler->engine;
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    close_sampler(sampler);
    return ft_engine_leave(engine, FT_OK);
}

// ---- parameters ---------------------------------------------------------------------------------------------------

static ft_status number_of(ftengine_sampler *s, int name, int distribution, int *out) {
    for (int i = 0; i < s->count; i++)
        if (s->parameters[i].name == name && s->parameters[i].distribution == distribution) {
            *out = i;
            return FT_OK;
        }
    if (s->count == s->capacity) {
        const int wanted = 2 * s->capacity + 16;
        ranged *grown = ft_realloc(s->parameters, (size_t)wanted, sizeof *grown, "a sampler");
        if (grown == NULL) return FT_NO_MEMORY;
        s->parameters = grown;
        s->capacity = wanted;
    }
    s->parameters[s->count] = (ranged){name, distribution};
    *out = s->count++;
    return FT_OK;
}

static ft_status add_parameter(ftengine_sampler *s, const char *name, const char *json, int *out) {
    ft_arena arena = {0};
    ft_distribution distribution;
    int name_id = -1, id = -1;
    if (name == NULL || json == NULL) return ft_fail(FT_INVALID, name, "a parameter has a name and a distribution");
    ft_status status = ft_distribution_from_json(json, name, &arena, &distribution);
    if (status == FT_OK) status = ft_trials_name(&s->trials, name, &name_id);
    if (status == FT_OK) status = ft_trials_distribution(&s->trials, &distribution, &id);
    if (status == FT_OK) status = number_of(s, name_id, id, out);
    ft_arena_free(&arena);
    return status;
}

int ftengine_sampler_parameter(ftengine_sampler *sampler, const char *name, const char *distribution, int *parameter) {
    *parameter = -1;
    if (!ft_engine_enter(sampler->engine)) return FTENGINE_BUSY;
    return ft_engine_leave(sampler->engine, add_parameter(sampler, name, distribution, parameter));
}

// ---- what is told -------------------------------------------------------------------------------------------------

static const ft_distribution *distribution_of(const ftengine_sampler *s, int number) {
    return s->trials.distributions[s->parameters[number].distribution];
}
static const char *name_of(const ftengine_sampler *s, int number) {
    return s->trials.names.name[s->parameters[number].name];
}

// Before anything of it is kept.
static ft_status check_trial(const ftengine_sampler *s, const ftengine_trial *t) {
    const ft_trials *all = &s->trials;
    if (t == NULL) return ft_fail(FT_INVALID, "trial", "there is none");
    if (t->size < sizeof *t)
        return ft_fail(FT_INVALID, "trial", "its size is %zu bytes, %zu are known here", t->size, sizeof *t);
    if (t->state < FTENGINE_TRIAL_RUNNING || t->state > FTENGINE_TRIAL_WAITING)
        return ft_fail(FT_INVALID, "trial", "there is no state %d", t->state);
    if (t->number < 0 || t->number > all->count)
        return ft_fail(FT_INVALID, "trial", "numbers run from 0 without gaps: %lld is next, got %lld",
                       (long long)all->count, (long long)t->number);
    if (t->number < all->count && ft_trial_finished(all->trial[t->number].state))
        return ft_fail(FT_INVALID, "trial", "trial %lld has ended", (long long)t->number);
    FT_TRY(ft_library_check_list("parameters", t->parameter_count, t->parameters));
    FT_TRY(ft_library_check_list("parameter_values", t->parameter_count, t->parameter_values));
    FT_TRY(ft_library_check_list("values", t->value_count, t->values));
    FT_TRY(ft_library_check_list("constraints", t->constraint_count, t->constraints));
    for (int i = 0; i < t->parameter_count; i++) {
        if (t->parameters[i] < 0 || t->parameters[i] >= s->count)
            return ft_fail(FT_INVALID, "trial", "there is no parameter %d", t->parameters[i]);
        if (!ft_distribution_contains(distribution_of(s, t->parameters[i]), t->parameter_values[i]))
            return ft_fail(FT_INVALID, name_of(s, t->parameters[i]), "%g of trial %lld is not among its values",
                           t->parameter_values[i], (long long)t->number);
    }
    for (int i = 0; i < t->constraint_count; i++)
        if (isnan(t->constraints[i]))
            return ft_fail(FT_INVALID, "trial", "constraint %d of trial %lld is NaN", i, (long long)t->number);
    return FT_OK;
}

static ft_status keep_constraints(ftengine_sampler *s, const ftengine_trial *t) {
    for (int i = 0; i < t->constraint_count; i++) {
        char name[16];
        int id;
        snprintf(name, sizeof name, "%d", i);
        FT_TRY(ft_trials_constraint_name(&s->trials, name, &id));
        FT_TRY(ft_trials_set_constraint(&s->trials, t->number, id, t->constraints[i]));
    }
    return FT_OK;
}

static ft_status tell(ftengine_sampler *s, const ftengine_trial *t) {
    ft_trials *all = &s->trials;
    FT_TRY(check_trial(s, t));
    int64_t number = t->number;
    if (number == all->count)
        FT_TRY(ft_trials_append(all, t->state == FTENGINE_TRIAL_WAITING ? FT_WAITING : FT_RUNNING, &number));
    else if (all->trial[number].state == FT_WAITING && t->state != FTENGINE_TRIAL_WAITING)
        FT_TRY(ft_trials_start(all, number));
    for (int i = 0; i < t->parameter_count; i++) {
        const ranged p = s->parameters[t->parameters[i]];
        FT_TRY(ft_trials_set_param(all, number, p.name, p.distribution, t->parameter_values[i]));
    }
    FT_TRY(keep_constraints(s, t));
    if (t->step >= 0) FT_TRY(ft_trials_report(all, number, t->step, t->reported));
    const ft_trial_state state = (ft_trial_state)t->state;
    return ft_trial_finished(state) ? ft_trials_finish(all, number, state, t->values, t->value_count) : FT_OK;
}

int ftengine_sampler_tell(ftengine_sampler *sampler, const ftengine_trial *trial) {
    if (!ft_engine_enter(sampler->engine)) return FTENGINE_BUSY;
    return ft_engine_leave(sampler->engine, tell(sampler, trial));
}

// ---- what is asked ------------------------------------------------------------------------------------------------

static ft_status draw(ftengine_sampler *s, int64_t number, int *count) {
    FT_TRY(ft_sampler_draw(s->sampler, number));
    const ft_trial *trial = &s->trials.trial[number];
    if (trial->relative_count > s->room) {
        int *drawn = ft_realloc(s->drawn, (size_t)trial->relative_count, sizeof *drawn, "a sampler");
        if (drawn == NULL) return FT_NO_MEMORY;
        s->drawn = drawn;
        double *values = ft_realloc(s->values, (size_t)trial->relative_count, sizeof *values, "a sampler");
        if (values == NULL) return FT_NO_MEMORY;
        s->values = values;
        s->room = trial->relative_count;
    }
    for (int i = 0; i < trial->relative_count; i++) {
        const ft_trial_param *p = &trial->relative[i];
        FT_TRY(number_of(s, p->name, p->distribution, &s->drawn[i]));
        s->values[i] = p->value;
    }
    *count = trial->relative_count;
    return FT_OK;
}

int ftengine_sampler_draw(ftengine_sampler *sampler, int64_t number, int *count, const int **parameters,
                          const double **values) {
    *count = 0;
    if (!ft_engine_enter(sampler->engine)) return FTENGINE_BUSY;
    const ft_status status = draw(sampler, number, count);
    *parameters = sampler->drawn;
    *values = sampler->values;
    return ft_engine_leave(sampler->engine, status);
}

static ft_status suggest(ftengine_sampler *s, int64_t number, int asked, double *value) {
    if (asked < 0 || asked >= s->count) return ft_fail(FT_INVALID, "trial", "there is no parameter %d", asked);
    return ft_sampler_suggest(s->sampler, number, name_of(s, asked), distribution_of(s, asked), value);
}

int ftengine_sampler_suggest(ftengine_sampler *sampler, int64_t number, int parameter, double *value) {
    if (!ft_engine_enter(sampler->engine)) return FTENGINE_BUSY;
    return ft_engine_leave(sampler->engine, suggest(sampler, number, parameter, value));
}

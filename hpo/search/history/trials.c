#include "hpo/search/history/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ft_trial_state_name(ft_trial_state state) {
    static const char *const names[] = {"RUNNING", "COMPLETE", "PRUNED", "FAIL", "WAITING"};
    return names[state];
}

ft_status ft_trials_init(ft_trials *trials, int objectives, const bool *maximize) {
    *trials = (ft_trials){0};
    if (objectives < 1) return ft_fail(FT_INVALID, "study", "needs at least one objective, got %d", objectives);
    trials->maximize = ft_calloc((size_t)objectives, sizeof *trials->maximize, "directions");
    if (trials->maximize == NULL) return FT_NO_MEMORY;
    memcpy(trials->maximize, maximize, (size_t)objectives * sizeof *maximize);
    trials->objectives = objectives;
    return FT_OK;
}

void ft_trials_free(ft_trials *trials) {
    for (int64_t i = 0; i < trials->count; i++) {
        ft_trial *t = &trials->trial[i];
        free(t->values);
        free(t->params);
        free(t->relative);
        free(t->reports);
        free(t->constraints);
        free(t->rungs);
    }
    free(trials->trial);
    free(trials->maximize);
    free(trials->names.name);
    free(trials->constraint_names.name);
    free(trials->distributions);
    ft_arena_free(&trials->arena);
    *trials = (ft_trials){0};
}

// Room for one more element. Doubles, so that appending stays linear.
static ft_status reserve(void **array, int count, int *capacity, size_t size) {
    if (count < *capacity) return FT_OK;
    int wanted = *capacity > 0 ? 2 * *capacity : 4;
    void *grown = ft_realloc(*array, (size_t)wanted, size, "trials");
    if (grown == NULL) return FT_NO_MEMORY;
    *array = grown;
    *capacity = wanted;
    return FT_OK;
}

// ---- Names and distributions ------------------------------------------------------------------------------------

static int find(const ft_names *names, const char *name) {
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->name[i], name) == 0) return i;
    return -1;
}

static ft_status intern(ft_trials *trials, ft_names *names, const char *name, int *id) {
    *id = find(names, name);
    if (*id >= 0) return FT_OK;
    FT_TRY(reserve((void **)&names->name, names->count, &names->capacity, sizeof *names->name));
    const char *copy = ft_arena_strdup(&trials->arena, name);
    if (copy == NULL) return FT_NO_MEMORY;
    names->name[names->count] = copy;
    *id = names->count++;
    return FT_OK;
}

int ft_trials_find_name(const ft_trials *trials, const char *name) { return find(&trials->names, name); }

ft_status ft_trials_name(ft_trials *trials, const char *name, int *id) {
    return intern(trials, &trials->names, name, id);
}

ft_status ft_trials_constraint_name(ft_trials *trials, const char *name, int *id) {
    return intern(trials, &trials->constraint_names, name, id);
}

ft_status ft_trials_distribution(ft_trials *trials, const ft_distribution *distribution, int *id) {
    for (int i = 0; i < trials->distribution_count; i++)
        if (ft_distribution_equal(trials->distributions[i], distribution)) {
            *id = i;
            return FT_OK;
        }
    FT_TRY(reserve((void **)&trials->distributions, trials->distribution_count, &trials->distribution_capacity,
                   sizeof *trials->distributions));
    ft_distribution *copy = ft_arena_alloc(&trials->arena, sizeof *copy);
    if (copy == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_distribution_copy(&trials->arena, distribution, copy));
    trials->distributions[trials->distribution_count] = copy;
    *id = trials->distribution_count++;
    return FT_OK;
}

// ---- Changes ----------------------------------------------------------------------------------------------------

static void changed(ft_trials *trials, ft_trial *trial) {
    trial->revision++;
    trials->revision++;
}

static ft_status unfinished(ft_trials *trials, int64_t number, ft_trial **trial) {
    if (number < 0 || number >= trials->count)
        return ft_fail(FT_FAILED, "study", "there is no trial %lld", (long long)number);
    *trial = &trials->trial[number];
    if (ft_trial_finished((*trial)->state))
        return ft_fail(FT_FAILED, "study", "trial %lld is %s and cannot change", (long long)number,
                       ft_trial_state_name((*trial)->state));
    return FT_OK;
}

ft_status ft_trials_append(ft_trials *trials, ft_trial_state state, int64_t *number) {
    if (ft_trial_finished(state)) return ft_fail(FT_FAILED, "study", "a new trial is RUNNING or WAITING");
    if (trials->count == trials->capacity) {
        int64_t wanted = trials->capacity > 0 ? 2 * trials->capacity : 64;
        ft_trial *grown = ft_realloc(trials->trial, (size_t)wanted, sizeof *grown, "trials");
        if (grown == NULL) return FT_NO_MEMORY;
        trials->trial = grown;
        trials->capacity = wanted;
    }
    *number = trials->count++;
    ft_trial *trial = &trials->trial[*number];
    *trial = (ft_trial){.number = *number, .state = state};
    trials->states++;
    changed(trials, trial);
    return FT_OK;
}

ft_status ft_trials_start(ft_trials *trials, int64_t number) {
    ft_trial *trial = NULL;
    FT_TRY(unfinished(trials, number, &trial));
    trial->state = FT_RUNNING;
    trials->states++;
    changed(trials, trial);
    return FT_OK;
}

static ft_status put_param(ft_trial_param **list, int *count, int *capacity, ft_trial_param param) {
    for (int i = 0; i < *count; i++)
        if ((*list)[i].name == param.name) {
            (*list)[i] = param;
            return FT_OK;
        }
    FT_TRY(reserve((void **)list, *count, capacity, sizeof **list));
    (*list)[(*count)++] = param;
    return FT_OK;
}

ft_status ft_trials_set_param(ft_trials *trials, int64_t number, int name, int distribution, double value) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    FT_TRY(put_param(&t->params, &t->param_count, &t->param_capacity, (ft_trial_param){name, distribution, value}));
    changed(trials, t);
    return FT_OK;
}

ft_status ft_trials_set_relative(ft_trials *trials, int64_t number, int name, int distribution, double value) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    FT_TRY(put_param(&t->relative, &t->relative_count, &t->relative_capacity,
                     (ft_trial_param){name, distribution, value}));
    changed(trials, t);
    return FT_OK;
}

ft_status ft_trials_forget_relative(ft_trials *trials, int64_t number) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    t->relative_count = 0;
    changed(trials, t);
    return FT_OK;
}

ft_status ft_trials_set_constraint(ft_trials *trials, int64_t number, int name, double value) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    if (isnan(value))
        return ft_fail(FT_INVALID, trials->constraint_names.name[name], "a constraint cannot be NaN (trial %lld)",
                       (long long)number);
    int i = 0;
    while (i < t->constraint_count && t->constraints[i].name != name)
        i++;
    if (i == t->constraint_count) {
        FT_TRY(reserve((void **)&t->constraints, i, &t->constraint_capacity, sizeof *t->constraints));
        t->constraint_count++;
    }
    t->constraints[i] = (ft_trial_constraint){name, value};
    changed(trials, t);
    return FT_OK;
}

ft_status ft_trials_report(ft_trials *trials, int64_t number, int64_t step, double value) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    if (step < 0) return ft_fail(FT_INVALID, "report", "a step must be at least 0, got %lld", (long long)step);
    int i = t->report_count;
    while (i > 0 && t->reports[i - 1].step > step)
        i--;
    if (i > 0 && t->reports[i - 1].step == step) return FT_OK;
    FT_TRY(reserve((void **)&t->reports, t->report_count, &t->report_capacity, sizeof *t->reports));
    memmove(t->reports + i + 1, t->reports + i, (size_t)(t->report_count - i) * sizeof *t->reports);
    t->reports[i] = (ft_trial_report){step, value};
    t->report_count++;
    changed(trials, t);
    return FT_OK;
}

ft_status ft_trials_add_rung(ft_trials *trials, int64_t number, double value) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    FT_TRY(reserve((void **)&t->rungs, t->rung_count, &t->rung_capacity, sizeof *t->rungs));
    t->rungs[t->rung_count++] = value;
    changed(trials, t);
    return FT_OK;
}

ft_status ft_trials_finish(ft_trials *trials, int64_t number, ft_trial_state state, const double *values, int count) {
    ft_trial *t = NULL;
    FT_TRY(unfinished(trials, number, &t));
    if (!ft_trial_finished(state))
        return ft_fail(FT_FAILED, "study", "%s is no final state", ft_trial_state_name(state));
    bool fits = state == FT_COMPLETE ? count == trials->objectives
                                     : count == 0 || (state == FT_PRUNED && count == 1 && trials->objectives == 1);
    if (!fits)
        return ft_fail(FT_FAILED, "study", "trial %lld cannot end as %s with %d values (%d objectives)",
                       (long long)number, ft_trial_state_name(state), count, trials->objectives);
    for (int i = 0; i < count; i++)
        if (isnan(values[i])) return ft_fail(FT_INVALID, "study", "the value of trial %lld is NaN", (long long)number);
    if (count > 0) {
        t->values = ft_calloc((size_t)count, sizeof *values, "values of a trial");
        if (t->values == NULL) return FT_NO_MEMORY;
        memcpy(t->values, values, (size_t)count * sizeof *values);
        t->value_count = count;
    }
    t->state = state;
    trials->finished += state != FT_FAIL;
    trials->failed += state == FT_FAIL;
    trials->states++;
    changed(trials, t);
    return FT_OK;
}

// ---- Questions --------------------------------------------------------------------------------------------------

static const ft_trial_param *find_param(const ft_trial_param *list, int count, int name) {
    for (int i = 0; i < count; i++)
        if (list[i].name == name) return &list[i];
    return NULL;
}

const ft_trial_param *ft_trial_find_param(const ft_trial *trial, int name) {
    return find_param(trial->params, trial->param_count, name);
}

const ft_trial_param *ft_trial_find_relative(const ft_trial *trial, int name) {
    return find_param(trial->relative, trial->relative_count, name);
}

double ft_trial_violation(const ft_trial *trial) {
    double sum = 0;
    for (int i = 0; i < trial->constraint_count; i++)
        if (trial->constraints[i].value > 0) sum += trial->constraints[i].value;
    return sum;
}

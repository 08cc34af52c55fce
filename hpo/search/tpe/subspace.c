#include "hpo/search/tpe/subspace.h"

#include <stdlib.h>
#include <string.h>

typedef struct ft_subspace_name {
    int64_t trials, first; // how many finished trials have it; the lowest number among them
    int distribution;      // of that trial
    bool mixed;            // seen with several distributions
    int group;
    ft_trial_param *companions; // every finished trial with this name has these too, with these distributions; the name
    int companion_count;        // itself among them. Values mean nothing
} name_state;

void ft_subspaces_free(ft_subspaces *s) {
    for (int n = 0; n < s->name_count; n++)
        free(s->names[n].companions);
    free(s->names);
    free(s->seen);
    *s = (ft_subspaces){0};
}

void ft_subspace_free(ft_subspace *subspace) {
    free(subspace->name);
    free(subspace->distribution);
    *subspace = (ft_subspace){0};
}

static bool in_trial(const ft_trial *trial, int name) { return ft_trial_find_param(trial, name) != NULL; }

// Splits every group that the trial has only a part of; its new names form one group of their own.
static void regroup(ft_subspaces *s, const ft_trial *trial) {
    int fresh = -1;
    for (int i = 0; i < trial->param_count; i++) {
        name_state *state = &s->names[trial->params[i].name];
        if (state->trials > 0) continue;
        if (fresh < 0) fresh = s->groups++;
        state->group = fresh;
    }
    for (int i = 0; i < trial->param_count; i++) {
        int group = s->names[trial->params[i].name].group;
        if (group == fresh) continue;
        bool whole = true;
        for (int n = 0; n < s->name_count && whole; n++)
            whole = s->names[n].group != group || s->names[n].trials == 0 || in_trial(trial, n);
        if (whole) continue;
        int part = s->groups++;
        for (int j = 0; j < trial->param_count; j++) {
            name_state *state = &s->names[trial->params[j].name];
            if (state->group == group && state->trials > 0) state->group = part;
        }
    }
}

static ft_status keep_companions(name_state *state, const ft_trial *trial) {
    if (state->trials == 0) {
        state->companions = ft_calloc((size_t)trial->param_count, sizeof *state->companions, "parameters");
        if (state->companions == NULL) return FT_NO_MEMORY;
        memcpy(state->companions, trial->params, (size_t)trial->param_count * sizeof *state->companions);
        state->companion_count = trial->param_count;
        return FT_OK;
    }
    int kept = 0;
    for (int i = 0; i < state->companion_count; i++) {
        const ft_trial_param *there = ft_trial_find_param(trial, state->companions[i].name);
        if (there != NULL && there->distribution == state->companions[i].distribution)
            state->companions[kept++] = state->companions[i];
    }
    state->companion_count = kept;
    return FT_OK;
}

static ft_status take_in(ft_subspaces *s, const ft_trial *trial) {
    regroup(s, trial);
    for (int i = 0; i < trial->param_count; i++)
        FT_TRY(keep_companions(&s->names[trial->params[i].name], trial));
    for (int i = 0; i < trial->param_count; i++) {
        name_state *state = &s->names[trial->params[i].name];
        int distribution = trial->params[i].distribution;
        if (state->trials > 0 && distribution != state->distribution) state->mixed = true;
        if (state->trials == 0 || trial->number < state->first) {
            state->first = trial->number;
            state->distribution = distribution;
        }
        state->trials++;
    }
    s->finished++;
    return FT_OK;
}

ft_status ft_subspaces_update(ft_subspaces *s, const ft_trials *trials) {
    if (trials->names.count > s->name_count) {
        name_state *names = ft_realloc(s->names, (size_t)trials->names.count, sizeof *names, "parameters");
        if (names == NULL) return FT_NO_MEMORY;
        memset(names + s->name_count, 0, (size_t)(trials->names.count - s->name_count) * sizeof *names);
        s->names = names;
        s->name_count = trials->names.count;
    }
    if (trials->count > s->seen_count) {
        int64_t room = 2 * trials->count;
        bool *seen = ft_realloc(s->seen, (size_t)room, sizeof *seen, "trials");
        if (seen == NULL) return FT_NO_MEMORY;
        memset(seen + s->seen_count, 0, (size_t)(room - s->seen_count) * sizeof *seen);
        s->seen = seen;
        s->seen_count = room;
    }
    bool in_front = true;
    for (int64_t i = s->first_unseen; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (!s->seen[i] && ft_trial_finished(trial->state)) {
            s->seen[i] = true;
            if (trial->state != FT_FAIL) FT_TRY(take_in(s, trial));
        }
        in_front = in_front && s->seen[i];
        if (in_front) s->first_unseen = i + 1;
    }
    return FT_OK;
}

// Appends a parameter where its name belongs; byte order of UTF-8 is the code point order that Optuna sorts by.
static ft_status add(ft_subspace *out, const ft_trials *trials, int name, int distribution) {
    if (ft_distribution_single(trials->distributions[distribution])) return FT_OK;
    int *names = ft_realloc(out->name, (size_t)out->count + 1, sizeof *names, "parameters");
    if (names == NULL) return FT_NO_MEMORY;
    out->name = names;
    int *distributions = ft_realloc(out->distribution, (size_t)out->count + 1, sizeof *distributions, "parameters");
    if (distributions == NULL) return FT_NO_MEMORY;
    out->distribution = distributions;
    int at = out->count++;
    for (; at > 0 && strcmp(trials->names.name[name], trials->names.name[names[at - 1]]) < 0; at--) {
        names[at] = names[at - 1];
        distributions[at] = distributions[at - 1];
    }
    names[at] = name;
    distributions[at] = distribution;
    return FT_OK;
}

ft_status ft_subspaces_joint(const ft_subspaces *s, const ft_trials *trials, ft_subspace *out) {
    *out = (ft_subspace){0};
    for (int n = 0; n < s->name_count; n++)
        if (s->finished > 0 && s->names[n].trials == s->finished && !s->names[n].mixed)
            FT_TRY(add(out, trials, n, s->names[n].distribution));
    return FT_OK;
}

bool ft_subspaces_all_numbers(const ft_subspaces *s, const ft_trials *trials) {
    int numbers = 0;
    for (int n = 0; n < s->name_count; n++) {
        const name_state *state = &s->names[n];
        if (state->trials == 0) continue;
        const ft_distribution *d = trials->distributions[state->distribution];
        if (ft_distribution_single(d) && !state->mixed) continue;
        if (state->trials < s->finished || state->mixed || d->kind == FT_CATEGORICAL) return false;
        numbers++;
    }
    return numbers >= 2;
}

ft_status ft_subspaces_group(const ft_subspaces *s, const ft_trials *trials, int group, ft_subspace *out) {
    *out = (ft_subspace){0};
    for (int n = 0; n < s->name_count; n++)
        if (s->names[n].trials > 0 && s->names[n].group == group) FT_TRY(add(out, trials, n, s->names[n].distribution));
    return FT_OK;
}

ft_status ft_subspaces_branch(const ft_subspaces *s, const ft_trials *trials, int64_t number, int name,
                              int distribution, ft_subspace *out) {
    *out = (ft_subspace){0};
    if (name >= s->name_count || s->names[name].trials == 0) return FT_OK;
    const name_state *state = &s->names[name];
    bool same = false;
    for (int i = 0; i < state->companion_count; i++)
        same = same || (state->companions[i].name == name && state->companions[i].distribution == distribution);
    for (int i = 0; same && i < state->companion_count; i++) {
        const ft_trial_param *c = &state->companions[i], *known = ft_trial_find_param(&trials->trial[number], c->name);
        if (known == NULL || known->distribution == c->distribution) FT_TRY(add(out, trials, c->name, c->distribution));
    }
    return FT_OK;
}

bool ft_subspace_values(const ft_subspace *subspace, const ft_trial *trial, bool announced, double *values) {
    for (int i = 0; i < subspace->count; i++) {
        const ft_trial_param *param = ft_trial_find_param(trial, subspace->name[i]);
        if (param == NULL && announced && trial->state == FT_RUNNING)
            param = ft_trial_find_relative(trial, subspace->name[i]);
        if (param == NULL) return false;
        values[i] = param->value;
    }
    return true;
}

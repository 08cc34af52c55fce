#include "hpo/report/summary.h"

#include "hpo/report/view.h"
#include "hpo/search/importance.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ft_fate_name(ft_fate fate) {
    static const char *const names[FT_FATES] = {"complete", "infeasible", "pruned", "out of memory",
                                                "failed",   "running",    "waiting"};
    return names[fate];
}

// ---- trials ---------------------------------------------------------------------------------------------------------

// What is no JSON was written by nobody we know, and is passed over: *value NULL.
static ft_status parse(const char *json, json_t **value) {
    ft_status status = ft_pyjson_parse(json, "an attribute", value);
    if (status == FT_OK) return FT_OK;
    *value = NULL;
    if (status == FT_INVALID) ft_error_clear();
    return status == FT_INVALID ? FT_OK : status;
}

static ft_status take_number(const char *json, double *out) {
    json_t *parsed;
    double value = NAN;
    FT_TRY(parse(json, &parsed));
    *out = parsed != NULL && ft_pyjson_number(parsed, &value) && isfinite(value) && value >= 0 ? value : NAN;
    json_decref(parsed);
    return FT_OK;
}

static ft_status take_text(const char *json, ft_arena *arena, const char **text) {
    json_t *parsed;
    FT_TRY(parse(json, &parsed));
    const char *given = json_string_value(parsed);
    if (given != NULL) *text = ft_arena_strdup(arena, given);
    ft_status status = given != NULL && *text == NULL ? FT_NO_MEMORY : FT_OK;
    json_decref(parsed);
    return status;
}

static ft_status take_attribute(const ft_attribute *a, ft_arena *arena, ft_report_trial *t, bool *oom) {
    if (strcmp(a->key, "oom") == 0) *oom = strcmp(a->json, "true") == 0;
    if (strcmp(a->key, "peak_memory_bytes") == 0) return take_number(a->json, &t->measured);
    if (strcmp(a->key, "planned.peak_reserved_bytes") == 0 || strcmp(a->key, "memory.needed_bytes") == 0)
        return take_number(a->json, &t->planned);
    if (strcmp(a->key, "device") == 0) return take_text(a->json, arena, &t->device);
    if (strcmp(a->key, "error") == 0) return take_text(a->json, arena, &t->error);
    return FT_OK;
}

static ft_fate fate_of(const ft_trial *t, bool oom) {
    switch (t->state) {
    case FT_COMPLETE: return ft_trial_feasible(t) ? FT_FATE_COMPLETE : FT_FATE_INFEASIBLE;
    case FT_PRUNED: return oom ? FT_FATE_OOM : FT_FATE_PRUNED;
    case FT_FAIL: return FT_FATE_FAILED;
    case FT_RUNNING: return FT_FATE_RUNNING;
    default: return FT_FATE_WAITING;
    }
}

static ft_status take_trial(ft_stored *study, int64_t number, ft_arena *arena, ft_report_trial *t) {
    ft_arena scratch = {0};
    ft_attribute *attributes;
    int count;
    bool oom = false;
    *t = (ft_report_trial){.trial = &study->trials.trial[number], .planned = NAN, .measured = NAN};
    ft_status status = ft_stored_attributes(study, number, FT_USER_ATTRIBUTE, &scratch, &attributes, &count);
    for (int i = 0; status == FT_OK && i < count; i++)
        status = take_attribute(&attributes[i], arena, t, &oom);
    ft_arena_free(&scratch);
    t->fate = fate_of(t->trial, oom);
    return status;
}

// From microseconds of the calendar to seconds of the study.
static ft_status take_times(ft_stored *study, ft_arena *arena, ft_summary *s) {
    int64_t first = -1, *times = ft_arena_alloc(arena, 2 * (size_t)(s->count + 1) * sizeof *times);
    if (times == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < s->count; i++) {
        FT_TRY(ft_stored_times(study, i, &times[2 * i], &times[2 * i + 1]));
        if (times[2 * i] >= 0 && (first < 0 || times[2 * i] < first)) first = times[2 * i];
    }
    s->undated = true;
    for (int64_t i = 0; i < s->count; i++) {
        ft_report_trial *t = &s->trials[i];
        t->start = times[2 * i] >= 0 ? (double)(times[2 * i] - first) * 1e-6 : NAN;
        t->end = times[2 * i + 1] >= first && first >= 0 ? (double)(times[2 * i + 1] - first) * 1e-6 : NAN;
        if (!(t->end >= t->start)) continue;
        s->undated = false;
        s->seconds = fmax(s->seconds, t->end);
        s->busy += t->end - t->start;
    }
    return FT_OK;
}

static ft_status take_trials(ft_stored *study, ft_arena *arena, ft_summary *s) {
    s->count = study->trials.count;
    s->trials = ft_arena_alloc(arena, (size_t)(s->count + 1) * sizeof *s->trials);
    s->front = ft_arena_alloc(arena, (size_t)(s->count + 1) * sizeof *s->front);
    if (s->trials == NULL || s->front == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < s->count; i++) {
        FT_TRY(take_trial(study, i, arena, &s->trials[i]));
        s->fates[s->trials[i].fate]++;
    }
    FT_TRY(ft_study_front(&study->trials, s->front, &s->front_count));
    for (int64_t i = 0; i < s->front_count; i++)
        s->trials[s->front[i]].front = true;
    return take_times(study, arena, s);
}

// ---- who is better --------------------------------------------------------------------------------------------------

typedef struct ranked {
    double loss;
    int64_t number;
} ranked;

static int by_loss(const void *a, const void *b) {
    const ranked *p = a, *q = b;
    return (p->loss > q->loss) - (p->loss < q->loss);
}

static ft_status take_shares(ft_arena *arena, ft_summary *s) {
    const int objectives = s->study->objectives;
    s->share = ft_arena_alloc(arena, (size_t)(s->count * objectives + 1) * sizeof *s->share);
    ranked *list = ft_calloc((size_t)s->count + 1, sizeof *list, "the order of trials");
    for (int o = 0; o < objectives && s->share != NULL && list != NULL; o++) {
        int64_t count = 0;
        for (int64_t i = 0; i < s->count; i++) {
            double value = ft_report_value(s, i, o);
            s->share[o * s->count + i] = NAN;
            if (!isnan(value)) list[count++] = (ranked){s->study->maximize[o] ? -value : value, i};
        }
        qsort(list, (size_t)count, sizeof *list, by_loss);
        for (int64_t k = 0, first = 0; k < count; k++) {
            if (list[k].loss != list[first].loss) first = k; // equal ones have one share
            s->share[o * s->count + list[k].number] = count > 1 ? (double)first / (double)(count - 1) : 0;
        }
    }
    free(list);
    return s->share != NULL && list != NULL ? FT_OK : FT_NO_MEMORY;
}

// ---- parameters -----------------------------------------------------------------------------------------------------

static ft_status choices_axis(const ft_distribution *d, ft_arena *arena, ft_axis *axis) {
    const char **texts = ft_arena_alloc(arena, (size_t)d->choice_count * sizeof *texts);
    for (int i = 0; texts != NULL && i < d->choice_count; i++)
        if ((texts[i] = ft_study_param_text(arena, d, i)) == NULL) return FT_NO_MEMORY;
    if (texts != NULL) *axis = ft_axis_of_choices(texts, d->choice_count);
    return texts != NULL ? FT_OK : FT_NO_MEMORY;
}

// A range may have been changed on the way, and a value of another program's may lie beside it.
static ft_status take_param(const ft_trials *trials, int name, ft_arena *arena, ft_report_param *p) {
    double low = INFINITY, high = -INFINITY, first = NAN;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial_param *param = ft_trial_find_param(&trials->trial[i], name);
        if (param == NULL || !isfinite(param->value)) continue;
        p->distribution = trials->distributions[param->distribution];
        low = fmin(low, fmin(p->distribution->low, param->value));
        high = fmax(high, fmax(p->distribution->high, param->value));
        p->varies |= p->trials++ > 0 && param->value != first;
        if (p->trials == 1) first = param->value;
    }
    if (p->distribution == NULL) return FT_OK;
    if (p->distribution->kind == FT_CATEGORICAL) return choices_axis(p->distribution, arena, &p->axis);
    p->axis = ft_axis_around(p->distribution->log ? FT_SCALE_LOG : FT_SCALE_LINEAR,
                             p->distribution->kind == FT_INT ? FT_UNIT_STEPS : FT_UNIT_NUMBER, low, high);
    return FT_OK;
}

static int more_important(const void *a, const void *b) {
    const ft_report_param *p = a, *q = b;
    if (p->varies != q->varies) return q->varies - p->varies;
    if (p->importance != q->importance) return p->importance < q->importance ? 1 : -1;
    return p->name - q->name;
}

static ft_status take_params(ft_arena *arena, ft_summary *s) {
    const ft_trials *trials = s->study;
    const size_t names = (size_t)trials->names.count + 1;
    const int each = trials->objectives > 1 ? trials->objectives : 0;
    double *importance = ft_arena_alloc(arena, (size_t)(1 + each) * names * sizeof *importance);
    s->params = ft_arena_alloc(arena, (size_t)(trials->names.count + 1) * sizeof *s->params);
    if (importance == NULL || s->params == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_importance(trials, FT_ALL_OBJECTIVES, importance));
    for (int o = 0; o < each; o++)
        FT_TRY(ft_importance(trials, o, importance + (size_t)(1 + o) * names));
    for (int i = 0; i < trials->names.count; i++) {
        ft_report_param *p = &s->params[s->param_count];
        *p = (ft_report_param){.name = i, .text = trials->names.name[i], .importance = importance[i]};
        if (each > 0 && (p->alone = ft_arena_alloc(arena, (size_t)each * sizeof *p->alone)) == NULL) return FT_NO_MEMORY;
        for (int o = 0; o < each; o++)
            p->alone[o] = importance[(size_t)(1 + o) * names + (size_t)i];
        FT_TRY(take_param(trials, i, arena, p));
        s->varying += p->varies;
        s->param_count += p->distribution != NULL;
    }
    qsort(s->params, (size_t)s->param_count, sizeof *s->params, more_important);
    return FT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static ft_status take_settings(const char *directory, ft_arena *arena, ft_summary *s) {
    ft_report_settings settings;
    FT_TRY(ft_report_settings_load(directory, s->study->objectives, arena, &settings));
    s->memory_over = (double)settings.memory_over;
    return ft_study_belief_of(s->study, &settings, arena, &s->belief);
}

ft_status ft_summary_make(ft_stored *study, const char *directory, ft_arena *arena, ft_summary *out) {
    *out = (ft_summary){.study = &study->trials, .name = study->name};
    FT_TRY(ft_study_objectives(study, arena, &out->objectives));
    FT_TRY(take_trials(study, arena, out));
    FT_TRY(take_shares(arena, out));
    FT_TRY(take_params(arena, out));
    FT_TRY(ft_sharing_load(study, arena, &out->sharing, &out->sharing_count));
    return take_settings(directory, arena, out);
}

double ft_report_value(const ft_summary *s, int64_t number, int objective) {
    const ft_trial *t = s->trials[number].trial;
    return t->state == FT_COMPLETE && objective < t->value_count && isfinite(t->values[objective])
               ? t->values[objective]
               : NAN;
}

double ft_report_pruned_at(const ft_summary *s, int64_t number) {
    const ft_trial *t = s->trials[number].trial;
    bool one = t->state == FT_PRUNED && t->value_count == 1 && s->study->objectives == 1 && isfinite(t->values[0]);
    return one ? t->values[0] : NAN;
}

double ft_report_param_value(const ft_summary *s, int64_t number, const ft_report_param *param) {
    const ft_trial_param *p = ft_trial_find_param(s->trials[number].trial, param->name);
    return p != NULL && isfinite(p->value) ? p->value : NAN;
}

int ft_report_class(const ft_summary *s, int64_t number, int objective) {
    double share = s->share[objective * s->count + number];
    return isnan(share) ? 0 : 9 - (int)fmin(share * 10, 9);
}

bool ft_report_over_memory(const ft_summary *s, int64_t number) {
    return s->memory_over > 0 && s->trials[number].measured > s->memory_over;
}

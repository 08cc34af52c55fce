// journal_state.c - what the studies of a journal are after all of its changes.
#include "hpo/storage/journal.h"

#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool grow(void *list, int64_t count, int64_t *capacity, size_t size) {
    void *items;
    if (count < *capacity) return true;
    const int64_t wanted = *capacity > 0 ? 2 * *capacity : 16;
    memcpy(&items, list, sizeof items); // a pointer to whatever it is
    void *grown = ft_realloc(items, (size_t)wanted, size, "a journal");
    if (grown == NULL) return false;
    memcpy(list, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

ft_journal_trial *ft_journal_trial_at(ft_journal_state *s, int64_t id) {
    return id >= 0 && id < s->trial_count ? &s->trials[id] : NULL;
}

ft_journal_study *ft_journal_study_at(ft_journal_state *s, int64_t id) {
    return id >= 0 && id < s->study_count && s->studies[id].name != NULL ? &s->studies[id] : NULL;
}

static ft_status set_pair(ft_journal_pairs *pairs, const char *key, const char *json, double value) {
    int at = 0;
    int64_t capacity = pairs->capacity;
    while (at < pairs->count && strcmp(pairs->pair[at].key, key) != 0)
        at++;
    char *text = strdup(json), *name = at == pairs->count ? strdup(key) : NULL;
    if (text == NULL || (at == pairs->count && name == NULL) ||
        !grow(&pairs->pair, pairs->count, &capacity, sizeof *pairs->pair)) {
        free(text);
        free(name);
        return ft_fail_memory(strlen(json), "a journal");
    }
    pairs->capacity = (int)capacity;
    if (at == pairs->count) pairs->pair[pairs->count++] = (ft_journal_pair){.key = name};
    free(pairs->pair[at].json);
    pairs->pair[at].json = text;
    pairs->pair[at].value = value;
    return FT_OK;
}

static ft_status set_report(ft_journal_trial *t, int64_t step, double value) {
    int64_t capacity = t->report_capacity;
    int at = t->report_count;
    while (at > 0 && t->reports[at - 1].step >= step)
        at--;
    if (at < t->report_count && t->reports[at].step == step) {
        t->reports[at].value = value;
        return FT_OK;
    }
    if (!grow(&t->reports, t->report_count, &capacity, sizeof *t->reports)) return FT_NO_MEMORY;
    t->report_capacity = (int)capacity;
    memmove(t->reports + at + 1, t->reports + at, (size_t)(t->report_count - at) * sizeof *t->reports);
    t->reports[at] = (ft_journal_report){step, value};
    t->report_count++;
    return FT_OK;
}

static ft_status set_values(ft_journal_trial *t, const ft_journal_change *c) {
    if (c->values == NULL) return FT_OK;
    double *values = ft_realloc(t->values, (size_t)c->value_count + 1, sizeof *values, "a journal");
    if (values == NULL) return FT_NO_MEMORY;
    t->values = values;
    t->value_count = c->value_count;
    memcpy(values, c->values, (size_t)c->value_count * sizeof *values);
    return FT_OK;
}

static ft_status create_study(ft_journal_state *s, const ft_journal_change *c) {
    for (int64_t i = 0; i < s->study_count; i++)
        if (s->studies[i].name != NULL && strcmp(s->studies[i].name, c->key) == 0)
            return FT_OK; // whoever came second was told so
    if (!grow(&s->studies, s->study_count, &s->study_capacity, sizeof *s->studies)) return FT_NO_MEMORY;
    ft_journal_study *study = &s->studies[s->study_count];
    *study = (ft_journal_study){.name = strdup(c->key), .objectives = c->objectives};
    if (study->name == NULL) return ft_fail_memory(0, "a journal");
    memcpy(study->maximize, c->maximize, (size_t)c->objectives * sizeof *study->maximize);
    s->study_count++;
    return FT_OK;
}

// ---- trials that were added whole -----------------------------------------------------------------------------------

static ft_status add_params(ft_journal_trial *t, const json_t *root, const char *where) {
    json_t *params = json_object_get(root, "params");
    const json_t *distributions = json_object_get(root, "distributions");
    for (void *at = json_object_iter(params); at != NULL; at = json_object_iter_next(params, at)) {
        double value;
        const char *name = json_object_iter_key(at), *json = json_string_value(json_object_get(distributions, name));
        if (json == NULL || !ft_pyjson_number(json_object_iter_value(at), &value))
            return ft_fail(FT_INVALID, where, "not a line of a journal of studies: a parameter");
        FT_TRY(set_pair(&t->params, name, json, value));
    }
    return FT_OK;
}

static ft_status add_attributes(ft_journal_pairs *pairs, json_t *object) {
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        char *text;
        FT_TRY(ft_pyjson_text(json_object_iter_value(at), &text));
        ft_status status = set_pair(pairs, json_object_iter_key(at), text, 0);
        free(text);
        FT_TRY(status);
    }
    return FT_OK;
}

static ft_status add_reports(ft_journal_trial *t, const json_t *root, const char *where) {
    json_t *reports = json_object_get(root, "intermediate_values");
    for (void *at = json_object_iter(reports); at != NULL; at = json_object_iter_next(reports, at)) {
        double value;
        char *end;
        const char *key = json_object_iter_key(at);
        const int64_t step = strtoll(key, &end, 10);
        if (*key == '\0' || *end != '\0' || step < 0 || !ft_pyjson_number(json_object_iter_value(at), &value))
            return ft_fail(FT_INVALID, where, "not a line of a journal of studies: intermediate_values");
        FT_TRY(set_report(t, step, value));
    }
    return FT_OK;
}

static ft_status create_trial(ft_journal_state *s, const ft_journal_change *c, const char *where) {
    ft_journal_study *study = ft_journal_study_at(s, c->id);
    if (study == NULL) return FT_OK;
    if (!grow(&s->trials, s->trial_count, &s->trial_capacity, sizeof *s->trials) ||
        !grow(&study->trials, study->trial_count, &study->trial_capacity, sizeof *study->trials))
        return FT_NO_MEMORY;
    ft_journal_trial *t = &s->trials[s->trial_count];
    *t =
        (ft_journal_trial){.study = c->id, .number = study->trial_count, .state = c->has_state ? c->state : FT_RUNNING};
    memcpy(t->start, c->start, sizeof t->start);
    memcpy(t->complete, c->complete, sizeof t->complete);
    study->trials[study->trial_count++] = s->trial_count++;
    FT_TRY(set_values(t, c));
    if (c->template_ == NULL) return FT_OK;
    FT_TRY(add_params(t, c->template_, where));
    FT_TRY(add_reports(t, c->template_, where));
    FT_TRY(add_attributes(&t->attributes[FT_USER_ATTRIBUTE], json_object_get(c->template_, "user_attrs")));
    return add_attributes(&t->attributes[FT_SYSTEM_ATTRIBUTE], json_object_get(c->template_, "system_attrs"));
}

// ---- changes of a trial ---------------------------------------------------------------------------------------------

static ft_status set_state(ft_journal_trial *t, const ft_journal_change *c) {
    if (c->state == FT_RUNNING && t->state == FT_RUNNING) return FT_OK; // another program was faster
    if (c->state == FT_RUNNING) memcpy(t->start, c->start, sizeof t->start);
    if (ft_trial_finished(c->state)) memcpy(t->complete, c->complete, sizeof t->complete);
    t->state = c->state;
    return set_values(t, c);
}

ft_status ft_journal_apply(ft_journal_state *s, const ft_journal_change *c, const char *where) {
    ft_journal_study *study = ft_journal_study_at(s, c->id);
    ft_journal_trial *t = ft_journal_trial_at(s, c->id);
    switch (c->op) {
    case FT_JOURNAL_CREATE_STUDY: return create_study(s, c);
    case FT_JOURNAL_DELETE_STUDY:
        if (study == NULL) return FT_OK;
        free(study->name);
        study->name = NULL;
        return FT_OK;
    case FT_JOURNAL_STUDY_USER:
        return study != NULL ? set_pair(&study->attributes[FT_USER_ATTRIBUTE], c->key, c->json, 0) : FT_OK;
    case FT_JOURNAL_STUDY_SYSTEM:
        return study != NULL ? set_pair(&study->attributes[FT_SYSTEM_ATTRIBUTE], c->key, c->json, 0) : FT_OK;
    case FT_JOURNAL_CREATE_TRIAL: return create_trial(s, c, where);
    case FT_JOURNAL_DISCARD: return FT_OK;
    default: break;
    }
    if (t == NULL || ft_trial_finished(t->state)) return FT_OK;
    switch (c->op) {
    case FT_JOURNAL_PARAM: return set_pair(&t->params, c->key, c->json, c->value);
    case FT_JOURNAL_STATE: return set_state(t, c);
    case FT_JOURNAL_REPORT: return set_report(t, c->step, c->value);
    case FT_JOURNAL_USER: return set_pair(&t->attributes[FT_USER_ATTRIBUTE], c->key, c->json, 0);
    default: return set_pair(&t->attributes[FT_SYSTEM_ATTRIBUTE], c->key, c->json, 0);
    }
}

// ---- the end --------------------------------------------------------------------------------------------------------

static void free_pairs(ft_journal_pairs *pairs) {
    for (int i = 0; i < pairs->count; i++) {
        free(pairs->pair[i].key);
        free(pairs->pair[i].json);
    }
    free(pairs->pair);
}

void ft_journal_state_free(ft_journal_state *s) {
    for (int64_t i = 0; i < s->trial_count; i++) {
        ft_journal_trial *t = &s->trials[i];
        free_pairs(&t->params);
        free_pairs(&t->attributes[0]);
        free_pairs(&t->attributes[1]);
        free(t->reports);
        free(t->values);
    }
    for (int64_t i = 0; i < s->study_count; i++) {
        free(s->studies[i].name);
        free(s->studies[i].trials);
        free_pairs(&s->studies[i].attributes[0]);
        free_pairs(&s->studies[i].attributes[1]);
    }
    free(s->trials);
    free(s->studies);
    *s = (ft_journal_state){0};
}

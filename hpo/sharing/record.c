#include "hpo/sharing/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char trials_key[] = "sharing_trials"; // of the study

// ---- to write ------------------------------------------------------------------------------------------------------

static ft_status set(ft_stored *s, int64_t number, const char *key, const ft_choice *value) {
    return ft_stored_set_scalar(s, number, FT_USER_ATTRIBUTE, key, value);
}

static ft_status set_number(ft_stored *s, int64_t number, const char *key, double value) {
    if (!isfinite(value)) return FT_OK; // what is not known is not there
    return set(s, number, key, &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = value});
}

static ft_status count_so_far(ft_stored *s, int64_t *count) {
    ft_arena arena = {0};
    const char *text;
    const ft_status status = ft_stored_attribute(s, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, trials_key, &arena, &text);
    *count = status == FT_OK && text != NULL ? strtoll(text, NULL, 10) : 0;
    ft_arena_free(&arena);
    return status;
}

ft_status ft_sharing_store(ft_stored *s, const ft_sharing_record *r) {
    int64_t count;
    FT_TRY(count_so_far(s, &count));
    FT_TRY(set(s, r->trial, "sharing.beside", &(ft_choice){.kind = FT_CHOICE_INT, .integer = r->beside}));
    FT_TRY(set_number(s, r->trial, "sharing.share", r->share));
    FT_TRY(set_number(s, r->trial, "sharing.predicted", r->predicted));
    FT_TRY(set_number(s, r->trial, "sharing.seen", r->seen));
    FT_TRY(set(s, r->trial, "sharing.seen_against", &(ft_choice){.kind = FT_CHOICE_TEXT, .text = r->against}));
    if (r->held > 0) FT_TRY(set_number(s, r->trial, "sharing.held_seconds", r->held));
    return set(s, FT_STUDY_ATTRIBUTE, trials_key, &(ft_choice){.kind = FT_CHOICE_INT, .integer = count + 1});
}

// ---- to read -------------------------------------------------------------------------------------------------------

// What is no number was written by nobody we know.
static double number_of(const char *json) {
    char *end;
    const double value = strtod(json, &end);
    return end != json && *end == '\0' && isfinite(value) ? value : NAN;
}

static const char *against_of(const char *json) {
    for (int i = FT_AGAINST_ITSELF; i <= FT_AGAINST_PREDICTION; i++) {
        const char *name = ft_tempo_against_name((ft_tempo_against)i);
        const size_t length = strlen(name);
        if (json[0] == '"' && strncmp(json + 1, name, length) == 0 && json[1 + length] == '"') return name;
    }
    return ft_tempo_against_name(FT_AGAINST_NOTHING);
}

static void take(const ft_attribute *a, ft_sharing_record *r, bool *found) {
    static const char prefix[] = "sharing.";
    if (strncmp(a->key, prefix, sizeof prefix - 1) != 0) return;
    const char *key = a->key + sizeof prefix - 1;
    const double value = number_of(a->json);
    if (strcmp(key, "beside") == 0 && value >= 0 && value < 1e6)
        r->beside = (int)value, *found = true;
    else if (strcmp(key, "share") == 0)
        r->share = value;
    else if (strcmp(key, "predicted") == 0)
        r->predicted = value;
    else if (strcmp(key, "seen") == 0)
        r->seen = value;
    else if (strcmp(key, "seen_against") == 0)
        r->against = against_of(a->json);
    else if (strcmp(key, "held_seconds") == 0 && value > 0)
        r->held = value;
}

static ft_status load_trial(ft_stored *s, int64_t number, ft_sharing_record *r, bool *found) {
    ft_arena arena = {0};
    ft_attribute *attributes;
    int count;
    *found = false;
    *r = (ft_sharing_record){.trial = number,
                             .share = NAN,
                             .predicted = NAN,
                             .seen = NAN,
                             .against = ft_tempo_against_name(FT_AGAINST_NOTHING)};
    const ft_status status = ft_stored_attributes(s, number, FT_USER_ATTRIBUTE, &arena, &attributes, &count);
    for (int i = 0; status == FT_OK && i < count; i++)
        take(&attributes[i], r, found);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_sharing_load(ft_stored *s, ft_arena *arena, ft_sharing_record **records, int64_t *count) {
    int64_t stored;
    *records = NULL;
    *count = 0;
    FT_TRY(count_so_far(s, &stored));
    if (stored <= 0) return FT_OK;
    if ((*records = ft_arena_alloc(arena, (size_t)(s->trials.count + 1) * sizeof **records)) == NULL)
        return FT_NO_MEMORY;
    for (int64_t i = 0; i < s->trials.count; i++) {
        bool found;
        FT_TRY(load_trial(s, i, &(*records)[*count], &found));
        *count += found;
    }
    return FT_OK;
}

ft_sharing_means ft_sharing_sum_up(const ft_sharing_record *records, int64_t count) {
    ft_sharing_means m = {.predicted = 0};
    int64_t predicted = 0;
    for (int64_t i = 0; i < count; i++) {
        const ft_sharing_record *r = &records[i];
        m.held += r->held > 0;
        if (r->beside == 0) continue;
        m.shared++;
        if (!isnan(r->predicted)) m.predicted += r->predicted, predicted++;
        if (isnan(r->seen) || isnan(r->predicted)) continue;
        m.seen += r->seen;
        m.expected += r->predicted;
        m.seen_of++;
    }
    m.predicted = predicted > 0 ? m.predicted / (double)predicted : NAN;
    m.seen = m.seen_of > 0 ? m.seen / (double)m.seen_of : NAN;
    m.expected = m.seen_of > 0 ? m.expected / (double)m.seen_of : NAN;
    return m;
}

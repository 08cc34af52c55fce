// view.c - a study's values as people write them, and its best trials.
#include "hpo/report/view.h"

#include "base/json/json.h"
#include "hpo/exchange/exchange.h"
#include "hpo/search/history/pareto.h"
#include "hpo/storage/pyjson.h"

#include <stdlib.h>
#include <string.h>

// ---- values ---------------------------------------------------------------------------------------------------------

const char *ft_study_choice_text(ft_arena *arena, const ft_choice *choice) {
    char text[FT_REAL_TEXT];
    switch (choice->kind) {
    case FT_CHOICE_TEXT: return choice->text;
    case FT_CHOICE_BOOL: return choice->integer != 0 ? "true" : "false";
    case FT_CHOICE_INT: return ft_arena_format(arena, "%lld", (long long)choice->integer);
    case FT_CHOICE_FLOAT: ft_shortest_double(choice->number, text); return ft_arena_strdup(arena, text);
    case FT_CHOICE_NULL: break;
    }
    return "null";
}

const char *ft_study_param_text(ft_arena *arena, const ft_distribution *d, double value) {
    if (d->kind == FT_CATEGORICAL) return ft_study_choice_text(arena, &d->choices[(int)value]);
    if (d->kind == FT_INT) return ft_arena_format(arena, "%lld", (long long)value);
    char text[FT_REAL_TEXT];
    ft_shortest_double(value, text);
    return ft_arena_strdup(arena, text);
}

const char *ft_study_range_text(ft_arena *arena, const ft_distribution *d) {
    if (d->kind == FT_CATEGORICAL) {
        const char *list = "choice(";
        for (int i = 0; i < d->choice_count && list != NULL; i++) {
            const char *text = ft_study_choice_text(arena, &d->choices[i]);
            list = text != NULL ? ft_arena_format(arena, "%s%s%s", list, i > 0 ? ", " : "", text) : NULL;
        }
        return list != NULL ? ft_arena_format(arena, "%s)", list) : NULL;
    }
    char low[FT_REAL_TEXT], high[FT_REAL_TEXT], step[FT_REAL_TEXT];
    ft_shortest_double(d->low, low);
    ft_shortest_double(d->high, high);
    ft_shortest_double(d->step, step);
    bool plain = d->step == 0 || (d->kind == FT_INT && d->step == 1);
    return ft_arena_format(arena, "%s(%s, %s%s%s%s)", d->kind == FT_INT ? "int" : "float", low, high,
                           d->log ? ", log" : "", plain ? "" : ", step=", plain ? "" : step);
}

const char *ft_study_time_text(ft_arena *arena, int64_t microseconds) {
    char text[FT_EXCHANGE_TIME];
    ft_exchange_time(microseconds, text);
    return text[0] != '\0' ? ft_arena_strndup(arena, text, strlen("YYYY-MM-DD HH:MM:SS")) : "-";
}

ft_status ft_study_objectives(ft_stored *study, ft_arena *arena, const char ***names) {
    int count = study->trials.objectives;
    const char *json;
    *names = ft_arena_alloc(arena, (size_t)count * sizeof **names);
    if (*names == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_stored_attribute(study, FT_STUDY_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE, "study:metric_names", arena, &json));
    json_t *list = NULL;
    if (json != NULL) FT_TRY(ft_pyjson_parse(json, "study:metric_names", &list));
    for (int i = 0; i < count; i++) {
        const char *given = json_string_value(json_array_get(list, (size_t)i));
        (*names)[i] = given != NULL ? ft_arena_strdup(arena, given)
                      : count == 1  ? "value"
                                    : ft_arena_format(arena, "value_%d", i);
    }
    json_decref(list);
    for (int i = 0; i < count; i++)
        if ((*names)[i] == NULL) return FT_NO_MEMORY;
    return FT_OK;
}

// ---- the best -------------------------------------------------------------------------------------------------------

bool ft_trial_feasible(const ft_trial *t) { return t->constraint_count == 0 || ft_trial_violation(t) <= 0; }

ft_status ft_study_front(const ft_trials *trials, int64_t *numbers, int64_t *count) {
    const int objectives = trials->objectives;
    *count = 0;
    int64_t candidates = 0;
    double *points = ft_calloc((size_t)trials->count + 1, (size_t)objectives * sizeof *points, "objectives");
    bool *front = ft_calloc((size_t)trials->count + 1, sizeof *front, "the best trials");
    ft_status status = points != NULL && front != NULL ? FT_OK : FT_NO_MEMORY;
    for (int64_t i = 0; status == FT_OK && i < trials->count; i++) {
        const ft_trial *t = &trials->trial[i];
        if (t->state != FT_COMPLETE || !ft_trial_feasible(t)) continue;
        for (int j = 0; j < objectives; j++)
            points[candidates * objectives + j] = trials->maximize[j] ? -t->values[j] : t->values[j];
        numbers[candidates++] = i;
    }
    if (status == FT_OK) status = ft_pareto_front(points, candidates, objectives, front);
    // With one objective the first of equally good ones is the best.
    for (int64_t i = 0; status == FT_OK && i < candidates && (objectives > 1 || *count == 0); i++)
        if (front[i]) numbers[(*count)++] = numbers[i];
    free(points);
    free(front);
    return status;
}

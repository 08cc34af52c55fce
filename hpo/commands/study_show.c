// study_show.c - `ftengine study list`, `show`, `best` and `trials`.
#include "hpo/commands/study.h"
#include "hpo/commands/study_belief.h"
#include "hpo/commands/study_sharing.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "hpo/search/gp/lessons.h"
#include "hpo/search/gp/outlook.h"
#include "hpo/search/importance.h"
#include "hpo/space/objective.h"
#include "hpo/study/study.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const ft_trial_state states[] = {FT_COMPLETE, FT_PRUNED, FT_FAIL, FT_RUNNING, FT_WAITING};
static const char *const state_names[] = {"complete", "pruned", "failed", "running", "waiting"};
enum { STATES = 5 };

static void count_states(const ft_trials *trials, int64_t counts[STATES]) {
    memset(counts, 0, STATES * sizeof *counts);
    for (int64_t i = 0; i < trials->count; i++)
        for (int s = 0; s < STATES; s++)
            counts[s] += trials->trial[i].state == states[s];
}

static json_t *counts_value(const int64_t counts[STATES], bool *failed) {
    json_t *object = json_object();
    for (int s = 0; s < STATES; s++)
        ft_json_put(object, state_names[s], json_integer(counts[s]), failed);
    return object;
}

static ft_status front_of(ft_stored *study, ft_arena *arena, int64_t **numbers, int64_t *count) {
    *numbers = ft_arena_alloc(arena, (size_t)(study->trials.count + 1) * sizeof **numbers);
    if (*numbers == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_study_front(&study->trials, *numbers, count));
    return FT_OK;
}

static void value_cell(ft_text_table *table, const char *name, double value, int digits) {
    char text[FT_FIGURE_TEXT];
    ft_text_table_format(table, "%s", ft_figure_text(name, value, digits, text));
}

// ---- list -----------------------------------------------------------------------------------------------------------

typedef struct listing {
    study_call *call;
    ft_text_table table;
    json_t *studies;
    bool failed; // no memory for the document
} listing;

static ft_status list_study(listing *l, const ft_study_info *info, ft_storage *file) {
    ft_arena *arena = &l->call->arena;
    ft_stored *study;
    FT_TRY(ft_stored_open(file, info->name, &study));
    int64_t *numbers, count, counts[STATES];
    count_states(&study->trials, counts);
    ft_status status = front_of(study, arena, &numbers, &count);
    const char *best = "-", **objectives = NULL;
    char text[FT_FIGURE_TEXT];
    if (status == FT_OK) status = ft_study_objectives(study, arena, &objectives);
    if (status == FT_OK && count > 0 && study->trials.objectives == 1)
        best = ft_arena_strdup(arena, ft_figure_text(objectives[0], study->trials.trial[numbers[0]].values[0], 6, text));
    else if (status == FT_OK && count > 0)
        best = ft_arena_format(arena, "%" PRId64 " on the front", count);
    if (status == FT_OK && l->studies != NULL) {
        json_t *object = json_object(), *list = json_array();
        ft_json_put(object, "study", ft_json_text(info->name), &l->failed);
        ft_json_put(object, "storage", ft_json_text(ft_storage_path(file)), &l->failed);
        for (int i = 0; i < info->objectives; i++)
            ft_json_append(list, json_string(info->maximize[i] ? "maximize" : "minimize"), &l->failed);
        ft_json_put(object, "directions", list, &l->failed);
        ft_json_put(object, "trials", counts_value(counts, &l->failed), &l->failed);
        const ft_trial *first = count == 1 ? &study->trials.trial[numbers[0]] : NULL;
        if (first != NULL && first->value_count == 1)
            ft_json_put(object, "best_value", ft_exchange_number(first->values[0]), &l->failed);
        ft_json_append(l->studies, object, &l->failed);
    } else if (status == FT_OK) {
        ft_text_table_cell(&l->table, ft_arena_strdup(arena, info->name));
        ft_text_table_format(&l->table, "%" PRId64, study->trials.count);
        for (int s = 0; s < STATES; s++)
            ft_text_table_format(&l->table, "%" PRId64, counts[s]);
        ft_text_table_cell(&l->table, best);
        ft_text_table_cell(&l->table, ft_study_time_text(arena, info->first_start));
        ft_text_table_cell(&l->table, ft_study_time_text(arena, info->last_finish));
    }
    ft_stored_close(study);
    return status;
}

static ft_status list_file(listing *l, const char *url) {
    ft_storage *file;
    ft_study_info *studies;
    int count;
    FT_TRY(ft_storage_open(url, FT_STORAGE_READ, &file));
    ft_status status = ft_storage_studies(file, &l->call->arena, &studies, &count);
    for (int i = 0; status == FT_OK && i < count; i++)
        status = list_study(l, &studies[i], file);
    ft_error error;
    ft_error_save(&error);
    ft_storage_close(file); // nothing was written
    if (status != FT_OK) ft_error_restore(&error);
    return status;
}

static ft_status list_all(listing *l) {
    const char **names;
    int count;
    if (l->call->storage != NULL) {
        FT_TRY(ft_study_locate(NULL, l->call->storage, &l->call->arena, &l->call->place));
        return list_file(l, l->call->place.url);
    }
    FT_TRY(ft_study_names(&l->call->arena, &names, &count));
    for (int i = 0; i < count; i++) {
        ft_study_place place;
        FT_TRY(ft_study_locate(names[i], NULL, &l->call->arena, &place));
        // One broken file must not hide the others.
        ft_status status = list_file(l, place.url);
        if (status == FT_NO_MEMORY) return status;
        if (status != FT_OK) ft_warn("%s (%s)", ft_error_message(), ft_error_where());
    }
    ft_error_clear();
    if (count == 0 && !l->call->json) ft_info("no studies here: `ftengine tune` makes one in studies/");
    return FT_OK;
}

ft_status ft_study_list(study_call *call) {
    static const char *const head[] = {"study",   "trials",  "complete", "pruned",      "failed",
                                       "running", "waiting", "best",     "began (UTC)", "last end"};
    if (call->study != NULL)
        return ft_fail(FT_INVALID, "study", "list shows all studies; for '%s' there is show", call->study);
    listing l = {.call = call, .table = {.arena = &call->arena, .columns = sizeof head / sizeof head[0]}};
    for (int i = 0; i < l.table.columns; i++)
        ft_text_table_cell(&l.table, head[i]);
    if (call->json) l.studies = json_array();
    if (call->json && l.studies == NULL) return ft_fail_memory(0, "a list");
    ft_status status = list_all(&l);
    if (!call->json)
        return status == FT_OK && l.table.count > l.table.columns ? ft_text_table_print(&l.table, stdout) : status;
    json_t *document = json_object();
    ft_json_put(document, "format_version", json_integer(1), &l.failed);
    ft_json_put(document, "studies", l.studies, &l.failed);
    if (status == FT_OK) return ft_study_print_json(document, l.failed);
    json_decref(document);
    return status;
}

// ---- show -----------------------------------------------------------------------------------------------------------

// The distribution that the latest trial with this name has; NULL when none has it.
static const ft_distribution *latest(const ft_trials *trials, int name) {
    for (int64_t i = trials->count - 1; i >= 0; i--) {
        const ft_trial_param *p = ft_trial_find_param(&trials->trial[i], name);
        if (p != NULL) return trials->distributions[p->distribution];
    }
    return NULL;
}

typedef struct overview {
    const char **objectives;
    int64_t counts[STATES], *front, front_count, start, finish, ooms;
    const ft_lessons *lessons; // of studies that it learns from, NULL: none
    double *weight;            // [lessons->sources] how far each is trusted by now
    ft_study_sharing sharing;
    ft_gp_outlook outlook; // as study.no_improvement = auto judges
    ft_study_beliefs beliefs;
    double *importance, *alone; // alone: [objectives, names], of several objectives each by itself; else NULL
} overview;

static ft_status look_at_lessons(study_call *call, overview *o) {
    ft_tuning t = {.study = call->opened};
    ft_gp_teachers teachers;
    int judged;
    FT_TRY(ft_tuning_load_lessons(&t));
    ft_arena_join(&call->arena, &t.arena);
    o->lessons = t.lessons;
    if (o->lessons == NULL || call->opened->trials.objectives != 1) return FT_OK;
    o->weight = ft_arena_alloc(&call->arena, (size_t)(o->lessons->sources + 1) * sizeof *o->weight);
    if (o->weight == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_gp_teachers_init(o->lessons, &teachers));
    ft_status status = ft_gp_teachers_weigh(&teachers, &call->opened->trials, o->weight, &judged);
    ft_gp_teachers_free(&teachers);
    return status;
}

static ft_status look(study_call *call, overview *o) {
    ft_stored *study = call->opened;
    const ft_trials *trials = &study->trials;
    const char *ooms;
    FT_TRY(ft_stored_attribute(study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, "oom_trials", &call->arena, &ooms));
    o->ooms = ooms != NULL ? strtoll(ooms, NULL, 10) : 0;
    o->start = o->finish = -1;
    count_states(trials, o->counts);
    FT_TRY(ft_study_objectives(study, &call->arena, &o->objectives));
    FT_TRY(front_of(study, &call->arena, &o->front, &o->front_count));
    for (int64_t i = 0; i < trials->count; i++) {
        int64_t start, finish;
        FT_TRY(ft_stored_times(study, i, &start, &finish));
        if (start >= 0 && (o->start < 0 || start < o->start)) o->start = start;
        if (finish > o->finish) o->finish = finish;
    }
    o->importance = ft_arena_alloc(&call->arena, (size_t)(trials->names.count + 1) * sizeof *o->importance);
    if (o->importance == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_importance(trials, FT_ALL_OBJECTIVES, o->importance));
    FT_TRY(look_at_lessons(call, o));
    FT_TRY(ft_study_beliefs_load(call, call->trial, o->lessons, &o->beliefs));
    FT_TRY(ft_gp_outlook_of(trials, &o->beliefs.now->options, &o->outlook));
    FT_TRY(ft_study_sharing_load(study, &call->arena, &o->sharing));
    o->alone = NULL;
    if (trials->objectives < 2) return FT_OK;
    o->alone = ft_arena_alloc(&call->arena, (size_t)(trials->objectives * trials->names.count + 1) * sizeof *o->alone);
    if (o->alone == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < trials->objectives; i++)
        FT_TRY(ft_importance(trials, i, o->alone + (size_t)i * (size_t)trials->names.count));
    return FT_OK;
}

// What `name` mattered for objective `i`; below 0: nothing is known.
static double alone(const overview *o, const ft_trials *trials, int i, int name) {
    return o->alone[(size_t)i * (size_t)trials->names.count + (size_t)name];
}

// null: not known.
static json_t *outlook_value(const ft_gp_outlook *outlook, bool *failed) {
    if (!outlook->known) return json_null();
    json_t *object = json_object();
    ft_json_put(object, "expected_gain", json_real(outlook->gain), failed);
    ft_json_put(object, "tolerance", json_real(outlook->tolerance), failed);
    ft_json_put(object, "probability", json_real(outlook->enough), failed);
    ft_json_put(object, "stop", json_boolean(outlook->stop), failed);
    return object;
}

static json_t *lessons_value(const overview *o, bool *failed) {
    json_t *list = json_array();
    for (int s = 0; o->weight != NULL && s < o->lessons->sources; s++) {
        json_t *object = json_object();
        ft_json_put(object, "study", ft_json_text(o->lessons->source[s].study), failed);
        ft_json_put(object, "trials", json_integer(o->lessons->source[s].count), failed);
        ft_json_put(object, "weight", json_real(o->weight[s]), failed);
        ft_json_append(list, object, failed);
    }
    return list;
}

static ft_status show_json(study_call *call, const overview *o) {
    const ft_trials *trials = &call->opened->trials;
    bool failed = false;
    json_t *document, *best = json_array(), *parameters = json_array(), *objectives = json_array();
    ft_status status = ft_exchange_study(call->opened, &document);
    for (int i = 0; i < trials->objectives; i++)
        ft_json_append(objectives, ft_json_text(o->objectives[i]), &failed);
    for (int64_t i = 0; status == FT_OK && i < o->front_count; i++) {
        json_t *trial;
        status = ft_exchange_trial(call->opened, o->front[i], &trial);
        if (status == FT_OK) ft_json_append(best, trial, &failed);
    }
    for (int i = 0; status == FT_OK && i < trials->names.count; i++) {
        const ft_distribution *d = latest(trials, i);
        json_t *p = json_object();
        ft_json_put(p, "name", ft_json_text(trials->names.name[i]), &failed);
        ft_json_put(p, "space", d != NULL ? ft_json_text(ft_study_range_text(&call->arena, d)) : json_null(), &failed);
        ft_json_put(p, "importance", o->importance[i] >= 0 ? json_real(o->importance[i]) : json_null(), &failed);
        json_t *each = o->alone != NULL ? json_object() : NULL;
        for (int k = 0; each != NULL && k < trials->objectives; k++)
            ft_json_put(each, o->objectives[k], alone(o, trials, k, i) >= 0 ? json_real(alone(o, trials, k, i)) : json_null(), &failed);
        if (o->alone != NULL) ft_json_put(p, "importance_of", each, &failed);
        ft_json_append(parameters, p, &failed);
    }
    ft_json_put(document, "storage", ft_json_text(call->place.shown), &failed);
    ft_json_put(document, "directory", ft_json_text(call->place.directory), &failed);
    ft_json_put(document, "objectives", objectives, &failed);
    ft_json_put(document, "trials", counts_value(o->counts, &failed), &failed);
    ft_json_put(document, "parameters", parameters, &failed);
    ft_json_put(document, "best", best, &failed);
    ft_json_put(document, "learnt_from", lessons_value(o, &failed), &failed);
    ft_json_put(document, "outlook", outlook_value(&o->outlook, &failed), &failed);
    ft_study_beliefs_put(call, &o->beliefs, document, &failed);
    ft_json_put(document, "sharing", ft_study_sharing_value(&o->sharing, &failed), &failed);
    const char *file = ft_path_join(&call->arena, call->place.directory, "best.ini");
    if (file != NULL && ft_path_exists(file)) ft_document_next(document, "train", file, NULL, &failed);
    if (status == FT_OK) return ft_study_print_json(document, failed);
    json_decref(document);
    return status;
}

// Below 0: nothing is known.
static void importance_cell(ft_text_table *table, double importance) {
    if (importance >= 0) ft_text_table_format(table, "%.3f", importance);
    else ft_text_table_cell(table, "-");
}

static ft_status print_parameters(study_call *call, const overview *o, const ft_trial *best) {
    const ft_trials *trials = &call->opened->trials;
    const int each = o->alone != NULL ? trials->objectives : 0;
    ft_text_table table = {.arena = &call->arena, .columns = 4 + each};
    ft_text_table_cell(&table, "parameter");
    ft_text_table_cell(&table, each > 0 ? "importance for all" : "importance");
    for (int k = 0; k < each; k++) ft_text_table_format(&table, "for %s", o->objectives[k]);
    ft_text_table_cell(&table, "best");
    ft_text_table_cell(&table, "space");
    for (int i = 0; i < trials->names.count; i++) {
        const ft_distribution *d = latest(trials, i);
        const ft_trial_param *p = best != NULL ? ft_trial_find_param(best, i) : NULL;
        if (d == NULL) continue;
        ft_text_table_cell(&table, trials->names.name[i]);
        importance_cell(&table, o->importance[i]);
        for (int k = 0; k < each; k++) importance_cell(&table, alone(o, trials, k, i));
        ft_text_table_cell(&table, p != NULL
                                  ? ft_study_param_text(&call->arena, trials->distributions[p->distribution], p->value)
                                  : "-");
        ft_text_table_cell(&table, ft_study_range_text(&call->arena, d));
    }
    if (table.count == table.columns) return FT_OK;
    putchar('\n');
    return ft_text_table_print(&table, stdout);
}

static ft_status show_text(study_call *call, const overview *o) {
    const ft_trials *trials = &call->opened->trials;
    const ft_trial *best = o->front_count > 0 && trials->objectives == 1 ? &trials->trial[o->front[0]] : NULL;
    char text[FT_FIGURE_TEXT], left[FT_FIGURE_TEXT];
    fputs("study      ", stdout);
    ft_text_clean(call->opened->name, stdout);
    printf("\nfile       %s\nobjective  ", call->place.path);
    for (int i = 0; i < trials->objectives; i++) {
        printf("%s%s ", i > 0 ? ", " : "", trials->maximize[i] ? "maximize" : "minimize");
        ft_text_clean(o->objectives[i], stdout);
    }
    printf("\ntrials     %" PRId64 ":", trials->count);
    for (int s = 0; s < STATES; s++)
        printf("%s %" PRId64 " %s", s > 0 ? "," : "", o->counts[s], state_names[s]);
    if (o->ooms > 0) printf("\nmemory     %" PRId64 " of the pruned ones ran out of it", o->ooms);
    const char *start = ft_study_time_text(&call->arena, o->start),
               *finish = ft_study_time_text(&call->arena, o->finish);
    if (start == NULL || finish == NULL) return FT_NO_MEMORY;
    printf("\nbegan      %s UTC\nlast end   %s UTC\n", start, finish);
    if (best != NULL)
        printf("best       %s (trial %" PRId64 ")\n", ft_figure_text(o->objectives[0], best->values[0], 10, text), best->number);
    for (int s = 0; o->weight != NULL && s < o->lessons->sources; s++) {
        fputs(s == 0 ? "learnt     " : "           ", stdout);
        ft_text_clean(o->lessons->source[s].study, stdout);
        printf(" (%d trials, weight %.2f)\n", o->lessons->source[s].count, o->weight[s]);
    }
    ft_study_sharing_print(&o->sharing);
    if (best != NULL && o->outlook.known)
        printf("outlook    a gain of %s is to be expected; with %.1f%% no more than %s is left: %s\n",
               ft_figure_text(o->objectives[0], o->outlook.gain, 3, text), 100 * o->outlook.enough,
               ft_figure_text(o->objectives[0], o->outlook.tolerance, 3, left), o->outlook.stop ? "stop now" : "go on");
    else if (best == NULL && o->front_count > 0)
        printf("best       %" PRId64 " trials that no other beats: ftengine study best\n", o->front_count);
    if (trials->objectives == 1) FT_TRY(ft_study_beliefs_print(call, &o->beliefs, o->objectives[0]));
    return print_parameters(call, o, best);
}

ft_status ft_study_show(study_call *call) {
    overview o = {.lessons = NULL};
    FT_TRY(look(call, &o));
    return call->json ? show_json(call, &o) : show_text(call, &o);
}

// ---- trials ---------------------------------------------------------------------------------------------------------

static ft_status trials_json(study_call *call, const int64_t *numbers, int64_t count) {
    bool failed = false;
    json_t *document = json_object(), *list = json_array();
    ft_json_put(document, "format_version", json_integer(1), &failed);
    ft_json_put(document, "study", ft_json_text(call->opened->name), &failed);
    ft_status status = FT_OK;
    for (int64_t i = 0; status == FT_OK && i < count; i++) {
        json_t *trial;
        status = ft_exchange_trial(call->opened, numbers[i], &trial);
        if (status == FT_OK) ft_json_append(list, trial, &failed);
    }
    ft_json_put(document, "trials", list, &failed);
    if (status == FT_OK) return ft_study_print_json(document, failed);
    json_decref(document);
    return status;
}

// Of a waiting trial the values that were asked for, of one that failed why; else NULL.
static ft_status note_of(study_call *call, const ft_trial *t, const char **note) {
    enum { LONGEST = 120 };
    ft_fixed_param *fixed;
    const char *json = NULL;
    char text[512];
    int count = 0;
    size_t used = 0;
    *note = NULL;
    text[0] = '\0';
    if (t->state == FT_WAITING) FT_TRY(ft_stored_fixed(call->opened, t->number, &call->arena, &fixed, &count));
    for (int i = 0; i < count && used < LONGEST; i++) {
        const char *value = ft_study_choice_text(&call->arena, &fixed[i].value);
        if (value == NULL) return FT_NO_MEMORY;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.100s=%.200s", i > 0 ? " " : "", fixed[i].name, value);
    }
    if (t->state == FT_FAIL) FT_TRY(ft_stored_attribute(call->opened, t->number, FT_USER_ATTRIBUTE, "error", &call->arena, &json));
    if (json != NULL && strlen(json) > 2) snprintf(text, sizeof text, "%.*s", (int)strlen(json) - 2, json + 1);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    if (strlen(text) > LONGEST) strcpy(text + LONGEST - 3, "...");
    if (text[0] != '\0' && (*note = ft_arena_strdup(&call->arena, text)) == NULL) return FT_NO_MEMORY;
    return FT_OK;
}

static ft_status add_row(study_call *call, ft_text_table *table, const ft_trial *t, const char **objectives, const bool *used) {
    const ft_trials *trials = &call->opened->trials;
    int64_t start, finish;
    FT_TRY(ft_stored_times(call->opened, t->number, &start, &finish));
    ft_text_table_format(table, "%" PRId64, t->number);
    ft_text_table_cell(table,
                  ft_trial_feasible(t) || t->state != FT_COMPLETE ? ft_trial_state_name(t->state) : "INFEASIBLE");
    for (int i = 0; i < trials->objectives; i++)
        if (i < t->value_count)
            value_cell(table, objectives[i], t->values[i], 6);
        else
            ft_text_table_cell(table, "-");
    if (start >= 0 && finish >= start)
        ft_text_table_format(table, "%.1f", (double)(finish - start) * 1e-6);
    else
        ft_text_table_cell(table, "-");
    for (int i = 0; i < trials->names.count; i++) {
        if (!used[i]) continue;
        const ft_trial_param *p = ft_trial_find_param(t, i);
        const ft_distribution *d = p != NULL ? trials->distributions[p->distribution] : NULL;
        if (d != NULL && d->kind == FT_FLOAT)
            value_cell(table, "", p->value, 6);
        else
            ft_text_table_cell(table, d != NULL ? ft_study_param_text(&call->arena, d, p->value) : "-");
    }
    return FT_OK;
}

// A column for each parameter that one of these trials has.
static ft_status trials_table(study_call *call, const int64_t *numbers, int64_t count) {
    const ft_trials *trials = &call->opened->trials;
    const char **objectives;
    FT_TRY(ft_study_objectives(call->opened, &call->arena, &objectives));
    bool *used = ft_arena_alloc(&call->arena, (size_t)trials->names.count + 1);
    if (used == NULL) return FT_NO_MEMORY;
    ft_text_table table = {.arena = &call->arena, .columns = 3 + trials->objectives};
    for (int i = 0; i < trials->names.count; i++) {
        for (int64_t k = 0; k < count && !used[i]; k++)
            used[i] = ft_trial_find_param(&trials->trial[numbers[k]], i) != NULL;
        table.columns += used[i];
    }
    ft_text_table_cell(&table, "trial");
    ft_text_table_cell(&table, "state");
    for (int i = 0; i < trials->objectives; i++)
        ft_text_table_cell(&table, objectives[i]);
    ft_text_table_cell(&table, "seconds");
    for (int i = 0; i < trials->names.count; i++)
        if (used[i]) ft_text_table_cell(&table, trials->names.name[i]);
    const char **notes = ft_arena_alloc(&call->arena, (size_t)(count + 1) * sizeof *notes);
    if (notes == NULL) return FT_NO_MEMORY;
    bool noted = false;
    for (int64_t i = 0; i < count; i++) {
        FT_TRY(note_of(call, &trials->trial[numbers[i]], &notes[i]));
        noted |= notes[i] != NULL;
    }
    table.columns += noted;
    if (noted) ft_text_table_cell(&table, "asked for, or why it failed");
    for (int64_t i = 0; i < count; i++) {
        FT_TRY(add_row(call, &table, &trials->trial[numbers[i]], objectives, used));
        if (noted) ft_text_table_cell(&table, notes[i] != NULL ? notes[i] : "");
    }
    return ft_text_table_print(&table, stdout);
}

static ft_status print_trials(study_call *call, const int64_t *numbers, int64_t count) {
    return call->json ? trials_json(call, numbers, count) : trials_table(call, numbers, count);
}

static ft_status state_of(const char *name, ft_trial_state *state) {
    for (int s = 0; s < STATES; s++)
        if (strcasecmp(name, state_names[s]) == 0 || strcasecmp(name, ft_trial_state_name(states[s])) == 0) {
            *state = states[s];
            return FT_OK;
        }
    return ft_no_such("--state", "state", name, STATES, state_names);
}

typedef struct ranked_trial {
    double loss;
    int64_t number;
} ranked_trial;

static int by_loss(const void *a, const void *b) {
    const ranked_trial *p = a, *q = b;
    if (p->loss != q->loss) return p->loss < q->loss ? -1 : 1;
    return (p->number > q->number) - (p->number < q->number);
}

// Keeps the best `most` of the list, best first.
static ft_status keep_top(study_call *call, int64_t most, int64_t *numbers, int64_t *count) {
    const ft_trials *trials = &call->opened->trials;
    if (trials->objectives > 1) {
        ft_status status = ft_fail(FT_INVALID, "--top", "with several objectives there is no single order");
        ft_hint("`ftengine study best` shows the trials that no other beats");
        return status;
    }
    ranked_trial *ranked = ft_arena_alloc(&call->arena, (size_t)(*count + 1) * sizeof *ranked);
    if (ranked == NULL) return FT_NO_MEMORY;
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++) {
        const ft_trial *t = &trials->trial[numbers[i]];
        if (t->state == FT_COMPLETE && ft_trial_feasible(t))
            ranked[kept++] = (ranked_trial){trials->maximize[0] ? -t->values[0] : t->values[0], t->number};
    }
    qsort(ranked, (size_t)kept, sizeof *ranked, by_loss);
    *count = kept < most ? kept : most;
    for (int64_t i = 0; i < *count; i++)
        numbers[i] = ranked[i].number;
    return FT_OK;
}

ft_status ft_study_trials(study_call *call) {
    const ft_trials *trials = &call->opened->trials;
    ft_trial_state state = FT_COMPLETE;
    int64_t count = 0, *numbers = ft_arena_alloc(&call->arena, (size_t)(trials->count + 1) * sizeof *numbers);
    if (numbers == NULL) return FT_NO_MEMORY;
    if (call->state != NULL) FT_TRY(state_of(call->state, &state));
    for (int64_t i = 0; i < trials->count; i++)
        if (call->state == NULL || trials->trial[i].state == state) numbers[count++] = i;
    if (call->top != NULL) {
        char *end;
        long long most = strtoll(call->top, &end, 10);
        if (*end != '\0' || most < 1)
            return ft_fail(FT_INVALID, "--top", "must be a number from 1, got '%s'", call->top);
        FT_TRY(keep_top(call, most, numbers, &count));
    }
    return print_trials(call, numbers, count);
}

// ---- best -----------------------------------------------------------------------------------------------------------

static ft_status best_text(study_call *call, const ft_trial *t) {
    const ft_trials *trials = &call->opened->trials;
    const char **objectives;
    FT_TRY(ft_study_objectives(call->opened, &call->arena, &objectives));
    ft_text_table table = {.arena = &call->arena, .columns = 2};
    ft_text_table_cell(&table, "trial");
    ft_text_table_format(&table, "%" PRId64, t->number);
    ft_text_table_cell(&table, objectives[0]);
    value_cell(&table, objectives[0], t->values[0], 10);
    const char *run = ft_arena_format(&call->arena, "%s/trials/%05" PRId64, call->place.directory, t->number);
    if (run == NULL) return FT_NO_MEMORY;
    if (ft_path_exists(run)) {
        ft_text_table_cell(&table, "run");
        ft_text_table_cell(&table, run);
    }
    for (int i = 0; i < t->constraint_count; i++) {
        ft_text_table_format(&table, "constraint %.200s", trials->constraint_names.name[t->constraints[i].name]);
        value_cell(&table, "", t->constraints[i].value, 6);
    }
    for (int i = 0; i < t->param_count; i++) {
        ft_text_table_cell(&table, trials->names.name[t->params[i].name]);
        ft_text_table_cell(&table, ft_study_param_text(&call->arena, trials->distributions[t->params[i].distribution],
                                                  t->params[i].value));
    }
    return ft_text_table_print(&table, stdout);
}

ft_status ft_study_best(study_call *call) {
    int64_t *numbers, count;
    FT_TRY(front_of(call->opened, &call->arena, &numbers, &count));
    if (count == 0) return ft_study_no_best(call->opened);
    if (call->json || call->opened->trials.objectives > 1) return print_trials(call, numbers, count);
    return best_text(call, &call->opened->trials.trial[numbers[0]]);
}

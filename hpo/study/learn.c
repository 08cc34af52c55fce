// learn.c - study.learn_from: what other studies of the same space have found, and files of what studies of some family
// have. It is read once, when the study is made, and kept with it: the same trials follow after a kill, from any
// coordinator, and whatever becomes of the others.
#include "hpo/study/study.h"

#include "base/json/json.h"
#include "base/log.h"
#include "base/url.h"
#include "hpo/exchange/exchange.h"
#include "hpo/search/gp/lessons.h"
#include "hpo/storage/pyjson.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char lessons_key[] = "ftengine:lessons", option[] = "study.learn_from";
enum { FEWEST_TRIALS = 2 };

// ---- which studies --------------------------------------------------------------------------------------------------

typedef struct named {
    const char *study, *storage; // as ft_study_open takes them
    const char *file;            // or what a study was exported to; of it this study, NULL: all of them
    const char *shown;
} named;

static bool ends_in(const char *text, size_t length, const char *end) {
    const size_t here = strlen(end);
    return length > here && strncmp(text + length - here, end, here) == 0;
}

static ft_status not_another_file(const char *text) {
    struct stat info;
    if (stat(text, &info) != 0 || !S_ISREG(info.st_mode)) return FT_OK; // of a study, there or not
    ft_fail(FT_INVALID, option, "'%s' is a file, and no export of studies", text);
    ft_hint("FILE.jsonl or FILE.jsonl.gz, as ftengine study export writes it; sqlite:///%s where it is a database", text);
    return FT_INVALID;
}

// "a", "old/studies/a", "sqlite:///FILE" and "sqlite:///FILE#a", "FILE.jsonl" and "FILE.jsonl#a".
static ft_status read_name(ft_tuning *t, const char *text, named *out) {
    size_t scheme;
    const char *hash = strrchr(text, '#');
    *out = (named){.study = text, .shown = text};
    if (ft_url_kind_of(text, &scheme) == FT_URL_FILE && scheme == 0) {
        const size_t file = hash != NULL ? (size_t)(hash - text) : strlen(text);
        if (!ends_in(text, file, ".jsonl") && !ends_in(text, file, ".jsonl.gz")) return not_another_file(text);
        *out = (named){.study = hash != NULL ? hash + 1 : NULL, .shown = text};
        out->file = ft_arena_strndup(&t->arena, text, file);
        return out->file != NULL ? FT_OK : FT_NO_MEMORY;
    }
    const size_t length = hash != NULL ? (size_t)(hash - text) : strlen(text);
    char *storage = ft_arena_strndup(&t->arena, text, length);
    const char *shown = storage != NULL && ft_url_is_postgres(storage) ? ft_url_shown(&t->arena, storage) : storage;
    if (shown != NULL && hash != NULL) shown = ft_arena_format(&t->arena, "%s%s", shown, hash);
    *out = (named){.study = hash != NULL ? hash + 1 : NULL, .storage = storage, .shown = shown};
    return storage != NULL && shown != NULL ? FT_OK : FT_NO_MEMORY;
}

// The names between commas; *canonical: all of them as they are shown.
static ft_status read_names(ft_tuning *t, named **list, int *count, const char **canonical) {
    const char *text = t->options->learn_from;
    *list = ft_arena_alloc(&t->arena, (strlen(text) + 1) * sizeof **list);
    *canonical = "";
    *count = 0;
    if (*list == NULL) return FT_NO_MEMORY;
    for (const char *at = text;;) {
        const char *comma = strchr(at, ','), *end = comma != NULL ? comma : at + strlen(at);
        while (at < end && isspace((unsigned char)*at))
            at++;
        const char *last = end;
        while (last > at && isspace((unsigned char)last[-1]))
            last--;
        if (last == at) return ft_fail(FT_INVALID, option, "names no study between two commas: '%.200s'", text);
        char *word = ft_arena_strndup(&t->arena, at, (size_t)(last - at));
        if (word == NULL) return FT_NO_MEMORY;
        FT_TRY(read_name(t, word, &(*list)[*count]));
        for (int i = 0; i < *count; i++) // which would count twice
            if (strcmp((*list)[i].shown, (*list)[*count].shown) == 0) return ft_fail(FT_INVALID, option, "'%.200s' is there twice", word);
        *canonical = ft_arena_format(&t->arena, "%s%s%s", *canonical, *count > 0 ? ", " : "", (*list)[*count].shown);
        if (*canonical == NULL) return FT_NO_MEMORY;
        ++*count;
        if (comma == NULL) return FT_OK;
        at = comma + 1;
    }
}

// ---- is it the same space? ------------------------------------------------------------------------------------------

static const char *kind_of(const ft_distribution *d) {
    return d->kind == FT_CATEGORICAL ? "a choice"
           : d->kind == FT_INT       ? (d->log ? "whole numbers on a logarithmic scale" : "whole numbers")
           : d->log                  ? "numbers on a logarithmic scale"
                                     : "numbers";
}

static ft_status check_kind(const ft_space_rule *rule, const char *study, const ft_distribution *theirs) {
    const ft_distribution *ours = &rule->distribution;
    if (theirs->kind != ours->kind || theirs->log != ours->log)
        return ft_fail(FT_INVALID, option, "study '%s' searches %s among %s, this one among %s (%s)", study, rule->name,
                       kind_of(theirs), kind_of(ours), rule->where);
    for (int i = 0; ours->kind == FT_CATEGORICAL && i < theirs->choice_count; i++)
        if (ft_distribution_find_choice(ours, &theirs->choices[i]) >= 0) return FT_OK;
    if (ours->kind != FT_CATEGORICAL) return FT_OK;
    return ft_fail(FT_INVALID, option, "study '%s' has none of the choices of %s that this one has (%s)", study,
                   rule->name, rule->where);
}

// theirs [names]: a distribution of each name of theirs that has several values, NULL: of none.
static void find_theirs(const ft_trials *trials, const ft_distribution **theirs) {
    for (int64_t i = 0; i < trials->count; i++)
        for (int p = 0; p < trials->trial[i].param_count; p++) {
            const ft_trial_param *param = &trials->trial[i].params[p];
            const ft_distribution *d = trials->distributions[param->distribution];
            if (!ft_distribution_single(d)) theirs[param->name] = d;
        }
}

// `word` is none of the names: the nearest, and who has it.
static ft_status lacks(const char *whose, const char *word, const char *who, int count, const char **names) {
    ft_no_such(option, whose, word, count, names);
    ft_hint("study '%s' is of another space", who);
    return FT_INVALID;
}

static ft_status check_space(ft_tuning *t, const char *study, const ft_trials *trials) {
    const size_t most = (size_t)(trials->names.count + t->space.count) + 1;
    const ft_distribution **theirs = ft_arena_alloc(&t->arena, most * sizeof *theirs);
    const char **names = ft_arena_alloc(&t->arena, most * sizeof *names);
    int count = 0;
    if (theirs == NULL || names == NULL) return FT_NO_MEMORY;
    find_theirs(trials, theirs);
    for (int i = 0; i < t->space.count; i++) {
        const ft_space_rule *rule = &t->space.rules[i];
        if (rule->name != NULL && ft_space_find(&t->space, rule->name) == rule) names[count++] = rule->name;
    }
    for (int n = 0; n < trials->names.count; n++) {
        if (theirs[n] == NULL) continue;
        const ft_space_rule *rule = ft_space_find(&t->space, trials->names.name[n]);
        if (rule == NULL) return lacks("parameter of this study", trials->names.name[n], study, count, names);
        FT_TRY(check_kind(rule, study, theirs[n]));
    }
    count = 0;
    for (int n = 0; n < trials->names.count; n++)
        if (theirs[n] != NULL) names[count++] = trials->names.name[n];
    for (int i = 0; i < t->space.count; i++) { // what comes with a condition may never have come
        const ft_space_rule *rule = &t->space.rules[i];
        if (rule->name == NULL || rule->test_count > 0 || ft_distribution_single(&rule->distribution)) continue;
        const int n = ft_trials_find_name(trials, rule->name);
        if (n >= 0 && theirs[n] != NULL) continue;
        return lacks("parameter of the other study", rule->name, study, count, names);
    }
    return FT_OK;
}

// ---- reading --------------------------------------------------------------------------------------------------------

static ft_status read_study(ft_tuning *t, const named *name, const ft_stored *study) {
    ft_lessons *l = t->lessons;
    if (study->trials.objectives != 1)
        return ft_fail(FT_INVALID, option, "study '%s' has %d objectives, and one can be learnt from", name->shown,
                       study->trials.objectives);
    FT_TRY(check_space(t, name->shown, &study->trials));
    FT_TRY(ft_lessons_add(l, &t->arena, name->shown, &study->trials));
    const int count = l->source[l->sources - 1].count;
    if (count >= FEWEST_TRIALS) ft_info("learns from study '%s': %d trials", name->shown, count);
    if (count >= FEWEST_TRIALS) return FT_OK;
    return ft_fail(FT_INVALID, option, "study '%s' has not %d completed trials to learn from", name->shown,
                   FEWEST_TRIALS);
}

static ft_status read_named(ft_tuning *t, const named *name) {
    ft_study_place place;
    ft_storage *file;
    ft_stored *study;
    ft_error error;
    FT_TRY(ft_study_open(name->study, name->storage, FT_STORAGE_READ, &t->arena, &place, &file, &study));
    ft_status status = read_study(t, name, study);
    ft_error_save(&error);
    ft_stored_close(study);
    const ft_status closed = ft_storage_close(file);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// ---- files ----------------------------------------------------------------------------------------------------------

// A file is of a family of studies, not of this one: what only one of both searches, and what does not go together, is
// left aside, and said.
typedef struct reading {
    ft_tuning *t;
    const named *name;
    const char **studies; // that the file has
    int count, taken;
} reading;

// Appends a name to a list of them for people.
static ft_status list_name(ft_arena *arena, const char **list, const char *name) {
    *list = ft_arena_format(arena, "%s%s%s", *list, **list != '\0' ? ", " : "", name);
    return *list != NULL ? FT_OK : FT_NO_MEMORY;
}

typedef struct sharing {
    int shared;
    const char *lacking, *unlike, *more; // of this study's: not there, there of another kind; only there
} sharing;

static ft_status compare(ft_tuning *t, const ft_trials *trials, sharing *s) {
    const ft_lessons *l = t->lessons;
    const ft_distribution **theirs = ft_arena_alloc(&t->arena, ((size_t)trials->names.count + 1) * sizeof *theirs);
    *s = (sharing){.lacking = "", .unlike = "", .more = ""};
    if (theirs == NULL) return FT_NO_MEMORY;
    find_theirs(trials, theirs);
    for (int a = 0; a < l->axes; a++) {
        const int n = ft_trials_find_name(trials, l->axis[a].name);
        const bool there = n >= 0 && theirs[n] != NULL, goes = there && ft_lessons_goes_with(&l->axis[a], theirs[n]);
        s->shared += goes;
        if (!goes) FT_TRY(list_name(&t->arena, there ? &s->unlike : &s->lacking, l->axis[a].name));
    }
    for (int n = 0; n < trials->names.count; n++)
        if (theirs[n] != NULL && ft_lessons_find(l, trials->names.name[n]) < 0)
            FT_TRY(list_name(&t->arena, &s->more, trials->names.name[n]));
    return FT_OK;
}

// What is left aside, as the end of a sentence.
static const char *left_aside(ft_arena *arena, const sharing *s) {
    return ft_arena_format(arena, "%s%s%s%s%s%s", *s->lacking != '\0' ? "; not there: " : "", s->lacking,
                           *s->unlike != '\0' ? "; of another kind there: " : "", s->unlike,
                           *s->more != '\0' ? "; only there: " : "", s->more);
}

static ft_status take_study(void *context, const char *study, const ft_trials *trials) {
    reading *r = context;
    ft_tuning *t = r->t;
    ft_lessons *l = t->lessons;
    sharing s;
    const char **grown = ft_arena_alloc(&t->arena, ((size_t)r->count + 1) * sizeof *grown);
    const char *name = ft_arena_strdup(&t->arena, study);
    if (grown == NULL || name == NULL) return FT_NO_MEMORY;
    if (r->count > 0) memcpy(grown, r->studies, (size_t)r->count * sizeof *grown);
    r->studies = grown;
    r->studies[r->count++] = name;
    if (r->name->study != NULL && strcmp(r->name->study, study) != 0) return FT_OK;
    r->taken++;
    const char *shown = ft_arena_format(&t->arena, "%s#%s", r->name->file, study);
    if (shown == NULL) return FT_NO_MEMORY;
    if (trials->objectives != 1)
        return ft_fail(FT_INVALID, option, "%s has %d objectives, and one can be learnt from", shown,
                       trials->objectives);
    FT_TRY(compare(t, trials, &s));
    const char *rest = left_aside(&t->arena, &s);
    if (rest == NULL) return FT_NO_MEMORY;
    if (s.shared == 0) return ft_fail(FT_INVALID, option, "%s shares no parameter with this study%s", shown, rest);
    FT_TRY(ft_lessons_add(l, &t->arena, shown, trials));
    const int count = l->source[l->sources - 1].count;
    if (count < FEWEST_TRIALS)
        return ft_fail(FT_INVALID, option, "%s has not %d completed trials to learn from", shown, FEWEST_TRIALS);
    ft_info("learns from %s: %d trials, %d of this study's %d parameters%s", shown, count, s.shared, l->axes, rest);
    return FT_OK;
}

static ft_status read_file(ft_tuning *t, const named *name) {
    reading r = {.t = t, .name = name};
    FT_TRY(ft_exchange_read(name->file, take_study, &r));
    return r.taken > 0 ? FT_OK : ft_no_such(name->file, "study", name->study, r.count, r.studies);
}

// ---- all of them ----------------------------------------------------------------------------------------------------

ft_status ft_tuning_learn(ft_tuning *t) {
    named *list;
    int count;
    if (t->options->learn_from[0] == '\0') return FT_OK;
    FT_TRY(read_names(t, &list, &count, &t->learnt_from));
    ft_lessons *lessons = ft_arena_alloc(&t->arena, sizeof *lessons);
    if (lessons == NULL) return FT_NO_MEMORY;
    t->lessons = lessons;
    for (int i = 0; i < t->space.count; i++)
        if (t->space.rules[i].name != NULL)
            FT_TRY(ft_lessons_axis(lessons, &t->arena, t->space.rules[i].name, &t->space.rules[i].distribution));
    for (int i = 0; i < count; i++)
        FT_TRY(list[i].file != NULL ? read_file(t, &list[i]) : read_named(t, &list[i]));
    return FT_OK;
}

// ---- with the study -------------------------------------------------------------------------------------------------

static json_t *number_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *axes_json(const ft_lessons *l, bool *failed) {
    json_t *array = json_array();
    for (int a = 0; a < l->axes; a++) {
        const ft_lesson_axis *axis = &l->axis[a];
        json_t *object = json_object();
        ft_json_put(object, "name", ft_json_text(axis->name), failed);
        ft_json_put(object, "choice", json_boolean(axis->choice), failed);
        ft_json_put(object, "log", json_boolean(axis->log), failed);
        ft_json_put(object, "low", number_or_null(axis->low), failed);
        ft_json_put(object, "high", number_or_null(axis->high), failed);
        ft_json_append(array, object, failed);
    }
    return array;
}

static json_t *numbers_json(const double *values, int count, bool *failed) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        ft_json_append(array, number_or_null(values[i]), failed);
    return array;
}

static json_t *source_json(const ft_lessons *l, const ft_lesson_source *s, bool *failed) {
    json_t *object = json_object(), *rows = json_array();
    for (int i = 0; i < s->count; i++)
        ft_json_append(rows, numbers_json(s->value + (size_t)i * (size_t)l->axes, l->axes, failed), failed);
    ft_json_put(object, "study", ft_json_text(s->study), failed);
    ft_json_put(object, "losses", numbers_json(s->loss, s->count, failed), failed);
    ft_json_put(object, "values", rows, failed);
    return object;
}

ft_status ft_tuning_store_lessons(ft_tuning *t) {
    const ft_lessons *l = t->lessons;
    if (l == NULL) return FT_OK;
    bool failed = false;
    json_t *document = json_object(), *sources = json_array();
    for (int s = 0; s < l->sources; s++)
        ft_json_append(sources, source_json(l, &l->source[s], &failed), &failed);
    ft_json_put(document, "format_version", json_integer(1), &failed);
    ft_json_put(document, "learn_from", ft_json_text(t->learnt_from), &failed);
    ft_json_put(document, "axes", axes_json(l, &failed), &failed);
    ft_json_put(document, "sources", sources, &failed);
    char *line = !failed ? ft_json_line(document) : NULL;
    json_decref(document);
    if (line == NULL) return ft_fail_memory(0, "what is learnt");
    ft_status status = ft_stored_set_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, lessons_key, line);
    free(line);
    return status;
}

static ft_status broken(const char *what) {
    return ft_fail(FT_INVALID, lessons_key, "the study's attribute is not as ftengine writes it: %s", what);
}

static double number_of(const json_t *value) { return json_is_number(value) ? json_number_value(value) : NAN; }

static ft_status parse_axes(ft_tuning *t, const json_t *array, ft_lessons *l) {
    l->axes = (int)json_array_size(array);
    l->axis = ft_arena_alloc(&t->arena, (size_t)(l->axes + 1) * sizeof *l->axis);
    if (l->axis == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < l->axes; a++) {
        const json_t *from = json_array_get(array, (size_t)a);
        const char *name = json_string_value(json_object_get(from, "name"));
        ft_lesson_axis *axis = &l->axis[a];
        *axis = (ft_lesson_axis){.choice = json_is_true(json_object_get(from, "choice")),
                                 .log = json_is_true(json_object_get(from, "log")),
                                 .low = number_of(json_object_get(from, "low")),
                                 .high = number_of(json_object_get(from, "high"))};
        if (name == NULL || (!axis->choice && !(axis->low < axis->high))) return broken("an axis");
        if ((axis->name = ft_arena_strdup(&t->arena, name)) == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status parse_source(ft_tuning *t, const json_t *from, const ft_lessons *l, ft_lesson_source *s) {
    const char *name = json_string_value(json_object_get(from, "study"));
    const json_t *losses = json_object_get(from, "losses"), *rows = json_object_get(from, "values");
    const size_t count = json_array_size(losses), axes = (size_t)l->axes;
    if (name == NULL || count > FT_LESSON_TRIALS || json_array_size(rows) != count) return broken("a study");
    *s = (ft_lesson_source){.study = ft_arena_strdup(&t->arena, name),
                            .count = (int)count,
                            .value = ft_arena_alloc(&t->arena, (count * axes + 1) * sizeof *s->value),
                            .loss = ft_arena_alloc(&t->arena, (count + 1) * sizeof *s->loss)};
    if (s->study == NULL || s->value == NULL || s->loss == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        s->loss[i] = number_of(json_array_get(losses, i));
        if (!isfinite(s->loss[i]) || json_array_size(row) != axes) return broken("a trial");
        for (size_t a = 0; a < axes; a++)
            s->value[i * axes + a] = number_of(json_array_get(row, a));
    }
    return FT_OK;
}

static ft_status parse(ft_tuning *t, const json_t *document) {
    const json_t *sources = json_object_get(document, "sources");
    const char *from = json_string_value(json_object_get(document, "learn_from"));
    ft_lessons *l = ft_arena_alloc(&t->arena, sizeof *l);
    if (l == NULL) return FT_NO_MEMORY;
    if (from == NULL || json_integer_value(json_object_get(document, "format_version")) != 1)
        return broken("its version");
    FT_TRY(parse_axes(t, json_object_get(document, "axes"), l));
    l->source = ft_arena_alloc(&t->arena, (json_array_size(sources) + 1) * sizeof *l->source);
    t->learnt_from = ft_arena_strdup(&t->arena, from);
    if (l->source == NULL || t->learnt_from == NULL) return FT_NO_MEMORY;
    for (; l->sources < (int)json_array_size(sources); l->sources++)
        FT_TRY(parse_source(t, json_array_get(sources, (size_t)l->sources), l, &l->source[l->sources]));
    t->lessons = l;
    return FT_OK;
}

ft_status ft_tuning_load_lessons(ft_tuning *t) {
    const char *text;
    json_t *document;
    t->lessons = NULL;
    FT_TRY(ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, lessons_key, &t->arena, &text));
    if (text == NULL) return FT_OK;
    FT_TRY(ft_pyjson_parse(text, lessons_key, &document));
    ft_status status = parse(t, document);
    json_decref(document);
    return status;
}

ft_status ft_tuning_find_lessons(ft_tuning *t, bool *fresh) {
    const char *now = "";
    const int64_t trials = t->study->trials.count;
    named *list;
    int count;
    *fresh = false;
    FT_TRY(ft_tuning_load_lessons(t));
    if (t->options->learn_from[0] == '\0') return FT_OK;
    FT_TRY(read_names(t, &list, &count, &now));
    if (t->lessons != NULL) {
        if (strcmp(now, t->learnt_from) != 0)
            ft_warn("study.learn_from is now %s; this study learnt from %s when it was made, and goes on with that",
                    now, t->learnt_from);
        return FT_OK;
    }
    *fresh = trials == 0;
    if (*fresh) return ft_tuning_learn(t);
    ft_fail(FT_INVALID, option, "study '%s' has %lld trial%s, and what a study learns from is fixed when it is made",
            t->study->name, (long long)trials, trials == 1 ? "" : "s");
    ft_hint("choose another name with --study for a study that learns from %s", now);
    return FT_INVALID;
}

ft_status ft_tuning_keep_lessons(ft_tuning *t) {
    bool fresh;
    FT_TRY(ft_tuning_find_lessons(t, &fresh));
    return fresh ? ft_tuning_store_lessons(t) : FT_OK;
}

// predictions.c - what the runs of one configuration predicted, joined: every example once, with the mean of those that judged it. Each
// run's file is in the order of splits and examples, so that they are read side by side, and no more than a line of each is in memory. Where
// documents have places among those of their query all are read twice: first come the scores, which the places follow from.
#include "engine/train/repeat/join.h"
#include "engine/train/repeat/repeat.h"

#include "base/files.h"
#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_FILES = 200 }; // of more runs each file is opened anew for every line

// What the lines of a task hold: the truth, and numbers by name, of which the means are taken; or lists (join.h).
static const struct {
    const char *only, *truth, *numbers; // only: a member that no other task's lines have
    json_t *(*join)(const json_t *const *lines, int count, bool *failed);
} kinds[] = {{"scores", "labels", NULL, ft_join_words},      {"answers", "labels", NULL, ft_join_answers}, {"query", "targets", "values", NULL},
             {"targets", "targets", "values", NULL},         {"label", "label", "probabilities", NULL},    {"labels", "labels", "probabilities", NULL}};
enum { WORDS, ANSWERS, DOCUMENTS, TARGETS, SINGLE_LABEL, SEVERAL_LABELS, KINDS };

typedef struct place {
    bool test; // of the test set
    int64_t id;
} place;

// A run's file, at a line.
typedef struct source {
    ft_json_lines lines;
    bool there; // else it has ended
    place at;
    json_t *line;
    double *number; // [columns]
    int64_t query;
} source;

typedef struct joining {
    ft_arena arena;
    ft_json_line_room room;
    int kind;           // KINDS: not known yet
    const char **names; // of the numbers: classes or targets
    int columns;
    source *source; // [count]
    int count;
    double *mean; // [columns]
    bool other;   // there are lines that do not go together
    ft_join_places places;
    int64_t written;      // examples, in the second reading
    const json_t **lines; // [count] room
} joining;

static int compare(const place *x, const place *y) {
    if (x->test != y->test) return x->test - y->test;
    return (x->id > y->id) - (x->id < y->id);
}

static ft_status name_columns(joining *j, const json_t *line) {
    const char *key;
    json_t *value;
    for (j->kind = 0; j->kind < KINDS && json_object_get(line, kinds[j->kind].only) == NULL;) j->kind++;
    const json_t *numbers = j->kind < KINDS && kinds[j->kind].numbers != NULL ? json_object_get(line, kinds[j->kind].numbers) : NULL;
    const size_t count = json_object_size(numbers);
    j->names = ft_arena_alloc(&j->arena, (count + 1) * sizeof *j->names);
    j->mean = ft_arena_alloc(&j->arena, (count + 1) * sizeof *j->mean);
    if (j->names == NULL || j->mean == NULL) return FT_NO_MEMORY;
    json_object_foreach((json_t *)numbers, key, value) {
        j->names[j->columns] = ft_arena_strdup(&j->arena, key);
        if (j->names[j->columns++] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

// Is it a line as the first one was?
static bool is_ours(const joining *j, const json_t *line) {
    const json_t *id = json_object_get(line, "id");
    if (j->kind == KINDS || !json_is_string(json_object_get(line, "split")) || !json_is_integer(id)) return false;
    if (json_object_get(line, kinds[j->kind].truth) == NULL || json_object_get(line, kinds[j->kind].only) == NULL) return false;
    if (kinds[j->kind].join != NULL) return true;
    const json_t *numbers = json_object_get(line, kinds[j->kind].numbers), *query = json_object_get(line, "query");
    bool ours = j->columns > 0 && json_object_size(numbers) == (size_t)j->columns;
    if (j->kind == DOCUMENTS) ours = ours && json_is_integer(query) && json_integer_value(query) >= 0 && json_integer_value(query) < INT32_MAX / 2 - 64;
    for (int k = 0; k < j->columns && ours; k++) ours = json_is_number(json_object_get(numbers, j->names[k]));
    return ours;
}

static ft_status take_line(joining *j, source *s, json_t *line) {
    const place before = s->at;
    const bool first = !s->there;
    if (j->names == NULL) FT_TRY(name_columns(j, line));
    const bool ours = is_ours(j, line);
    if (ours) s->at = (place){strcmp(json_string_value(json_object_get(line, "split")), "test") == 0, json_integer_value(json_object_get(line, "id"))};
    if (!ours || (!first && compare(&before, &s->at) >= 0)) {
        j->other = true;
        return FT_OK;
    }
    if (s->number == NULL) s->number = ft_arena_alloc(&j->arena, (size_t)(j->columns + 1) * sizeof *s->number);
    if (s->number == NULL) return FT_NO_MEMORY;
    json_decref(s->line);
    s->line = json_incref(line);
    s->there = true;
    s->query = json_integer_value(json_object_get(line, "query"));
    const json_t *numbers = j->columns > 0 ? json_object_get(line, kinds[j->kind].numbers) : NULL;
    for (int k = 0; k < j->columns; k++) s->number[k] = json_number_value(json_object_get(numbers, j->names[k]));
    return FT_OK;
}

static ft_status advance(joining *j, source *s) {
    json_t *line;
    FT_TRY(ft_json_lines_next(&s->lines, &j->room, &line));
    ft_status status = FT_OK;
    if (line != NULL) status = take_line(j, s, line);
    else s->there = false;
    json_decref(line);
    return status;
}

// What the mean probabilities come to: the most probable label, or all that are more probable than not.
static json_t *decided(const joining *j, bool *failed) {
    json_t *names = json_array();
    int best = 0;
    for (int k = 0; k < j->columns; k++) {
        if (j->mean[k] > j->mean[best]) best = k;
        if (j->mean[k] >= 0.5) ft_json_append(names, json_string(j->names[k]), failed);
    }
    if (j->kind == SEVERAL_LABELS) return names;
    json_decref(names);
    return json_string(j->names[best]);
}

static bool judges(const source *s, const source *first) { return s->there && compare(&s->at, &first->at) == 0; }

static void take_means(const joining *j, const source *first, int count) {
    for (int k = 0; k < j->columns; k++) {
        j->mean[k] = 0;
        for (int i = 0; i < j->count; i++)
            if (judges(&j->source[i], first)) j->mean[k] += j->source[i].number[k] / (double)count;
    }
}

// first: one of the sources whose line is of that example; `count` are.
static json_t *line_of(joining *j, const source *first, int count, bool *failed) {
    if (kinds[j->kind].join != NULL) {
        int n = 0;
        for (int i = 0; i < j->count; i++)
            if (judges(&j->source[i], first)) j->lines[n++] = j->source[i].line;
        return kinds[j->kind].join(j->lines, count, failed);
    }
    json_t *numbers = json_object();
    for (int k = 0; k < j->columns; k++) ft_json_put(numbers, j->names[k], ft_json_rounded(j->mean[k], 9), failed);
    json_t *line = json_pack("{s:i, s:s, s:I}", "format_version", 1, "split", first->at.test ? "test" : "validation", "id", (json_int_t)first->at.id);
    json_t *name = json_object_get(first->line, "file_name"); // of a picture
    if (name != NULL) ft_json_put(line, "file_name", json_incref(name), failed);
    if (j->kind == DOCUMENTS) {
        const ft_join_place *at = &j->places.place[j->written];
        ft_json_put(line, "query", json_integer(at->query), failed);
        ft_json_put(line, "rank", json_integer(at->rank), failed);
    }
    ft_json_put(line, kinds[j->kind].truth, json_incref(json_object_get(first->line, kinds[j->kind].truth)), failed);
    if (j->kind == SINGLE_LABEL || j->kind == SEVERAL_LABELS) ft_json_put(line, "predicted", decided(j, failed), failed);
    ft_json_put(line, kinds[j->kind].numbers, numbers, failed);
    return line;
}

// out NULL: of documents their scores are kept.
static ft_status write_example(joining *j, const source *first, int count, FILE *out) {
    take_means(j, first, count);
    if (out == NULL) return ft_join_places_add(&j->places, (int)(first - j->source), first->at.test, first->query, j->mean[0]);
    bool failed = false;
    json_t *line = line_of(j, first, count, &failed);
    if (line == NULL && !failed) { // lists of other lengths
        j->other = true;
        return FT_OK;
    }
    char *text = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (text == NULL) return ft_fail_memory(0, "a line of predictions.jsonl");
    fprintf(out, "%s\n", text);
    free(text);
    j->written++;
    return FT_OK;
}

// The next example goes out; *found: there was one.
static ft_status join_next(joining *j, FILE *out, bool *found) {
    const source *first = NULL;
    int count = 0;
    for (int i = 0; i < j->count; i++) {
        const source *s = &j->source[i];
        const int order = !s->there ? 1 : first == NULL ? -1 : compare(&s->at, &first->at);
        if (order < 0) first = s, count = 0;
        if (order <= 0) count++;
    }
    *found = first != NULL;
    if (first == NULL) return FT_OK;
    const place at = first->at;
    FT_TRY(write_example(j, first, count, out));
    for (int i = 0; i < j->count && !j->other; i++)
        if (j->source[i].there && compare(&j->source[i].at, &at) == 0) FT_TRY(advance(j, &j->source[i]));
    return FT_OK;
}

static void close_sources(joining *j) {
    for (int i = 0; i < j->count; i++) {
        json_decref(j->source[i].line);
        ft_json_lines_close(&j->source[i].lines);
    }
    j->count = 0;
}

static ft_status open_sources(joining *j, ft_repeat *r) {
    close_sources(j);
    j->source = ft_arena_alloc(&j->arena, (size_t)r->done * sizeof *j->source);
    j->lines = ft_arena_alloc(&j->arena, (size_t)r->done * sizeof *j->lines);
    if (j->source == NULL || j->lines == NULL) return FT_NO_MEMORY;
    for (int i = ft_repeat_first(r, r->done); i < r->done && !j->other; i++) {
        char *path = ft_path_join(&j->arena, r->runs[i].dir, "predictions.jsonl");
        if (path == NULL) return FT_NO_MEMORY;
        j->source[j->count++] = (source){.lines = {.path = path, .several = r->done > OPEN_FILES}};
        FT_TRY(advance(j, &j->source[j->count - 1]));
    }
    return FT_OK;
}

static bool any(const joining *j) {
    for (int i = 0; i < j->count; i++)
        if (j->source[i].there) return true;
    return false;
}

static ft_status join_all(joining *j, FILE *out) {
    for (bool found = true; found && !j->other;) FT_TRY(join_next(j, out, &found));
    return FT_OK;
}

static ft_status find_places(joining *j, ft_repeat *r) {
    FT_TRY(ft_join_places_open(r->done, &j->places));
    FT_TRY(join_all(j, NULL));
    ft_join_places_rank(&j->places);
    return j->other ? FT_OK : open_sources(j, r);
}

// Nothing is written where there is nothing, or what does not go together.
static ft_status join(joining *j, ft_repeat *r) {
    FT_TRY(open_sources(j, r));
    if (!j->other && any(j) && j->kind == DOCUMENTS) FT_TRY(find_places(j, r));
    if (j->other || !any(j)) return FT_OK;
    char *path = ft_path_join(&j->arena, r->dir, "predictions.jsonl");
    ft_atomic_file file;
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = join_all(j, file.stream);
    if (status == FT_OK && !j->other) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

ft_status ft_repeat_write_predictions(ft_repeat *r) {
    joining j = {.kind = KINDS};
    ft_status status = join(&j, r);
    close_sources(&j);
    ft_join_places_free(&j.places);
    free(j.room.text);
    ft_arena_free(&j.arena);
    return status;
}

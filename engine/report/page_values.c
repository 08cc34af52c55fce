// page_values.c - predicted numbers on the page of a run: beside their targets, and where they are farthest off.
#include "engine/report/page.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/report/chart.h"
#include "engine/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TARGETS = 16, FARTHEST = 12 };

// Of one target: what it is and what was predicted.
typedef struct series {
    const char *name;
    int64_t count, capacity;
    double *target, *value;
    json_int_t *id;
} series;

typedef struct values {
    const char *split;
    ft_arena arena;
    series list[MOST_TARGETS];
    int count;
} values;

static series *series_named(values *v, const char *name) {
    for (int k = 0; k < v->count; k++)
        if (strcmp(v->list[k].name, name) == 0) return &v->list[k];
    if (v->count == MOST_TARGETS) return NULL;
    v->list[v->count].name = ft_arena_strdup(&v->arena, name);
    return v->list[v->count].name != NULL ? &v->list[v->count++] : NULL;
}

static ft_status add_value(series *s, json_int_t id, double target, double value) {
    if (s->count == s->capacity) {
        int64_t capacity = s->capacity > 0 ? 2 * s->capacity : 256;
        double *targets = ft_realloc(s->target, (size_t)capacity, sizeof *targets, "predicted numbers");
        if (targets == NULL) return FT_NO_MEMORY;
        s->target = targets;
        double *numbers = ft_realloc(s->value, (size_t)capacity, sizeof *numbers, "predicted numbers");
        if (numbers == NULL) return FT_NO_MEMORY;
        s->value = numbers;
        json_int_t *ids = ft_realloc(s->id, (size_t)capacity, sizeof *ids, "predicted numbers");
        if (ids == NULL) return FT_NO_MEMORY;
        s->id = ids;
        s->capacity = capacity;
    }
    s->target[s->count] = target;
    s->value[s->count] = value;
    s->id[s->count++] = id;
    return FT_OK;
}

static ft_status take_line(void *context, const json_t *line) {
    values *v = context;
    const char *split = json_string_value(json_object_get(line, "split")), *key;
    const json_t *predicted = json_object_get(line, "values");
    json_t *target;
    if (split == NULL || strcmp(split, v->split) != 0 || !json_is_object(predicted)) return FT_OK;
    json_object_foreach(json_object_get(line, "targets"), key, target) {
        const json_t *value = json_object_get(predicted, key);
        if (!json_is_number(target) || !json_is_number(value)) continue;
        series *s = series_named(v, key);
        if (s == NULL) return v->count == MOST_TARGETS ? FT_OK : FT_NO_MEMORY; // the first ones will do
        FT_TRY(
            add_value(s, json_integer_value(json_object_get(line, "id")), json_number_value(target), json_number_value(value)));
    }
    return FT_OK;
}

static double distance(const series *s, int64_t i) { return fabs(s->value[i] - s->target[i]); }

static void write_farthest(const series *s, FILE *out) {
    int64_t worst[FARTHEST];
    int count = 0;
    for (int64_t i = 0; i < s->count; i++) {
        int at = count < FARTHEST ? count++ : FARTHEST;
        for (; at > 0 && distance(s, worst[at - 1]) < distance(s, i); at--)
            if (at < FARTHEST) worst[at] = worst[at - 1];
        if (at < FARTHEST) worst[at] = i;
    }
    fputs("<section class=\"card\"><h3>Farthest off: ", out);
    ft_html_name(out, s->name);
    fputs("</h3><p class=\"soft\">Examples are numbered from 0, in the order of the file.</p><div class=\"scroll\"><table "
          "class=\"wide\"><tr>"
          "<th class=\"n\">example<th class=\"n\">target<th class=\"n\">predicted</tr>\n",
          out);
    for (int k = 0; k < count; k++) {
        fprintf(out, "<tr><td class=\"n\">%lld<td class=\"n\">", (long long)s->id[worst[k]]);
        ft_html_number(out, s->target[worst[k]], 5);
        fputs("<td class=\"n\">", out);
        ft_html_number(out, s->value[worst[k]], 5);
        fputs("</tr>\n", out);
    }
    fputs("</table></div></section>\n", out);
}

static ft_status write_split(const char *path, values *v, FILE *out) {
    FT_TRY(ft_json_lines_read(path, take_line, v));
    if (v->count == 0) return FT_OK;
    fprintf(out, "<h2>Predictions: %s</h2>\n<div class=\"two\">\n", v->split);
    for (int k = 0; k < v->count; k++) {
        const series *s = &v->list[k];
        ft_chart chart = {.title = s->name, .x_name = "target; upwards: predicted", .mark = NAN, .line_count = 1};
        chart.lines[0] = (ft_chart_line){"an example", s->count, s->target, s->value};
        FT_TRY(ft_chart_scatter(out, &chart));
        write_farthest(s, out);
    }
    fputs("</div>\n", out);
    return FT_OK;
}

ft_status ft_page_values(const ft_run_record *run, FILE *out) {
    static const char *const splits[] = {"validation", "test"};
    ft_arena arena = {0};
    char *path = ft_path_join(&arena, run->path, "predictions.jsonl");
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    for (int s = 0; s < 2 && status == FT_OK; s++) {
        values v = {.split = splits[s]};
        status = write_split(path, &v, out);
        for (int k = 0; k < v.count; k++) {
            free(v.list[k].target);
            free(v.list[k].value);
            free(v.list[k].id);
        }
        ft_arena_free(&v.arena);
    }
    ft_arena_free(&arena);
    return status;
}

// sweep.c - `ftengine plan --sweep section.key=v1,v2`: a plan for every combination of option values.
#include "engine/commands/plan/command.h"
#include "engine/commands/plan/picture.h"

#include "base/json/json.h"
#include "engine/config/options.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 16, MOST_ROWS = 100000 };

typedef struct axis {
    const ft_option *option;
    const char *given; // as on the command line, for errors
    char **values;
    int count, at;
} axis;

typedef struct row {
    size_t allocated, reserved, budget;
    bool fits, not_supported;
} row;

typedef struct sweep {
    const ft_plan_task *task;
    axis axes[MOST_AXES];
    int axis_count;
    int64_t row_count;
    int64_t fitting, not_supported;
    char missing[FT_PLAN_MISSING]; // of the texts of some row
    json_t *rows; // JSON only
    ft_plan plan; // of the present row
    row *all;     // with a picture only, in order
    ft_arena arena;
} sweep;

// ---- the axes ----------------------------------------------------------------------------------------------------

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

// Values are separated by commas, those of options that are lists themselves by semicolons.
static ft_status split_values(sweep *s, axis *a, char *text) {
    char separator = a->option->type == FT_OPTION_LIST ? ';' : ',';
    size_t most = 1;
    for (const char *c = text; *c != '\0'; c++)
        most += *c == separator;
    a->values = ft_arena_alloc(&s->arena, most * sizeof *a->values);
    if (a->values == NULL) return FT_NO_MEMORY;
    for (char *end; text != NULL; text = end) {
        end = strchr(text, separator);
        if (end != NULL) *end++ = '\0';
        a->values[a->count++] = trimmed(text);
    }
    return FT_OK;
}

static ft_status find_option(const ft_section *const *others, const char *name, const char *given, const ft_option **option) {
    const char *dot = strchr(name, '.');
    const ft_section *of = dot != NULL ? ft_section_find(others, name, (size_t)(dot - name)) : NULL;
    if (of != NULL && of->about != NULL)
        return ft_fail(FT_INVALID, given, "[%s] is about %s and changes nothing about a run", of->name, of->about);
    if ((*option = ft_option_at(ft_option_find(name))) != NULL) return FT_OK;
    char section[64] = "";
    if (dot != NULL) snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
    return ft_option_unknown(others, section, dot != NULL ? dot + 1 : name, given);
}

static ft_status add_axis(sweep *s, const char *given) {
    if (s->axis_count == MOST_AXES)
        return ft_fail(FT_INVALID, "plan", "--sweep: at most %d options can be swept at once", MOST_AXES);
    axis *a = &s->axes[s->axis_count++];
    char *copy = ft_arena_strdup(&s->arena, given), *equals = copy != NULL ? strchr(copy, '=') : NULL;
    if (copy == NULL) return FT_NO_MEMORY;
    if (equals == NULL)
        return ft_fail(FT_INVALID, "plan", "--sweep takes section.key=value,value,...; got \"%s\"", given);
    *equals = '\0';
    a->given = ft_arena_format(&s->arena, "--sweep %s", given);
    if (a->given == NULL) return FT_NO_MEMORY;
    FT_TRY(find_option(s->task->config.others.list, trimmed(copy), a->given, &a->option));
    for (int i = 0; i + 1 < s->axis_count; i++)
        if (s->axes[i].option == a->option)
            return ft_fail(FT_INVALID, a->given, "%s is swept already", a->option->name);
    FT_TRY(split_values(s, a, equals + 1));
    s->row_count *= a->count;
    if (s->row_count > MOST_ROWS) return ft_fail(FT_INVALID, "plan", "--sweep: more than %d combinations", MOST_ROWS);
    return FT_OK;
}

// A wrong value is found before the first row is printed.
static ft_status check_values(const sweep *s) {
    for (int i = 0; i < s->axis_count; i++)
        for (int k = 0; k < s->axes[i].count; k++) {
            ft_config config = s->task->config;
            config.arena = (ft_arena){0};
            ft_status status = ft_option_set(&config, s->axes[i].option, s->axes[i].values[k], NULL, s->axes[i].given);
            ft_arena_free(&config.arena);
            FT_TRY(status);
        }
    return FT_OK;
}

// ---- a row -------------------------------------------------------------------------------------------------------

static ft_status plan_row(sweep *s, ft_config *config, row *out) {
    for (int i = 0; i < s->axis_count; i++) {
        const axis *a = &s->axes[i];
        FT_TRY(ft_option_set(config, a->option, a->values[a->at], NULL, a->given));
    }
    FT_TRY(ft_config_check(config));
    char missing[FT_PLAN_MISSING];
    FT_TRY(ft_plan_find_texts(config, missing));
    if (missing[0] != '\0') memcpy(s->missing, missing, sizeof missing);
    ft_plan_request request = ft_plan_request_of(s->task);
    FT_TRY(ft_plan_run(config, &request, &s->plan));
    *out = (row){s->plan.memory.peak_allocated, s->plan.memory.peak_reserved, s->plan.budget_bytes, s->plan.fits, s->plan.not_supported};
    return FT_OK;
}

static ft_status run_row(sweep *s, row *out) {
    ft_config config = s->task->config;
    config.arena = (ft_arena){0}; // new strings; the old ones stay the task's
    ft_status status = plan_row(s, &config, out);
    ft_arena_free(&config.arena);
    if (status == FT_OK) return FT_OK;
    char text[400];
    size_t at = 0;
    for (int i = 0; i < s->axis_count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %s=%s", s->axes[i].option->name,
                               s->axes[i].values[s->axes[i].at]);
    ft_hint("in the combination%s", text);
    return status;
}

static bool next_combination(sweep *s) {
    for (int i = s->axis_count - 1; i >= 0; i--) { // the last axis runs fastest
        if (++s->axes[i].at < s->axes[i].count) return true;
        s->axes[i].at = 0;
    }
    return false;
}

// ---- output ------------------------------------------------------------------------------------------------------

static int width_of(const axis *a) {
    size_t width = strlen(a->option->name);
    for (int i = 0; i < a->count; i++)
        width = strlen(a->values[i]) > width ? strlen(a->values[i]) : width;
    return (int)width;
}

static void print_head(const sweep *s) {
    if (s->task->format == FT_PLAN_CSV) {
        for (int i = 0; i < s->axis_count; i++)
            printf("%s,", s->axes[i].option->name);
        printf("peak_allocated_bytes,peak_reserved_bytes,budget_bytes,fits\n");
    } else if (s->task->format == FT_PLAN_TEXT) {
        printf("%s: %lld plans\n\n", ft_plan_model_name(&s->task->config), (long long)s->row_count);
        for (int i = 0; i < s->axis_count; i++)
            printf("%*s  ", width_of(&s->axes[i]), s->axes[i].option->name);
        printf("%10s %10s %10s  fits\n", "allocated", "reserved", "budget");
    }
}

// The value as a program wants it: numbers as numbers, words (auto, on) as strings.
static json_t *value_json(const axis *a) {
    const char *text = a->values[a->at];
    if (a->option->type == FT_OPTION_INT && strspn(text, "+-0123456789") == strlen(text))
        return json_integer(strtoll(text, NULL, 10));
    if (a->option->type == FT_OPTION_FLOAT && strspn(text, "+-.0123456789eE") == strlen(text))
        return json_real(strtod(text, NULL));
    return ft_json_text(text);
}

static ft_status add_json(sweep *s, const row *r) {
    bool failed = false;
    json_t *options = json_object();
    for (int i = 0; i < s->axis_count; i++)
        ft_json_put(options, s->axes[i].option->name, value_json(&s->axes[i]), &failed);
    json_t *one = json_pack("{s:o, s:I, s:I, s:I, s:s, s:b, s:f, s:o}", "options", options, "peak_allocated_bytes",
                            (json_int_t)r->allocated, "peak_reserved_bytes", (json_int_t)r->reserved, "budget_bytes",
                            (json_int_t)r->budget, "verdict", ft_plan_verdict(&s->plan), "fits", r->fits, "predicted_step_seconds", s->plan.step_seconds, "autofit",
                            ft_plan_autofit_json(&s->plan.autofit));
    ft_json_append(s->rows, one, &failed);
    return failed ? ft_fail_memory(0, "the plan as JSON") : FT_OK;
}

static ft_status print_row(sweep *s, const row *r) {
    char a[24], b[24], c[24];
    if (s->task->format == FT_PLAN_JSON) return add_json(s, r);
    if (s->task->format == FT_PLAN_CSV) {
        for (int i = 0; i < s->axis_count; i++)
            ft_plan_csv_field(s->axes[i].values[s->axes[i].at]), putchar(',');
        printf("%zu,%zu,%zu,%s\n", r->allocated, r->reserved, r->budget, r->fits ? "true" : "false");
        return FT_OK;
    }
    for (int i = 0; i < s->axis_count; i++)
        printf("%*s  ", width_of(&s->axes[i]), s->axes[i].values[s->axes[i].at]);
    printf("%10s %10s %10s  %s\n", ft_bytes_text(r->allocated, a), ft_bytes_text(r->reserved, b),
           ft_bytes_text(r->budget, c), r->not_supported ? "not supported" : r->fits ? "yes" : "no");
    return FT_OK;
}

static ft_status print_end(sweep *s) {
    if (s->task->format == FT_PLAN_TEXT) ft_plan_print_notes(&s->plan, s->missing);
    if (s->task->format != FT_PLAN_JSON) return FT_OK;
    bool failed = false;
    json_t *root =
        json_pack("{s:i, s:o}", "format_version", 1, "model", ft_json_text(ft_plan_model_name(&s->task->config)));
    if (s->missing[0] != '\0') ft_json_put(root, "texts_missing", ft_json_text(s->missing), &failed);
    if (s->task->card != NULL) ft_json_put(root, "gpu", ft_plan_card_json(s->task), &failed);
    ft_json_put(root, "rows", s->rows, &failed);
    s->rows = NULL; // taken
    return ft_plan_write_json(root, failed);
}

// ---- the picture -------------------------------------------------------------------------------------------------

// The axis with most values runs to the right, the last of equals; every combination of the others is a line.
static int across_axis(const sweep *s) {
    int longest = 0;
    for (int i = 0; i < s->axis_count; i++)
        if (s->axes[i].count >= s->axes[longest].count) longest = i;
    return longest;
}

// Before anything is planned: a sweep may take long.
static ft_status check_picture(sweep *s) {
    int64_t lines = s->row_count / s->axes[across_axis(s)].count;
    if (lines > FT_PLAN_PICTURE_LINES) {
        ft_fail(FT_INVALID, "plan",
                "--svg: %lld lines, one for every combination without %s, but at most %d can be told apart",
                (long long)lines, s->axes[across_axis(s)].option->name, FT_PLAN_PICTURE_LINES);
        ft_hint("sweep fewer values at once");
        return FT_INVALID;
    }
    s->all = ft_arena_alloc(&s->arena, (size_t)s->row_count * sizeof *s->all);
    return s->all != NULL ? FT_OK : FT_NO_MEMORY;
}

// "batch_size=8, gradient_checkpointing=on": where the axes stand, but for the one that runs to the right.
static char *line_name(sweep *s, int without) {
    char text[400] = "";
    size_t at = 0;
    for (int i = 0; i < s->axis_count && at < sizeof text; i++)
        if (i != without)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%s", at > 0 ? ", " : "",
                                   ft_option_key(s->axes[i].option), s->axes[i].values[s->axes[i].at]);
    if (strlen(text) > 72) strcpy(text + 69, "...");
    return ft_arena_strdup(&s->arena, text);
}

static ft_status draw(sweep *s) {
    const int right = across_axis(s), points = s->axes[right].count;
    const int64_t lines = s->row_count / points;
    double *y = ft_arena_alloc(&s->arena, (size_t)s->row_count * sizeof *y);
    bool *hollow = ft_arena_alloc(&s->arena, (size_t)s->row_count * sizeof *hollow), same_budget = true;
    ft_plan_picture_line line[FT_PLAN_PICTURE_LINES];
    if (y == NULL || hollow == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < s->axis_count; i++)
        s->axes[i].at = 0;
    int64_t row_index = 0;
    do {
        int64_t k = 0; // the line: the other axes as digits
        for (int i = 0; i < s->axis_count; i++)
            if (i != right) k = k * s->axes[i].count + s->axes[i].at;
        const row *r = &s->all[row_index++];
        const int64_t at = k * points + s->axes[right].at;
        y[at] = (double)r->reserved / 0x1p30;
        hollow[at] = !r->fits;
        same_budget &= r->budget == s->all[0].budget;
        if (s->axes[right].at > 0) continue;
        line[k] = (ft_plan_picture_line){.name = line_name(s, right), .y = y + k * points, .hollow = hollow + k * points};
        if (line[k].name == NULL) return FT_NO_MEMORY;
    } while (next_combination(s));
    char title[160], budget[160], subtitle[180];
    snprintf(title, sizeof title, "Planned peak memory: %s", ft_plan_model_name(&s->task->config));
    ft_plan_budget_text(s->task, &s->task->config, s->all[0].budget, budget, sizeof budget);
    snprintf(subtitle, sizeof subtitle, "budget %s", budget);
    return ft_plan_picture_write(
        &(ft_plan_picture){.title = title,
                      .subtitle = same_budget ? subtitle : "budgets differ",
                      .x_name = s->axes[right].option->name,
                      .y_name = "GiB reserved at the peak",
                      .x_count = points,
                      .x_labels = (const char *const *)s->axes[right].values,
                      .line_count = (int)lines,
                      .lines = line,
                      .level = same_budget ? (double)s->all[0].budget / 0x1p30 : NAN,
                      .level_name = "budget",
                      .note = s->fitting < s->row_count
                                  ? "empty circles do not fit; what is at auto is fitted to the budget"
                                  : "everything fits; what is at auto is fitted to the budget"},
        s->task->svg);
}

static ft_status run(sweep *s, int count, const char *const *sweeps) {
    for (int i = 0; i < count; i++)
        FT_TRY(add_axis(s, sweeps[i]));
    FT_TRY(check_values(s));
    if (s->task->svg != NULL) FT_TRY(check_picture(s));
    if (s->task->format == FT_PLAN_JSON && (s->rows = json_array()) == NULL)
        return ft_fail_memory(0, "the plan as JSON");
    bool first = true;
    int64_t done = 0;
    do {
        row r;
        FT_TRY(run_row(s, &r));
        if (first) print_head(s); // not before: what is wrong in every row leaves no output
        first = false;
        s->fitting += r.fits;
        s->not_supported += r.not_supported;
        if (s->all != NULL) s->all[done++] = r;
        FT_TRY(print_row(s, &r));
    } while (next_combination(s));
    FT_TRY(print_end(s));
    if (s->all != NULL) FT_TRY(draw(s));
    if (s->not_supported == s->row_count) return ft_plan_refuse_card(s->task, &s->plan);
    return s->fitting > 0
               ? FT_OK
               : ft_fail(FT_NO_MEMORY, NULL, "does not fit: none of %lld combinations", (long long)s->row_count);
}

ft_status ft_plan_sweep(const ft_plan_task *task, int count, const char *const *sweeps) {
    sweep s = {.task = task, .row_count = 1};
    ft_status status = run(&s, count, sweeps);
    json_decref(s.rows);
    ft_arena_free(&s.arena);
    return status;
}

// compare.c - `ftengine compare`: in which options runs differ, and what came of it.
#include "engine/commands/commands.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/commands/text_table.h"
#include "engine/memory/memory.h"
#include "engine/report/run_record.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACROSS = 5, WIDEST = 44 }; // so many runs stand side by side, more below each other; width of a cell for people

typedef struct names {
    const char **list;
    int count, capacity;
} names;

typedef struct comparison {
    ft_arena *arena;
    names paths;
    ft_run_record *runs; // [paths.count]; those behind `opened` are {0}
    int opened;
    names options, figures; // what is shown of each run
    int equal;              // options that are not shown, since all runs agree
    bool all;
} comparison;

static ft_status add_name(ft_arena *arena, names *n, const char *name) {
    if (n->count == n->capacity) {
        int capacity = n->capacity > 0 ? 2 * n->capacity : 64;
        const char **grown = ft_arena_alloc(arena, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (n->count > 0) memcpy(grown, n->list, (size_t)n->count * sizeof *grown);
        n->list = grown;
        n->capacity = capacity;
    }
    n->list[n->count++] = name;
    return FT_OK;
}

static bool has_name(const names *n, const char *name) {
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->list[i], name) == 0) return true;
    return false;
}

// ---- which runs ---------------------------------------------------------------------------------------------------------

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

// The runs inside a directory, by name.
static ft_status add_inside(comparison *c, const char *path) {
    DIR *d = opendir(path);
    if (d == NULL) return ft_fail_errno(FT_INVALID, errno, path, "cannot look for runs");
    int first = c->paths.count;
    ft_status status = FT_OK;
    for (struct dirent *e; status == FT_OK && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        char *inside = ft_path_join(c->arena, path, e->d_name);
        if (inside == NULL)
            status = FT_NO_MEMORY;
        else if (ft_run_is_there(inside))
            status = add_name(c->arena, &c->paths, inside);
    }
    closedir(d);
    if (status == FT_OK && c->paths.count > first)
        qsort(c->paths.list + first, (size_t)(c->paths.count - first), sizeof *c->paths.list, by_text);
    return status;
}

// A run, a directory of runs (a study's trials, runs/), or a study.
static ft_status add_path(comparison *c, const char *path) {
    if (ft_run_is_there(path) || !ft_path_is_directory(path)) return add_name(c->arena, &c->paths, path);
    char *trials = ft_path_join(c->arena, path, "trials");
    if (trials == NULL) return FT_NO_MEMORY;
    int before = c->paths.count;
    FT_TRY(add_inside(c, ft_path_is_directory(trials) ? trials : path));
    return c->paths.count > before ? FT_OK : add_name(c->arena, &c->paths, path); // refused by name when it is opened
}

static ft_status open_runs(comparison *c, const ft_section *const *sections, const ft_words *words) {
    for (int i = 0; i < words->plain_count; i++)
        FT_TRY(add_path(c, words->plain[i]));
    c->runs = ft_arena_alloc(c->arena, (size_t)c->paths.count * sizeof *c->runs);
    if (c->runs == NULL) return FT_NO_MEMORY;
    bool same_names = false;
    for (int i = 0; i < c->paths.count; i++) {
        FT_TRY(ft_run_record_open(sections, c->paths.list[i], &c->runs[c->opened++]));
        for (int k = 0; k < i; k++)
            same_names |= strcmp(c->runs[i].name, c->runs[k].name) == 0;
    }
    for (int i = 0; same_names && i < c->opened; i++)
        c->runs[i].name = c->runs[i].path;
    return FT_OK;
}

// ---- what is shown of them ----------------------------------------------------------------------------------------------

// A run of another version may not know an option; only those that do can differ in it.
static ft_status consider_option(comparison *c, const char *name) {
    const char *first = NULL;
    bool differs = false;
    if (strcmp(name, "output.dir") == 0) return FT_OK; // says no more than the run's name
    for (int i = 0; i < c->opened; i++) {
        const char *text = ft_run_option(&c->runs[i], name);
        if (first == NULL) first = text;
        differs |= text != NULL && strcmp(text, first) != 0;
    }
    if (differs || (c->all && first != NULL)) return add_name(c->arena, &c->options, name);
    c->equal += first != NULL;
    return FT_OK;
}

// In the order of the option table; behind them those of runs that another version wrote.
static ft_status choose_options(comparison *c) {
    const char *key;
    json_t *value;
    names known = {0};
    for (int i = 0; i < ft_option_count(); i++) {
        FT_TRY(add_name(c->arena, &known, ft_option_name(i)));
        FT_TRY(consider_option(c, ft_option_name(i)));
    }
    for (int i = 0; i < c->opened; i++)
        json_object_foreach(c->runs[i].config, key, value) {
            if (has_name(&known, key)) continue;
            FT_TRY(add_name(c->arena, &known, key));
            FT_TRY(consider_option(c, key));
        }
    return FT_OK;
}

// 0, 1, 2: a metric of validation, test, training; 3: not a metric.
static int kind_of(const char *figure) {
    static const char *const kinds[] = {"eval.", "test.", "train."};
    int kind = 0;
    while (kind < 3 && strncmp(figure, kinds[kind], strlen(kinds[kind])) != 0)
        kind++;
    return kind;
}

static bool is_metric(const char *figure) { return kind_of(figure) < 3; }

// By kind, whichever run has them.
static ft_status choose_figures(comparison *c) {
    const char *key;
    json_t *value;
    for (int kind = 0; kind <= 3; kind++)
        for (int i = 0; i < c->opened; i++)
            json_object_foreach(c->runs[i].figures, key, value) {
                if (kind_of(key) == kind && !has_name(&c->figures, key)) FT_TRY(add_name(c->arena, &c->figures, key));
            }
    return FT_OK;
}

// ---- for people ---------------------------------------------------------------------------------------------------------

// At most WIDEST bytes, whole characters; of a path the end, of other texts the beginning.
static const char *cut(ft_arena *arena, const char *text) {
    size_t length = strlen(text), keep = WIDEST - 3;
    if (length <= WIDEST) return text;
    if (text[0] == '/') {
        const char *tail = text + length - keep;
        while (((unsigned char)*tail & 0xC0) == 0x80)
            tail++;
        return ft_arena_format(arena, "...%s", tail);
    }
    while (((unsigned char)text[keep] & 0xC0) == 0x80)
        keep--;
    return ft_arena_format(arena, "%.*s...", (int)keep, text);
}

// Paths inside the working directory are written from there.
static const char *option_text(const comparison *c, int run, const char *name) {
    const char *text = ft_run_option(&c->runs[run], name);
    if (text == NULL) return "-";
    if (text[0] == '\0') return "(none)";
    char here[4096];
    size_t length = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
    if (length > 0 && strncmp(text, here, length) == 0 && text[length] == '/' && text[length + 1] != '\0') text += length + 1;
    return cut(c->arena, text);
}

static const char *duration_text(ft_arena *arena, double seconds) {
    long s = (long)(seconds + 0.5);
    if (seconds < 60) return ft_arena_format(arena, "%.1fs", seconds);
    if (s < 3600) return ft_arena_format(arena, "%ldm%02lds", s / 60, s % 60);
    return ft_arena_format(arena, "%ldh%02ldm", s / 3600, s % 3600 / 60);
}

static const char *figure_text(const comparison *c, int run, const char *name) {
    const json_t *figure = json_object_get(c->runs[run].figures, name);
    double value = json_number_value(figure);
    char bytes[24];
    size_t length = strlen(name);
    if (!json_is_number(figure)) return "-";
    if (is_metric(name)) return ft_arena_format(c->arena, "%.4f", value);
    if (strncmp(name, "seconds.", 8) == 0) return duration_text(c->arena, value);
    if (length > 6 && strcmp(name + length - 6, "_bytes") == 0)
        return ft_arena_strdup(c->arena, ft_bytes_text((size_t)value, bytes));
    return ft_arena_format(c->arena, strcmp(name, "epochs") == 0 ? "%.2f" : "%.0f", value);
}

// The run with the best value of a metric whose direction is known; -1: none is better than the others.
static int best_run(const comparison *c, const char *name) {
    int best = -1;
    bool differ = false;
    const char *metric = strncmp(name, "train.", 6) == 0 ? name + 6 : name + 5;
    for (int k = 0; is_metric(name) && k < FT_METRIC_COUNT; k++) {
        if (strcmp(metric, ft_metric_name((ft_metric)k)) != 0) continue;
        for (int i = 0; i < c->opened; i++) {
            const json_t *value = json_object_get(c->runs[i].figures, name);
            const json_t *other = best >= 0 ? json_object_get(c->runs[best].figures, name) : NULL;
            if (!json_is_number(value)) continue;
            double gain = other != NULL ? json_number_value(value) - json_number_value(other) : 0;
            differ |= gain != 0;
            if (other == NULL || (ft_metric_greater_is_better((ft_metric)k) ? gain > 0 : gain < 0)) best = i;
        }
    }
    return differ ? best : -1;
}

static void add_row(comparison *c, ft_text_table *table, const char *name, bool option) {
    ft_text_table_cell(table, name);
    int best = option ? -1 : best_run(c, name);
    for (int i = 0; i < c->opened; i++) {
        const char *text = option ? option_text(c, i, name) : figure_text(c, i, name);
        ft_text_table_cell(table, text != NULL && i == best ? ft_arena_format(c->arena, "%s *", text) : text);
    }
}

static ft_status print_across(comparison *c) {
    ft_text_table table = {.arena = c->arena, .columns = 1 + c->opened};
    ft_text_table_cell(&table, "");
    for (int i = 0; i < c->opened; i++)
        ft_text_table_cell(&table, cut(c->arena, c->runs[i].name));
    ft_text_table_cell(&table, "status");
    for (int i = 0; i < c->opened; i++)
        ft_text_table_cell(&table, c->runs[i].status);
    for (int i = 0; i < c->options.count; i++)
        add_row(c, &table, c->options.list[i], true);
    for (int i = 0; i < c->figures.count; i++)
        add_row(c, &table, c->figures.list[i], false);
    return ft_text_table_print(&table, stdout);
}

// Of many runs a line each, with the figures that decide: what the best model was chosen by, time and memory.
static bool decides(const comparison *c, const char *figure) {
    static const char *const always[] = {"seconds.total", "memory.peak_reserved_bytes"};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        if (strcmp(figure, always[i]) == 0) return true;
    for (int i = 0; kind_of(figure) < 2 && i < c->opened; i++) {
        const char *chosen = ft_run_option(&c->runs[i], "eval.metric");
        if (chosen != NULL && strcmp(figure + 5, chosen) == 0) return true;
    }
    return false;
}

static ft_status print_down(comparison *c) {
    ft_text_table table = {.arena = c->arena, .columns = 2 + c->options.count};
    names figures = {0};
    for (int k = 0; k < c->figures.count; k++)
        if (decides(c, c->figures.list[k])) FT_TRY(add_name(c->arena, &figures, c->figures.list[k]));
    table.columns += figures.count;
    ft_text_table_cell(&table, "run");
    ft_text_table_cell(&table, "status");
    for (int k = 0; k < c->options.count; k++)
        ft_text_table_cell(&table, c->options.list[k]);
    for (int k = 0; k < figures.count; k++)
        ft_text_table_cell(&table, figures.list[k]);
    for (int i = 0; i < c->opened; i++) {
        ft_text_table_cell(&table, cut(c->arena, c->runs[i].name));
        ft_text_table_cell(&table, c->runs[i].status);
        for (int k = 0; k < c->options.count; k++)
            ft_text_table_cell(&table, option_text(c, i, c->options.list[k]));
        for (int k = 0; k < figures.count; k++)
            ft_text_table_cell(&table, figure_text(c, i, figures.list[k]));
    }
    return ft_text_table_print(&table, stdout);
}

static ft_status print_text(comparison *c) {
    FT_TRY(c->opened <= ACROSS ? print_across(c) : print_down(c));
    if (c->equal > 0) printf("\n%d options are the same in all runs (--all shows them)\n", c->equal);
    return FT_OK;
}

// ---- for programs -------------------------------------------------------------------------------------------------------

// RFC 4180.
static void csv_cell(const char *text, bool first) {
    if (!first) putchar(',');
    if (text[strcspn(text, ",\"\r\n")] == '\0' && text[0] != ' ') {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static void print_csv(const comparison *c) {
    csv_cell("run", true);
    csv_cell("status", false);
    for (int k = 0; k < c->options.count; k++)
        csv_cell(c->options.list[k], false);
    for (int k = 0; k < c->figures.count; k++)
        csv_cell(c->figures.list[k], false);
    putchar('\n');
    for (int i = 0; i < c->opened; i++) {
        csv_cell(c->runs[i].path, true);
        csv_cell(c->runs[i].status, false);
        for (int k = 0; k < c->options.count; k++) {
            const char *text = ft_run_option(&c->runs[i], c->options.list[k]);
            csv_cell(text != NULL ? text : "", false);
        }
        for (int k = 0; k < c->figures.count; k++) {
            const json_t *figure = json_object_get(c->runs[i].figures, c->figures.list[k]);
            char text[FT_REAL_TEXT] = "";
            if (json_is_integer(figure))
                snprintf(text, sizeof text, "%lld", (long long)json_integer_value(figure));
            else if (json_is_real(figure))
                ft_real_text(json_real_value(figure), text);
            csv_cell(text, false);
        }
        putchar('\n');
    }
}

static json_t *run_json(const comparison *c, const ft_run_record *run, bool *failed) {
    json_t *options = json_object(), *figures = json_object();
    for (int k = 0; k < c->options.count; k++) {
        json_t *value = json_object_get(run->config, c->options.list[k]);
        if (value != NULL) ft_json_put(options, c->options.list[k], json_incref(value), failed);
    }
    for (int k = 0; k < c->figures.count; k++) {
        json_t *value = json_object_get(run->figures, c->figures.list[k]);
        if (value != NULL) ft_json_put(figures, c->figures.list[k], json_incref(value), failed);
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "run", ft_json_text(run->path), "name", ft_json_text(run->name), "status",
                     ft_json_text(run->status), "options", options, "figures", figures);
}

static ft_status print_json(const comparison *c) {
    json_t *runs = json_array(), *options = json_array();
    bool failed = false;
    for (int i = 0; i < c->opened; i++)
        ft_json_append(runs, run_json(c, &c->runs[i], &failed), &failed);
    for (int k = 0; k < c->options.count; k++)
        ft_json_append(options, json_string(c->options.list[k]), &failed);
    json_t *root =
        json_pack("{s:i, s:i, s:o, s:o}", "format_version", 1, "equal_options", c->equal, "options", options, "runs", runs);
    if (root != NULL && !failed) ft_json_write(ft_results(), root);
    json_decref(root);
    return root == NULL || failed ? ft_fail_memory(0, "the comparison") : FT_OK;
}

// ---- all of it ----------------------------------------------------------------------------------------------------------

ft_status ft_command_compare(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    comparison c = {.arena = &arena};
    bool json = false, csv = false;
    const ft_flag flags[] = {{"--json", NULL, &json}, {"--csv", NULL, &csv}, {"--all", NULL, &c.all}};
    ft_status status = ft_parse_words("compare", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK && (words.plain_count == 0 || words.override_count > 0 || (json && csv))) {
        if (words.override_count > 0)
            status = ft_fail(FT_INVALID, "compare", "takes no settings, got %s", words.overrides[0]);
        else
            status =
                ft_fail(FT_INVALID, "compare", words.plain_count == 0 ? "no runs given" : "--json and --csv exclude each other");
        ft_hint("ftengine compare RUN... [--all] [--json | --csv]");
    }
    if (status == FT_OK) status = open_runs(&c, sections, &words);
    if (status == FT_OK) status = choose_options(&c);
    if (status == FT_OK) status = choose_figures(&c);
    if (status == FT_OK && csv)
        print_csv(&c);
    else if (status == FT_OK)
        status = json ? print_json(&c) : print_text(&c);
    if (status == FT_OK && fflush(stdout) != 0) status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    for (int i = 0; i < c.opened; i++)
        ft_run_record_close(&c.runs[i]);
    ft_arena_free(&arena);
    return status;
}

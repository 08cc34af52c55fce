// page.c - the page of a run from top to bottom: what it is, figures, curves, predictions, memory, data, options.
#include "engine/report/page.h"

#include "engine/config/options.h"
#include "engine/memory/memory.h"
#include "engine/report/chart.h"
#include "engine/report/html.h"

#include <math.h>
#include <string.h>

static double figure(const ft_run_record *run, const char *name) {
    const json_t *value = json_object_get(run->figures, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_of(const ft_run_record *run, const char *key) {
    return json_string_value(json_object_get(run->run, key));
}

const char *ft_page_duration(double seconds, char text[24]) {
    long s = lround(fmin(fmax(seconds, 0), 1e9));
    if (s < 60)
        snprintf(text, 24, "%.1f s", seconds);
    else if (s < 3600)
        snprintf(text, 24, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(text, 24, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    return text;
}

// ---- head and figures ---------------------------------------------------------------------------------------------------

static void write_title(const ft_run_record *run, FILE *out) {
    const char *model = ft_run_option(run, "model.path"), *device = text_of(run, "device_description"),
               *error = text_of(run, "error");
    const char *version = json_string_value(json_object_get(json_object_get(run->run, "versions"), "ftengine"));
    bool good = strcmp(run->status, "completed") == 0;
    fputs("<h1>", out);
    ft_html_name(out, run->name);
    fprintf(out, "</h1>\n<p class=\"soft path\"><span class=\"%s\">", good ? "good" : "bad");
    ft_html_text(out, run->status);
    fputs("</span>", out);
    const struct {
        const char *name, *text;
    } parts[] = {{"", model}, {"", device}, {"", text_of(run, "precision")}, {"ftengine ", version}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].text == NULL || parts[i].text[0] == '\0') continue;
        fprintf(out, " &middot; %s", parts[i].name);
        ft_html_text(out, parts[i].text);
    }
    fputs("</p>\n", out);
    if (error == NULL) return;
    fputs("<p class=\"bad path\">", out);
    ft_html_text(out, error);
    fputs("</p>\n", out);
}

void ft_page_tile(FILE *out, const char *name, const char *value, const char *below) {
    fputs("<div class=\"card\"><span>", out);
    ft_html_text(out, name);
    fprintf(out, "</span><b>%s</b><span>%s</span></div>\n", value, below);
}

static void write_tiles(const ft_run_record *run, FILE *out) {
    const char *metric = ft_run_option(run, "eval.metric");
    char value[64], below[96], name[64], bytes[24], time[24];
    fputs("<div class=\"tiles\">\n", out);
    for (int test = 0; test < 2 && metric != NULL; test++) {
        snprintf(name, sizeof name, "%s.%s", test ? "test" : "eval", metric);
        if (isnan(figure(run, name))) continue;
        snprintf(value, sizeof value, "%.4f", figure(run, name));
        below[0] = '\0';
        char sd[72];
        snprintf(sd, sizeof sd, "%s.sd", name);
        if (!isnan(figure(run, sd)))
            snprintf(below, sizeof below, "&plusmn; %.4f", figure(run, sd));
        else if (!test && !isnan(figure(run, "best.step")))
            snprintf(below, sizeof below, "best, at step %.0f", figure(run, "best.step"));
        snprintf(name, sizeof name, "%s %s", test ? "test" : "validation", metric);
        ft_page_tile(out, name, value, below);
    }
    snprintf(value, sizeof value, "%.0f", fmax(figure(run, "steps"), 0));
    below[0] = '\0';
    if (!isnan(figure(run, "epochs")))
        snprintf(below, sizeof below, "%.2f epochs%s", figure(run, "epochs"),
                 json_is_true(json_object_get(run->run, "stopped_early")) ? ", stopped early" : "");
    ft_page_tile(out, "steps", value, below);
    if (!isnan(figure(run, "seconds.total"))) {
        snprintf(below, sizeof below, "%s of it training", ft_page_duration(figure(run, "seconds.train"), time));
        ft_page_tile(out, "time", ft_page_duration(figure(run, "seconds.total"), value), below);
    }
    if (figure(run, "tokens_per_second") > 0) {
        snprintf(value, sizeof value, "%.0f", figure(run, "tokens_per_second"));
        ft_page_tile(out, "tokens a second", value, "real ones, in training");
    }
    if (figure(run, "memory.peak_allocated_bytes") > 0) {
        snprintf(below, sizeof below, "%s reserved",
                 ft_bytes_text((size_t)fmax(figure(run, "memory.peak_reserved_bytes"), 0), bytes));
        ft_page_tile(out, "peak memory", ft_bytes_text((size_t)figure(run, "memory.peak_allocated_bytes"), value), below);
    }
    fputs("</div>\n", out);
}

// ---- curves -------------------------------------------------------------------------------------------------------------

static void add_line(ft_chart *chart, const ft_run_curve *curve, const char *name) {
    if (curve != NULL && chart->line_count < FT_CHART_LINES)
        chart->lines[chart->line_count++] = (ft_chart_line){name, curve->count, curve->step, curve->value};
}

static const json_t *runs_of(const ft_run_record *run) { return json_object_get(run->run, "runs"); }
static bool of_shares(const ft_run_record *run) { return json_object_get(json_array_get(runs_of(run), 0), "share") != NULL; }

static ft_chart over_steps(const ft_run_record *run, const char *title) {
    double best = figure(run, "best.step");
    const char *x = of_shares(run) ? "texts, in smallest shares" : json_is_array(runs_of(run)) ? "runs done" : "step";
    return (ft_chart){.title = title, .x_name = x, .x_unit = FT_UNIT_STEPS, .mark = best, .mark_name = "best"};
}

static ft_status write_single(const ft_run_record *run, const char *title, const char *curve, const char *line, FILE *out) {
    ft_chart chart = over_steps(run, title);
    chart.mark = NAN;
    add_line(&chart, ft_run_curve_find(run, curve), line);
    return ft_chart_lines(out, &chart);
}

static bool within_one(const ft_run_curve *c) {
    for (int64_t i = 0; i < c->count; i++)
        if (fabs(c->value[i]) > 1) return false;
    return true;
}

static bool same_values(const ft_chart_line *line, const ft_run_curve *c) {
    return line->count == c->count && memcmp(line->y, c->value, (size_t)c->count * sizeof *c->value) == 0;
}

// The metric that chose the best model, and those that people look at beside it, if they are of its scale. Lines that would lie
// on others (of single labels accuracy is F1 micro) are left to the table.
static ft_status write_metrics(const ft_run_record *run, FILE *out) {
    enum { MOST_METRICS = 5 };
    static const char *const usual[] = {"accuracy", "f1_macro", "matthews", "auroc", "pearson", "spearman", "r2"};
    ft_chart chart = over_steps(run, "Validation metrics");
    char name[96];
    const char *metric = ft_run_option(run, "eval.metric");
    snprintf(name, sizeof name, "eval_%s", metric != NULL ? metric : "");
    const ft_run_curve *chosen = strcmp(name, "eval_loss") != 0 ? ft_run_curve_find(run, name) : NULL;
    add_line(&chart, chosen, metric);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && chart.line_count < MOST_METRICS; i++) {
        snprintf(name, sizeof name, "eval_%s", usual[i]);
        const ft_run_curve *c = ft_run_curve_find(run, name);
        bool other = c != NULL && c != chosen && within_one(c) && (chosen == NULL || within_one(chosen));
        for (int k = 0; k < chart.line_count && other; k++)
            other = !same_values(&chart.lines[k], c);
        if (other) add_line(&chart, c, usual[i]);
    }
    return ft_chart_lines(out, &chart);
}

static ft_status write_curves(const ft_run_record *run, FILE *out) {
    bool timeline;
    FT_TRY(ft_page_has_timeline(run, &timeline));
    if (run->curve_count == 0 && !timeline) return FT_OK;
    fputs("<h2>Training</h2>\n<div class=\"charts\">\n", out);
    ft_chart loss = over_steps(run, "Loss");
    add_line(&loss, ft_run_curve_find(run, "loss"), "training");
    add_line(&loss, ft_run_curve_find(run, "eval_loss"), "validation");
    FT_TRY(ft_chart_lines(out, &loss));
    FT_TRY(write_metrics(run, out));
    FT_TRY(write_single(run, "Learning rate", "learning_rate", "learning rate", out));
    FT_TRY(write_single(run, "Gradient norm", "grad_norm", "before clipping", out));
    FT_TRY(write_single(run, "Speed", "tokens_per_second", "tokens a second", out));
    FT_TRY(ft_page_memory_course(run, out));
    fputs("</div>\n", out);
    return FT_OK;
}

// ---- tables -------------------------------------------------------------------------------------------------------------

static void metric_cell(const ft_run_record *run, const char *split, const char *metric, FILE *out) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", split, metric);
    fputs("<td class=\"n\">", out);
    if (!isnan(figure(run, name))) fprintf(out, "%.4f", figure(run, name));
    snprintf(name, sizeof name, "%s.%s.sd", split, metric);
    if (!isnan(figure(run, name))) fprintf(out, " &plusmn; %.4f", figure(run, name));
}

static void write_metric_table(const ft_run_record *run, FILE *out) {
    const char *key;
    json_t *value;
    bool test = false, any = false;
    json_object_foreach(run->figures, key, value) {
        any |= strncmp(key, "eval.", 5) == 0 || strncmp(key, "test.", 5) == 0;
        test |= strncmp(key, "test.", 5) == 0;
    }
    if (!any) return;
    fprintf(out,
            "<section class=\"card\"><h3>Metrics%s</h3><div class=\"scroll\"><table class=\"wide\"><tr><th><th "
            "class=\"n\">validation%s</tr>\n",
            json_is_object(json_object_get(run->run, "best")) ? " of the best model" : "", test ? "<th class=\"n\">test" : "");
    json_object_foreach(run->figures, key, value) {
        bool first = strncmp(key, "eval.", 5) == 0;
        if (strlen(key) > 3 && strcmp(key + strlen(key) - 3, ".sd") == 0) continue; // stands beside its mean
        char other[128];
        snprintf(other, sizeof other, "eval.%s", strlen(key) > 5 ? key + 5 : "");
        if (!first && (strncmp(key, "test.", 5) != 0 || json_object_get(run->figures, other) != NULL)) continue;
        fputs("<tr><td>", out);
        ft_html_text(out, key + 5);
        metric_cell(run, "eval", key + 5, out);
        if (test) metric_cell(run, "test", key + 5, out);
        fputs("</tr>\n", out);
    }
    fputs("</table></div></section>\n", out);
}

// Of folds, seeds and shares: each run, and the metric that chose its model.
static void write_runs(const ft_run_record *run, FILE *out) {
    size_t i;
    const json_t *one;
    const char *metric = ft_run_option(run, "eval.metric");
    char name[2][96];
    if (json_array_size(runs_of(run)) == 0 || metric == NULL) return;
    fprintf(out, "<section class=\"card\"><h3>Runs</h3><p class=\"soft\">Figures of this page are %s."
                 "</p><div class=\"scroll\"><table class=\"wide\"><tr><th>run<th>status",
            of_shares(run) ? "those of the last one, on all texts" : "means over them &plusmn; standard deviation");
    for (int test = 0; test < 2; test++) {
        snprintf(name[test], sizeof name[test], "%s_%s", test ? "test" : "eval", metric);
        fprintf(out, "<th class=\"n\">%s ", test ? "test" : "validation");
        ft_html_text(out, metric);
    }
    fputs("</tr>\n", out);
    json_array_foreach(runs_of(run), i, one) {
        const char *called = json_string_value(json_object_get(one, "name")),
                   *status = json_string_value(json_object_get(one, "status"));
        fputs("<tr><td>", out);
        ft_html_text(out, called != NULL ? called : "");
        fputs("<td>", out);
        ft_html_text(out, status != NULL ? status : "");
        for (int test = 0; test < 2; test++) {
            const json_t *value = json_object_get(json_object_get(one, "metrics"), name[test]);
            fputs("<td class=\"n\">", out);
            if (json_is_number(value)) fprintf(out, "%.4f", json_number_value(value));
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div></section>\n", out);
}

static void write_data_table(const ft_run_record *run, FILE *out) {
    const char *split;
    json_t *data;
    if (json_object_size(json_object_get(run->run, "data")) == 0) return;
    fputs("<section class=\"card\"><h3>Data</h3><div class=\"scroll\"><table class=\"wide texts\"><tr><th><th class=\"n\">examples<th "
          "class=\"n\">tokens"
          "<th class=\"n\">longest<th class=\"n\">cut<th>file</tr>\n",
          out);
    json_object_foreach(json_object_get(run->run, "data"), split, data) {
        static const char *const members[] = {"examples", "tokens", "longest", "truncated"};
        fputs("<tr><td>", out);
        ft_html_text(out, split);
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
            fputs("<td class=\"n\">", out);
            ft_html_number(out, json_number_value(json_object_get(data, members[i])), 4);
        }
        const char *path = json_string_value(json_object_get(data, "path"));
        fputs("<td class=\"long\">", out);
        ft_html_text(out, path != NULL ? path : "");
        fputs("</tr>\n", out);
    }
    fputs("</table></div></section>\n", out);
}

// ---- options ------------------------------------------------------------------------------------------------------------

static void option_row(FILE *out, const char *name, const char *value, const char *initial) {
    fputs("<tr><td>", out);
    ft_html_text(out, name);
    fputs("<td class=\"long\">", out);
    ft_html_name(out, value);
    fputs("<td class=\"soft\">", out);
    ft_html_text(out, initial);
    fputs("</tr>\n", out);
}

// Options that differ from their defaults, or those that do not. Returns how many; out NULL: only counts.
static int option_rows(const ft_run_record *run, const ft_config *defaults, bool differing, FILE *out) {
    const char *name;
    json_t *value;
    int count = 0;
    json_object_foreach(run->config, name, value) {
        char initial[FT_PATH_LIMIT] = "";
        int index = ft_option_find(name);
        if (!json_is_string(value) || strcmp(name, "output.dir") == 0) continue;
        if (index >= 0 && ft_option_text(defaults, index, initial, sizeof initial) != FT_OK) continue;
        if ((strcmp(initial, json_string_value(value)) != 0) != differing) continue;
        count++;
        if (out != NULL) option_row(out, name, json_string_value(value), initial);
    }
    return count;
}

static ft_status write_options(const ft_run_record *run, FILE *out) {
    ft_config defaults = {0};
    ft_status status = ft_config_defaults(&defaults);
    if (status != FT_OK) {
        ft_config_free(&defaults);
        return status;
    }
    fputs("<h2>Options</h2>\n<section class=\"card\"><h3>Other than the default</h3><div class=\"scroll\"><table "
          "class=\"wide\"><tr><th>option"
          "<th>value<th>default</tr>\n",
          out);
    option_rows(run, &defaults, true, out);
    fprintf(
        out,
        "</table></div><details><summary>%d options at their defaults</summary><div class=\"scroll\"><table class=\"wide\">\n",
        option_rows(run, &defaults, false, NULL));
    option_rows(run, &defaults, false, out);
    fputs("</table></div></details></section>\n", out);
    ft_config_free(&defaults);
    return FT_OK;
}

ft_status ft_page_write(const ft_run_record *run, const ft_page_options *options, FILE *out) {
    ft_page_head(out, run->name, "");
    fputs("<body><main>\n", out);
    write_title(run, out);
    write_tiles(run, out);
    FT_TRY(write_curves(run, out));
    fputs("<h2>Results</h2>\n<div class=\"two\">\n", out);
    write_metric_table(run, out);
    write_data_table(run, out);
    write_runs(run, out);
    fputs("</div>\n", out);
    FT_TRY(ft_page_predictions(run, options, out));
    FT_TRY(ft_page_values(run, out));
    ft_page_memory(run, out);
    FT_TRY(write_options(run, out));
    fputs("</main></body></html>\n", out);
    return FT_OK;
}

#include "hpo/report/study_page.h"

#include "base/arena.h"
#include "engine/memory/memory.h"
#include "engine/report/html.h"
#include "engine/report/page.h"
#include "hpo/report/view.h"
#include "hpo/search/gp/outlook.h"
#include "hpo/space/objective.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, ROW_PARAMS = 14, FAILURES = 30, FRONT_ROWS = 40, OVER_ROWS = 100, SHARING_ROWS = 200 };

static const char page_style[] =
    ".charts{grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr))}.charts.small{grid-template-columns:"
    "repeat(auto-fill,minmax(min(100%,340px),1fr))}.across{grid-column:1/-1}"
    ".across svg{min-width:760px}figure.card{padding:10px 12px}\n"
    "@media print{.across svg{min-width:0}.charts{display:block}.charts figure{margin-bottom:10px}"
    ".charts.small{display:grid;grid-template-columns:1fr 1fr}}\n";

// ---- cells ----------------------------------------------------------------------------------------------------------

static void name_cell(FILE *out, const char *text) {
    fputs("<td class=\"long\">", out);
    ft_html_name(out, text);
}

static void value_cell(FILE *out, const char *name, double value) {
    char text[FT_FIGURE_TEXT];
    fputs("<td class=\"n\">", out);
    if (ft_figure_is_bytes(name))
        ft_html_text(out, ft_figure_text(name, value, 6, text));
    else
        ft_html_number(out, value, 6);
}

static void bytes_cell(FILE *out, double bytes) {
    char text[24];
    fprintf(out, "<td class=\"n\">%s", isnan(bytes) ? "&ndash;" : ft_bytes_text((size_t)bytes, text));
}

static ft_status param_cell(const ft_summary *s, int64_t number, const ft_report_param *param, FILE *out) {
    ft_arena arena = {0};
    const ft_trial_param *p = ft_trial_find_param(s->trials[number].trial, param->name);
    const char *text = p != NULL ? ft_study_param_text(&arena, s->study->distributions[p->distribution], p->value) : "";
    if (text != NULL) {
        fputs(param->axis.scale == FT_SCALE_CHOICES ? "<td class=\"name\">" : "<td class=\"n\">", out);
        char number_text[FT_FIGURE_TEXT];
        if (p != NULL && param->distribution->kind == FT_FLOAT) text = ft_figure_text("", p->value, 5, number_text);
        ft_html_text(out, text);
    }
    ft_arena_free(&arena);
    return text != NULL ? FT_OK : FT_NO_MEMORY;
}

// ---- what came out --------------------------------------------------------------------------------------------------

static void write_title(const ft_summary *s, const char *path, FILE *out) {
    fputs("<h1>", out);
    ft_html_name(out, s->name);
    fputs("</h1>\n<p class=\"soft path\">", out);
    for (int o = 0; o < s->study->objectives; o++) {
        fputs(o > 0 ? ", " : "", out);
        fputs(s->study->maximize[o] ? "maximize " : "minimize ", out);
        ft_html_name(out, s->objectives[o]);
    }
    fputs(" &middot; ", out);
    ft_html_name(out, path);
    fputs(" &middot; ftengine " FT_VERSION "</p>\n", out);
}

static void write_tiles(const ft_summary *s, FILE *out) {
    char value[64], below[96], time[24];
    fputs("<div class=\"tiles\">\n", out);
    if (s->front_count > 0 && s->study->objectives == 1) {
        snprintf(below, sizeof below, "trial %" PRId64, s->front[0]);
        ft_page_tile(out, s->objectives[0], ft_figure_text(s->objectives[0], s->trials[s->front[0]].trial->values[0], 6, value), below);
    } else if (s->front_count > 0) {
        snprintf(value, sizeof value, "%" PRId64, s->front_count);
        ft_page_tile(out, "on the Pareto front", value, "no other trial is better in all");
    }
    snprintf(value, sizeof value, "%" PRId64, s->count);
    ft_page_tile(out, "trials", value, "");
    for (int f = 0; f < FT_FATES; f++) {
        if (s->fates[f] == 0) continue;
        snprintf(value, sizeof value, "%" PRId64, s->fates[f]);
        snprintf(below, sizeof below, "%.1f %%", 100 * (double)s->fates[f] / (double)s->count);
        ft_page_tile(out, ft_fate_name((ft_fate)f), value, below);
    }
    if (!s->undated) {
        snprintf(below, sizeof below, "%s of trials", ft_page_duration(s->busy, time));
        ft_page_tile(out, "from first to last", ft_page_duration(s->seconds, value), below);
    }
    fputs("</div>\n", out);
}

// What the search expects of more trials, as `ftengine study show` tells it.
static ft_status write_outlook(const ft_summary *s, FILE *out) {
    ft_gp_outlook outlook;
    FT_TRY(ft_gp_outlook_of(s->study, &s->belief->options, &outlook));
    if (!outlook.known || s->front_count == 0) return FT_OK;
    char gain[FT_FIGURE_TEXT], left[FT_FIGURE_TEXT];
    fprintf(out, "<p>Going on: a gain of %s is to be expected. With %.1f&nbsp;%% no point of the space is better than the best trial by more than %s: <b>%s</b>.</p>\n",
            ft_figure_text(s->objectives[0], outlook.gain, 3, gain), 100 * outlook.enough,
            ft_figure_text(s->objectives[0], outlook.tolerance, 3, left), outlook.stop ? "stop now" : "go on");
    return FT_OK;
}

static ft_status write_best(const ft_summary *s, FILE *out) {
    if (s->front_count == 0) {
        fprintf(out, "<p>%s</p>\n",
                s->count == 0 ? "The study has no trials yet." : "No trial is complete and within all constraints.");
        return FT_OK;
    }
    if (s->study->objectives > 1) return FT_OK; // the table of the front has them
    fprintf(out,
            "<section class=\"card below\"><h3>Best trial: %" PRId64
            "</h3><div class=\"scroll\"><table class=\"wide\"><tr><th>parameter"
            "<th class=\"n\">value<th>range<th class=\"n\">importance</tr>\n",
            s->front[0]);
    ft_arena arena = {0};
    ft_status status = FT_OK;
    for (int k = 0; k < s->param_count && status == FT_OK; k++) {
        const ft_report_param *p = &s->params[k];
        const ft_trial_param *own = ft_trial_find_param(s->trials[s->front[0]].trial, p->name);
        const char *range = ft_study_range_text(&arena, p->distribution);
        const char *text = own != NULL
                               ? ft_study_param_text(&arena, s->study->distributions[own->distribution], own->value)
                               : "not set";
        if (range == NULL || text == NULL) {
            status = FT_NO_MEMORY;
            break;
        }
        fputs("<tr>", out);
        name_cell(out, p->text);
        fputs("<td class=\"n\">", out);
        ft_html_text(out, text);
        name_cell(out, range);
        fputs("<td class=\"n\">", out);
        if (p->importance >= 0) fprintf(out, "%.1f %%", 100 * p->importance);
        fputs("</tr>\n", out);
    }
    ft_arena_free(&arena);
    fputs("</table></div></section>\n", out);
    return status;
}

// ---- pictures -------------------------------------------------------------------------------------------------------

static ft_status write_pictures(const ft_summary *s, const ft_study_picture *pictures, int count, FILE *out) {
    const char *section = "";
    for (int i = 0; i < count; i++) {
        const ft_study_picture *p = &pictures[i];
        if (strcmp(section, p->section) != 0) {
            if (i > 0) fputs("</div>\n", out);
            section = p->section;
            fprintf(out, "<h2>%s</h2>\n", section);
            if (p->remark != NULL) fprintf(out, "<p class=\"soft\">%s</p>\n", p->remark);
            fprintf(out, "<div class=\"charts below%s\">\n", p->width < 500 ? " small" : "");
        }
        fprintf(out, "<figure class=\"card%s\"><div class=\"scroll\">", p->width > 1000 ? " across" : "");
        FT_TRY(ft_study_picture_write(s, p, false, out));
        fputs("</div></figure>\n", out);
    }
    if (count > 0) fputs("</div>\n", out);
    return FT_OK;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static ft_status trial_row(const ft_summary *s, int64_t number, FILE *out) {
    const ft_report_trial *t = &s->trials[number];
    char time[24];
    fprintf(out, "<tr><td class=\"n\">%" PRId64 "<td>%s", number, ft_fate_name(t->fate));
    for (int o = 0; o < s->study->objectives; o++)
        if (o < t->trial->value_count)
            value_cell(out, s->objectives[o], t->trial->values[o]);
        else
            fputs("<td>", out);
    fprintf(out, "<td class=\"n\">%s", t->end >= t->start ? ft_page_duration(t->end - t->start, time) : "&ndash;");
    bytes_cell(out, t->measured);
    for (int k = 0; k < s->varying && k < ROW_PARAMS; k++)
        FT_TRY(param_cell(s, number, &s->params[k], out));
    fputs("</tr>\n", out);
    return FT_OK;
}

static ft_status trial_table(const ft_summary *s, const char *title, const int64_t *numbers, int64_t count, FILE *out) {
    fprintf(out,
            "<section class=\"card below\"><h3>%s</h3><div class=\"scroll\"><table class=\"wide\"><tr><th "
            "class=\"n\">trial<th>state",
            title);
    for (int o = 0; o < s->study->objectives; o++) {
        fputs("<th class=\"n\">", out);
        ft_html_text(out, s->objectives[o]);
    }
    fputs("<th class=\"n\">time<th class=\"n\">memory", out);
    for (int k = 0; k < s->varying && k < ROW_PARAMS; k++) {
        fputs(s->params[k].axis.scale == FT_SCALE_CHOICES ? "<th>" : "<th class=\"n\">", out);
        ft_html_text(out, s->params[k].text);
    }
    fputs("</tr>\n", out);
    for (int64_t i = 0; i < count; i++)
        FT_TRY(trial_row(s, numbers[i], out));
    fputs("</table></div></section>\n", out);
    return FT_OK;
}

static bool any_trial(const ft_summary *s, int64_t number) {
    (void)s;
    (void)number;
    return true;
}

static ft_status write_trials(const ft_summary *s, int64_t *numbers, FILE *out) {
    int64_t count, all;
    if (s->count == 0) return FT_OK;
    FT_TRY(ft_choose_lines(s, any_trial, ROWS, numbers, &count, &all));
    for (int64_t i = 0; i < count / 2; i++) { // best first
        int64_t other = numbers[i];
        numbers[i] = numbers[count - 1 - i];
        numbers[count - 1 - i] = other;
    }
    fputs("<h2>Trials</h2>\n", out);
    if (count < all)
        fprintf(out,
                "<p class=\"soft\">The best and others, evenly: %" PRId64 " of %" PRId64
                ". <code>ftengine study export</code> has all.</p>\n",
                count, all);
    if (s->varying > ROW_PARAMS)
        fprintf(out, "<p class=\"soft\">The %d most important of %d parameters.</p>\n", ROW_PARAMS, s->varying);
    return trial_table(s, "Best first", numbers, count, out);
}

static ft_status write_front(const ft_summary *s, FILE *out) {
    if (s->study->objectives == 1 || s->front_count == 0) return FT_OK;
    char title[96] = "No other trial is better in all objectives";
    if (s->front_count > FRONT_ROWS)
        snprintf(title, sizeof title, "The first %d of %" PRId64 " trials that no other beats", FRONT_ROWS,
                 s->front_count);
    return trial_table(s, title, s->front, s->front_count < FRONT_ROWS ? s->front_count : FRONT_ROWS, out);
}

static ft_status write_over_memory(const ft_summary *s, int64_t *numbers, FILE *out) {
    char title[128], limit[24];
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (ft_report_over_memory(s, i)) numbers[count++] = i;
    if (count == 0) return FT_OK;
    snprintf(title, sizeof title, "%" PRId64 " trials took more than %s (study.report_memory_over)%s", count,
             ft_bytes_text((size_t)s->memory_over, limit), count > OVER_ROWS ? "; the first" : "");
    return trial_table(s, title, numbers, count < OVER_ROWS ? count : OVER_ROWS, out);
}

static void factor_cell(FILE *out, double factor) {
    if (isnan(factor)) fputs("<td class=\"n\">unknown", out);
    else fprintf(out, "<td class=\"n\">%.2f", factor);
}

static void sharing_row(const ft_sharing_record *r, FILE *out) {
    static const char *const words[][2] = {{"itself", "its own steps alone"}, {"prediction", "the predicted step"}};
    const char *against = "&ndash;";
    char held[24];
    for (int i = 0; i < 2; i++)
        if (strcmp(r->against, words[i][0]) == 0) against = words[i][1];
    fprintf(out, "<tr><td class=\"n\">%" PRId64 "<td class=\"n\">%d<td class=\"n\">", r->trial, r->beside);
    if (!isnan(r->share)) fprintf(out, "%.0f %%", 100 * r->share);
    factor_cell(out, r->predicted);
    factor_cell(out, r->seen);
    fprintf(out, "<td>%s<td class=\"n\">%s</tr>\n", against, r->held > 0 ? ft_page_duration(r->held, held) : "&ndash;");
}

// By how much trials slowed each other down, as the cost model has it and as it was seen.
static void write_sharing(const ft_summary *s, FILE *out) {
    const ft_sharing_means m = ft_sharing_sum_up(s->sharing, s->sharing_count);
    if (s->sharing_count == 0) return;
    fprintf(out, "<section class=\"card below\"><h3>Trials that had a device together</h3><p class=\"soft\">%" PRId64 " trials had others beside them", m.shared);
    if (!isnan(m.predicted)) fprintf(out, "; by plan their steps took %.2f times as long as alone", m.predicted);
    if (!isnan(m.seen)) fprintf(out, "; seen were %.2f, of %" PRId64 " trials for which the plan had %.2f", m.seen, m.seen_of, m.expected);
    fprintf(out, ". %" PRId64 " waited where one more would not have paid.%s</p>\n", m.held, s->sharing_count > SHARING_ROWS ? " The first are shown." : "");
    fputs("<div class=\"scroll\"><table class=\"wide\"><tr><th class=\"n\">trial<th class=\"n\">beside it<th class=\"n\">busy alone<th class=\"n\">slow-down predicted"
          "<th class=\"n\">seen<th>seen against<th class=\"n\">waited</tr>\n",
          out);
    for (int64_t i = 0; i < s->sharing_count && i < SHARING_ROWS; i++)
        sharing_row(&s->sharing[i], out);
    fputs("</table></div></section>\n", out);
}

static void write_failures(const ft_summary *s, FILE *out) {
    int64_t all = 0, shown = 0;
    for (int64_t i = 0; i < s->count; i++)
        all += s->trials[i].error != NULL && s->trials[i].fate != FT_FATE_COMPLETE;
    if (all == 0) return;
    fprintf(out,
            "<section class=\"card below\"><h3>%s errors</h3><div class=\"scroll\"><table class=\"wide\"><tr><th "
            "class=\"n\">trial<th>state"
            "<th>error</tr>\n",
            all > FAILURES ? "Last" : "All");
    for (int64_t i = s->count - 1; i >= 0 && shown < FAILURES; i--) {
        const ft_report_trial *t = &s->trials[i];
        if (t->error == NULL || t->fate == FT_FATE_COMPLETE) continue;
        char text[400];
        snprintf(text, sizeof text, "%.396s", t->error); // a cut character becomes U+FFFD
        fprintf(out, "<tr><td class=\"n\">%" PRId64 "<td>%s", i, ft_fate_name(t->fate));
        name_cell(out, text);
        fputs("</tr>\n", out);
        shown++;
    }
    fputs("</table></div></section>\n", out);
}

ft_status ft_study_page_write(const ft_summary *s, const ft_study_picture *pictures, int count, const char *path,
                              FILE *out) {
    char *style = NULL;
    size_t length = strlen(ft_picture_style) + strlen(page_style) + 1;
    int64_t *numbers = ft_calloc((size_t)s->count + 1, sizeof *numbers, "a page");
    if (numbers == NULL || (style = ft_calloc(length, 1, "a page")) == NULL) {
        free(numbers);
        return FT_NO_MEMORY;
    }
    snprintf(style, length, "%s%s", ft_picture_style, page_style);
    ft_page_head(out, s->name, style);
    fputs("<body><main>\n", out);
    write_title(s, path, out);
    write_tiles(s, out);
    ft_status status = write_outlook(s, out);
    if (status == FT_OK) status = write_best(s, out);
    if (status == FT_OK) status = write_pictures(s, pictures, count, out);
    if (status == FT_OK) status = write_front(s, out);
    if (status == FT_OK) status = write_over_memory(s, numbers, out);
    if (status == FT_OK) write_sharing(s, out);
    if (status == FT_OK) write_failures(s, out);
    if (status == FT_OK) status = write_trials(s, numbers, out);
    fputs("</main></body></html>\n", out);
    free(style);
    free(numbers);
    return status;
}

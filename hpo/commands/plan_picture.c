#include "base/files.h"
#include "engine/report/html.h"
#include "hpo/commands/plan.h"

#include <stdio.h>
#include <string.h>

enum { LEFT = 330, TOP = 92, BAR = 420, ROW = 22, GAP = 12, RIGHT = 130, BOTTOM = 30 };

// Told apart in lightness too, and by a pattern where it matters most.
static const struct {
    const char *name, *fill;
} looks[FT_SURVEY_KINDS] = {[FT_OUTLOOK_FIT] = {"fits as it is", "#1f9d6b"},
                            [FT_OUTLOOK_REFIT] = {"fits with what is at auto fitted", "#e0b13c"},
                            [FT_OUTLOOK_NEVER] = {"never fits", "url(#never)"},
                            [FT_OUTLOOK_NOT_SUPPORTED] = {"not supported", "url(#never)"},
                            [FT_SURVEY_INVALID] = {"cannot be trained", "#c8ced6"}};

static void text_at(FILE *out, double x, double y, const char *anchor, const char *style, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, style);
    ft_html_text(out, text);
    fputs("</text>\n", out);
}

static void draw_bar(FILE *out, double y, const double share[FT_SURVEY_KINDS], const char *title) {
    double x = LEFT;
    for (int k = 0; k < FT_SURVEY_KINDS; k++) {
        const double width = BAR * share[k];
        if (width <= 0) continue;
        fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>", x, y, width, ROW - 5, looks[k].fill);
        ft_html_text(out, title);
        fprintf(out, ": %.1f%% %s</title></rect>\n", 100 * share[k], looks[k].name);
        x += width;
    }
}

static void draw_head(FILE *out, const ft_plan_task *task, const ft_survey *s, int width) {
    char line[200], budget[160];
    const ft_survey_point *w = &s->of[s->worst];
    text_at(out, 16, 26, "start", "font-size=\"16\" font-weight=\"bold\"", "How much of the search space fits");
    ft_plan_budget_text(task, &task->config, w->budget, budget, sizeof budget);
    snprintf(line, sizeof line, "budget %s; %lld points, %s", budget, (long long)s->points.count,
             s->points.exhaustive ? "all of them planned" : "corners and a sample");
    text_at(out, 16, 46, "start", "fill=\"#5d6877\"", line);
    double x = 16;
    for (int k = 0; k < FT_SURVEY_KINDS; k++) {
        if (s->count[k] == 0) continue;
        fprintf(out, "<rect x=\"%.1f\" y=\"60\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, looks[k].fill);
        snprintf(line, sizeof line, "%s: %.1f%%", looks[k].name, 100 * s->share[k]);
        text_at(out, x + 17, 70, "start", "", line);
        x += 44 + 6.6 * (double)strlen(line);
    }
    text_at(out, width - 12, TOP - 8, "end", "fill=\"#5d6877\"", "most, as asked for");
}

static ft_status draw_rows(FILE *out, const ft_survey *s, int width, double *y) {
    for (int axis = 0; axis < s->points.axis_count; axis++) {
        ft_survey_row rows[FT_SURVEY_ROWS];
        int count;
        FT_TRY(ft_survey_by(s, axis, rows, &count));
        for (int i = 0; i < count; i++, *y += ROW) {
            char most[24], title[160];
            const char *name = s->points.axes[axis].rule->name;
            if (i == 0) text_at(out, 16, *y + 13, "start", "font-weight=\"bold\"", name);
            text_at(out, LEFT - 8, *y + 13, "end", "", rows[i].label);
            snprintf(title, sizeof title, "%.80s = %.60s", name, rows[i].label);
            draw_bar(out, *y, rows[i].share, title);
            text_at(out, width - 12, *y + 13, "end", "fill=\"#5d6877\"", ft_bytes_text(rows[i].most, most));
        }
        if (count > 0) *y += GAP;
    }
    return FT_OK;
}

static ft_status count_rows(const ft_survey *s, int *height) {
    *height = 0;
    for (int axis = 0; axis < s->points.axis_count; axis++) {
        ft_survey_row rows[FT_SURVEY_ROWS];
        int count;
        FT_TRY(ft_survey_by(s, axis, rows, &count));
        *height += count * ROW + (count > 0 ? GAP : 0);
    }
    return FT_OK;
}

ft_status ft_survey_draw(const ft_plan_task *task, const void *own, const char *path) {
    const ft_survey *s = own;
    const int width = LEFT + BAR + RIGHT;
    int rows;
    ft_atomic_file file;
    double y = TOP;
    FT_TRY(count_rows(s, &rows));
    FT_TRY(ft_atomic_open(&file, path));
    FILE *out = file.stream;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
                 "<defs><pattern id=\"never\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
                 "<rect width=\"6\" height=\"6\" fill=\"#b23a48\"/><path d=\"M0 0v6\" stroke=\"white\" stroke-width=\"2\"/></pattern></defs>\n"
                 "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", width, TOP + rows + BOTTOM);
    draw_head(out, task, s, width);
    ft_status status = draw_rows(out, s, width, &y);
    text_at(out, LEFT, y + 8, "start", "fill=\"#5d6877\" font-size=\"11\"", "shares of random draws that have the value");
    fputs("</svg>\n", out);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

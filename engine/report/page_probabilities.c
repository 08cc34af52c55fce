// page_probabilities.c - how far probabilities can be believed, and of two classes what each threshold would give: from counts, so that
// it takes the same memory for any number of predictions.
#include "engine/report/page.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/report/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 10, THRESHOLDS = 200, LEAST_EXAMPLES = 20 }; // of fewer a curve says nothing

typedef struct counts {
    const char *split;
    int64_t examples;
    double confidence[BINS], right[BINS], n[BINS];
    bool two; // classes
    int64_t positive[THRESHOLDS + 1], negative[THRESHOLDS + 1]; // by the second one's probability
} counts;

static void put(counts *c, double p, bool right) {
    if (!(p >= 0 && p <= 1)) return;
    const int bin = p >= 1 ? BINS - 1 : (int)(p * BINS);
    c->confidence[bin] += p;
    c->right[bin] += right;
    c->n[bin]++;
}

static bool lists(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *entry = json_string_value(json_array_get(list, i));
        if (entry != NULL && strcmp(entry, name) == 0) return true;
    }
    return false;
}

// Of single labels the predicted one's probability counts, of several every one's.
static ft_status take_line(void *context, const json_t *line) {
    counts *c = context;
    const char *split = json_string_value(json_object_get(line, "split")), *key, *second = NULL;
    const char *label = json_string_value(json_object_get(line, "label")), *predicted = json_string_value(json_object_get(line, "predicted"));
    json_t *probabilities = json_object_get(line, "probabilities"), *value;
    const json_t *labels = json_object_get(line, "labels");
    if (split == NULL || strcmp(split, c->split) != 0 || !json_is_object(probabilities)) return FT_OK;
    c->examples++;
    json_object_foreach(probabilities, key, value) {
        if (json_is_array(labels)) put(c, json_number_value(value), lists(labels, key));
        second = key;
    }
    if (label == NULL || predicted == NULL) return FT_OK;
    put(c, json_number_value(json_object_get(probabilities, predicted)), strcmp(label, predicted) == 0);
    c->two = json_object_size(probabilities) == 2;
    const double p = json_number_value(json_object_get(probabilities, second));
    if (c->two && p >= 0 && p <= 1) (strcmp(label, second) == 0 ? c->positive : c->negative)[(int)(p * THRESHOLDS)]++;
    return FT_OK;
}

static ft_status write_reliability(const counts *c, FILE *out) {
    static const double ends[2] = {0, 1};
    double x[BINS], y[BINS];
    ft_chart chart = {.title = "Reliability", .x_name = "probability", .over_range = true, .mark = NAN, .line_count = 2};
    chart.lines[0] = (ft_chart_line){"share that is right", 0, x, y};
    chart.lines[1] = (ft_chart_line){"as it should be", 2, ends, ends};
    for (int b = 0; b < BINS; b++) {
        if (c->n[b] == 0) continue;
        x[chart.lines[0].count] = c->confidence[b] / c->n[b];
        y[chart.lines[0].count++] = c->right[b] / c->n[b];
    }
    return ft_chart_lines(out, &chart);
}

// The threshold that was saved with the model; NaN: none.
static double saved_threshold(const ft_run_record *run) {
    ft_arena arena = {0};
    json_t *settings = NULL;
    double threshold = NAN;
    char *path = ft_path_join(&arena, run->path, "model/ftengine.json");
    if (path != NULL && ft_path_exists(path) && ft_json_load(path, &settings) == FT_OK) {
        const json_t *list = json_object_get(settings, "thresholds");
        if (json_array_size(list) == 1) threshold = json_number_value(json_array_get(list, 0));
        json_decref(settings);
    }
    ft_error_clear(); // a model that was taken away has no mark
    ft_arena_free(&arena);
    return threshold;
}

static ft_status write_thresholds(const ft_run_record *run, const counts *c, FILE *out) {
    double x[THRESHOLDS], precision[THRESHOLDS], recall[THRESHOLDS], f1[THRESHOLDS];
    double all = 0, hit = 0, taken = 0;
    for (int k = 0; k <= THRESHOLDS; k++) all += (double)c->positive[k];
    int from = THRESHOLDS;
    for (int k = THRESHOLDS; k > 0; k--) { // at k / THRESHOLDS all that lie at or above are taken for positive
        hit += (double)c->positive[k];
        taken += (double)(c->positive[k] + c->negative[k]);
        if (taken == 0 || all == 0) continue;
        from--;
        x[from] = (double)k / THRESHOLDS;
        precision[from] = hit / taken;
        recall[from] = hit / all;
        f1[from] = 2 * hit / (taken + all);
    }
    const int count = THRESHOLDS - from;
    ft_chart chart = {.title = "Thresholds", .x_name = "threshold on the second class", .over_range = true, .mark = saved_threshold(run), .mark_name = "saved"};
    chart.lines[0] = (ft_chart_line){"precision", count, x + from, precision + from};
    chart.lines[1] = (ft_chart_line){"recall", count, x + from, recall + from};
    chart.lines[2] = (ft_chart_line){"F1", count, x + from, f1 + from};
    chart.line_count = 3;
    return ft_chart_lines(out, &chart);
}

ft_status ft_page_probabilities(const ft_run_record *run, const char *split, FILE *out) {
    ft_arena arena = {0};
    counts c = {.split = split};
    char *path = ft_path_join(&arena, run->path, "predictions.jsonl");
    ft_status status = path != NULL ? ft_json_lines_read(path, take_line, &c) : FT_NO_MEMORY;
    if (status == FT_OK && c.examples >= LEAST_EXAMPLES) {
        fputs("<div class=\"charts below\">\n", out);
        status = write_reliability(&c, out);
        if (status == FT_OK && c.two) status = write_thresholds(run, &c, out);
        fputs("</div>\n", out);
    }
    ft_arena_free(&arena);
    return status;
}

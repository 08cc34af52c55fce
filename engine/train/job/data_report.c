#include "engine/train/job/data_report.h"

#include "base/json/json.h"
#include "base/log.h"
#include "engine/data/tables/source.h"
#include "engine/train/job/data_remarks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 12, NAME_WIDTH = 20 };

static double percent(int64_t part, int64_t whole) { return whole > 0 ? 100.0 * (double)part / (double)whole : 0; }

// ---- for people ---------------------------------------------------------------------------------------------------

static void print_lengths(const ft_job *job) {
    ft_info("  %-12s %9s %9s %9s %9s   tokens: %5s %6s %6s %6s %6s   %s", "", "examples", "repeated", "in train", "empty",
            "least", "median", "90%", "99%", "most", ft_input_sizes_of(&job->input).windows ? "in windows" : "cut");
    for (int s = 0; s < FT_SPLITS; s++) {
        if (!job->split[s].present) continue;
        const ft_data_report *r = &job->split[s].report;
        ft_info("  %-12s %9lld %9lld %9lld %9lld           %5d %6d %6d %6d %6d %5.1f%%", ft_split_name((ft_split)s),
                (long long)r->examples, (long long)r->repeated, (long long)r->known, (long long)r->empty, r->length[0],
                r->length[1], r->length[2], r->length[3], r->length[4], percent(r->truncated, r->examples));
    }
}

static ft_status count_classes(const ft_job *job, ft_split split, int64_t **counts) {
    const ft_dataset *data = &job->split[split].data;
    *counts = ft_calloc((size_t)job->labels.count, sizeof **counts, "class counts");
    if (*counts == NULL) return FT_NO_MEMORY;
    ft_dataset_count_classes(data, *counts);
    return FT_OK;
}

static void print_many_classes(const ft_job *job, const int64_t *counts) {
    int least = 0, most = 0;
    for (int c = 1; c < job->labels.count; c++) {
        if (counts[c] < counts[least]) least = c;
        if (counts[c] > counts[most]) most = c;
    }
    ft_info("  %d classes, from %lld (%s) to %lld (%s) training examples", job->labels.count, (long long)counts[least],
            job->label_names[least], (long long)counts[most], job->label_names[most]);
}

static void print_class_table(const ft_job *job, int64_t *const counts[FT_SPLITS]) {
    char line[160];
    int used = snprintf(line, sizeof line, "  %-*s", NAME_WIDTH, ft_task_has_tokens(job->task) ? "tag" : "class");
    for (int s = 0; s < FT_SPLITS; s++)
        if (counts[s] != NULL) used += snprintf(line + used, sizeof line - (size_t)used, " %20s", ft_split_name((ft_split)s));
    ft_info("%s", line);
    for (int c = 0; c < job->labels.count; c++) {
        used = snprintf(line, sizeof line, "  %-*.*s", NAME_WIDTH, NAME_WIDTH, job->label_names[c]);
        for (int s = 0; s < FT_SPLITS; s++)
            if (counts[s] != NULL)
                used += snprintf(line + used, sizeof line - (size_t)used, " %12lld (%4.1f%%)", (long long)counts[s][c],
                                 percent(counts[s][c], ft_dataset_rows(&job->split[s].data)));
        ft_info("%s", line);
    }
}

static void print_targets(const ft_job *job) {
    ft_info("  %-*s %20s %12s %12s %12s %12s", NAME_WIDTH, "target", "", "mean", "deviation", "least", "most");
    for (int s = 0; s < FT_SPLITS; s++) {
        const ft_dataset *data = &job->split[s].data;
        for (int k = 0; k < job->labels.count && job->split[s].present; k++) {
            double mean = 0, squares = 0, least = INFINITY, most = -INFINITY, n = (double)data->examples;
            for (int64_t i = 0; i < data->examples; i++) mean += data->target[i * job->labels.count + k] / n;
            for (int64_t i = 0; i < data->examples; i++) {
                double y = data->target[i * job->labels.count + k];
                squares += (y - mean) * (y - mean);
                least = fmin(least, y);
                most = fmax(most, y);
            }
            ft_info("  %-*.*s %20s %12.4g %12.4g %12.4g %12.4g", NAME_WIDTH, NAME_WIDTH, job->label_names[k],
                    ft_split_name((ft_split)s), mean, sqrt(squares / n), least, most);
        }
    }
}

static void print_questions(const ft_job *job) {
    for (int s = 0; s < FT_SPLITS; s++) {
        const ft_table *t = &job->split[s].table;
        int64_t without = 0;
        for (int64_t row = 0; row < t->rows && t->label != NULL; row++) without += *t->label[row] == '\0';
        if (job->split[s].present)
            ft_info("  %-12s %9lld questions without an answer (%.1f%%)", ft_split_name((ft_split)s), (long long)without, percent(without, t->rows));
    }
}

static void print_learned(const ft_job *job) {
    for (int s = 0; s < FT_SPLITS; s++) {
        const ft_dataset *data = &job->split[s].data;
        if (job->split[s].present)
            ft_info("  %-12s %9lld tokens have a loss (%.1f%%)", ft_split_name((ft_split)s), (long long)ft_dataset_rows(data), percent(ft_dataset_rows(data), data->tokens));
    }
}

static ft_status print_classes(const ft_job *job) {
    int64_t *counts[FT_SPLITS] = {NULL};
    ft_status status = FT_OK;
    for (int s = 0; s < FT_SPLITS && status == FT_OK; s++)
        if (job->split[s].present) status = count_classes(job, (ft_split)s, &counts[s]);
    if (status == FT_OK && job->labels.count > MOST_CLASSES) print_many_classes(job, counts[FT_SPLIT_TRAIN]);
    else if (status == FT_OK) print_class_table(job, counts);
    for (int s = 0; s < FT_SPLITS; s++) free(counts[s]);
    return status;
}

static void warn_of(const ft_job *job, ft_split split) {
    const ft_split_data *d = &job->split[split];
    const ft_data_report *r = &d->report;
    char here[512], there[512];
    if (r->known > 0)
        ft_warn("%lld of %lld texts of %s are in the training data too: what is measured there is partly memory (%s and %s)",
                (long long)r->known, (long long)r->examples, ft_source_display(d->path),
                ft_table_where(&d->table, d->path, r->known_row, here),
                ft_table_where(&job->split[FT_SPLIT_TRAIN].table, job->split[FT_SPLIT_TRAIN].path, r->train_row, there));
    if (r->contradicting > 0)
        ft_warn("%lld texts of %s occur again with another label (%s and %s)", (long long)r->contradicting,
                ft_source_display(d->path), ft_table_where(&d->table, d->path, r->contradicted_row, here),
                ft_table_where(&d->table, d->path, r->contradicting_row, there));
    if (r->empty > 0) ft_warn("%lld texts of %s are empty", (long long)r->empty, ft_source_display(d->path));
    if (r->truncated * 10 >= r->examples && !ft_input_sizes_of(&job->input).windows)
        ft_warn("%.0f%% of the texts of %s are longer than %d tokens and were cut (data.max_length; data.truncation=windows "
                "reads them whole)",
                percent(r->truncated, r->examples), ft_source_display(d->path), job->max_length);
}

ft_status ft_data_report_splits(const ft_job *job) {
    FT_TRY(ft_data_remarks(job));
    print_lengths(job);
    if (ft_task_has_spans(job->task)) print_questions(job);
    else if (ft_task_has_language(job->task)) print_learned(job);
    else if (ft_task_has_classes(job->task)) FT_TRY(print_classes(job));
    else print_targets(job);
    for (int s = 0; s < FT_SPLITS; s++)
        if (job->split[s].present) warn_of(job, (ft_split)s);
    return FT_OK;
}

// ---- for programs -------------------------------------------------------------------------------------------------

// Pictures that were left out.
static json_t *broken_json(const ft_split_data *d, bool *failed) {
    json_t *array = json_array();
    for (int64_t i = 0; i < d->broken.count; i++)
        ft_json_append(array, json_pack("{s:o, s:o}", "file", ft_json_text(d->broken.list[i].name), "error", ft_json_text(d->broken.list[i].error)), failed);
    return array;
}

json_t *ft_data_report_json(const ft_job *job, ft_split split, bool *failed) {
    const ft_split_data *d = &job->split[split];
    const ft_data_report *r = &d->report;
    json_t *lengths = json_array(), *classes = json_object();
    for (int q = 0; q < FT_QUANTILES; q++) ft_json_append(lengths, json_integer(r->length[q]), failed);
    int64_t *counts = NULL;
    if (ft_task_has_classes(job->task) && count_classes(job, split, &counts) != FT_OK) *failed = true;
    for (int c = 0; counts != NULL && c < job->labels.count; c++)
        ft_json_put(classes, job->label_names[c], json_integer((json_int_t)counts[c]), failed);
    free(counts);
    json_t *object = json_pack("{s:o, s:s, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "path", ft_json_text(d->path), "sha256",
                     d->table.sha256, "text_column", d->table.text_column, "pair_column", d->table.pair_column, "label_column",
                     d->table.label_column, "examples", (json_int_t)d->data.examples, "sequences", (json_int_t)d->data.sequences, "tokens", (json_int_t)d->data.tokens, "longest",
                     d->data.longest, "truncated", (json_int_t)d->data.truncated, "repeated", (json_int_t)r->repeated,
                     "contradicting", (json_int_t)r->contradicting, "in_train", (json_int_t)r->known, "empty",
                     (json_int_t)r->empty, "length_quantiles", lengths, "classes", classes);
    if (object != NULL && d->data.pictures != NULL) ft_json_put(object, "broken", broken_json(d, failed), failed);
    return object;
}

// Of a class what Jansson keeps by its number, the number, its place in a table, and a line of the file; the name stands in both.
size_t ft_data_report_json_bytes(const ft_job *job) {
    enum { ENTRY = 80 + 32 + 32, LINE = 24 };
    size_t bytes = 0;
    if (job->without_data || !ft_task_has_classes(job->task)) return 0;
    for (int c = 0; c < job->labels.count; c++) bytes += ENTRY + LINE + 2 * strlen(job->label_names[c]);
    size_t splits = 0, broken = 0;
    for (int s = 0; s < FT_SPLITS; s++) {
        splits += job->split[s].present;
        for (int64_t i = 0; i < job->split[s].broken.count; i++)
            broken += 2 * (ENTRY + LINE + strlen(job->split[s].broken.list[i].name) + strlen(job->split[s].broken.list[i].error));
    }
    return splits * bytes + broken;
}

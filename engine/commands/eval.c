#include "engine/commands/commands.h"

#include "engine/io/json.h"
#include "engine/train/metrics.h"
#include "kernels/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static ft_status print_json(const ft_classifier *c, const char *data, const ft_metrics *m) {
    json_t *metrics = json_object(), *classes = json_array(), *confusion = json_array();
    bool failed = false;
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        double value = ft_metric_value(m, (ft_metric)k);
        if (value == value) ft_json_put(metrics, ft_metric_name((ft_metric)k), json_real(value), &failed);
    }
    for (int k = 0; k < m->classes; k++) {
        ft_json_append(classes, json_pack("{s:s, s:f, s:f, s:f, s:I}", "label", c->label_names[k], "precision", m->precision[k], "recall",
                                          m->recall[k], "f1", m->f1[k], "support", (json_int_t)m->support[k]), &failed);
        json_t *row = json_array();
        for (int p = 0; p < m->classes; p++) ft_json_append(row, json_integer((json_int_t)m->confusion[k * m->classes + p]), &failed);
        ft_json_append(confusion, row, &failed);
    }
    json_t *root = json_pack("{s:i, s:o, s:o, s:I, s:o, s:o, s:o}", "format_version", 1, "model", ft_json_text(c->path), "data", ft_json_text(data), "examples",
                             (json_int_t)m->examples, "metrics", metrics, "classes", classes, "confusion", confusion);
    if (root != NULL && !failed) ft_json_write(stdout, root);
    json_decref(root);
    return root == NULL || failed ? ft_fail_memory(0, "the metrics") : FT_OK;
}

static void print_table(const ft_classifier *c, const ft_metrics *m) {
    printf("examples      %lld\n", (long long)m->examples);
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        double value = ft_metric_value(m, (ft_metric)k);
        if (value == value) printf("%-13s %.4f\n", ft_metric_name((ft_metric)k), value);
    }
    printf("\n%-24s %9s %9s %9s %9s\n", "class", "precision", "recall", "F1", "support");
    for (int k = 0; k < m->classes; k++)
        printf("%-24s %9.4f %9.4f %9.4f %9lld\n", c->label_names[k], m->precision[k], m->recall[k], m->f1[k], (long long)m->support[k]);
}

static ft_status evaluate(ft_classifier *c, const char *data, ft_format format, bool json) {
    ft_table table = {0};
    ft_dataset set = {0};
    ft_metrics metrics = {0};
    float *logits = NULL, *losses = NULL;
    const ft_table_request request = ft_classifier_request(c, format, FT_LABEL_REQUIRED);
    ft_status status;
    FT_TRY_GOTO(ft_table_read(data, &request, &table), done);
    FT_TRY_GOTO(ft_dataset_build(&table, data, c->tokenizer, c->max_length, &c->labels, NULL, &set, NULL), done);
    logits = ft_calloc((size_t)set.examples * (size_t)c->labels.count, sizeof *logits, "logits");
    losses = ft_calloc((size_t)set.examples, sizeof *losses, "losses");
    status = logits && losses ? FT_OK : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(ft_classifier_predict(c, &set, logits, losses), done);
    FT_TRY_GOTO(ft_metrics_compute(logits, set.examples, c->labels.count, set.label, losses, &metrics), done);
    if (json) status = print_json(c, data, &metrics);
    else print_table(c, &metrics);
    if (status == FT_OK && fflush(stdout) != 0) status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
done:
    free(logits);
    free(losses);
    ft_metrics_free(&metrics);
    ft_dataset_free(&set);
    ft_table_free(&table);
    return status;
}

ft_status ft_command_eval(int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    const char *data = NULL, *format_name = "auto";
    ft_format format = FT_FORMAT_AUTO;
    bool json = false;
    const ft_flag flags[] = {{"--data", &data, NULL}, {"--format", &format_name, NULL}, {"--json", NULL, &json}};
    ft_status status = ft_parse_words("eval", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || data == NULL)) {
        status = ft_fail(FT_INVALID, "eval", words.plain_count != 1 ? "give one run or model directory" : "--data is missing");
        ft_hint("ftengine eval RUN|MODEL_DIR --data FILE|-");
    }
    if (status == FT_OK) status = ft_parse_format(format_name, false, &format);
    if (status == FT_OK) {
        ft_classifier classifier;
        status = ft_classifier_open(words.plain[0], words.override_count, words.overrides, &classifier);
        if (status == FT_OK) status = evaluate(&classifier, data, format, json);
        ft_error error;
        ft_error_save(&error);
        ft_status closed = ft_classifier_close(&classifier);
        if (status != FT_OK) ft_error_restore(&error);
        else status = closed;
    }
    ft_arena_free(&arena);
    return status;
}

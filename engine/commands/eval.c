#include "engine/commands/completions.h"

#include "base/context.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/data/pictures/source.h"
#include "engine/data/question_set.h"
#include "engine/metrics/answers.h"
#include "engine/metrics/metrics.h"
#include "engine/train/job/run_plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BOOTSTRAP_ROUNDS = 1000 };
static const double confidence_level = 0.95;

typedef struct eval_request {
    const char *data;
    ft_format format;
    bool json, intervals;
    bool completes; // of a language model completions are judged too
    const char *command; // and by this one
    ft_generation_words generation;
} eval_request;

// Of a language model, to be judged by what it writes.
typedef struct writing {
    ft_prompts prompts;
    ft_generator_options options;
    int64_t answered; // prompts with an answer in the file
    double figure;    // of the user's command; NaN: there is none
} writing;

typedef struct judgement {
    ft_metrics metrics;
    double low[FT_METRIC_COUNT], high[FT_METRIC_COUNT]; // with intervals
} judgement;

static json_t *intervals_json(const judgement *j, bool *failed) {
    json_t *object = json_pack("{s:f, s:i}", "level", confidence_level, "rounds", BOOTSTRAP_ROUNDS);
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        if (!isnan(j->low[k]))
            ft_json_put(object, ft_metric_name((ft_metric)k), json_pack("[f, f]", j->low[k], j->high[k]), failed);
    return object;
}

static const char *class_name(const ft_classifier *c, const ft_metrics *m, int k) { return m->names != NULL ? m->names[k] : c->label_names[k]; }

static void put_classes(json_t *root, const ft_classifier *c, const ft_metrics *m, bool *failed) {
    json_t *classes = json_array(), *confusion = json_array();
    for (int k = 0; k < m->classes; k++) {
        ft_json_append(classes,
                       json_pack("{s:s, s:f, s:f, s:f, s:I}", "label", class_name(c, m, k), "precision", m->precision[k], "recall",
                                 m->recall[k], "f1", m->f1[k], "support", (json_int_t)m->support[k]),
                       failed);
        json_t *row = json_array();
        for (int p = 0; m->confusion != NULL && p < m->classes; p++)
            ft_json_append(row, json_integer((json_int_t)m->confusion[k * m->classes + p]), failed);
        ft_json_append(confusion, row, failed);
    }
    ft_json_put(root, "classes", classes, failed);
    if (m->confusion != NULL) ft_json_put(root, "confusion", confusion, failed);
    else json_decref(confusion);
}

static ft_status print_json(const ft_classifier *c, const eval_request *r, const judgement *j, double figure) {
    const ft_metrics *m = &j->metrics;
    json_t *metrics = json_object();
    bool failed = false;
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        double value = ft_metric_value(m, (ft_metric)k);
        if (value == value) ft_json_put(metrics, ft_metric_name((ft_metric)k), json_real(value), &failed);
    }
    if (!isnan(figure)) ft_json_put(metrics, "command", json_real(figure), &failed);
    json_t *root = json_pack("{s:i, s:o, s:o, s:I, s:o}", "format_version", 1, "model", ft_json_text(c->path), "data",
                             ft_json_text(r->data), "examples", (json_int_t)m->examples, "metrics", metrics);
    if (r->intervals) ft_json_put(root, "intervals", intervals_json(j, &failed), &failed);
    if (m->support != NULL) put_classes(root, c, m, &failed);
    if (root != NULL && !failed) ft_json_write(ft_results(), root);
    json_decref(root);
    return root == NULL || failed ? ft_fail_memory(0, "the metrics") : FT_OK;
}

static void print_table(const ft_classifier *c, const eval_request *r, const judgement *j, double figure) {
    const ft_metrics *m = &j->metrics;
    printf("examples           %lld\n", (long long)m->examples);
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        double value = ft_metric_value(m, (ft_metric)k);
        if (value != value) continue;
        printf("%-18s %.4f", ft_metric_name((ft_metric)k), value);
        if (r->intervals && !isnan(j->low[k])) printf("  [%.4f, %.4f]", j->low[k], j->high[k]);
        printf("\n");
    }
    if (!isnan(figure)) printf("%-18s %.4f\n", "command", figure);
    if (r->intervals) printf("[%.0f%% intervals of %d bootstrap rounds]\n", 100 * confidence_level, BOOTSTRAP_ROUNDS);
    if (m->support == NULL) return;
    printf("\n%-24s %9s %9s %9s %9s\n", m->names != NULL ? "entity" : "class", "precision", "recall", "F1", "support");
    for (int k = 0; k < m->classes; k++)
        printf("%-24s %9.4f %9.4f %9.4f %9lld\n", class_name(c, m, k), m->precision[k], m->recall[k], m->f1[k],
               (long long)m->support[k]);
}

static ft_status judge(const ft_classifier *c, const eval_request *r, const ft_scores *scores, judgement *j) {
    FT_TRY(ft_metrics_compute(scores, &j->metrics));
    if (!r->intervals) return FT_OK;
    return ft_metrics_bootstrap(scores, BOOTSTRAP_ROUNDS, (uint64_t)c->options.train.seed, confidence_level, j->low, j->high);
}

static ft_status show_progress(void *context, int64_t done, int64_t total) {
    ft_status_line("evaluation %lld / %lld", (long long)done, (long long)total);
    return FT_OK;
}

// What the figures and their text take beside the pass: with --json a number of the matrix is one of Jansson's, and its place in a list.
static size_t figures_bytes(const ft_classifier *c, const eval_request *r, const ft_dataset *set) {
    enum { JSON_NUMBER = 32 + 16, JSON_CLASS = 1024 };
    const size_t classes = (size_t)c->labels.count, rows = (size_t)ft_dataset_rows(set), matrix = r->json && !c->task->scoring.independent ? classes * classes : 0;
    return (r->intervals ? rows * sizeof(int32_t) : 0) + matrix * (sizeof(int64_t) + JSON_NUMBER) + (r->json ? classes * JSON_CLASS : 0);
}

// The texts are tokens now, and go before the weights come.
static ft_status prepare(ft_classifier *c, const eval_request *r, ft_table *table, const ft_dataset *set, const writing *w) {
    const size_t logits = (size_t)ft_dataset_rows(set) * (size_t)c->labels.count * sizeof(float);
    ft_classifier_work work = {.data = set, .computes = true, .files = logits};
    work.host = ft_evaluation_host_bytes(c->task, set, c->labels.count, ft_eval_capacity(set, c->limits)) + figures_bytes(c, r, set);
    if (r->completes) {
        work.generator = ft_completion_sizes(c, &w->prompts, &w->options);
        work.host += ft_completion_host_bytes(c, &work.generator, &w->options);
    }
    ft_table_forget_rows(table);
    return ft_classifier_load(c, &work);
}

static ft_status read_prompts(ft_classifier *c, const eval_request *r, const ft_table *table, writing *w) {
    if (!r->completes) return FT_OK;
    if (!ft_task_has_language(c->task)) return ft_fail(FT_INVALID, "--completions", "a model of %s writes none (%s)", ft_task_name(c->task->id), c->path);
    FT_TRY(ft_generation_parse(&r->generation, &w->options));
    FT_TRY(ft_tokenizer_decodes(ft_language_tokenizer(&c->input)));
    FT_TRY(ft_prompts_build(&c->input, table, r->data, c->config.max_position_embeddings, true, &w->prompts));
    for (int64_t i = 0; i < w->prompts.count; i++) w->answered += w->prompts.reference[i] != NULL;
    if (w->answered == 0 && r->command == NULL) {
        ft_fail(FT_INVALID, r->data, "no prompt has an answer that a completion could be compared with");
        ft_hint("prompt and completion, or messages that end with the assistant's");
        return FT_INVALID;
    }
    return ft_completion_settings(c, &w->prompts, &c->arena, &w->options);
}

// Behind the pass, with whose layout of memory it is done.
static ft_status judge_completions(ft_classifier *c, const eval_request *r, writing *w, judgement *j) {
    ft_completion_judgement said = {.command = r->command, .figure = (double)NAN};
    if (!r->completes) return FT_OK;
    FT_TRY(ft_completions_judge(c, &w->prompts, &w->options, &said));
    j->metrics.value[FT_METRIC_EXACT_MATCH] = said.exact_match;
    w->figure = said.figure;
    return FT_OK;
}

static ft_status evaluate(ft_classifier *c, const eval_request *r) {
    ft_table table = {0};
    ft_dataset set = {0};
    judgement j = {0};
    ft_logits logits = {.file = -1};
    float *losses = NULL;
    ft_answer_verdict *answers = NULL;
    writing w = {.figure = (double)NAN};
    const bool spans = ft_task_has_spans(c->task);
    const ft_table_request request = ft_classifier_request(c, r->format, FT_LABEL_REQUIRED);
    ft_status status;
    FT_TRY_GOTO((request.pictures ? ft_picture_source_read : ft_table_read)(r->data, &request, &table), done);
    FT_TRY_GOTO(ft_classifier_leave_out(c, &table, r->data), done);
    status = table.rows > 0 ? FT_OK : ft_fail(FT_INVALID, r->data, "none of its pictures can be read");
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(ft_classifier_build(c, &table, r->data, &c->labels, &set), done);
    FT_TRY_GOTO(read_prompts(c, r, &table, &w), done);
    FT_TRY_GOTO(prepare(c, r, &table, &set, &w), done);
    FT_TRY_GOTO(ft_logits_open(ft_dataset_rows(&set), c->labels.count, NULL, &logits), done);
    losses = ft_calloc((size_t)ft_dataset_rows(&set), sizeof *losses, "losses");
    status = losses != NULL ? FT_OK : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(ft_classifier_predict(c, &set, &logits, spans ? NULL : losses, show_progress, NULL), done);
    ft_status_line("%s", "");
    if (spans) {
        const ft_answer_rules rules = ft_answer_rules_of(&c->options, false);
        if (set.questions->unanswerable > 0 && c->threshold == NULL)
            ft_warn("the model always answers, and %lld of %lld questions have no answer: eval.threshold=0 lets it say so", 
                    (long long)set.questions->unanswerable, (long long)set.examples);
        answers = ft_calloc((size_t)set.examples, sizeof *answers, "answers");
        status = answers != NULL ? ft_answers_judge_all(&set, &logits, &rules, answers, losses) : FT_NO_MEMORY;
        if (status != FT_OK) goto done;
    }
    const ft_scores scores = {.scoring = &c->task->scoring,
                              .n = ft_dataset_judged(&set),
                              .outputs = c->labels.count,
                              .logits = logits.all,
                              .kept = &logits,
                              .labels = set.label,
                              .first = spans ? NULL : set.groups.count > 0 ? set.groups.first : set.first_row,
                              .member = set.groups.member,
                              .answers = answers,
                              .names = c->label_names,
                              .targets = set.target,
                              .sets = set.sets.first != NULL ? &set.sets : NULL,
                              .losses = losses,
                              .threshold = c->threshold,
                              .confusion = r->json};
    FT_TRY_GOTO(judge(c, r, &scores, &j), done);
    FT_TRY_GOTO(judge_completions(c, r, &w, &j), done);
    if (r->json) status = print_json(c, r, &j, w.figure);
    else print_table(c, r, &j, w.figure);
    if (status == FT_OK && fflush(stdout) != 0) status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
done:
    ft_logits_close(&logits);
    free(losses);
    free(answers);
    ft_metrics_free(&j.metrics);
    ft_prompts_free(&w.prompts);
    ft_dataset_free(&set);
    ft_table_free(&table);
    return status;
}

ft_status ft_command_eval(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    const char *format_name = "auto", *precision = NULL, *base = NULL;
    eval_request r = {.data = NULL};
    ft_generation_words *g = &r.generation;
    ft_flag flags[8 + FT_GENERATION_FLAGS] = {
        {"--data", &r.data, NULL}, {"--format", &format_name, NULL}, {"--json", NULL, &r.json}, {"--ci", NULL, &r.intervals},
        {"--precision", &precision, NULL}, {"--base", &base, NULL}, {"--completions", NULL, &r.completes}, {"--command", &r.command, NULL}};
    ft_generation_flags(g, flags + 8);
    ft_status status = ft_parse_words("eval", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK) status = ft_words_set(&words, &arena, "train.precision", precision);
    if (status == FT_OK && (words.plain_count != 1 || r.data == NULL)) {
        status = ft_fail(FT_INVALID, "eval", words.plain_count != 1 ? "give one run or model directory" : "--data is missing");
        ft_hint("ftengine eval RUN|MODEL_DIR --data FILE|- [--ci]");
    }
    if (status == FT_OK) status = ft_parse_format(format_name, false, &r.format);
    if (status == FT_OK && !r.completes && (ft_generation_is_given(g) || r.command != NULL))
        status = ft_fail(FT_INVALID, "eval", "--max-new-tokens, --sample, --temperature, --top-p, --top-k, --seed and --command are of --completions");
    if (status == FT_OK) {
        ft_classifier classifier;
        status = ft_classifier_open(sections, words.plain[0], base, words.override_count, words.overrides, &classifier);
        if (status == FT_OK) status = evaluate(&classifier, &r);
        ft_error error;
        ft_error_save(&error);
        ft_status closed = ft_classifier_close(&classifier);
        if (status != FT_OK) ft_error_restore(&error);
        else status = closed;
    }
    ft_arena_free(&arena);
    return status;
}

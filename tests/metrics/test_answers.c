// Answers against the definitions of SQuAD's scripts and of run_qa (tests/vectors/questions/make_answer_vectors.py): texts, what windows of logits
// come to, and all figures at several thresholds. Catches: a small letter, a space or an article that Python takes otherwise, words that count as
// a set, an answer across the question, one that is too long, windows that are joined by the wrong score, ties, a null score that is not the least,
// a threshold that is found within a tie or one question late, and figures of version 1.1 in place of 2.0.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/spill.h"
#include "engine/data/question_set.h"
#include "engine/metrics/answers.h"
#include "engine/metrics/metrics.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, OUTPUTS = 2 };

static void assert_ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
}

static const char *text_of(const json_t *object, const char *key) { return json_string_value(json_object_get(object, key)); }
static double number_of(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static void each_line(const char *path, void (*look)(const json_t *line, int number)) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = NULL;
    size_t capacity = 0;
    int number = 0;
    for (ssize_t length; (length = getline(&text, &capacity, f)) > 0;) {
        json_t *line;
        assert_ok(ft_json_parse(text, (size_t)length, path, &line));
        look(line, ++number);
        json_decref(line);
    }
    assert_true(number > 100);
    free(text);
    fclose(f);
}

static void look_at_texts(const json_t *line, int number) {
    static ft_squad_text said, truth;
    const char *a = text_of(line, "said"), *b = text_of(line, "truth");
    assert_ok(ft_squad_plain(a, strlen(a), &said));
    assert_ok(ft_squad_plain(b, strlen(b), &truth));
    if (ft_squad_equal(&said, &truth) != (number_of(line, "exact") > 0.5))
        fail_msg("line %d: \"%s\" is \"%.*s\", \"%s\" is \"%.*s\"", number, a, (int)said.length, said.text, b, (int)truth.length, truth.text);
    const double one = ft_squad_f1(&said, &truth, false), two = ft_squad_f1(&said, &truth, true);
    if (fabs(one - number_of(line, "f1_1")) > 1e-12 || fabs(two - number_of(line, "f1_2")) > 1e-12)
        fail_msg("line %d: F1 %.9g and %.9g, should be %.9g and %.9g: \"%.*s\", \"%.*s\"", number, one, two, number_of(line, "f1_1"),
                 number_of(line, "f1_2"), (int)said.length, said.text, (int)truth.length, truth.text);
    if (number % 100 == 0) { // and it begins anew
        ft_squad_text_free(&said);
        ft_squad_text_free(&truth);
    }
}

static void test_texts(void **state) {
    each_line(FT_TEST_VECTORS "/questions/texts.jsonl", look_at_texts);
    each_line(FT_TEST_VECTORS "/questions/texts.jsonl", look_at_texts);
}

// ---- questions: a data set that grows by one of every line ----------------------------------------------------------------

static ft_dataset data;
static float *logits; // [rows, 2] of all
static ft_answer_rules rules[MOST];
static int64_t question_lines;

static void begin_set(void) {
    memset(&data, 0, sizeof data);
    assert_ok(ft_question_set_open(MOST, &data.questions));
    data.first_read = ft_spill_calloc(4096, sizeof *data.first_read, "a test");
    data.first_row = ft_spill_calloc(MOST + 1, sizeof *data.first_row, "a test");
    logits = calloc(1 << 16, sizeof *logits);
    assert_true(data.first_read && data.first_row && logits);
}

static void take_window(const json_t *window) {
    const json_t *spans = json_object_get(window, "spans"), *own = json_object_get(window, "logits");
    const size_t count = json_array_size(spans);
    int32_t begin[64], end[64];
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) {
        const json_t *span = json_array_get(spans, i);
        begin[i] = json_is_null(span) ? -1 : (int32_t)json_integer_value(json_array_get(span, 0));
        end[i] = json_is_null(span) ? -1 : (int32_t)json_integer_value(json_array_get(span, 1));
        for (size_t c = 0; c < OUTPUTS; c++)
            logits[(data.tokens + (int64_t)i) * OUTPUTS + (int64_t)c] = (float)json_number_value(json_array_get(json_array_get(own, i), c));
    }
    assert_ok(ft_question_set_tokens(data.questions, data.tokens, begin, end, count));
    data.tokens += (int64_t)count;
    data.first_read[++data.sequences] = data.tokens;
}

static void take_question(const json_t *line) {
    const json_t *windows = json_object_get(line, "windows"), *answers = json_object_get(line, "answers");
    const char *context = text_of(line, "context");
    const int64_t i = data.examples;
    assert_ok(ft_question_set_passage(data.questions, i, context, strlen(context)));
    for (size_t k = 0; k < json_array_size(answers); k++) {
        const char *answer = json_string_value(json_array_get(answers, k));
        assert_ok(ft_question_set_answer(data.questions, i, answer, strlen(answer)));
    }
    data.questions->unanswerable += json_array_size(answers) == 0;
    for (size_t w = 0; w < json_array_size(windows); w++) take_window(json_array_get(windows, w));
    rules[i] = (ft_answer_rules){.n_best = (int)number_of(line, "n_best"), .max_length = (int)number_of(line, "max_length"), .none = true};
    data.first_row[++data.examples] = data.tokens;
}

static void check_question(const json_t *line, int number) {
    const int64_t i = data.examples - 1;
    const json_t *want = json_object_get(line, "found");
    ft_found_answers found = {.found = NULL};
    assert_ok(ft_answers_find(&data, i, logits + data.first_row[i] * OUTPUTS, &rules[i], &found));
    assert_int_equal(found.count, json_array_size(want));
    for (int k = 0; k < found.count; k++) {
        const ft_found_answer *f = &found.found[k];
        const char *text = json_string_value(json_array_get(json_array_get(want, (size_t)k), 0));
        const size_t length = f->begin >= 0 ? (size_t)(f->end - f->begin) : 0;
        if (strlen(text) != length || (length > 0 && memcmp(ft_question_passage(data.questions, i) + f->begin, text, length) != 0))
            fail_msg("line %d: answer %d is not \"%s\"", number, k, text);
        assert_true(fabs(f->probability - json_number_value(json_array_get(json_array_get(want, (size_t)k), 1))) < 1e-6);
    }
    ft_answer_verdict verdict;
    assert_ok(ft_answers_judge(&data, i, &found, &verdict));
    assert_true(fabs((double)verdict.odds - number_of(line, "odds")) < 1e-5);
    assert_int_equal(verdict.said, !json_is_null(json_object_get(line, "text")));
    ft_found_answers_free(&found);
}

static void check_figures(const json_t *figures, int number) {
    const ft_task_spec *task = ft_task_spec_of(FT_TASK_QUESTION_ANSWERING);
    ft_answer_verdict verdicts[MOST];
    for (int64_t i = 0; i < data.examples; i++) { // each by its own rules; of all at once below
        ft_found_answers found = {.found = NULL};
        assert_ok(ft_answers_find(&data, i, logits + data.first_row[i] * OUTPUTS, &rules[i], &found));
        assert_ok(ft_answers_judge(&data, i, &found, &verdicts[i]));
        ft_found_answers_free(&found);
    }
    const char *name;
    json_t *of;
    json_object_foreach((json_t *)figures, name, of) {
        const double threshold = strtod(name, NULL);
        ft_logits kept = ft_logits_in(logits, data.tokens, OUTPUTS);
        const ft_scores scores = {.scoring = &task->scoring, .n = data.examples, .outputs = OUTPUTS, .logits = logits, .kept = &kept, .answers = verdicts,
                                  .threshold = strcmp(name, "None") == 0 ? NULL : &threshold};
        ft_metrics m;
        assert_ok(ft_metrics_compute(&scores, &m));
        for (int k = 0; k < FT_METRIC_COUNT; k++) {
            const json_t *want = json_object_get(of, ft_metric_name((ft_metric)k));
            if ((want == NULL) != isnan(m.value[k])) fail_msg("line %d, %s: is there %s?", number, name, ft_metric_name((ft_metric)k));
            if (want != NULL && fabs(m.value[k] - json_number_value(want)) > 1e-5)
                fail_msg("line %d, %s: %s is %.9g, should be %.9g", number, name, ft_metric_name((ft_metric)k), m.value[k], json_number_value(want));
        }
        ft_metrics_free(&m);
    }
}

// All at once, with one set of rules: what each alone comes to; and a logit that is not finite.
static void check_all_at_once(void) {
    const ft_answer_rules own = {.n_best = 20, .max_length = 30, .none = false};
    ft_answer_verdict verdicts[MOST], alone;
    ft_logits kept = ft_logits_in(logits, data.tokens, OUTPUTS);
    assert_ok(ft_answers_judge_all(&data, &kept, &own, verdicts, NULL));
    for (int64_t i = 0; i < data.examples; i++) {
        ft_found_answers found = {.found = NULL};
        assert_ok(ft_answers_find(&data, i, logits + data.first_row[i] * OUTPUTS, &own, &found));
        assert_ok(ft_answers_judge(&data, i, &found, &alone));
        assert_true(alone.odds == verdicts[i].odds && alone.exact == verdicts[i].exact && alone.f1 == verdicts[i].f1);
        ft_found_answers_free(&found);
    }
    logits[data.tokens * OUTPUTS - 1] = NAN;
    assert_int_equal(ft_answers_judge_all(&data, &kept, &own, verdicts, NULL), FT_DIVERGED);
    ft_error_clear();
}

static void look_at_questions(const json_t *line, int number) {
    const json_t *figures = json_object_get(line, "figures");
    if (figures == NULL) {
        if (data.questions == NULL) begin_set();
        take_question(line);
        check_question(line, number);
        question_lines++;
        return;
    }
    check_figures(figures, number);
    check_all_at_once();
    ft_dataset_free(&data);
    free(logits);
}

static void test_answers(void **state) {
    each_line(FT_TEST_VECTORS "/questions/answers.jsonl", look_at_questions);
    assert_int_equal(question_lines, 240);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

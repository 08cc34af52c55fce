// question_answering.c - where in a context the answer to a question stands: what transformers calls ForQuestionAnswering, judged as SQuAD's scripts do.
#include "engine/data/labels/answers.h"
#include "engine/metrics/answers.h"
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <string.h>

// ---- outputs ------------------------------------------------------------------------------------------------------

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    static const char *const names[] = {"LABEL_0", "LABEL_1"}; // as files of transformers have them: begins, ends
    if (t->train->label == NULL) return ft_fail(FT_INVALID, t->train_path, "the file has no answers");
    const char **own = ft_arena_alloc(arena, sizeof names);
    if (own == NULL) return FT_NO_MEMORY;
    memcpy(own, names, sizeof names);
    *labels = (ft_labels){.count = 2, .names = own, .kind = FT_LABELS_ANSWERS};
    for (int64_t row = 0; row < t->train->rows; row++)
        if (*t->train->label[row] != '\0') return FT_OK;
    return ft_fail(FT_INVALID, t->train_path, "no question has an answer: there is nothing to learn");
}

// ---- figures ------------------------------------------------------------------------------------------------------

typedef struct sums {
    double exact, f1, count;
} sums;

static void add(sums *to, double exact, double f1) {
    to->exact += exact;
    to->f1 += f1;
    to->count++;
}

static ft_status measure_best(const ft_scores *s, ft_metrics *m) {
    FT_TRY(ft_answers_best_threshold(s, true, &m->value[FT_METRIC_BEST_EXACT], &m->value[FT_METRIC_BEST_EXACT_THRESHOLD]));
    return ft_answers_best_threshold(s, false, &m->value[FT_METRIC_BEST_F1], &m->value[FT_METRIC_BEST_F1_THRESHOLD]);
}

// Those of answers by whether there is one exist only where there are questions without.
static ft_status measure(const ft_scores *s, ft_metrics *m) {
    sums all = {0}, with = {0}, without = {0};
    for (int64_t i = 0; i < s->n; i++) {
        const ft_answer_verdict *v = &s->answers[ft_scores_at(s, i)];
        const bool none = s->threshold != NULL && (double)v->odds > s->threshold[0];
        const double exact = none ? (double)v->none_right : (double)v->exact, f1 = none ? (double)v->none_right : (double)v->f1;
        add(&all, exact, f1);
        add(v->answerable ? &with : &without, exact, f1);
    }
    m->value[FT_METRIC_EXACT_MATCH] = all.exact / all.count;
    m->value[FT_METRIC_ANSWER_F1] = all.f1 / all.count;
    if (without.count == 0) return FT_OK;
    m->value[FT_METRIC_NO_ANSWER_EXACT] = without.exact / without.count;
    if (with.count > 0) {
        m->value[FT_METRIC_HAS_ANSWER_EXACT] = with.exact / with.count;
        m->value[FT_METRIC_HAS_ANSWER_F1] = with.f1 / with.count;
    }
    return measure_best(s, m);
}

static int thresholds(int count) { return 1; }

// ---- predictions: span_answer.h -------------------------------------------------------------------------------------

static const char *const no_heads[] = {NULL};

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

const ft_task_spec ft_task_question_answering = {
    .id = FT_TASK_QUESTION_ANSWERING,
    .labels = FT_LABELS_ANSWERS,
    .empty_labels = true,
    .outputs = outputs,
    .scoring = {.kind = "question-answering",
                .metrics = BIT(LOSS) | BIT(EXACT_MATCH) | BIT(ANSWER_F1) | BIT(HAS_ANSWER_EXACT) | BIT(HAS_ANSWER_F1) | BIT(NO_ANSWER_EXACT) |
                           BIT(BEST_EXACT) | BIT(BEST_EXACT_THRESHOLD) | BIT(BEST_F1) | BIT(BEST_F1_THRESHOLD),
                .known = "loss, exact_match, answer_f1, and of data with questions that have no answer has_answer_exact, has_answer_f1, "
                         "no_answer_exact, best_exact, best_f1",
                .measure = measure,
                .thresholds = thresholds},
    .shown = {FT_METRIC_LOSS, FT_METRIC_EXACT_MATCH, FT_METRIC_ANSWER_F1},
    .decided_heads = no_heads};

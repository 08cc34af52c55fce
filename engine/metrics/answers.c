#include "engine/metrics/answers.h"

#include "base/arena.h"
#include "engine/data/question_set.h"
#include "engine/metrics/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUTS = 2 };

static ft_status add(ft_found_answers *a, ft_found_answer answer) {
    if (a->count == a->capacity) {
        ft_found_answer *grown = ft_realloc(a->found, (size_t)(2 * a->capacity + 64), sizeof *grown, "answers");
        if (grown == NULL) return FT_NO_MEMORY;
        a->found = grown;
        a->capacity = 2 * a->capacity + 64;
    }
    a->found[a->count++] = answer;
    return FT_OK;
}

// The n rows of a column with the largest logits, the largest first, of equal ones the last; how many these are.
static int largest(const float *rows, int64_t count, int column, int n, int32_t *out) {
    int held = 0;
    for (int64_t i = count - 1; i >= 0; i--) {
        const float x = rows[i * OUTPUTS + column];
        if (held == n && !(x > rows[(int64_t)out[held - 1] * OUTPUTS + column])) continue;
        int at = held < n ? held++ : held - 1;
        for (; at > 0 && x > rows[(int64_t)out[at - 1] * OUTPUTS + column]; at--) out[at] = out[at - 1];
        out[at] = (int32_t)i;
    }
    return held;
}

static ft_found_answer answer_of(int32_t begin, int32_t end, float first, float last) {
    return (ft_found_answer){.begin = begin, .end = end, .score = first + last, .first = first, .last = last};
}

// rows: of one window, tokens from `token` on of the data set.
static ft_status find_in_window(const ft_question_set *set, int64_t token, const float *rows, int64_t count, const ft_answer_rules *rules,
                                ft_found_answers *a) {
    int32_t *starts = a->rows, *ends = a->rows + rules->n_best;
    const int start_count = largest(rows, count, 0, rules->n_best, starts), end_count = largest(rows, count, 1, rules->n_best, ends);
    for (int i = 0; i < start_count; i++)
        for (int k = 0; k < end_count; k++) {
            const int32_t s = starts[i], e = ends[k], begin = set->begin[token + s], end = set->end[token + e];
            if (begin < 0 || set->begin[token + e] < 0 || e < s || e - s + 1 > rules->max_length || end <= begin) continue;
            FT_TRY(add(a, answer_of(begin, end, rows[s * OUTPUTS], rows[e * OUTPUTS + 1])));
        }
    return FT_OK;
}

// Best first; of equal scores as they came.
static void sort(ft_found_answers *a) {
    ft_found_answer *from = a->found, *to = a->found + a->count; // merge sort, bottom up: stable
    const int count = a->count;
    for (int width = 1; width < count; width *= 2) {
        for (int at = 0; at < count; at += 2 * width) {
            const int middle = at + width < count ? at + width : count, end = at + 2 * width < count ? at + 2 * width : count;
            for (int i = at, k = middle, n = at; n < end; n++)
                to[n] = k >= end || (i < middle && from[i].score >= from[k].score) ? from[i++] : from[k++];
        }
        ft_found_answer *swap = from;
        from = to;
        to = swap;
    }
    if (from != a->found) memcpy(a->found, from, (size_t)count * sizeof *from);
}

static ft_status make_room(ft_found_answers *a, const ft_answer_rules *rules) {
    if (a->rows_capacity >= 2 * rules->n_best) return FT_OK;
    int32_t *grown = ft_realloc(a->rows, (size_t)(2 * rules->n_best), sizeof *grown, "answers");
    if (grown == NULL) return FT_NO_MEMORY;
    a->rows = grown;
    a->rows_capacity = 2 * rules->n_best;
    return FT_OK;
}

static void set_probabilities(ft_found_answers *a) {
    double sum = 0, most = -INFINITY;
    for (int i = 0; i < a->count; i++) most = fmax(most, (double)a->found[i].score);
    for (int i = 0; i < a->count; i++) sum += a->found[i].probability = exp((double)a->found[i].score - most);
    for (int i = 0; i < a->count; i++) a->found[i].probability /= sum;
}

static bool has_none(const ft_found_answers *a) {
    for (int i = 0; i < a->count; i++)
        if (a->found[i].begin < 0) return true;
    return false;
}

ft_status ft_answers_find(const ft_dataset *data, int64_t example, const float *rows, const ft_answer_rules *rules, ft_found_answers *a) {
    const int64_t first = data->first_row[example], last = data->first_row[example + 1];
    a->count = 0;
    a->null_score = INFINITY;
    FT_TRY(make_room(a, rules));
    for (int64_t i = 0; i < (last - first) * OUTPUTS; i++)
        if (!isfinite(rows[i])) return ft_fail(FT_DIVERGED, NULL, "the logits of question %lld are not finite", (long long)example);
    // Its windows: first_read has their ends.
    int64_t low = example, high = data->sequences;
    while (data->first_read[low] != first) { // at or behind the example's number, ascending
        const int64_t middle = low + (high - low) / 2;
        if (data->first_read[middle] <= first) low = middle;
        else high = middle;
    }
    for (int64_t s = low; s < data->sequences && data->first_read[s] < last; s++) {
        const float *window = rows + (data->first_read[s] - first) * OUTPUTS, null = window[0] + window[1];
        if (null < a->null_score) a->null_score = null, a->null_first = window[0], a->null_last = window[1];
        FT_TRY(find_in_window(data->questions, data->first_read[s], window, data->first_read[s + 1] - data->first_read[s], rules, a));
    }
    const ft_found_answer none = answer_of(-1, -1, a->null_first, a->null_last);
    if (rules->none) FT_TRY(add(a, none));
    while (a->capacity < 2 * a->count + 2) { // the other half is for sorting
        const int count = a->count;
        a->count = a->capacity;
        FT_TRY(add(a, none));
        a->count = count;
    }
    sort(a);
    if (a->count > rules->n_best) a->count = rules->n_best;
    if (rules->none && !has_none(a)) FT_TRY(add(a, none));
    set_probabilities(a);
    return FT_OK;
}

void ft_found_answers_free(ft_found_answers *a) {
    free(a->found);
    free(a->rows);
    ft_squad_text_free(&a->said);
    ft_squad_text_free(&a->truth);
    *a = (ft_found_answers){.found = NULL};
}

const ft_found_answer *ft_answers_best(const ft_found_answers *a) {
    for (int i = 0; i < a->count; i++)
        if (a->found[i].begin >= 0) return &a->found[i];
    return NULL;
}

// ---- how right they are -------------------------------------------------------------------------------------------------

// Version 2's script leaves true answers out that come to nothing; where none is left, no answer is the true one.
static ft_status compare(const ft_question_set *set, int64_t example, ft_found_answers *a, ft_answer_verdict *v) {
    const bool version_2 = set->unanswerable > 0;
    const char *answer = set->text + set->answer[example];
    int compared = 0;
    for (int i = 0; i < set->answers[example]; i++, answer += strlen(answer) + 1) {
        FT_TRY(ft_squad_plain(answer, strlen(answer), &a->truth));
        if (version_2 && a->truth.length == 0) continue;
        compared++;
        v->exact = fmaxf(v->exact, ft_squad_equal(&a->said, &a->truth));
        v->f1 = fmaxf(v->f1, (float)ft_squad_f1(&a->said, &a->truth, version_2));
    }
    if (compared > 0 || !version_2) return FT_OK;
    v->none_right = 1;
    v->exact = v->f1 = a->said.words == 0;
    return FT_OK;
}

ft_status ft_answers_judge(const ft_dataset *data, int64_t example, ft_found_answers *a, ft_answer_verdict *v) {
    const ft_question_set *set = data->questions;
    const ft_found_answer *best = ft_answers_best(a);
    static const char empty[] = "empty"; // as run_qa says where it finds nothing
    *v = (ft_answer_verdict){.odds = a->null_score - (best != NULL ? best->score : 0), .answerable = set->answers[example] > 0, .said = best != NULL};
    if (best != NULL) FT_TRY(ft_squad_plain(ft_question_passage(set, example) + best->begin, (size_t)(best->end - best->begin), &a->said));
    else FT_TRY(ft_squad_plain(empty, sizeof empty - 1, &a->said));
    return compare(set, example, a, v);
}

static double loss_of(const float *rows, const int32_t *mark, int64_t count, int column) {
    double most = -INFINITY, sum = 0, chosen = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, rows[i * OUTPUTS + column]);
    for (int64_t i = count - 1; i >= 0; i--) {
        sum += exp(rows[i * OUTPUTS + column] - most);
        if (mark[i] >> column & 1) chosen = rows[i * OUTPUTS + column];
    }
    return log(sum) + most - chosen;
}

float ft_answers_loss(const ft_dataset *data, int64_t first, int64_t sequences, const float *rows) {
    double sum = 0;
    for (int64_t s = first; s < first + sequences; s++) {
        const int64_t begin = data->first_read[s], count = data->first_read[s + 1] - begin;
        const float *window = rows + (begin - data->first_read[first]) * OUTPUTS;
        for (int c = 0; c < OUTPUTS; c++) sum += loss_of(window, data->label + begin, count, c) / OUTPUTS;
    }
    return (float)(sum / (double)sequences);
}

static int64_t most_rows(const ft_dataset *data) {
    int64_t most = 0;
    for (int64_t i = 0; i < data->examples; i++)
        if (data->first_row[i + 1] - data->first_row[i] > most) most = data->first_row[i + 1] - data->first_row[i];
    return most;
}

size_t ft_answers_host_bytes(const ft_dataset *data) {
    const size_t best = (size_t)data->examples * sizeof(int32_t); // while a threshold is looked for
    const size_t rows = (size_t)most_rows(data) * OUTPUTS * sizeof(float);
    return (size_t)data->examples * sizeof(ft_answer_verdict) + (best > rows ? best : rows);
}

static ft_status judge_all(const ft_dataset *data, ft_logits *logits, const ft_answer_rules *rules, float *rows, ft_found_answers *found,
                           ft_answer_verdict *verdicts, float *losses) {
    for (int64_t i = 0, sequence = 0; i < data->examples; i++) {
        const int64_t first = data->first_row[i], last = data->first_row[i + 1], begins = sequence;
        for (int64_t row = first; row < last; row++) memcpy(rows + (row - first) * OUTPUTS, ft_logits_row(logits, row), OUTPUTS * sizeof *rows);
        FT_TRY(ft_answers_find(data, i, rows, rules, found));
        FT_TRY(ft_answers_judge(data, i, found, &verdicts[i]));
        while (sequence < data->sequences && data->first_read[sequence] < last) sequence++;
        if (losses != NULL) losses[i] = ft_answers_loss(data, begins, sequence - begins, rows);
    }
    return ft_logits_status(logits);
}

ft_status ft_answers_judge_all(const ft_dataset *data, ft_logits *logits, const ft_answer_rules *rules, ft_answer_verdict *verdicts, float *losses) {
    ft_found_answers found = {.found = NULL};
    float *rows = ft_calloc((size_t)most_rows(data) * OUTPUTS + 1, sizeof *rows, "logits of a question");
    ft_status status = rows != NULL ? judge_all(data, logits, rules, rows, &found, verdicts, losses) : FT_NO_MEMORY;
    ft_found_answers_free(&found);
    free(rows);
    return status;
}

// ---- thresholds ---------------------------------------------------------------------------------------------------------

typedef struct ordered {
    float odds;
    int32_t at; // in the order of the scores
} ordered;

static int by_odds(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    if (x->odds != y->odds) return x->odds < y->odds ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

ft_status ft_answers_best_threshold(const ft_scores *s, bool exact, double *best, double *threshold) {
    ordered *order = ft_calloc((size_t)s->n, sizeof *order, "odds of answers");
    if (order == NULL) return FT_NO_MEMORY;
    double score = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const ft_answer_verdict *v = &s->answers[ft_scores_at(s, i)];
        order[i] = (ordered){v->odds, (int32_t)i};
        score += !v->answerable; // never to answer
    }
    qsort(order, (size_t)s->n, sizeof *order, by_odds);
    *best = score;
    *threshold = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const ft_answer_verdict *v = &s->answers[ft_scores_at(s, order[i].at)];
        score += v->answerable ? (double)(exact ? v->exact : v->f1) : -1;
        if (score <= *best) continue;
        *best = score;
        *threshold = (double)v->odds;
    }
    *best /= (double)s->n;
    free(order);
    return FT_OK;
}

#include "engine/tasks/span_answer.h"

#include <stdio.h>

const char *const ft_span_answer_heads[] = {"start", "end", "score", "text", NULL};

static int64_t characters(const char *text, int64_t bytes) {
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static double odds(const ft_span_answer *a) {
    const ft_found_answer *best = ft_answers_best(a->found);
    return (double)a->found->null_score - (best != NULL ? (double)best->score : 0);
}

static const ft_found_answer *none(const ft_found_answers *a) {
    for (int i = 0; i < a->count; i++)
        if (a->found[i].begin < 0) return &a->found[i];
    return NULL;
}

const ft_found_answer *ft_span_answer_said(const ft_span_answer *a) {
    return a->threshold != NULL && odds(a) > *a->threshold ? NULL : ft_answers_best(a->found);
}

static json_t *text_of(const char *passage, const ft_found_answer *f) {
    return f != NULL && f->begin >= 0 ? json_stringn(passage + f->begin, (size_t)(f->end - f->begin)) : json_string("");
}

static void put(const char *passage, const ft_found_answer *f, double score, json_t *to, bool *failed) {
    const bool there = f != NULL && f->begin >= 0;
    ft_json_put(to, "text", text_of(passage, f), failed);
    ft_json_put(to, "start", there ? json_integer(characters(passage, f->begin)) : json_null(), failed);
    ft_json_put(to, "end", there ? json_integer(characters(passage, f->end)) : json_null(), failed);
    ft_json_put(to, "score", json_real(score), failed);
}

static double score_of(const ft_span_answer *a, const ft_found_answer *said) {
    const ft_found_answer *f = said != NULL ? said : none(a->found);
    return f != NULL ? f->probability : 0;
}

void ft_span_answer_put(const ft_span_answer *a, json_t *line, bool *failed) {
    const ft_found_answer *said = ft_span_answer_said(a);
    put(a->passage, said, score_of(a, said), line, failed);
    if (a->threshold != NULL) ft_json_put(line, "null_odds", json_real(odds(a)), failed);
    json_t *list = json_array();
    for (int i = 0; i < a->found->count; i++) {
        json_t *one = json_object();
        put(a->passage, &a->found->found[i], a->found->found[i].probability, one, failed);
        ft_json_append(list, one, failed);
    }
    ft_json_put(line, "answers", list, failed);
}

json_t *ft_span_answer_nbest(const ft_span_answer *a, bool *failed) {
    enum { DIGITS = 9 };
    json_t *list = json_array();
    for (int i = 0; i < a->found->count; i++) {
        const ft_found_answer *f = &a->found->found[i];
        json_t *one = json_object();
        ft_json_put(one, "text", text_of(a->passage, f), failed);
        ft_json_put(one, "probability", ft_json_rounded(f->probability, DIGITS), failed);
        ft_json_put(one, "start_logit", ft_json_rounded((double)f->first, DIGITS), failed);
        ft_json_put(one, "end_logit", ft_json_rounded((double)f->last, DIGITS), failed);
        ft_json_append(list, one, failed);
    }
    return list;
}

void ft_span_answer_write(const ft_span_answer *a, const char *id, ft_cell_writer *out) {
    const ft_found_answer *said = ft_span_answer_said(a);
    char number[24] = "";
    ft_write_text(out, id);
    if (said != NULL) snprintf(number, sizeof number, "%lld", (long long)characters(a->passage, said->begin));
    ft_write_text(out, number);
    if (said != NULL) snprintf(number, sizeof number, "%lld", (long long)characters(a->passage, said->end));
    ft_write_text(out, number);
    ft_write_number(out, score_of(a, said), 4);
    if (said != NULL) ft_write_cell(out, a->passage + said->begin, (size_t)(said->end - said->begin));
    else ft_write_text(out, "");
    ft_end_row(out);
}

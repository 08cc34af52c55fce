// span_answer.h - what a model says about a question, and how it is written.
#ifndef FT_SPAN_ANSWER_H
#define FT_SPAN_ANSWER_H

#include "base/json/json.h"
#include "engine/data/tables/cells.h"
#include "engine/metrics/answers.h"

typedef struct ft_span_answer {
    const ft_found_answers *found;
    const char *passage;
    const double *threshold; // of the odds of no answer; NULL: there always is one
} ft_span_answer;

// The one that is said; NULL: there is none.
const ft_found_answer *ft_span_answer_said(const ft_span_answer *answer);
// Members "text", "start", "end" (characters of the context; null where there is no answer), "score" (its probability), where there may be no
// answer "null_odds", and "answers": the n best, [{text, start, end, score}].
void ft_span_answer_put(const ft_span_answer *answer, json_t *line, bool *failed);
// The n best in the words of run_qa's nbest_predictions.json: [{text, probability, start_logit, end_logit}]. To be given back.
json_t *ft_span_answer_nbest(const ft_span_answer *answer, bool *failed);
// The same but for the n best as cells behind `id`: start, end, score, text. The heads of the columns: ft_span_answer_heads.
void ft_span_answer_write(const ft_span_answer *answer, const char *id, ft_cell_writer *out);
extern const char *const ft_span_answer_heads[]; // NULL behind the last

#endif

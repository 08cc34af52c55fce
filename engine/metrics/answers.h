// answers.h - from the logits of a question's windows to its answers, as transformers' run_qa makes them, and how right they are.
//
// Of every window the n_best rows with the largest first logits may begin an answer, and those with the largest second logits may end one, where they
// are the passage's, stand in order and are at most max_length rows apart, both counted. Its score is the sum of the two logits. No answer scores
// what row 0 has, the least of all windows.
#ifndef FT_METRIC_ANSWERS_H
#define FT_METRIC_ANSWERS_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"
#include "engine/metrics/logits.h"
#include "engine/metrics/squad_text.h"

typedef struct ft_answer_rules {
    int n_best, max_length;
    bool none; // may there be no answer?
} ft_answer_rules;

typedef struct ft_found_answer {
    int32_t begin, end; // bytes of the passage; begin -1: no answer
    float score;        // first + last
    float first, last;  // the logits of its first and its last token; of no answer those of [CLS]
    double probability; // among those that were found
} ft_found_answer;

static inline ft_answer_rules ft_answer_rules_of(const ft_config *config, bool none) {
    return (ft_answer_rules){.n_best = (int)config->eval.n_best_size, .max_length = (int)config->eval.max_answer_length, .none = none};
}

// Of one question.
typedef struct ft_found_answers {
    ft_found_answer *found; // [count], the best first; "no answer" among them where there may be none
    int count, capacity;
    float null_score, null_first, null_last;
    ft_squad_text said, truth; // scratch
    int32_t *rows;             // scratch
    int rows_capacity;
} ft_found_answers; // {0} is empty

// rows [first_row[example + 1] - first_row[example], 2]: logits of all its windows. The data set has questions.
ft_status ft_answers_find(const ft_dataset *data, int64_t example, const float *rows, const ft_answer_rules *rules, ft_found_answers *out);
void ft_found_answers_free(ft_found_answers *answers);
// The best one that is an answer; NULL: there is none.
const ft_found_answer *ft_answers_best(const ft_found_answers *answers);

// What figures need to know of one question.
typedef struct ft_answer_verdict {
    float odds;         // the score of no answer less that of the best answer (0 where there is none)
    float exact, f1;    // of the best answer, 0 to 1
    float none_right;   // of no answer: 1 where that is true
    bool answerable;    // has it an answer?
    bool said;          // is there a best answer?
} ft_answer_verdict;

ft_status ft_answers_judge(const ft_dataset *data, int64_t example, ft_found_answers *answers, ft_answer_verdict *verdict);
// The mean over its windows of the plain loss; the data set has labels.
float ft_answers_loss(const ft_dataset *data, int64_t first_sequence, int64_t sequences, const float *rows);

// Of all questions, from the logits of all rows: verdicts [examples], and losses [examples] (NULL: not wanted). FT_DIVERGED for logits that are not
// finite.
ft_status ft_answers_judge_all(const ft_dataset *data, ft_logits *logits, const ft_answer_rules *rules, ft_answer_verdict *verdicts, float *losses);
// Bytes of memory that this takes, verdicts included.
size_t ft_answers_host_bytes(const ft_dataset *data);

// ---- figures: 0 to 1, as SQuAD's scripts have them in percent

struct ft_scores;
// Where no answer is said of odds above a threshold: the threshold that is best by exact matches, or by F1, and what that comes to. As
// version 2's script: of equally good ones the least, 0 where nothing is better than never to answer.
ft_status ft_answers_best_threshold(const struct ft_scores *scores, bool exact, double *best, double *threshold);

#endif

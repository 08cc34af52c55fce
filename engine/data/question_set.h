// question_set.h - what the answers to a data set's questions are made of: where tokens stand in the passages, the passages, and true answers.
#ifndef FT_QUESTION_SET_H
#define FT_QUESTION_SET_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

// The arrays are of base/spill.h.
typedef struct ft_question_set {
    int32_t *begin, *end;                // [tokens of the data set] bytes [begin, end) of the passage; begin -1: the token is none of the passage's
    char *text;                          // passages and answers, each with a NUL behind it; the same passage of two neighbours once
    int64_t *passage, *passage_length;   // [examples] bytes of `text`
    int64_t *answer;                     // [examples] of the first one; the others follow, each behind a NUL
    int32_t *answers;                    // [examples] how many
    int64_t used;                        // of text
    int64_t text_room, token_room, example_room;
    int64_t unanswerable;                // examples without an answer
} ft_question_set;

static inline const char *ft_question_passage(const ft_question_set *set, int64_t example) { return set->text + set->passage[example]; }

ft_status ft_question_set_open(int64_t examples, ft_question_set **set);
// What the passage of the next example is, and a further answer of that (length bytes).
ft_status ft_question_set_passage(ft_question_set *set, int64_t example, const char *passage, size_t length);
ft_status ft_question_set_answer(ft_question_set *set, int64_t example, const char *answer, size_t length);
ft_status ft_question_set_tokens(ft_question_set *set, int64_t first, const int32_t *begin, const int32_t *end, size_t count);
void ft_question_set_settle(ft_question_set *set); // NULL is fine, as below
size_t ft_question_set_host_bytes(const ft_question_set *set);
void ft_question_set_free(ft_question_set *set);

#endif

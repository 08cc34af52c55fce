// questions.h - a question and the passage that answers it, as sequences: the question whole in each, and of the passage a window.
//
// As transformers' run_qa tokenises them: the question without white space in front, truncation "only_second", return_overflowing_tokens,
// stride the overlap. Of overlap -1 it is 128 tokens, or a third of max_length where that is less (so that 384 are run_qa's 128), or
// half a window.
#ifndef FT_QUESTIONS_H
#define FT_QUESTIONS_H

#include "engine/text/long_text.h"
#include "engine/text/offsets.h"

// Grown and replaced by every call; {0} is empty.
typedef struct ft_question_tokens {
    ft_token_ids ids, types;
    ft_token_ids lengths;    // of every sequence
    ft_token_ids begin, end; // of every token: bytes [begin, end) of the passage; begin -1: it is none of the passage's
    ft_token_ids question;
    ft_offsets passage;
} ft_question_tokens;

// max_length <= 0: no limit. FT_INVALID: a question that leaves nothing of max_length for the passage, or not more than the overlap.
ft_status ft_tokenizer_encode_question(const ft_tokenizer *tokenizer, const char *question, size_t question_length, const char *passage,
                                       size_t passage_length, int max_length, const ft_long_text *rule, ft_question_tokens *out);
void ft_question_tokens_free(ft_question_tokens *tokens);

#endif

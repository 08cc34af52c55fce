// text_input.h - what inputs of texts share: a tokenizer, and what becomes of long texts. For text_input.c and word_input.c.
#ifndef FT_TEXT_INPUT_H
#define FT_TEXT_INPUT_H

#include "engine/data/input.h"
#include "engine/text/long_text.h"

typedef struct ft_texts {
    ft_tokenizer *tokenizer;
    ft_long_text rule;
} ft_texts;

// As ft_input_kind has them.
ft_status ft_texts_open(const ft_input_request *request, void **own);
void ft_texts_close(void *own);
ft_input_sizes ft_texts_sizes(const void *own);
const char *ft_texts_digest(const void *own);
const char *const *ft_texts_files(const void *own);
int64_t ft_texts_length(const ft_dataset *data, int64_t sequence);
void ft_texts_fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row);

#endif

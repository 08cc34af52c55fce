// prompts.h - texts for a language model to go on with, as token ids: prompts, texts, and chats up to an assistant's
// turn.
//
// A prompt and a text are tokens as in training, without what the tokenizer puts behind every text. Of a chat the
// messages are written by the model's template, with what invites an answer behind them; is the last message an
// assistant's, it is what was answered, and no part of the prompt.
#ifndef FT_PROMPTS_H
#define FT_PROMPTS_H

#include "engine/data/conversation.h"
#include "engine/data/input.h"

typedef struct ft_prompts {
    int64_t count;
    int32_t *ids;           // of base/spill.h, as offset
    int64_t *offset;        // [count + 1]
    const char **reference; // [count] what was answered, where the file says it, in the arena; NULL: not asked for
    int32_t longest;        // tokens
    int32_t turn_end; // the special token that closes an assistant's turn in the first chat; -1: there is no chat, or
                      // it cannot be told
    ft_arena arena;
} ft_prompts; // {0} is empty

// language: an input of ft_language_input. path: the file, for messages. longest: tokens that a prompt may have.
// references: they are kept. FT_INVALID with the place of a row: no tokens, or more than that; what language_input.c
// refuses too.
ft_status ft_prompts_build(const ft_input *language, const ft_table *table, const char *path, int64_t longest,
                           bool references, ft_prompts *prompts);
void ft_prompts_free(ft_prompts *prompts);

// Of an open ft_language_input (language_input.c).
const ft_tokenizer *ft_language_tokenizer(const ft_input *language);
const ft_conversations *ft_language_conversations(const ft_input *language);

#endif

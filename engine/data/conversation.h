// conversation.h - chats as token ids, by the template of a model, and which of them an assistant says.
//
// A template that says it itself, with {% generation %}, is believed. Of others the assistant's turn begins where the
// text of the messages before it, with what invites an answer, ends; and it ends with the special token that closes it,
// which is the assistant's too: without it no model learns to stop.
#ifndef FT_CONVERSATION_H
#define FT_CONVERSATION_H

#include "engine/chat/template.h"
#include "engine/text/tokenizer.h"

typedef struct ft_conversations {
    const ft_tokenizer *tokenizer;
    ft_chat_template *chat; // NULL: the model has none
    json_t *variables;      // of the template, beside messages and tools
    char sha256[65];        // of the template and the variables
} ft_conversations;

// directory: of the model; file: a template in place of its own, NULL or "": none; variables: a JSON object, NULL or
// "": none. What is none is FT_INVALID at `file`, or at data.chat_variables.
ft_status ft_conversations_open(const char *directory, const char *file, const char *variables, const ft_tokenizer *tokenizer, ft_conversations *out);
void ft_conversations_close(ft_conversations *conversations); // {0} is fine

// Tokens [first, last) that are to be learned.
typedef struct ft_token_range {
    size_t first, last;
} ft_token_range;
typedef struct ft_learned {
    ft_token_range *ranges; // ascending, apart
    size_t count, capacity;
} ft_learned;
ft_status ft_learned_add(ft_learned *learned, size_t first, size_t last);

// A chat as it is kept between two calls: scratch. {0} is empty.
typedef struct ft_conversation {
    ft_chat_text text, other; // what the template wrote; scratch
    ft_token_ids probe;       // scratch
} ft_conversation;
void ft_conversation_free(ft_conversation *conversation);

// Replaces what was in `ids` and `learned`. messages: a list of objects with a role; tools: a list, or NULL. Turns of
// an assistant are learned from message `from` on; `all`: every token is. FT_INVALID for what is no list of messages,
// what the template refuses, and a template that does not let it be told which of its text is an assistant's.
ft_status ft_conversation_encode(const ft_conversations *c, const json_t *messages, const json_t *tools, size_t from, bool all, ft_conversation *room,
                                 ft_token_ids *ids, ft_learned *learned);
// The text alone, in room->text. invite: with what invites the assistant's answer behind it (add_generation_prompt).
ft_status ft_conversation_render(const ft_conversations *c, const json_t *messages, const json_t *tools, bool invite, ft_conversation *room);

// How many ids two lists begin with in common.
size_t ft_common_ids(const ft_token_ids *a, const ft_token_ids *b);

#endif

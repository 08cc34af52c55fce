// template.h - chat templates, as models carry them (Jinja), from messages to text: what transformers'
// apply_chat_template writes, or a refusal. README.md has what of Jinja is known.
#ifndef FT_CHAT_TEMPLATE_H
#define FT_CHAT_TEMPLATE_H

#include "base/status.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct ft_chat_template ft_chat_template;

// A template (UTF-8). where: the file, for messages, copied. FT_INVALID with the line for what is broken or not known;
// *out is then NULL.
ft_status ft_chat_template_parse(const char *source, size_t length, const char *where, ft_chat_template **out);
// That of a model directory: chat_template.jinja, else "chat_template" of tokenizer_config.json, where several have
// names the one called default. *out NULL with FT_OK: there is none.
ft_status ft_chat_template_open(const char *model_dir, ft_chat_template **out);
void ft_chat_template_free(ft_chat_template *chat); // NULL is fine

// What a template wrote, and which bytes of it {% generation %} says are the assistant's. {0} is empty; rendered into
// again and again.
typedef struct ft_chat_span {
    size_t begin, end;
} ft_chat_span;
typedef struct ft_chat_text {
    char *data; // length bytes and a NUL
    size_t length, capacity;
    ft_chat_span *spans;
    size_t span_count, span_capacity;
} ft_chat_text;
void ft_chat_text_free(ft_chat_text *text);

// Variables by name: "messages", "add_generation_prompt", "bos_token" and what else the template asks for. FT_INVALID,
// at the template's line, where the template refuses the messages (raise_exception), where Python would fail, and for
// what is not supported.
ft_status ft_chat_template_render(const ft_chat_template *chat, const json_t *variables, ft_chat_text *text);
bool ft_chat_template_has_generations(const ft_chat_template *chat);
const char *ft_chat_template_source(const ft_chat_template *chat, size_t *length); // as it was parsed

#endif

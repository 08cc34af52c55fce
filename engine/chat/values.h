// values.h - what a template computes with: JSON, and what JSON has not. Inside of engine/chat.
#ifndef FT_CHAT_VALUES_H
#define FT_CHAT_VALUES_H

#include "base/status.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ft_chat_value_kind {
    FT_CHAT_UNDEFINED, // written as nothing; its members are an error
    FT_CHAT_JSON,
    FT_CHAT_NAMESPACE, // an object whose members can be set
    FT_CHAT_LOOP,
    FT_CHAT_MACRO_VALUE,
} ft_chat_value_kind;

typedef struct ft_chat_value {
    ft_chat_value_kind kind;
    json_t *json;     // JSON, NAMESPACE: a reference of its own
    const void *that; // LOOP, MACRO_VALUE; UNDEFINED: its name, for messages
    json_t *name;     // UNDEFINED: a reference to the string that `that` lies in, where the template does not hold it
} ft_chat_value;

void ft_chat_value_free(ft_chat_value *value); // {0} is fine
// Takes `json`; FT_NO_MEMORY for NULL.
ft_status ft_chat_value_of(json_t *json, ft_chat_value *out);
ft_status ft_chat_string(const char *text, size_t length, ft_chat_value *out);
ft_chat_value ft_chat_value_copy(const ft_chat_value *value);
bool ft_chat_value_true(const ft_chat_value *value); // as Python sees it
bool ft_chat_is_string(const ft_chat_value *value);
const char *ft_chat_type_name(const ft_chat_value *value); // "a list"

// What a template may cost: its steps, and what it makes or looks through on the way, in bytes or so of memory. A run begins with none.
// ft_chat_work() false: too much. What asked may then end early with whatever it has, for the next step is refused.
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { FT_CHAT_STEP = 100, FT_CHAT_MOST_STEPS = 20000000 };
#else // libFuzzer's name for such a build: with what watches over it, all of these take a minute and more
enum { FT_CHAT_STEP = 100, FT_CHAT_MOST_STEPS = 400000 };
#endif
void ft_chat_work_begin(void);
bool ft_chat_work(size_t units);
ft_status ft_chat_work_status(void);

// A text that grows, below FT_CHAT_MOST_TEXT.
enum { FT_CHAT_MOST_TEXT = 256 << 20 };
typedef struct ft_chat_buffer {
    char *data; // free()
    size_t length, capacity;
} ft_chat_buffer;
ft_status ft_chat_put(ft_chat_buffer *out, const char *text, size_t length);
// As str() does; a list or an object, which Python would write in its own way, is FT_INVALID.
ft_status ft_chat_put_value(ft_chat_buffer *out, const ft_chat_value *value);
// As json.dumps(ensure_ascii=False) does; indent < 0: none.
ft_status ft_chat_put_json(ft_chat_buffer *out, const json_t *value, int indent);

// Is something in it that is nested deeper than this? Then freeing it would take the stack.
bool ft_chat_is_deeper(const json_t *value, int depth);
// Numbers, true and false are equal as in Python; lists and objects member by member.
bool ft_chat_json_equal(const json_t *a, const json_t *b);
// Whole numbers, true and false.
bool ft_chat_integer(const json_t *value, json_int_t *out);

// Text without the white space at its ends, or without these characters: where it begins, and *length.
const char *ft_chat_strip(const char *text, size_t *length, const char *characters, size_t characters_length, bool left, bool right);
// Of valid UTF-8.
int64_t ft_chat_characters(const char *text, size_t length);
size_t ft_chat_character_at(const char *text, size_t length, int64_t index); // its byte
bool ft_chat_is_blank(uint32_t code);                                        // str.isspace()
const char *ft_chat_find(const char *text, size_t length, const char *what,
                         size_t what_length); // NULL: it is not there

#endif

// functions.h - the operators, filters, tests and methods that templates may use. Inside of engine/chat.
#ifndef FT_CHAT_FUNCTIONS_H
#define FT_CHAT_FUNCTIONS_H

#include "engine/chat/values.h"

// Arguments of a call, some of them with a name.
typedef struct ft_chat_arguments {
    const ft_chat_value *value;
    const char *const *name; // NULL: none of them has one
    int count;
} ft_chat_arguments;

// `id`: of ft_chat_find_... (syntax.h). FT_INVALID, without a place, for what Python would refuse, and for what is not
// supported.
ft_status ft_chat_filter(int id, const ft_chat_value *input, const ft_chat_arguments *arguments, ft_chat_value *out);
ft_status ft_chat_test(int id, const ft_chat_value *input, const ft_chat_arguments *arguments, bool *out);
ft_status ft_chat_method(int id, const ft_chat_value *input, const ft_chat_arguments *arguments, ft_chat_value *out);
// a == b, a in b and so on, by the operator's text.
ft_status ft_chat_compare(const char *operator, const ft_chat_value * a, const ft_chat_value *b, bool *out);
// Where a loop stands.
typedef struct ft_chat_loop {
    const json_t *items;
    size_t index, count;
    int depth;
} ft_chat_loop;

// a.name, or (by_key) a['name']: a member that is not there is undefined.
ft_status ft_chat_member(const ft_chat_value *value, const char *name, bool by_key, ft_chat_value *out);
// a[index].
ft_status ft_chat_item(const ft_chat_value *value, const ft_chat_value *index, ft_chat_value *out);
// a[begin : end : step], of which some are there.
ft_status ft_chat_slice(const ft_chat_value *value, const json_int_t given[3], const bool there[3], ft_chat_value *out);
// a + b and so on, by the operator's text: + - * / // % ~.
ft_status ft_chat_calculate(const char *operator, const ft_chat_value * a, const ft_chat_value *b, ft_chat_value *out);
ft_status ft_chat_negate(const ft_chat_value *value, ft_chat_value *out);
// Finds the arguments that a function has, given in order or by name. FT_INVALID: there are others.
ft_status ft_chat_take(const ft_chat_arguments *arguments, const char *function, int count, const char *const *names, const ft_chat_value **out);
// The items of a list, keys of an object, characters of a string; of undefined none.
ft_status ft_chat_items(const ft_chat_value *value, json_t **list);
ft_status ft_chat_undefined(const ft_chat_value *value); // the error that it is

#endif

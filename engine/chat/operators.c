// operators.c - members and parts of values, and what operators make of two of them.
#include "engine/chat/functions.h"
#include "engine/chat/syntax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ft_chat_value value;

// ---- members -------------------------------------------------------------------------------------------------------
static ft_status loop_member(const ft_chat_loop *l, const char *name, value *out) {
    const size_t left = l->count - l->index;
    const struct {
        const char *name;
        json_int_t number;
    } NUMBERS[] = {{"index", (json_int_t)l->index + 1},
                   {"index0", (json_int_t)l->index},
                   {"revindex", (json_int_t)left},
                   {"revindex0", (json_int_t)left - 1},
                   {"length", (json_int_t)l->count},
                   {"depth", l->depth},
                   {"depth0", l->depth - 1}};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (strcmp(NUMBERS[i].name, name) == 0) return ft_chat_value_of(json_integer(NUMBERS[i].number), out);
    if (strcmp(name, "first") == 0) return ft_chat_value_of(json_boolean(l->index == 0), out);
    if (strcmp(name, "last") == 0) return ft_chat_value_of(json_boolean(left == 1), out);
    const bool previous = strcmp(name, "previtem") == 0;
    if (!previous && strcmp(name, "nextitem") != 0) return ft_fail(FT_INVALID, NULL, "loop.%.60s is not supported", name);
    json_t *item = previous ? (l->index > 0 ? json_array_get(l->items, l->index - 1) : NULL) : json_array_get(l->items, l->index + 1);
    *out = item != NULL ? (value){.kind = FT_CHAT_JSON, .json = json_incref(item)} : (value){.that = previous ? "loop.previtem" : "loop.nextitem"};
    return FT_OK;
}

// Python has methods of these names, which a.name means before a member is looked for.
static bool is_method(const value *v, const char *name) {
    static const char *const OBJECTS[] = {"items", "keys", "values", "get", "pop", "update", "copy", "clear", "setdefault", "popitem", "fromkeys"};
    for (size_t i = 0; json_is_object(v->json) && i < sizeof OBJECTS / sizeof *OBJECTS; i++)
        if (strcmp(OBJECTS[i], name) == 0) return true;
    return json_is_string(v->json) && ft_chat_find_method(name) >= 0;
}

ft_status ft_chat_member(const value *v, const char *name, bool by_key, value *out) {
    if (v->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(v);
    if (v->kind == FT_CHAT_LOOP) return loop_member(v->that, name, out);
    *out = (value){.that = name};
    if (v->kind == FT_CHAT_MACRO_VALUE) return ft_fail(FT_INVALID, NULL, "the member %.60s of a macro is not supported", name);
    json_t *found = json_object_get(v->json, name);
    if (v->kind == FT_CHAT_JSON && (!by_key || found == NULL) && is_method(v, name))
        return ft_fail(FT_INVALID, NULL, "the method %.60s as a value is not supported", name);
    if (found != NULL) *out = (value){.kind = FT_CHAT_JSON, .json = json_incref(found)};
    return FT_OK;
}

static ft_status character(const json_t *string, json_int_t index, value *out) {
    const char *text = json_string_value(string);
    const size_t length = json_string_length(string), first = ft_chat_character_at(text, length, index),
                 next = ft_chat_character_at(text, length, index + 1);
    return ft_chat_string(text + first, next - first, out);
}

ft_status ft_chat_item(const value *v, const value *index, value *out) {
    json_int_t i;
    if (v->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(v);
    if (index->kind != FT_CHAT_JSON)
        return index->kind == FT_CHAT_UNDEFINED ? ft_chat_undefined(index) : ft_fail(FT_INVALID, NULL, "%s is no index", ft_chat_type_name(index));
    if (json_is_string(index->json)) {
        FT_TRY(ft_chat_member(v, json_string_value(index->json), true, out));
        if (out->kind == FT_CHAT_UNDEFINED) out->name = json_incref(index->json);
        return FT_OK;
    }
    *out = (value){.that = "an item"};
    if (v->kind != FT_CHAT_JSON || !ft_chat_integer(index->json, &i)) return FT_OK;
    const json_int_t count =
        json_is_string(v->json) ? ft_chat_characters(json_string_value(v->json), json_string_length(v->json)) : (json_int_t)json_array_size(v->json);
    if (i < 0) i += count;
    if (i < 0 || i >= count) return FT_OK;
    if (json_is_string(v->json)) return character(v->json, i, out);
    *out = (value){.kind = FT_CHAT_JSON, .json = json_incref(json_array_get(v->json, (size_t)i))};
    return FT_OK;
}

// Of a list or a string the part [begin : end : step], as Python cuts it.
ft_status ft_chat_slice(const value *v, const json_int_t given[3], const bool there[3], value *out) {
    if (v->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(v);
    const bool text = ft_chat_is_string(v);
    if (v->kind != FT_CHAT_JSON || (!text && !json_is_array(v->json))) return ft_fail(FT_INVALID, NULL, "%s has no parts", ft_chat_type_name(v));
    json_t *items;
    FT_TRY(ft_chat_items(v, &items));
    const json_int_t count = (json_int_t)json_array_size(items), step = there[2] ? given[2] : 1, low = step > 0 ? 0 : -1,
                     high = step > 0 ? count : count - 1;
    json_int_t bound[2] = {step > 0 ? low : high, step > 0 ? high : low};
    for (int k = 0; k < 2; k++) {
        if (!there[k]) continue;
        bound[k] = given[k] < 0 ? given[k] + count : given[k];
        bound[k] = bound[k] < low ? low : bound[k] > high ? high : bound[k];
    }
    json_t *kept = json_array();
    bool failed = kept == NULL;
    for (json_int_t i = bound[0]; step != 0 && !failed && (step > 0 ? i < bound[1] : i > bound[1]) && ft_chat_work(10);) {
        failed = json_array_append(kept, json_array_get(items, (size_t)i)) != 0;
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    json_decref(items);
    if (failed || step == 0) {
        json_decref(kept);
        return failed ? ft_fail_memory(0, "a chat template's value") : ft_fail(FT_INVALID, NULL, "parts in steps of nothing");
    }
    value list = {.kind = FT_CHAT_JSON, .json = kept};
    if (!text) return *out = list, FT_OK;
    const ft_status status = ft_chat_filter(ft_chat_find_filter("join"), &list, &(ft_chat_arguments){0}, out);
    ft_chat_value_free(&list);
    return status;
}

// ---- operators -----------------------------------------------------------------------------------------------------
static ft_status concatenate(const value *a, const value *b, value *out) {
    ft_chat_buffer text = {0};
    ft_status status = ft_chat_put_value(&text, a);
    if (status == FT_OK) status = ft_chat_put_value(&text, b);
    if (status == FT_OK) status = ft_chat_string(text.data != NULL ? text.data : "", text.length, out);
    free(text.data);
    return status;
}

static ft_status whole_numbers(char operator, json_int_t x, json_int_t y, bool *done, value *out) {
    json_int_t z = 0;
    bool overflow = false;
    *done = operator!= '/';
    if (!*done) return FT_OK;
    switch (operator) {
    case '+': overflow = __builtin_add_overflow(x, y, &z); break;
    case '-': overflow = __builtin_sub_overflow(x, y, &z); break;
    case '*': overflow = __builtin_mul_overflow(x, y, &z); break;
    default: // towards minus infinity, as in Python
        if (y == 0) return ft_fail(FT_INVALID, NULL, "divided by 0");
        if (y == -1)
            overflow = operator== 'd' && __builtin_sub_overflow((json_int_t)0, x, &z);
        else if (operator== 'd')
            z = x / y - (x % y != 0 && (x < 0) != (y < 0));
        else
            z = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    }
    return overflow ? ft_fail(FT_INVALID, NULL, "a number beyond 64 bits") : ft_chat_value_of(json_integer(z), out);
}

static bool real_of(const json_t *v, double *out) {
    json_int_t whole;
    if (json_is_real(v)) return *out = json_real_value(v), true;
    if (!ft_chat_integer(v, &whole)) return false;
    *out = (double)whole;
    return true;
}

static ft_status add_lists(const json_t *a, const json_t *b, value *out) {
    if (!ft_chat_work(20 * (json_array_size(a) + json_array_size(b)))) return ft_chat_work_status();
    json_t *list = json_copy((json_t *)a);
    if (list == NULL || json_array_size(list) != json_array_size(a) || json_array_extend(list, (json_t *)b) != 0) {
        json_decref(list);
        return ft_fail_memory(0, "a chat template's value");
    }
    return ft_chat_value_of(list, out);
}

ft_status ft_chat_calculate(const char *text, const value *a, const value *b, value *out) {
    const char operator= text[1] == '/' ? 'd' : text[0]; // d: //
    if (operator== '~') return concatenate(a, b, out);
    if (a->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(a);
    if (b->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(b);
    json_int_t x, y;
    double p, q;
    bool done = false;
    if (a->kind == FT_CHAT_JSON && b->kind == FT_CHAT_JSON) {
        if (operator== '+' && json_is_string(a->json) && json_is_string(b->json)) return concatenate(a, b, out);
        if (operator== '+' && json_is_array(a->json) && json_is_array(b->json)) return add_lists(a->json, b->json, out);
        if (ft_chat_integer(a->json, &x) && ft_chat_integer(b->json, &y)) {
            FT_TRY(whole_numbers(operator, x, y, &done, out));
            if (done) return FT_OK;
        }
        if (strchr("+-*/", operator) != NULL && real_of(a->json, &p) && real_of(b->json, &q)) {
            if (operator== '/' && q == 0) return ft_fail(FT_INVALID, NULL, "divided by 0");
            const double z = operator== '+' ? p + q : operator== '-' ? p - q : operator== '*' ? p * q : p / q;
            return isfinite(z) ? ft_chat_value_of(json_real(z), out) : ft_fail(FT_INVALID, NULL, "a number that is not finite");
        }
    }
    return ft_fail(FT_INVALID, NULL, "%s %s %s is not supported", ft_chat_type_name(a), text, ft_chat_type_name(b));
}

ft_status ft_chat_negate(const value *v, value *out) {
    json_int_t whole;
    if (v->kind == FT_CHAT_JSON && json_is_real(v->json)) return ft_chat_value_of(json_real(-json_real_value(v->json)), out);
    if (v->kind != FT_CHAT_JSON || !ft_chat_integer(v->json, &whole) || whole == INT64_MIN)
        return ft_fail(FT_INVALID, NULL, "minus %s is not supported", ft_chat_type_name(v));
    return ft_chat_value_of(json_integer(-whole), out);
}

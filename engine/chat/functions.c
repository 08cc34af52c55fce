// functions.c - filters and tests by name.
#include "engine/chat/functions.h"

#include "base/utf8.h"
#include "engine/chat/syntax.h"

#include <stdlib.h>
#include <string.h>

// ---- arguments -----------------------------------------------------------------------------------------------------
ft_status ft_chat_undefined(const ft_chat_value *value) {
    return ft_fail(FT_INVALID, NULL, "\"%.80s\" is undefined", value->that != NULL ? (const char *)value->that : "?");
}

ft_status ft_chat_take(const ft_chat_arguments *a, const char *function, int count, const char *const *names, const ft_chat_value **out) {
    int place = 0;
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    for (int i = 0; i < a->count; i++) {
        const char *name = a->name != NULL ? a->name[i] : NULL;
        int at = name == NULL ? place++ : 0;
        while (name != NULL && at < count && strcmp(names[at], name) != 0)
            at++;
        if (at >= count || out[at] != NULL)
            return ft_fail(FT_INVALID, NULL, "%.60s is not supported with %s%.60s%s", function, name != NULL ? "\"" : "",
                           name != NULL ? name : "so many arguments", name != NULL ? "\"" : "");
        out[at] = &a->value[i];
    }
    return FT_OK;
}

static ft_status need_string(const ft_chat_value *value, const char *function, const char **text, size_t *length) {
    if (value == NULL || !ft_chat_is_string(value))
        return ft_fail(FT_INVALID, NULL, "%.60s takes a string, not %s", function, value != NULL ? ft_chat_type_name(value) : "nothing");
    *text = json_string_value(value->json), *length = json_string_length(value->json);
    return FT_OK;
}

ft_status ft_chat_items(const ft_chat_value *value, json_t **list) {
    const json_t *json = value->json;
    *list = NULL;
    if (value->kind == FT_CHAT_JSON && json_is_array(json)) return ft_chat_work(json_array_size(json)), *list = json_incref((json_t *)json), FT_OK;
    if (value->kind != FT_CHAT_UNDEFINED && (value->kind != FT_CHAT_JSON || (!json_is_object(json) && !json_is_string(json))))
        return ft_fail(FT_INVALID, NULL, "%s has no items", ft_chat_type_name(value));
    json_t *out = json_array();
    bool failed = out == NULL;
    if (value->kind == FT_CHAT_JSON && json_is_object(json)) {
        const char *key;
        json_t *item;
        json_object_foreach((json_t *)json, key, item) {
            if (!ft_chat_work(100 + strlen(key))) break;
            failed = failed || json_array_append_new(out, json_string_nocheck(key)) != 0;
        }
    } else if (value->kind == FT_CHAT_JSON) {
        const unsigned char *p = (const unsigned char *)json_string_value(json), *end = p + json_string_length(json);
        while (p < end && !failed && ft_chat_work(100)) {
            const char *start = (const char *)p;
            ft_utf8_next(&p);
            failed = json_array_append_new(out, json_stringn_nocheck(start, (size_t)((const char *)p - start))) != 0;
        }
    }
    if (failed) {
        json_decref(out);
        return ft_fail_memory(0, "a chat template's value");
    }
    *list = out;
    return FT_OK;
}

// ---- comparing -----------------------------------------------------------------------------------------------------
static bool number_of(const ft_chat_value *v, double *out) {
    json_int_t whole;
    if (v->kind != FT_CHAT_JSON) return false;
    if (json_is_real(v->json)) return *out = json_real_value(v->json), true;
    if (!ft_chat_integer(v->json, &whole)) return false;
    *out = (double)whole;
    return true;
}

static ft_status is_in(const ft_chat_value *a, const ft_chat_value *b, bool *out) {
    *out = false;
    if (b->kind == FT_CHAT_UNDEFINED) return FT_OK;
    if (b->kind != FT_CHAT_JSON) return ft_fail(FT_INVALID, NULL, "\"in\" %s is not supported", ft_chat_type_name(b));
    if (json_is_string(b->json)) {
        const char *text;
        size_t length;
        if (a->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(a);
        FT_TRY(need_string(a, "\"in\" a string", &text, &length));
        *out = ft_chat_find(json_string_value(b->json), json_string_length(b->json), text, length) != NULL;
        return FT_OK;
    }
    if (json_is_object(b->json)) {
        *out = ft_chat_is_string(a) && json_object_get(b->json, json_string_value(a->json)) != NULL;
        return FT_OK;
    }
    if (!json_is_array(b->json)) return ft_fail(FT_INVALID, NULL, "nothing is in %s", ft_chat_type_name(b));
    for (size_t i = 0; a->kind == FT_CHAT_JSON && !*out && i < json_array_size(b->json); i++)
        *out = ft_chat_json_equal(a->json, json_array_get(b->json, i));
    return FT_OK;
}

static ft_status is_equal(const ft_chat_value *a, const ft_chat_value *b, bool *out) {
    *out = a->kind == b->kind;
    if (!*out || a->kind == FT_CHAT_UNDEFINED) return FT_OK;
    if (a->kind != FT_CHAT_JSON) return ft_fail(FT_INVALID, NULL, "%s compared with %s is not supported", ft_chat_type_name(a), ft_chat_type_name(b));
    *out = ft_chat_json_equal(a->json, b->json);
    return FT_OK;
}

static ft_status order(const ft_chat_value *a, const ft_chat_value *b, int *out) {
    double x, y;
    json_int_t i, k;
    if (a->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(a);
    if (b->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(b);
    if (ft_chat_is_string(a) && ft_chat_is_string(b)) return *out = strcmp(json_string_value(a->json), json_string_value(b->json)), FT_OK;
    if (!number_of(a, &x) || !number_of(b, &y))
        return ft_fail(FT_INVALID, NULL, "%s is neither less nor more than %s", ft_chat_type_name(a), ft_chat_type_name(b));
    *out = (x > y) - (x < y);
    if (ft_chat_integer(a->json, &i) && ft_chat_integer(b->json, &k)) *out = (i > k) - (i < k);
    return FT_OK;
}

ft_status ft_chat_compare(const char *operator, const ft_chat_value * a, const ft_chat_value *b, bool *out) {
    int way = 0;
    if (strcmp(operator, "==") == 0 || strcmp(operator, "!=") == 0) {
        FT_TRY(is_equal(a, b, out));
        *out = *out == (operator[0] == '=');
        return FT_OK;
    }
    if (strcmp(operator, "in") == 0 || strcmp(operator, "not in") == 0) {
        FT_TRY(is_in(a, b, out));
        *out = *out == (operator[0] == 'i');
        return FT_OK;
    }
    FT_TRY(order(a, b, &way));
    *out = operator[0] == '<' ? way < 0 : way> 0;
    if (operator[1] == '=' && way == 0) *out = true;
    return FT_OK;
}

// ---- tests ---------------------------------------------------------------------------------------------------------
typedef enum test_id {
    DEFINED,
    IS_UNDEFINED,
    NONE,
    STRING,
    NUMBER,
    INTEGER,
    FLOAT,
    BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    MAPPING,
    SEQUENCE,
    ITERABLE,
    ODD,
    EVEN,
    EQUALTO,
    EQ,
    EQUALS,
    NE,
    GT,
    GE,
    LT,
    LE,
    IN,
    TEST_COUNT
} test_id;
static const char *const TESTS[TEST_COUNT] = {"defined", "undefined", "none",    "string",   "number",   "integer", "float", "boolean",
                                              "true",    "false",     "mapping", "sequence", "iterable", "odd",     "even",  "equalto",
                                              "eq",      "==",        "ne",      "gt",       "ge",       "lt",      "le",    "in"};

static int find(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}
int ft_chat_find_test(const char *name) { return find(name, TESTS, TEST_COUNT); }
const char *ft_chat_tests(void) {
    return "defined, undefined, none, string, number, integer, float, boolean, true, false, mapping, sequence, "
           "iterable, odd, even, equalto, eq, ne, gt, ge, lt, "
           "le, in";
}

ft_status ft_chat_test(int id, const ft_chat_value *v, const ft_chat_arguments *arguments, bool *out) {
    static const char *const OPERATORS[] = {"==", "==", "==", "!=", ">", ">=", "<", "<=", "in"}, *const OTHER[] = {"other"};
    const json_t *json = v->kind == FT_CHAT_JSON ? v->json : NULL;
    const ft_chat_value *other = NULL;
    json_int_t whole;
    FT_TRY(ft_chat_take(arguments, TESTS[id], id >= EQUALTO ? 1 : 0, OTHER, &other));
    if (id >= EQUALTO && other == NULL) return ft_fail(FT_INVALID, NULL, "the test \"is %s\" needs an argument", TESTS[id]);
    switch ((test_id)id) {
    case DEFINED: *out = v->kind != FT_CHAT_UNDEFINED; return FT_OK;
    case IS_UNDEFINED: *out = v->kind == FT_CHAT_UNDEFINED; return FT_OK;
    case NONE: *out = json_is_null(json); return FT_OK;
    case STRING: *out = json_is_string(json); return FT_OK;
    case NUMBER: *out = json_is_number(json) || json_is_boolean(json); return FT_OK;
    case INTEGER: *out = json_is_integer(json); return FT_OK;
    case FLOAT: *out = json_is_real(json); return FT_OK;
    case BOOLEAN: *out = json_is_boolean(json); return FT_OK;
    case IS_TRUE: *out = json_is_true(json); return FT_OK;
    case IS_FALSE: *out = json_is_false(json); return FT_OK;
    case MAPPING: *out = json_is_object(json); return FT_OK;
    case SEQUENCE:
    case ITERABLE: *out = v->kind == FT_CHAT_UNDEFINED || json_is_object(json) || json_is_array(json) || json_is_string(json); return FT_OK;
    case ODD:
    case EVEN:
        if (!ft_chat_integer(json, &whole)) return ft_fail(FT_INVALID, NULL, "%s is neither odd nor even", ft_chat_type_name(v));
        *out = (whole & 1) == (id == ODD);
        return FT_OK;
    default: return ft_chat_compare(OPERATORS[id - EQUALTO], v, other, out);
    }
}

// ---- filters -------------------------------------------------------------------------------------------------------
typedef enum filter_id {
    TRIM,
    LENGTH,
    COUNT,
    TOJSON,
    JOIN,
    ITEMS,
    UPPER,
    LOWER,
    CAPITALIZE,
    DEFAULT,
    D,
    REPLACE,
    FIRST,
    LAST,
    LIST,
    AS_STRING,
    SAFE,
    REVERSE,
    INT,
    MAP,
    SELECT,
    REJECT,
    SELECTATTR,
    REJECTATTR,
    FILTER_COUNT
} filter_id;
static const char *const FILTERS[FILTER_COUNT] = {"trim",       "length",  "count", "tojson",  "join",   "items",  "upper",      "lower",
                                                  "capitalize", "default", "d",     "replace", "first",  "last",   "list",       "string",
                                                  "safe",       "reverse", "int",   "map",     "select", "reject", "selectattr", "rejectattr"};
int ft_chat_find_filter(const char *name) { return find(name, FILTERS, FILTER_COUNT); }
const char *ft_chat_filters(void) {
    return "trim, length, count, tojson, join, items, upper, lower, capitalize, default, d, replace, first, last, "
           "list, string, safe, reverse, int, map, select, "
           "reject, selectattr, rejectattr";
}

static ft_status as_string(const ft_chat_value *v, ft_chat_value *out) {
    if (ft_chat_is_string(v)) return *out = ft_chat_value_copy(v), FT_OK;
    ft_chat_buffer text = {0};
    ft_status status = ft_chat_put_value(&text, v);
    if (status == FT_OK) status = ft_chat_string(text.data != NULL ? text.data : "", text.length, out);
    free(text.data);
    return status;
}

static ft_status length_of(const ft_chat_value *v, ft_chat_value *out) {
    json_int_t length = 0;
    if (v->kind == FT_CHAT_JSON && json_is_string(v->json))
        length = ft_chat_characters(json_string_value(v->json), json_string_length(v->json));
    else if (v->kind == FT_CHAT_JSON && json_is_array(v->json))
        length = (json_int_t)json_array_size(v->json);
    else if (v->kind == FT_CHAT_JSON && json_is_object(v->json))
        length = (json_int_t)json_object_size(v->json);
    else if (v->kind != FT_CHAT_UNDEFINED)
        return ft_fail(FT_INVALID, NULL, "%s has no length", ft_chat_type_name(v));
    return ft_chat_value_of(json_integer(length), out);
}

static ft_status to_json(const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    const ft_chat_value *given[4];
    json_int_t indent = -1;
    FT_TRY(ft_chat_take(a, "tojson", 4, NAMES, given));
    for (int i = 0; i < 4; i++) {
        if (given[i] == NULL || given[i]->kind != FT_CHAT_JSON || json_is_null(given[i]->json)) continue; // as without it
        if (i == 1 ? !ft_chat_integer(given[i]->json, &indent) || indent > 16 : ft_chat_value_true(given[i]))
            return ft_fail(FT_INVALID, NULL, "tojson is not supported with this \"%s\"", NAMES[i]);
        if (i == 1 && indent < 0) indent = 0; // lines, without blanks in front
    }
    if (v->kind != FT_CHAT_JSON)
        return v->kind == FT_CHAT_UNDEFINED ? ft_chat_undefined(v) : ft_fail(FT_INVALID, NULL, "%s is no JSON", ft_chat_type_name(v));
    ft_chat_buffer text = {0};
    ft_status status = ft_chat_put_json(&text, v->json, (int)indent);
    if (status == FT_OK) status = ft_chat_string(text.data, text.length, out);
    free(text.data);
    return status;
}

// a.b.0: the member of an item by a dotted name.
static void member_of(const json_t *item, const char *path, ft_chat_value *out) {
    char name[128];
    for (const char *at = path; item != NULL; at++) {
        const size_t n = strcspn(at, ".");
        if (n >= sizeof name)
            item = NULL;
        else {
            memcpy(name, at, n);
            name[n] = '\0';
            const bool digits = n > 0 && strspn(name, "0123456789") == n;
            item = digits ? json_array_get(item, (size_t)strtoull(name, NULL, 10)) : json_object_get(item, name);
        }
        at += n;
        if (*at == '\0') break;
    }
    *out = item != NULL ? (ft_chat_value){.kind = FT_CHAT_JSON, .json = json_incref((json_t *)item)} : (ft_chat_value){.that = path};
}

static ft_status join(const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"d", "attribute"};
    const ft_chat_value *given[2];
    const char *between = "", *attribute = NULL;
    size_t length = 0, unused;
    json_t *list;
    FT_TRY(ft_chat_take(a, "join", 2, NAMES, given));
    if (given[0] != NULL) FT_TRY(need_string(given[0], "join", &between, &length));
    if (given[1] != NULL) FT_TRY(need_string(given[1], "join", &attribute, &unused));
    FT_TRY(ft_chat_items(v, &list));
    ft_chat_buffer text = {0};
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < json_array_size(list) && ft_chat_work(20); i++) {
        ft_chat_value item = {.kind = FT_CHAT_JSON, .json = json_incref(json_array_get(list, i))}, part = {0};
        if (attribute != NULL) member_of(item.json, attribute, &part);
        if (i > 0) status = ft_chat_put(&text, between, length);
        if (status == FT_OK) status = ft_chat_put_value(&text, attribute != NULL ? &part : &item);
        ft_chat_value_free(&item);
        ft_chat_value_free(&part);
    }
    json_decref(list);
    if (status == FT_OK) status = ft_chat_string(text.data != NULL ? text.data : "", text.length, out);
    free(text.data);
    return status;
}

static ft_status first_or_last(const ft_chat_value *v, bool last, ft_chat_value *out) {
    json_t *list;
    FT_TRY(ft_chat_items(v, &list));
    const size_t count = json_array_size(list);
    *out = (ft_chat_value){.that = last ? "last" : "first"};
    if (count > 0) *out = (ft_chat_value){.kind = FT_CHAT_JSON, .json = json_incref(json_array_get(list, last ? count - 1 : 0))};
    json_decref(list);
    return FT_OK;
}

static ft_status reverse(const ft_chat_value *v, ft_chat_value *out) {
    json_t *list;
    FT_TRY(ft_chat_items(v, &list));
    const bool text = ft_chat_is_string(v);
    json_t *turned = json_array();
    bool failed = turned == NULL;
    for (size_t i = json_array_size(list); i-- > 0 && !failed && ft_chat_work(10);)
        failed = json_array_append(turned, json_array_get(list, i)) != 0;
    json_decref(list);
    if (failed) {
        json_decref(turned);
        return ft_fail_memory(0, "a chat template's value");
    }
    ft_chat_value letters = {.kind = FT_CHAT_JSON, .json = turned};
    if (!text) return *out = letters, FT_OK;
    const ft_status status = join(&letters, &(ft_chat_arguments){0}, out);
    ft_chat_value_free(&letters);
    return status;
}

static ft_status to_int(const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    json_int_t whole = 0;
    if (a->count > 0) return ft_fail(FT_INVALID, NULL, "int is not supported with arguments");
    if (v->kind != FT_CHAT_JSON) return ft_fail(FT_INVALID, NULL, "%s is no number", ft_chat_type_name(v));
    if (ft_chat_integer(v->json, &whole)) return ft_chat_value_of(json_integer(whole), out);
    const char *text = json_string_value(v->json);
    const size_t digits = text != NULL ? strspn(text, "0123456789") : 0;
    if (digits == 0 || digits > 17 || text[digits] != '\0') return ft_fail(FT_INVALID, NULL, "int is supported of whole numbers alone");
    return ft_chat_value_of(json_integer(strtoll(text, NULL, 10)), out);
}

// default(value, also_false).
static ft_status or_default(const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"default_value", "boolean"};
    const ft_chat_value *given[2];
    FT_TRY(ft_chat_take(a, "default", 2, NAMES, given));
    const bool falses = given[1] != NULL && ft_chat_value_true(given[1]);
    if (v->kind != FT_CHAT_UNDEFINED && (!falses || ft_chat_value_true(v))) return *out = ft_chat_value_copy(v), FT_OK;
    if (given[0] == NULL) return ft_chat_string("", 0, out);
    *out = ft_chat_value_copy(given[0]);
    return FT_OK;
}

// The name of a test or filter in front of its own arguments.
static ft_status named(const ft_chat_arguments *a, int at, const char *function, bool test, int *id, ft_chat_arguments *rest) {
    const char *name;
    size_t length;
    for (int i = 0; i < a->count; i++)
        if (a->name != NULL && a->name[i] != NULL) return ft_fail(FT_INVALID, NULL, "%s is not supported with \"%.60s\"", function, a->name[i]);
    FT_TRY(need_string(at < a->count ? &a->value[at] : NULL, function, &name, &length));
    *id = test ? ft_chat_find_test(name) : ft_chat_find_filter(name);
    if (*id < 0) return ft_fail(FT_INVALID, NULL, "%s of \"%.60s\" is not supported", function, name);
    *rest = (ft_chat_arguments){.value = a->value + at + 1, .count = a->count - at - 1};
    return FT_OK;
}

// select, reject: items by a test, or by whether they are true; ...attr: by a member's.
static ft_status choose(const ft_chat_value *v, const ft_chat_arguments *a, bool by_member, bool keep, ft_chat_value *out) {
    const int at = by_member;
    const char *path = NULL;
    size_t length;
    int id = -1;
    ft_chat_arguments rest = {0};
    json_t *list;
    if (by_member) FT_TRY(need_string(a->count > 0 && (a->name == NULL || a->name[0] == NULL) ? &a->value[0] : NULL, "selectattr", &path, &length));
    if (a->count > at) FT_TRY(named(a, at, by_member ? "selectattr" : "select", true, &id, &rest));
    FT_TRY(ft_chat_items(v, &list));
    json_t *kept = json_array();
    ft_status status = kept != NULL ? FT_OK : ft_fail_memory(0, "a chat template's value");
    for (size_t i = 0; status == FT_OK && i < json_array_size(list) && ft_chat_work(20); i++) {
        ft_chat_value item = {.kind = FT_CHAT_JSON, .json = json_incref(json_array_get(list, i))};
        bool yes;
        if (by_member) {
            ft_chat_value member;
            member_of(item.json, path, &member);
            ft_chat_value_free(&item);
            item = member;
        }
        yes = ft_chat_value_true(&item);
        if (id >= 0) status = ft_chat_test(id, &item, &rest, &yes);
        if (status == FT_OK && yes == keep && json_array_append(kept, json_array_get(list, i)) != 0)
            status = ft_fail_memory(0, "a chat template's value");
        ft_chat_value_free(&item);
    }
    json_decref(list);
    if (status == FT_OK) return ft_chat_value_of(kept, out);
    json_decref(kept);
    return status;
}

static ft_status map(const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    const bool by_member = a->count == 1 && a->name != NULL && a->name[0] != NULL && strcmp(a->name[0], "attribute") == 0;
    const char *path = NULL;
    size_t length;
    int id = -1;
    ft_chat_arguments rest = {0};
    json_t *list;
    if (by_member)
        FT_TRY(need_string(&a->value[0], "map", &path, &length));
    else
        FT_TRY(named(a, 0, "map", false, &id, &rest));
    FT_TRY(ft_chat_items(v, &list));
    json_t *made = json_array();
    ft_status status = made != NULL ? FT_OK : ft_fail_memory(0, "a chat template's value");
    for (size_t i = 0; status == FT_OK && i < json_array_size(list) && ft_chat_work(60); i++) {
        ft_chat_value item = {.kind = FT_CHAT_JSON, .json = json_incref(json_array_get(list, i))}, part = {0};
        if (by_member)
            member_of(item.json, path, &part);
        else
            status = ft_chat_filter(id, &item, &rest, &part);
        if (status == FT_OK && part.kind != FT_CHAT_JSON) status = ft_chat_undefined(&part);
        if (status == FT_OK && json_array_append(made, part.json) != 0) status = ft_fail_memory(0, "a chat template's value");
        ft_chat_value_free(&item);
        ft_chat_value_free(&part);
    }
    json_decref(list);
    if (status == FT_OK) return ft_chat_value_of(made, out);
    json_decref(made);
    return status;
}

// trim, upper, lower, capitalize, replace: the methods of strings, of whatever it is.
static ft_status by_method(const ft_chat_value *v, const char *method, const ft_chat_arguments *a, ft_chat_value *out) {
    ft_chat_value text;
    FT_TRY(as_string(v, &text));
    const ft_status status = ft_chat_method(ft_chat_find_method(method), &text, a, out);
    ft_chat_value_free(&text);
    return status;
}

static ft_status of_one(int id, const ft_chat_value *v, ft_chat_value *out) {
    json_t *list;
    switch ((filter_id)id) {
    case LENGTH:
    case COUNT: return length_of(v, out);
    case FIRST:
    case LAST: return first_or_last(v, id == LAST, out);
    case AS_STRING: return as_string(v, out);
    case SAFE: return *out = ft_chat_value_copy(v), FT_OK;
    case REVERSE: return reverse(v, out);
    case LIST: FT_TRY(ft_chat_items(v, &list)); return ft_chat_value_of(list, out);
    default:
        if (v->kind != FT_CHAT_UNDEFINED) return ft_chat_method(ft_chat_find_method("items"), v, &(ft_chat_arguments){0}, out);
        return ft_chat_value_of(json_array(), out);
    }
}

ft_status ft_chat_filter(int id, const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    *out = (ft_chat_value){0};
    switch ((filter_id)id) {
    case TRIM: return by_method(v, "strip", a, out);
    case UPPER:
    case LOWER:
    case CAPITALIZE:
    case REPLACE: return by_method(v, FILTERS[id], a, out);
    case TOJSON: return to_json(v, a, out);
    case JOIN: return join(v, a, out);
    case DEFAULT:
    case D: return or_default(v, a, out);
    case INT: return to_int(v, a, out);
    case MAP: return map(v, a, out);
    case SELECT:
    case REJECT: return choose(v, a, false, id == SELECT, out);
    case SELECTATTR:
    case REJECTATTR: return choose(v, a, true, id == SELECTATTR, out);
    default:
        if (a->count > 0) return ft_fail(FT_INVALID, NULL, "%s is not supported with arguments", FILTERS[id]);
        return of_one(id, v, out);
    }
}

// render.c - a template's tree, run.
#include "engine/chat/template.h"

#include "base/arena.h"
#include "engine/chat/functions.h"
#include "engine/chat/syntax.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 400, MOST_ARGUMENTS = 16, MOST_RANGE = 100000, DEEPEST_VALUE = 600 }; // which JSON of a file never is

typedef ft_chat_node node;
typedef ft_chat_value value;

typedef struct binding {
    const char *name;
    value value;
} binding;
typedef struct scope {
    struct scope *outer;
    binding *items;
    int count, capacity;
} scope;

typedef enum jump { GO_ON, BREAK, CONTINUE } jump;

typedef struct run {
    const ft_chat_template *t;
    const json_t *variables;
    scope *top, *scope;
    ft_chat_buffer *out;
    ft_chat_text *text; // the whole; its spans
    ft_chat_buffer *whole;
    int depth, loops;
    jump jump;
} run;

static ft_status eval(run *r, const node *n, value *out);
static ft_status exec(run *r, const node *n);

// ---- variables -----------------------------------------------------------------------------------------------------
static ft_status bind(scope *s, const char *name, value v) { // takes v
    ft_chat_work(4 * (size_t)s->count);
    for (int i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].name, name) != 0) continue;
        ft_chat_value_free(&s->items[i].value);
        s->items[i].value = v;
        return FT_OK;
    }
    if (s->count == s->capacity) {
        binding *items = ft_realloc(s->items, (size_t)s->capacity * 2 + 4, sizeof *items, "a chat template's variables");
        if (items == NULL) {
            ft_chat_value_free(&v);
            return FT_NO_MEMORY;
        }
        s->items = items, s->capacity = 2 * s->capacity + 4;
    }
    s->items[s->count++] = (binding){name, v};
    return FT_OK;
}

static void enter(run *r, scope *s, scope *outer) {
    *s = (scope){.outer = outer};
    r->scope = s;
}

static void clear(scope *s) {
    for (int i = 0; i < s->count; i++)
        ft_chat_value_free(&s->items[i].value);
    s->count = 0;
}

static void leave(run *r, scope *s, scope *back) {
    clear(s);
    free(s->items);
    r->scope = back;
}

static const value *find(const run *r, const char *name) {
    for (const scope *s = r->scope; s != NULL; s = s->outer) {
        ft_chat_work(2 * (size_t)s->count);
        for (int i = 0; i < s->count; i++)
            if (strcmp(s->items[i].name, name) == 0) return &s->items[i].value;
    }
    return NULL;
}

static ft_status at(const run *r, const node *n, ft_status status) {
    if (status == FT_INVALID) ft_error_where_default("%.400s: line %d of the chat template", r->t->where, n->line);
    return status;
}

static ft_status variable(run *r, const node *n, value *out) {
    static const char *const FUNCTIONS[] = {"namespace", "raise_exception", "range", "dict", "cycler", "joiner", "lipsum"};
    const value *found = find(r, n->text);
    if (found != NULL) return *out = ft_chat_value_copy(found), FT_OK;
    json_t *given = json_object_get(r->variables, n->text);
    if (given != NULL) return *out = (value){.kind = FT_CHAT_JSON, .json = json_incref(given)}, FT_OK;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (strcmp(FUNCTIONS[i], n->text) == 0) return ft_fail(FT_INVALID, NULL, "the function %s as a value is not supported", n->text);
    *out = (value){.that = n->text};
    return FT_OK;
}

// ---- calls ---------------------------------------------------------------------------------------------------------
typedef struct arguments {
    value values[MOST_ARGUMENTS];
    ft_chat_arguments list;
} arguments;

static void free_arguments(arguments *a) {
    for (int i = 0; i < a->list.count; i++)
        ft_chat_value_free(&a->values[i]);
    a->list.count = 0;
}

static ft_status eval_arguments(run *r, const node *n, arguments *a) {
    a->list = (ft_chat_arguments){.value = a->values, .name = n->name_count > 0 ? n->names : NULL};
    if (n->count > MOST_ARGUMENTS) return ft_fail(FT_INVALID, NULL, "more than %d arguments", MOST_ARGUMENTS);
    for (int i = 0; i < n->count; i++) {
        const ft_status status = eval(r, n->list[i], &a->values[i]);
        if (status != FT_OK) return free_arguments(a), status;
        a->list.count++;
    }
    return FT_OK;
}

// A value inside of another one.
static ft_status check_member(const value *v, const char *key) {
    ft_chat_work(key != NULL ? strlen(key) : 0);
    if (!ft_chat_is_deeper(v->json, DEEPEST_VALUE)) return ft_chat_work_status();
    FT_TRY(ft_chat_work_status());
    return ft_fail(FT_INVALID, NULL, "a value nested deeper than %d", DEEPEST_VALUE);
}

static ft_status make_object(const arguments *a, const char *function, ft_chat_value_kind kind, value *out) {
    json_t *object = json_object();
    if (object == NULL) return ft_fail_memory(0, "a chat template's value");
    *out = (value){.kind = kind, .json = object};
    for (int i = 0; i < a->list.count; i++) {
        const char *name = a->list.name != NULL ? a->list.name[i] : NULL;
        ft_status status = FT_OK;
        if (name == NULL || name[0] == '_')
            status = ft_fail(FT_INVALID, NULL, "%s() is supported with names alone", function);
        else if (a->values[i].kind != FT_CHAT_JSON)
            status = ft_fail(FT_INVALID, NULL, "%s(%.60s=...) of %s is not supported", function, name, ft_chat_type_name(&a->values[i]));
        else if ((status = check_member(&a->values[i], name)) == FT_OK && json_object_set_nocheck(object, name, a->values[i].json) != 0)
            status = ft_fail_memory(0, "a chat template's value");
        if (status != FT_OK) return ft_chat_value_free(out), status;
    }
    return FT_OK;
}

static ft_status make_range(const arguments *a, value *out) {
    json_int_t part[3] = {0, 0, 1};
    const int count = a->list.count;
    if (count < 1 || count > 3) return ft_fail(FT_INVALID, NULL, "range() takes one to three numbers");
    for (int i = 0; i < count; i++)
        if (a->values[i].kind != FT_CHAT_JSON || !ft_chat_integer(a->values[i].json, &part[count == 1 ? 1 : i]))
            return ft_fail(FT_INVALID, NULL, "range() takes whole numbers");
    if (part[2] == 0) return ft_fail(FT_INVALID, NULL, "range() with steps of nothing");
    json_t *list = json_array();
    bool failed = list == NULL;
    int made = 0;
    for (json_int_t i = part[0]; !failed && (part[2] > 0 ? i < part[1] : i > part[1]);) {
        if (!ft_chat_work(50)) break;
        if (++made > MOST_RANGE) {
            json_decref(list);
            return ft_fail(FT_INVALID, NULL, "range() of more than %d numbers", MOST_RANGE);
        }
        failed = json_array_append_new(list, json_integer(i)) != 0;
        if (__builtin_add_overflow(i, part[2], &i)) break;
    }
    if (!failed) return ft_chat_value_of(list, out);
    json_decref(list);
    return ft_fail_memory(0, "a chat template's value");
}

static ft_status bind_parameters(run *r, const node *macro, const arguments *a) {
    int place = 0;
    for (int i = 0; i < a->list.count; i++) {
        const char *name = a->list.name != NULL ? a->list.name[i] : NULL;
        int k = name == NULL ? place++ : 0;
        while (name != NULL && k < macro->name_count && strcmp(macro->names[k], name) != 0)
            k++;
        if (k >= macro->name_count) return ft_fail(FT_INVALID, NULL, "the macro %.60s has no such argument", macro->text);
        FT_TRY(bind(r->scope, macro->names[k], ft_chat_value_copy(&a->values[i])));
    }
    for (int k = 0; k < macro->name_count; k++) {
        bool given = false;
        for (int i = 0; i < r->scope->count; i++)
            given = given || strcmp(r->scope->items[i].name, macro->names[k]) == 0;
        if (given) continue;
        value v = {.that = macro->names[k]};
        if (macro->list2[k] != NULL) FT_TRY(eval(r, macro->list2[k], &v));
        FT_TRY(bind(r->scope, macro->names[k], v));
    }
    return FT_OK;
}

// What statements write, as a string.
static ft_status capture(run *r, const node *body, value *out) {
    ft_chat_buffer text = {0}, *before = r->out;
    r->out = &text;
    ft_status status = exec(r, body);
    r->out = before;
    if (status == FT_OK) status = ft_chat_string(text.data != NULL ? text.data : "", text.length, out);
    free(text.data);
    return status;
}

static ft_status call_macro(run *r, const node *macro, const arguments *a, value *out) {
    scope own, *before = r->scope;
    enter(r, &own, r->top);
    ft_status status = bind_parameters(r, macro, a);
    if (status == FT_OK) status = capture(r, macro->list[0], out);
    leave(r, &own, before);
    return status;
}

static ft_status call_with(run *r, const node *n, const arguments *a, value *out) {
    const char *name = n->a->text;
    const value *found = find(r, name);
    if (found != NULL && found->kind == FT_CHAT_MACRO_VALUE) return call_macro(r, found->that, a, out);
    if (found != NULL || json_object_get(r->variables, name) != NULL) return ft_fail(FT_INVALID, NULL, "%.60s is no function", name);
    if (strcmp(name, "namespace") == 0) return make_object(a, name, FT_CHAT_NAMESPACE, out);
    if (strcmp(name, "dict") == 0) return make_object(a, name, FT_CHAT_JSON, out);
    if (strcmp(name, "range") == 0) return make_range(a, out);
    if (strcmp(name, "raise_exception") == 0) {
        const bool text = a->list.count == 1 && ft_chat_is_string(&a->values[0]);
        return ft_fail(FT_INVALID, NULL, "the chat template refuses these messages: %.600s",
                       text ? json_string_value(a->values[0].json) : "(no reason)");
    }
    if (strcmp(name, "strftime_now") == 0) {
        ft_fail(FT_INVALID, NULL, "the chat template asks for today's date, with which data would be others every day");
        ft_hint("data.chat_variables = {\"date_string\": \"26 Jul 2024\"} names a date, where the template has such a "
                "variable");
        return FT_INVALID;
    }
    return ft_fail(FT_INVALID, NULL, "the function %.60s() is not supported; supported: namespace, dict, range, raise_exception and macros", name);
}

static ft_status eval_slice(run *r, const node *n, value *out) {
    json_int_t given[3] = {0};
    bool there[3] = {false};
    for (int k = 0; k < 3; k++) {
        value part = {0};
        if (n->list[k] == NULL) continue;
        FT_TRY(eval(r, n->list[k], &part));
        there[k] = part.kind != FT_CHAT_JSON || !json_is_null(part.json);
        const bool good = !there[k] || (part.kind == FT_CHAT_JSON && ft_chat_integer(part.json, &given[k]));
        ft_chat_value_free(&part);
        if (!good) return ft_fail(FT_INVALID, NULL, "a part from or to what is no whole number");
    }
    value of;
    FT_TRY(eval(r, n->a, &of));
    const ft_status status = ft_chat_slice(&of, given, there, out);
    ft_chat_value_free(&of);
    return status;
}

static ft_status eval_compare(run *r, const node *n, value *out) {
    value left, right;
    bool yes = true;
    FT_TRY(eval(r, n->a, &left));
    for (int i = 0; i < n->count && yes; i++) {
        ft_status status = eval(r, n->list[i], &right);
        if (status == FT_OK) {
            status = ft_chat_compare(n->ops[i], &left, &right, &yes);
            ft_chat_value_free(&left);
            left = right;
        }
        if (status != FT_OK) return ft_chat_value_free(&left), status;
    }
    ft_chat_value_free(&left);
    return ft_chat_value_of(json_boolean(yes), out);
}

static ft_status eval_list(run *r, const node *n, value *out) {
    const bool object = n->kind == FT_CHAT_DICT;
    json_t *made = object ? json_object() : json_array();
    ft_status status = made != NULL ? FT_OK : ft_fail_memory(0, "a chat template's value");
    for (int i = 0; i < n->count && status == FT_OK; i += 1 + object) {
        value key = {0}, v = {0};
        if (object) status = eval(r, n->list[i], &key);
        if (status == FT_OK) status = eval(r, n->list[i + object], &v);
        if (status == FT_OK && ((object && !ft_chat_is_string(&key)) || v.kind != FT_CHAT_JSON))
            status =
                ft_fail(FT_INVALID, NULL,
                        object && !ft_chat_is_string(&key) ? "an object with a key that is no string" : "%s in a list or an object is not supported",
                        ft_chat_type_name(&v));
        if (status == FT_OK) status = check_member(&v, object ? json_string_value(key.json) : NULL);
        if (status == FT_OK && (object ? json_object_set_nocheck(made, json_string_value(key.json), v.json) : json_array_append(made, v.json)) != 0)
            status = ft_fail_memory(0, "a chat template's value");
        ft_chat_value_free(&key);
        ft_chat_value_free(&v);
    }
    if (status == FT_OK) return ft_chat_value_of(made, out);
    json_decref(made);
    return status;
}

static ft_status eval_truth(run *r, const node *n, bool *yes) {
    value v;
    FT_TRY(eval(r, n, &v));
    *yes = ft_chat_value_true(&v);
    ft_chat_value_free(&v);
    return FT_OK;
}

static ft_status apply(run *r, const node *n, const arguments *a, const value *of, value *out) {
    bool yes;
    switch (n->kind) {
    case FT_CHAT_CALL: return call_with(r, n, a, out);
    case FT_CHAT_METHOD: return ft_chat_method(n->id, of, &a->list, out);
    case FT_CHAT_FILTER: return ft_chat_filter(n->id, of, &a->list, out);
    default: FT_TRY(ft_chat_test(n->id, of, &a->list, &yes)); return ft_chat_value_of(json_boolean(yes != n->flag), out);
    }
}

static ft_status eval_call(run *r, const node *n, value *out) {
    arguments a;
    value of = {0};
    if (n->kind != FT_CHAT_CALL) FT_TRY(eval(r, n->a, &of));
    ft_status status = eval_arguments(r, n, &a);
    if (status == FT_OK) {
        status = apply(r, n, &a, &of, out);
        free_arguments(&a);
    }
    ft_chat_value_free(&of);
    return status;
}

static ft_status eval_two(run *r, const node *n, value *out) {
    value a, b;
    FT_TRY(eval(r, n->a, &a));
    if (n->kind == FT_CHAT_AND || n->kind == FT_CHAT_OR) {
        if (ft_chat_value_true(&a) == (n->kind == FT_CHAT_OR)) return *out = a, FT_OK;
        ft_chat_value_free(&a);
        return eval(r, n->b, out);
    }
    ft_status status = eval(r, n->b, &b);
    if (status == FT_OK) {
        status = n->kind == FT_CHAT_ITEM ? ft_chat_item(&a, &b, out) : ft_chat_calculate(n->text, &a, &b, out);
        ft_chat_value_free(&b);
    }
    ft_chat_value_free(&a);
    return status;
}

static ft_status eval_one(run *r, const node *n, value *out) {
    value of;
    bool yes;
    ft_status status;
    switch (n->kind) {
    case FT_CHAT_CONST: return *out = (value){.kind = FT_CHAT_JSON, .json = json_incref(n->value)}, FT_OK;
    case FT_CHAT_VARIABLE: return variable(r, n, out);
    case FT_CHAT_LIST:
    case FT_CHAT_DICT: return eval_list(r, n, out);
    case FT_CHAT_SLICE: return eval_slice(r, n, out);
    case FT_CHAT_COMPARE: return eval_compare(r, n, out);
    case FT_CHAT_NOT: FT_TRY(eval_truth(r, n->a, &yes)); return ft_chat_value_of(json_boolean(!yes), out);
    case FT_CHAT_CHOICE:
        FT_TRY(eval_truth(r, n->a, &yes));
        if (yes || n->c != NULL) return eval(r, yes ? n->b : n->c, out);
        *out = (value){.that = "what an if without an else gives"};
        return FT_OK;
    case FT_CHAT_MEMBER:
    case FT_CHAT_NEGATE:
        FT_TRY(eval(r, n->a, &of));
        status = n->kind == FT_CHAT_NEGATE ? ft_chat_negate(&of, out) : ft_chat_member(&of, n->text, false, out);
        ft_chat_value_free(&of);
        return status;
    case FT_CHAT_CALL:
    case FT_CHAT_METHOD:
    case FT_CHAT_FILTER:
    case FT_CHAT_TEST: return eval_call(r, n, out);
    default: return eval_two(r, n, out);
    }
}

static ft_status count_step(run *r) {
    if (!ft_chat_work(FT_CHAT_STEP)) return ft_chat_work_status();
    return r->depth < DEEPEST ? FT_OK : ft_fail(FT_INVALID, NULL, "nested deeper than %d", DEEPEST);
}

static ft_status eval(run *r, const node *n, value *out) {
    *out = (value){0};
    r->depth++;
    ft_status status = count_step(r);
    if (status == FT_OK) status = eval_one(r, n, out);
    r->depth--;
    if (status != FT_OK) *out = (value){0};
    else if (ft_chat_is_string(out)) ft_chat_work(json_string_length(out->json) / 4); // whoever has it looks through it
    return at(r, n, status);
}

// ---- statements ----------------------------------------------------------------------------------------------------
static ft_status bind_targets(run *r, const node *n, const value *v) {
    if (n->name_count == 1) return bind(r->scope, n->names[0], ft_chat_value_copy(v));
    json_t *items;
    FT_TRY(ft_chat_items(v, &items));
    ft_status status = json_array_size(items) == (size_t)n->name_count
                           ? FT_OK
                           : ft_fail(FT_INVALID, NULL, "%zu values for %d names", json_array_size(items), n->name_count);
    for (int i = 0; i < n->name_count && status == FT_OK; i++)
        status = bind(r->scope, n->names[i], (value){.kind = FT_CHAT_JSON, .json = json_incref(json_array_get(items, (size_t)i))});
    json_decref(items);
    return status;
}

// The items that the loop's condition holds of; takes `items`.
static ft_status filtered(run *r, const node *n, json_t *items, json_t **out) {
    scope own, *before = r->scope;
    json_t *kept = json_array();
    ft_status status = kept != NULL ? FT_OK : ft_fail_memory(0, "a chat template's value");
    enter(r, &own, before);
    for (size_t i = 0; i < json_array_size(items) && status == FT_OK; i++) {
        const value v = {.kind = FT_CHAT_JSON, .json = json_array_get(items, i)};
        bool yes = false;
        status = bind_targets(r, n, &v);
        if (status == FT_OK) status = eval_truth(r, n->b, &yes);
        if (status == FT_OK && yes && json_array_append(kept, v.json) != 0) status = ft_fail_memory(0, "a chat template's value");
    }
    leave(r, &own, before);
    json_decref(items);
    if (status != FT_OK) json_decref(kept);
    *out = kept;
    return status;
}

static ft_status run_loop(run *r, const node *n, json_t *items) {
    scope own, *before = r->scope;
    ft_chat_loop l = {.items = items, .count = json_array_size(items), .depth = ++r->loops};
    ft_status status = FT_OK;
    enter(r, &own, before);
    for (; l.index < l.count && status == FT_OK; l.index++) {
        const value v = {.kind = FT_CHAT_JSON, .json = json_array_get(items, l.index)};
        clear(&own); // what the last turn has set is forgotten
        status = bind(&own, "loop", (value){.kind = FT_CHAT_LOOP, .that = &l});
        if (status == FT_OK) status = bind_targets(r, n, &v);
        if (status == FT_OK) status = exec(r, n->list[0]);
        const jump jumped = r->jump;
        r->jump = GO_ON;
        if (jumped == BREAK) break;
    }
    leave(r, &own, before);
    r->loops--;
    return status;
}

static ft_status exec_for(run *r, const node *n) {
    value over;
    json_t *items;
    FT_TRY(eval(r, n->a, &over));
    ft_status status = ft_chat_items(&over, &items);
    ft_chat_value_free(&over);
    FT_TRY(status);
    if (n->b != NULL) FT_TRY(filtered(r, n, items, &items));
    if (json_array_size(items) > 0)
        status = run_loop(r, n, items);
    else if (n->c != NULL)
        status = exec(r, n->c);
    json_decref(items);
    return status;
}

static ft_status set_member(run *r, const node *n, value *v) {
    const value *space = find(r, n->text);
    if (space == NULL || space->kind != FT_CHAT_NAMESPACE)
        return ft_fail(FT_INVALID, NULL, "%.60s is no namespace: its members cannot be set", n->text);
    if (n->names[0][0] == '_') return ft_fail(FT_INVALID, NULL, "the member %.60s of a namespace", n->names[0]);
    if (v->kind != FT_CHAT_JSON) return ft_fail(FT_INVALID, NULL, "%s in a namespace is not supported", ft_chat_type_name(v));
    return json_object_set_nocheck(space->json, n->names[0], v->json) == 0 ? FT_OK : ft_fail_memory(0, "a chat template's value");
}

static ft_status exec_set(run *r, const node *n) {
    value v = {0};
    FT_TRY(n->a != NULL ? eval(r, n->a, &v) : capture(r, n->list[0], &v));
    if (v.kind == FT_CHAT_LOOP) { // it would live longer than what it speaks of
        return ft_fail(FT_INVALID, NULL, "a loop as a variable is not supported");
    }
    const ft_status status = n->flag ? set_member(r, n, &v) : bind_targets(r, n, &v);
    ft_chat_value_free(&v);
    return status;
}

static ft_status note_span(run *r, size_t begin) {
    ft_chat_text *t = r->text;
    if (t->span_count == t->span_capacity) {
        ft_chat_span *spans = ft_realloc(t->spans, 2 * t->span_capacity + 8, sizeof *spans, "a rendered chat");
        if (spans == NULL) return FT_NO_MEMORY;
        t->spans = spans, t->span_capacity = 2 * t->span_capacity + 8;
    }
    t->spans[t->span_count++] = (ft_chat_span){begin, r->whole->length};
    return FT_OK;
}

static ft_status exec_generation(run *r, const node *n) {
    scope own, *before = r->scope;
    const size_t begin = r->whole->length;
    if (r->out != r->whole) return ft_fail(FT_INVALID, NULL, "{%% generation %%} inside of a macro or a set is not supported");
    enter(r, &own, before);
    const ft_status status = exec(r, n->list[0]);
    leave(r, &own, before);
    return status == FT_OK ? note_span(r, begin) : status;
}

static ft_status exec_output(run *r, const node *n) {
    value v;
    FT_TRY(eval(r, n->a, &v));
    const ft_status status = ft_chat_put_value(r->out, &v);
    ft_chat_value_free(&v);
    return status;
}

static ft_status exec_one(run *r, const node *n) {
    bool yes;
    switch (n->kind) {
    case FT_CHAT_DATA: return ft_chat_put(r->out, n->text, n->length);
    case FT_CHAT_OUTPUT: return exec_output(r, n);
    case FT_CHAT_BLOCK:
        for (int i = 0; i < n->count && r->jump == GO_ON; i++)
            FT_TRY(exec(r, n->list[i]));
        return FT_OK;
    case FT_CHAT_IF: FT_TRY(eval_truth(r, n->a, &yes)); return yes ? exec(r, n->b) : n->c != NULL ? exec(r, n->c) : FT_OK;
    case FT_CHAT_FOR: return exec_for(r, n);
    case FT_CHAT_SET: return exec_set(r, n);
    case FT_CHAT_MACRO: return bind(r->scope, n->text, (value){.kind = FT_CHAT_MACRO_VALUE, .that = n});
    case FT_CHAT_BREAK: return r->jump = BREAK, FT_OK;
    case FT_CHAT_CONTINUE: return r->jump = CONTINUE, FT_OK;
    default: return exec_generation(r, n);
    }
}

static ft_status exec(run *r, const node *n) {
    r->depth++;
    ft_status status = count_step(r);
    if (status == FT_OK) status = exec_one(r, n);
    r->depth--;
    return at(r, n, status);
}

ft_status ft_chat_template_render(const ft_chat_template *chat, const json_t *variables, ft_chat_text *text) {
    ft_chat_buffer out = {.data = text->data, .capacity = text->capacity};
    scope top = {0};
    run r = {.t = chat, .variables = variables, .top = &top, .scope = &top, .out = &out, .whole = &out, .text = text};
    text->span_count = 0;
    ft_chat_work_begin();
    ft_status status = exec(&r, chat->body);
    if (status == FT_OK) status = ft_chat_work_status(); // what was left half done at the very end
    leave(&r, &top, NULL);
    if (status == FT_OK) status = ft_chat_put(&out, "", 1); // its NUL
    text->data = out.data, text->capacity = out.capacity;
    text->length = status == FT_OK ? out.length - 1 : 0;
    return status;
}

void ft_chat_text_free(ft_chat_text *text) {
    free(text->data);
    free(text->spans);
    *text = (ft_chat_text){0};
}

bool ft_chat_template_has_generations(const ft_chat_template *chat) { return chat->generations; }

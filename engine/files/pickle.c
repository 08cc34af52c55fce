#include "engine/files/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 256, HIGHEST_PROTOCOL = 5 };

// By their letters in pickletools.py.
// clang-format off
enum {
    OP_MARK = '(', OP_STOP = '.', OP_POP = '0', OP_POP_MARK = '1', OP_DUP = '2', OP_NONE = 'N',
    OP_BININT = 'J', OP_BININT1 = 'K', OP_BININT2 = 'M', OP_LONG1 = 0x8a, OP_LONG4 = 0x8b, OP_BINFLOAT = 'G',
    OP_TRUE = 0x88, OP_FALSE = 0x89,
    OP_STRING = 'T', OP_SHORT_STRING = 'U', OP_UNICODE = 'X', OP_SHORT_UNICODE = 0x8c, OP_UNICODE8 = 0x8d,
    OP_EMPTY_TUPLE = ')', OP_TUPLE = 't', OP_TUPLE1 = 0x85, OP_TUPLE2 = 0x86, OP_TUPLE3 = 0x87,
    OP_EMPTY_LIST = ']', OP_LIST = 'l', OP_APPEND = 'a', OP_APPENDS = 'e',
    OP_EMPTY_DICT = '}', OP_DICT = 'd', OP_SETITEM = 's', OP_SETITEMS = 'u',
    OP_GLOBAL = 'c', OP_STACK_GLOBAL = 0x93, OP_REDUCE = 'R', OP_BUILD = 'b', OP_PERSISTENT = 'Q',
    OP_PUT = 'q', OP_LONG_PUT = 'r', OP_MEMOIZE = 0x94, OP_GET = 'h', OP_LONG_GET = 'j',
    OP_PROTOCOL = 0x80, OP_FRAME = 0x95,
};
// clang-format on

typedef struct machine {
    const unsigned char *data;
    size_t size, at, opcode; // opcode: where the present instruction stands
    const char *label;
    ft_pickle_allowed allowed;
    void *context;
    ft_arena *arena;
    ft_pickle_value **stack; // NULL: a mark
    size_t depth, room;
    ft_pickle_value **memo;
    size_t memos, memo_room;
    size_t values;
} machine;

static ft_status fail(const machine *m, const char *what) {
    char where[512];
    snprintf(where, sizeof where, "%.*s, byte %zu", (int)sizeof where - 40, m->label, m->opcode);
    return ft_fail(FT_INVALID, where, "%s", what);
}

// ---- the stack, the memo, the bytes -------------------------------------------------------------------------------

static ft_status grow(ft_pickle_value ***list, size_t *room, size_t wanted) {
    if (wanted <= *room) return FT_OK;
    size_t larger = wanted > 64 ? 2 * wanted : 128;
    ft_pickle_value **grown = ft_realloc(*list, larger, sizeof **list, "the values of a pickle");
    if (grown == NULL) return FT_NO_MEMORY;
    *list = grown;
    *room = larger;
    return FT_OK;
}

static ft_status push(machine *m, ft_pickle_value *value) {
    if (m->depth >= FT_PICKLE_MOST_VALUES) return fail(m, "the pickle keeps too many values at once");
    FT_TRY(grow(&m->stack, &m->room, m->depth + 1));
    m->stack[m->depth++] = value;
    return FT_OK;
}

static ft_status make(machine *m, ft_pickle_kind kind, ft_pickle_value **out) {
    *out = NULL;
    if (++m->values > FT_PICKLE_MOST_VALUES) return fail(m, "the pickle makes too many values for a list of tensors");
    *out = ft_arena_alloc(m->arena, sizeof **out);
    if (*out == NULL) return FT_NO_MEMORY;
    (*out)->kind = kind;
    (*out)->offset = m->opcode;
    return FT_OK;
}

static ft_status push_new(machine *m, ft_pickle_kind kind, int64_t number) {
    ft_pickle_value *value;
    FT_TRY(make(m, kind, &value));
    value->number = number;
    return push(m, value);
}

static ft_status pop(machine *m, ft_pickle_value **out) {
    *out = NULL;
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL)
        return fail(m, "the instruction needs a value, and there is none");
    *out = m->stack[--m->depth];
    return FT_OK;
}

// The values above the last mark, which goes; they stay readable until the next push.
static ft_status pop_to_mark(machine *m, ft_pickle_value ***items, size_t *count) {
    size_t at = m->depth;
    while (at > 0 && m->stack[at - 1] != NULL)
        at--;
    if (at == 0) return fail(m, "the instruction needs a mark, and there is none");
    *items = m->stack + at;
    *count = m->depth - at;
    m->depth = at - 1;
    return FT_OK;
}

static ft_status take(machine *m, size_t bytes, const unsigned char **out) {
    *out = m->data + m->at;
    if (bytes > m->size - m->at) return fail(m, "the pickle ends inside of an instruction");
    m->at += bytes;
    return FT_OK;
}

static ft_status take_number(machine *m, int bytes, uint64_t *out) {
    const unsigned char *p;
    FT_TRY(take(m, (size_t)bytes, &p));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *out = *out << 8 | p[i];
    return FT_OK;
}

static ft_status put(machine *m, uint64_t index) {
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL) return fail(m, "there is no value to remember");
    if (index >= FT_PICKLE_MOST_VALUES) return fail(m, "the pickle remembers too many values for a list of tensors");
    FT_TRY(grow(&m->memo, &m->memo_room, (size_t)index + 1));
    while (m->memos <= index)
        m->memo[m->memos++] = NULL;
    m->memo[index] = m->stack[m->depth - 1];
    return FT_OK;
}

static ft_status get(machine *m, uint64_t index) {
    if (index >= m->memos || m->memo[index] == NULL)
        return fail(m, "the pickle recalls a value that it never remembered");
    return push(m, m->memo[index]);
}

// ---- values -------------------------------------------------------------------------------------------------------

static ft_status push_text(machine *m, ft_pickle_kind kind, int length_bytes) {
    uint64_t length;
    const unsigned char *text;
    ft_pickle_value *value;
    FT_TRY(take_number(m, length_bytes, &length));
    if (length > m->size - m->at) return fail(m, "the text is longer than the pickle");
    FT_TRY(take(m, (size_t)length, &text));
    FT_TRY(make(m, kind, &value));
    value->text = (const char *)text;
    value->length = (size_t)length;
    return push(m, value);
}

static ft_status push_long(machine *m, int length_bytes) {
    FT_TRY(push_text(m, FT_PICKLE_BIG, length_bytes));
    ft_pickle_value *value = m->stack[m->depth - 1];
    if (value->length > 8) return FT_OK;
    uint64_t bits = 0;
    for (size_t i = 0; i < value->length; i++)
        bits |= (uint64_t)(unsigned char)value->text[i] << 8 * i;
    if (value->length > 0 && value->length < 8 && (unsigned char)value->text[value->length - 1] >= 0x80)
        bits |= ~(uint64_t)0 << 8 * value->length;
    value->kind = FT_PICKLE_INT;
    value->number = (int64_t)bits;
    return FT_OK;
}

static ft_status push_real(machine *m) { // the one number that stands with its most significant byte first
    const unsigned char *p;
    ft_pickle_value *value;
    FT_TRY(take(m, 8, &p));
    FT_TRY(make(m, FT_PICKLE_REAL, &value));
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    memcpy(&value->real, &bits, sizeof value->real);
    return push(m, value);
}

// Appends to a tuple, list or dictionary; its array doubles at powers of two, so the arena stays linear in the items.
static ft_status extend(machine *m, ft_pickle_value *to, ft_pickle_value *const *items, size_t count) {
    size_t room = 0;
    for (size_t n = 4; to->count > 0; n *= 2)
        if (n >= to->count) {
            room = n;
            break;
        }
    size_t needed = to->count + count;
    if (needed > room || to->items == NULL) {
        size_t larger = 4;
        while (larger < needed)
            larger *= 2;
        ft_pickle_value **grown = ft_arena_alloc(m->arena, larger * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (to->count > 0) memcpy(grown, to->items, to->count * sizeof *grown);
        to->items = grown;
    }
    if (count > 0) memcpy(to->items + to->count, items, count * sizeof *items);
    to->count = needed;
    return FT_OK;
}

// A tuple, list or dictionary of `count` values that stood on the stack at `items`.
static ft_status push_group(machine *m, ft_pickle_kind kind, ft_pickle_value *const *items, size_t count) {
    ft_pickle_value *group;
    if (kind == FT_PICKLE_DICT && count % 2 != 0) return fail(m, "a key without a value");
    FT_TRY(make(m, kind, &group));
    FT_TRY(extend(m, group, items, count));
    return push(m, group);
}

static ft_status push_tuple(machine *m, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (m->depth <= i || m->stack[m->depth - 1 - i] == NULL)
            return fail(m, "the tuple needs more values than there are");
    m->depth -= count;
    return push_group(m, FT_PICKLE_TUPLE, m->stack + m->depth, count);
}

static ft_status push_marked(machine *m, ft_pickle_kind kind) {
    ft_pickle_value **items;
    size_t count;
    FT_TRY(pop_to_mark(m, &items, &count));
    return push_group(m, kind, items, count);
}

// Adds what is above the mark, or the `single` topmost values, to the list or dictionary below.
static ft_status add_items(machine *m, ft_pickle_kind kind, size_t single) {
    ft_pickle_value **items, *pair[2];
    size_t count = single;
    if (single == 0) {
        FT_TRY(pop_to_mark(m, &items, &count));
    } else {
        for (size_t i = single; i-- > 0;)
            FT_TRY(pop(m, &pair[i]));
        items = pair;
    }
    ft_pickle_value *to = m->depth > 0 ? m->stack[m->depth - 1] : NULL;
    if (to == NULL || to->kind != kind)
        return fail(m, "the instruction adds to something that is no list or dictionary");
    if (kind == FT_PICKLE_DICT && count % 2 != 0) return fail(m, "a key without a value");
    return extend(m, to, items, count);
}

// ---- names and calls ----------------------------------------------------------------------------------------------

static ft_status push_name(machine *m, const char *module, size_t module_length, const char *name, size_t name_length) {
    ft_pickle_value *value;
    if (module_length > LONGEST_NAME || name_length > LONGEST_NAME)
        return fail(m, "the name of a function is too long");
    char *whole = ft_arena_format(m->arena, "%.*s.%.*s", (int)module_length, module, (int)name_length, name);
    if (whole == NULL) return FT_NO_MEMORY;
    if (!m->allowed(m->context, whole)) {
        char what[2 * LONGEST_NAME + 100];
        snprintf(what, sizeof what, "the pickle asks for %s, which a list of tensors does not need; nothing was run",
                 whole);
        fail(m, what);
        ft_hint("a checkpoint that holds more than tensors, or one meant to run a program: use a safetensors file of "
                "the model");
        return FT_INVALID;
    }
    FT_TRY(make(m, FT_PICKLE_NAME, &value));
    value->text = whole;
    value->length = strlen(whole);
    return push(m, value);
}

static ft_status push_global(machine *m) { // two lines
    const char *line[2];
    size_t length[2];
    for (int i = 0; i < 2; i++) {
        line[i] = (const char *)m->data + m->at;
        const char *end = memchr(line[i], '\n', m->size - m->at);
        if (end == NULL) return fail(m, "the pickle ends inside of a name");
        length[i] = (size_t)(end - line[i]);
        m->at += length[i] + 1;
    }
    return push_name(m, line[0], length[0], line[1], length[1]);
}

static ft_status push_stack_global(machine *m) {
    ft_pickle_value *module, *name;
    FT_TRY(pop(m, &name));
    FT_TRY(pop(m, &module));
    if (module->kind != FT_PICKLE_TEXT || name->kind != FT_PICKLE_TEXT)
        return fail(m, "the name of a function is no text");
    return push_name(m, module->text, module->length, name->text, name->length);
}

static ft_status reduce(machine *m) {
    ft_pickle_value *pair[2], *call;
    FT_TRY(pop(m, &pair[1]));
    FT_TRY(pop(m, &pair[0]));
    if (pair[0]->kind != FT_PICKLE_NAME || pair[1]->kind != FT_PICKLE_TUPLE)
        return fail(m, "the pickle calls something that is no function");
    // An ordered dictionary is one like any other here: they all keep their order.
    if (strcmp(pair[0]->text, "collections.OrderedDict") == 0 && pair[1]->count == 0)
        return push_new(m, FT_PICKLE_DICT, 0);
    FT_TRY(make(m, FT_PICKLE_CALL, &call));
    FT_TRY(extend(m, call, pair, 2));
    return push(m, call);
}

static ft_status persistent(machine *m) {
    ft_pickle_value *description, *outside;
    FT_TRY(pop(m, &description));
    FT_TRY(make(m, FT_PICKLE_OUTSIDE, &outside));
    FT_TRY(extend(m, outside, &description, 1));
    return push(m, outside);
}

// ---- one instruction ----------------------------------------------------------------------------------------------

static ft_status discard(machine *m, bool to_mark) {
    ft_pickle_value **items, *value;
    size_t count;
    if (to_mark) return pop_to_mark(m, &items, &count);
    if (m->depth > 0 && m->stack[m->depth - 1] == NULL) return m->depth--, FT_OK; // Python's pops marks too
    return pop(m, &value);
}

// Attributes of what is below (PyTorch hangs the version of each layer on its dictionary): not looked at.
static ft_status build(machine *m) {
    ft_pickle_value *state;
    FT_TRY(pop(m, &state));
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL) return fail(m, "attributes of nothing");
    return FT_OK;
}

static ft_status step(machine *m, unsigned char opcode) {
    uint64_t n = 0;
    const unsigned char *skipped;
    switch (opcode) {
    case OP_PROTOCOL:
        FT_TRY(take_number(m, 1, &n));
        return n <= HIGHEST_PROTOCOL ? FT_OK : fail(m, "the pickle is of a protocol later than 5");
    case OP_FRAME: return take(m, 8, &skipped);
    case OP_MARK: return push(m, NULL);
    case OP_POP: return discard(m, false);
    case OP_POP_MARK: return discard(m, true);
    case OP_DUP:
        if (m->depth == 0 || m->stack[m->depth - 1] == NULL) return fail(m, "there is no value to repeat");
        return push(m, m->stack[m->depth - 1]);
    case OP_NONE: return push_new(m, FT_PICKLE_NONE, 0);
    case OP_TRUE: return push_new(m, FT_PICKLE_BOOL, 1);
    case OP_FALSE: return push_new(m, FT_PICKLE_BOOL, 0);
    case OP_BININT: FT_TRY(take_number(m, 4, &n)); return push_new(m, FT_PICKLE_INT, (int32_t)(uint32_t)n);
    case OP_BININT1: FT_TRY(take_number(m, 1, &n)); return push_new(m, FT_PICKLE_INT, (int64_t)n);
    case OP_BININT2: FT_TRY(take_number(m, 2, &n)); return push_new(m, FT_PICKLE_INT, (int64_t)n);
    case OP_LONG1: return push_long(m, 1);
    case OP_LONG4: return push_long(m, 4);
    case OP_BINFLOAT: return push_real(m);
    case OP_SHORT_STRING:
    case OP_SHORT_UNICODE: return push_text(m, FT_PICKLE_TEXT, 1);
    case OP_STRING:
    case OP_UNICODE: return push_text(m, FT_PICKLE_TEXT, 4);
    case OP_UNICODE8: return push_text(m, FT_PICKLE_TEXT, 8);
    case OP_EMPTY_TUPLE:
    case OP_EMPTY_LIST: return push_new(m, FT_PICKLE_TUPLE, 0);
    case OP_TUPLE1: return push_tuple(m, 1);
    case OP_TUPLE2: return push_tuple(m, 2);
    case OP_TUPLE3: return push_tuple(m, 3);
    case OP_TUPLE:
    case OP_LIST: return push_marked(m, FT_PICKLE_TUPLE);
    case OP_APPEND: return add_items(m, FT_PICKLE_TUPLE, 1);
    case OP_APPENDS: return add_items(m, FT_PICKLE_TUPLE, 0);
    case OP_EMPTY_DICT: return push_new(m, FT_PICKLE_DICT, 0);
    case OP_DICT: return push_marked(m, FT_PICKLE_DICT);
    case OP_SETITEM: return add_items(m, FT_PICKLE_DICT, 2);
    case OP_SETITEMS: return add_items(m, FT_PICKLE_DICT, 0);
    case OP_GLOBAL: return push_global(m);
    case OP_STACK_GLOBAL: return push_stack_global(m);
    case OP_REDUCE: return reduce(m);
    case OP_BUILD: return build(m);
    case OP_PERSISTENT: return persistent(m);
    case OP_PUT: FT_TRY(take_number(m, 1, &n)); return put(m, n);
    case OP_LONG_PUT: FT_TRY(take_number(m, 4, &n)); return put(m, n);
    case OP_MEMOIZE: return put(m, m->memos);
    case OP_GET: FT_TRY(take_number(m, 1, &n)); return get(m, n);
    case OP_LONG_GET: FT_TRY(take_number(m, 4, &n)); return get(m, n);
    default: break;
    }
    char what[100];
    snprintf(what, sizeof what, "instruction 0x%02x is none that a list of tensors needs; nothing was run", opcode);
    return fail(m, what);
}

static ft_status run(machine *m, const ft_pickle_value **value) {
    for (;;) {
        m->opcode = m->at;
        if (m->at >= m->size) return fail(m, "the pickle ends without an end");
        unsigned char opcode = m->data[m->at++];
        if (opcode == OP_STOP) break;
        FT_TRY(step(m, opcode));
    }
    ft_pickle_value *result;
    FT_TRY(pop(m, &result));
    *value = result;
    return FT_OK;
}

ft_status ft_pickle_read(const unsigned char *data, size_t size, size_t *at, const char *label,
                         ft_pickle_allowed allowed, void *context, ft_arena *arena, const ft_pickle_value **value) {
    machine m = {
        .data = data, .size = size, .at = *at, .label = label, .allowed = allowed, .context = context, .arena = arena};
    *value = NULL;
    ft_status status = run(&m, value);
    *at = m.at;
    free(m.stack);
    free(m.memo);
    return status;
}

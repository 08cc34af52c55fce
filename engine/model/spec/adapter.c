#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/model/spec/adapter.h"

#include "base/nearest.h"

#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 512 }; // bytes of a name, and of an expression

// ---- words and names ----------------------------------------------------------------------------------------------------

typedef struct word {
    const char *text;
    size_t length;
} word;

static bool next_word(const char **at, word *w) {
    *at += strspn(*at, ", \t");
    *w = (word){*at, strcspn(*at, ",")};
    *at += w->length;
    while (w->length > 0 && strchr(" \t", w->text[w->length - 1]) != NULL) w->length--;
    return w->length > 0;
}

static bool is(word w, const char *name) { return strlen(name) == w.length && memcmp(w.text, name, w.length) == 0; }

// The whole name, or what follows a dot to its end.
static bool ends_so(const char *name, size_t length, word w) {
    if (length < w.length || memcmp(name + length - w.length, w.text, w.length) != 0) return false;
    return length == w.length || name[length - w.length - 1] == '.';
}

// Is a module around the parameter, or the module itself, called so?
static bool lies_in(const char *name, word w) {
    for (size_t end = strlen(name); end > 0; end--)
        if ((name[end] == '.' || name[end] == '\0') && ends_so(name, end, w)) return true;
    return false;
}

// ---- expressions --------------------------------------------------------------------------------------------------------

// Of the whole name, as Python's re.fullmatch has it.
static ft_status compile(const char *expression, size_t length, const char *option, pcre2_code **code) {
    int error;
    PCRE2_SIZE at;
    *code = pcre2_compile((PCRE2_SPTR)expression, length, PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &at, NULL);
    if (*code != NULL) return FT_OK;
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(error, reason, sizeof reason);
    return ft_fail(FT_INVALID, option, "%.*s is no regular expression: %s at character %zu", (int)length, expression, (const char *)reason,
                   (size_t)at + 1);
}

static bool fits(const char *expression, size_t length, const char *name) {
    pcre2_code *code;
    if (compile(expression, length, NULL, &code) != FT_OK) {
        ft_error_clear(); // it was checked
        return false;
    }
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    const bool found = match != NULL && pcre2_match(code, (PCRE2_SPTR)name, strlen(name), 0, 0, match, NULL) >= 0;
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return found;
}

static bool is_expression(const char *targets) { return strpbrk(targets, "*+?()[]{}|^$\\") != NULL; }

static bool named(const char *targets, const char *module) {
    word w;
    if (is_expression(targets)) return fits(targets, strlen(targets), module);
    for (const char *at = targets; next_word(&at, &w);)
        if (ends_so(module, strlen(module), w)) return true;
    return false;
}

// Of "KEY=VALUE, ...": the value of the first that fits the name, or its end behind a dot.
static double patterned(const char *patterns, const char *module, double otherwise) {
    word w;
    for (const char *at = patterns; next_word(&at, &w);) {
        char expression[LONGEST];
        const char *equals = memchr(w.text, '=', w.length);
        const int length = snprintf(expression, sizeof expression, "(.*\\.)?(%.*s)", (int)(equals - w.text), w.text);
        if (length < LONGEST && fits(expression, (size_t)length, module)) return strtod(equals + 1, NULL);
    }
    return otherwise;
}

// ---- what is adapted, what is trained -----------------------------------------------------------------------------------

// The first part of the head's names: "classifier" of "classifier.out_proj".
static word head_of(const ft_model_config *m) { return (word){ft_model_config_classifier(m), strcspn(ft_model_config_classifier(m), ".")}; }

// The pooler is part of the head's module, or of the model's.
static bool pooler_is_head(const ft_model_config *m) {
    const word head = head_of(m);
    if (m->family->pooler == NULL) return true;
    return strncmp(m->family->pooler, head.text, head.length) == 0 && m->family->pooler[head.length] == '.';
}
// As a module to save: without the linear layer in it.
static word pooler_of(const ft_model_config *m) {
    if (m->family->pooler == NULL) return head_of(m);
    const char *name = m->family->pooler, *dense = strstr(name, ".dense");
    const size_t prefix = strncmp(name, m->family->prefix, strlen(m->family->prefix)) == 0 ? strlen(m->family->prefix) : 0;
    return (word){name + prefix, (dense != NULL ? (size_t)(dense - name) : strlen(name)) - prefix};
}

static bool is_saved(const ft_config *o, const ft_model_config *m, const char *name) {
    word w;
    if ((!m->language_head && lies_in(name, head_of(m))) || strncmp(name, "head.hidden.", strlen("head.hidden.")) == 0) return true;
    if (m->pooler_is_drawn && lies_in(name, pooler_of(m))) return true; // with a norm behind it
    for (const char *at = o->adapter.modules_to_save; next_word(&at, &w);)
        if (lies_in(name, w)) return true;
    return false;
}

// The first number between dots.
static int64_t layer_of(const char *module) {
    for (const char *at = module; *at != '\0'; at += strcspn(at, "."), at += *at == '.')
        if (isdigit((unsigned char)*at) && strspn(at, "0123456789") == strcspn(at, ".")) return strtol(at, NULL, 10);
    return -1;
}

static bool in_layers(const ft_int_list *layers, int64_t layer) {
    for (int i = 0; i < layers->count; i++)
        if (layers->values[i] == layer) return true;
    return layers->count == 0;
}

// Queries and values: the layers that hold them, by the last part of their names.
static bool is_usual(const ft_model_config *m, const char *module) {
    const ft_layer_names *n = &m->family->names;
    const char *const names[] = {n->qkv != NULL ? n->qkv : n->query, n->qkv != NULL ? n->qkv : n->value};
    for (int i = 0; i < 2; i++) {
        const char *dot = strrchr(names[i], '.'), *last = dot != NULL ? dot + 1 : names[i];
        if (ends_so(module, strlen(module), (word){last, strlen(last)})) return true;
    }
    return false;
}

static bool is_target(const ft_config *o, const ft_model_config *m, const char *module, const char *other) {
    const char *targets = o->adapter.targets;
    if (strcmp(targets, "auto") == 0) return is_usual(m, module);
    return strcmp(targets, "all-linear") == 0 || named(targets, module) || named(targets, other);
}

ft_adapter_shape ft_adapter_of(const ft_config *o, const ft_model_config *m, const char *module) {
    char other[LONGEST]; // as transformers 5 calls it
    if (o->adapter.type == FT_ADAPTER_NONE) return (ft_adapter_shape){.rank = 0};
    ft_family_module(m->family, module, other, sizeof other);
    if (!is_target(o, m, module, other) || is_saved(o, m, module)) return (ft_adapter_shape){.rank = 0};
    if (o->adapter.exclude[0] != '\0' && (named(o->adapter.exclude, module) || named(o->adapter.exclude, other))) return (ft_adapter_shape){.rank = 0};
    if (!in_layers(&o->adapter.layers, layer_of(module))) return (ft_adapter_shape){.rank = 0};
    const double rank = patterned(o->adapter.rank_pattern, module, patterned(o->adapter.rank_pattern, other, (double)o->adapter.r));
    const double alpha = patterned(o->adapter.alpha_pattern, module, patterned(o->adapter.alpha_pattern, other, o->adapter.alpha));
    return (ft_adapter_shape){(int64_t)rank, alpha, alpha / (o->adapter.rslora ? sqrt(rank) : rank)};
}

bool ft_adapter_trains(const ft_config *o, const ft_model_config *m, const char *parameter) {
    char module[LONGEST];
    const char *dot = strrchr(parameter, '.');
    snprintf(module, sizeof module, "%.*s", (int)(dot != NULL ? dot - parameter : 0), parameter);
    const bool bias = strstr(parameter, "bias") != NULL;
    if (is_saved(o, m, module) || (bias && o->adapter.bias == FT_ADAPTER_BIAS_ALL)) return true;
    return bias && o->adapter.bias == FT_ADAPTER_BIAS_ADAPTED && ft_adapter_of(o, m, module).rank > 0;
}

int ft_adapter_saved(const ft_config *o, const ft_model_config *m, ft_arena *arena, const char *names[FT_MOST_SAVED]) {
    word w, own[2] = {head_of(m), pooler_of(m)};
    int count = 0;
    for (const char *at = o->adapter.modules_to_save; next_word(&at, &w) && count < FT_MOST_SAVED - 2;)
        names[count++] = ft_arena_strndup(arena, w.text, w.length);
    const int given = count;
    for (int i = 0; i < 2; i++) {
        bool there = i == 0 ? m->language_head : !m->pooler_is_drawn || pooler_is_head(m); // a language model's head stays as it is
        for (int k = 0; k < given && !there; k++) there = names[k] != NULL && is(own[i], names[k]);
        if (!there) names[count++] = ft_arena_strndup(arena, own[i].text, own[i].length);
    }
    return count;
}

// ---- what cannot be -----------------------------------------------------------------------------------------------------

static ft_status check_patterns(const char *patterns, const char *option, double least, double most) {
    word w;
    for (const char *at = patterns; next_word(&at, &w);) {
        const char *equals = memchr(w.text, '=', w.length);
        char *end = NULL;
        const double value = equals != NULL ? strtod(equals + 1, &end) : 0;
        pcre2_code *code;
        if (equals == NULL || equals == w.text || end != w.text + w.length || !(value >= least && value <= most))
            return ft_fail(FT_INVALID, option, "%.*s is not NAME=NUMBER, a number from %g to %g", (int)w.length, w.text, least, most);
        if (equals - w.text > LONGEST - 16) return ft_fail(FT_INVALID, option, "%.*s... is too long", 40, w.text);
        FT_TRY(compile(w.text, (size_t)(equals - w.text), option, &code));
        pcre2_code_free(code);
    }
    return FT_OK;
}

static ft_status check_expression(const char *targets, const char *option) {
    pcre2_code *code;
    if (!is_expression(targets)) return FT_OK;
    FT_TRY(compile(targets, strlen(targets), option, &code));
    pcre2_code_free(code);
    return FT_OK;
}

ft_status ft_adapter_check(const ft_config *o) {
    if (o->adapter.type == FT_ADAPTER_NONE && strcmp(o->train.parameters, "adapter") == 0)
        return ft_fail(FT_INVALID, "train.parameters", "there is no adapter: adapter.type = lora makes some");
    if (o->adapter.type == FT_ADAPTER_NONE) return FT_OK;
    if (o->model.freeze != FT_FREEZE_NONE || o->model.freeze_layers > 0) {
        ft_fail(FT_INVALID, o->model.freeze != FT_FREEZE_NONE ? "model.freeze" : "model.freeze_layers", "the model is frozen where there are adapters");
        ft_hint("adapter.layers says which layers have one");
        return FT_INVALID;
    }
    if (strcmp(o->train.parameters, "auto") != 0 && strcmp(o->train.parameters, "adapter") != 0) {
        ft_fail(FT_INVALID, "train.parameters", "with an adapter it is auto or adapter, got %s", o->train.parameters);
        ft_hint("adapter.modules_to_save names what of the model is trained beside the adapters, adapter.bias its biases");
        return FT_INVALID;
    }
    FT_TRY(check_expression(o->adapter.targets, "adapter.targets"));
    FT_TRY(check_expression(o->adapter.exclude, "adapter.exclude"));
    FT_TRY(check_patterns(o->adapter.rank_pattern, "adapter.rank_pattern", 1, 65536));
    FT_TRY(check_patterns(o->adapter.alpha_pattern, "adapter.alpha_pattern", 1e-6, 1e6));
    if (is_expression(o->adapter.modules_to_save))
        return ft_fail(FT_INVALID, "adapter.modules_to_save", "names, or the ends of names behind a dot, got %s", o->adapter.modules_to_save);
    word w;
    int count = 0;
    for (const char *at = o->adapter.modules_to_save; next_word(&at, &w);) count++;
    return count <= FT_MOST_SAVED - 2 ? FT_OK : ft_fail(FT_INVALID, "adapter.modules_to_save", "more than %d names", FT_MOST_SAVED - 2);
}

// The last parts of names that are as near as can be.
static void hint_at(word wanted, int count, const char *const *modules) {
    char text[LONGEST], seen[400] = "";
    snprintf(text, sizeof text, "%.*s", (int)wanted.length, wanted.text);
    const char *near = NULL;
    int bound = ft_nearest_bound(text);
    for (int i = 0; i < count; i++)
        for (const char *end = modules[i]; end != NULL; end = strchr(end, '.') != NULL ? strchr(end, '.') + 1 : NULL) {
            const int distance = ft_nearer(text, end, strlen(end), bound);
            if (distance < bound) bound = distance, near = end;
        }
    if (near != NULL) ft_hint("did you mean %s?", near);
    for (int i = 0; i < count; i++) {
        const char *last = strrchr(modules[i], '.') != NULL ? strrchr(modules[i], '.') + 1 : modules[i];
        char item[LONGEST];
        snprintf(item, sizeof item, "%s%s", seen[0] != '\0' ? ", " : "", last);
        if (strlen(seen) + strlen(item) < sizeof seen && strstr(seen, last) == NULL) strcat(seen, item);
    }
    ft_hint("linear layers of this model are called %s", seen);
}

static bool is_called(const ft_model_config *m, const char *module, word w) {
    char other[LONGEST];
    ft_family_module(m->family, module, other, sizeof other);
    return ends_so(module, strlen(module), w) || ends_so(other, strlen(other), w);
}

static ft_status check_words(const ft_model_config *m, const char *words, const char *option, int count, const char *const *modules) {
    word w;
    for (const char *at = words; next_word(&at, &w);) {
        bool found = false;
        for (int i = 0; i < count && !found; i++) found = is_called(m, modules[i], w);
        if (found) continue;
        ft_fail(FT_INVALID, option, "no linear layer of this model is called %.*s", (int)w.length, w.text);
        hint_at(w, count, modules);
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_adapter_check_targets(const ft_config *o, const ft_model_config *m, int count, const char *const *modules) {
    const char *targets = o->adapter.targets;
    int adapted = 0;
    if (o->adapter.type == FT_ADAPTER_NONE) return FT_OK;
    const bool words = strcmp(targets, "auto") != 0 && strcmp(targets, "all-linear") != 0 && !is_expression(targets);
    if (words) FT_TRY(check_words(m, targets, "adapter.targets", count, modules));
    if (o->adapter.exclude[0] != '\0' && !is_expression(o->adapter.exclude)) FT_TRY(check_words(m, o->adapter.exclude, "adapter.exclude", count, modules));
    for (int i = 0; i < o->adapter.layers.count; i++)
        if (o->adapter.layers.values[i] >= m->num_hidden_layers)
            return ft_fail(FT_INVALID, "adapter.layers", "there is no layer %lld, the model has %lld", (long long)o->adapter.layers.values[i],
                           (long long)m->num_hidden_layers);
    for (int i = 0; i < count; i++) adapted += ft_adapter_of(o, m, modules[i]).rank > 0;
    if (adapted > 0) return FT_OK;
    ft_fail(FT_INVALID, "adapter.targets", "%s is no linear layer of this model", targets);
    hint_at((word){targets, strlen(targets)}, count, modules);
    return FT_INVALID;
}

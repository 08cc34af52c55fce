#include "engine/model/spec/trained.h"

#include "base/nearest.h"

#include <fnmatch.h>
#include <string.h>

enum { LONGEST = 256 }; // bytes of a name, and of a pattern

// The next word of a list; false: there is none.
static bool next_word(const char **at, const char **word, size_t *length) {
    *at += strspn(*at, ", \t");
    *word = *at;
    *length = strcspn(*at, ",");
    *at += *length;
    while (*length > 0 && strchr(" \t", (*word)[*length - 1]) != NULL) --*length;
    return *length > 0;
}

static bool is(const char *word, size_t length, const char *name) { return strlen(name) == length && strncmp(word, name, length) == 0; }

bool ft_name_matches(const char *pattern, size_t length, const char *name) {
    char wanted[LONGEST], part[LONGEST];
    const size_t all = strlen(name);
    if (length >= sizeof wanted || all >= sizeof part) return false;
    memcpy(wanted, pattern, length);
    wanted[length] = '\0';
    for (size_t from = 0; from < all; from += strcspn(name + from, ".") + 1)
        for (size_t to = from; to <= all; to++) {
            if (name[to] != '.' && name[to] != '\0') continue;
            memcpy(part, name + from, to - from);
            part[to - from] = '\0';
            if (fnmatch(wanted, part, 0) == 0) return true;
        }
    return false;
}

static bool ends_in(const char *name, const char *end) {
    const size_t all = strlen(name), length = strlen(end);
    return all >= length && strcmp(name + all - length, end) == 0;
}

bool ft_trained_by_name(const ft_config *o, const char *name) {
    const char *at = o->train.parameters, *word;
    for (size_t length; next_word(&at, &word, &length);) {
        if (is(word, length, "auto") || is(word, length, "all")) return true;
        if (is(word, length, "classifier")) continue;
        if (is(word, length, "biases") ? ends_in(name, ".bias") || ends_in(name, "_bias") : ft_name_matches(word, length, name)) return true;
    }
    return false;
}

bool ft_trained_is_probe(const ft_config *o) {
    const char *at = o->train.parameters, *word;
    size_t length;
    return next_word(&at, &word, &length) && is(word, length, "classifier") && !next_word(&at, &word, &length);
}

// The part of any name that is nearest to the word.
static void hint_at(const char *wanted, int count, const char *(*name_at)(const void *context, int index), const void *context) {
    const char *near = NULL;
    size_t near_length = 0;
    int bound = ft_nearest_bound(wanted);
    for (int i = 0; i < count; i++) {
        const char *name = name_at(context, i);
        for (size_t length; *name != '\0'; name += length + (name[length] == '.')) {
            length = strcspn(name, ".");
            const int distance = ft_nearer(wanted, name, length, bound);
            if (distance < bound) bound = distance, near = name, near_length = length;
        }
    }
    if (near != NULL) ft_hint("did you mean %.*s?", (int)near_length, near);
    ft_hint("names are those of the model's file, as %s; parts of them, with * and ?, are patterns", name_at(context, count / 2));
}

ft_status ft_trained_check(const ft_config *o, int count, const char *(*name_at)(const void *context, int index), const void *context) {
    static const char *const words[] = {"auto", "all", "classifier", "biases", "adapter"};
    enum { WORDS = sizeof words / sizeof words[0], ALONE = 2 };
    const char *at = o->train.parameters, *word;
    int given = 0, alone = 0;
    for (size_t length; next_word(&at, &word, &length); given++) {
        bool known = false;
        for (int k = 0; k < WORDS; k++) known |= is(word, length, words[k]);
        for (int k = 0; k < ALONE; k++) alone += is(word, length, words[k]);
        for (int i = 0; i < count && !known; i++) known = ft_name_matches(word, length, name_at(context, i));
        if (known) continue;
        char wanted[LONGEST];
        snprintf(wanted, sizeof wanted, "%.*s", (int)length, word);
        ft_fail(FT_INVALID, "train.parameters", "no parameter of this model is called %s", wanted);
        hint_at(wanted, count, name_at, context);
        return FT_INVALID;
    }
    if (given == 0) return ft_fail(FT_INVALID, "train.parameters", "nothing is named: classifier trains the head alone");
    if (alone > 0 && given > 1) return ft_fail(FT_INVALID, "train.parameters", "all and auto stand alone, got %s", o->train.parameters);
    return FT_OK;
}

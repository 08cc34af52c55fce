// nearest.c - what a misspelt word may have meant, and what an unknown option is called here.
#include "engine/config/options.h"

#include <ctype.h>
#include <string.h>

#define LONGEST_WORD 64

static int lower(char c) { return tolower((unsigned char)c); }

// Insertions, deletions, replacements and swaps of two neighbours between a and b, upper and lower case being the same.
static int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    int rows[3][LONGEST_WORD + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            int least = last[j - 1] + !same;
            if (last[j] + 1 < least) least = last[j] + 1;
            if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped && before[j - 2] + 1 < least) least = before[j - 2] + 1;
            now[j] = least;
        }
        int *oldest = before;
        before = last, last = now, now = oldest;
    }
    return last[b_length];
}

// The distance of `name` (so many bytes of it) from `word` when it is below `bound`, else `bound`.
static int closer(const char *word, const char *name, size_t length, int bound) {
    size_t word_length = strlen(word);
    if (word_length > LONGEST_WORD || length > LONGEST_WORD) return bound;
    size_t apart = word_length > length ? word_length - length : length - word_length;
    if (apart >= (size_t)bound) return bound; // as many letters to insert or delete at least
    int distance = edit_distance(word, word_length, name, length);
    return distance < bound ? distance : bound;
}

static int first_bound(const char *word) { return (int)(strlen(word) / 3) + 1; }

const char *ft_nearest(const char *word, int count, const char *const *names) {
    int bound = first_bound(word);
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        int distance = closer(word, names[i], strlen(names[i]), bound);
        if (distance < bound) bound = distance, found = names[i];
    }
    return found;
}

static const char *behind_dots(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot == NULL ? name : dot + 1;
}

// The option that `name` means when it is a name known elsewhere, or as a whole, or the last part of it; `bound` 1 asks
// for the very word. Returns the distance.
static int search(const char *name, int bound, const ft_option **found) {
    for (int i = 0; i < ft_options_count; i++) {
        const ft_option *option = &ft_options[i];
        const char *own[] = {option->name, ft_option_key(option), behind_dots(option->name)};
        for (int k = 0; k < 3; k++) {
            int distance = closer(name, own[k], strlen(own[k]), bound);
            if (distance < bound) bound = distance, *found = option;
        }
        for (const char *at = option->elsewhere; at != NULL && *at != '\0';) {
            size_t length = strcspn(at, " ");
            int distance = closer(name, at, length, bound);
            if (distance < bound) bound = distance, *found = option;
            at += length + strspn(at + length, " ");
        }
    }
    return bound;
}

static const ft_option *nearest_in_section(const char *section, const char *key) {
    const ft_option *found = NULL;
    int bound = first_bound(key);
    for (int i = 0; i < ft_options_count; i++) {
        const char *own = ft_option_key(&ft_options[i]);
        size_t length = (size_t)(own - ft_options[i].name) - 1;
        if (strlen(section) != length || memcmp(section, ft_options[i].name, length) != 0) continue;
        int distance = closer(key, own, strlen(own), bound);
        if (distance < bound) bound = distance, found = &ft_options[i];
    }
    return found;
}

ft_status ft_option_unknown(const char *section, const char *key, const char *where) {
    char full[2 * LONGEST_WORD + 2];
    snprintf(full, sizeof full, "%s%s%.*s", section, section[0] == '\0' ? "" : ".", LONGEST_WORD, key);
    size_t length = strcspn(section, ".");
    bool known = section[0] == '\0' || ft_section_find(section, length) != NULL;
    if (known)
        ft_fail(FT_INVALID, where, "unknown option %s", full);
    else
        ft_fail(FT_INVALID, where, "unknown section [%.*s]", LONGEST_WORD, section);

    const ft_option *option = NULL;
    if (search(full, 1, &option) == 0) {
        ft_hint("called %s here", option->name);
        return FT_INVALID;
    }
    if (!known) { // a misspelt section says more than its key, which other sections may have as well
        const char *names[FT_OPTION_LIMIT];
        for (int i = 0; i < ft_sections_count; i++)
            names[i] = ft_sections[i].name;
        const char *near = ft_nearest(section, ft_sections_count, names);
        if (near != NULL)
            ft_hint("did you mean [%s]?", near);
        else if (search(key, 1, &option) == 0)
            ft_hint("called %s here", option->name);
        else
            ft_hint("sections are model, data, train, eval, memory, device, output, study and space");
        return FT_INVALID;
    }
    if (search(key, 1, &option) == 0)
        ft_hint("called %s here", option->name);
    else if ((option = nearest_in_section(section, key)) != NULL ||
             search(key, first_bound(key), &option) < first_bound(key))
        ft_hint("did you mean %s?", option->name);
    else
        ft_hint("`ftengine config` lists every option");
    return FT_INVALID;
}

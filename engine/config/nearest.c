// nearest.c - what an unknown option may have meant, and what it is called here.
#include "engine/config/options.h"

#include "base/nearest.h"

#include <string.h>

#define SHOWN_WORD 64 // bytes of a word that a message repeats

static const char *behind_dots(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot == NULL ? name : dot + 1;
}

// The option that `name` means when it is a name known elsewhere, or as a whole, or the last part of it; `bound` 1 asks
// for the very word. Returns the distance.
static int search(const ft_section *const *others, const char *name, int bound, const ft_option **found) {
    const ft_option *option;
    for (int i = 0; (option = ft_sections_option(others, i)) != NULL; i++) {
        const char *own[] = {option->name, ft_option_key(option), behind_dots(option->name)};
        for (int k = 0; k < 3; k++) {
            int distance = ft_nearer(name, own[k], strlen(own[k]), bound);
            if (distance < bound) bound = distance, *found = option;
        }
        for (const char *at = option->elsewhere; at != NULL && *at != '\0';) {
            size_t length = strcspn(at, " ");
            int distance = ft_nearer(name, at, length, bound);
            if (distance < bound) bound = distance, *found = option;
            at += length + strspn(at + length, " ");
        }
    }
    return bound;
}

static const ft_option *nearest_in_section(const ft_section *section, const char *key) {
    const ft_option *found = NULL;
    int bound = ft_nearest_bound(key);
    for (int i = 0; i < section->count; i++) {
        const char *own = ft_option_key(&section->rows[i]);
        int distance = ft_nearer(key, own, strlen(own), bound);
        if (distance < bound) bound = distance, found = &section->rows[i];
    }
    return found;
}

// "sections are model, data and study"
static void hint_sections(const ft_section *const *others) {
    char names[256] = "";
    const ft_section *section = ft_section_at(others, 0), *next;
    for (int i = 1; section != NULL; i++, section = next) {
        size_t length = strlen(names);
        next = ft_section_at(others, i);
        snprintf(names + length, sizeof names - length, "%s%s", i == 1 ? "" : next != NULL ? ", " : " and ", section->name);
    }
    ft_hint("sections are %s", names);
}

// A misspelt section says more than its key, which other sections may have as well.
static void hint_section(const ft_section *const *others, const char *name, const char *key) {
    const char *names[FT_OPTION_LIMIT];
    const ft_section *section;
    const ft_option *option;
    int count = 0;
    while (count < FT_OPTION_LIMIT && (section = ft_section_at(others, count)) != NULL)
        names[count++] = section->name;
    const char *near = ft_nearest(name, count, names);
    if (near != NULL)
        ft_hint("did you mean [%s]?", near);
    else if (search(others, key, 1, &option) == 0)
        ft_hint("called %s here", option->name);
    else
        hint_sections(others);
}

ft_status ft_option_unknown(const ft_section *const *others, const char *section, const char *key, const char *where) {
    char full[2 * SHOWN_WORD + 2];
    snprintf(full, sizeof full, "%s%s%.*s", section, section[0] == '\0' ? "" : ".", SHOWN_WORD, key);
    const ft_section *known = ft_section_find(others, section, strcspn(section, "."));
    const bool lost = known == NULL && section[0] != '\0';
    if (lost)
        ft_fail(FT_INVALID, where, "unknown section [%.*s]", SHOWN_WORD, section);
    else
        ft_fail(FT_INVALID, where, "unknown option %s", full);

    const ft_option *option = NULL;
    if (search(others, full, 1, &option) == 0)
        ft_hint("called %s here", option->name);
    else if (lost)
        hint_section(others, section, key);
    else if (search(others, key, 1, &option) == 0)
        ft_hint("called %s here", option->name);
    else if ((known != NULL && strcmp(known->name, section) == 0 && (option = nearest_in_section(known, key)) != NULL) ||
             search(others, key, ft_nearest_bound(key), &option) < ft_nearest_bound(key))
        ft_hint("did you mean %s?", option->name);
    else
        ft_hint("`ftengine config` lists every option");
    return FT_INVALID;
}

// nearest.c - what an unknown option may have meant, and what it is called here.
#include "engine/config/options.h"

#include "engine/io/nearest.h"

#include <string.h>

#define SHOWN_WORD 64 // bytes of a word that a message repeats

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

static const ft_option *nearest_in_section(const char *section, const char *key) {
    const ft_option *found = NULL;
    int bound = ft_nearest_bound(key);
    for (int i = 0; i < ft_options_count; i++) {
        const char *own = ft_option_key(&ft_options[i]);
        size_t length = (size_t)(own - ft_options[i].name) - 1;
        if (strlen(section) != length || memcmp(section, ft_options[i].name, length) != 0) continue;
        int distance = ft_nearer(key, own, strlen(own), bound);
        if (distance < bound) bound = distance, found = &ft_options[i];
    }
    return found;
}

ft_status ft_option_unknown(const char *section, const char *key, const char *where) {
    char full[2 * SHOWN_WORD + 2];
    snprintf(full, sizeof full, "%s%s%.*s", section, section[0] == '\0' ? "" : ".", SHOWN_WORD, key);
    size_t length = strcspn(section, ".");
    bool known = section[0] == '\0' || ft_section_find(section, length) != NULL;
    if (known)
        ft_fail(FT_INVALID, where, "unknown option %s", full);
    else
        ft_fail(FT_INVALID, where, "unknown section [%.*s]", SHOWN_WORD, section);

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
             search(key, ft_nearest_bound(key), &option) < ft_nearest_bound(key))
        ft_hint("did you mean %s?", option->name);
    else
        ft_hint("`ftengine config` lists every option");
    return FT_INVALID;
}

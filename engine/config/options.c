// options.c - the sections of a run, and options by number and by name. A section is a file of rows (options_*.c), and a row
// is all there is to know about an option: the file syntax, the command line, help, bounds, defaults, who may change it and the
// reference file come from it.
#include "engine/config/options.h"

#include <string.h>

static const ft_section *const run_sections[] = {&ft_model_section,  &ft_adapter_section, &ft_data_section,   &ft_augment_section, &ft_train_section, &ft_eval_section,
                                                 &ft_memory_section, &ft_device_section, &ft_distributed_section, &ft_output_section, &ft_track_section, &ft_notify_section};
enum { RUN_SECTIONS = sizeof run_sections / sizeof run_sections[0] };

const ft_section *ft_section_at(const ft_section *const *others, int index) {
    if (index < RUN_SECTIONS) return run_sections[index];
    for (; others != NULL && *others != NULL; others++)
        if (index-- == RUN_SECTIONS) return *others;
    return NULL;
}

const ft_section *ft_section_find(const ft_section *const *others, const char *name, size_t length) {
    const ft_section *section;
    for (int i = 0; (section = ft_section_at(others, i)) != NULL; i++)
        if (strlen(section->name) == length && memcmp(section->name, name, length) == 0) return section;
    return NULL;
}

const ft_option *ft_sections_option(const ft_section *const *others, int index) {
    const ft_section *section;
    for (int i = 0; index >= 0 && (section = ft_section_at(others, i)) != NULL; i++) {
        if (index < section->count) return &section->rows[index];
        index -= section->count;
    }
    return NULL;
}

static bool is_called(const ft_option *option, const char *name) {
    if (strcmp(option->name, name) == 0) return true;
    for (const char *at = option->also; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (strlen(name) == length && memcmp(at, name, length) == 0) return true;
        at += length;
    }
    return false;
}

int ft_sections_find(const ft_section *const *others, const char *name) {
    const ft_option *option;
    for (int i = 0; (option = ft_sections_option(others, i)) != NULL; i++)
        if (is_called(option, name)) return i;
    return -1;
}

const ft_option *ft_option_at(int index) { return ft_sections_option(NULL, index); }

int ft_option_find(const char *name) { return ft_sections_find(NULL, name); }

int ft_option_count(void) {
    int count = 0;
    for (int i = 0; i < RUN_SECTIONS; i++)
        count += run_sections[i]->count;
    return count;
}

const char *ft_option_name(int index) {
    const ft_option *option = ft_option_at(index);
    return option != NULL ? option->name : NULL;
}

bool ft_option_resumable(const ft_option *option) { return option->change == FT_RESUMABLE || option->change == FT_FREE; }

bool ft_option_comparable(const ft_option *option) { return option->change == FT_COMPARABLE || option->change == FT_FREE; }

const char *ft_option_key(const ft_option *option) { return strchr(option->name, '.') + 1; }

const void *ft_config_values(const ft_config *config, const ft_section *section) {
    if (section->about == NULL) return config;
    const ft_section *const *others = config->others.list;
    for (int i = 0; others != NULL && others[i] != NULL; i++)
        if (others[i] == section) return config->others.values[i];
    return NULL;
}

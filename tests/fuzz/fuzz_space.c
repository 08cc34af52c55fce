// Any bytes as a configuration with a search space. What is accepted is written and read back: the same rules, for the
// same conditions, under the same names.
#include "engine/config/options.h"
#include "hpo/space/options_study.h"
#include "hpo/space/space.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

// As a study's config.ini has them: a condition may look at an option that only the configuration sets.
static char *written(const ft_config *config, const ft_space *space, size_t *size) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    check(stream != NULL && ft_config_write(config, true, true, stream) == FT_OK);
    check(ft_space_write(space, stream) == FT_OK && fclose(stream) == 0);
    return text;
}

// Quotes of both kinds in one value cannot be written back.
static bool has_both_quotes(const ft_space *space) {
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        const char *fixed = rule->fixed != NULL ? rule->fixed : "";
        if (strchr(fixed, '"') != NULL && strchr(fixed, '\'') != NULL) return true;
    }
    return false;
}

static void read_back(const ft_config *before, const ft_space *space) {
    ft_config config;
    ft_space again;
    ft_arena arena = {0};
    size_t size, second_size;
    char *text = written(before, space, &size);
    check(ft_config_defaults_with(ft_study_sections, &config) == FT_OK);
    if (ft_config_apply_text(&config, text, size, "again.ini", "/elsewhere") != FT_OK ||
        ft_space_read(&config, &again) != FT_OK) {
        fprintf(stderr, "%s\n%s (%s)\n", text, ft_error_message(), ft_error_where());
        abort();
    }
    check(again.count == space->count);
    const char *values[FT_OPTION_LIMIT] = {NULL};
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *a = &space->rules[i], *b = &again.rules[i];
        check(a->option == b->option && (a->name == NULL) == (b->name == NULL));
        if (a->name != NULL)
            check(strcmp(a->name, b->name) == 0 && ft_distribution_equal(&a->distribution, &b->distribution));
        check(strcmp(ft_space_rule_text(a, &arena), ft_space_rule_text(b, &arena)) == 0);
        ft_space_holds(a, values);
        if (a->name != NULL) check(ft_space_value_text(a, a->distribution.low, &arena) != NULL);
    }
    char *second = written(&config, &again, &second_size);
    check(size == second_size && memcmp(text, second, size) == 0);
    free(text);
    free(second);
    ft_arena_free(&arena);
    ft_space_free(&again);
    ft_config_free(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ft_config config;
    ft_space space;
    check(ft_config_defaults_with(ft_study_sections, &config) == FT_OK);
    ft_error_clear();
    if (ft_config_apply_text(&config, (const char *)input, size, "fuzz.ini", "/fuzz") == FT_OK) {
        if (ft_space_read(&config, &space) != FT_OK) {
            check(ft_error_code() == FT_INVALID && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
        } else {
            if (!has_both_quotes(&space)) read_back(&config, &space);
            ft_space_free(&space);
        }
    }
    ft_config_free(&config);
    return 0;
}

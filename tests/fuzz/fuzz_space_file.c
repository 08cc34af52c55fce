// Any bytes as a space of another program's (`ftengine study ask --space`). What is refused is named; what is accepted can be drawn from
// the first to the last parameter, at both ends of each, with conditions that look at what was drawn alone.
#include "hpo/commands/space_file.h"

#include "engine/config/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static void check_rule(const ft_space *space, int i) {
    const ft_space_rule *rule = &space->rules[i];
    check(rule->option == i && rule->name[0] != '\0' && rule->fixed == NULL && ft_space_find(space, rule->name) == rule);
    for (int t = 0; t < rule->test_count; t++) {
        check(rule->tests[t].option < i && rule->tests[t].count > 0);
        for (int v = 0; v < rule->tests[t].count; v++)
            check(rule->tests[t].values[v] != NULL);
    }
}

static void draw(const ft_space *space, bool last) {
    const char *values[FT_OPTION_LIMIT] = {NULL};
    ft_arena arena = {0};
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        const ft_distribution *d = &rule->distribution;
        if (!ft_space_holds(rule, values)) continue;
        const double value = d->kind == FT_CATEGORICAL ? (last ? d->choice_count - 1 : 0) : last ? d->high : d->low;
        check(isfinite(value) && (values[i] = ft_space_value_text(rule, value, &arena)) != NULL);
    }
    ft_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ft_space space = {0};
    ft_error_clear();
    if (ft_space_file_parse((const char *)input, size, "fuzz.json", &space) != FT_OK) {
        check(ft_error_code() == FT_INVALID && ft_error_message()[0] != '\0' && strncmp(ft_error_where(), "fuzz.json", 9) == 0);
    } else {
        check(space.count > 0);
        for (int i = 0; i < space.count; i++)
            check_rule(&space, i);
        draw(&space, false);
        draw(&space, true);
    }
    ft_space_free(&space);
    return 0;
}

// space.c - the lines of [space] become rules: every word is looked at by the option it is for, conditions are put
// behind what they depend on.
#include "hpo/space/space.h"

#include "base/log.h"
#include "base/nearest.h"
#include "engine/config/options.h"
#include "hpo/space/grammar.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What reading needs: a configuration to try values on, and the words of each rule's conditions.
typedef struct reading {
    const ft_config *config;
    ft_config scratch;
    ft_space *space;
    const ft_spec **specs; // [space->count] of each rule, in file order
} reading;

// ---- values ---------------------------------------------------------------------------------------------------------

// `text` as the option writes it, after its own parser has accepted it.
static ft_status canonical(reading *r, const ft_option *option, const char *text, const ft_option_line *line,
                           const char **out) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    FT_TRY(ft_option_set(&r->scratch, option, text, line->directory, line->where));
    *out = ft_arena_strdup(&r->space->arena, ft_option_get(&r->scratch, option, scratch));
    return *out != NULL ? FT_OK : FT_NO_MEMORY;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

// Paths are stored by their last parts, unless two of them share one.
static bool last_parts_differ(const char *const *paths, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(last_part(paths[i]), last_part(paths[k])) == 0) return false;
    return true;
}

static ft_status stored_choice(ft_arena *arena, const ft_option *option, const char *text, bool last_parts,
                               ft_choice *out) {
    *out = (ft_choice){.kind = FT_CHOICE_TEXT, .text = text};
    if (option->type == FT_OPTION_INT && strcmp(text, "auto") != 0)
        *out = (ft_choice){.kind = FT_CHOICE_INT, .integer = strtoll(text, NULL, 10)};
    else if (option->type == FT_OPTION_FLOAT && strcmp(text, "auto") != 0)
        *out = (ft_choice){.kind = FT_CHOICE_FLOAT, .number = strtod(text, NULL)};
    else if (option->type == FT_OPTION_BOOL)
        *out = (ft_choice){.kind = FT_CHOICE_BOOL, .integer = strcmp(text, "true") == 0};
    else if (option->type == FT_OPTION_LIST && (out->text = ft_arena_format(arena, "[%s]", text)) == NULL)
        return FT_NO_MEMORY;
    else if (option->type == FT_OPTION_PATH && last_parts)
        out->text = last_part(text);
    return FT_OK;
}

static ft_status read_choices(reading *r, const ft_option *option, const ft_spec *spec, const ft_option_line *line,
                              ft_space_rule *rule) {
    ft_arena *arena = &r->space->arena;
    rule->choices = ft_arena_alloc(arena, (size_t)spec->count * sizeof *rule->choices);
    ft_choice *choices = ft_arena_alloc(arena, (size_t)spec->count * sizeof *choices);
    if (rule->choices == NULL || choices == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < spec->count; i++)
        FT_TRY(canonical(r, option, spec->words[i], line, &rule->choices[i]));
    bool last_parts = last_parts_differ(rule->choices, spec->count);
    for (int i = 0; i < spec->count; i++)
        FT_TRY(stored_choice(arena, option, rule->choices[i], last_parts, &choices[i]));
    return ft_distribution_categorical(line->where, arena, choices, spec->count, &rule->distribution);
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

static ft_status wrong_function(const ft_option *option, const char *function, const ft_option_line *line) {
    char takes[512];
    bool number = option->type == FT_OPTION_INT || option->type == FT_OPTION_EVERY_K;
    ft_fail(FT_INVALID, line->where, "%s takes %s, which %s() does not give", option->name,
            ft_option_takes(option, takes, sizeof takes), function);
    ft_hint("write %s", number ? "int(LOW, HIGH) or choice(A, B, ...)" : "choice(A, B, ...)");
    return FT_INVALID;
}

static ft_status whole(const char *text, const ft_option_line *line, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0) return FT_OK;
    return ft_fail(FT_INVALID, line->where, "int() takes whole numbers; got '%.60s'", text);
}

static ft_status number(const char *text, const ft_option_line *line, double *out) {
    char *end;
    *out = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(*out)) return FT_OK;
    return ft_fail(FT_INVALID, line->where, "float() takes numbers; got '%.60s'", text);
}

static ft_status read_range(reading *r, const ft_option *option, const ft_spec *spec, const ft_option_line *line,
                            ft_space_rule *rule) {
    bool whole_numbers = spec->kind == FT_SPEC_INT;
    bool fits = option->type == FT_OPTION_FLOAT ||
                (whole_numbers && (option->type == FT_OPTION_INT || option->type == FT_OPTION_EVERY_K));
    if (!fits) return wrong_function(option, whole_numbers ? "int" : "float", line);
    if (whole_numbers) {
        int64_t low, high, step = 1;
        FT_TRY(whole(spec->words[0], line, &low));
        FT_TRY(whole(spec->words[1], line, &high));
        if (spec->step != NULL) FT_TRY(whole(spec->step, line, &step));
        if (spec->step != NULL && step < 1)
            return ft_fail(FT_INVALID, line->where, "a step is at least 1, got %lld", (long long)step);
        FT_TRY(ft_distribution_int(line->where, low, high, spec->log, step, &rule->distribution));
        rule->written_high = (double)high;
    } else {
        double low, high, step = 0;
        FT_TRY(number(spec->words[0], line, &low));
        FT_TRY(number(spec->words[1], line, &high));
        if (spec->step != NULL) FT_TRY(number(spec->step, line, &step));
        if (spec->step != NULL && step <= 0) return ft_fail(FT_INVALID, line->where, "a step is above 0, got %g", step);
        FT_TRY(ft_distribution_float(line->where, low, high, spec->log, step, &rule->distribution));
        rule->written_high = high;
    }
    const char *ignored; // between two values that the option takes it takes all
    FT_TRY(canonical(r, option, spec->words[0], line, &ignored));
    return canonical(r, option, spec->words[1], line, &ignored);
}

// ---- rules ----------------------------------------------------------------------------------------------------------

static ft_status read_rule(reading *r, const ft_option_line *line, const ft_spec **out) {
    ft_arena *arena = &r->space->arena;
    int index = ft_option_find(line->option);
    if (index < 0 || strncmp(line->option, "output.", 7) == 0)
        return ft_fail(FT_INVALID, line->where, "%s is no part of a search: it says where results go or how to search",
                       line->option);
    const ft_option *option = ft_option_at(index);
    ft_spec *spec = ft_arena_alloc(arena, sizeof *spec);
    if (spec == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_spec_parse(line->text, line->where, arena, spec));
    *out = spec;
    ft_space_rule *rule = &r->space->rules[r->space->count];
    *rule =
        (ft_space_rule){.option = index, .where = ft_arena_strdup(arena, line->where), .test_count = spec->test_count};
    if (rule->where == NULL) return FT_NO_MEMORY;
    switch (spec->kind) {
    case FT_SPEC_FIXED: FT_TRY(canonical(r, option, spec->words[0], line, &rule->fixed)); break;
    case FT_SPEC_CHOICE: FT_TRY(read_choices(r, option, spec, line, rule)); break;
    case FT_SPEC_FLOAT:
    case FT_SPEC_INT: FT_TRY(read_range(r, option, spec, line, rule)); break;
    }
    r->space->count++;
    return FT_OK;
}

// The option's name, or with a number behind it when its first line of another kind has that name already.
static ft_status name_rules(ft_space *space) {
    for (int i = 0; i < space->count; i++) {
        ft_space_rule *rule = &space->rules[i];
        int names = 0;
        if (rule->fixed != NULL) continue;
        for (int k = 0; k < i && rule->name == NULL; k++) {
            const ft_space_rule *earlier = &space->rules[k];
            if (earlier->option != rule->option || earlier->fixed != NULL) continue;
            if (ft_distribution_compatible(&earlier->distribution, &rule->distribution)) rule->name = earlier->name;
            bool first = true; // of its name
            for (int j = 0; j < k; j++)
                if (space->rules[j].name == earlier->name) first = false;
            names += first;
        }
        const char *option = ft_option_at(rule->option)->name;
        if (rule->name == NULL && names == 0) rule->name = option;
        if (rule->name == NULL) rule->name = ft_arena_format(&space->arena, "%s@%d", option, names + 1);
        if (rule->name == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

// Behind a line that always holds none is reached.
static ft_status check_reached(const ft_space *space) {
    for (int i = 0; i < space->count; i++)
        for (int k = 0; k < i; k++)
            if (space->rules[k].option == space->rules[i].option && space->rules[k].test_count == 0) {
                ft_status status =
                    ft_fail(FT_INVALID, space->rules[i].where, "%s has a line without a condition already (%s)",
                            ft_option_at(space->rules[i].option)->name, space->rules[k].where);
                ft_hint("give the earlier line a condition: OPTION = ... if OTHER = VALUE");
                return status;
            }
    return FT_OK;
}

// ---- conditions -----------------------------------------------------------------------------------------------------

static bool numeric(const ft_option *option) {
    return option->type == FT_OPTION_INT || option->type == FT_OPTION_FLOAT;
}

// option NULL: a number beyond the options, of a program's own parameter (hpo/commands/space_file.h).
static bool same_value(const ft_option *option, const char *wanted, const char *text) {
    if (option != NULL && option->type == FT_OPTION_PATH && wanted[0] != '/') return strcmp(wanted, last_part(text)) == 0;
    return strcmp(wanted, text) == 0;
}

// Whether some trial gives the option this value.
static bool possible(const ft_space *space, const ft_space_test *test, const char *value) {
    const ft_option *option = ft_option_at(test->option);
    if (same_value(option, value, test->otherwise)) return true;
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        if (rule->option != test->option) continue;
        if (rule->fixed != NULL && same_value(option, value, rule->fixed)) return true;
        if (rule->fixed != NULL) continue;
        for (int k = 0; k < rule->distribution.choice_count; k++)
            if (same_value(option, value, rule->choices[k])) return true;
        if (rule->distribution.kind != FT_CATEGORICAL && ft_distribution_contains(&rule->distribution, atof(value)))
            return true;
    }
    return false;
}

static bool is_drawn(const ft_space *space, int option) {
    for (int i = 0; i < space->count; i++)
        if (space->rules[i].option == option) return true;
    return false;
}

static ft_status never(const ft_space *space, const ft_space_test *test, const char *value, const char *where) {
    const ft_option *option = ft_option_at(test->option);
    const char *names[FT_OPTION_LIMIT];
    int count = 0;
    for (int i = 0; i < space->count; i++)
        for (int k = 0; space->rules[i].option == test->option && k < space->rules[i].distribution.choice_count; k++)
            if (count < FT_OPTION_LIMIT)
                names[count++] =
                    option->type == FT_OPTION_PATH ? last_part(space->rules[i].choices[k]) : space->rules[i].choices[k];
    ft_fail(FT_INVALID, where, "%s is never '%s' in this space", option->name, value);
    const char *near = ft_nearest(last_part(value), count, names);
    if (near != NULL) ft_hint("did you mean %s?", near);
    return FT_INVALID;
}

static ft_status read_test(reading *r, const ft_option_line *line, const ft_spec_test *from, ft_space_test *test) {
    ft_arena *arena = &r->space->arena;
    char scratch[FT_OPTION_TEXT_LIMIT], section[128];
    const ft_section *const *others = r->config->others.list;
    const int index = ft_sections_find(others, from->option);
    const ft_option *option = ft_sections_option(others, index);
    if (option == NULL) {
        const char *dot = strchr(from->option, '.');
        snprintf(section, sizeof section, "%.*s", dot != NULL ? (int)(dot - from->option) : 0, from->option);
        return ft_option_unknown(others, section, dot != NULL ? dot + 1 : from->option, line->where);
    }
    if (option->section->about != NULL)
        return ft_fail(FT_INVALID, line->where, "%s is the same in all trials: no condition can look at it",
                       option->name);
    if (from->comparison >= FT_IS_BELOW && !numeric(option))
        return ft_fail(FT_INVALID, line->where, "%s is no number: compare it with =, != or in", option->name);
    *test = (ft_space_test){.option = index, .comparison = from->comparison, .count = from->count};
    test->values = ft_arena_alloc(arena, (size_t)from->count * sizeof *test->values);
    test->otherwise = ft_arena_strdup(arena, ft_option_get(r->config, option, scratch));
    if (test->values == NULL || test->otherwise == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < from->count; i++) {
        const char *text = from->values[i];
        bool part = option->type == FT_OPTION_PATH && strchr(text, '/') == NULL;
        FT_TRY(canonical(r, option, text, line, &test->values[i]));
        if (part) test->values[i] = text;
        bool equal = from->comparison == FT_IS_ONE_OF || from->comparison == FT_IS_NONE_OF;
        if (equal && is_drawn(r->space, index) && !possible(r->space, test, test->values[i]))
            return never(r->space, test, text, line->where);
        if (!equal && strcmp(test->values[i], "auto") == 0)
            return ft_fail(FT_INVALID, line->where, "auto is no number to compare %s with", option->name);
    }
    return FT_OK;
}

static ft_status read_tests(reading *r) {
    for (int i = 0; i < r->space->count; i++) {
        ft_space_rule *rule = &r->space->rules[i];
        rule->tests = ft_arena_alloc(&r->space->arena, (size_t)(rule->test_count + 1) * sizeof *rule->tests);
        if (rule->tests == NULL) return FT_NO_MEMORY;
        for (int k = 0; k < rule->test_count; k++)
            FT_TRY(read_test(r, &r->config->lines.list[i], &r->specs[i]->tests[k], &rule->tests[k]));
    }
    return FT_OK;
}

// ---- order ----------------------------------------------------------------------------------------------------------

static bool waits(const ft_space *space, const bool *placed, int option) {
    for (int i = 0; i < space->count; i++)
        for (int k = 0; space->rules[i].option == option && k < space->rules[i].test_count; k++) {
            int other = space->rules[i].tests[k].option;
            if (!placed[other] && is_drawn(space, other)) return true;
        }
    return false;
}

// Option by option, each as soon as all that its conditions look at are placed; otherwise as in the file.
static ft_status put_in_order(ft_space *space) {
    bool placed[FT_OPTION_LIMIT] = {false};
    ft_space_rule *ordered = ft_arena_alloc(&space->arena, (size_t)(space->count + 1) * sizeof *ordered);
    if (ordered == NULL) return FT_NO_MEMORY;
    for (int count = 0; count < space->count;) {
        int option = -1;
        for (int i = 0; i < space->count && option < 0; i++) {
            int candidate = space->rules[i].option;
            if (!placed[candidate] && !waits(space, placed, candidate)) option = candidate;
        }
        for (int i = 0; option < 0 && i < space->count; i++)
            if (!placed[space->rules[i].option] && space->rules[i].test_count > 0)
                return ft_fail(FT_INVALID, space->rules[i].where, "the conditions of %s go round in a circle",
                               ft_option_at(space->rules[i].option)->name);
        placed[option] = true;
        for (int i = 0; i < space->count; i++)
            if (space->rules[i].option == option) ordered[count++] = space->rules[i];
    }
    space->rules = ordered;
    return FT_OK;
}

// ---- the space ------------------------------------------------------------------------------------------------------

static ft_status read_all(reading *r) {
    const int count = r->config->lines.count;
    r->space->rules = ft_arena_alloc(&r->space->arena, (size_t)(count + 1) * sizeof *r->space->rules);
    r->specs = ft_arena_alloc(&r->space->arena, (size_t)(count + 1) * sizeof *r->specs);
    if (r->space->rules == NULL || r->specs == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_config_defaults(&r->scratch));
    for (int i = 0; i < count; i++)
        FT_TRY(read_rule(r, &r->config->lines.list[i], &r->specs[i]));
    FT_TRY(name_rules(r->space));
    FT_TRY(check_reached(r->space));
    FT_TRY(read_tests(r));
    return put_in_order(r->space);
}

ft_status ft_space_read(const ft_config *config, ft_space *space) {
    *space = (ft_space){0};
    reading r = {.config = config, .space = space};
    ft_status status = read_all(&r);
    ft_config_free(&r.scratch);
    if (status != FT_OK) ft_space_free(space);
    return status;
}

void ft_space_free(ft_space *space) {
    ft_arena_free(&space->arena);
    *space = (ft_space){0};
}

static bool holds_of(const ft_space_test *test, const char *text) {
    const ft_option *option = ft_option_at(test->option);
    if (test->comparison == FT_IS_ONE_OF || test->comparison == FT_IS_NONE_OF) {
        bool found = false;
        for (int i = 0; i < test->count; i++)
            found = found || same_value(option, test->values[i], text);
        return found == (test->comparison == FT_IS_ONE_OF);
    }
    if (strcmp(text, "auto") == 0) return false; // no number is below or above it
    double value = strtod(text, NULL), bound = strtod(test->values[0], NULL);
    switch (test->comparison) {
    case FT_IS_BELOW: return value < bound;
    case FT_IS_AT_MOST: return value <= bound;
    case FT_IS_ABOVE: return value > bound;
    default: return value >= bound;
    }
}

static bool test_holds(const ft_space_test *test, const char *const *values) {
    return holds_of(test, values[test->option] != NULL ? values[test->option] : test->otherwise);
}

bool ft_space_holds(const ft_space_rule *rule, const char *const *values) {
    for (int i = 0; i < rule->test_count; i++)
        if (!test_holds(&rule->tests[i], values)) return false;
    return true;
}

// ---- remarks --------------------------------------------------------------------------------------------------------

static void remark_step(const ft_space_rule *rule) {
    const ft_distribution *d = &rule->distribution;
    if (rule->fixed != NULL || d->kind == FT_CATEGORICAL || d->step == 0 || rule->written_high - d->high <= 1e-9 * d->step) return;
    ft_warn("%s: steps of %g from %g do not reach %g: the last is %g (%s)", ft_option_at(rule->option)->name, d->step, d->low,
            rule->written_high, d->high, rule->where);
}

// Whether one of the values that the option may have passes. Of a range both ends say it of all comparisons, and any number lies
// beside the listed ones unless it is a single one.
static bool can_hold(const ft_space *space, const ft_space_test *test) {
    bool always_drawn = false;
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        if (rule->option != test->option) continue;
        always_drawn |= rule->test_count == 0;
        const ft_distribution *d = &rule->distribution;
        if (rule->fixed != NULL && holds_of(test, rule->fixed)) return true;
        if (rule->fixed != NULL) continue;
        for (int k = 0; k < d->choice_count; k++)
            if (holds_of(test, rule->choices[k])) return true;
        if (d->kind == FT_CATEGORICAL) continue;
        if (test->comparison == FT_IS_ONE_OF || test->comparison == FT_IS_NONE_OF) return true; // looked at when it was read
        char low[40], high[40];
        ft_shortest_double(d->low, low);
        ft_shortest_double(d->high, high);
        if (holds_of(test, low) || holds_of(test, high)) return true;
    }
    return !always_drawn && holds_of(test, test->otherwise);
}

void ft_space_remarks(const ft_space *space) {
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        remark_step(rule);
        for (int k = 0; k < rule->test_count; k++)
            if (!can_hold(space, &rule->tests[k]))
                ft_warn("%s: what this line asks of %s never holds, so it is never taken (%s)", ft_option_at(rule->option)->name,
                        ft_option_at(rule->tests[k].option)->name, rule->where);
    }
}

const char *ft_space_value_text(const ft_space_rule *rule, double value, ft_arena *arena) {
    char text[40];
    switch (rule->distribution.kind) {
    case FT_CATEGORICAL: return rule->choices[(int)value];
    case FT_INT: return ft_arena_format(arena, "%lld", (long long)value);
    case FT_FLOAT: break;
    }
    ft_shortest_double(value, text);
    return ft_arena_strdup(arena, text);
}

bool ft_space_is_numbers(const ft_space *space) {
    int numbers = 0;
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        if (rule->fixed != NULL) continue;
        if (rule->test_count > 0 || rule->distribution.kind == FT_CATEGORICAL) return false;
        numbers += !ft_distribution_single(&rule->distribution);
    }
    return numbers >= 2;
}

const ft_space_rule *ft_space_find(const ft_space *space, const char *name) {
    for (int i = 0; i < space->count; i++)
        if (space->rules[i].name != NULL && strcmp(space->rules[i].name, name) == 0) return &space->rules[i];
    return NULL;
}

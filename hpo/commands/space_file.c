#include "hpo/commands/space_file.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/nearest.h"
#include "engine/config/options.h"
#include "hpo/storage/distribution_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool equals(const ft_choice *choice, const json_t *value) {
    switch (choice->kind) {
    case FT_CHOICE_NULL: return json_is_null(value);
    case FT_CHOICE_BOOL: return json_is_boolean(value) && json_is_true(value) == (choice->integer != 0);
    case FT_CHOICE_INT: return json_is_number(value) && json_number_value(value) == (double)choice->integer;
    case FT_CHOICE_FLOAT: return json_is_number(value) && json_number_value(value) == choice->number;
    case FT_CHOICE_TEXT: break;
    }
    return json_is_string(value) && strcmp(json_string_value(value), choice->text) == 0;
}

// As ft_space_value_text has what a trial drew: of choices their index.
static const char *text_of(const ft_space_rule *rule, const json_t *value, ft_arena *arena) {
    const ft_distribution *d = &rule->distribution;
    for (int i = 0; d->kind == FT_CATEGORICAL && i < d->choice_count; i++)
        if (equals(&d->choices[i], value)) return rule->choices[i];
    if (d->kind == FT_INT && json_is_integer(value) && ft_distribution_contains(d, (double)json_integer_value(value)))
        return ft_arena_format(arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return NULL;
}

static ft_status never(const char *where, const ft_space_rule *other, const json_t *value) {
    const ft_distribution *d = &other->distribution;
    const char *nearest = NULL, **texts = calloc((size_t)d->choice_count + 1, sizeof *texts);
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    int count = 0;
    for (int i = 0; texts != NULL && d->kind == FT_CATEGORICAL && i < d->choice_count; i++)
        if (d->choices[i].kind == FT_CHOICE_TEXT) texts[count++] = d->choices[i].text;
    if (json_is_string(value)) nearest = ft_nearest(json_string_value(value), count, texts);
    ft_fail(FT_INVALID, where, "\"when\": \"%.100s\" is never %.100s", other->name, text != NULL ? text : "that");
    if (nearest != NULL) ft_hint("did you mean \"%.100s\"?", nearest);
    if (d->kind == FT_INT && d->step != 1) ft_hint("it is a whole number from %.0f to %.0f in steps of %.0f", d->low, d->high, d->step);
    else if (d->kind == FT_INT) ft_hint("it is a whole number from %.0f to %.0f", d->low, d->high);
    free(texts);
    free(text);
    return FT_INVALID;
}

static ft_status no_such(const ft_space *space, const char *where, const char *name) {
    const char **names = calloc((size_t)space->count + 1, sizeof *names);
    if (names == NULL) return ft_fail_memory(0, "a search space");
    for (int i = 0; i < space->count; i++) names[i] = space->rules[i].name;
    const char *nearest = ft_nearest(name, space->count, names);
    ft_fail(FT_INVALID, where, "\"when\": no parameter \"%.100s\" stands in front of it", name);
    if (nearest != NULL) ft_hint("did you mean \"%.100s\"?", nearest);
    free(names);
    return FT_INVALID;
}

static ft_status add_test(ft_space *space, ft_space_rule *rule, const char *name, const json_t *wanted) {
    const ft_space_rule *other = ft_space_find(space, name); // of those in front: this one is not counted yet
    const size_t count = json_is_array(wanted) ? json_array_size(wanted) : 1;
    ft_space_test *test = &rule->tests[rule->test_count];
    if (other == NULL) return no_such(space, rule->where, name);
    if (other->distribution.kind == FT_FLOAT)
        return ft_fail(FT_INVALID, rule->where, "\"when\": \"%.100s\" is a number with a point, which no condition can look at", name);
    if (count == 0) return ft_fail(FT_INVALID, rule->where, "\"when\": of \"%.100s\" no values are listed", name);
    *test = (ft_space_test){.option = other->option, .comparison = FT_IS_ONE_OF, .otherwise = ""}; // not drawn is no value
    test->values = ft_arena_alloc(&space->arena, count * sizeof *test->values);
    if (test->values == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_is_array(wanted) ? json_array_get(wanted, i) : wanted;
        test->values[i] = text_of(other, value, &space->arena);
        if (test->values[i] == NULL) return never(rule->where, other, value);
        test->count++;
    }
    rule->test_count++;
    return FT_OK;
}

static ft_status add_tests(ft_space *space, ft_space_rule *rule, json_t *when) {
    json_t *wanted;
    const char *name;
    if (when == NULL) return FT_OK;
    if (!json_is_object(when) || json_object_size(when) == 0) {
        ft_fail(FT_INVALID, rule->where, "\"when\" names no parameters and their values");
        ft_hint("\"when\": {\"kind\": [\"a\", \"b\"]}: drawn where kind is a or b");
        return FT_INVALID;
    }
    rule->tests = ft_arena_alloc(&space->arena, json_object_size(when) * sizeof *rule->tests);
    if (rule->tests == NULL) return FT_NO_MEMORY;
    json_object_foreach(when, name, wanted) FT_TRY(add_test(space, rule, name, wanted));
    return FT_OK;
}

// A misspelt "when" would draw the parameter in every trial.
static ft_status check_keys(const char *file, const char *name, json_t *value) {
    static const char *const keys[] = {"name", "attributes", "when"};
    const char *key;
    json_t *part;
    if (name[0] == '\0') return ft_fail(FT_INVALID, file, "a parameter has no name");
    if (!json_is_object(value)) return ft_fail(FT_INVALID, file, "\"%.100s\" is no distribution: an object with name and attributes", name);
    json_object_foreach(value, key, part) {
        if (strcmp(key, keys[0]) == 0 || strcmp(key, keys[1]) == 0 || strcmp(key, keys[2]) == 0) continue;
        const char *nearest = ft_nearest(key, 3, keys);
        ft_fail(FT_INVALID, file, "\"%.100s\" has a \"%.100s\", which is none of name, attributes and when", name, key);
        if (nearest != NULL) ft_hint("did you mean \"%s\"?", nearest);
        return FT_INVALID;
    }
    return FT_OK;
}

// Its option is a number of its own alone: no option of a run is meant. `when` leaves the value.
static ft_status add_rule(ft_space *space, const char *file, const char *name, json_t *value) {
    ft_space_rule *rule = &space->rules[space->count];
    FT_TRY(check_keys(file, name, value));
    json_t *when = json_incref(json_object_get(value, "when"));
    json_object_del(value, "when");
    char *text = json_dumps(value, JSON_COMPACT);
    char *where = ft_arena_format(&space->arena, "%s: \"%s\"", file, name);
    *rule = (ft_space_rule){.option = space->count, .where = where, .name = ft_arena_strdup(&space->arena, name)};
    ft_status status = text == NULL ? ft_fail_memory(0, "a distribution") : rule->where == NULL || rule->name == NULL ? FT_NO_MEMORY : FT_OK;
    if (status == FT_OK) status = ft_distribution_from_json(text, where, &space->arena, &rule->distribution);
    free(text);
    const int choices = status == FT_OK && rule->distribution.kind == FT_CATEGORICAL ? rule->distribution.choice_count : 0;
    rule->choices = ft_arena_alloc(&space->arena, (size_t)(choices + 1) * sizeof *rule->choices);
    if (status == FT_OK && rule->choices == NULL) status = FT_NO_MEMORY;
    for (int i = 0; status == FT_OK && i < choices; i++)
        if ((rule->choices[i] = ft_arena_format(&space->arena, "%d", i)) == NULL) status = FT_NO_MEMORY;
    if (status == FT_OK) status = add_tests(space, rule, when);
    json_decref(when);
    if (status == FT_OK) space->count++;
    return status;
}

ft_status ft_space_file_read(const char *file, ft_space *space) {
    char *text;
    size_t length;
    FT_TRY(ft_read_file(file, 0, &text, &length));
    ft_status status = ft_space_file_parse(text, length, file, space);
    free(text);
    return status;
}

ft_status ft_space_file_parse(const char *bytes, size_t length, const char *file, ft_space *space) {
    json_t *root, *value;
    const char *name;
    FT_TRY(ft_json_parse(bytes, length, file, &root));
    const size_t count = json_object_size(root); // 0 of what is no object
    ft_status status = FT_OK;
    if (count == 0 || count > FT_OPTION_LIMIT) {
        status = ft_fail(FT_INVALID, file, "holds no search space: an object of 1 to %d parameters", FT_OPTION_LIMIT);
        ft_hint("{\"x\": {\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1}}}, as Optuna writes them");
    }
    if (status == FT_OK) space->rules = ft_arena_alloc(&space->arena, (count + 1) * sizeof *space->rules);
    if (status == FT_OK && space->rules == NULL) status = FT_NO_MEMORY;
    if (status == FT_OK) {
        json_object_foreach(root, name, value) {
            if (status == FT_OK) status = add_rule(space, file, name, value);
        }
    }
    json_decref(root);
    return status;
}

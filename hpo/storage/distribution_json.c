#include "hpo/storage/distribution_json.h"

#include "base/nearest.h"
#include "hpo/storage/pyjson.h"

#include <float.h>
#include <math.h>
#include <string.h>

// What a class of Optuna's is here. `step` is its word for the step, NULL when it has none.
typedef struct class_row {
    const char *name;
    ft_distribution_kind kind;
    bool has_log, log; // an attribute, or implied by the class
    const char *step;
} class_row;

static const class_row classes[] = {
    {"FloatDistribution", FT_FLOAT, true, false, "step"},
    {"IntDistribution", FT_INT, true, false, "step"},
    {"CategoricalDistribution", FT_CATEGORICAL, false, false, NULL},
    {"UniformDistribution", FT_FLOAT, false, false, NULL},
    {"LogUniformDistribution", FT_FLOAT, false, true, NULL},
    {"DiscreteUniformDistribution", FT_FLOAT, false, false, "q"},
    {"IntUniformDistribution", FT_INT, false, false, "step"},
    {"IntLogUniformDistribution", FT_INT, false, true, "step"},
};
enum { CLASSES = sizeof classes / sizeof classes[0] };

// "choices", or "low", "high" and what the class has beside them.
static ft_status check_attribute(const class_row *row, const char *where, const char *key) {
    const char *names[4] = {"choices"}, *nearest;
    int count = 1;
    if (row->kind != FT_CATEGORICAL) names[0] = "low", names[count++] = "high";
    if (row->has_log) names[count++] = "log";
    if (row->step != NULL) names[count++] = row->step;
    for (int i = 0; i < count; i++)
        if (strcmp(key, names[i]) == 0) return FT_OK;
    ft_fail(FT_INVALID, where, "%s has an attribute that it should not have, \"%.40s\"", row->name, key);
    if ((nearest = ft_nearest(key, count, names)) != NULL) ft_hint("did you mean \"%s\"?", nearest);
    return FT_INVALID;
}

static ft_status number_attribute(const json_t *attributes, const char *where, const char *key, double *out) {
    if (ft_pyjson_number(json_object_get(attributes, key), out)) return FT_OK;
    return ft_fail(FT_INVALID, where, "the distribution needs a number \"%s\"", key);
}

// Optuna's own files have integers here; other writers put 8.0.
static ft_status integer_attribute(const json_t *attributes, const char *where, const char *key, int64_t *out) {
    double value = 0;
    FT_TRY(number_attribute(attributes, where, key, &value));
    if (!(fabs(value) <= 9007199254740992.0) || value != trunc(value))
        return ft_fail(FT_INVALID, where, "\"%s\" of the distribution is %g, not an integer within +-2^53", key, value);
    *out = (int64_t)value;
    return FT_OK;
}

static ft_status read_choices(const json_t *attributes, const char *where, ft_arena *arena, ft_distribution *out) {
    const json_t *list = json_object_get(attributes, "choices");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > 1000000)
        return ft_fail(FT_INVALID, where, "the distribution needs a list \"choices\" of at least one");
    ft_choice *choices = ft_arena_alloc(arena, count * sizeof *choices);
    if (choices == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (ft_pyjson_scalar(json_array_get(list, i), &choices[i])) continue;
        ft_status status =
            ft_fail(FT_INVALID, where, "choice %zu is a list or an object, which no database keeps well", i + 1);
        ft_hint("store a list as its text, \"[512, 256]\"");
        return status;
    }
    ft_distribution unchecked = {.kind = FT_CATEGORICAL, .choices = choices, .choice_count = (int)count};
    return ft_distribution_copy(arena, &unchecked, out); // its texts still belong to the JSON value
}

// A high that was lowered to a whole number of steps and rounded to a double can be below it in decimals: lowered
// again, it would lose its last value at every reading (0 to 5 by 0.1333333333333333), and a study its agreement with
// its own space.
static bool is_whole(double low, double high, double step) {
    double size = fmax(fabs(low), fabs(high));
    return fabs(low + nearbyint((high - low) / step) * step - high) <= 8 * DBL_EPSILON * size;
}

static ft_status read_range(const class_row *row, const json_t *attributes, const char *where, ft_distribution *out) {
    bool log = row->log;
    const json_t *flag = row->has_log ? json_object_get(attributes, "log") : NULL;
    if (flag != NULL) {
        if (!json_is_boolean(flag))
            return ft_fail(FT_INVALID, where, "\"log\" of the distribution is neither true nor false");
        log = json_is_true(flag);
    }
    const json_t *given = row->step != NULL ? json_object_get(attributes, row->step) : NULL;
    bool has_step = given != NULL && !json_is_null(given);
    if (row->kind == FT_FLOAT) {
        double low = 0, high = 0, step = 0;
        FT_TRY(number_attribute(attributes, where, "low", &low));
        FT_TRY(number_attribute(attributes, where, "high", &high));
        if (has_step) {
            FT_TRY(number_attribute(attributes, where, row->step, &step));
            if (!(step > 0))
                return ft_fail(FT_INVALID, where, "\"%s\" of the distribution must be positive", row->step);
        }
        FT_TRY(ft_distribution_float(where, low, high, log, step, out));
        if (has_step && is_whole(low, high, step)) out->high = high;
        return FT_OK;
    }
    int64_t low = 0, high = 0, step = 1;
    FT_TRY(integer_attribute(attributes, where, "low", &low));
    FT_TRY(integer_attribute(attributes, where, "high", &high));
    if (has_step) FT_TRY(integer_attribute(attributes, where, row->step, &step));
    return ft_distribution_int(where, low, high, log, step, out);
}

static ft_status read_distribution(const json_t *root, const char *where, ft_arena *arena, ft_distribution *out) {
    const char *name = json_string_value(json_object_get(root, "name"));
    const json_t *attributes = json_object_get(root, "attributes");
    if (name == NULL || !json_is_object(attributes))
        return ft_fail(FT_INVALID, where, "the distribution needs a \"name\" and \"attributes\"");
    int i = 0;
    while (i < CLASSES && strcmp(classes[i].name, name) != 0)
        i++;
    if (i == CLASSES) {
        char shown[64];
        snprintf(shown, sizeof shown, "%s", name);
        for (char *c = shown; *c != '\0'; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?'; // it goes to a terminal
        const char *names[CLASSES], *nearest;
        for (int k = 0; k < CLASSES; k++)
            names[k] = classes[k].name;
        ft_fail(FT_INVALID, where, "unknown distribution \"%s\"", shown);
        if ((nearest = ft_nearest(name, CLASSES, names)) != NULL) ft_hint("did you mean \"%s\"?", nearest);
        return FT_INVALID;
    }
    json_t *walked = (json_t *)attributes; // Jansson's iterators take no const and change nothing
    for (void *at = json_object_iter(walked); at != NULL; at = json_object_iter_next(walked, at))
        FT_TRY(check_attribute(&classes[i], where, json_object_iter_key(at)));
    if (classes[i].kind == FT_CATEGORICAL) return read_choices(attributes, where, arena, out);
    return read_range(&classes[i], attributes, where, out);
}

ft_status ft_distribution_from_json(const char *text, const char *where, ft_arena *arena, ft_distribution *out) {
    json_t *root;
    FT_TRY(ft_pyjson_parse(text, where, &root));
    ft_status status = read_distribution(root, where, arena, out);
    json_decref(root);
    return status;
}

ft_status ft_distribution_to_json(const ft_distribution *d, char **text) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    FILE *out = stream.file;
    if (d->kind == FT_CATEGORICAL) {
        fputs("{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [", out);
        for (int i = 0; i < d->choice_count; i++) {
            if (i > 0) fputs(", ", out);
            ft_pyjson_write_scalar(out, &d->choices[i]);
        }
        fputs("]}}", out);
    } else if (d->kind == FT_INT) {
        fprintf(out,
                "{\"name\": \"IntDistribution\", \"attributes\": {\"log\": %s, \"step\": %lld, \"low\": %lld, "
                "\"high\": %lld}}",
                d->log ? "true" : "false", (long long)d->step, (long long)d->low, (long long)d->high);
    } else {
        fputs("{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": ", out);
        if (d->step == 0)
            fputs("null", out);
        else
            ft_pyjson_write_number(out, d->step);
        fputs(", \"low\": ", out);
        ft_pyjson_write_number(out, d->low);
        fputs(", \"high\": ", out);
        ft_pyjson_write_number(out, d->high);
        fprintf(out, ", \"log\": %s}}", d->log ? "true" : "false");
    }
    return ft_text_close(&stream, text);
}

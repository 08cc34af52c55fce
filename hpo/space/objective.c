#include "hpo/space/objective.h"

#include "base/json/json.h"
#include "base/nearest.h"
#include "engine/memory/memory.h"
#include "hpo/space/options_study.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Figures beside the metrics, which are eval.METRIC and test.METRIC.
static const struct {
    const char *name, *object, *key;
    bool maximize;
} figures[] = {
    {"train.loss", "metrics", "train_loss", false},
    {"seconds.total", "seconds", "total", false},
    {"seconds.train", "seconds", "train", false},
    {"seconds.eval", "seconds", "eval", false},
    {"tokens_per_second", NULL, "tokens_per_second", true},
    {"steps", NULL, "steps", false},
    {"epochs", NULL, "epochs", false},
    {"memory.peak_requested_bytes", "memory", "peak_requested_bytes", false},
    {"memory.peak_allocated_bytes", "memory", "peak_allocated_bytes", false},
    {"memory.peak_reserved_bytes", "memory", "peak_reserved_bytes", false},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

static ft_status unknown(const char *name, const char *where, ft_arena *arena) {
    const char *names[FIGURES + 2 * FT_METRIC_COUNT];
    int count = 0;
    for (int i = 0; i < FIGURES; i++)
        names[count++] = figures[i].name;
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        names[count++] = ft_arena_format(arena, "eval.%s", ft_metric_name((ft_metric)k));
        names[count++] = ft_arena_format(arena, "test.%s", ft_metric_name((ft_metric)k));
        if (names[count - 1] == NULL || names[count - 2] == NULL) return FT_NO_MEMORY;
    }
    ft_fail(FT_INVALID, where, "there is no figure '%.60s' to look for", name);
    const char *near = ft_nearest(name, count, names);
    if (near != NULL)
        ft_hint("did you mean %s?", near);
    else
        ft_hint(
            "eval.METRIC, test.METRIC, train.loss, seconds.total, tokens_per_second, memory.peak_reserved_bytes, ...");
    return FT_INVALID;
}

static ft_status check_produced(const ft_config *config, const ft_objective *objective, const char *where) {
    bool test = strncmp(objective->name, "test.", 5) == 0;
    if (test && config->data.test[0] == '\0')
        return ft_fail(FT_INVALID, where, "%s needs data.test, which is not set", objective->name);
    if (!objective->reported) return FT_OK;
    if (config->data.validation[0] == '\0' && config->data.folds == 0 && config->data.validation_split == 0)
        return ft_fail(FT_INVALID, where, "%s needs data.validation, data.validation_split or data.folds, and none is set", objective->name);
    if (config->eval.strategy == FT_EVAL_NO)
        return ft_fail(FT_INVALID, where, "%s needs evaluations, and eval.strategy is no", objective->name);
    return FT_OK;
}

// "eval.accuracy" -> metrics/eval_accuracy.
static ft_status find_metric(const char *name, ft_arena *arena, ft_objective *out, bool *found) {
    *found = false;
    bool eval = strncmp(name, "eval.", 5) == 0;
    if (!eval && strncmp(name, "test.", 5) != 0) return FT_OK;
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        if (strcmp(name + 5, ft_metric_name((ft_metric)k)) != 0) continue;
        char *key = ft_arena_strdup(arena, name);
        if (key == NULL) return FT_NO_MEMORY;
        key[4] = '_';
        *out = (ft_objective){name, ft_metric_greater_is_better((ft_metric)k), "metrics", key, eval};
        *found = true;
    }
    return FT_OK;
}

// Any figure by its name, with the direction that goes without saying.
static ft_status find_figure(const ft_config *config, const char *name, const char *where, ft_arena *arena,
                             ft_objective *out) {
    bool found;
    FT_TRY(find_metric(name, arena, out, &found));
    for (int i = 0; i < FIGURES && !found; i++) {
        if (strcmp(figures[i].name, name) != 0) continue;
        *out = (ft_objective){name, figures[i].maximize, figures[i].object, figures[i].key, false};
        found = true;
    }
    return found ? check_produced(config, out, where) : unknown(name, where, arena);
}

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

// The part before the next comma; *text becomes what is behind it, NULL at the end.
static char *next_part(char **text) {
    char *part = *text, *comma = strchr(part, ',');
    if (comma != NULL) *comma = '\0';
    *text = comma != NULL ? comma + 1 : NULL;
    return trimmed(part);
}

static ft_status read_one(const ft_config *config, char *text, ft_arena *arena, ft_objective *out) {
    static const char where[] = "study.objective";
    char *space = text + strcspn(text, " \t"), *name = space + strspn(space, " \t");
    bool maximize = strncmp(text, "maximize ", 9) == 0, minimize = strncmp(text, "minimize ", 9) == 0;
    if (*name == '\0')
        name = text;
    else if (!maximize && !minimize)
        return ft_fail(FT_INVALID, where, "'%.60s': a direction is maximize or minimize", text);
    FT_TRY(find_figure(config, name, where, arena, out));
    if (maximize || minimize) out->maximize = maximize;
    return FT_OK;
}

ft_status ft_objectives_read(const ft_config *config, ft_arena *arena, ft_objectives *out) {
    *out = (ft_objectives){0};
    const char *asked = ft_study_options_of(config)->objective;
    char *text = asked[0] != '\0'
                     ? ft_arena_strdup(arena, asked)
                     : ft_arena_format(arena, "eval.%s", ft_metric_name(config->eval.metric));
    if (text == NULL) return FT_NO_MEMORY;
    while (text != NULL) {
        char *part = next_part(&text);
        if (out->count == FT_OBJECTIVE_LIMIT)
            return ft_fail(FT_INVALID, "study.objective", "more than %d objectives", FT_OBJECTIVE_LIMIT);
        ft_objective *objective = &out->list[out->count];
        FT_TRY(read_one(config, part, arena, objective));
        for (int i = 0; i < out->count; i++)
            if (strcmp(out->list[i].name, objective->name) == 0)
                return ft_fail(FT_INVALID, "study.objective", "%s is there twice", objective->name);
        out->count++;
    }
    return FT_OK;
}

// A number, with the unit of a size or a duration behind it or none.
static bool read_bound(const char *text, double *bound) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},     {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
                 {"MB", 1e6}, {"GB", 1e9},     {"s", 1},        {"m", 60},       {"h", 3600}};
    char *end;
    *bound = strtod(text, &end);
    end += strspn(end, " \t");
    if (end == text || !isfinite(*bound)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, end) == 0) {
            *bound *= units[i].factor;
            return true;
        }
    return false;
}

ft_status ft_limits_read(const ft_config *config, ft_arena *arena, ft_limits *out) {
    static const char where[] = "study.constraints";
    *out = (ft_limits){0};
    const char *asked = ft_study_options_of(config)->constraints;
    if (asked[0] == '\0') return FT_OK;
    char *text = ft_arena_strdup(arena, asked);
    if (text == NULL) return FT_NO_MEMORY;
    while (text != NULL) {
        char *part = next_part(&text), *sign = strpbrk(part, "<>");
        if (out->count == FT_OBJECTIVE_LIMIT)
            return ft_fail(FT_INVALID, where, "more than %d constraints", FT_OBJECTIVE_LIMIT);
        ft_limit *limit = &out->list[out->count++];
        if (sign == NULL || sign[1] != '=' || !read_bound(trimmed(sign + 2), &limit->bound)) {
            ft_fail(FT_INVALID, where, "'%.60s' is no constraint", part);
            ft_hint("write FIGURE <= NUMBER or FIGURE >= NUMBER, as memory.peak_reserved_bytes <= 8GiB");
            return FT_INVALID;
        }
        limit->at_most = *sign == '<';
        *sign = '\0';
        FT_TRY(find_figure(config, trimmed(part), where, arena, &limit->figure));
    }
    return FT_OK;
}

bool ft_objective_value(const ft_objective *objective, const json_t *run, double *value) {
    const json_t *object = objective->object != NULL ? json_object_get(run, objective->object) : run;
    const json_t *number = json_object_get(object, objective->key);
    if (!json_is_number(number)) return false;
    *value = json_number_value(number);
    return isfinite(*value);
}

bool ft_figure_is_bytes(const char *name) {
    const size_t length = strlen(name);
    return length > 6 && strcmp(name + length - 6, "_bytes") == 0;
}

const char *ft_figure_text(const char *name, double value, int digits, char out[FT_FIGURE_TEXT]) {
    if (ft_figure_is_bytes(name) && value >= 0 && value < 0x1p63) return ft_bytes_text((size_t)value, out);
    const bool plain = fabs(value) >= pow(10, digits) && fabs(value) < 1e15; // %g would take an exponent
    snprintf(out, FT_FIGURE_TEXT, plain ? "%.*f" : "%.*g", plain ? 0 : digits, value);
    return out;
}

// plan.c - `ftengine plan` of a configuration with a [space]: what becomes of the whole space, beside the plan of the configuration itself.
#include "hpo/commands/plan.h"

#include "base/json/json.h"
#include "engine/config/options.h"
#include "hpo/commands/commands.h"
#include "hpo/space/options_study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[FT_SURVEY_KINDS] = {"fit", "refit", "never", "not_supported", "invalid"};

// ---- the survey -----------------------------------------------------------------------------------------------------------

static bool wanted(const ft_config *config) { return config->lines.count > 0; }

static ft_status make(const ft_plan_task *task, void **own) {
    const ft_plan_request plan = ft_plan_request_of(task);
    const ft_survey_request request = {.config = &task->asked, .plan = &plan};
    ft_survey *s = ft_calloc(1, sizeof *s, "a search space that is planned");
    if (s == NULL) return FT_NO_MEMORY;
    ft_status status = ft_survey_make(&request, s);
    if (status == FT_OK) {
        *own = s;
        return FT_OK;
    }
    ft_survey_free(s);
    free(s);
    return status;
}

static void free_survey(void *own) {
    if (own != NULL) ft_survey_free(own);
    free(own);
}

static bool was_fitted(const ft_survey *s) { return s->count[FT_OUTLOOK_FIT] + s->count[FT_OUTLOOK_REFIT] > 0; }

static ft_status verdict(const ft_plan_task *task, const void *own) {
    const ft_survey *s = own;
    char most[24], budget[24];
    if (was_fitted(s)) return FT_OK;
    if (s->count[FT_OUTLOOK_NOT_SUPPORTED] > 0)
        return ft_fail(FT_NO_DEVICE, task->card != NULL ? task->card->name : NULL, "not supported: the kernels do not run on this card");
    ft_fail(FT_NO_MEMORY, "[space]", "does not fit: none of %lld points", (long long)s->points.count);
    size_t least = SIZE_MAX, there = 0;
    for (int64_t i = 0; i < s->points.count; i++)
        if (s->of[i].kind != FT_SURVEY_INVALID && s->of[i].bytes < least) least = s->of[i].bytes, there = s->of[i].budget;
    ft_hint("the smallest takes %s of %s as it is", ft_bytes_text(least, most), ft_bytes_text(there, budget));
    return FT_NO_MEMORY;
}

// ---- for people -----------------------------------------------------------------------------------------------------------

// Do points differ in it?
static bool tells_apart(const ft_survey *s, int option) {
    bool differs = false;
    for (int i = 0; i < s->space.count; i++) {
        const ft_space_rule *rule = &s->space.rules[i];
        const int axis = s->points.axis_of[i];
        if (rule->option == option) differs |= axis >= 0 ? !s->points.axes[axis].finite || s->points.axes[axis].count > 1 : rule->test_count > 0;
    }
    return differs && s->points.of_option[option];
}

static void list_options(const ft_survey *s, bool apart, const char *before) {
    bool listed[FT_OPTION_LIMIT] = {false};
    int count = 0;
    for (int i = 0; i < s->space.count; i++) {
        const int option = s->space.rules[i].option;
        if (listed[option] || (apart ? !tells_apart(s, option) : s->points.of_option[option])) continue;
        listed[option] = true;
        printf("%s%s", count++ > 0 ? ", " : before, ft_option_name(option));
    }
    if (count > 0) printf("\n");
}

static void print_head(const ft_survey *s) {
    const ft_points *p = &s->points;
    if (p->exhaustive && p->count == 1)
        printf("\nspace         memory cannot tell its points apart: one plan is that of all\n");
    else if (p->exhaustive)
        printf("\nspace         %lld points, all of them planned, in %.1f s\n", (long long)p->count, s->seconds);
    else
        printf("\nspace         too many points to plan all: a sample of %lld random draws, and %s%lld corners, in %.1f s\n",
               (long long)(p->count - p->corners), p->all_corners ? "all " : "", (long long)p->corners, s->seconds);
    list_options(s, true, "              told apart by ");
    list_options(s, false, "              no byte depends on ");
}

static void print_shares(const ft_plan_task *task, const ft_survey *s) {
    static const char *const said[FT_SURVEY_KINDS] = {"fit as they are", "fit with what is at auto fitted", "never fit", "are not supported by the card",
                                                      "cannot be trained"};
    const char *policy = ft_study_options_of(&task->config)->memory_policy;
    for (int k = 0; k < FT_SURVEY_KINDS; k++) {
        if (s->count[k] == 0 && (k > FT_OUTLOOK_NEVER || s->points.count == 1)) continue;
        printf("%-13s %5.1f%% of random draws %s (%lld point%s)", kind_names[k], 100 * s->share[k], said[k], (long long)s->count[k],
               s->count[k] == 1 ? "" : "s");
        if (k == FT_OUTLOOK_REFIT && s->count[k] > 0 && strcmp(policy, "fit") != 0) printf("; not with study.memory_policy=%s", policy);
        if (k == FT_SURVEY_INVALID) printf(": %s", s->invalid);
        printf("\n");
    }
}

static void print_point(const ft_survey *s, int64_t index) {
    const char *texts[FT_OPTION_LIMIT];
    ft_arena arena = {0};
    if (ft_points_texts(&s->points, index, &arena, texts) == FT_OK)
        for (int i = 0; i < ft_option_count(); i++) {
            if (texts[i] == NULL) continue;
            const char *slash = ft_option_at(i)->type == FT_OPTION_PATH ? strrchr(texts[i], '/') : NULL;
            printf(" %s=%s", ft_option_name(i), slash != NULL ? slash + 1 : texts[i]);
        }
    ft_arena_free(&arena);
}

static void print_worst(const ft_survey *s) {
    static const char *const said[] = {"fits", "refit", "never", "not supported"};
    const ft_survey_point *w = &s->of[s->worst];
    char bytes[24], budget[24];
    printf("worst         %s (%zu bytes) of %s, %s:", ft_bytes_text(w->bytes, bytes), w->bytes, ft_bytes_text(w->budget, budget), said[w->kind]);
    print_point(s, s->worst);
    printf("\n");
}

// head: not printed yet.
static void print_rows(const ft_survey *s, int axis, bool *head) {
    ft_survey_row rows[FT_SURVEY_ROWS];
    int count;
    char most[24];
    if (ft_survey_by(s, axis, rows, &count) != FT_OK) {
        ft_error_clear(); // of a table for people
        return;
    }
    if (count > 0 && *head) printf("\n%-32s %-24s %7s %7s %7s %10s\n", "parameter", "value", "fit", "refit", "never", "most");
    *head = *head && count == 0;
    for (int i = 0; i < count; i++) {
        const ft_survey_row *r = &rows[i];
        printf("%-32s %-24s %6.1f%% %6.1f%% %6.1f%% %10s", i == 0 ? s->points.axes[axis].rule->name : "", r->label, 100 * r->share[FT_OUTLOOK_FIT],
               100 * r->share[FT_OUTLOOK_REFIT], 100 * r->share[FT_OUTLOOK_NEVER], ft_bytes_text(r->most, most));
        if (r->share[FT_SURVEY_INVALID] > 0) printf("  %.1f%% invalid", 100 * r->share[FT_SURVEY_INVALID]);
        printf("\n");
    }
}

static void print(const ft_plan_task *task, const void *own) {
    const ft_survey *s = own;
    print_head(s);
    print_shares(task, s);
    print_worst(s);
    if (s->missing[0] != '\0') printf("texts         of full length where there are none to plan with: %s\n", s->missing);
    bool head = true;
    for (int i = 0; i < s->points.axis_count; i++) print_rows(s, i, &head);
}

// ---- for programs ---------------------------------------------------------------------------------------------------------

static json_t *counts_json(const ft_survey *s) {
    json_t *object = json_object();
    for (int k = 0; k < FT_SURVEY_KINDS; k++) json_object_set_new(object, kind_names[k], json_integer((json_int_t)s->count[k]));
    return object;
}

static json_t *shares_json(const double share[FT_SURVEY_KINDS]) {
    json_t *object = json_object();
    for (int k = 0; k < FT_SURVEY_KINDS; k++) json_object_set_new(object, kind_names[k], json_real(share[k]));
    return object;
}

static json_t *options_json(const ft_survey *s, int64_t index, bool *failed) {
    const char *texts[FT_OPTION_LIMIT];
    ft_arena arena = {0};
    json_t *object = json_object();
    *failed |= ft_points_texts(&s->points, index, &arena, texts) != FT_OK;
    for (int i = 0; i < ft_option_count() && !*failed; i++)
        if (texts[i] != NULL) ft_json_put(object, ft_option_name(i), ft_json_text(texts[i]), failed);
    ft_arena_free(&arena);
    return object;
}

static json_t *worst_json(const ft_survey *s, bool *failed) {
    const ft_survey_point *w = &s->of[s->worst];
    return json_pack("{s:o, s:I, s:I, s:s}", "options", options_json(s, s->worst, failed), "peak_reserved_bytes", (json_int_t)w->bytes, "budget_bytes",
                     (json_int_t)w->budget, "verdict", kind_names[w->kind]);
}

static json_t *axis_json(const ft_survey *s, int axis, bool *failed) {
    ft_survey_row rows[FT_SURVEY_ROWS];
    int count;
    json_t *values = json_array();
    *failed |= ft_survey_by(s, axis, rows, &count) != FT_OK;
    for (int i = 0; i < count && !*failed; i++)
        ft_json_append(values, json_pack("{s:o, s:f, s:o, s:I}", "value", ft_json_text(rows[i].label), "weight", rows[i].weight, "share",
                                         shares_json(rows[i].share), "peak_reserved_bytes", (json_int_t)rows[i].most), failed);
    return json_pack("{s:s, s:o}", "name", s->points.axes[axis].rule->name, "values", values);
}

static json_t *names_json(const ft_survey *s, bool *failed) {
    bool listed[FT_OPTION_LIMIT] = {false};
    json_t *names = json_array();
    for (int i = 0; i < s->space.count; i++) {
        const int option = s->space.rules[i].option;
        if (!s->points.of_option[option] && !listed[option]) ft_json_append(names, json_string(ft_option_name(option)), failed);
        listed[option] = true;
    }
    return names;
}

static json_t *to_json(const ft_plan_task *task, const void *own) {
    const ft_survey *s = own;
    const ft_points *p = &s->points;
    bool failed = false;
    json_t *root = counts_json(s), *parameters = json_array();
    for (int i = 0; i < p->axis_count; i++)
        if (p->axes[i].matters) ft_json_append(parameters, axis_json(s, i, &failed), &failed);
    ft_json_put(root, "points", json_integer((json_int_t)(p->exhaustive ? p->count : p->count - p->corners)), &failed);
    ft_json_put(root, "exhaustive", json_boolean(p->exhaustive), &failed);
    if (!p->exhaustive) ft_json_put(root, "corners", json_integer((json_int_t)p->corners), &failed);
    if (!p->exhaustive) ft_json_put(root, "all_corners", json_boolean(p->all_corners), &failed);
    ft_json_put(root, "share", shares_json(s->share), &failed);
    ft_json_put(root, "worst", worst_json(s, &failed), &failed);
    ft_json_put(root, "parameters", parameters, &failed);
    ft_json_put(root, "no_byte_depends_on", names_json(s, &failed), &failed);
    ft_json_put(root, "memory_policy", json_string(ft_study_options_of(&task->config)->memory_policy), &failed);
    if (s->missing[0] != '\0') ft_json_put(root, "texts_missing", ft_json_text(s->missing), &failed);
    if (s->count[FT_SURVEY_INVALID] > 0) ft_json_put(root, "invalid_because", ft_json_text(s->invalid), &failed);
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

static size_t most(const void *own) {
    const ft_survey *s = own;
    return s->of[s->worst].bytes;
}

// ---- the command ----------------------------------------------------------------------------------------------------------

static const ft_plan_addition addition = {
    .wanted = wanted, .make = make, .print = print, .json = to_json, .most = most, .draw = ft_survey_draw, .verdict = verdict, .free = free_survey};

ft_status ft_command_plan(const ft_section *const *sections, int argc, char **argv) { return ft_plan_command(sections, argc, argv, &addition); }

// quote.c - `ftengine quote`: what a run or a study will take. Bytes are planned, seconds measured.
#include "hpo/commands/commands.h"

#include "base/context.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "engine/plan/plan.h"
#include "engine/train/quote.h"
#include "hpo/plan/survey.h"
#include "hpo/search/history/random_stream.h"
#include "hpo/search/sampler.h"
#include "hpo/space/fidelity.h"
#include "hpo/space/options_study.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 5, MOST_DRAWS = 64 };

typedef struct quoting {
    const ft_config *config;
    double seconds;
    int draws;
    bool json;
    const ft_words *words; // as they were given
    ft_plan plan;     // of the configuration, or of no study's alone
    ft_run_quote run; // of a run; of a study the sum over the measured trials
    ft_estimate total;
    // of a study
    bool study;
    ft_survey survey;
    int64_t trials, parallel;
    int measured;
    double each[MOST_DRAWS]; // seconds of a trial
} quoting;

// ---- a study ------------------------------------------------------------------------------------------------------

// Sets what a random draw of the space would, option by option the first line whose conditions hold.
static ft_status set_values(const ft_space *space, uint64_t seed, int64_t number, ft_config *config) {
    const char *values[FT_OPTION_LIMIT] = {NULL};
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        if (values[rule->option] != NULL || !ft_space_holds(rule, values)) continue;
        ft_random_stream stream =
            ft_random_stream_of(seed, number, FT_DRAW_UNIFORM, rule->name != NULL ? rule->name : "");
        values[rule->option] =
            rule->fixed != NULL
                ? rule->fixed
                : ft_space_value_text(rule, ft_value_of_uniform(&rule->distribution, ft_random_double(&stream)),
                                      &config->arena);
        if (values[rule->option] == NULL) return FT_NO_MEMORY;
    }
    for (int i = 0; i < ft_option_count(); i++)
        if (values[i] != NULL) FT_TRY(ft_option_set(config, ft_option_at(i), values[i], NULL, ft_option_at(i)->name));
    FT_TRY(ft_fidelity_apply(config, config));
    return ft_config_check(config);
}

// One that cannot be trained, or does not fit, is none that takes time: the next draw stands for it. *found false: so
// are many in a row.
static ft_status measure_trial(quoting *q, int64_t *next, bool *found) {
    const int64_t end = *next + 4 * q->draws;
    for (*found = false; !*found && *next < end; ++*next) {
        ft_config trial = *q->config;
        ft_run_quote one;
        trial.arena = (ft_arena){0};
        ft_status status = set_values(&q->survey.space, (uint64_t)ft_study_options_of(q->config)->seed, *next, &trial);
        if (status == FT_OK) status = ft_train_quote(&trial, q->seconds / q->draws, &one, NULL);
        ft_arena_free(&trial.arena);
        if (status == FT_INVALID || status == FT_NO_MEMORY) {
            ft_error_clear();
            continue;
        }
        FT_TRY(status);
        q->each[q->measured++] = one.total.seconds;
        q->run.measured_steps += one.measured_steps;
        q->run.measured_seconds += one.measured_seconds;
        *found = true;
    }
    return FT_OK;
}

// Trials are as different as those that were measured. At the least they share the machine without loss.
static void sum_up_study(quoting *q) {
    double sum = 0, squares = 0;
    const double n = q->measured, trials = (double)q->trials;
    for (int i = 0; i < q->measured; i++)
        sum += q->each[i];
    for (int i = 0; i < q->measured; i++)
        squares += (q->each[i] - sum / n) * (q->each[i] - sum / n);
    const double variance = n > 1 ? squares / (n - 1) : 0, total = trials * sum / n;
    const double error =
        fmax(n > 1 ? ft_student_t(q->measured - 1) * sqrt(trials * trials * variance / n + trials * variance) : total,
             0.05 * total);
    q->total = (ft_estimate){total, fmax(total - error, 0) / (double)q->parallel, total + error};
}

static ft_status quote_study(quoting *q) {
    const ft_study_options *o = ft_study_options_of(q->config);
    const ft_plan_request request = {.labels = 0};
    q->trials = o->trials;
    q->parallel = o->parallel == FT_AUTO || o->parallel < 1 ? 1 : o->parallel;
    if (q->trials == 0) {
        ft_fail(FT_INVALID, "study.trials", "a study without an end takes as long as you let it");
        ft_hint("study.trials=30 says how many are meant");
        return FT_INVALID;
    }
    FT_TRY(ft_survey_make(&(ft_survey_request){.config = q->config, .plan = &request}, &q->survey));
    if (q->survey.count[FT_OUTLOOK_FIT] + q->survey.count[FT_OUTLOOK_REFIT] == 0)
        return ft_fail(FT_NO_MEMORY, "[space]", "does not fit: none of %lld points; ftengine plan tells more",
                       (long long)q->survey.points.count);
    bool found = true;
    for (int64_t next = 0; q->measured < q->draws && found;)
        FT_TRY(measure_trial(q, &next, &found));
    if (q->measured == 0)
        return ft_fail(FT_INVALID, "[space]", "no trial that was drawn can be trained; ftengine plan tells more");
    sum_up_study(q);
    return FT_OK;
}

// ---- a run --------------------------------------------------------------------------------------------------------

static ft_status quote_run(quoting *q) {
    ft_memory_refusal refusal = {.bytes = 0};
    FT_TRY(ft_plan_run(q->config, &(ft_plan_request){.labels = 0}, &q->plan));
    if (q->plan.not_supported)
        return ft_fail(FT_NO_DEVICE, "device.name", "the kernels do not run on this card; ftengine plan tells more");
    if (!q->plan.fits) {
        char need[24], there[24];
        ft_fail(FT_NO_MEMORY, "plan", "does not fit: %s are needed, and %s may be taken",
                ft_bytes_text(q->plan.memory.peak_reserved, need), ft_bytes_text(q->plan.budget_bytes, there));
        ft_hint("ftengine plan says what would fit");
        return FT_NO_MEMORY;
    }
    FT_TRY(ft_train_quote(q->config, q->seconds, &q->run, &refusal));
    q->total = q->run.total;
    return FT_OK;
}

// ---- for people ---------------------------------------------------------------------------------------------------

static const char *time_text(double seconds, char out[32]) {
    const long s = lround(fmin(seconds, 1e9));
    if (seconds < 10)
        snprintf(out, 32, "%.1fs", seconds);
    else if (s < 60)
        snprintf(out, 32, "%lds", s);
    else if (s < 3600)
        snprintf(out, 32, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, 32, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    return out;
}

static void print_time(const char *name, ft_estimate e, const char *what) {
    char middle[32], low[32], high[32];
    if (e.high <= 0) return;
    printf("%-12s %-9s from %s to %s%s%s\n", name, time_text(e.seconds, middle), time_text(e.low, low),
           time_text(e.high, high), what[0] != '\0' ? "; " : "", what);
}

static void print_run(const quoting *q) {
    char bytes[24], host[24], what[120];
    const ft_run_quote *r = &q->run;
    printf("memory       %s (%zu bytes) of the device, %s for the whole process\n",
           ft_bytes_text(q->plan.memory.peak_reserved, bytes), q->plan.memory.peak_reserved,
           ft_bytes_text(q->plan.host.peak, host));
    snprintf(what, sizeof what, "%lld steps", (long long)r->total_steps);
    print_time("time", q->total, "with 95% if the machine goes on as it did");
    print_time("  start", r->start, "");
    print_time("  training", r->train, what);
    snprintf(what, sizeof what, "%lld times", (long long)r->evaluations);
    print_time("  evaluating", r->evaluate, what);
    snprintf(what, sizeof what, "the best model, and %lld checkpoints", (long long)r->checkpoints);
    print_time("  saving", r->save, what);
    print_time("  test set", r->test, "");
    if (r->runs > 1) printf("runs         %d, one after the other: all of these times are for all of them\n", r->runs);
    printf("measured     %lld steps in %.1f s", (long long)r->measured_steps, r->measured_seconds);
    if (r->tokens_per_second > 0) printf(", %.0f tokens/s", r->tokens_per_second);
    printf("\n");
}

static void print_study(const quoting *q) {
    char bytes[24];
    const size_t most = q->survey.of[q->survey.worst].bytes;
    double sum = 0, least = INFINITY, longest = 0;
    for (int i = 0; i < q->measured; i++)
        sum += q->each[i], least = fmin(least, q->each[i]), longest = fmax(longest, q->each[i]);
    printf("memory       %s (%zu bytes) of the device for the trial that takes most\n", ft_bytes_text(most, bytes),
           most);
    print_time("time", q->total,
               q->parallel > 1 ? "the shortest if parallel trials do not slow each other down"
                               : "with 95% if the machine goes on as it did");
    char mean[32], low[32], high[32];
    printf("a trial      %s on average; of %d that were drawn and measured from %s to %s; %lld trials\n",
           time_text(sum / q->measured, mean), q->measured, time_text(least, low), time_text(longest, high),
           (long long)q->trials);
}

// ---- for programs -------------------------------------------------------------------------------------------------

static json_t *estimate_json(ft_estimate e) {
    return json_pack("{s:o, s:o, s:o}", "estimate", ft_json_rounded(e.seconds, 6), "low", ft_json_rounded(e.low, 6),
                     "high", ft_json_rounded(e.high, 6));
}

static void put_run(json_t *root, const quoting *q, bool *failed) {
    const ft_run_quote *r = &q->run;
    ft_json_put(root, "plan", ft_plan_json(&q->plan), failed);
    ft_json_put(root, "peak_reserved_bytes", json_integer((json_int_t)q->plan.memory.peak_reserved), failed);
    ft_json_put(root, "runs", json_integer(r->runs), failed);
    ft_json_put(root, "total_steps", json_integer((json_int_t)r->total_steps), failed);
    ft_json_put(root, "evaluations", json_integer((json_int_t)r->evaluations), failed);
    ft_json_put(root, "checkpoints", json_integer((json_int_t)r->checkpoints), failed);
    ft_json_put(root, "parts",
                json_pack("{s:o, s:o, s:o, s:o, s:o}", "start", estimate_json(r->start), "train",
                          estimate_json(r->train), "evaluate", estimate_json(r->evaluate), "save",
                          estimate_json(r->save), "test", estimate_json(r->test)),
                failed);
}

static void put_study(json_t *root, const quoting *q, bool *failed) {
    json_t *each = json_array();
    for (int i = 0; i < q->measured; i++)
        ft_json_append(each, ft_json_rounded(q->each[i], 6), failed);
    ft_json_put(root, "peak_reserved_bytes", json_integer((json_int_t)q->survey.of[q->survey.worst].bytes), failed);
    ft_json_put(root, "trials", json_integer((json_int_t)q->trials), failed);
    ft_json_put(root, "parallel", json_integer((json_int_t)q->parallel), failed);
    ft_json_put(root, "trial_seconds", each, failed);
}

static ft_status print_json(const quoting *q) {
    bool failed = false;
    json_t *root = json_object();
    ft_json_put(root, "format_version", json_integer(1), &failed);
    ft_json_put(root, "kind", json_string(q->study ? "study" : "run"), &failed);
    ft_json_put(root, "seconds", estimate_json(q->total), &failed);
    (q->study ? put_study : put_run)(root, q, &failed);
    ft_json_put(root, "measured",
                json_pack("{s:I, s:o, s:o}", "steps", (json_int_t)q->run.measured_steps, "seconds",
                          ft_json_rounded(q->run.measured_seconds, 6), "tokens_per_second",
                          q->run.tokens_per_second > 0 ? ft_json_rounded(q->run.tokens_per_second, 6) : json_null()),
                &failed);
    ft_document_next(root, q->study ? "tune" : "train", NULL, q->words, &failed);
    return ft_print_document(root, failed);
}

// ---- the command --------------------------------------------------------------------------------------------------

static ft_status number_of(const char *flag, const char *text, double least, double most, double *out) {
    char *end;
    if (text == NULL) return FT_OK;
    *out = strtod(text, &end);
    if (end != text && (*end == '\0' || strcmp(end, "s") == 0) && *out >= least && *out <= most) return FT_OK;
    return ft_fail(FT_INVALID, flag, "takes a number from %g to %g, got '%.40s'", least, most, text);
}

static ft_status quote(quoting *q) {
    q->study = q->config->lines.count > 0;
    FT_TRY(q->study ? quote_study(q) : quote_run(q));
    if (q->json) return print_json(q);
    (q->study ? print_study : print_run)(q);
    return FT_OK;
}

ft_status ft_command_quote(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    quoting *q = ft_calloc(1, sizeof *q, "a quote");
    if (q == NULL) return FT_NO_MEMORY;
    const char *seconds = NULL, *draws = NULL;
    double wanted = DRAWS;
    q->seconds = 10;
    const ft_flag flags[] = {{"--seconds", &seconds, NULL}, {"--draws", &draws, NULL}, {"--json", NULL, &q->json}};
    ft_status status = ft_parse_words("quote", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK) status = number_of("--seconds", seconds, 0, 3600, &q->seconds);
    if (status == FT_OK) status = number_of("--draws", draws, 1, MOST_DRAWS, &wanted);
    q->draws = (int)wanted;
    if (status == FT_OK && words.plain_count == 0 && words.override_count == 0) {
        status = ft_fail(FT_INVALID, "quote", "no configuration given");
        ft_hint("ftengine quote CONFIG.ini [section.key=value ...]; ftengine help quote");
    }
    if (status == FT_OK)
        status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count,
                                     words.overrides);
    q->config = &config;
    q->words = &words;
    if (status == FT_OK) status = quote(q);
    ft_survey_free(&q->survey);
    free(q);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}

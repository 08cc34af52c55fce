// search_quality.c - ftengine's side of search_quality.py, as lines of JSON:
//     search_quality check                          a few random trials of every problem: spaces, values, constraints
//     search_quality run SETTINGS SEEDS TRIALS [PROBLEM...]   the best feasible value after 50, 200, 1000, ... trials
//     search_quality train SETTINGS SEEDS TRIALS [PROBLEM...] the same of the problems that settings are chosen on
//     search_quality serve SETTINGS                 problems of another program (search_unseen.py): lines in, answers out
// SETTINGS is "default" or a list such as "branch_split=1,quasi_startup=1,group=1,multivariate=0".
#include "benchmarks/search/search_problems.h"
#include "hpo/storage/distribution_json.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- one trial ------------------------------------------------------------------------------------------------------

static double ask(asker *a, const char *name, ft_status made, const ft_distribution *d) {
    double value = 0;
    int name_id, distribution_id;
    if (a->status == FT_OK) a->status = made;
    if (a->status == FT_OK) a->status = ft_sampler_suggest(a->sampler, a->number, name, d, &value);
    if (a->status == FT_OK) a->status = ft_trials_name(a->trials, name, &name_id);
    if (a->status == FT_OK) a->status = ft_trials_distribution(a->trials, d, &distribution_id);
    if (a->status == FT_OK) a->status = ft_trials_set_param(a->trials, a->number, name_id, distribution_id, value);
    return a->status == FT_OK ? value : 0;
}

double ask_float(asker *a, const char *name, double low, double high, bool log) {
    ft_distribution d;
    return ask(a, name, ft_distribution_float(name, low, high, log, 0, &d), &d);
}

double ask_step(asker *a, const char *name, double low, double high, double step) {
    ft_distribution d;
    return ask(a, name, ft_distribution_float(name, low, high, false, step, &d), &d);
}

double ask_int(asker *a, const char *name, int low, int high, bool log) {
    ft_distribution d;
    return ask(a, name, ft_distribution_int(name, low, high, log, 1, &d), &d);
}

int ask_choice(asker *a, const char *name, int count, const char *const *texts) {
    ft_choice choices[8];
    ft_distribution d;
    for (int i = 0; i < count; i++)
        choices[i] = (ft_choice){.kind = FT_CHOICE_TEXT, .text = texts[i]};
    return (int)ask(a, name, ft_distribution_categorical(name, a->arena, choices, count, &d), &d);
}

void constrain(asker *a, double value) { a->constraints[a->constraint_count++] = value; }

static ft_status one_trial(const problem *p, uint64_t instance, ft_sampler *sampler, ft_trials *trials, ft_arena *arena,
                           double *value, bool *feasible) {
    asker a = {.sampler = sampler, .trials = trials, .arena = arena, .instance = instance};
    FT_TRY(ft_trials_append(trials, FT_RUNNING, &a.number));
    *value = p->value(&a);
    FT_TRY(a.status);
    *feasible = true;
    for (int i = 0; i < a.constraint_count; i++) {
        char name[8];
        int id;
        snprintf(name, sizeof name, "%d", i);
        FT_TRY(ft_trials_constraint_name(trials, name, &id));
        FT_TRY(ft_trials_set_constraint(trials, a.number, id, a.constraints[i]));
        *feasible = *feasible && a.constraints[i] <= 0;
    }
    return ft_trials_finish(trials, a.number, FT_COMPLETE, value, 1);
}

// ---- run ------------------------------------------------------------------------------------------------------------

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ft_status with_sampler(const problem *p, const ft_sampler_options *options, int count, ft_trials *trials,
                              ft_sampler *sampler) {
    static const int marks[] = {50, 200, 1000, 5000};
    double best = INFINITY, start = seconds();
    ft_arena arena = {0}; // of the lists of choices
    printf("{\"problem\": \"%s\", \"seed\": %llu, \"best\": {", p->name, (unsigned long long)options->seed);
    ft_status status = FT_OK;
    for (int n = 1, mark = 0; status == FT_OK && n <= count; n++) {
        double value;
        bool feasible;
        status = one_trial(p, options->seed, sampler, trials, &arena, &value, &feasible);
        ft_arena_free(&arena);
        if (status == FT_OK && feasible && value < best) best = value;
        if (n != marks[mark]) continue;
        printf("%s\"%d\": ", mark > 0 ? ", " : "", n);
        ft_pyjson_write_number(stdout, best);
        mark++;
    }
    printf("}, \"seconds\": %.3f}\n", seconds() - start);
    return status;
}

static ft_status study(const problem *p, const ft_sampler_options *options, int count) {
    ft_trials trials;
    ft_sampler *sampler;
    FT_TRY(ft_trials_init(&trials, 1, (bool[]){false}));
    ft_status status = ft_sampler_new(options, &trials, &sampler);
    if (status == FT_OK) status = with_sampler(p, options, count, &trials, sampler);
    ft_sampler_free(sampler);
    ft_trials_free(&trials);
    return status;
}

static ft_status set(ft_sampler_options *options, const char *key, int value) {
    if (strcmp(key, "branch_split") == 0)
        options->branch_split = value != 0;
    else if (strcmp(key, "branch_joint") == 0)
        options->branch_joint = value != 0;
    else if (strcmp(key, "fine") == 0)
        options->fine = value != 0 ? FT_SWITCH_ON : FT_SWITCH_OFF;
    else if (strcmp(key, "quasi_startup") == 0)
        options->quasi_startup = value != 0;
    else if (strcmp(key, "failed") == 0)
        options->failed = value != 0;
    else if (strcmp(key, "group") == 0)
        options->group = value != 0;
    else if (strcmp(key, "multivariate") == 0)
        options->multivariate = value != 0 ? FT_SWITCH_ON : FT_SWITCH_OFF;
    else if (strcmp(key, "startup_trials") == 0)
        options->startup_trials = value;
    else if (strcmp(key, "candidates") == 0)
        options->candidates = value;
    else if (strcmp(key, "random") == 0)
        options->kind = value != 0 ? FT_SAMPLER_RANDOM : FT_SAMPLER_TPE;
    else if (strcmp(key, "gp") == 0)
        options->kind = value != 0 ? FT_SAMPLER_GP : FT_SAMPLER_TPE;
    else if (strcmp(key, "auto") == 0)
        options->kind = value != 0 ? FT_SAMPLER_AUTO : FT_SAMPLER_TPE;
    else if (strcmp(key, "cmaes") == 0)
        options->kind = value != 0 ? FT_SAMPLER_CMAES : FT_SAMPLER_TPE;
    else if (strcmp(key, "long_cmaes") == 0)
        options->long_cmaes = value != 0;
    else if (strcmp(key, "warp") == 0)
        options->gp.warp = (ft_gp_warp)value;
    else if (strcmp(key, "fitted") == 0)
        options->gp.fitted = value;
    else if (strcmp(key, "gp_candidates") == 0)
        options->gp.candidates = value;
    else if (strcmp(key, "rough") == 0)
        options->gp.rough = value != 0;
    else if (strcmp(key, "starts") == 0)
        options->gp.starts = value;
    else
        return ft_fail(FT_INVALID, key, "unknown setting");
    return FT_OK;
}

static ft_status settings_of(char *text, ft_sampler_options *options) {
    *options = ft_sampler_defaults();
    if (strcmp(text, "default") == 0) return FT_OK;
    for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(word, '=');
        if (equals == NULL) return ft_fail(FT_INVALID, word, "a setting is KEY=NUMBER");
        *equals = '\0';
        FT_TRY(set(options, word, atoi(equals + 1)));
    }
    return FT_OK;
}

static ft_status run(const problem *list, int count, int argc, char **argv) {
    ft_sampler_options options;
    FT_TRY(settings_of(argv[0], &options));
    int seeds = atoi(argv[1]), trials = atoi(argv[2]);
    for (int seed = 0; seed < seeds; seed++)
        for (int i = 0; i < count; i++) {
            bool wanted = argc == 3;
            for (int k = 3; k < argc; k++)
                wanted = wanted || strcmp(argv[k], list[i].name) == 0;
            options.seed = (uint64_t)seed;
            if (wanted) FT_TRY(study(&list[i], &options, trials));
        }
    return FT_OK;
}

// ---- check ----------------------------------------------------------------------------------------------------------

static ft_status print_params(const ft_trials *trials, const ft_trial *t) {
    for (int i = 0; i < t->param_count; i++) {
        const ft_distribution *d = trials->distributions[t->params[i].distribution];
        char *json;
        FT_TRY(ft_distribution_to_json(d, &json));
        printf("%s\"%s\": [%s, %.17g]", i > 0 ? ", " : "", trials->names.name[t->params[i].name], json,
               t->params[i].value);
        free(json);
    }
    return FT_OK;
}

static ft_status check_problem(const problem *p, ft_sampler *sampler, ft_trials *trials) {
    enum { CHECKED = 20 };
    ft_arena arena = {0};
    ft_status status = FT_OK;
    for (int n = 0; status == FT_OK && n < CHECKED; n++) {
        double value;
        bool feasible;
        status = one_trial(p, 0, sampler, trials, &arena, &value, &feasible);
        ft_arena_free(&arena);
        if (status != FT_OK) break;
        const ft_trial *t = &trials->trial[n];
        printf("{\"problem\": \"%s\", \"kind\": \"%s\", \"what\": \"%s\", \"params\": {", p->name, p->kind, p->what);
        status = print_params(trials, t);
        printf("}, \"value\": %.17g, \"constraints\": [", value);
        for (int i = 0; i < t->constraint_count; i++)
            printf("%s%.17g", i > 0 ? ", " : "", t->constraints[i].value);
        puts("]}");
    }
    return status;
}

static ft_status check(void) {
    for (int i = 0; i < problem_count; i++) {
        ft_sampler_options options = ft_sampler_defaults();
        options.kind = FT_SAMPLER_RANDOM;
        ft_trials trials;
        ft_sampler *sampler;
        FT_TRY(ft_trials_init(&trials, 1, (bool[]){false}));
        FT_TRY(ft_sampler_new(&options, &trials, &sampler));
        FT_TRY(check_problem(&problems[i], sampler, &trials));
        ft_sampler_free(sampler);
        ft_trials_free(&trials);
    }
    return FT_OK;
}

// ---- serve ----------------------------------------------------------------------------------------------------------
// study SEED [OBJECTIVES]; learn NAME: the study so far is what the next ones learn from, with those before (`cold SEED`: a study that learns from none); axes: its
// parameters are those of the study that learns, else they are the first teacher's. For each trial: trial; float NAME LOW HIGH LOG STEP, int NAME LOW HIGH LOG and choice NAME COUNT, which are answered
// with a value, a choice with its index; constraint VALUE; complete VALUE... or fail.

enum { MOST_OBJECTIVES = 3 };

typedef struct serving {
    ft_sampler_options options;
    ft_trials trials;
    ft_arena arena;
    asker a;
    ft_lessons lessons;
    ft_arena learnt; // the lessons'
} serving;

static ft_status new_study(serving *s, uint64_t seed, int objectives, bool warm) {
    static const bool maximize[MOST_OBJECTIVES]; // none
    if (objectives < 1 || objectives > MOST_OBJECTIVES) return ft_fail(FT_INVALID, "serve", "%d objectives", objectives);
    ft_sampler_free(s->a.sampler);
    ft_trials_free(&s->trials);
    s->options.seed = seed;
    s->options.lessons = warm && s->lessons.sources > 0 ? &s->lessons : NULL;
    s->a = (asker){.trials = &s->trials, .arena = &s->arena};
    FT_TRY(ft_trials_init(&s->trials, objectives, maximize));
    return ft_sampler_new(&s->options, &s->trials, &s->a.sampler);
}

static ft_status axes(serving *s) {
    const ft_trials *t = &s->trials;
    for (int64_t i = 0; i < t->count; i++)
        for (int p = 0; p < t->trial[i].param_count; p++)
            FT_TRY(ft_lessons_axis(&s->lessons, &s->learnt, t->names.name[t->trial[i].params[p].name],
                                   t->distributions[t->trial[i].params[p].distribution]));
    return FT_OK;
}

static ft_status learn(serving *s, const char *name) {
    if (s->lessons.axes == 0) FT_TRY(axes(s));
    return ft_lessons_add(&s->lessons, &s->learnt, name, &s->trials);
}

static ft_status serve_line(serving *s, const char *line) {
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    asker *a = &s->a;
    char name[64];
    double low, high, value, values[MOST_OBJECTIVES];
    int log, count, objectives = 1;
    unsigned long long seed;
    if (sscanf(line, "study %llu %d", &seed, &objectives) >= 1) return new_study(s, seed, objectives, true);
    if (sscanf(line, "cold %llu", &seed) == 1) return new_study(s, seed, 1, false);
    if (a->sampler == NULL) return ft_fail(FT_INVALID, "serve", "study SEED comes first");
    if (sscanf(line, "learn %63s", name) == 1) return learn(s, name);
    if (strcmp(line, "axes\n") == 0) return axes(s);
    if (strcmp(line, "trial\n") == 0) {
        ft_arena_free(&s->arena);
        return ft_trials_append(&s->trials, FT_RUNNING, &a->number);
    }
    if (strcmp(line, "fail\n") == 0) return ft_trials_finish(&s->trials, a->number, FT_FAIL, NULL, 0);
    count = sscanf(line, "complete %lf %lf %lf", &values[0], &values[1], &values[2]);
    if (count >= 1) return ft_trials_finish(&s->trials, a->number, FT_COMPLETE, values, count);
    if (sscanf(line, "constraint %lf", &value) == 1) {
        FT_TRY(ft_trials_constraint_name(&s->trials, "0", &count));
        return ft_trials_set_constraint(&s->trials, a->number, count, value);
    }
    if (sscanf(line, "float %63s %lf %lf %d %lf", name, &low, &high, &log, &value) == 5)
        value = value > 0 ? ask_step(a, name, low, high, value) : ask_float(a, name, low, high, log != 0);
    else if (sscanf(line, "int %63s %lf %lf %d", name, &low, &high, &log) == 4)
        value = ask_int(a, name, (int)low, (int)high, log != 0);
    else if (sscanf(line, "choice %63s %d", name, &count) == 2 && count >= 1 && count <= 8)
        value = ask_choice(a, name, count, digits);
    else
        return ft_fail(FT_INVALID, "serve", "no such question: %.60s", line);
    printf("%.17g\n", value);
    return a->status;
}

static ft_status serve(char *settings) {
    serving s = {0};
    char line[256];
    ft_status status = settings_of(settings, &s.options);
    while (status == FT_OK && fgets(line, sizeof line, stdin) != NULL) {
        status = serve_line(&s, line);
        fflush(stdout);
    }
    ft_sampler_free(s.a.sampler);
    ft_trials_free(&s.trials);
    ft_arena_free(&s.arena);
    ft_arena_free(&s.learnt);
    return status;
}

int main(int argc, char **argv) {
    ft_status status = FT_INVALID;
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        status = check();
    else if (argc >= 5 && strcmp(argv[1], "run") == 0)
        status = run(problems, problem_count, argc - 2, argv + 2);
    else if (argc >= 5 && strcmp(argv[1], "train") == 0)
        status = run(training_problems, training_problem_count, argc - 2, argv + 2);
    else if (argc == 3 && strcmp(argv[1], "serve") == 0)
        status = serve(argv[2]);
    else
        ft_fail(FT_INVALID, argv[0], "usage: search_quality check | run|train SETTINGS SEEDS TRIALS [PROBLEM...] | serve SETTINGS");
    if (status != FT_OK) fprintf(stderr, "error: %s (%s)\n", ft_error_message(), ft_error_where());
    return (int)status;
}

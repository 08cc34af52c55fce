// ask.c - the next trial: one that was cut off, one that waits in the queue, or a new one. Its number, parameters
// and attributes reach the file in one transaction.
#include "hpo/search/sampler.h"
#include "hpo/space/fidelity.h"
#include "hpo/study/study.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "hpo/study/pausing.h"
#include "hpo/study/slots.h"
#include "hpo/study/thaw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// By this attribute a trial is known as ours, and its files are found.
static const char directory_key[] = "directory";

static void trial_name(int64_t number, char out[48]) { snprintf(out, 48, "trials/%05lld", (long long)number); }

char *ft_tuning_trial_directory(const ft_tuning *t, int64_t number, ft_arena *arena) {
    char name[48];
    trial_name(number, name);
    return ft_path_join(arena, t->directory, name);
}

bool ft_tuning_is_ours(ft_tuning *t, int64_t number) {
    if (ft_tuning_ended_last(t, number)) return true;
    const char *json = NULL;
    ft_arena arena = {0};
    ft_status status = ft_stored_attribute(t->study, number, FT_USER_ATTRIBUTE, directory_key, &arena, &json);
    bool ours = status == FT_OK && json != NULL;
    ft_arena_free(&arena);
    return ours;
}

// ---- values ---------------------------------------------------------------------------------------------------------

// A fixed value of the queue as the distribution holds it; false when it lies outside.
static bool internal_value(const ft_distribution *d, const ft_choice *choice, double *value) {
    bool whole = choice->kind == FT_CHOICE_INT, number = whole || choice->kind == FT_CHOICE_FLOAT;
    *value = d->kind == FT_CATEGORICAL ? (double)ft_distribution_find_choice(d, choice)
             : whole                   ? (double)choice->integer
                                       : choice->number;
    if (d->kind == FT_CATEGORICAL) return *value >= 0;
    if (!number || !isfinite(*value) || (d->kind == FT_INT && *value != floor(*value))) return false;
    return ft_distribution_contains(d, *value);
}

typedef struct deciding {
    ft_tuning *tuning;
    int64_t number;
    bool fresh; // parameters are drawn and stored; else those that are stored are read
    const ft_fixed_param *fixed;
    int fixed_count;
    bool *used; // [fixed_count]
    ft_arena *arena;
    const char **values; // [FT_OPTION_LIMIT] by option
} deciding;

// The first trial of a study that learns from others is the configuration as it is, or what of the space is nearest to it.
static bool own_value(const deciding *d, const ft_space_rule *rule, double *value) {
    const ft_tuning *t = d->tuning;
    const ft_distribution *of = &rule->distribution;
    char scratch[FT_OPTION_TEXT_LIMIT], *end;
    if (d->number != 0 || t->lessons == NULL || t->place.name == NULL) return false; // another program's parameters are no options
    const char *text = ft_option_get(t->config, ft_option_at(rule->option), scratch);
    double x = strtod(text, &end);
    const bool number = *text != '\0' && *end == '\0' && isfinite(x);
    for (int i = 0; of->kind == FT_CATEGORICAL && i < of->choice_count; i++) {
        char *rest;
        const double choice = strtod(rule->choices[i], &rest);
        if (strcmp(rule->choices[i], text) != 0 && !(number && *rest == '\0' && choice == x)) continue;
        *value = i;
        return true;
    }
    if (of->kind == FT_CATEGORICAL || !number) return false;
    if (of->step != 0) x = of->low + nearbyint((x - of->low) / of->step) * of->step;
    *value = fmin(fmax(x, of->low), of->high);
    return ft_distribution_contains(of, *value);
}

static ft_status drawn_value(deciding *d, const ft_space_rule *rule, double *value) {
    for (int i = 0; i < d->fixed_count; i++) {
        if (strcmp(d->fixed[i].name, rule->name) != 0) continue;
        d->used[i] = true;
        if (internal_value(&rule->distribution, &d->fixed[i].value, value)) return FT_OK;
        ft_warn("trial %lld: the value that was enqueued for %s is not in the space; another one is drawn",
                (long long)d->number, rule->name);
    }
    if (own_value(d, rule, value)) return FT_OK;
    return ft_sampler_suggest(d->tuning->sampler, d->number, rule->name, &rule->distribution, value);
}

static ft_status decide_drawn(deciding *d, const ft_space_rule *rule) {
    ft_stored *study = d->tuning->study;
    const int name = ft_trials_find_name(&study->trials, rule->name);
    const ft_trial_param *known = name >= 0 ? ft_trial_find_param(&study->trials.trial[d->number], name) : NULL;
    double value;
    bool there = known != NULL && ft_distribution_contains(&rule->distribution, known->value);
    if (there)
        value = known->value;
    else if (!d->fresh)
        return ft_fail(FT_INVALID, rule->name, "trial %lld has no value of it in this space", (long long)d->number);
    else {
        FT_TRY(drawn_value(d, rule, &value));
        FT_TRY(ft_stored_param(study, d->number, rule->name, &rule->distribution, value));
    }
    d->values[rule->option] = ft_space_value_text(rule, value, d->arena);
    return d->values[rule->option] != NULL ? FT_OK : FT_NO_MEMORY;
}

// A fixed value as an attribute of the trial, a number where it is one.
static ft_status store_fixed(deciding *d, const ft_space_rule *rule) {
    const ft_option *option = ft_option_at(rule->option);
    ft_choice value = {.kind = FT_CHOICE_TEXT, .text = rule->fixed};
    bool number = strcmp(rule->fixed, "auto") != 0;
    if (number && option->type == FT_OPTION_INT)
        value = (ft_choice){.kind = FT_CHOICE_INT, .integer = strtoll(rule->fixed, NULL, 10)};
    if (number && option->type == FT_OPTION_FLOAT)
        value = (ft_choice){.kind = FT_CHOICE_FLOAT, .number = strtod(rule->fixed, NULL)};
    if (option->type == FT_OPTION_BOOL)
        value = (ft_choice){.kind = FT_CHOICE_BOOL, .integer = strcmp(rule->fixed, "true") == 0};
    return ft_stored_set_scalar(d->tuning->study, d->number, FT_USER_ATTRIBUTE, option->name, &value);
}

// Option by option the first rule whose conditions hold.
static ft_status decide(deciding *d) {
    const ft_space *space = &d->tuning->space;
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        if (d->values[rule->option] != NULL || !ft_space_holds(rule, d->values)) continue;
        if (rule->fixed == NULL) {
            FT_TRY(decide_drawn(d, rule));
            continue;
        }
        d->values[rule->option] = rule->fixed;
        if (d->fresh) FT_TRY(store_fixed(d, rule));
    }
    for (int i = 0; i < d->fixed_count; i++)
        if (!d->used[i])
            ft_warn("trial %lld: %s was enqueued, and this trial has no such parameter", (long long)d->number,
                    d->fixed[i].name);
    return FT_OK;
}

// ---- the next trial -------------------------------------------------------------------------------------------------

ft_status ft_tuning_draw(ft_tuning *t, int64_t number, bool queued, ft_arena *arena, const char **values) {
    deciding d = {.tuning = t, .number = number, .fresh = true, .arena = arena, .values = values};
    ft_fixed_param *fixed = NULL;
    if (queued) FT_TRY(ft_stored_fixed(t->study, number, arena, &fixed, &d.fixed_count));
    d.fixed = fixed;
    d.used = ft_arena_alloc(arena, (size_t)d.fixed_count + 1);
    if (d.used == NULL) return FT_NO_MEMORY;
    FT_TRY(decide(&d));
    return ft_trials_forget_relative(&t->study->trials, number); // of branches that it did not take
}

static ft_status fill(ft_tuning *t, int64_t number, bool queued, ft_arena *arena) {
    const char *values[FT_OPTION_LIMIT] = {NULL};
    char name[48];
    trial_name(number, name);
    char *directory = ft_tuning_trial_directory(t, number, arena);
    if (directory == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_tuning_draw(t, number, queued, arena, values));
    // What lies there was left by a study of this name in this database (owner.c) that was deleted, and would be
    // taken for this trial's.
    FT_TRY(ft_remove_tree(directory));
    return ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, directory_key,
                                &(ft_choice){.kind = FT_CHOICE_TEXT, .text = name});
}

// Trials that run and those that are left to do; -1 of the latter: without end. One that nobody runs any more, of which
// there are *left, is on its way to a coordinator, or paused, and counts too.
ft_status ft_tuning_may_ask(ft_tuning *t, bool *may, int64_t *left) {
    int64_t elsewhere, to_do = ft_tuning_to_do(t);
    FT_TRY(ft_tuning_count_running(t, &elsewhere, left));
    int64_t others = t->add > 0 ? 0 : elsewhere + *left;
    *may = to_do < 0 || ft_slots_running(t) + others < to_do;
    return FT_OK;
}

// A grid is at its end when nobody runs a point of it that might have to be tried again.
static ft_status end_grid(ft_tuning *t) {
    int64_t elsewhere, left;
    FT_TRY(ft_tuning_count_running(t, &elsewhere, &left));
    if (elsewhere + left == 0) t->stopped_by = "every point of the grid was tried";
    return FT_OK;
}

// `choice`: where freeze-thaw wants it to be, NULL: the sampler says.
static ft_status make_trial(ft_tuning *t, const ft_pausing_choice *choice, int64_t *number) {
    FT_TRY(ft_stored_pop(t->study, number));
    const bool queued = *number >= 0;
    if (!queued) {
        int64_t left;
        FT_TRY(ft_sampler_left(t->sampler, &left));
        if (left == 0) return end_grid(t);
        FT_TRY(ft_stored_ask(t->study, FT_RUNNING, number));
        if (choice != NULL) FT_TRY(ft_tuning_place(t, *number, choice));
    }
    t->fresh = queued ? -1 : *number;
    FT_TRY(ft_tuning_claim_surely(t, *number));
    ft_arena arena = {0};
    ft_status status = fill(t, *number, queued, &arena);
    if (status == FT_OK) status = ft_stored_heartbeat(t->study, *number);
    ft_arena_free(&arena);
    return status;
}

// `at_once`: nobody has looked yet whether there is one that was cut off, which comes before new ones.
static ft_status begin_trial(ft_tuning *t, bool at_once, int64_t *number) {
    bool may;
    int64_t cut_off;
    FT_TRY(ft_stored_refresh(t->study));
    FT_TRY(ft_tuning_may_ask(t, &may, &cut_off));
    if (!may || (at_once && cut_off > 0)) return FT_OK;
    return make_trial(t, NULL, number);
}

// Another one's worker may be dying in the directory. Should it be somebody else who stays there, people are told.
static ft_status is_held(ft_tuning *t, int64_t number, bool *held) {
    static const double TELL_EVERY = 30; // seconds
    ft_arena arena = {0};
    const char *directory = ft_tuning_trial_directory(t, number, &arena);
    *held = directory != NULL && ft_trial_held(directory);
    const double now = ft_now();
    if (*held && t->held == 0) t->held = now;
    if (*held && now - t->held > TELL_EVERY) {
        ft_warn("trial %lld waits: another process is training in %s", (long long)number, directory);
        t->held = now;
    }
    ft_arena_free(&arena);
    return directory != NULL ? FT_OK : FT_NO_MEMORY;
}

// One that was cut off, if nobody runs it and nobody is in its directory any more. *held: somebody is.
static ft_status take_up_one(ft_tuning *t, int64_t i, bool *taken, bool *held) {
    const ft_trials *trials = &t->study->trials;
    bool got;
    *taken = *held = false;
    FT_TRY(ft_tuning_claim(t, i, &got));
    if (!got) return FT_OK;
    ft_status status = ft_stored_refresh(t->study); // its coordinator may have ended it before it let go
    const bool running = status == FT_OK && trials->trial[i].state == FT_RUNNING;
    if (running) status = is_held(t, i, held);
    if (running && status == FT_OK && !*held && (status = ft_stored_heartbeat(t->study, i)) == FT_OK) {
        *taken = true;
        return FT_OK;
    }
    ft_tuning_release(t, i);
    return status;
}

// The first of them.
static ft_status take_up(ft_tuning *t, int64_t *number) {
    const ft_trials *trials = &t->study->trials;
    int64_t elsewhere, left, to_do = ft_tuning_to_do(t);
    bool held = false;
    *number = -1;
    FT_TRY(ft_tuning_count_running(t, &elsewhere, &left));
    if (left == 0 || (to_do >= 0 && ft_slots_running(t) + (t->add > 0 ? 0 : elsewhere) >= to_do)) return FT_OK;
    for (int64_t i = 0; i < trials->count; i++) {
        bool taken, held_now;
        if (trials->trial[i].state != FT_RUNNING || ft_slots_of(t, i) != NULL || !ft_tuning_is_ours(t, i)) continue;
        FT_TRY(take_up_one(t, i, &taken, &held_now));
        held |= held_now;
        if (!taken) continue;
        *number = i;
        return FT_OK;
    }
    if (!held) t->held = 0;
    return FT_OK;
}

static ft_status begin_in_a_group(ft_tuning *t, bool at_once, int64_t *number) {
    FT_TRY(ft_storage_begin(t->storage));
    ft_status status = begin_trial(t, at_once, number);
    if (status == FT_OK) status = ft_storage_commit(t->storage);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_storage_rollback(t->storage);
    if (*number >= 0) ft_tuning_release(t, *number);
    *number = -1;
    ft_error_restore(&error);
    return status;
}

// Those that are given up; their claims were free at the look.
static ft_status give_up(ft_tuning *t, ft_next_stage *next) {
    int count = 0;
    for (int i = 0; i < next->gives_up_count; i++) {
        bool got;
        FT_TRY(ft_tuning_claim(t, next->gives_up[i], &got));
        if (!got) continue;
        next->gives_up[count++] = next->gives_up[i];
        FT_TRY(ft_tuning_give_up(t, next->gives_up[count - 1]));
    }
    next->gives_up_count = count;
    return FT_OK;
}

static ft_status decide_next_stage(ft_tuning *t, ft_arena *arena, ft_next_stage *next, int64_t *number) {
    bool may;
    int64_t left;
    FT_TRY(ft_stored_refresh(t->study));
    FT_TRY(ft_tuning_may_ask(t, &may, &left));
    FT_TRY(ft_tuning_next_stage(t, may, arena, next));
    FT_TRY(give_up(t, next));
    return next->choice.trial == FT_FREEZE_THAW_NEW ? make_trial(t, &next->choice, number) : FT_OK;
}

// Freeze-thaw: the look, what is decided by it and the begin of a new trial are one group.
static ft_status next_stage(ft_tuning *t, ft_arena *arena, int64_t *number) {
    ft_next_stage next = {0};
    bool taken = false, held = false;
    ft_error error;
    FT_TRY(ft_storage_begin(t->storage));
    ft_status status = decide_next_stage(t, arena, &next, number);
    if (status == FT_OK) status = ft_storage_commit(t->storage);
    if (status != FT_OK) {
        ft_error_save(&error);
        ft_storage_rollback(t->storage);
        if (*number >= 0) ft_tuning_release(t, *number);
        *number = -1;
        ft_error_restore(&error);
    }
    for (int i = 0; i < next.gives_up_count; i++)
        ft_tuning_release(t, next.gives_up[i]);
    FT_TRY(status);
    for (int i = 0; i < next.gives_up_count; i++) {
        t->ran++;
        ft_tuning_track(t, next.gives_up[i]);
        ft_display_finished(t, next.gives_up[i]);
    }
    if (next.gives_up_count > 0) FT_TRY(ft_tuning_tidy(t, false));
    if (next.choice.trial < 0) return FT_OK;
    FT_TRY(take_up_one(t, next.choice.trial, &taken, &held));
    if (!held) t->held = 0;
    if (taken) *number = next.choice.trial;
    return FT_OK;
}

// One that waits for others does not keep them from writing. One that does not wait saves a look: it has one in the
// group.
ft_status ft_tuning_next(ft_tuning *t, int64_t *number) {
    const bool at_once = t->asks;
    bool may;
    int64_t cut_off;
    *number = -1;
    t->asks = false;
    if (ft_tuning_pauses(t)) {
        ft_arena arena = {0};
        ft_status status = next_stage(t, &arena, number);
        ft_arena_free(&arena);
        return status;
    }
    if (at_once) FT_TRY(begin_in_a_group(t, true, number));
    if (*number < 0 && t->stopped_by == NULL) {
        FT_TRY(ft_stored_refresh(t->study));
        FT_TRY(take_up(t, number));
        if (*number >= 0) return FT_OK;
        FT_TRY(ft_tuning_may_ask(t, &may, &cut_off));
        if (!may) return FT_OK;
        FT_TRY(begin_in_a_group(t, false, number));
    }
    t->asks = *number >= 0;
    return FT_OK;
}

// ---- its configuration ----------------------------------------------------------------------------------------------

ft_status ft_tuning_trial_config(const ft_tuning *t, int64_t number, ft_config *config) {
    const char *values[FT_OPTION_LIMIT] = {NULL};
    *config = *t->config;
    config->arena = (ft_arena){0};
    deciding d = {.tuning = (ft_tuning *)t, .number = number, .arena = &config->arena, .values = values};
    ft_status status = decide(&d);
    for (int i = 0; status == FT_OK && i < ft_option_count(); i++)
        if (values[i] != NULL) status = ft_option_set(config, ft_option_at(i), values[i], NULL, ft_option_at(i)->name);
    if (status == FT_OK) status = ft_fidelity_apply(t->config, config);
    if (status == FT_OK) status = ft_config_check(config);
    if (status != FT_OK) ft_arena_free(&config->arena);
    return status;
}

ft_status ft_tuning_prepare(ft_tuning *t, int64_t number) {
    ft_arena arena = {0};
    ft_config config;
    ft_atomic_file file;
    char *directory = ft_tuning_trial_directory(t, number, &arena);
    char *path = directory != NULL ? ft_path_join(&arena, directory, "config.ini") : NULL;
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    // A trial that was cut off goes on as it began, whatever has been changed since. An empty file was left by a power cut.
    struct stat there;
    if (status == FT_OK) status = ft_tuning_take_over(t, number);
    if (status == FT_OK && (stat(path, &there) != 0 || there.st_size == 0)) {
        const bool waits = ft_atomic_wait_for_disk(false);
        status = ft_tuning_trial_config(t, number, &config);
        if (status == FT_OK && (status = ft_tuning_thaw_configure(t, number, &config)) != FT_OK) ft_arena_free(&config.arena);
        if (status == FT_OK && (status = ft_trial_devices_check(&t->devices, &config)) != FT_OK) ft_arena_free(&config.arena);
        if (status == FT_OK) {
            if (strcmp(t->options->memory_policy, "fit") != 0) ft_study_refuse_fitting(&config);
            status = ft_make_directories(directory);
            if (status == FT_OK) status = ft_atomic_open(&file, path);
            if (status == FT_OK && (status = ft_config_write(&config, true, true, file.stream)) != FT_OK)
                ft_atomic_abort(&file);
            else if (status == FT_OK)
                status = ft_atomic_commit(&file);
            ft_arena_free(&config.arena);
        }
        ft_atomic_wait_for_disk(waits);
    }
    ft_arena_free(&arena);
    return status;
}

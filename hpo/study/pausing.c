#include "hpo/study/pausing.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/memory/counters.h"
#include "hpo/study/slots.h"
#include "hpo/study/thaw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char steps_key[] = "total_steps", seconds_key[] = "step_seconds", widths_key[] = "ftengine:freeze_thaw";
static const double HARDLY = 0.05;          // chance to become the best one, below which a trial is given up at last
static const uint64_t BUDGET = 20ULL << 30; // bytes of checkpoints, where study.keep_pruned is auto

// Beside the history; what is known of a trial does not change any more.
typedef struct known {
    int64_t steps; // 0: not known yet
    double seconds;
    int reports; // when its files were counted
    uint64_t bytes;
} known;

struct ft_pausing_study {
    ft_pausing pausing;
    known *known; // [count] by trial
    int64_t count;
};

bool ft_tuning_pauses(const ft_tuning *t) { return strcmp(t->options->pruner, "freeze_thaw") == 0; }

ft_status ft_tuning_check_pausing(const ft_tuning *t) {
    const ft_config *c = t->config;
    if (t->options->learn_from[0] != '\0' && strcmp(t->options->sampler, "auto") == 0) {
        ft_fail(FT_INVALID, "study.learn_from",
                "where freeze_thaw chooses the places itself it learns from no other study");
        ft_hint("study.sampler=tpe");
        return FT_INVALID;
    }
    if ((c->data.folds == 0 || c->data.fold != 0) && c->train.seeds.count <= 1) return FT_OK;
    ft_fail(FT_INVALID, "study.pruner", "freeze_thaw compares trials of one run each, and these have several");
    ft_hint("study.pruner=wilcoxon compares trials run by run");
    return FT_INVALID;
}

void ft_tuning_free_pausing(ft_tuning *t) {
    if (t->pausing == NULL) return;
    ft_pausing_free(&t->pausing->pausing);
    free(t->pausing->known);
    free(t->pausing);
    t->pausing = NULL;
}

// ---- what is known of the trials

static ft_status make_room(ft_tuning *t) {
    if (t->pausing == NULL) t->pausing = ft_calloc(1, sizeof *t->pausing, "paused trials");
    if (t->pausing == NULL) return FT_NO_MEMORY;
    const int64_t count = t->study->trials.count;
    known *grown = ft_realloc(t->pausing->known, (size_t)count + 1, sizeof *grown, "paused trials");
    if (grown == NULL) return FT_NO_MEMORY;
    t->pausing->known = grown;
    for (; t->pausing->count < count; t->pausing->count++)
        grown[t->pausing->count] = (known){.reports = -1};
    return FT_OK;
}

static ft_status number_of(ft_tuning *t, int64_t trial, const char *key, double *value) {
    const char *json;
    ft_arena arena = {0};
    *value = 0;
    ft_status status = ft_stored_attribute(t->study, trial, FT_USER_ATTRIBUTE, key, &arena, &json);
    if (status == FT_OK && json != NULL) *value = strtod(json, NULL);
    ft_arena_free(&arena);
    if (!(*value > 0 && *value < 1e15)) *value = 0; // another program's
    return status;
}

// Of a run that has come to its end, 0: it has not.
static int64_t steps_of_run(const char *directory) {
    ft_arena arena = {0};
    json_t *run = NULL;
    const char *path = ft_path_join(&arena, directory, "run.json"), *status;
    int64_t steps = 0;
    if (path != NULL && ft_path_exists(path) && ft_json_load(path, &run) == FT_OK &&
        (status = json_string_value(json_object_get(run, "status"))) != NULL && strcmp(status, "completed") == 0)
        steps = json_integer_value(json_object_get(run, "steps"));
    json_decref(run);
    ft_arena_free(&arena);
    ft_error_clear(); // then it is not known
    return steps;
}

// Told with its first report: before it the trial has nothing that could be compared. A worker says the length; one
// that ended before anybody listened has left it.
static ft_status store_known(ft_tuning *t, const ft_slot *slot) {
    known *k = &t->pausing->known[slot->number];
    double steps;
    FT_TRY(number_of(t, slot->number, steps_key, &steps));
    if (steps > 0) return FT_OK;
    k->steps = slot->steps > 0 ? slot->steps : steps_of_run(slot->directory);
    if (k->steps <= 0) return FT_OK;
    FT_TRY(ft_stored_set_scalar(t->study, slot->number, FT_USER_ATTRIBUTE, steps_key,
                                &(ft_choice){.kind = FT_CHOICE_INT, .integer = k->steps}));
    if (!slot->neighbour.priced) return FT_OK;
    k->seconds = slot->neighbour.price.seconds;
    return ft_stored_set_scalar(t->study, slot->number, FT_USER_ATTRIBUTE, seconds_key,
                                &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = k->seconds});
}

static ft_status look(ft_tuning *t, int64_t number, ft_pausing_trial *out) {
    const ft_trial *trial = &t->study->trials.trial[number];
    known *k = &t->pausing->known[number];
    double steps;
    *out = (ft_pausing_trial){0};
    if (trial->report_count == 0) return FT_OK;
    if (k->steps == 0) {
        FT_TRY(number_of(t, number, steps_key, &steps));
        FT_TRY(number_of(t, number, seconds_key, &k->seconds));
        k->steps = steps > 0 ? (int64_t)steps : ft_trial_finished(trial->state) ? -1 : 0; // -1: it will have none
    }
    out->steps = k->steps > 0 ? k->steps : 0;
    out->step_seconds = k->seconds;
    return FT_OK;
}

// As ft_pausing_choose sees them. `own`: a trial of this coordinator that may go on, -1: none.
static ft_status view_of(ft_tuning *t, int64_t own, ft_pausing_trial *view) {
    for (int64_t i = 0; i < t->study->trials.count; i++) {
        bool others;
        FT_TRY(look(t, i, &view[i]));
        if (t->study->trials.trial[i].state != FT_RUNNING || (i != own && ft_slots_of(t, i) != NULL)) continue;
        if (!ft_tuning_is_ours(t, i)) continue;
        int64_t of;
        FT_TRY(ft_tuning_claimed(t, i, &others));
        FT_TRY(ft_thaw_of(t->study, i, &of));
        view[i].waits = i == own || !others;
        view[i].first = of >= 0; // a person wants it
    }
    return FT_OK;
}

// ---- the widths

static ft_status load_widths(ft_tuning *t, ft_arena *arena, ft_pausing_widths *out) {
    const ft_trials *trials = &t->study->trials;
    const char *json, *name;
    json_t *root, *value;
    *out = (ft_pausing_widths){.count = trials->names.count,
                               .width = ft_arena_alloc(arena, ((size_t)trials->names.count + 1) * sizeof *out->width)};
    if (out->width == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, widths_key, arena, &json));
    if (json == NULL) return FT_OK;
    FT_TRY(ft_json_parse(json, strlen(json), widths_key, &root));
    out->fitted = json_integer_value(json_object_get(root, "trials"));
    json_object_foreach(json_object_get(root, "widths"), name, value) {
        const int id = ft_trials_find_name(trials, name);
        if (id >= 0) out->width[id] = json_number_value(value);
    }
    json_decref(root);
    return FT_OK;
}

static ft_status store_widths(ft_tuning *t, const ft_pausing_widths *w) {
    json_t *widths = json_object(), *root = json_pack("{s:I, s:o}", "trials", (json_int_t)w->fitted, "widths", widths);
    for (int i = 0; i < w->count; i++)
        if (w->width[i] > 0) json_object_set_new(widths, t->study->trials.names.name[i], json_real(w->width[i]));
    char *text = root != NULL ? json_dumps(root, JSON_SORT_KEYS) : NULL;
    json_decref(root);
    if (text == NULL) return ft_fail_memory(0, "a study's attribute");
    ft_status status = ft_stored_set_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, widths_key, text);
    free(text);
    return status;
}

ft_status ft_tuning_place(ft_tuning *t, int64_t number, const ft_pausing_choice *choice) {
    for (int i = 0; i < choice->place_count; i++)
        FT_TRY(ft_trials_set_relative(&t->study->trials, number, choice->place[i].name, choice->place[i].distribution,
                                      choice->place[i].value));
    return choice->widths.fitted > 0 ? store_widths(t, &choice->widths) : FT_OK;
}

// ---- the choice

// *view [trials] in the arena.
static ft_status choose(ft_tuning *t, int64_t own, bool may_begin, ft_arena *arena, ft_pausing_trial **view,
                        ft_pausing_choice *out) {
    const ft_trials *trials = &t->study->trials;
    ft_pausing_widths widths;
    const ft_pausing_options o = {
        .seed = (uint64_t)t->options->seed, .may_begin = may_begin, .places = strcmp(t->options->sampler, "auto") == 0};
    FT_TRY(make_room(t));
    *view = ft_arena_alloc(arena, ((size_t)trials->count + 1) * sizeof **view);
    if (*view == NULL) return FT_NO_MEMORY;
    FT_TRY(view_of(t, own, *view));
    FT_TRY(load_widths(t, arena, &widths));
    return ft_pausing_choose(&t->pausing->pausing, trials, *view, &widths, &o, arena, out);
}

static bool is_hopeless(const ft_pausing_choice *choice, int64_t trial) { return choice->chance[trial] < HARDLY; }

ft_status ft_tuning_its_turn(ft_tuning *t, const ft_slot *slot, bool may_begin, bool *goes_on, bool *given_up) {
    const ft_trial *trial = &t->study->trials.trial[slot->number];
    ft_arena arena = {0};
    ft_pausing_trial *view;
    ft_pausing_choice choice;
    *goes_on = true;
    *given_up = false;
    FT_TRY(make_room(t));
    FT_TRY(store_known(t, slot));
    ft_status status = choose(t, slot->number, may_begin, &arena, &view, &choice);
    // With its last evaluation a trial is at its end, which costs nothing more.
    const int64_t steps = status == FT_OK ? view[slot->number].steps : 0;
    const bool ends = steps > 0 && trial->reports[trial->report_count - 1].step >= steps;
    if (status == FT_OK && !ends) {
        *given_up = !may_begin && is_hopeless(&choice, slot->number);
        *goes_on = choice.trial == slot->number;
    }
    ft_arena_free(&arena);
    return status;
}

// ---- who is given up

static ft_status count_bytes(ft_tuning *t, int64_t number, uint64_t *bytes) {
    known *k = &t->pausing->known[number];
    const int reports = t->study->trials.trial[number].report_count;
    if (k->reports != reports) {
        ft_arena arena = {0};
        const char *directory = ft_tuning_trial_directory(t, number, &arena);
        ft_status status = directory != NULL ? ft_thaw_bytes(directory, &k->bytes) : FT_NO_MEMORY;
        ft_arena_free(&arena);
        FT_TRY(status);
        k->reports = reports;
    }
    *bytes = k->bytes;
    return FT_OK;
}

static bool is_paused(const ft_pausing_trial *view, const ft_trials *trials, int64_t i) {
    return view[i].waits && !view[i].first && trials->trial[i].report_count > 0;
}

static void give_up(ft_next_stage *next, ft_pausing_trial *view, int64_t number) {
    next->gives_up[next->gives_up_count++] = number;
    view[number].waits = false;
}

// The worst first, of equal ones the oldest.
static int64_t worst_of(const ft_tuning *t, const ft_pausing_trial *view, const ft_next_stage *next) {
    const ft_trials *trials = &t->study->trials;
    const double sign = trials->maximize[0] ? 1 : -1;
    int64_t worst = -1;
    for (int64_t i = 0; i < trials->count; i++) {
        const double *expected = next->choice.expected;
        if (!is_paused(view, trials, i) || i == next->choice.trial || isnan(expected[i])) continue;
        if (worst < 0 || sign * expected[i] < sign * expected[worst]) worst = i;
    }
    return worst;
}

static ft_status keep_within(ft_tuning *t, ft_pausing_trial *view, ft_next_stage *next) {
    const uint64_t budget = t->options->keep_pruned > 0 ? (uint64_t)t->options->keep_pruned : BUDGET;
    uint64_t total = 0, bytes;
    for (int64_t i = 0; i < t->study->trials.count; i++) {
        if (!is_paused(view, &t->study->trials, i)) continue;
        FT_TRY(count_bytes(t, i, &bytes));
        total += bytes;
    }
    for (int64_t worst; total > budget && (worst = worst_of(t, view, next)) >= 0;) {
        char size[32];
        FT_TRY(count_bytes(t, worst, &bytes));
        total -= bytes;
        give_up(next, view, worst);
        ft_info("trial %lld is given up: study.keep_pruned has no room for its checkpoint of %s", (long long)worst,
                ft_bytes_text(bytes, size));
    }
    return FT_OK;
}

ft_status ft_tuning_next_stage(ft_tuning *t, bool may_begin, ft_arena *arena, ft_next_stage *next) {
    ft_pausing_trial *view;
    *next = (ft_next_stage){.gives_up =
                                ft_arena_alloc(arena, ((size_t)t->study->trials.count + 1) * sizeof *next->gives_up)};
    if (next->gives_up == NULL) return FT_NO_MEMORY;
    FT_TRY(choose(t, -1, may_begin, arena, &view, &next->choice));
    for (int64_t i = 0; !may_begin && t->add == 0 && i < t->study->trials.count; i++)
        if (is_paused(view, &t->study->trials, i) && is_hopeless(&next->choice, i)) give_up(next, view, i);
    if (next->choice.trial >= 0 && !view[next->choice.trial].waits)
        next->choice.trial = FT_FREEZE_THAW_NONE; // the next look chooses
    return keep_within(t, view, next);
}

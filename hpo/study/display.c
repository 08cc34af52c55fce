// display.c - what people see of a study: the running trials in a line that redraws itself on a terminal, and now and
// then in one that stays where there is none; one line a trial; the result at the end.
#include "hpo/study/study.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "engine/memory/memory.h"
#include "hpo/study/slots.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct tally {
    int64_t finished, completed, pruned, failed;
} tally;

static tally count(const ft_tuning *t) {
    tally c = {0};
    for (int64_t i = 0; i < t->study->trials.count; i++) {
        ft_trial_state state = t->study->trials.trial[i].state;
        c.completed += state == FT_COMPLETE;
        c.pruned += state == FT_PRUNED;
        c.failed += state == FT_FAIL;
    }
    c.finished = c.completed + c.pruned + c.failed;
    return c;
}

static const char *time_text(double seconds, char out[32]) {
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(out, 32, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(out, 32, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, 32, "%lds", s);
    return out;
}

// "eval.accuracy 0.8712"
static void add_values(const ft_tuning *t, const ft_trial *trial, char *out, size_t size) {
    size_t used = 0;
    char value[FT_FIGURE_TEXT];
    out[0] = '\0';
    for (int i = 0; i < trial->value_count && used + 1 < size; i++) {
        const char *name = t->objectives.list[i].name;
        used += (size_t)snprintf(out + used, size - used, "%s%s %s", i > 0 ? ", " : "", name,
                                 ft_figure_text(name, trial->values[i], 6, value));
    }
}

// "train.learning_rate=3.1e-05 train.batch_size=16"
static void add_params(const ft_tuning *t, const ft_trial *trial, char *out, size_t size) {
    ft_arena arena = {0};
    char number[FT_FIGURE_TEXT];
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < trial->param_count && used + 1 < size; i++) {
        const char *name = t->study->trials.names.name[trial->params[i].name];
        const ft_space_rule *rule = ft_space_find(&t->space, name);
        const char *text = rule != NULL ? ft_space_value_text(rule, trial->params[i].value, &arena) : "?";
        if (text != NULL && rule != NULL && ft_option_at(rule->option)->type == FT_OPTION_PATH &&
            strrchr(text, '/') != NULL)
            text = strrchr(text, '/') + 1;
        if (text != NULL && rule != NULL && rule->distribution.kind == FT_FLOAT) {
            text = ft_figure_text("", trial->params[i].value, 4, number);
        }
        if (text != NULL) used += (size_t)snprintf(out + used, size - used, "%s%s=%s", i > 0 ? " " : "", name, text);
    }
    ft_arena_free(&arena);
}

static const char *threads_text(const ft_tuning *t, char out[48]) {
    int each = t->threads > 0 ? t->threads : (int)t->config->device.threads;
    snprintf(out, 48, "%d thread%s", each, each == 1 ? "" : "s");
    return out;
}

void ft_display_start(const ft_tuning *t) {
    tally c = count(t);
    char threads[48];
    int searched = 0;
    for (int i = 0; i < t->space.count; i++)
        searched +=
            t->space.rules[i].name != NULL && ft_space_find(&t->space, t->space.rules[i].name) == &t->space.rules[i];
    ft_info("study      %s in %s", t->place.name, t->place.directory);
    ft_info("space      %d parameters, sampler %s, pruner %s", searched, t->options->sampler,
            t->options->pruner);
    const int pack = t->pack > 0 ? t->pack : 1, workers = (t->slot_count + pack - 1) / pack;
    if (pack > 1)
        ft_info("workers    %d worker%s, %s%d trials at a time%s%s", workers, workers == 1 ? "" : "s", workers == 1 ? "" : "each of ",
                t->slot_count < pack ? t->slot_count : pack, workers == 1 ? "" : " with ", workers == 1 ? "" : threads_text(t, threads));
    else if (t->slot_count > 1) ft_info("workers    %d, each with %s", t->slot_count, threads_text(t, threads));
    if (c.finished > 0)
        ft_info("so far     %lld trials: %lld complete, %lld pruned, %lld failed", (long long)c.finished,
                (long long)c.completed, (long long)c.pruned, (long long)c.failed);
    const ft_objective *first = &t->objectives.list[0];
    const char *metric = ft_metric_name(t->config->eval.metric);
    if (first->reported && strcmp(first->name + 5, metric) != 0)
        ft_info("note       %s is that of the checkpoint with the best eval.metric, which is %s", first->name, metric);
}

// Seconds until the goal, at the rate of this call; negative: not known.
static double remaining(const ft_tuning *t) {
    double left = (double)ft_tuning_to_do(t);
    double each = t->ran > 0 ? (ft_now() - t->started) / (double)t->ran : -1;
    double seconds = left >= 0 && each >= 0 ? left * each : -1;
    double limit = t->options->timeout > 0 ? t->options->timeout - (ft_now() - t->started) : -1;
    const double until = t->deadline > 0 ? t->deadline - ft_now() : -1;
    if (until >= 0 && (limit < 0 || until < limit)) limit = until;
    if (limit < 0) return seconds;
    return seconds < 0 || limit < seconds ? limit : seconds;
}

// "13 step 40/140 0.8612 96.0MiB", "14 waits for 1.20GiB"
static size_t add_slot(const ft_slot *slot, char *out, size_t size) {
    char memory[24], value[32] = "", of[32] = "";
    if (!isnan(slot->value)) snprintf(value, sizeof value, " %.4g", slot->value);
    if (slot->steps > 0) snprintf(of, sizeof of, "/%lld", (long long)slot->steps);
    if (slot->state == FT_SLOT_PLANNING) return (size_t)snprintf(out, size, "  | %lld begins", (long long)slot->number);
    if (slot->state == FT_SLOT_WAITING && slot->neighbour.since > 0) return (size_t)snprintf(out, size, "  | %lld waits for its neighbours", (long long)slot->number);
    if (slot->state == FT_SLOT_WAITING)
        return (size_t)snprintf(out, size, "  | %lld waits for %s", (long long)slot->number,
                                ft_bytes_text(slot->planned, memory));
    return (size_t)snprintf(out, size, "  | %lld step %lld%s%s %s", (long long)slot->number, (long long)slot->step, of,
                            value, ft_bytes_text(slot->bytes > 0 ? slot->bytes : slot->planned, memory));
}

// "  cpu [######----] 14.1GiB of 23.5GiB": of all reservations in the device's ledger, those of other programs too.
static size_t add_bar(const ft_candidate *place, char *out, size_t size) {
    enum { CELLS = 10 };
    char bar[CELLS + 1], reserved[24], capacity[24];
    ft_ledger_state state;
    if (place->capacity == 0 || ft_candidate_read(place, &state) != FT_OK) {
        ft_error_clear(); // a picture less
        return 0;
    }
    const size_t used = state.reserved < place->capacity ? state.reserved : place->capacity;
    const int full = (int)((double)used / (double)place->capacity * CELLS + 0.5);
    memset(bar, '-', CELLS);
    memset(bar, '#', (size_t)full);
    bar[CELLS] = '\0';
    return (size_t)snprintf(out, size, "  %s [%s] %s of %s", place->name, bar, ft_bytes_text(state.reserved, reserved),
                            ft_bytes_text(place->capacity, capacity));
}

void ft_display_memory(const ft_tuning *t, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < t->slot_count && used + 1 < size; i++) {
        const ft_candidate *place = &t->slots[i].place;
        bool shown = t->slots[i].state != FT_SLOT_TRAINING || place->ledger[0] == '\0';
        for (int k = 0; k < i && !shown; k++)
            shown = t->slots[k].state == FT_SLOT_TRAINING && strcmp(t->slots[k].place.ledger, place->ledger) == 0;
        if (!shown) used += add_bar(place, out + used, size - used);
    }
}

enum { PLAIN_EVERY = 60 }; // seconds between two lines where nothing can be redrawn

void ft_display_trials(ft_tuning *t) {
    const double now = ft_now();
    const bool terminal = ft_log_is_terminal();
    if (t->shown == 0) t->shown = now;
    if (now - t->shown < (terminal ? 0.2 : PLAIN_EVERY) || ft_slots_running(t) == 0) return;
    t->shown = now;
    tally c = count(t);
    char eta[32], best[80] = "", value[FT_FIGURE_TEXT], goal[32] = "", rate[48] = "", line[800] = "", last[64] = "", memory[300];
    int64_t number = ft_tuning_best(t), to_do = ft_tuning_to_do(t);
    double left = remaining(t);
    if (number >= 0)
        snprintf(best, sizeof best, "  best %s (trial %lld)",
                 ft_figure_text(t->objectives.list[0].name, t->study->trials.trial[number].values[0], 5, value), (long long)number);
    if (to_do >= 0) snprintf(goal, sizeof goal, "/%lld", (long long)(c.finished + to_do));
    if (t->ran > 0) snprintf(rate, sizeof rate, "  %.1f trials/h", (double)t->ran * 3600 / (now - t->started));
    if (left >= 0) snprintf(last, sizeof last, "  %s left", time_text(left, eta));
    size_t used = 0;
    for (int i = 0; i < t->slot_count && used + 1 < sizeof line; i++)
        if (t->slots[i].number >= 0) used += add_slot(&t->slots[i], line + used, sizeof line - used);
    ft_display_memory(t, memory, sizeof memory);
    if (terminal)
        ft_status_line("%lld%s done (%lld pruned, %lld failed)%s%s%s%s%s", (long long)c.finished, goal,
                       (long long)c.pruned, (long long)c.failed, best, rate, last, memory, line);
    else
        ft_info("%lld%s done (%lld pruned, %lld failed)%s%s%s%s%s", (long long)c.finished, goal, (long long)c.pruned,
                (long long)c.failed, best, rate, last, memory, line);
}

// A trial's attribute that is a text, without its quotes; "" when there is none.
static void text_attribute(const ft_tuning *t, int64_t number, const char *key, char *out, size_t size) {
    ft_arena arena = {0};
    const char *json = NULL;
    out[0] = '\0';
    if (ft_stored_attribute((ft_stored *)t->study, number, FT_USER_ATTRIBUTE, key, &arena, &json) == FT_OK &&
        json != NULL && strlen(json) >= 2)
        snprintf(out, size, "%.*s", (int)strlen(json) - 2, json + 1);
    ft_arena_free(&arena);
}

void ft_display_finished(const ft_tuning *t, int64_t number) {
    const ft_trial *trial = &t->study->trials.trial[number];
    char values[240], params[480], status[32], error[240];
    static const char *const words[] = {[FT_RUNNING] = "running",
                                        [FT_COMPLETE] = "complete",
                                        [FT_PRUNED] = "pruned",
                                        [FT_FAIL] = "failed",
                                        [FT_WAITING] = "waiting"};
    add_values(t, trial, values, sizeof values);
    add_params(t, trial, params, sizeof params);
    if (ft_tuning_ended_last(t, number)) {
        snprintf(error, sizeof error, "%s", t->ended.error);
        snprintf(status, sizeof status, "%s", t->ended.status);
    } else {
        text_attribute(t, number, "error", error, sizeof error);
        text_attribute(t, number, "status", status, sizeof status);
    }
    const bool memory = strcmp(status, "oom") == 0 || strcmp(status, "does_not_fit") == 0;
    ft_info("trial %-4lld %-8s %s%s%s  %s%s%s", (long long)number,
            !memory            ? words[trial->state]
            : status[0] == 'o' ? "oom"
                               : "too big",
            values, t->study->trials.objectives == 1 && number == ft_tuning_best(t) ? " best so far" : "",
            trial->state == FT_PRUNED && trial->report_count > 0 && !memory ? " when stopped"
            : ft_trial_violation(trial) > 0 && !memory                      ? " beyond study.constraints"
                                                                            : "",
            params, error[0] != '\0' ? "  " : "", error[0] != '\0' && status[0] == 'o' ? "see above" : error);
}

// ---- the result -----------------------------------------------------------------------------------------------------

static void print_trial(const ft_tuning *t, int64_t number) {
    const ft_trial *trial = &t->study->trials.trial[number];
    ft_arena arena = {0};
    char values[240];
    add_values(t, trial, values, sizeof values);
    printf("best trial %lld: %s\n", (long long)number, values);
    for (int i = 0; i < trial->param_count; i++) {
        const char *name = t->study->trials.names.name[trial->params[i].name];
        const ft_space_rule *rule = ft_space_find(&t->space, name);
        const char *text = rule != NULL ? ft_space_value_text(rule, trial->params[i].value, &arena) : NULL;
        if (text != NULL) printf("  %s = %s\n", name, text);
    }
    ft_arena_free(&arena);
}

ft_status ft_display_end(const ft_tuning *t) {
    tally c = count(t);
    char took[32];
    int64_t best = ft_tuning_best(t);
    char memory[48] = "";
    if (t->ooms > 0) snprintf(memory, sizeof memory, " (%lld out of memory)", (long long)t->ooms);
    ft_info("%s: %lld trials, %lld complete, %lld pruned%s, %lld failed; %s", t->stopped_by, (long long)c.finished,
            (long long)c.completed, (long long)c.pruned, memory, (long long)c.failed,
            time_text(ft_now() - t->started, took));
    FT_TRY(ft_tuning_report_memory(t));
    if (best < 0 && c.completed > 0) ft_info("no completed trial is within study.constraints");
    if (t->untold) return FT_OK;
    if (best >= 0) {
        print_trial(t, best);
        if (t->objectives.count > 1)
            printf("the best in %s alone; all trials that no other beats are in %s/front\n", t->objectives.list[0].name,
                   t->place.directory);
        printf("%s/best.ini\n", t->place.directory);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) return FT_OK;
    // Not as an error of a full disk, for which the study would pause: it is not the study's disk, and the study is at its end.
    ft_fail(FT_FAILED, "standard output", "cannot write: %s", strerror(errno));
    ft_hint("the study is at its end: `ftengine study best %s` shows the result", t->place.name);
    return FT_FAILED;
}

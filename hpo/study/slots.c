// slots.c - workers, the trials in them, and the order in which trials take their memory.
#include "hpo/study/slots.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/memory/process.h"
#include "hpo/study/pausing.h"
#include "hpo/study/thaw.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AUTO = 8 };
static const double PATIENCE = 120;   // seconds that a trial has for saving when it is asked to stop
static const double LOOK_EVERY = 0.5; // seconds; room may come from other programs too
static const double READ_EVERY = 1;   // seconds; a line that was told before it could be read

// ---- a trial in its slot --------------------------------------------------------------------------------------------

int ft_slots_running(const ft_tuning *t) {
    int count = 0;
    for (int i = 0; i < t->slot_count; i++)
        count += t->slots[i].number >= 0;
    return count;
}

ft_slot *ft_slots_of(const ft_tuning *t, int64_t number) {
    for (int i = 0; i < t->slot_count; i++)
        if (t->slots[i].number == number) return &t->slots[i];
    return NULL;
}

ft_slot *ft_slots_idle(const ft_tuning *t) { return ft_slots_of(t, -1); }

ft_status ft_slots_begin(ft_tuning *t, ft_slot *slot, int64_t number) {
    slot->number = number;
    slot->value = NAN;
    slot->directory = ft_tuning_trial_directory(t, number, &slot->arena);
    if (slot->directory == NULL) return FT_NO_MEMORY;
    int64_t of;
    FT_TRY(ft_tuning_thaw_of(t, number, &of));
    slot->thawed = of >= 0;
    slot->keeps = t->options->keep_pruned > 0;
    ft_trial_attach(slot->directory, &slot->files);
    return FT_OK;
}

// The kernel's count of processes that it killed for want of memory.
static uint64_t oom_kills(void) {
    char line[128];
    unsigned long long kills = 0;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "oom_kill %llu", &kills) == 1) break;
    if (file != NULL) fclose(file);
    return kills;
}

// The slots of one worker process stand side by side.
static int pack_of(const ft_tuning *t) { return t->pack > 0 ? t->pack : 1; }

// With all that share it: their sockets are made with the process.
static ft_status start_worker(ft_tuning *t, ft_slot *slot) {
    ft_worker_process *processes[FT_TURNS_LIMIT];
    const int first = (int)(slot - t->slots) / pack_of(t) * pack_of(t);
    int count = 0;
    for (int i = first; i < t->slot_count && count < pack_of(t); i++) processes[count++] = &t->slots[i].worker;
    return ft_worker_process_start_pack(t->directory, t->threads, count, processes);
}

static bool shares_worker(const ft_slot *a, const ft_slot *b) { return a != b && a->worker.pid > 0 && a->worker.pid == b->worker.pid; }

ft_status ft_slots_run(ft_tuning *t, ft_slot *slot) {
    if (slot->worker.pid == 0) FT_TRY(start_worker(t, slot));
    slot->state = FT_SLOT_PLANNING;
    slot->sign = slot->read = ft_now();
    slot->killed = oom_kills();
    const ft_config *c = t->config;
    const ft_worker_order order = {.trial = slot->number,
                                   .directory = slot->directory + strlen(t->directory) + 1,
                                   .devices = ft_trial_devices_of(&t->devices, (int)(slot - t->slots)),
                                   .wait = c->device.wait,
                                   .wait_timeout = c->device.wait_timeout,
                                   .check_interval = c->device.check_interval,
                                   .taken = ft_tuning_keeps_few(t) && !slot->keeps, // with a checkpoint at its end
                                   .beside = t->coordinator};
    if (ft_worker_process_run(&slot->worker, &order) == FT_OK) return FT_OK;
    if (slot->worker.shared) return ft_error_clear(), FT_OK; // its end is noticed, by all
    // It had died without a trial, which is no fault of this one; one that lives and hears nothing would never go.
    ft_worker_process_close(&slot->worker, 0);
    ft_error_clear();
    FT_TRY(start_worker(t, slot));
    return ft_worker_process_run(&slot->worker, &order);
}

void ft_slots_leave(ft_slot *slot) {
    if (slot->number < 0) return;
    slot->leaving = true;
    slot->left = ft_now();
    ft_worker_process_stop(&slot->worker, !slot->pruned || slot->keeps);
}

void ft_slots_end(ft_tuning *t, ft_slot *slot) {
    if (slot->number >= 0) ft_tuning_release(t, slot->number);
    ft_trial_detach(&slot->files);
    ft_arena_free(&slot->arena);
    *slot = (ft_slot){.worker = slot->worker, .number = -1};
}

static ft_status drain(ft_tuning *t, ft_slot *slot, bool *pruned) {
    for (*pruned = false;;) {
        json_t *line;
        FT_TRY(ft_trial_line(&slot->files, &line));
        if (line == NULL) return FT_OK;
        ft_status status = ft_tuning_judge(t, slot, line, pruned);
        json_decref(line);
        if (status != FT_OK || *pruned || slot->paused) return status;
    }
}

// Behind a line that could not be stored none is: reports go on from the last one, and it would be missing for good.
ft_status ft_slots_drain(ft_tuning *t, ft_slot *slot, bool *pruned) {
    slot->read = ft_now();
    slot->lines = *pruned = false;
    if (t->unsure) return FT_OK;
    const ft_status status = drain(t, slot, pruned);
    t->unsure = status != FT_OK;
    return status;
}

// ---- open and close -------------------------------------------------------------------------------------------------

static int at_a_time(const ft_tuning *t) {
    const int own = (int)t->config->device.threads, ranks = (int)t->options->devices_per_trial;
    const int suits = ft_cpu_threads() / (own > ranks ? own : ranks), most = suits > MOST_AUTO ? MOST_AUTO : suits;
    if (t->options->parallel != FT_AUTO) return (int)t->options->parallel;
    const int least = t->devices.count > 1 ? t->devices.count : 1; // or GPUs would be idle
    return most < least ? least : most;
}

int ft_slots_asked(const ft_tuning *t) {
    return at_a_time(t) > pack_of(t) ? at_a_time(t) : pack_of(t); // a pack at least
}

static void share_cores(ft_tuning *t) {
    int cores = ft_cpu_threads(), own = (int)t->config->device.threads;
    t->slot_count = ft_slots_asked(t);
    if (t->crew > 0 && t->crew < t->slot_count) t->slot_count = t->crew; // there is memory for
    const int workers = (t->slot_count + pack_of(t) - 1) / pack_of(t);
    if (workers == 1) return;
    if (own > 0 && own * workers > cores)
        ft_warn("%d workers with device.threads = %d each are more than the %d cores there are", workers, own, cores);
    if (own <= 0) t->threads = cores / workers > 1 ? cores / workers : 1;
}

ft_status ft_slots_open(ft_tuning *t) {
    share_cores(t);
    t->slots = ft_calloc((size_t)t->slot_count, sizeof *t->slots, "workers");
    if (t->slots == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < t->slot_count; i++)
        t->slots[i] = (ft_slot){.number = -1, .worker.channel.socket = -1};
    return FT_OK;
}

// A worker without a trial goes; what it says by its end is a fault of the program.
static void dismiss(ft_tuning *t, ft_slot *slot) {
    for (int i = 0; i < t->slot_count; i++) {
        if (!shares_worker(&t->slots[i], slot)) continue;
        ft_channel_close(&slot->worker.channel); // others are in it
        slot->worker.pid = 0;
        return;
    }
    int code = ft_worker_process_close(&slot->worker, 5);
    if (code != 0) ft_warn("a worker ended with %s %d", code < 0 ? "signal" : "exit code", abs(code));
}

// Its exit code, which all that share it get to know.
static int collect(ft_tuning *t, ft_slot *slot) {
    const pid_t pid = slot->worker.pid;
    const int code = ft_worker_process_collect(&slot->worker);
    for (int i = 0; i < t->slot_count; i++) {
        ft_worker_process *other = &t->slots[i].worker;
        if (pid > 0 && other->pid == pid) other->collected = true, other->code = code;
    }
    return code;
}

void ft_slots_close(ft_tuning *t) {
    for (int i = 0; i < t->slot_count && t->slots != NULL; i++) {
        ft_slot *slot = &t->slots[i];
        if (slot->number >= 0) ft_worker_process_kill(&slot->worker);
        if (slot->number >= 0)
            collect(t, slot);
        else
            dismiss(t, slot);
        ft_slots_end(t, slot);
    }
    free(t->slots);
    t->slots = NULL;
    t->slot_count = 0;
}

// ---- whose turn it is -----------------------------------------------------------------------------------------------

// Where one more does not pay.
static void hold_back(ft_tuning *t, ft_turn turns[FT_TURNS_LIMIT]) {
    bool there[FT_TURNS_LIMIT];
    for (int i = 0; i < t->slot_count; i++) {
        ft_slot *slot = &t->slots[i];
        if (slot->state != FT_SLOT_WAITING || slot->leaving || ft_neighbours_may(t, slot)) continue;
        for (int k = 0; k < t->slot_count; k++)
            there[k] = ft_neighbours_meet(slot, &t->slots[k]);
        ft_turns_hold(turns, t->slot_count, i, there);
    }
}

static ft_slot *next_in_turn(ft_tuning *t) { // NULL: nobody's
    ft_turn turns[FT_TURNS_LIMIT];
    for (int i = 0; i < t->slot_count; i++) {
        turns[i] = t->slots[i].turn;
        turns[i].waits = t->slots[i].state == FT_SLOT_WAITING && !t->slots[i].leaving;
    }
    hold_back(t, turns);
    const int next = ft_turns_next(turns, t->slot_count, t->room);
    return next >= 0 ? &t->slots[next] : NULL;
}

ft_status ft_slots_turns(ft_tuning *t) {
    bool training = false, elsewhere;
    double now = ft_now();
    for (int i = 0; i < t->slot_count; i++) {
        if (t->slots[i].state == FT_SLOT_ENTERING) return FT_OK; // one at a time
        training |= t->slots[i].state == FT_SLOT_TRAINING;
    }
    if (now - t->room_looked > LOOK_EVERY) t->room++, t->room_looked = now;
    ft_slot *slot = next_in_turn(t);
    FT_TRY(ft_tuning_claim_memory(t, training || slot != NULL, &elsewhere));
    if (slot == NULL) return FT_OK;
    slot->state = FT_SLOT_ENTERING;
    slot->turn.tried = t->room;
    slot->sign = now;
    slot->alone = !training && !elsewhere;
    const ft_status told = ft_worker_process_enter(&slot->worker, slot->alone);
    if (told == FT_NO_MEMORY) slot->state = FT_SLOT_WAITING; // it has heard nothing
    if (told == FT_NO_MEMORY) return told;
    if (told != FT_OK) ft_error_clear(); // it is gone, which is noticed
    return FT_OK;
}

static void entered(ft_tuning *t, ft_slot *slot) {
    ft_turn turns[FT_TURNS_LIMIT];
    slot->state = FT_SLOT_TRAINING;
    ft_neighbours_changed(t);
    for (int i = 0; i < t->slot_count; i++) {
        turns[i] = t->slots[i].turn;
        turns[i].waits = t->slots[i].state == FT_SLOT_WAITING;
    }
    ft_turns_entered(turns, t->slot_count, (int)(slot - t->slots));
    for (int i = 0; i < t->slot_count; i++)
        t->slots[i].turn.passed = turns[i].passed;
}

// ---- messages -------------------------------------------------------------------------------------------------------

static size_t bytes_of(const json_t *message, const char *key) {
    json_int_t value = json_integer_value(json_object_get(message, key));
    return value > 0 ? (size_t)value : 0;
}

static void note(ft_tuning *t, ft_slot *slot, const char *is, const json_t *message) {
    const double now = ft_now();
    if (slot->state == FT_SLOT_TRAINING && !slot->leaving && now - slot->sign > t->quiet) t->quiet = now - slot->sign;
    slot->sign = now;
    for (int i = 0; i < t->slot_count; i++) // one of a pack computes at a time
        if (shares_worker(&t->slots[i], slot)) t->slots[i].sign = slot->sign;
    if (strcmp(is, "planned") == 0 || strcmp(is, "full") == 0) {
        slot->state = FT_SLOT_WAITING;
        if (strcmp(is, "full") == 0) return;
        slot->planned = bytes_of(message, "bytes");
        ft_turns_wait(&slot->turn, slot->sign, t->room);
    } else if (strcmp(is, "priced") == 0) {
        ft_neighbours_priced(slot, message);
    } else if (strcmp(is, "entered") == 0) {
        const char *device = json_string_value(json_object_get(message, "device"));
        const char *ledger = json_string_value(json_object_get(message, "ledger"));
        slot->place = (ft_candidate){.accelerator = json_is_true(json_object_get(message, "accelerator")),
                                     .capacity = bytes_of(message, "capacity")};
        snprintf(slot->place.name, sizeof slot->place.name, "%s", device != NULL ? device : "");
        snprintf(slot->place.ledger, sizeof slot->place.ledger, "%s", ledger != NULL ? ledger : "");
        entered(t, slot);
    } else if (strcmp(is, "alive") == 0) {
        int64_t step = (int64_t)json_integer_value(json_object_get(message, "step"));
        if (step >= 0) {
            slot->step = step;
            slot->steps = (int64_t)json_integer_value(json_object_get(message, "steps"));
            slot->bytes = bytes_of(message, "bytes");
        }
        ft_neighbours_sign(t, slot, now, step);
        slot->lines |= json_is_true(json_object_get(message, "logged"));
    }
}

// Whoever leaves makes room.
static ft_status tell_end(ft_tuning *t, ft_slot *slot, ft_trial_end *end, ft_slot_ended ended) {
    end->entered = slot->state == FT_SLOT_TRAINING;
    end->accelerator = slot->place.accelerator;
    slot->state = FT_SLOT_IDLE;
    t->room++;
    ft_neighbours_changed(t);
    ft_status status = ended(t, slot, end);
    if (status == FT_OK) return FT_OK;
    ft_error error; // it has left its worker, whatever could not be stored of it
    t->unsure = true;
    ft_error_save(&error);
    ft_slots_end(t, slot);
    ft_error_restore(&error);
    return status;
}

// Errors that may have left the device or the process in a state of their own end the worker with the trial.
static bool stays(int code, bool foreseen) {
    return foreseen || code == FT_OK || code == FT_INVALID || code == FT_DIVERGED || code == FT_INTERRUPTED ||
           code == FT_TERMINATED;
}

static ft_status take_message(ft_tuning *t, ft_slot *slot, const json_t *message, ft_slot_ended ended) {
    const char *is = json_string_value(json_object_get(message, "is"));
    if (is == NULL) return FT_OK;
    if (strcmp(is, "end") != 0) {
        note(t, slot, is, message);
        return FT_OK;
    }
    const char *error = json_string_value(json_object_get(message, "error"));
    ft_trial_end end = {.code = (int)json_integer_value(json_object_get(message, "code")),
                        .error = error != NULL ? error : "",
                        .needed = bytes_of(message, "needed"),
                        .limit = bytes_of(message, "limit"),
                        .peak = bytes_of(message, "peak"),
                        .disk_full = json_is_true(json_object_get(message, "disk_full"))};
    const bool foreseen = end.code == FT_NO_MEMORY && slot->state != FT_SLOT_TRAINING && ft_tuning_foreseen(&end);
    const int64_t most = t->options->worker_trials;
    if (!slot->worker.shared && (!stays(end.code, foreseen) || (most > 0 && slot->worker.trials >= most))) dismiss(t, slot);
    return tell_end(t, slot, &end, ended);
}

static ft_status take_messages(ft_tuning *t, ft_slot *slot, ft_slot_ended ended);

// A process is gone: those that share it have their last messages heard, and are without it before another one starts.
static ft_status take_others(ft_tuning *t, pid_t pid, ft_slot_ended ended) {
    ft_status first = FT_OK;
    ft_error error;
    for (int i = 0; i < t->slot_count; i++) {
        if (t->slots[i].worker.pid != pid) continue;
        const ft_status status = take_messages(t, &t->slots[i], ended);
        if (status == FT_OK || first != FT_OK) continue;
        first = status;
        ft_error_save(&error);
    }
    if (first != FT_OK) ft_error_restore(&error);
    return first;
}

static ft_status take_one_death(ft_tuning *t, ft_slot *slot, const char *hung, ft_slot_ended ended) {
    char error[160];
    int code = collect(t, slot);
    if (slot->number < 0) return FT_OK; // an idle one: the next trial starts another
    bool memory = code == -9 && hung == NULL && oom_kills() > slot->killed;
    if (hung != NULL)
        snprintf(error, sizeof error, "%s", hung);
    else if (code < 0)
        snprintf(error, sizeof error, "killed by signal %d%s", -code,
                 memory ? "; the kernel has killed a process for want of memory" : "");
    else
        snprintf(error, sizeof error, "the worker ended with exit code %d", code);
    ft_trial_end end = {.code = code, .gone = true, .error = error};
    return tell_end(t, slot, &end, ended);
}

static ft_status take_death(ft_tuning *t, ft_slot *slot, const char *hung, ft_slot_ended ended) {
    const pid_t pid = slot->worker.pid;
    ft_error error;
    ft_status status = take_one_death(t, slot, hung, ended);
    if (pid <= 0) return status;
    ft_error_save(&error);
    const ft_status others = take_others(t, pid, ended);
    if (status != FT_OK) ft_error_restore(&error);
    return status != FT_OK ? status : others;
}

// Reading and tokenising large data tells nothing, but it computes.
static void look_for_work(ft_slot *slot, double now) {
    uint64_t computed = slot->state == FT_SLOT_PLANNING ? ft_process_computed(slot->worker.pid) : 0;
    if (computed <= slot->computed) return;
    slot->computed = computed;
    slot->sign = now;
}

// A trial that gives no sign of life, or does not stop.
static ft_status look_after(ft_tuning *t, ft_slot *slot, ft_slot_ended ended) {
    char text[96];
    double now = ft_now(), limit = t->options->heartbeat_timeout;
    if (slot->number < 0) return FT_OK;
    if (limit > 0 && now - slot->sign > limit / 2) look_for_work(slot, now);
    bool late = slot->leaving && now - slot->left > PATIENCE;
    // For memory, as long as it takes: for its turn, and with device.wait for what other programs hold. Else it enters at
    // once, or leaves soon.
    const bool enters_alone = slot->state == FT_SLOT_ENTERING && slot->alone;
    bool waits = slot->state == FT_SLOT_WAITING || (enters_alone && t->config->device.wait);
    if (enters_alone && limit > 0) limit += FT_LEAVING_SECONDS;
    bool hangs = !slot->leaving && limit > 0 && !waits && now - slot->sign > limit;
    if (!late && !hangs) return FT_OK;
    snprintf(text, sizeof text, "no sign of life for %.0f seconds", now - (late ? slot->left : slot->sign));
    ft_worker_process_kill(&slot->worker);
    return take_death(t, slot, text, ended);
}

static ft_status take_messages(ft_tuning *t, ft_slot *slot, ft_slot_ended ended) {
    ft_channel *channel = &slot->worker.channel;
    while (slot->worker.pid > 0) {
        json_t *message;
        FT_TRY(ft_channel_receive(channel, 0, &message));
        if (message == NULL && channel->ended) return take_death(t, slot, NULL, ended);
        if (message == NULL) return FT_OK;
        ft_status status = take_message(t, slot, message, ended);
        json_decref(message);
        FT_TRY(status);
    }
    return FT_OK;
}

static ft_status read_lines(ft_tuning *t, ft_slot *slot) {
    bool pruned;
    if (slot->number < 0 || slot->pruned || slot->paused || slot->state != FT_SLOT_TRAINING) return FT_OK;
    if (!slot->lines && ft_now() - slot->read < READ_EVERY) return FT_OK;
    if (slot->steps == 0 && ft_tuning_pauses(t)) return FT_OK; // its first evaluation is stored with its length
    FT_TRY(ft_slots_drain(t, slot, &pruned));
    if (!pruned && !slot->paused) return FT_OK;
    slot->pruned = pruned; // it is in the file already; what the worker still does is of no interest
    ft_slots_leave(slot);
    return FT_OK;
}

static ft_status attend(ft_tuning *t, ft_slot *slot, ft_slot_ended ended) {
    FT_TRY(take_messages(t, slot, ended));
    FT_TRY(look_after(t, slot, ended));
    return read_lines(t, slot);
}

ft_status ft_slots_wait(ft_tuning *t, double seconds, ft_slot_ended ended) {
    struct pollfd ready[FT_TURNS_LIMIT]; // study.parallel is at most that
    int count = 0;
    for (int i = 0; i < t->slot_count; i++)
        if (t->slots[i].worker.pid > 0)
            ready[count++] = (struct pollfd){.fd = t->slots[i].worker.channel.socket, .events = POLLIN};
    poll(ready, (nfds_t)count, (int)(seconds * 1000)); // a signal ends the wait early, which is what it is for
    ft_status first = FT_OK;
    ft_error error;
    for (int i = 0; i < t->slot_count; i++) { // what fails with one trial is no reason to leave the others alone
        const ft_status status = attend(t, &t->slots[i], ended);
        if (status == FT_OK || first != FT_OK) continue;
        first = status;
        ft_error_save(&error);
    }
    if (first != FT_OK) ft_error_restore(&error);
    return first;
}

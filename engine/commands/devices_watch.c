// devices_watch.c - `ftengine devices --watch`: devices and the runs on them, looked at again and again: who has
// reserved how much, how much of it is in use, how far each is, and of a GPU what its driver tells. Opens no device: a
// context on a GPU would take some of what is shown.
#include "base/json/json.h"
#include "engine/commands/commands.h"
#include "engine/config/options.h"
#include "engine/memory/ledger_notes.h"
#include "engine/memory/memory.h"
#include "engine/train/room/admission.h"
#include "kernels/devices/devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 10 };

// A device as it is now. Of a CPU `gpu` is NULL.
typedef struct look {
    const ft_gpu *gpu;
    ft_candidate candidate;
    ft_ledger *ledger; // NULL: it cannot be read, and `unread` says why
    ft_error unread;
    ft_ledger_state state;
    ft_gpu_sensors sensors;
    ft_gpu_processes processes;
    size_t used; // bytes in use by everybody; has_used
    bool has_used;
} look;

typedef struct watch {
    bool json, redraws;
    int count; // of GPUs
    ft_gpu gpus[FT_CANDIDATES - 1];
    ft_error missing; // why there are none; code FT_OK: there are
} watch;

// ---- looking --------------------------------------------------------------------------------------------------------

static void read_ledger(look *l) {
    const ft_candidate *c = &l->candidate;
    ft_status status = ft_ledger_open(
        &(ft_ledger_device){.name = c->ledger, .capacity = c->capacity, .unused = c->unused}, &l->ledger);
    if (status == FT_OK) status = ft_ledger_read(l->ledger, &l->state);
    if (status == FT_OK) return;
    ft_error_save(&l->unread);
    ft_error_clear();
    ft_ledger_close(l->ledger);
    l->ledger = NULL;
}

static ft_status look_at_cpu(look *l) {
    const size_t available = ft_cpu_available_bytes();
    *l = (look){.gpu = NULL};
    FT_TRY(ft_candidate_cpu(&l->candidate));
    l->has_used = available > 0 && available <= ft_cpu_total_bytes();
    if (l->has_used) l->used = ft_cpu_total_bytes() - available;
    read_ledger(l);
    return FT_OK;
}

static ft_status look_at_gpu(const ft_gpu *gpu, look *l) {
    *l = (look){.gpu = gpu};
    FT_TRY(ft_candidate_cuda(gpu->ordinal, gpu->uuid, gpu->total_bytes, &l->candidate));
    read_ledger(l);
    // What the driver does not tell is not shown.
    if (ft_gpu_sensors_read(gpu, &l->sensors) != FT_OK) ft_error_clear();
    if (ft_gpu_processes_read(gpu, &l->processes) != FT_OK) ft_error_clear();
    l->has_used = l->sensors.has_memory;
    l->used = l->sensors.used_bytes;
    return FT_OK;
}

static void leave(look *l) {
    ft_ledger_close(l->ledger);
    ft_gpu_processes_free(&l->processes);
}

static size_t total_of(const look *l) { return l->gpu != NULL ? l->gpu->total_bytes : ft_cpu_total_bytes(); }

static void read_gpus(watch *w) {
    ft_gpus *gpus;
    int count = 0;
    ft_status status = ft_gpus_open(&gpus);
    if (status == FT_OK) status = ft_gpus_count(gpus, &count);
    for (int i = 0; i < count && status == FT_OK && w->count < FT_CANDIDATES - 1; i++) {
        if (ft_gpus_read(gpus, i, &w->gpus[w->count]) == FT_OK)
            w->count++;
        else
            ft_error_clear(); // `ftengine devices` says what it lacks
    }
    if (status != FT_OK) {
        ft_error_save(&w->missing);
        ft_error_clear();
    }
    ft_gpus_close(gpus);
}

// ---- for people -----------------------------------------------------------------------------------------------------

static const char *bar(double share, char out[BAR + 3]) {
    const int full = share <= 0 ? 0 : share >= 1 ? BAR : (int)(share * BAR + 0.5);
    out[0] = '[';
    for (int i = 0; i < BAR; i++)
        out[1 + i] = i < full ? '#' : '-';
    memcpy(out + 1 + BAR, "]", 2);
    return out;
}

static const char *time_text(double seconds, char out[24]) {
    const long s = seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(out, 24, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(out, 24, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, 24, "%lds", s);
    return out;
}

// A name may hold what commands a terminal.
static void put_clean(FILE *out, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        const bool control = *at < 0x20 || *at == 0x7F || (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0);
        fputc(control ? '?' : *at, out);
        if (control && *at == 0xC2) at++;
    }
}

static void put_run(FILE *out, const look *l, const ft_reservation *r) {
    enum { SILENT_AFTER = 10 }; // seconds
    char picture[BAR + 3], used[24], reserved[24], text[24];
    ft_ledger_note n;
    if (!ft_ledger_note_read(l->ledger, r, &n)) {
        fprintf(out, "        pid %-8lld begins     %s reserved\n", (long long)r->pid,
                ft_bytes_text(r->bytes, reserved));
        return;
    }
    const double share = n.steps > 0 ? (double)n.step / (double)n.steps : 0;
    fprintf(out, "        pid %-8lld %-10s %s %3.0f%%  step %lld/%lld  %s used, %s reserved", (long long)r->pid,
            n.doing, bar(share, picture), 100 * share, (long long)n.step, (long long)n.steps,
            ft_bytes_text(n.allocated, used), ft_bytes_text(r->bytes, reserved));
    if (n.left >= 0) fprintf(out, "  %s left", time_text(n.left, text));
    const long long silent = (long long)time(NULL) - n.at;
    if (silent > SILENT_AFTER) fprintf(out, "  (said %s ago)", time_text((double)silent, text));
    fprintf(out, "  ");
    put_clean(out, n.run);
    fputc('\n', out);
}

// Those of the ledger are shown as runs, and in a container the driver's numbers are not its own.
static bool is_run(const look *l, int64_t pid) {
    for (int i = 0; i < l->state.count; i++)
        if (l->state.reservations[i].pid == pid) return true;
    return false;
}

static void put_others(FILE *out, const look *l) {
    char bytes[24];
    for (int i = 0; i < l->processes.count; i++) {
        const ft_gpu_process *p = &l->processes.list[i];
        if (is_run(l, p->pid)) continue;
        fprintf(out, "        pid %-8lld other      ", (long long)p->pid);
        fprintf(out, "%s used  ", p->has_bytes ? ft_bytes_text(p->bytes, bytes) : "?");
        put_clean(out, p->name[0] != '\0' ? p->name : "another program");
        fputc('\n', out);
    }
}

static void put_look(FILE *out, const look *l) {
    char total[24], used[24], reserved[24], picture[BAR + 3];
    const size_t all = total_of(l);
    fprintf(out, "%-7s ", l->candidate.name);
    if (l->gpu != NULL)
        put_clean(out, l->gpu->name);
    else
        fprintf(out, "%d threads", ft_cpu_threads());
    if (l->sensors.has_temperature) fprintf(out, ", %d °C", l->sensors.celsius);
    if (l->sensors.has_busy) fprintf(out, ", %d%% busy", l->sensors.busy);
    fprintf(out, "\n        memory %s", ft_bytes_text(all, total));
    if (l->has_used)
        fprintf(out, ", used %s %s", bar((double)l->used / (double)(all > 0 ? all : 1), picture),
                ft_bytes_text(l->used, used));
    if (l->ledger == NULL) {
        fprintf(out, ", reservations unknown: ");
        put_clean(out, l->unread.message);
    } else {
        fprintf(out, ", reserved %s %s", bar((double)l->state.reserved / (double)(all > 0 ? all : 1), picture),
                ft_bytes_text(l->state.reserved, reserved));
    }
    fputc('\n', out);
    for (int i = 0; i < l->state.count && l->ledger != NULL; i++)
        put_run(out, l, &l->state.reservations[i]);
    put_others(out, l);
}

// ---- for programs ---------------------------------------------------------------------------------------------------

static json_t *run_json(const look *l, const ft_reservation *r, bool *failed) {
    ft_ledger_note n;
    json_t *run = json_pack("{s:I, s:I, s:I}", "pid", (json_int_t)r->pid, "reserved_bytes", (json_int_t)r->bytes,
                            "since", (json_int_t)r->since);
    if (!ft_ledger_note_read(l->ledger, r, &n)) {
        ft_json_put(run, "doing", json_string("begins"), failed);
        return run;
    }
    ft_json_put(run, "doing", ft_json_text(n.doing), failed);
    ft_json_put(run, "run", ft_json_text(n.run), failed);
    ft_json_put(run, "step", json_integer((json_int_t)n.step), failed);
    ft_json_put(run, "steps", json_integer((json_int_t)n.steps), failed);
    ft_json_put(run, "used_bytes", json_integer((json_int_t)n.allocated), failed);
    ft_json_put(run, "taken_bytes", json_integer((json_int_t)n.reserved), failed);
    ft_json_put(run, "seconds_left", n.left >= 0 ? json_real(n.left) : json_null(), failed);
    ft_json_put(run, "at", json_integer((json_int_t)n.at), failed);
    return run;
}

static json_t *look_json(const look *l, bool *failed) {
    json_t *device = json_object(), *runs = json_array(), *others = json_array();
    ft_json_put(device, "device", ft_json_text(l->candidate.name), failed);
    ft_json_put(device, "total_bytes", json_integer((json_int_t)total_of(l)), failed);
    ft_json_put(device, "used_bytes", l->has_used ? json_integer((json_int_t)l->used) : json_null(), failed);
    ft_json_put(device, "reserved_bytes", l->ledger != NULL ? json_integer((json_int_t)l->state.reserved) : json_null(),
                failed);
    if (l->gpu != NULL) {
        ft_json_put(device, "temperature_celsius",
                    l->sensors.has_temperature ? json_integer(l->sensors.celsius) : json_null(), failed);
        ft_json_put(device, "busy_percent", l->sensors.has_busy ? json_integer(l->sensors.busy) : json_null(), failed);
    }
    for (int i = 0; i < l->state.count && l->ledger != NULL; i++)
        ft_json_append(runs, run_json(l, &l->state.reservations[i], failed), failed);
    ft_json_put(device, "runs", runs, failed);
    for (int i = 0; i < l->processes.count; i++) {
        const ft_gpu_process *p = &l->processes.list[i];
        if (is_run(l, p->pid)) continue;
        json_t *other = json_pack("{s:I}", "pid", (json_int_t)p->pid);
        ft_json_put(other, "name", p->name[0] != '\0' ? ft_json_text(p->name) : json_null(), failed);
        ft_json_put(other, "used_bytes", p->has_bytes ? json_integer((json_int_t)p->bytes) : json_null(), failed);
        ft_json_append(others, other, failed);
    }
    ft_json_put(device, "others", others, failed);
    return device;
}

// ---- again and again ------------------------------------------------------------------------------------------------

static ft_status put_json(json_t *devices, bool failed) {
    json_t *root = json_pack("{s:i, s:I}", "format_version", 1, "time", (json_int_t)time(NULL));
    ft_json_put(root, "devices", devices, &failed);
    char *line = failed ? NULL : ft_json_line(root);
    json_decref(root);
    if (line == NULL) return ft_fail_memory(0, "the devices as JSON");
    printf("%s\n", line);
    free(line);
    return FT_OK;
}

// Drawn over the picture before, each line to its end, so that nothing flickers.
static void draw(const watch *w, const char *text) {
    if (!w->redraws) {
        printf("%s\n", text);
        return;
    }
    fputs("\033[H", stdout);
    for (const char *at = text, *end; *at != '\0'; at = end + 1) {
        end = strchr(at, '\n');
        printf("%.*s\033[K\n", (int)(end - at), at);
    }
    fputs("\033[J", stdout);
}

static ft_status look_once(const watch *w) {
    char *text = NULL;
    size_t size;
    bool failed = false;
    json_t *devices = w->json ? json_array() : NULL;
    FILE *out = open_memstream(&text, &size);
    ft_status status = out != NULL ? FT_OK : ft_fail_memory(0, "a picture of the devices");
    for (int i = -1; i < w->count && status == FT_OK; i++) {
        look l;
        status = i < 0 ? look_at_cpu(&l) : look_at_gpu(&w->gpus[i], &l);
        if (status != FT_OK) break;
        if (w->json)
            ft_json_append(devices, look_json(&l, &failed), &failed);
        else
            put_look(out, &l);
        leave(&l);
    }
    if (out != NULL && w->missing.code != FT_OK) {
        fprintf(out, "cuda    ");
        put_clean(out, w->missing.message);
        fputc('\n', out);
    }
    if (out != NULL && fclose(out) != 0 && status == FT_OK) status = ft_fail_memory(0, "a picture of the devices");
    if (status == FT_OK && w->json)
        status = put_json(json_incref(devices), failed);
    else if (status == FT_OK)
        draw(w, text);
    json_decref(devices);
    free(text);
    if (status == FT_OK && fflush(stdout) != 0)
        status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    return status;
}

static ft_status seconds_of(const char *interval, double *seconds) {
    ft_config config = {0};
    *seconds = 2;
    if (interval == NULL) return FT_OK;
    FT_TRY(ft_option_set(&config, ft_option_at(ft_option_find("device.check_interval")), interval, NULL, "--interval"));
    *seconds = config.device.check_interval;
    ft_config_free(&config);
    return FT_OK;
}

ft_status ft_devices_watch(const char *interval, bool as_json) {
    double seconds;
    const char *term = getenv("TERM");
    watch w = {.json = as_json};
    w.redraws = !as_json && isatty(STDOUT_FILENO) && !(term != NULL && strcmp(term, "dumb") == 0);
    FT_TRY(seconds_of(interval, &seconds));
    read_gpus(&w);
    if (w.redraws) fputs("\033[2J", stdout);
    for (;;) {
        FT_TRY(look_once(&w));
        const struct timespec pause = {.tv_sec = (time_t)seconds,
                                       .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
        nanosleep(&pause, NULL);
    }
}

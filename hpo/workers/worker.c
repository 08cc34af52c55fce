#include "hpo/workers/worker.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/train/room/observer.h"
#include "hpo/workers/channel.h"
#include "hpo/workers/internal.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

// ---- what is told ---------------------------------------------------------------------------------------------------

// A coordinator that is gone takes this process with it: nothing is left to do about a message that did not arrive.
static void tell(ft_worker *w, json_t *message) {
    ft_error error;
    ft_error_save(&error);
    if (ft_channel_send(&w->channel, message) != FT_OK) ft_error_restore(&error);
}

void ft_worker_alive(ft_worker *w, int64_t step, int64_t steps, size_t bytes, bool logged) {
    tell(w, json_pack("{s:s, s:I, s:I, s:I, s:b}", "is", "alive", "step", (json_int_t)step, "steps", (json_int_t)steps,
                      "bytes", (json_int_t)bytes, "logged", logged));
}

void ft_worker_entered(ft_worker *w, const ft_worker_place *place) {
    tell(w, json_pack("{s:s, s:s, s:s, s:I, s:b}", "is", "entered", "device", place->device, "ledger", place->ledger, "capacity",
                      (json_int_t)place->capacity, "accelerator", place->accelerator));
}

void ft_worker_priced(ft_worker *w, const char *ledger, const ft_step_price *price) {
    const ft_plan_work *work = &price->work;
    tell(w, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "is", "priced", "ledger", ledger, "seconds", price->seconds, "occupied",
                      work->occupied, "computing", work->computing, "moving", work->moving, "starting", work->starting, "travelling",
                      work->travelling, "threads", price->threads));
}

// The message is sent before the signal that brings a run here.
bool ft_worker_keeps(ft_worker *w) {
    if (w->mail != NULL) return ft_mail_keeps(w->mail);
    json_t *message = NULL;
    bool keeps = true;
    ft_error error;
    ft_error_save(&error);
    while (ft_channel_receive(&w->channel, 0, &message) == FT_OK && message != NULL) {
        const char *what = json_string_value(json_object_get(message, "do"));
        if (what != NULL && strcmp(what, "stop") == 0) keeps = json_is_true(json_object_get(message, "keep"));
        json_decref(message);
    }
    ft_error_restore(&error);
    return keeps;
}

ft_status ft_worker_turn(ft_worker *w, size_t bytes, bool full, bool *alone) {
    if (full)
        tell(w, json_pack("{s:s}", "is", "full"));
    else
        tell(w, json_pack("{s:s, s:I}", "is", "planned", "bytes", (json_int_t)bytes));
    for (;;) {
        json_t *message;
        if (ft_stop_signal() != 0)
            return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped while waiting for its turn");
        if (w->mail != NULL) {
            if (ft_mail_take_turn(w->mail, 0.1, alone)) return FT_OK;
            if (ft_mail_stops(w->mail)) return ft_fail(FT_TERMINATED, NULL, "stopped before its first step");
            continue;
        }
        FT_TRY(ft_channel_receive(&w->channel, 0.1, &message)); // a signal between the question and the wait ends none
        if (w->channel.ended && message == NULL) return ft_fail(FT_TERMINATED, NULL, "the coordinator is gone");
        const char *what = json_string_value(json_object_get(message, "do"));
        bool turn = what != NULL && strcmp(what, "enter") == 0, stop = what != NULL && strcmp(what, "stop") == 0;
        *alone = json_is_true(json_object_get(message, "alone"));
        json_decref(message);
        if (turn) return FT_OK;
        if (stop) return ft_fail(FT_TERMINATED, NULL, "stopped before its first step");
    }
}

// ---- crashes --------------------------------------------------------------------------------------------------------

static void show_crash(int signal_number) {
    static const char head[] = "crashed; the stack:\n";
    void *frames[64];
    int count = backtrace(frames, 64); // it was loaded before, so that nothing is allocated here
    if (write(STDERR_FILENO, head, sizeof head - 1) > 0) backtrace_symbols_fd(frames, count, STDERR_FILENO);
    raise(signal_number); // the standard action is back
}

void ft_worker_show_crashes(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    void *frame[1];
    backtrace(frame, 1);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old, action = {.sa_handler = show_crash, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
        // A sanitizer that is there already tells more.
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(signals[i], &action, NULL);
    }
}

// ---- one trial ------------------------------------------------------------------------------------------------------

// Standard output and error go to the trial's log, and back.
typedef struct streams {
    int output, error;
} streams;

static void restore(streams *s) {
    fflush(stdout);
    if (s->output >= 0) dup2(s->output, STDOUT_FILENO);
    if (s->error >= 0) dup2(s->error, STDERR_FILENO);
    if (s->output >= 0) close(s->output);
    if (s->error >= 0) close(s->error);
}

static ft_status redirect(const char *path, streams *s) {
    fflush(stdout);
    *s = (streams){fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    ft_status status = FT_OK;
    if (s->output < 0 || s->error < 0 || log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        status = ft_fail_errno(FT_FAILED, errno, path, "cannot write the trial's log");
    if (log >= 0) close(log);
    if (status != FT_OK) restore(s);
    return status;
}

// The most that this process has held counts for the run: of the one before it nothing.
static void forget_peak(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    ssize_t written = write(file, "5", 1);
    (void)written; // an older kernel: the figure beside the allocator's is then of the process
    close(file);
}

// Of a pack the standard streams are everybody's: the lines of the trial's context go to its log.
static void write_line(void *owner, const char *text) { dprintf(*(const int *)owner, "%s\n", text); }

static ft_status open_sink(const char *path, int *log) {
    *log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (*log < 0) return ft_fail_errno(FT_FAILED, errno, path, "cannot write the trial's log");
    ft_context_now()->sink = (ft_log_sink){write_line, log};
    return FT_OK;
}

static void close_sink(int log) {
    ft_context_now()->sink = (ft_log_sink){NULL, NULL};
    close(log);
}

static ft_status run_logged(ft_worker *w, ft_worker_function run, void *context, ft_worker_job *job) {
    ft_arena arena = {0};
    streams saved;
    int sink;
    const char *log = ft_path_join(&arena, job->directory, "log.txt");
    ft_status status = log == NULL ? FT_NO_MEMORY : w->mail != NULL ? open_sink(log, &sink) : redirect(log, &saved);
    if (status == FT_OK) {
        if (w->mail == NULL) forget_peak();
        status = run(context, w, job);
        if (status == FT_INTERRUPTED || status == FT_TERMINATED)
            ft_info("%s", ft_error_message());
        else if (status != FT_OK)
            ft_log_error();
        if (w->mail != NULL) close_sink(sink);
        else restore(&saved);
    }
    ft_arena_free(&arena);
    return status;
}

static void tell_end(ft_worker *w, const ft_worker_job *job, ft_status status) {
    char error[1600] = "";
    if (status != FT_OK)
        snprintf(error, sizeof error, "%s%s%s%s", ft_error_message(), ft_error_where()[0] != '\0' ? " (" : "",
                 ft_error_where(), ft_error_where()[0] != '\0' ? ")" : "");
    tell(w, json_pack("{s:s, s:i, s:o, s:b, s:I, s:I, s:I}", "is", "end", "code", (int)status, "error", ft_json_text(error),
                      "disk_full", status != FT_OK && ft_error_disk_full(), "needed", (json_int_t)job->needed, "limit",
                      (json_int_t)job->limit, "peak", (json_int_t)job->peak));
}

void ft_worker_run_trial(ft_worker *w, ft_worker_function run, void *context, const json_t *message) {
    ft_arena arena = {0};
    const char *directory = json_string_value(json_object_get(message, "directory"));
    const char *devices = json_string_value(json_object_get(message, "devices"));
    ft_worker_job job = {.trial = json_integer_value(json_object_get(message, "trial")),
                         .directory = ft_path_join(&arena, w->study, directory != NULL ? directory : ""),
                         .devices = devices != NULL ? devices : "",
                         .wait = json_is_true(json_object_get(message, "wait")),
                         .wait_timeout = json_number_value(json_object_get(message, "wait_timeout")),
                         .check_interval = json_number_value(json_object_get(message, "check_interval")),
                         .taken = json_is_true(json_object_get(message, "taken")),
                         .beside = (size_t)json_integer_value(json_object_get(message, "beside"))};
    ft_error_clear();
    tell_end(w, &job, job.directory != NULL ? run_logged(w, run, context, &job) : FT_NO_MEMORY);
    ft_arena_free(&arena);
}

ft_status ft_worker_serve(int socket, const char *study, ft_worker_function run, void *context) {
    ft_worker w = {.channel = {.socket = socket}, .study = study};
    ft_status status = FT_OK;
    (void)fcntl(socket, F_SETFD, FD_CLOEXEC); // a process that a trial starts would keep it open
    ft_stop_begin(); // SIGTERM may come when the trial it was meant for has just ended
    while (status == FT_OK && !w.channel.ended) {
        json_t *message;
        status = ft_channel_receive(&w.channel, -1, &message);
        const char *what = json_string_value(json_object_get(message, "do"));
        if (status == FT_OK && what != NULL && strcmp(what, "run") == 0) ft_worker_run_trial(&w, run, context, message);
        json_decref(message);
    }
    ft_channel_close(&w.channel);
    return status;
}

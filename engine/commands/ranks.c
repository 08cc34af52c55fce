#include "engine/commands/ranks.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/log.h"
#include "base/log_copy.h"
#include "base/stop.h"
#include "engine/config/device_list.h"
#include "engine/ranks/attempts.h"
#include "engine/ranks/rank.h"
#include "engine/train/room/ranks.h"
#include "engine/train/run_dir.h"
#include "engine/train/watch.h"
#include "kernels/collectives/shared_memory.h"
#include "kernels/devices/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// ---- who starts and watches

// Those that have heard of a failure end by themselves; this long they may take. Where the first rank is this process,
// the others have nothing to save once it has ended.
static const double patience = 20, patience_behind = 2;

typedef struct child {
    pid_t pid; // 0: it has ended
    int status;
} child;

typedef struct launch {
    int ranks, file, argc;
    char **argv;
    const char *command; // of ftengine, that a rank runs
    int first;           // that is started: 1 where this process is rank 0
    int out;             // of results; -1: of this process
    ft_shared_watch *watch;
    child child[FT_GROUP_RANKS];
    int dead; // the first that was killed, -1: none
    int signal;
    int failed_rank;    // whose failure the outcome is, -1: nobody's alone
    double ending;      // since when they should; 0: they should not
    bool killed;        // because they did not
    atomic_bool failed; // this process, as rank 0
} launch;

// In the child: only calls that are safe between fork and exec.
// out: of results, for the first rank; -1: as they are here.
static void become_rank(const char *program, char **arguments, int rank, int null, int out, pid_t parent) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &standard, NULL);
    sigaction(SIGTERM, &standard, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); // it died before the line above
    if (dup2(null, STDIN_FILENO) < 0) _exit(127);
    if (rank > 0) out = null; // results are the first one's
    if (out >= 0 && dup2(out, STDOUT_FILENO) < 0) _exit(127);
    execv(program, arguments);
    _exit(127);
}

static ft_status start(launch *l, int rank, int null) {
    char name[] = "ftengine", numbers[3][12];
    const char *program = ft_context_now()->program;
    char **arguments = ft_calloc((size_t)l->argc + 6, sizeof *arguments, "the arguments of a rank");
    if (arguments == NULL) return FT_NO_MEMORY;
    snprintf(numbers[0], sizeof numbers[0], "%d", rank);
    snprintf(numbers[1], sizeof numbers[1], "%d", l->ranks);
    snprintf(numbers[2], sizeof numbers[2], "%d", l->file);
    char *const first[] = {name, (char *)l->command, numbers[0], numbers[1], numbers[2]};
    memcpy(arguments, first, sizeof first);
    if (l->argc > 0) memcpy(arguments + 5, l->argv, (size_t)l->argc * sizeof *arguments);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) become_rank(program != NULL ? program : "/proc/self/exe", arguments, rank, null, l->out, parent);
    const int error = errno;
    free(arguments);
    if (pid < 0) return ft_fail_errno(FT_FAILED, error, "device.name", "cannot start rank %d", rank);
    l->child[rank].pid = pid;
    return FT_OK;
}

static ft_status start_all(launch *l) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return ft_fail_errno(FT_FAILED, errno, "/dev/null", "cannot open");
    fflush(NULL); // or what is buffered would be written twice
    ft_status status = FT_OK;
    for (int r = l->first; status == FT_OK && r < l->ranks; r++)
        status = start(l, r, null);
    close(null);
    return status;
}

static void kill_all(launch *l, int number) {
    for (int r = 0; r < l->ranks; r++)
        if (l->child[r].pid > 0) kill(l->child[r].pid, number);
}

static void explain_death(int rank, int number, ft_error *error) {
    char host[FT_GROUP_HOST] = "";
    *error = (ft_error){.code = FT_FAILED};
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    snprintf(error->message, sizeof error->message, "rank %d on %s was killed by signal %d (%s)", rank,
             host[0] != '\0' ? host : "this host", number, strsignal(number));
}

static void end(launch *l, int rank, int status) {
    child *c = &l->child[rank];
    ft_error error;
    int failed = -1;
    c->pid = 0;
    c->status = status;
    // The others may have noticed before, and be ending for it.
    const bool noticed = ft_shared_watch_failure(l->watch, &failed, &error) && failed == rank;
    if (!WIFSIGNALED(status) || l->dead >= 0 || l->killed || (l->ending > 0 && !noticed)) return;
    l->dead = rank;
    l->signal = WTERMSIG(status);
    explain_death(rank, l->signal, &error);
    ft_shared_watch_abort(l->watch, rank, &error);
}

// Takes who has ended; how many go on.
static int collect(launch *l) {
    int left = 0;
    for (int r = 0; r < l->ranks; r++) {
        int status;
        if (l->child[r].pid == 0) continue;
        if (waitpid(l->child[r].pid, &status, WNOHANG) == l->child[r].pid)
            end(l, r, status);
        else
            left++;
    }
    return left;
}

// All stop, and diverge, at the same step, and the first rank has still to save: none of the others fails by it.
static bool is_of_all(ft_status status) {
    return status == FT_INTERRUPTED || status == FT_TERMINATED || status == FT_DIVERGED;
}

// A rank that ends badly without a word (it could not even begin) leaves the others waiting.
static bool some_failed(const launch *l) {
    int rank;
    ft_error error;
    if (ft_shared_watch_failure(l->watch, &rank, &error) && !is_of_all(error.code)) return true;
    for (int r = 0; r < l->ranks; r++) {
        const child *c = &l->child[r];
        const int code = WIFEXITED(c->status) ? WEXITSTATUS(c->status) : FT_FAILED;
        if (c->pid == 0 && code != FT_OK && !is_of_all((ft_status)code)) return true;
    }
    return false;
}

static void watch(launch *l) {
    bool told = false;
    while (collect(l) > 0) {
        const int asked = ft_stop_signal();
        if (asked != 0 && !told && l->child[0].pid > 0)
            kill(l->child[0].pid, asked); // a terminal has told all; others only this process
        told = told || asked != 0;
        if (l->ending == 0 && (some_failed(l) || atomic_load(&l->failed))) l->ending = ft_now();
        if (l->ending > 0 && ft_now() - l->ending > (l->first > 0 ? patience_behind : patience))
            l->killed = true, kill_all(l, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

// How it went, of all.
static ft_status outcome(launch *l) {
    ft_error error;
    int rank;
    l->failed_rank = l->dead;
    if (l->dead >= 0 && l->signal == ft_stop_signal())
        return ft_fail(ft_stop_status(l->signal), NULL, "stopped before the first step");
    if (l->dead >= 0) {
        explain_death(l->dead, l->signal, &error);
        ft_error_restore(&error);
        if (l->first == 0)
            ft_hint("rank-%d.log in the run directory has what it said; `ftengine train RUN` goes on from the last "
                    "checkpoint, and distributed.max_restarts=3 does so by itself",
                    l->dead);
        return FT_FAILED;
    }
    if (ft_shared_watch_failure(l->watch, &rank, &error)) {
        l->failed_rank = rank;
        ft_error_restore(&error);
        return error.code;
    }
    for (int r = 0; r < l->ranks; r++)
        if (l->child[r].status != 0)
            return ft_fail(FT_FAILED, "device.name", "rank %d ended with exit code %d", r,
                           WEXITSTATUS(l->child[r].status));
    return FT_OK;
}

// After a failure, which is kept.
static void end_all(launch *l) {
    ft_error error;
    ft_error_save(&error);
    l->killed = true;
    kill_all(l, SIGKILL);
    while (collect(l) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ft_error_restore(&error);
}

// Once. note: what the first rank has left, its run directory.
static ft_status attempt(launch *l, char note[static FT_SHARED_NOTE]) {
    FT_TRY(ft_shared_group_create(l->ranks, &l->file));
    ft_status status = ft_shared_watch_open(l->file, &l->watch);
    if (status == FT_OK) status = start_all(l);
    if (status != FT_OK) {
        end_all(l);
    } else {
        watch(l);
        status = outcome(l);
        snprintf(note, FT_SHARED_NOTE, "%s", ft_shared_watch_note(l->watch));
    }
    ft_shared_watch_close(l->watch);
    close(l->file);
    return status;
}

// ---- again, when one was lost

// A run as it goes on from attempt to attempt.
typedef struct restarts {
    ft_attempts attempts;
    int64_t most, made;
    char dir[FT_SHARED_NOTE]; // "": it has not begun
    json_t *untold;           // what happened before there was one
    ft_arena arena;
    int argc; // of the command line
    char **argv;
    bool same; // devices as there
    int out;   // results of the last attempt: of those before nobody wants to know
} restarts;

// GPUs are known by what does not change when one is lost: the others get new numbers.
static void name_gpus(ft_attempts *a, bool apart) {
    ft_gpus *gpus = NULL;
    for (int i = 0; apart && i < a->devices; i++) {
        ft_gpu gpu;
        ft_attempt_device *d = &a->device[i];
        if (gpus == NULL && ft_gpus_open(&gpus) != FT_OK) break;
        if (ft_gpus_read(gpus, atoi(d->name + strcspn(d->name, "0123456789")), &gpu) == FT_OK)
            snprintf(d->uuid, sizeof d->uuid, "%s", gpu.uuid);
    }
    ft_gpus_close(gpus);
    ft_error_clear(); // a rank says what is wrong
}

// A rank that was killed says nothing about what the next one meets. What one reports would come again, unless it is its
// device; a run that has not even begun is one that was asked for wrongly.
static bool may_go_on(const restarts *r, const launch *l, ft_status status) {
    if (r->made == r->most || l->failed_rank < 0 || ft_stop_signal() != 0) return false;
    if (l->dead >= 0) return status == FT_FAILED;
    return (status == FT_FAILED || status == FT_NO_DEVICE) && r->dir[0] != '\0' && r->attempts.device[0].uuid[0] != '\0';
}

static ft_status too_few(const restarts *r, const ft_left_out *out, int before) {
    char text[FT_ATTEMPTS_TEXT];
    const ft_status status = ft_error_code();
    ft_attempts_text(out, before, r->attempts.devices, text);
    ft_fail(status, "distributed.min_ranks", "%.400s; it does not go on%s", ft_error_message(), text);
    ft_hint("at least %d are asked for; `ftengine train RUN --devices ...` goes on with any others from the last checkpoint",
            r->attempts.least);
    return status;
}

// On the terminal and in train.log, in restarts.json, and with that in run.json.
static ft_status tell(restarts *r, const ft_lost_rank *loss, const char *device, const ft_left_out *out, int before) {
    char text[FT_ATTEMPTS_TEXT], why[FT_ATTEMPTS_TEXT];
    bool failed = false;
    snprintf(why, sizeof why, "%.*s", FT_ATTEMPTS_TEXT - 1, ft_error_message());
    ft_error_clear();
    ft_attempts_text(out, before, r->attempts.devices, text);
    ft_log_copy *log = ft_log_copy_begin();
    const char *path = r->dir[0] != '\0' ? ft_arena_format(&r->arena, "%s/train.log", r->dir) : NULL;
    if (path != NULL) ft_log_copy_to(log, path);
    ft_warn("%s; restart %lld of at most %lld%s%s", why, (long long)r->made + 1, (long long)r->most,
            r->dir[0] != '\0' ? ", from the last checkpoint" : "", text);
    ft_log_copy_end(log, true);
    if (r->untold == NULL) r->untold = json_array();
    ft_json_append(r->untold, ft_attempts_json(loss, device, why, out, before, r->attempts.devices, &failed), &failed);
    if (failed) return ft_fail_memory(0, "restarts.json");
    if (r->dir[0] == '\0') return FT_OK;
    FT_TRY(ft_attempts_save(r->dir, r->untold));
    return json_array_clear(r->untold), FT_OK;
}

// Those of the command line, and behind them where to go on, and with what.
static ft_status arguments_of(restarts *r, launch *l) {
    char **arguments = ft_arena_alloc(&r->arena, ((size_t)r->argc + 4) * sizeof *arguments);
    char exists[] = "output.exists=resume", devices[] = "--devices";
    char *list = ft_arena_alloc(&r->arena, (size_t)r->attempts.devices * FT_ROLL_NAME + 1);
    if (arguments == NULL || list == NULL) return FT_NO_MEMORY;
    if (r->argc > 0) memcpy(arguments, r->argv, (size_t)r->argc * sizeof *arguments);
    l->argc = r->argc;
    if (r->dir[0] != '\0') {
        arguments[l->argc++] = ft_arena_format(&r->arena, "output.dir=%s", r->dir);
        arguments[l->argc++] = ft_arena_strdup(&r->arena, exists);
    }
    for (int i = 0, at = 0; i < r->attempts.devices; i++)
        at += sprintf(list + at, "%s%s", i > 0 ? "," : "", r->attempts.device[i].name);
    if (!r->same) {
        arguments[l->argc++] = ft_arena_strdup(&r->arena, devices);
        arguments[l->argc++] = list;
    }
    for (int i = r->argc; i < l->argc; i++)
        if (arguments[i] == NULL) return FT_NO_MEMORY;
    l->argv = arguments;
    return FT_OK;
}

// After an attempt that a loss has ended, whose error is set. Another status than FT_OK: that was the last one.
static ft_status prepare(restarts *r, launch *l) {
    enum { PATIENCE = 120 }; // of a driver that has to do with a broken GPU
    const ft_attempts was = r->attempts;
    ft_roll roll;
    ft_left_out out;
    ft_error error;
    ft_error_save(&error);
    const ft_lost_rank loss = {.rank = l->failed_rank,
                          .reported = l->dead < 0,
                          .of_device = ft_error_of_device(),
                          .checkpoint = r->dir[0] != '\0' ? ft_run_dir_checkpoint(r->dir) : -1};
    const bool asked = was.device[0].uuid[0] != '\0' &&
                       ft_roll_call(ft_context_now()->program, PATIENCE, &roll) == FT_OK;
    if (ft_stop_signal() != 0) return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped between two attempts");
    ft_error_restore(&error);
    const ft_attempt_next next = ft_attempts_after(&r->attempts, &loss, asked ? &roll : NULL, &out);
    if (next == FT_ATTEMPT_SAME_ERROR) return error.code;
    if (next == FT_ATTEMPT_TOO_FEW) return too_few(r, &out, was.devices);
    FT_TRY(tell(r, &loss, was.device[loss.rank].name, &out, was.devices));
    r->same = r->same && memcmp(&was.device, &r->attempts.device, sizeof was.device) == 0 && out.count == 0;
    r->made++;
    return arguments_of(r, l);
}

static ft_status show_results(const restarts *r) {
    char bytes[4096];
    ssize_t got = 0;
    bool failed = lseek(r->out, 0, SEEK_SET) != 0;
    while (!failed && (got = read(r->out, bytes, sizeof bytes)) > 0)
        for (ssize_t at = 0, put; !failed && at < got; at += put)
            failed = (put = write(STDOUT_FILENO, bytes + at, (size_t)(got - at))) < 0;
    return failed || got < 0 ? ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write") : FT_OK;
}

static ft_status go_on(restarts *r) {
    char note[FT_SHARED_NOTE] = "";
    launch l = {.argc = r->argc, .argv = r->argv};
    for (;;) {
        l = (launch){.ranks = r->attempts.devices, .argc = l.argc, .argv = l.argv, .command = "rank", .out = r->out, .dead = -1, .failed_rank = -1};
        if (ftruncate(r->out, 0) != 0 || lseek(r->out, 0, SEEK_SET) != 0)
            return ft_fail_errno(FT_FAILED, errno, "ranks", "cannot keep their results");
        const ft_status status = attempt(&l, note);
        if (r->dir[0] == '\0') memcpy(r->dir, note, sizeof r->dir);
        if (status == FT_OK || !may_go_on(r, &l, status)) return status;
        FT_TRY(prepare(r, &l));
    }
}

ft_status ft_ranks_run(const ft_config *config, int argc, char **argv) {
    const char *names = config->device.name;
    restarts r = {.most = config->distributed.max_restarts, .argc = argc, .argv = argv, .same = true};
    r.attempts.devices = ft_device_list_count(names);
    r.attempts.least = (int)config->distributed.min_ranks;
    if (r.attempts.devices > FT_GROUP_RANKS)
        return ft_fail(FT_INVALID, "device.name", "%d devices; at most %d are a run", r.attempts.devices, FT_GROUP_RANKS);
    for (int i = 0; i < r.attempts.devices; i++)
        ft_device_list_name(names, i, r.attempts.device[i].name);
    ft_stop_begin();
    if (r.most > 0) name_gpus(&r.attempts, ft_device_list_is_apart(names));
    r.out = memfd_create("results of ranks", MFD_CLOEXEC);
    ft_status status = r.out >= 0 ? go_on(&r) : ft_fail_errno(FT_FAILED, errno, "ranks", "cannot keep their results");
    ft_error error;
    ft_error_save(&error);
    const ft_status shown = r.out >= 0 ? show_results(&r) : FT_OK;
    if (status == FT_OK)
        status = shown;
    else
        ft_error_restore(&error);
    if (r.out >= 0) close(r.out);
    json_decref(r.untold);
    ft_arena_free(&r.arena);
    return status;
}

// ---- one of them

static void say_nothing(void *owner, const char *text) {}

static ft_status join(int argc, char **argv, ft_ranks **ranks) {
    int number[3];
    ft_group *group;
    for (int i = 0; i < 3; i++) {
        char rest;
        if (i >= argc || sscanf(argv[i], "%d%c", &number[i], &rest) != 1)
            return ft_fail(FT_INVALID, "rank",
                           "ftengine train and tune with several devices start ranks; nobody else does");
    }
    ft_shared_watch *watch;
    ft_error error;
    int failed;
    FT_TRY(ft_shared_watch_open(number[2], &watch));
    ft_status status = ft_shared_group_join(number[2], number[0], number[1], &group);
    if (status == FT_OK) status = ft_ranks_open(group, ranks);
    if (status != FT_OK && ft_shared_watch_failure(watch, &failed, &error) && failed != number[0])
        ft_error_clear(); // another one had failed by then: who started both tells
    ft_shared_watch_close(watch);
    return status;
}

static void name_rank(const ft_ranks *r, ft_status status, ft_error *error) {
    char message[sizeof error->message];
    if (status == FT_INVALID || is_of_all(status) || r->ranks == 1) return; // of the run, whoever found it
    snprintf(message, sizeof message, "rank %d on %s: %.800s", r->rank, r->group->host[r->rank], error->message);
    memcpy(error->message, message, sizeof message);
}

// A failure of this rank ends the group; it is set too.
static ft_status work_in(ft_ranks *ranks, ft_rank_work work, void *given) {
    ft_context *context = ft_context_now();
    const ft_log_sink sink = context->sink;
    if (ranks->rank > 0) context->sink.line = say_nothing; // its train.log is rank-N.log
    if (ranks->ranks > 1) ft_ranks_enter(ranks); // of an attempt with one device that is a run of one process
    const ft_status status = work(given);
    ft_ranks_enter(NULL);
    if (status != FT_OK) {
        ft_error error;
        context->sink.line = say_nothing;
        if (is_of_all(status))
            ft_info("%s", ft_error_message());
        else
            ft_log_error(); // for the log alone
        ft_error_save(&error);
        name_rank(ranks, status, &error);
        if (ranks->rank == 0 || !is_of_all(status)) ft_group_abort(ranks->group, &error);
    }
    context->sink = sink;
    return status;
}

static ft_status leave(ft_ranks *ranks, ft_status status) {
    ft_ranks_close(ranks);
    ft_error_clear(); // who started it tells
    return status;
}

ft_status ft_ranks_follow(int argc, char **argv, ft_rank_work work, void *context) {
    ft_ranks *ranks;
    FT_TRY(join(argc, argv, &ranks));
    return leave(ranks, work_in(ranks, work, context));
}

// What `train` is called with.
typedef struct train_call {
    const ft_ranks *ranks;
    const ft_section *const *sections;
    int argc;
    char **argv;
} train_call;

static ft_status train(void *context) {
    const train_call *c = context;
    return ft_command_train(c->sections, c->argc, c->argv);
}

ft_status ft_ranks_train(ft_ranks *ranks, const ft_section *const *sections, int argc, char **argv) {
    return work_in(ranks, train, &(train_call){ranks, sections, argc, argv});
}

// Of the first rank, where its run lies, for who starts it again.
typedef struct noter {
    ft_run_watch watch;
    const ft_run_watch *other;
    ft_group *group;
} noter;

static void note_dir(void *owner, const ft_run_news *news) {
    const noter *n = owner;
    // One that is too long cannot be: it is a path.
    if (news->event == FT_RUN_OPENED) (void)ft_shared_group_note(n->group, news->dir);
    if (n->other != NULL) n->other->told(n->other->owner, news);
}

static ft_status train_noted(void *context) {
    const ft_ranks *ranks = ((const train_call *)context)->ranks;
    noter n = {.watch = {.owner = &n, .told = note_dir}, .group = ranks->group};
    if (ranks->rank > 0) return train(context);
    n.other = ft_run_set_watch(&n.watch);
    const ft_status status = train(context);
    ft_run_set_watch(n.other);
    return status;
}

ft_status ft_command_rank(const ft_section *const *sections, int argc, char **argv) {
    const int own = argc < 3 ? argc : 3;
    ft_ranks *ranks;
    ft_rank launched;
    FT_TRY(ft_rank_find_here(&launched));
    FT_TRY(join(argc, argv, &ranks));
    ranks->attempt = launched.attempt; // of a launcher that started the one process which started these
    const ft_status status = work_in(ranks, train_noted, &(train_call){ranks, sections, argc - own, argv + own});
    return leave(ranks, status);
}

// ---- the first of them, in a process that has work of its own before and after

static void *watch_beside(void *argument) {
    watch(argument);
    return NULL;
}

static ft_status take_part(launch *l, ft_rank_work work, void *context) {
    ft_group *group;
    ft_ranks *ranks;
    ft_error error;
    const int file = l->file;
    l->file = -1; // the group's
    ft_status status = ft_shared_group_join(file, 0, l->ranks, &group);
    if (status == FT_OK) status = ft_ranks_open(group, &ranks);
    if (status != FT_OK) {
        ft_error_save(&error);
        ft_shared_watch_abort(l->watch, 0, &error);
        return status;
    }
    status = work_in(ranks, work, context);
    ft_error_save(&error);
    ft_ranks_close(ranks);
    ft_error_restore(&error);
    return status;
}

// The first failure of all. Of this rank's own there is nothing to name.
static ft_status first_failure(launch *l, ft_status own) {
    ft_error error;
    int rank;
    if (own == FT_OK) return outcome(l);
    if (!ft_shared_watch_failure(l->watch, &rank, &error) || rank == 0) return own;
    ft_error_restore(&error);
    return error.code;
}

static ft_status lead(launch *l, ft_rank_work work, void *context) {
    pthread_t watcher;
    ft_error error;
    ft_status status = start_all(l);
    const int failed = status == FT_OK ? pthread_create(&watcher, NULL, watch_beside, l) : 0;
    if (failed != 0) status = ft_fail_errno(FT_FAILED, failed, "rank", "cannot start a thread");
    if (status != FT_OK) {
        end_all(l);
        return status;
    }
    status = take_part(l, work, context);
    ft_error_save(&error);
    atomic_store(&l->failed, status != FT_OK);
    pthread_join(watcher, NULL);
    ft_error_restore(&error);
    return first_failure(l, status);
}

ft_status ft_ranks_lead(int ranks, const char *command, int argc, char **argv, ft_rank_work work, void *context) {
    launch l = {.ranks = ranks, .argc = argc, .argv = argv, .command = command, .first = 1, .out = -1, .dead = -1};
    FT_TRY(ft_shared_group_create(ranks, &l.file));
    ft_status status = ft_shared_watch_open(l.file, &l.watch);
    if (status == FT_OK) status = lead(&l, work, context);
    ft_shared_watch_close(l.watch);
    if (l.file >= 0) close(l.file);
    return status;
}

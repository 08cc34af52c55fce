// study_case.h - what tests of studies share: a stub of a trainer (this very program in another role, whose figures are a
// function of its configuration, which reports, saves, resumes, fails and dawdles as told), a coordinator to start, stop
// and kill, and looks at the study that is left.
#ifndef FT_STUDY_CASE_H
#define FT_STUDY_CASE_H

#pragma GCC diagnostic ignored "-Wunused-function" // no test needs all of them

#include "tests/fixtures/config_case.h"

#include "engine/commands/signals.h"
#include "base/json/json.h"
#include "engine/memory/ledger.h"
#include "base/clock.h"
#include "hpo/study/study.h"
#include "hpo/workers/worker.h"
#include "base/log.h"
#include "base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

// ---- the trainer ----------------------------------------------------------------------------------------------------

static void pause_ms(double ms) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(fmod(ms, 1000) * 1e6)}, NULL);
}

// Good where the learning rate is 1e-4 and the batch is 16; a little better with every step.
static double score(const ft_config *c, int64_t step) {
    double off = log10(c->train.learning_rate) + 4;
    return 1 - 0.2 * off * off - 0.01 * fabs((double)c->train.batch_size - 16) - 0.3 * exp(-(double)step / 40) -
           c->train.weight_decay;
}

static void must(bool holds) {
    if (!holds) _exit(99);
}

static void write_run(const char *status, int64_t step, double value) {
    if (!isfinite(value)) value = 0; // stopped before its first evaluation
    FILE *out = fopen("run.tmp", "w");
    must(out != NULL);
    fprintf(out,
            "{\"format_version\": 1, \"status\": \"%s\", \"steps\": %lld, \"metrics\": {\"eval_accuracy\": %.17g},"
            " \"seconds\": {\"total\": 1.5}, \"memory\": {\"peak_reserved_bytes\": %lld}}\n",
            status, (long long)step, value, 1000 * (long long)(2 - value));
    must(fclose(out) == 0 && rename("run.tmp", "run.json") == 0);
}

// The step in checkpoints/step, 0 when there is none.
static int64_t checkpoint(void) {
    long long step = 0, bytes = 0;
    FILE *in = fopen("checkpoints/step", "r");
    if (in == NULL) return 0;
    must(fscanf(in, "%lld %lld", &step, &bytes) == 2 && truncate("metrics.jsonl", bytes) == 0);
    fclose(in);
    return step;
}

static void save(int64_t step) {
    struct stat metrics;
    must(stat("metrics.jsonl", &metrics) == 0);
    mkdir("checkpoints", 0777);
    FILE *out = fopen("checkpoints/step.tmp", "w");
    must(out != NULL);
    fprintf(out, "%lld %lld\n", (long long)step, (long long)metrics.st_size);
    must(fclose(out) == 0 && rename("checkpoints/step.tmp", "checkpoints/step") == 0);
}

// At random moments, each with a small probability: what `faulty` trainers do.
static ft_status misfortune(ft_worker *worker) {
    static unsigned state;
    if (state == 0) state = (unsigned)getpid() * 2654435761u ^ (unsigned)clock();
    state = state * 1103515245u + 12345u;
    switch (state >> 16 & 255) {
    case 0: raise(SIGKILL); break;
    case 1: raise(SIGSEGV); break;
    case 2: must(false); break;
    case 3: pause_ms(60000); break; // without a sign of life
    case 4: return ft_fail(FT_FAILED, "disk", "it is full");
    default: break;
    }
    return FT_OK;
}

// `room` trainers share a device on which a trial of 32 has room beside one of 8, and no other. What happens when is in
// the file `room` of the study.
static ft_ledger *room;

static void note_room(const char *what, const ft_worker_job *job, size_t bytes) {
    FILE *out = fopen("../../room", "a");
    must(out != NULL && fprintf(out, "%s %lld %zu\n", what, (long long)job->trial, bytes) > 0 && fclose(out) == 0);
}

static ft_status take_room(ft_worker *worker, const ft_worker_job *job, size_t bytes) {
    ft_ledger_state found;
    bool entered = false, alone;
    must(ft_ledger_open(&(ft_ledger_device){.name = "room", .capacity = 40000}, &room) == FT_OK);
    note_room("planned", job, bytes);
    for (bool full = false; !entered; full = true) {
        FT_TRY(ft_worker_turn(worker, bytes, full, &alone));
        must(ft_ledger_enter(room, bytes, 0, &found, &entered) == FT_OK && (entered || !alone));
    }
    note_room("entered", job, found.reserved + bytes);
    ft_worker_entered(worker, &(ft_worker_place){.device = "room", .ledger = "room", .capacity = 40000});
    return FT_OK;
}

static void hang_once(void) {
    if (ft_path_exists("hung")) return;
    must(mkdir("hung", 0777) == 0);
    pause_ms(60000);
}

// data.text_column says what kind of trainer this is, data.label_column how many milliseconds a step takes.
static ft_status train_as(ft_worker *worker, ft_worker_job *job, const ft_config *config) {
    const ft_config c = *config;
    const char *kind = c.data.text_column;
    const bool faulty = strcmp(kind, "faulty") == 0;
    double best = -INFINITY, ms = atof(c.data.label_column);
    bool alone;
    if (strcmp(kind, "fails") == 0 || (strcmp(kind, "fails-large") == 0 && c.train.batch_size > 20))
        return ft_fail(FT_FAILED, "model.path", "cannot do this");
    if (strcmp(kind, "fails-beside") == 0 && c.train.batch_size > 20) { // when another one is at work
        for (int i = 0; i < 2000 && !ft_path_exists("../../begun"); i++)
            pause_ms(5);
        return ft_fail(FT_FAILED, "model.path", "cannot do this");
    }
    if (strcmp(kind, "too-large") == 0 && c.train.batch_size > 20) {
        job->needed = (size_t)c.train.batch_size * 1000;
        job->limit = 20000;
        return ft_fail(FT_NO_MEMORY, "layer 3", "does not fit");
    }
    if (strcmp(kind, "host-memory") == 0 && c.train.batch_size > 20) {
        job->peak = 4096;
        unlink("log.txt"); // as where there was no memory to open it, or no disk space
        return ft_fail_memory(1000, "texts");
    }
    if (strcmp(kind, "full-disk") == 0 && mkdir("refused", 0777) == 0)
        return ft_fail_errno(FT_FAILED, ENOSPC, "model", "cannot write the file");
    if (strcmp(kind, "no-room") == 0) { // until somebody has made some; each line of `attempts` is a moment
        FILE *out = fopen("../../attempts", "a");
        must(out != NULL && fprintf(out, "%.6f\n", ft_now()) > 0 && fclose(out) == 0);
        if (!ft_path_exists("../../made")) return ft_fail_errno(FT_FAILED, ENOSPC, "model", "cannot write the file");
    }
    if (strcmp(kind, "diverges") == 0) return ft_fail(FT_DIVERGED, NULL, "training diverged");
    if (strcmp(kind, "dies") == 0) raise(SIGKILL);
    if (strcmp(kind, "room") == 0) {
        FT_TRY(take_room(worker, job, (size_t)c.train.batch_size * 1000));
    } else {
        FT_TRY(ft_worker_turn(worker, (size_t)c.train.batch_size, false, &alone));
        if (strcmp(kind, "hangs-entering") == 0) hang_once();
        ft_worker_entered(worker, &(ft_worker_place){.device = "none", .ledger = ""});
    }
    if (strcmp(kind, "oom") == 0 && c.train.batch_size > 10) {
        job->needed = (size_t)c.train.batch_size * 1000;
        job->limit = 10000;
        write_run("oom", 0, 0);
        return ft_fail(FT_NO_MEMORY, "layer 3", "out of memory");
    }
    if (strcmp(kind, "crashes") == 0) raise(SIGSEGV);
    FILE *start = fopen("starts", "a"); // how often this trial was begun
    must(start != NULL && fprintf(start, "x") == 1 && fclose(start) == 0);
    if (strcmp(kind, "tells") == 0) { // who it works for, and who it is
        FILE *out = fopen("coordinator", "w");
        must(out != NULL && fprintf(out, "%ld", (long)getppid()) > 0 && fclose(out) == 0);
        out = fopen("worker", "w");
        must(out != NULL && fprintf(out, "%ld", (long)getpid()) > 0 && fclose(out) == 0);
    }
    FILE *metrics = fopen("metrics.jsonl", "a");
    must(metrics != NULL);
    int64_t from = checkpoint();
    for (int64_t s = 10; s <= from; s += 10)
        best = fmax(best, score(&c, s));
    fseek(metrics, 0, SEEK_END);
    for (int64_t step = from + 1; step <= c.train.max_steps; step++) {
        if (ms > 0) pause_ms(ms);
        if (ft_stop_signal() != 0 && (strcmp(kind, "stubborn") != 0 || step % 20 == 1)) { // it makes some evaluations more
            fclose(metrics);
            if (ft_worker_keeps(worker)) save(step - 1);
            write_run("interrupted", step - 1, best);
            return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped");
        }
        if (strcmp(kind, "hangs") == 0 && step > 40) hang_once();
        ft_status status = faulty ? misfortune(worker) : FT_OK;
        if (status != FT_OK) {
            fclose(metrics);
            return status;
        }
        if (step % 10 != 0) continue;
        best = fmax(best, score(&c, step));
        // The rate is another one in every run, and so is the line's length.
        fprintf(metrics, "{\"step\":%lld,\"loss\":0.5,\"tokens_per_second\":%lld}\n", (long long)step,
                (long long)(clock() * 7919 % 100000));
        fprintf(metrics, "{\"step\":%lld,\"eval_accuracy\":%.9g}\n", (long long)step, score(&c, step));
        fflush(metrics);
        ft_worker_alive(worker, step, c.train.max_steps, 0, true);
        if (step % 20 == 0) save(step);
        if (strcmp(kind, "fails-beside") == 0) mkdir("../../begun", 0777);
    }
    fclose(metrics);
    mkdir("model", 0777);
    save(c.train.max_steps);
    write_run("completed", c.train.max_steps, best);
    if (strcmp(kind, "dies-late") == 0) raise(SIGKILL); // before anybody is told
    return FT_OK;
}

static ft_status train(void *context, ft_worker *worker, ft_worker_job *job) {
    ft_config c;
    ft_ledger_close(room);
    room = NULL;
    char path[4096];
    const char *file = path;
    snprintf(path, sizeof path, "%s/config.ini", job->directory);
    ft_stop_begin();
    must(ft_study_config_load(&c, 1, &file, 0, NULL) == FT_OK && chdir(job->directory) == 0);
    ft_status status = train_as(worker, job, &c);
    ft_config_free(&c);
    ft_ledger_close(room);
    room = NULL;
    return status;
}

// The program in its other role; does nothing when this is the test.
static void be_a_worker(int argc, char **argv) {
    ft_signals_serve(ft_context_now()); // as the program does, coordinator and worker
    if (argc != 4 || strcmp(argv[1], "worker") != 0) return;
    ft_worker_show_crashes();
    ft_status status = ft_worker_serve(atoi(argv[2]), argv[3], train, NULL);
    fflush(NULL);
    _exit((int)status);
}

// ---- the coordinator ------------------------------------------------------------------------------------------------

static char base[] = "[model]\npath = .\n[data]\ntrain = data.tsv\nvalidation = data.tsv\nlabel_column = 0\n"
                     "[train]\nmax_steps = 60\n[eval]\nstrategy = steps\nmetric = accuracy\n"
                     "[study]\ntrials = 12\nstartup_trials = 4\npruner = median\npruner_startup_trials = 3\n"
                     "[space]\ntrain.learning_rate = float(1e-6, 1e-2, log)\ntrain.batch_size = choice(8, 16, 32)\n"
                     "train.weight_decay = float(0, 0.1) if train.batch_size != 32\ntrain.adam_beta1 = 0.8\n";

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

// A fresh directory with what tune.ini names, entered.
static int set_up_study(void **state) {
    if (make_scratch(state) != 0 || chdir(scratch_dir) != 0) return 1;
    write_file("data.tsv", "text\tlabel\n");
    write_file("tune.ini", base);
    return 0;
}

// Where studies are when they are not in their directories (storage/test_postgres.sh).
static const char *test_storage(void) { return getenv("FT_TEST_STORAGE"); }

// One call of `ftengine tune`, in this process.
static ft_status tune_here(const char *name, int64_t add, const char *const *more) {
    const char *files[] = {in_scratch("tune.ini")};
    ft_tuning_call call = {.study = name, .add = add, .storage = test_storage()};
    ft_config config;
    int count = 0;
    while (more != NULL && more[count] != NULL)
        count++;
    ft_status status = ft_study_config_load(&config, 1, files, count, more);
    if (status != FT_OK) return status;
    status = ft_tune(&config, &call);
    ft_config_free(&config);
    return status;
}

// In a process of its own, with its result on the pipe when `out` is given.
static pid_t tune_beside(const char *name, int64_t add, const char *const *more) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    ft_log_set_level(FT_LOG_QUIET);
    must(freopen("/dev/null", "w", stdout) != NULL);
    ft_status status = tune_here(name, add, more);
    if (status != FT_OK && status != FT_INTERRUPTED && status != FT_TERMINATED) {
        FILE *out = fopen(in_scratch("error"), "w");
        must(out != NULL);
        fprintf(out, "%s (%s)", ft_error_message(), ft_error_where());
        for (int i = 0; i < ft_error_hint_count(); i++)
            fprintf(out, " hint: %s", ft_error_hint(i));
        fclose(out);
    }
    _exit((int)status);
}

static int end_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static const char *last_error(void) {
    static char text[2000];
    FILE *in = fopen(in_scratch("error"), "r");
    size_t length = in != NULL ? fread(text, 1, sizeof text - 1, in) : 0;
    text[length] = '\0';
    if (in != NULL) fclose(in);
    return text;
}

static void tunes(const char *name, int64_t add, const char *const *more) {
    unlink(in_scratch("error"));
    int code = end_of(tune_beside(name, add, more));
    if (code != 0) fail_msg("exit code %d: %s", code, last_error());
}

static void refuses(const char *name, const char *const *more, int code, const char *message) {
    unlink(in_scratch("error"));
    int got = end_of(tune_beside(name, 0, more));
    if (got != code) fail_msg("exit code %d, not %d: %s", got, code, last_error());
    if (strstr(last_error(), message) == NULL) fail_msg("'%s' lacks '%s'", last_error(), message);
}

// ---- looking at a study ---------------------------------------------------------------------------------------------

typedef struct opened {
    ft_storage *file;
    ft_stored *study;
    const ft_trials *trials;
    ft_arena arena;
} opened;

// What --study means: a name in studies/, or a directory.
static const char *in_study(const char *name, const char *file) {
    static char path[300];
    snprintf(path, sizeof path, "%s%s/%s", strchr(name, '/') == NULL ? "studies/" : "", name, file);
    return path;
}

static opened look(const char *name) {
    opened o = {0};
    const char *path = test_storage() != NULL ? test_storage() : in_study(name, "study.db");
    ok(ft_storage_open(path, FT_STORAGE_READ, &o.file));
    ok(ft_stored_open(o.file, test_storage() != NULL ? name : NULL, &o.study));
    o.trials = &o.study->trials;
    return o;
}

static void leave(opened *o) {
    ft_stored_close(o->study);
    ok(ft_storage_close(o->file));
    ft_arena_free(&o->arena);
}

// Everything that must not depend on how the study was run: bits of parameters, values and reports.
static char *dump(const char *name) {
    opened o = look(name);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int64_t i = 0; i < o.trials->count; i++) {
        const ft_trial *t = &o.trials->trial[i];
        fprintf(out, "%lld %s", (long long)i, ft_trial_state_name(t->state));
        for (int k = 0; k < t->value_count; k++)
            fprintf(out, " %a", t->values[k]);
        for (int k = 0; k < t->param_count; k++)
            fprintf(out, " %s=%a", o.trials->names.name[t->params[k].name], t->params[k].value);
        for (int k = 0; k < t->report_count; k++)
            fprintf(out, " %lld:%a", (long long)t->reports[k].step, t->reports[k].value);
        for (int k = 0; k < t->rung_count; k++)
            fprintf(out, " rung %a", t->rungs[k]);
        fputc('\n', out);
    }
    fclose(out);
    leave(&o);
    return text;
}

// Names the first line that differs, which is a trial.
static void same_lines(const char *a, const char *b) {
    while (*a != '\0' || *b != '\0') {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0) fail_msg("trial '%.*s' became '%.*s'", (int)n, a, (int)m, b);
        a += n + (a[n] != '\0'), b += m + (b[m] != '\0');
    }
}

static int64_t count_state(const opened *o, ft_trial_state state) {
    int64_t count = 0;
    for (int64_t i = 0; i < o->trials->count; i++)
        count += o->trials->trial[i].state == state;
    return count;
}

static const char *attribute(opened *o, int64_t number, const char *key) {
    const char *json;
    ok(ft_stored_attribute(o->study, number, FT_USER_ATTRIBUTE, key, &o->arena, &json));
    return json != NULL ? json : "";
}

static bool has(const char *study, int64_t number, const char *what) {
    char file[200];
    snprintf(file, sizeof file, "trials/%05lld/%s", (long long)number, what);
    return ft_path_exists(in_study(study, file));
}

static inline double param_value(const opened *o, const ft_trial *t, const char *name) {
    const int id = ft_trials_find_name(o->trials, name);
    const ft_trial_param *p = id >= 0 ? ft_trial_find_param(t, id) : NULL;
    return p != NULL ? p->value : 0;
}

// What an undisturbed trial of these values says at a step.
static inline double undisturbed(const opened *o, const ft_trial *t, int64_t step) {
    static const int64_t batches[] = {8, 16, 32};
    ft_config c = {.train = {.learning_rate = param_value(o, t, "train.learning_rate"),
                             .batch_size = batches[(int)param_value(o, t, "train.batch_size")],
                             .weight_decay = param_value(o, t, "train.weight_decay")}};
    return score(&c, step);
}

// Every trial ended once, with the value of a trainer that nobody disturbs.
static inline void all_well(const char *name, int64_t trials) {
    opened o = look(name);
    assert_int_equal(o.trials->count, trials);
    for (int64_t i = 0; i < trials; i++) {
        const ft_trial *t = &o.trials->trial[i];
        ft_config c;
        char file[200];
        snprintf(file, sizeof file, "trials/%05lld/config.ini", (long long)i);
        const char *path = in_study(name, file);
        ok(ft_study_config_load(&c, 1, &path, 0, NULL));
        if (t->state != FT_COMPLETE) fail_msg("trial %lld: %s", (long long)i, attribute(&o, i, "error"));
        assert_true(fabs(t->values[0] - score(&c, c.train.max_steps)) < 1e-15);
        assert_int_equal(t->report_count, c.train.max_steps / 10);
        ft_config_free(&c);
    }
    leave(&o);
}

static int64_t best_of(const opened *o) {
    int64_t best = -1;
    for (int64_t i = 0; i < o->trials->count; i++)
        if (o->trials->trial[i].state == FT_COMPLETE &&
            (best < 0 || o->trials->trial[i].values[0] > o->trials->trial[best].values[0]))
            best = i;
    return best;
}

#endif

// bench_study.c - a whole study on disk: bench_study [trials] [full] [alone] [FILE or URL]
// 10 mixed parameters, a trivial objective, TPE as the parity tests run it (24 candidates, full history), every trial
// stored in two transactions: begin and parameters, then the end. What was committed survives kill -9; with `full`
// (synchronous=FULL) a power cut too. `alone`: parameters one by one instead of jointly.
// Prints one line of JSON: wall and processor seconds of the study, what a suggested parameter costs over the last 100
// trials, and how many of the checked suggestions the plain version (nothing kept from trial to trial) repeats to the
// bit. Those checks are left out of all times.
#include "benchmarks/search/tpe_space.h"
#include "hpo/search/sampler.h"
#include "hpo/storage/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHECK_EVERY = 250, LATE = 100 };

typedef struct bench {
    ft_sampler_options options;
    ft_storage *storage;
    ft_stored *study;
    ft_sampler *sampler;
    ft_distribution space[TPE_PARAMETERS];
    ft_arena arena;
    double suggest, late_suggest; // processor seconds, in all and over the last trials
    double check_wall, check_processor;
    int checked, equal;
} bench;

static double clock_now(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The plain sampler answers the same first question: one value, or all that are drawn jointly with it.
static ft_status check(bench *b, int64_t number, double value) {
    ft_sampler_options options = b->options;
    ft_trial *trial = &b->study->trials.trial[number];
    ft_trial_param drawn[TPE_PARAMETERS];
    int count = trial->relative_count;
    double plain;
    ft_sampler *sampler;
    options.plain = true;
    if (count > 0) memcpy(drawn, trial->relative, (size_t)count * sizeof *drawn);
    trial->relative_count = 0; // the plain one draws anew
    FT_TRY(ft_sampler_new(&options, &b->study->trials, &sampler));
    ft_status status = ft_sampler_suggest(sampler, number, tpe_names[0], &b->space[0], &plain);
    ft_sampler_free(sampler);
    FT_TRY(status);
    b->checked++;
    b->equal += memcmp(&plain, &value, sizeof value) == 0;
    for (int i = 0; i < count; i++) {
        b->checked++;
        b->equal +=
            i < trial->relative_count && memcmp(&drawn[i].value, &trial->relative[i].value, sizeof drawn[i].value) == 0;
    }
    return FT_OK;
}

static ft_status one_trial(bench *b, int trials) {
    double x[TPE_PARAMETERS], value;
    int64_t number;
    FT_TRY(ft_storage_begin(b->storage));
    FT_TRY(ft_stored_ask(b->study, FT_RUNNING, &number));
    for (int i = 0; i < TPE_PARAMETERS; i++) {
        double start = clock_now(CLOCK_THREAD_CPUTIME_ID);
        FT_TRY(ft_sampler_suggest(b->sampler, number, tpe_names[i], &b->space[i], &x[i]));
        double seconds = clock_now(CLOCK_THREAD_CPUTIME_ID) - start;
        b->suggest += seconds;
        if (number >= trials - LATE) b->late_suggest += seconds;
        if (i == 0 && (number + 1) % CHECK_EVERY == 0) {
            double wall = clock_now(CLOCK_MONOTONIC), processor = clock_now(CLOCK_PROCESS_CPUTIME_ID);
            FT_TRY(check(b, number, x[0]));
            b->check_wall += clock_now(CLOCK_MONOTONIC) - wall;
            b->check_processor += clock_now(CLOCK_PROCESS_CPUTIME_ID) - processor;
        }
        FT_TRY(ft_stored_param(b->study, number, tpe_names[i], &b->space[i], x[i]));
    }
    FT_TRY(ft_storage_commit(b->storage));
    value = tpe_objective(b->space, x, false);
    return ft_stored_finish(b->study, number, FT_COMPLETE, &value, 1);
}

static ft_status run(bench *b, int trials, const char *path, int flags) {
    double wall = clock_now(CLOCK_MONOTONIC), processor = clock_now(CLOCK_PROCESS_CPUTIME_ID);
    FT_TRY(ft_storage_open(path, FT_STORAGE_CREATE | flags, &b->storage));
    FT_TRY(ft_stored_create(b->storage, "bench", 1, (bool[]){false}, &b->study));
    FT_TRY(ft_sampler_new(&b->options, &b->study->trials, &b->sampler));
    for (int n = 0; n < trials; n++)
        FT_TRY(one_trial(b, trials));
    double best = INFINITY;
    for (int64_t i = 0; i < b->study->trials.count; i++)
        best = fmin(best, b->study->trials.trial[i].values[0]);
    ft_storage *storage = b->storage;
    const unsigned long long trips = ft_storage_trips(storage);
    b->storage = NULL;
    ft_sampler_free(b->sampler);
    ft_stored_close(b->study);
    FT_TRY(ft_storage_close(storage)); // the WAL goes back into one plain file
    wall = clock_now(CLOCK_MONOTONIC) - wall - b->check_wall;
    processor = clock_now(CLOCK_PROCESS_CPUTIME_ID) - processor - b->check_processor;
    printf("{\"trials\": %d, \"synchronous\": \"%s\", \"parameters\": \"%s\", \"wall_seconds\": %.3f, "
           "\"processor_seconds\": %.3f, \"suggest_seconds\": %.3f, \"late_us_per_parameter\": %.1f, "
           "\"checked\": %d, \"equal\": %d, \"best\": %.6g, \"round_trips\": %llu}\n",
           trials, flags != 0 ? "FULL" : "NORMAL", b->options.multivariate == FT_SWITCH_OFF ? "one by one" : "joint",
           wall, processor, b->suggest, 1e6 * b->late_suggest / LATE / TPE_PARAMETERS, b->checked, b->equal, best,
           trips);
    return b->equal == b->checked ? FT_OK
                                  : ft_fail(FT_FAILED, "bench_study", "the plain version suggests other values");
}

int main(int argc, char **argv) {
    bench b = {.options = ft_sampler_defaults()};
    int trials = 5000, flags = 0;
    const char *path = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "full") == 0)
            flags = FT_STORAGE_FULL_SYNC;
        else if (strcmp(argv[i], "alone") == 0)
            b.options.multivariate = FT_SWITCH_OFF;
        else if (atoi(argv[i]) >= LATE)
            trials = atoi(argv[i]);
        else
            path = argv[i];
    char directory[] = "./bench_study_XXXXXX", file[sizeof directory + 16] = "";
    ft_status status = FT_OK;
    if (path == NULL && mkdtemp(directory) != NULL) { // here, on a real disk: /tmp may be memory
        snprintf(file, sizeof file, "%s/study.db", directory);
        path = file;
    }
    status = path != NULL ? tpe_space(&b.arena, b.space) : ft_fail(FT_FAILED, directory, "cannot make a directory");
    if (status == FT_OK) status = run(&b, trials, path, flags);
    if (status != FT_OK) fprintf(stderr, "error: %s (%s)\n", ft_error_message(), ft_error_where());
    if (path == file) {
        unlink(file);
        rmdir(directory);
    }
    ft_arena_free(&b.arena);
    return (int)status;
}

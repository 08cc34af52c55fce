// The library where memory ends: two threads, each with its own engine, call its functions in any order, and one
// allocation of a call fails, the first or the thousandth. Then the call ends with a code and a text, nothing hangs
// or crashes, and the same call again does what it does elsewhere. What fails are calls
// of the library's own code: it is linked from its objects, those of others have allocators of their own.
// ctest: wrap=malloc,calloc,realloc,aligned_alloc,posix_memalign
#include "library/ftengine.h"

#include "base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRAINER FT_TEST_VECTORS "/trainer"

// ---- allocations ----------------------------------------------------------------------------------------------------

static _Thread_local int64_t until = -1; // so many more succeed in this thread, then one fails; -1: none does
static _Thread_local bool failed;

static bool fails(void) {
    if (until < 0 || until-- > 0) return false;
    errno = ENOMEM;
    return failed = true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    return fails() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

static char scratch[] = "/tmp/ftengine-failing-XXXXXX";

typedef struct user {
    int number, done, injured; // calls; of these with an allocation that failed
    uint64_t draw;
    ftengine *engine;
    ftengine_model *model;
    ftengine_sampler *sampler;
    int parameter;
    int64_t trials;
    bool ran, spoke;
    char run[200], mistake[600];
} user;

static uint64_t draw(user *u, uint64_t below) {
    u->draw = u->draw * 6364136223846793005ULL + 1442695040888963407ULL;
    return (u->draw >> 33) % below;
}

static int to_train(user *u) {
    char *json = NULL, dir[260];
    snprintf(dir, sizeof dir, "output.dir=%s", u->run);
    const char *words[] = {TRAINER "/follow.ini",
                           "train.max_steps=2",
                           "train.warmup_steps=1",
                           "data.cache_dir=none",
                           "device.threads=1",
                           "output.exists=new",
                           dir};
    const int code = ftengine_train(u->engine, 7, words, &json);
    if (code == FTENGINE_OK) u->ran = true;
    ftengine_string_free(json);
    return code;
}

static int to_plan(user *u) {
    char *json = NULL;
    const char *words[] = {TRAINER "/follow.ini", "train.batch_size=4", "data.cache_dir=none", "device.threads=1"};
    const int code = ftengine_plan(u->engine, 4, words, &json);
    ftengine_string_free(json);
    return code;
}

static int to_configure(user *u) {
    char *json = NULL;
    const char *words[] = {TRAINER "/follow.ini", "train.epochs=2"};
    const int code = ftengine_config(u->engine, draw(u, 2) != 0 ? 2 : 0, words, &json);
    ftengine_string_free(json);
    return code;
}

static int to_list(user *u) {
    char *json = NULL;
    const int code =
        draw(u, 2) != 0 ? ftengine_devices(u->engine, &json) : ftengine_best_device(u->engine, NULL, &json);
    ftengine_string_free(json);
    return code;
}

static int to_load(user *u) {
    const char *words[] = {"device.threads=1"};
    if (u->model != NULL) {
        const int code = ftengine_unload(u->model);
        u->model = NULL;
        return code;
    }
    return ftengine_load(u->engine, TRAINER "/model", NULL, 1, words, &u->model);
}

static int to_predict(user *u) {
    const char *texts[] = {"a fine opera", "the ferry left late, and the museum was closed", ""};
    double values[3 * 16];
    char *lines = NULL;
    if (u->model == NULL) return to_load(u);
    if (ftengine_model_outputs(u->model) > 16) return FTENGINE_FAILED;
    const int code = draw(u, 2) != 0 ? ftengine_predict(u->model, 3, texts, NULL, values, NULL)
                                     : ftengine_answers(u->model, 3, texts, NULL, &lines);
    ftengine_string_free(lines);
    if (code != FTENGINE_OK) return code;
    const int told = ftengine_model_info(u->model, &lines);
    ftengine_string_free(lines);
    return told;
}

static int to_evaluate(user *u) {
    char *json = NULL;
    const char *words[] = {TRAINER "/model", "--data", TRAINER "/validation.tsv", "device.threads=1"};
    const int code = ftengine_eval(u->engine, 4, words, &json);
    ftengine_string_free(json);
    return code;
}

static int to_sample(user *u) {
    static const char *const words[] = {"study.sampler=tpe", "study.seed=3", "study.startup_trials=3"};
    static const char range[] = "{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0.0, \"high\": 1.0, "
                                "\"step\": null, \"log\": false}}";
    if (u->sampler == NULL) {
        const signed char maximize[] = {0};
        const int code = ftengine_sampler_new(u->engine, 1, maximize, 3, words, &u->sampler);
        u->trials = 0;
        if (code != FTENGINE_OK) return code;
    }
    int code = ftengine_sampler_parameter(u->sampler, "x", range, &u->parameter);
    ftengine_trial trial = {.size = sizeof trial, .number = u->trials, .state = FTENGINE_TRIAL_RUNNING, .step = -1};
    if (code == FTENGINE_OK) code = ftengine_sampler_tell(u->sampler, &trial);
    double value = 0;
    if (code == FTENGINE_OK) code = ftengine_sampler_suggest(u->sampler, u->trials, u->parameter, &value);
    if (code == FTENGINE_OK) {
        trial.state = FTENGINE_TRIAL_COMPLETE;
        trial.parameter_count = 1;
        trial.parameters = &u->parameter;
        trial.parameter_values = &value;
        trial.value_count = 1;
        trial.values = &value;
        code = ftengine_sampler_tell(u->sampler, &trial);
        u->trials += code == FTENGINE_OK;
    }
    if (code != FTENGINE_OK) { // what it knows of its trials is not what this one thinks
        u->spoke = ftengine_error(u->engine)[0] != '\0';
        ftengine_sampler_close(u->sampler);
        u->sampler = NULL;
    }
    return code;
}

static const struct {
    const char *name;
    int (*call)(user *u);
    int64_t most; // allocations, about
    int often;
} calls[] = {{"train", to_train, 4000, 1},   {"plan", to_plan, 3000, 1},   {"config", to_configure, 1500, 2},
             {"devices", to_list, 60, 2},    {"load", to_load, 1500, 2},   {"predict", to_predict, 80, 3},
             {"eval", to_evaluate, 2500, 1}, {"sampler", to_sample, 60, 3}};
enum { CALLS = sizeof calls / sizeof *calls, OFTEN = 15 };

static bool wrong(user *u, const char *what, const char *call, int code) {
    snprintf(u->mistake, sizeof u->mistake, "%s: %s, code %d: %.300s", call, what, code, ftengine_error(u->engine));
    return false;
}

static bool one(user *u) {
    int place = (int)draw(u, OFTEN), which = 0;
    while (place >= calls[which].often)
        place -= calls[which++].often;
    const char *name = calls[which].name;
    int64_t most = calls[which].most;
    while (most > 1 && draw(u, 3) != 0)
        most /= 2; // early ones as often as late ones
    failed = u->spoke = false;
    until = (int64_t)draw(u, (uint64_t)most);
    int code = calls[which].call(u);
    until = -1;
    u->done++;
    u->injured += failed;
    if (code == FTENGINE_BUSY) return wrong(u, "nobody else is there", name, code);
    if (code != FTENGINE_OK && !failed) return wrong(u, "nothing failed", name, code);
    if (code != FTENGINE_OK && !u->spoke && ftengine_error(u->engine)[0] == '\0') return wrong(u, "no word", name, code);
    code = calls[which].call(u); // as if nothing had been
    return code == FTENGINE_OK || wrong(u, "once more", name, code);
}

static void *use(void *argument) {
    user *u = argument;
    for (int round = 0; round < 3 && u->mistake[0] == '\0'; round++) {
        until = round == 1 ? 0 : -1;
        const bool begun = ftengine_new(&u->engine) == FTENGINE_OK;
        until = -1;
        if (!begun && ftengine_new(&u->engine) != FTENGINE_OK) snprintf(u->mistake, sizeof u->mistake, "no engine");
        for (int i = 0; i < 24 && u->mistake[0] == '\0'; i++)
            one(u);
        ftengine_sampler_close(u->sampler);
        ftengine_unload(u->model);
        u->sampler = NULL;
        u->model = NULL;
        ftengine_free(u->engine);
    }
    return NULL;
}

static void test_any_order(void **state) {
    user users[2] = {{.number = 0, .draw = 11}, {.number = 1, .draw = 77}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        snprintf(users[i].run, sizeof users[i].run, "%s/%d", scratch, i);
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        if (users[i].mistake[0] != '\0') fail_msg("%d, call %d: %s", i, users[i].done, users[i].mistake);
        printf("%d calls, %d with an allocation that failed\n", users[i].done, users[i].injured);
        assert_true(users[i].injured > 20 && users[i].ran);
    }
}

// The first use of glibc's heap in a process with another malloc (a sanitizer's), by two threads at the same moment: they spin until both
// are there, for what goes wrong takes some nanoseconds.
static atomic_int there;

static void *trim(void *unused) {
    atomic_fetch_add(&there, 1);
    while (atomic_load(&there) < 2)
        ;
    ft_heap_trim();
    (void)ft_heap_free_bytes();
    return unused;
}

static void test_first_use(void **state) {
    for (int i = 0; i < 300; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            pthread_t threads[2];
            for (int t = 0; t < 2; t++)
                if (pthread_create(&threads[t], NULL, trim, NULL) != 0) _exit(1);
            for (int t = 0; t < 2; t++)
                pthread_join(threads[t], NULL);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_use), cmocka_unit_test(test_any_order)};
    char command[300];
    if (mkdtemp(scratch) == NULL) return 1;
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command) != 0 || result;
}

// Learning from files where memory ends: whichever allocation fails, reading says so and leaves nothing behind (the
// sanitizers look), and read again it is what it was. What fails are calls of the project's own code: libraries have
// allocators of their own.
// ctest: wrap=malloc,calloc,realloc
#include "hpo/exchange/exchange.h"
#include "hpo/search/gp/teachers.h"

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t until = -1; // so many more succeed, then one fails; -1: none does

static bool fails(void) {
    if (until < 0 || until-- > 0) return false;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

#define STUDY(name)                                                                                                    \
    "{\"format_version\": 1, \"study\": \"" name "\", \"directions\": [\"maximize\"]}\n"                               \
    "{\"number\": 0, \"state\": \"COMPLETE\", \"values\": [1], \"params\": {\"x\": 0.1}, " DISTRIBUTION "}\n"          \
    "{\"number\": 1, \"state\": \"COMPLETE\", \"values\": [3], \"params\": {\"x\": 0.5}, " DISTRIBUTION "}\n"          \
    "{\"number\": 3, \"state\": \"PRUNED\", \"intermediate_values\": {\"4\": 2}, \"constraints\": {\"m\": -1}, "       \
    "\"params\": {\"x\": 0.9}, " DISTRIBUTION "}\n"
#define DISTRIBUTION                                                                                                   \
    "\"distributions\": {\"x\": {\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0, "       \
    "\"high\": 1, \"log\": false}}}"

typedef struct learning {
    ft_arena arena;
    ft_lessons lessons;
} learning;

static ft_status take(void *context, const char *study, const ft_trials *trials) {
    learning *l = context;
    return ft_lessons_add(&l->lessons, &l->arena, study, trials);
}

// What the first teacher expects in the middle.
static ft_status learn(const char *path, double *expected) {
    learning l = {.lessons = {.axes = 0}};
    ft_gp_teachers teachers = {.lessons = NULL};
    ft_distribution x;
    ft_status status = ft_distribution_float("x", 0, 1, false, 0, &x);
    if (status == FT_OK) status = ft_lessons_axis(&l.lessons, &l.arena, "x", &x);
    if (status == FT_OK) status = ft_exchange_read(path, take, &l);
    if (status == FT_OK) status = ft_gp_teachers_init(&l.lessons, &teachers);
    if (status == FT_OK) {
        assert_int_equal(l.lessons.sources, 2);
        assert_int_equal(l.lessons.source[1].count, 3);
        *expected = ft_gp_teachers_mean(&teachers, 1, (double[]){0.5}, NULL);
    }
    ft_gp_teachers_free(&teachers);
    ft_arena_free(&l.arena);
    return status;
}

static void test_learn_memory(void **state) {
    static const char text[] = STUDY("a") STUDY("b");
    char path[] = "/tmp/ft_learn_memory_XXXXXX";
    double whole = NAN, expected = NAN;
    const int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    assert_int_equal(close(file), 0);
    assert_int_equal(learn(path, &whole), FT_OK);
    int64_t failed = 0;
    for (;; failed++) {
        ft_error_clear();
        until = failed;
        const ft_status status = learn(path, &expected);
        const bool all = until >= 0; // it came to its end with allocations to spare
        until = -1;
        if (all) {
            assert_int_equal(status, FT_OK);
            break;
        }
        if (status != FT_NO_MEMORY || ft_error_message()[0] == '\0')
            fail_msg("allocation %d: %d %s", (int)failed, (int)status, ft_error_message());
    }
    assert_true(failed > 20 && expected == whole);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_learn_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

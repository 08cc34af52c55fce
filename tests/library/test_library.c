// libftengine through ftengine.h alone: a training that follows transformers' Trainer, stopped and resumed with the same bits; plans, studies and
// errors; a model in memory; two threads; calls in any order.
#include "library/ftengine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 100, WORDS = 24 };
#define TRAINER FT_TEST_VECTORS "/trainer"

static char scratch[] = "/tmp/ftengine-library-XXXXXX";

typedef struct words {
    char text[WORDS][512];
    const char *list[WORDS]; // filled by `listed`, for the struct is copied
    int count;
} words;

static void add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(words *w, const char *format, ...) {
    va_list args;
    assert_true(w->count < WORDS);
    va_start(args, format);
    vsnprintf(w->text[w->count], sizeof w->text[0], format, args);
    va_end(args);
    w->count++;
}

static const char *const *listed(words *w) {
    for (int i = 0; i < w->count; i++) w->list[i] = w->text[i];
    return w->list;
}

static words training(const char *name) {
    words w = {.count = 0};
    add(&w, "%s/follow.ini", TRAINER);
    add(&w, "output.dir=%s/%s", scratch, name);
    add(&w, "data.cache_dir=none");
    return w;
}

static ftengine *engine(void) {
    ftengine *e;
    assert_int_equal(ftengine_new(&e), FTENGINE_OK);
    return e;
}

static void well(const ftengine *e, int code) {
    if (code != FTENGINE_OK) fail_msg("code %d: %s", code, ftengine_error(e));
    assert_string_equal(ftengine_error(e), "");
}

static char *read_file(const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    if (in == NULL) fail_msg("no %s", path);
    fseek(in, 0, SEEK_END);
    *size = (size_t)ftell(in);
    rewind(in);
    char *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, in), *size);
    fclose(in);
    data[*size] = '\0';
    return data;
}

static void same_models(const char *a, const char *b) {
    char path[512];
    size_t sizes[2];
    snprintf(path, sizeof path, "%s/%s/model/model.safetensors", scratch, a);
    char *one = read_file(path, &sizes[0]);
    snprintf(path, sizeof path, "%s/%s/model/model.safetensors", scratch, b);
    char *other = read_file(path, &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(one, other, sizes[0]);
    free(one);
    free(other);
}

// ---- training ---------------------------------------------------------------------------------------------------------------------

typedef struct follower {
    ftengine *engine;
    int stop_at, busy, messages;
    char dir[512];
    double loss[STEPS + 1];
    int64_t last;
    int evaluations;
    double accuracy;
} follower;

static int follow(void *user, const ftengine_progress *p) {
    follower *f = user;
    assert_true(p->size >= sizeof *p);
    if (p->event == FTENGINE_OPENED) snprintf(f->dir, sizeof f->dir, "%s", p->run);
    if (p->event == FTENGINE_LOGGED) f->loss[p->step] = p->loss;
    if (p->event == FTENGINE_STEPPED) f->last = p->step;
    if (p->event == FTENGINE_EVALUATED) f->evaluations++;
    for (int i = 0; i < p->metric_count; i++)
        if (strcmp(p->metric_names[i], "accuracy") == 0) f->accuracy = p->metric_values[i];
    f->busy += ftengine_plan(f->engine, 0, NULL, NULL) == FTENGINE_BUSY; // from within a call
    return p->event == FTENGINE_STEPPED && p->step == f->stop_at;
}

static void note(void *user, const char *text) { ((follower *)user)->messages += text[0] != '\0'; }

// The losses of expect.json, which are the Trainer's.
static void read_expected(double *loss) {
    size_t size;
    char *text = read_file(TRAINER "/expect.json", &size), *at = strstr(text, "\"steps\"");
    for (int i = 1; i <= STEPS; i++) {
        assert_non_null(at = strstr(at, "\"loss\":"));
        loss[i] = strtod(at += 7, NULL);
    }
    free(text);
}

static void test_train(void **state) {
    double expected[STEPS + 1];
    words w = training("whole");
    follower f = {.engine = engine()};
    char *json = NULL;
    read_expected(expected);
    well(f.engine, ftengine_on_progress(f.engine, follow, &f));
    well(f.engine, ftengine_on_message(f.engine, 1, note, &f));
    well(f.engine, ftengine_train(f.engine, w.count, listed(&w), &json));
    for (int i = 1; i <= STEPS; i++)
        if (!(fabs(f.loss[i] - expected[i]) < 1e-4)) fail_msg("loss of step %d: %.9g, the Trainer has %.9g", i, f.loss[i], expected[i]);
    assert_int_equal(f.last, STEPS);
    assert_true(f.messages > STEPS);
    assert_true(f.busy > 2 * STEPS);
    assert_non_null(json);
    assert_non_null(strstr(json, f.dir));
    assert_non_null(strstr(json, "\"status\": \"completed\""));
    ftengine_string_free(json);
    ftengine_free(f.engine);
}

static void test_stop_and_resume(void **state) {
    words w = training("stopped");
    follower f = {.engine = engine(), .stop_at = 37};
    char *json = NULL;
    well(f.engine, ftengine_on_progress(f.engine, follow, &f));
    assert_int_equal(ftengine_train(f.engine, w.count, listed(&w), &json), FTENGINE_INTERRUPTED);
    assert_int_equal(f.last, 37);
    assert_non_null(strstr(json, "\"status\": \"interrupted\""));
    assert_non_null(strstr(ftengine_error(f.engine), "stopped at step 37 of 100"));
    ftengine_string_free(json);
    f.stop_at = 0;
    ftengine_stop(f.engine); // before it: the next call
    assert_int_equal(ftengine_resume(f.engine, f.dir, 0, NULL, NULL), FTENGINE_INTERRUPTED);
    assert_true(f.last < STEPS);
    well(f.engine, ftengine_resume(f.engine, f.dir, 0, NULL, NULL));
    assert_int_equal(f.last, STEPS);
    same_models("whole", "stopped");
    ftengine_free(f.engine);
}

// ---- threads ------------------------------------------------------------------------------------------------------------------------

typedef struct worker {
    const char *name;
    follower f;
    int code;
} worker;

static void *train_beside(void *argument) {
    worker *t = argument;
    words w = training(t->name);
    add(&w, "device.threads=1");
    ftengine_on_progress(t->f.engine, follow, &t->f);
    t->code = ftengine_train(t->f.engine, w.count, listed(&w), NULL);
    return NULL;
}

static void test_two_threads(void **state) {
    worker workers[2] = {{.name = "left"}, {.name = "right"}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i].f.engine = engine();
        assert_int_equal(pthread_create(&threads[i], NULL, train_beside, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        well(workers[i].f.engine, workers[i].code);
        assert_int_equal(workers[i].f.last, STEPS);
        assert_non_null(strstr(workers[i].f.dir, workers[i].name)); // nobody was told of the other's
        same_models("whole", workers[i].name);
        ftengine_free(workers[i].f.engine);
    }
}

static void *stop_soon(void *argument) {
    usleep(50000);
    ftengine_stop(argument);
    return NULL;
}

static void test_stop_from_a_thread(void **state) {
    words w = training("endless");
    add(&w, "train.max_steps=1000000");
    ftengine *e = engine();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, e), 0);
    assert_int_equal(ftengine_train(e, w.count, listed(&w), NULL), FTENGINE_INTERRUPTED);
    pthread_join(thread, NULL);
    ftengine_free(e);
}

// ---- errors -------------------------------------------------------------------------------------------------------------------------

static void test_errors(void **state) {
    const struct {
        int (*call)(ftengine *engine, int count, const char *const *words, char **json);
        const char *words[3];
        int code;
        const char *text; // begins so
    } cases[] = {
        {ftengine_train, {NULL}, 2, "no configuration given (train)\nhint: ftengine train CONFIG.ini|RUN"},
        {ftengine_train, {"train.epocs=3"}, 2, "unknown option train.epocs (train.epocs=3)\nhint: did you mean train.epochs?"},
        {ftengine_plan, {"model.path=bert-base-uncased", "train.batch_size=0"}, 2, "train.batch_size"},
        {ftengine_plan, {"model.path=bert-large-uncased", "--memory", "1GiB"}, 3, "does not fit: "},
        {ftengine_eval, {"nowhere", "--data", "nothing.tsv"}, 2, "no such run or model directory, and no such model in the cache (nowhere)"},
        {ftengine_study, {"shou"}, 2, "there is no subcommand 'shou' (study)"},
        {ftengine_study, {NULL}, 2, "no words given"},
        {ftengine_config, {"train.learning_rate=fast"}, 2, "train.learning_rate"},
    };
    ftengine *e = engine();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = 0;
        while (count < 3 && cases[i].words[count] != NULL) count++;
        char *json = (char *)1;
        const int code = cases[i].call(e, count, cases[i].words, &json);
        if (code != cases[i].code || strncmp(ftengine_error(e), cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("case %zu: code %d, \"%s\"", i, code, ftengine_error(e));
        assert_int_equal(json != NULL, code == FTENGINE_NO_MEMORY); // the plan of what does not fit
        ftengine_string_free(json);
    }
    assert_string_equal(ftengine_error_where(e), "train.learning_rate=fast");
    assert_true(ftengine_error_hint(e, -1) == NULL && ftengine_error_hint(e, 99) == NULL);
    assert_int_equal(ftengine_set_program(e, "/nowhere/ftengine"), FTENGINE_INVALID);
    assert_int_equal(ftengine_set_program(e, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_on_message(e, 7, NULL, NULL), FTENGINE_INVALID);
    ftengine_model *none = (ftengine_model *)e;
    assert_int_equal(ftengine_load(e, NULL, NULL, 0, NULL, &none), FTENGINE_INVALID);
    assert_int_equal(ftengine_load(e, scratch, NULL, 1, NULL, &none), FTENGINE_INVALID);
    assert_int_equal(ftengine_load(e, scratch, NULL, 2, (const char *[]){"device.threads=1", NULL}, &none), FTENGINE_INVALID);
    assert_string_equal(ftengine_error(e), "word 1 is NULL");
    assert_null(none);
    assert_int_equal(ftengine_train(e, 1, NULL, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_train(e, -1, NULL, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_resume(e, NULL, 0, NULL, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_resume(e, scratch, 1, NULL, NULL), FTENGINE_INVALID);
    ftengine_free(e);
    ftengine_free(NULL);
    ftengine_string_free(NULL);
}

// ---- documents ----------------------------------------------------------------------------------------------------------------------

static void has(const ftengine *e, int code, char *const *document, const char *member) { // set by the call that gave the code
    char *json = *document;
    well(e, code);
    if (json == NULL || strstr(json, member) == NULL) fail_msg("no %s in %s", member, json != NULL ? json : "nothing");
    ftengine_string_free(json);
}

static void test_documents(void **state) {
    ftengine *e = engine();
    char *json, name[600], where[600];
    const char *plan[] = {"model.path=bert-base-uncased", "--gpu", "4090"};
    has(e, ftengine_plan(e, 3, plan, &json), &json, "\"verdict\": \"fits\"");
    has(e, ftengine_config(e, 0, NULL, &json), &json, "\"name\": \"train.epochs\"");
    has(e, ftengine_config(e, 1, (const char *[]){"train.epochs=7"}, &json), &json, "\"train.epochs\": \"7\"");
    has(e, ftengine_devices(e, &json), &json, "\"instruction_set\"");
    has(e, ftengine_best_device(e, NULL, &json), &json, "\"free_bytes\"");
    has(e, ftengine_best_device(e, "1MiB", &json), &json, "\"device\"");
    assert_int_equal(ftengine_best_device(e, "1000000GiB", &json), FTENGINE_NO_DEVICE);
    snprintf(name, sizeof name, "sqlite:///%s/asked.db", scratch);
    snprintf(where, sizeof where, "%s/space.json", scratch);
    FILE *space = fopen(where, "w");
    assert_non_null(space);
    fputs("{\"x\": {\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1}}}", space);
    fclose(space);
    has(e, ftengine_study(e, 7, (const char *[]){"create", "--study", "asked", "--storage", name, "--direction", "minimize"}, &json), &json, "asked");
    for (int i = 0; i < 3; i++) {
        char number[8], told[24];
        snprintf(number, sizeof number, "%d", i);
        snprintf(told, sizeof told, "\"number\": %d", i);
        has(e, ftengine_study(e, 6, (const char *[]){"ask", "asked", "--storage", name, "--space", where}, &json), &json, "\"x\"");
        has(e, ftengine_study(e, 6, (const char *[]){"tell", "asked", "--storage", name, number, "0.5"}, &json), &json, told);
    }
    has(e, ftengine_study(e, 4, (const char *[]){"show", "asked", "--storage", name}, &json), &json, "\"complete\": 3");
    ftengine_free(e);
}

// ---- a model ------------------------------------------------------------------------------------------------------------------------

static const char *const texts[] = {"border that! museums! sour", "opera! bass they museum?", "", "sour soup, and bread", "a museum"};
enum { TEXTS = 5, CLASSES = 3 };

static void test_model(void **state) {
    char path[512], *json;
    ftengine *e = engine();
    ftengine_model *model, *second;
    double all[TEXTS * CLASSES], one[CLASSES], other[TEXTS * CLASSES];
    signed char decided[TEXTS * CLASSES];
    snprintf(path, sizeof path, "%s/whole", scratch);
    well(e, ftengine_load(e, path, NULL, 0, NULL, &model));
    snprintf(path, sizeof path, "%s/whole/model", scratch);
    well(e, ftengine_load(e, path, NULL, 1, (const char *[]){"device.threads=1"}, &second));
    has(e, ftengine_model_info(model, &json), &json, "\"classes\":[\"food\",\"music\",\"travel\"]");
    assert_int_equal(ftengine_model_outputs(model), CLASSES);
    well(e, ftengine_predict(model, TEXTS, texts, NULL, all, decided));
    well(e, ftengine_predict(second, TEXTS, texts, NULL, other, NULL));
    assert_memory_equal(all, other, sizeof all); // whatever the threads
    for (int i = 0; i < TEXTS; i++) {
        int said = 0;
        double sum = 0, most = 0;
        well(e, ftengine_predict(model, 1, texts + i, NULL, one, NULL));
        assert_memory_equal(one, all + i * CLASSES, sizeof one); // whatever stands beside it
        for (int k = 0; k < CLASSES; k++) {
            sum += one[k];
            most = fmax(most, one[k]);
            said += decided[i * CLASSES + k];
        }
        assert_true(fabs(sum - 1) < 1e-12);
        assert_int_equal(said, 1);
        for (int k = 0; k < CLASSES; k++) assert_int_equal(decided[i * CLASSES + k], one[k] == most);
    }
    char *lines;
    well(e, ftengine_answers(model, TEXTS, texts, NULL, &lines));
    int count = 0;
    for (const char *at = lines; (at = strstr(at, "\"probabilities\"")) != NULL; at++) count++;
    assert_int_equal(count, TEXTS);
    ftengine_string_free(lines);
    well(e, ftengine_predict(model, 0, NULL, NULL, NULL, NULL));
    assert_int_equal(ftengine_predict(model, TEXTS, texts, texts, all, NULL), FTENGINE_INVALID);
    assert_non_null(strstr(ftengine_error(e), "not on pairs"));
    const char *broken[] = {"fine", "\xff\xfe"};
    assert_int_equal(ftengine_predict(model, 2, broken, NULL, all, NULL), FTENGINE_INVALID);
    assert_string_equal(ftengine_error(e), "text 1 is not UTF-8 (texts)");
    assert_int_equal(ftengine_predict(model, 1, (const char *[]){NULL}, NULL, all, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_predict(model, 1, NULL, NULL, all, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_predict(model, -1, texts, NULL, all, NULL), FTENGINE_INVALID);
    assert_int_equal(ftengine_answers(model, 2, NULL, NULL, &lines), FTENGINE_INVALID);
    assert_int_equal(ftengine_generate(model, 2, NULL, 0, 0, NULL, &lines), FTENGINE_INVALID);
    assert_int_equal(ftengine_generate(model, 1, texts, 0, 1, NULL, &lines), FTENGINE_INVALID);
    assert_null(lines);
    well(e, ftengine_unload(second));
    well(e, ftengine_predict(model, 1, texts, NULL, one, NULL)); // after errors, and without the other
    assert_memory_equal(one, all, sizeof one);
    well(e, ftengine_unload(model));
    well(e, ftengine_unload(NULL));
    assert_int_equal(ftengine_load(e, scratch, NULL, 0, NULL, &model), FTENGINE_INVALID);
    assert_null(model);
    ftengine_free(e);
}

// Calls in an order that nobody would choose, from a list by a fixed sequence of numbers.
static void test_any_order(void **state) {
    uint32_t draw = 26;
    char path[512], *json;
    ftengine *e = engine();
    ftengine_model *models[3] = {NULL};
    double values[TEXTS * CLASSES];
    snprintf(path, sizeof path, "%s/whole", scratch);
    for (int i = 0; i < 60; i++) {
        draw = draw * 1664525u + 1013904223u;
        ftengine_model **m = &models[(draw >> 12) % 3];
        switch ((draw >> 20) % 6) {
        case 0:
            if (*m == NULL) well(e, ftengine_load(e, path, NULL, 0, NULL, m));
            break;
        case 1:
            well(e, ftengine_unload(*m));
            *m = NULL;
            break;
        case 2:
        case 3:
            if (*m != NULL) well(e, ftengine_predict(*m, (int64_t)(draw >> 8) % (TEXTS + 1), texts, NULL, values, NULL));
            break;
        case 4: assert_int_equal(ftengine_eval(e, 1, (const char *[]){"--data"}, &json), FTENGINE_INVALID); break;
        case 5: has(e, ftengine_config(e, 0, NULL, &json), &json, "options"); break;
        }
    }
    for (int i = 0; i < 3; i++) well(e, ftengine_unload(models[i]));
    ftengine_free(e);
}

static int set_up(void **state) {
    assert_int_equal(ftengine_abi(), FTENGINE_ABI);
    assert_non_null(strchr(ftengine_version(), '.'));
    return mkdtemp(scratch) == NULL || chdir(scratch) != 0;
}

static int tear_down(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return chdir("/") != 0 || system(command) != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train),  cmocka_unit_test(test_stop_and_resume), cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_stop_from_a_thread), cmocka_unit_test(test_errors), cmocka_unit_test(test_documents),
        cmocka_unit_test(test_model),  cmocka_unit_test(test_any_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

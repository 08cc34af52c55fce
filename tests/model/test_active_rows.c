// memory.active_vocabulary: runs that hold only the rows of the word table that their texts read leave the same bits behind
// as runs that hold them all. Random models of all families, data and options.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/log.h"
#include "engine/files/safetensors.h"
#include "engine/model/state/word_rows.h"
#include "engine/plan/plan.h"
#include "tests/fixtures/tiny_run.h"

enum { RUNS = 70 };

static char scratch[64];

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_active_XXXXXX", base);
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static void say(const tiny_run *t) {
    for (int i = 0; i < t->count; i++) print_error("  %s\n", t->text[i]);
}

// Trains into DIR/name with active_vocabulary as given.
static void train(tiny_run *t, const char *name, const char *active) {
    int options = t->count;
    set(t, "output.dir=%s/%s", t->dir, name);
    set(t, "memory.active_vocabulary=%s", active);
    ft_config config;
    load_tiny_run(t, &config);
    ft_status status = ft_train(&config, NULL);
    if (status != FT_OK) {
        say(t);
        fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    }
    ft_config_free(&config);
    t->count = options;
}

static char *content(const tiny_run *t, const char *run, const char *file, size_t *length) {
    char path[256], *text = NULL;
    snprintf(path, sizeof path, "%s/%s/%s", t->dir, run, file);
    *length = 0;
    if (ft_path_exists(path)) assert_int_equal(ft_read_file(path, 0, &text, length), FT_OK);
    return text;
}

static void assert_same_file(const tiny_run *t, const char *one, const char *other, const char *file) {
    size_t n, m;
    char *a = content(t, one, file, &n), *b = content(t, other, file, &m);
    if (n != m || (n > 0 && memcmp(a, b, n) != 0)) {
        say(t);
        fail_msg("%s of %s and of %s differ (%zu and %zu bytes)", file, one, other, n, m);
    }
    free(a);
    free(b);
}

// Bytes that the plan saves; 0: the whole table lives on the device.
static int64_t saved(tiny_run *t) {
    ft_config config;
    ft_plan plan;
    load_tiny_run(t, &config);
    if (ft_plan_run(&config, &(ft_plan_request){.labels = 0}, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    assert_true(plan.rows_save >= 0 && (plan.rows_save == 0) == (plan.rows_held == plan.rows));
    assert_true(plan.rows_trained <= plan.rows_held && plan.rows_held <= plan.rows);
    return plan.rows_save;
}

static void test_same_bits(void **state) {
    int active = 0, frozen = 0, half = 0;
    for (uint64_t seed = 5001; seed < 5001 + RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        if (chance(&t, 60)) write_texts(&t, "train.tsv", pick(&t, 5, 8), 3, 5); // so that evaluations read other rows
        set(&t, "train.weight_decay=%s", chance(&t, 80) ? "0.3" : "0");
        set(&t, "train.learning_rate=0.01");
        set(&t, "train.max_grad_norm=%s", chance(&t, 70) ? "0.1" : "0");
        set(&t, "train.max_steps=%" PRId64, pick(&t, 1, 9));
        const char *precision = chance(&t, 60) ? "fp32" : chance(&t, 50) ? "bf16" : "fp16";
        set(&t, "train.precision=%s", precision);
        set(&t, "train.residual=%s", strcmp(precision, "fp32") != 0 && seed % 2 == 0 ? "16bit" : "fp32");
        set(&t, "memory.recompute_layernorm=auto"); // true is for fp32, and so is false of the activation
        set(&t, "memory.recompute_activation=auto");
        if (chance(&t, 30)) set(&t, "eval.strategy=steps"), set(&t, "eval.steps=2");
        bool on = saved(&t) > 0;
        active += on;
        train(&t, "some", "auto");
        train(&t, "all", "off");
        assert_same_file(&t, "some", "all", "model/model.safetensors");
        assert_same_file(&t, "some", "all", "predictions.jsonl");
        ft_config config;
        load_tiny_run(&t, &config);
        half += on && config.train.precision != FT_PRECISION_FP32;
        frozen += on && !ft_model_trains_words(&(ft_model_config){.family = t.family}, &config);
        ft_config_free(&config);
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d of %d runs held some rows only, %d of them with a frozen table, %d in 16 bits\n", active, RUNS, frozen, half);
    assert_true(active > RUNS / 2 && frozen > 2 && half > 5);
}

static void test_numbers_of_rows(void **state) {
    ft_word_rows w;
    assert_int_equal(ft_word_rows_open(200, &w), FT_OK);
    const int32_t read[] = {7, 150, 3, 7}, trained[] = {150, 64, 199, 0};
    ft_word_rows_mark(&w, read, 4, false);
    ft_word_rows_mark(&w, trained, 4, true);
    ft_word_rows_mark(&w, read, 4, false); // a row that is trained stays so
    assert_int_equal(ft_word_rows_number(&w), FT_OK);
    assert_int_equal(w.trained, 4);
    assert_int_equal(w.held, 6);
    const int32_t ids[] = {0, 64, 150, 199, 3, 7}, blocks[] = {0, 1, 2, 3, 4};
    assert_memory_equal(w.id_of, ids, sizeof ids);
    assert_memory_equal(w.blocks, blocks, sizeof blocks);
    for (int32_t id = 0, rows = 0; id < 200; id++) {
        if (w.row_of[id] >= 0) assert_int_equal(w.id_of[w.row_of[id]], id);
        rows += w.row_of[id] >= 0;
        if (id == 199) assert_int_equal(rows, 6);
    }
    ft_word_rows_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_rows),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

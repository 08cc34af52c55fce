// A head that is trained on features has the bits of one that is trained with the texts computed in every epoch: random models of every
// family, precisions, tasks, windows, pairs and splits, rows made and rows found, with other threads and micro-batches.
// ctest: cost=20
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/log.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

enum { RUNS = FT_SANITIZED ? 20 : 60 };

static char scratch[64];

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_features_XXXXXX", base);
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static void say(const tiny_run *t) {
    for (int i = 0; i < t->count; i++) print_error("  %s\n", t->text[i]);
}

// What run.json says of features: NULL, or {rows, from_cache, ...}.
static json_t *features_of(const tiny_run *t, const char *name) {
    char path[256];
    json_t *run;
    snprintf(path, sizeof path, "%s/%s/run.json", t->dir, name);
    assert_int_equal(ft_json_load(path, &run), FT_OK);
    json_t *features = json_incref(json_object_get(run, "features"));
    json_decref(run);
    return features;
}

static void train(tiny_run *t, const char *name, const char *cache) {
    const int options = t->count;
    ft_config config;
    set(t, "output.dir=%s/%s", t->dir, name);
    set(t, "data.feature_cache=%s", cache);
    load_tiny_run(t, &config);
    if (ft_train(&config, NULL) != FT_OK) {
        say(t);
        fail_msg("%s: %s (%s)", name, ft_error_message(), ft_error_where());
    }
    ft_config_free(&config);
    t->count = options;
}

static void same_file(const tiny_run *t, const char *a, const char *b, const char *file) {
    char path[2][256], *data[2];
    size_t length[2];
    const char *run[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s/%s", t->dir, run[i], file);
        data[i] = NULL;
        length[i] = 0;
        if (ft_path_exists(path[i])) assert_int_equal(ft_read_file(path[i], 0, &data[i], &length[i]), FT_OK);
    }
    const bool same = length[0] == length[1] && (length[0] == 0 || memcmp(data[0], data[1], length[0]) == 0);
    for (int i = 0; i < 2; i++) free(data[i]);
    if (!same) say(t);
    if (!same) fail_msg("%s of %s and %s differ", file, a, b);
}

static void same(const tiny_run *t, const char *a, const char *b) {
    same_file(t, a, b, "model/model.safetensors");
    same_file(t, a, b, "predictions.jsonl");
}

static void same_bits(void **state) {
    int shared = 0, windows = 0, halves = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        probe_tiny_run(&t);
        set(&t, "train.max_steps=7");
        if (seed % 5 == 0) {
            set(&t, "data.validation=");
            set(&t, "data.validation_split=0");
            set(&t, "data.folds=3");
            set(&t, "data.fold=2");
        }
        char cache[160];
        snprintf(cache, sizeof cache, "%s/cache", t.dir);
        train(&t, "off", "off");
        train(&t, "made", cache);
        set(&t, "device.threads=%d", (int)(seed % 4 + 1));
        set(&t, "train.micro_batch=%d", (int)(seed % 3 + 1));
        train(&t, "found", cache);
        train(&t, "alone", "auto"); // no directory: data.cache_dir is none
        same(&t, "off", "made");
        same(&t, "off", "found");
        same(&t, "off", "alone");
        json_t *off = features_of(&t, "off"), *made = features_of(&t, "made"), *found = features_of(&t, "found"), *alone = features_of(&t, "alone");
        assert_null(off);
        if (t.late) { // every row is read, and so none is kept
            assert_true(made == NULL && found == NULL && alone == NULL);
            assert_int_equal(ft_remove_tree(t.dir), FT_OK);
            continue;
        }
        assert_true(json_is_false(json_object_get(made, "from_cache")));
        assert_true(json_is_true(json_object_get(found, "from_cache")));
        assert_true(json_is_false(json_object_get(alone, "from_cache")));
        json_decref(made), json_decref(found), json_decref(alone);
        if (seed % 5 == 0) { // every fold reads the rows of the file
            set(&t, "data.fold=3");
            train(&t, "off-3", "off");
            train(&t, "found-3", cache);
            same(&t, "off-3", "found-3");
            found = features_of(&t, "found-3");
            // But for a test set, whose file is its own and was found too; and where the second fold was not evaluated it had fewer rows.
            shared += json_is_true(json_object_get(found, "from_cache"));
            json_decref(found);
        }
        for (int i = 0; i < t.count; i++) {
            windows += strcmp(t.text[i], "data.truncation=windows") == 0;
            halves += strcmp(t.text[i], "train.precision=bf16") == 0 || strcmp(t.text[i], "train.precision=fp16") == 0;
        }
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    assert_true(shared > 0 && windows > 0 && halves > 0); // else the draw has to be another
}

// What decides about rows is in the key: another seed of drawn weights, another precision, other texts, another length are other rows, and
// what the head alone reads is not.
static void keys(void **state) {
    static const struct {
        const char *option;
        bool found;
    } cases[] = {{"train.learning_rate=0.01", true}, {"train.epochs=9", true},           {"model.head.hidden=9", true},
                 {"train.batch_size=3", true},       {"model.classifier_dropout=0.4", true}, {"train.data_seed=5", true},
                 {"data.max_length=4", false}, {"model.head.pooling=mean", false},       {"train.precision=bf16", false},    {"train.seed=77", false}, // drawn by it
                 {"train.residual=16bit", false}, // of bf16, whose rows are there by now
                 {"model.storage=int8", false},      {"data.train=dev.tsv", false}};
    tiny_run t;
    make_tiny_run(&t, scratch, 70 * TINY_FAMILIES); // a BERT, which may have adapters
    t.count = 0;
    char cache[160];
    snprintf(cache, sizeof cache, "%s/cache", t.dir);
    set(&t, "model.path=%s/model", t.dir);
    set(&t, "model.init=random");
    set(&t, "data.train=%s/train.tsv", t.dir);
    set(&t, "data.cache_dir=none");
    set(&t, "data.max_length=12");
    set(&t, "train.parameters=classifier");
    set(&t, "train.max_steps=2");
    train(&t, "first", cache);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int options = t.count;
        if (strcmp(cases[i].option, "data.train=dev.tsv") == 0) set(&t, "data.train=%s/dev.tsv", t.dir);
        else set(&t, "%s", cases[i].option);
        if (strstr(cases[i].option, "residual") != NULL) set(&t, "train.precision=bf16");
        char name[16];
        snprintf(name, sizeof name, "case%zu", i);
        train(&t, name, cache);
        json_t *features = features_of(&t, name);
        if (json_is_true(json_object_get(features, "from_cache")) != cases[i].found) fail_msg("%s: found %d", cases[i].option, !cases[i].found);
        json_decref(features);
        t.count = options;
    }
    // Not such a run: dropout in what is frozen, or something of it is trained.
    static const char *const others[] = {"train.frozen_dropout=on", "train.parameters=biases", "adapter.type=lora"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const int options = t.count;
        if (i == 2) set(&t, "train.parameters=auto");
        set(&t, "model.hidden_dropout=0.1");
        set(&t, "%s", others[i]);
        char name[16];
        snprintf(name, sizeof name, "other%zu", i);
        train(&t, name, cache);
        assert_null(features_of(&t, name));
        t.count = options;
    }
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(keys)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

// The option table, and its values from text and to text.
#include "tests/fixtures/option_table_case.h"

#define FT_ROWS_OF pet_values
#define FT_ROWS_IN pet_section
#include "engine/config/option_rows.h"

// ---- the table ----------------------------------------------------------------------------------------------------
static void test_every_field_has_a_row(void **state) { every_field_has_a_row(NULL, offsetof(ft_config, lines)); }

static void test_activations_are_those_of_the_kernels(void **state) {
    const ft_option *o = ft_option_at(ft_option_find("model.head.activation"));
    for (const ft_option_choice *choice = o->choices; choice->name != NULL; choice++) {
        ft_activation kind;
        ok(ft_activation_from_name(choice->name, &kind));
    }
}

// ---- values ---------------------------------------------------------------------------------------------------------
static void test_defaults_are_the_trainer_s(void **state) {
    ft_config c;
    ok(ft_config_load(&c, 0, NULL, 0, NULL));
    assert_string_equal(c.name, "run");
    assert_string_equal(c.model.path, "");
    assert_int_equal(c.model.init, FT_INIT_PRETRAINED);
    assert_true(isnan(c.model.hidden_dropout) && isnan(c.model.attention_dropout) && isnan(c.model.classifier_dropout));
    assert_true(isnan(c.model.head.dropout));
    assert_int_equal(c.model.freeze, FT_FREEZE_NONE);
    assert_int_equal(c.model.head.hidden.count, 0);
    assert_string_equal(c.model.head.activation, "relu");
    assert_true(c.data.max_length == FT_AUTO);
    assert_true(c.train.epochs == 3 && c.train.max_steps == 0);
    assert_int_equal(c.train.batch_size, 8);
    assert_int_equal(c.train.gradient_accumulation_steps, 1);
    assert_true(c.train.micro_batch_tokens == FT_AUTO && c.train.micro_batch == FT_AUTO);
    assert_true(c.train.learning_rate == 5e-5 && c.train.weight_decay == 0);
    assert_true(c.train.adam_beta1 == 0.9 && c.train.adam_beta2 == 0.999 && c.train.adam_epsilon == 1e-8);
    assert_true(c.train.max_grad_norm == 1);
    assert_int_equal(c.train.lr_scheduler, FT_SCHED_LINEAR);
    assert_true(c.train.warmup_ratio == 0 && c.train.warmup_steps == 0);
    assert_true(c.train.gradient_checkpointing == FT_AUTO);
    assert_int_equal(c.train.seed, 42);
    assert_true(c.train.data_seed == FT_AUTO);
    assert_false(c.train.drop_last);
    assert_int_equal(c.train.patience, 0);
    assert_int_equal(c.train.logging_steps, 500);
    assert_int_equal(c.eval.strategy, FT_EVAL_EPOCH);
    assert_int_equal(c.eval.metric, FT_METRIC_LOSS);
    assert_true(c.eval.batch_size == FT_AUTO && c.eval.batch_multiplier == FT_AUTO);
    assert_int_equal(c.memory.limit, 0);
    assert_string_equal(c.device.name, "auto");
    assert_int_equal(c.output.exists, FT_EXISTS_NEW);
    assert_int_equal(c.output.save_steps, 500);
    assert_int_equal(c.output.save_total_limit, 1);
    char text[FT_OPTION_TEXT_LIMIT];
    for (int i = 0; i < ft_option_count(); i++) // so that "differs from the default" can be asked of the text
        assert_string_equal(ft_option_get(&c, ft_option_at(i), text), ft_option_at(i)->initial);
    ft_config_free(&c);
    ft_config_free(&c);
}

static void test_values_as_people_write_them(void **state) {
    ft_config c;
    ok(load_text(&c, "\xef\xbb\xbf# a comment\r\n"
                     "  ; another\r\n"
                     "[train]\r\n"
                     "  batch_size = 32   ; large\r\n"
                     "learning_rate: 2E-5 # as in the paper\r\n"
                     "epochs=+2.5\r\n"
                     "drop_last = Yes\r\n"
                     "lr_scheduler = Cosine\r\n"
                     "[eval]\r\n"
                     "metric = f1\r\n"
                     "[model.head]\r\n"
                     "hidden = 512, 704,448\r\n"
                     "[data]\r\n"
                     "text_column = a;b #c\r\n"
                     "train = -\r\n"
                     "cache_dir = none\r\n"
                     "[train]\r\n"
                     "gradient_checkpointing = ON"));
    assert_int_equal(c.train.batch_size, 32);
    assert_true(c.train.learning_rate == 2e-5 && c.train.epochs == 2.5 && c.train.drop_last);
    assert_int_equal(c.train.lr_scheduler, FT_SCHED_COSINE);
    assert_int_equal(c.eval.metric, FT_METRIC_F1_BINARY);
    assert_int_equal(c.model.head.hidden.count, 3);
    assert_int_equal(c.model.head.hidden.values[0], 512);
    assert_int_equal(c.model.head.hidden.values[1], 704);
    assert_int_equal(c.model.head.hidden.values[2], 448);
    assert_string_equal(c.data.text_column, "a;b");
    assert_string_equal(c.data.train, "-");
    assert_string_equal(c.data.cache_dir, "none");
    assert_int_equal(c.train.gradient_checkpointing, 1);
    assert_string_equal(c.name, "case");
    ft_config_free(&c);

    ok(load_text(&c, "train.batch_size = 5\n[model]\nhead.hidden =\nhead.dropout = auto\n"));
    assert_int_equal(c.train.batch_size, 5);
    assert_true(c.train.learning_rate == 5e-5 && c.model.head.hidden.count == 0 && isnan(c.model.head.dropout));
    ft_config_free(&c);

    ok(load_overrides(&c, " train.batch_size = 7 ", "train.seed=9"));
    assert_int_equal(c.train.batch_size, 7);
    ft_config_free(&c);
}

static void test_durations(void **state) {
    static const struct {
        const char *text;
        double seconds;
        const char *written;
    } rows[] = {{"0", 0, "0"},       {"0s", 0, "0"},     {"30s", 30, "30s"},      {"1.5h", 5400, "90m"},
                {"2h", 7200, "2h"},  {"48h", 172800, "2d"}, {"0.5s", 0.5, "0.5s"}, {"90", -1, "write the unit too"},
                {"1m30s", -1, NULL}, {"-1s", -1, NULL},  {"1w", -1, NULL},        {"99999d", -1, "write the unit too"},
                {"h", -1, NULL},     {"auto", -1, NULL}, {"1 h", -1, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char override[64], text[FT_OPTION_TEXT_LIMIT];
        ft_config c;
        snprintf(override, sizeof override, "device.wait_timeout=%s", rows[i].text);
        if (rows[i].seconds < 0) {
            expect_override_error(override, "device.wait_timeout takes a time as 30s", rows[i].written);
            continue;
        }
        ok(load_overrides(&c, override, NULL));
        assert_true(c.device.wait_timeout == rows[i].seconds);
        assert_string_equal(ft_option_get(&c, ft_option_at(ft_option_find("device.wait_timeout")), text), rows[i].written);
        ft_config_free(&c);
    }
}

static void test_sizes(void **state) {
    static const struct {
        const char *text;
        int64_t bytes;
        const char *written;
    } rows[] = {{"24GiB", 24LL << 30, "24GiB"},
                {"512 MiB", 512 << 20, "512MiB"},
                {"24GB", 24000000000, "24GB"},
                {"24gb", 24000000000, "24GB"},
                {"1.5GiB", 3 << 29, "1536MiB"},
                {"20000001", 20000001, "20000001"},
                {"0", -1, NULL}, // not auto
                {"0B", -1, NULL},
                {"0GiB", -1, NULL},
                {"auto", 0, "auto"},
                {"65536", 1 << 16, "65536"},
                {"900000000000001B", 900000000000001, "900000000000001"},
                {"1024TiB", 1LL << 50, "1024TiB"},
                {"1PiB", -1, NULL},
                {"1025TiB", -1, NULL},
                {"24", -1, NULL},
                {"-1GiB", -1, NULL},
                {"1.2.3GiB", -1, NULL},
                {"GiB", -1, NULL},
                {".GiB", -1, NULL},
                {"99999999999999999999GiB", -1, NULL},
                {"99999999999999999999", -1, NULL},
                {"1.5", -1, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char override[64], text[64];
        ft_config c;
        snprintf(override, sizeof override, "memory.limit=%s", rows[i].text);
        if (rows[i].bytes < 0) {
            expect_override_error(override, "memory.limit takes auto or a size, at least 65536, at most 1024TiB, or a share as 80%; got '",
                                  NULL);
            continue;
        }
        ok(load_overrides(&c, override, NULL));
        assert_int_equal(c.memory.limit, rows[i].bytes);
        ok(ft_option_text(&c, ft_option_find("memory.limit"), text, sizeof text));
        assert_string_equal(text, rows[i].written);
        ft_config_free(&c);
    }
    static const struct {
        const char *text;
        int64_t stored; // 0: refused
    } shares[] = {{"80%", -800000}, {"12.5%", -125000}, {"100%", -1000000}, {"0%", 0}, {"101%", 0}, {"%", 0}, {"x%", 0}, {"8 %", 0}, {"nan%", 0}};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        char override[64], text[64];
        ft_config c;
        snprintf(override, sizeof override, "memory.limit=%s", shares[i].text);
        if (shares[i].stored == 0) {
            expect_override_error(override, "or a share as 80%", NULL);
            continue;
        }
        ok(load_overrides(&c, override, NULL));
        assert_int_equal(c.memory.limit, shares[i].stored);
        ok(ft_option_text(&c, ft_option_find("memory.limit"), text, sizeof text));
        assert_string_equal(text, shares[i].text);
        ft_config_free(&c);
    }
    expect_override_error("memory.max_split_size=80%", "takes auto or a size", NULL);
    expect_override_error("memory.max_split_size=0", "memory.max_split_size takes auto or a size, at least 2MiB", NULL);
    expect_override_error("device.min_free_memory=0", "device.min_free_memory takes auto or a size, at least 1", NULL);
    expect_override_error("memory.limit=24G", "takes auto or a size", "24G could be 24GiB (1024s) or 24GB (1000s)");
}

static void test_numbers_keep_every_bit_and_few_digits(void **state) {
    static const char *const same[] = {
        "1", "5e-5", "1e-8", "0.1", "2.5", "0.001", "3e-4", "1.5e-7", "0.30000000000000004", "99.5", "1e-300"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char override[64], text[64];
        ft_config c;
        snprintf(override, sizeof override, "train.weight_decay=%s", same[i]);
        ok(load_overrides(&c, override, NULL));
        ok(ft_option_text(&c, ft_option_find("train.weight_decay"), text, sizeof text));
        // 3e-4 is 0.0003 to printf, one character more and as exact
        assert_true(strtod(text, NULL) == strtod(same[i], NULL) && strlen(text) <= strlen(same[i]) + 2);
        ft_config_free(&c);
    }
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 2000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double value = (double)(bits >> 11) * 0x1p-53 * (i % 2 != 0 ? 100 : 1e-5), back;
        char override[64], text[64];
        snprintf(override, sizeof override, "train.weight_decay=%.17g", value);
        ft_config c;
        ok(load_overrides(&c, override, NULL));
        assert_true(c.train.weight_decay == value);
        ok(ft_option_text(&c, ft_option_find("train.weight_decay"), text, sizeof text));
        back = strtod(text, NULL);
        if (back != value) fail_msg("%.17g became %s", value, text);
        ft_config_free(&c);
    }
}

// ---- where values come from ---------------------------------------------------------------------------------------
static void test_later_wins(void **state) {
    const char *files[] = {write_file("one.ini", "[train]\nbatch_size = 2\nepochs = 4\nseed = 6\n"),
                           write_file("two.x.ini", "[train]\nbatch_size = 3\nepochs = 5\n")};
    const char *overrides[] = {"train.batch_size=9", "train.batch_size=10"};
    ft_config c;
    ok(ft_config_load(&c, 2, files, 2, overrides));
    assert_int_equal(c.train.batch_size, 10);
    assert_true(c.train.epochs == 5);
    assert_int_equal(c.train.seed, 6);
    assert_string_equal(c.name, "two.x");
    ft_config_free(&c);
}

static void test_paths(void **state) {
    char before[4096], expected[4600], home[] = "/home/somebody", *old = getenv("HOME");
    char *kept_home = old == NULL ? NULL : strdup(old);
    assert_non_null(getcwd(before, sizeof before));
    mkdir(in_scratch("sub"), 0700);
    mkdir(in_scratch("here"), 0700);
    write_file(
        "sub/p.ini",
        "[data]\ntrain = t.tsv\nvalidation = /abs/v.tsv\ntest = ~/x.tsv\n[output]\ndir = out dir\n[model]\npath=../m");
    assert_int_equal(chdir(in_scratch("here")), 0);
    setenv("HOME", home, 1);
    const char *files[] = {"../sub/p.ini"}, *overrides[] = {"data.cache_dir=cache", "model.init=random"};
    ft_config c;
    ok(ft_config_load(&c, 1, files, 2, overrides));
    assert_int_equal(chdir(before), 0);
    if (kept_home != NULL) setenv("HOME", kept_home, 1);
    free(kept_home);
    assert_true(c.data.train[0] == '/' && c.output.dir[0] == '/' && c.model.path[0] == '/');
    assert_string_equal(c.data.validation, "/abs/v.tsv");
    assert_string_equal(c.data.test, "/home/somebody/x.tsv");
    snprintf(expected, sizeof expected, "%s/here/cache", scratch_dir);
    assert_string_equal(c.data.cache_dir, expected);
    // The same files, however the path is spelt.
    struct stat a, b;
    write_file("sub/t.tsv", "");
    mkdir(in_scratch("m"), 0700);
    assert_int_equal(stat(c.data.train, &a), 0);
    assert_int_equal(stat(in_scratch("sub/t.tsv"), &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(stat(c.model.path, &a), 0);
    assert_int_equal(stat(in_scratch("m"), &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_true(strstr(c.output.dir, "sub/out dir") != NULL);
    ft_config_free(&c);
}

static void test_written_and_read_again(void **state) {
    ft_config c, again;
    ok(load_text(&c, "[data]\ntrain = a b.tsv\nvalidation = -\ntext_column = Satz#1\n[train]\nlearning_rate = "
                     "1.2345678901234567e-5\n"
                     "gradient_checkpointing = 4\nmicro_batch_tokens = 4096\n[model]\nhead.hidden = 1,2,65536\n"
                     "[memory]\nlimit = 3GB\n[output]\ndir = out\n[eval]\nmetric = matthews_correlation\n"));
    char *few = written(&c, false, false), *all = written(&c, true, false), *without = written(&c, true, true), *none;
    assert_non_null(strstr(few, "dir = /"));
    assert_null(strstr(without, "dir = /"));
    assert_null(strstr(few, "epochs"));
    assert_non_null(strstr(all, "epochs = 3\n"));
    ok(load_text(&again, few));
    char *few_again = written(&again, false, false), *all_again = written(&again, true, false);
    assert_string_equal(few, few_again);
    assert_string_equal(all, all_again);
    assert_true(again.train.learning_rate == c.train.learning_rate);
    ft_config_free(&again);
    ok(load_text(&again, all));
    free(all_again);
    all_again = written(&again, true, false);
    assert_string_equal(all, all_again);
    ft_config_free(&again);
    ft_config_free(&c);
    ok(ft_config_load(&c, 0, NULL, 0, NULL));
    none = written(&c, false, false);
    assert_string_equal(none, "");
    ft_config_free(&c);
    char small[4], by_another_name[FT_OPTION_TEXT_LIMIT];
    ok(load_overrides(&c, "train.loss_on=all", NULL));
    ok(ft_option_text(&c, ft_option_find("data.learn"), by_another_name, sizeof by_another_name));
    assert_string_equal(by_another_name, "all");
    ft_config_free(&c);
    ok(load_overrides(&c, "train.epochs=12.75", NULL));
    assert_int_equal(ft_option_text(&c, ft_option_find("train.epochs"), small, sizeof small), FT_FAILED);
    assert_int_equal(ft_option_text(&c, ft_option_find("train.epochs"), small, 0), FT_FAILED);
    assert_int_equal(ft_option_text(&c, -1, small, sizeof small), FT_FAILED);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(ft_config_write(&c, true, false, full), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "cannot write the configuration"));
    fclose(full);
    ft_config_free(&c);
    free(few), free(all), free(without), free(none), free(few_again), free(all_again);
}

// ---- sections of other owners -----------------------------------------------------------------------------------------
typedef struct pet_values {
    struct {
        int64_t legs;
        const char *name, *home;
        bool fed;
    } pet;
} pet_values;
static const ft_section pet_section;
static const ft_option rows[] = {
    INT(pet.legs, FREE, "4", 0, 100, .elsewhere = "feet", .help = "How many legs it has."),
    STRING(pet.name, FIXED, "", .help = "What it is called."),
    PATH(pet.home, FREE, "", .help = "Where it lives, which is no model."),
    BOOL(pet.fed, FREE, "false", .help = "Whether it has eaten."),
};
static const ft_section pet_section = {
    .name = "pet", .help = "An animal.", .about = "animals", .rows = rows, .count = ROWS, .size = sizeof(pet_values)};
static const ft_section wish_section = {.name = "wish", .help = "What might be.", .about = "wishes", .lines = true};
static const ft_section *const pet_sections[] = {&pet_section, &wish_section, NULL};

static void test_sections_of_other_owners(void **state) {
    const char *const overrides[] = {"pet.legs=3"};
    ft_config c, again;
    expect_override_error("pet.legs=3", "unknown section [pet]", "sections are model, adapter, data, augment, train, eval, memory, device, distributed, output, track and notify");
    other_sections = pet_sections;
    const char *files[] = {write_file("pet.ini", "[pet]\nname = Rex\nhome = a/b\n[wish]\npet.legs = six\ntrain.seed = any\n"
                                                 "[train]\nepochs = 2\n")};
    ok(ft_config_load_with(pet_sections, &c, 1, files, 1, overrides));
    const pet_values *values = ft_config_values(&c, &pet_section);
    assert_true(values->pet.legs == 3 && !values->pet.fed && c.train.epochs == 2);
    assert_string_equal(values->pet.name, "Rex");
    assert_true(values->pet.home[0] == '/'); // a path like others
    assert_int_equal(c.lines.count, 1);      // the command line has set what another one was about
    assert_string_equal(c.lines.list[0].option, "train.seed");
    char *text = written(&c, false, false), *run = written(&c, false, true);
    assert_non_null(strstr(text, "[pet]\nlegs = 3\nname = Rex\n"));
    assert_non_null(strstr(text, "\n[wish]\ntrain.seed = any\n"));
    assert_null(strstr(run, "pet"));
    ok(load_text(&again, text));
    char *same = written(&again, false, false);
    assert_string_equal(text, same);
    ft_config_free(&again);
    ft_config_free(&c);
    free(text), free(run), free(same);
    expect_override_error("pet.legs=many", "pet.legs takes a whole number, at least 0, at most 100; got 'many'", NULL);
    expect_override_error("pet.lges=3", "unknown option pet.lges", "did you mean pet.legs?");
    expect_override_error("pet.feet=3", "unknown option pet.feet", "called pet.legs here");
    expect_override_error("pte.legs=3", "unknown section [pte]", "did you mean [pet]?");
    expect_override_error("nowhere.zz=3", "unknown section", "sections are model, adapter, data, augment, train, eval, memory, device, distributed, output, track, notify, pet and wish");
    test_rows_are_whole(state);
    test_every_option_is_set_and_read_back(state);
    test_reference(state);
    every_field_has_a_row(&pet_section, sizeof(pet_values));
    other_sections = NULL;
    ok(ft_config_load(&c, 0, NULL, 0, NULL)); // without the section its options cannot be set
    assert_null(ft_config_values(&c, &pet_section));
    assert_int_equal(ft_option_set(&c, &rows[0], "3", NULL, "here"), FT_FAILED);
    ft_config_free(&c);
}

static void test_metrics(void **state) {
    static const char *const names[FT_METRIC_COUNT] = {
        "loss",         "accuracy",     "balanced_accuracy", "precision_macro", "precision_micro", "precision_weighted", "precision_binary",
        "precision_samples", "recall_macro", "recall_micro", "recall_weighted",   "recall_binary",   "recall_samples", "f1_macro",        "f1_micro",           "f1_weighted",
        "f1_binary",    "f1_samples",   "hamming_loss",      "matthews",     "cohen_kappa",       "auroc",           "average_precision", "log_loss",         "brier",
        "ece",          "pearson",      "spearman",          "mse",             "rmse",            "mae",                "r2",
        "precision_strict", "recall_strict", "f1_strict", "f1_macro_strict",
        "mrr", "mrr_10", "map", "ndcg", "ndcg_5", "ndcg_10", "recall_1", "recall_5", "recall_10", "recall_100",
        "exact_match", "answer_f1", "has_answer_exact", "has_answer_f1", "no_answer_exact", "best_exact", "best_exact_threshold", "best_f1",
        "best_f1_threshold", "perplexity"};
    static const char lower[] = " loss hamming_loss log_loss brier ece mse rmse mae perplexity ";
    for (int i = 0; i < FT_METRIC_COUNT; i++) {
        assert_string_equal(ft_metric_name((ft_metric)i), names[i]);
        char word[40];
        snprintf(word, sizeof word, " %s ", names[i]);
        assert_int_equal(ft_metric_greater_is_better((ft_metric)i), strstr(lower, word) == NULL);
    }
    assert_string_equal(ft_metric_name(FT_METRIC_COUNT), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OPTION_TABLE_TESTS,
        cmocka_unit_test(test_every_field_has_a_row),
        cmocka_unit_test(test_sections_of_other_owners),
        cmocka_unit_test(test_activations_are_those_of_the_kernels),
        cmocka_unit_test(test_defaults_are_the_trainer_s),
        cmocka_unit_test(test_values_as_people_write_them),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_numbers_keep_every_bit_and_few_digits),
        cmocka_unit_test(test_later_wins),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_written_and_read_again),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

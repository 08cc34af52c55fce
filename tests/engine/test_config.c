// The option table, its text in and out, and every refusal with what its message must say.
#include "engine/config/ini.h"
#include "engine/config/options.h"
#include "engine/io/files.h"
#include "kernels/activation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[64];

// Fails with the error that the engine left.
#define ok(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK)                                                                                     \
            fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());                                \
    } while (0)

static const char *in_scratch(const char *name) {
    static char paths[8][160];
    static int next;
    char *out = paths[next++ % 8];
    snprintf(out, sizeof paths[0], "%s/%s", scratch_dir, name);
    return out;
}

static const char *write_bytes(const char *name, const char *text, size_t size) {
    const char *path = in_scratch(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *write_file(const char *name, const char *text) { return write_bytes(name, text, strlen(text)); }

static ft_status load_text(ft_config *config, const char *text) {
    const char *path = write_file("case.ini", text);
    return ft_config_load(config, 1, &path, 0, NULL);
}

static ft_status load_overrides(ft_config *config, const char *first, const char *second) {
    const char *overrides[] = {first, second};
    return ft_config_load(config, 0, NULL, second == NULL ? 1 : 2, overrides);
}

static void expect_error(const char *what, const char *where, const char *message, const char *hint) {
    assert_int_equal(ft_error_code(), FT_INVALID);
    if (strstr(ft_error_where(), where) == NULL) fail_msg("%s: at '%s', not '%s'", what, ft_error_where(), where);
    if (strstr(ft_error_message(), message) == NULL) fail_msg("%s: '%s' lacks '%s'", what, ft_error_message(), message);
    if (hint == NULL && ft_error_hint_count() > 0) fail_msg("%s: unexpected hint '%s'", what, ft_error_hint(0));
    if (hint != NULL && (ft_error_hint_count() == 0 || strstr(ft_error_hint(0), hint) == NULL))
        fail_msg("%s: hint '%s' lacks '%s'", what, ft_error_hint(0), hint);
}

static void expect_override_error(const char *override, const char *message, const char *hint) {
    ft_config config;
    if (load_overrides(&config, override, NULL) == FT_OK) fail_msg("%s was accepted", override);
    char where[300]; // WHERE keeps the beginning of a very long override
    snprintf(where, sizeof where, "%s", override);
    expect_error(override, where, message, hint);
    assert_null(config.arena.blocks);
}

static void expect_file_error(const char *text, int line, const char *message, const char *hint) {
    ft_config config;
    char where[40];
    snprintf(where, sizeof where, "case.ini:%d", line);
    if (load_text(&config, text) == FT_OK) fail_msg("accepted: %s", text);
    expect_error(text, where, message, hint);
}

static char *written(const ft_config *config, bool all, bool skip_output_dir) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    ok(config == NULL ? ft_config_write_reference(stream) : ft_config_write(config, all, skip_output_dir, stream));
    fclose(stream);
    return text;
}

// ---- the table --------------------------------------------------------------------------------------------------------
static void test_rows_are_whole(void **state) {
    assert_int_equal(ft_option_count(), ft_options_count);
    assert_null(ft_option_name(-1));
    assert_null(ft_option_name(ft_options_count));
    for (int i = 0; i < ft_options_count; i++) {
        const ft_option *o = &ft_options[i];
        size_t section = strcspn(o->name, ".");
        assert_non_null(ft_section_find(o->name, section));
        assert_false(ft_section_find(o->name, section)->reserved);
        assert_int_equal(ft_option_find(o->name), i); // so no name is there twice
        assert_string_equal(ft_option_name(i), o->name);
        assert_true(strlen(o->help) > 10 && o->help[strlen(o->help) - 1] == '.');
        assert_true(o->initial != NULL);
        bool named = o->type == FT_OPTION_CHOICE || o->type == FT_OPTION_NAME;
        assert_true(named == (o->choices != NULL));
        // A name known elsewhere that were an option's own would never be looked up.
        for (const char *at = o->elsewhere; at != NULL && *at != '\0';) {
            char word[64];
            size_t length = strcspn(at, " ");
            assert_in_range(length, 1, sizeof word - 1);
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            assert_int_equal(ft_option_find(word), -1);
            at += length + strspn(at + length, " ");
        }
    }
}

static void test_known_elsewhere_is_unique(void **state) {
    char seen[4096] = " ";
    for (int i = 0; i < ft_options_count; i++) {
        char words[512], *save = NULL;
        snprintf(words, sizeof words, "%s", ft_options[i].elsewhere == NULL ? "" : ft_options[i].elsewhere);
        for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
            char fenced[80];
            snprintf(fenced, sizeof fenced, " %s ", word);
            if (strstr(seen, fenced) != NULL) fail_msg("%s is known twice", word);
            assert_true(strlen(seen) + strlen(word) + 2 < sizeof seen);
            strcat(strcat(seen, word), " ");
        }
    }
}

static void test_no_field_is_shared(void **state) {
    for (int i = 0; i < ft_options_count; i++)
        for (int k = 0; k < i; k++) assert_int_not_equal(ft_options[i].offset, ft_options[k].offset);
}

// Fields that no option reaches would keep the pattern; the row of a field that moved would change another one.
static void test_every_field_has_a_row(void **state) {
    ft_config config;
    memset(&config, 0xa5, sizeof config);
    ok(ft_config_defaults(&config));
    size_t covered = 0;
    for (int i = 0; i < ft_options_count; i++) {
        static const size_t sizes[] = {[FT_OPTION_INT] = 8,    [FT_OPTION_FLOAT] = 8,
                                       [FT_OPTION_BOOL] = 1,   [FT_OPTION_CHOICE] = 4,
                                       [FT_OPTION_NAME] = 8,   [FT_OPTION_STRING] = 8,
                                       [FT_OPTION_PATH] = 8,   [FT_OPTION_SIZE] = 8,
                                       [FT_OPTION_LIST] = 16,  [FT_OPTION_EVERY_K] = 8};
        covered += sizes[ft_options[i].type];
    }
    // What is left is padding: at most 7 bytes for each field that is narrower than 8, and 4 in a list.
    size_t narrow = 0;
    for (int i = 0; i < ft_options_count; i++)
        narrow += ft_options[i].type == FT_OPTION_BOOL ? 7 : ft_options[i].type == FT_OPTION_CHOICE ? 4 : 0;
    size_t fields = offsetof(ft_config, name);
    assert_true(covered <= fields && fields - covered <= narrow);
    ft_config_free(&config);
}

static void test_activations_are_those_of_the_kernels(void **state) {
    const ft_option *o = &ft_options[ft_option_find("model.head.activation")];
    for (const ft_choice *choice = o->choices; choice->name != NULL; choice++) {
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
    assert_int_equal(c.train.gradient_checkpointing, 0);
    assert_int_equal(c.train.seed, 42);
    assert_true(c.train.data_seed == FT_AUTO);
    assert_false(c.train.drop_last);
    assert_int_equal(c.train.patience, 0);
    assert_int_equal(c.train.logging_steps, 500);
    assert_int_equal(c.eval.strategy, FT_EVAL_EPOCH);
    assert_int_equal(c.eval.metric, FT_METRIC_LOSS);
    assert_true(c.eval.batch_size == FT_AUTO && c.eval.batch_multiplier == 1);
    assert_int_equal(c.memory.limit, 0);
    assert_string_equal(c.device.name, "auto");
    assert_int_equal(c.output.exists, FT_EXISTS_NEW);
    assert_int_equal(c.output.save_steps, 500);
    assert_int_equal(c.output.save_total_limit, 1);
    char text[64];
    for (int i = 0; i < ft_options_count; i++) { // so that "differs from the default" can be asked of the text
        ok(ft_option_text(&c, i, text, sizeof text));
        assert_string_equal(text, ft_options[i].initial);
    }
    ft_config_free(&c);
    ft_config_free(&c);
}

// A value of the option that is not its default, by its type, and what it is written as.
static const char *another_value(const ft_option *o, const char **as) {
    *as = NULL;
    switch (o->type) {
    case FT_OPTION_INT: return "77";
    case FT_OPTION_FLOAT: return "0.28125";
    case FT_OPTION_BOOL: return strcmp(o->initial, "true") == 0 ? "false" : "true";
    case FT_OPTION_CHOICE:
    case FT_OPTION_NAME: {
        int last = 0;
        while (o->choices[last + 1].name != NULL) last++;
        if (o->type == FT_OPTION_CHOICE && last > 0)
            for (int i = 0; i < last; i++)
                if (o->choices[i].value == o->choices[last].value) {
                    *as = o->choices[i].name;
                    break;
                }
        return o->choices[last].name;
    }
    case FT_OPTION_STRING: return "my column";
    case FT_OPTION_PATH: return "/no/such/file.tsv";
    case FT_OPTION_SIZE: return "24GiB";
    case FT_OPTION_LIST: *as = "512, 704, 448"; return "512,704 , 448";
    case FT_OPTION_EVERY_K: return "3";
    }
    return NULL;
}

static void test_every_option_is_set_and_read_back(void **state) {
    for (int i = 0; i < ft_options_count; i++) {
        const ft_option *o = &ft_options[i];
        const char *as, *value = another_value(o, &as);
        char override[128], text[128], line[160];
        snprintf(override, sizeof override, "%s=%s", o->name, value);
        ft_config c, other;
        const char *overrides[] = {override};
        // train.patience asks for evaluations, which the default has.
        ok(ft_config_load(&c, 0, NULL, 1, overrides));
        for (int k = 0; k < ft_options_count; k++) { // it and no other
            ok(ft_option_text(&c, k, text, sizeof text));
            assert_string_equal(text, k == i ? (as != NULL ? as : value) : ft_options[k].initial);
        }
        if (o->type != FT_OPTION_CHOICE || o->choices[1].value != o->choices[0].value) {
            char *ini = written(&c, false, false);
            snprintf(line, sizeof line, "%s = %s\n", ft_option_key(o), as != NULL ? as : value);
            if (strstr(ini, line) == NULL) fail_msg("'%s' lacks '%s'", ini, line);
            ok(load_text(&other, ini));
            ok(ft_option_text(&other, i, text, sizeof text));
            assert_string_equal(text, as != NULL ? as : value);
            ft_config_free(&other);
            free(ini);
        }
        ft_config_free(&c);
    }
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

    ok(load_text(&c, "train.batch_size = 5\n[study]\ntrials = 3\nanything at all = 1\n[space]\n"
                     "train.learning_rate = float(1e-6, 1e-4, log)\ntrain.learning_rate = int(1, 2)\n"
                     "[model]\nhead.hidden =\nhead.dropout = auto\n"));
    assert_int_equal(c.train.batch_size, 5);
    assert_true(c.train.learning_rate == 5e-5 && c.model.head.hidden.count == 0 && isnan(c.model.head.dropout));
    ft_config_free(&c);

    ok(load_overrides(&c, " train.batch_size = 7 ", "study.trials=9"));
    assert_int_equal(c.train.batch_size, 7);
    ft_config_free(&c);
}

static void test_sizes(void **state) {
    static const struct {
        const char *text;
        int64_t bytes;
        const char *written;
    } rows[] = {{"24GiB", 24LL << 30, "24GiB"}, {"512 MiB", 512 << 20, "512MiB"}, {"24GB", 24000000000, "24GB"},
                {"24gb", 24000000000, "24GB"}, {"1.5GiB", 3 << 29, "1536MiB"}, {"20000001", 20000001, "20000001"},
                {"0", 0, "auto"}, {"auto", 0, "auto"}, {"16777216", 1 << 24, "16MiB"}, {"900000000000001B", 900000000000001, "900000000000001"},
                {"1024TiB", 1LL << 50, "1024TiB"}, {"1PiB", -1, NULL}, {"1025TiB", -1, NULL}, {"24", -1, NULL}, {"-1GiB", -1, NULL},
                {"1.2.3GiB", -1, NULL}, {"GiB", -1, NULL}, {".GiB", -1, NULL}, {"99999999999999999999GiB", -1, NULL},
                {"99999999999999999999", -1, NULL}, {"1.5", -1, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char override[64], text[64];
        ft_config c;
        snprintf(override, sizeof override, "memory.limit=%s", rows[i].text);
        if (rows[i].bytes < 0) {
            expect_override_error(override, "memory.limit takes auto or a size, at least 16MiB, at most 1024TiB; got '", NULL);
            continue;
        }
        ok(load_overrides(&c, override, NULL));
        assert_int_equal(c.memory.limit, rows[i].bytes);
        ok(ft_option_text(&c, ft_option_find("memory.limit"), text, sizeof text));
        assert_string_equal(text, rows[i].written);
        ft_config_free(&c);
    }
    expect_override_error("memory.limit=80%", "takes auto or a size", "a share of the device's memory cannot be given here");
    expect_override_error("memory.limit=24G", "takes auto or a size", "24G could be 24GiB (1024s) or 24GB (1000s)");
}

static void test_numbers_keep_every_bit_and_few_digits(void **state) {
    static const char *const same[] = {"1", "5e-5", "1e-8", "0.1", "2.5", "0.001", "3e-4", "1.5e-7", "0.30000000000000004", "99.5", "1e-300"};
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

// ---- where values come from -------------------------------------------------------------------------------------------
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
    write_file("sub/p.ini", "[data]\ntrain = t.tsv\nvalidation = /abs/v.tsv\ntest = ~/x.tsv\n[output]\ndir = out dir\n[model]\npath=../m");
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
    ok(load_text(&c, "[data]\ntrain = a b.tsv\nvalidation = -\ntext_column = Satz#1\n[train]\nlearning_rate = 1.2345678901234567e-5\n"
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
    char small[4];
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

static void test_reference(void **state) {
    char *text = written(NULL, false, false), *committed = NULL;
    for (int i = 0; i < ft_options_count; i++) {
        char line[128];
        snprintf(line, sizeof line, "\n%s =%s%s\n", ft_option_key(&ft_options[i]), ft_options[i].initial[0] == '\0' ? "" : " ",
                 ft_options[i].initial);
        if (strstr(text, line) == NULL) fail_msg("the reference lacks '%s'", line);
    }
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1) assert_true(strcspn(at, "\n") <= 120);
    ft_config c; // it is a configuration that changes nothing
    ok(load_text(&c, text));
    char *same = written(&c, false, false);
    assert_string_equal(same, "");
    ft_config_free(&c);
    size_t size;
    ok(ft_read_file(FT_SOURCE_DIR "/configs/reference.ini", 0, &committed, &size));
    if (strcmp(committed, text) != 0) fail_msg("configs/reference.ini is not current: ftengine config > configs/reference.ini");
    free(text), free(same), free(committed);
}

// ---- refusals ---------------------------------------------------------------------------------------------------------
static void test_unknown_names(void **state) {
    static const struct {
        const char *override, *message, *hint;
    } rows[] = {
        {"train.bach_size=8", "unknown option train.bach_size", "did you mean train.batch_size?"},
        {"train.learningrate=1", "unknown option", "did you mean train.learning_rate?"},
        {"train.Batch_Size=8", "unknown option", "called train.batch_size here"},
        {"trian.batch_size=8", "unknown section [trian]", "did you mean [train]?"},
        {"evla.batch_size=8", "unknown section [evla]", "did you mean [eval]?"},
        {"train.num_train_epochs=8", "unknown option train.num_train_epochs", "called train.epochs here"},
        {"train.num_train_epoch=8", "unknown option", "did you mean train.epochs?"},
        {"train.per_device_train_batch_size=8", "unknown option", "called train.batch_size here"},
        {"per_device_train_batch_size=8", "unknown option per_device_train_batch_size", "called train.batch_size here"},
        {"train.grad_accum=8", "unknown option", "called train.gradient_accumulation_steps here"},
        {"tok.max_length=8", "unknown section [tok]", "called data.max_length here"},
        {"train.max_length=8", "unknown option train.max_length", "called data.max_length here"},
        {"device.min_gpu_memory_mb=8", "unknown option", "called memory.limit here"},
        {"model.name=x", "unknown option model.name", "called model.path here"},
        {"batch_size=8", "unknown option batch_size", "called train.batch_size here"},
        {"train.train.batch_size=8", "unknown option train.train.batch_size", "called train.batch_size here"},
        {"train.zzzzzz=8", "unknown option train.zzzzzz", "`ftengine config` lists every option"},
        {"nowhere.zzzzzz=8", "unknown section [nowhere]", "sections are model, data, train"},
        {"train.=8", "unknown option train.", "`ftengine config` lists every option"},
        {"=8", "unknown option", "`ftengine config` lists every option"},
        {"train.batch_size", "an option is given as section.key=value", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_override_error(rows[i].override, rows[i].message, rows[i].hint);
    char *text = malloc(5000);
    assert_non_null(text);
    memset(text, 'x', 4990);
    strcpy(text + 4990, "=1");
    expect_override_error(text, "unknown option xxx", "`ftengine config`");
    text[2000] = '.';
    expect_override_error(text, "unknown section [xxx", "sections are");
    free(text);
    expect_file_error("[train]\n\n# c\nbach_size = 3\n", 4, "unknown option train.bach_size", "did you mean train.batch_size?");
    expect_file_error("\n[trian]\nbatch_size = 3\n", 3, "unknown section [trian]", "did you mean [train]?");
}

static void test_wrong_values(void **state) {
    static const struct {
        const char *override, *message, *hint;
    } rows[] = {
        {"train.batch_size=eight", "train.batch_size takes a whole number, at least 1, at most 1048576; got 'eight'", NULL},
        {"train.batch_size=0", "at least 1, at most 1048576; got '0'", NULL},
        {"train.batch_size=8.5", "whole number", NULL},
        {"train.batch_size=8 # x", "whole number", NULL},
        {"train.batch_size=0x10", "whole number", NULL},
        {"train.batch_size=99999999999999999999", "whole number", NULL},
        {"train.batch_size=auto", "takes a whole number", NULL},
        {"train.batch_size=", "train.batch_size has no value; it takes a whole number", NULL},
        {"train.batch_size=-", "whole number", NULL},
        {"train.max_steps=-1", "a whole number, at least 0; got '-1'", NULL},
        {"data.max_length=2", "auto or a whole number, at least 3", NULL},
        {"train.learning_rate=fast", "a number, at least 0, at most 100; got 'fast'", NULL},
        {"train.learning_rate=nan", "a number", NULL},
        {"train.learning_rate=1e999", "a number", NULL},
        {"train.learning_rate=0x1p-3", "a number", NULL},
        {"train.learning_rate=-1e-5", "at least 0", NULL},
        {"train.max_grad_norm=inf", "a number, at least 0; got 'inf'", NULL},
        {"train.epochs=0", "a number, above 0, at most 1000000; got '0'", NULL},
        {"train.adam_beta1=1", "a number, at least 0, below 1; got '1'", NULL},
        {"train.warmup_ratio=1.01", "at least 0, at most 1", NULL},
        {"model.hidden_dropout=1", "auto or a number, at least 0, below 1; got '1'", NULL},
        {"train.drop_last=perhaps", "true or false; got 'perhaps'", NULL},
        {"train.lr_scheduler=linaer", "linear, cosine, constant or constant_with_warmup; got 'linaer'", "did you mean linear?"},
        {"train.lr_scheduler=", "train.lr_scheduler has no value", NULL},
        {"eval.metric=acuracy", "loss, accuracy, f1_macro", "did you mean accuracy?"},
        {"model.head.activation=rleu", "relu, tanh, gelu", "did you mean relu?"},
        {"device.name=gpu", "auto or cpu; got 'gpu'", NULL},
        {"model.head.hidden=512,,3", "whole numbers separated by commas, each, at least 1, at most 65536", NULL},
        {"model.head.hidden=512,", "whole numbers separated by commas", NULL},
        {"model.head.hidden=,512", "whole numbers separated by commas", NULL},
        {"model.head.hidden=512 704", "whole numbers separated by commas", NULL},
        {"model.head.hidden=[512]", "whole numbers separated by commas", NULL},
        {"model.head.hidden=0", "at least 1", NULL},
        {"train.gradient_checkpointing=sometimes", "auto, off, on or a whole number, at least 2, at most 1024", NULL},
        {"train.gradient_checkpointing=-3", "off, on or a whole number", NULL},
        {"data.text_column=a #b", "data.text_column cannot hold a ; or # that begins a word", NULL},
        {"data.train=;x", "cannot hold a ; or #", NULL},
        {"data.train=a\nb", "data.train cannot hold control characters: 'a?b'", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_override_error(rows[i].override, rows[i].message, rows[i].hint);
    expect_file_error("[train]\nseed = 1\nbatch_size = many\n", 3, "got 'many'", NULL);

    char text[6000];
    memset(text, '/', sizeof text);
    memcpy(text, "data.train=", 11);
    strcpy(text + 5000, "a");
    expect_override_error(text, "data.train is too long (4990 bytes; at most 4095)", NULL);
    memcpy(text, "data.text_column=", 17);
    expect_override_error(text, "data.text_column is too long", NULL);
    strcpy(text, "model.head.hidden=1");
    for (int i = 0; i < 64; i++) strcat(text, ",1");
    expect_override_error(text, "model.head.hidden has more than 64 members", NULL);
    text[strlen(text) - 2] = '\0';
    ft_config c;
    ok(load_overrides(&c, text, NULL));
    assert_int_equal(c.model.head.hidden.count, 64);
    ft_config_free(&c);
}

static void test_wrong_files(void **state) {
    ft_config c;
    const char *path = in_scratch("missing.ini");
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    expect_error("missing", "missing.ini", "No such file", NULL);
    path = scratch_dir;
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    expect_error("directory", scratch_dir, "this is a directory, not a configuration file", NULL);
    path = write_bytes("case.ini", "[train]\nse\0ed = 1\n", 18);
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    expect_error("binary", "case.ini:2", "this is no text file: it holds the byte 0x00", NULL);
    char *big = malloc((1 << 20) + 10);
    assert_non_null(big);
    memset(big, '\n', (1 << 20) + 10);
    path = write_bytes("case.ini", big, (1 << 20) + 10);
    assert_int_equal(ft_config_load(&c, 1, &path, 0, NULL), FT_INVALID);
    assert_non_null(strstr(ft_error_where(), "case.ini"));
    memset(big, 'x', FT_INI_LINE_LIMIT + 2);
    memcpy(big, "\ntrain.seed=", 12);
    big[FT_INI_LINE_LIMIT + 2] = '\0';
    expect_file_error(big, 2, "the line has 16385 bytes; at most 16384", NULL);
    memset(big + 12, ' ', FT_INI_LINE_LIMIT - 12); // the longest line that is read, in many pieces
    strcpy(big + FT_INI_LINE_LIMIT, "7\nbad");
    expect_file_error(big, 3, "this line is neither [section] nor key = value nor a comment", NULL);
    big[FT_INI_LINE_LIMIT + 1] = '\0';
    ok(load_text(&c, big));
    assert_int_equal(c.train.seed, 7);
    ft_config_free(&c);
    free(big);

    expect_file_error("[train]\nseed = 1\n\n[model]\n[train]\nseed = 2\n", 6, "train.seed is set on line 2 already", NULL);
    expect_file_error("[train]\nseed 1\n", 2, "this line is neither", NULL);
    expect_file_error("[train\nseed = 1\n", 1, "a section's name ends with ]", NULL);
    expect_file_error("[train] seed = 1\n", 1, "nothing may follow a section's name", NULL);
    expect_file_error("[train]\n= 1\n", 2, "there is no name before the '='", NULL);
    expect_file_error("[train]\nseed = 1\n  2\n", 3, "this line is neither", NULL);
    expect_file_error("[xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx]\n", 1, "unknown section (its name has 58 bytes)", NULL);
    expect_file_error("[train]\nseed =\n", 2, "train.seed has no value", NULL);
    ok(load_text(&c, ""));
    ft_config_free(&c);
    ok(load_text(&c, "[train] ; how\nseed = 3 # a\n"));
    assert_int_equal(c.train.seed, 3);
    ft_config_free(&c);
}

static void test_rules_between_options(void **state) {
    ft_config c;
    assert_int_equal(load_overrides(&c, "train.patience=2", "eval.strategy=no"), FT_INVALID);
    expect_error("patience", "train.patience", "eval.strategy is no", NULL);
    assert_int_equal(load_overrides(&c, "train.batch_size=1048576", "eval.batch_multiplier=2"), FT_INVALID);
    expect_error("multiplier", "eval.batch_multiplier", "2 times a batch of 1048576", NULL);
}

static void test_nearest(void **state) {
    static const char *const names[] = {"accuracy", "loss", "matthews", "f1_macro", "f1_micro"};
    assert_string_equal(ft_nearest("acuracy", 5, names), "accuracy");
    assert_string_equal(ft_nearest("LOSS", 5, names), "loss");
    assert_string_equal(ft_nearest("lsos", 5, names), "loss"); // two neighbours swapped: one step
    assert_string_equal(ft_nearest("f1_mcro", 5, names), "f1_macro"); // the first of two as near
    assert_null(ft_nearest("lo", 5, names));
    assert_null(ft_nearest("", 5, names));
    assert_null(ft_nearest("recall", 5, names));
    assert_null(ft_nearest("loss", 0, NULL));
    char longer[300];
    memset(longer, 'a', sizeof longer);
    longer[299] = '\0';
    assert_null(ft_nearest(longer, 5, names));
}

static void test_metrics(void **state) {
    static const char *const names[FT_METRIC_COUNT] = {"loss", "accuracy", "f1_macro", "f1_micro", "f1_binary", "matthews"};
    for (int i = 0; i < FT_METRIC_COUNT; i++) {
        assert_string_equal(ft_metric_name((ft_metric)i), names[i]);
        assert_int_equal(ft_metric_greater_is_better((ft_metric)i), i != FT_METRIC_LOSS);
    }
    assert_string_equal(ft_metric_name(FT_METRIC_COUNT), "?");
}

static int make_scratch(void **state) {
    snprintf(scratch_dir, sizeof scratch_dir, "/tmp/ft-config-XXXXXX");
    return mkdtemp(scratch_dir) == NULL;
}

static int remove_scratch(void **state) { return ft_remove_tree(scratch_dir) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_known_elsewhere_is_unique),
        cmocka_unit_test(test_no_field_is_shared),
        cmocka_unit_test(test_every_field_has_a_row),
        cmocka_unit_test(test_activations_are_those_of_the_kernels),
        cmocka_unit_test(test_defaults_are_the_trainer_s),
        cmocka_unit_test(test_every_option_is_set_and_read_back),
        cmocka_unit_test(test_values_as_people_write_them),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_numbers_keep_every_bit_and_few_digits),
        cmocka_unit_test(test_later_wins),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_written_and_read_again),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_rules_between_options),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

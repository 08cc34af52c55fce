// The options as the program has them: those of a run, and [study] and [space] behind them.
#include "tests/fixtures/option_table_case.h"

#include "engine/config/options.h"
#include "hpo/space/options_study.h"

#include <ctype.h>

static void test_every_field_has_a_row(void **state) { every_field_has_a_row(&ft_study_section, sizeof(ft_study_options)); }

// What ft_tuning_check_identity holds against the study is what a study must not change, and nothing else.
static void test_what_a_study_is(void **state) {
    for (int i = 0; i < ft_study_section.count; i++) {
        const ft_option *o = &ft_study_section.rows[i];
        bool identity = strcmp(o->name, "study.objective") == 0 || strcmp(o->name, "study.constraints") == 0;
        assert_int_equal(o->change, identity ? FT_FIXED : FT_FREE);
    }
}

// A help that names a value of another option ("with device.threads = 0") names one that it takes.
static void test_helps_name_values_that_are_taken(void **state) {
    ft_config c;
    const ft_option *option;
    int named = 0;
    ok(ft_config_defaults_with(ft_study_sections, &c));
    for (int i = 0; (option = ft_sections_option(ft_study_sections, i)) != NULL; i++)
        for (const char *at = option->help; at != NULL && (at = strstr(at, " = ")) != NULL; at += 3) {
            const char *begin = at, *value = at + 3;
            char name[64], word[64];
            while (begin > option->help && (islower((unsigned char)begin[-1]) || strchr("_.", begin[-1]) != NULL)) begin--;
            snprintf(name, sizeof name, "%.*s", (int)(at - begin), begin);
            snprintf(word, sizeof word, "%.*s", (int)strspn(value, "abcdefghijklmnopqrstuvwxyz_-0123456789"), value);
            const int other = ft_sections_find(ft_study_sections, name);
            if (other < 0 || word[0] == '\0') continue;
            const ft_option *meant = ft_sections_option(ft_study_sections, other);
            if (meant->type == FT_OPTION_PATH || meant->type == FT_OPTION_STRING) continue;
            if (ft_option_set(&c, meant, word, NULL, "help") != FT_OK)
                fail_msg("the help of %s names %s = %s, which is refused: %s", option->name, name, word, ft_error_message());
            named++;
        }
    assert_true(named >= 3);
    ft_config_free(&c);
}

static void test_committed_reference(void **state) {
    char *text = written(NULL, false, false), *committed = NULL;
    size_t size;
    ok(ft_read_file(FT_SOURCE_DIR "/configs/reference.ini", 0, &committed, &size));
    if (strcmp(committed, text) != 0) fail_msg("configs/reference.ini is not current: make reference");
    free(text), free(committed);
}

static void test_values(void **state) {
    ft_config c;
    ok(load_text(&c, "train.batch_size = 5\n[study]\ntrials = 3\ntimeout = 1.5h\n[space]\n"
                     "train.learning_rate = float(1e-6, 1e-4, log)\ntrain.learning_rate = int(1, 2)\n"));
    assert_true(ft_study_options_of(&c)->trials == 3 && ft_study_options_of(&c)->timeout == 5400 && c.lines.count == 2);
    assert_int_equal(c.train.batch_size, 5);
    ft_config_free(&c);
    ok(load_overrides(&c, "study.trials=9", NULL));
    assert_int_equal(ft_study_options_of(&c)->trials, 9);
    ft_config_free(&c);
}

// A study's database is a path like others, whatever stands in front of it.
static void test_storage_is_a_path(void **state) {
    ft_config c;
    char wanted[300];
    const char *files[] = {write_file("study.ini", "[study]\nstorage = sqlite:///kept.db\n")};
    snprintf(wanted, sizeof wanted, "sqlite:///%s/kept.db", scratch_dir);
    ok(ft_study_config_load(&c, 1, files, 0, NULL));
    assert_string_equal(ft_study_options_of(&c)->storage, wanted); // beside the file, wherever we are
    ft_config_free(&c);
    const char *overrides[] = {"study.storage=kept.db"};
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    ok(ft_study_config_load(&c, 1, files, 1, overrides));
    assert_true(strncmp(ft_study_options_of(&c)->storage, here, strlen(here)) == 0 && strcmp(ft_study_options_of(&c)->storage + strlen(here), "/kept.db") == 0);
    ft_config_free(&c);
    for (int i = 0; i < 3; i++) { // no files: the study refuses them by name
        static const char *const others[] = {"postgresql://host/db", "sqlite:///", "sqlite:///:memory:"};
        char override[80];
        snprintf(override, sizeof override, "study.storage=%s", others[i]);
        const char *one[] = {override};
        ok(ft_study_config_load(&c, 1, files, 1, one));
        assert_string_equal(ft_study_options_of(&c)->storage, others[i]);
        ft_config_free(&c);
    }
}

// [space] is kept as it is written; what comes later replaces the lines of earlier sources, option by option.
static void test_lines_of_the_space(void **state) {
    const char *files[] = {write_file("one.ini", "[space]\ntrain.batch_size = choice(8, 16)\ntrain.epochs = int(1, 3)\n"
                                                 "train.seed = int(1, 5)\n[train]\nlearning_rate = 1e-5\n"),
                           write_file("two.ini", "[space.train]\nbatch_size = choice(8) if train.epochs = 1\n"
                                                 "batch_size = choice(16)\n[train]\nseed = 3\n")};
    const char *overrides[] = {"space.train.learning_rate=float(1e-6, 1e-4, log)", "train.epochs=2"};
    ft_config c, again;
    ok(ft_study_config_load(&c, 2, files, 2, overrides));
    assert_int_equal(c.lines.count, 3);
    assert_string_equal(c.lines.list[0].option, "train.batch_size");
    assert_string_equal(c.lines.list[0].text, "choice(8) if train.epochs = 1");
    assert_string_equal(c.lines.list[1].text, "choice(16)");
    assert_non_null(strstr(c.lines.list[1].where, "two.ini:3"));
    assert_string_equal(c.lines.list[2].option, "train.learning_rate");
    assert_null(c.lines.list[2].directory);
    assert_true(c.train.seed == 3 && c.train.epochs == 2 && c.train.learning_rate == 1e-5);
    const char *without[] = {"space.train.learning_rate=float(1e-6, 1e-4, log)", "space.train.batch_size=",
                             "space.train.learning_rate= "};
    ok(ft_study_config_load(&again, 2, files, 3, without));
    assert_int_equal(again.lines.count, 1); // taken out, by whomever they were given; train.seed was set
    assert_string_equal(again.lines.list[0].option, "train.epochs");
    ft_config_free(&again);
    char *text = written(&c, false, false), *run = written(&c, false, true);
    assert_null(strstr(run, "[space]"));
    ft_config_free(&c);
    ok(load_text(&again, text));
    char *same = written(&again, false, false);
    assert_string_equal(text, same);
    ft_config_free(&again);
    free(text), free(run), free(same);
    expect_file_error("[space]\ntrain.lerning_rate = 1\n", 2, "unknown option train.lerning_rate",
                      "did you mean train.learning_rate?");
    expect_file_error("[space]\nlr = 1\n", 2, "unknown option lr", "called train.learning_rate here");
    expect_override_error("space.train.batch_size= choice(1) ; 2", "cannot hold a ; or #", NULL);
    expect_override_error("study.trails=3", "unknown option study.trails", "did you mean study.trials?");
    // Processes that load data, which there are none of, are not workers of a study.
    expect_override_error("data.num_workers=4", "unknown option data.num_workers", "called data.workers here");
    expect_override_error("train.dataloader_num_workers=4", "unknown option train.dataloader_num_workers", "called data.workers here");
    expect_override_error("study.n_jobs=4", "unknown option study.n_jobs", "called study.parallel here");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OPTION_TABLE_TESTS,
        cmocka_unit_test(test_every_field_has_a_row),
        cmocka_unit_test(test_what_a_study_is),
        cmocka_unit_test(test_helps_name_values_that_are_taken),
        cmocka_unit_test(test_committed_reference),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_storage_is_a_path),
        cmocka_unit_test(test_lines_of_the_space),
    };
    other_sections = ft_study_sections;
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

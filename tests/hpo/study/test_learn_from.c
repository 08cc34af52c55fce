// study.learn_from: what is learnt is fixed when the study is made, whatever becomes of the others; the configuration
// is tried first; the same trials after kills; studies of other spaces are refused with the parameter that is not
// there.
#include "tests/hpo/study_case.h"

#include "hpo/search/gp/lessons.h"
#include "hpo/search/sampler.h"

static const char *config_of(const char *name, const char *space) {
    static char path[64];
    char text[1000];
    snprintf(path, sizeof path, "%s.ini", name);
    snprintf(text, sizeof text, "%.*s[space]\n%s", (int)(strstr(base, "[space]") - base), base, space);
    write_file(path, text);
    return path;
}

// A study of another file than tune.ini.
static void tunes_file(const char *name, const char *file, const char *const *more) {
    rename(in_scratch("tune.ini"), in_scratch("kept.ini"));
    rename(in_scratch(file), in_scratch("tune.ini"));
    tunes(name, 0, more);
    rename(in_scratch("kept.ini"), in_scratch("tune.ini"));
}

static double value_of(const opened *o, int64_t number, const char *name) {
    const int id = ft_trials_find_name(o->trials, name);
    const ft_trial_param *p = id >= 0 ? ft_trial_find_param(&o->trials->trial[number], id) : NULL;
    return p != NULL ? p->value : NAN;
}

static void learns(const char *name, int64_t add, int trials) {
    char count[32];
    snprintf(count, sizeof count, "study.trials=%d", trials);
    tunes(name, add, MORE("study.learn_from=first, studies/second", "study.sampler=auto", count));
}

static void test_learns(void **state) {
    tunes("first", 0, MORE("study.pruner=none"));
    tunes("second", 0, MORE("study.seed=7", "study.pruner=none"));
    learns("whole", 0, 10);
    opened o = look("whole"), first = look("first");
    assert_true(value_of(&o, 0, "train.learning_rate") == 3e-4); // the configuration itself
    assert_true(value_of(&o, 0, "train.batch_size") == 1);
    // then the best of the first study
    const int64_t best = best_of(&first);
    assert_true(value_of(&o, 1, "train.learning_rate") == value_of(&first, best, "train.learning_rate"));
    assert_non_null(attribute(&o, FT_STUDY_ATTRIBUTE, "ftengine:lessons"));
    leave(&o), leave(&first);
    ft_config c;
    const char *own[] = {"studies/whole/config.ini"};
    ok(ft_study_config_load(&c, 1, own, 0, NULL));
    assert_string_equal(ft_study_options_of(&c)->learn_from, "first, studies/second");
    ft_config_free(&c);
}

// The others are gone, and the study goes on with the trials of one that was never stopped.
static void test_fixed(void **state) {
    learns("steps", 0, 3);
    assert_int_equal(rename("studies/first", "first.away"), 0);
    assert_int_equal(rename("studies/second", "second.away"), 0);
    for (int kills = 0; kills < 3; kills++) {
        pid_t pid = tune_beside("steps", 0,
                                MORE("study.learn_from=first, studies/second", "study.sampler=auto", "study.trials=10",
                                     "data.label_column=2"));
        pause_ms(60 + 70 * kills);
        kill(pid, SIGKILL);
        end_of(pid);
    }
    learns("steps", 0, 10);
    char *a = dump("whole"), *b = dump("steps");
    same_lines(a, b);
    free(a), free(b);
    tunes("steps", 1, MORE("study.learn_from=elsewhere", "study.sampler=auto")); // warned of, no more
    tunes("steps", 1, MORE("study.sampler=auto"));
    assert_int_equal(rename("first.away", "studies/first"), 0);
    assert_int_equal(rename("second.away", "studies/second"), 0);
}

static void test_refused(void **state) {
    static const struct {
        const char *name, *space, *message;
    } others[] = {
        {"more",
         "train.learning_rate = float(1e-6, 1e-2, log)\ntrain.batch_size = choice(8, 16)\ntrain.adam_beta2 = "
         "float(0.9, 0.99)\n",
         "there is no parameter of this study 'train.adam_beta2' (study.learn_from)"},
        {"less", "train.learning_rate = float(1e-6, 1e-2, log)\n",
         "there is no parameter of the other study 'train.batch_size' (study.learn_from)"},
        {"linear", "train.learning_rate = float(1e-6, 1e-2)\ntrain.batch_size = choice(8, 16)\n",
         "study 'linear' searches train.learning_rate among numbers, this one among numbers on a logarithmic scale"},
        {"apart", "train.learning_rate = float(1e-6, 1e-2, log)\ntrain.batch_size = choice(64, 128)\n",
         "study 'apart' has none of the choices of train.batch_size that this one has"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char from[64];
        tunes_file(others[i].name, config_of(others[i].name, others[i].space),
                   MORE("study.trials=2", "study.pruner=none"));
        snprintf(from, sizeof from, "study.learn_from=%s", others[i].name);
        refuses("new", MORE(from), FT_INVALID, others[i].message);
        assert_false(ft_path_exists("studies/new"));
    }
    static const struct {
        const char *from, *sampler, *message;
    } cases[] = {
        {"study.learn_from=frist", "study.sampler=tpe", "there is no study 'frist'"},
        {"study.learn_from=first,,second", "study.sampler=tpe", "names no study between two commas"},
        {"study.learn_from=sqlite:///studies/first/study.db#second", "study.sampler=tpe", "there is no study 'second'"},
        {"study.learn_from=first", "study.sampler=random", "this sampler learns from no trials (study.learn_from)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuses("new", MORE(cases[i].from, cases[i].sampler), FT_INVALID, cases[i].message);
        assert_false(ft_path_exists("studies/new"));
    }
    refuses("first", MORE("study.learn_from=second", "study.trials=20"), FT_INVALID,
            "what a study learns from is fixed when it is made");
}

// Nothing to learn from, and attributes that nobody of ours wrote.
static void test_nothing_to_learn(void **state) {
    ft_storage *file;
    ft_stored *study;
    ok(ft_make_directories("studies/blank"));
    ok(ft_storage_open("studies/blank/study.db", FT_STORAGE_CREATE, &file));
    ok(ft_stored_create(file, "blank", 1, (bool[]){true}, &study));
    ft_stored_close(study);
    ok(ft_storage_close(file));
    refuses("new", MORE("study.learn_from=blank"), FT_INVALID, "there is no parameter of the other study");
    static const char *const broken[] = {
        "{}", "[]", "{\"format_version\": 1, \"learn_from\": \"a\", \"axes\": [{}], \"sources\": []}",
        "{\"format_version\": 1, \"learn_from\": \"a\", \"axes\": [], \"sources\": [{}]}",
        "{\"format_version\": 1, \"learn_from\": \"a\", \"axes\": [], \"sources\": [{\"study\": \"b\", \"losses\": "
        "[null], "
        "\"values\": [[]]}]}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        ok(ft_storage_open("studies/blank/study.db", FT_STORAGE_WRITE, &file));
        ok(ft_stored_open(file, NULL, &study));
        ok(ft_stored_set_attribute(study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, "ftengine:lessons", broken[i]));
        ft_stored_close(study);
        ok(ft_storage_close(file));
        refuses("blank", NULL, FT_INVALID, "the study's attribute is not as ftengine writes it");
    }
}

static int set_up(void **state) {
    if (make_scratch(state) != 0 || chdir(scratch_dir) != 0) return 1;
    write_file("data.tsv", "text\tlabel\n");
    char text[2000];
    const char *steps = strstr(base, "max_steps");
    snprintf(text, sizeof text, "%.*slearning_rate = 3e-4\nbatch_size = 16\n%s", (int)(steps - base), base, steps);
    write_file("tune.ini", text);
    return 0;
}

// Who `auto` is: what has thousands of trials is tpe's.
static void test_auto(void **state) {
    const struct {
        const char *sampler, *pruner, *learn_from;
        int64_t trials;
        ft_sampler_kind kind;
    } cases[] = {{"auto", "none", "", 30, FT_SAMPLER_AUTO},           {"auto", "median", "", 1000, FT_SAMPLER_AUTO},
                 {"auto", "none", "", 0, FT_SAMPLER_AUTO},            {"auto", "none", "", 1001, FT_SAMPLER_TPE},
                 {"auto", "none", "other", 30, FT_SAMPLER_AUTO},      {"gp", "none", "other", 5000, FT_SAMPLER_GP},
                 {"auto", "freeze_thaw", "", 5000, FT_SAMPLER_AUTO}, {"tpe", "none", "", 30, FT_SAMPLER_TPE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_study_options options = {.sampler = cases[i].sampler, .pruner = cases[i].pruner, .learn_from = cases[i].learn_from,
                                          .trials = cases[i].trials, .multivariate = "auto", .bandwidth = "auto"};
        if (ft_study_sampler_options(&options).kind != cases[i].kind) fail_msg("case %zu", i);
    }
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nothing_to_learn),
        cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}

// study.learn_from: what is learnt is fixed when the study is made, whatever becomes of the others; the configuration
// is tried first; the same trials after kills; studies of other spaces are refused with the parameter that is not
// there. Exported ones, of which what both search is used.
#include "tests/hpo/study_case.h"

#include "hpo/exchange/exchange.h"
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

static void learns_from(const char *from, const char *name, int64_t add, int trials) {
    char count[32], option[200];
    snprintf(count, sizeof count, "study.trials=%d", trials);
    snprintf(option, sizeof option, "study.learn_from=%s", from);
    tunes(name, add, MORE(option, "study.sampler=auto", count));
}

static void learns(const char *name, int64_t add, int trials) {
    learns_from("first, studies/second", name, add, trials);
}

static void export_to(const char *path, const char *name) {
    opened o = look(name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    ok(ft_export_jsonl(o.study, out));
    assert_int_equal(fclose(out), 0);
    leave(&o);
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
    // exported, they teach the same
    char *a = dump("whole");
    export_to("first.jsonl", "first"), export_to("second.jsonl", "second");
    assert_int_equal(system("cat first.jsonl second.jsonl > both.jsonl && gzip -k both.jsonl"), 0);
    static const char *const files[] = {"first.jsonl,second.jsonl", "first, second.jsonl#second", "both.jsonl.gz",
                                        "both.jsonl#first, both.jsonl.gz#second"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "file%zu", i);
        learns_from(files[i], name, 0, 10);
        char *b = dump(name);
        same_lines(a, b);
        free(b);
    }
    free(a);
    ft_config c;
    const char *own[] = {"studies/whole/config.ini"};
    ok(ft_study_config_load(&c, 1, own, 0, NULL));
    assert_string_equal(ft_study_options_of(&c)->learn_from, "first, studies/second");
    ft_config_free(&c);
}

// The others are gone, and the study goes on with the trials of one that was never stopped.
static void goes_on(const char *from, const char *name) {
    char option[200];
    snprintf(option, sizeof option, "study.learn_from=%s", from);
    learns_from(from, name, 0, 3);
    static const char *const gone[] = {"studies/first", "studies/second", "first.jsonl", "second.jsonl"};
    for (int i = 0; i < 4; i++) {
        char away[40];
        snprintf(away, sizeof away, "%s.away", strrchr(gone[i], '/') != NULL ? strrchr(gone[i], '/') + 1 : gone[i]);
        assert_int_equal(rename(gone[i], away), 0);
    }
    for (int kills = 0; kills < 3; kills++) {
        pid_t pid = tune_beside(name, 0, MORE(option, "study.sampler=auto", "study.trials=10", "data.label_column=2"));
        pause_ms(60 + 70 * kills);
        kill(pid, SIGKILL);
        end_of(pid);
    }
    learns_from(from, name, 0, 10);
    char *a = dump("whole"), *b = dump(name);
    same_lines(a, b);
    free(a), free(b);
    tunes(name, 1, MORE("study.learn_from=elsewhere, there/too.jsonl", "study.sampler=auto")); // warned of, no more
    tunes(name, 1, MORE("study.sampler=auto"));
    assert_int_equal(rename("first.away", "studies/first"), 0);
    assert_int_equal(rename("second.away", "studies/second"), 0);
    assert_int_equal(rename("first.jsonl.away", "first.jsonl"), 0);
    assert_int_equal(rename("second.jsonl.away", "second.jsonl"), 0);
}

static void test_fixed(void **state) {
    goes_on("first, studies/second", "steps");
    goes_on("first.jsonl, second.jsonl", "file_steps");
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
        {"study.learn_from=first,,second", "study.sampler=tpe", "study.learn_from has nothing before, between or behind commas: 'first,,second'"},
        {"study.learn_from=first,", "study.sampler=tpe", "study.learn_from has nothing before, between or behind commas: 'first,'"},
        {"study.learn_from=,first", "study.sampler=tpe", "study.learn_from has nothing before, between or behind commas: ',first'"},
        {"study.learn_from=sqlite:///studies/first/study.db#second", "study.sampler=tpe", "there is no study 'second'"},
        {"study.learn_from=first, second, first", "study.sampler=tpe", "'first' is there twice (study.learn_from)"},
        {"study.learn_from=first", "study.sampler=random", "this sampler learns from no trials (study.learn_from)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuses("new", MORE(cases[i].from, cases[i].sampler), FT_INVALID, cases[i].message);
        assert_false(ft_path_exists("studies/new"));
    }
    refuses("first", MORE("study.learn_from=second", "study.trials=20"), FT_INVALID,
            "what a study learns from is fixed when it is made");
}

// ---- files ----------------------------------------------------------------------------------------------------------

static void option_is(const char *file, const char *override, const char *wanted) {
    ft_config c;
    ok(ft_study_config_load(&c, file != NULL, &file, override != NULL, &override));
    if (strcmp(ft_study_options_of(&c)->learn_from, wanted) != 0)
        fail_msg("'%s' is not '%s'", ft_study_options_of(&c)->learn_from, wanted);
    ft_config_free(&c);
}

// In a file relative to it, on the command line to the working directory; names and addresses stay as they are.
static void test_paths(void **state) {
    static const struct {
        const char *written, *in_file, *in_words; // %s: the working directory
    } cases[] = {
        {"a.jsonl", "%s/sub/a.jsonl", "%s/a.jsonl"},
        {"../a.jsonl.gz#one , b", "%s/a.jsonl.gz#one, b", NULL},
        {"/x/a.jsonl#two", "/x/a.jsonl#two", "/x/a.jsonl#two"},
        {"first,studies/second", "first, studies/second", "first, studies/second"},
        {"sqlite:///f.jsonl#a,  journal:b.jsonl", "sqlite:///f.jsonl#a, journal:b.jsonl",
         "sqlite:///f.jsonl#a, journal:b.jsonl"},
        {"postgresql://u@h/d.jsonl, jsonl, .jsonl", "postgresql://u@h/d.jsonl, jsonl, .jsonl",
         "postgresql://u@h/d.jsonl, jsonl, .jsonl"},
        {"x, sub/y.jsonl", "x, %s/sub/sub/y.jsonl", "x, %s/sub/y.jsonl"},
    };
    char text[200], wanted[4096], here[2048];
    ok(ft_make_directories("sub"));
    assert_non_null(getcwd(here, sizeof here));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "[study]\nlearn_from = %s\n", cases[i].written);
        write_file("sub/paths.ini", text);
        snprintf(wanted, sizeof wanted, cases[i].in_file, here);
        option_is("sub/paths.ini", NULL, wanted);
        if (cases[i].in_words == NULL) continue;
        snprintf(text, sizeof text, "study.learn_from=%s", cases[i].written);
        snprintf(wanted, sizeof wanted, cases[i].in_words, here);
        option_is(NULL, text, wanted);
    }
#pragma GCC diagnostic pop
}

#define FLOAT(low, high, log)                                                                                          \
    "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": " low ", \"high\": " high ", \"log\": " log "}}"
#define INT(low, high)                                                                                                 \
    "{\"name\": \"IntDistribution\", \"attributes\": {\"step\": 1, \"low\": " low ", \"high\": " high ", \"log\": false}}"
#define CHOICE(choices) "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [" choices "]}}"
#define RATE "train.learning_rate", FLOAT("1e-5", "1e-3", "true")
#define BATCH "train.batch_size", CHOICE("16, 8")

typedef struct file_param {
    const char *name, *distribution, *values[3];
} file_param;

// Three trials, of which the second is the best.
static void write_prior(const char *path, int trials, const file_param *params) {
    char text[8000] = "{\"format_version\": 1, \"study\": \"s\", \"directions\": [\"maximize\"]}\n";
    for (int i = 0; i < trials; i++) {
        size_t n = strlen(text);
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"number\": %d, \"state\": \"COMPLETE\", \"values\": [%d], \"params\": {", 2 * i, i == 1);
        for (const file_param *p = params; p->name != NULL; p++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\": %s", p > params ? ", " : "", p->name, p->values[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, "}, \"distributions\": {");
        for (const file_param *p = params; p->name != NULL; p++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\": %s", p > params ? ", " : "", p->name, p->distribution);
        n += (size_t)snprintf(text + n, sizeof text - n, "}}\n");
        assert_true(n < sizeof text);
    }
    write_file(path, text);
}

// As tunes(), with what it says on standard error.
static const char *says(const char *name, const char *const *more) {
    static char text[4000];
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        must(freopen("said", "w", stderr) != NULL && freopen("/dev/null", "w", stdout) != NULL);
        ft_status status = tune_here(name, 0, more);
        fflush(NULL);
        _exit((int)status);
    }
    assert_int_equal(end_of(pid), 0);
    FILE *in = fopen("said", "r");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    return text;
}

// What both search is used, and what is not is said.
static void test_shared(void **state) {
    static const struct {
        file_param params[5];
        const char *said;
        double rate; // of the second trial, which repeats the file's best one as far as it can; 0: it has its own
        int batch;   // index, -1: its own
    } cases[] = {
        {{{RATE, {"1e-5", "2e-5", "1e-4"}}, {BATCH, {"8", "8", "16"}}, {"train.weight_decay", FLOAT("0", "1", "false"), {"0.1", "0.01", "1"}}},
         "3 trials, 3 of this study's 3 parameters\n", 2e-5, 0},
        {{{RATE, {"1e-5", "2e-5", "1e-4"}}, {"train.adam_beta2", FLOAT("0.9", "1", "false"), {"0.9", "0.95", "1"}}},
         "3 trials, 1 of this study's 3 parameters; not there: train.batch_size, train.weight_decay; only there: train.adam_beta2\n", 2e-5, -1},
        {{{"train.learning_rate", FLOAT("1e-9", "1", "true"), {"1e-5", "1", "1e-4"}}}, // beyond this study's range
         "1 of this study's 3 parameters; not there: train.batch_size, train.weight_decay\n", 1e-2, -1},
        {{{"train.learning_rate", FLOAT("1e-5", "1e-3", "false"), {"1e-5", "2e-5", "1e-4"}}, {BATCH, {"8", "16", "8"}}},
         "1 of this study's 3 parameters; not there: train.weight_decay; of another kind there: train.learning_rate\n", 0, -1},
        {{{RATE, {"1e-5", "2e-5", "1e-4"}}, {"train.batch_size", INT("1", "64"), {"8", "16", "16"}}},
         "1 of this study's 3 parameters; not there: train.weight_decay; of another kind there: train.batch_size\n", 2e-5, -1},
        {{{RATE, {"1e-5", "2e-5", "1e-4"}}, {"train.batch_size", CHOICE("64, 128"), {"64", "128", "64"}}},
         "1 of this study's 3 parameters; not there: train.weight_decay; of another kind there: train.batch_size\n", 2e-5, -1},
        {{{RATE, {"1e-5", "2e-5", "1e-4"}}, {"train.batch_size", CHOICE("64, 8"), {"8", "64", "64"}}}, // the best one has another
         "2 of this study's 3 parameters; not there: train.weight_decay\n", 2e-5, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "shared%zu", i);
        write_prior("prior.jsonl", 3, cases[i].params);
        const char *said = says(name, MORE("study.learn_from=prior.jsonl", "study.sampler=auto", "study.trials=4", "study.pruner=none"));
        if (strstr(said, cases[i].said) == NULL || strstr(said, "/prior.jsonl#s: ") == NULL)
            fail_msg("case %zu: '%s' lacks '%s'", i, said, cases[i].said);
        opened o = look(name);
        assert_true(value_of(&o, 0, "train.learning_rate") == 3e-4);
        const double rate = value_of(&o, 1, "train.learning_rate"), batch = value_of(&o, 1, "train.batch_size");
        if (cases[i].rate != 0 && rate != cases[i].rate) fail_msg("case %zu: learning rate %g", i, rate);
        if (cases[i].batch >= 0 && batch != cases[i].batch) fail_msg("case %zu: batch %g", i, batch);
        assert_true(rate >= 1e-6 && rate <= 1e-2);
        if (cases[i].rate != 0) assert_true(value_of(&o, 3, "train.learning_rate") != rate); // the next best one then
        leave(&o);
    }
}

static void test_files_refused(void **state) {
    static const struct {
        file_param params[3];
        int trials;
        const char *message;
    } priors[] = {
        {{{"train.adam_beta2", FLOAT("0.9", "1", "false"), {"0.9", "0.95", "1"}}}, 3,
         "prior.jsonl#s shares no parameter with this study; not there: train.learning_rate, train.batch_size, "
         "train.weight_decay; only there: train.adam_beta2 (study.learn_from)"},
        {{{"train.learning_rate", FLOAT("1e-5", "1e-3", "false"), {"1e-5", "2e-5", "1e-4"}}}, 3,
         "shares no parameter with this study; not there: train.batch_size, train.weight_decay; of another kind there: "
         "train.learning_rate (study.learn_from)"},
        {{{RATE, {"1e-5"}}}, 1, "prior.jsonl#s has not 2 completed trials to learn from (study.learn_from)"},
        {{{RATE, {"1e-5"}}}, 0, "prior.jsonl#s shares no parameter"},
    };
    for (size_t i = 0; i < sizeof priors / sizeof priors[0]; i++) {
        write_prior("prior.jsonl", priors[i].trials, priors[i].params);
        refuses("new", MORE("study.learn_from=prior.jsonl"), FT_INVALID, priors[i].message);
        assert_false(ft_path_exists("studies/new"));
    }
    write_prior("good.jsonl", 3, (file_param[]){{RATE, {"1e-5", "2e-5", "1e-4"}}, {0}});
    write_file("empty.jsonl", "");
    write_file("two.jsonl", "{\"format_version\": 1, \"study\": \"s\", \"directions\": [\"maximize\", \"minimize\"]}\n");
    assert_int_equal(system("head -c -9 good.jsonl > cut.jsonl; gzip < good.jsonl | head -c 60 > cut.jsonl.gz; cp good.jsonl good.json"), 0);
    static const struct {
        const char *from, *message;
    } cases[] = {
        {"study.learn_from=none.jsonl", "/none.jsonl)"},
        {"study.learn_from=first, empty.jsonl", "the file is empty ("},
        {"study.learn_from=good.jsonl, cut.jsonl", "/cut.jsonl:4:"},
        {"study.learn_from=cut.jsonl.gz", "this gzip file is damaged"},
        {"study.learn_from=two.jsonl", "two.jsonl#s has 2 objectives"},
        {"study.learn_from=good.jsonl#first", "there is no study 'first' ("},
        {"study.learn_from=good.jsonl,, first", "has nothing before, between or behind commas"},
        {"study.learn_from=studies", "there is no study"},
        {"study.learn_from=good.json", "'good.json' is a file, and no export of studies"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuses("new", MORE(cases[i].from), FT_INVALID, cases[i].message);
        assert_false(ft_path_exists("studies/new"));
    }
    refuses("new", MORE("study.learn_from=good.jsonl", "study.sampler=random"), FT_INVALID, "this sampler learns from no trials");
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
    if (set_up_study(state) != 0) return 1;
    char text[2000];
    const char *steps = strstr(base, "max_steps");
    snprintf(text, sizeof text, "%.*slearning_rate = 3e-4\nbatch_size = 16\n%s", (int)(steps - base), base, steps);
    write_file("tune.ini", text); // in place of it
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
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_files_refused),
        cmocka_unit_test(test_nothing_to_learn),
        cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}

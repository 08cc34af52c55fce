// The search space: its grammar, what it refuses and how it says so, conditions, stored names, the spaces that ship.
#include "tests/fixtures/config_case.h"

#include "hpo/space/objective.h"
#include "hpo/space/options_study.h"
#include "hpo/space/space.h"

static void read_text(const char *text, ft_config *config, ft_space *space) {
    ok(load_text(config, text));
    ok(ft_space_read(config, space));
}

static void expect_refused(const char *lines, int line, const char *message, const char *hint) {
    ft_config config;
    ft_space space;
    char text[2000], where[40];
    snprintf(text, sizeof text, "[space]\n%s\n", lines);
    ok(load_text(&config, text));
    if (ft_space_read(&config, &space) == FT_OK) fail_msg("accepted: %s", lines);
    snprintf(where, sizeof where, "case.ini:%d", line);
    expect_error(lines, where, message, hint);
    assert_null(space.arena.blocks);
    ft_config_free(&config);
    ft_error_clear();
}

static const ft_space_rule *rule_of(const ft_space *space, const char *name) {
    const ft_space_rule *rule = ft_space_find(space, name);
    if (rule == NULL) fail_msg("nothing is stored as %s", name);
    return rule;
}

static const char *text_of(const ft_space_rule *rule) {
    static ft_arena arenas[4];
    static int next;
    ft_arena *arena = &arenas[next++ % 4];
    ft_arena_free(arena);
    const char *text = ft_space_rule_text(rule, arena);
    assert_non_null(text);
    return text;
}

// ---- what a line means ----------------------------------------------------------------------------------------------

static void test_kinds(void **state) {
    ft_config c;
    ft_space s;
    read_text("[space]\n"
              "train.learning_rate = float(1e-6, 1e-4, log)\n"
              "train.weight_decay=float( 0 ,0.1,step = 0.03 )\n"
              "train.epochs = int(1, 5)\n"
              "data.max_length = int(128, 512, step=32)\n"
              "train.warmup_steps = int(1, 1000, log)\n"
              "train.batch_size = choice(8, 12, 16)\n"
              "model.head.hidden = choice([], [512], [512, 704,448])\n"
              "train.drop_last = choice(true, No)\n"
              "model.head.dropout = choice(auto, 0.10, 2e-1)\n"
              "train.gradient_checkpointing = choice(off, ON, 3)\n"
              "train.lr_scheduler = choice(linear, \"cosine\", 'constant')\n"
              "data.text_column = choice(\"a, b\", c d)\n"
              "train.adam_beta2 = 0.99\n",
              &c, &s);
    assert_int_equal(s.count, 13);
    const ft_distribution *d = &rule_of(&s, "train.learning_rate")->distribution;
    assert_true(d->kind == FT_FLOAT && d->log && d->low == 1e-6 && d->high == 1e-4);
    d = &rule_of(&s, "train.weight_decay")->distribution;
    assert_true(d->kind == FT_FLOAT && d->step == 0.03 && d->high == 0.09); // lowered to a whole number of steps
    assert_true(rule_of(&s, "train.epochs")->distribution.kind == FT_INT);
    assert_true(ft_distribution_size(&rule_of(&s, "data.max_length")->distribution) == 13);
    assert_true(rule_of(&s, "train.warmup_steps")->distribution.log);
    const ft_space_rule *r = rule_of(&s, "train.batch_size");
    assert_true(r->distribution.choices[1].kind == FT_CHOICE_INT && r->distribution.choices[1].integer == 12);
    r = rule_of(&s, "model.head.hidden");
    assert_string_equal(r->distribution.choices[0].text, "[]");
    assert_string_equal(r->distribution.choices[2].text, "[512, 704, 448]");
    assert_string_equal(r->choices[2], "512, 704, 448");
    r = rule_of(&s, "train.drop_last");
    assert_true(r->distribution.choices[1].kind == FT_CHOICE_BOOL && r->distribution.choices[1].integer == 0);
    r = rule_of(&s, "model.head.dropout");
    assert_true(r->distribution.choices[0].kind == FT_CHOICE_TEXT && r->distribution.choices[2].number == 0.2);
    assert_string_equal(rule_of(&s, "train.gradient_checkpointing")->choices[1], "on");
    assert_string_equal(rule_of(&s, "train.lr_scheduler")->choices[2], "constant");
    assert_string_equal(rule_of(&s, "data.text_column")->choices[0], "a, b");
    assert_string_equal(rule_of(&s, "data.text_column")->choices[1], "c d");
    assert_string_equal(s.rules[12].fixed, "0.99");
    assert_null(s.rules[12].name);
    ft_arena arena = {0};
    assert_string_equal(ft_space_value_text(rule_of(&s, "train.warmup_steps"), 40, &arena), "40");
    assert_string_equal(ft_space_value_text(rule_of(&s, "train.learning_rate"), 2.5e-5, &arena), "2.5e-05");
    assert_string_equal(ft_space_value_text(rule_of(&s, "model.head.hidden"), 1, &arena), "512");
    ft_arena_free(&arena);
    ft_space_free(&s);
    ft_config_free(&c);
}

static void test_paths_are_stored_by_their_last_part(void **state) {
    ft_config c;
    ft_space s;
    read_text("[space]\nmodel.path = choice(../m/bert-base, ../m/roberta)\ndata.train = choice(a/x.tsv, b/x.tsv)\n", &c,
              &s);
    const ft_space_rule *r = rule_of(&s, "model.path");
    assert_string_equal(r->distribution.choices[0].text, "bert-base");
    assert_true(r->choices[0][0] == '/' && strstr(r->choices[0], "/m/bert-base") != NULL && strstr(r->choices[0], "..") == NULL);
    assert_string_equal(text_of(r), "choice(bert-base, roberta)");
    assert_true(rule_of(&s, "data.train")->distribution.choices[0].text[0] == '/'); // the last parts are the same
    ft_space_free(&s);
    ft_config_free(&c);
}

static void test_figures_as_people_read_them(void **state) {
    static const struct {
        const char *name;
        double value;
        const char *text;
    } cases[] = {{"eval.accuracy", 0.87654321, "0.876543"},
                 {"memory.peak_reserved_bytes", 6291456, "6.0MiB"},
                 {"memory.peak_reserved_bytes", 1000, "1000B"},
                 {"memory.peak_reserved_bytes", -1, "-1"},
                 {"tokens_per_second", 1234567, "1234567"},
                 {"tokens_per_second", 123456.7, "123457"},
                 {"train.loss", 2.5e-7, "2.5e-07"},
                 {"train.loss", 1e30, "1e+30"}};
    char text[FT_FIGURE_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(ft_figure_text(cases[i].name, cases[i].value, 6, text), cases[i].text);
}

// ---- conditions -----------------------------------------------------------------------------------------------------

static int index_of(const char *option) {
    int index = ft_option_find(option);
    assert_true(index >= 0);
    return index;
}

// The rule that decides about an option, NULL when none holds.
static const ft_space_rule *decides(const ft_space *s, const char *option, const char *const *values) {
    for (int i = 0; i < s->count; i++)
        if (s->rules[i].option == index_of(option) && ft_space_holds(&s->rules[i], values)) return &s->rules[i];
    return NULL;
}

static void test_conditions(void **state) {
    const char *values[FT_OPTION_LIMIT] = {NULL};
    ft_config c;
    ft_space s;
    read_text("[train]\nepochs = 3\n[space]\n"
              "train.warmup_steps = int(1, 10) if train.lr_scheduler != constant and train.batch_size <= 16\n"
              "train.warmup_steps = 0 if train.lr_scheduler = constant\n"
              "train.lr_scheduler = choice(linear, cosine, constant)\n"
              "train.learning_rate = float(1e-6, 1e-4, log) if model.path in (bert-large, /m/roberta-large)\n"
              "train.learning_rate = float(1e-5, 1e-3, log)\n"
              "train.batch_size = choice(8, 16, 32)\n"
              "model.path = choice(/m/bert-base, /m/bert-large, /m/roberta-large)\n"
              "train.weight_decay = float(0, 0.1) if train.epochs >= 3\n"
              "train.max_grad_norm = float(0, 1) if train.epochs > 3\n"
              "train.adam_beta1 = 0.8 if train.batch_size not in (8, 16)\n",
              &c, &s);
    // An option stands behind those that its conditions look at, else as in the file.
    assert_string_equal(ft_option_at(s.rules[0].option)->name, "train.lr_scheduler");
    int warm = -1, batch = -1, rate = -1, path = -1;
    for (int i = s.count - 1; i >= 0; i--) {
        if (s.rules[i].option == index_of("train.warmup_steps")) warm = i;
        if (s.rules[i].option == index_of("train.batch_size")) batch = i;
        if (s.rules[i].option == index_of("train.learning_rate")) rate = i;
        if (s.rules[i].option == index_of("model.path")) path = i;
    }
    assert_true(batch < warm && path < rate && path >= 0);
    values[index_of("train.lr_scheduler")] = "cosine";
    values[index_of("train.batch_size")] = "16";
    assert_non_null(decides(&s, "train.warmup_steps", values)->name);
    values[index_of("train.batch_size")] = "32";
    assert_null(decides(&s, "train.warmup_steps", values)); // no line holds: the configuration's value
    assert_string_equal(decides(&s, "train.adam_beta1", values)->fixed, "0.8");
    values[index_of("train.lr_scheduler")] = "constant";
    assert_string_equal(decides(&s, "train.warmup_steps", values)->fixed, "0");
    values[index_of("model.path")] = "/m/bert-large";
    assert_true(decides(&s, "train.learning_rate", values)->distribution.high == 1e-4);
    values[index_of("model.path")] = "/m/roberta-large";
    assert_true(decides(&s, "train.learning_rate", values)->distribution.high == 1e-4);
    values[index_of("model.path")] = "/m/bert-base";
    assert_true(decides(&s, "train.learning_rate", values)->distribution.high == 1e-3);
    // train.epochs is not drawn: the configuration has 3.
    assert_non_null(decides(&s, "train.weight_decay", values));
    assert_null(decides(&s, "train.max_grad_norm", values));
    ft_space_free(&s);
    ft_config_free(&c);
}

// One name keeps one kind, one log flag and one list of choices; ranges may differ.
static void test_stored_names(void **state) {
    ft_config c;
    ft_space s;
    read_text("[space]\ntrain.seed = choice(1, 2, 3, 4)\n"
              "train.batch_size = choice(8, 16) if train.seed = 1\n"
              "train.batch_size = choice(8, 32) if train.seed = 2\n"
              "train.batch_size = int(8, 64) if train.seed = 3\n"
              "train.batch_size = choice(8, 16)\n"
              "train.learning_rate = float(1e-6, 1e-5, log) if train.seed = 1\n"
              "train.learning_rate = float(1e-5, 1e-4, log) if train.seed = 2\n"
              "train.learning_rate = 5e-5 if train.seed = 3\n"
              "train.learning_rate = float(1e-5, 1e-4)\n",
              &c, &s);
    static const char *const names[] = {
        "train.seed",           "train.batch_size",    "train.batch_size@2",  "train.batch_size@3",
        "train.batch_size",     "train.learning_rate", "train.learning_rate", NULL,
        "train.learning_rate@2"};
    for (int i = 0; i < s.count; i++) {
        if (names[i] == NULL)
            assert_null(s.rules[i].name);
        else
            assert_string_equal(s.rules[i].name, names[i]);
    }
    ft_space_free(&s);
    ft_config_free(&c);
}

// ---- refused --------------------------------------------------------------------------------------------------------

static void test_refused(void **state) {
    expect_refused("train.seed = 1\ntrain.learning_rate = flaot(1, 2)", 3, "there is no flaot()",
                   "did you mean float()?");
    expect_refused("data.text_column = uniform(1, 2)", 2, "there is no uniform()", "stands in \"quotes\"");
    expect_refused("train.learning_rate = float(1e-3, 1e-4)", 2, "low must not exceed high", NULL);
    expect_refused("train.learning_rate = float(0, 1, log)", 2, "above 0 with log", NULL);
    expect_refused("train.learning_rate = float(1e-5)", 2, "a range has two bounds", NULL);
    expect_refused("train.learning_rate = float(1e-5, 1, lgo)", 2, "'lgo' is unknown here", NULL);
    expect_refused("train.learning_rate = float(1e-5, 1e-3, log", 2, "the line ends where , or ) should be", NULL);
    expect_refused("train.learning_rate = float(1e-5, x)", 2, "float() takes numbers; got 'x'", NULL);
    expect_refused("train.learning_rate = float(1e-5, 1000)", 2,
                   "train.learning_rate takes a number, at least 0, at most 100", NULL);
    expect_refused("train.batch_size = int(0, 8)", 2, "train.batch_size takes a whole number, at least 1", NULL);
    expect_refused("train.batch_size = int(1.5, 8)", 2, "int() takes whole numbers; got '1.5'", NULL);
    expect_refused("train.batch_size = int(1, 8, step=0)", 2, "a step is at least 1", NULL);
    expect_refused("train.weight_decay = float(0, 1, step=-1)", 2, "a step is above 0", NULL);
    expect_refused("train.batch_size = float(1, 8)", 2, "which float() does not give", "write int(LOW, HIGH)");
    expect_refused("train.lr_scheduler = int(1, 8)", 2, "which int() does not give", "write choice(A, B, ...)");
    expect_refused("train.lr_scheduler = choice(linear, cosin)", 2, "train.lr_scheduler takes linear, cosine",
                   "did you mean cosine?");
    expect_refused("train.batch_size = choice(8, 16, 8)", 2, "choice 3 equals choice 1", NULL);
    expect_refused("train.batch_size = choice()", 2, "there should be a value at ')'", NULL);
    expect_refused("train.batch_size = choice(8,,16)", 2, "there should be a value at ',16)'", NULL);
    expect_refused("data.text_column = choice(\"a, b)", 2, "lacks its closing \"", NULL);
    expect_refused("train.batch_size = choice(8, 16) when x", 2, "there should be 'if' or the end of the line", NULL);
    expect_refused("train.batch_size = choice(8) if", 2, "the line ends where an option's name should be", NULL);
    expect_refused("train.batch_size = choice(8) if train.seed", 2, "the line ends where =, !=", NULL);
    expect_refused("train.batch_size = choice(8) if train.seed not 3", 2, "there should be in at '3'", NULL);
    expect_refused("train.batch_size = choice(8) if train.seed = 1 or train.seed = 2", 2,
                   "there should be 'and' or the end of the line", NULL);
    expect_refused("train.batch_size = choice(8) if train.sed = 1", 2, "unknown option train.sed",
                   "did you mean train.seed?");
    expect_refused("train.batch_size = choice(8) if lr = 1", 2, "unknown option lr", "called train.learning_rate here");
    expect_refused("train.batch_size = choice(8) if train.seed = x", 2, "train.seed takes a whole number", NULL);
    expect_refused("train.batch_size = choice(8) if train.lr_scheduler < 3", 2, "train.lr_scheduler is no number",
                   NULL);
    expect_refused("train.batch_size = choice(8) if study.seed = 3", 2, "no condition can look at it", NULL);
    expect_refused("model.path = choice(/m/bert-base, /m/bert-large)\n"
                   "train.batch_size = choice(8) if model.path in (bert-lrage)",
                   3, "model.path is never 'bert-lrage' in this space", "did you mean bert-large?");
    expect_refused("train.seed = int(1, 3)\ntrain.batch_size = choice(8) if train.seed = 4", 3,
                   "train.seed is never '4'", NULL);
    expect_refused("train.seed = int(1, 3)\ntrain.seed = int(2, 4)", 3, "has a line without a condition already",
                   "give the earlier line a condition");
    expect_refused(
        "train.seed = int(1, 3) if train.batch_size = 8\ntrain.batch_size = choice(8, 16) if train.epochs = 1\n"
        "train.epochs = int(1, 3) if train.seed = 42",
        2, "the conditions of train.seed go round in a circle", NULL);
    expect_refused("output.save_steps = int(1, 3)", 2, "output.save_steps is no part of a search", NULL);
    expect_refused("study.trials = int(1, 3)", 2, "study.trials is no part of a search", NULL);
}

// ---- text -----------------------------------------------------------------------------------------------------------

static char *space_text(const ft_space *space) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    ok(ft_space_write(space, stream));
    fclose(stream);
    return text;
}

static void test_written_and_read_again(void **state) {
    ft_config c, c2;
    ft_space s, s2;
    read_text(
        "[space]\ntrain.learning_rate = float(1e-6, 0.25, log) if train.batch_size < 16 and train.seed != 3\n"
        "train.batch_size = choice(8, 16, 32)\ntrain.seed = int(1, 9, step=2)\nmodel.head.hidden = choice([], [8, 9])\n"
        "model.path = choice(\"my models/a\", b, 'c \"d\"')\ndata.text_column = \"x if y\"\n"
        "train.weight_decay = 0.1 if model.path not in (\"a\", b)\ntrain.epochs = float(0.5, 2, step=0.5)\n",
        &c, &s);
    char *first = space_text(&s);
    read_text(first, &c2, &s2);
    char *second = space_text(&s2);
    assert_string_equal(first, second);
    assert_int_equal(s.count, s2.count);
    for (int i = 0; i < s.count; i++)
        assert_string_equal(text_of(&s.rules[i]), text_of(&s2.rules[i]));
    free(first), free(second);
    ft_space_free(&s), ft_space_free(&s2);
    ft_config_free(&c), ft_config_free(&c2);
}

// ---- the spaces that ship -------------------------------------------------------------------------------------------

static void read_shipped(const char *name, ft_config *config, ft_space *space) {
    char path[512];
    const char *files[] = {path};
    snprintf(path, sizeof path, "%s/configs/%s", FT_SOURCE_DIR, name);
    ok(ft_study_config_load(config, 1, files, 0, NULL));
    ok(ft_space_read(config, space));
}

static void test_seven_models(void **state) {
    ft_config c;
    ft_space s;
    read_shipped("spaces/seven_models.ini", &c, &s);
    const ft_distribution *models = &rule_of(&s, "model.path")->distribution;
    assert_int_equal(models->choice_count, 7);
    static const char *const names[] = {"bert-base-uncased", "bert-large-uncased", "roberta-base",    "roberta-large",
                                        "deberta-v3-base",   "deberta-v3-large",   "xlm-roberta-base"};
    for (int i = 0; i < 7; i++)
        assert_string_equal(models->choices[i].text, names[i]);
    const char *const axes[] = {"train.batch_size", "train.gradient_accumulation_steps", "data.max_length"};
    double points = 1;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rule_of(&s, axes[i])->test_count, 0); // whole for every model
        points *= ft_distribution_size(&rule_of(&s, axes[i])->distribution);
    }
    assert_true(points == 546);
    assert_true(c.train.epochs == 100 && c.train.patience == 20);
    static const char *const others[] = {"model.head.hidden",  "train.learning_rate",  "train.warmup_ratio",
                                         "train.weight_decay", "model.hidden_dropout", "train.lr_scheduler",
                                         "train.seed"};
    for (int i = 0; i < 7; i++)
        rule_of(&s, others[i]);
    bool checkpointing = false;
    for (int i = 0; i < s.count; i++)
        checkpointing = checkpointing ||
                        (s.rules[i].option == index_of("train.gradient_checkpointing") && s.rules[i].fixed != NULL);
    assert_true(checkpointing);
    ft_space_free(&s);
    ft_config_free(&c);
}

// Long studies go to CMA-ES where each trial has the same numbers and nothing else.
static void test_what_auto_stands_for(void **state) {
#define RATE "train.learning_rate = float(1e-6, 1e-4, log)\n"
#define NUMBERS RATE "train.weight_decay = float(0, 0.3)\ntrain.batch_size = 16\n"
    static const struct {
        const char *study, *space;
        int objectives;
        const char *name;
    } cases[] = {
        {"trials = 1001", NUMBERS, 1, "cmaes"},
        {"trials = 1000", NUMBERS, 1, "auto"},
        {"trials = 0", NUMBERS, 1, "auto"},
        {"trials = 1001", NUMBERS, 2, "tpe"},
        {"trials = 1001\nlearn_from = other", NUMBERS, 1, "tpe"},
        {"trials = 1001\npruner = freeze_thaw", NUMBERS, 1, "auto"},
        {"trials = 1001\nsampler = gp", NUMBERS, 1, "gp"},
        {"trials = 1001", NUMBERS "train.lr_scheduler = choice(linear, cosine)", 1, "tpe"},
        {"trials = 1001", NUMBERS "train.warmup_ratio = float(0, 0.2) if train.weight_decay < 0.1", 1, "tpe"},
        {"trials = 1001", NUMBERS "train.warmup_ratio = float(0.1, 0.1)", 1, "cmaes"},
        {"trials = 1001", RATE, 1, "tpe"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_config config;
        ft_space space;
        char text[1000];
        snprintf(text, sizeof text, "[study]\n%s\n[space]\n%s\n", cases[i].study, cases[i].space);
        read_text(text, &config, &space);
        const char *name = ft_study_sampler_name(ft_study_options_of(&config), &space, cases[i].objectives);
        if (strcmp(name, cases[i].name) != 0) fail_msg("case %zu: %s, not %s", i, name, cases[i].name);
        ft_space_free(&space);
        ft_config_free(&config);
    }
}

static void test_other_spaces(void **state) {
    static const char *const names[] = {"tune.ini", "spaces/by_size.ini", "spaces/quality_and_memory.ini"};
    for (int i = 0; i < 3; i++) {
        ft_config c;
        ft_space s;
        read_shipped(names[i], &c, &s);
        assert_true(s.count >= 5);
        ft_space_free(&s);
        ft_config_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_paths_are_stored_by_their_last_part),
        cmocka_unit_test(test_figures_as_people_read_them),
        cmocka_unit_test(test_conditions),   cmocka_unit_test(test_stored_names),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_written_and_read_again),
        cmocka_unit_test(test_seven_models), cmocka_unit_test(test_other_spaces),
        cmocka_unit_test(test_what_auto_stands_for),
    };
    other_sections = ft_study_sections;
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

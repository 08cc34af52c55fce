// Studies from beginning to end, killed and continued, with trials that are this very program in another role
// (study_case.h).
#include "study_case.h"

// ---- tests ----------------------------------------------------------------------------------------------------------

static void test_a_study(void **state) {
    tunes("whole", 0, NULL);
    opened o = look("whole");
    assert_int_equal(o.trials->count, 12);
    assert_true(count_state(&o, FT_COMPLETE) >= 4 && count_state(&o, FT_PRUNED) >= 1);
    int64_t best = best_of(&o);
    for (int64_t i = 0; i < 12; i++) {
        const ft_trial *t = &o.trials->trial[i];
        bool pruned = t->state == FT_PRUNED;
        int decay = ft_trials_find_name(o.trials, "train.weight_decay"),
            batch = ft_trials_find_name(o.trials, "train.batch_size");
        const ft_trial_param *size = ft_trial_find_param(t, batch);
        assert_true((ft_trial_find_param(t, decay) != NULL) == (size->value != 2)); // 32 is the third choice
        assert_true(t->report_count == (pruned ? t->report_count : 6) && t->report_count >= 1);
        if (pruned) assert_true(t->values[0] == t->reports[t->report_count - 1].value);
        assert_string_equal(attribute(&o, i, "train.adam_beta1"), "0.8");
        assert_string_equal(attribute(&o, i, "status"), pruned ? "\"pruned\"" : "\"completed\"");
        assert_true(has("whole", i, "run.json") || pruned);
        assert_true(has("whole", i, "config.ini") && has("whole", i, "log.txt"));
        assert_true(has("whole", i, "model") == (i == best) && has("whole", i, "checkpoints") == (i == best));
    }
    // best.ini is a configuration with the best trial's values, and nothing of the study.
    ft_config c;
    const char *files[] = {"studies/whole/best.ini"};
    ok(ft_study_config_load(&c, 1, files, 0, NULL));
    assert_true(c.train.adam_beta1 == 0.8 && c.lines.count == 0 && c.output.dir[0] == '\0');
    int rate = ft_trials_find_name(o.trials, "train.learning_rate");
    assert_true(c.train.learning_rate == ft_trial_find_param(&o.trials->trial[best], rate)->value);
    assert_true(fabs(score(&c, 60) - o.trials->trial[best].values[0]) < 1e-15);
    ft_config_free(&c);
    leave(&o);
}

// However fast the trials are: a verdict looks at the reports alone.
static void test_speed_does_not_matter(void **state) {
    tunes("slow", 0, MORE("data.label_column=1"));
    char *a = dump("whole"), *b = dump("slow");
    same_lines(a, b);
    free(a), free(b);
}

static void test_continues(void **state) {
    tunes("steps", 0, MORE("study.trials=3"));
    tunes("steps", 0, MORE("study.trials=3")); // is there already
    tunes("steps", 0, MORE("study.trials=5"));
    tunes("steps", 4, MORE("study.trials=5"));
    opened o = look("steps");
    assert_int_equal(o.trials->count, 9);
    leave(&o);
    // The study's own configuration goes on with it.
    const char *own[] = {"studies/steps/config.ini"};
    ft_config c;
    ft_tuning t;
    ft_tuning_call call = {.study = "steps", .add = 3};
    ok(ft_study_config_load(&c, 1, own, 0, NULL));
    ft_log_set_level(FT_LOG_QUIET);
    ok(ft_tuning_open(&c, &call, &t));
    assert_int_equal(ft_tuning_to_do(&t), 3);
    ok(ft_tuning_close(&t));
    ft_config_free(&c);
    tunes("steps", 0, NULL);
    char *a = dump("whole"), *b = dump("steps");
    same_lines(a, b);
    free(a), free(b);
}

static int64_t starts_of(const char *study, int64_t trials) {
    int64_t starts = 0;
    for (int64_t i = 0; i < trials; i++) {
        char name[64];
        struct stat file;
        snprintf(name, sizeof name, "trials/%05lld/starts", (long long)i);
        if (stat(in_study(study, name), &file) == 0) starts += file.st_size;
    }
    return starts;
}

// kill -9 of the coordinator at random moments until the study is through.
static void test_killed(void **state) {
    const char *name = "killed", *const *more = MORE("data.label_column=1");
    unsigned seed = (unsigned)time(NULL);
    const char *given = getenv("KILL_SEED");
    if (given != NULL) seed = (unsigned)atoi(given);
    print_message("KILL_SEED=%u\n", seed);
    int code = -1;
    int64_t kills = 0;
    for (int i = 0; i < 200 && code != 0; i++) {
        pid_t pid = tune_beside(name, 0, more);
        seed = seed * 1103515245u + 12345u;
        if (i < 12 || (i < 150 && starts_of(name, 12) <= 12)) { // a slow machine has begun no trial by then
            pause_ms((5 + (double)(seed >> 16) / 65536 * 240) * (1 + i / 12));
            kill(pid, SIGKILL);
        }
        code = end_of(pid);
        kills += code == -SIGKILL;
        if (code != 0 && code != -SIGKILL) fail_msg("exit code %d: %s", code, last_error());
    }
    assert_int_equal(code, 0);
    assert_true(kills >= 3);
    char *a = dump("whole"), *b = dump(name);
    same_lines(a, b);
    free(a), free(b);
    assert_true(starts_of(name, 12) > 12); // some trial was cut off and went on
}

// What a kill between the making of the file and its first commit leaves.
static void test_an_empty_database_is_none(void **state) {
    ok(ft_make_directories("studies/empty"));
    write_file("studies/empty/study.db", "");
    tunes("empty", 0, MORE("study.trials=2"));
    opened o = look("empty");
    assert_int_equal(o.trials->count, 2);
    leave(&o);
}

// What a pruner finds out from the history must be the same for a process that came later: here each trial has its own.
static void test_automatic_resources_are_remembered(void **state) {
    static const char *const names[] = {"halving", "hyperband"};
    for (int i = 0; i < 2; i++) {
        char pruner[64], parts[64], trials[64];
        snprintf(pruner, sizeof pruner, "study.pruner=%s", names[i]);
        snprintf(parts, sizeof parts, "parts/%s", names[i]); // Hyperband's brackets depend on the study's name
        // Trials of two lengths, the short ones first: what is found out depends on when.
        const char *longer = "space.train.max_steps=choice(60, 900, 3000)", *factor = "study.pruner_reduction_factor=2";
        tunes(names[i], 0, MORE(pruner, longer, factor));
        for (int k = 1; k <= 12; k++) {
            snprintf(trials, sizeof trials, "study.trials=%d", k);
            tunes(parts, 0, MORE(pruner, longer, factor, trials));
        }
        char *a = dump(names[i]), *b = dump(parts);
        same_lines(a, b);
        free(a), free(b);
    }
}

static void test_interrupted(void **state) {
    int code = -1, interrupts = 0;
    for (int i = 0; i < 100 && code != 0; i++) {
        pid_t pid = tune_beside("stopped", 0, MORE("data.label_column=1"));
        if (i < 6) {
            pause_ms(120);
            kill(pid, i % 2 == 0 ? SIGINT : SIGTERM);
        }
        code = end_of(pid);
        if (code == 0) break;
        if (code == -SIGINT || code == -SIGTERM) continue; // it had hardly begun
        assert_int_equal(code, i % 2 == 0 ? 130 : 143);
        interrupts++;
        opened o = look("stopped");
        assert_true(count_state(&o, FT_RUNNING) <= 1 && count_state(&o, FT_FAIL) == 0);
        leave(&o);
    }
    assert_int_equal(code, 0);
    assert_true(interrupts >= 3);
    char *a = dump("whole"), *b = dump("stopped");
    same_lines(a, b);
    free(a), free(b);
}

static void test_another_space_is_refused(void **state) {
    char *before = dump("whole");
    refuses("whole", MORE("space.train.learning_rate=float(1e-6, 1e-3, log)"), 2,
            "this study searches another space: train.learning_rate was float(1e-06, 0.01, log), now float(1e-06, "
            "0.001, log)");
    refuses("whole", MORE("train.learning_rate=1e-3", "train.batch_size=8"), 2, "now not searched");
    refuses("whole", MORE("space.train.seed=int(1, 3)"), 2, "train.seed was not searched, now int(1, 3)");
    refuses("whole", MORE("study.objective=minimize eval.accuracy"), 2, "this study maximizes its objective 1");
    refuses("whole", MORE("study.objective=eval.f1_macro", "eval.metric=f1_macro"), 2,
            "this study looks for eval.accuracy");
    refuses("whole", MORE("study.objective=eval.accuracy, seconds.total", "study.pruner=none"), 2,
            "this study has 1 objective");
    char *after = dump("whole");
    assert_string_equal(before, after);
    free(before), free(after);
}

// An older version wrote 1e+02.
static void test_numbers_of_a_space_may_be_written_otherwise(void **state) {
    const char *const space = "space.train.max_grad_norm=choice(1, 100)";
    tunes("written", 0, MORE(space, "study.trials=1"));
    ft_storage *file;
    ft_stored *study;
    opened o = look("written");
    char older[800];
    const char *now = attribute(&o, FT_STUDY_ATTRIBUTE, "ftengine:space"), *number = strstr(now, "choice(1, 100)");
    assert_non_null(number);
    snprintf(older, sizeof older, "%.*schoice(1, 1e+02)%s", (int)(number - now), now, number + strlen("choice(1, 100)"));
    leave(&o);
    ok(ft_storage_open("studies/written/study.db", FT_STORAGE_WRITE, &file));
    ok(ft_stored_open(file, NULL, &study));
    ok(ft_stored_set_attribute(study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, "ftengine:space", older));
    ft_stored_close(study);
    ok(ft_storage_close(file));
    tunes("written", 0, MORE(space, "study.trials=2"));
    refuses("written", MORE("space.train.max_grad_norm=choice(1, 101)"), 2, "was choice(1, 100), now choice(1, 101)");
}

static void test_errors_come_before_anything_is_written(void **state) {
    refuses("none", MORE("study.objective=eval.acuracy"), 2, "there is no figure 'eval.acuracy'");
    refuses("none", MORE("study.objective=eval.acuracy"), 2, "hint: did you mean eval.accuracy?");
    refuses("none", MORE("study.objective=larger eval.accuracy"), 2, "a direction is maximize or minimize");
    refuses("none", MORE("study.objective=eval.accuracy, eval.accuracy"), 2, "is there twice");
    refuses("none", MORE("study.objective=test.accuracy"), 2, "needs data.test");
    refuses("none", MORE("data.validation="), 2, "needs data.validation");
    refuses("none", MORE("eval.strategy=no"), 2, "needs evaluations");
    refuses("none", MORE("study.objective=seconds.total"), 2,
            "trials are pruned by one objective that every evaluation tells; seconds.total is none");
    refuses("none", MORE("study.pruner=threshold"), 2, "threshold needs study.pruner_lower");
    refuses("none", MORE("study.group=true", "study.multivariate=off"), 2, "study.group");
    refuses("none", MORE("model.path=nowhere"), 2, "there is no ");
    refuses("none", MORE("train.learning_rate=1", "train.batch_size=8", "train.weight_decay=0"), 2,
            "there is nothing to search");
    refuses("none", MORE("space.train.learning_rate=flaot(1, 2)"), 2, "there is no flaot()");
    assert_false(ft_path_exists("studies/none"));
}

static void test_failures(void **state) {
    refuses("fails", MORE("data.text_column=fails", "study.max_retries=1"), 1, "5 trials in a row failed");
    opened o = look("fails");
    assert_int_equal(o.trials->count, 5);
    assert_string_equal(attribute(&o, 0, "status"), "\"failed\"");
    assert_string_equal(attribute(&o, 0, "error"), "\"cannot do this (model.path)\"");
    assert_string_equal(attribute(&o, 0, "retries"), "1"); // the cause may lie outside it
    leave(&o);
    refuses("diverges", MORE("data.text_column=diverges", "study.trials=6"), 1, "no trial completed");
    o = look("diverges");
    assert_string_equal(attribute(&o, 5, "status"), "\"diverged\"");
    leave(&o);
    refuses("dies", MORE("data.text_column=dies", "study.trials=6", "study.max_failures=2", "study.max_retries=0"), 1,
            "2 trials in a row failed");
    o = look("dies");
    assert_string_equal(attribute(&o, 1, "error"), "\"killed by signal 9\"");
    leave(&o);
    tunes("large", 0, MORE("data.text_column=fails-large")); // some do
    o = look("large");
    assert_true(count_state(&o, FT_FAIL) > 0 && count_state(&o, FT_COMPLETE) > 0);
    leave(&o);
    // Values that do not go together: the trial says so, without a run.
    refuses("clash",
            MORE("space.eval.batch_multiplier=choice(1024)", "space.train.batch_size=choice(4096)",
                 "space.train.weight_decay=float(0, 1)", "study.max_failures=1"),
            1, "1 trials in a row failed");
    o = look("clash");
    assert_string_equal(attribute(&o, 0, "status"), "\"invalid\"");
    leave(&o);
    // However many there are of them, the time has its end.
    tunes("clashes", 0,
          MORE("space.eval.batch_multiplier=choice(1024)", "space.train.batch_size=choice(4096)",
               "space.train.weight_decay=float(0, 1)", "study.max_failures=0", "study.trials=0", "study.timeout=0.3s"));
    o = look("clashes");
    assert_true(o.trials->count > 1 && count_state(&o, FT_FAIL) == o.trials->count);
    leave(&o);
}

static void test_stop_rules(void **state) {
    opened o = look("whole");
    int64_t first = 0; // that reaches the target
    while (o.trials->trial[first].state != FT_COMPLETE || o.trials->trial[first].values[0] < 0.5)
        first++;
    leave(&o);
    tunes("target", 0, MORE("study.target=0.5"));
    o = look("target");
    assert_int_equal(o.trials->count, first + 1);
    leave(&o);
    tunes("completed", 0, MORE("study.completed=4"));
    o = look("completed");
    assert_true(count_state(&o, FT_COMPLETE) == 4 && o.trials->trial[o.trials->count - 1].state == FT_COMPLETE);
    leave(&o);
    tunes("stuck", 0, MORE("study.no_improvement=3", "study.trials=0"));
    o = look("stuck");
    assert_int_equal(o.trials->count, best_of(&o) + 4);
    leave(&o);
    tunes("enough", 0, MORE("study.no_improvement=auto", "study.trials=200", "study.sampler=gp", "study.pruner=none"));
    o = look("enough");
    const int64_t enough = o.trials->count;
    assert_true(enough >= 20 && enough < 200 && count_state(&o, FT_COMPLETE) == enough); // and not before there is something to go by
    leave(&o);
    tunes("enough", 0, MORE("study.no_improvement=auto", "study.trials=200", "study.sampler=gp", "study.pruner=none"));
    o = look("enough");
    assert_int_equal(o.trials->count, enough); // the same command finds the same
    leave(&o);
    tunes("timeout", 0, MORE("study.timeout=1.5s", "study.trials=0", "data.label_column=1"));
    o = look("timeout");
    assert_true(o.trials->count >= 1 && count_state(&o, FT_RUNNING) <= 1);
    leave(&o);
}

static void test_grid(void **state) {
    const char *const more[] = {"study.sampler=grid",
                                "study.trials=0",
                                "study.grid_points=3",
                                "study.pruner=none",
                                "space.train.batch_size=choice(8, 16)",
                                "space.train.weight_decay=0",
                                NULL};
    tunes("grid", 0, more);
    opened o = look("grid");
    assert_int_equal(count_state(&o, FT_COMPLETE), 6);
    leave(&o);
    tunes("grid", 5, more); // there is nothing left
    tunes("grid_together", 0, // who runs without a parameter stands for all of its values: nobody tries the same beside it
          MORE("study.sampler=grid", "study.trials=0", "study.grid_points=3", "study.pruner=none", "study.parallel=4",
               "space.train.batch_size=choice(8, 16)", "space.train.weight_decay=float(0, 0.1) if train.batch_size = 8"));
    o = look("grid_together");
    assert_int_equal(count_state(&o, FT_COMPLETE), 12);
    leave(&o);
    refuses("grid2",
            MORE("study.sampler=grid", "space.train.weight_decay=float(0, 1) if train.batch_size = 8",
                 "space.train.weight_decay=float(0, 0.5)"),
            2, "a grid cannot give train.weight_decay two ranges");
}

static void test_several_objectives(void **state) {
    tunes("front", 0, MORE("study.objective=eval.accuracy, maximize memory.peak_reserved_bytes", "study.pruner=none"));
    opened o = look("front");
    assert_int_equal(o.trials->objectives, 2);
    int kept = 0;
    for (int64_t i = 0; i < o.trials->count; i++) {
        const ft_trial *t = &o.trials->trial[i];
        bool beaten = false;
        char file[40];
        assert_true(t->report_count == 0 && t->value_count == 2);
        for (int64_t k = 0; k < o.trials->count; k++) {
            const double *a = t->values, *b = o.trials->trial[k].values; // both are maximised
            beaten = beaten || (b[0] >= a[0] && b[1] >= a[1] && (b[0] > a[0] || b[1] > a[1]));
        }
        kept += has("front", i, "model");
        assert_int_equal(has("front", i, "model"), !beaten);
        snprintf(file, sizeof file, "front/%05lld.ini", (long long)i);
        assert_int_equal(ft_path_exists(in_study("front", file)), !beaten);
    }
    char *best;
    size_t length;
    ok(ft_read_file(in_study("front", "best.ini"), 0, &best, &length));
    assert_non_null(
        strstr(best, "; It is the best in eval.accuracy alone: front/ has all trials that no other beats."));
    assert_non_null(strstr(best, ", memory.peak_reserved_bytes 1000B."));
    free(best);
    // Memory grows as accuracy falls: nearly all trials are on the front.
    assert_true(kept >= 2);
    leave(&o);
    // What an earlier call left is looked at again: a file too many goes.
    int extra = open(in_study("front", "front/00099.ini"), O_CREAT | O_WRONLY, 0666);
    assert_true(extra >= 0 && close(extra) == 0);
    tunes("front", 1, MORE("study.objective=eval.accuracy, maximize memory.peak_reserved_bytes", "study.pruner=none"));
    assert_false(ft_path_exists(in_study("front", "front/00099.ini")));
    refuses("front2", MORE("study.objective=eval.accuracy, seconds.total"), 2, "there are several");
}

// Large batches are the fixture's small memory: the best trial is the best of those within the limit.
static void test_constraints(void **state) {
    const char *limit = "study.constraints=memory.peak_reserved_bytes <= 1.2 KB, seconds.total<=1m";
    tunes("limits", 0, MORE(limit, "study.pruner=none", "study.sampler=random")); // gp would stay within
    opened o = look("limits");
    int64_t within = 0, best = -1;
    for (int64_t i = 0; i < o.trials->count; i++) {
        const ft_trial *t = &o.trials->trial[i];
        assert_true(t->state == FT_COMPLETE && t->constraint_count == 2);
        double bytes = 1000 * (double)(long long)(2 - t->values[0]);
        assert_true(t->constraints[0].value == bytes - 1200 && t->constraints[1].value == 1.5 - 60);
        if (bytes > 1200) continue;
        within++;
        if (best < 0 || t->values[0] > o.trials->trial[best].values[0]) best = i;
    }
    assert_true(within >= 1 && within < o.trials->count && has("limits", best, "model"));
    leave(&o);
    refuses("limits", MORE("study.constraints=seconds.total <= 2m", "study.pruner=none"), 2,
            "study.constraints was memory");
    refuses("limits2", MORE("study.constraints=seconds.total < 2m"), 2, "'seconds.total < 2m' is no constraint");
    refuses("limits2", MORE("study.constraints=seconds.total <= 2x"), 2, "is no constraint");
    refuses("limits2", MORE("study.constraints=second.total <= 2"), 2, "there is no figure 'second.total'");
    assert_false(ft_path_exists("studies/limits2"));
}

static void test_keep(void **state) {
    static const char *const keep[] = {"all", "none", "top-k"};
    for (int i = 0; i < 3; i++) {
        char option[64], name[64];
        snprintf(option, sizeof option, "study.keep=%s", keep[i]);
        snprintf(name, sizeof name, "keep-%s", keep[i]);
        tunes(name, 0, MORE(option, "study.pruner=none", "study.keep_count=2", "study.trials=6"));
        opened o = look(name);
        int kept = 0;
        for (int64_t k = 0; k < 6; k++)
            kept += has(name, k, "model");
        assert_int_equal(kept, i == 0 ? 6 : i == 1 ? 0 : 2);
        assert_true(i != 2 || has(name, best_of(&o), "model"));
        leave(&o);
    }
}

static void test_queue(void **state) {
    tunes("queue", 0, MORE("study.trials=1"));
    ft_storage *file;
    ft_stored *study;
    int64_t number;
    ok(ft_storage_open("studies/queue/study.db", FT_STORAGE_WRITE, &file));
    ok(ft_stored_open(file, NULL, &study));
    const ft_fixed_param fixed[] = {{"train.learning_rate", {.kind = FT_CHOICE_FLOAT, .number = 1e-4}},
                                    {"train.batch_size", {.kind = FT_CHOICE_INT, .integer = 16}},
                                    {"train.nonsense", {.kind = FT_CHOICE_INT, .integer = 1}}};
    const ft_fixed_param outside[] = {{"train.learning_rate", {.kind = FT_CHOICE_FLOAT, .number = 5}},
                                      {"train.batch_size", {.kind = FT_CHOICE_INT, .integer = 32}}};
    ok(ft_stored_enqueue(study, fixed, 3, &number));
    ok(ft_stored_enqueue(study, outside, 2, &number));
    ft_stored_close(study);
    ok(ft_storage_close(file));
    tunes("queue", 0, MORE("study.trials=4"));
    opened o = look("queue");
    assert_int_equal(o.trials->count, 4);
    int rate = ft_trials_find_name(o.trials, "train.learning_rate"),
        batch = ft_trials_find_name(o.trials, "train.batch_size");
    assert_true(ft_trial_find_param(&o.trials->trial[1], rate)->value == 1e-4);
    assert_true(ft_trial_find_param(&o.trials->trial[1], batch)->value == 1);
    assert_true(ft_trial_find_param(&o.trials->trial[2], batch)->value == 2);
    assert_true(ft_trial_find_param(&o.trials->trial[2], rate)->value <= 1e-2); // drawn
    leave(&o);
}

// A trial that another program has left running is not ours to continue, and stays as it is.
static void test_foreign_trials(void **state) {
    tunes("foreign", 0, MORE("study.trials=2"));
    ft_storage *file;
    ft_stored *study;
    int64_t number;
    ok(ft_storage_open("studies/foreign/study.db", FT_STORAGE_WRITE, &file));
    ok(ft_stored_open(file, NULL, &study));
    ok(ft_stored_ask(study, FT_RUNNING, &number));
    ft_stored_close(study);
    ok(ft_storage_close(file));
    tunes("foreign", 0, MORE("study.trials=4"));
    opened o = look("foreign");
    assert_int_equal(o.trials->count, 5);
    assert_true(o.trials->trial[number].state == FT_RUNNING &&
                count_state(&o, FT_COMPLETE) + count_state(&o, FT_PRUNED) == 4);
    leave(&o);
}

// A study as Optuna leaves it, with one trial and a name for its metric.
static void make_foreign(const char *name, const ft_distribution *rate, double value) {
    ft_storage *file;
    ft_stored *study;
    int64_t number;
    char directory[100];
    snprintf(directory, sizeof directory, "studies/%s", name);
    ok(ft_make_directories(directory));
    ok(ft_storage_open(in_study(name, "study.db"), FT_STORAGE_CREATE, &file));
    ok(ft_stored_create(file, name, 1, (bool[]){true}, &study));
    ok(ft_stored_set_attribute(study, FT_STUDY_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE, "study:metric_names", "[\"f1 score\"]"));
    ok(ft_stored_ask(study, FT_RUNNING, &number));
    ok(ft_stored_param(study, number, "train.learning_rate", rate, value));
    ok(ft_stored_finish(study, number, FT_COMPLETE, (double[]){0.5}, 1));
    ft_stored_close(study);
    ok(ft_storage_close(file));
}

static const char *study_attribute(opened *o, ft_attribute_kind kind, const char *key) {
    const char *json;
    ok(ft_stored_attribute(o->study, FT_STUDY_ATTRIBUTE, kind, key, &o->arena, &json));
    return json;
}

// Another program's study is refused before anything of ours is in it, and keeps the names it was given.
static void test_foreign_studies(void **state) {
    ft_arena arena = {0};
    ft_distribution rates, rate;
    ft_choice choices[] = {{.kind = FT_CHOICE_FLOAT, .number = 1e-4}, {.kind = FT_CHOICE_FLOAT, .number = 1e-3}};
    ok(ft_distribution_categorical("rates", &arena, choices, 2, &rates));
    ok(ft_distribution_float("rate", 1e-6, 1e-2, true, 0, &rate));
    make_foreign("kinds", &rates, 1);
    refuses("kinds", NULL, 2, "the study has this parameter with another kind of values (train.learning_rate)");
    opened o = look("kinds");
    assert_null(study_attribute(&o, FT_USER_ATTRIBUTE, "ftengine:space"));
    assert_null(study_attribute(&o, FT_USER_ATTRIBUTE, "ftengine:objectives"));
    assert_int_equal(o.trials->count, 1);
    leave(&o);
    make_foreign("names", &rate, 1e-3);
    tunes("names", 0, MORE("study.trials=2"));
    o = look("names");
    assert_string_equal(study_attribute(&o, FT_SYSTEM_ATTRIBUTE, "study:metric_names"), "[\"f1 score\"]");
    assert_non_null(study_attribute(&o, FT_USER_ATTRIBUTE, "ftengine:objectives"));
    leave(&o);
    ft_arena_free(&arena);
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_study),
        cmocka_unit_test(test_speed_does_not_matter),
        cmocka_unit_test(test_continues),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_an_empty_database_is_none),
        cmocka_unit_test(test_automatic_resources_are_remembered),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_another_space_is_refused),
        cmocka_unit_test(test_numbers_of_a_space_may_be_written_otherwise),
        cmocka_unit_test(test_errors_come_before_anything_is_written),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_stop_rules),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_several_objectives),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_foreign_trials),
        cmocka_unit_test(test_foreign_studies),
    };
    return cmocka_run_group_tests(tests, set_up_study, remove_scratch);
}

// A trial that has ended goes on: study.keep_pruned changes no trial, what is kept stays within its budget, the worst goes
// first; a thawed trial has the values of one that was never stopped, also after kills and to more steps than it had; what cannot go on
// is refused.
#include "tests/hpo/study_case.h"

#include "hpo/study/thaw.h"

static int frozen(const opened *o, const char *study) {
    int count = 0;
    for (int64_t i = 0; i < o->trials->count; i++)
        count += o->trials->trial[i].state == FT_PRUNED && has(study, i, "checkpoints");
    return count;
}

static void test_keeping_changes_nothing(void **state) {
    tunes("plain", 0, MORE("data.label_column=1"));
    tunes("kept", 0, MORE("study.keep_pruned=1GiB", "data.label_column=1"));
    char *a = dump("plain"), *b = dump("kept");
    same_lines(a, b);
    free(a), free(b);
    opened o = look("kept"), p = look("plain");
    assert_true(count_state(&o, FT_PRUNED) >= 1);
    for (int64_t i = 0; i < o.trials->count; i++)
        if (o.trials->trial[i].state == FT_PRUNED && !has("kept", i, "checkpoints"))
            fail_msg("nothing is left of trial %lld", (long long)i);
    assert_int_equal(frozen(&p, "plain"), 0);
    leave(&o), leave(&p);
}

static int64_t thaws_to(const char *study, int64_t of, int64_t to, ft_status expected, const char *message) {
    opened o = {0};
    char directory[64];
    int64_t number = -1;
    snprintf(directory, sizeof directory, "studies/%s", study);
    ok(ft_storage_open(in_study(study, "study.db"), FT_STORAGE_WRITE, &o.file));
    ok(ft_stored_open(o.file, NULL, &o.study));
    const ft_status status = ft_thaw_enqueue(o.study, directory, of, &(ft_thaw_wish){.steps = to}, &number);
    if (status != expected) fail_msg("thaw of trial %lld: %s", (long long)of, ft_error_message());
    if (message != NULL && strstr(ft_error_message(), message) == NULL)
        fail_msg("'%s' lacks '%s'", ft_error_message(), message);
    ft_error_clear();
    leave(&o);
    return number;
}

static int64_t thaws(const char *study, int64_t of, ft_status expected, const char *message) {
    return thaws_to(study, of, 0, expected, message);
}

static int64_t first_of(const char *study, ft_trial_state state) {
    opened o = look(study);
    int64_t number = -1;
    for (int64_t i = 0; i < o.trials->count && number < 0; i++)
        if (o.trials->trial[i].state == state) number = i;
    leave(&o);
    assert_true(number >= 0);
    return number;
}

// Trial `number` took trial `of` over, and is what that would have become.
static void check_thawed(const char *study, int64_t number, int64_t of) {
    opened o = look(study);
    const ft_trial *t = &o.trials->trial[number], *old = &o.trials->trial[of];
    char text[16];
    double best = -INFINITY;
    assert_int_equal(t->state, FT_COMPLETE);
    assert_int_equal(old->state, FT_PRUNED); // stays as it is
    snprintf(text, sizeof text, "%lld", (long long)of);
    assert_string_equal(attribute(&o, number, "thaws"), text);
    assert_int_equal(t->param_count, old->param_count);
    for (int p = 0; p < t->param_count; p++)
        assert_true(ft_trial_find_param(old, t->params[p].name)->value == t->params[p].value);
    assert_int_equal(t->report_count, 6);
    for (int k = 0; k < 6; k++) {
        const double value = undisturbed(&o, t, t->reports[k].step);
        assert_true(t->reports[k].step == 10 * (k + 1) && fabs(t->reports[k].value - value) < 1e-8);
        if (k < old->report_count) assert_true(t->reports[k].value == old->reports[k].value);
        best = fmax(best, value);
    }
    assert_true(t->values[0] == best);
    leave(&o);
}

static void test_thaw(void **state) {
    const int64_t of = first_of("kept", FT_PRUNED), number = thaws("kept", of, FT_OK, NULL);
    assert_int_equal(number, 12);
    tunes("kept", 1, MORE("study.keep_pruned=1GiB"));
    check_thawed("kept", number, of);
    assert_false(has("kept", of, "checkpoints")); // another trial has it: no part of the budget any more
    thaws("kept", of, FT_INVALID, "nothing is left of trial");
}

static void test_killed(void **state) {
    tunes("killed", 0, MORE("study.keep_pruned=1GiB"));
    const int64_t of = first_of("killed", FT_PRUNED), number = thaws("killed", of, FT_OK, NULL);
    thaws("killed", of, FT_INVALID, "goes on already");
    for (int kills = 0; kills < 3; kills++) {
        pid_t pid = tune_beside("killed", 0, MORE("study.keep_pruned=1GiB", "study.trials=13", "data.label_column=5"));
        pause_ms(15 + 45 * kills);
        kill(pid, SIGKILL);
        end_of(pid);
    }
    tunes("killed", 0, MORE("study.keep_pruned=1GiB", "study.trials=13"));
    check_thawed("killed", number, of);
}

// Its checkpoint was dropped while it waited: it begins anew, and comes to the same.
static void test_gone(void **state) {
    tunes("gone", 0, MORE("study.keep_pruned=1GiB"));
    const int64_t of = first_of("gone", FT_PRUNED), number = thaws("gone", of, FT_OK, NULL);
    char name[64];
    snprintf(name, sizeof name, "trials/%05lld/checkpoints", (long long)of);
    ok(ft_remove_tree(in_study("gone", name)));
    snprintf(name, sizeof name, "trials/%05lld/model", (long long)of);
    ok(ft_remove_tree(in_study("gone", name)));
    tunes("gone", 1, MORE("study.keep_pruned=1GiB"));
    opened o = look("gone");
    const ft_trial *t = &o.trials->trial[number];
    assert_true(t->state == FT_COMPLETE && t->report_count == 6);
    for (int k = 0; k < 6; k++)
        assert_true(fabs(t->reports[k].value - undisturbed(&o, t, 10 * (k + 1))) < 1e-8);
    leave(&o);
}

// Trial `number` took trial `of` over, pruned or complete, and went on to `steps`; its configuration says so.
static void check_longer(const char *study, int64_t number, int64_t of, ft_trial_state state, int64_t steps) {
    opened o = look(study);
    const ft_trial *t = &o.trials->trial[number], *old = &o.trials->trial[of];
    char text[64], path[300];
    ft_config config;
    const char *file = path;
    snprintf(text, sizeof text, "trials/%05lld/config.ini", (long long)number);
    snprintf(path, sizeof path, "%s", in_study(study, text));
    assert_true(t->state == FT_COMPLETE && old->state == state);
    snprintf(text, sizeof text, "%lld", (long long)of);
    assert_string_equal(attribute(&o, number, "thaws"), text);
    snprintf(text, sizeof text, "%lld", (long long)steps);
    assert_string_equal(attribute(&o, number, "thaw_steps"), text);
    assert_string_equal(attribute(&o, number, "steps"), text);
    ok(ft_study_config_load(&config, 1, &file, 0, NULL));
    assert_int_equal(config.train.max_steps, steps);
    ft_config_free(&config);
    assert_int_equal(t->report_count, steps / 10);
    for (int k = 0; k < t->report_count; k++)
        assert_true(t->reports[k].step == 10 * (k + 1) && fabs(t->reports[k].value - undisturbed(&o, t, 10 * (k + 1))) < 1e-8);
    for (int k = 0; k < old->report_count; k++)
        assert_true(t->reports[k].value == old->reports[k].value);
    leave(&o);
}

static void test_longer(void **state) {
    tunes("longer", 0, MORE("study.keep_pruned=1GiB"));
    opened o = look("longer");
    const int64_t best = best_of(&o);
    for (int64_t i = 0; i < o.trials->count; i++)
        if (o.trials->trial[i].state == FT_COMPLETE && !has("longer", i, "checkpoints"))
            fail_msg("nothing is left of trial %lld", (long long)i);
    leave(&o);
    const int64_t pruned = first_of("longer", FT_PRUNED), other = first_of("longer", FT_COMPLETE);
    thaws_to("longer", best, 60, FT_INVALID, "it has 60 steps, and 60 are no more");
    const int64_t number = thaws_to("longer", best, 90, FT_OK, NULL);
    thaws_to("longer", best, 120, FT_INVALID, "goes on already");
    assert_int_equal(thaws_to("longer", pruned, 80, FT_OK, NULL), number + 1);
    int count = 2;
    if (other != best) thaws_to("longer", other, 70, FT_OK, NULL), count++;
    tunes("longer", count, MORE("study.keep_pruned=1GiB"));
    check_longer("longer", number, best, FT_COMPLETE, 90);
    check_longer("longer", number + 1, pruned, FT_PRUNED, 80);
    if (other != best) check_longer("longer", number + 2, other, FT_COMPLETE, 70);
    o = look("longer"); // the best trial was made better by more steps
    assert_int_equal(best_of(&o), number);
    leave(&o);
    const int64_t again = thaws_to("longer", number, 100, FT_OK, NULL); // and once more
    tunes("longer", 1, MORE("study.keep_pruned=1GiB"));
    check_longer("longer", again, number, FT_COMPLETE, 100);
}

static void test_longer_killed(void **state) {
    tunes("torn", 0, MORE("study.keep_pruned=1GiB"));
    const int64_t of = first_of("torn", FT_COMPLETE), number = thaws_to("torn", of, 120, FT_OK, NULL);
    for (int kills = 0; kills < 3; kills++) {
        pid_t pid = tune_beside("torn", 0, MORE("study.keep_pruned=1GiB", "study.trials=13", "data.label_column=5"));
        pause_ms(15 + 90 * kills);
        kill(pid, SIGKILL);
        end_of(pid);
    }
    tunes("torn", 0, MORE("study.keep_pruned=1GiB", "study.trials=13"));
    check_longer("torn", number, of, FT_COMPLETE, 120);
}

// Its checkpoint was dropped while it waited: it begins anew, with as many steps.
static void test_longer_gone(void **state) {
    char name[64];
    tunes("lost", 0, MORE("study.keep_pruned=1GiB"));
    const int64_t of = first_of("lost", FT_COMPLETE), number = thaws_to("lost", of, 90, FT_OK, NULL);
    snprintf(name, sizeof name, "trials/%05lld/checkpoints", (long long)of);
    ok(ft_remove_tree(in_study("lost", name)));
    tunes("lost", 1, MORE("study.keep_pruned=1GiB"));
    check_longer("lost", number, of, FT_COMPLETE, 90);
}

// As much as two of them take: the two best ones are left, beside the best trial of all, which study.keep keeps.
static void test_budget(void **state) {
    char option[64];
    struct stat file;
    opened all = look("plain");
    int64_t most = 0;
    for (int64_t i = 0; i < all.trials->count; i++) { // of one, on this file system
        char name[64];
        snprintf(name, sizeof name, "trials/%05lld/checkpoints/step", (long long)i);
        if (stat(in_study("killed", name), &file) == 0 && file.st_blocks * 512 > most)
            most = (int64_t)file.st_blocks * 512;
    }
    leave(&all);
    if (most == 0) skip(); // a file of some bytes has no blocks here
    snprintf(option, sizeof option, "study.keep_pruned=%lld", (long long)(2 * most));
    tunes("budget", 0, MORE(option, "study.trials=24"));
    opened o = look("budget");
    double worst_kept = INFINITY, best_dropped = -INFINITY;
    const int64_t best = best_of(&o);
    int kept = 0;
    assert_true(count_state(&o, FT_PRUNED) >= 3);
    for (int64_t i = 0; i < o.trials->count; i++) {
        const ft_trial *t = &o.trials->trial[i];
        if ((t->state != FT_PRUNED && t->state != FT_COMPLETE) || i == best) continue;
        if (has("budget", i, "checkpoints"))
            worst_kept = fmin(worst_kept, t->values[0]), kept++;
        else
            best_dropped = fmax(best_dropped, t->values[0]);
    }
    assert_int_equal(kept, 2);
    assert_true(worst_kept >= best_dropped && has("budget", best, "checkpoints"));
    leave(&o);
}

static void test_refused(void **state) {
    thaws("kept", first_of("kept", FT_COMPLETE), FT_INVALID, "came to its end");
    thaws("kept", 99, FT_INVALID, "there is no trial 99");
    thaws("kept", -1, FT_INVALID, "there is no trial -1");
    thaws("plain", first_of("plain", FT_PRUNED), FT_INVALID, "nothing is left of trial");
    thaws_to("kept", 99, 90, FT_INVALID, "there is no trial 99");
    opened o = look("plain");
    for (int64_t i = 0; i < o.trials->count; i++)
        if (o.trials->trial[i].state == FT_COMPLETE && i != best_of(&o))
            thaws_to("plain", i, 90, FT_INVALID, "nothing is left of trial");
    leave(&o);
    tunes("searched", 0, MORE("study.keep_pruned=1GiB", "space.train.max_steps=choice(20, 40)", "study.trials=2", "study.pruner=none"));
    thaws_to("searched", 0, 90, FT_INVALID, "train.max_steps is a parameter of this study");
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeping_changes_nothing),
        cmocka_unit_test(test_thaw),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_longer),
        cmocka_unit_test(test_longer_killed),
        cmocka_unit_test(test_longer_gone),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up_study, remove_scratch);
}

// Studies in a database, over every kind of it (storage_places.h): what Optuna wrote is read, and what is written here reads back.
//
//     test_storage write FILE    a study with all that a trial can hold   (both for tests/vectors/check_storage.py)
//     test_storage dump FILE     what is in its studies, as text
#include "tests/hpo/storage_places.h"
#include "tests/hpo/study_dump.h"

#include <math.h>

static char *dump_all(const char *path) {
    ft_storage *storage;
    ft_arena arena = {0};
    ft_study_info *studies;
    int count;
    char *text;
    ft_text_stream stream;
    ok(ft_storage_open(path, FT_STORAGE_READ, &storage));
    ok(ft_storage_studies(storage, &arena, &studies, &count));
    ok(ft_text_open(&stream));
    for (int i = 0; i < count; i++) {
        ft_stored *study;
        ok(ft_stored_open(storage, studies[i].name, &study));
        dump_study(stream.file, study);
        ft_stored_close(study);
    }
    ok(ft_text_close(&stream, &text));
    ft_arena_free(&arena);
    ok(ft_storage_close(storage));
    return text;
}

// ---- a study of everything ------------------------------------------------------------------------------------------

static const ft_choice choices[] = {
    {.kind = FT_CHOICE_TEXT, .text = "adamw"},   {.kind = FT_CHOICE_NULL},
    {.kind = FT_CHOICE_BOOL, .integer = 1},      {.kind = FT_CHOICE_INT, .integer = -7},
    {.kind = FT_CHOICE_FLOAT, .number = 0.1},    {.kind = FT_CHOICE_FLOAT, .number = -INFINITY},
    {.kind = FT_CHOICE_TEXT, .text = "ä😀\n\"\\"}};
static const ft_distribution optimizer = {.kind = FT_CATEGORICAL, .choices = choices, .choice_count = 7};
static const ft_distribution rate = {.kind = FT_FLOAT, .log = true, .low = 1e-6, .high = 1e-2};
static const ft_distribution dropout = {.kind = FT_FLOAT, .low = 0, .high = 0.5, .step = 0.1};
static const ft_distribution length = {.kind = FT_INT, .low = 128, .high = 512, .step = 32};
static const ft_distribution layers = {.kind = FT_INT, .log = true, .low = 1, .high = 1000, .step = 1};

static void write_trials(ft_stored *study) {
    int64_t n;
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    ok(ft_stored_param(study, n, "train.learning_rate", &rate, 3.1e-5));
    ok(ft_stored_param(study, n, "optimizer", &optimizer, 6));
    ok(ft_stored_param(study, n, "dropout", &dropout, 0.30000000000000004));
    ok(ft_stored_param(study, n, "length", &length, 160));
    ok(ft_stored_report(study, n, 0, 0.25));
    ok(ft_stored_report(study, n, 3, NAN));
    ok(ft_stored_report(study, n, 2, INFINITY));
    ok(ft_stored_report(study, n, 2, 5)); // the first one stays
    ok(ft_stored_rungs(study, n, 2, 0.25));
    ok(ft_stored_constraints(study, n, NULL, (double[]){-1.5, 2}, 2));
    ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, "list", "[1, NaN, {\"a\": null}]"));
    ok(ft_stored_set_scalar(study, n, FT_USER_ATTRIBUTE, "ü", &choices[6]));
    ok(ft_stored_heartbeat(study, n));
    ok(ft_stored_finish(study, n, FT_COMPLETE, &(double){0.1}, 1));
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    for (int i = 0; i < 6; i++) { // each of the other choices once
        if (i > 0) ok(ft_stored_ask(study, FT_RUNNING, &n));
        ok(ft_stored_param(study, n, "optimizer", &optimizer, i));
        ok(ft_stored_param(study, n, "layers", &layers, 1 + i));
        ok(ft_stored_constraints(study, n, (const char *const[]){"memory"}, &(double){i - 3}, 1));
        if (i == 2) ok(ft_stored_report(study, n, 1, -INFINITY));
        ft_trial_state end = i == 0 ? FT_FAIL : i < 3 ? FT_PRUNED : FT_COMPLETE;
        ok(ft_stored_finish(study, n, end, &(double){i == 5 ? INFINITY : -i}, end == FT_COMPLETE || i == 2));
    }
    ft_fixed_param fixed[] = {{"optimizer", choices[4]}, {"layers", {.kind = FT_CHOICE_INT, .integer = 4}}};
    ok(ft_stored_enqueue(study, fixed, 2, &n));
    ok(ft_stored_enqueue(study, NULL, 0, &n));
    ok(ft_stored_pop(study, &n));
    assert_int_equal(n, 7);
    ok(ft_stored_param(study, n, "layers", &layers, 4));
    ok(ft_stored_relative(
        study, n,
        (ft_stored_value[]){{"optimizer", &optimizer, 6}, {"dropout", &dropout, 0.1}, {"length", &length, 192}}, 3));
}

static void write_study(const char *path) {
    ft_storage *storage;
    ft_stored *study;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "größe 😀", 1, &(bool){true}, &study));
    ok(ft_stored_set_attribute(study, FT_STUDY_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE, "study:metric_names", "[\"loss\"]"));
    ok(ft_stored_set_scalar(study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, "batch", &choices[3]));
    write_trials(study);
    ft_stored_close(study);
    ok(ft_stored_create(storage, "two", 2, (bool[]){false, true}, &study));
    int64_t n;
    for (int i = 0; i < 3; i++) {
        ok(ft_stored_ask(study, FT_RUNNING, &n));
        ok(ft_stored_param(study, n, "dropout", &dropout, 0.1 * i));
        if (i != 1 || !in_journal()) ok(ft_stored_report(study, n, 1, 2)); // of a pruned one a line would stay
        ok(ft_stored_finish(study, n, i == 1 ? FT_PRUNED : FT_COMPLETE, (double[]){i, -i}, i == 1 ? 0 : 2));
    }
    ft_stored_close(study);
    ok(ft_storage_close(storage));
}

static void reads_what_optuna_wrote(void **state) {
    char *expected, *text = dump_all("sqlite:///" FT_TEST_VECTORS "/optuna_study/study.db");
    size_t size;
    ok(ft_read_file(FT_TEST_VECTORS "/optuna_study/expect.txt", 0, &expected, &size));
    for (char *a = text, *b = expected; *a != '\0' || *b != '\0';) { // line by line, to say where
        size_t m = strcspn(a, "\n"), n = strcspn(b, "\n");
        if (m != n || memcmp(a, b, m) != 0) fail_msg("'%.*s' here, '%.*s' in Optuna", (int)m, a, (int)n, b);
        a += m + (a[m] != '\0');
        b += n + (b[n] != '\0');
    }
    free(text);
    free(expected);
}

static void continues_what_optuna_wrote(void **state) {
    const char *path = scratch("continued.db");
    ft_storage *storage, *from;
    ft_stored *study;
    int64_t n, waiting;
    if (!in_sqlite()) { // a step of the study in SQLite is too large for PostgreSQL
        static const char made[] = "journal:" FT_TEST_VECTORS "/optuna_journal/study.log";
        ok(ft_storage_open(made, FT_STORAGE_READ, &from));
        ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
        ok(ft_storage_copy_study(storage, from, "ein Näme 😀", "ein Näme 😀"));
        ok(ft_storage_copy_study(storage, from, "two", "two"));
        ok(ft_storage_close(from));
        ok(ft_storage_close(storage));
        char *here = dump_all(path), *there = dump_all(made);
        assert_string_equal(here, there);
        free(here);
        free(there);
    } else {
        ok(ft_copy_file(FT_TEST_VECTORS "/optuna_study/study.db", path));
    }
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &storage));
    refused(ft_stored_open(storage, NULL, &study), FT_INVALID, "2 studies in this file");
    refused(ft_stored_open(storage, "one", &study), FT_INVALID, "no study 'one'");
    ok(ft_stored_open(storage, "ein Näme 😀", &study));
    int64_t before = study->trials.count;
    ok(ft_stored_pop(study, &waiting));
    assert_int_equal(waiting, before - 1);
    ok(ft_stored_pop(study, &n));
    assert_int_equal(n, -1);
    ft_arena arena = {0};
    ft_fixed_param *fixed;
    int count;
    ok(ft_stored_fixed(study, before - 2, &arena, &fixed, &count)); // the trial that runs
    assert_int_equal(count, 3);
    assert_string_equal(fixed[0].name, "plain");
    assert_true(fixed[0].value.kind == FT_CHOICE_FLOAT && fixed[0].value.number == 0.125);
    assert_int_equal(fixed[1].value.kind, FT_CHOICE_NULL);
    ft_arena_free(&arena);
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    assert_int_equal(n, before);
    ft_distribution linear = {.kind = FT_FLOAT, .low = 1e-6, .high = 1e-2};
    refused(ft_stored_param(study, n, "train.learning_rate", &linear, 1e-3), FT_INVALID, "another log flag");
    refused(ft_stored_param(study, n, "dropout", &length, 128), FT_INVALID, "another kind");
    refused(ft_stored_param(study, n, "optimizer", &optimizer, 1), FT_INVALID, "other choices");
    ok(ft_stored_param(study, n, "train.learning_rate", &rate, 1e-3));
    ok(ft_stored_finish(study, n, FT_COMPLETE, &(double){0.75}, 1));
    ft_stored_close(study);
    ok(ft_storage_close(storage));
    assert_at_rest(path);
}

static void reads_what_it_wrote(void **state) {
    const char *path = scratch("written.db");
    ft_storage *storage;
    ft_stored *study, *again;
    char *first, *second;
    ft_text_stream stream;
    ok(ft_storage_open(path, FT_STORAGE_CREATE | FT_STORAGE_FULL_SYNC, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    write_trials(study);
    ok(ft_text_open(&stream));
    dump_study(stream.file, study);
    ok(ft_text_close(&stream, &first));
    ok(ft_stored_open(storage, "s", &again));
    ok(ft_text_open(&stream));
    dump_study(stream.file, again);
    ok(ft_text_close(&stream, &second));
    assert_string_equal(first, second);
    assert_int_equal(again->trials.trial[7].relative_count, study->trials.trial[7].relative_count);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(&again->trials.trial[7].relative[i].value, &study->trials.trial[7].relative[i].value, 8);
    double age;
    ok(ft_stored_heartbeat_age(study, 0, &age));
    assert_true(in_journal() ? age == -1 : age >= 0 && age < 60); // a journal has no heartbeats
    ok(ft_stored_heartbeat_age(study, 1, &age));
    assert_true(age == -1);
    ft_stored_close(again);
    ft_stored_close(study);
    free(first);
    free(second);
    ok(ft_storage_close(storage));
    assert_at_rest(path);
}

// ---- rules ----------------------------------------------------------------------------------------------------------

static void finished_trials_never_change(void **state) {
    ft_storage *one, *two;
    ft_stored *mine, *theirs;
    const char *path = scratch("finished.db");
    int64_t n, other;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &one));
    ok(ft_stored_create(one, "s", 1, &(bool){false}, &mine));
    ok(ft_stored_ask(mine, FT_RUNNING, &n));
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &two));
    ok(ft_stored_open(two, "s", &theirs));
    refused(ft_stored_finish(mine, n, FT_COMPLETE, &(double){NAN}, 1), FT_INVALID, "NaN");
    refused(ft_stored_finish(mine, n, FT_COMPLETE, NULL, 0), FT_FAILED, "cannot end as COMPLETE with 0 values");
    ok(ft_stored_finish(theirs, n, FT_FAIL, NULL, 0));
    // What the other one did is not known here yet, but the file knows.
    refused(ft_stored_param(mine, n, "dropout", &dropout, 0.1), FT_FAILED, "by another process");
    refused(ft_stored_report(mine, n, 1, 0.5), FT_FAILED, "by another process");
    refused(ft_stored_set_scalar(mine, n, FT_USER_ATTRIBUTE, "k", &choices[0]), FT_FAILED, "by another process");
    refused(ft_stored_heartbeat(mine, n), FT_FAILED, "by another process");
    refused(ft_stored_finish(mine, n, FT_COMPLETE, &(double){1}, 1), FT_FAILED, "by another process");
    ok(ft_stored_refresh(mine));
    assert_int_equal(mine->trials.trial[n].state, FT_FAIL);
    assert_int_equal(mine->trials.trial[n].value_count, 0);
    refused(ft_stored_finish(mine, n, FT_COMPLETE, &(double){1}, 1), FT_FAILED, "is FAIL and cannot change");
    // Numbers go on across processes.
    ok(ft_stored_ask(theirs, FT_WAITING, &other));
    ok(ft_stored_ask(mine, FT_RUNNING, &n));
    assert_int_equal(other, 1);
    assert_int_equal(n, 2);
    ok(ft_stored_pop(mine, &n));
    assert_int_equal(n, 1);
    ok(ft_stored_pop(theirs, &n)); // taken
    assert_int_equal(n, -1);
    ft_stored_close(mine);
    ft_stored_close(theirs);
    ok(ft_storage_close(one)); // the other still has it open
    ok(ft_storage_close(two));
    assert_at_rest(path);
}

static void groups_are_all_or_nothing(void **state) {
    ft_storage *storage;
    ft_stored *study;
    int64_t n;
    ok(ft_storage_open(scratch("groups.db"), FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    ok(ft_storage_begin(storage));
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    ok(ft_stored_param(study, n, "dropout", &dropout, 0.2));
    ft_storage_rollback(storage);
    refused(ft_storage_commit(storage), FT_FAILED, "no group of changes");
    ft_stored_close(study);
    ok(ft_stored_open(storage, NULL, &study));
    assert_int_equal(study->trials.count, 0);
    ok(ft_storage_begin(storage));
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    ok(ft_stored_finish(study, n, FT_COMPLETE, &(double){4}, 1));
    ok(ft_storage_commit(storage));
    ft_stored_close(study);
    ok(ft_stored_open(storage, NULL, &study));
    assert_int_equal(study->trials.count, 1);
    assert_true(study->trials.trial[0].values[0] == 4);
    ft_stored_close(study);
    ok(ft_storage_close(storage));
}

static void several_objectives_keep_no_reports_of_pruned(void **state) {
    const char *path = scratch("several.db");
    write_study(path);
    char *text = dump_all(path);
    const char *two = strstr(text, "study two");
    assert_non_null(two);
    assert_non_null(strstr(two, "trial 0 COMPLETE"));
    const char *pruned = strstr(two, "trial 1 PRUNED"), *next = strstr(two, "trial 2 COMPLETE");
    const char *first = strstr(two, "  report 1 2");
    assert_true(pruned != NULL && next != NULL && first != NULL && first < pruned);
    assert_true(strstr(pruned, "  report 1 2") > next);
    free(text);
}

static void copies_and_deletes(void **state) {
    char source[400];
    snprintf(source, sizeof source, "%s", scratch("source.db"));
    const char *path = scratch("target.db");
    ft_storage *from, *to;
    ft_arena arena = {0};
    ft_study_info *studies;
    int count;
    write_study(source);
    ok(ft_storage_open(source, FT_STORAGE_READ, &from));
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &to));
    ok(ft_storage_copy_study(to, from, "two", "zwei"));
    ok(ft_storage_copy_study(to, from, "größe 😀", "one"));
    ok(ft_storage_copy_study(to, to, "one", "again"));
    refused(ft_storage_copy_study(to, from, "two", "one"), FT_INVALID, "a study 'one' already");
    refused(ft_storage_copy_study(to, from, "three", "x"), FT_INVALID, "no study 'three'");
    ok(ft_storage_delete_study(to, "one"));
    refused(ft_storage_delete_study(to, "one"), FT_INVALID, "no study 'one'");
    ok(ft_storage_studies(to, &arena, &studies, &count));
    assert_int_equal(count, 2);
    assert_string_equal(studies[1].name, "again");
    assert_int_equal(studies[1].objectives, 1);
    assert_true(studies[1].maximize[0]);
    assert_int_equal(studies[1].trials[FT_COMPLETE], 4);
    assert_int_equal(studies[1].trials[FT_PRUNED], 2);
    assert_int_equal(studies[1].trials[FT_WAITING], 1);
    assert_true(studies[1].first_start > 0 && studies[1].last_finish >= studies[1].first_start);
    ft_arena_free(&arena);
    ok(ft_storage_close(from));
    ok(ft_storage_close(to));
    // The same text, but for the names and the order of the studies.
    char *a = dump_all(source), *b = dump_all(path);
    char *a_two = strstr(a, "study two\n"), *b_again = strstr(b, "study again\n");
    assert_non_null(a_two);
    assert_non_null(b_again);
    assert_string_equal(strchr(a_two, '\n'), (*b_again = '\0', strchr(b, '\n')));
    *a_two = '\0';
    assert_string_equal(strchr(a, '\n'), strchr(b_again + 1, '\n'));
    free(a);
    free(b);
}

static void create_twice_and_names(void **state) {
    ft_storage *storage, *reader;
    ft_stored *study;
    int64_t n;
    const char *path = scratch("names.db");
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
    refused(ft_stored_open(storage, NULL, &study), FT_INVALID, "no study in this file");
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    ft_stored_close(study);
    refused(ft_stored_create(storage, "s", 1, &(bool){false}, &study), FT_INVALID, "a study 's' already");
    refused(ft_stored_create(storage, "", 1, &(bool){false}, &study), FT_INVALID, "1 to 512 bytes");
    refused(ft_stored_create(storage, "t", 0, NULL, &study), FT_INVALID, "1 to 64 objectives");
    ok(ft_storage_open(path, FT_STORAGE_READ, &reader));
    ok(ft_stored_open(reader, "s", &study));
    refused(ft_stored_ask(study, FT_RUNNING, &n), FT_FAILED, in_postgres() ? "read-only" : "readonly");
    ft_stored_close(study);
    ok(ft_storage_close(reader));
    ok(ft_storage_close(storage));
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_study(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "dump") == 0) {
        char *text = dump_all(argv[2]);
        fputs(text, stdout);
        free(text);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_optuna_wrote),      cmocka_unit_test(continues_what_optuna_wrote),
        cmocka_unit_test(reads_what_it_wrote),          cmocka_unit_test(finished_trials_never_change),
        cmocka_unit_test(groups_are_all_or_nothing),    cmocka_unit_test(several_objectives_keep_no_reports_of_pruned),
        cmocka_unit_test(copies_and_deletes),           cmocka_unit_test(create_twice_and_names),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

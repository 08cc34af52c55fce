// Study files that are damaged, of another program, of another version, or made to harm: one clear error each, no
// crash.
#include "hpo/storage/storage.h"

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/ft_hostile_XXXXXX", path[200];

static const char *fresh(void) {
    unlink(path);
    if (ft_copy_file(FT_TEST_VECTORS "/optuna_study/study.db", path) != FT_OK) fail_msg("%s", ft_error_message());
    return path;
}

// Opens the file and every study in it, as `study list` and `study show` would.
static ft_status open_all(int flags) {
    ft_storage *storage;
    ft_arena arena = {0};
    ft_study_info *studies;
    int count;
    FT_TRY(ft_storage_open(path, flags, &storage));
    ft_status status = ft_storage_studies(storage, &arena, &studies, &count);
    for (int i = 0; status == FT_OK && i < count; i++) {
        ft_stored *study;
        status = ft_stored_open(storage, studies[i].name, &study);
        if (status == FT_OK) ft_stored_close(study);
    }
    ft_arena_free(&arena);
    ft_error error;
    ft_error_save(&error);
    ft_storage_close(storage);
    if (status != FT_OK) ft_error_restore(&error);
    return status;
}

static void refused(ft_status status, const char *text) {
    assert_int_equal(status, FT_INVALID);
    if (strstr(ft_error_message(), text) == NULL) fail_msg("'%s' is not in '%s'", text, ft_error_message());
    if (ft_error_where()[0] == '\0') fail_msg("'%s' does not say where", ft_error_message());
    ft_error_clear();
}

static void change(const char *sql) {
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(fresh(), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

static void rows_that_cannot_be(void **state) {
    static const struct {
        const char *sql, *text;
    } cases[] = {
        {"UPDATE trial_params SET distribution_json = '{' WHERE param_id = 3", "not valid JSON"},
        {"UPDATE trial_params SET distribution_json = NULL WHERE param_id = 3", "no distribution"},
        {"UPDATE trial_params SET distribution_json = '{\"name\": \"X\", \"attributes\": {}}' WHERE param_id = 3",
         "unknown distribution"},
        {"UPDATE trial_params SET param_value = 'text' WHERE param_id = 3", "value is not a number"},
        {"UPDATE trial_params SET param_value = NULL WHERE param_id = 3", "value is not a number"},
        {"UPDATE trial_params SET param_value = 9e999 WHERE param_id = 3", "value is not a number"},
        {"UPDATE trial_params SET param_value = 99 WHERE param_name = 'optimizer'", "no index of its choices"},
        {"UPDATE trial_params SET param_value = -1 WHERE param_name = 'train.learning_rate'", "not positive"},
        {"UPDATE trial_params SET param_value = 1e300 WHERE distribution_json LIKE '%IntDistribution%'", "no integer within"},
        {"UPDATE trial_params SET param_name = NULL WHERE param_id = 3", "has no name"},
        {"UPDATE trial_params SET param_name = CAST(x'610062' AS TEXT) WHERE param_id = 3", "has no name"},
        {"UPDATE trial_values SET value = NULL", "value is no number"},
        {"UPDATE trial_values SET value_type = 'NAN'", "value is no number"},
        {"UPDATE trial_values SET objective = 5 WHERE trial_value_id = 1", "do not belong to the study's objectives"},
        {"DELETE FROM trial_values WHERE trial_value_id = 1", "without a value for every objective"},
        {"UPDATE trial_intermediate_values SET intermediate_value_type = 'ODD'", "intermediate value is no number"},
        {"UPDATE trial_intermediate_values SET step = -3 WHERE step = 2", "a step must be at least 0"},
        {"UPDATE trials SET state = 'DONE' WHERE trial_id = 3", "unknown state"},
        {"UPDATE trials SET number = 77 WHERE trial_id = 3", "run from 0 without gaps"},
        {"UPDATE trials SET number = NULL WHERE trial_id = 3", "run from 0 without gaps"},
        {"DELETE FROM trials WHERE trial_id = 3", "run from 0 without gaps"},
        {"UPDATE study_directions SET direction = 'UP'", "no proper directions"},
        {"DELETE FROM study_directions", "no directions"},
        {"UPDATE trial_system_attributes SET value_json = '[NaN]' WHERE key = 'constraints'", "NaN"},
        {"UPDATE trial_system_attributes SET value_json = '{}' WHERE key = 'constraints'", "no list"},
        {"UPDATE trial_system_attributes SET value_json = '[\"x\"]' WHERE key = 'constraints'",
         "constraint is not a number"},
        {"UPDATE trial_system_attributes SET value_json = 'x' WHERE key = 'completed_rung_0'", "not valid JSON"},
        {"UPDATE trial_system_attributes SET value_json = '[]' WHERE key = 'completed_rung_0'", "rung is not a number"},
        {"UPDATE trial_system_attributes SET value_json = NULL", "no value"},
        {"DROP TABLE trial_params", "no such table: trial_params"},
        {"DROP TABLE version_info", "no table version_info"},
        {"ALTER TABLE trials RENAME COLUMN number TO no", "no such column: number"},
        {"UPDATE alembic_version SET version_num = 'v2.6.0.a'", "version 'v2.6.0.a'"},
        {"UPDATE alembic_version SET version_num = 'v9.0.0.a'", "version 'v9.0.0.a'"},
        {"DELETE FROM alembic_version; UPDATE version_info SET schema_version = 11", "version '11'"},
        // A view in place of a table could compute anything.
        {"ALTER TABLE trials RENAME TO t; CREATE VIEW trials AS SELECT * FROM t", "access to view"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        change(cases[i].sql);
        refused(open_all(FT_STORAGE_READ), cases[i].text);
    }
}

// What Optuna takes, too: an empty version, the schema without its last index, trailing junk in attributes nobody
// reads.
static void rows_that_can_be(void **state) {
    static const char *const cases[] = {
        "DELETE FROM alembic_version",
        "DROP TABLE alembic_version",
        "UPDATE alembic_version SET version_num = 'v3.0.0.d'; DROP INDEX ix_trials_study_id",
        "CREATE TABLE mine (x)",
        "UPDATE trial_user_attributes SET value_json = 'no JSON'",
        "INSERT INTO trial_system_attributes (trial_id, key, value_json) VALUES (12, 'tpe:relative_params:0', "
        "'\"{\\\"x\"')",
        "DROP TABLE trial_heartbeats; CREATE TABLE trial_heartbeats (trial_heartbeat_id INTEGER PRIMARY KEY, trial_id, "
        "heartbeat)",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        change(cases[i]);
        if (open_all(FT_STORAGE_READ) != FT_OK) fail_msg("%s: %s", cases[i], ft_error_message());
    }
}

static void triggers_do_not_run(void **state) {
    change("CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trial_values; END");
    ft_storage *storage;
    ft_stored *study;
    int64_t n;
    assert_int_equal(ft_storage_open(path, FT_STORAGE_WRITE, &storage), FT_OK);
    assert_int_equal(ft_stored_open(storage, "two", &study), FT_OK);
    assert_int_equal(ft_stored_ask(study, FT_RUNNING, &n), FT_OK);
    ft_stored_close(study);
    assert_int_equal(ft_storage_close(storage), FT_OK);
    assert_int_equal(open_all(FT_STORAGE_READ), FT_OK); // the values are there
}

static void files_that_are_none(void **state) {
    unlink(path);
    refused(open_all(FT_STORAGE_READ), "no such study file");
    refused(open_all(FT_STORAGE_WRITE), "no such study file");
    char text[140]; // longer than the header of a database
    memset(text, 'x', sizeof text);
    assert_int_equal(ft_atomic_write(path, text, sizeof text), FT_OK);
    refused(open_all(FT_STORAGE_CREATE), "not a database");
    char *data;
    size_t length;
    assert_int_equal(ft_read_file(path, 0, &data, &length), FT_OK);
    assert_int_equal(length, sizeof text); // untouched
    free(data);
    // A database of something else stays what it is.
    sqlite3 *db;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE other (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refused(open_all(FT_STORAGE_CREATE), "no table version_info");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ft_atomic_write(path, "", 0), FT_OK); // empty is a database without tables
    refused(open_all(FT_STORAGE_READ), "no table version_info");
    assert_int_equal(open_all(FT_STORAGE_CREATE), FT_OK);
    ft_storage *storage;
    refused(ft_storage_open("mysql://host/db", FT_STORAGE_READ, &storage), "SQLite files and in PostgreSQL");
    refused(ft_storage_open("sqlite:///", FT_STORAGE_CREATE, &storage), "a file to live in");
    refused(ft_storage_open(":memory:", FT_STORAGE_CREATE, &storage), "a file to live in");
    refused(ft_storage_open(directory, FT_STORAGE_CREATE, &storage), "cannot be opened");
    refused(ft_storage_open("/nonexistent/x.db", FT_STORAGE_CREATE, &storage), "cannot be opened");
}

// Bytes changed anywhere: whatever SQLite or the reader think of it, an error has a message and nothing crashes.
static void damaged_bytes(void **state) {
    char *data;
    size_t length;
    int failed = 0;
    assert_int_equal(ft_read_file(FT_TEST_VECTORS "/optuna_study/study.db", 0, &data, &length), FT_OK);
    srand(11);
    for (int round = 0; round < 150; round++) {
        char *copy = malloc(length);
        assert_non_null(copy);
        memcpy(copy, data, length);
        size_t keep = round % 5 == 0 ? (size_t)rand() % length : length;
        for (int i = 0; i < 8; i++)
            copy[(size_t)rand() % (round % 3 == 0 ? 4096 : length)] = (char)rand();
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(copy, 1, keep, file), keep);
        assert_int_equal(fclose(file), 0);
        free(copy);
        ft_error_clear();
        if (open_all(FT_STORAGE_READ) == FT_OK) continue;
        assert_true(ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
        failed++;
    }
    free(data);
    assert_true(failed > 20);
}

static int make_directory(void **state) {
    if (mkdtemp(directory) == NULL) return 1;
    snprintf(path, sizeof path, "%s/study.db", directory);
    return 0;
}
static int remove_directory(void **state) { return ft_remove_tree(directory) != FT_OK; }

// ---- journals -------------------------------------------------------------------------------------------------------

// Each is a line behind those of a sound study with one trial; the error names the line.
static void hostile_journals(void **state) {
#define LINE(op, rest) "{\"op_code\": " #op ", \"worker_id\": \"w\", " rest "}\n"
#define SOUND LINE(0, "\"study_name\": \"s\", \"directions\": [1]") LINE(4, "\"study_id\": 0, \"datetime_start\": \"2026-11-29T10:00:00\"")
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"x\n", "not valid JSON"},
        {"[]\n", "op_code"},
        {LINE(11, "\"trial_id\": 0"), "op_code"},
        {LINE(-1, "\"trial_id\": 0"), "op_code"},
        {LINE(0, "\"study_name\": \"t\""), "directions"},
        {LINE(0, "\"study_name\": \"t\", \"directions\": [3]"), "directions"},
        {LINE(4, "\"study_id\": -1"), "study_id"},
        {LINE(4, "\"study_id\": 0, \"state\": 5"), "state"},
        {LINE(4, "\"study_id\": 0, \"datetime_start\": \"tomorrow\""), "datetime_start is no time"},
        {LINE(4, "\"study_id\": 0, \"datetime_start\": \"0005-01-01T00:00:00\""), "datetime_start is no time"}, // nobody could read it written again
        {LINE(6, "\"trial_id\": 0, \"state\": 1, \"datetime_complete\": \"9999-12-31T23:59:59-09:00\""), "datetime_complete is no time"},
        {LINE(4, "\"study_id\": 0, \"params\": {\"x\": 1}"), "a parameter"},
        {LINE(4, "\"study_id\": 0, \"intermediate_values\": {\"-1\": 1}"), "intermediate_values"},
        {LINE(5, "\"trial_id\": 0, \"param_name\": \"x\", \"param_value_internal\": 1"), "a parameter"},
        {LINE(6, "\"trial_id\": 0, \"values\": [\"1\"]"), "values"},
        {LINE(7, "\"trial_id\": 0, \"step\": 1"), "intermediate_value"},
        {LINE(8, "\"trial_id\": 0, \"user_attr\": {}"), "user_attr"},
    };
    static char file[64];
    char url[80];
    snprintf(file, sizeof file, "%s/study.log", directory);
    snprintf(url, sizeof url, "journal:%s", file);
    for (size_t i = 0; i <= sizeof cases / sizeof cases[0]; i++) {
        const char *line = i > 0 ? cases[i - 1].line : "";
        char text[1000];
        ft_storage *storage;
        const int length = snprintf(text, sizeof text, SOUND "%s", line);
        assert_int_equal(ft_atomic_write(file, text, (size_t)length), FT_OK);
        const ft_status status = ft_storage_open(url, FT_STORAGE_READ, &storage);
        if (i == 0) {
            assert_int_equal(status, FT_OK);
            ft_storage_close(storage);
            continue;
        }
        if (strstr(ft_error_where(), "study.log:3") == NULL) fail_msg("%s (%s) of %s", ft_error_message(), ft_error_where(), line);
        refused(status, cases[i - 1].says);
    }
    unlink(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_cannot_be), cmocka_unit_test(rows_that_can_be),
        cmocka_unit_test(triggers_do_not_run), cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(damaged_bytes),     cmocka_unit_test(hostile_journals),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

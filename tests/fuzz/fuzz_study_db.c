// fuzz_study_db.c - a study file from anyone. The input is either the file itself, byte for byte, or changes of single
// cells of a sound one, which come past SQLite's own checks and to ours: a cell is any value of any type. What is read
// is looked at from all sides; what is refused has one error.
#include "hpo/exchange/exchange.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (holds) return;
    fprintf(stderr, "%s (%s)\n", ft_error_message(), ft_error_where());
    abort();
}

static const char *path(void) {
    static char name[64];
    if (name[0] == '\0') snprintf(name, sizeof name, "/dev/shm/ft_fuzz_study_%d.db", (int)getpid());
    return name;
}

static void remove_files(void) {
    char name[80];
    unlink(path());
    for (int i = 0; i < 3; i++) {
        static const char *const ends[] = {"-wal", "-shm", "-journal"};
        snprintf(name, sizeof name, "%s%s", path(), ends[i]);
        unlink(name);
    }
}

// ---- the sound file -------------------------------------------------------------------------------------------------

static void make_sound(void) {
    ft_storage *storage;
    ft_stored *study;
    ft_distribution rate, size, kind;
    ft_arena arena = {0};
    const ft_choice choices[] = {{.kind = FT_CHOICE_TEXT, .text = "a"}, {.kind = FT_CHOICE_INT, .integer = 3}};
    check(ft_distribution_float("rate", 1e-6, 1e-2, true, 0, &rate) == FT_OK);
    check(ft_distribution_int("size", 8, 64, false, 8, &size) == FT_OK);
    check(ft_distribution_categorical("kind", &arena, choices, 2, &kind) == FT_OK);
    check(ft_storage_open(path(), FT_STORAGE_CREATE, &storage) == FT_OK);
    for (int objectives = 1; objectives <= 2; objectives++) {
        int64_t number;
        check(ft_stored_create(storage, objectives == 1 ? "one" : "two", objectives, (bool[]){true, false}, &study) ==
              FT_OK);
        check(ft_stored_set_attribute(study, FT_STUDY_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE, "study:metric_names",
                                      "[\"f\"]") == FT_OK);
        for (int i = 0; i < 4; i++) {
            check(ft_stored_ask(study, FT_RUNNING, &number) == FT_OK);
            check(ft_stored_param(study, number, "rate", &rate, 1e-3 / (i + 1)) == FT_OK);
            check(ft_stored_param(study, number, "size", &size, 8 * (i + 1)) == FT_OK);
            check(ft_stored_param(study, number, "kind", &kind, i % 2) == FT_OK);
            check(ft_stored_set_attribute(study, number, FT_USER_ATTRIBUTE, "note", "{\"a\": [1, NaN]}") == FT_OK);
            if (objectives == 1) check(ft_stored_report(study, number, 1, 0.5 * i) == FT_OK);
            check(ft_stored_constraints(study, number, NULL, (double[]){i - 2.0}, 1) == FT_OK);
            if (objectives == 1) check(ft_stored_rungs(study, number, 1, 0.5) == FT_OK);
            if (i == 3) break; // stays RUNNING
            check(ft_stored_finish(study, number, FT_COMPLETE, (double[]){0.5 * i, 1.0 - i}, objectives) == FT_OK);
        }
        check(ft_stored_relative(study, number, &(ft_stored_value){"rate", &rate, 1e-4}, 1) == FT_OK);
        check(ft_stored_enqueue(study, &(ft_fixed_param){"rate", {.kind = FT_CHOICE_FLOAT, .number = 1e-5}}, 1,
                                &number) == FT_OK);
        ft_stored_close(study);
    }
    check(ft_storage_close(storage) == FT_OK);
    ft_arena_free(&arena);
}

static void write_file(const void *data, size_t size) {
    int file = open(path(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    check(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static void write_sound(void) {
    static uint8_t *sound;
    static size_t size;
    if (sound == NULL) {
        remove_files();
        make_sound();
        FILE *in = fopen(path(), "rb");
        check(in != NULL && fseek(in, 0, SEEK_END) == 0 && (size = (size_t)ftell(in)) > 0);
        rewind(in);
        sound = malloc(size);
        check(sound != NULL && fread(sound, 1, size, in) == size && fclose(in) == 0);
    }
    write_file(sound, size);
}

// ---- changes of cells -----------------------------------------------------------------------------------------------

static const char *const cells[][2] = {
    {"studies", "study_name"},
    {"studies", "study_id"},
    {"study_directions", "direction"},
    {"study_directions", "objective"},
    {"study_system_attributes", "value_json"},
    {"trials", "number"},
    {"trials", "state"},
    {"trials", "study_id"},
    {"trials", "datetime_start"},
    {"trials", "datetime_complete"},
    {"trial_params", "param_name"},
    {"trial_params", "param_value"},
    {"trial_params", "distribution_json"},
    {"trial_params", "trial_id"},
    {"trial_values", "value"},
    {"trial_values", "value_type"},
    {"trial_values", "objective"},
    {"trial_intermediate_values", "step"},
    {"trial_intermediate_values", "intermediate_value"},
    {"trial_intermediate_values", "intermediate_value_type"},
    {"trial_user_attributes", "key"},
    {"trial_user_attributes", "value_json"},
    {"trial_system_attributes", "key"},
    {"trial_system_attributes", "value_json"},
    {"version_info", "schema_version"},
    {"alembic_version", "version_num"},
};

// A change is: cell, row, type, length, bytes. SQLite may refuse it (unique, not null), which changes nothing.
static void change_cells(const uint8_t *p, size_t left) {
    sqlite3 *db;
    check(sqlite3_open(path(), &db) == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
    while (left >= 4) {
        const char *const *cell = cells[p[0] % (sizeof cells / sizeof cells[0])];
        size_t length = p[3] < left - 4 ? p[3] : left - 4;
        int64_t whole = 0;
        double real = 0;
        memcpy(&whole, p + 4, length < 8 ? length : 8);
        memcpy(&real, p + 4, length < 8 ? length : 8);
        char sql[160];
        sqlite3_stmt *statement;
        snprintf(sql, sizeof sql, "UPDATE %s SET %s = ?1 WHERE rowid = %d", cell[0], cell[1], p[1] % 24 + 1);
        check(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
        switch (p[2] % 5) {
        case 0: sqlite3_bind_null(statement, 1); break;
        case 1: sqlite3_bind_int64(statement, 1, whole); break;
        case 2: sqlite3_bind_double(statement, 1, real); break;
        case 3: sqlite3_bind_text(statement, 1, (const char *)p + 4, (int)length, SQLITE_STATIC); break;
        default: sqlite3_bind_blob(statement, 1, p + 4, (int)length, SQLITE_STATIC); break;
        }
        sqlite3_step(statement);
        sqlite3_finalize(statement);
        p += 4 + length;
        left -= 4 + length;
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
}

// ---- looking --------------------------------------------------------------------------------------------------------

// SQLite's own troubles with a torn file have many names; ours with its content have one.
static bool refused(ft_status status, bool torn) {
    bool fine = ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0' &&
                (status == FT_INVALID || (torn && status == FT_FAILED));
    return fine;
}

static ft_status look_at(ft_stored *study) {
    FILE *null = fopen("/dev/null", "w");
    check(null != NULL);
    ft_arena arena = {0};
    ft_attribute *attributes;
    ft_fixed_param *fixed;
    int count;
    ft_status status = ft_export_jsonl(study, null);
    if (status == FT_OK) status = ft_export_csv(study, null);
    for (int64_t i = FT_STUDY_ATTRIBUTE; status == FT_OK && i < study->trials.count; i++) {
        status = ft_stored_attributes(study, i, FT_USER_ATTRIBUTE, &arena, &attributes, &count);
        if (status == FT_OK && i >= 0) status = ft_stored_fixed(study, i, &arena, &fixed, &count);
    }
    fclose(null);
    ft_arena_free(&arena);
    return status;
}

static ft_status look(void) {
    ft_storage *storage;
    ft_arena arena = {0};
    ft_study_info *studies;
    int count = 0;
    FT_TRY(ft_storage_open(path(), FT_STORAGE_READ, &storage));
    ft_status status = ft_storage_studies(storage, &arena, &studies, &count);
    for (int i = 0; status == FT_OK && i < count; i++) {
        ft_stored *study;
        status = ft_stored_open(storage, studies[i].name, &study);
        if (status != FT_OK) break;
        status = look_at(study);
        ft_stored_close(study);
    }
    ft_error error;
    ft_error_save(&error);
    ft_storage_close(storage);
    ft_error_restore(&error);
    ft_arena_free(&arena);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    bool torn = size >= 16 && memcmp(input, "SQLite format 3", 16) == 0;
    ft_error_clear();
    if (torn) {
        write_file(input, size);
    } else {
        write_sound();
        change_cells(input, size);
    }
    ft_status status = look();
    check(status == FT_OK || refused(status, torn));
    remove_files();
    return 0;
}

// schema.c - opening and closing a file of SQLite, making Optuna's tables in it, and knowing their versions.
#include "hpo/storage/internal.h"

#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// As Optuna 5.0 makes them, index for index; SQLAlchemy's DATETIME is text.
static const char schema[] =
    "CREATE TABLE studies (study_id INTEGER NOT NULL, study_name VARCHAR(512) NOT NULL, PRIMARY KEY (study_id));"
    "CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);"
    "CREATE TABLE version_info (version_info_id INTEGER NOT NULL, schema_version INTEGER, library_version VARCHAR(256),"
    " PRIMARY KEY (version_info_id), CHECK (version_info_id=1));"
    "CREATE TABLE study_directions (study_direction_id INTEGER NOT NULL, direction VARCHAR(8) NOT NULL,"
    " study_id INTEGER NOT NULL, objective INTEGER NOT NULL, PRIMARY KEY (study_direction_id),"
    " UNIQUE (study_id, objective), FOREIGN KEY(study_id) REFERENCES studies (study_id));"
    "CREATE TABLE study_user_attributes (study_user_attribute_id INTEGER NOT NULL, study_id INTEGER, \"key\" "
    "VARCHAR(512),"
    " value_json TEXT, PRIMARY KEY (study_user_attribute_id), UNIQUE (study_id, \"key\"),"
    " FOREIGN KEY(study_id) REFERENCES studies (study_id));"
    "CREATE TABLE study_system_attributes (study_system_attribute_id INTEGER NOT NULL, study_id INTEGER,"
    " \"key\" VARCHAR(512), value_json TEXT, PRIMARY KEY (study_system_attribute_id), UNIQUE (study_id, \"key\"),"
    " FOREIGN KEY(study_id) REFERENCES studies (study_id));"
    "CREATE TABLE trials (trial_id INTEGER NOT NULL, number INTEGER, study_id INTEGER, state VARCHAR(8) NOT NULL,"
    " datetime_start DATETIME, datetime_complete DATETIME, PRIMARY KEY (trial_id),"
    " FOREIGN KEY(study_id) REFERENCES studies (study_id));"
    "CREATE INDEX ix_trials_study_id ON trials (study_id);"
    "CREATE TABLE trial_user_attributes (trial_user_attribute_id INTEGER NOT NULL, trial_id INTEGER, \"key\" "
    "VARCHAR(512),"
    " value_json TEXT, PRIMARY KEY (trial_user_attribute_id), UNIQUE (trial_id, \"key\"),"
    " FOREIGN KEY(trial_id) REFERENCES trials (trial_id));"
    "CREATE TABLE trial_system_attributes (trial_system_attribute_id INTEGER NOT NULL, trial_id INTEGER,"
    " \"key\" VARCHAR(512), value_json TEXT, PRIMARY KEY (trial_system_attribute_id), UNIQUE (trial_id, \"key\"),"
    " FOREIGN KEY(trial_id) REFERENCES trials (trial_id));"
    "CREATE TABLE trial_params (param_id INTEGER NOT NULL, trial_id INTEGER, param_name VARCHAR(512), param_value "
    "FLOAT,"
    " distribution_json TEXT, PRIMARY KEY (param_id), UNIQUE (trial_id, param_name),"
    " FOREIGN KEY(trial_id) REFERENCES trials (trial_id));"
    "CREATE TABLE trial_values (trial_value_id INTEGER NOT NULL, trial_id INTEGER NOT NULL, objective INTEGER NOT NULL,"
    " value FLOAT, value_type VARCHAR(7) NOT NULL, PRIMARY KEY (trial_value_id), UNIQUE (trial_id, objective),"
    " FOREIGN KEY(trial_id) REFERENCES trials (trial_id));"
    "CREATE TABLE trial_intermediate_values (trial_intermediate_value_id INTEGER NOT NULL, trial_id INTEGER NOT NULL,"
    " step INTEGER NOT NULL, intermediate_value FLOAT, intermediate_value_type VARCHAR(7) NOT NULL,"
    " PRIMARY KEY (trial_intermediate_value_id), UNIQUE (trial_id, step),"
    " FOREIGN KEY(trial_id) REFERENCES trials (trial_id));"
    "CREATE TABLE trial_heartbeats (trial_heartbeat_id INTEGER NOT NULL, trial_id INTEGER NOT NULL,"
    " heartbeat DATETIME NOT NULL, PRIMARY KEY (trial_heartbeat_id), UNIQUE (trial_id),"
    " FOREIGN KEY(trial_id) REFERENCES trials (trial_id));"
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));"
    "INSERT INTO version_info VALUES (1, 12, 'ftengine " FT_VERSION "');"
    "INSERT INTO alembic_version VALUES ('v3.2.0.a');";

// ---- versions -------------------------------------------------------------------------------------------------------

// The first column of the first row of `sql` as text, "" when there is none. For tables that may not be there.
static ft_status ask(ft_storage *storage, const char *sql, char answer[64]) {
    answer[0] = '\0';
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(storage->db, sql, -1, &statement, NULL) != SQLITE_OK) return ft_sql_error(storage);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        snprintf(answer, 64, "%s", text != NULL ? text : "");
    }
    for (char *c = answer; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?'; // it goes to a terminal
    ft_status status = code == SQLITE_ROW || code == SQLITE_DONE ? FT_OK : ft_sql_error(storage);
    sqlite3_finalize(statement);
    return status;
}

static ft_status has_table(ft_storage *storage, const char *name, bool *has) {
    char sql[128], answer[64];
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '%s'", name);
    FT_TRY(ask(storage, sql, answer));
    *has = strcmp(answer, "0") != 0;
    return FT_OK;
}

// Only this one is the present schema; v3.0.0.d is the same but for an index. Optuna leaves the table empty in a file
// that another program made, and goes by schema_version.
ft_status ft_schema_version(const char *path, const char *upgrade, const char *alembic, const char *number,
                            const char *library) {
    if (strcmp(alembic, "v3.2.0.a") == 0 || strcmp(alembic, "v3.0.0.d") == 0) return FT_OK;
    if (alembic[0] == '\0' && strcmp(number, "12") == 0) return FT_OK;
    static const char *const older[] = {"v0.9.0.a", "v1.2.0.a", "v1.3.0.a", "v2.4.0.a",
                                        "v2.6.0.a", "v3.0.0.a", "v3.0.0.b", "v3.0.0.c"};
    bool is_older = alembic[0] == '\0';
    for (size_t i = 0; i < sizeof older / sizeof older[0]; i++)
        is_older = is_older || strcmp(alembic, older[i]) == 0;
    ft_status status = ft_fail(FT_INVALID, path, "its tables are of version '%s' (made by '%s'), not v3.2.0.a",
                               alembic[0] != '\0' ? alembic : number, library);
    if (is_older)
        ft_hint("run: optuna storage upgrade --storage %s", upgrade);
    else
        ft_hint("a newer Optuna made it; a newer ftengine may read it");
    return status;
}

static ft_status check_version(ft_storage *storage) {
    char alembic[64] = "", number[64], library[64];
    bool has = false;
    FT_TRY(has_table(storage, "version_info", &has));
    if (!has) return ft_fail(FT_INVALID, storage->path, "not a database of studies: it has no table version_info");
    FT_TRY(ask(storage, "SELECT schema_version FROM version_info", number));
    FT_TRY(ask(storage, "SELECT library_version FROM version_info", library));
    FT_TRY(has_table(storage, "alembic_version", &has));
    if (has) FT_TRY(ask(storage, "SELECT version_num FROM alembic_version", alembic));
    const char *path = storage->path;
    ft_arena arena = {0};
    const char *upgrade = ft_arena_format(&arena, "sqlite:///%s", path);
    ft_status status = upgrade != NULL ? ft_schema_version(path, upgrade, alembic, number, library) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}

// Two processes may come here at once: the second finds the tables of the first.
static ft_status create_tables(ft_storage *storage) {
    FT_TRY(ft_storage_begin(storage));
    bool made = false;
    ft_status status = has_table(storage, "studies", &made);
    if (status == FT_OK && !made) status = ft_sql_script(storage, schema);
    if (status == FT_OK) return ft_storage_commit(storage);
    ft_storage_rollback(storage);
    return status;
}

ft_status ft_schema_check(ft_storage *storage, bool create) {
    char tables[64];
    FT_TRY(ask(storage, "SELECT COUNT(*) FROM sqlite_master", tables)); // also finds files that are no database
    // Never into a database of something else.
    if (create && strcmp(tables, "0") == 0) FT_TRY(create_tables(storage));
    FT_TRY(check_version(storage));
    for (int id = 0; id <= (int)FT_SQL_LAST_READ; id++)
        FT_TRY(ft_sql_bind(storage, (ft_sql)id, ""));
    return FT_OK;
}

// ---- open and close -------------------------------------------------------------------------------------------------

enum { BUSY_MS = 10000 }; // how long another process's lock is waited for

// A file from outside can hold views and triggers; no study needs any.
static void distrust(sqlite3 *db) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
}

static ft_status path_of_url(const char *url, const char **path) {
    size_t scheme;
    const ft_url_kind kind = ft_url_kind_of(url, &scheme);
    *path = url + scheme;
    if (kind == FT_URL_UNKNOWN) {
        ft_status status = ft_fail(FT_INVALID, url, "studies are kept in SQLite files and in PostgreSQL");
        ft_hint("sqlite:///FILE, four slashes for an absolute path, or postgresql://USER@HOST/DATABASE");
        return status;
    }
    if (**path == '\0' || strcmp(*path, ":memory:") == 0)
        return ft_fail(FT_INVALID, url, "a study needs a file to live in");
    return FT_OK;
}

// A writer that was killed in a transaction leaves a journal, which only who may write can play back; until then a reader
// cannot open the file. One that is alive holds a lock, and SQLite leaves its journal alone.
static ft_status play_journal_back(const char *path) {
    ft_arena arena = {0};
    sqlite3 *db = NULL;
    const char *journal = ft_arena_format(&arena, "%s-journal", path);
    bool there = journal != NULL && access(journal, F_OK) == 0;
    ft_arena_free(&arena);
    if (journal == NULL) return FT_NO_MEMORY;
    if (!there) return FT_OK;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(db, BUSY_MS);
        sqlite3_exec(db, "SELECT COUNT(*) FROM sqlite_master", NULL, NULL, NULL); // what is wrong shows when it is opened
    }
    sqlite3_close(db);
    return FT_OK;
}

ft_status ft_sqlite_blank(const char *url, bool *blank) {
    const char *path;
    struct stat file;
    FT_TRY(path_of_url(url, &path));
    *blank = stat(path, &file) != 0;
    if (*blank) return FT_OK;
    FT_TRY(play_journal_back(path));
    *blank = stat(path, &file) != 0 || file.st_size == 0;
    return FT_OK;
}

ft_status ft_sqlite_full_sync(ft_storage *storage, bool full) {
    return ft_sql_script(storage, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

// Where several processes open a plain file at once, each of them reads it and wants to be the only one: SQLite does not let
// them wait for each other, it refuses all but one at once, whatever the busy timeout. Who was refused lets go and asks again.
// Where a WAL is impossible (network file systems) SQLite stays with its journal, which is safe too, only slower.
static ft_status use_wal(ft_storage *storage) {
    enum { PAUSE_MS = 2 };
    sqlite3_busy_timeout(storage->db, 0); // all of the waiting is done here
    int code = SQLITE_BUSY;
    for (int waited = 0; code == SQLITE_BUSY && waited <= BUSY_MS; waited += PAUSE_MS) {
        if (waited > 0) sqlite3_sleep(PAUSE_MS);
        code = sqlite3_exec(storage->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    }
    ft_status status = code == SQLITE_OK ? FT_OK : ft_sql_error(storage);
    sqlite3_busy_timeout(storage->db, BUSY_MS);
    return status;
}

// SQLite keeps what several processes agree on in shared memory and in locks, which other machines do not see, or not
// in time.
static ft_status check_disk(const char *path) {
    const char *network = ft_network_disk(path);
    if (network == NULL) return FT_OK;
    ft_fail(FT_INVALID, path, "this is a network disk (%s), where SQLite can lose what several machines write",
            network);
    ft_hint("there --storage journal:FILE works, Optuna's journal; from anywhere --storage "
            "postgresql://USER@HOST/DATABASE");
    return FT_INVALID;
}

static ft_status open_file(ft_storage *storage, int flags) {
    bool create = (flags & FT_STORAGE_CREATE) != 0;
    if (storage->writable) FT_TRY(check_disk(storage->path));
    if (!storage->writable) FT_TRY(play_journal_back(storage->path));
    if (!create && access(storage->path, F_OK) != 0)
        return ft_fail(FT_INVALID, storage->path, "there is no such study file");
    int mode = storage->writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (create) mode |= SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(storage->path, &storage->db, mode | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        if (storage->db == NULL) return ft_fail_memory(0, "SQLite");
        return ft_fail(FT_INVALID, storage->path, "the study file cannot be opened: %s", sqlite3_errmsg(storage->db));
    }
    sqlite3_busy_timeout(storage->db, BUSY_MS);
    distrust(storage->db);
    // Before anything is written: the file may be somebody else's.
    FT_TRY(ft_schema_check(storage, create));
    if (!storage->writable) return FT_OK;
    FT_TRY(use_wal(storage));
    return ft_sqlite_full_sync(storage, (flags & FT_STORAGE_FULL_SYNC) != 0);
}

ft_status ft_sqlite_open(ft_storage *storage, const char *url, int flags) {
    const char *path;
    FT_TRY(path_of_url(url, &path));
    storage->path = strdup(path);
    return storage->path != NULL ? open_file(storage, flags) : ft_fail_memory(strlen(path), "a path");
}

ft_status ft_sqlite_close(ft_storage *storage) {
    ft_status status = FT_OK;
    for (int id = 0; id < (int)FT_SQL_COUNT; id++)
        sqlite3_finalize(storage->statements[id]);
    if (storage->db != NULL && storage->writable) {
        // Back to one plain file. As long as another process has it open that is refused, and left to the last one. In one that was
        // moved (moved.c) is what was saved; what lies at its old place may be somebody else's.
        const char *plain = ft_storage_moved(storage) ? "PRAGMA wal_checkpoint(TRUNCATE)" : "PRAGMA journal_mode = DELETE";
        sqlite3_busy_timeout(storage->db, 200);
        int code = sqlite3_exec(storage->db, plain, NULL, NULL, NULL);
        if (code != SQLITE_OK && code != SQLITE_BUSY && code != SQLITE_LOCKED) status = ft_sql_error(storage);
    }
    sqlite3_close(storage->db);
    if (storage->lock >= 0) close(storage->lock); // behind SQLite's, see lock.c
    return status;
}

// internal.h - behind storage.h: every statement of the program in one list, which says in SQLite's words what each
// means, and what a kind of database (sqlite.c, postgres.c, journal.c) has to do for this room. A statement is prepared
// on first use.
#ifndef FT_HPO_STORAGE_INTERNAL_H
#define FT_HPO_STORAGE_INTERNAL_H

#include "hpo/storage/storage.h"

#include <sqlite3.h>
#include <stdarg.h>

#define UNFINISHED " FROM trials WHERE trial_id = ?1 AND state IN ('RUNNING', 'WAITING') "
// Statements up to FT_SQL_LAST_READ are prepared when a file is opened, which finds missing tables and columns.
#define FT_STATEMENTS(X)                                                                                               \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                                        \
    X(BEGIN_READ, "BEGIN")                                                                                             \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(DATA_VERSION, "PRAGMA data_version")                                                                             \
    X(STUDIES, "SELECT study_id, study_name FROM studies ORDER BY study_id")                                           \
    X(STUDY_BY_NAME, "SELECT study_id FROM studies WHERE study_name = ?1")                                             \
    X(DIRECTIONS, "SELECT objective, direction FROM study_directions WHERE study_id = ?1 ORDER BY objective")          \
    X(STATES, "SELECT state, COUNT(*), MIN(datetime_start), MAX(datetime_complete) FROM trials WHERE study_id = ?1 "   \
              "GROUP BY state")                                                                                        \
    X(TRIALS_AFTER, "SELECT trial_id, number, state FROM trials WHERE study_id = ?1 AND trial_id > ?2 "                \
                    "ORDER BY trial_id")                                                                               \
    X(TRIAL, "SELECT state, datetime_start, datetime_complete FROM trials WHERE trial_id = ?1")                        \
    X(PARAMS, "SELECT param_name, param_value, distribution_json FROM trial_params WHERE trial_id = ?1 "               \
              "ORDER BY param_id")                                                                                     \
    X(VALUES, "SELECT objective, value, value_type FROM trial_values WHERE trial_id = ?1 ORDER BY objective")          \
    X(REPORTS, "SELECT step, intermediate_value, intermediate_value_type FROM trial_intermediate_values "              \
               "WHERE trial_id = ?1 ORDER BY step")                                                                    \
    X(USER_ATTRIBUTES, "SELECT key, value_json FROM trial_user_attributes WHERE trial_id = ?1 "                        \
                       "ORDER BY trial_user_attribute_id")                                                             \
    X(SYSTEM_ATTRIBUTES, "SELECT key, value_json FROM trial_system_attributes WHERE trial_id = ?1 "                    \
                         "ORDER BY trial_system_attribute_id")                                                         \
    X(STUDY_USER_ATTRIBUTES, "SELECT key, value_json FROM study_user_attributes WHERE study_id = ?1 "                  \
                             "ORDER BY study_user_attribute_id")                                                       \
    X(STUDY_SYSTEM_ATTRIBUTES, "SELECT key, value_json FROM study_system_attributes WHERE study_id = ?1 "              \
                               "ORDER BY study_system_attribute_id")                                                   \
    X(HEARTBEAT_AGE, "SELECT (julianday('now') - julianday(heartbeat)) * 86400 FROM trial_heartbeats "                 \
                     "WHERE trial_id = ?1")                                                                            \
    X(STUDY_INSERT, "INSERT INTO studies (study_name) VALUES (?1)")                                                    \
    X(DIRECTION_INSERT, "INSERT INTO study_directions (direction, study_id, objective) VALUES (?1, ?2, ?3)")           \
    X(TRIAL_INSERT, "INSERT INTO trials (number, study_id, state, datetime_start) VALUES (?1, ?2, ?3, ?4)")            \
    X(TRIAL_START, "UPDATE trials SET state = 'RUNNING', datetime_start = ?2 WHERE trial_id = ?1 "                     \
                   "AND state = 'WAITING'")                                                                            \
    X(TRIAL_FINISH, "UPDATE trials SET state = ?2, datetime_start = COALESCE(datetime_start, ?3), "                    \
                    "datetime_complete = ?3 WHERE trial_id = ?1 AND state IN ('RUNNING', 'WAITING')")                  \
    X(VALUE_SET, "INSERT INTO trial_values (trial_id, objective, value, value_type) SELECT ?1, ?2, ?3, ?4" UNFINISHED  \
                 "ON CONFLICT (trial_id, objective) DO UPDATE SET value = excluded.value, "                            \
                 "value_type = excluded.value_type")                                                                   \
    X(PARAM_SET, "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "                    \
                 "SELECT ?1, ?2, ?3, ?4" UNFINISHED "ON CONFLICT (trial_id, param_name) DO UPDATE "                    \
                 "SET param_value = excluded.param_value, distribution_json = excluded.distribution_json")             \
    X(REPORT_SET, "INSERT INTO trial_intermediate_values (trial_id, step, intermediate_value, "                        \
                  "intermediate_value_type) SELECT ?1, ?2, ?3, ?4" UNFINISHED                                          \
                  "ON CONFLICT (trial_id, step) DO UPDATE SET step = step")                                            \
    X(REPORTS_DELETE, "DELETE FROM trial_intermediate_values WHERE trial_id = ?1")                                     \
    X(USER_ATTRIBUTE_SET, "INSERT INTO trial_user_attributes (trial_id, key, value_json) SELECT ?1, ?2, ?3" UNFINISHED \
                          "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json")                \
    X(SYSTEM_ATTRIBUTE_SET,                                                                                            \
      "INSERT INTO trial_system_attributes (trial_id, key, value_json) SELECT ?1, ?2, ?3" UNFINISHED                   \
      "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json")                                    \
    X(STUDY_USER_ATTRIBUTE_SET, "INSERT INTO study_user_attributes (study_id, key, value_json) VALUES (?1, ?2, ?3) "   \
                                "ON CONFLICT (study_id, key) DO UPDATE SET value_json = excluded.value_json")          \
    X(STUDY_SYSTEM_ATTRIBUTE_SET, "INSERT INTO study_system_attributes (study_id, key, value_json) "                   \
                                  "VALUES (?1, ?2, ?3) "                                                               \
                                  "ON CONFLICT (study_id, key) DO UPDATE SET value_json = excluded.value_json")        \
    X(HEARTBEAT_SET, "INSERT INTO trial_heartbeats (trial_id, heartbeat) SELECT ?1, CURRENT_TIMESTAMP" UNFINISHED      \
                     "ON CONFLICT (trial_id) DO UPDATE SET heartbeat = excluded.heartbeat")                            \
    X(TRIAL_TIMES_SET, "UPDATE trials SET datetime_start = ?2, datetime_complete = ?3 WHERE trial_id = ?1")

typedef enum ft_sql {
#define X(name, text) FT_SQL_##name,
    FT_STATEMENTS(X)
#undef X
        FT_SQL_COUNT,
    FT_SQL_LAST_READ = FT_SQL_HEARTBEAT_AGE,
} ft_sql;

// How a kind of database does it. Of a storage that is open, but for blank.
typedef struct ft_database {
    ft_status (*bind)(ft_storage *storage, ft_sql id, const char *types, va_list arguments);
    ft_status (*step)(ft_storage *storage, ft_sql id, bool *row);
    void (*reset)(ft_storage *storage, ft_sql id);
    ft_status (*run)(ft_storage *storage, ft_sql id, int *changed, const char *types, va_list arguments);
    int64_t (*last_id)(ft_storage *storage); // of the row that was inserted last
    const char *(*text)(ft_storage *storage, ft_sql id, int column, size_t *length); // NULL: no text
    bool (*integer)(ft_storage *storage, ft_sql id, int column, int64_t *out);
    bool (*number)(ft_storage *storage, ft_sql id, int column, double *out);
    ft_status (*begin)(ft_storage *storage); // of the outermost group
    ft_status (*commit)(ft_storage *storage);
    void (*rollback)(ft_storage *storage); // keeps the present error
    // A refresh begins, and, unless it failed or there is nothing new, ends.
    ft_status (*look)(ft_stored *study, bool *news);
    void (*looked)(ft_stored *study, bool whole);
    ft_status (*claim)(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got);
    ft_status (*claimed)(ft_storage *storage, const ft_claim *claim, bool *by_others);
    // NULL of those that do it at once: storage.h's claim_surely and commit_releasing, of the outermost group.
    ft_status (*claim_surely)(ft_storage *storage, const ft_claim *claim);
    ft_status (*commit_releasing)(ft_storage *storage, const ft_claim *claim);
    ft_status (*delete_study)(ft_storage *storage, int64_t id); // in a group
    ft_status (*full_sync)(ft_storage *storage, bool full);
    ft_status (*blank)(const char *url, bool *blank);
    ft_status (*open)(ft_storage *storage, const char *url, int flags);
    ft_status (*close)(ft_storage *storage); // what open has made, also a part of it
} ft_database;
extern const ft_database ft_sqlite, ft_postgres_database, ft_journal_database;

// A trial that will be inserted if the look of a group finds no new ones; a server's database does it with the look.
typedef struct ft_next_trial {
    const char *state, *start; // start NULL: it waits
} ft_next_trial;

struct ft_storage {
    const ft_database *is;
    const ft_next_trial *next; // during a refresh; NULL: none will be
    char *path;                // what messages call it: a file, or an address without a password
    bool writable;
    int depth;                    // of open groups
    struct ft_postgres *postgres; // postgres.h
    struct ft_journal *journal;   // journal.h
    // SQLite's
    sqlite3 *db;
    int lock;        // lock.c; -1: none
    bool copied;     // moved.c: what is in the file without a name was saved, or could not be
    int64_t version; // of the file, as the last look found it
    sqlite3_stmt *statements[FT_SQL_COUNT];
};

// What SQLite says went wrong, as an error of ours.
ft_status ft_sql_error(ft_storage *storage);
// A statement with its parameters: 'i' int64_t, 'd' double (not finite: NULL), 't' text, 'n' NULL (no argument).
ft_status ft_sql_bind(ft_storage *storage, ft_sql id, const char *types, ...);
// The next row of a bound statement. After the last one *row is false and the statement is reset.
ft_status ft_sql_step(ft_storage *storage, ft_sql id, bool *row);
void ft_sql_reset(ft_storage *storage, ft_sql id); // leaves a statement before its last row
// A statement without rows; *changed (may be NULL) is how many rows it wrote.
ft_status ft_sql_run(ft_storage *storage, ft_sql id, int *changed, const char *types, ...);
int64_t ft_sql_last_id(ft_storage *storage);
// SQL that is used once, without parameters and rows: SQLite's.
ft_status ft_sql_script(ft_storage *storage, const char *sql);

// Columns of the present row. A text is valid until the next step; NULL: it is NULL, or not text, or holds a NUL
// or bytes that are no UTF-8.
const char *ft_sql_text(ft_storage *storage, ft_sql id, int column);
bool ft_sql_int(ft_storage *storage, ft_sql id, int column, int64_t *out);
bool ft_sql_double(ft_storage *storage, ft_sql id, int column, double *out); // integers too
// A value and its type (FINITE, INF_POS, INF_NEG, NAN) in two columns.
bool ft_sql_typed(ft_storage *storage, ft_sql id, int column, double *out);
const char *ft_sql_type_name(double value);

// schema.c, SQLite's.
ft_status ft_schema_check(ft_storage *storage, bool create);
ft_status ft_sqlite_open(ft_storage *storage, const char *url, int flags);
ft_status ft_sqlite_close(ft_storage *storage);
ft_status ft_sqlite_blank(const char *url, bool *blank);
ft_status ft_sqlite_full_sync(ft_storage *storage, bool full);
// Of a version of the tables: FT_INVALID unless it is ours. `upgrade`: the URL that Optuna's command takes.
ft_status ft_schema_version(const char *path, const char *upgrade, const char *alembic, const char *number,
                            const char *library);
// studies.c: the tables below a trial and below a study, and what their rows hold beside an id of their own and its.
typedef struct ft_table {
    const char *name, *columns;
} ft_table;
enum { FT_TRIAL_TABLES = 6, FT_STUDY_TABLES = 3 };
extern const ft_table ft_trial_tables[FT_TRIAL_TABLES], ft_study_tables[FT_STUDY_TABLES];
// Every row of a study, as SQL that run() has carried out, in a group.
ft_status ft_study_delete_rows(ft_storage *storage, int64_t id, ft_status (*run)(ft_storage *storage, const char *sql));
// copy.c: from one kind of database to another.
ft_status ft_storage_copy_rows(ft_storage *to, ft_storage *from, const char *name, const char *new_name);
// lock.c
uint64_t ft_claim_hash(const ft_claim *claim);
const char *
ft_network_disk(const char *path); // what kind of network disk the file is on, or is to be on; NULL: on none
ft_status ft_sqlite_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got);
ft_status ft_sqlite_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others);
// moved.c. FT_FAILED: the file is no longer where it was opened.
bool ft_storage_moved(ft_storage *storage);
ft_status ft_sql_check_place(ft_storage *storage);
// "YYYY-MM-DD HH:MM:SS.ffffff" in UTC and back; -1 when it is none.
void ft_sql_now(char text[32]);
int64_t ft_sql_time(const char *text);

ft_status ft_state_of(const char *name, ft_trial_state *state); // FT_INVALID without a WHERE for other words

// load.c
ft_status ft_stored_load(ft_storage *storage, int64_t id, const char *name, ft_stored **out);
// The ids and the text of a parameter's name and distribution, after a check that the name keeps its kind.
ft_status ft_stored_seen(ft_stored *study, const char *name, const ft_distribution *distribution, int *name_id,
                         int *distribution_id, const char **json);
ft_status ft_stored_append(ft_stored *study, int64_t trial_id, ft_trial_state state, int64_t *number);
// studies.c. name NULL: the only one.
ft_status ft_storage_find_study(ft_storage *storage, const char *name, int64_t *id, char **found);
// write.c. FT_OK for a trial that exists and is not finished.
ft_status ft_stored_changeable(const ft_stored *study, int64_t number);
ft_status ft_stored_gone(const ft_stored *study, int64_t number); // FT_FAILED: another process finished it

#endif

// internal.h - SQL behind storage.h: every statement of the program in one list, prepared on first use and kept.
#ifndef FT_HPO_STORAGE_INTERNAL_H
#define FT_HPO_STORAGE_INTERNAL_H

#include "hpo/storage/storage.h"

#include <sqlite3.h>

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
                     "ON CONFLICT (trial_id) DO UPDATE SET heartbeat = excluded.heartbeat")

typedef enum ft_sql {
#define X(name, text) FT_SQL_##name,
    FT_STATEMENTS(X)
#undef X
        FT_SQL_COUNT,
    FT_SQL_LAST_READ = FT_SQL_HEARTBEAT_AGE,
} ft_sql;

struct ft_storage {
    sqlite3 *db;
    char *path;
    bool writable;
    int lock;  // lock.c; -1: none
    bool copied; // moved.c: what is in the file without a name was saved, or could not be
    int depth; // of open groups
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
// SQL that is used once, without parameters and rows.
ft_status ft_sql_script(ft_storage *storage, const char *sql);

// Columns of the present row. A text is valid until the next step; NULL: it is NULL, or not text, or holds a NUL
// or bytes that are no UTF-8.
const char *ft_sql_text(ft_storage *storage, ft_sql id, int column);
bool ft_sql_int(ft_storage *storage, ft_sql id, int column, int64_t *out);
bool ft_sql_double(ft_storage *storage, ft_sql id, int column, double *out); // integers too
// A value and its type (FINITE, INF_POS, INF_NEG, NAN) in two columns.
bool ft_sql_typed(ft_storage *storage, ft_sql id, int column, double *out);
const char *ft_sql_type_name(double value);

ft_status ft_schema_check(ft_storage *storage, bool create); // schema.c
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

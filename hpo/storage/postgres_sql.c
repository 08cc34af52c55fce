// postgres_sql.c - the statements of internal.h as PostgreSQL has them. A write of a trial holds the trial's row, so
// that what it asks of its state is so when it is written.
#include "hpo/storage/postgres.h"

#define UNFINISHED_ROW " FROM trials WHERE trial_id = $1::int AND state IN ('RUNNING', 'WAITING') FOR NO KEY UPDATE "
// Trials of the study $1 behind $2, by the index of their ids alone: that of studies would be read from end to end. The
// upper bound is the largest id that there is: of two bounds that it does not know the server's planner expects a few
// rows, of one a third of the table.
#define BEHIND "trial_id > $2::int AND trial_id <= $3::int AND study_id + 0 = $1::int"
// Of these, and of those of the list $4. They are found in the statement itself: a list of them would have to be
// fetched first. (A join with `trials` reads the whole table.)
#define DETAILS(columns, table, order)                                                                                 \
    "SELECT trial_id, " columns " FROM " table                                                                         \
    " WHERE trial_id = ANY ($4::int[] || ARRAY(SELECT trial_id FROM trials WHERE " BEHIND                              \
    ")) ORDER BY trial_id, " order

const char *const ft_pq_texts[FT_PQ_COUNT] = {
    [FT_SQL_STUDIES] = "SELECT study_id, study_name FROM studies ORDER BY study_id",
    [FT_SQL_STUDY_BY_NAME] = "SELECT study_id FROM studies WHERE study_name = $1::text",
    [FT_SQL_DIRECTIONS] =
        "SELECT objective, direction FROM study_directions WHERE study_id = $1::int ORDER BY objective",
    [FT_SQL_STATES] =
        "SELECT state, COUNT(*), MIN(datetime_start), MAX(datetime_complete) FROM trials WHERE study_id = $1::int "
        "GROUP BY state",
    [FT_SQL_TRIALS_AFTER] =
        "SELECT trial_id, number, state FROM trials WHERE study_id = $1::int AND trial_id > $2::int ORDER BY trial_id",
    [FT_SQL_TRIAL] = "SELECT state, datetime_start, datetime_complete FROM trials WHERE trial_id = $1::int",
    [FT_SQL_PARAMS] = "SELECT param_name, param_value, distribution_json FROM trial_params WHERE trial_id = $1::int "
                      "ORDER BY param_id",
    [FT_SQL_VALUES] =
        "SELECT objective, value, value_type FROM trial_values WHERE trial_id = $1::int ORDER BY objective",
    [FT_SQL_REPORTS] = "SELECT step, intermediate_value, intermediate_value_type FROM trial_intermediate_values "
                       "WHERE trial_id = $1::int ORDER BY step",
    [FT_SQL_USER_ATTRIBUTES] =
        "SELECT key, value_json FROM trial_user_attributes WHERE trial_id = $1::int ORDER BY trial_user_attribute_id",
    [FT_SQL_SYSTEM_ATTRIBUTES] = "SELECT key, value_json FROM trial_system_attributes WHERE trial_id = $1::int ORDER "
                                 "BY trial_system_attribute_id",
    [FT_SQL_STUDY_USER_ATTRIBUTES] =
        "SELECT key, value_json FROM study_user_attributes WHERE study_id = $1::int ORDER BY study_user_attribute_id",
    [FT_SQL_STUDY_SYSTEM_ATTRIBUTES] = "SELECT key, value_json FROM study_system_attributes WHERE study_id = $1::int "
                                       "ORDER BY study_system_attribute_id",
    // Both are the session's local time, as Optuna has them: a session of another TimeZone would find a fresh one
    // stale.
    [FT_SQL_HEARTBEAT_AGE] = "SELECT EXTRACT(EPOCH FROM (CURRENT_TIMESTAMP::timestamp - heartbeat)) FROM "
                             "trial_heartbeats WHERE trial_id = $1::int",
    [FT_SQL_STUDY_INSERT] = "INSERT INTO studies (study_name) VALUES ($1::text) RETURNING study_id",
    [FT_SQL_DIRECTION_INSERT] = "INSERT INTO study_directions (direction, study_id, objective) VALUES "
                                "($1::text::studydirection, $2::int, $3::int)",
    [FT_SQL_TRIAL_INSERT] = "INSERT INTO trials (number, study_id, state, datetime_start) "
                            "VALUES ($1::int, $2::int, $3::text::trialstate, $4::text::timestamp) RETURNING trial_id",
    [FT_SQL_TRIAL_START] =
        "UPDATE trials SET state = 'RUNNING', datetime_start = $2::text::timestamp WHERE trial_id = $1::int "
        "AND state = 'WAITING'",
    [FT_SQL_TRIAL_FINISH] =
        "UPDATE trials SET state = $2::text::trialstate, datetime_start = COALESCE(datetime_start, "
        "$3::text::timestamp), "
        "datetime_complete = $3::text::timestamp WHERE trial_id = $1::int AND state IN ('RUNNING', 'WAITING')",
    [FT_SQL_VALUE_SET] =
        "INSERT INTO trial_values (trial_id, objective, value, value_type) "
        "SELECT $1::int, $2::int, $3::float8, $4::text::trialvaluetype" UNFINISHED_ROW
        "ON CONFLICT (trial_id, objective) DO UPDATE SET value = excluded.value, value_type = excluded.value_type",
    [FT_SQL_PARAM_SET] = "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "
                         "SELECT $1::int, $2::text, $3::float8, $4::text" UNFINISHED_ROW
                         "ON CONFLICT (trial_id, param_name) DO UPDATE SET param_value = excluded.param_value, "
                         "distribution_json = excluded.distribution_json",
    [FT_SQL_REPORT_SET] =
        "INSERT INTO trial_intermediate_values (trial_id, step, intermediate_value, intermediate_value_type) "
        "SELECT $1::int, $2::bigint, $3::float8, $4::text::trialintermediatevaluetype" UNFINISHED_ROW
        "ON CONFLICT (trial_id, step) DO UPDATE SET step = excluded.step", // the first one stays
    [FT_SQL_REPORTS_DELETE] = "DELETE FROM trial_intermediate_values WHERE trial_id = $1::int",
    [FT_SQL_USER_ATTRIBUTE_SET] =
        "INSERT INTO trial_user_attributes (trial_id, key, value_json) SELECT $1::int, $2::text, "
        "$3::text" UNFINISHED_ROW "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json",
    [FT_SQL_SYSTEM_ATTRIBUTE_SET] =
        "INSERT INTO trial_system_attributes (trial_id, key, value_json) SELECT $1::int, $2::text, "
        "$3::text" UNFINISHED_ROW "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json",
    [FT_SQL_STUDY_USER_ATTRIBUTE_SET] =
        "INSERT INTO study_user_attributes (study_id, key, value_json) VALUES ($1::int, $2::text, $3::text) "
        "ON CONFLICT (study_id, key) DO UPDATE SET value_json = excluded.value_json",
    [FT_SQL_STUDY_SYSTEM_ATTRIBUTE_SET] =
        "INSERT INTO study_system_attributes (study_id, key, value_json) VALUES ($1::int, $2::text, $3::text) "
        "ON CONFLICT (study_id, key) DO UPDATE SET value_json = excluded.value_json",
    [FT_SQL_HEARTBEAT_SET] =
        "INSERT INTO trial_heartbeats (trial_id, heartbeat) SELECT $1::int, CURRENT_TIMESTAMP" UNFINISHED_ROW
        "ON CONFLICT (trial_id) DO UPDATE SET heartbeat = excluded.heartbeat",
    [FT_SQL_TRIAL_TIMES_SET] =
        "UPDATE trials SET datetime_start = $2::text::timestamp, datetime_complete = $3::text::timestamp "
        "WHERE trial_id = $1::int",
    [FT_PQ_LOCK_STUDY] = "SELECT 1 FROM studies WHERE study_id = $1::int FOR UPDATE",
    // Of one that has ended it is an error, which takes the group back: so nobody waits for the answer alone.
    [FT_PQ_GUARD] = "SELECT 1 / COUNT(*) FROM (SELECT 1" UNFINISHED_ROW ") AS held",
    [FT_PQ_INSERT_NEXT] =
        "INSERT INTO trials (number, study_id, state, datetime_start) "
        "SELECT $4::int, $1::int, $5::text::trialstate, $6::text::timestamp "
        "WHERE NOT EXISTS (SELECT 1 FROM trials WHERE " BEHIND ") RETURNING trial_id",
    [FT_PQ_PARAMS_SET] =
        "INSERT INTO trial_params (trial_id, param_name, distribution_json, param_value) "
        "SELECT $1::int, * FROM unnest($2::text[], $3::text[], $4::float8[]) ON CONFLICT (trial_id, param_name) DO "
        "UPDATE SET param_value = excluded.param_value, distribution_json = excluded.distribution_json",
    [FT_PQ_USER_ATTRIBUTES_SET] =
        "INSERT INTO trial_user_attributes (trial_id, key, value_json) "
        "SELECT $1::int, * FROM unnest($2::text[], $3::text[]) "
        "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json",
    [FT_PQ_SYSTEM_ATTRIBUTES_SET] =
        "INSERT INTO trial_system_attributes (trial_id, key, value_json) "
        "SELECT $1::int, * FROM unnest($2::text[], $3::text[]) "
        "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json",
    [FT_PQ_ALL] = "SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials "
                  "WHERE study_id = $1::int ORDER BY trial_id",
    [FT_PQ_NEW] = "SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials "
                  "WHERE " BEHIND " ORDER BY trial_id",
    [FT_PQ_KNOWN] = "SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials "
                    "WHERE trial_id = ANY ($1::int[]) ORDER BY trial_id",
    [FT_PQ_KNOWN_LOCKED] = "SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials "
                           "WHERE trial_id = ANY ($1::int[]) ORDER BY trial_id FOR NO KEY UPDATE",
    [FT_PQ_LOOK_PARAMS] = DETAILS("param_name, param_value, distribution_json", "trial_params", "param_id"),
    [FT_PQ_LOOK_VALUES] = DETAILS("objective, value, value_type", "trial_values", "objective"),
    [FT_PQ_LOOK_REPORTS] =
        DETAILS("step, intermediate_value, intermediate_value_type", "trial_intermediate_values", "step"),
    [FT_PQ_LOOK_SYSTEM] = DETAILS("key, value_json", "trial_system_attributes", "trial_system_attribute_id"),
    [FT_PQ_LOOK_USER] = DETAILS("key, value_json", "trial_user_attributes", "trial_user_attribute_id"),
    [FT_PQ_LOOK_CLAIMS] =
        "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND "
        "granted "
        "AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    [FT_PQ_LOCK_ALONE] = "SELECT pg_try_advisory_lock($1::bigint)::int",
    [FT_PQ_LOCK_SHARED] = "SELECT pg_try_advisory_lock_shared($1::bigint)::int",
    // Nobody should have it: else an error, which takes the group back.
    [FT_PQ_LOCK_OR_FAIL] = "SELECT 1 / pg_try_advisory_lock($1::bigint)::int",
    [FT_PQ_UNLOCK_ALONE] = "SELECT pg_advisory_unlock($1::bigint)::int",
    [FT_PQ_UNLOCK_SHARED] = "SELECT pg_advisory_unlock_shared($1::bigint)::int",
    [FT_PQ_CLAIMED] = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid "
                      "<> pg_backend_pid() "
                      "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                      "AND (classid::bigint << 32) | objid::bigint = $1::bigint",
};

// postgres_schema.c - Optuna's tables in PostgreSQL, as SQLAlchemy makes them there, and their versions.
#include "hpo/storage/postgres.h"

#include <stdio.h>
#include <string.h>

static const char *const schema[] = {
    "CREATE TYPE studydirection AS ENUM ('NOT_SET', 'MINIMIZE', 'MAXIMIZE')",
    "CREATE TYPE trialstate AS ENUM ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL', 'WAITING')",
    "CREATE TYPE trialvaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG')",
    "CREATE TYPE trialintermediatevaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG', 'NAN')",
    "CREATE TABLE studies (study_id SERIAL NOT NULL, study_name VARCHAR(512) NOT NULL, PRIMARY KEY (study_id))",
    "CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name)",
    "CREATE TABLE version_info (version_info_id INTEGER NOT NULL, schema_version INTEGER, library_version VARCHAR(256),"
    " PRIMARY KEY (version_info_id), CHECK (version_info_id = 1))",
    "CREATE TABLE study_directions (study_direction_id SERIAL NOT NULL, direction studydirection NOT NULL, study_id "
    "INTEGER NOT NULL,"
    " objective INTEGER NOT NULL, PRIMARY KEY (study_direction_id), UNIQUE (study_id, objective),"
    " FOREIGN KEY (study_id) REFERENCES studies (study_id))",
    "CREATE TABLE study_user_attributes (study_user_attribute_id SERIAL NOT NULL, study_id INTEGER, key VARCHAR(512), "
    "value_json TEXT,"
    " PRIMARY KEY (study_user_attribute_id), UNIQUE (study_id, key), FOREIGN KEY (study_id) REFERENCES studies "
    "(study_id))",
    "CREATE TABLE study_system_attributes (study_system_attribute_id SERIAL NOT NULL, study_id INTEGER, key "
    "VARCHAR(512), value_json TEXT,"
    " PRIMARY KEY (study_system_attribute_id), UNIQUE (study_id, key), FOREIGN KEY (study_id) REFERENCES studies "
    "(study_id))",
    "CREATE TABLE trials (trial_id SERIAL NOT NULL, number INTEGER, study_id INTEGER, state trialstate NOT NULL,"
    " datetime_start TIMESTAMP WITHOUT TIME ZONE, datetime_complete TIMESTAMP WITHOUT TIME ZONE, PRIMARY KEY "
    "(trial_id),"
    " FOREIGN KEY (study_id) REFERENCES studies (study_id))",
    "CREATE INDEX ix_trials_study_id ON trials (study_id)",
    "CREATE TABLE trial_user_attributes (trial_user_attribute_id SERIAL NOT NULL, trial_id INTEGER, key VARCHAR(512), "
    "value_json TEXT,"
    " PRIMARY KEY (trial_user_attribute_id), UNIQUE (trial_id, key), FOREIGN KEY (trial_id) REFERENCES trials "
    "(trial_id))",
    "CREATE TABLE trial_system_attributes (trial_system_attribute_id SERIAL NOT NULL, trial_id INTEGER, key "
    "VARCHAR(512), value_json TEXT,"
    " PRIMARY KEY (trial_system_attribute_id), UNIQUE (trial_id, key), FOREIGN KEY (trial_id) REFERENCES trials "
    "(trial_id))",
    "CREATE TABLE trial_params (param_id SERIAL NOT NULL, trial_id INTEGER, param_name VARCHAR(512), param_value "
    "FLOAT(53),"
    " distribution_json TEXT, PRIMARY KEY (param_id), UNIQUE (trial_id, param_name), FOREIGN KEY (trial_id) REFERENCES "
    "trials (trial_id))",
    "CREATE TABLE trial_values (trial_value_id SERIAL NOT NULL, trial_id INTEGER NOT NULL, objective INTEGER NOT NULL, "
    "value FLOAT(53),"
    " value_type trialvaluetype NOT NULL, PRIMARY KEY (trial_value_id), UNIQUE (trial_id, objective),"
    " FOREIGN KEY (trial_id) REFERENCES trials (trial_id))",
    "CREATE TABLE trial_intermediate_values (trial_intermediate_value_id SERIAL NOT NULL, trial_id INTEGER NOT NULL, "
    "step INTEGER NOT NULL,"
    " intermediate_value FLOAT(53), intermediate_value_type trialintermediatevaluetype NOT NULL, PRIMARY KEY "
    "(trial_intermediate_value_id),"
    " UNIQUE (trial_id, step), FOREIGN KEY (trial_id) REFERENCES trials (trial_id))",
    "CREATE TABLE trial_heartbeats (trial_heartbeat_id SERIAL NOT NULL, trial_id INTEGER NOT NULL,"
    " heartbeat TIMESTAMP WITHOUT TIME ZONE NOT NULL, PRIMARY KEY (trial_heartbeat_id), UNIQUE (trial_id),"
    " FOREIGN KEY (trial_id) REFERENCES trials (trial_id))",
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY "
    "(version_num))",
    "INSERT INTO version_info (version_info_id, schema_version, library_version) VALUES (1, 12, 'ftengine " FT_VERSION
    "')",
    "INSERT INTO alembic_version VALUES ('v3.2.0.a')",
};

// A cell as text, "" when there is none.
static void take(ft_storage *storage, const PGresult *rows, int column, char answer[64]) {
    const ft_pq *pq = storage->postgres->pq;
    answer[0] = '\0';
    if (rows != NULL && pq->ntuples(rows) > 0) snprintf(answer, 64, "%s", pq->getvalue(rows, 0, column));
    for (char *c = answer; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?'; // it goes to a terminal
}

// Looked up in the catalogue itself: to_regclass() may remember that a table was not there a moment ago.
static ft_status look_for_tables(ft_storage *storage, bool *info, bool *alembic) {
    PGresult *rows = NULL;
    int64_t count[2] = {0, 0};
    FT_TRY(
        ft_pq_ask(storage,
                  "SELECT COUNT(*) FILTER (WHERE relname = 'version_info'), COUNT(*) FILTER (WHERE relname = "
                  "'alembic_version') FROM pg_class WHERE relname IN ('version_info', 'alembic_version') AND relkind "
                  "IN ('r', 'p') AND pg_table_is_visible(oid)",
                  &rows));
    for (int i = 0; i < 2; i++)
        ft_pq_cell(storage, rows, 0, i, &count[i]);
    ft_pq_drop(storage, &rows);
    *info = count[0] > 0;
    *alembic = count[1] > 0;
    return FT_OK;
}

ft_status ft_pq_has_tables(ft_storage *storage, bool *has) {
    bool alembic;
    return look_for_tables(storage, has, &alembic);
}

// Two processes may come here at once: the second waits, and finds the tables of the first.
static ft_status create_locked(ft_storage *storage) {
    bool made;
    FT_TRY(ft_pq_ask(storage, "SELECT pg_advisory_xact_lock(7308326966020175)", NULL)); // "ftengine", as it were
    FT_TRY(ft_pq_has_tables(storage, &made));
    for (size_t i = 0; !made && i < sizeof schema / sizeof schema[0]; i++)
        FT_TRY(ft_pq_send_text(storage, schema[i], NULL));
    return FT_OK;
}

static ft_status create_tables(ft_storage *storage) {
    FT_TRY(ft_storage_begin(storage));
    ft_status status = create_locked(storage);
    if (status == FT_OK) status = ft_storage_commit(storage);
    if (status != FT_OK) ft_storage_rollback(storage);
    return status;
}

ft_status ft_pq_schema_check(ft_storage *storage, bool create) {
    char alembic[64], number[64], library[64];
    PGresult *info = NULL, *version = NULL;
    bool has, has_alembic;
    FT_TRY(look_for_tables(storage, &has, &has_alembic));
    if (!has && create) {
        FT_TRY(create_tables(storage));
        has = has_alembic = true;
    }
    if (!has) return ft_fail(FT_INVALID, storage->path, "not a database of studies: it has no table version_info");
    ft_status status = ft_pq_send_text(storage, "SELECT schema_version, library_version FROM version_info", &info);
    if (status == FT_OK && has_alembic)
        status = ft_pq_send_text(storage, "SELECT version_num FROM alembic_version", &version);
    if (status == FT_OK) status = ft_pq_flush(storage);
    take(storage, info, 0, number);
    take(storage, info, 1, library);
    take(storage, version, 0, alembic);
    ft_pq_drop(storage, &info);
    ft_pq_drop(storage, &version);
    return status == FT_OK ? ft_schema_version(storage->path, storage->path, alembic, number, library) : status;
}

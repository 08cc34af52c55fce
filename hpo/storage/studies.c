// studies.c - the studies of a file: list, open, create, copy, delete.
#include "hpo/storage/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- list -----------------------------------------------------------------------------------------------------------

static ft_status read_directions(ft_storage *storage, ft_arena *arena, ft_study_info *info) {
    enum { MOST = 64 };
    bool maximize[MOST], row;
    FT_TRY(ft_sql_bind(storage, FT_SQL_DIRECTIONS, "i", info->id));
    for (;;) {
        FT_TRY(ft_sql_step(storage, FT_SQL_DIRECTIONS, &row));
        if (!row) break;
        const char *direction = ft_sql_text(storage, FT_SQL_DIRECTIONS, 1);
        if (info->objectives < MOST)
            maximize[info->objectives++] = direction != NULL && strcmp(direction, "MAXIMIZE") == 0;
    }
    bool *copy = ft_arena_alloc(arena, (size_t)info->objectives + 1);
    if (copy == NULL) return FT_NO_MEMORY;
    memcpy(copy, maximize, (size_t)info->objectives * sizeof *copy);
    info->maximize = copy;
    return FT_OK;
}

static ft_status read_states(ft_storage *storage, ft_study_info *info) {
    info->first_start = info->last_finish = -1;
    FT_TRY(ft_sql_bind(storage, FT_SQL_STATES, "i", info->id));
    for (;;) {
        bool row;
        ft_trial_state state;
        FT_TRY(ft_sql_step(storage, FT_SQL_STATES, &row));
        if (!row) return FT_OK;
        ft_status status = ft_state_of(ft_sql_text(storage, FT_SQL_STATES, 0), &state);
        if (status != FT_OK) {
            ft_error_where_default("%s, study '%s'", storage->path, info->name);
            return status;
        }
        ft_sql_int(storage, FT_SQL_STATES, 1, &info->trials[state]);
        int64_t start = ft_sql_time(ft_sql_text(storage, FT_SQL_STATES, 2));
        int64_t finish = ft_sql_time(ft_sql_text(storage, FT_SQL_STATES, 3));
        if (start >= 0 && (info->first_start < 0 || start < info->first_start)) info->first_start = start;
        if (finish > info->last_finish) info->last_finish = finish;
    }
}

static ft_status list_studies(ft_storage *storage, ft_arena *arena, ft_study_info **studies, int *count) {
    int capacity = 0;
    FT_TRY(ft_sql_bind(storage, FT_SQL_STUDIES, ""));
    for (;;) {
        bool row;
        FT_TRY(ft_sql_step(storage, FT_SQL_STUDIES, &row));
        if (!row) return FT_OK;
        if (*count == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 16;
            ft_study_info *grown = ft_arena_alloc(arena, (size_t)capacity * sizeof *grown);
            if (grown == NULL) return FT_NO_MEMORY;
            if (*count > 0) memcpy(grown, *studies, (size_t)*count * sizeof *grown);
            *studies = grown;
        }
        ft_study_info *info = &(*studies)[*count];
        *info = (ft_study_info){0};
        const char *name = ft_sql_text(storage, FT_SQL_STUDIES, 1);
        if (!ft_sql_int(storage, FT_SQL_STUDIES, 0, &info->id) || name == NULL)
            return ft_fail(FT_INVALID, storage->path, "a study has no name that is UTF-8");
        info->name = ft_arena_strdup(arena, name);
        if (info->name == NULL) return FT_NO_MEMORY;
        ++*count;
    }
}

ft_status ft_storage_study_names(ft_storage *storage, ft_arena *arena, ft_study_info **studies, int *count) {
    *studies = NULL;
    *count = 0;
    const ft_status status = list_studies(storage, arena, studies, count);
    ft_sql_reset(storage, FT_SQL_STUDIES);
    return status;
}

ft_status ft_storage_studies(ft_storage *storage, ft_arena *arena, ft_study_info **studies, int *count) {
    *studies = NULL;
    *count = 0;
    ft_status status = list_studies(storage, arena, studies, count);
    for (int i = 0; status == FT_OK && i < *count; i++) {
        status = read_directions(storage, arena, &(*studies)[i]);
        if (status == FT_OK) status = read_states(storage, &(*studies)[i]);
    }
    ft_sql_reset(storage, FT_SQL_STUDIES);
    ft_sql_reset(storage, FT_SQL_DIRECTIONS);
    ft_sql_reset(storage, FT_SQL_STATES);
    return status;
}

// ---- open and create ------------------------------------------------------------------------------------------------

// "a, b, c and 7 more", for messages.
static void name_some(const ft_study_info *studies, int count, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count && i < 8 && used + 80 < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%.60s", i > 0 ? ", " : "", studies[i].name);
    if (count > 8) snprintf(text + used, room - used, " and %d more", count - 8);
}

ft_status ft_storage_find_study(ft_storage *storage, const char *name, int64_t *id, char **found) {
    *found = NULL;
    ft_arena arena = {0};
    ft_study_info *studies;
    int count, at = 0;
    ft_status status = list_studies(storage, &arena, (studies = NULL, &studies), (count = 0, &count));
    ft_sql_reset(storage, FT_SQL_STUDIES);
    while (name != NULL && at < count && strcmp(studies[at].name, name) != 0)
        at++;
    char names[480];
    if (status == FT_OK) name_some(studies, count, names, sizeof names);
    if (status == FT_OK && count == 0) {
        status = ft_fail(FT_INVALID, storage->path, "there is no study in this file");
    } else if (status == FT_OK && name == NULL && count > 1) {
        status = ft_fail(FT_INVALID, storage->path, "there are %d studies in this file: name one", count);
        ft_hint("%s", names);
    } else if (status == FT_OK && at == count) {
        status = ft_fail(FT_INVALID, storage->path, "there is no study '%s' in this file", name);
        ft_hint("there is: %s", names);
    }
    if (status == FT_OK) {
        *id = studies[at].id;
        *found = strdup(studies[at].name);
        if (*found == NULL) status = ft_fail_memory(0, "a name");
    }
    ft_arena_free(&arena);
    return status;
}

ft_status ft_stored_open(ft_storage *storage, const char *name, ft_stored **out) {
    *out = NULL;
    int64_t id;
    char *found;
    FT_TRY(ft_storage_find_study(storage, name, &id, &found));
    ft_status status = ft_stored_load(storage, id, found, out);
    free(found);
    return status;
}

// Within a transaction: a new row of studies.
static ft_status insert_study(ft_storage *storage, const char *name, int64_t *id) {
    if (name[0] == '\0' || strlen(name) > 512)
        return ft_fail(FT_INVALID, "study.name", "a study's name has 1 to 512 bytes, not %zu", strlen(name));
    bool taken;
    FT_TRY(ft_sql_bind(storage, FT_SQL_STUDY_BY_NAME, "t", name));
    FT_TRY(ft_sql_step(storage, FT_SQL_STUDY_BY_NAME, &taken));
    ft_sql_reset(storage, FT_SQL_STUDY_BY_NAME);
    if (taken) return ft_fail(FT_INVALID, storage->path, "there is a study '%s' already", name);
    FT_TRY(ft_sql_run(storage, FT_SQL_STUDY_INSERT, NULL, "t", name));
    *id = ft_sql_last_id(storage);
    return FT_OK;
}

static ft_status create(ft_storage *storage, const char *name, int objectives, const bool *maximize, int64_t *id) {
    FT_TRY(insert_study(storage, name, id));
    for (int i = 0; i < objectives; i++)
        FT_TRY(ft_sql_run(storage, FT_SQL_DIRECTION_INSERT, NULL, "tii", maximize[i] ? "MAXIMIZE" : "MINIMIZE", *id,
                          (int64_t)i));
    return FT_OK;
}

ft_status ft_stored_create(ft_storage *storage, const char *name, int objectives, const bool *maximize,
                           ft_stored **out) {
    *out = NULL;
    if (objectives < 1 || objectives > 64)
        return ft_fail(FT_INVALID, "study.objective", "a study has 1 to 64 objectives, not %d", objectives);
    int64_t id = 0;
    FT_TRY(ft_storage_begin(storage));
    ft_status status = create(storage, name, objectives, maximize, &id);
    if (status == FT_OK) status = ft_storage_commit(storage);
    if (status != FT_OK) {
        ft_storage_rollback(storage);
        return status;
    }
    return ft_stored_load(storage, id, name, out);
}

// ---- copy and delete ------------------------------------------------------------------------------------------------

const ft_table ft_trial_tables[FT_TRIAL_TABLES] = {
    {"trial_params", "param_name, param_value, distribution_json"},
    {"trial_values", "objective, value, value_type"},
    {"trial_intermediate_values", "step, intermediate_value, intermediate_value_type"},
    {"trial_user_attributes", "key, value_json"},
    {"trial_system_attributes", "key, value_json"},
    {"trial_heartbeats", "heartbeat"},
};
const ft_table ft_study_tables[FT_STUDY_TABLES] = {
    {"study_directions", "direction, objective"},
    {"study_user_attributes", "key, value_json"},
    {"study_system_attributes", "key, value_json"},
};

ft_status ft_study_delete_rows(ft_storage *storage, int64_t id, ft_status (*run)(ft_storage *storage, const char *sql)) {
    char sql[256];
    for (int i = 0; i < FT_TRIAL_TABLES; i++) {
        snprintf(sql, sizeof sql,
                 "DELETE FROM %s WHERE trial_id IN (SELECT trial_id FROM trials WHERE study_id = %lld)",
                 ft_trial_tables[i].name, (long long)id);
        FT_TRY(run(storage, sql));
    }
    for (int i = 0; i < FT_STUDY_TABLES; i++) {
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE study_id = %lld", ft_study_tables[i].name, (long long)id);
        FT_TRY(run(storage, sql));
    }
    for (int i = 0; i < 2; i++) {
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE study_id = %lld", i == 0 ? "trials" : "studies", (long long)id);
        FT_TRY(run(storage, sql));
    }
    return FT_OK;
}

ft_status ft_storage_delete_study(ft_storage *storage, const char *name) {
    FT_TRY(ft_storage_begin(storage));
    int64_t id;
    char *found = NULL;
    ft_status status = ft_storage_find_study(storage, name, &id, &found);
    free(found);
    if (status == FT_OK) status = storage->is->delete_study(storage, id);
    if (status == FT_OK) status = ft_storage_commit(storage);
    if (status != FT_OK) ft_storage_rollback(storage);
    return status;
}

// A trial's new id is its old one plus `shift`, which is beyond every id that is there: order and gaps stay.
static ft_status copy_rows(ft_storage *to, const char *source, int64_t from_id, int64_t to_id, int64_t shift) {
    char sql[640];
    for (int i = 0; i < FT_STUDY_TABLES; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO main.%s (study_id, %s) SELECT %lld, %s FROM %s.%s WHERE study_id = %lld ORDER BY rowid",
                 ft_study_tables[i].name, ft_study_tables[i].columns, (long long)to_id, ft_study_tables[i].columns,
                 source, ft_study_tables[i].name, (long long)from_id);
        FT_TRY(ft_sql_script(to, sql));
    }
    snprintf(sql, sizeof sql,
             "INSERT INTO main.trials (trial_id, number, study_id, state, datetime_start, datetime_complete) "
             "SELECT trial_id + %lld, number, %lld, state, datetime_start, datetime_complete FROM %s.trials "
             "WHERE study_id = %lld ORDER BY trial_id",
             (long long)shift, (long long)to_id, source, (long long)from_id);
    FT_TRY(ft_sql_script(to, sql));
    for (int i = 0; i < FT_TRIAL_TABLES; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO main.%s (trial_id, %s) SELECT trial_id + %lld, %s FROM %s.%s WHERE trial_id IN "
                 "(SELECT trial_id FROM %s.trials WHERE study_id = %lld) ORDER BY trial_id, rowid",
                 ft_trial_tables[i].name, ft_trial_tables[i].columns, (long long)shift, ft_trial_tables[i].columns,
                 source, ft_trial_tables[i].name, source, (long long)from_id);
        FT_TRY(ft_sql_script(to, sql));
    }
    return FT_OK;
}

static ft_status largest_trial_id(ft_storage *storage, int64_t *id) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(storage->db, "SELECT MAX(trial_id) FROM main.trials", -1, &statement, NULL) != SQLITE_OK)
        return ft_sql_error(storage);
    ft_status status = sqlite3_step(statement) == SQLITE_ROW ? FT_OK : ft_sql_error(storage);
    *id = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

static ft_status copy_into(ft_storage *to, const char *source, int64_t from_id, const char *new_name) {
    int64_t to_id = 0, shift = 0;
    // The write lock, but on our own file alone: BEGIN IMMEDIATE would lock the attached one too.
    FT_TRY(ft_sql_script(to, "DELETE FROM main.studies WHERE 0"));
    FT_TRY(insert_study(to, new_name, &to_id));
    FT_TRY(largest_trial_id(to, &shift));
    return copy_rows(to, source, from_id, to_id, shift);
}

static ft_status copy_in_transaction(ft_storage *to, const char *source, int64_t from_id, const char *new_name) {
    FT_TRY(ft_sql_run(to, FT_SQL_BEGIN_READ, NULL, ""));
    to->depth = 1;
    ft_status status = copy_into(to, source, from_id, new_name);
    if (status == FT_OK) status = ft_storage_commit(to);
    if (status != FT_OK) ft_storage_rollback(to);
    return status;
}

ft_status ft_storage_copy_study(ft_storage *to, ft_storage *from, const char *name, const char *new_name) {
    if (to->depth > 0) return ft_fail(FT_FAILED, to->path, "a study cannot be copied within a group of changes");
    if (to->is != &ft_sqlite || from->is != &ft_sqlite) return ft_storage_copy_rows(to, from, name, new_name);
    int64_t from_id;
    char *found;
    FT_TRY(ft_storage_find_study(from, name, &from_id, &found));
    free(found);
    if (strcmp(sqlite3_db_filename(to->db, "main"), sqlite3_db_filename(from->db, "main")) == 0)
        return copy_in_transaction(to, "main", from_id, new_name);
    char *attach = sqlite3_mprintf("ATTACH DATABASE %Q AS source", from->path);
    if (attach == NULL) return ft_fail_memory(0, "SQLite");
    ft_status status = ft_sql_script(to, attach);
    sqlite3_free(attach);
    FT_TRY(status);
    status = copy_in_transaction(to, "source", from_id, new_name);
    sqlite3_exec(to->db, "DETACH DATABASE source", NULL, NULL, NULL);
    return status;
}

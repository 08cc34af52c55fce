// postgres.c - statements on their way to PostgreSQL. What is written in a group waits until somebody has to know an
// answer, at the latest for the group's end: then all of it goes in one round trip. That is safe, because a group's
// first look locks the study and its unfinished trials; a trial that was not among them is locked before the first
// write of it.
#include "hpo/storage/postgres.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 6, MOST_WAITING = 512 };

// ---- sending --------------------------------------------------------------------------------------------------------

static ft_status note_sent(ft_postgres *p, int statement, bool prepares, PGresult **keeps) {
    if (p->sent_count == p->sent_capacity) {
        const int wanted = p->sent_capacity > 0 ? 2 * p->sent_capacity : 64;
        struct ft_pq_sent *grown = ft_realloc(p->sent, (size_t)wanted, sizeof *grown, "statements");
        if (grown == NULL) return FT_NO_MEMORY;
        p->sent = grown;
        p->sent_capacity = wanted;
    }
    p->sent[p->sent_count++] = (struct ft_pq_sent){statement, prepares, keeps};
    return FT_OK;
}

static ft_status send_text(ft_storage *storage, const char *sql, PGresult **keeps) {
    ft_postgres *p = storage->postgres;
    FT_TRY(ft_pq_batch_send(storage));
    if (p->lost) return ft_pq_lost(storage);
    if (p->pq->sendQueryParams(p->connection, sql, 0, NULL, NULL, NULL, NULL, 0) == 0) return ft_pq_lost(storage);
    return note_sent(p, -1, false, keeps);
}

// A group's first statement takes its BEGIN along.
static ft_status begin_group(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    if (storage->depth == 0 || p->begun) return FT_OK;
    p->begun = true;
    return send_text(storage, "BEGIN", NULL);
}

ft_status ft_pq_send_text(ft_storage *storage, const char *sql, PGresult **keeps) {
    FT_TRY(begin_group(storage));
    return send_text(storage, sql, keeps);
}

typedef struct parameters {
    const char *value[MOST_PARAMETERS];
    char text[MOST_PARAMETERS][32];
    int count;
    int64_t first; // the first one, when it is an integer
} parameters;

static void read_parameters(parameters *out, const char *types, va_list arguments) {
    out->count = 0;
    out->first = -1;
    for (int i = 0; types[i] != '\0'; i++, out->count++) {
        double number;
        int64_t integer;
        out->value[i] = out->text[i];
        switch (types[i]) {
        case 'i':
            integer = va_arg(arguments, int64_t);
            if (i == 0) out->first = integer;
            snprintf(out->text[i], sizeof out->text[i], "%lld", (long long)integer);
            break;
        case 'd':
            number = va_arg(arguments, double);
            if (isfinite(number))
                snprintf(out->text[i], sizeof out->text[i], "%.17g", number);
            else
                out->value[i] = NULL;
            break;
        case 't': out->value[i] = va_arg(arguments, const char *); break;
        default: out->value[i] = NULL; break;
        }
    }
}

static ft_status send_statement(ft_storage *storage, int statement, PGresult **keeps, const parameters *with) {
    ft_postgres *p = storage->postgres;
    char name[16];
    FT_TRY(ft_pq_batch_send(storage));
    if (p->lost) return ft_pq_lost(storage);
    FT_TRY(begin_group(storage));
    snprintf(name, sizeof name, "ft_%d", statement);
    if (p->prepared[statement] == 0) {
        if (p->pq->sendPrepare(p->connection, name, ft_pq_texts[statement], 0, NULL) == 0) return ft_pq_lost(storage);
        FT_TRY(note_sent(p, statement, true, NULL));
        p->prepared[statement] = 1;
    }
    if (p->pq->sendQueryPrepared(p->connection, name, with->count, with->value, NULL, NULL, 0) == 0)
        return ft_pq_lost(storage);
    p->statements++;
    return note_sent(p, statement, false, keeps);
}

ft_status ft_pq_send(ft_storage *storage, int statement, PGresult **keeps, const char *types, ...) {
    parameters with;
    va_list arguments;
    va_start(arguments, types);
    read_parameters(&with, types, arguments);
    va_end(arguments);
    return send_statement(storage, statement, keeps, &with);
}

// ---- answers --------------------------------------------------------------------------------------------------------

void ft_pq_drop(ft_storage *storage, PGresult **result) {
    if (*result != NULL) storage->postgres->pq->clear(*result);
    *result = NULL;
}

static bool has_ended(const ft_postgres *p, const PGresult *result) {
    const char *state = p->pq->resultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL && strcmp(state, "22012") == 0; // a division by zero
}

static ft_status take_answer(ft_storage *storage, struct ft_pq_sent *sent, PGresult *result, ft_status before) {
    ft_postgres *p = storage->postgres;
    const ExecStatusType is = p->pq->resultStatus(result);
    if (is == PGRES_COMMAND_OK || is == PGRES_TUPLES_OK) {
        if (sent->prepares) p->prepared[sent->statement] = 2;
        if (sent->keeps == NULL) {
            p->pq->clear(result);
        } else {
            ft_pq_drop(storage, sent->keeps);
            *sent->keeps = result;
        }
        return before;
    }
    if (sent->prepares) p->prepared[sent->statement] = 0;
    // What comes behind the first error was not looked at by the server.
    if (before == FT_OK)
        before = is == PGRES_PIPELINE_ABORTED ? ft_fail(FT_FAILED, storage->path, "a statement was left out")
                 : sent->statement == FT_PQ_GUARD && has_ended(p, result)
                     ? ft_fail(FT_FAILED, storage->path, "the trial was finished by another process")
                     : ft_pq_error(storage, result);
    p->pq->clear(result);
    return before;
}

ft_status ft_pq_flush(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    const ft_pq *pq = p->pq;
    ft_status status = FT_OK;
    FT_TRY(ft_pq_batch_send(storage));
    const int count = p->sent_count;
    p->sent_count = 0;
    if (p->lost) return ft_pq_lost(storage);
    p->trips++;
    if (pq->pipelineSync(p->connection) == 0) return ft_pq_lost(storage);
    for (int i = 0; i < count; i++) {
        PGresult *result = pq->getResult(p->connection);
        if (result == NULL) return ft_pq_lost(storage);
        status = take_answer(storage, &p->sent[i], result, status);
        if (pq->status(p->connection) == CONNECTION_BAD) return ft_pq_lost(storage);
        for (PGresult *more; (more = pq->getResult(p->connection)) != NULL;)
            pq->clear(more);
    }
    PGresult *sync = pq->getResult(p->connection);
    if (sync == NULL) return ft_pq_lost(storage);
    const bool whole = pq->resultStatus(sync) == PGRES_PIPELINE_SYNC;
    pq->clear(sync);
    return whole ? status : ft_pq_lost(storage);
}

ft_status ft_pq_ask(ft_storage *storage, const char *sql, PGresult **rows) {
    FT_TRY(ft_pq_send_text(storage, sql, rows));
    return ft_pq_flush(storage);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static void reset(ft_storage *storage, ft_sql id) {
    ft_pq_rows *rows = &storage->postgres->rows[id];
    if (rows->own) ft_pq_drop(storage, &rows->result);
    *rows = (ft_pq_rows){.row = -1};
}

static ft_status bind(ft_storage *storage, ft_sql id, const char *types, va_list arguments) {
    ft_postgres *p = storage->postgres;
    parameters with;
    read_parameters(&with, types, arguments);
    reset(storage, id);
    const int64_t last = with.count > 1 && with.value[1] != NULL ? strtoll(with.value[1], NULL, 10) : 0;
    if (ft_pq_look_serves(storage, id, with.first, last)) return FT_OK;
    ft_status status = FT_OK;
    for (int attempt = 0; attempt < 2; attempt++) { // a look that a lost connection broke off is taken again
        if (storage->depth == 0) FT_TRY(ft_pq_connected(storage));
        status = send_statement(storage, id, &p->rows[id].result, &with);
        if (status == FT_OK) status = ft_pq_flush(storage);
        if (status == FT_OK || !p->lost || storage->depth > 0) break;
    }
    FT_TRY(status);
    p->rows[id].own = true;
    p->rows[id].end = p->pq->ntuples(p->rows[id].result);
    return FT_OK;
}

static ft_status step(ft_storage *storage, ft_sql id, bool *row) {
    ft_pq_rows *rows = &storage->postgres->rows[id];
    *row = ++rows->row < rows->end;
    if (!*row) reset(storage, id);
    return FT_OK;
}

static const char *cell(ft_storage *storage, ft_sql id, int column) {
    const ft_postgres *p = storage->postgres;
    const ft_pq_rows *rows = &p->rows[id];
    if (rows->result == NULL || p->pq->getisnull(rows->result, rows->row, rows->first + column) != 0) return NULL;
    return p->pq->getvalue(rows->result, rows->row, rows->first + column);
}

static const char *text(ft_storage *storage, ft_sql id, int column, size_t *length) {
    const char *found = cell(storage, id, column);
    *length = found != NULL ? strlen(found) : 0; // PostgreSQL keeps no NUL
    return found;
}

static bool integer(ft_storage *storage, ft_sql id, int column, int64_t *out) {
    const char *found = cell(storage, id, column);
    char *end = NULL;
    *out = found != NULL ? strtoll(found, &end, 10) : 0;
    return found != NULL && end != found && *end == '\0';
}

static bool number(ft_storage *storage, ft_sql id, int column, double *out) {
    const char *found = cell(storage, id, column);
    char *end = NULL;
    *out = found != NULL ? strtod(found, &end) : 0;
    return found != NULL && end != found && *end == '\0';
}

bool ft_pq_cell(ft_storage *storage, const PGresult *rows, int row, int column, int64_t *out) {
    const ft_pq *pq = storage->postgres->pq;
    if (rows == NULL || row >= pq->ntuples(rows) || pq->getisnull(rows, row, column) != 0) return false;
    *out = strtoll(pq->getvalue(rows, row, column), NULL, 10);
    return true;
}

// ---- changes --------------------------------------------------------------------------------------------------------

static bool writes_a_trial(ft_sql id) {
    return id == FT_SQL_TRIAL_FINISH || id == FT_SQL_VALUE_SET || id == FT_SQL_PARAM_SET || id == FT_SQL_REPORT_SET ||
           id == FT_SQL_USER_ATTRIBUTE_SET || id == FT_SQL_SYSTEM_ATTRIBUTE_SET || id == FT_SQL_HEARTBEAT_SET;
}

// Nobody else can end the trial from here on to the end of the group. Has somebody, the group fails, at its end at the
// latest.
static ft_status lock_trial(ft_storage *storage, int64_t trial_id) {
    ft_postgres *p = storage->postgres;
    if (ft_pq_ids_have(&p->locked, trial_id)) return FT_OK;
    FT_TRY(ft_pq_send(storage, FT_PQ_GUARD, NULL, "i", trial_id));
    return ft_pq_ids_add(&p->locked, trial_id) ? FT_OK : ft_fail_memory(0, "trials");
}

static ft_status run_now(ft_storage *storage, ft_sql id, int *changed, const parameters *with) {
    ft_postgres *p = storage->postgres;
    FT_TRY(send_statement(storage, id, &p->answer, with));
    FT_TRY(ft_pq_flush(storage));
    if (changed != NULL) *changed = atoi(p->pq->cmdTuples(p->answer));
    if (id != FT_SQL_TRIAL_INSERT && id != FT_SQL_STUDY_INSERT) return FT_OK;
    if (!ft_pq_cell(storage, p->answer, 0, 0, &p->last_id))
        return ft_fail(FT_FAILED, storage->path, "the database gave no id");
    // Nobody else sees it before the group's end.
    return id == FT_SQL_STUDY_INSERT || ft_pq_ids_add(&p->locked, p->last_id) ? FT_OK : ft_fail_memory(0, "trials");
}

static ft_status flush_what_is_much(ft_storage *storage) {
    return storage->postgres->sent_count < MOST_WAITING ? FT_OK : ft_pq_flush(storage);
}

static ft_status run(ft_storage *storage, ft_sql id, int *changed, const char *types, va_list arguments) {
    ft_postgres *p = storage->postgres;
    parameters with;
    read_parameters(&with, types, arguments);
    if (id == FT_SQL_USER_ATTRIBUTE_SET) p->look.users = false;
    if (id == FT_SQL_SYSTEM_ATTRIBUTE_SET) p->look.systems = false;
    if (storage->depth == 0) {
        FT_TRY(ft_pq_connected(storage));
        return run_now(storage, id, changed, &with);
    }
    if (id == FT_SQL_TRIAL_INSERT && ft_pq_cell(storage, p->look.inserted, 0, 0, &p->last_id)) { // with the look
        ft_pq_drop(storage, &p->look.inserted);
        return ft_pq_ids_add(&p->locked, p->last_id) ? FT_OK : ft_fail_memory(0, "trials");
    }
    if (writes_a_trial(id)) {
        FT_TRY(lock_trial(storage, with.first));
        if (changed != NULL) *changed = 1;
        const bool param = id == FT_SQL_PARAM_SET;
        if (ft_pq_batches(id)) {
            FT_TRY(ft_pq_batch_add(storage, id, with.first, with.value[1], param ? with.value[2] : NULL,
                                   with.value[param ? 3 : 2]));
            return flush_what_is_much(storage);
        }
    } else if (id == FT_SQL_TRIAL_START && ft_pq_ids_have(&p->locked, with.first)) {
        if (changed != NULL) *changed = 1; // the group's look has seen it waiting, and it is locked since
    } else if (changed != NULL || id == FT_SQL_TRIAL_INSERT || id == FT_SQL_STUDY_INSERT) {
        return run_now(storage, id, changed, &with);
    }
    FT_TRY(send_statement(storage, id, NULL, &with));
    return flush_what_is_much(storage);
}

static int64_t last_id(ft_storage *storage) { return storage->postgres->last_id; }

// ---- groups ---------------------------------------------------------------------------------------------------------

static void forget_group(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    p->begun = p->study_locked = false;
    p->locked.count = 0;
    ft_pq_batch_forget(p);
    ft_pq_drop(storage, &p->look.inserted);
}

static ft_status begin(ft_storage *storage) {
    forget_group(storage);
    return ft_pq_connected(storage);
}

// When the connection is lost here nobody knows whether the group is in the database: the study has to be read again.
static ft_status end_group(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    FT_TRY(ft_pq_flush(storage));
    forget_group(storage);
    if (strcmp(p->pq->cmdStatus(p->answer), "COMMIT") == 0) return FT_OK;
    return ft_fail(FT_FAILED, storage->path, "the database has taken a group of changes back");
}

static ft_status commit(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    FT_TRY(ft_pq_batch_send(storage));
    if (!p->begun) return FT_OK;
    FT_TRY(ft_pq_send_text(storage, "COMMIT", &p->answer));
    return end_group(storage);
}

// Nobody sees the claim given up before what the group has written. A group that failed keeps it.
static ft_status commit_releasing(ft_storage *storage, const ft_claim *claim) {
    ft_postgres *p = storage->postgres;
    bool got;
    FT_TRY(ft_pq_batch_send(storage));
    if (!p->begun) return ft_pq_claim(storage, claim, FT_CLAIM_NONE, &got);
    FT_TRY(ft_pq_send_text(storage, "COMMIT", &p->answer));
    FT_TRY(ft_pq_send_release(storage, claim));
    FT_TRY(end_group(storage));
    ft_pq_let_go(storage, claim);
    return FT_OK;
}

static void rollback(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    ft_error error;
    ft_error_save(&error);
    p->look.users = p->look.systems = false;
    ft_pq_batch_forget(p);
    if (p->begun && !p->lost) {
        ft_status status =
            p->sent_count > 0 ? ft_pq_flush(storage) : FT_OK; // an error there would leave the next one out
        if (!p->lost) status = ft_pq_ask(storage, "ROLLBACK", NULL);
        if (status != FT_OK) ft_error_clear();
    }
    forget_group(storage);
    ft_error_restore(&error);
}

void ft_pq_forget(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    for (int id = 0; id < (int)FT_SQL_COUNT; id++)
        reset(storage, (ft_sql)id);
    ft_pq_drop(storage, &p->answer);
    ft_pq_look_end(storage);
    ft_pq_batch_forget(p);
    memset(p->prepared, 0, sizeof p->prepared);
    p->sent_count = 0;
}

static ft_status send_alone(ft_storage *storage, const char *sql) { return ft_pq_send_text(storage, sql, NULL); }

static ft_status delete_study(ft_storage *storage, int64_t id) {
    FT_TRY(ft_study_delete_rows(storage, id, send_alone));
    return ft_pq_flush(storage);
}

// What is committed is on the server's disk, unless its owner has told it otherwise.
static ft_status full_sync(ft_storage *storage, bool full) {
    (void)storage, (void)full;
    return FT_OK;
}

const ft_database ft_postgres_database = {.bind = bind,
                                          .step = step,
                                          .reset = reset,
                                          .run = run,
                                          .last_id = last_id,
                                          .text = text,
                                          .integer = integer,
                                          .number = number,
                                          .begin = begin,
                                          .commit = commit,
                                          .rollback = rollback,
                                          .look = ft_pq_look_at,
                                          .looked = ft_pq_looked,
                                          .claim = ft_pq_claim,
                                          .claimed = ft_pq_claimed,
                                          .claim_surely = ft_pq_claim_surely,
                                          .commit_releasing = commit_releasing,
                                          .delete_study = delete_study,
                                          .full_sync = full_sync,
                                          .blank = ft_pq_blank,
                                          .open = ft_pq_open,
                                          .close = ft_pq_close};

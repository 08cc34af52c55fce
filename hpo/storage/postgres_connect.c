// postgres_connect.c - connections to PostgreSQL, and what goes wrong with it in our words. A connection that is lost
// between two groups is made again, with all claims, and nobody notices; one that is lost in a group ends what was
// being done, and the study is opened again (hpo/study/disk.c).
#include "hpo/storage/postgres.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/url.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OLDEST = 100000 };        // PostgreSQL 10
static const double SETTLES = 8; // seconds until all that a restarted server has cut off have come back, or are gone
static const double PATIENCE =
    60; // seconds that a coordinator waits for a server that is gone, its trials going on; others wait
static const double LITTLE = 3; // so long

// ---- errors ---------------------------------------------------------------------------------------------------------

// Its first line, without what libpq puts around it.
static void first_line(const char *message, char out[400]) {
    static const char *const before[] = {"FATAL:  ", "ERROR:  ", "error: "};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        const char *at = strstr(message, before[i]);
        if (at != NULL && (size_t)(at - message) < strcspn(message, "\n")) message = at + strlen(before[i]);
    }
    snprintf(out, 400, "%.*s", (int)strcspn(message, "\n"), message);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20) *c = ' ';
    if (out[0] == '\0') snprintf(out, 400, "no reason given");
}

ft_status ft_pq_lost(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    char why[400] = "it was not made";
    if (p->connection != NULL) first_line(p->pq->errorMessage(p->connection), why);
    p->lost = true;
    p->sent_count = 0;
    ft_fail(FT_FAILED, storage->path, "the connection to the database was lost: %s", why);
    ft_error_is_locked();
    return FT_FAILED;
}

static bool is_one_of(const char *state, const char *const *list) {
    for (; *list != NULL; list++)
        if (strncmp(state, *list, strlen(*list)) == 0) return true;
    return false;
}

ft_status ft_pq_error(ft_storage *storage, const PGresult *result) {
    static const char *const gone[] = {"08", "57P", "25P03", "53300", NULL}, *const again[] = {"40001", "40P01",
                                                                                               "55P03", "57014", NULL};
    static const char *const foreign[] = {"42P01", "42703", "42704", "42883", NULL};
    const ft_pq *pq = storage->postgres->pq;
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE),
               *message = pq->resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (state == NULL || is_one_of(state, gone)) return ft_pq_lost(storage);
    if (message == NULL) message = state;
    if (strcmp(state, "53100") == 0)
        return ft_fail_errno(FT_FAILED, ENOSPC, storage->path, "the study database cannot be written");
    if (is_one_of(state, again)) {
        ft_fail(FT_FAILED, storage->path, "another process has kept the database locked for too long: %s", message);
        ft_error_is_locked();
    } else if (strcmp(state, "42501") == 0) {
        ft_fail(FT_FAILED, storage->path, "the database does not allow this user that: %s", message);
        ft_hint("its owner may GRANT ALL ON ALL TABLES IN SCHEMA public and ON ALL SEQUENCES, and, for the first "
                "study, CREATE ON SCHEMA public");
    } else if (strcmp(state, "25006") == 0) {
        ft_fail(FT_FAILED, storage->path, "the study database is read-only: %s", message);
        if (storage->writable)
            ft_hint(
                "of several hosts in the address ?target_session_attrs=read-write finds the one that takes changes");
    } else if (strcmp(state, "22012") == 0) { // FT_PQ_LOCK_OR_FAIL
        ft_fail(FT_FAILED, storage->path, "another process holds what was to be claimed");
    } else if (strcmp(state, "22003") == 0) {
        ft_fail(FT_INVALID, storage->path,
                "a step or another number is too large: Optuna's tables in PostgreSQL have 32 bits for it");
        return FT_INVALID;
    } else if (is_one_of(state, foreign)) {
        ft_fail(FT_INVALID, storage->path, "not a database of studies: %s", message);
        return FT_INVALID;
    } else {
        ft_fail(FT_FAILED, storage->path, "the study database cannot be used: %s", message);
    }
    return FT_FAILED;
}

// In words of libpq and of a server that speaks English. One that does not is asked (is_away).
static bool is_refusal(const char *why) {
    static const char *const words[] = {"password",    "authentication",      "does not exist",
                                        "pg_hba.conf", "permission denied",   "certificate",
                                        "SSL error",   "does not support SSL"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(why, words[i]) != NULL) return true;
    return false;
}

static ft_status not_connected(ft_storage *storage, const char *why, bool away) {
    ft_fail(FT_FAILED, storage->path, "cannot connect to the database: %s", why);
    if (strstr(why, "assword") != NULL)
        ft_hint("the password comes from ~/.pgpass (a file of mode 0600 with HOST:PORT:DATABASE:USER:PASSWORD), "
                "PGPASSWORD, or a service");
    else if (strstr(why, "database") != NULL && strstr(why, "not exist") != NULL)
        ft_hint("createdb makes it; the tables are made by ftengine");
    if (away) ft_error_is_locked();
    return FT_FAILED;
}

// ---- a connection ---------------------------------------------------------------------------------------------------

static void say_nothing(void *nobody, const char *message) { (void)nobody, (void)message; }

static ft_status check_version(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    const int version = p->pq->serverVersion(p->connection);
    if (version >= OLDEST) return FT_OK;
    ft_fail(FT_INVALID, storage->path, "the server is PostgreSQL %d.%d: version 10 or later is needed", version / 10000,
            version / 100 % 100);
    return FT_INVALID;
}

// A peer that is gone without a word is noticed within seconds, here and there: what it has claimed is free then.
static ft_status prepare_session(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    static const char *const words[] = {
        "SET default_transaction_isolation = 'read committed'", // numbers are given by what is seen behind a lock
        "SET DateStyle = 'ISO, YMD'",
        "SET extra_float_digits = 3",
        "SET lock_timeout = '30s'",
        "SET idle_in_transaction_session_timeout = '60s'",
        "SET tcp_keepalives_idle = 2",
        "SET tcp_keepalives_interval = 1",
        "SET tcp_keepalives_count = 3"};
    PGresult *age = NULL;
    int64_t seconds = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        FT_TRY(ft_pq_send_text(storage, words[i], NULL));
    if (p->pq->serverVersion(p->connection) >= 120000)
        FT_TRY(ft_pq_send_text(storage, "SET tcp_user_timeout = '5s'", NULL));
    if (!storage->writable) FT_TRY(ft_pq_send_text(storage, "SET default_transaction_read_only = on", NULL));
    ft_status status = ft_pq_ask(storage, "SELECT EXTRACT(EPOCH FROM now() - pg_postmaster_start_time())::int", &age);
    if (status == FT_OK && ft_pq_cell(storage, age, 0, 0, &seconds)) p->settled = ft_now() + SETTLES - (double)seconds;
    ft_pq_drop(storage, &age);
    return status;
}

enum { MOST_KEYS = 10 };
typedef struct address {
    const char *keys[MOST_KEYS], *values[MOST_KEYS];
} address;

// What stands before the address it may say otherwise. A NULL among the values is left out.
static address address_of(const ft_postgres *p) {
    return (address){.keys = {"connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count",
                              "tcp_user_timeout", "fallback_application_name", "dbname", "client_encoding", "password"},
                     .values = {"10", "2", "1", "3", "5000", "ftengine", p->url, "UTF8", p->password}};
}

// A server that was not reached, or takes nobody just now (it starts, stops or recovers), may be there later. One that
// takes connections, and not this one, has its reasons. libpq does not tell the code of an error of that stage; its
// ping knows it.
static bool is_away(const ft_postgres *p, const char *why) {
    const address a = address_of(p);
    if (is_refusal(why)) return false;
    if (strstr(why, "too many") != NULL || strstr(why, "connection slots") != NULL) return true;
    const PGPing answer = p->pq->pingParams(a.keys, a.values, 1);
    return answer == PQPING_REJECT || answer == PQPING_NO_RESPONSE;
}

// A server that has come between a failure and the ping is there at the next attempt.
static ft_status connect_to_it(ft_storage *storage) {
    enum { ATTEMPTS = 2 };
    ft_postgres *p = storage->postgres;
    const address a = address_of(p);
    char why[400] = "out of memory";
    for (int i = 1;; i++) {
        if (p->connection != NULL) p->pq->finish(p->connection);
        p->connection = p->pq->connectdbParams(a.keys, a.values, 1);
        if (p->connection != NULL && p->pq->status(p->connection) == CONNECTION_OK) return FT_OK;
        if (p->connection != NULL) first_line(p->pq->errorMessage(p->connection), why);
        const bool away = is_away(p, why);
        if (away || i == ATTEMPTS || is_refusal(why)) return not_connected(storage, why, away);
    }
}

static ft_status connect_once(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    ft_pq_forget(storage);
    p->lost = true;
    FT_TRY(connect_to_it(storage));
    p->pq->setNoticeProcessor(p->connection, say_nothing, NULL);
    FT_TRY(check_version(storage));
    if (p->pq->enterPipelineMode(p->connection) == 0)
        return ft_fail(FT_FAILED, storage->path, "the connection takes one statement at a time only");
    p->lost = false;
    return prepare_session(storage);
}

// ---- one that was lost ----------------------------------------------------------------------------------------------

// The server says good-bye, or is gone: something can be read without anything having been asked.
static bool still_there(const ft_postgres *p) {
    struct pollfd socket = {.fd = p->pq->socket(p->connection), .events = POLLIN};
    while (socket.fd >= 0 && poll(&socket, 1, 0) > 0) {
        if (p->pq->consumeInput(p->connection) == 0 || p->pq->status(p->connection) == CONNECTION_BAD) return false;
        socket.fd = p->pq->socket(p->connection);
    }
    return socket.fd >= 0 && p->pq->status(p->connection) == CONNECTION_OK;
}

static ft_status connect_again(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    ft_status status;
    double pause = 0.05;
    const double began = ft_now(), end = began + (p->held_count > 0 ? PATIENCE : LITTLE);
    bool told = false;
    for (;;) {
        status = connect_once(storage);
        if (status == FT_OK) status = ft_pq_claim_again(storage);
        if (status == FT_OK) break;
        if (!p->lost || !ft_error_locked()) { // others have what was claimed; or the server has become another one
            p->lost = true;
            return status;
        }
        const double now = ft_now();
        if (now + pause > end || ft_stop_signal() != 0) return status;
        if (!told && now > began + 1) ft_warn("%s: %s; trying again", storage->path, ft_error_message());
        told = told || now > began + 1;
        nanosleep(&(struct timespec){.tv_sec = (time_t)pause, .tv_nsec = (long)(1e9 * fmod(pause, 1))}, NULL);
        pause = fmin(2 * pause, 2);
    }
    ft_error_clear();
    if (told) ft_info("connected to %s again", storage->path);
    return FT_OK;
}

ft_status ft_pq_connected(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    if (p->joining) return p->lost ? ft_pq_lost(storage) : FT_OK;
    if (!p->lost && still_there(p)) return FT_OK;
    if (p->dead) return ft_pq_lost(storage);
    p->joining = true;
    const ft_status status = connect_again(storage);
    p->joining = false;
    p->dead = status != FT_OK;
    return status;
}

// ---- open and close -------------------------------------------------------------------------------------------------

static ft_status set_address(ft_storage *storage, const char *url) {
    ft_arena arena = {0};
    ft_postgres *p = storage->postgres;
    char *password = NULL;
    const char *shown = ft_url_shown(&arena, url), *plain = ft_url_plain(&arena, url, &password);
    const bool whole = shown != NULL && plain != NULL && (storage->path = strdup(shown)) != NULL &&
                       (p->url = strdup(plain)) != NULL &&
                       (password == NULL || (p->password = strdup(password)) != NULL);
    ft_arena_free(&arena);
    return whole ? FT_OK : ft_fail_memory(strlen(url), "an address");
}

static ft_status connect_first(ft_storage *storage, const char *url) {
    const ft_pq *pq;
    FT_TRY(ft_pq_load(&pq));
    storage->postgres = ft_calloc(1, sizeof *storage->postgres, "a study database");
    if (storage->postgres == NULL) return FT_NO_MEMORY;
    storage->postgres->pq = pq;
    storage->postgres->lost = true;
    FT_TRY(set_address(storage, url));
    char *problem = NULL;
    PQconninfoOption *options = pq->conninfoParse(storage->postgres->url, &problem);
    if (problem != NULL) pq->freemem(problem); // it may quote a password
    if (options == NULL) {
        ft_fail(FT_INVALID, storage->path, "this is no address of a database");
        ft_hint("postgresql://USER@HOST:PORT/DATABASE?KEY=VALUE, with %%XX for characters that have a meaning there; "
                "or postgresql:///?service=NAME");
        return FT_INVALID;
    }
    pq->conninfoFree(options);
    return connect_once(storage);
}

ft_status ft_pq_open(ft_storage *storage, const char *url, int flags) {
    FT_TRY(connect_first(storage, url));
    return ft_pq_schema_check(storage, (flags & FT_STORAGE_CREATE) != 0);
}

ft_status ft_pq_blank(const char *url, bool *blank) {
    ft_storage storage = {.is = &ft_postgres_database, .lock = -1};
    bool has = false;
    ft_status status = connect_first(&storage, url);
    if (status == FT_OK) status = ft_pq_has_tables(&storage, &has);
    *blank = !has;
    ft_error error;
    ft_error_save(&error);
    ft_pq_close(&storage);
    free(storage.path);
    if (status != FT_OK) ft_error_restore(&error);
    return status;
}

ft_status ft_pq_close(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    if (p == NULL) return FT_OK;
    ft_pq_forget(storage);
    if (p->connection != NULL) p->pq->finish(p->connection);
    free(p->url);
    free(p->password);
    free(p->sent);
    free(p->held);
    free(p->locked.id);
    free(p);
    storage->postgres = NULL;
    return FT_OK;
}

// postgres.h - a study in PostgreSQL, behind internal.h. In reading order: postgres_sql.c (the statements), postgres.c
// (they are sent together and their answers read together: round trips are what a database far away costs),
// postgres_batch.c (rows of one table in one statement),
// postgres_look.c (what others have written, in one of them; the first time two), postgres_claims.c (advisory locks),
// postgres_connect.c (connections, lost ones too, and errors), postgres_schema.c (tables, versions).
#ifndef FT_HPO_STORAGE_POSTGRES_H
#define FT_HPO_STORAGE_POSTGRES_H

#include "hpo/storage/internal.h"
#include "hpo/storage/pq_library.h"

// Statements of PostgreSQL alone, behind those of internal.h.
typedef enum ft_pq_statement {
    FT_PQ_LOCK_STUDY = FT_SQL_COUNT, // numbers of trials are given under this lock, by Optuna too
    FT_PQ_GUARD,       // a trial that is unfinished, and stays so until the transaction's end; else it is at its end
    FT_PQ_INSERT_NEXT, // a trial, unless there are new ones
    FT_PQ_PARAMS_SET,  // of a trial that is guarded, all in one
    FT_PQ_USER_ATTRIBUTES_SET,
    FT_PQ_SYSTEM_ATTRIBUTES_SET,
    FT_PQ_ALL,
    FT_PQ_NEW,
    FT_PQ_KNOWN,
    FT_PQ_KNOWN_LOCKED,
    FT_PQ_LOOK_PARAMS, // [FT_PQ_DETAILS], in the order of detail_of() in postgres_look.c
    FT_PQ_LOOK_VALUES,
    FT_PQ_LOOK_REPORTS,
    FT_PQ_LOOK_SYSTEM,
    FT_PQ_LOOK_USER,
    FT_PQ_LOOK_CLAIMS,
    FT_PQ_LOCK_ALONE,
    FT_PQ_LOCK_SHARED,
    FT_PQ_LOCK_OR_FAIL,
    FT_PQ_UNLOCK_ALONE,
    FT_PQ_UNLOCK_SHARED,
    FT_PQ_CLAIMED,
    FT_PQ_COUNT,
} ft_pq_statement;
enum { FT_PQ_DETAILS = 5 };
extern const char *const ft_pq_texts[FT_PQ_COUNT];

// The rows of a statement that was bound: its own, or some of those that a look has brought.
typedef struct ft_pq_rows {
    PGresult *result;
    bool own;
    int row, end, first; // first: the column that is the statement's column 0
} ft_pq_rows;

typedef struct ft_pq_held {
    ft_claim_kind kind;
    uint64_t hash;
} ft_pq_held;

typedef struct ft_pq_look {
    bool on;                          // a refresh reads what it has brought
    bool users, systems;              // its user, system attributes are still those of the database
    bool first;                       // it is the study's first: no trial was known
    bool company;                     // one of them has seen others at work
    PGresult *known, *new_;           // trials: of those that were unfinished; of those behind the last
    PGresult *details[FT_PQ_DETAILS]; // of both
    PGresult *claims;                 // that others hold; NULL: nobody has asked
    PGresult *inserted;               // the trial that went with it (storage->next); no row: there was news
} ft_pq_look;

enum { FT_PQ_BATCH = 64 };
typedef struct ft_pq_batch { // rows of one trial for one table, in order
    ft_sql id;
    int64_t trial;
    int count;
    struct ft_pq_batch_row {
        const char *key, *text, *number; // number: of parameters
    } rows[FT_PQ_BATCH];
    ft_arena arena;
} ft_pq_batch;

typedef struct ft_pq_ids { // sorted
    int64_t *id;
    int count, capacity;
} ft_pq_ids;

typedef struct ft_postgres {
    const ft_pq *pq;
    PGconn *connection;   // NULL: there is none
    char *url, *password; // as libpq takes them, shown to nobody; password NULL: it finds one elsewhere
    bool lost;            // the connection; in a group nothing can be done about that
    bool begun;           // the group's BEGIN was sent
    bool study_locked;
    bool joining;                        // a new connection is being made ready
    bool dead;                           // it was waited for in vain: only who opens the study anew gets another one
    unsigned char prepared[FT_PQ_COUNT]; // 0, 1: on its way, 2: it is
    ft_pq_rows rows[FT_SQL_COUNT];
    struct ft_pq_sent {
        int statement; // -1: a text
        bool prepares;
        PGresult **keeps; // where its rows go; NULL: nobody wants them
    } * sent;
    int sent_count, sent_capacity;
    PGresult *answer; // of a statement that is run for what it changed
    int64_t last_id;
    ft_pq_ids locked; // trials that nobody else can change before the group's end
    ft_pq_held *held;
    int held_count, held_capacity;
    double settled; // ft_now() from which on a claim that nobody has is nobody's: the server has been up for a while
    ft_pq_look look;
    ft_pq_batch batch;          // waits for the next statement
    uint64_t trips, statements; // so far
} ft_postgres;

// ---- postgres.c ---------------------------------------------------------------------------------------------------
// Puts a statement on its way; ft_pq_flush has it answered, with all that are. The rows go to *keeps, to be cleared by
// its owner.
ft_status ft_pq_send(ft_storage *storage, int statement, PGresult **keeps, const char *types, ...);
ft_status ft_pq_send_text(ft_storage *storage, const char *sql, PGresult **keeps);
ft_status ft_pq_flush(ft_storage *storage); // one round trip; the first error of all of them
ft_status ft_pq_ask(ft_storage *storage, const char *sql, PGresult **rows); // one statement, outside groups
void ft_pq_drop(ft_storage *storage, PGresult **result);
void ft_pq_forget(ft_storage *storage); // all that belongs to a connection that is gone
bool ft_pq_cell(ft_storage *storage, const PGresult *rows, int row, int column, int64_t *out);

// ---- postgres_batch.c ---------------------------------------------------------------------------------------------
bool ft_pq_batches(ft_sql id);
// In a group, of a trial that is guarded. What is given is copied.
ft_status ft_pq_batch_add(ft_storage *storage, ft_sql id, int64_t trial, const char *key, const char *number,
                          const char *text);
ft_status ft_pq_batch_send(ft_storage *storage); // puts what waits on its way
void ft_pq_batch_forget(ft_postgres *p);

// ---- postgres_look.c ----------------------------------------------------------------------------------------------
ft_status ft_pq_look_at(ft_stored *study, bool *news);
void ft_pq_looked(ft_stored *study, bool whole);
// false: it does not know, the database has to be asked.
bool ft_pq_look_serves(ft_storage *storage, ft_sql id, int64_t key, int64_t last);
bool ft_pq_look_claimed(ft_storage *storage, uint64_t hash, bool *claimed);
void ft_pq_look_end(ft_storage *storage);
bool ft_pq_ids_add(ft_pq_ids *ids, int64_t id); // false: no memory
bool ft_pq_ids_have(const ft_pq_ids *ids, int64_t id);

// ---- postgres_claims.c --------------------------------------------------------------------------------------------
ft_status ft_pq_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got);
ft_status ft_pq_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others);
ft_status ft_pq_claim_surely(ft_storage *storage, const ft_claim *claim);
// Puts it on its way behind a group's COMMIT; when that has been answered the claim is let go.
ft_status ft_pq_send_release(ft_storage *storage, const ft_claim *claim);
void ft_pq_let_go(ft_storage *storage, const ft_claim *claim);
ft_status ft_pq_claim_again(ft_storage *storage); // all that were held, on a new connection

// ---- postgres_connect.c -------------------------------------------------------------------------------------------
ft_status ft_pq_open(ft_storage *storage, const char *url, int flags);
ft_status ft_pq_close(ft_storage *storage);
ft_status ft_pq_blank(const char *url, bool *blank);
ft_status ft_pq_connected(ft_storage *storage); // outside groups: a connection that was lost is made again, for a while
ft_status ft_pq_lost(ft_storage *storage);      // the error of that
ft_status ft_pq_error(ft_storage *storage, const PGresult *result); // what the server says of a statement, in our words

// ---- postgres_schema.c --------------------------------------------------------------------------------------------
ft_status ft_pq_schema_check(ft_storage *storage, bool create);
ft_status ft_pq_has_tables(ft_storage *storage, bool *has);

#endif

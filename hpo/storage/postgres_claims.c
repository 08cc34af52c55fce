// postgres_claims.c - claims are advisory locks of the session: the server frees them with the connection, however that
// ends. A new connection takes them again; what others have taken meanwhile is theirs, and the study has to be opened
// anew.
#include "hpo/storage/postgres.h"

#include "base/clock.h"

#include <string.h>
#include <time.h>

// A server that notices no sooner that a connection is cut keeps its claims for so long, seconds (postgres_connect.c).
static const double PATIENCE = 12;

static ft_pq_held *held_of(ft_postgres *p, uint64_t hash) {
    for (int i = 0; i < p->held_count; i++)
        if (p->held[i].hash == hash) return &p->held[i];
    return NULL;
}

static ft_status add_held(ft_postgres *p, uint64_t hash, ft_pq_held **held) {
    if (p->held_count == p->held_capacity) {
        const int wanted = p->held_capacity > 0 ? 2 * p->held_capacity : 16;
        ft_pq_held *grown = ft_realloc(p->held, (size_t)wanted, sizeof *grown, "claims");
        if (grown == NULL) return FT_NO_MEMORY;
        p->held = grown;
        p->held_capacity = wanted;
    }
    *held = &p->held[p->held_count++];
    **held = (ft_pq_held){FT_CLAIM_NONE, hash};
    return FT_OK;
}

static ft_status ask(ft_storage *storage, int statement, uint64_t hash, bool *yes) {
    ft_postgres *p = storage->postgres;
    int64_t answer = 0;
    if (storage->depth == 0) FT_TRY(ft_pq_connected(storage));
    FT_TRY(ft_pq_send(storage, statement, &p->answer, "i", (int64_t)hash));
    FT_TRY(ft_pq_flush(storage));
    ft_pq_cell(storage, p->answer, 0, 0, &answer);
    *yes = answer > 0;
    return FT_OK;
}

static ft_status try_lock(ft_storage *storage, uint64_t hash, ft_claim_kind kind, bool *got) {
    return ask(storage, kind == FT_CLAIM_ALONE ? FT_PQ_LOCK_ALONE : FT_PQ_LOCK_SHARED, hash, got);
}

static ft_status unlock(ft_storage *storage, uint64_t hash, ft_claim_kind kind) {
    bool had;
    return ask(storage, kind == FT_CLAIM_ALONE ? FT_PQ_UNLOCK_ALONE : FT_PQ_UNLOCK_SHARED, hash, &had);
}

// The two kinds are counted apart: the new one is taken before the old one is given up.
ft_status ft_pq_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got) {
    ft_postgres *p = storage->postgres;
    const uint64_t hash = ft_claim_hash(claim);
    ft_pq_held *held = held_of(p, hash);
    const ft_claim_kind before = held != NULL ? held->kind : FT_CLAIM_NONE;
    *got = true;
    if (before == kind) return FT_OK;
    if (kind != FT_CLAIM_NONE) FT_TRY(try_lock(storage, hash, kind, got));
    if (!*got) return FT_OK;
    if (held == NULL) FT_TRY(add_held(p, hash, &held));
    held->kind = kind;
    if (kind == FT_CLAIM_NONE) *held = p->held[--p->held_count];
    return before != FT_CLAIM_NONE ? unlock(storage, hash, before) : FT_OK;
}

ft_status ft_pq_claim_surely(ft_storage *storage, const ft_claim *claim) {
    ft_postgres *p = storage->postgres;
    const uint64_t hash = ft_claim_hash(claim);
    ft_pq_held *held = held_of(p, hash);
    if (held != NULL)
        return ft_fail(FT_FAILED, storage->path, "%s %lld is claimed already", claim->what, (long long)claim->number);
    FT_TRY(ft_pq_send(storage, FT_PQ_LOCK_OR_FAIL, NULL, "i", (int64_t)hash));
    FT_TRY(add_held(p, hash, &held));
    held->kind = FT_CLAIM_ALONE;
    return FT_OK;
}

ft_status ft_pq_send_release(ft_storage *storage, const ft_claim *claim) {
    const uint64_t hash = ft_claim_hash(claim);
    const ft_pq_held *held = held_of(storage->postgres, hash);
    if (held == NULL) return FT_OK;
    return ft_pq_send(storage, held->kind == FT_CLAIM_ALONE ? FT_PQ_UNLOCK_ALONE : FT_PQ_UNLOCK_SHARED, NULL, "i",
                      (int64_t)hash);
}

void ft_pq_let_go(ft_storage *storage, const ft_claim *claim) {
    ft_postgres *p = storage->postgres;
    ft_pq_held *held = held_of(p, ft_claim_hash(claim));
    if (held != NULL) *held = p->held[--p->held_count];
}

ft_status ft_pq_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others) {
    const ft_postgres *p = storage->postgres;
    const uint64_t hash = ft_claim_hash(claim);
    const bool trial = strcmp(claim->what, "trial") == 0;
    // Of a server that has just been started: whoever trains the trial may not have come back yet.
    if (trial && ft_now() < p->settled) {
        *by_others = true;
        return FT_OK;
    }
    if (trial && ft_pq_look_claimed(storage, hash, by_others)) return FT_OK;
    return ask(storage, FT_PQ_CLAIMED, hash, by_others);
}

ft_status ft_pq_claim_again(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    const double end = ft_now() + PATIENCE;
    for (int i = 0; i < p->held_count;) {
        bool got;
        FT_TRY(try_lock(storage, p->held[i].hash, p->held[i].kind, &got));
        if (got) {
            i++;
            continue;
        }
        if (ft_now() > end) {
            p->held_count = 0;
            ft_fail(FT_FAILED, storage->path, "another process has taken a trial while the database was gone");
            ft_error_is_locked();
            return FT_FAILED;
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return FT_OK;
}

// storage.c - which kind of database a URL means, and groups of changes in any of them.
#include "hpo/storage/postgres.h"

#include "base/url.h"

#include <stdlib.h>
#include <string.h>

static const ft_database *database_of(const char *url) {
    size_t scheme;
    switch (ft_url_kind_of(url, &scheme)) {
    case FT_URL_POSTGRES: return &ft_postgres_database;
    case FT_URL_JOURNAL: return &ft_journal_database;
    default: return &ft_sqlite;
    }
}

ft_status ft_storage_blank(const char *url, bool *blank) { return database_of(url)->blank(url, blank); }

ft_status ft_storage_open(const char *url, int flags, ft_storage **out) {
    *out = NULL;
    ft_storage *storage = ft_calloc(1, sizeof *storage, "a study database");
    if (storage == NULL) return FT_NO_MEMORY;
    storage->is = database_of(url);
    storage->lock = -1;
    storage->writable = (flags & (FT_STORAGE_WRITE | FT_STORAGE_CREATE)) != 0;
    ft_status status = storage->is->open(storage, url, flags);
    if (status == FT_OK) {
        *out = storage;
        return FT_OK;
    }
    ft_error error;
    ft_error_save(&error); // closing must not hide it
    ft_storage_close(storage);
    ft_error_restore(&error);
    return status;
}

ft_status ft_storage_close(ft_storage *storage) {
    if (storage == NULL) return FT_OK;
    if (storage->depth > 0) ft_storage_rollback(storage);
    ft_status status = storage->is->close(storage);
    free(storage->path);
    free(storage);
    return status;
}

const char *ft_storage_path(const ft_storage *storage) { return storage->path; }

uint64_t ft_storage_trips(const ft_storage *storage) {
    return storage->postgres != NULL ? storage->postgres->trips : 0;
}

bool ft_storage_is_remote(const ft_storage *storage) { return storage->is == &ft_postgres_database; }

ft_status ft_storage_full_sync(ft_storage *storage, bool full) { return storage->is->full_sync(storage, full); }

ft_status ft_storage_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got) {
    return storage->is->claim(storage, claim, kind, got);
}

ft_status ft_storage_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others) {
    return storage->is->claimed(storage, claim, by_others);
}

ft_status ft_storage_claim_surely(ft_storage *storage, const ft_claim *claim) {
    bool got;
    if (storage->depth == 0) return ft_fail(FT_FAILED, storage->path, "there is no group of changes to claim in");
    if (storage->is->claim_surely != NULL) return storage->is->claim_surely(storage, claim);
    FT_TRY(ft_storage_claim(storage, claim, FT_CLAIM_ALONE, &got));
    return got ? FT_OK
               : ft_fail(FT_FAILED, storage->path, "another process holds %s %lld", claim->what,
                         (long long)claim->number);
}

// ---- groups ---------------------------------------------------------------------------------------------------------

ft_status ft_storage_begin(ft_storage *storage) {
    if (storage->depth == 0) FT_TRY(storage->is->begin(storage));
    storage->depth++;
    return FT_OK;
}

ft_status ft_storage_commit(ft_storage *storage) {
    // A change that failed inside has taken the whole group back.
    if (storage->depth == 0) return ft_fail(FT_FAILED, storage->path, "there is no group of changes to commit");
    if (storage->depth == 1) FT_TRY(storage->is->commit(storage));
    storage->depth--;
    return FT_OK;
}

ft_status ft_storage_commit_releasing(ft_storage *storage, const ft_claim *claim) {
    bool got;
    if (storage->depth == 1 && storage->is->commit_releasing != NULL) {
        FT_TRY(storage->is->commit_releasing(storage, claim));
        storage->depth = 0;
        return FT_OK;
    }
    FT_TRY(ft_storage_commit(storage));
    return ft_storage_claim(storage, claim, FT_CLAIM_NONE, &got);
}

void ft_storage_rollback(ft_storage *storage) {
    if (storage->depth == 0) return;
    storage->depth = 0;
    storage->is->rollback(storage);
}

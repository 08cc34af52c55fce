// postgres_look.c - what others have written since the last look, in one round trip (two the first time): the trials
// that were unfinished then and the new ones, with all that hangs on them. In a group it also locks the study and its
// unfinished trials, so that what is decided by the look stays so until the group's end. It brings along what is asked
// soon after: who holds which claim, and the user attributes of trials that run.
#include "hpo/storage/postgres.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- sorted ids -----------------------------------------------------------------------------------------------------

static int place_of(const ft_pq_ids *ids, int64_t id) {
    int low = 0, high = ids->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (ids->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ft_pq_ids_have(const ft_pq_ids *ids, int64_t id) {
    const int at = place_of(ids, id);
    return at < ids->count && ids->id[at] == id;
}

bool ft_pq_ids_add(ft_pq_ids *ids, int64_t id) {
    const int at = place_of(ids, id);
    if (at < ids->count && ids->id[at] == id) return true;
    if (ids->count == ids->capacity) {
        const int wanted = ids->capacity > 0 ? 2 * ids->capacity : 32;
        int64_t *grown = ft_realloc(ids->id, (size_t)wanted, sizeof *grown, "trials");
        if (grown == NULL) return false;
        ids->id = grown;
        ids->capacity = wanted;
    }
    memmove(ids->id + at + 1, ids->id + at, (size_t)(ids->count - at) * sizeof *ids->id);
    ids->id[at] = id;
    ids->count++;
    return true;
}

// ---- rows by trial --------------------------------------------------------------------------------------------------

static int64_t id_at(ft_storage *storage, const PGresult *rows, int row) {
    int64_t id = -1;
    ft_pq_cell(storage, rows, row, 0, &id);
    return id;
}

// The first row of a trial that is at least `id`.
static int row_of(ft_storage *storage, const PGresult *rows, int64_t id) {
    int low = 0, high = rows != NULL ? storage->postgres->pq->ntuples(rows) : 0;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (id_at(storage, rows, middle) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has(ft_storage *storage, const PGresult *rows, int64_t id) {
    return rows != NULL && id_at(storage, rows, row_of(storage, rows, id)) == id;
}

static void serve(ft_storage *storage, ft_sql id, PGresult *rows, int begin, int end, int first) {
    storage->postgres->rows[id] = (ft_pq_rows){.result = rows, .row = begin - 1, .end = end, .first = first};
}

static int detail_of(ft_sql id) {
    switch (id) {
    case FT_SQL_PARAMS: return 0;
    case FT_SQL_VALUES: return 1;
    case FT_SQL_REPORTS: return 2;
    case FT_SQL_SYSTEM_ATTRIBUTES: return 3;
    case FT_SQL_USER_ATTRIBUTES: return 4;
    default: return -1;
    }
}

static bool is_of_group(const ft_postgres *p) { return p->study_locked && p->look.systems; }

// Whether the user attributes of a new trial were read.
static bool has_users(ft_storage *storage, int64_t trial_id) {
    const ft_pq_look *look = &storage->postgres->look;
    const char *state = storage->postgres->pq->getvalue(look->new_, row_of(storage, look->new_, trial_id), 2);
    return !look->first || strcmp(state, "RUNNING") == 0;
}

bool ft_pq_look_serves(ft_storage *storage, ft_sql id, int64_t key, int64_t last) {
    const ft_postgres *p = storage->postgres;
    const ft_pq_look *look = &p->look;
    const int detail = detail_of(id);
    const bool user = id == FT_SQL_USER_ATTRIBUTES, system = id == FT_SQL_SYSTEM_ATTRIBUTES;
    if (user ? !look->users : !look->on && !(system && is_of_group(p))) return false;
    if (id == FT_SQL_TRIALS_AFTER) {
        const int begin = row_of(storage, look->new_, last + 1);
        serve(storage, id, look->new_, begin, look->new_ != NULL ? p->pq->ntuples(look->new_) : begin, 0);
        return true;
    }
    if (id != FT_SQL_TRIAL && detail < 0) return false;
    const bool known = has(storage, look->known, key);
    if (!known && !has(storage, look->new_, key)) return false;
    if (id == FT_SQL_TRIAL) {
        PGresult *rows = known ? look->known : look->new_;
        const int row = row_of(storage, rows, key);
        serve(storage, id, rows, row, row + 1, 2);
        return true;
    }
    PGresult *rows = look->details[detail];
    if (rows == NULL || (user && !known && !has_users(storage, key))) return false;
    serve(storage, id, rows, row_of(storage, rows, key), row_of(storage, rows, key + 1), 1);
    return true;
}

bool ft_pq_look_claimed(ft_storage *storage, uint64_t hash, bool *claimed) {
    const ft_postgres *p = storage->postgres;
    *claimed = false;
    if (p->look.claims == NULL) return false;
    int64_t key;
    for (int row = 0; !*claimed && ft_pq_cell(storage, p->look.claims, row, 0, &key); row++)
        *claimed = (uint64_t)key == hash;
    return true;
}

// ---- the look -------------------------------------------------------------------------------------------------------

void ft_pq_look_end(ft_storage *storage) {
    ft_pq_look *look = &storage->postgres->look;
    ft_pq_drop(storage, &look->known);
    ft_pq_drop(storage, &look->new_);
    ft_pq_drop(storage, &look->claims);
    ft_pq_drop(storage, &look->inserted);
    for (int detail = 0; detail < FT_PQ_DETAILS; detail++)
        ft_pq_drop(storage, &look->details[detail]);
    look->on = look->users = look->systems = false;
}

// "{1,2,3}", the database's ids of trials that are unfinished in memory.
static ft_status unfinished(const ft_stored *study, char **list, int *count) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) return ft_fail_memory(0, "trials");
    putc('{', out);
    *count = 0;
    for (int64_t i = 0; i < study->trials.count; i++)
        if (!ft_trial_finished(study->trials.trial[i].state))
            fprintf(out, "%s%lld", (*count)++ > 0 ? "," : "", (long long)study->trial_ids[i]);
    putc('}', out);
    if (fclose(out) != 0) {
        free(text);
        return ft_fail_memory(0, "trials");
    }
    *list = text;
    return FT_OK;
}

enum { LARGEST = INT32_MAX }; // id of a trial

static ft_status send_details(ft_storage *storage, int64_t study, int64_t last, const char *list) {
    ft_pq_look *look = &storage->postgres->look;
    for (int detail = 0; detail < FT_PQ_DETAILS - 1; detail++)
        FT_TRY(ft_pq_send(storage, FT_PQ_LOOK_PARAMS + detail, &look->details[detail], "iiit", study, last,
                          (int64_t)LARGEST, list));
    return FT_OK;
}

static ft_status send_users(ft_storage *storage, int64_t study, int64_t last, const char *list) {
    PGresult **rows = &storage->postgres->look.details[FT_PQ_DETAILS - 1];
    return ft_pq_send(storage, FT_PQ_LOOK_USER, rows, "iiit", study, last, (int64_t)LARGEST, list);
}

// A study that is read for the first time: its trials, then what hangs on them. The user attributes are read of those
// that run: the others' are many, and nobody asks for them now.
static ft_status look_at_all(ft_stored *study) {
    ft_storage *storage = study->storage;
    ft_postgres *p = storage->postgres;
    if (storage->depth > 0) FT_TRY(ft_pq_send(storage, FT_PQ_LOCK_STUDY, NULL, "i", study->id));
    FT_TRY(ft_pq_send(storage, FT_PQ_ALL, &p->look.new_, "i", study->id));
    FT_TRY(ft_pq_flush(storage));
    const int count = p->pq->ntuples(p->look.new_);
    if (count == 0) return FT_OK;
    char *lists[2] = {NULL, NULL};
    size_t length[2];
    FILE *out[2] = {open_memstream(&lists[0], &length[0]), open_memstream(&lists[1], &length[1])};
    bool whole = out[0] != NULL && out[1] != NULL;
    const char *comma = "{";
    for (int row = 0; whole && row < count; row++) {
        const long long id = (long long)id_at(storage, p->look.new_, row);
        fprintf(out[0], "%s%lld", row > 0 ? "," : "{", id);
        if (strcmp(p->pq->getvalue(p->look.new_, row, 2), "RUNNING") != 0) continue;
        fprintf(out[1], "%s%lld", comma, id);
        comma = ",";
    }
    if (whole && comma[0] == '{') putc('{', out[1]);
    for (int i = 0; i < 2; i++) {
        if (out[i] == NULL) continue;
        putc('}', out[i]);
        whole = fclose(out[i]) == 0 && whole;
    }
    ft_status status = whole ? send_details(storage, study->id, LARGEST, lists[0]) : ft_fail_memory(0, "trials");
    if (status == FT_OK) status = send_users(storage, study->id, LARGEST, lists[1]);
    if (status == FT_OK) status = ft_pq_send(storage, FT_PQ_LOOK_CLAIMS, &p->look.claims, "");
    if (status == FT_OK) status = ft_pq_flush(storage);
    free(lists[0]);
    free(lists[1]);
    return status;
}

static ft_status send_insert(ft_stored *study, int64_t last) {
    const ft_next_trial *next = study->storage->next;
    return ft_pq_send(study->storage, FT_PQ_INSERT_NEXT, &study->storage->postgres->look.inserted,
                      next->start != NULL ? "iiiitt" : "iiiitn", study->id, last, (int64_t)LARGEST, study->trials.count,
                      next->state, next->start);
}

static ft_status send_rest(ft_stored *study, int64_t last, const char *list) {
    FT_TRY(send_details(study->storage, study->id, last, list));
    FT_TRY(send_users(study->storage, study->id, last, list));
    return ft_pq_send(study->storage, FT_PQ_LOOK_CLAIMS, &study->storage->postgres->look.claims, "");
}

// All of it in one round trip. Where nobody else has been seen at work and nothing runs, nobody asks for more than new
// trials; should there be one, it takes a second trip, once.
static ft_status look_on(ft_stored *study, const char *list, int known) {
    ft_storage *storage = study->storage;
    ft_postgres *p = storage->postgres;
    const int64_t last = study->trial_ids[study->trials.count - 1];
    const bool group = storage->depth > 0, whole = known > 0 || p->look.company;
    if (group) FT_TRY(ft_pq_send(storage, FT_PQ_LOCK_STUDY, NULL, "i", study->id));
    // States before all else: what hangs on a trial that has ended is whole then.
    if (known > 0) FT_TRY(ft_pq_send(storage, group ? FT_PQ_KNOWN_LOCKED : FT_PQ_KNOWN, &p->look.known, "t", list));
    FT_TRY(ft_pq_send(storage, FT_PQ_NEW, &p->look.new_, "iii", study->id, last, (int64_t)LARGEST));
    if (whole) FT_TRY(send_rest(study, last, list));
    if (group && storage->next != NULL) FT_TRY(send_insert(study, last));
    FT_TRY(ft_pq_flush(storage));
    const bool news = p->pq->ntuples(p->look.new_) > 0;
    p->look.company |= news;
    if (whole || !news) return FT_OK;
    FT_TRY(send_rest(study, last, list));
    return ft_pq_flush(storage);
}

static ft_status look(ft_stored *study) {
    ft_storage *storage = study->storage;
    char *list = NULL;
    int known = 0;
    ft_pq_look_end(storage);
    storage->postgres->look.first = study->trials.count == 0;
    if (storage->postgres->look.first) return look_at_all(study);
    FT_TRY(unfinished(study, &list, &known));
    ft_status status = look_on(study, list, known);
    free(list);
    return status;
}

// Those that are unfinished in the database too are locked by now.
static ft_status note_locked(ft_storage *storage) {
    ft_postgres *p = storage->postgres;
    int64_t id;
    p->study_locked = true;
    for (int row = 0; ft_pq_cell(storage, p->look.known, row, 0, &id); row++) {
        ft_trial_state state;
        if (ft_state_of(p->pq->getvalue(p->look.known, row, 2), &state) != FT_OK)
            ft_error_clear();
        else if (!ft_trial_finished(state) && !ft_pq_ids_add(&p->locked, id))
            return ft_fail_memory(0, "trials");
    }
    return FT_OK;
}

ft_status ft_pq_look_at(ft_stored *study, bool *news) {
    ft_storage *storage = study->storage;
    ft_postgres *p = storage->postgres;
    *news = false;
    // In a group that has looked nobody else can have written but what hangs on trials that others run.
    if (storage->depth > 0 && p->study_locked) return FT_OK;
    ft_status status = FT_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (storage->depth == 0) FT_TRY(ft_pq_connected(storage));
        status = look(study);
        if (status == FT_OK || !p->lost || storage->depth > 0) break;
    }
    FT_TRY(status);
    if (storage->depth > 0) FT_TRY(note_locked(storage));
    *news = p->look.known != NULL || p->pq->ntuples(p->look.new_) > 0;
    p->look.on = *news;
    p->look.users = p->look.systems = true;
    return FT_OK;
}

// The claims and the user attributes are kept until the next look.
void ft_pq_looked(ft_stored *study, bool whole) {
    ft_pq_look *look = &study->storage->postgres->look;
    look->on = false;
    if (!whole) ft_pq_look_end(study->storage);
}

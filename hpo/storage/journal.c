// journal.c - the statements of internal.h over a journal. A group holds the journal's lock: what it decides by stays
// so until its end. Its changes count in memory at once, and are appended together; when it is taken back the journal
// is read again.
#include "hpo/storage/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "journal:";

// ---- parameters of a statement --------------------------------------------------------------------------------------

typedef struct given {
    int64_t integer[4];
    double number[4];
    const char *text[4];
    double exact; // of a value and its type
} given;

// Of values that are not finite tables hold the type alone: here both are at hand.
static given read_given(const char *types, va_list arguments) {
    given g = {.integer = {-1, -1, -1, -1}, .number = {NAN, NAN, NAN, NAN}};
    for (int i = 0; types[i] != '\0' && i < 4; i++)
        switch (types[i]) {
        case 'i': g.integer[i] = va_arg(arguments, int64_t); break;
        case 'd': g.number[i] = va_arg(arguments, double); break;
        case 't': g.text[i] = va_arg(arguments, const char *); break;
        default: break;
        }
    g.exact = g.number[2];
    return g;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static int64_t rows_of(ft_journal *j, ft_sql id, int64_t key) {
    const ft_journal_trial *t = ft_journal_trial_at(&j->state, key);
    const ft_journal_study *s = ft_journal_study_at(&j->state, key);
    switch (id) {
    case FT_SQL_STUDIES: return j->state.study_count;
    case FT_SQL_DIRECTIONS: return s != NULL ? s->objectives : 0;
    case FT_SQL_STATES: return s != NULL ? FT_WAITING + 1 : 0;
    case FT_SQL_TRIALS_AFTER: return s != NULL ? s->trial_count : 0;
    case FT_SQL_TRIAL: return t != NULL;
    case FT_SQL_PARAMS: return t != NULL ? t->params.count : 0;
    case FT_SQL_VALUES: return t != NULL ? t->value_count : 0;
    case FT_SQL_REPORTS: return t != NULL ? t->report_count : 0;
    case FT_SQL_USER_ATTRIBUTES: return t != NULL ? t->attributes[FT_USER_ATTRIBUTE].count : 0;
    case FT_SQL_SYSTEM_ATTRIBUTES: return t != NULL ? t->attributes[FT_SYSTEM_ATTRIBUTE].count : 0;
    case FT_SQL_STUDY_USER_ATTRIBUTES: return s != NULL ? s->attributes[FT_USER_ATTRIBUTE].count : 0;
    case FT_SQL_STUDY_SYSTEM_ATTRIBUTES: return s != NULL ? s->attributes[FT_SYSTEM_ATTRIBUTE].count : 0;
    default: return 0; // a journal has no heartbeats
    }
}

static int64_t find_study(ft_journal *j, const char *name) {
    for (int64_t i = 0; i < j->state.study_count; i++)
        if (j->state.studies[i].name != NULL && strcmp(j->state.studies[i].name, name) == 0) return i;
    return -1;
}

static ft_status bind(ft_storage *storage, ft_sql id, const char *types, va_list arguments) {
    ft_journal *j = storage->journal;
    const given g = read_given(types, arguments);
    // Whoever asks outside of a refresh wants to know how it is now.
    if (storage->depth == 0 && !j->looking) FT_TRY(ft_journal_read_on(storage));
    j->cursor[id] = (struct ft_journal_cursor){.id = g.integer[0], .at = -1, .last = g.integer[1]};
    if (id == FT_SQL_STUDY_BY_NAME) {
        j->cursor[id].id = find_study(j, g.text[0]);
        j->cursor[id].count = j->cursor[id].id >= 0;
    } else {
        j->cursor[id].count = rows_of(j, id, g.integer[0]);
    }
    return FT_OK;
}

static int64_t trials_in(const ft_journal *j, int64_t study, ft_trial_state state) {
    int64_t count = 0;
    const ft_journal_study *s = &j->state.studies[study];
    for (int64_t i = 0; i < s->trial_count; i++)
        count += j->state.trials[s->trials[i]].state == state;
    return count;
}

// Rows that are there only by their place in a list.
static bool is_left_out(const ft_journal *j, ft_sql id) {
    const struct ft_journal_cursor *c = &j->cursor[id];
    if (id == FT_SQL_STUDIES) return j->state.studies[c->at].name == NULL;
    if (id == FT_SQL_STATES) return trials_in(j, c->id, (ft_trial_state)c->at) == 0;
    return id == FT_SQL_TRIALS_AFTER && j->state.studies[c->id].trials[c->at] <= c->last;
}

static ft_status step(ft_storage *storage, ft_sql id, bool *row) {
    const ft_journal *j = storage->journal;
    struct ft_journal_cursor *c = &storage->journal->cursor[id];
    do
        c->at++;
    while (c->at < c->count && is_left_out(j, id));
    *row = c->at < c->count;
    return FT_OK;
}

static void reset(ft_storage *storage, ft_sql id) { storage->journal->cursor[id].count = 0; }

// ---- columns --------------------------------------------------------------------------------------------------------

static const char *time_or_none(const char *time) { return time[0] != '\0' ? time : NULL; }

// The first begin and the last end of the trials in a state.
static const char *span(const ft_journal *j, const struct ft_journal_cursor *c, bool last) {
    const ft_journal_study *s = &j->state.studies[c->id];
    const char *found = NULL;
    for (int64_t i = 0; i < s->trial_count; i++) {
        const ft_journal_trial *t = &j->state.trials[s->trials[i]];
        const char *time = time_or_none(last ? t->complete : t->start);
        if (t->state != (ft_trial_state)c->at || time == NULL) continue;
        if (found == NULL || (last ? strcmp(time, found) > 0 : strcmp(time, found) < 0)) found = time;
    }
    return found;
}

static const ft_journal_pairs *pairs_of(const ft_journal *j, ft_sql id) {
    const int64_t at = j->cursor[id].id;
    switch (id) {
    case FT_SQL_PARAMS: return &j->state.trials[at].params;
    case FT_SQL_USER_ATTRIBUTES: return &j->state.trials[at].attributes[FT_USER_ATTRIBUTE];
    case FT_SQL_SYSTEM_ATTRIBUTES: return &j->state.trials[at].attributes[FT_SYSTEM_ATTRIBUTE];
    case FT_SQL_STUDY_USER_ATTRIBUTES: return &j->state.studies[at].attributes[FT_USER_ATTRIBUTE];
    default: return &j->state.studies[at].attributes[FT_SYSTEM_ATTRIBUTE];
    }
}

static const char *text(ft_storage *storage, ft_sql id, int column, size_t *length) {
    const ft_journal *j = storage->journal;
    const struct ft_journal_cursor *c = &j->cursor[id];
    const char *found = NULL;
    const ft_journal_trial *t =
        id == FT_SQL_TRIAL || id == FT_SQL_VALUES || id == FT_SQL_REPORTS ? &j->state.trials[c->id] : NULL;
    switch (id) {
    case FT_SQL_STUDIES: found = j->state.studies[c->at].name; break;
    case FT_SQL_DIRECTIONS: found = j->state.studies[c->id].maximize[c->at] ? "MAXIMIZE" : "MINIMIZE"; break;
    case FT_SQL_STATES:
        found = column == 0 ? ft_trial_state_name((ft_trial_state)c->at) : span(j, c, column == 3);
        break;
    case FT_SQL_TRIALS_AFTER:
        found = ft_trial_state_name(j->state.trials[j->state.studies[c->id].trials[c->at]].state);
        break;
    case FT_SQL_TRIAL:
        found = column == 0 ? ft_trial_state_name(t->state) : time_or_none(column == 1 ? t->start : t->complete);
        break;
    case FT_SQL_VALUES: found = ft_sql_type_name(t->values[c->at]); break;
    case FT_SQL_REPORTS: found = ft_sql_type_name(t->reports[c->at].value); break;
    default: found = column == 0 ? pairs_of(j, id)->pair[c->at].key : pairs_of(j, id)->pair[c->at].json; break;
    }
    *length = found != NULL ? strlen(found) : 0;
    return found;
}

static bool integer(ft_storage *storage, ft_sql id, int column, int64_t *out) {
    const ft_journal *j = storage->journal;
    const struct ft_journal_cursor *c = &j->cursor[id];
    switch (id) {
    case FT_SQL_STUDIES:
    case FT_SQL_DIRECTIONS:
    case FT_SQL_VALUES: *out = c->at; return true;
    case FT_SQL_STATES: *out = trials_in(j, c->id, (ft_trial_state)c->at); return true;
    case FT_SQL_TRIALS_AFTER: *out = column == 0 ? j->state.studies[c->id].trials[c->at] : c->at; return true;
    case FT_SQL_REPORTS: *out = j->state.trials[c->id].reports[c->at].step; return true;
    default: *out = 0; return false;
    }
}

static bool number(ft_storage *storage, ft_sql id, int column, double *out) {
    const ft_journal *j = storage->journal;
    const struct ft_journal_cursor *c = &j->cursor[id];
    (void)column;
    switch (id) {
    case FT_SQL_PARAMS: *out = j->state.trials[c->id].params.pair[c->at].value; return true;
    case FT_SQL_VALUES: *out = j->state.trials[c->id].values[c->at]; return true;
    case FT_SQL_REPORTS: *out = j->state.trials[c->id].reports[c->at].value; return true;
    default: *out = 0; return false;
    }
}

// ---- changes --------------------------------------------------------------------------------------------------------

static void free_change(ft_journal_change *c) {
    free((char *)c->key);
    free((char *)c->json);
    free((double *)c->values);
    free((bool *)c->maximize);
    *c = (ft_journal_change){.op = FT_JOURNAL_DISCARD};
}

static void forget_pending(ft_journal *j) {
    for (int i = 0; i < j->pending_count; i++)
        free_change(&j->pending[i].change);
    j->pending_count = 0;
}

static bool own(ft_journal_change *c) {
    const ft_journal_change was = *c;
    const size_t bytes = (size_t)was.value_count * sizeof(double);
    c->key = was.key != NULL ? strdup(was.key) : NULL;
    c->json = was.json != NULL ? strdup(was.json) : NULL;
    double *values = was.values != NULL ? malloc(bytes + 1) : NULL;
    bool *maximize = was.maximize != NULL ? malloc((size_t)was.objectives + 1) : NULL;
    if (values != NULL) memcpy(values, was.values, bytes);
    if (maximize != NULL) memcpy(maximize, was.maximize, (size_t)was.objectives);
    c->values = values;
    c->maximize = maximize;
    if ((was.key == NULL || c->key != NULL) && (was.json == NULL || c->json != NULL) &&
        (was.values == NULL || values != NULL) && (was.maximize == NULL || maximize != NULL))
        return true;
    free_change(c);
    return false;
}

// Counts at once, and is written at the end of its group.
static ft_status add(ft_storage *storage, ft_journal_change change) {
    ft_journal *j = storage->journal;
    if (!storage->writable)
        return ft_fail(FT_FAILED, storage->path, "the journal is open for reading only: it is readonly here");
    if (j->pending_count == j->pending_capacity) {
        const int wanted = j->pending_capacity > 0 ? 2 * j->pending_capacity : 64;
        ft_journal_pending *grown = ft_realloc(j->pending, (size_t)wanted, sizeof *grown, "a journal");
        if (grown == NULL) return FT_NO_MEMORY;
        j->pending = grown;
        j->pending_capacity = wanted;
    }
    if (!own(&change)) return ft_fail_memory(0, "a journal");
    j->pending[j->pending_count++].change = change;
    return ft_journal_apply(&j->state, &change, storage->path);
}

static bool has_report(const ft_journal_trial *t, int64_t step) {
    for (int i = 0; i < t->report_count; i++)
        if (t->reports[i].step == step) return true;
    return false;
}

// A journal has the values of a trial in the line that ends it: they wait for that.
static ft_status keep_value(ft_journal *j, int64_t objective, double value) {
    if (objective < 0 || objective >= 64)
        return ft_fail(FT_FAILED, NULL, "there is no objective %lld", (long long)objective);
    j->values[objective] = value;
    j->value_count = (int)objective + 1;
    return FT_OK;
}

// Of a trial that was made in this group: what its lines say of its times is changed before they are written.
static ft_status set_times(ft_storage *storage, int64_t id, const char *start, const char *complete) {
    ft_journal *j = storage->journal;
    ft_journal_trial *t = ft_journal_trial_at(&j->state, id);
    if (t == NULL) return FT_OK;
    snprintf(t->start, sizeof t->start, "%s", start != NULL ? start : "");
    snprintf(t->complete, sizeof t->complete, "%s", complete != NULL ? complete : "");
    int64_t created = j->state.trial_count;
    for (int i = j->pending_count - 1; i >= 0; i--) {
        ft_journal_change *c = &j->pending[i].change;
        if (c->op == FT_JOURNAL_STATE && c->id == id) memcpy(c->complete, t->complete, sizeof c->complete);
        if (c->op != FT_JOURNAL_CREATE_TRIAL || --created != id) continue;
        memcpy(c->start, t->start, sizeof c->start);
        return FT_OK;
    }
    return ft_fail(FT_FAILED, storage->path, "the times of a trial in a journal cannot be changed");
}

// ft_sql_now's form, which is what a line has.
static void copy_time(char out[FT_JOURNAL_TIME], const char *time) {
    snprintf(out, FT_JOURNAL_TIME, "%s", time != NULL ? time : "");
}

static ft_status change_trial(ft_storage *storage, ft_sql id, int *changed, const given *g) {
    ft_journal *j = storage->journal;
    ft_journal_trial *t = ft_journal_trial_at(&j->state, g->integer[0]);
    ft_journal_change c = {.id = g->integer[0], .key = g->text[1], .json = g->text[2]};
    const bool may = t != NULL && !ft_trial_finished(t->state) && (id != FT_SQL_TRIAL_START || t->state == FT_WAITING);
    if (changed != NULL) *changed = may;
    if (!may) return FT_OK;
    switch (id) {
    case FT_SQL_TRIAL_START:
        c = (ft_journal_change){.op = FT_JOURNAL_STATE, .id = c.id, .state = FT_RUNNING, .has_state = true};
        copy_time(c.start, g->text[1]);
        return add(storage, c);
    case FT_SQL_TRIAL_FINISH:
        c = (ft_journal_change){.op = FT_JOURNAL_STATE, .id = c.id, .has_state = true};
        FT_TRY(ft_state_of(g->text[1], &c.state));
        copy_time(c.complete, g->text[2]);
        c.values = j->value_count > 0 ? j->values : NULL;
        c.value_count = j->value_count;
        j->value_count = 0;
        return add(storage, c);
    case FT_SQL_PARAM_SET:
        c.op = FT_JOURNAL_PARAM;
        c.json = g->text[3];
        c.value = g->number[2];
        return add(storage, c);
    case FT_SQL_REPORT_SET:
        if (has_report(t, g->integer[1])) return FT_OK; // the first one stays
        return add(storage,
                   (ft_journal_change){.op = FT_JOURNAL_REPORT, .id = c.id, .step = g->integer[1], .value = g->exact});
    case FT_SQL_USER_ATTRIBUTE_SET: c.op = FT_JOURNAL_USER; return add(storage, c);
    case FT_SQL_SYSTEM_ATTRIBUTE_SET: c.op = FT_JOURNAL_SYSTEM; return add(storage, c);
    default: return FT_OK; // heartbeats: Optuna's journal has none
    }
}

static ft_status insert_trial(ft_storage *storage, const given *g) {
    ft_journal *j = storage->journal;
    ft_journal_change c = {.op = FT_JOURNAL_CREATE_TRIAL, .id = g->integer[1], .has_state = true};
    FT_TRY(ft_state_of(g->text[2], &c.state));
    copy_time(c.start, g->text[3]);
    j->last_id = j->state.trial_count;
    return add(storage, c);
}

// A study is one line with its directions, which come behind its name.
static ft_status add_direction(ft_journal *j, const given *g) {
    ft_journal_change *c = j->pending_count > 0 ? &j->pending[j->pending_count - 1].change : NULL;
    ft_journal_study *s = ft_journal_study_at(&j->state, g->integer[1]);
    if (c == NULL || c->op != FT_JOURNAL_CREATE_STUDY || s == NULL || c->objectives != g->integer[2])
        return ft_fail(FT_FAILED, NULL, "a direction without its study");
    bool *maximize = ft_realloc((bool *)c->maximize, (size_t)c->objectives + 1, sizeof *maximize, "a journal");
    if (maximize == NULL) return FT_NO_MEMORY;
    c->maximize = maximize;
    s->maximize[s->objectives++] = maximize[c->objectives++] = strcmp(g->text[0], "MAXIMIZE") == 0;
    return FT_OK;
}

static ft_status change(ft_storage *storage, ft_sql id, int *changed, const given *g) {
    ft_journal *j = storage->journal;
    if (changed != NULL) *changed = 1;
    switch (id) {
    case FT_SQL_STUDY_INSERT:
        j->last_id = j->state.study_count;
        return add(storage,
                   (ft_journal_change){.op = FT_JOURNAL_CREATE_STUDY, .key = g->text[0], .maximize = (bool[1]){false}});
    case FT_SQL_DIRECTION_INSERT: return add_direction(j, g);
    case FT_SQL_STUDY_USER_ATTRIBUTE_SET:
        return add(storage,
                   (ft_journal_change){
                       .op = FT_JOURNAL_STUDY_USER, .id = g->integer[0], .key = g->text[1], .json = g->text[2]});
    case FT_SQL_STUDY_SYSTEM_ATTRIBUTE_SET:
        return add(storage,
                   (ft_journal_change){
                       .op = FT_JOURNAL_STUDY_SYSTEM, .id = g->integer[0], .key = g->text[1], .json = g->text[2]});
    case FT_SQL_TRIAL_INSERT: return insert_trial(storage, g);
    case FT_SQL_VALUE_SET: return keep_value(j, g->integer[1], g->exact);
    case FT_SQL_REPORTS_DELETE:
        return FT_OK; // a line stays. Neither `tune` nor Optuna's programs report several objectives
    case FT_SQL_TRIAL_TIMES_SET: return set_times(storage, g->integer[0], g->text[1], g->text[2]);
    default: return change_trial(storage, id, changed, g);
    }
}

static ft_status run(ft_storage *storage, ft_sql id, int *changed, const char *types, va_list arguments) {
    const given g = read_given(types, arguments);
    if (storage->depth > 0) return change(storage, id, changed, &g);
    FT_TRY(ft_storage_begin(storage)); // a change alone is a group of its own
    ft_status status = change(storage, id, changed, &g);
    if (status == FT_OK) return ft_storage_commit(storage);
    ft_storage_rollback(storage);
    return status;
}

static int64_t last_id(ft_storage *storage) { return storage->journal->last_id; }

// ---- groups ---------------------------------------------------------------------------------------------------------

static ft_status begin(ft_storage *storage) {
    storage->journal->value_count = 0;
    if (!storage->writable) return ft_journal_read_on(storage);
    FT_TRY(ft_journal_lock(storage));
    ft_status status = ft_journal_read_on(storage);
    if (status != FT_OK) ft_journal_unlock(storage);
    return status;
}

static ft_status write_pending(ft_storage *storage) {
    ft_journal *j = storage->journal;
    char *lines = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&lines, &length);
    if (out == NULL) return ft_fail_memory(0, "a journal");
    for (int i = 0; i < j->pending_count; i++)
        ft_journal_write(out, &j->pending[i].change, j->worker);
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed || lines == NULL;
    ft_status status = failed ? ft_fail_memory(length, "a journal") : ft_journal_append(storage, lines, length);
    free(lines);
    if (status != FT_OK) return status;
    j->lines += j->pending_count;
    forget_pending(j);
    return FT_OK;
}

static ft_status commit(ft_storage *storage) {
    ft_journal *j = storage->journal;
    if (j->pending_count > 0) FT_TRY(write_pending(storage)); // else whoever rolls back lets go
    ft_journal_unlock(storage);
    return FT_OK;
}

// What the changes did to the state cannot be undone: the journal is read again when it is needed.
static void rollback(ft_storage *storage) {
    ft_journal *j = storage->journal;
    if (j->pending_count > 0) {
        ft_journal_state_free(&j->state);
        j->read = j->lines = 0;
        forget_pending(j);
    }
    ft_journal_unlock(storage);
}

static ft_status look(ft_stored *study, bool *news) {
    ft_journal *j = study->storage->journal;
    if (study->storage->depth == 0) FT_TRY(ft_journal_read_on(study->storage));
    *news = j->lines != study->data_version;
    j->looking = *news;
    return FT_OK;
}

static void looked(ft_stored *study, bool whole) {
    ft_journal *j = study->storage->journal;
    j->looking = false;
    if (whole) study->data_version = j->lines;
}

static ft_status delete_study(ft_storage *storage, int64_t id) {
    return add(storage, (ft_journal_change){.op = FT_JOURNAL_DELETE_STUDY, .id = id});
}

static ft_status full_sync(ft_storage *storage, bool full) { // each append waits for the disk
    (void)storage, (void)full;
    return FT_OK;
}

// ---- open and close -------------------------------------------------------------------------------------------------

static const char *path_of(const char *url) {
    return strncmp(url, prefix, sizeof prefix - 1) == 0 ? url + sizeof prefix - 1 : url;
}

static ft_status blank(const char *url, bool *is) {
    struct stat file;
    *is = stat(path_of(url), &file) != 0 || file.st_size == 0;
    return FT_OK;
}

// As Optuna's, which tells its processes by it: no two may have the same.
static ft_status make_worker(ft_journal *j) {
    unsigned char random[16];
    size_t at = 0;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return ft_fail_errno(FT_FAILED, errno, NULL, "the system gives no random numbers");
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(j->worker + at, sizeof j->worker - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", random[i]);
    snprintf(j->worker + at, sizeof j->worker - at, "-0");
    return FT_OK;
}

static ft_status open_journal(ft_storage *storage, const char *url, int flags) {
    const char *path = path_of(url);
    ft_journal *j = storage->journal = ft_calloc(1, sizeof *storage->journal, "a journal");
    if (j == NULL) return FT_NO_MEMORY;
    if (path[0] == '\0') return ft_fail(FT_INVALID, url, "a study needs a file to live in");
    storage->path = strdup(path);
    j->lock_file = malloc(strlen(path) + 6);
    if (storage->path == NULL || j->lock_file == NULL) return ft_fail_memory(strlen(path), "a path");
    sprintf(j->lock_file, "%s.lock", path);
    j->local = ft_network_disk(path) == NULL;
    FT_TRY(make_worker(j));
    if ((flags & FT_STORAGE_CREATE) != 0) {
        const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (file < 0) return ft_fail_errno(FT_INVALID, errno, path, "cannot make the journal");
        close(file);
    }
    if (access(path, F_OK) != 0) return ft_fail(FT_INVALID, path, "there is no such study file");
    return ft_journal_read_on(storage);
}

static ft_status close_journal(ft_storage *storage) {
    ft_journal *j = storage->journal;
    if (j == NULL) return FT_OK;
    forget_pending(j);
    ft_journal_state_free(&j->state);
    free(j->pending);
    free(j->lock_file);
    free(j);
    storage->journal = NULL;
    if (storage->lock >= 0) close(storage->lock);
    storage->lock = -1;
    return FT_OK;
}

// Claims are locks of the journal file itself, as those of a file of SQLite.
const ft_database ft_journal_database = {.bind = bind,
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
                                         .look = look,
                                         .looked = looked,
                                         .claim = ft_sqlite_claim,
                                         .claimed = ft_sqlite_claimed,
                                         .delete_study = delete_study,
                                         .full_sync = full_sync,
                                         .blank = blank,
                                         .open = open_journal,
                                         .close = close_journal};

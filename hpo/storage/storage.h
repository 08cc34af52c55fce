// storage.h - studies in a database with Optuna's tables (schema v3.2.0.a), which Optuna and its dashboard open and
// continue, and the other way round: one SQLite file, or PostgreSQL.
//
//     ft_storage *storage;
//     FT_TRY(ft_storage_open("sqlite:///studies/a/study.db", FT_STORAGE_CREATE, &storage));
//     ft_stored *study;
//     FT_TRY(ft_stored_create(storage, "a", 1, &(bool){true}, &study));
//     FT_TRY(ft_stored_ask(study, FT_RUNNING, &number));
//     FT_TRY(ft_stored_param(study, number, "train.learning_rate", &distribution, 3e-5));
//     FT_TRY(ft_stored_finish(study, number, FT_COMPLETE, &(double){0.93}, 1));
//     ft_stored_close(study);
//     FT_TRY(ft_storage_close(storage));
//
// 1. A change is in the database when its function returns (in a group: when the group is committed). A kill at any
// moment,
//    kill -9 too, loses nothing that had returned. A power cut can lose the last changes, never more, and never damages
//    the file; with FT_STORAGE_FULL_SYNC it loses nothing either.
// 2. While it is open for writing a file of SQLite is in WAL mode. ft_storage_close() puts it back to one plain file;
// after a kill the
//    next open and close do.
// 3. Finished trials never change. Trials never go away, so numbers run from 0 without gaps in the order of trial_id.
// 4. Every change goes to the database first and then to the history in memory. After an error of a changing function
// the two may
//    differ: close the study. FT_FAILED from a change to a trial that another process has just finished is harmless:
//    ft_stored_refresh() and go on. In PostgreSQL what a group writes may be refused as late as by its commit.
// 5. One thread per storage; any number of processes.
#ifndef FT_HPO_STORAGE_H
#define FT_HPO_STORAGE_H

#include "hpo/search/history/trials.h"

typedef struct ft_storage ft_storage;

enum {
    FT_STORAGE_READ = 0,      // the file is not touched
    FT_STORAGE_WRITE = 1,     // it must be there
    FT_STORAGE_CREATE = 2,    // for writing; made when it is not there
    FT_STORAGE_FULL_SYNC = 4, // every commit waits for the disk
};

// `url` is sqlite:///FILE or just a path, or postgresql://USER@HOST/DATABASE as libpq takes it. FT_INVALID for what is
// not a database of studies, and for schemas older or newer than ours. A server that cannot be reached is an error that
// is said to be locked (base/status.h): it may be there later.
ft_status ft_storage_open(const char *url, int flags, ft_storage **out);
// Whether there is nothing in the database yet: it is not there, or whoever made it was killed before its tables were
// whole.
ft_status ft_storage_blank(const char *url, bool *blank);
ft_status ft_storage_close(ft_storage *storage); // NULL is fine. It is closed also when this fails
// Whether commits wait for the disk from now on, with all that was committed before; as FT_STORAGE_FULL_SYNC. Not in a group.
ft_status ft_storage_full_sync(ft_storage *storage, bool full);
const char *ft_storage_path(const ft_storage *storage); // for people: a file, or an address without a password
uint64_t ft_storage_trips(const ft_storage *storage);   // round trips to its server so far
bool ft_storage_is_remote(const ft_storage *storage);   // processes of several machines may have it open

// Groups changes into one transaction: all or none of them, and one write to the disk. Groups may nest. A change that
// fails may have rolled the group back; commit then fails, and rollback is always right.
ft_status ft_storage_begin(ft_storage *storage);
ft_status ft_storage_commit(ft_storage *storage);
void ft_storage_rollback(ft_storage *storage); // of the outermost group

// Claims: what processes that have the database open agree on. Each is a name; a claim lasts until the storage gives it
// up or is closed, or its process ends, however it does. Of a process that was killed between a fork and the exec behind
// it the child keeps them a moment longer.
typedef struct ft_claim {
    const char *what, *study;
    int64_t number;
} ft_claim;
// Of those that run a study, shared; alone it is deleted.
static inline ft_claim ft_claim_of_study(const char *study) { return (ft_claim){"study", study, 0}; }
typedef enum ft_claim_kind { FT_CLAIM_NONE, FT_CLAIM_SHARED, FT_CLAIM_ALONE } ft_claim_kind;
// Claims in this way from now on. *got = false: another storage, in this process or another, by whatever path, claims it in
// a way that excludes this one; what was claimed before stays. The storage is open for writing.
ft_status ft_storage_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got);
// Whether another storage claims it, in either way. The storage is open for writing.
ft_status ft_storage_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others);
// In a group, of what nobody else should have: alone. FT_FAILED when somebody has it all the same; of a server's
// database as late as by the group's commit, for it travels with the group. A group that is rolled back keeps it.
ft_status ft_storage_claim_surely(ft_storage *storage, const ft_claim *claim);
// Commits the outermost group and gives the claim up behind that, in one round trip where the database is a server's.
ft_status ft_storage_commit_releasing(ft_storage *storage, const ft_claim *claim);

// Claims in a file of their own: of what concerns one machine alone, whoever has the database.
typedef struct ft_claim_file ft_claim_file;
ft_status ft_claim_file_open(const char *path, unsigned mode,
                             ft_claim_file **out); // made, with `mode`, when it is not there
void ft_claim_file_close(ft_claim_file *file);     // with all its claims; NULL is fine
ft_status ft_claim_file_claim(ft_claim_file *file, const ft_claim *claim, ft_claim_kind kind, bool *got);
ft_status ft_claim_file_claimed(ft_claim_file *file, const ft_claim *claim, bool *by_others);

// ---- studies --------------------------------------------------------------------------------------------------------

typedef struct ft_study_info {
    int64_t id;
    const char *name;
    int objectives;
    const bool *maximize;
    int64_t trials[5];                // by ft_trial_state
    int64_t first_start, last_finish; // microseconds since 1970, -1 = none
} ft_study_info;

ft_status ft_storage_studies(ft_storage *storage, ft_arena *arena, ft_study_info **studies, int *count);
// Ids and names alone: a question less for each study.
ft_status ft_storage_study_names(ft_storage *storage, ft_arena *arena, ft_study_info **studies, int *count);
// With all its trials and attributes. FT_INVALID, with the names that there are, when there is no such study.
ft_status ft_storage_delete_study(ft_storage *storage, const char *name);
// Copies a study of another open storage under a new name.
ft_status ft_storage_copy_study(ft_storage *to, ft_storage *from, const char *name, const char *new_name);

// A study with its history in memory. Read `trials` as you like; change it through the functions below.
typedef struct ft_stored {
    ft_storage *storage;
    int64_t id;
    char *name;
    ft_trials trials;
    int64_t *trial_ids;         // [trials.count] the database's
    struct ft_seen_param *seen; // by name id: what load.c has parsed
    int64_t id_capacity, data_version;
    int seen_capacity;
} ft_stored;

// name NULL: the only study in the file.
ft_status ft_stored_open(ft_storage *storage, const char *name, ft_stored **out);
// FT_INVALID when the name is taken.
ft_status ft_stored_create(ft_storage *storage, const char *name, int objectives, const bool *maximize,
                           ft_stored **out);
void ft_stored_close(ft_stored *study); // NULL is fine
// Takes in what other processes have written. Costs next to nothing when they have not.
ft_status ft_stored_refresh(ft_stored *study);

// ---- trials ---------------------------------------------------------------------------------------------------------

// A new trial: RUNNING, or WAITING in the queue.
ft_status ft_stored_ask(ft_stored *study, ft_trial_state state, int64_t *number);
// A WAITING trial becomes RUNNING. *started = false: another process was faster.
ft_status ft_stored_start(ft_stored *study, int64_t number, bool *started);
// The oldest WAITING trial becomes RUNNING; it goes to one process only. *number = -1: none is waiting.
ft_status ft_stored_pop(ft_stored *study, int64_t *number);
// FT_INVALID when the study knows the name with another kind of distribution or other choices: Optuna would refuse the
// study.
ft_status ft_stored_param(ft_stored *study, int64_t number, const char *name, const ft_distribution *distribution,
                          double value);
// Whether ft_stored_param would take this distribution. Changes nothing.
ft_status ft_stored_compatible(const ft_stored *study, const char *name, const ft_distribution *distribution);
// Drawn jointly, not yet asked for: other workers' samplers count them. Written once a trial.
typedef struct ft_stored_value {
    const char *name;
    const ft_distribution *distribution;
    double value;
} ft_stored_value;
ft_status ft_stored_relative(ft_stored *study, int64_t number, const ft_stored_value *values, int count);
// Of several objectives too, as Optuna's storages take them; its programs and `tune` report none there, and those of a
// pruned trial go with its end, where the database can take something back.
ft_status ft_stored_report(ft_stored *study, int64_t number, int64_t step, double value);
// What a pruner's verdict asks for.
ft_status ft_stored_rungs(ft_stored *study, int64_t number, int count, double value);
// All constraints of a trial, <= 0 is feasible. Without names they are stored as every Optuna since 3.0 reads them;
// named ones are seen by 5.0 and later only.
ft_status ft_stored_constraints(ft_stored *study, int64_t number, const char *const *names, const double *values,
                                int count);
// COMPLETE with all values, PRUNED with one or none, FAIL with none.
ft_status ft_stored_finish(ft_stored *study, int64_t number, ft_trial_state state, const double *values, int count);
// Says that a RUNNING trial is alive. Optuna's workers fail those that have stopped to say so.
ft_status ft_stored_heartbeat(ft_stored *study, int64_t number);
ft_status ft_stored_heartbeat_age(ft_stored *study, int64_t number, double *seconds); // -1: it never said so
// Microseconds since 1970, -1 = none. (Optuna before 5 stored local time, and the file does not tell.)
ft_status ft_stored_times(ft_stored *study, int64_t number, int64_t *start, int64_t *finish);

// ---- fixed parameters and attributes --------------------------------------------------------------------------------

// A parameter that a WAITING trial must take, as people write it.
typedef struct ft_fixed_param {
    const char *name;
    ft_choice value;
} ft_fixed_param;
// A WAITING trial; a part of the parameters is enough, the sampler does the rest.
ft_status ft_stored_enqueue(ft_stored *study, const ft_fixed_param *params, int count, int64_t *number);
ft_status ft_stored_fixed(ft_stored *study, int64_t number, ft_arena *arena, ft_fixed_param **params, int *count);

typedef enum ft_attribute_kind { FT_USER_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE } ft_attribute_kind;
typedef struct ft_attribute {
    const char *key;
    const char *json; // as Python writes it: NaN and Infinity are legal
} ft_attribute;

enum { FT_STUDY_ATTRIBUTE = -1 }; // in place of a trial's number

// Sets or replaces. `json` must be one JSON value.
ft_status ft_stored_set_attribute(ft_stored *study, int64_t number, ft_attribute_kind kind, const char *key,
                                  const char *json);
// The same, of a plain value.
ft_status ft_stored_set_scalar(ft_stored *study, int64_t number, ft_attribute_kind kind, const char *key,
                               const ft_choice *value);
ft_status ft_stored_attributes(ft_stored *study, int64_t number, ft_attribute_kind kind, ft_arena *arena,
                               ft_attribute **attributes, int *count);
// *json = NULL when there is none.
ft_status ft_stored_attribute(ft_stored *study, int64_t number, ft_attribute_kind kind, const char *key,
                              ft_arena *arena, const char **json);

#endif

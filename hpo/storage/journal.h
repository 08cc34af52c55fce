// journal.h - a study in Optuna's journal file, behind internal.h: one line of JSON for each change, in the order in
// which they were made. In reading order: journal_lines.c (a line as a change, and back), journal_state.c (what a study
// is after all changes), journal_file.c (the lock file, reading on, appending), journal.c (the statements of
// internal.h).
#ifndef FT_HPO_STORAGE_JOURNAL_H
#define FT_HPO_STORAGE_JOURNAL_H

#include "hpo/storage/internal.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

enum { FT_JOURNAL_TIME = 32 }; // "YYYY-MM-DD HH:MM:SS.ffffff" in UTC, "" for none

typedef struct ft_journal_pair {
    char *key, *json; // a parameter: its name and distribution
    double value;     // of a parameter
} ft_journal_pair;

typedef struct ft_journal_pairs { // in order of first setting
    ft_journal_pair *pair;
    int count, capacity;
} ft_journal_pairs;

typedef struct ft_journal_report {
    int64_t step;
    double value;
} ft_journal_report;

typedef struct ft_journal_trial {
    int64_t study, number;
    ft_trial_state state;
    char start[FT_JOURNAL_TIME], complete[FT_JOURNAL_TIME];
    ft_journal_pairs params, attributes[2]; // by ft_attribute_kind
    ft_journal_report *reports;             // by step
    int report_count, report_capacity;
    double *values;
    int value_count;
} ft_journal_trial;

typedef struct ft_journal_study {
    char *name; // NULL: deleted
    bool maximize[64], directed;
    int objectives;
    int64_t *trials; // ids, by number
    int64_t trial_count, trial_capacity;
    ft_journal_pairs attributes[2];
} ft_journal_study;

// Optuna's JournalOperation.
typedef enum ft_journal_op {
    FT_JOURNAL_CREATE_STUDY,
    FT_JOURNAL_DELETE_STUDY,
    FT_JOURNAL_STUDY_USER,
    FT_JOURNAL_STUDY_SYSTEM,
    FT_JOURNAL_CREATE_TRIAL,
    FT_JOURNAL_PARAM,
    FT_JOURNAL_STATE,
    FT_JOURNAL_REPORT,
    FT_JOURNAL_USER,
    FT_JOURNAL_SYSTEM,
    FT_JOURNAL_DISCARD, // another program's
} ft_journal_op;

// One change. What of it counts depends on `op`; texts are its owner's.
typedef struct ft_journal_change {
    ft_journal_op op;
    int64_t id; // of the study, or of the trial
    const char *key, *json;
    double value;
    int64_t step;
    ft_trial_state state;
    bool has_state;
    char start[FT_JOURNAL_TIME], complete[FT_JOURNAL_TIME];
    const double *values;
    int value_count;
    const bool *maximize;
    int objectives;
    const json_t *template_; // of a trial that another program has added whole; NULL: none
} ft_journal_change;

typedef struct ft_journal_state {
    ft_journal_study *studies;
    int64_t study_count, study_capacity;
    ft_journal_trial *trials;
    int64_t trial_count, trial_capacity;
} ft_journal_state;

// A change that was made here and waits for the end of its group.
typedef struct ft_journal_pending {
    ft_journal_change change; // its texts and values are its own
} ft_journal_pending;

typedef struct ft_journal {
    char *lock_file;
    char worker[48];
    dev_t lock_device; // of the lock while it is held
    ino_t lock_inode;
    bool locked, claimed; // by the lock file; beside it
    bool local;           // claims hold on its disk
    char target[300];     // of the link
    off_t read;           // bytes of the file that are in the state
    int64_t lines;        // of these
    ino_t inode;          // of the file
    ft_journal_state state;
    ft_journal_pending *pending;
    int pending_count, pending_capacity;
    int64_t last_id;
    double values[64]; // of the trial that is about to end
    int value_count;
    bool looking; // a refresh reads
    struct ft_journal_cursor {
        int64_t id; // of a study or a trial
        int64_t at, count;
        int64_t last; // of TRIALS_AFTER
    } cursor[FT_SQL_COUNT];
} ft_journal;

// ---- journal_lines.c ----------------------------------------------------------------------------------------------
// `line` is ended by a NUL. What the change points to lives in *root, to be decref'd, and in `arena`.
ft_status ft_journal_parse(const char *line, const char *where, ft_arena *arena, json_t **root,
                           ft_journal_change *change);
void ft_journal_write(FILE *out, const ft_journal_change *change, const char *worker);

// ---- journal_state.c ----------------------------------------------------------------------------------------------
// As every program that reads the line does it: what is impossible (of a trial that has ended, of a study that is gone)
// counts for nothing. `where` is for errors of what no program would write.
ft_status ft_journal_apply(ft_journal_state *state, const ft_journal_change *change, const char *where);
void ft_journal_state_free(ft_journal_state *state);
ft_journal_trial *ft_journal_trial_at(ft_journal_state *state, int64_t id); // NULL: there is none
ft_journal_study *ft_journal_study_at(ft_journal_state *state, int64_t id);

// ---- journal_file.c -----------------------------------------------------------------------------------------------
ft_status ft_journal_read_on(ft_storage *storage); // what was appended since
ft_status ft_journal_lock(ft_storage *storage);
void ft_journal_unlock(ft_storage *storage);
ft_status ft_journal_append(ft_storage *storage, const char *text, size_t length); // locked; it is on the disk then

#endif

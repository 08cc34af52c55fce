// follow.h - a tracker is told again and again, until what it is told of has ended; a tracker that is slow or gone
// costs a warning.
#ifndef FT_TRACK_FOLLOW_H
#define FT_TRACK_FOLLOW_H

#include "engine/config/config.h"
#include "engine/track/mlflow.h"

typedef struct ft_follow {
    const char *uri, *experiment; // its name
    bool model;                   // of a run, among its artifacts
    bool live;                    // until standard input ends, with whoever holds its other end; else once
} ft_follow;

typedef struct ft_followed {
    void *context;
    void (*look)(void *context); // once a second, whether or not the tracker answers; may be NULL
    // Tells what is new. last: what it is of has ended.
    ft_status (*tell)(void *context, ft_mlflow *client, const char *experiment, bool last);
} ft_followed;

// FT_OK: everything was told. Otherwise the last try's error.
ft_status ft_follow_all(const ft_follow *follow, const ft_followed *what);

// Where track.mlflow, else MLFLOW_TRACKING_URI, says; NULL: nowhere.
const char *ft_follow_uri(const ft_config *config);
// FT_INVALID: the option is no http or https. Such a variable is warned of and passed over, for it may be meant for
// other programs.
ft_status ft_follow_check(const ft_config *config);
// track.experiment, else MLFLOW_EXPERIMENT_NAME, else Default
const char *ft_follow_experiment(const ft_config *config);
// Keeps a record of what was told in a file beside what it is of.
ft_status ft_follow_load(const char *path, json_t **record); // {"format_version"} where there is no such file
// One process at a time tells of a directory (mlflow.lock in it): waits for that, live as long as it takes. *lock:
// close() it; -1: the end came first.
ft_status ft_follow_lock(const ft_follow *follow, const char *directory, int *lock);

#endif

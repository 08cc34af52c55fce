// tracker.h - a process beside a run or a study that tells MLflow of it (`ftengine track --live`, follow.h): neither
// its libraries nor a server that hangs are in the way of training, and what was not told when it is killed is told by
// the next.
#ifndef FT_TRACK_TRACKER_H
#define FT_TRACK_TRACKER_H

#include "engine/config/config.h"

typedef struct ft_tracker ft_tracker;

// For a run's directory, or a study by its directory, or its name where `storage` names its database (else NULL);
// *tracker NULL:
// nobody is to be told, or it failed, which is a warning.
void ft_tracker_start(const ft_config *config, const char *what, const char *storage, ft_tracker **tracker);
// What it is told of has ended, with all its files: waits for it, some seconds and no longer. It goes on alone if it is
// slow. NULL is fine; the present error stays.
void ft_tracker_end(ft_tracker *tracker);

#endif

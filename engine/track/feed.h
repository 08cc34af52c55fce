// feed.h - metrics.jsonl of a run, read while it grows, for a tracker that wants to know when each line was written.
// The file is all there is of what a tracker has not heard yet: nothing else is kept, but of the newest lines when they
// were seen.
//
// A run that goes on cuts the file at its checkpoint and writes the same lines again. So what has been told is known by
// step, of lines of training and of evaluations apart, and stands in the record (mlflow.h) as train_step and eval_step.
#ifndef FT_TRACK_FEED_H
#define FT_TRACK_FEED_H

#include "engine/track/mlflow.h"

typedef struct ft_feed {
    char *path;           // metrics.jsonl
    int64_t offset, seen; // bytes: of lines that were told; that have a time
    int64_t *times;       // [count] of the lines between, milliseconds since 1970
    int count, capacity;
    bool looked;
} ft_feed;

ft_status ft_feed_open(const char *directory, ft_feed *feed);
void ft_feed_close(ft_feed *feed); // {0} is fine
// Gives the lines that have come since the last look the present time. Those of the first look were there before:
// theirs is the file's.
ft_status ft_feed_look(ft_feed *feed);
// What may be told after the last ft_feed_told, at most a few hundred lines: appended to batch->metrics, in MLflow's
// names, the Trainer's.
typedef struct ft_feed_piece {
    int lines; // 0: there is none
    int64_t bytes, train_step, eval_step;
} ft_feed_piece;
ft_status ft_feed_take(ft_feed *feed, const json_t *record, ft_mlflow_batch *batch, ft_feed_piece *piece);
ft_status ft_feed_told(ft_feed *feed, json_t *record, const ft_feed_piece *piece);

#endif

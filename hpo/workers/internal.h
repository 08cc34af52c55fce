// internal.h - what a worker of one trial (worker.c) and one of several (pack.c) have in common.
#ifndef FT_HPO_WORKERS_INTERNAL_H
#define FT_HPO_WORKERS_INTERNAL_H

#include "hpo/workers/channel.h"
#include "hpo/workers/worker.h"

typedef struct ft_mail ft_mail; // pack.c: messages that another thread has received for a trial

struct ft_worker {
    ft_channel channel;
    const char *study;
    ft_mail *mail; // NULL: it receives its own
};

// Trains the trial of a "run", and tells its end.
void ft_worker_run_trial(ft_worker *worker, ft_worker_function run, void *context, const json_t *message);
bool ft_mail_take_turn(ft_mail *mail, double seconds, bool *alone); // false: none came within so many seconds
bool ft_mail_stops(ft_mail *mail);
bool ft_mail_keeps(ft_mail *mail);

#endif

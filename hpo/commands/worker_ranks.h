// worker_ranks.h - a trial on several devices: the worker is its first rank, and starts the others for as long as the
// trial takes.
#ifndef FT_HPO_WORKER_RANKS_H
#define FT_HPO_WORKER_RANKS_H

#include "engine/config/config.h"
#include "engine/train/repeat/repeat.h"
#include "hpo/workers/worker.h"

// The configuration of a job, on its devices. Strings of the job are kept by reference.
ft_status ft_trial_load(const ft_worker_job *job, ft_config *config);
// Trains it, alone or with others. Like ft_train_all; of several ranks the first failure of any is the error.
ft_status ft_trial_train(const ft_worker_job *job, const ft_config *config, ft_memory_refusal *refusal);
// `ftengine worker R N FILE DIRECTORY JOB`, argc 5: one of the others. JOB is what else the job says, as JSON.
ft_status ft_trial_rank(int argc, char **argv);

#endif

// features.h - of a job whose head alone is trained: what the frozen trunk makes of every sequence, made once.
//
// The data sets of such a job are read as features (ft_feature_input) from ft_job_plan_features on, also while their rows are not there
// yet: steps and evaluations are planned in rows. A *set* is what one file of texts comes to, in the order of the file: the parts that
// data.folds or data.validation_split cut it into share one, so that every fold finds it.
#ifndef FT_TRAIN_JOB_FEATURES_H
#define FT_TRAIN_JOB_FEATURES_H

#include "engine/data/batch.h"
#include "engine/data/feature_cache.h"
#include "engine/train/job/job.h"
#include "kernels/ops/device.h"

// Behind ft_job_tokenise: whether it is such a job, that no option or bound forbids it.
ft_status ft_job_plan_features(ft_job *job);
// Looks for rows that were kept. target: of the device that makes them; on GPUs they differ in rounding with it, with `tuning` (of its
// products; "": none) and with the sizes of micro-batches. Nothing where the job has no features, or its model no files.
ft_status ft_job_find_features(ft_job *job, const ft_target *target, const char *tuning);
// Rows that are missing were made (in ft_features.own): data sets read them, and they are kept for others, but for those that are not
// what the key says: of a GPU whose micro-batches had to be fitted, or of another device than was looked for.
void ft_job_take_features(ft_job *job, const ft_target *target, bool fitted);
void ft_job_close_features(ft_job *job);

bool ft_job_lacks_features(const ft_job *job); // rows have to be made
// Rows of a sequence as steps see it, at most.
int ft_job_longest(const ft_job *job);
// A part of a set as the trunk reads it.
ft_dataset ft_job_texts(const ft_job *job, ft_split split);
// How micro-batches of the trunk are cut: as training would.
ft_batch_limits ft_trunk_limits(const ft_config *config);
// Bytes of the host that rows take which are still to be made: in memory, and in all.
typedef struct ft_feature_bytes {
    size_t held, all;
} ft_feature_bytes;
ft_feature_bytes ft_job_feature_bytes(const ft_job *job);

#endif

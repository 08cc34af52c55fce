// active_rows.h - memory.active_vocabulary: which rows of the word table live on the device in this run.
#ifndef FT_ACTIVE_ROWS_H
#define FT_ACTIVE_ROWS_H

#include "engine/train/job/job.h"

// Once the texts are tokens and the model's numbers are known: job->word_rows, or NULL where all rows stay, and
// job->word_rows_save.
ft_status ft_job_choose_rows(ft_job *job);

#endif

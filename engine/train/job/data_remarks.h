// data_remarks.h - what a person would want to know of the data before they are trained on, and no figure shows: which columns were
// taken, texts that are damaged or in quotes, classes that look like slips of the pen.
#ifndef FT_DATA_REMARKS_H
#define FT_DATA_REMARKS_H

#include "engine/train/job/job.h"

// Says it. FT_NO_MEMORY.
ft_status ft_data_remarks(const ft_job *job);

#endif

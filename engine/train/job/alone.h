// alone.h - what is trained on one device alone, as far as only the job tells it; what options tell is in
// engine/config/device_list.h.
#ifndef FT_JOB_ALONE_H
#define FT_JOB_ALONE_H

#include "engine/train/job/job.h"

// In words ("a model of pictures"); NULL: several devices may train it together.
const char *ft_job_alone(const ft_job *job);

#endif

// data_report.h - what a run says of its data before the first step, and in run.json.
#ifndef FT_TRAIN_DATA_REPORT_H
#define FT_TRAIN_DATA_REPORT_H

#include "engine/train/job/job.h"

#include <jansson.h>

// Prints a small table of a job that is measured (ft_job_measure) and warns of what is usually a mistake: texts of the training
// data in another file, equal texts with different labels, empty texts, many texts cut.
ft_status ft_data_report_splits(const ft_job *job);
// A split's figures for run.json's "data"; *failed is set when the host has no memory.
json_t *ft_data_report_json(const ft_job *job, ft_split split, bool *failed);
// Bytes of the host that those of all splits take together, when run.json is written or, of one among several runs, read again.
size_t ft_data_report_json_bytes(const ft_job *job);

#endif

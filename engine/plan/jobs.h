// jobs.h - the job of every fold of a configuration, open for planning, and kept open for configurations that differ from it in
// nothing that a job is made of: texts are read and made into tokens once.
#ifndef FT_PLAN_JOBS_H
#define FT_PLAN_JOBS_H

#include "engine/train/job/job.h"

typedef struct ft_plan_jobs {
    ft_config config;   // what they were opened for, with strings of its own
    char *key;          // all options that a job reads, as text; NULL: none is open
    ft_config *of_fold; // [count]
    ft_job *job;        // [count]
    int count;
    bool with_data;
} ft_plan_jobs; // {0} is empty

// Jobs of the configuration, those that are open where they are the same: whoever plans one sets its `config`, and sets it back to
// that of its fold. labels: as ft_job_source has them. Errors: as ft_job_open; then none is open.
ft_status ft_plan_jobs_open(ft_plan_jobs *jobs, const ft_config *config, int labels);
bool ft_plan_jobs_read(int option); // is the option of this number part of what a job is made of?
void ft_plan_jobs_close(ft_plan_jobs *jobs);

#endif

// outlook.h - whether a configuration fits as it is, with what is left at auto fitted, or not at all: the verdict of a plan without the rest
// of it, in a fraction of the time where much has to be fitted. For whoever plans thousands.
#ifndef FT_PLAN_OUTLOOK_H
#define FT_PLAN_OUTLOOK_H

#include "engine/plan/jobs.h"
#include "engine/plan/plan.h"

typedef enum ft_outlook_kind {
    FT_OUTLOOK_FIT,   // nothing has to be fitted
    FT_OUTLOOK_REFIT, // autofit finds settings that fit
    FT_OUTLOOK_NEVER,
    FT_OUTLOOK_NOT_SUPPORTED,
    FT_OUTLOOK_KINDS
} ft_outlook_kind;

typedef struct ft_outlook {
    ft_outlook_kind kind;  // of several folds and seeds that of the worst
    size_t bytes, budget;  // reserved at the peak with nothing fitted, the largest of them; what may be
} ft_outlook;

// FIT: ft_plan_run says `fits` and chooses nothing; REFIT: `fits` and autofit.chosen; NEVER: neither. bytes: its peak_reserved, or
// autofit.ideal.reserved where that was chosen. jobs: {0}, or what the last call left there. Nothing is said. Errors: as ft_plan_run.
ft_status ft_outlook_of(const ft_config *config, const ft_plan_request *request, ft_plan_jobs *jobs, ft_outlook *outlook);

#endif

// plan.h - inside hpo/commands: the picture of a search space that was planned.
#ifndef FT_HPO_COMMANDS_PLAN_H
#define FT_HPO_COMMANDS_PLAN_H

#include "engine/commands/plan/command.h"
#include "hpo/plan/survey.h"

// A bar for every value of every parameter that memory depends on: how much of it fits, is refitted, and never fits. own: an
// ft_survey. Written whole or not at all.
ft_status ft_survey_draw(const ft_plan_task *task, const void *own, const char *path);

#endif

// lengthen.h - the directory of a run that nobody trains in, which is to go on to more steps (longer.h).
#ifndef FT_LENGTHEN_H
#define FT_LENGTHEN_H

#include "engine/config/config.h"

// Could the run in a directory, of this configuration, go on to so many steps or, 0 of these, epochs? FT_INVALID: it could not, and why.
// What is not known of it passes: the run itself looks at everything.
ft_status ft_lengthen_check(const ft_config *config, const char *dir, double epochs, int64_t steps);
// metrics.jsonl ends where the longer run goes on, and there is no run.json of the end: for whoever looks before it begins.
ft_status ft_lengthen_cut(const char *dir);

#endif

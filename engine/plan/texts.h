// texts.h - whether the texts that a configuration names can be read here, for a plan that has to do without where not.
#ifndef FT_PLAN_TEXTS_H
#define FT_PLAN_TEXTS_H

#include "engine/config/config.h"

enum { FT_PLAN_MISSING = 512 };

// Where data.train, another of its files, or the vocabulary that makes tokens of them is not on this machine: the configuration
// names no data any more, and `missing` says in words what there is not; else it is as it was, and `missing` is "". Without
// data.train the other files are nothing to plan with, and go too. Strings stay where they are. FT_INVALID: a file is standard
// input, which can be read once, and a plan reads it more often.
ft_status ft_plan_find_texts(ft_config *config, char missing[FT_PLAN_MISSING]);

// Of that the files alone, whatever the model.
ft_status ft_plan_find_files(const ft_config *config, char missing[FT_PLAN_MISSING]);

#endif

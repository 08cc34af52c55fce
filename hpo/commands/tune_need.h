// tune_need.h - what the processes of a study's trials need, found before it begins.
#ifndef FT_HPO_COMMANDS_TUNE_NEED_H
#define FT_HPO_COMMANDS_TUNE_NEED_H

#include "hpo/study/study.h"

// Plans points of the space, all of them where they are few, in a process of its own, whose memory is gone when it is done. What cannot be
// planned is left for the trials to say: {0}.
ft_tuning_need ft_tune_need(const ft_config *config);

#endif

// config_arguments.h - a benchmark's configuration from its command line, as ftengine takes it: CONFIG.ini ... section.key=value ...
#ifndef FT_BENCH_CONFIG_ARGUMENTS_H
#define FT_BENCH_CONFIG_ARGUMENTS_H

#include "engine/config/config.h"

// The caller frees `config`, whatever the status.
ft_status bench_load_config(ft_config *config, int count, char *const *arguments);

#endif

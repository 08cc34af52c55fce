// config_json.h - a configuration as JSON: option -> its value as text.
#ifndef FT_CONFIG_JSON_H
#define FT_CONFIG_JSON_H

#include "engine/config/config.h"

#include <jansson.h>

// Every option of a run. *failed becomes true when there is no memory.
json_t *ft_config_json(const ft_config *config, bool *failed);

#endif

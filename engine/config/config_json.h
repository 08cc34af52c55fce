// config_json.h - a configuration as JSON: option -> its value as text.
#ifndef FT_CONFIG_JSON_H
#define FT_CONFIG_JSON_H

#include "engine/config/config.h"

#include <jansson.h>

// Every option of a run. *failed becomes true when there is no memory.
json_t *ft_config_json(const ft_config *config, bool *failed);
// What there is: {"format_version", "sections": [{"name", "help", "of_options"}], "options": [{"name", "section", "type", "default", "auto",
// bounds ("least", "most", "above", "below"), "choices", "unit", "takes", "elsewhere", "may_change", "help"}]}. others: as for ft_config_load_with.
json_t *ft_config_reference_json(const ft_section *const *others, bool *failed);

#endif

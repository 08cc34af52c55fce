#include "engine/config/config_json.h"

#include "base/json/json.h"

json_t *ft_config_json(const ft_config *config, bool *failed) {
    json_t *object = json_object();
    for (int i = 0; i < ft_option_count(); i++) {
        char text[4096];
        if (ft_option_text(config, i, text, sizeof text) == FT_OK)
            ft_json_put(object, ft_option_name(i), ft_json_text(text), failed);
        else
            *failed = true;
    }
    return object;
}

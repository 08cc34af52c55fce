// devices_pick.c - `ftengine devices --pick`: the name of the device that a run with device.name = auto would take, for
// scripts.
#include "base/context.h"
#include "base/json/json.h"
#include "engine/commands/commands.h"
#include "engine/config/options.h"
#include "engine/memory/memory.h"
#include "engine/train/room/device_choice.h"

#include <stdio.h>
#include <string.h>

static ft_status refuse(const ft_offer *o, size_t min_free) {
    char need[24], has[24];
    ft_fail(FT_NO_DEVICE, "devices", "no device to train on has %s free", ft_bytes_text(min_free, need));
    for (int i = 0; i < o->count && i < 3; i++)
        ft_hint("%s has %s free%s", o->candidates[i].name, ft_bytes_text(o->free[i], has),
                o->candidates[i].trains ? "" : ", but cannot be trained on");
    return FT_NO_DEVICE;
}

static ft_status print(const ft_offer *o, int chosen, bool as_json) {
    if (!as_json) return printf("%s\n", o->candidates[chosen].name), FT_OK;
    json_t *root = json_pack("{s:i, s:s, s:I}", "format_version", 1, "device", o->candidates[chosen].name, "free_bytes",
                             (json_int_t)o->free[chosen]);
    if (root == NULL) return ft_fail_memory(0, "the device as JSON");
    ft_json_write(ft_results(), root);
    json_decref(root);
    return FT_OK;
}

ft_status ft_devices_pick(const char *min_free, bool as_json) {
    ft_config config = {0};
    ft_offer o = {.count = 0};
    if (min_free != NULL)
        FT_TRY(ft_option_set(&config, ft_option_at(ft_option_find("device.min_free_memory")), min_free, NULL,
                             "--min-free"));
    ft_admission_request request = ft_admission_request_of(&config, 0);
    ft_config_free(&config);
    FT_TRY(ft_offer_add_cpu(&o));
    FT_TRY(ft_offer_add_cuda(&o));
    int chosen = ft_admission_choose(o.count, o.candidates, o.free, &request);
    return chosen >= 0 ? print(&o, chosen, as_json) : refuse(&o, request.min_free);
}

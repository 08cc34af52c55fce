#include "engine/train/device_history.h"

#include "base/json/json.h"
#include "engine/memory/json.h"
#include "engine/train/trainer.h"

#include <string.h>

// Of the allocator alone: what the process holds besides is not the device's.
static json_t *counters_json(const ft_memory_counters *c, bool *failed) {
    json_t *memory = ft_memory_json(c, 0, failed);
    json_object_del(memory, "outside_allocator_bytes");
    return memory;
}

static json_t *device_json(const char *name, const char *description, int64_t first_step, int64_t last_step, json_t *memory) {
    return json_pack("{s:s, s:o, s:I, s:I, s:o}", "device", name, "device_description", ft_json_text(description), "first_step",
                     (json_int_t)first_step, "last_step", (json_int_t)last_step, "memory", memory);
}

static ft_status append(ft_trainer *t, json_t *device, bool failed) {
    if (t->earlier_devices == NULL) t->earlier_devices = json_array();
    ft_json_append(t->earlier_devices, device, &failed);
    return failed ? ft_fail_memory(0, "what is known of an earlier device") : FT_OK;
}

ft_status ft_device_history_leave(ft_trainer *t) {
    bool failed = false;
    ft_memory_use uses[24];
    ft_memory_counters c = ft_run_peaks(t);
    json_t *device = device_json(t->room.device->name, t->room.device->description, t->device_step, t->step.state.step,
                                 counters_json(&c, &failed));
    ft_json_put(device, "planned", counters_json(&t->room.planned, &failed), &failed);
    ft_json_put(device, "sites", ft_sites_json(uses, ft_memory_holders_at_peak(t->room.memory, uses, 24), &failed), &failed);
    if (failed) {
        json_decref(device);
        return ft_fail_memory(0, "what is known of an earlier device");
    }
    FT_TRY(append(t, device, failed));
    t->earlier = (ft_memory_counters){0};
    t->device_step = t->step.state.step;
    return FT_OK;
}

void ft_device_history_stay(ft_trainer *t, const ft_memory_counters *peaks, int64_t first_step) {
    (void)json_array_remove(t->earlier_devices, json_array_size(t->earlier_devices) - 1);
    t->earlier = *peaks;
    t->device_step = first_step;
}

json_t *ft_device_history_json(const ft_trainer *t, bool *failed) {
    json_t *earlier = t->earlier_devices != NULL ? json_deep_copy(t->earlier_devices) : json_array();
    json_t *history = json_pack("{s:s, s:o, s:I, s:o}", "device", t->room.device->name, "device_description",
                                ft_json_text(t->room.device->description), "first_step", (json_int_t)t->device_step,
                                "earlier", earlier);
    *failed = *failed || history == NULL;
    return history;
}

ft_status ft_device_history_read(ft_trainer *t, const json_t *history, int64_t step, const char *path) {
    json_decref(t->earlier_devices);
    t->earlier_devices = NULL;
    t->device_step = 0;
    if (history == NULL) return FT_OK;
    const char *name = json_string_value(json_object_get(history, "device"));
    const char *description = json_string_value(json_object_get(history, "device_description"));
    const json_t *earlier = json_object_get(history, "earlier");
    int64_t first_step;
    FT_TRY(ft_json_int(history, path, "first_step", 0, 0, step, &first_step));
    if (name == NULL || description == NULL || !json_is_array(earlier))
        return ft_fail(FT_INVALID, path, "devices lacks device, device_description or earlier");
    if (json_array_size(earlier) > 0) {
        t->earlier_devices = json_deep_copy(earlier);
        if (t->earlier_devices == NULL) return ft_fail_memory(0, "what is known of earlier devices");
    }
    t->device_step = first_step;
    const ft_device *now = t->room.device;
    if (strcmp(now->name, name) == 0 && strcmp(now->description, description) == 0) return FT_OK;
    bool failed = false; // the sessions before this one were on another device
    json_t *memory = counters_json(&t->earlier, &failed);
    FT_TRY(append(t, device_json(name, description, first_step, step, memory), failed));
    t->earlier = (ft_memory_counters){0};
    t->device_step = step;
    return FT_OK;
}

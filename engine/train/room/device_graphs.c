#include "engine/train/room/device_graphs.h"

#include "base/log.h"
#include "kernels/devices/devices.h"

#include <string.h>

bool ft_step_graphs_wanted(const ft_config *config, const ft_device *device) {
    return config->device.graphs == FT_GRAPHS_ON && ft_device_has_graphs(device);
}

size_t ft_step_graphs_outside(const ft_config *config, const ft_device *device) {
    return ft_step_graphs_wanted(config, device) ? FT_STEP_GRAPHS_BYTES : 0;
}

ft_status ft_step_graphs_check(const ft_config *config, const ft_device *device) {
    if (config->device.graphs != FT_GRAPHS_ON || ft_device_has_graphs(device)) return FT_OK;
    if (strcmp(config->device.name, "auto") == 0) return ft_info("device.graphs=on: there are none on %s", device->name), FT_OK;
    ft_fail(FT_INVALID, "device.graphs", "there are no graphs on %s: they are of CUDA devices", device->name);
    ft_hint("leave device.graphs at auto, or set device.name=cuda");
    return FT_INVALID;
}

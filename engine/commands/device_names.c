#include "engine/commands/device_names.h"

#include "engine/config/device_list.h"
#include "kernels/devices/devices.h"

#include <string.h>

ft_status ft_device_names_find(ft_config *config) {
    ft_gpus *gpus;
    int count = 0;
    if (strcmp(config->device.name, "cuda:all") != 0) return FT_OK;
    FT_TRY(ft_gpus_open(&gpus));
    const ft_status status = ft_gpus_count(gpus, &count);
    ft_gpus_close(gpus);
    FT_TRY(status);
    if (count == 0) return ft_fail(FT_NO_DEVICE, "device.name", "cuda:all: the driver sees no GPU");
    config->device.name = ft_device_list_of_gpus(&config->arena, count);
    return config->device.name != NULL ? FT_OK : FT_NO_MEMORY;
}

// device_graphs.h - whether the steps of a run are replayed as graphs (step/graphs.h) on a device, and what that takes of it.
#ifndef FT_DEVICE_GRAPHS_H
#define FT_DEVICE_GRAPHS_H

#include "engine/config/config.h"
#include "kernels/ops/device.h"

#include <stdbool.h>
#include <stddef.h>

enum { FT_STEP_GRAPHS_BYTES = 64 << 20 }; // of the device, for the driver

// Does a run on such a device use graphs? A plan device says what the one does that it stands for.
bool ft_step_graphs_wanted(const ft_config *config, const ft_device *device);
// What such a run leaves free on the device for the driver, beside its allocator: bytes; 0 without graphs.
size_t ft_step_graphs_outside(const ft_config *config, const ft_device *device);
// Refuses what can never be: graphs on a device that was asked for by name and has none.
ft_status ft_step_graphs_check(const ft_config *config, const ft_device *device);

#endif

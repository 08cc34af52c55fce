// device_choice.h - the devices of this machine with what is free on them now, and which of them device.name = auto means.
#ifndef FT_DEVICE_CHOICE_H
#define FT_DEVICE_CHOICE_H

#include "engine/train/room/admission.h"

typedef struct ft_offer {
    int count;
    ft_candidate candidates[FT_CANDIDATES];
    size_t free[FT_CANDIDATES]; // of the ledger, and as the driver says
} ft_offer;

// Adds every CUDA device that answers; one that cannot be trained on is added all the same. A driver that is not there is no
// error. FT_NO_MEMORY: the host's.
ft_status ft_offer_add_cuda(ft_offer *offer);
ft_status ft_offer_add_cpu(ft_offer *offer);
// What device.name = auto is to be opened as: "auto", or "cuda:N" for the one of several CUDA devices with most free memory
// (and device.min_free_memory). Any other name is itself.
ft_status ft_choose_device(const ft_config *config, char name[24]);
// What was found of it when it was opened, as a warning; of most devices there is nothing to tell.
void ft_device_tell(const ft_device *device);
// That device.name = auto is the CPU, and why, where it is: a warning when a GPU is there, whose name is idle_gpu then, else ""; where none is
// it is told as well if `always`. why: of ft_device_open.
void ft_cpu_tell(const char *why, bool always, char idle_gpu[static 96]);

#endif

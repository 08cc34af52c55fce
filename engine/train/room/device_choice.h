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

#endif

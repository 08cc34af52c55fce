// device_names.h - device.name = cuda:all, as the devices of this machine that it means.
#ifndef FT_DEVICE_NAMES_H
#define FT_DEVICE_NAMES_H

#include "engine/config/config.h"

// "cuda:all" becomes "cuda:0,cuda:1,...", or "cuda:0" where there is one; other names stay. FT_NO_DEVICE: there is
// none.
ft_status ft_device_names_find(ft_config *config);

#endif

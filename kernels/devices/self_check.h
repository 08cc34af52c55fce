// self_check.h - may attention run on warpgroups of compute capability 9.0 on this very GPU? No card had run that path
// when it was written, so it is tried at the first use of a device: a small case of every instance, forward and
// backward, beside mma.sync. Where they differ by more than rounding, mma.sync is what the device has, and whoever
// opened it is told. Disentangled attention, whose two directions have such a path too, is tried last, and each of them
// is judged by itself.
// And may it run on tensor memory of compute capability 10.0 and 10.3? Only who asks for that (FTENGINE_ATTENTION=tcgen05)
// has it, and is checked in the same way: forward, with mma.sync's backward behind it.
//
// What was found is kept in $XDG_CACHE_HOME/ftengine/checks (verdict.h), for this GPU, this driver and this module. A
// check that never ended
// - a hang, a crash - is found there by the next run, which does not try again.
#ifndef FT_DEVICES_SELF_CHECK_H
#define FT_DEVICES_SELF_CHECK_H

#include "kernels/cuda/driver/device.h"

// Of a device that has just been opened, with kernels. Fills cuda->warpgroups, the two of disentangled attention and, where these might
// be used and are not, cuda->remark; where tcgen05 is asked for, no_tensor_memory, with a remark on any chip that it cannot be had on. Nothing where
// FTENGINE_ATTENTION names another path, or on other chips. Takes 2 MiB of the device, which
// is given back before anybody plans. Errors: what the device does not recover from.
ft_status ft_cuda_self_check(ft_cuda *cuda);

#endif

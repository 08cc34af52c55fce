// emulated_device.h - the ops of kernels/cuda as a device of a test's own: no driver, memory is the host's, every kernel
// runs when it is launched. The tests of tests/kernels judge the ops through it (FT_TEST_EMULATED in elementwise.h).
#ifndef FT_EMULATED_DEVICE_H
#define FT_EMULATED_DEVICE_H

#include "kernels/ops/device.h"
#include "tests/emulator/simt/control.h"

// Ops check their arguments and then launch. There is no product (cuBLASLt's).
ft_device *emulated_device(void);

#endif

// emulated_module.c - what the emulated libftengine_cuda.so has besides the kernels: its launches become work of the fake
// driver's streams.
#include "tests/emulator/fake_driver.h"
#include "tests/emulator/simt/control.h"

__attribute__((constructor)) static void join_the_streams(void) { simt_set_queue(fake_launch); }

// hopper_checks.h - the primitives of sm_90a against the layouts of the PTX manual and plain arithmetic in double precision, as
// tile_checks.h does for the others: on the emulator (test_hopper.c) and on a GPU (tests/emulator/pieces/gpu_tiles.c).
#ifndef FT_HOPPER_CHECKS_H
#define FT_HOPPER_CHECKS_H

#include "base/status.h"

// FT_OK, or FT_FAILED with the first number that is wrong.
ft_status hopper_check_copy(void);
ft_status hopper_check_product(void);
// Copies, barriers, fences and products together. fault: "", or what hopper_kernels.cu plants.
ft_status hopper_check_pipeline(const char *fault);
ft_status hopper_check_whole_pipeline(void);

#endif

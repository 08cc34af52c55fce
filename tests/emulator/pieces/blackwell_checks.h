// blackwell_checks.h - the primitives of sm_100a (kernels/cuda/tile/tcgen05.h), as hopper_checks.h does for sm_90a: on the emulator
// (test_blackwell.c) and on a GPU (gpu_tiles.c).
#ifndef FT_BLACKWELL_CHECKS_H
#define FT_BLACKWELL_CHECKS_H

#include "base/status.h"

// FT_OK, or FT_FAILED with the first number that is wrong.
ft_status blackwell_check_words(void); // descriptors, against words that others give the same products
ft_status blackwell_check_product(void);
// Allocation, stores, products and loads in one small kernel. fault: "", or what blackwell_kernels.cu plants.
ft_status blackwell_check_faulty_product(const char *fault);

#endif

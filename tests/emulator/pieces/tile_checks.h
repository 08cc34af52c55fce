// tile_checks.h - the tile primitives against the layouts of the PTX manual and plain arithmetic in double precision. The
// kernels of tile_kernels.cu are called, wherever they run: on the emulator (test_tile.c) or on a GPU
// (tests/emulator/pieces/gpu_tiles.c), so what both pass is the same instruction. Needs no test library.
#ifndef FT_TILE_CHECKS_H
#define FT_TILE_CHECKS_H

#include "base/status.h"

// FT_OK, or FT_FAILED with the first number that is wrong.
ft_status tile_check_ldmatrix(void);
ft_status tile_check_mma(void);
ft_status tile_check_exp2(void);
ft_status tile_check_skew(void);
ft_status tile_check_pack_bounded(void);
ft_status tile_check_chain(void); // copies, tiles and fragments together, as attention uses them

#endif

// amx.h - the tiles of AMX as all users here have them: eight of 16 rows of 64 bytes, of the thread between begin and
// end.
//
// Only where the kernel lets the process use them (units.h). Without a configuration the first tile is a fault.
#ifndef FT_CPU_AMX_H
#define FT_CPU_AMX_H

#include "kernels/cpu/isa/lanes/vec.h"

#if defined(FT_ISA_avx512)
#ifndef FT_AMX // a test brings its own instructions
#define FT_AMX __attribute__((target("amx-tile,amx-bf16")))
#define FT_AMX_INT8 __attribute__((target("amx-tile,amx-int8")))
#endif

enum { FT_AMX_SIDE = 16 };

static FT_AMX void ft_amx_begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes_of_row[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++)
        config.bytes_of_row[i] = 64, config.rows[i] = FT_AMX_SIDE;
    _tile_loadconfig(&config);
}
static FT_AMX void ft_amx_end(void) { _tile_release(); }
#endif

#endif

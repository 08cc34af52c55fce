// position_grid.h - positions of patches for pictures of another size than the file's: as transformers interpolates them.
#ifndef FT_POSITION_GRID_H
#define FT_POSITION_GRID_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Rows of a table [tokens + height * width, cols]: those of the tokens first, then the patches row by row.
typedef struct ft_position_grid {
    int64_t tokens, height, width;
} ft_position_grid;

// The grid of a table of so many rows, which is a square; false: it is none.
bool ft_position_grid_of(int64_t rows, int64_t tokens, ft_position_grid *grid);
// to [rows of `to_grid`, cols] of from [rows of `from_grid`, cols]: bicubic with a = -0.75, half-pixel centres, edges held, no antialiasing; rows
// of tokens as they are.
void ft_position_grid_resize(const float *from, ft_position_grid from_grid, float *to, ft_position_grid to_grid, int64_t cols);

#endif

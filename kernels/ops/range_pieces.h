// range_pieces.h - what memory of a virtual range comes and goes in, for who makes it (kernels/cuda/driver/ranges.c)
// and for who gives it back (engine/memory/allocator). CUDA's driver unmaps nothing less than what was mapped at once,
// and frees memory of a handle as a whole, while a handle a page would be thousands of calls for a model. So one commit
// is made of pieces: from its start as many of FT_RANGE_PIECE as leave at least a page behind them, then page by page.
// The last page is always one by itself, since it is the one that the next block may share.
#ifndef FT_RANGE_PIECES_H
#define FT_RANGE_PIECES_H

#include "kernels/ops/op.h"

enum { FT_RANGE_PIECE = 32 << 20 };

// Bytes of a large piece on such a device with pages of `page` bytes > 0; 0: any page can go by itself.
static inline size_t ft_range_piece(const ft_target *target, size_t page) {
    const size_t piece = FT_RANGE_PIECE;
    return target->backend == FT_BACKEND_CUDA && page < piece && piece % page == 0 ? piece : 0;
}

// Of a commit of `bytes`, whole pages and at least one: those in large pieces.
static inline size_t ft_range_in_pieces(size_t piece, size_t page, size_t bytes) {
    return piece > 0 ? (bytes - page) / piece * piece : 0;
}

#endif

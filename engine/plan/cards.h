// cards.h - well-known graphics cards and their memory, for plans on a machine that has none of them.
//
// Bytes are what CUDA gives a program on that card (cudaMemGetInfo's total, a little less than nvidia-smi shows), the
// smallest figure found in public reports since it differs with the driver; where none was found, the nominal size.
// Multiprocessors and compute capability are those of the data sheets.
#ifndef FT_PLAN_CARDS_H
#define FT_PLAN_CARDS_H

#include "base/status.h"
#include "kernels/ops/op.h"

#include <stddef.h>

typedef struct ft_card {
    const char *name;
    size_t bytes;
    bool reported; // else the nominal size, and CUDA gives somewhat less
    int sm_count, compute_capability;
} ft_card;

// Outside the allocator a CUDA process holds its context and modules: 300 to 600 MB by measurements elsewhere. This
// much is taken off a card until it is measured.
#define FT_CARD_OUTSIDE_BYTES ((size_t)600 << 20)

int ft_card_count(void);
const ft_card *ft_card_at(int index);
// What scratch depends on there.
ft_target ft_card_target(const ft_card *card);
// Case, blanks, - and _, and the words NVIDIA, GeForce, Tesla and SXM do not matter: "rtx-4090", "4090", "NVIDIA
// A100-SXM4-80GB". The beginning of a single name is enough. FT_INVALID with the names that it may mean, or the nearest
// one.
ft_status ft_card_find(const char *word, const ft_card **card);

#endif

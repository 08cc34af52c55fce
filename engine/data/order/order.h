// order.h - the Hugging Face Trainer's order of examples.
//
// Epoch e (from 0) of a run with seed s visits torch.randperm(n) of a generator seeded with s + e: MT19937,
// init_genrand; for i in 0 .. n-2: swap r[i], r[i + next32 % (n - i)]. The generator takes the low 32 bits of the seed.
// From n = 214,748,364 on PyTorch draws 64-bit numbers; the order here keeps to the rule above.
#ifndef FT_ORDER_H
#define FT_ORDER_H

#include "base/status.h"

#include <stdint.h>

// order: [n], written. n < 2^31.
ft_status ft_epoch_order(uint64_t seed, int64_t epoch, int64_t n, int32_t *order);

#endif

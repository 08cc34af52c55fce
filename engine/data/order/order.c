#include "engine/data/order/order.h"

#include <stddef.h>

enum { WORDS = 624, SHIFT = 397 };

// The Mersenne Twister MT19937 of Matsumoto and Nishimura.
typedef struct twister {
    uint32_t word[WORDS];
    int next;
} twister;

static void seed_twister(twister *t, uint32_t seed) {
    t->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        uint32_t previous = t->word[i - 1];
        t->word[i] = 1812433253u * (previous ^ (previous >> 30)) + i;
    }
    t->next = WORDS;
}

static void refill_twister(twister *t) {
    for (int i = 0; i < WORDS; i++) {
        uint32_t y = (t->word[i] & 0x80000000u) | (t->word[(i + 1) % WORDS] & 0x7fffffffu);
        t->word[i] = t->word[(i + SHIFT) % WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->next = 0;
}

static uint32_t next32(twister *t) {
    if (t->next == WORDS) refill_twister(t);
    uint32_t y = t->word[t->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

ft_status ft_epoch_order(uint64_t seed, int64_t epoch, int64_t n, int32_t *order) {
    if (n < 0 || n > INT32_MAX || epoch < 0)
        return ft_fail(FT_INVALID, NULL, "no order of %lld examples in epoch %lld", (long long)n, (long long)epoch);
    twister t;
    seed_twister(&t, (uint32_t)(seed + (uint64_t)epoch));
    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t j = i + next32(&t) % (n - i);
        int32_t held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
    return FT_OK;
}

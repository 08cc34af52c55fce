#include "engine/data/order/shares.h"

#include "base/spill.h"
#include "kernels/philox.h"

#include <stdlib.h>

typedef struct drawn_row {
    uint64_t of;  // its class or its group, in a drawn order
    uint64_t key; // its place within its class
    int64_t row;
} drawn_row;

static int by_place(const void *a, const void *b) {
    const drawn_row *x = a, *y = b;
    if (x->of != y->of) return x->of < y->of ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static uint64_t key_of_name(const char *name, uint64_t seed) {
    uint64_t key = ft_splitmix64(seed);
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) key = ft_splitmix64(key ^ *c);
    return key;
}

// Rows stand class by class, classes and groups in the drawn order (where each row has a label of its own, that alone draws): of k in a
// row the first one stays, so that places of a larger k are places of each of its divisors too.
ft_status ft_shares_leave_out(const char *const *label, const char *const *group, int64_t rows, int64_t one_in, uint64_t seed, bool *out) {
    drawn_row *drawn = ft_spill_calloc((size_t)rows + 1, sizeof *drawn, "the rows of a share");
    if (drawn == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        const char *name = group != NULL ? group[i] : label != NULL ? label[i] : "";
        drawn[i] = (drawn_row){key_of_name(name, seed), ft_splitmix64(ft_splitmix64(seed) ^ (uint64_t)i), i};
    }
    qsort(drawn, (size_t)rows, sizeof *drawn, by_place);
    int64_t place = -1;
    for (int64_t i = 0; i < rows; i++) {
        if (group == NULL || i == 0 || drawn[i].of != drawn[i - 1].of) place++;
        out[drawn[i].row] = place % one_in != 0;
    }
    ft_spill_free(drawn);
    return FT_OK;
}

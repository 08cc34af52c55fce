#include "engine/data/order/shares.h"

#include "base/arena.h"
#include "kernels/philox.h"

#include <stdlib.h>
#include <string.h>

typedef struct drawn_row {
    const char *name; // its class, or its group
    uint64_t key;     // its place within its class, or its group's among groups
    int64_t row;
} drawn_row;

static int by_class(const void *a, const void *b) {
    const drawn_row *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    if (order != 0) return order;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int by_key(const void *a, const void *b) {
    const drawn_row *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return by_class(a, b);
}

static uint64_t key_of_name(const char *name, uint64_t seed) {
    uint64_t key = ft_splitmix64(seed);
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) key = ft_splitmix64(key ^ *c);
    return key;
}

// Rows stand in the order of their classes, groups in the drawn one: of k in a row the first one stays, so that places of a larger k are
// places of each of its divisors too.
ft_status ft_shares_leave_out(const char *const *label, const char *const *group, int64_t rows, int64_t one_in, uint64_t seed, bool *out) {
    drawn_row *drawn = ft_calloc((size_t)rows + 1, sizeof *drawn, "the rows of a share");
    if (drawn == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        const char *name = group != NULL ? group[i] : label != NULL ? label[i] : "";
        drawn[i] = (drawn_row){name, group != NULL ? key_of_name(name, seed) : ft_splitmix64(ft_splitmix64(seed) ^ (uint64_t)i), i};
    }
    qsort(drawn, (size_t)rows, sizeof *drawn, group != NULL ? by_key : by_class);
    int64_t place = -1;
    for (int64_t i = 0; i < rows; i++) {
        if (group == NULL || i == 0 || strcmp(drawn[i].name, drawn[i - 1].name) != 0) place++;
        out[drawn[i].row] = place % one_in != 0;
    }
    free(drawn);
    return FT_OK;
}

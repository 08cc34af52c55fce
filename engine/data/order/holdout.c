#include "engine/data/order/holdout.h"

#include "base/arena.h"
#include "engine/data/order/folds.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct drawn_row {
    const char *label;
    uint64_t key; // its place within its class
    int64_t row;
} drawn_row;

static int by_class(const void *a, const void *b) {
    const drawn_row *x = a, *y = b;
    int order = strcmp(x->label, y->label);
    if (order != 0) return order;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

// Along the rows in the order of their classes every stretch gives its share: row i is held out where the multiples of
// the share pass a whole number.
static ft_status hold_rows(const char *const *label, int64_t rows, double share, uint64_t seed, int32_t *part) {
    drawn_row *drawn = ft_calloc((size_t)rows, sizeof *drawn, "the rows of a split");
    if (drawn == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        drawn[i] = (drawn_row){label != NULL ? label[i] : "", ft_splitmix64(ft_splitmix64(seed) ^ (uint64_t)i), i};
    qsort(drawn, (size_t)rows, sizeof *drawn, by_class);
    for (int64_t i = 0; i < rows; i++) {
        // Half a row ahead: the whole table is rounded to the nearest, not down.
        bool held = floor((double)(i + 1) * share + 0.5) > floor((double)i * share + 0.5);
        part[drawn[i].row] = held ? 0 : 1;
    }
    free(drawn);
    return FT_OK;
}

static ft_status hold_groups(const char *const *label, const char *const *group, int64_t rows, double share, uint64_t seed,
                             const char *where, int32_t *part) {
    const bool most = share > 0.5;
    int folds = (int)fmin(1000, fmax(2, round(1 / (most ? 1 - share : share))));
    FT_TRY(ft_folds_assign(label, group, rows, folds, seed, where, part));
    for (int64_t i = 0; i < rows; i++) part[i] = (part[i] == 0) == most;
    return FT_OK;
}

ft_status ft_holdout_assign(const char *const *label, const char *const *group, int64_t rows, double share, uint64_t seed,
                            const char *where, int32_t *part) {
    if (group != NULL) FT_TRY(hold_groups(label, group, rows, share, seed, where, part));
    else FT_TRY(hold_rows(label, rows, share, seed, part));
    int64_t held = 0;
    for (int64_t i = 0; i < rows; i++) held += part[i] == 0;
    if (held > 0 && held < rows) return FT_OK;
    return ft_fail(FT_INVALID, where, "a share of %g of %lld rows leaves nothing to %s", share, (long long)rows,
                   held > 0 ? "train on" : "judge on");
}

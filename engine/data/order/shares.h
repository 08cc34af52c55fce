// shares.h - a share of a table, of which every smaller one is a part.
#ifndef FT_SHARES_H
#define FT_SHARES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// out[i]: row i is not in the share of one in `one_in`; a function of its arguments alone. At least one row stays.
// The share of one in k lies within that of one in every divisor of k.
// label (NULL: none): every class gives its share to within one row. Which rows stay is drawn.
// group (NULL: none): rows of one group stay together, and groups are drawn, whatever their classes.
ft_status ft_shares_leave_out(const char *const *label, const char *const *group, int64_t rows, int64_t one_in, uint64_t seed, bool *out);

#endif

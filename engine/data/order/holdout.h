// holdout.h - a share of a table held out, with the same share of every class.
#ifndef FT_HOLDOUT_H
#define FT_HOLDOUT_H

#include "base/status.h"

#include <stdint.h>

// part[i] is 0 for rows held out, 1 for the others; a function of its arguments alone.
// label (NULL: none): every class gives its share to within one row, and so does the table. Which rows go is drawn.
// group (NULL: none): rows of one group stay together; the share is then 1/k, or 1 - 1/k, for the k that comes nearest
// (folds.h deals out the groups).
// FT_INVALID, WHERE `where`: nothing would be held out, or nothing left.
ft_status ft_holdout_assign(const char *const *label, const char *const *group, int64_t rows, double share, uint64_t seed,
                            const char *where, int32_t *part);

#endif

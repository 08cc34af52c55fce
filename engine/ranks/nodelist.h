// nodelist.h - lists of hosts and counts as Slurm writes them.
#ifndef FT_NODELIST_H
#define FT_NODELIST_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

// n[01-03,7],gpu4 is n01, n02, n03, n7, gpu4; several brackets in a name vary the last one fastest. *count: how many;
// the one numbered `index` (from 0) is written to `host`, "" where there are not so many. FT_INVALID: no such list.
// `where`: for its error.
ft_status ft_nodelist_host(const char *list, const char *where, int64_t index, char *host, size_t size, int64_t *count);

// 2(x3),1 is 2, 2, 2, 1. *value: the one numbered `index`; *sum of all. FT_INVALID: no such list, or it ends before.
ft_status ft_nodelist_tasks(const char *list, const char *where, int64_t index, int64_t *value, int64_t *sum);

#endif

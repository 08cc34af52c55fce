// deadline.h - until when something has to be done, as people write it.
#ifndef FT_DEADLINE_H
#define FT_DEADLINE_H

#include "base/status.h"

// 90s, 10m, 2h, 1d: from now. 18:30: the next time that the clock of this machine shows it. 2026-11-26T18:30, also with
// seconds or a blank for the T: that moment. *left: seconds from now, negative when it is past. FT_INVALID with
// `where`.
ft_status ft_deadline_left(const char *text, const char *where, double *left);

#endif

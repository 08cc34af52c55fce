// stop.h - Ctrl-C and SIGTERM: the first asks the run to stop at the next step boundary (after saving), the second ends
// the process at once.
#ifndef FT_STOP_H
#define FT_STOP_H

#include "kernels/status.h"

void ft_stop_install(void);
// 0, or the signal that asked (SIGINT, SIGTERM).
int ft_stop_signal(void);
// The status of a run stopped by that signal.
ft_status ft_stop_status(int signal_number);

#endif

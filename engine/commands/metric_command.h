// metric_command.h - a command of the user's as a figure: it reads lines from its standard input and prints one number.
#ifndef FT_METRIC_COMMAND_H
#define FT_METRIC_COMMAND_H

#include "base/status.h"

// sh -c COMMAND, standard input read from the beginning of `input`, which is closed by the caller. FT_FAILED at
// --command: it cannot be started, ends otherwise than with 0, or prints anything but a number.
ft_status ft_metric_command(const char *command, int input, double *value);

#endif

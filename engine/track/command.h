// command.h - a shell command that is handed a text, for a limited time.
#ifndef FT_TRACK_COMMAND_H
#define FT_TRACK_COMMAND_H

#include "base/status.h"

#include <stddef.h>

// sh -c COMMAND with `input` on its standard input and `variables` ("NAME=value", ends with NULL) in its environment;
// what it prints goes to standard error. FT_FAILED: it did not start, ended with another code than 0, or was killed
// with its group when the time was over.
ft_status ft_command_hand(const char *command, const char *input, const char *const *variables, double timeout);

#endif

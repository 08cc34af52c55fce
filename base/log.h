// log.h - messages for people, on standard error or where the thread's context (context.h) has them go. Level and status line
// are that context's too. Results never go through here.
#ifndef FT_LOG_H
#define FT_LOG_H

#include "base/context.h"

#include <stdbool.h>

void ft_log_set_level(ft_log_level level);
ft_log_level ft_log_get_level(void);
// Lines: info is silenced by --quiet, detail is shown by --verbose, warn ("warning: ...") always shows.
void ft_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ft_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ft_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
// A line that redraws itself when messages go to a terminal (and nothing otherwise); "" clears it. The other
// messages clear it before they print.
void ft_status_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
// True when messages go to standard error, that is a terminal, and TERM is not "dumb".
bool ft_log_is_terminal(void);
// True when colour may be used: a terminal and NO_COLOR unset or empty.
bool ft_log_color(void);
// Prints the present error as "ftengine: error: WHAT (WHERE)" and its hints.
void ft_log_error(void);

#endif

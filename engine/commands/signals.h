// signals.h - Ctrl-C, SIGTERM and SIGHUP (as SIGTERM) of a program: the first asks the work of its context to stop (base/stop.h), a second one
// that comes 0.3 seconds later or more ends the process at once. A library installs no handlers; this is the commands'.
#ifndef FT_SIGNALS_H
#define FT_SIGNALS_H

#include "base/context.h"

// From now on, whenever work begins in `context` that can stop, signals are handled and mean that work. Before that they do what
// they did. One context a process.
void ft_signals_serve(ft_context *context);

#endif

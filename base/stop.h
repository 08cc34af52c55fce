// stop.h - somebody asks the work of a context to stop: a run does at its next step boundary, after saving.
//
// A program with signals of its own (engine/commands/signals.h) hears when work begins that can stop so, and until then leaves
// them as they are: they end what has nothing to save at once.
#ifndef FT_STOP_H
#define FT_STOP_H

#include "base/context.h"
#include "base/status.h"

// Work begins in the present context that looks at ft_stop_signal(). What was asked of earlier work is forgotten.
void ft_stop_begin(void);
// Asks, from any thread or a handler of signals. Returns what was asked before: 0, or a signal.
int ft_stop_ask(ft_context *context, int signal_number);
// Of the present context: 0, or the signal that asked (SIGINT, SIGTERM).
int ft_stop_signal(void);
// Where several processes do the same work, each would stop at another moment: from here on what is asked waits until all agree.
void ft_stop_by_agreement(bool on);
int ft_stop_asked(void);            // 0, or the signal that waits so
void ft_stop_agreed(int signal_number); // it is what ft_stop_signal() says; 0: nothing
// The status of a run stopped by that signal.
ft_status ft_stop_status(int signal_number);

#endif

#include "base/stop.h"

#include <signal.h>
#include <stddef.h>

void ft_stop_begin(void) {
    ft_context *context = ft_context_now();
    atomic_store(&context->stop, 0);
    atomic_store(&context->asked, 0);
    atomic_store(&context->agrees, false);
    if (context->begins != NULL) context->begins(context);
}

int ft_stop_ask(ft_context *context, int signal_number) {
    return atomic_exchange(atomic_load(&context->agrees) ? &context->asked : &context->stop, signal_number);
}

void ft_stop_by_agreement(bool on) {
    ft_context *context = ft_context_now();
    atomic_store(&context->asked, atomic_load(&context->stop)); // asked before: all have to hear of it
    atomic_store(&context->agrees, on);
    if (on) atomic_store(&context->stop, 0);
}

int ft_stop_asked(void) { return atomic_load(&ft_context_now()->asked); }

void ft_stop_agreed(int signal_number) {
    if (signal_number != 0) atomic_store(&ft_context_now()->stop, signal_number);
}

int ft_stop_signal(void) { return atomic_load(&ft_context_now()->stop); }

ft_status ft_stop_status(int signal_number) { return signal_number == SIGTERM ? FT_TERMINATED : FT_INTERRUPTED; }

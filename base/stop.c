#include "base/stop.h"

#include <signal.h>
#include <stddef.h>

void ft_stop_begin(void) {
    ft_context *context = ft_context_now();
    atomic_store(&context->stop, 0);
    if (context->begins != NULL) context->begins(context);
}

int ft_stop_ask(ft_context *context, int signal_number) { return atomic_exchange(&context->stop, signal_number); }

int ft_stop_signal(void) { return atomic_load(&ft_context_now()->stop); }

ft_status ft_stop_status(int signal_number) { return signal_number == SIGTERM ? FT_TERMINATED : FT_INTERRUPTED; }

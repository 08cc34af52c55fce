#include "engine/commands/signals.h"

#include "base/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static _Atomic(ft_context *) served; // a handler has no argument for it
_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "a handler of signals takes no locks");

// A lost terminal is heard of more than once (by the shell and by the kernel, or behind systemd's SIGTERM): that is no second request.
static void handler(int signal_number) {
    const bool hung_up = signal_number == SIGHUP;
    if (ft_stop_ask(atomic_load(&served), hung_up ? SIGTERM : signal_number) != 0 && !hung_up) _exit(128 + signal_number);
}

static void handle(ft_context *context) {
    atomic_store(&served, context);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before; // nohup has it ignored
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

void ft_signals_serve(ft_context *context) { context->begins = handle; }

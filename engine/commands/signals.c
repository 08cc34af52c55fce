#include "engine/commands/signals.h"

#include "base/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static _Atomic(ft_context *) served; // a handler has no argument for it
static atomic_long asked;            // when the first request came, in milliseconds
_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LONG_LOCK_FREE == 2,
               "a handler of signals takes no locks");

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// One request may come as several signals: timeout(1) sends its own to the process and then to its group, and a lost terminal is heard
// of by the shell and by the kernel, or behind systemd's SIGTERM, whenever. Nobody means by that to lose what is not saved yet.
static void handler(int signal_number) {
    enum { SAME_REQUEST_MS = 300 }; // faster than a person presses a second time on purpose
    const bool hung_up = signal_number == SIGHUP;
    ft_context *context = atomic_load(&served);
    if (atomic_load(&context->stop) == 0 && atomic_load(&context->asked) == 0) atomic_store(&asked, now_ms());
    if (ft_stop_ask(context, hung_up ? SIGTERM : signal_number) == 0) return;
    if (!hung_up && now_ms() - atomic_load(&asked) >= SAME_REQUEST_MS) _exit(128 + signal_number);
}

static void handle(ft_context *context) {
    atomic_store(&served, context);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT); // one after the other
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before; // nohup has it ignored
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

void ft_signals_serve(ft_context *context) { context->begins = handle; }

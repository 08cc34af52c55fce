#include "engine/train/stop.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void handler(int signal_number) {
    if (asked != 0) _exit(128 + signal_number);
    asked = signal_number;
}

void ft_stop_install(void) {
    asked = 0; // of an earlier run in this process
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int ft_stop_signal(void) { return asked; }

ft_status ft_stop_status(int signal_number) { return signal_number == SIGTERM ? FT_TERMINATED : FT_INTERRUPTED; }

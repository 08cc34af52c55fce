// orders.h - what every test of primitives does: a check in all orders of threads, and planted faults that must be named in each of them.
#ifndef FT_ORDERS_H
#define FT_ORDERS_H

#include "base/status.h"
#include "tests/emulator/simt/control.h"

#include <string.h>

static void in_all_orders(ft_status (*check)(void)) {
    for (int order = 0; order < SIMT_ORDERS; order++) {
        simt_set_order((simt_order)order, 1);
        if (check() != FT_OK) fail_msg("order %d: %s: %s", order, ft_error_where(), ft_error_message());
    }
}

typedef struct planted_fault {
    const char *fault, *words[2]; // one of them, as the order of threads has it; "": the numbers say so
} planted_fault;

// The check with each of the faults fails and says one of its words, and behind it `whole`, without a fault, is good.
static inline void find_planted(const planted_fault *planted, size_t count, ft_status (*check)(const char *fault), ft_status (*whole)(void)) {
    simt_expect_fault(true);
    for (size_t i = 0; i < count; i++)
        for (int order = 0; order < SIMT_ORDERS; order++) {
            simt_set_order((simt_order)order, i);
            simt_fault_clear();
            ft_error_clear();
            const ft_status status = check(planted[i].fault);
            bool said = false;
            for (int w = 0; w < 2 && planted[i].words[w] != NULL; w++)
                said |= strstr(simt_fault(), planted[i].words[w]) != NULL;
            if (status != FT_FAILED || !said)
                fail_msg("%s, order %d: status %d, '%s'", planted[i].fault, order, (int)status, simt_fault());
            ft_error_clear();
            if (whole() != FT_OK) fail_msg("behind %s: %s", planted[i].fault, ft_error_message());
        }
    simt_expect_fault(false);
    simt_fault_clear();
}

#endif

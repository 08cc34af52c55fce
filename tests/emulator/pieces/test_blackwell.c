// The primitives of sm_100a on the emulator: right in all orders of threads, with the descriptors that others use (blackwell_checks.h), and what
// is done wrong with tensor memory, its products and their operands is found, in every order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/pieces/blackwell_checks.h"
#include "tests/emulator/simt/control.h"

#include <string.h>

static void in_all_orders(ft_status (*check)(void)) {
    for (int order = 0; order < SIMT_ORDERS; order++) {
        simt_set_order((simt_order)order, 1);
        if (check() != FT_OK) fail_msg("order %d: %s: %s", order, ft_error_where(), ft_error_message());
    }
}
static void test_words(void **state) { in_all_orders(blackwell_check_words); }
static void test_products(void **state) { in_all_orders(blackwell_check_product); }

static void test_planted_faults(void **state) {
    static const struct {
        const char *fault, *words[2]; // one of them, as the order of threads has it; "": the sums say so
    } planted[] = {{"no_async_fence", {"a product reads bytes that nobody has brought"}},
                   {"no_commit", {"a product in flight", "nothing orders the two"}},
                   {"no_wait", {"a product in flight", "nothing orders the two"}},
                   {"not_given_back", {"ended with tensor memory that was not given back"}},
                   {"too_few_columns", {"columns of tensor memory"}},
                   {"wrong_quarter", {"lane"}},
                   {"by_rows", {""}},
                   {"no_next_tile", {""}},
                   {"new_sums", {""}}};
    simt_expect_fault(true);
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        for (int order = 0; order < SIMT_ORDERS; order++) {
            simt_set_order((simt_order)order, i);
            simt_fault_clear();
            ft_error_clear();
            const ft_status status = blackwell_check_faulty_product(planted[i].fault);
            bool said = false;
            for (int w = 0; w < 2 && planted[i].words[w] != NULL; w++)
                said |= strstr(simt_fault(), planted[i].words[w]) != NULL;
            if (status != FT_FAILED || !said)
                fail_msg("%s, order %d: status %d, '%s'", planted[i].fault, order, (int)status, simt_fault());
            ft_error_clear();
            if (blackwell_check_faulty_product("") != FT_OK) fail_msg("behind %s: %s", planted[i].fault, ft_error_message());
        }
    simt_expect_fault(false);
    simt_fault_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_planted_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

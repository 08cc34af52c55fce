// The primitives of sm_100a on the emulator: right in all orders of threads, with the descriptors that others use (blackwell_checks.h), and what
// is done wrong with tensor memory, its products and their operands is found, in every order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/pieces/blackwell_checks.h"
#include "tests/emulator/pieces/orders.h"

static ft_status good_product(void) { return blackwell_check_faulty_product(""); }
static void test_words(void **state) { in_all_orders(blackwell_check_words); }
static void test_products(void **state) { in_all_orders(blackwell_check_product); }

static void test_planted_faults(void **state) {
    static const planted_fault planted[] = {
        {"no_async_fence", {"a product reads bytes that nobody has brought"}},
        {"no_commit", {"a product in flight", "nothing orders the two"}},
        {"no_wait", {"a product in flight", "nothing orders the two"}},
        {"not_given_back", {"ended with tensor memory that was not given back"}},
        {"too_few_columns", {"columns of tensor memory"}},
        {"wrong_quarter", {"lane"}},
        {"by_rows", {""}},
        {"no_next_tile", {""}},
        {"new_sums", {""}},
    };
    find_planted(planted, sizeof planted / sizeof *planted, blackwell_check_faulty_product, good_product);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_planted_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The primitives of sm_90a on the emulator: right in all orders of threads (hopper_checks.h), and what is done wrong with barriers,
// copies, fences and products of warpgroups is named, in every order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/driver/driver.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/emulator/pieces/hopper_checks.h"
#include "tests/emulator/pieces/orders.h"

int cuInit(unsigned flags);

static int set_up(void **state) {
    fake_settings s = fake_defaults();
    s.capability = 90;
    fake_reset(&s);
    return cuInit(0);
}

static void test_tensor_copy(void **state) { in_all_orders(hopper_check_copy); }
static void test_products(void **state) { in_all_orders(hopper_check_product); }
static void test_pipeline(void **state) { in_all_orders(hopper_check_whole_pipeline); }

static void test_planted_faults(void **state) {
    static const planted_fault planted[] = {
        {"no_wait_for_tile", {"a product reads bytes"}},
        {"wrong_parity", {"a product reads bytes", "waits for an mbarrier whose phase is never complete"}},
        {"early_release", {"copies over bytes that"}},
        {"left_changes", {"registers of a left operand changed"}},
        {"no_wait_for_room", {"copies"}},
        {"released_by_one_warp", {"copies over bytes that"}},
        {"no_async_fence", {"a product reads bytes that were stored to, without ft_async_fence"}},
        {"fence_of_one_lane", {"lane"}},
        {"zeros_too_early", {"stores over bytes of a tensor copy whose barrier this warp has not waited for"}},
        {"no_wgmma_fence", {"a product without ft_wgmma_fence"}},
        {"fence_of_the_group_before", {"a product without ft_wgmma_fence"}},
        {"adds_to_new_sums", {""}}, // NaN
        {"no_wgmma_wait", {"product"}},
        {"wait_for_other_sums", {"ended with products that nobody waited for"}},
        {"no_commit", {"product"}},
        {"three_warps", {"not all warps of a warpgroup"}},
        {"no_init_done", {"before ft_mbarrier_init_done"}},
        {"no_barrier_behind_init", {"mbarrier"}},
        {"too_few_bytes_expected", {"copies bring"}},
        {"too_many_bytes_expected", {"waits for an mbarrier whose phase is never complete"}},
        {"last_tile_not_used", {""}}, // the sums say so
    };
    find_planted(planted, sizeof planted / sizeof *planted, hopper_check_pipeline, hopper_check_whole_pipeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_copy),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_planted_faults),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

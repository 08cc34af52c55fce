// CUDA's attention of talking heads on the emulator: fp32, bf16 and fp16 against double precision, in all orders of threads, on memory
// that is NaN before it is written.
// ctest: tsan_part=3
// ctest: driver=fake
#include "tests/emulator/typed_attention.h"

static attention_case made(ft_dtype dtype, int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled, float probability,
                           terms which) {
    return typed_talking(dtype, typed_positions(dtype, heads, head_dim, sequences, lengths, pooled, probability, 1, which == C2P ? v1_rule : skipping_rule, which));
}

static void test_types_and_terms(void **state) {
    static const int32_t lengths[] = {19, 1, 37}, heads[] = {1, 3, 2, 5}, head_dims[] = {40, 7, 32, 8};
    for (int which = NONE; which <= BOTH; which++)
        for (int type = 0; type < 3; type++) {
            if (few_cases() && (which + type) % 3 != 0) continue;
            check_typed(made(dtypes[type], heads[which], head_dims[which], 3, lengths, false, type == which ? 0 : 0.2f, (terms)which), dtypes[type],
                        which % 2 == 0, which + type, few_cases() ? 1 : SIMT_ORDERS);
        }
}

static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70};
    for (int type = 0; type < 3; type++)
        check_typed(made(dtypes[type], 3, 20, 3, lengths, true, 0.2f, BOTH), dtypes[type], true, type, few_cases() ? 1 : 2);
}

// Sums of keys on their way from wave to wave are fp32: what is rounded is rounded once.
static void test_more_queries_than_scratch_holds(void **state) {
    static const int32_t lengths[] = {263};
    for (int type = 1; type < (few_cases() ? 2 : 3); type++)
        check_typed(made(dtypes[type], 1, 4, 1, lengths, false, 0, P2C), dtypes[type], true, type, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types_and_terms), cmocka_unit_test(test_pooled_queries),
                                       cmocka_unit_test(test_more_queries_than_scratch_holds)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

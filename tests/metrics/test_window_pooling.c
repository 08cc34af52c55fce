// What windows of a text come to: against probabilities pooled in the plain way; extreme logits; batches with a text's label.
// ctest: tsan=run
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/data/batch.h"
#include "engine/data/input.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUTS = 3, SEQUENCES = 6, EXAMPLES = 3 };

static int32_t example[SEQUENCES] = {0, 1, 1, 1, 2, 2};
static const float windows[SEQUENCES * OUTPUTS] = {0.25f, -1.5f, 2,    1,     2,     -0.5f, -3,   0.5f, 1,
                                                   4,     0,     0.1f, -0.2f, -0.4f, -0.6f, 0.7f, 1.3f, -2};

// Probabilities of window w, as metrics.h has them.
static void probabilities(ft_task task, int w, double p[OUTPUTS]) {
    ft_task_spec_of(task)->scoring.probabilities(windows + w * OUTPUTS, OUTPUTS, p);
}

static void check(ft_task task, ft_window_pooling pooling) {
    ft_pool *pool = ft_task_spec_of(task)->pool;
    const bool numbers = pool == ft_pool_numbers;
    static const int first[EXAMPLES + 1] = {0, 1, 4, 6};
    float logits[EXAMPLES * OUTPUTS];
    for (int e = 0; e < EXAMPLES; e++) {
        const ft_windows those = {windows + first[e] * OUTPUTS, first[e + 1] - first[e], OUTPUTS};
        ft_pool_example(&those, pool, pooling, logits + e * OUTPUTS);
    }
    assert_memory_equal(logits, windows, OUTPUTS * sizeof *logits); // one window is as it was, to the bit
    for (int e = 0; e < EXAMPLES; e++) {
        double want[OUTPUTS] = {0}, got[OUTPUTS], p[OUTPUTS], sum = 0;
        for (int w = first[e]; w < first[e + 1]; w++) {
            if (!numbers) probabilities(task, w, p);
            for (int k = 0; k < OUTPUTS; k++) {
                double value = numbers ? (double)windows[w * OUTPUTS + k] : p[k];
                if (pooling == FT_POOLING_MAX) want[k] = w == first[e] ? value : fmax(want[k], value);
                else want[k] += value / (first[e + 1] - first[e]);
            }
        }
        for (int k = 0; k < OUTPUTS; k++) sum += want[k];
        if (!numbers) ft_task_spec_of(task)->scoring.probabilities(logits + e * OUTPUTS, OUTPUTS, got);
        for (int k = 0; k < OUTPUTS; k++) {
            if (pool == ft_pool_softmax) want[k] /= sum; // which is 1 of means already
            double value = numbers ? (double)logits[e * OUTPUTS + k] : got[k];
            if (fabs(value - want[k]) > 1e-6) fail_msg("task %d pooling %d text %d: %g, not %g", task, pooling, e, value, want[k]);
        }
    }
}

static void test_pooling(void **state) {
    for (ft_task task = FT_TASK_AUTO + 1; task < FT_TASK_TOKEN_CLASSIFICATION; task++) // words have no windows in common
        for (ft_window_pooling pooling = FT_POOLING_AUTO; pooling <= FT_POOLING_MAX; pooling++) check(task, pooling);
}

// Probabilities that are 0 or 1 in double still have an order, and what is not finite stays visible.
static void test_extremes(void **state) {
    const float sure[4] = {2000, -2000, 2000, -1000};
    const ft_windows pair = {sure, 2, 2};
    float out[2];
    ft_pool_example(&pair, ft_pool_softmax, FT_POOLING_MEAN, out);
    assert_true(fabsf(out[0] - out[1] - (3000 + logf(2))) < 0.01f);
    ft_pool_example(&pair, ft_pool_softmax, FT_POOLING_MAX, out);
    assert_true(fabsf(out[0] - out[1] - 3000) < 0.01f);
    ft_pool_example(&pair, ft_pool_sigmoids, FT_POOLING_MEAN, out);
    assert_true(isfinite(out[0]) && out[0] > 1000 && isfinite(out[1]) && fabsf(out[1] - (-1000 - logf(2))) < 0.01f);
    for (ft_task task = FT_TASK_AUTO + 1; task < FT_TASK_TOKEN_CLASSIFICATION; task++) // words have no windows in common
        for (ft_window_pooling pooling = FT_POOLING_MEAN; pooling <= FT_POOLING_MAX; pooling++)
            for (int w = 0; w < 2; w++) {
                float broken[4] = {1, 2, 3, 4};
                broken[2 * w] = NAN;
                ft_pool_example(&(ft_windows){broken, 2, 2}, ft_task_spec_of(task)->pool, pooling, out);
                assert_true(isnan(out[0]));
            }
}

// A micro-batch of windows has the label and the targets of their texts.
static void test_batches(void **state) {
    static int32_t ids[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, label[EXAMPLES] = {7, 8, 9};
    static int64_t offset[SEQUENCES + 1] = {0, 2, 4, 6, 8, 10, 12};
    float target[EXAMPLES] = {0.5f, 1.5f, 2.5f};
    const ft_dataset set = {.input = &ft_text_input, .examples = EXAMPLES, .sequences = SEQUENCES, .tokens = 12,
                            .ids = ids, .offset = offset, .example = example, .label = label,
                            .target = target, .targets = 1};
    const int32_t order[SEQUENCES] = {5, 2, 0, 3, 4, 1}, labels[SEQUENCES] = {9, 8, 7, 8, 9, 8};
    const ft_batch_format format = {.sequences = SEQUENCES, .tokens = 12, .reads = SEQUENCES, .most_reads = 1, .targets = 1,
                                    .position_padding = -1};
    void *storage = calloc(1, ft_batch_bytes(&format));
    assert_non_null(storage);
    ft_batch batch;
    ft_batch_bind(&batch, storage, &format);
    assert_int_equal(ft_batch_cut(&set, order, 0, SEQUENCES, (ft_batch_limits){0}), SEQUENCES);
    assert_int_equal(ft_batch_fill(&batch, &set, order, 0, SEQUENCES, 0), FT_OK);
    for (int i = 0; i < SEQUENCES; i++) {
        assert_int_equal(batch.label[i], labels[i]);
        assert_true(batch.target[i] == target[labels[i] - 7]);
        assert_int_equal(batch.ids[2 * i], 2 * order[i] + 1);
        assert_int_equal(batch.slot[i], i);
    }
    const int32_t beyond[] = {SEQUENCES};
    assert_int_equal(ft_batch_fill(&batch, &set, beyond, 0, 1, 0), FT_FAILED);
    free(storage);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pooling), cmocka_unit_test(test_extremes), cmocka_unit_test(test_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tasks are dealt to whoever is idle, so that which thread does which is never the same twice: a step's gradients and logits are the same bits
// all the same. Threads are held up at random, as on a machine that others use. Wrong: sums in the order in which tasks end, scratch that
// two tasks have at a time, a task that nobody does or that is done twice.
// ctest: wrap=ft_pool_run
#include "kernels/philox.h"
#include "tests/fixtures/model_fixture.h"

#include <stdatomic.h>
#include <unistd.h>

static uint64_t seed; // 0: nobody is held up

typedef struct held_up {
    void (*fn)(void *context, int task, int thread);
    void *context;
    uint64_t run;
} held_up;

static void late(void *context, int task, int thread) {
    const held_up *h = context;
    const uint64_t draw = ft_splitmix64(seed + h->run * 4096 + (uint64_t)task);
    if (draw % 16 == 0) usleep((useconds_t)(draw >> 32) % 400);
    h->fn(h->context, task, thread);
}

typedef void task_function(void *context, int task, int thread);
void __real_ft_pool_run(void *pool, int tasks, task_function *fn, void *context);
void __wrap_ft_pool_run(void *pool, int tasks, task_function *fn, void *context);
void __wrap_ft_pool_run(void *pool, int tasks, task_function *fn, void *context) {
    static uint64_t runs;
    held_up h = {fn, context, ++runs};
    if (seed == 0) __real_ft_pool_run(pool, tasks, fn, context);
    else __real_ft_pool_run(pool, tasks, late, &h);
}

typedef struct results {
    float *gradients, *logits, losses[64];
    int64_t gradient_count, logit_count;
} results;

static results results_of(const char *model, int threads, const char *precision) {
    const char *overrides[] = {precision, NULL};
    const ft_step_state step = {.seed = 5, .loss_factor = 0.1f, .loss_scale = 1};
    fixture f;
    results r = {.losses = {0}};
    open_fixture(&f, model, threads, NULL, overrides);
    r.logit_count = ft_dataset_rows(&f.data) * f.model.labels;
    r.logits = malloc((size_t)r.logit_count * sizeof *r.logits);
    assert_non_null(r.logits);
    OK(predict_fixture(&f, (ft_batch_limits){0, 0}, r.logits));
    if (f.model.parameters.trainable > 0) {
        gradients_of(&f, NULL, 0, f.data.examples, (ft_batch_limits){0, 0}, step, r.losses);
        r.gradients = host_gradients(&f);
        r.gradient_count = f.model.parameters.trainable;
    }
    close_fixture(&f);
    return r;
}

static void same_bits(const char *model, const char *precision) {
    seed = 0;
    results want = results_of(model, 1, precision);
    for (int threads = 2; threads <= 5; threads += 3) {
        seed = 77 * (uint64_t)threads;
        results got = results_of(model, threads, precision);
        assert_int_equal(got.gradient_count, want.gradient_count);
        if (memcmp(got.logits, want.logits, (size_t)want.logit_count * sizeof(float)) != 0) fail_msg("%s, %s: other logits with %d threads", model, precision, threads);
        if (memcmp(got.losses, want.losses, sizeof want.losses) != 0) fail_msg("%s, %s: other losses with %d threads", model, precision, threads);
        for (int64_t i = 0; i < want.gradient_count; i++)
            if (memcmp(&got.gradients[i], &want.gradients[i], sizeof(float)) != 0) fail_msg("%s, %s: gradient %lld with %d threads", model, precision, (long long)i, threads);
        free(got.logits), free(got.gradients);
    }
    free(want.logits), free(want.gradients);
}

static void gradients(void **state) {
    static const char *const models[] = {"bert_gelu", "deberta_v3", "deberta_v1_talking", "modernbert", "vit"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) same_bits(models[i], "train.precision=fp32");
    same_bits("bert_gelu", "train.precision=bf16");
}

static void predictions_of_8_bits(void **state) { same_bits("bert_gelu", "train.precision=int8"); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients), cmocka_unit_test(predictions_of_8_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

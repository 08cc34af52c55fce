// Adapters against PEFT (tests/vectors/make_adapter_vectors.py): logits, losses, gradients, 50 steps, merged models, files that come back as
// they were. Wrong: another scale, an adapter of another layer, rows of B in another order, a gradient that a shared A gets twice.
// ctest: cost=20
#include "tests/fixtures/adapter_fixture.h"

#include "base/files.h"

#include <unistd.h>

static const char *const cases[] = {"bert_qv", "bert_rslora", "bert_all", "bert_expression", "bert_bias_all", "bert_saved", "bert_layers", "bert_patterns",
                                    "roberta_qv", "roberta_all", "distilbert", "electra_all", "albert_all", "deberta_v1", "deberta_v1_all", "deberta_v3_qv",
                                    "deberta_v3_all", "deberta_v2_unshared"};
enum { CASES = sizeof cases / sizeof cases[0] };

static void assert_near(const char *what, const char *of, const float *got, const float *want, int64_t n, double tolerance) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs((double)got[i] - (double)want[i]));
    if (!(worst <= tolerance)) fail_msg("%s: %s differ by %.3g", what, of, worst);
}

static void check_logits(fixture *f, const char *name, const char *key, double tolerance) {
    int64_t n;
    float *want = expected(f, key, &n), *got = calloc((size_t)n, sizeof *got);
    OK(predict_fixture(f, (ft_batch_limits){0, 0}, got));
    assert_near(name, key, got, want, n, tolerance);
    free(want), free(got);
}

static void test_logits_and_gradients(void **state) {
    for (int c = 0; c < CASES; c++)
        for (int sequences = 0; sequences < 4; sequences += 3) {
            fixture f;
            open_adapter(&f, cases[c], 2, NULL);
            check_logits(&f, cases[c], "logits", 1e-5);
            float losses[64];
            const int64_t n = f.data.examples;
            gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, sequences}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, losses);
            float *want_losses = expected(&f, "losses", NULL);
            assert_near(cases[c], "losses", losses, want_losses, n, 1e-5);
            free(want_losses);
            double largest = 0;
            int trained = 0;
            for (int pass = 0; pass < 2; pass++)
                for (int i = 0; i < f.model.parameters.count; i++) {
                    const ft_parameter *q = &f.model.parameters.list[i];
                    if (!q->trainable) continue;
                    float *want = expected_gradient(&f, q);
                    if (pass == 0) largest = fmax(largest, norm_of(want, q->count));
                    else {
                        const double error = distance(ft_parameter_gradient(&f.model.parameters, i).data, want, q->count);
                        if (!(error <= 2e-5 * fmax(norm_of(want, q->count), 1e-3 * largest)))
                            fail_msg("%s: the gradient of %s is off by %.3g of %.3g", cases[c], q->name, error, norm_of(want, q->count));
                        trained++;
                    }
                    free(want);
                }
            int64_t grads = 0;
            for (int i = 0; i < ft_safetensors_count(f.expect); i++) grads += strncmp(ft_safetensors_at(f.expect, i)->name, "grad.", 5) == 0;
            assert_int_equal(trained, grads); // and nothing else is trained
            close_adapter(&f);
        }
}

// The same bits whatever the micro-batches and the threads, with dropout in front of adapters: in the last layer a shared A has rows of
// two kinds.
static void test_same_bits(void **state) {
    static const char *const dropping[] = {"adapter.dropout=0.3", NULL}, *const half[] = {"adapter.dropout=0.2", "train.precision=bf16", NULL};
    static const char *const models[] = {"bert_all", "deberta_v1_all", "deberta_v3_all", "bert_bias_all"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (int p = 0; p < 3; p++) {
            float *whole = NULL;
            for (int way = 0; way < 4; way++) {
                fixture f;
                open_adapter(&f, models[m], way == 0 ? 1 : 2, p == 0 ? NULL : p == 1 ? dropping : half);
                float losses[64];
                const int64_t n = f.data.examples;
                const ft_step_state step = {.seed = 3, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
                gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, way == 0 ? 0 : way}, step, losses);
                float *got = host_gradients(&f);
                if (whole == NULL) whole = got;
                else if (memcmp(whole, got, (size_t)f.model.parameters.trainable * sizeof *got) != 0) fail_msg("%s, way %d: other gradients", models[m], way);
                else free(got);
                close_adapter(&f);
            }
            free(whole);
        }
}

static void test_fifty_steps(void **state) {
    for (int c = 0; c < CASES; c++) {
        fixture f, base;
        open_adapter(&f, cases[c], 2, NULL);
        base.expect = adapter_base_expect(cases[c]);
        int64_t steps, batches;
        float *losses = expected(&f, "train.losses", &steps);
        int32_t *order = expected_ints(&base, "train.batches", NULL), *cu = expected_ints(&base, "train.batch_cu", &batches);
        void *device_update;
        OK(ft_memory_alloc(f.memory, sizeof(ft_update_state), FT_MEM_OPTIMIZER, "update", &device_update));
        memset(device_update, 0, sizeof(ft_update_state));
        for (int64_t k = 0; k < steps; k++) {
            const int64_t b = k % (batches - 1), n = cu[b + 1] - cu[b];
            float got[64];
            gradients_of(&f, order, cu[b], cu[b + 1], (ft_batch_limits){0, 2}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, got);
            double mean = 0;
            for (int64_t i = 0; i < n; i++) mean += got[i] / (double)n;
            ft_update_state outcome;
            update(&f, 1e-3f, n, &outcome, device_update);
            if (!(fabs(mean - losses[k]) <= 1e-4 * fmax(1, losses[k]))) fail_msg("%s step %lld: loss %.9g, expected %.9g", cases[c], (long long)k, mean, losses[k]);
        }
        ft_memory_free(f.memory, device_update);
        check_logits(&f, cases[c], "after.logits", 1e-4);
        free(losses), free(order), free(cu);
        ft_safetensors_close(base.expect);
        close_adapter(&f);
    }
}

// Written and read again nothing changes; merged, the plain model has the logits.
static void test_files(void **state) {
    char dir[] = "/tmp/ft_adapters_XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (int c = 0; c < CASES; c++) {
        fixture f;
        open_adapter(&f, cases[c], 1, NULL);
        char path[128], first[65], second[65], original[700], config[128];
        snprintf(path, sizeof path, "%s/" FT_ADAPTER_WEIGHTS, dir);
        snprintf(config, sizeof config, "%s/" FT_ADAPTER_CONFIG, dir);
        snprintf(original, sizeof original, "%s/adapters/%s", FT_TEST_VECTORS, cases[c]);
        OK(ft_model_save_adapter(&f.model, dir));
        OK(ft_adapter_config_save(config, &f.options, &f.config, "base", f.model.modules->count, f.model.modules->names));
        OK(ft_sha256_file(path, first));
        const int64_t trained = f.model.parameters.real_trainable;
        close_adapter(&f);
        open_adapter_of(&f, cases[c], dir, 1, NULL); // by its own configuration
        assert_int_equal(f.model.parameters.real_trainable, trained);
        check_logits(&f, cases[c], "logits", 1e-5);
        OK(ft_model_save_adapter(&f.model, dir));
        OK(ft_sha256_file(path, second));
        assert_string_equal(first, second);
        OK(ft_model_merge_adapters(&f.model, &f.config, &f.options));
        check_logits(&f, cases[c], "merged.logits", 1e-5);
        close_adapter(&f);
    }
    OK(ft_remove_tree(dir));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits_and_gradients), cmocka_unit_test(test_same_bits), cmocka_unit_test(test_fifty_steps),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

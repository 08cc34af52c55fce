// Rows that had no gradient need no optimizer: their weight decay, replayed, has the bits of AdamW's steps.
#include "elementwise.h"

enum { N = 9001, STEPS = 300 };

typedef struct decay_case {
    int64_t n;
    int steps;
    float weight_decay, lr_scale;
    bool replayed; // else by AdamW
} decay_case;

static float learning_rate_at(int step) { return 3e-3f * (float)(1 + step % 7) * (step % 11 == 0 ? 1e-6f : 1.0f); }

// Numbers of all sizes and signs, zeros and numbers that have become denormal among them.
static float value_at(int64_t i) {
    static const float odd[] = {0.0f, -0.0f, 1e-38f, -1.2e-38f, 1e-45f, 3e38f, -1.0f};
    if (i % 13 == 0) return odd[i / 13 % 7];
    return (float)sin((double)i) * powf(10.0f, (float)(i % 9) - 5);
}

static void run_decay(ft_device *device, const void *test_case, float *out) {
    const decay_case *c = test_case;
    fenced p = fenced_new(1, c->n, 0);
    float *zeros[3];
    for (int i = 0; i < 3; i++) assert_non_null(zeros[i] = calloc((size_t)c->n + 1, sizeof **zeros));
    for (int64_t i = 0; i < c->n; i++) *at(p.t, 0, i) = value_at(i);
    float factors[STEPS];
    for (int s = 0; s < c->steps; s++) factors[s] = ft_adamw_keep(learning_rate_at(s), c->lr_scale, c->weight_decay);
    if (c->replayed) { // in two parts
        int first = c->steps / 3;
        RUN_OP(device, decay, ((ft_decay_args){.parameter = p.t, .factors = factors, .count = first}));
        RUN_OP(device, decay, ((ft_decay_args){.parameter = p.t, .factors = factors + first, .count = c->steps - first}));
    }
    ft_adamw_range all = {0, c->n, c->weight_decay, c->lr_scale};
    const ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
    for (int s = 0; !c->replayed && s < c->steps; s++) {
        ft_step_state step = {.step = (uint32_t)s, .learning_rate = learning_rate_at(s), .loss_scale = 1};
        ft_update_state update = {.count = (uint64_t)s + 1, .clip = 0.3f, .finite = 1};
        update.correction1 = 1 - pow(0.9, s + 1), update.correction2 = 1 - pow(0.999, s + 1);
        RUN_OP(device, adamw, ((ft_adamw_args){.parameter = p.t, .gradient = ft_vector(zeros[0], c->n, FT_F32),
                                               .m = ft_vector(zeros[1], c->n, FT_F32), .v = ft_vector(zeros[2], c->n, FT_F32),
                                               .ranges = &all, .range_count = 1, .hyper = hyper, .step = &step, .update = &update}));
    }
    fenced_flatten(p, out);
    for (int i = 0; i < 3; i++) free(zeros[i]);
    fenced_free(p);
}

static void test_decay_has_the_bits_of_adamw(void **state) {
    static const int64_t sizes[] = {1, 15, 16, 65, 1030, N};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        decay_case c = {.n = sizes[i], .steps = sizes[i] == N ? 20 : STEPS, .weight_decay = i % 2 ? 0.01f : 0.3f, .lr_scale = 1 - 0.1f * (float)i};
        float *ordinary = run_everywhere(run_decay, &c, (size_t)c.n);
        c.replayed = true;
        float *replayed = run_everywhere(run_decay, &c, (size_t)c.n);
        assert_memory_equal(ordinary, replayed, (size_t)c.n * sizeof(float));
        bool moved = false;
        for (int64_t k = 0; k < c.n; k++) moved = moved || replayed[k] != value_at(k);
        assert_true(moved || c.n == 1); // the first is a zero
        free(ordinary);
        free(replayed);
    }
}

static void test_no_factors_change_nothing(void **state) {
    decay_case c = {.n = 100, .steps = 0, .replayed = true};
    float *got = run_everywhere(run_decay, &c, 100);
    for (int64_t i = 0; i < 100; i++) assert_true(got[i] == value_at(i));
    free(got);
}

static void test_wrong_arguments_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    fenced a = fenced_random(2, 20, 3, 1, 0);
    float factor = 1;
    ft_decay_args args = {.parameter = a.t, .factors = &factor, .count = 1}; // rows with gaps
    assert_int_equal(FT_RUN(device, decay, &args), FT_FAILED);
    args.parameter = ft_vector(a.t.data, 20, FT_F32);
    args.factors = NULL;
    assert_int_equal(FT_RUN(device, decay, &args), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "decay"));
    ft_error_clear();
    fenced_free(a);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decay_has_the_bits_of_adamw),
        cmocka_unit_test(test_no_factors_change_nothing),
        cmocka_unit_test(test_wrong_arguments_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Rows that had no gradient need no optimizer: their weight decay, replayed, has the bits of AdamW's steps.
// ctest: emulated=yes
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
    ft_adamw_range all = {0, c->n, c->weight_decay, c->lr_scale, NULL};
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

// Thousands of steps of few different factors, as a schedule has them: a CPU goes through equal ones in leaps. Expected is
// product by product.
enum { LONG = 3000, MANY = 2500 };
typedef struct long_case {
    float *factors; // [MANY]
    uint64_t seed;
} long_case;

static float long_value(uint64_t seed, int64_t i) {
    uint64_t r = (seed + (uint64_t)i) * 0x9E3779B97F4A7C15u;
    r ^= r >> 29, r *= 0xBF58476D1CE4E5B9u, r ^= r >> 32;
    uint32_t bits = (uint32_t)r;
    const int kind = (int)(i / 64 % 6); // a leap is of 64 numbers together
    if (kind == 1) bits = (bits & 0xFF800000u) | (bits & 0x3FFu);      // just above a power of two, which their decay goes below
    if (kind == 2) bits = (bits & 0xFF800000u) | (0x555540u + i % 64); // where the losses of some factors are rounded ties
    if (kind == 3) bits &= 0x80FFFFFFu;                                // denormal, or about to be
    // 511 times what a factor of 22,000 units takes off these is nearly a factor of 2, behind which it takes off the same.
    if (kind == 4) bits = (bits & 0xFF800000u) | 0x3F0180u;
    if (kind == 5) bits = (bits & 0x807FFFFFu) | 0x7E000000u;          // so large that a quarter of a quarter is far from denormal
    if ((bits & 0x7F800000u) == 0x7F800000u) bits &= 0xBFFFFFFFu;   // finite
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void run_long(ft_device *device, const void *test_case, float *out) {
    const long_case *c = test_case;
    fenced p = fenced_new(1, LONG, 0);
    for (int64_t i = 0; i < LONG; i++) *at(p.t, 0, i) = long_value(c->seed, i);
    RUN_OP(device, decay, ((ft_decay_args){.parameter = p.t, .factors = c->factors, .count = MANY}));
    fenced_flatten(p, out);
    fenced_free(p);
}

static void test_long_stretches_have_the_bits_of_products(void **state) {
    // So many times 2^-24 below 1. A quarter of a number has the bits of the number itself with another exponent; the last is 0.
    static const float units[] = {0, 1, 2, 3, 5, 8, 37, 168, 1000, 22000, 70000, 4194304, 12582912, 16777216};
    enum { UNITS = sizeof units / sizeof units[0] };
    static const int lengths[] = {1, 15, 16, 17, 18, 100, 129, 511, 700, 1500};
    float factors[MANY];
    for (uint64_t seed = 0; seed < 28; seed++) {
        for (int s = 0, k = (int)seed; s < MANY; k++) {
            const float unit = units[seed < UNITS ? seed : (uint64_t)(k * 7) % 11]; // the first cases have one factor alone
            for (int n = lengths[(k * 3) % 10]; n > 0 && s < MANY; n--) factors[s++] = 1 - unit / 16777216.0f;
        }
        const long_case c = {factors, seed};
        float *got = run_everywhere(run_long, &c, LONG);
        for (int64_t i = 0; i < LONG; i++) {
            volatile float expected = long_value(seed, i);
            for (int s = 0; s < MANY; s++) expected = expected * factors[s];
            const float value = expected;
            assert_memory_equal(&value, &got[i], sizeof value);
        }
        free(got);
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
        cmocka_unit_test(test_long_stretches_have_the_bits_of_products),
        cmocka_unit_test(test_no_factors_change_nothing),
        cmocka_unit_test(test_wrong_arguments_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Accuracy against libm's double over all floats of a range (every 67th, which still meets every binade and exponent
// step). That the instruction sets agree in every bit is shown by the tests of the ops.
#include "elementwise.h"

#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/cpu/isa/lanes/vmath.h"

static v16 tail(v16 a) {
    v16 bell;
    return v_normal_tail(a, &bell);
}
static v16 bell(v16 a) {
    v16 result;
    v_normal_tail(a, &result);
    return result;
}
static double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double exact_tail(double a) { return 0.5 * erfc(a * M_SQRT1_2); }
static double exact_bell(double a) { return exp(-0.5 * a * a); }

typedef struct worst {
    double absolute, relative;
} worst;

// The largest errors for all bit patterns from that of low to that of high (same sign, growing magnitude).
static worst measure(v16 (*f)(v16), double (*exact)(double), float low, float high) {
    worst w = {0, 0};
    uint32_t first, last;
    memcpy(&first, &low, 4);
    memcpy(&last, &high, 4);
    assert_true(first < last);
    for (uint64_t bits = first; bits <= last; bits += 67 * 16) {
        float x[16], y[16];
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t b = (uint32_t)bits + 67 * i;
            if (b > last) b = last;
            memcpy(&x[i], &b, 4);
        }
        v_store(y, f(v_load(x)));
        for (int i = 0; i < 16; i++) {
            double want = exact((double)x[i]), error = fabs((double)y[i] - want);
            if (!(error <= w.absolute)) w.absolute = error; // a NaN stays
            if (!(error <= w.relative * fabs(want))) w.relative = error / fabs(want);
        }
    }
    return w;
}
// v_exp and v_tanh are always-inlined: give them addresses.
static v16 exp_of(v16 x) { return v_exp(x); }
static v16 tanh_of(v16 x) { return v_tanh(x); }
static v16 sigmoid_of(v16 x) { return v_sigmoid(x); }

#define ASSERT_BELOW(error, bound)                                                                                     \
    do {                                                                                                               \
        if (!((error) < (bound))) fail_msg(#error " = %.4g, allowed are %g", (error), (double)(bound));                \
    } while (0)

static void test_exp(void **state) {
    worst up = measure(exp_of, exp, 1e-9f, 88.72f), down = measure(exp_of, exp, -1e-9f, -86.97f);
    ASSERT_BELOW(up.relative, 1.0e-7);
    ASSERT_BELOW(down.relative, 1.0e-7);
    float x[16] = {0, -0.0f, 88.73f, INFINITY, -87.1f, -104, -INFINITY, NAN, 1e30f, -1e30f}, y[16];
    v_store(y, v_exp(v_load(x)));
    assert_true(y[0] == 1 && y[1] == 1);
    assert_true(isinf(y[2]) && isinf(y[3]) && isinf(y[8]));
    assert_true(y[4] == 0 && y[5] == 0 && y[6] == 0 && y[9] == 0);
    assert_true(isnan(y[7]));
}

static void test_tanh(void **state) {
    worst w = measure(tanh_of, tanh, 1e-9f, 20.0f), negative = measure(tanh_of, tanh, -1e-9f, -20.0f);
    ASSERT_BELOW(w.relative, 2.0e-7);
    assert_true(w.relative == negative.relative); // odd
    float x[16] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-30f}, y[16];
    v_store(y, v_tanh(v_load(x)));
    assert_true(y[0] == 0 && !signbit(y[0]) && y[1] == 0 && signbit(y[1]));
    assert_true(y[2] == 1 && y[3] == -1 && isnan(y[4]) && y[5] == 1e-30f);
}

static void test_sigmoid(void **state) {
    ASSERT_BELOW(measure(sigmoid_of, exact_sigmoid, 1e-9f, 100.0f).absolute, 1.0e-7);
    ASSERT_BELOW(measure(sigmoid_of, exact_sigmoid, -1e-9f, -86.0f).relative, 2.5e-7);
    float x[16] = {INFINITY, -INFINITY, NAN, -100}, y[16];
    v_store(y, v_sigmoid(v_load(x)));
    assert_true(y[0] == 1 && y[1] == 0 && isnan(y[2]) && y[3] == 0);
}

static void test_normal_tail(void **state) {
    worst w = measure(tail, exact_tail, 1e-9f, 12.0f);
    ASSERT_BELOW(w.absolute, 2.0e-7);
    ASSERT_BELOW(w.relative, 1.0e-5);
    ASSERT_BELOW(measure(tail, exact_tail, 1e-9f, 2.0f).relative, 8e-7);
    ASSERT_BELOW(measure(bell, exact_bell, 1e-9f, 12.0f).absolute, 1.2e-7);
    float x[16] = {0, 15, 1e30f, NAN}, y[16];
    v_store(y, tail(v_load(x)));
    assert_true(fabs((double)y[0] - 0.5) < 2.0e-7 && y[1] == 0 && y[2] == 0 && isnan(y[3]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_sigmoid),
        cmocka_unit_test(test_normal_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The functions of base/math beside those of the C library in long double, over their ranges, at their edges; and their
// bits, which are the same on every machine: a hash of each over fixed arguments.
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef long double function_l(long double);
typedef struct span {
    double from, to;
    int kind; // EVEN: evenly, GROWING: by powers
} span;
enum { EVEN, GROWING, COUNT = 4000 };

// sin and cos of one argument are one call of sincos.
static double sine_of_both(double x) {
    double s, c;
    sincos(x, &s, &c);
    return s + 0 * c;
}

static const struct function {
    const char *name;
    double (*of)(double);
    double ulps;
    span spans[4];
    uint64_t hash;
} functions[] = {
    {"expl",
     exp,
     0.52,
     {{-708, 709.7, EVEN}, {-1, 1, EVEN}, {1e-18, 1, GROWING}, {-0.01, 0.01, EVEN}},
     0xdffdda1d1f16f1e0ULL},
    {"exp2l",
     exp2,
     0.55,
     {{-1021, 1023.9, EVEN}, {-1, 1, EVEN}, {1e-18, 1, GROWING}, {-0.01, 0.01, EVEN}},
     0x4d50206f9c6b15aaULL},
    {"expm1l",
     expm1,
     1.5,
     {{-39, 700, EVEN}, {-1, 1, EVEN}, {1e-18, 1, GROWING}, {-0.01, 0.01, EVEN}},
     0xa573c9c458f58ea0ULL},
    {"tanhl",
     tanh,
     3,
     {{-21, 21, EVEN}, {-1, 1, EVEN}, {1e-18, 1, GROWING}, {-0.01, 0.01, EVEN}},
     0x1e111bbe5e586fdbULL},
    {"logl",
     log,
     0.52,
     {{5e-324, 1e308, GROWING}, {0.5, 2, EVEN}, {0.99, 1.01, EVEN}, {1, 1000, EVEN}},
     0xb3b51a0b01a8d7f0ULL},
    {"log2l",
     log2,
     0.52,
     {{5e-324, 1e308, GROWING}, {0.5, 2, EVEN}, {0.99, 1.01, EVEN}, {1, 1000, EVEN}},
     0x294c91b8c0afea78ULL},
    {"log10l",
     log10,
     0.52,
     {{5e-324, 1e308, GROWING}, {0.5, 2, EVEN}, {0.99, 1.01, EVEN}, {1, 1000, EVEN}},
     0xf5e3c72fc80fab6bULL},
    {"log1pl",
     log1p,
     1,
     {{1e-300, 1e300, GROWING}, {-0.9999, 1, EVEN}, {-0.01, 0.01, EVEN}, {1, 1000, EVEN}},
     0x62b4cdcf85ef1146ULL},
    {"sinl",
     sin,
     0.85,
     {{-1000, 1000, EVEN}, {-0.8, 0.8, EVEN}, {1e-300, 1e308, GROWING}, {1e5, 2e6, EVEN}},
     0x3ee94b02d05f1cdcULL},
    {"cosl",
     cos,
     0.85,
     {{-1000, 1000, EVEN}, {-0.8, 0.8, EVEN}, {1e-300, 1e308, GROWING}, {1e5, 2e6, EVEN}},
     0xb82740d0f12bb9deULL},
    {"sinl",
     sine_of_both,
     0.85,
     {{-1000, 1000, EVEN}, {-0.8, 0.8, EVEN}, {1e-300, 1e308, GROWING}, {1e5, 2e6, EVEN}},
     0x3ee94b02d05f1cdcULL},
    {"erfl", erf, 2, {{-7, 7, EVEN}, {-0.6, 0.6, EVEN}, {1e-18, 1, GROWING}, {0.4, 2, EVEN}}, 0x1cd5910b66c195afULL},
    {"erfcl",
     erfc,
     2.5,
     {{-7, 26, EVEN}, {-0.6, 0.6, EVEN}, {1e-18, 1, GROWING}, {0.4, 2, EVEN}},
     0x56408ed12c7b4becULL},
};

static double argument(const span *s, int i) {
    const double part = (i + 0.37) / COUNT;
    if (s->kind == EVEN) return s->from + (s->to - s->from) * part;
    // between powers of 2, which frexp and ldexp know exactly
    int low, high;
    frexp(s->from, &low);
    frexp(s->to, &high);
    const double power = low + (high - low - 1) * part, whole = floor(power);
    return ldexp(0.5 + 0.5 * (power - whole), (int)whole);
}

static double ulps_apart(double got, long double wanted) {
    int power;
    frexpl(wanted, &power);
    if (power < -1021) power = -1021;
    return (double)(fabsl((long double)got - wanted) / ldexpl(1, power - 53));
}

static uint64_t hash_of(uint64_t hash, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (hash ^ bits) * 0x100000001b3ULL;
}

static void *libm(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    assert_non_null(library);
    return library;
}

static void test_functions(void **state) {
    void *library = libm();
    double (*theirs)(double);
    *(void **)&theirs = dlsym(library, "exp");
    assert_true(theirs != exp); // ours is linked
    int other = 0;
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        const struct function *function = &functions[f];
        function_l *wanted;
        double worst = 0, where = 0;
        uint64_t hash = 0xcbf29ce484222325ULL;
        *(void **)&wanted = dlsym(library, function->name);
        assert_non_null(wanted);
        for (size_t s = 0; s < 4; s++)
            for (int i = 0; i < COUNT; i++) {
                const double x = argument(&function->spans[s], i), got = function->of(x);
                const double apart = ulps_apart(got, wanted((long double)x));
                hash = hash_of(hash, got);
                if (!(apart <= worst)) worst = apart, where = x;
            }
        printf("%-7s %.3f ulp at %a, hash 0x%016llxULL\n", function->name, worst, where, (unsigned long long)hash);
        assert_true(worst <= function->ulps);
        other += hash != function->hash;
    }
    assert_int_equal(other, 0);
    dlclose(library);
}

static void test_pow(void **state) {
    void *library = libm();
    long double (*wanted)(long double, long double);
    *(void **)&wanted = dlsym(library, "powl");
    double worst = 0;
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (int i = 0; i < 200; i++)
        for (int j = 0; j < 200; j++) {
            const span bases = {1e-300, 1e300, GROWING}, near = {0.5, 2, EVEN};
            const double x = argument(i % 2 ? &bases : &near, i * 20), y = (j - 100) * (i % 2 ? 0.01 + j * 0.001 : 7.3);
            const long double exact = wanted((long double)x, (long double)y);
            if (!(exact > 0x1p-1020L && exact < 0x1p1023L)) continue;
            const double got = pow(x, y), apart = ulps_apart(got, exact);
            hash = hash_of(hash, got);
            if (apart > worst) worst = apart;
        }
    printf("powl    %.3f ulp, hash 0x%016llxULL\n", worst, (unsigned long long)hash);
    assert_true(worst <= 0.53);
    assert_int_equal(hash, 0x5a9a430e662b8093ULL);
    dlclose(library);
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

static void test_edges(void **state) {
    const double big = DBL_MAX, tiny = 5e-324, inf = INFINITY;
    const struct {
        double (*of)(double);
        double x, y;
    } cases[] = {
        {exp, 0, 1},
        {exp, -inf, 0},
        {exp, inf, inf},
        {exp, 709.79, inf},
        {exp, -745.2, 0},
        {exp, -745.13, tiny},
        {exp, NAN, NAN},
        {exp, big, inf},
        {exp2, 10, 1024},
        {exp2, -1074, tiny},
        {exp2, 1024, inf},
        {exp2, -0.0, 1},
        {exp2, -inf, 0},
        {exp2, 1023, 0x1p1023},
        {exp2, -1022, 0x1p-1022},
        {expm1, -0.0, -0.0},
        {expm1, inf, inf},
        {expm1, -inf, -1},
        {expm1, tiny, tiny},
        {expm1, NAN, NAN},
        {tanh, -0.0, -0.0},
        {tanh, inf, 1},
        {tanh, -inf, -1},
        {tanh, NAN, NAN},
        {tanh, tiny, tiny},
        {log, 1, 0},
        {log, 0, -inf},
        {log, -0.0, -inf},
        {log, -1, NAN},
        {log, inf, inf},
        {log, NAN, NAN},
        {log, -inf, NAN},
        {log2, 8, 3},
        {log2, 0x1p-1074, -1074},
        {log2, 0x1p1023, 1023},
        {log2, 0.5, -1},
        {log10, 1000, 3},
        {log10, 1e15, 15},
        {log10, 1e22, 22},
        {log10, 1, 0},
        {log1p, -0.0, -0.0},
        {log1p, -1, -inf},
        {log1p, -2, NAN},
        {log1p, inf, inf},
        {log1p, NAN, NAN},
        {log1p, tiny, tiny},
        {log1p, -inf, NAN},
        {sin, -0.0, -0.0},
        {sin, inf, NAN},
        {cos, -inf, NAN},
        {cos, 0, 1},
        {cos, -0.0, 1},
        {sin, tiny, tiny},
        {sin, NAN, NAN},
        {erf, -0.0, -0.0},
        {erf, inf, 1},
        {erf, -inf, -1},
        {erf, NAN, NAN},
        {erfc, 0, 1},
        {erfc, inf, 0},
        {erfc, -inf, 2},
        {erfc, NAN, NAN},
        {erfc, 28.5, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double got = cases[i].of(cases[i].x);
        if (!same(got, cases[i].y)) fail_msg("case %zu: of %a it is %a, not %a", i, cases[i].x, got, cases[i].y);
    }
    const double powers[][3] = {
        {2, 10, 1024},    {2, -1074, tiny}, {0, 0, 1},        {NAN, 0, 1},
        {1, NAN, 1},      {NAN, 1, NAN},    {2, NAN, NAN},    {-1, inf, 1},
        {-1, -inf, 1},    {0.5, inf, 0},    {0.5, -inf, inf}, {2, -inf, 0},
        {2, inf, inf},    {0, 3, 0},        {-0.0, 3, -0.0},  {-0.0, 2, 0},
        {0, -1, inf},     {-0.0, -3, -inf}, {-0.0, -2, inf},  {-8, 3, -512},
        {-2, 0.5, NAN},   {inf, 2, inf},    {inf, -2, 0},     {-inf, 3, -inf},
        {-inf, -3, -0.0}, {-inf, 2, inf},   {10, 308, 1e308}, {10, 309, inf},
        {10, -400, 0},    {0.9, 1, 0.9},    {7, 2, 49},       {2, 0.5, 0x1.6a09e667f3bcdp+0},
        {big, 1, big},    {big, 2, inf},    {tiny, 1, tiny},  {1.5, 1e-300, 1},
        {-1, 0x1p53, 1},  {-1, big, 1},
    };
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        const double got = pow(powers[i][0], powers[i][1]);
        if (!same(got, powers[i][2]))
            fail_msg("pow(%a, %a) is %a, not %a", powers[i][0], powers[i][1], got, powers[i][2]);
    }
    assert_true(logf(2.0f) == (float)log(2.0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_pow),
                                       cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

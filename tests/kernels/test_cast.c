// Every 16-bit number, and what lies half-way between neighbours: against tests/emulator/half.h, which computes in
// double.
// ctest: emulated=yes
#include "elementwise.h"
#include "tests/emulator/half.h"

enum { ALL = 1 << 16 };
static const ft_dtype types[] = {FT_BF16, FT_F16};

typedef struct cast_case {
    ft_dtype type;
    int64_t count;
    const float *wide;
    const uint16_t *bits;
} cast_case;

// The narrow bits as numbers, then the widened ones.
static void run_casts(ft_device *device, const void *test_case, float *out) {
    const cast_case *c = test_case;
    size_t n = (size_t)c->count;
    uint16_t *narrow = calloc(n + 1, sizeof *narrow);
    assert_non_null(narrow);
    RUN_OP(
        device, cast,
        ((ft_cast_args){.x = ft_vector((void *)c->wide, c->count, FT_F32), .y = ft_vector(narrow, c->count, c->type)}));
    for (size_t i = 0; i < n; i++)
        out[i] = narrow[i];
    free(narrow);
    RUN_OP(device, cast,
           ((ft_cast_args){.x = ft_vector((void *)c->bits, c->count, c->type),
                           .y = ft_vector(out + n, c->count, FT_F32)}));
}

static void check_casts(ft_dtype type, const float *wide, const uint16_t *bits, int64_t count) {
    cast_case c = {.type = type, .count = count, .wide = wide, .bits = bits};
    float *got = run_everywhere(run_casts, &c, 2 * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        uint16_t want = half_bits(type, (double)wide[i]), have = (uint16_t)got[i];
        bool both_nan = isnan(wide[i]) && isnan(half_value(type, have));
        if (have != want && !both_nan)
            fail_msg("%s of %.9g (%a) is %04x, should be %04x", ft_dtype_name(type), (double)wide[i], (double)wide[i],
                     have, want);
        double back = half_value(type, bits[i]);
        if ((double)got[count + i] != back && !(isnan(back) && isnan(got[count + i])))
            fail_msg("%s %04x is %.9g, should be %.9g", ft_dtype_name(type), bits[i], (double)got[count + i], back);
    }
    free(got);
}

// `shift` units of the last place of fp32 from half-way between a number and the next one.
static float near_tie(ft_dtype type, uint16_t bits, int shift) {
    float low = (float)half_value(type, bits), high = (float)half_value(type, (uint16_t)(bits + 1));
    float middle = (float)(((double)low + (double)high) / 2);
    return shift < 0 ? nextafterf(middle, low) : shift > 0 ? nextafterf(middle, high) : middle;
}

static void test_every_number_and_every_tie(void **state) {
    float *wide = malloc(ALL * sizeof *wide);
    uint16_t *bits = malloc(ALL * sizeof *bits);
    assert_true(wide != NULL && bits != NULL);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int i = 0; i < ALL; i++)
            bits[i] = (uint16_t)i;
        for (int i = 0; i < ALL; i++)
            wide[i] = (float)half_value(types[t], bits[i]);
        check_casts(types[t], wide, bits, ALL);
        for (int shift = -1; shift <= 1; shift++) {
            for (int i = 0; i < ALL; i++)
                wide[i] = near_tie(types[t], bits[i], shift);
            check_casts(types[t], wide, bits, ALL);
        }
    }
    free(wide);
    free(bits);
}

static void test_edges(void **state) {
    static const float edges[] = {0.0f,      -0.0f,      INFINITY,     -INFINITY,    NAN,      65504.0f, 65519.99f,
                                  65520.0f,  -65520.0f,  1e30f,        3.4e38f,      0x1p-24f, 0x1p-25f, 0x1.8p-25f,
                                  0x1p-149f, -0x1p-126f, 0x1.ffcp-15f, 0x1.ffep-15f, 1e-40f};
    enum { EDGES = sizeof edges / sizeof *edges };
    uint16_t bits[EDGES];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int i = 0; i < EDGES; i++)
            bits[i] = half_bits(types[t], (double)edges[i]);
        for (int count = 0; count <= EDGES; count++)
            check_casts(types[t], edges, bits, count);
    }
}

static void test_wrong_types_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    uint16_t half[8] = {0};
    float wide[8] = {0};
    const ft_cast_args wrong[] = {{.x = ft_vector(wide, 8, FT_F32), .y = ft_vector(wide, 8, FT_F32)},
                                  {.x = ft_vector(half, 8, FT_F16), .y = ft_vector(half, 8, FT_BF16)},
                                  {.x = ft_vector(half, 8, FT_F16), .y = ft_vector(wide, 7, FT_F32)},
                                  {.x = ft_vector(wide, 8, FT_I32), .y = ft_vector(half, 8, FT_BF16)}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(FT_RUN(device, cast, &wrong[i]), FT_FAILED);
        assert_non_null(strstr(ft_error_where(), "cast"));
        ft_error_clear();
    }
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_and_every_tie),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_wrong_types_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

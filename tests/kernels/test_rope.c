// Rotary positions in fp32, bf16 and fp16 against float64, and against what they are for: a product of two rows turned by their positions
// depends on the distance alone.
// ctest: emulated=yes
#include "half_matrix.h"

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};

typedef struct rope_case {
    int32_t head_dim, heads, positions;
    typed x;
    float *table;
    int32_t position[200];
} rope_case;

static rope_case case_new(ft_dtype dtype, int64_t rows, int32_t heads, int32_t head_dim, double theta) {
    rope_case c = {.head_dim = head_dim, .heads = heads, .positions = 8192, .x = typed_random(dtype, rows, heads * head_dim, 3, true, 1, 0)};
    c.table = malloc((size_t)c.positions * (size_t)head_dim * sizeof *c.table);
    assert_non_null(c.table);
    ft_rope_angles(theta, &(ft_rope_scaling){.kind = FT_ROPE_DEFAULT}, head_dim, c.positions, c.table);
    for (int64_t t = 0; t < rows; t++) c.position[t] = t % 7 == 6 ? 8191 - (int32_t)t : (int32_t)(t * t % 300);
    return c;
}
static void case_free(rope_case *c) {
    typed_free(c->x);
    free(c->table);
}

// Turned, then turned back.
static void run_rope(ft_device *device, const void *test_case, bool whole, float *out) {
    const rope_case *c = test_case;
    typed x = typed_like(c->x.t, 5, whole), table = typed_new(FT_F32, c->positions, c->head_dim, 3, whole);
    for (int64_t p = 0; p < c->positions; p++)
        memcpy((float *)table.t.data + p * table.t.stride, c->table + p * c->head_dim, (size_t)c->head_dim * sizeof(float));
    ft_rope_args args = {.head_dim = c->head_dim, .position = c->position, .table = table.t, .x = x.t};
    RUN_OP(device, rope, args);
    out += typed_flatten(x.t, out);
    args.inverse = true;
    RUN_OP(device, rope, args);
    typed_flatten(x.t, out);
    typed_free(x);
    typed_free(table);
}

static void check_case(rope_case c) {
    const int64_t rows = c.x.t.rows, cols = c.x.t.cols, half = c.head_dim / 2;
    const size_t n = (size_t)(rows * cols);
    float *got = run_typed(run_rope, &c, 2 * n);
    double *want = calloc(2 * n, sizeof *want);
    assert_non_null(want);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t j = 0; j < cols; j++) {
            const int64_t i = j % c.head_dim, pair = i % half, other = i < half ? j + half : j - half;
            const double cosine = (double)c.table[c.position[t] * c.head_dim + pair], sine = (double)c.table[c.position[t] * c.head_dim + half + pair];
            const double sign = i < half ? -1 : 1;
            want[t * cols + j] = typed_get(c.x.t, t, j) * cosine + sign * typed_get(c.x.t, t, other) * sine;
            want[(int64_t)n + t * cols + j] = (double)got[t * cols + j] * cosine - sign * (double)got[t * cols + other] * sine;
        }
    if (c.x.t.dtype == FT_F32) assert_summed("turned", got, want, 2 * n);
    else assert_rounded("turned", c.x.t.dtype, got, want, 2 * n);
    free(got);
    free(want);
    case_free(&c);
}

static void test_is_its_definition(void **state) {
    static const int32_t head_dims[] = {2, 6, 16, 32, 64, 40};
    for (int type = 0; type < 3; type++)
        for (int d = 0; d < 6; d++) check_case(case_new(types[type], d == 5 ? 150 : 9, 1 + d % 3, head_dims[d], d % 2 ? 160000 : 10000));
}

// The table against float64: frequencies and angles are fp32, as the reference has them, so the angle of position p may be off by
// two roundings of itself.
static void test_angles(void **state) {
    enum { D = 64, POSITIONS = 8192 };
    float *table = malloc(sizeof(float) * D * POSITIONS);
    assert_non_null(table);
    for (int k = 0; k < 2; k++) {
        const double theta = k == 0 ? 10000 : 160000;
        ft_rope_angles(theta, &(ft_rope_scaling){.kind = FT_ROPE_DEFAULT}, D, POSITIONS, table);
        for (int p = 0; p < POSITIONS; p += p < 300 ? 1 : 97)
            for (int i = 0; i < D / 2; i++) {
                const double angle = p * pow(theta, -2.0 * i / D), slack = 1e-7 + 2.5e-7 * angle;
                if (fabs((double)table[p * D + i] - cos(angle)) > slack || fabs((double)table[p * D + D / 2 + i] - sin(angle)) > slack)
                    fail_msg("theta %g, position %d, pair %d: %.9g %.9g", theta, p, i, (double)table[p * D + i], (double)table[p * D + D / 2 + i]);
            }
    }
    free(table);
}

// Frequencies that transformers 5.24 makes for Llama 3.1's numbers and for a linear factor, head size 16: _compute_llama3_parameters and
// _compute_linear_scaling_rope_parameters of modeling_rope_utils.py (inv_freq), of which the sine at position 1 is looked at.
static void test_scaled_angles(void **state) {
    static const ft_rope_scaling llama3 = {FT_ROPE_LLAMA3, 8, 1, 4, 8192}, linear = {.kind = FT_ROPE_LINEAR, .factor = 3};
    static const double frequencies[2][8] = {
        {1, 0.193922758, 0.0376060307, 0.00729266508, 0.000524846022, 3.42810235e-05, 6.64786967e-06, 1.28917316e-06},
        {0.333333343, 0.105409257, 0.0333333351, 0.0105409259, 0.00333333318, 0.00105409266, 0.000333333359, 0.000105409265}};
    float table[2 * 16];
    for (int k = 0; k < 2; k++) {
        ft_rope_angles(k == 0 ? 500000 : 10000, k == 0 ? &llama3 : &linear, 16, 2, table);
        for (int i = 0; i < 8; i++) assert_true(fabs((double)table[16 + 8 + i] - sin(frequencies[k][i])) <= 3e-7 * sin(frequencies[k][i]));
    }
}

// <turned q at p, turned k at p + 5> is the same for all p.
static void test_products_know_the_distance_alone(void **state) {
    rope_case c = case_new(FT_F32, 40, 1, 32, 10000);
    for (int64_t t = 0; t < 40; t++) {
        c.position[t] = (int32_t)(t / 2 + t % 2 * 5);
        for (int64_t j = 0; j < 32; j++) typed_set(c.x.t, t, j, typed_get(c.x.t, t % 2, j));
    }
    float *got = run_typed(run_rope, &c, 2 * 40 * 32);
    double first = 0;
    for (int64_t t = 0; t < 40; t += 2) {
        double dot = 0;
        for (int64_t j = 0; j < 32; j++) dot += (double)got[t * 32 + j] * (double)got[(t + 1) * 32 + j];
        if (t == 0) first = dot;
        assert_true(fabs(dot - first) < 1e-5);
    }
    free(got);
    case_free(&c);
}

static void test_shapes_that_disagree_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    rope_case c = case_new(FT_F32, 4, 2, 8, 10000);
    const ft_rope_args good = {.head_dim = 8, .position = c.position, .table = ft_matrix(c.table, 100, 8, FT_F32), .x = ft_rows(c.x.t, 0, 0)};
    ft_rope_args bad[4] = {good, good, good, good};
    bad[0].head_dim = 7;             // odd
    bad[1].head_dim = 6;             // heads do not fill the rows
    bad[2].table.cols = 6;           // of other heads
    bad[3].x = c.x.t, bad[3].position = NULL;
    assert_int_equal(FT_RUN(device, rope, &good), FT_OK); // no rows: nothing to do
    for (int i = 0; i < 4; i++) {
        assert_int_equal(FT_RUN(device, rope, &bad[i]), FT_FAILED);
        assert_string_equal(ft_error_where(), "rope");
    }
    ft_error_clear();
    case_free(&c);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_its_definition),
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_scaled_angles),
        cmocka_unit_test(test_products_know_the_distance_alone),
        cmocka_unit_test(test_shapes_that_disagree_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

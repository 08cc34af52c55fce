// Several products of one kind in one call, each with matrices of its own, against float64: shapes beside and beyond tiles, ranks that are no
// whole units, no rows at all, more products than one launch has; and every product has the bits that it has alone, whoever is beside it. Wrong: a
// block that takes another product's matrices, a last tile that is left out or read beyond its matrix, a scale, a bias or a C of a
// neighbour, a transposed operand taken as it lies.
// ctest: emulated=yes
#include "half_matrix.h"

enum { MOST = 45 }; // more than a launch has

typedef struct shape {
    int64_t m, n, k;
} shape;

// Of trials: rows of a batch and a rank; the last ones are small.
static shape shape_of(int i) {
    static const shape first[] = {{70, 24, 96}, {5, 65, 130}, {64, 64, 64}, {0, 9, 8}, {33, 3, 17}, {1, 8, 1}, {129, 8, 72}};
    enum { LISTED = sizeof first / sizeof *first };
    return i < LISTED ? first[i] : (shape){1 + i % 5, 1 + i % 7, 2 + i % 3};
}

typedef struct product_case {
    ft_dtype type, out;
    bool trans_a, trans_b, accumulate, bias, scaled;
    int first, count; // segments
    typed a[MOST], b[MOST], past[MOST], add[MOST]; // as they are, but for where they begin
} product_case;

static float scale_of(const product_case *c, int i) { return c->scaled ? 0.5f + (float)(i % 3) : 0; }

static void run_case(ft_device *device, const void *test_case, bool whole, float *out) {
    const product_case *c = test_case;
    ft_gemm_args product[MOST];
    const ft_gemm_args *each[MOST];
    typed a[MOST], b[MOST], y[MOST], add[MOST];
    for (int i = 0; i < c->count; i++) {
        const int s = c->first + i;
        a[i] = typed_like(c->a[s].t, 3, whole), b[i] = typed_like(c->b[s].t, 5, whole), y[i] = typed_like(c->past[s].t, 2, whole);
        add[i] = c->bias ? typed_like(c->add[s].t, 0, whole) : typed_none();
        product[i] = (ft_gemm_args){.a = a[i].t, .b = b[i].t, .c = y[i].t, .bias = add[i].t, .trans_a = c->trans_a, .trans_b = c->trans_b,
                                    .accumulate = c->accumulate, .scale = scale_of(c, s)};
        each[i] = &product[i];
    }
    RUN_OP(device, segment_product, ((ft_segment_product_args){.product = each, .count = c->count}));
    for (int i = 0; i < c->count; i++) {
        out += typed_flatten(y[i].t, out);
        typed_free(a[i]), typed_free(b[i]), typed_free(y[i]), typed_free(add[i]);
    }
}

static size_t numbers_of(int first, int count) {
    size_t n = 0;
    for (int i = first; i < first + count; i++) n += (size_t)(shape_of(i).m * shape_of(i).n);
    return n;
}

static void make_case(product_case *c) {
    for (int i = 0; i < c->count; i++) {
        const shape s = shape_of(i);
        c->a[i] = typed_random(c->type, c->trans_a ? s.k : s.m, c->trans_a ? s.m : s.k, 8, true, 1, 0);
        c->b[i] = typed_random(c->type, c->trans_b ? s.n : s.k, c->trans_b ? s.k : s.n, 0, true, 1, 0);
        c->past[i] = typed_random(c->out, s.m, s.n, 0, true, 1, 0);
        c->add[i] = c->bias ? typed_random(c->out, 1, s.n, 0, true, 1, 0) : typed_none();
    }
}
static void drop_case(product_case *c) {
    for (int i = 0; i < c->count; i++) typed_free(c->a[i]), typed_free(c->b[i]), typed_free(c->past[i]), typed_free(c->add[i]);
}

static void judge(const product_case *c, const float *got) {
    for (int i = 0; i < c->count; i++) {
        const shape s = shape_of(i);
        for (int64_t row = 0; row < s.m; row++)
            for (int64_t col = 0; col < s.n; col++, got++) {
                double sum = 0, size = 0;
                for (int64_t k = 0; k < s.k; k++) {
                    const double x = (c->trans_a ? typed_get(c->a[i].t, k, row) : typed_get(c->a[i].t, row, k)) *
                                     (c->trans_b ? typed_get(c->b[i].t, col, k) : typed_get(c->b[i].t, k, col));
                    sum += x, size += fabs(x);
                }
                if (c->scaled) sum *= (double)scale_of(c, i), size *= (double)scale_of(c, i);
                if (c->bias) sum += typed_get(c->add[i].t, 0, col);
                if (c->accumulate) sum += typed_get(c->past[i].t, row, col);
                const double unit = c->out == FT_F32 ? 0 : half_unit(c->out);
                if (!(fabs((double)*got - sum) <= 1.02 * unit * fabs(sum) + 4e-6 * (size + 1)))
                    fail_msg("product %d at %d, %d in %s to %s: %.9g, expected %.9g", i, (int)row, (int)col, ft_dtype_name(c->type), ft_dtype_name(c->out),
                             (double)*got, sum);
            }
    }
}

// Every one in a call of its own, in one of the ways, which all have the same bits.
static void same_alone(product_case *c, const float *together) {
    const int count = c->count;
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    for (int i = 0; i < count && i < 7; i++) {
        const size_t before = numbers_of(0, i), n = numbers_of(i, 1);
        float *alone = malloc((n + 1) * sizeof *alone);
        assert_non_null(alone);
        c->first = i, c->count = 1;
        run_case(device, c, i % 2 == 0, alone);
        if (n > 0 && memcmp(alone, together + before, n * sizeof *alone) != 0) fail_msg("product %d of %d has other bits alone", i, count);
        free(alone);
    }
    ft_device_close(device);
    c->first = 0, c->count = count;
}

static void check(product_case *c) {
    make_case(c);
    float *got = run_typed(run_case, c, numbers_of(0, c->count));
    judge(c, got);
    same_alone(c, got);
    free(got);
    drop_case(c);
}

// x W^T, dy W, dy^T x; added to what is there, with a bias, times a scale; in fp32, in 16 bits, from 16 bits to fp32.
static void test_products(void **state) {
    static const struct {
        bool trans_a, trans_b, accumulate, bias, scaled;
    } kinds[] = {{false, true, false, true, false}, {false, true, false, false, true}, {false, true, true, false, false},
                 {false, false, true, false, false}, {false, false, false, false, true}, {true, false, true, false, false}};
    static const ft_dtype types[][2] = {{FT_F32, FT_F32}, {FT_BF16, FT_BF16}, {FT_F16, FT_F32}, {FT_BF16, FT_F32}, {FT_F16, FT_F16}};
    product_case *c = malloc(sizeof *c);
    assert_non_null(c);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const bool left_out = t == 0 ? k == 1 || k == 4 : t == 1 ? k % 2 == 0 : (t + k) % 3 != 0; // each kind, and each type, twice at least
            if (left_out || (few_cases() && (t + k) % 2 != 0)) continue;
            *c = (product_case){.type = types[t][0], .out = types[t][1], .trans_a = kinds[k].trans_a, .trans_b = kinds[k].trans_b,
                                .accumulate = kinds[k].accumulate, .bias = kinds[k].bias, .scaled = kinds[k].scaled, .count = k == 2 ? MOST : 7};
            check(c);
        }
    free(c);
}

static void test_refusals(void **state) {
    ft_device *device;
    float room[256] = {0};
    assert_int_equal(test_open(1, &device), FT_OK);
    const ft_tensor m = ft_matrix(room, 4, 4, FT_F32), c = ft_matrix(room + 64, 4, 4, FT_F32), other = ft_matrix(room + 128, 4, 3, FT_F32);
    const ft_gemm_args good = {.a = m, .b = m, .c = c, .trans_b = true};
    ft_gemm_args wrong[] = {good, good, good, good, good};
    wrong[0].c = other;              // another width
    wrong[1].trans_b = false;        // another kind
    wrong[2].accumulate = true;
    wrong[3].more_count = 1, wrong[3].more = &(ft_gemm_rows){m, c};
    wrong[4].bias = ft_vector(room + 192, 3, FT_F32);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const ft_gemm_args *const both[] = {&good, &wrong[i]};
        ft_segment_product_args args = {.product = both, .count = 2};
        args.workspace = workspace_new(ft_segment_product_workspace(&device->target, &args));
        assert_int_equal(FT_RUN(device, segment_product, &args), FT_FAILED);
        workspace_free(args.workspace);
        ft_error_clear();
    }
    const ft_segment_product_args none = {.count = 0};
    assert_int_equal(FT_RUN(device, segment_product, &none), FT_OK);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The product of bf16 rows against its contract (kernels/cpu/bf16.h), element by element in extended precision: the
// same bits from every instruction set and unit, whatever the shape, the strides and the threads, with denormals,
// infinities and NaN. Where this machine lacks a unit, its test is skipped by name.
#include "half_matrix.h"

// ---- the contract, once more

// To the nearest of 24 bits with any exponent; what is below 2^-126 then is a zero.
static float rounded(long double exact) {
    if (isnan(exact) || fabsl(exact) >= 0x1p-125L) return (float)exact;
    int exponent;
    const long double digits = frexpl(exact, &exponent), nearest = ldexpl(rintl(ldexpl(digits, 24)), exponent - 24);
    return fabsl(nearest) < 0x1p-126L ? copysignf(0.0f, signbit(exact) ? -1.0f : 1.0f) : (float)nearest;
}
static float operand(float x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x; }

static float chain_of(const float *a, const float *b, int64_t k, int64_t first) {
    float sum = 0;
    for (int64_t p = first; p < 32; p += 2) { // 64 bits hold whatever of the sum is near a tie of 24
        const float x = p < k ? operand(a[p]) : 0, y = p < k ? operand(b[p]) : 0;
        sum = rounded((long double)x * y + sum);
    }
    return sum;
}
static float summed(const float *a, const float *b, int64_t k, float c) {
    for (; k > 0; k -= 32, a += 32, b += 32) {
        const float even = chain_of(a, b, k, 0), odd = chain_of(a, b, k, 1), both = rounded((long double)even + odd);
        c = rounded((long double)operand(c) + both);
    }
    return c;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// ---- devices

static const char *const names[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx_bf16", "neon"};
enum { NAMES = sizeof names / sizeof *names };
static ft_device *devices[NAMES][2]; // with one thread and with three; NULL where this machine cannot

static int open_devices(void **unused) {
    for (int i = 0; i < NAMES; i++)
        for (int t = 0; t < 2; t++)
            if (ft_cpu_open(1 + 2 * t, names[i], &devices[i][t]) != FT_OK) devices[i][t] = NULL, ft_error_clear();
    return devices[0][1] == NULL;
}
static int close_devices(void **unused) {
    for (int i = 0; i < NAMES; i++)
        for (int t = 0; t < 2; t++)
            ft_device_close(devices[i][t]);
    return 0;
}

// ---- cases

// ORDINARY numbers; TINY ones, whose products lie around 2^-126, denormals among them; SPECIAL: infinities, NaN, the
// largest and zeros here and there; ANY bits.
typedef enum numbers { ORDINARY, TINY, SPECIAL, ANY } numbers;
typedef struct product {
    int64_t m, n, k;
    bool trans_b, accumulate, to_fp32, bias;
    float scale;
    int gap;
    numbers kind;
} product;
static const product cases[] = {
    {1, 1, 1, true, false, true, false, 0, 0, ORDINARY},
    {1, 1, 2, false, true, true, false, 0, 1, ORDINARY},
    {5, 7, 31, true, true, false, true, 0, 3, ORDINARY},
    {5, 7, 32, false, true, true, true, 0, 0, ORDINARY},
    {6, 16, 33, true, false, false, true, 0, 2, ORDINARY},
    {9, 49, 64, false, true, false, false, 0, 5, ORDINARY},
    {13, 97, 95, true, true, true, false, 0, 1, ORDINARY},
    {33, 48, 70, false, false, false, false, -0.3f, 0, ORDINARY},
    {64, 33, 384, true, false, true, false, 0.125f, 4, ORDINARY},
    {97, 65, 415, false, true, true, true, 0, 7, ORDINARY},
    {200, 100, 161, true, true, false, true, 0, 1, ORDINARY},
    {3, 800, 40, true, false, false, true, 0, 0, ORDINARY},
    {2, 1601, 9, false, true, true, false, 0, 3, ORDINARY},
    {3, 5, 3100, true, true, false, false, 0, 1, ORDINARY},
    {9, 17, 16425, true, true, true, true, 0, 1, ORDINARY},
    {2, 3, 16425, false, false, false, false, 0, 2, ORDINARY},
    {4, 5, 0, true, true, true, true, 0, 1, TINY},
    {20, 70, 40, true, false, false, false, 0.3f, 1, ORDINARY},
    {0, 4, 3, false, false, false, false, 0, 0, ORDINARY},
    {3, 0, 4, true, false, true, false, 0, 1, ORDINARY},
    {24, 50, 64, true, true, true, false, 0, 1, TINY},
    {41, 33, 100, false, true, true, true, 0, 0, TINY},
    {30, 49, 35, true, true, false, false, 0, 3, TINY},
    {50, 70, 128, true, true, true, false, 0, 1, SPECIAL},
    {50, 70, 97, false, false, false, true, 0, 1, SPECIAL},
    {60, 90, 2, true, true, true, false, 0, 0, ANY},
    {60, 90, 5, false, true, false, false, 0, 1, ANY},
};
enum { CASES = sizeof cases / sizeof *cases };

static uint16_t half_of(numbers kind) {
    const uint32_t x = (uint32_t)uniform(0, 0x1p32), sign = x >> 16 & 0x8000, digits = x & 0x7F;
    switch (kind) {
    case TINY:
        return (uint16_t)(x % 16 == 0 ? sign | (x >> 8 & 0x7F)
                                      : sign | (52 + (x >> 8) % 16) << 7 | digits); // 2^-75 to 2^-60
    case ANY: return (uint16_t)(x >> 16);
    case SPECIAL: {
        static const uint16_t of[] = {0x7F80, 0xFF80, 0x7FC1, 0x0000, 0x8000, 0x7F7F, 0xFF7F, 0x0001};
        if (x % 509 == 0) return of[(x >> 20) % 8];
    } // fall through
    default: return half_bits(FT_BF16, normal(1));
    }
}

static typed filled(ft_dtype dtype, int64_t rows, int64_t cols, int gap, numbers kind) {
    typed t = typed_new(dtype, rows, cols, gap, false);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const uint16_t half = half_of(kind);
            uint32_t wide = (uint32_t)half << 16 | (uint16_t)uniform(0, 65536);
            if (kind == TINY) wide = (wide & 0x807FFFFF) | (uint32_t)uniform(0, 6) << 23; // below 2^-121, denormals too
            if (dtype == FT_F32)
                memcpy((float *)t.t.data + i * t.t.stride + j, &wide, sizeof wide);
            else
                memcpy((uint16_t *)t.t.data + i * t.t.stride + j, &half, sizeof half);
        }
    return t;
}
static float number(ft_tensor t, int64_t row, int64_t col) {
    uint32_t bits = 0;
    if (t.dtype == FT_F32)
        memcpy(&bits, (float *)t.data + row * t.stride + col, sizeof bits);
    else
        memcpy((uint16_t *)(void *)&bits + 1, (uint16_t *)t.data + row * t.stride + col, sizeof(uint16_t));
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef struct operands {
    typed a, b, c, bias;
    ft_gemm_args args;
    float *want; // [m][n], rounded to C's type
} operands;
static operands made[CASES];

static float stored(ft_dtype dtype, float x) {
    return dtype == FT_F32 ? x : (float)half_value(dtype, half_bits(dtype, (double)x));
}

// A case's operands and what becomes of them, made once.
static const operands *of_case(int i) {
    const product *p = &cases[i];
    operands *o = &made[i];
    if (o->a.base != NULL) return o;
    test_seed = (uint64_t)(1000 * i);
    const ft_dtype c = p->to_fp32 ? FT_F32 : FT_BF16;
    o->a = filled(FT_BF16, p->m, p->k, p->gap, p->kind);
    o->b = p->trans_b ? filled(FT_BF16, p->n, p->k, 2 * p->gap, p->kind)
                      : filled(FT_BF16, p->k, p->n, 2 * p->gap, p->kind);
    o->c = filled(c, p->m, p->n, 3 * p->gap, p->kind);
    o->bias = filled(c, 1, p->n, p->gap, p->kind == TINY ? TINY : ORDINARY);
    o->args = (ft_gemm_args){.a = o->a.t,
                             .b = o->b.t,
                             .c = o->c.t,
                             .trans_b = p->trans_b,
                             .accumulate = p->accumulate,
                             .bias = p->bias ? o->bias.t : ft_absent(),
                             .scale = p->scale};
    o->want = malloc((size_t)(p->m * p->n + 1) * sizeof *o->want);
    float *rows = malloc((size_t)((p->m + p->n) * p->k + 1) * sizeof *rows), *columns = rows + p->m * p->k;
    assert_true(o->want != NULL && rows != NULL);
    for (int64_t k = 0; k < p->k; k++) {
        for (int64_t row = 0; row < p->m; row++)
            rows[row * p->k + k] = number(o->a.t, row, k);
        for (int64_t col = 0; col < p->n; col++)
            columns[col * p->k + k] = p->trans_b ? number(o->b.t, col, k) : number(o->b.t, k, col);
    }
    for (int64_t row = 0; row < p->m; row++)
        for (int64_t col = 0; col < p->n; col++) {
            float sum =
                summed(rows + row * p->k, columns + col * p->k, p->k, p->accumulate ? number(o->c.t, row, col) : 0);
            if (p->bias) sum += number(o->bias.t, 0, col);
            if (p->scale != 0) sum *= p->scale;
            o->want[row * p->n + col] = stored(c, sum);
        }
    free(rows);
    return o;
}

static bool same(float got, float want) { return bits_of(got) == bits_of(want) || (isnan(got) && isnan(want)); }

static typed copy_of(ft_tensor from, int gap) {
    typed t = typed_new(from.dtype, from.rows, from.cols, gap, false);
    const size_t size = ft_dtype_size(from.dtype);
    for (int64_t i = 0; i < from.rows; i++)
        memcpy((char *)t.t.data + (size_t)(i * t.t.stride) * size, (char *)from.data + (size_t)(i * from.stride) * size,
               (size_t)from.cols * size);
    return t;
}

static void check_case(ft_device *device, int i) {
    const product *p = &cases[i];
    const operands *o = of_case(i);
    typed c = copy_of(o->c.t, 3 * p->gap);
    ft_gemm_args args = o->args;
    args.c = c.t;
    RUN_OP(device, gemm, args);
    for (int64_t row = 0; row < p->m; row++)
        for (int64_t col = 0; col < p->n; col++) {
            const float got = number(c.t, row, col), want = o->want[row * p->n + col];
            if (!same(got, want))
                fail_msg("%s, case %d [%lld,%lld,%lld]: element (%lld,%lld) is %a, the contract gives %a",
                         device->description, i, (long long)p->m, (long long)p->n, (long long)p->k, (long long)row,
                         (long long)col, (double)got, (double)want);
        }
    typed_free(c);
}

static void check_unit(int unit) {
    if (devices[unit][0] == NULL) {
        print_message("%s: this machine cannot, its products are not tested here\n", names[unit]);
        skip();
    }
    for (int i = 0; i < CASES; i++)
        for (int t = 0; t < 2; t++)
            if (!(FT_SANITIZED && t == 0)) check_case(devices[unit][t], i);
    // What the products asked of the processor is not left behind: denormals are numbers again.
    volatile float tiny = 0x1p-126f, half = 0.5f;
    assert_true(tiny * half > 0);
}

static void plain_c_follows_the_contract(void **unused) { check_unit(0); }
static void avx2_follows_the_contract(void **unused) { check_unit(1); }
static void avx512_follows_the_contract(void **unused) { check_unit(2); }
static void avx512_bf16_follows_the_contract(void **unused) { check_unit(3); }
static void amx_bf16_follows_the_contract(void **unused) { check_unit(4); }
static void neon_follows_the_contract(void **unused) { check_unit(5); }

// ---- numbers that say which contract it is

// Products of A and B at k = 0 and so on, added to C. VDPBF16PS alone would make 2^24 of the first, the Intrinsics
// Guide's TDPBF16PS too, and 0 of the second.
static const struct golden {
    float c;
    float a[5], b[5];
    uint32_t want;
} goldens[] = {
    {0x1p24f, {1, 1}, {1, 1}, 0x4B800001},
    {0x1p24f, {1, -0x1p24f}, {1, 1}, 0x3F800000},
    {0, {0x1p-63f, 0, -0x1p-75f}, {0x1p-63f, 0, 0x1p-75f}, 0},              // 2^-126 - 2^-150
    {0, {0x1p-63f, 0, -0x1p-75f}, {0x1p-63f, 0, 0x1p-76f}, 0x00800000},     // 2^-126 - 2^-151, a tie
    {0, {-0x1p-63f, 0, 0x1p-75f}, {0x1p-63f, 0, 0x1p-75f}, 0},              // - 0, and zeros behind it
    {0, {0x1p-133f}, {0x1p127f}, 0},                                        // a denormal operand
    {0x1p-127f, {0}, {0}, 0},                                               // of C
    {0x1p-126f, {0x1.8p-63f, -0x1p-63f}, {0x1p-63f, 0x1p-63f}, 0x00800000}, // E + O = 2^-127, flushed
    {-0x1.8p-126f, {0x1p-63f}, {0x1p-63f}, 0x80000000},                     // C + E = -2^-127, flushed
    {1, {0x1p127f, -0x1p127f}, {0x1p127f, 0x1p127f}, 0x7FC00000},           // infinity - infinity
    {0, {0x1p127f, 0, 0x1p127f}, {1, 0, 1}, 0x7F800000},
};

static void the_numbers_of_the_contract(void **unused) {
    for (size_t g = 0; g < sizeof goldens / sizeof *goldens; g++) {
        const struct golden *golden = &goldens[g];
        const float by_oracle = summed(golden->a, golden->b, 5, golden->c);
        float want;
        memcpy(&want, &golden->want, sizeof want);
        if (!same(by_oracle, want)) fail_msg("golden %zu: the oracle gives %a", g, (double)by_oracle);
        for (int i = 0; i < NAMES; i++) {
            if (devices[i][0] == NULL) continue;
            typed a = typed_new(FT_BF16, 1, 5, 0, false), b = typed_new(FT_BF16, 1, 5, 0, false),
                  c = typed_new(FT_F32, 1, 1, 0, false);
            for (int k = 0; k < 5; k++)
                typed_set(a.t, 0, k, (double)golden->a[k]), typed_set(b.t, 0, k, (double)golden->b[k]);
            typed_set(c.t, 0, 0, (double)golden->c);
            RUN_OP(devices[i][0], gemm,
                   ((ft_gemm_args){.a = a.t, .b = b.t, .c = c.t, .trans_b = true, .accumulate = true}));
            const float got = number(c.t, 0, 0);
            if (!same(got, want)) fail_msg("%s, golden %zu: %a, not %a", names[i], g, (double)got, (double)want);
            typed_free(a), typed_free(b), typed_free(c);
        }
    }
}

// ---- parts

// Rows and columns in parts of any size, and k in parts of 32 where C is fp32; rows that lie elsewhere.
static void parts_have_the_bits_of_the_whole(void **unused) {
    enum { M = 150, N = 110, K = 230 };
    typed a = filled(FT_BF16, M, K, 1, ORDINARY), b = filled(FT_BF16, N, K, 3, ORDINARY),
          c = filled(FT_F32, M, N, 2, ORDINARY);
    const ft_gemm_args all = {.a = a.t, .b = b.t, .c = c.t, .trans_b = true, .accumulate = true};
    for (int i = 0; i < NAMES; i++) {
        ft_device *device = devices[i][1];
        if (device == NULL) continue;
        typed whole = copy_of(c.t, 0);
        ft_gemm_args args = all;
        args.c = whole.t;
        RUN_OP(device, gemm, args);
        static const int steps[][3] = {{1, N, K}, {7, 13, K}, {M, N, 32}, {64, 17, 96}};
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            typed parts = copy_of(c.t, 5);
            for (int k = 0; k < K; k += steps[s][2])
                for (int row = 0; row < M; row += steps[s][0])
                    for (int col = 0; col < N; col += steps[s][1]) {
                        const int64_t rows = M - row < steps[s][0] ? M - row : steps[s][0],
                                      cols = N - col < steps[s][1] ? N - col : steps[s][1],
                                      ks = K - k < steps[s][2] ? K - k : steps[s][2];
                        args.a = ft_columns(ft_rows(a.t, row, rows), k, ks);
                        args.b = ft_columns(ft_rows(b.t, col, cols), k, ks);
                        args.c = ft_columns(ft_rows(parts.t, row, rows), col, cols);
                        RUN_OP(device, gemm, args);
                    }
            for (int row = 0; row < M; row++)
                for (int col = 0; col < N; col++)
                    if (!same(number(parts.t, row, col), number(whole.t, row, col)))
                        fail_msg("%s: parts %zu, (%d,%d)", names[i], s, row, col);
            typed_free(parts);
        }
        typed parts = copy_of(c.t, 1);
        const ft_gemm_rows more[] = {{ft_rows(a.t, 3, 0), ft_rows(parts.t, 3, 0)},
                                     {ft_rows(a.t, 3, 100), ft_rows(parts.t, 3, 100)},
                                     {ft_rows(a.t, 103, M - 103), ft_rows(parts.t, 103, M - 103)}};
        args = all;
        args.a = ft_rows(a.t, 0, 3), args.c = ft_rows(parts.t, 0, 3), args.more = more, args.more_count = 3;
        RUN_OP(device, gemm, args);
        for (int row = 0; row < M; row++)
            for (int col = 0; col < N; col++)
                if (!same(number(parts.t, row, col), number(whole.t, row, col)))
                    fail_msg("%s: rows elsewhere, (%d,%d)", names[i], row, col);
        typed_free(parts);
        typed_free(whole);
    }
    typed_free(a), typed_free(b), typed_free(c);
}

// A plan adds it up before anything is allocated: neither tokens nor a vocabulary let it grow without bounds.
static void scratch_is_bounded(void **unused) {
    const ft_target target = {.backend = FT_BACKEND_CPU, .threads = 1};
    static const int64_t shapes[][2] = {{384, 1536}, {4096, 4096}, {384, 250000}, {250000, 384}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t before = 0;
        for (int64_t tokens = 1; tokens <= 1 << 20; tokens *= 4) {
            const size_t bytes =
                ft_gemm_workspace(&target, &(ft_gemm_args){.a = ft_matrix(NULL, tokens, shapes[s][0], FT_BF16),
                                                           .b = ft_matrix(NULL, shapes[s][1], shapes[s][0], FT_BF16),
                                                           .c = ft_matrix(NULL, tokens, shapes[s][1], FT_BF16),
                                                           .trans_b = true});
            assert_true(bytes >= before && bytes < 8 << 20);
            if (tokens > 512) assert_int_equal(bytes, before);
            before = bytes;
        }
    }
}

static void free_cases(void) {
    for (int i = 0; i < CASES; i++) {
        if (made[i].a.base == NULL) continue;
        typed_free(made[i].a), typed_free(made[i].b), typed_free(made[i].c), typed_free(made[i].bias);
        free(made[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_the_contract),
        cmocka_unit_test(plain_c_follows_the_contract),
        cmocka_unit_test(avx2_follows_the_contract),
        cmocka_unit_test(avx512_follows_the_contract),
        cmocka_unit_test(avx512_bf16_follows_the_contract),
        cmocka_unit_test(amx_bf16_follows_the_contract),
        cmocka_unit_test(neon_follows_the_contract),
        cmocka_unit_test(parts_have_the_bits_of_the_whole),
        cmocka_unit_test(scratch_is_bounded),
    };
    const int failed = cmocka_run_group_tests(tests, open_devices, close_devices);
    free_cases();
    return failed;
}

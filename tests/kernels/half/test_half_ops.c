// Products and attention of bf16 and fp16 rows on the CPU: to the bit what the op of fp32 makes of the same numbers,
// rounded where it is stored. Strided views, every transpose, accumulation, tables of which only the rows in use are
// there. (Row-wise ops: test_half_rows.c.)
#include "../half_matrix.h"

// The same numbers in fp32.
static typed widened(ft_tensor from, int64_t gap) {
    typed m = typed_new(FT_F32, from.rows, from.cols, gap, false);
    for (int64_t i = 0; i < from.rows; i++)
        for (int64_t j = 0; j < from.cols; j++)
            typed_set(m.t, i, j, typed_get(from, i, j));
    return m;
}

// `got` holds what `wide`, in fp32, rounds to.
static void assert_rounding_of(const char *what, ft_tensor got, ft_tensor wide) {
    for (int64_t i = 0; i < got.rows; i++)
        for (int64_t j = 0; j < got.cols; j++) {
            double exact = typed_get(wide, i, j);
            double want = got.dtype == FT_F32 ? exact : half_value(got.dtype, half_bits(got.dtype, exact));
            if (typed_get(got, i, j) != want)
                fail_msg("%s[%lld,%lld] in %s is %.9g, should be %.9g", what, (long long)i, (long long)j,
                         ft_dtype_name(got.dtype), typed_get(got, i, j), want);
        }
}

static typed random_of(ft_dtype dtype, int64_t rows, int64_t cols, int64_t gap) {
    return typed_random(dtype, rows, cols, gap, false, 1, 0);
}

// Calls `check` for both types on every instruction set that this machine has, with one thread and with three.
static void on_every_cpu(void (*check)(ft_device *device, ft_dtype dtype)) {
    for (size_t isa = 0; isa < sizeof test_isas / sizeof *test_isas; isa++)
        for (int threads = FT_SANITIZED ? 3 : 1; threads <= 3; threads += 2) {
            ft_device *device;
            if (ft_cpu_open(threads, test_isas[isa], &device) != FT_OK) {
                ft_error_clear();
                continue;
            }
            for (int type = 0; type < 2; type++)
                check(device, half_types[type]);
            ft_device_close(device);
        }
}

// ---- products -------------------------------------------------------------------------------------------------------

static void check_gemm(ft_device *device, ft_dtype dtype, int64_t m, int64_t n, int64_t k, int variant) {
    const bool trans_a = variant & 1, trans_b = variant & 2, accumulate = variant & 4, to_fp32 = variant & 8;
    if (dtype == FT_BF16 && !trans_a) return; // another sum: test_gemm_bf16.c
    const ft_dtype of_c = to_fp32 ? FT_F32 : dtype;
    typed a = random_of(dtype, trans_a ? k : m, trans_a ? m : k, 3),
          b = random_of(dtype, trans_b ? n : k, trans_b ? k : n, 1);
    typed c = random_of(of_c, m, n, 5), bias = random_of(of_c, 1, n, 0);
    typed wide_a = widened(a.t, 1), wide_b = widened(b.t, 1), wide_c = widened(c.t, 1), wide_bias = widened(bias.t, 1);
    ft_gemm_args args = {
        .a = a.t, .b = b.t, .c = c.t, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate};
    ft_gemm_args wide = args;
    wide.a = wide_a.t, wide.b = wide_b.t, wide.c = wide_c.t;
    if (variant % 3 == 0) args.bias = bias.t, wide.bias = wide_bias.t;
    RUN_OP(device, gemm, args);
    RUN_OP(device, gemm, wide);
    assert_rounding_of("product", c.t, wide_c.t);
    typed all[] = {a, b, c, bias, wide_a, wide_b, wide_c, wide_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        typed_free(all[i]);
}

static void check_gemms(ft_device *device, ft_dtype dtype) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {7, 33, 5},   {40, 24, 130}, {200, 48, 9}, {0, 4, 3}, {3, 4, 0},
                                        {1100, 5, 3}, {5, 3, 1100}, {512, 2, 1},   {2, 1, 513}}; // blocks of 512
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int variant = 0; variant < 16; variant += FT_SANITIZED ? 5 : 1)
            check_gemm(device, dtype, shapes[s][0], shapes[s][1], shapes[s][2], variant);
}

static void test_products(void **state) { on_every_cpu(check_gemms); }

static void test_types_that_do_not_go_together(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    typed a = random_of(FT_BF16, 2, 3, 0), b = random_of(FT_BF16, 3, 4, 0), other = random_of(FT_F16, 3, 4, 0);
    typed c = random_of(FT_BF16, 2, 4, 0), wide = random_of(FT_F32, 2, 4, 0), bias = random_of(FT_BF16, 1, 4, 0);
    const ft_gemm_args wrong[] = {{.a = a.t, .b = other.t, .c = c.t},
                                  {.a = a.t, .b = b.t, .c = ft_rows(other.t, 0, 2)},
                                  {.a = a.t, .b = b.t, .c = wide.t, .bias = bias.t}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(FT_RUN(device, gemm, &wrong[i]), FT_FAILED);
        assert_string_equal(ft_error_where(), "gemm");
        ft_error_clear();
    }
    typed all[] = {a, b, other, c, wide, bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        typed_free(all[i]);
    ft_device_close(device);
}

// ---- attention ------------------------------------------------------------------------------------------------------

enum { HEADS = 2, SIZE = 10, HIDDEN = HEADS * SIZE, MOST_SEQUENCES = 9, LONGEST = 520 };
static const int32_t slot[MOST_SEQUENCES] = {4, 0, 9, 1, 2, 30, 8, 7, 5};
static const ft_step_state step = {.seed = 3, .step = 2, .loss_scale = 1};
static int32_t tokens, cu_seqlens[MOST_SEQUENCES + 1];
static ft_attention_shape shape = {
    .heads = HEADS,
    .head_dim = SIZE,
    .cu_queries = cu_seqlens,
    .cu_keys = cu_seqlens,
    .scale = 0.3f,
    .dropout = {.probability = 0.2f, .layer = 1, .site = FT_SITE_ATTENTION, .step = &step, .sequence_slot = slot}};

typedef struct attended {
    typed qkv, dout, out, lse, dqkv;
    typed table[2], dtable[2]; // PK and PQ: rows [first, first + rows) of P alone are there
    typed mix[2], dmix[2];     // of heads that talk
} attended;
typedef enum attention { PLAIN, POSITIONS, TALKING } attention;

enum { BUCKETS = 8, P = 2 * BUCKETS };
static const ft_relative_rule rule = {BUCKETS, 40};
static int32_t slots[2 * LONGEST], reach, first_row, rows_in_use;

static attended inputs(ft_dtype dtype) {
    attended a = {.qkv = random_of(dtype, tokens, 3 * HIDDEN, 2), .dout = random_of(dtype, tokens, HIDDEN, 1)};
    for (int i = 0; i < 2; i++)
        a.table[i] = random_of(dtype, rows_in_use, HIDDEN, i), a.mix[i] = random_of(dtype, HEADS, HEADS, i);
    return a;
}

static attended wide_inputs(const attended *of) {
    attended a = {.qkv = widened(of->qkv.t, 0), .dout = widened(of->dout.t, 0)};
    for (int i = 0; i < 2; i++)
        a.table[i] = widened(of->table[i].t, 0), a.mix[i] = widened(of->mix[i].t, 0);
    return a;
}

static ft_tensor third(typed t, int i) { return ft_columns(t.t, i * HIDDEN, HIDDEN); }

// The table as the slots count its rows, as the engine passes it.
static ft_tensor whole(typed t) {
    ft_tensor w = t.t;
    w.data = (char *)w.data - (size_t)(first_row * w.stride) * ft_dtype_size(w.dtype);
    w.rows = P;
    return w;
}

static void forward(ft_device *device, attended *a, attention kind) {
    a->out = typed_new(a->qkv.t.dtype, tokens, HIDDEN, 4, false);
    a->lse = typed_new(FT_F32, tokens, HEADS, 1, false);
    const ft_tensor q = third(a->qkv, 0), k = third(a->qkv, 1), v = third(a->qkv, 2);
    if (kind == TALKING)
        RUN_OP(device, talking_attention_forward,
               ((ft_talking_attention_forward_args){.shape = {.attention = shape, .reach = reach, .slots = slots},
                                                    .q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .pos_key = whole(a->table[0]),
                                                    .pos_query = whole(a->table[1]),
                                                    .mix_scores = a->mix[0].t,
                                                    .mix_weights = a->mix[1].t,
                                                    .out = a->out.t,
                                                    .lse = a->lse.t}));
    else if (kind == POSITIONS)
        RUN_OP(device, disentangled_attention_forward,
               ((ft_disentangled_attention_forward_args){.shape = {.attention = shape, .reach = reach, .slots = slots},
                                                         .q = q,
                                                         .k = k,
                                                         .v = v,
                                                         .pos_key = whole(a->table[0]),
                                                         .pos_query = whole(a->table[1]),
                                                         .out = a->out.t,
                                                         .lse = a->lse.t}));
    else
        RUN_OP(device, attention_forward,
               ((ft_attention_forward_args){.shape = shape, .q = q, .k = k, .v = v, .out = a->out.t, .lse = a->lse.t}));
}

static void backward(ft_device *device, attended *a, attention kind) {
    a->dqkv = typed_new(a->qkv.t.dtype, tokens, 3 * HIDDEN, 1, false);
    for (int i = 0; i < 2; i++) { // to which gradients are added
        a->dtable[i] = typed_new(FT_F32, rows_in_use, HIDDEN, 1, false);
        for (int64_t k = 0; k < rows_in_use * HIDDEN; k++)
            typed_set(a->dtable[i].t, k / HIDDEN, k % HIDDEN, 0.5);
        a->dmix[i] = typed_new(FT_F32, HEADS, HEADS, 1, false);
        for (int64_t k = 0; k < HEADS * HEADS; k++)
            typed_set(a->dmix[i].t, k / HEADS, k % HEADS, 0.5);
    }
    const ft_tensor q = third(a->qkv, 0), k = third(a->qkv, 1), v = third(a->qkv, 2);
    const ft_tensor dq = third(a->dqkv, 0), dk = third(a->dqkv, 1), dv = third(a->dqkv, 2);
    if (kind == TALKING)
        RUN_OP(device, talking_attention_backward,
               ((ft_talking_attention_backward_args){.shape = {.attention = shape, .reach = reach, .slots = slots},
                                                     .q = q,
                                                     .k = k,
                                                     .v = v,
                                                     .pos_key = whole(a->table[0]),
                                                     .pos_query = whole(a->table[1]),
                                                     .mix_scores = a->mix[0].t,
                                                     .mix_weights = a->mix[1].t,
                                                     .lse = a->lse.t,
                                                     .dout = a->dout.t,
                                                     .dq = dq,
                                                     .dk = dk,
                                                     .dv = dv,
                                                     .dpos_key = whole(a->dtable[0]),
                                                     .dpos_query = whole(a->dtable[1]),
                                                     .dmix_scores = a->dmix[0].t,
                                                     .dmix_weights = a->dmix[1].t}));
    else if (kind == POSITIONS)
        RUN_OP(device, disentangled_attention_backward,
               ((ft_disentangled_attention_backward_args){.shape = {.attention = shape, .reach = reach, .slots = slots},
                                                          .q = q,
                                                          .k = k,
                                                          .v = v,
                                                          .pos_key = whole(a->table[0]),
                                                          .pos_query = whole(a->table[1]),
                                                          .out = a->out.t,
                                                          .lse = a->lse.t,
                                                          .dout = a->dout.t,
                                                          .dq = dq,
                                                          .dk = dk,
                                                          .dv = dv,
                                                          .dpos_key = whole(a->dtable[0]),
                                                          .dpos_query = whole(a->dtable[1])}));
    else
        RUN_OP(device, attention_backward,
               ((ft_attention_backward_args){.shape = shape,
                                             .q = q,
                                             .k = k,
                                             .v = v,
                                             .out = a->out.t,
                                             .lse = a->lse.t,
                                             .dout = a->dout.t,
                                             .dq = dq,
                                             .dk = dk,
                                             .dv = dv}));
}

static void attended_free(attended *a) {
    typed all[] = {a->qkv, a->dout, a->out, a->lse, a->dqkv, a->table[0], a->table[1], a->dtable[0], a->dtable[1],
                   a->mix[0], a->mix[1], a->dmix[0], a->dmix[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        typed_free(all[i]);
}

static void check_attention_with(ft_device *device, ft_dtype dtype, attention kind) {
    attended half = inputs(dtype), wide = wide_inputs(&half);
    forward(device, &half, kind);
    forward(device, &wide, kind);
    assert_rounding_of("output", half.out.t, wide.out.t);
    assert_rounding_of("log-sum-exp", half.lse.t, wide.lse.t);
    for (int64_t t = 0; t < tokens; t++) // the backward pass reads the output as it is stored
        for (int64_t c = 0; c < HIDDEN; c++)
            typed_set(wide.out.t, t, c, typed_get(half.out.t, t, c));
    backward(device, &half, kind);
    backward(device, &wide, kind);
    assert_rounding_of("gradients", half.dqkv.t, wide.dqkv.t);
    for (int i = 0; i < 2; i++)
        assert_rounding_of("gradient of a table", half.dtable[i].t, wide.dtable[i].t), assert_rounding_of("of a mixing matrix", half.dmix[i].t, wide.dmix[i].t);
    attended_free(&half);
    attended_free(&wide);
}

static void check_attention(ft_device *device, ft_dtype dtype) {
    for (int kind = PLAIN; kind <= TALKING; kind++) check_attention_with(device, dtype, (attention)kind);
}

static void attend(const int32_t *lengths, int32_t sequences, int32_t longest) {
    shape.sequences = sequences;
    shape.max_queries = shape.max_keys = longest;
    for (int32_t i = 0; i < sequences; i++)
        cu_seqlens[i + 1] = cu_seqlens[i] + lengths[i];
    tokens = cu_seqlens[sequences];
    reach = ft_relative_reach(rule, longest);
    assert_true(2 * reach + 1 <= 2 * LONGEST);
    ft_relative_slots(rule, reach, slots);
    first_row = slots[0];
    rows_in_use = slots[2 * reach] - first_row + 1;
    on_every_cpu(check_attention);
}

static void test_attention(void **state) {
    attend((int32_t[]){6, 1, 12}, 3, 12);
    assert_true(first_row > 0 && first_row + rows_in_use < P); // rows on both sides that are not there
    // More than are widened at once: groups of several sequences, of one that is longer, of an empty one.
    attend((int32_t[]){300, 1, 250, LONGEST, 0, 130, 382, 90, 3}, MOST_SEQUENCES, LONGEST);
}

// ---- rows in blocks -----------------------------------------------------------------------------------------------

enum { ROWS = 1100, COLS = 9, WORDS = 7 };

typedef struct row_case {
    typed x, dy, y, s, dx, vectors;                        // of the case's type
    typed wide, gradient, ds, norms, mean, rstd, sums, table; // fp32 in both: residual and y, dy, ds, gamma and beta
} row_case;

static row_case rows_new(ft_dtype dtype, const row_case *like) {
    row_case c = {.x = like ? widened(like->x.t, 1) : random_of(dtype, ROWS, COLS, 2),
                  .dy = like ? widened(like->dy.t, 1) : random_of(dtype, ROWS, COLS, 1),
                  .vectors = like ? widened(like->vectors.t, 1) : random_of(dtype, 1, COLS, 1),
                  .wide = like ? widened(like->wide.t, 2) : random_of(FT_F32, ROWS, COLS, 0),
                  .gradient = like ? widened(like->gradient.t, 3) : random_of(FT_F32, ROWS, COLS, 1),
                  .norms = like ? widened(like->norms.t, 1) : random_of(FT_F32, 2, COLS, 0)};
    typed *made[] = {&c.y, &c.s, &c.dx};
    for (int i = 0; i < 3; i++)
        *made[i] = typed_new(dtype, ROWS, COLS, 1 + i, false);
    c.ds = typed_new(FT_F32, ROWS, COLS, 2, false);
    c.mean = typed_new(FT_F32, 1, ROWS, 1, false);
    c.rstd = typed_new(FT_F32, 1, ROWS, 1, false);
    c.sums = typed_new(FT_F32, 4, COLS, 1, false);
    c.table = typed_new(FT_F32, WORDS, COLS, 1, false);
    for (int64_t i = 0; i < 4 * COLS; i++)
        typed_set(c.sums.t, i / COLS, i % COLS, 2);
    for (int64_t i = 0; i < WORDS * COLS; i++)
        typed_set(c.table.t, i / COLS, i % COLS, 1);
    return c;
}

// `wide` of 16 bits takes the residual's place.
static void run_norm(ft_device *device, const row_case *c, const ft_dropout *dropout, bool back) {
    const ft_tensor gamma = ft_rows(c->norms.t, 0, 1);
    if (!back)
        RUN_OP(device, layernorm_forward,
               ((ft_layernorm_forward_args){.x = c->x.t,
                                            .bias = c->vectors.t,
                                            .residual = c->wide.t,
                                            .gamma = gamma,
                                            .beta = ft_rows(c->norms.t, 1, 1),
                                            .epsilon = 1e-5f,
                                            .dropout = *dropout,
                                            .s = c->s.t,
                                            .y = c->y.t,
                                            .wide = c->y.t.dtype == FT_F32 ? ft_absent() : c->wide.t,
                                            .mean = c->mean.t,
                                            .rstd = c->rstd.t}));
    else
        RUN_OP(device, layernorm_backward,
               ((ft_layernorm_backward_args){.dy = c->gradient.t,
                                             .s = c->s.t,
                                             .mean = c->mean.t,
                                             .rstd = c->rstd.t,
                                             .gamma = gamma,
                                             .dropout = *dropout,
                                             .ds = c->ds.t,
                                             .dx = c->dx.t,
                                             .dgamma = ft_rows(c->sums.t, 0, 1),
                                             .dbeta = ft_rows(c->sums.t, 1, 1),
                                             .dbias = ft_rows(c->sums.t, 2, 1)}));
}

static void check_rows(ft_device *device, ft_dtype dtype) {
    static int32_t ids[ROWS], position[ROWS];
    for (int32_t t = 0; t < ROWS; t++) {
        ids[t] = t * 5 % WORDS;
        position[t] = t / 3;
    }
    const ft_dropout dropout = {
        .probability = 0.3f, .layer = 1, .site = 2, .step = &step, .slot = ids, .position = position};
    row_case half = rows_new(dtype, NULL), wide = rows_new(FT_F32, &half), *both[] = {&half, &wide};
    for (int i = 0; i < 2; i++)
        run_norm(device, both[i], &dropout, false);
    assert_rounding_of("norm", half.y.t, wide.y.t);
    assert_rounding_of("norm in fp32", half.wide.t, wide.y.t);
    assert_rounding_of("sum", half.s.t, wide.s.t);
    assert_rounding_of("mean", half.mean.t, wide.mean.t);
    typed stored = widened(half.s.t, 1), fresh = wide.s;
    wide.s = stored; // the backward pass reads the sum as it is stored
    for (int i = 0; i < 2; i++) {
        row_case *c = both[i];
        run_norm(device, c, &dropout, true);
        RUN_OP(device, column_sum, ((ft_column_sum_args){.x = c->x.t, .out = ft_rows(c->sums.t, 3, 1)}));
        RUN_OP(
            device, embedding_backward,
            ((ft_embedding_backward_args){.ids = ids, .dout = c->dy.t, .table_gradient = c->table.t, .padding_id = 2}));
    }
    assert_rounding_of("ds", half.ds.t, wide.ds.t);
    assert_rounding_of("dx", half.dx.t, wide.dx.t);
    assert_rounding_of("sums over rows", half.sums.t, wide.sums.t);
    assert_rounding_of("gradient of a table", half.table.t, wide.table.t);
    for (int i = 0; i < 2; i++)
        RUN_OP(device, dropout, ((ft_dropout_args){.dropout = dropout, .x = both[i]->x.t, .y = both[i]->x.t}));
    assert_rounding_of("dropout", half.x.t, wide.x.t);
    typed_free(fresh);
    for (int i = 0; i < 2; i++) {
        const row_case *c = both[i];
        const typed all[] = {c->x,    c->dy,       c->y,  c->s,     c->dx,   c->vectors, c->wide,
                             c->gradient, c->ds, c->norms, c->mean, c->rstd,   c->sums, c->table};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            typed_free(all[k]);
    }
}

static void test_rows_in_blocks(void **state) { on_every_cpu(check_rows); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_types_that_do_not_go_together),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_rows_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The update in mixed precision: parameters as pairs or beside a copy in 16 bits, the loss scale, steps that are skipped; and
// the ops of a step beside PyTorch's own in the same precision.
// ctest: emulated=yes
#include "../half_matrix.h"

static const ft_adamw_hyper usual = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
enum { N = 2003, STEPS = 4, RANGES = 4 };
static const ft_adamw_range at_units[RANGES] = {
    {0, 1000, 0.01f, 1, NULL}, {1008, 17, 0, 0.5f, NULL}, {1504, 499, 0.1f, 2, NULL}, {1104, 0, 0, 1, NULL}};
static const ft_adamw_range anywhere[RANGES] = {
    {0, 1000, 0.01f, 1, NULL}, {1005, 17, 0, 0.5f, NULL}, {1501, 502, 0.1f, 2, NULL}, {1100, 0, 0, 1, NULL}};
enum { WIDE = 1 }; // the range that may have its parameters in fp32 in a place of its own

typedef struct update_case {
    ft_dtype type; // what ops read: fp32; bf16, the first halves of pairs; fp16, a copy
    const ft_adamw_range *ranges;
    float loss_scale;
    float bad; // of the gradient of the last step, where it is not 0
    bool wide;
} update_case;

// How parameters lie in memory; what is not there has no base.
typedef struct places {
    typed p, high, tail, copy, wide;
    ft_adamw_range ranges[RANGES];
} places;

static places places_of(const update_case *c, bool whole) {
    places s = {.p = typed_none(), .high = typed_none(), .tail = typed_none(), .copy = typed_none(), .wide = typed_none()};
    if (c->type == FT_BF16) s.high = typed_new(FT_BF16, 1, N, 0, whole), s.tail = typed_new(FT_BF16, 1, N, 0, whole);
    else s.p = typed_new(FT_F32, 1, N, 0, whole);
    if (c->type == FT_F16) s.copy = typed_new(FT_F16, 1, N, 0, whole);
    memcpy(s.ranges, c->ranges, sizeof s.ranges);
    if (!c->wide) return s;
    s.wide = typed_new(FT_F32, 1, s.ranges[WIDE].count, 0, whole);
    s.ranges[WIDE].wide = s.wide.t.data;
    return s;
}

// Where element i is in fp32; NULL: it is a pair.
static float *whole_of(const places *s, int64_t i) {
    const ft_adamw_range *wide = &s->ranges[WIDE];
    if (wide->wide != NULL && i >= wide->first && i < wide->first + wide->count) return wide->wide + (i - wide->first);
    return s->p.base != NULL ? (float *)s->p.t.data + i : NULL;
}
static float get(const places *s, int64_t i) {
    const float *whole = whole_of(s, i);
    uint16_t high, tail;
    if (whole != NULL) return *whole;
    memcpy(&high, (uint16_t *)s->high.t.data + i, sizeof high);
    memcpy(&tail, (uint16_t *)s->tail.t.data + i, sizeof tail);
    const uint32_t bits = ((uint32_t)high << 16) + (uint32_t)(int32_t)(int16_t)tail;
    float x;
    return memcpy(&x, &bits, sizeof x), x;
}
static void set(const places *s, int64_t i, float x) {
    float *whole = whole_of(s, i);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t high = (uint16_t)((bits + 0x8000) >> 16), tail = (uint16_t)bits;
    if (whole != NULL) {
        *whole = x;
        return;
    }
    memcpy((uint16_t *)s->high.t.data + i, &high, sizeof high);
    memcpy((uint16_t *)s->tail.t.data + i, &tail, sizeof tail);
}

static bool in_a_range(const ft_adamw_range *ranges, int64_t i) {
    for (int r = 0; r < RANGES; r++)
        if (i >= ranges[r].first && i < ranges[r].first + ranges[r].count) return true;
    return false;
}

// What ops read is the parameter, rounded to the nearest; where no range is, or a wide one, nothing is written.
static void check_halves(const update_case *c, const places *s) {
    for (int64_t i = 0; i < N && c->type != FT_F32; i++) {
        const float x = get(s, i);
        const uint16_t nearest = half_bits(c->type, (double)x);
        uint16_t bits;
        memcpy(&bits, (uint16_t *)(c->type == FT_BF16 ? s->high : s->copy).t.data + i, sizeof bits);
        const bool apart = s->wide.base != NULL && whole_of(s, i) != (float *)s->p.t.data + i && whole_of(s, i) != NULL;
        if (apart || (c->type == FT_F16 && !in_a_range(s->ranges, i))) assert_int_equal(bits, 0xFFFF);
        else if (bits != nearest) // a tie: away from zero
            assert_true(c->type == FT_BF16 && (double)x - half_value(FT_BF16, nearest) == half_value(FT_BF16, bits) - (double)x);
    }
}

// The norm of every step, p, m, v; what a bad gradient may not change is looked at here.
static void run_update(ft_device *device, const void *test_case, bool whole, float *out) {
    const update_case *c = test_case;
    places s = places_of(c, whole);
    typed m = typed_new(FT_F32, 1, N, 0, whole), v = typed_new(FT_F32, 1, N, 0, whole);
    typed gradient = typed_new(FT_F32, 1, N, 0, whole);
    for (int64_t i = 0; i < N; i++) {
        set(&s, i, (float)cos(3.0 * (double)i));
        typed_set(m.t, 0, i, 0);
        typed_set(v.t, 0, i, 0);
    }
    ft_update_state update = {.loss_scale = c->loss_scale};
    for (int n = 0; n < STEPS; n++) {
        ft_step_state step = {.step = (uint32_t)n, .learning_rate = 1e-2f, .loss_scale = c->loss_scale};
        for (int64_t i = 0; i < N; i++)
            typed_set(gradient.t, 0, i, ((double)get(&s, i) - sin((double)i)) * (double)c->loss_scale);
        const bool bad = c->bad != 0 && n == STEPS - 1;
        if (bad) typed_set(gradient.t, 0, N - 2, (double)c->bad);
        const typed all[] = {s.p, s.high, s.tail, s.copy, s.wide, m, v};
        enum { ALL = sizeof all / sizeof *all };
        unsigned char *before[ALL] = {NULL};
        for (int k = 0; k < ALL && bad; k++) {
            before[k] = malloc(all[k].bytes + 1);
            assert_non_null(before[k]);
            if (all[k].base != NULL) memcpy(before[k], all[k].base, all[k].bytes);
        }
        const ft_update_state old = update;
        RUN_OP(device, gradient_norm,
               ((ft_gradient_norm_args){.gradient = gradient.t, .hyper = usual, .step = &step, .update = &update}));
        RUN_OP(device, adamw,
               ((ft_adamw_args){.parameter = c->type == FT_BF16 ? s.high.t : s.p.t,
                                .tail = s.tail.t.data,
                                .compute = s.copy.t,
                                .gradient = gradient.t,
                                .m = m.t,
                                .v = v.t,
                                .ranges = s.ranges,
                                .range_count = RANGES,
                                .hyper = usual,
                                .step = &step,
                                .update = &update}));
        out[n] = (float)update.norm;
        for (int k = 0; k < ALL && bad; k++) {
            if (all[k].base != NULL) assert_memory_equal(all[k].base, before[k], all[k].bytes);
            free(before[k]);
        }
        assert_int_equal(update.finite, !bad);
        assert_int_equal(update.count, old.count + !bad);
        assert_int_equal(update.skipped, old.skipped + bad);
        if (bad) assert_true(update.correction1 == old.correction1 && update.correction2 == old.correction2);
        assert_true(update.loss_scale == c->loss_scale); // a fixed one: growth_interval is 0
    }
    out += STEPS;
    for (int64_t i = 0; i < N; i++)
        *out++ = get(&s, i);
    out += typed_flatten(m.t, out);
    typed_flatten(v.t, out);
    check_halves(c, &s);
    typed rest[] = {s.p, s.high, s.tail, s.copy, s.wide, m, v, gradient};
    for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
        typed_free(rest[k]);
}

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};

// How parameters lie in memory and a loss scale change nothing of them, to the bit.
static void test_forms_and_scales(void **state) {
    static const float scales[] = {1, 65536, 0x1p-6f};
    for (int where = 0; where < 2; where++) {
        float *first = NULL;
        for (int k = 0; k < 3 * 3 * 2; k++) {
            update_case c = {.type = types[k / 6], .ranges = where ? anywhere : at_units, .loss_scale = scales[k / 2 % 3], .wide = k % 2};
            float *got = run_typed(run_update, &c, STEPS + 3 * N);
            if (first == NULL) {
                first = got;
                continue;
            }
            assert_memory_equal(got, first, (STEPS + 3 * N) * sizeof *got);
            free(got);
        }
        assert_true(first[0] > 1 && first[STEPS] != (float)cos(0));
        free(first);
    }
}

static void test_a_bad_gradient_changes_nothing(void **state) {
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++)
        for (int b = 0; b < 3; b++) {
            update_case c = {
                .type = types[k], .ranges = anywhere, .loss_scale = k == 2 ? 1024 : 1, .bad = bad[b], .wide = b == 0};
            free(run_typed(run_update, &c, STEPS + 3 * N));
        }
}

// A parameter that lies half-way between two numbers of bf16, and stays there: the gradient is zero, and nothing decays.
static void run_ties(ft_device *device, const void *test_case, float *out) {
    enum { COUNT = 37 };
    static const ft_adamw_range all[] = {{0, COUNT, 0, 1, NULL}};
    uint16_t high[COUNT], tail[COUNT];
    float zeros[3][COUNT] = {{0}};
    ft_step_state step = {.learning_rate = 0.125f, .loss_scale = 1};
    ft_update_state update = {.count = 1, .correction1 = 0.1, .correction2 = 0.001, .clip = 1, .finite = 1};
    for (int i = 0; i < COUNT; i++) {
        high[i] = (uint16_t)((i % 2 ? 0x3F81 : 0xBF81) + i);
        tail[i] = 0x8000;
    }
    high[5] = 0x7F80, tail[5] = 0; // infinity less a step of 0
    RUN_OP(device, adamw,
           ((ft_adamw_args){.parameter = ft_vector(high, COUNT, FT_BF16),
                            .tail = tail,
                            .gradient = ft_vector(zeros[0], COUNT, FT_F32),
                            .m = ft_vector(zeros[1], COUNT, FT_F32),
                            .v = ft_vector(zeros[2], COUNT, FT_F32),
                            .ranges = all,
                            .range_count = 1,
                            .hyper = usual,
                            .step = &step,
                            .update = &update}));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(high[i], i == 5 ? 0x7F80 : (i % 2 ? 0x3F81 : 0xBF81) + i);
        assert_int_equal(tail[i], i == 5 ? 0 : 0x8000);
        out[i] = high[i];
    }
}
static void test_ties_stay(void **state) { free(run_everywhere(run_ties, NULL, 37)); }

// ---- the dynamic loss scale ---------------------------------------------------------------------------------------

static ft_update_state norm_of(ft_device *device, ft_update_state update, float value, int interval) {
    ft_step_state step = {.loss_scale = update.loss_scale};
    float gradient[3] = {1, value, 2};
    RUN_OP(device, gradient_norm,
           ((ft_gradient_norm_args){.gradient = ft_vector(gradient, 3, FT_F32),
                                    .hyper = usual,
                                    .step = &step,
                                    .growth_interval = interval,
                                    .update = &update}));
    return update;
}

// Step after step what torch.amp.GradScaler does: factor 2, backoff 0.5.
static void run_scale(ft_device *device, const void *test_case, float *out) {
    const int *interval = test_case;
    ft_update_state update = {.loss_scale = 65536};
    double scale = 65536;
    int tracker = 0, good_steps = 0, skipped = 0;
    for (int s = 0; s < 40; s++) {
        const bool overflow = s == 0 || s == 1 || s % 11 == 7;
        update = norm_of(device, update, overflow ? INFINITY : 1.0f, *interval);
        good_steps += !overflow;
        skipped += overflow;
        tracker = overflow ? 0 : tracker + 1;
        if (overflow) scale *= 0.5;
        if (tracker == *interval) scale *= 2, tracker = 0;
        assert_true((double)update.loss_scale == scale);
        assert_int_equal(update.finite_steps, tracker);
        assert_int_equal(update.count, good_steps);
        assert_int_equal(update.skipped, skipped);
    }
    update.loss_scale = 0x1p127f; // there is nothing above
    for (int s = 0; s < 2 * *interval; s++)
        update = norm_of(device, update, 1, *interval);
    assert_true(update.loss_scale == 0x1p127f && update.finite == 1);
    out[0] = update.loss_scale;
}

static void test_the_scale_follows_grad_scaler(void **state) {
    static const int intervals[] = {1, 3, 5};
    for (int i = 0; i < 3; i++)
        free(run_everywhere(run_scale, &intervals[i], 1));
}

// Gradients that fp16 cannot hold at first: each such step is skipped and halves the scale, then training goes on with
// the same parameters that a run without any scale has.
static void run_overflow(ft_device *device, const void *test_case, float *out) {
    enum { COUNT = 24 };
    static const ft_adamw_range all[] = {{0, COUNT, 0.01f, 1, NULL}};
    float p[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, gradient[COUNT];
    uint16_t half[COUNT], copy[COUNT];
    ft_update_state update = {.loss_scale = 65536};
    for (int i = 0; i < COUNT; i++)
        p[i] = 1 + (float)i / 32;
    for (int s = 0; s < 6; s++) {
        ft_step_state step = {.step = (uint32_t)s, .learning_rate = 0.125f, .loss_scale = update.loss_scale};
        for (int i = 0; i < COUNT; i++)
            gradient[i] = (2 + (float)(i % 4) / 2) * step.loss_scale; // at most 3.5
        RUN_OP(device, cast,
               ((ft_cast_args){.x = ft_vector(gradient, COUNT, FT_F32), .y = ft_vector(half, COUNT, FT_F16)}));
        RUN_OP(device, cast,
               ((ft_cast_args){.x = ft_vector(half, COUNT, FT_F16), .y = ft_vector(gradient, COUNT, FT_F32)}));
        RUN_OP(device, gradient_norm,
               ((ft_gradient_norm_args){.gradient = ft_vector(gradient, COUNT, FT_F32),
                                        .hyper = usual,
                                        .step = &step,
                                        .growth_interval = 2000,
                                        .update = &update}));
        RUN_OP(device, adamw,
               ((ft_adamw_args){.parameter = ft_vector(p, COUNT, FT_F32),
                                .gradient = ft_vector(gradient, COUNT, FT_F32),
                                .m = ft_vector(m, COUNT, FT_F32),
                                .v = ft_vector(v, COUNT, FT_F32),
                                .compute = ft_vector(copy, COUNT, FT_F16),
                                .ranges = all,
                                .range_count = 1,
                                .hyper = usual,
                                .step = &step,
                                .update = &update}));
        assert_int_equal(update.finite, s >= 2); // 3.5 * 16,384 is the first below 65,520
        assert_true(p[0] == 1 ? s < 2 : s >= 2);
    }
    assert_true(update.loss_scale == 16384);
    assert_int_equal(update.count, 4);
    assert_int_equal(update.skipped, 2);
    memcpy(out, p, sizeof p);
}
static void run_without_scale(ft_device *device, const void *test_case, float *out) {
    enum { COUNT = 24 };
    static const ft_adamw_range all[] = {{0, COUNT, 0.01f, 1, NULL}};
    float p[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, gradient[COUNT];
    ft_update_state update = {0};
    ft_step_state step = {.learning_rate = 0.125f, .loss_scale = 1};
    for (int i = 0; i < COUNT; i++) {
        p[i] = 1 + (float)i / 32;
        gradient[i] = 2 + (float)(i % 4) / 2;
    }
    for (int s = 0; s < 4; s++) {
        RUN_OP(device, gradient_norm,
               ((ft_gradient_norm_args){
                   .gradient = ft_vector(gradient, COUNT, FT_F32), .hyper = usual, .update = &update}));
        RUN_OP(device, adamw,
               ((ft_adamw_args){.parameter = ft_vector(p, COUNT, FT_F32),
                                .gradient = ft_vector(gradient, COUNT, FT_F32),
                                .m = ft_vector(m, COUNT, FT_F32),
                                .v = ft_vector(v, COUNT, FT_F32),
                                .ranges = all,
                                .range_count = 1,
                                .hyper = usual,
                                .step = &step,
                                .update = &update}));
    }
    memcpy(out, p, sizeof p);
}
static void test_an_overflow_recovers(void **state) {
    float *scaled = run_everywhere(run_overflow, NULL, 24), *plain = run_everywhere(run_without_scale, NULL, 24);
    assert_memory_equal(scaled, plain, 24 * sizeof *plain);
    free(scaled);
    free(plain);
}

// ---- losses: fp32, their gradients times the scale ----------------------------------------------------------------

static void run_losses(ft_device *device, const void *test_case, float *out) {
    enum { ROWS = 37, CLASSES = 5 };
    const float *scale = test_case;
    ft_step_state step = {.loss_factor = 0.0625f, .loss_scale = *scale};
    float logits[ROWS * CLASSES], targets[ROWS * CLASSES], losses[ROWS], d[ROWS * CLASSES];
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS * CLASSES; i++) {
        logits[i] = (float)sin(7.0 * i) * 3;
        targets[i] = (float)(i % 3) / 2;
        labels[i / CLASSES] = i % CLASSES;
    }
    const ft_tensor x = ft_matrix(logits, ROWS, CLASSES, FT_F32), t = ft_matrix(targets, ROWS, CLASSES, FT_F32);
    const ft_tensor dx = ft_matrix(d, ROWS, CLASSES, FT_F32), of_rows = ft_vector(losses, ROWS, FT_F32);
    for (int which = 0; which < 5; which++) {
        switch (which) {
        case 0:
            RUN_OP(device, cross_entropy,
                   ((ft_cross_entropy_args){
                       .logits = x, .labels = labels, .step = &step, .losses = of_rows, .dlogits = dx}));
            break;
        case 1:
            RUN_OP(device, weighted_cross_entropy,
                   ((ft_weighted_cross_entropy_args){.logits = x,
                                                     .labels = labels,
                                                     .smoothing = 0.1f,
                                                     .step = &step,
                                                     .losses = of_rows,
                                                     .dlogits = dx}));
            break;
        case 2:
            RUN_OP(device, binary_cross_entropy,
                   ((ft_binary_cross_entropy_args){
                       .logits = x, .targets = t, .step = &step, .losses = of_rows, .dlogits = dx}));
            break;
        case 3:
            RUN_OP(device, span_cross_entropy,
                   ((ft_span_cross_entropy_args){.logits = x,
                                                 .sequences = 2,
                                                 .cu_rows = (const int32_t[]){0, ROWS / 2, ROWS},
                                                 .marks = labels,
                                                 .step = &step,
                                                 .losses = of_rows,
                                                 .dlogits = dx}));
            break;
        default:
            RUN_OP(
                device, squared_error,
                ((ft_squared_error_args){.logits = x, .targets = t, .step = &step, .losses = of_rows, .dlogits = dx}));
        }
        memcpy(out, losses, sizeof losses);
        for (int i = 0; i < ROWS * CLASSES; i++)
            out[ROWS + i] = d[i] / *scale;
        out += ROWS + ROWS * CLASSES;
    }
}

static void test_gradients_of_losses_are_scaled(void **state) {
    const float scales[] = {1, 32768};
    const size_t n = 5 * 37 * 6;
    float *plain = run_everywhere(run_losses, &scales[0], n), *scaled = run_everywhere(run_losses, &scales[1], n);
    assert_memory_equal(scaled, plain, n * sizeof *plain);
    assert_true(fabsf(plain[37]) > 1e-4f);
    free(plain);
    free(scaled);
}

// ---- beside PyTorch -----------------------------------------------------------------------------------------------

// number() of make_half_vectors.py, rounded to the type.
static double number(uint32_t seed, uint32_t tensor, int64_t at) {
    uint64_t x = ft_splitmix64((uint64_t)seed << 40 | (uint64_t)tensor << 32 | (uint64_t)at);
    return ((double)(x >> 40) * 0x1p-24 - 0.5) * 4;
}
static typed numbers(ft_dtype dtype, int64_t rows, int64_t cols, int seed, int tensor) {
    typed m = typed_new(dtype, rows, cols, 0, true);
    for (int64_t i = 0; i < rows * cols; i++)
        typed_set(m.t, i / cols, i % cols, number((uint32_t)seed, (uint32_t)tensor, i));
    return m;
}
// The same in fp32: what an op reads so in every precision gets numbers that PyTorch's op could read too.
static typed wide_numbers(ft_dtype dtype, int64_t rows, int64_t cols, int seed, int tensor) {
    typed m = numbers(dtype, rows, cols, seed, tensor), wide = typed_new(FT_F32, rows, cols, 0, true);
    for (int64_t i = 0; i < rows * cols; i++)
        typed_set(wide.t, i / cols, i % cols, typed_get(m.t, i / cols, i % cols));
    typed_free(m);
    return wide;
}
static typed zeros(int64_t rows, int64_t cols) {
    typed m = typed_new(FT_F32, rows, cols, 0, true);
    for (int64_t i = 0; i < rows * cols; i++)
        typed_set(m.t, i / cols, i % cols, 0);
    return m;
}

typedef struct vector_case {
    char op[16], type[8];
    int rows, cols, seed;
    double theirs[5];
} vector_case;
typedef struct part { // what came out, and what is right
    ft_tensor got;
    double *want;
} part;
enum { VOCABULARY = 19, PARTS = 5 };

static double *copy_of(ft_tensor t) {
    double *d = malloc((size_t)(t.rows * t.cols + 1) * sizeof *d);
    assert_non_null(d);
    for (int64_t i = 0; i < t.rows * t.cols; i++)
        d[i] = typed_get(t, i / t.cols, i % t.cols);
    return d;
}
static double *nothing(int64_t n) {
    double *d = calloc((size_t)n + 1, sizeof *d);
    assert_non_null(d);
    return d;
}
static void judge(const vector_case *c, part *parts, int count) {
    for (int i = 0; i < count; i++) {
        const size_t n = (size_t)(parts[i].got.rows * parts[i].got.cols);
        float *got = malloc((n + 1) * sizeof *got);
        assert_non_null(got);
        typed_flatten(parts[i].got, got);
        const double ours = relative_error(got, parts[i].want, n);
        if (!(ours <= 2 * c->theirs[i] + 1e-7))
            fail_msg("%s in %s [%d,%d], part %d: error %.3g, PyTorch's is %.3g", c->op, c->type, c->rows, c->cols, i,
                     ours, c->theirs[i]);
        free(got);
        free(parts[i].want);
    }
}

static void layernorm_case(ft_device *device, const vector_case *c, ft_dtype h) {
    const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
    typed x = numbers(h, rows, cols, c->seed, 0), bias = numbers(h, 1, cols, c->seed, 1),
          residual = wide_numbers(h, rows, cols, c->seed, 2);
    typed gamma = wide_numbers(h, 1, cols, c->seed, 3), beta = wide_numbers(h, 1, cols, c->seed, 4),
          dy = wide_numbers(h, rows, cols, c->seed, 5);
    typed s = typed_new(h, rows, cols, 0, true), y = typed_new(h, rows, cols, 0, true),
          ds = typed_new(FT_F32, rows, cols, 0, true), dx = typed_new(h, rows, cols, 0, true);
    typed statistics = zeros(2, rows), sums = zeros(3, cols);
    part p[PARTS] = {{y.t, nothing(n)},
                     {dx.t, nothing(n)},
                     {ft_rows(sums.t, 0, 1), nothing(cols)},
                     {ft_rows(sums.t, 1, 1), nothing(cols)},
                     {ft_rows(sums.t, 2, 1), nothing(cols)}};
    double *row = nothing(cols);
    for (int64_t t = 0; t < rows; t++) {
        double mean = 0, squares = 0, sum = 0, dot = 0;
        for (int64_t j = 0; j < cols; j++) {
            row[j] = typed_get(x.t, t, j) + typed_get(bias.t, 0, j) + typed_get(residual.t, t, j);
            mean += row[j] / (double)cols;
        }
        for (int64_t j = 0; j < cols; j++)
            squares += (row[j] - mean) * (row[j] - mean);
        const double rstd = 1 / sqrt(squares / (double)cols + 1e-12);
        for (int64_t j = 0; j < cols; j++) {
            row[j] = (row[j] - mean) * rstd;
            p[0].want[t * cols + j] = row[j] * typed_get(gamma.t, 0, j) + typed_get(beta.t, 0, j);
            sum += typed_get(dy.t, t, j) * typed_get(gamma.t, 0, j) / (double)cols;
            dot += typed_get(dy.t, t, j) * typed_get(gamma.t, 0, j) * row[j] / (double)cols;
        }
        for (int64_t j = 0; j < cols; j++) {
            const double d = typed_get(dy.t, t, j);
            p[1].want[t * cols + j] = rstd * (d * typed_get(gamma.t, 0, j) - sum - row[j] * dot);
            p[2].want[j] += d * row[j];
            p[3].want[j] += d;
            p[4].want[j] += p[1].want[t * cols + j];
        }
    }
    const ft_tensor mean = ft_rows(statistics.t, 0, 1), rstd = ft_rows(statistics.t, 1, 1);
    RUN_OP(device, layernorm_forward,
           ((ft_layernorm_forward_args){.x = x.t,
                                        .bias = bias.t,
                                        .residual = residual.t,
                                        .gamma = gamma.t,
                                        .beta = beta.t,
                                        .epsilon = 1e-12f,
                                        .s = s.t,
                                        .y = y.t,
                                        .mean = mean,
                                        .rstd = rstd}));
    RUN_OP(device, layernorm_backward,
           ((ft_layernorm_backward_args){.dy = dy.t,
                                         .s = s.t,
                                         .mean = mean,
                                         .rstd = rstd,
                                         .gamma = gamma.t,
                                         .ds = ds.t,
                                         .dx = dx.t,
                                         .dgamma = p[2].got,
                                         .dbeta = p[3].got,
                                         .dbias = p[4].got}));
    judge(c, p, 5);
    free(row);
    typed all[] = {x, bias, residual, gamma, beta, dy, s, y, ds, dx, statistics, sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        typed_free(all[i]);
}

// In float64 by finite differences of the value: no formula twice.
static double value_of(ft_activation kind, double x) {
    switch (kind) {
    case FT_ACT_GELU: return x * 0.5 * erfc(-x / sqrt(2));
    case FT_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case FT_ACT_RELU: return x > 0 ? x : 0;
    case FT_ACT_TANH: return tanh(x);
    case FT_ACT_SILU: return x / (1 + exp(-x));
    case FT_ACT_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case FT_ACT_MISH: return x * tanh(log1p(exp(x)));
    default: return x;
    }
}
static double slope_of(ft_activation kind, double x) {
    if (kind == FT_ACT_RELU) return x > 0;
    return (value_of(kind, x + 1e-5) - value_of(kind, x - 1e-5)) / 2e-5;
}

static void activation_case(ft_device *device, const vector_case *c, ft_dtype type) {
    const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
    ft_activation kind;
    assert_int_equal(ft_activation_from_name(c->op, &kind), FT_OK);
    typed x = numbers(type, rows, cols, c->seed, 0), bias = numbers(type, 1, cols, c->seed, 1),
          dy = numbers(type, rows, cols, c->seed, 2);
    typed h = typed_new(type, rows, cols, 0, true), y = typed_new(type, rows, cols, 0, true), dbias = zeros(1, cols);
    part p[PARTS] = {{y.t, nothing(n)}, {dy.t, nothing(n)}, {dbias.t, nothing(cols)}};
    for (int64_t i = 0; i < n; i++) {
        const double at = typed_get(x.t, i / cols, i % cols) + typed_get(bias.t, 0, i % cols);
        p[0].want[i] = value_of(kind, at);
        p[1].want[i] = slope_of(kind, at) * typed_get(dy.t, i / cols, i % cols);
        p[2].want[i % cols] += p[1].want[i];
    }
    RUN_OP(device, activation_forward,
           ((ft_activation_forward_args){.kind = kind, .x = x.t, .bias = bias.t, .h = h.t, .y = y.t}));
    RUN_OP(device, activation_backward,
           ((ft_activation_backward_args){.kind = kind, .h = h.t, .dy = dy.t, .dx = dy.t, .dbias = dbias.t}));
    judge(c, p, 3);
    typed all[] = {x, bias, dy, h, y, dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        typed_free(all[i]);
}

static void embedding_case(ft_device *device, const vector_case *c, ft_dtype h) {
    const int64_t rows = c->rows, cols = c->cols;
    typed word = numbers(h, VOCABULARY, cols, c->seed, 0), position = numbers(h, rows, cols, c->seed, 1),
          dout = numbers(h, rows, cols, c->seed, 2);
    typed out = typed_new(h, rows, cols, 0, true), table = zeros(VOCABULARY, cols);
    int32_t ids[256], positions[256];
    part p[PARTS] = {{out.t, copy_of(position.t)}, {table.t, nothing(VOCABULARY * cols)}};
    for (int32_t t = 0; t < rows; t++) {
        ids[t] = (int32_t)((number((uint32_t)c->seed, 3, t) + 2) / 4 * VOCABULARY);
        positions[t] = t;
        for (int64_t j = 0; j < cols; j++) {
            p[0].want[t * cols + j] += typed_get(word.t, ids[t], j);
            p[1].want[ids[t] * cols + j] += typed_get(dout.t, t, j);
        }
    }
    RUN_OP(device, embedding_forward,
           ((ft_embedding_forward_args){
               .word_ids = ids, .position_ids = positions, .word = word.t, .position = position.t, .out = out.t}));
    int32_t order[256], space[256];
    ft_embedding_order(ids, (int32_t)rows, order, space);
    RUN_OP(device, embedding_backward,
           ((ft_embedding_backward_args){.ids = ids, .order = order, .dout = dout.t, .table_gradient = table.t, .padding_id = -1}));
    judge(c, p, 2);
    typed all[] = {word, position, dout, out, table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        typed_free(all[i]);
}

static void column_sum_case(ft_device *device, const vector_case *c, ft_dtype h) {
    typed x = numbers(h, c->rows, c->cols, c->seed, 0), sum = zeros(1, c->cols);
    part p[PARTS] = {{sum.t, nothing(c->cols)}};
    for (int64_t i = 0; i < (int64_t)c->rows * c->cols; i++)
        p[0].want[i % c->cols] += typed_get(x.t, i / c->cols, i % c->cols);
    RUN_OP(device, column_sum, ((ft_column_sum_args){.x = x.t, .out = sum.t}));
    judge(c, p, 1);
    typed_free(x);
    typed_free(sum);
}

// In 16 bits at most twice as far off as PyTorch's own op in them (make_half_vectors.py). Products: test_gemm.c.
static void test_as_exact_as_pytorch(void **state) {
    FILE *file = fopen(FT_TEST_VECTORS "/half.txt", "re");
    char line[200];
    int cases = 0;
    bool end = false;
    char name[64];
    assert_non_null(file);
    ft_device *device = test_way(0, name, sizeof name, &end);
    while (fgets(line, sizeof line, file) != NULL) {
        vector_case c = {.rows = 0};
        double *e = c.theirs;
        assert_true(sscanf(line, "case %15s %7s %d %d %d %lf %lf %lf %lf %lf", c.op, c.type, &c.rows, &c.cols, &c.seed,
                           e, e + 1, e + 2, e + 3, e + 4) >= 6);
        const ft_dtype h = strcmp(c.type, "fp16") == 0 ? FT_F16 : FT_BF16;
        if (strcmp(c.op, "linear") == 0) continue;
        cases++;
        if (strcmp(c.op, "layernorm") == 0)
            layernorm_case(device, &c, h);
        else if (strcmp(c.op, "embedding") == 0)
            embedding_case(device, &c, h);
        else if (strcmp(c.op, "column_sum") == 0)
            column_sum_case(device, &c, h);
        else
            activation_case(device, &c, h);
    }
    fclose(file);
    assert_int_equal(cases, 60);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_and_scales),
        cmocka_unit_test(test_a_bad_gradient_changes_nothing),
        cmocka_unit_test(test_ties_stay),
        cmocka_unit_test(test_the_scale_follows_grad_scaler),
        cmocka_unit_test(test_an_overflow_recovers),
        cmocka_unit_test(test_gradients_of_losses_are_scaled),
        cmocka_unit_test(test_as_exact_as_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

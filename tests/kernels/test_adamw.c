// ctest: emulated=yes
#include "elementwise.h"

// ---- the norm -----------------------------------------------------------------------------------------------------
typedef struct norm_case {
    fenced gradient, losses;
    fenced table; // rows of a table of table_rows
    int64_t table_rows;
    const int32_t *table_blocks;
    double max_norm;
    bool stops, pieces;
    ft_update_state before;
} norm_case;
static const ft_adamw_hyper usual = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 0};

// The table, then all of the gradient but its first chunk, then that, and at last nothing.
static void run_norm_in_pieces(ft_device *device, const norm_case *c, ft_gradient_norm_args whole) {
    const int64_t n = c->gradient.t.cols, front = n < FT_NORM_CHUNK ? n : FT_NORM_CHUNK, chunks = ft_norm_sums(n, 0);
    const int64_t all = ft_norm_sums(n, c->table_rows);
    double *sums = calloc((size_t)all, sizeof *sums);
    float *gradient = c->gradient.t.data;
    ft_gradient_norm_args table = whole, back = {.gradient = ft_vector(gradient + front, n - front, FT_F32), .pieces = {sums, 1, false}};
    table.gradient = ft_vector(gradient, 0, FT_F32);
    table.update = NULL;
    table.pieces = (ft_norm_pieces){sums, chunks, false};
    if (c->table_rows > 0) RUN_OP(device, gradient_norm, table);
    if (n > front) RUN_OP(device, gradient_norm, back);
    RUN_OP(device, gradient_norm, ((ft_gradient_norm_args){.gradient = ft_vector(gradient, front, FT_F32), .pieces = {sums, 0, false}}));
    whole.gradient = ft_vector(gradient, 0, FT_F32);
    whole.table_rows = 0;
    whole.pieces = (ft_norm_pieces){sums, all, true};
    RUN_OP(device, gradient_norm, whole);
    free(sums);
}

static void run_norm(ft_device *device, const void *test_case, float *out) {
    const norm_case *c = test_case;
    ft_update_state update = c->before;
    ft_adamw_hyper hyper = usual;
    hyper.max_gradient_norm = c->max_norm;
    const ft_gradient_norm_args norm = {.gradient = c->gradient.t,
                                        .table = c->table.t,
                                        .table_rows = c->table_rows,
                                        .table_blocks = c->table_blocks,
                                        .losses = c->losses.base ? &c->losses.t : NULL,
                                        .hyper = hyper,
                                        .stops = c->stops,
                                        .update = &update};
    if (c->pieces) run_norm_in_pieces(device, c, norm);
    else RUN_OP(device, gradient_norm, norm);
    memcpy(out, &update, sizeof update);
}
static ft_update_state norm_of(const norm_case *c) {
    ft_update_state update;
    float *got = run_everywhere(run_norm, c, sizeof update / sizeof(float));
    memcpy(&update, got, sizeof update);
    free(got);
    return update;
}

static void test_norm_clip_and_corrections(void **state) {
    static const int64_t sizes[] = {1, 7, 16, 1030, 32768, 32769, 200003};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        norm_case c = {.gradient = fenced_random(1, sizes[i], 0, 1, 0), .losses = fenced_random(1, 5, 0, 1, 0)};
        c.before.count = i;
        double sum = 0;
        for (int64_t k = 0; k < sizes[i]; k++)
            sum += (double)*at(c.gradient.t, 0, k) * (double)*at(c.gradient.t, 0, k);
        double norm = sqrt(sum);
        const double limits[] = {0, -1, norm / 3, norm * 3};
        for (int k = 0; k < 4; k++) {
            c.max_norm = limits[k];
            ft_update_state u = norm_of(&c);
            assert_true(fabs(u.norm - norm) <= 1e-12 * norm);
            assert_true(u.clip == (k == 2 ? (float)(limits[k] / (u.norm + 1e-6)) : 1.0f));
            c.pieces = true;
            const ft_update_state pieces = norm_of(&c);
            c.pieces = false;
            assert_memory_equal(&u, &pieces, sizeof u);
            assert_int_equal(u.finite, 1);
            assert_int_equal(u.count, i + 1);
            assert_true(fabs(u.correction1 - (1 - pow(0.9, (double)i + 1))) < 1e-15);
            assert_true(fabs(u.correction2 - (1 - pow(0.999, (double)i + 1))) < 1e-15);
        }
        fenced_free(c.gradient);
        fenced_free(c.losses);
    }
}

// Rows of zeros and rows that are not there: the same norm, to the bit.
static void test_absent_rows_of_a_table_change_no_bit(void **state) {
    enum { ROWS = 333 };
    static const int64_t widths[] = {1, 5, 8, 40, 96, 768};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int share = 0; share <= 4; share++) { // of rows that have a gradient, in quarters
            const int64_t cols = widths[w];
            norm_case c = {.gradient = fenced_random(1, 1030, 0, 1, 0), .losses = fenced_none(), .table_rows = ROWS, .max_norm = 1};
            bool there[ROWS];
            int64_t held = 0;
            for (int64_t r = 0; r < ROWS; r++) held += there[r] = r < 300 && (int)(ft_splitmix64((uint64_t)r) % 4) < share;
            c.table = fenced_new(ROWS, cols, 0);
            fenced few = fenced_new(held, cols, 0);
            int32_t blocks[ROWS / FT_NORM_ROWS + 2];
            int64_t row = 0;
            double sum = 0;
            for (int64_t r = 0; r < ROWS; r++) {
                if (r % FT_NORM_ROWS == 0) blocks[r / FT_NORM_ROWS] = (int32_t)row;
                for (int64_t k = 0; k < cols; k++) *at(c.table.t, r, k) = there[r] ? (float)normal(1) : 0;
                for (int64_t k = 0; k < cols; k++) sum += (double)*at(c.table.t, r, k) * (double)*at(c.table.t, r, k);
                if (there[r]) memcpy(at(few.t, row++, 0), at(c.table.t, r, 0), (size_t)cols * sizeof(float));
            }
            blocks[ft_norm_blocks(ROWS)] = (int32_t)row;
            for (int64_t k = 0; k < 1030; k++) sum += (double)*at(c.gradient.t, 0, k) * (double)*at(c.gradient.t, 0, k);
            ft_update_state all = norm_of(&c);
            assert_true(fabs(all.norm - sqrt(sum)) <= 1e-12 * sqrt(sum));
            fenced whole = c.table;
            c.table = few;
            c.table_blocks = blocks;
            ft_update_state compact = norm_of(&c);
            assert_memory_equal(&all, &compact, sizeof all);
            c.pieces = true;
            compact = norm_of(&c);
            assert_memory_equal(&all, &compact, sizeof all);
            fenced_free(whole);
            fenced_free(few);
            fenced_free(c.gradient);
        }
}

static void test_non_finite_steps_are_marked_and_not_counted(void **state) {
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++)
        for (int where = 0; where < 3; where++) { // in the body of the gradient, in its tail, in the losses
            norm_case c = {
                .gradient = fenced_random(1, 1001, 0, 1, 0), .losses = fenced_random(1, 3, 0, 1, 0), .max_norm = 1};
            c.before = (ft_update_state){.count = 4, .correction1 = 0.25, .correction2 = 0.5, .finite = 1};
            *at(where == 2 ? c.losses.t : c.gradient.t, 0, where == 0 ? 100 : where == 1 ? 1000 : 1) = bad[i];
            ft_update_state u = norm_of(&c);
            assert_int_equal(u.finite, 0);
            assert_int_equal(u.count, 4);
            assert_true(u.correction1 == 0.25 && u.correction2 == 0.5);
            assert_true(isfinite(u.norm) == (where == 2));
            assert_int_equal(u.stopped, 0);
            c.stops = true;
            assert_int_equal(norm_of(&c).stopped, 1);
            fenced_free(c.gradient);
            fenced_free(c.losses);
        }
    norm_case huge = {.gradient = fenced_random(1, 40, 0, 1e38, 0), .losses = fenced_none(), .max_norm = 1};
    ft_update_state u = norm_of(&huge); // the squares overflow a float, not a double
    assert_int_equal(u.finite, 1);
    assert_true(u.norm > 1e38 && u.clip > 0);
    fenced_free(huge.gradient);
}

// Steps that were queued behind the one that was not finite, before the host heard of it.
static void test_nothing_counts_behind_a_stop(void **state) {
    norm_case c = {.gradient = fenced_random(1, 1001, 0, 1, 0), .losses = fenced_none(), .stops = true};
    c.before = (ft_update_state){.count = 4, .correction1 = 0.25, .correction2 = 0.5, .finite = 1};
    ft_update_state u = norm_of(&c);
    assert_int_equal(u.finite, 1);
    assert_int_equal(u.stopped, 0);
    assert_int_equal(u.count, 5);
    c.before.stopped = 1;
    u = norm_of(&c);
    assert_int_equal(u.finite, 0);
    assert_int_equal(u.stopped, 1);
    assert_int_equal(u.count, 4);
    fenced_free(c.gradient);
}

// ---- the step -----------------------------------------------------------------------------------------------------
enum { N = 20003, STEPS = 50, RANGES = 5 }; // enough elements for four threads
static const ft_adamw_range ranges[RANGES] = {
    {0, 7000, 0.01f, 1, NULL}, // with gaps
    {7000, 1, 0, 1, NULL},
    {7010, 33, 0, 0.5f, NULL},
    {8000, 12003, 0.1f, 2, NULL},
    {7043, 0, 0, 1, NULL}};

typedef struct step_case {
    double max_norm;
    int skip; // this step's gradient has a NaN; -1: none
} step_case;

static double gradient_at(int step, int64_t i,
                          double parameter) { // of a quadratic, with noise that depends on the step
    double noise = (double)(ft_splitmix64((uint64_t)step * N + (uint64_t)i) >> 40) * 0x1p-24 - 0.5;
    return (parameter - sin((double)i)) * (1 + (double)(i % 5)) + noise;
}
static float learning_rate_at(int step) { return 1e-2f * (1.0f - (float)step / STEPS); }

static void run_steps(ft_device *device, const void *test_case, float *out) {
    const step_case *c = test_case;
    fenced p = fenced_new(1, N, 0), g = fenced_new(1, N, 0), m = fenced_new(1, N, 0), v = fenced_new(1, N, 0);
    for (int64_t i = 0; i < N; i++) {
        *at(p.t, 0, i) = (float)cos(3.0 * (double)i);
        *at(m.t, 0, i) = *at(v.t, 0, i) = 0;
    }
    ft_adamw_hyper hyper = usual;
    hyper.max_gradient_norm = c->max_norm;
    ft_update_state update = {0};
    for (int s = 0; s < STEPS; s++) {
        ft_step_state step = {.step = (uint32_t)s, .learning_rate = learning_rate_at(s), .loss_scale = 1};
        for (int64_t i = 0; i < N; i++)
            *at(g.t, 0, i) = (float)gradient_at(s, i, (double)*at(p.t, 0, i));
        if (s == c->skip) *at(g.t, 0, 5) = NAN;
        fenced old_p = fenced_copy(p), old_m = fenced_copy(m), old_v = fenced_copy(v);
        RUN_OP(device, gradient_norm, ((ft_gradient_norm_args){.gradient = g.t, .hyper = hyper, .update = &update}));
        RUN_OP(device, adamw,
               ((ft_adamw_args){.parameter = p.t,
                                .gradient = g.t,
                                .m = m.t,
                                .v = v.t,
                                .ranges = ranges,
                                .range_count = RANGES,
                                .hyper = hyper,
                                .step = &step,
                                .update = &update}));
        if (s == c->skip) { // everything as before, to the bit
            assert_memory_equal(p.base, old_p.base, p.total * sizeof(float));
            assert_memory_equal(m.base, old_m.base, m.total * sizeof(float));
            assert_memory_equal(v.base, old_v.base, v.total * sizeof(float));
        }
        fenced_free(old_p);
        fenced_free(old_m);
        fenced_free(old_v);
    }
    assert_int_equal(update.count, c->skip < 0 ? STEPS : STEPS - 1);
    out += fenced_flatten(p, out);
    out += fenced_flatten(m, out);
    fenced_flatten(v, out);
    fenced_free(p);
    fenced_free(g);
    fenced_free(m);
    fenced_free(v);
}

static void test_fifty_steps_against_float64(void **state) {
    static const step_case cases[] = {{0, -1}, {3.0, -1}, {1e9, 20}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const step_case *c = &cases[k];
        float *got = run_everywhere(run_steps, c, 3 * N);
        static double want[3 * N], g[N];
        double *p = want, *m = want + N, *v = want + 2 * N;
        for (int64_t i = 0; i < N; i++) {
            p[i] = (double)(float)cos(3.0 * (double)i);
            m[i] = v[i] = 0;
        }
        int count = 0;
        for (int s = 0; s < STEPS; s++) {
            if (s == c->skip) continue;
            count++;
            double sum = 0, lr = (double)learning_rate_at(s);
            for (int64_t i = 0; i < N; i++) {
                g[i] = gradient_at(s, i, p[i]);
                sum += g[i] * g[i];
            }
            double clip = c->max_norm > 0 ? fmin(1, c->max_norm / (sqrt(sum) + 1e-6)) : 1;
            for (int r = 0; r < RANGES; r++)
                for (int64_t i = ranges[r].first; i < ranges[r].first + ranges[r].count; i++) {
                    double rate = lr * (double)ranges[r].lr_scale, gradient = g[i] * clip;
                    p[i] *= 1 - rate * (double)ranges[r].weight_decay;
                    m[i] = 0.9 * m[i] + 0.1 * gradient;
                    v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
                    p[i] -= rate * (m[i] / (1 - pow(0.9, count))) / (sqrt(v[i] / (1 - pow(0.999, count))) + 1e-8);
                }
        }
        assert_close("parameter", got, p, N, 3e-6, 0);
        assert_close("m", got + N, m, N, 2e-5, 0);
        assert_close("v", got + 2 * N, v, N, 1e-6, 2e-5);
        bool moved = false;
        for (int64_t i = 0; i < N; i++)
            moved = moved || fabsf(got[i] - (float)cos(3.0 * (double)i)) > 0.05f;
        assert_true(moved);
        free(got);
    }
}

static void test_elements_outside_of_all_ranges_stay(void **state) {
    step_case c = {0, -1};
    float *got = run_everywhere(run_steps, &c, 3 * N);
    for (int64_t i = 0; i < N; i++) {
        bool inside = false;
        for (int r = 0; r < RANGES; r++)
            inside = inside || (i >= ranges[r].first && i < ranges[r].first + ranges[r].count);
        if (inside)
            assert_true(got[2 * N + i] > 0);
        else
            assert_true(got[i] == (float)cos(3.0 * (double)i) && got[N + i] == 0 && got[2 * N + i] == 0);
    }
    free(got);
}

static void test_wrong_arguments_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    fenced a = fenced_random(1, 20, 0, 1, 0);
    ft_update_state update = {.finite = 1};
    ft_step_state step = {0};
    ft_gradient_norm_args norm = {.gradient = a.t, .hyper = usual, .update = &update}; // no scratch
    assert_int_equal(FT_RUN(device, gradient_norm, &norm), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "gradient_norm"));
    ft_adamw_range outside = {10, 11, 0, 1, NULL};
    ft_adamw_args adamw = {.parameter = a.t,
                           .gradient = a.t,
                           .m = a.t,
                           .v = a.t,
                           .ranges = &outside,
                           .range_count = 1,
                           .hyper = usual,
                           .step = &step,
                           .update = &update};
    assert_int_equal(FT_RUN(device, adamw, &adamw), FT_FAILED);
    adamw.range_count = 0;
    assert_int_equal(FT_RUN(device, adamw, &adamw), FT_OK);
    uint16_t tail[20] = {0};
    adamw.compute = ft_vector(tail, 20, FT_BF16); // a copy is fp16
    assert_int_equal(FT_RUN(device, adamw, &adamw), FT_FAILED);
    adamw.compute = ft_absent();
    adamw.tail = tail; // and belongs to bf16
    assert_int_equal(FT_RUN(device, adamw, &adamw), FT_FAILED);
    adamw.tail = NULL;
    adamw.m = ft_columns(a.t, 0, 19);
    assert_int_equal(FT_RUN(device, adamw, &adamw), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "adamw"));
    ft_error_clear();
    fenced_free(a);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_clip_and_corrections),
        cmocka_unit_test(test_absent_rows_of_a_table_change_no_bit),
        cmocka_unit_test(test_non_finite_steps_are_marked_and_not_counted),
        cmocka_unit_test(test_nothing_counts_behind_a_stop),
        cmocka_unit_test(test_fifty_steps_against_float64),
        cmocka_unit_test(test_elements_outside_of_all_ranges_stay),
        cmocka_unit_test(test_wrong_arguments_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

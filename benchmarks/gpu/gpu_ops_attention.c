// gpu_ops_attention.c - a path of attention that must be asked for (kernels/cuda/attention/path.h) beside the default: warpgroups of sm_90a,
// forward and backward, the backward by one owner, or the forward on tensor memory of sm_100a. Both right, the same bits twice, and which is faster where. What it prints
// decides whether the candidate may become the default.
//
// Judged as gpu_ops judges attention, by the CPU's op on the same numbers, and beyond that row by row: in a buffer whose largest
// element is that of a short sequence nobody would see one key too many in a long one.
// ctest: tsan=leave asan_part=2 cost=1000
#include "benchmarks/fma_peak.h"
#include "benchmarks/gpu/gpu_ops.h"
#include "kernels/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEP, BOUNDS, QUERY_BOUNDS, SLOTS, QKV, POOLED, OUT, LSE, DOUT, GRADIENTS, POOLED_GRADIENT, MOST_LENGTHS = 8, ROUNDS = 5, PATHS = 2 };
typedef struct candidate {
    const char *name;
    int head_dims[2];
    bool backward_alone, forward_alone; // the other one is the default's
    bool full_alone;                    // so is causality, and what heads share
} candidate;
static const candidate candidates[] = {{"wgmma", {64, 128}, false, false, false}, {"owner", {32, 64}, true, false, true}, {"tcgen05", {64, 128}, false, true, true}};
static const char *path_names[PATHS] = {NULL, "mma"}; // the first one, the candidate, says whether this chip has it

// A length < 0: so many rows whose keys and values are NaN. Their own results are not judged; nobody else may see them.
typedef struct layout {
    const char *name;
    int lengths[MOST_LENGTHS]; // of the sequences; timed: again and again, as many tokens as are asked for
    int cols;                  // of timed ones; 0: judged alone, THREE heads
    bool pooled, without_lse;  // only the first token's query, as in the last layer; as in inference: forward alone
    bool causal;               // as decoders are: not of the owner, which has neither
    int group;                 // heads that share keys and values; 0: none do
} layout;
enum { THREE = 3 };
static const layout layouts[] = {
    {.name = "small", .lengths = {130, 5, 1, 70}}, // for the sanitizers
    {.name = "small-pooled", .lengths = {130, 5, 1, 70}, .pooled = true},
    {.name = "tails", .lengths = {300, 77, 1, 200}}, // each with a real next one behind
    {.name = "tails-nan", .lengths = {300, -3, 77, -3, 1, -3, 200, -3}},
    {.name = "whole", .lengths = {512, 512, 128, 64, 256}},
    {.name = "pooled", .lengths = {300, 77, 1, 512}, .pooled = true},
    {.name = "pooled-nan", .lengths = {300, -3, 77, -3, 1, -3, 512, -3}, .pooled = true},
    {.name = "no-lse", .lengths = {300, 77, 1, 200}, .without_lse = true},
    {.name = "causal", .lengths = {300, 77, 1, 520}, .causal = true},
    {.name = "causal-shared-nan", .lengths = {300, -3, 77, -3, 1, -3, 520, -3}, .causal = true, .group = 3},
    {.name = "dense-1024", .lengths = {512}, .cols = 1024}, // BERT-large, DeBERTa-v3-large
    {.name = "dense-768", .lengths = {512}, .cols = 768},
    {.name = "mixed-1024", .lengths = {300, 77, 1, 200}, .cols = 1024},
    {.name = "short-1024", .lengths = {25, 9, 31, 14, 52, 7, 19, 43}, .cols = 1024}, // as long as SST-2's
    {.name = "pooled-1024", .lengths = {512}, .cols = 1024, .pooled = true},
    {.name = "causal-2048", .lengths = {2048}, .cols = 2048, .causal = true}, // texts of decoders, packed
    {.name = "causal-shared-2048", .lengths = {2048}, .cols = 2048, .causal = true, .group = 4},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static const double SPREAD = 2.5; // of numbers: scores apart by about 2, neither all keys alike nor one alone

typedef struct attention {
    char name[32]; // of the layout, and -backward
    const layout *layout;
    test t; // rows: of keys; length: of the longest sequence
    bool backward; // of the CPU's out and lse, on both sides
    int heads, head_dim, sequences;
    int64_t queries;
    float dropout;
    int32_t *bounds, *query_bounds; // on the host
} attention;

// ---- cases --------------------------------------------------------------------------------------------------------

static int length_of(const layout *l, int i) {
    int n = 0;
    while (n < MOST_LENGTHS && l->lengths[n] != 0)
        n++;
    return l->cols > 0 || i < n ? l->lengths[i % n] : 0;
}
static bool is_nan(const attention *a, int sequence) { return length_of(a->layout, sequence) < 0; }

static void find_sequences(attention *a, int64_t tokens) {
    const int64_t most = a->layout->cols > 0 ? tokens : INT32_MAX;
    const size_t room = (size_t)(a->layout->cols > 0 ? tokens : MOST_LENGTHS) + 1;
    a->bounds = calloc(room, sizeof *a->bounds);
    a->query_bounds = calloc(room, sizeof *a->query_bounds);
    if (a->bounds == NULL || a->query_bounds == NULL) need(ft_fail_memory(room * 8, "the sequences of a case"));
    for (int length; a->t.rows < most && (length = abs(length_of(a->layout, a->sequences))) > 0;) {
        if (length > most - a->t.rows) length = (int)(most - a->t.rows);
        a->t.rows += length;
        if (length > a->t.length) a->t.length = length;
        const double pairs = a->layout->pooled ? length : a->layout->causal ? 0.5 * length * (length + 1.0) : (double)length * length;
        a->t.flops += (a->backward ? 10.0 : 4.0) * pairs * (double)a->t.cols;
        a->sequences++;
        a->bounds[a->sequences] = (int32_t)a->t.rows;
        a->query_bounds[a->sequences] = a->layout->pooled ? a->sequences : (int32_t)a->t.rows;
    }
    a->queries = a->query_bounds[a->sequences];
}

static void set_nan(attention *a) {
    const uint16_t nan = 0x7FFF; // in both types
    uint16_t *qkv = a->t.at[QKV][CPU];
    for (int s = 0; s < a->sequences; s++)
        for (int64_t i = a->bounds[s]; is_nan(a, s) && i < a->bounds[s + 1]; i++)
            for (int64_t j = a->t.cols; j < 3 * a->t.cols; j++)
                qkv[i * 3 * a->t.cols + j] = nan;
    ft_device *gpu = a->t.device[GPU];
    need(gpu->functions->upload(gpu, a->t.at[QKV][GPU], qkv, a->t.bytes[QKV]));
    need(gpu->functions->sync(gpu));
}

static void set_up(attention *a, int64_t tokens) {
    const ft_step_state step = {.seed = 7, .step = 3, .learning_rate = 1e-3f, .loss_factor = 0.125f, .loss_scale = 1};
    test *t = &a->t;
    find_sequences(a, tokens);
    const size_t bounds = ((size_t)a->sequences + 1) * sizeof(int32_t);
    int32_t *slots = malloc(bounds);
    if (slots == NULL) need(ft_fail_memory(bounds, "the slots of a case"));
    for (int i = 0; i <= a->sequences; i++)
        slots[i] = 3 * i + 1;
    gpu_ops_add_bytes(t, sizeof step, FT_U8, &step);
    gpu_ops_add_bytes(t, bounds, FT_I32, a->bounds);
    gpu_ops_add_bytes(t, bounds, FT_I32, a->query_bounds);
    gpu_ops_add_bytes(t, bounds, FT_I32, slots);
    gpu_ops_add_numbers(t, t->type, 3 * t->rows * t->cols, 0, SPREAD);
    gpu_ops_add_numbers(t, t->type, a->queries * t->cols, 0, SPREAD);
    gpu_ops_add_numbers(t, t->type, a->queries * t->cols, 0, 1);
    gpu_ops_add_numbers(t, FT_F32, a->queries * a->heads, 0, 1);
    gpu_ops_add_numbers(t, t->type, a->queries * t->cols, 0, 1);
    gpu_ops_add_numbers(t, t->type, 3 * t->rows * t->cols, 0, 1);
    gpu_ops_add_numbers(t, t->type, a->queries * t->cols, 0, 1);
    free(slots);
    set_nan(a);
}

static void release(attention *a) {
    gpu_ops_release(&a->t);
    free(a->bounds);
    free(a->query_bounds);
}

// Columns of keys, and of values.
static int64_t key_cols(const attention *a) { return a->t.cols / (a->layout->group > 0 ? a->layout->group : 1); }

static ft_status run_backward(attention *a, int side, const ft_attention_forward_args *forward) {
    test *t = &a->t;
    const int64_t cols = t->cols;
    const ft_tensor gradients = ft_matrix(t->at[GRADIENTS][side], t->rows, 3 * cols, t->type);
    ft_attention_backward_args args = {.shape = forward->shape,
                                       .q = forward->q,
                                       .k = forward->k,
                                       .v = forward->v,
                                       .out = forward->out,
                                       .lse = forward->lse,
                                       .dout = ft_matrix(t->at[DOUT][side], a->queries, cols, t->type),
                                       .dq = a->layout->pooled ? ft_matrix(t->at[POOLED_GRADIENT][side], a->queries, cols, t->type)
                                                               : ft_columns(gradients, 0, cols),
                                       .dk = ft_columns(gradients, cols, key_cols(a)),
                                       .dv = ft_columns(gradients, 2 * cols, key_cols(a))};
    args.workspace = gpu_ops_scratch(t->device[side], side, ft_attention_backward_workspace(&t->device[side]->target, &args));
    return FT_RUN(t->device[side], attention_backward, &args);
}

static ft_status run_one(attention *a, int side, bool backward) {
    test *t = &a->t;
    const int64_t cols = t->cols;
    const ft_tensor qkv = ft_matrix(t->at[QKV][side], t->rows, 3 * cols, t->type), pooled = ft_matrix(t->at[POOLED][side], a->queries, cols, t->type);
    ft_attention_forward_args args = {.shape = {.heads = a->heads,
                                                .head_dim = a->head_dim,
                                                .sequences = a->sequences,
                                                .max_queries = a->layout->pooled ? 1 : t->length,
                                                .max_keys = t->length,
                                                .cu_queries = t->at[QUERY_BOUNDS][side],
                                                .cu_keys = t->at[BOUNDS][side],
                                                .scale = 1.0f / sqrtf((float)a->head_dim),
                                                .causal = a->layout->causal,
                                                .key_heads = (int32_t)(key_cols(a) / a->head_dim),
                                                .dropout = {.probability = a->dropout,
                                                            .layer = 1,
                                                            .site = FT_SITE_ATTENTION,
                                                            .step = t->at[STEP][side],
                                                            .sequence_slot = t->at[SLOTS][side]}},
                                      .q = a->layout->pooled ? pooled : ft_columns(qkv, 0, cols),
                                      .k = ft_columns(qkv, cols, key_cols(a)),
                                      .v = ft_columns(qkv, 2 * cols, key_cols(a)),
                                      .out = ft_matrix(t->at[OUT][side], a->queries, cols, t->type),
                                      .lse = a->layout->without_lse ? ft_absent() : ft_matrix(t->at[LSE][side], a->queries, a->heads, FT_F32)};
    if (backward) return run_backward(a, side, &args);
    args.workspace = gpu_ops_scratch(t->device[side], side, ft_attention_forward_workspace(&t->device[side]->target, &args));
    return FT_RUN(t->device[side], attention_forward, &args);
}
static ft_status run(attention *a, int side) { return run_one(a, side, a->backward); }

static void give_gpu(attention *a, int buffer, const void *bytes) {
    ft_device *gpu = a->t.device[GPU];
    need(gpu->functions->upload(gpu, a->t.at[buffer][GPU], bytes, a->t.bytes[buffer]));
    need(gpu->functions->sync(gpu));
}

static void take_path(int path) {
    if (setenv("FTENGINE_ATTENTION", path_names[path], 1) != 0) need(ft_fail_memory(0, "a name in the environment"));
}

// ---- judging ------------------------------------------------------------------------------------------------------

// Of a path: the worst element as a part of the largest of all, the worst row of a head, and the worst lse.
typedef struct verdict {
    double element, row, lse;
    bool right, same_bits;
} verdict;

// Both of out and lse, into `to`, of a run that finds them full of `poison`: what it does not write stays NaN.
static void run_poisoned(attention *a, int poison, unsigned char *to) {
    ft_device *gpu = a->t.device[GPU];
    const size_t out = a->t.bytes[OUT], lse = a->t.bytes[LSE];
    memset(to, poison, out + lse);
    need(gpu->functions->upload(gpu, a->t.at[OUT][GPU], to, out));
    need(gpu->functions->upload(gpu, a->t.at[LSE][GPU], to + out, lse));
    need(run(a, GPU));
    need(gpu->functions->download(gpu, to, a->t.at[OUT][GPU], out));
    need(gpu->functions->download(gpu, to + out, a->t.at[LSE][GPU], lse));
    need(gpu->functions->sync(gpu));
}

static void judge_row(attention *a, verdict *v, double *largest, const uint16_t *got, const uint16_t *want, double least) {
    double square = 0, off = 0;
    for (int i = 0; i < a->head_dim; i++) {
        const double x = (double)gpu_ops_number(a->t.type, got, (size_t)i), y = (double)gpu_ops_number(a->t.type, want, (size_t)i);
        square += y * y;
        off += (x - y) * (x - y);
        v->element = fmax(v->element, isfinite(x) ? fabs(x - y) : INFINITY);
        *largest = fmax(*largest, fabs(y));
    }
    v->row = fmax(v->row, isfinite(off) ? sqrt(off / fmax(square, least)) : INFINITY);
}

// Where one key has nearly all of a softmax its row is off by the rounding of that probability, at most half a unit in the last place, and
// by what both results are rounded to 16 bits, a fifth of a unit each in the mean: 0.7 units were seen, one is allowed. One key too
// many or too few goes beyond it in a fifth of the rows of 512 keys and in more of shorter ones. lse is fp32, and nearly exact.
static const double row_units = 1, lse_allowed = 5e-4;
static verdict judge(attention *a) {
    const test *t = &a->t;
    const size_t out = t->bytes[OUT], lse = t->bytes[LSE];
    unsigned char *got = malloc(out + lse), *again = malloc(out + lse);
    if (got == NULL || again == NULL) need(ft_fail_memory(2 * (out + lse), "results"));
    run_poisoned(a, 0xFF, got);
    run_poisoned(a, 0x7F, again);
    verdict v = {.same_bits = memcmp(got, again, a->layout->without_lse ? out : out + lse) == 0};
    double largest = 1e-30;
    // (where dropout took all keys but a thousandth, little is left, and in fp16 little of its bits)
    const double least = 1e-6 * (double)a->head_dim * SPREAD * SPREAD;
    for (int s = 0; s < a->sequences; s++)
        for (int64_t i = a->query_bounds[s] * (int64_t)a->heads; !is_nan(a, s) && i < a->query_bounds[s + 1] * (int64_t)a->heads; i++) {
            const size_t first = (size_t)i * (size_t)a->head_dim;
            judge_row(a, &v, &largest, (const uint16_t *)(const void *)got + first, (const uint16_t *)t->at[OUT][CPU] + first, least);
            float x, y = ((const float *)t->at[LSE][CPU])[i];
            memcpy(&x, got + out + (size_t)i * sizeof x, sizeof x);
            if (!a->layout->without_lse) v.lse = fmax(v.lse, isfinite(x) ? fabs((double)x - (double)y) : INFINITY);
        }
    for (size_t i = out; a->layout->without_lse && i < out + lse; i++) // nobody wrote where none was asked for
        if (got[i] != 0xFF) v.lse = INFINITY;
    v.element /= largest;
    v.right = v.same_bits && v.element <= gpu_ops_allowed("attention_forward", t->type) &&
              v.row <= row_units * ldexp(1, t->type == FT_BF16 ? -7 : -10) && v.lse <= lse_allowed;
    free(got);
    free(again);
    return v;
}

// dQ, dK and dV: a matrix of rows of `stride` numbers, where those of heads begin and how many are these, and which rows a sequence has.
typedef struct part {
    int buffer;
    int64_t stride, column, cols;
    const int32_t *bounds;
} part;

static void *gradients_of(attention *a, int buffer, int poison) {
    ft_device *gpu = a->t.device[GPU];
    unsigned char *got = malloc(a->t.bytes[buffer] + 1);
    if (got == NULL) need(ft_fail_memory(a->t.bytes[buffer], "results"));
    memset(got, poison, a->t.bytes[buffer]);
    give_gpu(a, buffer, got);
    need(run(a, GPU));
    need(gpu->functions->download(gpu, got, a->t.at[buffer][GPU], a->t.bytes[buffer]));
    need(gpu->functions->sync(gpu));
    return got;
}

// A row's gradient is a difference of sums, and may be next to nothing: an error counts against a quarter of the mean row at least.
static void judge_part(attention *a, verdict *v, part p) {
    const test *t = &a->t;
    uint16_t *got = gradients_of(a, p.buffer, 0xFF), *again = gradients_of(a, p.buffer, 0x7F);
    const uint16_t *want = t->at[p.buffer][CPU];
    double mean = 0, largest = 1e-30, element = v->element;
    int64_t rows = 0;
    v->element = 0;
    for (int judging = 0; judging < 2; judging++)
        for (int s = 0; s < a->sequences; s++)
            for (int64_t i = p.bounds[s]; !is_nan(a, s) && i < p.bounds[s + 1]; i++)
                for (int h = 0; h < p.cols / a->head_dim; h++) {
                    const size_t first = (size_t)(i * p.stride + p.column + h * a->head_dim), bytes = (size_t)a->head_dim * sizeof *got;
                    if (judging) {
                        judge_row(a, v, &largest, got + first, want + first, mean / (double)rows / 16);
                        v->same_bits &= memcmp(got + first, again + first, bytes) == 0;
                        continue;
                    }
                    rows++;
                    for (int e = 0; e < a->head_dim; e++)
                        mean += pow((double)gpu_ops_number(t->type, want, first + (size_t)e), 2);
                }
    v->element = fmax(element, v->element / largest);
    free(got);
    free(again);
}

// P and dS are rounded to 16 bits before they are summed, and the sum once more: 0.8 units were seen, two are allowed.
static const double gradient_units = 2;
static verdict judge_backward(attention *a) {
    const test *t = &a->t;
    const int64_t cols = t->cols;
    verdict v = {.same_bits = true};
    judge_part(a, &v, a->layout->pooled ? (part){POOLED_GRADIENT, cols, 0, cols, a->query_bounds} : (part){GRADIENTS, 3 * cols, 0, cols, a->bounds});
    judge_part(a, &v, (part){GRADIENTS, 3 * cols, cols, key_cols(a), a->bounds});
    judge_part(a, &v, (part){GRADIENTS, 3 * cols, 2 * cols, key_cols(a), a->bounds});
    v.right = v.same_bits && v.element <= gpu_ops_allowed("attention_backward", t->type) &&
              v.row <= gradient_units * ldexp(1, t->type == FT_BF16 ? -7 : -10);
    return v;
}

// ---- timing -------------------------------------------------------------------------------------------------------

static double seconds_of(attention *a, int path, int64_t times) {
    ft_device *gpu = a->t.device[GPU];
    take_path(path);
    need(gpu->functions->sync(gpu));
    const double begun = ft_bench_seconds();
    for (int64_t i = 0; i < times; i++)
        need(run(a, GPU));
    need(gpu->functions->sync(gpu));
    return (ft_bench_seconds() - begun) / (double)times;
}
static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

// The paths in turns, each as many runs at a time as take a fiftieth of a second; the medians.
static void time_paths(attention *a, double seconds[PATHS]) {
    double of[PATHS][ROUNDS];
    int64_t times[PATHS];
    for (int p = 0; p < PATHS; p++)
        for (times[p] = 1; seconds_of(a, p, times[p]) * (double)times[p] < 0.02 && times[p] < 100000; times[p] *= 2)
            ;
    for (int round = 0; round < ROUNDS; round++)
        for (int p = 0; p < PATHS; p++)
            of[p][round] = seconds_of(a, p, times[p]);
    for (int p = 0; p < PATHS; p++) {
        qsort(of[p], ROUNDS, sizeof *of[p], by_size);
        seconds[p] = of[p][ROUNDS / 2];
    }
}

// ---- all of it ----------------------------------------------------------------------------------------------------

static void write_case(gpu_ops_report *r, const attention *a, int path, verdict v, double seconds) {
    const char *type = ft_dtype_name(a->t.type), *name = a->name;
    const double us = seconds * 1e6, tf = seconds > 0 ? a->t.flops / seconds * 1e-12 : 0;
    printf("%-22s %s %2d x %-3d dropout %.1f %6lld  %-5s %-5s %9.2e, row %8.1e, lse %8.1e%s", name, type, a->heads, a->head_dim, (double)a->dropout,
           (long long)a->t.rows, path_names[path], v.right ? "ok" : "WRONG", v.element, v.row, v.lse, v.same_bits ? "" : ", other bits the second time");
    if (seconds > 0) printf("  %9.1f us  %7.1f TFLOP/s", us, tf);
    printf("\n");
    if (r->csv != NULL)
        fprintf(r->csv, "%s,%s,%d,%d,%.1f,%lld,%s,%d,%d,%.3e,%.3e,%.3e,%.3f,%.2f\n", name, type, a->heads, a->head_dim, (double)a->dropout,
                (long long)a->t.rows, path_names[path], v.right, v.same_bits, v.element, v.row, v.lse, us, tf);
    if (r->json != NULL)
        fprintf(r->json,
                "%s\n  {\"case\": \"%s\", \"type\": \"%s\", \"heads\": %d, \"head_dim\": %d, \"dropout\": %.1f, \"tokens\": %lld, \"path\": \"%s\", "
                "\"right\": %s, \"same_bits\": %s, \"error\": %.3e, \"row_error\": %.3e, \"lse_error\": %.3e, \"microseconds\": %.3f, \"tflop_per_second\": %.2f}",
                r->cases > 0 ? "," : "", name, type, a->heads, a->head_dim, (double)a->dropout, (long long)a->t.rows, path_names[path],
                v.right ? "true" : "false", v.same_bits ? "true" : "false", fmin(v.element, 1e30), fmin(v.row, 1e30), fmin(v.lse, 1e30), us, tf);
    r->cases++;
    r->wrong += !v.right;
}

typedef struct tally {
    int timed, slower;
    double least, most; // rate of the first path by the second's
} tally;

static void one(gpu_ops_report *r, tally *all, attention *a, int only, int64_t tokens) {
    double seconds[PATHS] = {0};
    verdict v[PATHS];
    set_up(a, tokens);
    need(run_one(a, CPU, false));
    if (a->backward) {
        need(run(a, CPU));
        give_gpu(a, OUT, a->t.at[OUT][CPU]);
        give_gpu(a, LSE, a->t.at[LSE][CPU]);
    }
    for (int p = 0; p < PATHS; p++)
        if (only < 0 || p == only) take_path(p), v[p] = a->backward ? judge_backward(a) : judge(a);
    if (only < 0 && a->layout->cols > 0) {
        time_paths(a, seconds);
        const double by = seconds[1] / seconds[0];
        all->least = all->timed == 0 ? by : fmin(all->least, by);
        all->most = all->timed == 0 ? by : fmax(all->most, by);
        all->timed++;
        all->slower += by < 1;
    }
    for (int p = 0; p < PATHS; p++)
        if (only < 0 || p == only) write_case(r, a, p, v[p], seconds[p]);
    release(a);
}

static bool among(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return n == 0;
}

void gpu_ops_attention(gpu_ops_report *r, ft_device *cpu, ft_device *gpu, const gpu_ops_attention_options *o) {
    static const ft_dtype types[] = {FT_BF16, FT_F16};
    static const float dropouts[] = {0, 0.1f};
    const candidate *c = NULL;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (strcmp(o->candidate != NULL ? o->candidate : candidates[0].name, candidates[i].name) == 0) c = &candidates[i];
    if (c == NULL) need(ft_fail(FT_INVALID, "--candidate", "'%s' is neither wgmma, owner nor tcgen05", o->candidate));
    path_names[0] = c->name;
    int only = -1;
    for (int p = 0; o->path != NULL && p < PATHS; p++)
        if (strcmp(o->path, path_names[p]) == 0) only = p;
    if (o->path != NULL && only < 0) need(ft_fail(FT_INVALID, "--path", "'%s' is neither %s nor mma", o->path, c->name));
    if (r->csv != NULL)
        fprintf(r->csv, "case,type,heads,head_dim,dropout,tokens,path,right,same_bits,error,row_error,lse_error,microseconds,tflop_per_second\n");
    tally all = {0};
    for (int i = 0; i < LAYOUTS; i++)
        for (int combination = 0; among(layouts[i].name, o->names, o->name_count) && combination < (layouts[i].without_lse ? 8 : 16); combination++) {
            const layout *l = &layouts[i];
            const int head_dim = c->head_dims[combination >> 2 & 1];
            const ft_dtype type = types[combination & 1];
            // What is timed runs the same instructions in both types: bf16, if no other is asked for.
            if (type != (o->type != FT_F32 ? o->type : l->cols > 0 ? FT_BF16 : type)) continue;
            attention a = {.layout = l, .heads = l->cols > 0 ? l->cols / head_dim : THREE, .head_dim = head_dim, .dropout = dropouts[combination >> 1 & 1]};
            a.backward = (combination & 8) != 0;
            if ((c->backward_alone && !a.backward) || (c->forward_alone && a.backward) || (c->full_alone && l->causal)) continue;
            snprintf(a.name, sizeof a.name, "%s%s", l->name, a.backward ? "-backward" : "");
            a.t = (test){.cols = (int64_t)a.heads * head_dim, .type = type, .device = {cpu, gpu}};
            one(r, &all, &a, only, o->tokens);
        }
    if (all.timed > 0)
        printf("decision: %s is %s; %.2f to %.2f times the rate of mma in %d timed cases, slower in %d: %s\n", c->name, r->wrong == 0 ? "right" : "WRONG",
               all.least, all.most, all.timed, all.slower,
               r->wrong > 0 ? "not the default" : all.slower == 0 ? "it may become the default" : "not the default where it is slower");
}

// gpu_ops.c - every op of the CUDA back end beside the CPU's on the same numbers, in fp32, bf16 and fp16, and how long
// it takes. It needs the kernels alone: no model, no file. (The CPU's ops are judged against float64 in tests/kernels.)
//
//   gpu_ops [--time] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] [--json FILE] [OP...]
//   gpu_ops --attention [--candidate wgmma|owner] [--path CANDIDATE|mma] [--tokens N] [--type bf16|fp16] [--csv FILE] [--json FILE] [LAYOUT...]
//
// The second one is of attention's paths beside each other (gpu_ops_attention.c), with one --path judged alone.
// Exit 0: all agree. 1: one does not. 4: there is no CUDA device, or something of it is missing.
// ctest: tsan_part=0 cost=1000
#include "benchmarks/gpu/gpu_ops.h"
#include "kernels/half.h"
#include "kernels/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Noreturn void give_up(void) {
    fprintf(stderr, "gpu_ops: %s%s%s\n", ft_error_message(), ft_error_where()[0] ? " at " : "", ft_error_where());
    for (int i = 0; i < ft_error_hint_count(); i++)
        fprintf(stderr, "  hint: %s\n", ft_error_hint(i));
    exit(ft_error_code() == FT_NO_DEVICE ? 4 : 1);
}
void need(ft_status status) {
    if (status != FT_OK) give_up();
}

// ---- judging ----------------------------------------------------------------------------------------------------

static double off_of_states(const void *got, const void *want) {
    ft_update_state a, b;
    memcpy(&a, got, sizeof a);
    memcpy(&b, want, sizeof b);
    return fabs(a.norm - b.norm) + fabs((double)a.clip - (double)b.clip) + (double)(a.finite != b.finite) +
           (double)(a.count != b.count) + (double)(a.loss_scale != b.loss_scale) +
           (double)(a.finite_steps != b.finite_steps) + (double)(a.skipped != b.skipped);
}

float gpu_ops_number(ft_dtype dtype, const void *data, size_t k) {
    uint16_t bits;
    float x;
    if (!ft_is_half(dtype)) return memcpy(&x, (const float *)data + k, sizeof x), x;
    memcpy(&bits, (const uint16_t *)data + k, sizeof bits);
    return dtype == FT_BF16 ? ft_from_bf16(bits) : ft_from_fp16(bits);
}

// What an element may be off by, relative to the largest of its buffer: the tolerance of fp32, and units in the last
// place where rows are 16 bits. (Sums in fp32 over rows that may be apart are, too.)
static double allowed_of(const gpu_op *op, ft_dtype type) {
    return op->tolerance + (ft_is_half(type) ? op->units * ldexp(1, type == FT_BF16 ? -7 : -10) : 0);
}

double gpu_ops_allowed(const char *op, ft_dtype type) {
    int i = 0;
    while (strcmp(gpu_ops[i].name, op) != 0)
        i++;
    return allowed_of(&gpu_ops[i], type);
}

static void *result(test *t, int i) {
    void *got = malloc(t->bytes[i] + 1);
    if (got == NULL) need(ft_fail_memory(t->bytes[i], "a result"));
    need(t->device[GPU]->functions->download(t->device[GPU], got, t->at[i][GPU], t->bytes[i]));
    need(t->device[GPU]->functions->sync(t->device[GPU]));
    return got;
}

// Pairs of halves become the numbers that they are.
static float *joined(const uint16_t *high, const uint16_t *tail, size_t n) {
    float *whole = malloc(n * sizeof *whole + 1);
    if (whole == NULL) need(ft_fail_memory(n * sizeof *whole, "a result"));
    for (size_t k = 0; k < n; k++) {
        const uint32_t bits = ft_join((uint32_t)high[k] << 16 | tail[k]);
        memcpy(whole + k, &bits, sizeof bits);
    }
    return whole;
}

// How far the numbers are apart at most, and, if it is more than *most, how large the largest is.
static double off_of_numbers(ft_dtype dtype, const void *got, const void *want, size_t n, double *most) {
    double off = 0;
    for (size_t k = 0; k < n; k++) {
        const float x = gpu_ops_number(dtype, got, k), y = gpu_ops_number(dtype, want, k);
        const double b = (double)y, d = memcmp(&x, &y, sizeof x) == 0 ? 0 : fabs((double)x - b);
        if (!(d <= off)) off = isnan(d) ? INFINITY : d;
        if (fabs(b) > *most && isfinite(b)) *most = fabs(b);
    }
    return off;
}

static bool agrees(test *t, const gpu_op *op, double *worst) {
    bool good = true;
    *worst = 0;
    for (int i = 0; i < t->count; i++) {
        void *got = result(t, i), *want = t->at[i][CPU];
        double most = 1e-30, off = 0;
        ft_dtype dtype = t->dtype[i];
        if (t->tails > 0 && i == t->tails - 1) {
            uint16_t *tail = result(t, t->tails);
            const size_t n = t->bytes[i] / sizeof *tail;
            float *x = joined(got, tail, n), *y = joined(want, t->at[t->tails][CPU], n);
            dtype = FT_F32;
            off = off_of_numbers(dtype, x, y, n, &most);
            free(tail);
            free(x);
            free(y);
        } else if (dtype == FT_U8) { // a state, or tails, which were judged with their first halves
            if (t->bytes[i] == sizeof(ft_update_state)) off = off_of_states(got, want);
            most = 1;
        } else {
            off = off_of_numbers(dtype, got, want, t->bytes[i] / ft_dtype_size(dtype), &most);
        }
        // Only what is 16 bits, or comes from attention's rounded probabilities, may be apart by their units.
        const ft_dtype unit = op->units > 1 ? t->type : dtype;
        good = good && off / most <= allowed_of(op, unit);
        if (off / most > *worst) *worst = off / most;
        free(got);
    }
    return good;
}

void gpu_ops_release(test *t) {
    for (int i = 0; i < t->count; i++)
        for (int side = 0; side < 2; side++)
            t->device[side]->functions->buffer_free(t->device[side], t->at[i][side], t->bytes[i]);
}

double gpu_ops_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

// Seconds of one run: of as many as take a tenth of a second, queued together.
static double time_of(const gpu_op *op, test *t) {
    ft_device *gpu = t->device[GPU];
    for (int64_t times = 3;; times *= 4) {
        need(gpu->functions->sync(gpu));
        double begun = gpu_ops_now();
        for (int64_t i = 0; i < times; i++)
            need(op->run(t, GPU));
        need(gpu->functions->sync(gpu));
        double took = gpu_ops_now() - begun;
        if (took > 0.1 || times > 100000) return took / (double)times;
    }
}

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
enum { TYPES = sizeof types / sizeof *types };
static int type_from_name(const char *name) { // -1: none of them
    for (int i = 0; i < TYPES; i++)
        if (strcmp(name, ft_dtype_name(types[i])) == 0) return i;
    return -1;
}
static bool has_type(const gpu_op *op, ft_dtype type) {
    return op->types == ROWS || op->types == ROWS_UNTIMED || (op->types == FLOATS) == (type == FT_F32);
}

static void one(gpu_ops_report *r, const gpu_op *op, ft_dtype type, ft_device *cpu, ft_device *gpu, const int64_t shape[3],
                int length, bool timed) {
    test t = {.rows = shape[0], .cols = shape[1], .inner = shape[2], .length = length, .type = type, .device = {cpu, gpu}};
    op->setup(&t);
    need(op->run(&t, GPU));
    need(op->run(&t, CPU));
    double worst;
    const bool good = agrees(&t, op, &worst);
    double seconds = timed ? time_of(op, &t) : 0;
    double gb = timed ? t.moved / seconds * 1e-9 : 0, tf = timed ? t.flops / seconds * 1e-12 : 0;
    printf("%-28s %s %6lld x %-5lld %-5s %9.2e", op->name, ft_dtype_name(type), (long long)shape[0],
           (long long)shape[1], good ? "ok" : "WRONG", worst);
    if (timed) printf("  %9.1f us  %7.0f GB/s  %7.1f TFLOP/s", seconds * 1e6, gb, tf);
    if (length != SHORT) printf("  sequences of %d", length);
    printf("\n");
    if (r->csv != NULL)
        fprintf(r->csv, "%s,%s,%lld,%lld,%lld,%d,%d,%.3e,%.1e,%.3f,%.1f,%.2f\n", op->name, ft_dtype_name(type),
                (long long)shape[0], (long long)shape[1], (long long)shape[2], length, good, worst, allowed_of(op, type),
                seconds * 1e6, gb, tf);
    if (r->json != NULL)
        fprintf(r->json,
                "%s\n  {\"op\": \"%s\", \"type\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"inner\": %lld, \"length\": %d, "
                "\"right\": %s, \"error\": %.3e, \"tolerance\": %.1e, "
                "\"microseconds\": %.3f, \"gb_per_second\": %.1f, \"tflop_per_second\": %.2f}",
                r->cases > 0 ? "," : "", op->name, ft_dtype_name(type), (long long)shape[0], (long long)shape[1],
                (long long)shape[2], length, good ? "true" : "false", isfinite(worst) ? worst : 1e30, allowed_of(op, type),
                seconds * 1e6, gb, tf);
    r->cases++;
    r->wrong += !good;
    gpu_ops_release(&t);
}

static FILE *open_file(const char *path) {
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (path != NULL && file == NULL) need(ft_fail(FT_FAILED, path, "cannot be written"));
    return file;
}

// Of the ops that are named, all if none is. Odd sizes, one token, whole units; timed, then BERT-base's.
static void all_ops(gpu_ops_report *r, ft_device *cpu, ft_device *gpu, const char *const *names, int named, int only, int64_t tokens, bool timed) {
    const int64_t small[][3] = {{1, 8, 5}, {33, 40, 17}, {130, 63, 33}, {257, 128, 64}}, large[3] = {tokens, 768, 768};
    const int64_t heads[][3] = {{200, 64, 32}, {200, 192, 96}, {300, 128, 128}}; // of attention: the other sizes, and forms of positions
    if (r->csv != NULL)
        fprintf(r->csv, "op,type,rows,cols,inner,length,right,error,tolerance,microseconds,gb_per_second,tflop_per_second\n");
    for (int i = 0; i < gpu_op_count; i++) {
        bool wanted = named == 0;
        for (int k = 0; k < named; k++)
            wanted = wanted || strcmp(names[k], gpu_ops[i].name) == 0;
        for (int type = 0; wanted && type < TYPES; type++) {
            if (!has_type(&gpu_ops[i], types[type]) || (only >= 0 && only != type)) continue;
            for (size_t s = 0; s < sizeof small / sizeof *small; s++)
                one(r, &gpu_ops[i], types[type], cpu, gpu, small[s], SHORT, false);
            for (size_t s = 0; gpu_ops[i].units > 1 && s < sizeof heads / sizeof *heads; s++)
                one(r, &gpu_ops[i], types[type], cpu, gpu, heads[s], SHORT, false);
            if (!timed || gpu_ops[i].types == ROWS_UNTIMED) continue;
            one(r, &gpu_ops[i], types[type], cpu, gpu, large, SHORT, true);
            if (gpu_ops[i].units > 1) one(r, &gpu_ops[i], types[type], cpu, gpu, large, LONG, true); // attention
        }
    }
}

int main(int argc, char **argv) {
    const char *csv = NULL, *json = NULL, *path = NULL, *candidate = NULL, **names = calloc((size_t)argc + 1, sizeof *names);
    int64_t tokens = 16384;
    int named = 0, only = -1;
    bool timed = false, attention = false;
    if (names == NULL) need(ft_fail_memory(0, "names"));
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--time") == 0)
            timed = true;
        else if (strcmp(argv[i], "--attention") == 0)
            attention = true;
        else if (strcmp(argv[i], "--path") == 0 && more)
            path = argv[++i];
        else if (strcmp(argv[i], "--candidate") == 0 && more)
            candidate = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more)
            csv = argv[++i];
        else if (strcmp(argv[i], "--json") == 0 && more)
            json = argv[++i];
        else if (strcmp(argv[i], "--tokens") == 0 && more)
            tokens = strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--type") == 0 && more && type_from_name(argv[i + 1]) >= 0)
            only = type_from_name(argv[++i]);
        else if (argv[i][0] != '-')
            names[named++] = argv[i];
        else
            return fprintf(stderr,
                           "usage: gpu_ops [--time] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] [--json FILE] [OP...]\n"
                           "       gpu_ops --attention [--candidate wgmma|owner] [--path CANDIDATE|mma] [--tokens N] [--type bf16|fp16] [--csv FILE] "
                           "[--json FILE] [LAYOUT...]\n"),
                   2;
    }
    ft_device *cpu, *gpu;
    need(ft_cuda_open_with_kernels(0, &gpu));
    need(ft_cpu_open(0, NULL, &cpu));
    gpu_ops_report r = {.csv = open_file(csv), .json = open_file(json)};
    printf("%s beside %s\n", gpu->description, cpu->description);
    if (r.json != NULL) fprintf(r.json, "{\"device\": \"%s\", \"cases\": [", gpu->description);
    if (attention)
        gpu_ops_attention(&r, cpu, gpu,
                          &(gpu_ops_attention_options){
                              .tokens = tokens, .type = only < 0 ? FT_F32 : types[only], .candidate = candidate, .path = path, .names = names, .name_count = named});
    else
        all_ops(&r, cpu, gpu, names, named, only, tokens, timed);
    if (r.json != NULL) fprintf(r.json, "\n]}\n");
    if ((r.csv != NULL && fclose(r.csv) != 0) || (r.json != NULL && fclose(r.json) != 0))
        need(ft_fail(FT_FAILED, NULL, "the results cannot be written"));
    gpu_ops_free_scratch((ft_device *const[]){cpu, gpu});
    free(names);
    ft_device_close(gpu);
    ft_device_close(cpu);
    printf("%d cases, %d wrong\n", r.cases, r.wrong);
    if (r.cases == 0) return fprintf(stderr, "gpu_ops: no %s has that name\n", attention ? "layout" : "op"), 2;
    return r.wrong > 0;
}

// gpu_ops.c - every op of the CUDA back end beside the CPU's on the same numbers, in fp32, bf16 and fp16, and how long
// it takes. It needs the kernels alone: no model, no file. (The CPU's ops are judged against float64 in tests/kernels.)
//
//   gpu_ops [--time] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] [--json FILE] [OP...]
//   gpu_ops --attention [--candidate wgmma|owner|tcgen05] [--path CANDIDATE|mma] [--tokens N] [--type bf16|fp16] [--csv FILE] [--json FILE] [LAYOUT...]
//
//   gpu_ops --cpu [--threads N] [--isa avx512|avx2|portable] [--tokens N] [--type T] [--csv FILE] [--json FILE] [OP...]
//
// The second one is of attention's paths beside each other (gpu_ops_attention.c), with one --path judged alone. The third takes a
// CPU device for the GPU: its time at MiniLM's and BERT-base's sizes, beside the machine's FMA peak, and, since no thread and no
// instruction set changes a bit, judged against plain C's.
// Exit 0: all agree. 1: one does not. 4: there is no CUDA device, or something of it is missing.
// ctest: tsan_part=0 asan_part=4 cost=1000
#include "benchmarks/fma_peak.h"
#include "benchmarks/gpu/gpu_ops.h"
#include "kernels/cpu/cpu.h"
#include "kernels/half.h"
#include "kernels/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Seconds of one run: of as many as take a tenth of a second, queued together. A CPU is shared: there it is the best of some rounds,
// each short enough to fall between disturbances.
static double time_of(const gpu_op *op, test *t) {
    ft_device *gpu = t->device[GPU];
    const bool shared = !ft_device_queues(gpu);
    const double long_enough = shared ? 5e-3 : 0.1;
    double best = INFINITY;
    int rounds = shared ? 10 : 1;
    for (int64_t times = 3; rounds > 0;) {
        need(gpu->functions->sync(gpu));
        double begun = ft_bench_seconds();
        for (int64_t i = 0; i < times; i++)
            need(op->run(t, GPU));
        need(gpu->functions->sync(gpu));
        double took = ft_bench_seconds() - begun;
        if (took > long_enough || times > 100000) {
            best = fmin(best, took / (double)times);
            rounds--;
        } else {
            times *= 4;
        }
    }
    return best;
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
    if (timed && ft_device_queues(gpu)) printf("  %9.1f us  %7.0f GB/s  %7.1f TFLOP/s", seconds * 1e6, gb, tf);
    if (timed && !ft_device_queues(gpu))
        printf("  inner %-4lld  %9.1f us  %7.1f GB/s  %7.1f GFLOP/s of %.0f", (long long)shape[2], seconds * 1e6, gb, 1e3 * tf,
               ft_fma_peak_of(ft_cpu_of(gpu)->pool, 0.01, r->isa));
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

static void head_of(gpu_ops_report *r) {
    if (r->csv != NULL)
        fprintf(r->csv, "op,type,rows,cols,inner,length,right,error,tolerance,microseconds,gb_per_second,tflop_per_second\n");
}

static bool is_named(const gpu_op *op, const char *const *names, int named) {
    bool is = named == 0;
    for (int i = 0; i < named; i++)
        is = is || strcmp(names[i], op->name) == 0;
    return is;
}

// On a CPU: ops whose names begin so at the sizes of MiniLM and BERT-base; of 0 tokens: of as many as TREC's batch of 32 has, and of 4096.
static void ops_of_cpu(gpu_ops_report *r, ft_device *plain, ft_device *cpu, const char *const *names, int named, int only,
                       int64_t tokens) {
    static const struct {
        const char *ops;
        int64_t cols, inner;
        int length;
    } sizes[] = {{"gemm", 384, 384, SHORT},         {"gemm", 1152, 384, SHORT},        {"gemm", 1536, 384, SHORT},
                 {"gemm", 384, 1536, SHORT},        {"gemm", 768, 768, SHORT},         {"gemm", 3072, 768, SHORT},
                 {"gemm", 768, 3072, SHORT},        {"attention", 384, 32, 32},        {"attention", 384, 32, SHORT},
                 {"attention", 384, 32, LONG},      {"attention", 768, 64, SHORT},     {"attention_window", 768, 64, LONG},     {"disentangled", 768, 64, 32},
                 {"disentangled", 768, 64, SHORT},  {"disentangled", 768, 64, LONG},   {"activation", 1536, 384, SHORT},
                 {"activation", 3072, 768, SHORT},  {"", 384, 384, SHORT},             {"", 768, 768, SHORT}};
    static const int64_t counts[] = {352, 4096};
    const ft_dtype type = only < 0 ? FT_F32 : types[only];
    head_of(r);
    for (int i = 0; i < gpu_op_count; i++) {
        const char *own = "";
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (sizes[s].ops[0] != '\0' && strncmp(gpu_ops[i].name, sizes[s].ops, strlen(sizes[s].ops)) == 0) own = sizes[s].ops;
        const bool wanted = is_named(&gpu_ops[i], names, named) && has_type(&gpu_ops[i], type);
        for (size_t s = 0; wanted && s < sizeof sizes / sizeof *sizes; s++)
            for (int k = 0; strcmp(sizes[s].ops, own) == 0 && k < (tokens > 0 ? 1 : 2); k++) {
                const int64_t shape[] = {tokens > 0 ? tokens : counts[k], sizes[s].cols, sizes[s].inner};
                one(r, &gpu_ops[i], type, plain, cpu, shape, sizes[s].length, true);
            }
    }
}

// Of the ops that are named, all if none is. Odd sizes, one token, whole units; timed, then BERT-base's.
static void all_ops(gpu_ops_report *r, ft_device *cpu, ft_device *gpu, const char *const *names, int named, int only, int64_t tokens, bool timed) {
    const int64_t small[][3] = {{1, 8, 5}, {33, 40, 17}, {130, 63, 33}, {257, 128, 64}}, large[3] = {tokens, 768, 768};
    const int64_t heads[][3] = {{200, 64, 32}, {200, 192, 96}, {300, 128, 128}}; // of attention: the other sizes, and forms of positions
    head_of(r);
    for (int i = 0; i < gpu_op_count; i++) {
        for (int type = 0; is_named(&gpu_ops[i], names, named) && type < TYPES; type++) {
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

typedef struct command {
    const char *csv, *json, *path, *candidate, *isa, **names;
    int64_t tokens; // 0: as many as the form takes
    int named, only, threads;
    bool timed, attention, cpu;
} command;

static bool read_command(int argc, char **argv, command *c) {
    const struct {
        const char *name;
        bool *is;
    } flags[] = {{"--time", &c->timed}, {"--attention", &c->attention}, {"--cpu", &c->cpu}};
    const struct {
        const char *name, **text;
    } texts[] = {{"--path", &c->path}, {"--candidate", &c->candidate}, {"--isa", &c->isa}, {"--csv", &c->csv}, {"--json", &c->json}};
    for (int i = 1; i < argc; i++) {
        bool taken = argv[i][0] != '-';
        if (taken) c->names[c->named++] = argv[i];
        for (size_t k = 0; !taken && k < sizeof flags / sizeof *flags; k++)
            if ((taken = strcmp(argv[i], flags[k].name) == 0)) *flags[k].is = true;
        for (size_t k = 0; !taken && i + 1 < argc && k < sizeof texts / sizeof *texts; k++)
            if ((taken = strcmp(argv[i], texts[k].name) == 0)) *texts[k].text = argv[++i];
        if (taken) continue;
        if (i + 1 == argc) return false;
        if (strcmp(argv[i], "--tokens") == 0)
            c->tokens = strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            c->threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--type") == 0 && type_from_name(argv[i + 1]) >= 0)
            c->only = type_from_name(argv[++i]);
        else
            return false;
    }
    return true;
}

static void run(const command *c, gpu_ops_report *r) {
    ft_device *cpu, *gpu; // with --cpu both are CPUs
    need(c->cpu ? ft_cpu_open(c->threads, c->isa, &gpu) : ft_cuda_open_with_kernels(0, &gpu));
    need(ft_cpu_open(0, c->cpu ? "portable" : NULL, &cpu));
    r->csv = open_file(c->csv), r->json = open_file(c->json);
    r->isa = c->isa;
    printf("%s beside %s\n", gpu->description, cpu->description);
    if (r->json != NULL) fprintf(r->json, "{\"device\": \"%s\", \"cases\": [", gpu->description);
    const int64_t tokens = c->tokens > 0 || c->cpu ? c->tokens : 16384;
    if (c->cpu)
        ops_of_cpu(r, cpu, gpu, c->names, c->named, c->only, tokens);
    else if (c->attention)
        gpu_ops_attention(r, cpu, gpu,
                          &(gpu_ops_attention_options){.tokens = tokens,
                                                       .type = c->only < 0 ? FT_F32 : types[c->only],
                                                       .candidate = c->candidate,
                                                       .path = c->path,
                                                       .names = c->names,
                                                       .name_count = c->named});
    else
        all_ops(r, cpu, gpu, c->names, c->named, c->only, tokens, c->timed);
    if (r->json != NULL) fprintf(r->json, "\n]}\n");
    gpu_ops_free_scratch((ft_device *const[]){cpu, gpu});
    ft_device_close(gpu);
    ft_device_close(cpu);
}

int main(int argc, char **argv) {
    command c = {.names = calloc((size_t)argc + 1, sizeof *c.names), .only = -1};
    if (c.names == NULL) need(ft_fail_memory(0, "names"));
    if (!read_command(argc, argv, &c))
        return fprintf(stderr,
                       "usage: gpu_ops [--time] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] [--json FILE] [OP...]\n"
                       "       gpu_ops --attention [--candidate wgmma|owner|tcgen05] [--path CANDIDATE|mma] [--tokens N] [--type bf16|fp16] "
                       "[--csv FILE] [--json FILE] [LAYOUT...]\n"
                       "       gpu_ops --cpu [--threads N] [--isa ISA] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] "
                       "[--json FILE] [OP...]\n"),
               2;
    gpu_ops_report r = {0};
    run(&c, &r);
    if ((r.csv != NULL && fclose(r.csv) != 0) || (r.json != NULL && fclose(r.json) != 0))
        need(ft_fail(FT_FAILED, NULL, "the results cannot be written"));
    free(c.names);
    printf("%d cases, %d wrong\n", r.cases, r.wrong);
    if (r.cases == 0) return fprintf(stderr, "gpu_ops: no %s has that name\n", c.attention ? "layout" : "op"), 2;
    return r.wrong > 0;
}

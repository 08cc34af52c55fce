// bench_allocator.c - how much memory the caching allocator holds beyond what is asked for, and what a request costs.
//
//     bench_allocator            both parts
//     bench_allocator memory     peak reserved over recorded workloads, beside a model of PyTorch's rules
//     bench_allocator time       nanoseconds per request, of processor time
//
// The workloads are in allocator_trace.h, the model in torch_allocator_model.h. Nothing is computed and no memory is
// taken: the allocator runs on the plan back end, whose decisions are those of every other.
#include "benchmarks/memory/allocator_trace.h"
#include "benchmarks/memory/torch_allocator_model.h"
#include "engine/memory/memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const trace_model bert_base = {12, 768, 3072, 12, 30522, 6}, minilm = {6, 384, 1536, 12, 30522, 6};
static const trace_data trec = {"TREC", trec_lengths, sizeof trec_lengths / sizeof *trec_lengths},
                        sst2 = {"SST-2", sst2_lengths, sizeof sst2_lengths / sizeof *sst2_lengths};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const size_t card = (size_t)80 << 30;

static ft_status open_plan(ft_device **device) {
    ft_target target = {.backend = FT_BACKEND_CPU, .threads = 1, .page_bytes = 4096};
    return ft_plan_open("cpu", target, card, device);
}

// ---- the same requests to each ----------------------------------------------------------------------------------

enum { OURS, OURS_EXPANDABLE, TORCH, TORCH_EXPANDABLE, WAYS };

// Peak reserved bytes; FT_NO_MEMORY when `limit` is too little.
static ft_status replay_ours(const trace *t, bool expandable, size_t limit, size_t *reserved) {
    ft_device *device = NULL;
    ft_allocator *a = NULL;
    ft_block **blocks = ft_calloc((size_t)t->requests, sizeof *blocks, "the replay");
    ft_status status = blocks == NULL ? FT_NO_MEMORY : open_plan(&device);
    ft_allocator_options options = {.limit = limit, .expandable_segments = expandable};
    if (status == FT_OK) status = ft_allocator_create(device, &options, &a);
    for (int32_t i = 0; status == FT_OK && i < t->count; i++) {
        int32_t e = t->events[i];
        if (e >= 0)
            status = ft_allocator_take(a, t->bytes[e], 0, &blocks[e], NULL);
        else
            ft_allocator_give(a, blocks[~e]);
    }
    if (status == FT_OK) status = ft_allocator_check(a);
    if (status == FT_OK) *reserved = ft_allocator_read(a).peak_reserved;
    ft_allocator_close(a);
    ft_device_close(device);
    free(blocks);
    return status;
}

static ft_status replay_torch(const trace *t, bool expandable, size_t limit, size_t *reserved) {
    torch_model m = {.expandable = expandable, .limit = limit};
    torch_block **blocks = ft_calloc((size_t)t->requests, sizeof *blocks, "the replay");
    ft_status status = blocks == NULL ? FT_NO_MEMORY : FT_OK;
    for (int32_t i = 0; status == FT_OK && i < t->count; i++) {
        int32_t e = t->events[i];
        if (e >= 0) {
            status = torch_take(&m, t->bytes[e], &blocks[e]);
        } else {
            status = torch_give(&m, blocks[~e]);
            blocks[~e] = NULL;
        }
    }
    *reserved = m.peak_reserved;
    for (int32_t i = 0; blocks != NULL && i < t->requests; i++)
        if (blocks[i] != NULL && torch_give(&m, blocks[i]) != FT_OK) status = FT_NO_MEMORY;
    torch_close(&m);
    free(blocks);
    return status;
}

static ft_status replay(const trace *t, int way, size_t limit, size_t *reserved) {
    bool expandable = way == OURS_EXPANDABLE || way == TORCH_EXPANDABLE;
    return (way == TORCH || way == TORCH_EXPANDABLE ? replay_torch : replay_ours)(t, expandable, limit, reserved);
}

// The smallest limit, to 8 MiB, with which the requests are all met; `enough` is known to be.
static size_t smallest_limit(const trace *t, int way, size_t enough) {
    size_t too_little = t->peak - 1, step = (size_t)8 << 20, reserved;
    while (enough - too_little > step) {
        size_t middle = too_little + (enough - too_little) / 2;
        *(replay(t, way, middle, &reserved) == FT_OK ? &enough : &too_little) = middle;
    }
    return enough;
}

static double mib(size_t bytes) { return (double)bytes / (1 << 20); }

static ft_status compare(const trace_data *data, int batch, bool packed) {
    trace t;
    size_t reserved[WAYS];
    ft_status status = trace_make(&t, &bert_base, data, batch, packed, 2);
    for (int way = 0; status == FT_OK && way < WAYS; way++)
        status = replay(&t, way, card, &reserved[way]);
    if (status == FT_OK) {
        printf("| %s | %d | %s | %.0f |", data->name, batch, packed ? "packed" : "padded", mib(t.peak));
        for (int way = 0; way < WAYS; way++)
            printf(" %.0f (+%.0f) |", mib(reserved[way]), mib(reserved[way] - t.peak));
        for (int way = 0; way < TORCH_EXPANDABLE; way++)
            printf(" +%.0f |", mib(smallest_limit(&t, way, reserved[way]) - t.peak));
        printf("\n");
        fflush(stdout);
    }
    trace_free(&t);
    return status;
}

static ft_status compare_all(void) {
    printf("BERT-base, fp32, 2 epochs, each followed by an evaluation; MiB. (+n): beyond the peak of the bytes asked "
           "for.\n\n"
           "| data | batch | rows | asked for | reserved: ours | ours, expandable | PyTorch's rules | PyTorch's, "
           "expandable "
           "| least limit: ours | ours, expandable | PyTorch's rules |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|\n");
    const trace_data *data[] = {&trec, &sst2};
    for (int d = 0; d < 2; d++)
        for (int batch = 16; batch <= 256; batch *= 4)
            for (int packed = 0; packed < 2; packed++)
                FT_TRY(compare(data[d], batch, packed));
    return FT_OK;
}

// ---- time -------------------------------------------------------------------------------------------------------

enum { SITES = 64, ROUNDS = 300 };

// One step of MiniLM at batch 32, in a steady state: the events of the last of some steps, numbered from 0.
static ft_status one_step(trace *all, trace *step) {
    *all = (trace){0};
    trace_run run;
    trace_open(&run, all, &minilm);
    run.packed = true;
    run.sequences = 32, run.longest = 24, run.tokens = 32 * 12;
    trace_step(&run, true);
    int32_t events = all->count, requests = all->requests;
    trace_step(&run, true);
    FT_TRY(all->status);
    *step = (trace){.events = all->events + events,
                    .bytes = all->bytes + requests,
                    .count = all->count - events,
                    .requests = all->requests - requests};
    for (int32_t i = 0; i < step->count; i++)
        step->events[i] += step->events[i] >= 0 ? -requests : requests;
    return FT_OK;
}

static ft_status ask_meter(ft_memory *m, const trace *step, char names[][24], void **data) {
    for (int32_t i = 0; i < step->count; i++) {
        int32_t e = step->events[i];
        if (e >= 0)
            FT_TRY(ft_memory_alloc(m, step->bytes[e], FT_MEM_ACTIVATIONS, names[e % SITES], &data[e]));
        else
            ft_memory_free(m, data[~e]);
    }
    return FT_OK;
}

static void report(const char *what, double seconds, const trace *step) {
    printf("%-58s %7.1f ns a pair of alloc and free\n", what, 1e9 * seconds / ROUNDS / step->requests);
}

static ft_status time_allocator(const trace *step, ft_device *device, bool expandable) {
    ft_allocator *a;
    ft_allocator_options options = {.expandable_segments = expandable};
    ft_block **blocks = ft_calloc((size_t)step->requests, sizeof *blocks, "the step");
    if (blocks == NULL) return FT_NO_MEMORY;
    ft_status status = ft_allocator_create(device, &options, &a);
    double start = 0;
    for (int round = -10; status == FT_OK && round < ROUNDS; round++) {
        if (round == 0) start = now();
        for (int32_t i = 0; status == FT_OK && i < step->count; i++) {
            int32_t e = step->events[i];
            if (e >= 0)
                status = ft_allocator_take(a, step->bytes[e], 0, &blocks[e], NULL);
            else
                ft_allocator_give(a, blocks[~e]);
        }
    }
    if (status == FT_OK) report(expandable ? "allocator, expandable segments" : "allocator", now() - start, step);
    ft_allocator_close(a);
    free(blocks);
    return status;
}

// The meter in front of the allocator, and with `planned` the fixed places of a step.
static ft_status time_meter(const trace *step, ft_device *device, bool planned) {
    static char names[SITES][24];
    for (int i = 0; i < SITES; i++)
        snprintf(names[i], sizeof names[i], "tensor %d", i);
    ft_memory *m = NULL, *rehearsal = NULL;
    void **data = ft_calloc((size_t)step->requests, sizeof *data, "the step");
    ft_status status = data == NULL ? FT_NO_MEMORY : ft_memory_create(device, 0, &m);
    if (status == FT_OK && planned) {
        status = ft_memory_create(device, 0, &rehearsal);
        if (status == FT_OK) ft_memory_record(rehearsal);
        if (status == FT_OK) status = ft_memory_scope_begin(rehearsal, FT_SCOPE_TRAIN);
        if (status == FT_OK) status = ft_memory_scope_end(rehearsal, ask_meter(rehearsal, step, names, data));
        if (status == FT_OK) status = ft_memory_adopt(m, rehearsal);
    }
    double start = 0;
    for (int round = -10; status == FT_OK && round < ROUNDS; round++) {
        if (round == 0) start = now();
        if (planned) status = ft_memory_scope_begin(m, FT_SCOPE_TRAIN);
        if (status == FT_OK) status = ask_meter(m, step, names, data);
        if (planned) status = ft_memory_scope_end(m, status);
    }
    if (status == FT_OK)
        report(planned ? "meter, places of a planned step" : "meter and allocator", now() - start, step);
    ft_status leaks = ft_memory_destroy(rehearsal), more = ft_memory_destroy(m);
    free(data);
    return status != FT_OK ? status : leaks != FT_OK ? leaks : more;
}

static ft_status time_all(void) {
    trace all, step;
    ft_device *device = NULL;
    ft_status status = one_step(&all, &step);
    if (status == FT_OK) printf("a step of MiniLM as an eager framework asks: %d requests\n", step.requests);
    if (status == FT_OK) status = open_plan(&device);
    for (int i = 0; status == FT_OK && i < 2; i++)
        status = time_allocator(&step, device, i == 1);
    for (int i = 0; status == FT_OK && i < 2; i++)
        status = time_meter(&step, device, i == 1);
    ft_device_close(device);
    trace_free(&all);
    return status;
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    ft_status status = FT_OK;
    if (strcmp(part, "time") != 0) status = compare_all();
    if (status == FT_OK && strcmp(part, "memory") != 0) status = time_all();
    if (status != FT_OK) fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
    return (int)status;
}

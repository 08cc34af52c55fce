#include "kernels/cpu/cpu.h"
#include "base/arena.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FT_BUFFER_ALIGNMENT = 256, FT_HUGE_PAGE = 2 << 20 };

// ---- instruction sets -------------------------------------------------------------------------------------------

extern const ft_op_table ft_cpu_ops_portable, ft_cpu_ops_avx2, ft_cpu_ops_avx512, ft_cpu_ops_neon;

static bool always(void) { return true; }
// __builtin_cpu_supports also asks whether the operating system saves the registers.
#if FT_HAVE_ISA_avx2
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif
#if FT_HAVE_ISA_avx512
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}
// A unit with bits of its own is as good as none.
bool ft_bf16_unit_agrees_avx512(ft_bf16_unit unit);
static bool uses(ft_cpu_unit unit) { return ft_has_unit(ft_cpu_units_here().usable, unit); }
static bool has_dot(void) { return has_avx512() && uses(FT_UNIT_AVX512_BF16) && ft_bf16_unit_agrees_avx512(FT_BF16_BY_DOT); }
static bool has_amx(void) { return has_avx512() && uses(FT_UNIT_AMX_BF16) && ft_bf16_unit_agrees_avx512(FT_BF16_BY_AMX); }
#endif

// Units for products of 8 bits, best first, and by which CPU's units; what has none of them widens.
typedef struct int8_way {
    ft_cpu_unit needs;
    ft_int8_unit unit;
} int8_way;
enum { INT8_WAYS = 2 };

ft_convert_rows ft_convert_rows_portable, ft_convert_rows_avx2, ft_convert_rows_avx512, ft_convert_rows_neon;
bool ft_int8_unit_agrees_portable(ft_int8_unit unit);
bool ft_int8_unit_agrees_avx2(ft_int8_unit unit);
bool ft_int8_unit_agrees_avx512(ft_int8_unit unit);
bool ft_int8_unit_agrees_neon(ft_int8_unit unit);

typedef struct ft_isa {
    const char *name;
    bool (*present)(void);
    const ft_op_table *ops;
    ft_convert_rows *convert;
    ft_bf16_unit bf16;
    bool (*int8_agrees)(ft_int8_unit unit);
    int8_way int8[INT8_WAYS];
} ft_isa;

#define VNNI                                                                                                           \
    { FT_UNIT_AVX512_VNNI, FT_INT8_BY_DOT }
static const ft_isa isas[] = {
    // best first
#if FT_HAVE_ISA_avx512
    {"amx_bf16", has_amx, &ft_cpu_ops_avx512, ft_convert_rows_avx512, FT_BF16_BY_AMX, ft_int8_unit_agrees_avx512, {{FT_UNIT_AMX_INT8, FT_INT8_BY_AMX}, VNNI}},
    {"avx512_bf16", has_dot, &ft_cpu_ops_avx512, ft_convert_rows_avx512, FT_BF16_BY_DOT, ft_int8_unit_agrees_avx512, {VNNI}},
    {"avx512", has_avx512, &ft_cpu_ops_avx512, ft_convert_rows_avx512, FT_BF16_BY_FMA, ft_int8_unit_agrees_avx512, {VNNI}},
#endif
#if FT_HAVE_ISA_avx2
    {"avx2", has_avx2, &ft_cpu_ops_avx2, ft_convert_rows_avx2, FT_BF16_BY_FMA, ft_int8_unit_agrees_avx2, {{FT_UNIT_AVX_VNNI, FT_INT8_BY_DOT}}},
#endif
#if FT_HAVE_ISA_neon
    {"neon", always, &ft_cpu_ops_neon, ft_convert_rows_neon, FT_BF16_BY_FMA, ft_int8_unit_agrees_neon, // part of the architecture
     {{FT_UNIT_NEON_I8MM, FT_INT8_BY_DOT}, {FT_UNIT_NEON_DOTPROD, FT_INT8_BY_SIGNED_DOT}}},
#endif
    {"portable", always, &ft_cpu_ops_portable, ft_convert_rows_portable, FT_BF16_BY_FMA, ft_int8_unit_agrees_portable, {{0}}},
};
enum { ISAS = sizeof isas / sizeof isas[0] };

// What tiles leave over is VNNI's: no processor has them without it, and an emulator that does widens.
static ft_int8_unit int8_unit_of(const ft_isa *isa) {
    const unsigned usable = ft_cpu_units_here().usable;
    for (int i = 0; i < INT8_WAYS; i++) {
        const int8_way *w = &isa->int8[i];
        if (w->unit == FT_INT8_WIDENED || !ft_has_unit(usable, w->needs)) continue;
        if (w->unit == FT_INT8_BY_AMX && !ft_has_unit(usable, FT_UNIT_AVX512_VNNI)) continue;
        if (isa->int8_agrees(w->unit)) return w->unit;
    }
    return FT_INT8_WIDENED;
}

static ft_status choose_isa(const char *name, const ft_isa **out) {
    bool best = !name || strcmp(name, "auto") == 0;
    const ft_isa *known = NULL;
    char present[64] = "";
    for (int i = 0; i < ISAS; i++) {
        bool named = !best && strcmp(isas[i].name, name) == 0;
        if (named) known = &isas[i];
        if (!isas[i].present()) continue;
        if (best || named) {
            *out = &isas[i];
            return FT_OK;
        }
        size_t used = strlen(present);
        snprintf(present + used, sizeof present - used, "%s%s", used ? ", " : "", isas[i].name);
    }
    return ft_fail(FT_INVALID, "isa", "%s '%s', this machine can use: auto, %s",
                   known ? "this processor lacks the instruction set" : "unknown instruction set", name, present);
}

// ---- memory -----------------------------------------------------------------------------------------------------

static ft_status cpu_buffer_alloc(ft_device *device, size_t bytes, void **data) {
    *data = NULL;
    // Large buffers sit on huge pages: the products walk them with long strides, which costs a TLB miss a row
    // otherwise.
    size_t alignment = bytes >= 2 * (size_t)FT_HUGE_PAGE ? FT_HUGE_PAGE : FT_BUFFER_ALIGNMENT;
    if (bytes > device->total_bytes) return ft_fail_memory(bytes, "buffer of the CPU device");
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *block = aligned_alloc(alignment, rounded ? rounded : alignment);
    if (!block) return ft_fail_memory(bytes, "buffer of the CPU device");
#ifdef MADV_HUGEPAGE // advice: no harm when refused, or where there is no such thing
    if (alignment == FT_HUGE_PAGE) (void)madvise(block, rounded, MADV_HUGEPAGE);
#endif
    *data = block;
    return FT_OK;
}

static void cpu_buffer_free(ft_device *device, void *data, size_t bytes) { free(data); }

static ft_status cpu_copy(ft_device *device, void *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
    return FT_OK;
}

typedef struct filling {
    char *data;
    int byte, shares;
    size_t bytes;
} filling;

static void fill_share(void *context, int task, int thread) {
    const filling *f = context;
    int64_t first, last;
    ft_share((int64_t)f->bytes, FT_HUGE_PAGE, f->shares, task, &first, &last);
    if (first < last) memset(f->data + first, f->byte, (size_t)(last - first));
}

// Gradients are cleared in every step, and what a run begins with is touched for the first time here: the system clears its
// pages, which takes longer than the fill. Both go twice as fast on two cores.
static ft_status cpu_fill(ft_device *device, void *data, int byte, size_t bytes) {
    ft_pool *pool = ft_cpu_of(device)->pool;
    filling f = {data, byte, ft_pool_threads(pool), bytes};
    if (bytes >= 2 * (size_t)FT_HUGE_PAGE) ft_pool_run(pool, f.shares, fill_share, &f);
    else if (bytes > 0) memset(data, byte, bytes);
    return FT_OK;
}

static ft_status cpu_sync(ft_device *device) { return FT_OK; }

// Everything has happened already: one event, always past, serves all.
static ft_status cpu_event_create(ft_device *device, ft_event **event) {
    *event = (ft_event *)device;
    return FT_OK;
}
static void cpu_event_destroy(ft_device *device, ft_event *event) {}
static ft_status cpu_event_record(ft_device *device, ft_event *event, ft_stream_kind stream) { return FT_OK; }
static ft_status cpu_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) { return FT_OK; }
static ft_status cpu_event_sync(ft_device *device, ft_event *event) { return FT_OK; }

static void cpu_close(ft_device *device) {
    ft_pool_destroy(ft_cpu_of(device)->pool);
    free(device);
}

static const ft_device_functions cpu_functions = {
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .sync = cpu_sync,
    .upload_beside = cpu_copy,
    .download_beside = cpu_copy,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .stream_wait = cpu_stream_wait,
    .event_sync = cpu_event_sync,
    .range_reserve = ft_cpu_range_reserve,
    .range_commit = ft_cpu_range_commit,
    .range_decommit = ft_cpu_range_decommit,
    .range_release = ft_cpu_range_release,
    .range_room = ft_cpu_range_room,
    .close = cpu_close,
};

// ---- device -----------------------------------------------------------------------------------------------------

const ft_cpu *ft_cpu_of(const ft_device *device) { return &((const ft_cpu_device *)device)->cpu; }

static void processor_name(char *out, size_t size) {
    snprintf(out, size, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        colon += 1 + strspn(colon + 1, " ");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon);
        break;
    }
    fclose(file);
}

ft_target ft_cpu_target(int threads) {
    return (ft_target){.backend = FT_BACKEND_CPU,
                       .threads = threads > 0 ? threads : ft_usable_threads(),
                       .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
}

ft_status ft_cpu_open(int threads, const char *isa_name, ft_device **device) {
    *device = NULL;
    const ft_isa *isa = NULL;
    FT_TRY(choose_isa(isa_name, &isa));
    if (threads <= 0) threads = ft_usable_threads();
    ft_cpu_device *opened = ft_calloc(1, sizeof *opened, "CPU device");
    if (!opened) return FT_NO_MEMORY;
    ft_cpu *cpu = &opened->cpu;
    ft_status status = ft_pool_create(threads, &cpu->pool);
    if (status != FT_OK) {
        free(opened);
        return status;
    }
    cpu->threads = threads;
    cpu->int8 = int8_unit_of(isa);
    cpu->target = ft_cpu_target(threads);
    cpu->bf16 = isa->bf16;
    ft_device *d = &opened->device;
    d->name = "cpu";
    char chip[80];
    processor_name(chip, sizeof chip);
    snprintf(d->description, sizeof d->description, "%s, %s, %d thread%s", chip, isa->name, threads,
             threads > 1 ? "s" : "");
    d->target = cpu->target;
    d->total_bytes = ft_usable_memory();
    d->functions = &cpu_functions;
    d->ops = &ft_cpu_ops;
    opened->own = isa->ops;
    opened->convert = isa->convert;
    *device = d;
    return FT_OK;
}

void ft_device_close(ft_device *device) {
    if (device) device->functions->close(device);
}

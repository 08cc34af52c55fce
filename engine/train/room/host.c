#include "engine/train/room/host.h"

#include "base/heap.h"
#include "base/json/json.h"
#include "engine/memory/counters.h"

#include <stdint.h>

const char *ft_host_part_name(ft_host_part part) {
    static const char *const names[FT_PART_COUNT] = {
        [FT_PART_PROGRAM] = "program",       [FT_PART_TOKENIZER] = "tokenizer", [FT_PART_DATA] = "data",
        [FT_PART_BOOKKEEPING] = "bookkeeping", [FT_PART_DEVICE] = "device",       [FT_PART_PINNED] = "pinned",
        [FT_PART_EVALUATION] = "evaluation", [FT_PART_THREADS] = "threads",     [FT_PART_FILES] = "files", [FT_PART_KERNEL] = "kernel",
        [FT_PART_SLACK] = "slack"};
    return names[part];
}

// memory.host_limit; SIZE_MAX: auto.
static size_t given_limit(const ft_config *config) {
    const int64_t limit = config->memory.host_limit;
    if (limit == 0) return SIZE_MAX;
    return limit > 0 ? (size_t)limit : (size_t)((double)ft_cpu_total_bytes() * 1e-6 * (double)-limit);
}

static size_t need_of(const ft_host_memory *m, ft_host_limit_kind kind) {
    return kind == FT_LIMIT_ADDRESSES ? m->addresses : kind == FT_LIMIT_DATA ? m->data : m->peak;
}

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }

// What of a need is not held against a limit. Addresses are refused when they are asked for, in steps of the heap: there half of the slack is
// real (RLIMIT_DATA: up to 0.5 MiB of 2 were needed).
static size_t spare_of(ft_host_limit_kind kind) {
    return kind == FT_LIMIT_ADDRESSES || kind == FT_LIMIT_DATA ? FT_HOST_SLACK_BYTES / 2 : FT_HOST_SLACK_BYTES;
}

ft_host_verdict ft_host_judge(const ft_config *config, const ft_host_memory *need, const ft_host_limits *limits) {
    const size_t given = given_limit(config);
    ft_host_verdict worst = {.fits = true, .given = given != SIZE_MAX, .need = need->peak, .limit = given};
    worst.fits = less(need->peak, FT_HOST_SLACK_BYTES) <= given;
    for (int i = 0; limits != NULL && i < limits->count; i++) {
        const ft_host_limit *l = &limits->list[i];
        const ft_host_verdict here = {.kind = l->kind, .need = need_of(need, l->kind), .limit = l->bytes,
                                      .fits = less(need_of(need, l->kind), spare_of(l->kind)) <= l->bytes};
        // That with least left beside the need.
        if (here.fits > worst.fits) continue;
        if (here.fits < worst.fits || (double)here.limit - (double)here.need < (double)worst.limit - (double)worst.need) worst = here;
    }
    return worst;
}

size_t ft_host_held(const ft_host_memory *host) {
    size_t sum = 0;
    for (int i = 0; i < FT_PART_FILES; i++) sum += host->part[i];
    return sum;
}

static const char *name_of(ft_host_limit_kind kind) {
    static const char *const names[FT_LIMIT_KINDS] = {
        [FT_LIMIT_MACHINE] = "the machine's memory",        [FT_LIMIT_CGROUP_V1] = "memory.limit_in_bytes of the cgroup",
        [FT_LIMIT_CGROUP_V2] = "memory.max of the cgroup",  [FT_LIMIT_CGROUP_HIGH] = "memory.high of the cgroup",
        [FT_LIMIT_ADDRESSES] = "RLIMIT_AS (ulimit -v)",     [FT_LIMIT_DATA] = "RLIMIT_DATA (ulimit -d)"};
    return names[kind];
}

// Of a limit, what is left beside the kernel's bookkeeping and the pages of a file on their way. (Limits of addresses refuse by themselves.)
void ft_host_watch(const ft_config *config, const ft_host_limits *limits) {
    enum { BESIDE = 1536 << 10 };
    size_t least = given_limit(config);
    const char *name = "memory.host_limit";
    for (int i = 0; limits != NULL && i < limits->count; i++) {
        const ft_host_limit *l = &limits->list[i];
        if (l->kind == FT_LIMIT_ADDRESSES || l->kind == FT_LIMIT_DATA || l->bytes >= least) continue;
        least = l->bytes;
        name = name_of(l->kind);
    }
    ft_heap_trim(); // of what was here before
    ft_heap_watch_begin(least == SIZE_MAX || least <= BESIDE ? least : least - BESIDE, name);
}

size_t ft_host_room(const ft_config *config, const ft_host_memory *others, const ft_host_limits *limits) {
    const size_t given = given_limit(config);
    size_t room = given == SIZE_MAX ? SIZE_MAX : less(given, less(others->peak, FT_HOST_SLACK_BYTES));
    for (int i = 0; limits != NULL && i < limits->count; i++) {
        const size_t here = less(limits->list[i].bytes, less(need_of(others, limits->list[i].kind), spare_of(limits->list[i].kind)));
        if (here < room) room = here;
    }
    return room;
}

const char *ft_host_limit_name(const ft_host_verdict *v) { return v->given ? "memory.host_limit" : name_of(v->kind); }

ft_status ft_host_refuse(const ft_host_verdict *v) {
    char need[24], limit[24];
    ft_fail(FT_NO_MEMORY, ft_host_limit_name(v), "does not fit: the process needs %s%s, and may have %s", ft_bytes_text(v->need, need),
            v->given ? "" : v->kind == FT_LIMIT_ADDRESSES ? " of addresses" : v->kind == FT_LIMIT_DATA ? " of data" : "",
            ft_bytes_text(v->limit, limit));
    ft_hint("ftengine plan shows its parts (host); a memory.limit lower by %s leaves room for the others", ft_bytes_text(v->need - v->limit, need));
    return FT_NO_MEMORY;
}

json_t *ft_host_json(const ft_host_memory *host, bool *failed) {
    json_t *parts = json_object();
    for (int i = 0; i < FT_PART_COUNT; i++)
        ft_json_put(parts, ft_host_part_name((ft_host_part)i), json_integer((json_int_t)host->part[i]), failed);
    json_t *object = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "peak_bytes", (json_int_t)host->peak, "address_bytes", (json_int_t)host->addresses,
                               "data_bytes", (json_int_t)host->data, "mapped_bytes", (json_int_t)host->mapped, "mapped_weights_bytes",
                               (json_int_t)host->mapped_weights, "loading_bytes", (json_int_t)host->loading);
    ft_json_put(object, "parts", parts, failed);
    return object;
}

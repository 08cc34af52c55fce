// plan.c - the back end without arithmetic. Engine code runs on it as on any other: requests for memory are answered
// with addresses that nothing lies behind, ops check their arguments and do nothing, copies move nothing. What comes out
// is the memory of the run, exactly; no formula is involved.
#include "base/arena.h"
#include "kernels/devices/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_PAGE = 2 << 20 };
// Addresses count up from here and are never used twice; a 47-bit space outlasts every plan.
static const uintptr_t first_address = (uintptr_t)1 << 40;

typedef struct plan_device {
    ft_device device;
    uintptr_t next;
    size_t used; // bytes that the device has given, as a real one counts them
    ft_rates rates;
    double seconds[FT_STREAM_COPY + 1]; // when what is queued on each stream would be done, at these rates
    double products;                    // what of it are matrix products
    ft_plan_work work;
    char name[32];
} plan_device;

static plan_device *plan_of(ft_device *device) { return (plan_device *)device; }

static ft_status take(plan_device *p, size_t bytes) {
    if (bytes > p->device.total_bytes - p->used) return ft_fail_memory(bytes, "buffer of a planned device");
    p->used += bytes;
    return FT_OK;
}

static void *addresses(plan_device *p, size_t bytes) {
    uintptr_t at = p->next;
    p->next += (bytes + PLAN_PAGE - 1) / PLAN_PAGE * PLAN_PAGE;
    return (void *)at;
}

static ft_status plan_buffer_alloc(ft_device *device, size_t bytes, void **data) {
    *data = NULL;
    FT_TRY(take(plan_of(device), bytes));
    *data = addresses(plan_of(device), bytes ? bytes : 1);
    return FT_OK;
}

static void plan_buffer_free(ft_device *device, void *data, size_t bytes) { plan_of(device)->used -= bytes; }

// Over the link to the host, where the device has one.
static void travel(ft_device *device, ft_stream_kind stream, size_t bytes) {
    plan_device *p = plan_of(device);
    if (p->rates.link <= 0) return;
    p->seconds[stream] += (double)bytes / p->rates.link;
    p->work.travelling += (double)bytes / p->rates.link;
}

static ft_status plan_upload(ft_device *device, void *to_device, const void *from_host, size_t bytes) {
    travel(device, FT_STREAM_COMPUTE, bytes);
    return FT_OK;
}
static ft_status plan_upload_beside(ft_device *device, void *to_device, const void *from_host, size_t bytes) {
    travel(device, FT_STREAM_COPY, bytes);
    return FT_OK;
}
static ft_status plan_copy(ft_device *device, void *to, const void *from, size_t bytes) { return FT_OK; }
static ft_status plan_fill(ft_device *device, void *data, int byte, size_t bytes) { return FT_OK; }
static ft_status plan_sync(ft_device *device) { return FT_OK; }

// An event knows its device: a plan that mixes them up is none that a GPU could follow.
struct ft_event {
    const ft_device *device;
    double seconds; // when it would happen
};

static ft_status plan_event_create(ft_device *device, ft_event **event) {
    *event = ft_calloc(1, sizeof **event, "event of a planned device");
    if (*event == NULL) return FT_NO_MEMORY;
    (*event)->device = device;
    return FT_OK;
}

static void plan_event_destroy(ft_device *device, ft_event *event) { free(event); }

static ft_status plan_event_check(const ft_device *device, const ft_event *event) {
    if (event != NULL && event->device == device) return FT_OK;
    return ft_fail(FT_FAILED, device->name, "an event of another device");
}
static ft_status plan_event_record(ft_device *device, ft_event *event, ft_stream_kind stream) {
    FT_TRY(plan_event_check(device, event));
    event->seconds = plan_of(device)->seconds[stream];
    return FT_OK;
}
static ft_status plan_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) {
    FT_TRY(plan_event_check(device, event));
    double *now = &plan_of(device)->seconds[stream];
    if (event->seconds > *now) *now = event->seconds;
    return FT_OK;
}
static ft_status plan_event_sync(ft_device *device, ft_event *event) { return plan_event_check(device, event); }

// The host gets defined bytes, but for memory of plan_host_alloc, which nothing lies behind.
static ft_status download(ft_device *device, ft_stream_kind stream, void *to_host, size_t bytes) {
    travel(device, stream, bytes);
    const bool planned = (uintptr_t)to_host >= first_address && (uintptr_t)to_host < plan_of(device)->next;
    if (bytes > 0 && !planned) memset(to_host, 0, bytes);
    return FT_OK;
}
static ft_status plan_download(ft_device *device, void *to_host, const void *from_device, size_t bytes) {
    return download(device, FT_STREAM_COMPUTE, to_host, bytes);
}
static ft_status plan_download_beside(ft_device *device, void *to_host, const void *from_device, size_t bytes) {
    return download(device, FT_STREAM_COPY, to_host, bytes);
}

static ft_status plan_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page) {
    *base = addresses(plan_of(device), bytes);
    *page = PLAN_PAGE;
    return FT_OK;
}

static ft_status plan_range_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    return take(plan_of(device), bytes);
}

static void plan_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes) {
    plan_of(device)->used -= bytes;
}

static void plan_range_release(ft_device *device, void *base, size_t bytes) {}

// Of the host, where the device that is planned has memory of its own: no part of the plan.
static ft_status plan_host_alloc(ft_device *device, size_t bytes, void **data) {
    *data = addresses(plan_of(device), bytes ? bytes : 1);
    return FT_OK;
}
static void plan_host_free(ft_device *device, void *data) {}

static void plan_close(ft_device *device) { free(plan_of(device)); }

#define COMMON                                                                                                         \
    .buffer_alloc = plan_buffer_alloc, .buffer_free = plan_buffer_free, .upload = plan_upload,                         \
    .download = plan_download, .copy = plan_copy, .fill = plan_fill, .sync = plan_sync,                                \
    .range_reserve = plan_range_reserve, .range_commit = plan_range_commit, .range_decommit = plan_range_decommit,     \
    .range_release = plan_range_release, .upload_beside = plan_upload_beside,                                          \
    .download_beside = plan_download_beside, .event_create = plan_event_create,                                        \
    .event_destroy = plan_event_destroy, .event_record = plan_event_record, .stream_wait = plan_stream_wait,           \
    .event_sync = plan_event_sync, .close = plan_close
static const ft_device_functions of_host = {COMMON};
static const ft_device_functions of_own_memory = {COMMON, .host_alloc = plan_host_alloc, .host_free = plan_host_free};

static void add_work(ft_plan_work *w, ft_cost cost, ft_rates rates) {
    const double computing = ft_cost_computing(cost, rates), moving = ft_cost_moving(cost, rates);
    w->occupied += computing > moving ? computing : moving;
    w->computing += computing;
    w->moving += moving;
    w->starting += rates.op_seconds;
}

static ft_status plan_in_two(ft_device *device, const void *args), plan_slope_in_two(ft_device *device, const void *args),
    plan_norm_in_two(ft_device *device, const void *args); // products with an epilogue

#define FT_OP(name, what)                                                                                              \
    static ft_status plan_##name(ft_device *device, const ft_##name##_args *args) {                                    \
        plan_device *p = plan_of(device);                                                                              \
        FT_TRY(ft_##name##_check(&device->target, args));                                                              \
        if (strcmp(#name, "product_activation") == 0) return plan_in_two(device, args);                                \
        if (strcmp(#name, "product_slope") == 0) return plan_slope_in_two(device, args);                               \
        if (strcmp(#name, "product_norm") == 0) return plan_norm_in_two(device, args);                                 \
        const ft_cost cost = ft_##name##_cost(args);                                                                   \
        const double seconds = ft_cost_seconds(cost, p->rates);                                                        \
        add_work(&p->work, cost, p->rates);                                                                            \
        p->seconds[FT_STREAM_COMPUTE] += seconds;                                                                      \
        if (strcmp(#name, "gemm") == 0) p->products += seconds;                                                        \
        return FT_OK;                                                                                                  \
    }
#include "kernels/ops/ops.def"
#undef FT_OP

// As it runs by itself; how much less it takes where a kernel of our own was measured to be faster, no plan knows.
static ft_status plan_in_two(ft_device *device, const void *args) {
    const ft_gemm_args product = ft_product_activation_product(args);
    const ft_activation_forward_args rest = ft_product_activation_rest(args);
    FT_TRY(plan_gemm(device, &product));
    return plan_activation_forward(device, &rest);
}
static ft_status plan_slope_in_two(ft_device *device, const void *args) {
    const ft_gemm_args product = ft_product_slope_product(args);
    const ft_activation_backward_args rest = ft_product_slope_rest(args);
    FT_TRY(plan_gemm(device, &product));
    return plan_activation_backward(device, &rest);
}
static ft_status plan_norm_in_two(ft_device *device, const void *args) {
    const ft_gemm_args product = ft_product_norm_product(args);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(args);
    FT_TRY(plan_gemm(device, &product));
    return plan_layernorm_forward(device, &rest);
}

static const ft_op_table plan_ops = {
#define FT_OP(name, what) .name = plan_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};

double ft_plan_seconds(const ft_device *device) { return ((const plan_device *)device)->seconds[FT_STREAM_COMPUTE]; }

double ft_plan_product_seconds(const ft_device *device) { return ((const plan_device *)device)->products; }

ft_plan_work ft_plan_work_of(const ft_device *device) { return ((const plan_device *)device)->work; }

void ft_plan_set_rates(ft_device *device, ft_rates rates) { plan_of(device)->rates = rates; }

ft_status ft_plan_open(const char *name, ft_target target, size_t total_bytes, ft_device **device) {
    *device = NULL;
    plan_device *p = ft_calloc(1, sizeof *p, "planned device");
    if (p == NULL) return FT_NO_MEMORY;
    p->next = first_address;
    p->rates = ft_rates_of(&target);
    snprintf(p->name, sizeof p->name, "%s", name);
    p->device = (ft_device){.name = p->name,
                            .target = target,
                            .planned = true,
                            .total_bytes = total_bytes,
                            .functions = target.backend == FT_BACKEND_CPU ? &of_host : &of_own_memory,
                            .ops = &plan_ops};
    snprintf(p->device.description, sizeof p->device.description, "%s, planned", name);
    *device = &p->device;
    return FT_OK;
}

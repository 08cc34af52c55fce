#include "kernels/devices/devices.h"

#include "kernels/cpu/limits.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/units.h"
#include "kernels/cuda/attention/path.h"
#include "kernels/cuda/driver/device.h"
#include "kernels/cuda/kernels.h"
#include "kernels/devices/self_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What cuda, cpu and auto mean is decided once, whether a device is opened or only looked at.
typedef ft_status attempt(void *context);

static ft_status choose(const char *name, attempt *cuda, attempt *cpu, void *context, char *why) {
    if (why != NULL) why[0] = '\0';
    if (strcmp(name, "cpu") == 0) return cpu(context);
    ft_status status = cuda(context);
    if (strcmp(name, "auto") != 0 || status != FT_NO_DEVICE) return status;
    if (why != NULL) snprintf(why, FT_DEVICE_WHY, "%s", ft_error_message());
    ft_error_clear();
    return cpu(context);
}

// ---- opening ----------------------------------------------------------------------------------------------------

// N of "cuda:N"; 0 of any other name.
static int ordinal_of(const char *name) { return strncmp(name, "cuda:", 5) == 0 ? (int)strtol(name + 5, NULL, 10) : 0; }

typedef struct opening {
    int threads, ordinal;
    const char *isa;
    ft_device *device;
} opening;

static ft_status open_cuda(void *context) {
    opening *o = context;
    FT_TRY(ft_cuda_open_with_kernels(o->ordinal, &o->device));
    const ft_status status = ft_cuda_self_check(ft_cuda_of(o->device));
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_device_close(o->device);
    ft_error_restore(&error);
    o->device = NULL;
    return status;
}

static ft_status open_cpu(void *context) {
    opening *o = context;
    return ft_cpu_open(o->threads, o->isa != NULL && strcmp(o->isa, "auto") == 0 ? NULL : o->isa, &o->device);
}

ft_status ft_device_open(const char *name, int threads, const char *isa, ft_device **device, char *why) {
    opening o = {.threads = threads, .ordinal = ordinal_of(name), .isa = isa};
    ft_status status = choose(name, open_cuda, open_cpu, &o, why);
    *device = o.device;
    return status;
}

// ---- looking ----------------------------------------------------------------------------------------------------

typedef struct looking {
    int threads, ordinal;
    ft_device_facts *facts;
} looking;

static ft_status look_with(const ft_cuda_driver *driver, int ordinal, ft_device_facts *facts) {
    ft_cuda cuda = {.driver = driver};
    FT_TRY(ft_cuda_describe(&cuda, ordinal));
    FT_TRY(ft_cuda_look_for_kernels(driver, NULL));
    *facts = (ft_device_facts){.target = cuda.device.target, .total_bytes = cuda.device.total_bytes};
    snprintf(facts->name, sizeof facts->name, "%s", cuda.name);
    return FT_OK;
}

static ft_status look_at_cuda(void *context) {
    ft_cuda_driver *driver;
    FT_TRY(ft_cuda_driver_open(NULL, &driver));
    const looking *l = context;
    ft_status status = look_with(driver, l->ordinal, l->facts);
    ft_cuda_driver_close(driver);
    return status;
}

static ft_status look_at_cpu(void *context) {
    looking *l = context;
    *l->facts =
        (ft_device_facts){.name = "cpu", .target = ft_cpu_target(l->threads), .total_bytes = ft_cpu_total_bytes()};
    return FT_OK;
}

ft_status ft_device_look(const char *name, int threads, ft_device_facts *facts) {
    looking l = {threads, ordinal_of(name), facts};
    return choose(name, look_at_cuda, look_at_cpu, &l, NULL);
}

ft_target ft_cuda_target(int sm_count, int compute_capability) {
    enum { PAGE = 2 << 20 };
    return (ft_target){.backend = FT_BACKEND_CUDA, .sm_count = sm_count, .compute_capability = compute_capability, .page_bytes = PAGE};
}

const char *ft_device_remark(const ft_device *device) {
    return device->target.backend == FT_BACKEND_CUDA && !device->planned ? ft_cuda_of(ft_device_under(device))->remark : "";
}

const char *ft_device_products(const ft_device *device) {
    if (device->target.backend != FT_BACKEND_CUDA || device->planned || device->target.compute_capability != 90) return "";
    const ft_cuda *cuda = ft_cuda_of(ft_device_under(device));
    if (cuda->products == FT_PRODUCTS_OWN) return "own";
    return cuda->products == FT_PRODUCTS_MEASURED && cuda->own_products ? "measured" : "cublaslt";
}

const char *ft_device_product_remark(const ft_device *device) {
    return device->target.backend == FT_BACKEND_CUDA && !device->planned ? ft_cuda_of(ft_device_under(device))->product_remark : "";
}

const char *ft_device_attention(const ft_device *device) {
    static const char *const names[] = {"mma.sync", "wgmma", "tcgen05", "owner", "auto", "unknown", "mma.sync"}; // as in path.h
    const ft_attention_path asked = ft_attention_path_asked();
    if (device->target.backend != FT_BACKEND_CUDA || device->planned) return "";
    if (asked == FT_PATH_TCGEN05 && ft_cuda_of(ft_device_under(device))->no_tensor_memory) return names[FT_PATH_MMA];
    const bool open = asked == FT_PATH_UNNAMED || (asked == FT_PATH_AUTO && device->target.compute_capability == 90);
    return open ? (ft_cuda_of(ft_device_under(device))->warpgroups ? "wgmma" : "mma.sync") : names[asked];
}

bool ft_device_only_rounds(const ft_device *device) { return device->target.backend == FT_BACKEND_CPU; }

bool ft_target_same_bits(const ft_target *target) { return target->backend == FT_BACKEND_CPU; }

bool ft_device_has_graphs(const ft_device *device) { return device->target.backend == FT_BACKEND_CUDA; }

size_t ft_device_free_bytes(ft_device *device) {
    size_t unused = 0, total;
    ft_error before;
    if (device->target.backend != FT_BACKEND_CUDA) return ft_cpu_available_bytes();
    ft_cuda *cuda = ft_cuda_of(ft_device_under(device));
    ft_error_save(&before);
    bool known = ft_cuda_enter(cuda) == FT_OK && FT_CUDA(cuda->driver, mem_get_info, &unused, &total) == FT_OK;
    ft_error_restore(&before);
    return known ? unused : 0;
}

// ---- the host -----------------------------------------------------------------------------------------------------------

int ft_cpu_threads(void) { return ft_usable_threads(); }
size_t ft_cpu_total_bytes(void) { return ft_usable_memory(); }
size_t ft_cpu_available_bytes(void) { return ft_available_memory(); }
size_t ft_cpu_stack_bytes(void) { return FT_POOL_STACK_BYTES + 4096; } // and its guard
void ft_host_limits_read(ft_host_limits *limits) { ft_memory_limits(limits); }
ft_cpu_units ft_cpu_units_read(void) { return ft_cpu_units_here(); }
bool ft_host_limit_is_shared(const ft_host_limit *limit, int64_t pid) { return ft_limit_is_shared(limit, (long long)pid); }

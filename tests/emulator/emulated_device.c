#include "tests/emulator/emulated_device.h"

#include "kernels/cuda/driver/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/ops/backend.h"

#define NOT_HERE(name)                                                                                                 \
    ft_status ft_cuda_##name(ft_device *device, const ft_##name##_args *args) {                                        \
        return ft_fail(FT_FAILED, #name, "not among the emulated kernels");                                            \
    }
NOT_HERE(gemm)
NOT_HERE(int8_product) // of CPUs

#define FT_OP(name, what)                                                                                              \
    static ft_status run_##name(ft_device *device, const ft_##name##_args *args) {                                     \
        FT_TRY(ft_##name##_check(&device->target, args));                                                              \
        return ft_cuda_##name(device, args);                                                                           \
    }
#include "kernels/ops/ops.def"
#undef FT_OP

static const ft_op_table ops = {
#define FT_OP(name, what) .name = run_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};

static void close_device(ft_device *device) {}

ft_device *emulated_device(void) {
    static const ft_device_functions functions = {.close = close_device};
    static ft_cuda cuda = {
        .device = {.name = "emulated", .target = {.backend = FT_BACKEND_CUDA, .sm_count = 4}, .functions = &functions, .ops = &ops}};
    return &cuda.device;
}

// entry.cu - the one function that the module exports: its table of kernels. Errors go to the program, whose they are.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/cuda/driver/module.h"
}

#include <stdarg.h>
#include <stdio.h>

static const ft_cuda_module_host *host;

// What the kernels' files call when something is wrong: as in base/status.h, but the error is set in the program.
extern "C" ft_status ft_fail(ft_status code, const char *where, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return host->fail(code, where, message);
}

#ifndef FT_CUDA_RUNTIME // (the emulator's modules say what they stand for)
#define FT_CUDA_RUNTIME CUDART_VERSION
#endif

FT_KERNEL void probe_kernel() {}

static ft_status ready() {
#ifdef __CUDACC__
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, probe_kernel);
    if (error != cudaSuccess)
        return ft_fail(FT_NO_DEVICE, nullptr, "the CUDA kernels (%s) do not run on this device: %s", FT_CUDA_TARGETS,
                       cudaGetErrorString(error));
#endif
    return FT_OK;
}

#define ft_cuda_gemm nullptr // the program's, on cuBLASLt
#define ft_cuda_int8_product nullptr // of CPUs: ft_int8_product_check refuses it

extern "C" __attribute__((visibility("default"))) ft_cuda_module_entry ft_cuda_module_get; // as module.h has it
const ft_cuda_module_table *ft_cuda_module_get(const ft_cuda_module_host *of_program) {
    static ft_cuda_module_table table;
    host = of_program;
    table.layout = ft_cuda_module_layout();
    table.runtime = FT_CUDA_RUNTIME;
    table.targets = FT_CUDA_TARGETS;
    table.ready = ready;
#define FT_OP(name, what) table.ops.name = ft_cuda_##name;
#include "kernels/ops/ops.def"
#undef FT_OP
    return &table;
}

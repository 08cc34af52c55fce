#include "kernels/cuda/simt.h"

#include "kernels/cuda/tile/async_copy.h"

extern "C" {
#include "tests/emulator/pieces/faults.h"
}

#include <cstring>

namespace {

constexpr int THREADS = FAULT_OUTPUTS;

template <bool BAD> FT_KERNEL void missing_barrier(float *out) {
    FT_SHARED(float, shared, THREADS);
    int t = int(threadIdx.x);
    shared[t] = float(t);
    if (!BAD) __syncthreads();
    out[t] = shared[THREADS - 1 - t];
}

// The buffer of a second round is filled while slow threads still read the first.
template <bool BAD> FT_KERNEL void early_refill(float *out) {
    FT_SHARED(float, shared, THREADS);
    int t = int(threadIdx.x);
    shared[t] = float(t);
    __syncthreads();
    float first = shared[(t + 32) % THREADS];
    if (!BAD) __syncthreads();
    shared[t] = 100.0f;
    __syncthreads();
    out[t] = first + shared[(t + 32) % THREADS];
}

template <bool BAD> FT_KERNEL void divergent_barrier(float *out) {
    int t = int(threadIdx.x);
    if (!BAD || t < 16) __syncthreads();
    out[t] = 1.0f;
    __syncthreads();
}

// Half of the warp waits in a shuffle that names all of it, the other half at the end of the block.
template <bool BAD> FT_KERNEL void shuffle_of_absent_lanes(float *out) {
    int t = int(threadIdx.x);
    float v = float(t);
    if (!BAD || t % 32 < 16) v = __shfl_xor_sync(FT_ALL_LANES, v, 16);
    out[t] = v;
}

template <bool BAD> FT_KERNEL void shared_overrun(float *out) {
    FT_SHARED(float, shared, THREADS);
    int t = int(threadIdx.x);
    shared[t] = 2.0f;
    if (BAD && t == 5) shared[t + THREADS - 5 + 1] = 3.0f;
    __syncthreads();
    out[t] = shared[t];
}

template <bool BAD> FT_KERNEL void dynamic_overrun(float *out) {
    FT_DYNAMIC_SHARED(bytes);
    float *shared = reinterpret_cast<float *>(bytes);
    int t = int(threadIdx.x);
    shared[BAD ? t + 1 : t] = 2.0f;
    __syncthreads();
    out[t] = shared[BAD ? t + 1 : t];
}

template <bool BAD> FT_KERNEL void uninitialised_read(float *out) {
    FT_SHARED(float, shared, THREADS);
    int t = int(threadIdx.x);
    if (!BAD || t < THREADS - 1) shared[t] = 1.0f;
    __syncthreads();
    out[t] = shared[t];
}

template <bool BAD> FT_KERNEL void copy_without_wait(float *out) {
    FT_SHARED(float4, shared, THREADS);
    int t = int(threadIdx.x);
    ft_copy_async16(&shared[t], reinterpret_cast<const float4 *>(out) + t / 4);
    ft_copy_async_commit();
    if (!BAD) ft_copy_async_wait<0>();
    float v = shared[t].x;
    ft_copy_async_wait<0>();
    __syncthreads();
    out[t] = v + 4.0f;
}

// Every block adds to the same numbers: right on the emulator, where blocks run one by one.
template <bool BAD> FT_KERNEL void race_between_blocks(float *out) {
    if (BAD)
        out[threadIdx.x] += 1.0f;
    else
        atomicAdd(&out[threadIdx.x], 1.0f);
}

// A shuffle brings the lanes together and orders no memory: only __syncwarp does.
template <bool BAD> FT_KERNEL void shuffle_for_syncwarp(float *out) {
    FT_SHARED(float, shared, THREADS);
    int t = int(threadIdx.x);
    shared[t] = float(t);
    float one = __shfl_xor_sync(FT_ALL_LANES, 1.0f, 1);
    if (!BAD) __syncwarp();
    out[t] = one * shared[t ^ 1];
}

struct planted_fault {
    const char *name;
    void (*bad)(float *), (*good)(float *);
    unsigned blocks;
    float (*want)(int t);
};
#define FAULT(kernel) #kernel, kernel<true>, kernel<false>
const planted_fault faults[] = {
    {FAULT(missing_barrier), 1, [](int t) { return float(THREADS - 1 - t); }},
    {FAULT(early_refill), 1, [](int t) { return 100.0f + float((t + 32) % THREADS); }},
    {FAULT(divergent_barrier), 1, [](int) { return 1.0f; }},
    {FAULT(shuffle_of_absent_lanes), 1, [](int t) { return float(t ^ 16); }},
    {FAULT(shared_overrun), 1, [](int) { return 2.0f; }},
    {FAULT(dynamic_overrun), 1, [](int) { return 2.0f; }},
    {FAULT(uninitialised_read), 1, [](int) { return 1.0f; }},
    {FAULT(copy_without_wait), 1, [](int) { return 4.0f; }},
    {FAULT(race_between_blocks), 8, [](int) { return 8.0f; }},
    {FAULT(shuffle_for_syncwarp), 1, [](int t) { return float(t ^ 1); }},
};

} // namespace

extern "C" ft_status fault_run(const char *name, bool planted, float outputs[FAULT_OUTPUTS], float want[FAULT_OUTPUTS]) {
    for (const planted_fault &f : faults) {
        if (strcmp(f.name, name) != 0) continue;
        for (int t = 0; t < FAULT_OUTPUTS; t++) {
            outputs[t] = 0.0f;
            want[t] = f.want(t);
        }
        return ft_launch(f.name, planted ? f.bad : f.good, dim3(f.blocks), dim3(THREADS), THREADS * sizeof(float), nullptr,
                         outputs);
    }
    return ft_fail(FT_INVALID, name, "no such kernel");
}

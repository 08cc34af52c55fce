// unit.h - what the row-wise, column-wise and flat kernels are made of: units of eight neighbouring columns (two
// 16-byte loads of fp32, one of 16-bit values, one Philox call of a dropout), and launches over all units of a matrix.
//
//     template <class T, bool WHOLE> struct double_it {
//         ft_view<const T> x;
//         ft_view<T> y;
//         FT_METHOD void operator()(int64_t row, int col, int n) const {...}
//     };
//     template <class I> static ft_status run(ft_device *device, const ft_double_args *a) {
//         return ft_each_unit("double", device, double_it<typename I::type, I::WHOLE>{...}, a->x.rows, a->x.cols);
//     }
//     const bool whole = ft_is_whole(a->x) && ft_is_whole(a->y);
//     return ft_pick(a->x.dtype, whole, [&](auto i) { return run<decltype(i)>(device, a); });
//
// T: how values lie in memory, float, __nv_bfloat16 or __half. A unit in registers is fp32: all arithmetic is, and a
// store rounds to the nearest, ties to even.
// WHOLE: rows begin at 16-byte addresses and hold whole units; else elements are read one by one and n columns of a
// unit are there. Both give the same bits.
#ifndef FT_CUDA_UNIT_H
#define FT_CUDA_UNIT_H

#include "kernels/cuda/simt.h"

extern "C" {
#include "kernels/cuda/driver/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/ops/geometry.h"
}

#include <string.h>

#ifdef __CUDACC__
#define FT_METHOD __device__ __forceinline__
#else
#define FT_METHOD inline
#endif

enum { FT_BLOCK = 256, FT_BLOCK_WARPS = FT_BLOCK / FT_WARP };

// ---- views ------------------------------------------------------------------------------------------------------

template <class T> struct ft_view {
    T *data; // NULL: absent
    int64_t stride;
    FT_METHOD T *at(int64_t row, int col) const { return data + row * stride + col; }
};
template <class T> static inline ft_view<T> ft_view_of(ft_tensor t) { return ft_view<T>{(T *)t.data, t.stride}; }

static inline bool ft_is_whole(ft_tensor t) {
    size_t size = ft_dtype_size(t.dtype);
    return t.data == NULL ||
           ((uintptr_t)t.data % 16 == 0 && (size_t)t.stride * size % 16 == 0 && t.cols % FT_CUDA_UNIT == 0);
}
// A vector is one row: its stride does not matter.
static inline bool ft_is_whole_vector(ft_tensor t) { return t.data == NULL || (uintptr_t)t.data % 16 == 0; }

// ---- instances: three storage types, for rows of whole units and for any -------------------------------------------

template <class T, bool IS_WHOLE> struct ft_instance {
    using type = T;
    static constexpr bool WHOLE = IS_WHOLE;
};
template <bool WHOLE, class Call> static inline ft_status ft_pick_half(ft_dtype dtype, Call call) {
    return dtype == FT_F16 ? call(ft_instance<__half, WHOLE>{}) : call(ft_instance<__nv_bfloat16, WHOLE>{});
}
template <bool WHOLE, class Call> static inline ft_status ft_pick_type(ft_dtype dtype, Call call) {
    return dtype == FT_F32 ? call(ft_instance<float, WHOLE>{}) : ft_pick_half<WHOLE>(dtype, call);
}
template <class Call> static inline ft_status ft_pick(ft_dtype dtype, bool whole, Call call) {
    return whole ? ft_pick_type<true>(dtype, call) : ft_pick_type<false>(dtype, call);
}

static inline cudaStream_t ft_stream(ft_device *device) { return (cudaStream_t)ft_cuda_of(device)->stream; }

// ---- units ------------------------------------------------------------------------------------------------------

struct ft_unit {
    float v[FT_CUDA_UNIT];
};

FT_DEVICE ft_unit ft_unit_zero() {
    ft_unit u;
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        u.v[i] = 0.0f;
    return u;
}

// Columns past the n that are there read as 0.
template <bool WHOLE, class T> FT_DEVICE ft_unit ft_load(const T *from, int n) {
    ft_unit u;
    if constexpr (WHOLE && sizeof(T) == sizeof(float)) {
        float4 low = *reinterpret_cast<const float4 *>(from), high = *reinterpret_cast<const float4 *>(from + 4);
        u.v[0] = low.x, u.v[1] = low.y, u.v[2] = low.z, u.v[3] = low.w;
        u.v[4] = high.x, u.v[5] = high.y, u.v[6] = high.z, u.v[7] = high.w;
    } else if constexpr (WHOLE) {
        uint4 words = *reinterpret_cast<const uint4 *>(from);
        float2 pairs[] = {ft_unpack<T>(words.x), ft_unpack<T>(words.y), ft_unpack<T>(words.z), ft_unpack<T>(words.w)};
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT / 2; i++) {
            u.v[2 * i] = pairs[i].x;
            u.v[2 * i + 1] = pairs[i].y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            u.v[i] = i < n ? ft_to_float(from[i]) : 0.0f;
    }
    return u;
}

template <bool WHOLE, class T> FT_DEVICE void ft_store(T *to, const ft_unit &u, int n) {
    if constexpr (WHOLE && sizeof(T) == sizeof(float)) {
        *reinterpret_cast<float4 *>(to) = make_float4(u.v[0], u.v[1], u.v[2], u.v[3]);
        *reinterpret_cast<float4 *>(to + 4) = make_float4(u.v[4], u.v[5], u.v[6], u.v[7]);
    } else if constexpr (WHOLE) {
        // A plain store to global memory, but one that nvcc does not take apart: it does where it has lost sight of the alignment.
        __stwb(reinterpret_cast<uint4 *>(to), make_uint4(ft_pack<T>(u.v[0], u.v[1]), ft_pack<T>(u.v[2], u.v[3]),
                                                         ft_pack<T>(u.v[4], u.v[5]), ft_pack<T>(u.v[6], u.v[7])));
    } else {
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            if (i < n) to[i] = ft_from_float<T>(u.v[i]);
    }
}

// ---- quads, of kernels over flat buffers: a warp's 16-byte accesses of fp32 follow each other, where those of units leave
// half of every sector to the next instruction ----------------------------------------------------------------------------

enum { FT_QUAD = 4 };
struct ft_quad {
    float v[FT_QUAD];
};

// As ft_load and ft_store; WHOLE: at addresses of 16 bytes, 8 for 16-bit values.
template <bool WHOLE, class T> FT_DEVICE ft_quad ft_load_quad(const T *from, int n) {
    ft_quad q;
    if constexpr (WHOLE && sizeof(T) == sizeof(float)) {
        float4 all = *reinterpret_cast<const float4 *>(from);
        q.v[0] = all.x, q.v[1] = all.y, q.v[2] = all.z, q.v[3] = all.w;
    } else if constexpr (WHOLE) {
        uint2 words = *reinterpret_cast<const uint2 *>(from);
        float2 low = ft_unpack<T>(words.x), high = ft_unpack<T>(words.y);
        q.v[0] = low.x, q.v[1] = low.y, q.v[2] = high.x, q.v[3] = high.y;
    } else {
#pragma unroll
        for (int i = 0; i < FT_QUAD; i++)
            q.v[i] = i < n ? ft_to_float(from[i]) : 0.0f;
    }
    return q;
}
template <bool WHOLE, class T> FT_DEVICE void ft_store_quad(T *to, const ft_quad &q, int n) {
    if constexpr (WHOLE && sizeof(T) == sizeof(float)) {
        *reinterpret_cast<float4 *>(to) = make_float4(q.v[0], q.v[1], q.v[2], q.v[3]);
    } else if constexpr (WHOLE) {
        __stwb(reinterpret_cast<uint2 *>(to), make_uint2(ft_pack<T>(q.v[0], q.v[1]), ft_pack<T>(q.v[2], q.v[3])));
    } else {
#pragma unroll
        for (int i = 0; i < FT_QUAD; i++)
            if (i < n) to[i] = ft_from_float<T>(q.v[i]);
    }
}

// ---- over all units of a matrix -----------------------------------------------------------------------------------

template <class Body>
FT_KERNEL void __launch_bounds__(FT_BLOCK) ft_each_unit_kernel(Body body, int64_t rows, int cols) {
    const int units = (cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT;
    const int64_t index = (int64_t)blockIdx.x * FT_BLOCK + threadIdx.x;
    const int64_t row = index / units;
    if (row >= rows) return;
    const int col = (int)(index - row * units) * FT_CUDA_UNIT;
    body(row, col, cols - col < FT_CUDA_UNIT ? cols - col : FT_CUDA_UNIT);
}

template <class Body>
static ft_status ft_each_unit(const char *op, ft_device *device, Body body, int64_t rows, int64_t cols) {
    if (rows == 0 || cols == 0) return FT_OK;
    int64_t units = rows * ((cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT);
    return ft_launch(op, ft_each_unit_kernel<Body>, dim3((unsigned)((units + FT_BLOCK - 1) / FT_BLOCK)), dim3(FT_BLOCK),
                     0, ft_stream(device), body, rows, (int)cols);
}

// ---- dropout of rows (kernels/philox.h) ---------------------------------------------------------------------------

struct ft_row_dropout {
    const ft_step_state *step; // NULL: nothing is dropped
    const int32_t *slot, *position;
    uint32_t layer, site, threshold;
    float scale;

    FT_METHOD bool drops() const { return step != nullptr; }
    FT_METHOD uint64_t key() const { return drops() ? ft_dropout_key(step->seed, step->step, layer, site) : 0; }
    FT_METHOD void draw(uint64_t of_key, int32_t of_slot, int32_t of_position, int col, uint32_t c[4]) const {
        c[0] = (uint32_t)col / FT_CUDA_UNIT, c[1] = (uint32_t)of_position, c[2] = (uint32_t)of_slot, c[3] = 0;
        ft_philox4x32_7(c, of_key);
    }
    FT_METHOD bool is_dropped(const uint32_t c[4], int i) const { return (c[i / 2] >> (i & 1) * 16 & 0xFFFF) < threshold; }
    FT_METHOD void apply(uint64_t of_key, int64_t row, int col, ft_unit &u) const {
        uint32_t c[4];
        draw(of_key, slot[row], position[row], col, c);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            u.v[i] *= is_dropped(c, i) ? 0.0f : scale;
    }
    // The same as bits, for whoever applies it elsewhere: bit i of the unit's column i is set where it is dropped.
    FT_METHOD unsigned char drawn(uint64_t of_key, int32_t of_slot, int32_t of_position, int col) const {
        uint32_t c[4];
        draw(of_key, of_slot, of_position, col, c);
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            bits |= (unsigned)is_dropped(c, i) << i;
        return (unsigned char)bits;
    }
};

static inline ft_row_dropout ft_row_dropout_of(const ft_dropout *d) {
    if (d->probability == 0.0f) return ft_row_dropout{nullptr, nullptr, nullptr, 0, 0, 0, 1.0f};
    uint32_t threshold = ft_dropout_threshold(d->probability);
    return ft_row_dropout{d->step, d->slot, d->position, d->layer, d->site, threshold, ft_dropout_scale(threshold)};
}

#endif

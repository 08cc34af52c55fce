// adamw.cu - the optimizer step of many ranges in one launch: the ranges travel as a parameter of the kernel, so
// nothing is copied to the device and a graph can replay it. A block has a piece of one range. What the ops read in 16 bits
// is written in the same pass, while the new parameters are in registers.
#include "kernels/cuda/unit.h"
#include "kernels/split.h"

extern "C" {
#include "kernels/ops/adamw.h"
}

namespace {
enum {
    ADAMW_PIECE = 8 * FT_BLOCK * FT_QUAD, // elements of a block
    ADAMW_RANGES = 96,                         // of a launch: parameters of kernels are limited to 4 KB
};

struct adamw_job {
    void *parameter; // fp32, or the first halves of pairs
    void *beside;    // the copy in fp16, or the second halves
    float *m, *v;
    const float *gradient;
    ft_adamw_hyper hyper;
    const ft_step_state *step;
    const ft_update_state *update;
    int count;
    int first_block[ADAMW_RANGES]; // where the blocks of a range begin
    ft_adamw_range range[ADAMW_RANGES];
};
static_assert(sizeof(adamw_job) <= 4096, "parameters of a kernel");

struct adamw_factors {
    float clip, keep, toward1, beta2, toward2, step, root2, epsilon;
};
} // namespace

FT_DEVICE adamw_factors factors_of(const adamw_job &job, const ft_adamw_range &range) {
    const double lr = (double)job.step->learning_rate * (double)range.lr_scale;
    return adamw_factors{(float)((double)job.update->clip / (double)job.step->loss_scale),
                         ft_adamw_keep(job.step->learning_rate, range.lr_scale, range.weight_decay),
                         (float)(1.0 - job.hyper.beta1),
                         (float)job.hyper.beta2,
                         (float)(1.0 - job.hyper.beta2),
                         (float)(lr / job.update->correction1),
                         (float)sqrt(job.update->correction2),
                         (float)job.hyper.epsilon};
}

// ---- how parameters lie in memory -----------------------------------------------------------------------------------

// In fp32; element `first` of the flat buffers is data[0].
struct adamw_fp32 {
    float *data;
    int64_t first;
    template <bool WHOLE> FT_METHOD ft_quad load(int64_t at, int n) const {
        return ft_load_quad<WHOLE>(data + (at - first), n);
    }
    template <bool WHOLE> FT_METHOD void store(int64_t at, const ft_quad &p, int n) const {
        ft_store_quad<WHOLE>(data + (at - first), p, n);
    }
};

struct adamw_copied {
    float *data;
    __half *copy;
    template <bool WHOLE> FT_METHOD ft_quad load(int64_t at, int n) const { return ft_load_quad<WHOLE>(data + at, n); }
    template <bool WHOLE> FT_METHOD void store(int64_t at, const ft_quad &p, int n) const {
        ft_store_quad<WHOLE>(data + at, p, n);
        ft_store_quad<WHOLE>(copy + at, p, n);
    }
};

// split.h
struct adamw_pairs {
    uint16_t *high, *tail;
    template <bool WHOLE> FT_METHOD ft_quad load(int64_t at, int n) const {
        ft_quad p;
        if constexpr (WHOLE) {
            const uint2 h = *reinterpret_cast<const uint2 *>(high + at), t = *reinterpret_cast<const uint2 *>(tail + at);
            p.v[0] = __uint_as_float(ft_join(h.x << 16 | (t.x & 0xffffu)));
            p.v[1] = __uint_as_float(ft_join((h.x & 0xffff0000u) | t.x >> 16));
            p.v[2] = __uint_as_float(ft_join(h.y << 16 | (t.y & 0xffffu)));
            p.v[3] = __uint_as_float(ft_join((h.y & 0xffff0000u) | t.y >> 16));
        } else {
#pragma unroll
            for (int i = 0; i < FT_QUAD; i++)
                p.v[i] = i < n ? __uint_as_float(ft_join((uint32_t)high[at + i] << 16 | tail[at + i])) : 0.0f;
        }
        return p;
    }
    template <bool WHOLE> FT_METHOD void store(int64_t at, const ft_quad &p, int n) const {
        uint32_t pair[FT_QUAD];
#pragma unroll
        for (int i = 0; i < FT_QUAD; i++)
            pair[i] = ft_split(__float_as_uint(p.v[i]));
        if constexpr (WHOLE) {
            __stwb(reinterpret_cast<uint2 *>(high + at), make_uint2(pair[0] >> 16 | (pair[1] & 0xffff0000u),
                                                                    pair[2] >> 16 | (pair[3] & 0xffff0000u)));
            __stwb(reinterpret_cast<uint2 *>(tail + at),
                   make_uint2((pair[0] & 0xffffu) | pair[1] << 16, (pair[2] & 0xffffu) | pair[3] << 16));
        } else {
#pragma unroll
            for (int i = 0; i < FT_QUAD; i++)
                if (i < n) high[at + i] = (uint16_t)(pair[i] >> 16), tail[at + i] = (uint16_t)pair[i];
        }
    }
};

FT_DEVICE adamw_fp32 wide_of(const adamw_job &job, const ft_adamw_range &range) {
    return range.wide != nullptr ? adamw_fp32{range.wide, range.first} : adamw_fp32{(float *)job.parameter, 0};
}

// T: __half of a copy, __nv_bfloat16 of pairs.
template <class T> FT_DEVICE auto halves_of(const adamw_job &job) {
    if constexpr (std::is_same<T, __half>::value)
        return adamw_copied{(float *)job.parameter, (__half *)job.beside};
    else
        return adamw_pairs{(uint16_t *)job.parameter, (uint16_t *)job.beside};
}

// ---- the step -------------------------------------------------------------------------------------------------------

template <bool WHOLE, class P>
FT_DEVICE void adamw_quad(const adamw_job &job, const P &parameters, const adamw_factors &f, int64_t at, int n) {
    ft_quad p = parameters.template load<WHOLE>(at, n), g = ft_load_quad<WHOLE>(job.gradient + at, n);
    ft_quad m = ft_load_quad<WHOLE>(job.m + at, n), v = ft_load_quad<WHOLE>(job.v + at, n);
#pragma unroll
    for (int i = 0; i < FT_QUAD; i++) {
        const float gradient = g.v[i] * f.clip;
        m.v[i] = fmaf(gradient - m.v[i], f.toward1, m.v[i]);
        v.v[i] = fmaf(gradient * f.toward2, gradient, v.v[i] * f.beta2);
        p.v[i] = p.v[i] * f.keep - m.v[i] * f.step / (sqrtf(v.v[i]) / f.root2 + f.epsilon);
    }
    parameters.template store<WHOLE>(at, p, n);
    ft_store_quad<WHOLE>(job.m + at, m, n);
    ft_store_quad<WHOLE>(job.v + at, v, n);
}

// Elements [begin, end), by all threads of a block.
template <bool WHOLE, class P>
FT_DEVICE void adamw_piece(const adamw_job &job, const P &parameters, const adamw_factors &f, int64_t begin,
                           int64_t end) {
    int64_t at = begin + (int64_t)threadIdx.x * FT_QUAD;
    for (; at + FT_QUAD <= end; at += FT_BLOCK * FT_QUAD)
        adamw_quad<WHOLE>(job, parameters, f, at, FT_QUAD);
    if (at < end) adamw_quad<false>(job, parameters, f, at, (int)(end - at)); // of one thread
}

// WHOLE: all buffers begin at 16-byte addresses, and ranges in them with a whole quad.
template <class T, bool WHOLE> FT_KERNEL void __launch_bounds__(FT_BLOCK) adamw_kernel(adamw_job job) {
    FT_SHARED(adamw_factors, shared, 1);
    if (job.update->finite == 0) return; // the whole grid alike
    int r = 0, beyond = job.count;       // the last range whose blocks begin at or before this one
    while (beyond - r > 1) {
        const int middle = (r + beyond) / 2;
        if (job.first_block[middle] <= (int)blockIdx.x)
            r = middle;
        else
            beyond = middle;
    }
    const ft_adamw_range &range = job.range[r];
    if (threadIdx.x == 0) shared[0] = factors_of(job, range);
    __syncthreads();
    const adamw_factors f = shared[0];
    const int64_t begin = range.first + (int64_t)((int)blockIdx.x - job.first_block[r]) * ADAMW_PIECE;
    const int64_t last = range.first + range.count, end = last - begin < ADAMW_PIECE ? last : begin + ADAMW_PIECE;
    if constexpr (std::is_same<T, float>::value) {
        adamw_piece<WHOLE>(job, wide_of(job, range), f, begin, end);
    } else { // the whole block alike
        if (range.wide != nullptr)
            adamw_piece<WHOLE>(job, wide_of(job, range), f, begin, end);
        else
            adamw_piece<WHOLE>(job, halves_of<T>(job), f, begin, end);
    }
}

template <class I> static ft_status run(ft_device *device, const ft_adamw_args *a) {
    adamw_job job = {a->parameter.data,
                     a->tail != NULL ? a->tail : a->compute.data,
                     (float *)a->m.data,
                     (float *)a->v.data,
                     (const float *)a->gradient.data,
                     a->hyper,
                     a->step,
                     a->update,
                     0,
                     {},
                     {}};
    for (int32_t r = 0; r < a->range_count;) {
        int64_t blocks = 0;
        for (job.count = 0; r < a->range_count && job.count < ADAMW_RANGES; r++) {
            if (a->ranges[r].count == 0) continue;
            job.first_block[job.count] = (int)blocks;
            job.range[job.count++] = a->ranges[r];
            blocks += (a->ranges[r].count + ADAMW_PIECE - 1) / ADAMW_PIECE;
        }
        if (blocks == 0) continue;
        FT_TRY(ft_launch("adamw", adamw_kernel<typename I::type, I::WHOLE>, dim3((unsigned)blocks), dim3(FT_BLOCK), 0,
                         ft_stream(device), job));
    }
    return FT_OK;
}

ft_status ft_cuda_adamw(ft_device *device, const ft_adamw_args *args) {
    bool whole = ft_is_whole_vector(args->parameter) && ft_is_whole_vector(args->gradient) &&
                 ft_is_whole_vector(args->m) && ft_is_whole_vector(args->v) && ft_is_whole_vector(args->compute) &&
                 (uintptr_t)args->tail % 16 == 0;
    for (int32_t r = 0; r < args->range_count; r++)
        whole = whole && args->ranges[r].first % FT_QUAD == 0 && (uintptr_t)args->ranges[r].wide % 16 == 0;
    const ft_dtype type = args->compute.data != NULL ? FT_F16 : args->parameter.dtype;
    return ft_pick(type, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}

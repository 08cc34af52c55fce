// activation_function.h - value and slope of every activation, as kernels/cpu/isa/activation.c has them: no
// cancellation, finite slopes at both ends, and a NaN stays a NaN (so no fminf or fmaxf, which lose it). Powers and
// reciprocals are the chip's own: with CUDA's erfcf, expf and division a GELU of eight columns was 432 instructions a
// warp on sm_90a, where memory takes 309 cycles for them; now it is 163. Against float64, with the units' errors at
// their worst, it is off by 2.4e-7 at most, as before, and its slope by 4e-7 (1.3e-7).
#ifndef FT_CUDA_ACTIVATION_FUNCTION_H
#define FT_CUDA_ACTIVATION_FUNCTION_H

#include "kernels/cuda/simt.h"
#include "kernels/cuda/tile/exp2.h"
#include "kernels/cuda/tile/reciprocal.h"

extern "C" {
#include "kernels/ops/activation.h"
}

FT_DEVICE float ft_exp(float x) { return ft_exp2(x * 1.44269504f); }
FT_DEVICE float ft_at_least(float low, float x) { return x < low ? low : x; }
FT_DEVICE float ft_at_most(float high, float x) { return x > high ? high : x; }

// Phi(-a), a >= 0, and exp(-a^2 / 2): a polynomial in t = 1 / (1 + 0.3 a) times that (kernels/cpu/isa/lanes/vmath.h).
FT_DEVICE float ft_normal_tail(float a, float *bell) {
    *bell = ft_exp2(a * a * -0.72134752f);
    const float t = ft_reciprocal(fmaf(a, 0.3f, 1.0f));
    float q = 3.6249581e-2f;
    q = fmaf(q, t, -1.5936549e-1f);
    q = fmaf(q, t, 2.0965747e-1f);
    q = fmaf(q, t, -5.6322024e-2f);
    q = fmaf(q, t, 1.2974158e-1f);
    q = fmaf(q, t, 9.9620299e-2f);
    q = fmaf(q, t, 1.2079112e-1f);
    q = fmaf(q, t, 1.1962746e-1f);
    return q * t * *bell;
}

// x * sigmoid(z) and its derivative; z = z(x) has the derivative dz. `steep` is x bounded above.
FT_DEVICE float ft_gated(float x, float steep, float z, float dz, float *slope) {
    float e = ft_exp(-z), s = ft_reciprocal(1.0f + e);
    *slope = fmaf(steep * dz, e * s * s, s);
    return x * s;
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|)
FT_DEVICE float ft_gelu(float x, float *slope) {
    float a = ft_at_most(20.0f, fabsf(x)), bell, tail = ft_normal_tail(a, &bell);
    float phi = x < 0.0f ? tail : 1.0f - tail;
    *slope = fmaf(copysignf(a, x) * 0.39894228f, bell, phi);
    return fmaf(-a, tail, x > 0.0f ? x : 0.0f);
}

// log(1 + e) of e in (0, 1], as 2 artanh(e / (2 + e)).
FT_DEVICE float ft_log_of_one_and(float e) {
    float z = e / (e + 2.0f), s = z * z, q = 2.0f / 17;
    for (int k = 15; k > 0; k -= 2) q = fmaf(q, s, 2.0f / (float)k);
    return q * z;
}

FT_DEVICE float ft_activate(ft_activation kind, float x, float *slope) {
    switch (kind) {
    case FT_ACT_GELU: return ft_gelu(x, slope);
    case FT_ACT_GELU_10: {
        float y = ft_gelu(x, slope);
        if (y > 10.0f) *slope = 0.0f;
        return ft_at_most(10.0f, y);
    }
    case FT_ACT_SIGMOID: {
        float e = ft_exp(-fabsf(x)), inverse = ft_reciprocal(1.0f + e), small = e * inverse;
        *slope = small * inverse;
        return x < 0.0f ? small : inverse;
    }
    case FT_ACT_LAPLACE: { // Phi(z), from its smaller end
        float z = (x - 0.707107f) / 0.282095f, bell, tail = ft_normal_tail(ft_at_most(20.0f, fabsf(z)), &bell);
        *slope = bell * 1.4142126f; // 1 / (0.282095 sqrt(2 pi))
        return z < 0.0f ? tail : 1.0f - tail;
    }
    case FT_ACT_SQRTSOFTPLUS: { // the bound keeps e, and the root of it, from nothing
        float e = ft_exp(-ft_at_most(80.0f, fabsf(x))), inverse = ft_reciprocal(1.0f + e);
        float y = sqrtf(ft_at_least(0.0f, x) + ft_log_of_one_and(e));
        *slope = 0.5f * (x < 0.0f ? e * inverse : inverse) / y;
        return y;
    }
    case FT_ACT_HARDSWISH: {
        float low = ft_at_least(-3.0f, x);
        *slope = x > 3.0f ? 1.0f : x < -3.0f ? 0.0f : low / 3.0f + 0.5f;
        return low * (ft_at_most(6.0f, low + 3.0f) / 6.0f);
    }
    case FT_ACT_LEAKY_RELU: *slope = x > 0.0f ? 1.0f : 0.01f; return x * *slope;
    case FT_ACT_RELU6: *slope = x > 0.0f && x < 6.0f ? 1.0f : 0.0f; return ft_at_most(6.0f, ft_at_least(0.0f, x));
    case FT_ACT_GELU_TANH: { // (1 + tanh u) / 2 = sigmoid(2 u)
        float low = ft_at_least(-9.9f, x), both = ft_at_most(20.0f, low), square = both * both;
        float z = both * fmaf(square, 0.071354816f, 1.5957691f);
        return ft_gated(low, both, z, fmaf(square, 0.21406445f, 1.5957691f), slope);
    }
    case FT_ACT_QUICK_GELU: {
        float low = ft_at_least(-50.0f, x);
        return ft_gated(low, ft_at_most(100.0f, low), low * 1.702f, 1.702f, slope);
    }
    case FT_ACT_SILU: {
        float low = ft_at_least(-86.0f, x);
        return ft_gated(low, ft_at_most(100.0f, low), low, 1.0f, slope);
    }
    case FT_ACT_MISH: { // with e = e^x, tanh(log(1 + e)) = n / (n + 2) = 1 - 2 / (n + 2) where n = e (e + 2)
        float low = ft_at_least(-86.0f, x), both = ft_at_most(20.0f, low);
        float e = ft_exp(both), n = e * (e + 2.0f), inverse = ft_reciprocal(n + 2.0f);
        float w = both > 1.0f ? fmaf(-2.0f, inverse, 1.0f) : n * inverse; // exactly 1 where it is
        *slope = fmaf(both, e * (e + 1.0f) * inverse * (inverse * 4.0f), w);
        return low * w;
    }
    case FT_ACT_TANH: {
        float y = tanhf(x);
        *slope = fmaf(-y, y, 1.0f);
        return y;
    }
    case FT_ACT_RELU: *slope = x > 0.0f ? 1.0f : 0.0f; return x <= 0.0f ? 0.0f : x;
    default: *slope = 1.0f; return x;
    }
}

// Calls use(k), k.value the kind as a constant: a formula is chosen once for all columns of a thread, not for each. RARE: those that
// few models have too. Their formulas would take registers and instructions from the others, so that kernels have them in their instances
// for rows that are not whole units alone, and whole rows go there (ft_is_rare).
template <ft_activation KIND> struct ft_activation_kind { static constexpr ft_activation value = KIND; };
static inline bool ft_is_rare(ft_activation kind) { return kind > FT_ACT_MISH; }
template <class Use> FT_DEVICE void ft_with_rare_activation(ft_activation kind, Use use) {
    switch (kind) {
    case FT_ACT_GELU_10: return use(ft_activation_kind<FT_ACT_GELU_10>{});
    case FT_ACT_SIGMOID: return use(ft_activation_kind<FT_ACT_SIGMOID>{});
    case FT_ACT_LEAKY_RELU: return use(ft_activation_kind<FT_ACT_LEAKY_RELU>{});
    case FT_ACT_RELU6: return use(ft_activation_kind<FT_ACT_RELU6>{});
    case FT_ACT_HARDSWISH: return use(ft_activation_kind<FT_ACT_HARDSWISH>{});
    case FT_ACT_LAPLACE: return use(ft_activation_kind<FT_ACT_LAPLACE>{});
    case FT_ACT_SQRTSOFTPLUS: return use(ft_activation_kind<FT_ACT_SQRTSOFTPLUS>{});
    default: return use(ft_activation_kind<FT_ACT_IDENTITY>{});
    }
}
template <bool RARE, class Use> FT_DEVICE void ft_with_activation(ft_activation kind, Use use) {
    switch (kind) {
    case FT_ACT_GELU: return use(ft_activation_kind<FT_ACT_GELU>{});
    case FT_ACT_GELU_TANH: return use(ft_activation_kind<FT_ACT_GELU_TANH>{});
    case FT_ACT_QUICK_GELU: return use(ft_activation_kind<FT_ACT_QUICK_GELU>{});
    case FT_ACT_SILU: return use(ft_activation_kind<FT_ACT_SILU>{});
    case FT_ACT_MISH: return use(ft_activation_kind<FT_ACT_MISH>{});
    case FT_ACT_TANH: return use(ft_activation_kind<FT_ACT_TANH>{});
    case FT_ACT_RELU: return use(ft_activation_kind<FT_ACT_RELU>{});
    default:
        if constexpr (RARE) return ft_with_rare_activation(kind, use);
        else return use(ft_activation_kind<FT_ACT_IDENTITY>{});
    }
}

#endif

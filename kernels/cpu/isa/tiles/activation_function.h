// activation_function.h - value and slope of every activation, of 16 lanes. One function gives both, so that a value recomputed in the
// backward pass has the bits of the forward's.
#ifndef FT_CPU_ACTIVATION_FUNCTION_H
#define FT_CPU_ACTIVATION_FUNCTION_H

#include "kernels/cpu/isa/lanes/vmath.h"
#include "kernels/ops/activation.h"

// x * sigmoid(z) and its derivative, where z = z(x) has the derivative dz. x and z must be bounded below so that e^-z
// is finite; steep is x bounded above too, because infinity times 0 is no slope.
FT_VMATH v16 by_sigmoid(v16 x, v16 steep, v16 z, v16 dz, v16 *slope) {
    v16 one = v_set1(1.0f), e = v_exp(v_neg(z));
    v16 s = v_div(one, v_add(one, e));
    v16 s_times_rest = v_mul(v_mul(e, s), s); // s (1 - s) without cancellation
    *slope = v_fma(v_mul(steep, dz), s_times_rest, s);
    return v_mul(x, s);
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation, and one rounding near the end.
FT_VMATH v16 gelu_value(v16 x, v16 *slope) {
    v16 zero = v_zero(), a = v_min(v_set1(20.0f), v_abs(x)), bell;
    v16 tail = v_normal_tail(a, &bell);
    v16 phi = v_select(v_lt(x, zero), tail, v_sub(v_set1(1.0f), tail));
    *slope = v_fma(v_mul(v_copysign(a, x), v_set1(0.39894228f)), bell, phi);
    return v_fnma(a, tail, v_max(zero, x));
}

// Of e^-|x| in (0, 1]: log(1 + e) = 2 artanh(e / (2 + e)), whose series is short as that is at most 1/3.
FT_VMATH v16 log_of_one_and(v16 e) {
    v16 z = v_div(e, v_add(e, v_set1(2.0f))), s = v_mul(z, z);
    v16 q = v_set1(2.0f / 17);
    for (int k = 15; k > 0; k -= 2) q = v_fma(q, s, v_set1(2.0f / (float)k));
    return v_mul(q, z);
}

FT_VMATH v16 activation_value(ft_activation kind, v16 x, v16 *slope) {
    v16 zero = v_zero(), one = v_set1(1.0f);
    switch (kind) {
    case FT_ACT_GELU: return gelu_value(x, slope);
    case FT_ACT_GELU_10: {
        v16 ten = v_set1(10.0f), y = gelu_value(x, slope);
        *slope = v_select(v_gt(y, ten), zero, *slope);
        return v_min(ten, y);
    }
    case FT_ACT_SIGMOID: {
        v16 e = v_exp(v_neg(v_abs(x))), inverse = v_div(one, v_add(one, e)), small = v_mul(e, inverse);
        *slope = v_mul(small, inverse);
        return v_select(v_lt(x, zero), small, inverse);
    }
    case FT_ACT_LAPLACE: { // Phi(z), from its smaller end
        v16 z = v_div(v_sub(x, v_set1(0.707107f)), v_set1(0.282095f)), bell;
        v16 tail = v_normal_tail(v_min(v_set1(20.0f), v_abs(z)), &bell);
        *slope = v_mul(bell, v_set1(1.4142126f)); // 1 / (0.282095 sqrt(2 pi))
        return v_select(v_lt(z, zero), tail, v_sub(one, tail));
    }
    case FT_ACT_SQRTSOFTPLUS: { // the bound keeps e, and the root of it, from nothing
        v16 e = v_exp(v_neg(v_min(v_set1(80.0f), v_abs(x)))), inverse = v_div(one, v_add(one, e));
        v16 y = v_sqrt(v_add(v_max(zero, x), log_of_one_and(e)));
        *slope = v_div(v_mul(v_set1(0.5f), v_select(v_lt(x, zero), v_mul(e, inverse), inverse)), y);
        return y;
    }
    case FT_ACT_HARDSWISH: {
        v16 three = v_set1(3.0f), low = v_max(v_set1(-3.0f), x);
        v16 gate = v_div(v_min(v_set1(6.0f), v_add(low, three)), v_set1(6.0f));
        *slope = v_select(v_gt(x, three), one, v_select(v_lt(x, v_set1(-3.0f)), zero, v_add(v_div(low, three), v_set1(0.5f))));
        return v_mul(low, gate);
    }
    case FT_ACT_LEAKY_RELU: {
        v16 few = v_set1(0.01f), positive = v_select(v_gt(x, zero), one, few);
        *slope = positive;
        return v_mul(x, positive);
    }
    case FT_ACT_RELU6: {
        v16 six = v_set1(6.0f);
        *slope = v_select(v_gt(x, zero), v_select(v_lt(x, six), one, zero), zero);
        return v_min(six, v_max(zero, x));
    }
    case FT_ACT_GELU_TANH: { // (1 + tanh u) / 2 = sigmoid(2 u)
        v16 low = v_max(v_set1(-9.9f), x), both = v_min(v_set1(20.0f), low), square = v_mul(both, both);
        v16 z = v_mul(both, v_fma(square, v_set1(0.071354816f), v_set1(1.5957691f)));
        v16 dz = v_fma(square, v_set1(0.21406445f), v_set1(1.5957691f));
        return by_sigmoid(low, both, z, dz, slope);
    }
    case FT_ACT_QUICK_GELU: {
        v16 low = v_max(v_set1(-50.0f), x), factor = v_set1(1.702f);
        return by_sigmoid(low, v_min(v_set1(100.0f), low), v_mul(low, factor), factor, slope);
    }
    case FT_ACT_SILU: {
        v16 low = v_max(v_set1(-86.0f), x);
        return by_sigmoid(low, v_min(v_set1(100.0f), low), low, one, slope);
    }
    case FT_ACT_MISH: { // with e = e^x, tanh(log(1 + e)) = n / (n + 2) where n = e (e + 2)
        v16 low = v_max(v_set1(-86.0f), x), both = v_min(v_set1(20.0f), low), two = v_set1(2.0f);
        v16 e = v_exp(both), n = v_mul(e, v_add(e, two)), inverse = v_div(one, v_add(n, two));
        v16 w = v_mul(n, inverse);
        v16 rest = v_mul(v_mul(v_mul(e, v_add(e, one)), inverse), v_mul(inverse, v_set1(4.0f)));
        *slope = v_fma(both, rest, w);
        return v_mul(low, w);
    }
    case FT_ACT_TANH: {
        v16 y = v_tanh(x);
        *slope = v_fnma(y, y, one);
        return y;
    }
    case FT_ACT_RELU: *slope = v_select(v_gt(x, zero), one, zero); return v_max(zero, x);
    default: *slope = one; return x;
    }
}

#endif

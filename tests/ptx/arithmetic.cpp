// arithmetic.cpp - what lanes reckon by themselves: "Integer Arithmetic", "Floating Point", "Comparison and Selection", "Logic and
// Shift Instructions".
#include "tests/ptx/parse.h"

#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace ptx {
namespace {

// How a value of type T lies in a register's lane.
template <class T> using stored = typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;
template <class T> inline T get(stored<T> s) {
    if constexpr (sizeof(T) == sizeof(stored<T>)) return bit_cast<T>(s);
    else return T(s);
}
template <class T> inline stored<T> put(T value) {
    if constexpr (sizeof(T) == sizeof(stored<T>)) return bit_cast<stored<T>>(value);
    else return stored<T>(uint16_t(value));
}

template <class T, class F> void unary(warp &w, const instruction &i, uint32_t lanes) {
    auto *d = w.lanes_of<stored<T>>(i.to.slot);
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot);
    each(lanes, [=](int l) { d[l] = put<T>(F()(get<T>(a[l]))); });
}
template <class T, class F> void binary(warp &w, const instruction &i, uint32_t lanes) {
    auto *d = w.lanes_of<stored<T>>(i.to.slot);
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot), *b = w.lanes_of<stored<T>>(i.from[1].slot);
    each(lanes, [=](int l) { d[l] = put<T>(F()(get<T>(a[l]), get<T>(b[l]))); });
}
template <class T, class F> void ternary(warp &w, const instruction &i, uint32_t lanes) {
    auto *d = w.lanes_of<stored<T>>(i.to.slot);
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot), *b = w.lanes_of<stored<T>>(i.from[1].slot),
               *c = w.lanes_of<stored<T>>(i.from[2].slot);
    each(lanes, [=](int l) { d[l] = put<T>(F()(get<T>(a[l]), get<T>(b[l]), get<T>(c[l]))); });
}

// ---- functions -----------------------------------------------------------------------------------------------------------

template <class T> using bits_type = typename std::conditional<std::is_floating_point<T>::value, T, typename std::make_unsigned<typename std::conditional<std::is_floating_point<T>::value, int, T>::type>::type>::type;
template <class T> T wrap(bits_type<T> x) { return T(x); } // integers wrap around
struct add_ { template <class T> T operator()(T a, T b) { return wrap<T>(bits_type<T>(a) + bits_type<T>(b)); } };
struct sub_ { template <class T> T operator()(T a, T b) { return wrap<T>(bits_type<T>(a) - bits_type<T>(b)); } };
struct mul_ {
    template <class T> T operator()(T a, T b) {
        if constexpr (std::is_floating_point<T>::value) return a * b;
        else return T(uint64_t(a) * uint64_t(b));
    }
};
struct mul_hi_ { template <class T> T operator()(T a, T b) {
    using W = typename std::conditional<std::is_signed<T>::value, __int128, unsigned __int128>::type;
    return T(W(a) * W(b) >> 8 * sizeof(T));
} };
struct mad_ { template <class T> T operator()(T a, T b, T c) { return T(uint64_t(a) * uint64_t(b) + uint64_t(c)); } };
struct div_ {
    template <class T> T operator()(T a, T b) {
        if constexpr (!std::is_floating_point<T>::value) {
            if (b == 0) fail("division by zero");
            if (std::is_signed<T>::value && b == T(-1)) return T(0 - uint64_t(a));
        }
        return a / b;
    }
};
struct rem_ { template <class T> T operator()(T a, T b) {
    if (b == 0) fail("division by zero");
    return std::is_signed<T>::value && b == T(-1) ? T(0) : T(a % b);
} };
struct and_ { template <class T> T operator()(T a, T b) { return T(a & b); } };
struct or_ { template <class T> T operator()(T a, T b) { return T(a | b); } };
struct xor_ { template <class T> T operator()(T a, T b) { return T(a ^ b); } };
struct not_ { template <class T> T operator()(T a) { return T(~a); } };
// Of floats the sign alone, whatever else is there.
struct neg_ {
    template <class T> T operator()(T a) {
        if constexpr (std::is_floating_point<T>::value) return -a;
        else return T(0 - uint64_t(a));
    }
};
struct abs_ {
    template <class T> T operator()(T a) {
        if constexpr (std::is_floating_point<T>::value) return std::fabs(a);
        else return a < 0 ? T(0 - uint64_t(a)) : a;
    }
};
// "If one of the arguments is NaN, the result is the other; +0.0 > -0.0."
struct max_ {
    template <class T> T operator()(T a, T b) {
        if constexpr (std::is_floating_point<T>::value) {
            if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? (std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b) : a;
            if (a == b) return std::signbit(a) ? b : a;
        }
        return a > b ? a : b;
    }
};
struct min_ {
    template <class T> T operator()(T a, T b) {
        if constexpr (std::is_floating_point<T>::value) {
            if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? (std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b) : a;
            if (a == b) return std::signbit(a) ? a : b;
        }
        return a < b ? a : b;
    }
};
struct copysign_ { template <class T> T operator()(T a, T b) { return std::copysign(b, a); } }; // the sign of a, the rest of b
struct fma_ { template <class T> T operator()(T a, T b, T c) { return std::fma(a, b, c); } };
struct fma_down_ { template <class T> T operator()(T a, T b, T c) {
    const int before = fegetround();
    fesetround(FE_DOWNWARD);
    volatile T x = a, y = b, z = c;
    volatile T result = std::fma(x, y, z);
    fesetround(before);
    return result;
} };
struct sqrt_ { template <class T> T operator()(T a) { return std::sqrt(a); } };
struct rcp_ { template <class T> T operator()(T a) { return T(1) / a; } };

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
// ex2.approx.ftz and rcp.approx.ftz may be off by two units and by one in the last place; here they are the nearest numbers, as the tests' bounds
// have it.
struct ex2_ { float operator()(float a) { return flushed(float(std::exp2(double(flushed(a))))); } };
struct rcp_approx_ {
    float operator()(float a) { return flushed(1.0f / flushed(a)); }
    // "the upper 32 bits of the source; the lower ones of the result are 0": about 20 bits are right, as they are for a refinement to begin with.
    double operator()(double a) {
        const uint64_t high = 0xffffffff00000000;
        const double x = bit_cast<double>(bit_cast<uint64_t>(a) & high);
        return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(INFINITY, x) : bit_cast<double>(bit_cast<uint64_t>(1.0 / x) & high);
    }
};

// ---- shifts, fields ------------------------------------------------------------------------------------------------------

// Amounts are of 32 bits and clamped to the register's width.
template <class T, bool LEFT> void shift(warp &w, const instruction &i, uint32_t lanes) {
    auto *d = w.lanes_of<stored<T>>(i.to.slot);
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot);
    const uint32_t *b = w.lanes_of<uint32_t>(i.from[1].slot);
    const uint32_t width = 8 * sizeof(T);
    each(lanes, [=](int l) {
        const T x = get<T>(a[l]), past = !LEFT && std::is_signed<T>::value && x < 0 ? T(-1) : T(0);
        const uint32_t by = b[l] & (width - 1);
        const T shifted = LEFT ? T(stored<T>(x) << by) : T(x >> by);
        d[l] = put<T>(b[l] >= width ? past : shifted);
    });
}

// Multiplication to twice the width, and with an addend of that.
template <class T, bool ADDS> void wide(warp &w, const instruction &i, uint32_t lanes) {
    using W = typename std::conditional<sizeof(T) == 2, typename std::conditional<std::is_signed<T>::value, int32_t, uint32_t>::type,
                                        typename std::conditional<std::is_signed<T>::value, int64_t, uint64_t>::type>::type;
    auto *d = w.lanes_of<stored<W>>(i.to.slot);
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot), *b = w.lanes_of<stored<T>>(i.from[1].slot);
    const auto *c = ADDS ? w.lanes_of<stored<W>>(i.from[2].slot) : nullptr;
    each(lanes, [=](int l) {
        uint64_t product = uint64_t(W(get<T>(a[l])) * W(get<T>(b[l])));
        if (ADDS) product += uint64_t(get<W>(c[l]));
        d[l] = put<W>(W(product));
    });
}

void bfi(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t a = w.bits(i.from[0], l), b = w.bits(i.from[1], l), at = w.bits(i.from[2], l) & 255, length = w.bits(i.from[3], l) & 255;
        const uint64_t width = uint64_t(i.to.bits);
        const uint64_t ones = length >= 64 ? ~0ull : (1ull << length) - 1, mask = at >= width ? 0 : ones << at;
        w.put(i.to, l, (b & ~mask) | ((at >= 64 ? 0 : a << at) & mask));
    }
}
void bfe(warp &w, const instruction &i, uint32_t lanes) { // unsigned
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t a = w.bits(i.from[0], l), at = w.bits(i.from[1], l) & 255, length = w.bits(i.from[2], l) & 255;
        w.put(i.to, l, (at >= 64 ? 0 : a >> at) & (length >= 64 ? ~0ull : (1ull << length) - 1));
    }
}
// The default mode: four bytes of eight, or their signs.
void prmt(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t all = w.bits(i.from[0], l) | w.bits(i.from[1], l) << 32, which = w.bits(i.from[2], l);
        uint32_t result = 0;
        for (int n = 0; n < 4; n++) {
            const unsigned one = which >> 4 * n & 15;
            uint32_t byte = all >> 8 * (one & 7) & 255;
            if (one & 8) byte = byte & 128 ? 255 : 0;
            result |= byte << 8 * n;
        }
        w.put(i.to, l, result);
    }
}

// ---- predicates ----------------------------------------------------------------------------------------------------------

enum compare { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_ };
template <class T> inline bool is_unordered(T a, T b) {
    if constexpr (std::is_floating_point<T>::value) return std::isnan(a) || std::isnan(b);
    else return false;
}
template <int HOW, class T> inline bool holds(T a, T b) {
    switch (HOW) {
    case EQ: return a == b;
    case NE: return a != b && !is_unordered(a, b);
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    case GE: return a >= b;
    case EQU: return a == b || is_unordered(a, b);
    case NEU: return a != b || is_unordered(a, b);
    case LTU: return a < b || is_unordered(a, b);
    case LEU: return a <= b || is_unordered(a, b);
    case GTU: return a > b || is_unordered(a, b);
    case GEU: return a >= b || is_unordered(a, b);
    case NUM: return !is_unordered(a, b);
    default: return is_unordered(a, b);
    }
}
// (All lanes are compared: a predicate has one bit of each.)
template <class T, int HOW> void setp(warp &w, const instruction &i, uint32_t lanes) {
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot), *b = w.lanes_of<stored<T>>(i.from[1].slot);
    uint32_t result = 0;
    for (int l = 0; l < WARP; l++)
        result |= uint32_t(holds<HOW>(get<T>(a[l]), get<T>(b[l]))) << l;
    uint32_t &d = *w.lanes_of<uint32_t>(i.to.slot);
    d = (d & ~lanes) | (result & lanes);
}
template <class F> void predicates(warp &w, const instruction &i, uint32_t lanes) {
    const uint32_t a = w.predicate(i.from[0]), b = i.from[1].slot < 0 ? 0 : w.predicate(i.from[1]);
    uint32_t &d = *w.lanes_of<uint32_t>(i.to.slot);
    d = (d & ~lanes) | (F()(a, b) & lanes);
}
struct first_ { uint32_t operator()(uint32_t a, uint32_t) { return a; } };
struct negated_ { uint32_t operator()(uint32_t a, uint32_t) { return ~a; } };

template <class T, class F> void selp(warp &w, const instruction &i, uint32_t lanes) {
    auto *d = w.lanes_of<stored<T>>(i.to.slot);
    const auto *a = w.lanes_of<stored<T>>(i.from[0].slot), *b = w.lanes_of<stored<T>>(i.from[1].slot);
    const uint32_t p = w.predicate(i.from[2]);
    each(lanes, [=](int l) { d[l] = p >> l & 1 ? a[l] : b[l]; });
}

// ---- choosing by type ----------------------------------------------------------------------------------------------------

#define FT_INTEGERS(WHAT, ...)                                                                                         \
    switch (t) {                                                                                                       \
    case type::S16: return WHAT<int16_t, ##__VA_ARGS__>;                                                               \
    case type::U16: case type::B16: return WHAT<uint16_t, ##__VA_ARGS__>;                                              \
    case type::S32: return WHAT<int32_t, ##__VA_ARGS__>;                                                               \
    case type::U32: case type::B32: return WHAT<uint32_t, ##__VA_ARGS__>;                                              \
    case type::S64: return WHAT<int64_t, ##__VA_ARGS__>;                                                               \
    case type::U64: case type::B64: return WHAT<uint64_t, ##__VA_ARGS__>;                                              \
    default: break;                                                                                                    \
    }
#define FT_FLOATS(WHAT, ...)                                                                                           \
    switch (t) {                                                                                                       \
    case type::F32: return WHAT<float, ##__VA_ARGS__>;                                                                 \
    case type::F64: return WHAT<double, ##__VA_ARGS__>;                                                                \
    default: break;                                                                                                    \
    }
template <class F> handler integers2(type t) { FT_INTEGERS(binary, F) return nullptr; }
template <class F> handler floats2(type t) { FT_FLOATS(binary, F) return nullptr; }
template <class F> handler any2(type t) { FT_INTEGERS(binary, F) FT_FLOATS(binary, F) return nullptr; }
template <class F> handler integers1(type t) { FT_INTEGERS(unary, F) return nullptr; }
template <class F> handler floats1(type t) { FT_FLOATS(unary, F) return nullptr; }
template <class F> handler any1(type t) { FT_INTEGERS(unary, F) FT_FLOATS(unary, F) return nullptr; }
template <class F> handler integers3(type t) { FT_INTEGERS(ternary, F) return nullptr; }
template <class F> handler floats3(type t) { FT_FLOATS(ternary, F) return nullptr; }
template <int HOW> handler setp_of(type t) { FT_INTEGERS(setp, HOW) FT_FLOATS(setp, HOW) return nullptr; }
handler any_setp(int how, type t) {
    static constexpr handler (*of[])(type) = {setp_of<EQ>, setp_of<NE>, setp_of<LT>, setp_of<LE>, setp_of<GT>, setp_of<GE>, setp_of<EQU>,
                                              setp_of<NEU>, setp_of<LTU>, setp_of<LEU>, setp_of<GTU>, setp_of<GEU>, setp_of<NUM>, setp_of<NAN_>};
    return how < 0 ? nullptr : of[how](t);
}
handler any_selp(type t) { FT_INTEGERS(selp, void) FT_FLOATS(selp, void) return nullptr; }
template <bool LEFT> handler any_shift(type t) { FT_INTEGERS(shift, LEFT) return nullptr; }
template <bool ADDS> handler any_wide(type t) {
    switch (t) {
    case type::S16: return wide<int16_t, ADDS>;
    case type::U16: return wide<uint16_t, ADDS>;
    case type::S32: return wide<int32_t, ADDS>;
    case type::U32: return wide<uint32_t, ADDS>;
    default: return nullptr;
    }
}

int compare_of(const std::string &name) {
    static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    for (int n = 0; n < 14; n++)
        if (name == names[n]) return n;
    return -1;
}

// What the table below leaves to the type: names of modifiers that have no effect here, since results are rounded to nearest anyway.
bool only(const statement &s, std::initializer_list<const char *> known) {
    for (size_t n = 1; n + 1 < s.parts.size(); n++) {
        bool found = false;
        for (const char *name : known)
            found |= s.parts[n] == name;
        if (!found) return false;
    }
    return true;
}

handler function_of(const statement &s, int *arguments) {
    const std::string &op = s.parts[0];
    const type t = s.last();
    const bool is_float = t == type::F32 || t == type::F64;
    *arguments = 2;
    if (op == "add" && only(s, {"rn"})) return any2<add_>(t);
    if (op == "sub" && only(s, {"rn"})) return any2<sub_>(t);
    if (op == "mul" && (is_float ? only(s, {"rn"}) : only(s, {"lo"}))) return any2<mul_>(t);
    if (op == "mul" && only(s, {"hi"})) return integers2<mul_hi_>(t);
    if (op == "div" && (is_float ? s.has("rn") && only(s, {"rn"}) : only(s, {}))) return any2<div_>(t);
    if (op == "rem" && only(s, {})) return integers2<rem_>(t);
    if (op == "and" && only(s, {})) return integers2<and_>(t);
    if (op == "or" && only(s, {})) return integers2<or_>(t);
    if (op == "xor" && only(s, {})) return integers2<xor_>(t);
    if (op == "min" && only(s, {})) return any2<min_>(t);
    if (op == "max" && only(s, {})) return any2<max_>(t);
    if (op == "copysign" && only(s, {})) return floats2<copysign_>(t);
    *arguments = 3;
    if (op == "mad" && only(s, {"lo"})) return integers3<mad_>(t);
    if (op == "fma" && s.has("rn") && only(s, {"rn"})) return floats3<fma_>(t);
    if (op == "fma" && s.has("rm") && only(s, {"rm"})) return floats3<fma_down_>(t);
    *arguments = 1;
    if (op == "not" && only(s, {})) return integers1<not_>(t);
    if (op == "neg" && only(s, {})) return any1<neg_>(t);
    if (op == "abs" && only(s, {})) return any1<abs_>(t);
    if (op == "sqrt" && s.has("rn") && only(s, {"rn"})) return floats1<sqrt_>(t);
    if (op == "rcp" && s.has("rn") && only(s, {"rn"})) return floats1<rcp_>(t);
    if (op == "rcp" && s.has("approx") && s.has("ftz") && only(s, {"approx", "ftz"})) return floats1<rcp_approx_>(t);
    if (op == "ex2" && s.has("approx") && s.has("ftz") && t == type::F32) return unary<float, ex2_>;
    return nullptr;
}

handler predicate_function(const std::string &op) {
    if (op == "and") return predicates<and_>;
    if (op == "or") return predicates<or_>;
    if (op == "xor") return predicates<xor_>;
    if (op == "not") return predicates<negated_>;
    if (op == "mov") return predicates<first_>;
    return nullptr;
}

} // namespace

bool decode_arithmetic(reader &r, const statement &s, instruction &i) {
    const std::string &op = s.parts[0];
    const type t = s.last();
    i.value = t;
    int arguments = 0;
    if (t == type::PRED && (i.run = predicate_function(op)) != nullptr) {
        i.to = target(r, s.operands.at(0), t);
        for (size_t n = 1; n < s.operands.size(); n++)
            i.from[n - 1] = source(r, s.operands[n], t);
    } else if (op == "setp" && s.parts.size() == 3 && (i.run = any_setp(compare_of(s.parts[1]), t)) != nullptr) {
        i.to = target(r, s.operands.at(0), type::PRED);
        for (size_t n = 0; n < 2; n++)
            i.from[n] = source(r, s.operands.at(n + 1), t);
    } else if (op == "selp" && s.parts.size() == 2 && (i.run = any_selp(t)) != nullptr) {
        i.to = target(r, s.operands.at(0), t);
        for (size_t n = 0; n < 3; n++)
            i.from[n] = source(r, s.operands.at(n + 1), n == 2 ? type::PRED : t);
    } else if ((op == "shl" || op == "shr") && s.parts.size() == 2 && (i.run = op == "shl" ? any_shift<true>(t) : any_shift<false>(t)) != nullptr) {
        i.to = target(r, s.operands.at(0), t);
        i.from[0] = source(r, s.operands.at(1), t);
        i.from[1] = source(r, s.operands.at(2), type::U32);
    } else if ((op == "mul" || op == "mad") && s.has("wide") && (i.run = op == "mul" ? any_wide<false>(t) : any_wide<true>(t)) != nullptr) {
        const type twice = t == type::S16 ? type::S32 : t == type::U16 ? type::U32 : t == type::S32 ? type::S64 : type::U64;
        i.to = target(r, s.operands.at(0), twice);
        for (size_t n = 0; n < (op == "mul" ? 2u : 3u); n++)
            i.from[n] = source(r, s.operands.at(n + 1), n == 2 ? twice : t);
    } else if ((op == "bfi" && t == type::B32) || (op == "bfe" && t == type::U32) || (op == "prmt" && t == type::B32 && s.parts.size() == 2)) {
        i.run = op == "bfi" ? bfi : op == "bfe" ? bfe : prmt;
        i.to = target(r, s.operands.at(0), t);
        for (size_t n = 1; n < s.operands.size(); n++)
            i.from[n - 1] = source(r, s.operands[n], type::U32);
    } else if (s.parts.size() > 1 && t != type::NONE && (i.run = function_of(s, &arguments)) != nullptr) {
        if (s.operands.size() != size_t(arguments) + 1) fail("%zu operands", s.operands.size());
        i.to = target(r, s.operands[0], t);
        for (int n = 0; n < arguments; n++)
            i.from[n] = source(r, s.operands[size_t(n) + 1], t);
    } else {
        return false;
    }
    return true;
}

} // namespace ptx

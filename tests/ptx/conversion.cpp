// conversion.cpp - cvt, mov, cvta: "Data Movement and Conversion Instructions".
#include "tests/ptx/parse.h"

#include <algorithm>
#include <cmath>

namespace ptx {

// IEEE's half precision, by its own text: 1 sign, 5 bits of exponent, 10 of fraction.
static float half_number(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float magnitude = exponent == 31 ? (fraction != 0 ? NAN : INFINITY) : exponent == 0 ? std::ldexp(float(fraction), -24) : std::ldexp(float(1024 + fraction), exponent - 25);
    return h >> 15 ? -magnitude : magnitude;
}
float of_f16(uint16_t h) {
    static const std::vector<float> all = [] {
        std::vector<float> numbers(1 << 16);
        for (size_t n = 0; n < numbers.size(); n++)
            numbers[n] = half_number(uint16_t(n));
        return numbers;
    }();
    return all[h];
}
// To the nearest, ties to even. Every NaN is the canonical one: 0x7fff.
uint16_t to_f16(float x) {
    const uint16_t sign = uint16_t(bit_cast<uint32_t>(x) >> 16 & 0x8000);
    const double a = std::fabs(double(x));
    if (std::isnan(x)) return 0x7fff;
    if (a >= 65520) return uint16_t(sign | 0x7c00);
    int exponent;
    std::frexp(a, &exponent);
    if (a < std::ldexp(1.0, -14)) return uint16_t(sign | uint16_t(std::nearbyint(std::ldexp(a, 24)))); // 1024 is the least normal one
    const double scaled = std::nearbyint(std::ldexp(a, 11 - exponent));                                 // 1024 to 2048
    return uint16_t(sign | uint16_t((exponent + 14 - 1) * 1024 + int(scaled)));
}
uint16_t to_bf16(float x) {
    if (std::isnan(x)) return 0x7fff;
    const uint32_t bits = bit_cast<uint32_t>(x);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

namespace {

bool is_float(type t) { return t == type::F16 || t == type::BF16 || t == type::F32 || t == type::F64; }
bool is_signed(type t) { return t == type::S8 || t == type::S16 || t == type::S32 || t == type::S64; }

double number_of(uint64_t bits, type t) {
    switch (t) {
    case type::F16: return of_f16(uint16_t(bits));
    case type::BF16: return of_bf16(uint16_t(bits));
    case type::F32: return bit_cast<float>(uint32_t(bits));
    default: return bit_cast<double>(bits);
    }
}
int64_t integer_of(uint64_t bits, type t) { // extended as the type says
    const int width = 8 * bytes_of(t);
    if (width == 64) return int64_t(bits);
    const uint64_t low = bits & ((1ull << width) - 1);
    return is_signed(t) && low >> (width - 1) ? int64_t(low | ~0ull << width) : int64_t(low);
}
uint64_t bits_of_number(double x, type t) {
    switch (t) {
    case type::F32: return bit_cast<uint32_t>(float(x));
    case type::F64: return bit_cast<uint64_t>(x);
    default: fail("a conversion that is not known");
    }
}

template <bool TO_FLOAT, bool FROM_FLOAT> void cvt(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t from = w.bits(i.from[0], l);
        uint64_t to;
        if (TO_FLOAT && FROM_FLOAT) {
            double x = number_of(from, i.source);
            if (i.flags & TO_ZERO) x = std::trunc(x);
            if (i.flags & TO_NEAREST) x = std::nearbyint(x);
            if (i.flags & SATURATE) x = std::isnan(x) || x < 0 ? 0 : x > 1 ? 1 : x;
            to = i.value == type::F16 ? to_f16(float(x)) : i.value == type::BF16 ? to_bf16(float(x)) : bits_of_number(x, i.value);
        } else if (TO_FLOAT) { // of 64-bit integers to fp32 in one rounding
            const int64_t n = integer_of(from, i.source);
            const bool plain = is_signed(i.source) || n >= 0;
            if (i.value == type::F32) to = bit_cast<uint32_t>(plain ? float(n) : float(uint64_t(n)));
            else to = bits_of_number(plain ? double(n) : double(uint64_t(n)), i.value);
        } else if (FROM_FLOAT) {
            double x = number_of(from, i.source);
            x = i.flags & TO_ZERO ? std::trunc(x) : std::nearbyint(x);
            const int width = 8 * bytes_of(i.value);
            const double most = std::ldexp(1.0, is_signed(i.value) ? width - 1 : width), least = is_signed(i.value) ? -most : 0;
            // "clamped to the range of the destination"; NaN to 0
            if (std::isnan(x)) to = 0;
            else if (x >= most) to = is_signed(i.value) ? (1ull << (width - 1)) - 1 : width == 64 ? ~0ull : (1ull << width) - 1;
            else if (x <= least) to = is_signed(i.value) ? 1ull << (width - 1) : 0;
            else to = x < 0 ? uint64_t(int64_t(x)) : uint64_t(x);
        } else {
            to = uint64_t(integer_of(uint64_t(integer_of(from, i.source)), i.value));
        }
        w.put(i.to, l, to);
    }
}

// Two at once: the first source goes to the upper half.
void cvt_pair(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        uint16_t half[2];
        for (int n = 0; n < 2; n++) {
            float x = bit_cast<float>(uint32_t(w.bits(i.from[n], l)));
            if (i.flags & SAT_FINITE && i.value == type::F16X2) x = x > 65504 ? 65504 : x < -65504 ? -65504 : x; // NaN stays
            half[n] = i.value == type::F16X2 ? to_f16(x) : to_bf16(x);
        }
        w.put(i.to, l, uint32_t(half[0]) << 16 | half[1]);
    }
}

void mov(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++)
        if (lanes >> l & 1) w.put(i.to, l, w.bits(i.from[0], l));
}
void pack(warp &w, const instruction &i, uint32_t lanes) { // the first operand is the lowest
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t all = 0;
        for (size_t n = 0; n < i.list[0].size(); n++)
            all |= w.bits(i.list[0][n], l) << n * size_t(i.number);
        w.put(i.to, l, all);
    }
}
void unpack(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t all = w.bits(i.from[0], l);
        for (size_t n = 0; n < i.list[0].size(); n++)
            w.put(i.list[0][n], l, all >> n * size_t(i.number));
    }
}
// Generic addresses of shared memory; all others are the host's.
void cvta_shared(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++)
        if (lanes >> l & 1) w.put(i.to, l, i.number ? w.bits(i.from[0], l) & 0xffffffff : w.bits(i.from[0], l) | SHARED_WINDOW);
}

type part_of(int bits, size_t parts) {
    const int each = bits / int(parts);
    if (each != 16 && each != 32) fail("parts of %d bits", each);
    return each == 16 ? type::B16 : type::B32;
}

} // namespace

bool decode_conversion(reader &r, const statement &s, instruction &i) {
    const std::string &op = s.parts[0];
    const type t = s.last();
    if (op == "mov" && s.parts.size() == 2 && t != type::NONE) {
        const std::string &to = s.operands.at(0), &from = s.operands.at(1);
        if (to[0] == '{' || from[0] == '{') {
            const bool packs = from[0] == '{';
            const std::string &list = packs ? from : to;
            const size_t parts = size_t(std::count(list.begin(), list.end(), ',')) + 1;
            const type each = part_of(bits_of(t), parts);
            i.number = bits_of(each);
            i.list[0] = braces(r, list, each, !packs);
            if (packs) i.to = target(r, to, t);
            else i.from[0] = source(r, from, t);
            i.run = packs ? pack : unpack;
        } else {
            i.to = target(r, to, t);
            i.from[0] = source(r, from, t);
            i.run = mov;
        }
        return true;
    }
    if (op == "cvta") {
        const bool to_space = s.has("to");
        i.to = target(r, s.operands.at(0), t);
        i.from[0] = source(r, s.operands.at(1), t);
        i.number = to_space;
        if (s.has("shared")) i.run = cvta_shared;
        else if (s.has("global") || s.has("local") || s.has("param")) i.run = mov;
        return i.run != nullptr && t == type::U64;
    }
    if (op != "cvt" || s.parts.size() < 3) return false;
    i.value = type_of(s.parts[s.parts.size() - 2]);
    i.source = t;
    for (size_t n = 1; n + 2 < s.parts.size(); n++) {
        const std::string &m = s.parts[n];
        if (m == "sat") i.flags |= SATURATE;
        else if (m == "satfinite") i.flags |= SAT_FINITE;
        else if (m == "rzi") i.flags |= TO_ZERO;
        else if (m == "rni") i.flags |= TO_NEAREST;
        else if (m != "rn") return false; // which is how all are rounded
    }
    if (i.value == type::NONE || t == type::NONE) return false;
    i.to = target(r, s.operands.at(0), i.value, true);
    if (i.value == type::F16X2 || i.value == type::BF16X2) {
        if (t != type::F32) return false;
        for (size_t n = 0; n < 2; n++)
            i.from[n] = source(r, s.operands.at(n + 1), t);
        i.run = cvt_pair;
        return true;
    }
    if (i.flags & SAT_FINITE) return false;
    i.from[0] = source(r, s.operands.at(1), t, true);
    // What rounds twice here is left out.
    if ((i.value == type::F16 || i.value == type::BF16) && t != type::F32) return false;
    if (is_float(i.value) && !is_float(t) && i.value != type::F32 && i.value != type::F64) return false;
    i.run = is_float(i.value) ? (is_float(t) ? cvt<true, true> : cvt<true, false>) : is_float(t) ? cvt<false, true> : cvt<false, false>;
    return true;
}

} // namespace ptx

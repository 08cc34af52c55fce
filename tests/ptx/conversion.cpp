// conversion.cpp - cvt, mov, cvta: "Data Movement and Conversion Instructions".
#include "tests/ptx/parse.h"

#include <algorithm>
#include <cmath>

namespace ptx {

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

// The frequent ones among them. Registers of 8 and 16 bits have a lane of 32 to themselves.
template <class TO, class FROM> void cvt_integer(warp &w, const instruction &i, uint32_t lanes) {
    auto *d = w.lanes_of<typename std::conditional<sizeof(TO) == 8, uint64_t, uint32_t>::type>(i.to.slot);
    const auto *a = w.lanes_of<typename std::conditional<sizeof(FROM) == 8, uint64_t, uint32_t>::type>(i.from[0].slot);
    each(lanes, [=](int l) {
        const TO x = TO(FROM(a[l]));
        if (sizeof(TO) == 8) d[l] = uint64_t(x);
        else d[l] = sizeof(TO) == 4 ? uint32_t(x) : uint16_t(x);
    });
}
template <class FROM> void cvt_to_float(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t *d = w.lanes_of<uint32_t>(i.to.slot);
    const uint32_t *a = w.lanes_of<uint32_t>(i.from[0].slot);
    each(lanes, [=](int l) { d[l] = bit_cast<uint32_t>(float(FROM(a[l]))); });
}
template <bool IS_HALF> void cvt_from_half(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t *d = w.lanes_of<uint32_t>(i.to.slot);
    const uint32_t *a = w.lanes_of<uint32_t>(i.from[0].slot);
    each(lanes, [=](int l) { d[l] = bit_cast<uint32_t>(IS_HALF ? of_f16(uint16_t(a[l])) : of_bf16(uint16_t(a[l]))); });
}
template <bool IS_HALF> void cvt_to_half(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t *d = w.lanes_of<uint32_t>(i.to.slot);
    const uint32_t *a = w.lanes_of<uint32_t>(i.from[0].slot);
    each(lanes, [=](int l) { d[l] = IS_HALF ? to_f16(bit_cast<float>(a[l])) : to_bf16(bit_cast<float>(a[l])); });
}
handler frequent(type to, type from, uint32_t flags) {
    const bool to_64 = to == type::U64 || to == type::S64 || to == type::B64, to_32 = to == type::U32 || to == type::S32 || to == type::B32;
    if (flags != 0) return nullptr;
    if (to_64 && from == type::U32) return cvt_integer<uint64_t, uint32_t>;
    if (to_64 && from == type::S32) return cvt_integer<uint64_t, int32_t>;
    if (to_32 && (from == type::U64 || from == type::S64)) return cvt_integer<uint32_t, uint64_t>;
    if (to_32 && from == type::U16) return cvt_integer<uint32_t, uint16_t>;
    if (to_32 && from == type::S16) return cvt_integer<uint32_t, int16_t>;
    if (to == type::U16 && from == type::U32) return cvt_integer<uint16_t, uint32_t>;
    if (to == type::U16 && from == type::U64) return cvt_integer<uint16_t, uint64_t>;
    if (to == type::F32 && from == type::U32) return cvt_to_float<uint32_t>;
    if (to == type::F32 && from == type::S32) return cvt_to_float<int32_t>;
    if (to == type::F32 && from == type::F16) return cvt_from_half<true>;
    if (to == type::F32 && from == type::BF16) return cvt_from_half<false>;
    if (to == type::F16 && from == type::F32) return cvt_to_half<true>;
    if (to == type::BF16 && from == type::F32) return cvt_to_half<false>;
    return nullptr;
}

// Two at once: the first source goes to the upper half.
template <bool IS_HALF> void cvt_pair(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t *d = w.lanes_of<uint32_t>(i.to.slot);
    const uint32_t *a = w.lanes_of<uint32_t>(i.from[0].slot), *b = w.lanes_of<uint32_t>(i.from[1].slot);
    const float most = IS_HALF && i.flags & SAT_FINITE ? 65504 : INFINITY;
    each(lanes, [=](int l) {
        auto half = [most](float x) {
            x = x > most ? most : x < -most ? -most : x; // NaN stays
            return uint32_t(IS_HALF ? to_f16(x) : to_bf16(x));
        };
        d[l] = half(bit_cast<float>(a[l])) << 16 | half(bit_cast<float>(b[l]));
    });
}

template <class T> void mov(warp &w, const instruction &i, uint32_t lanes) {
    T *d = w.lanes_of<T>(i.to.slot);
    const T *a = w.lanes_of<T>(i.from[0].slot);
    each(lanes, [=](int l) { d[l] = a[l]; });
}
// The first operand is the lowest. T: of the whole register; parts of 16 or 32 bits are in lanes of 32.
template <class T> void pack(warp &w, const instruction &i, uint32_t lanes) {
    T *d = w.lanes_of<T>(i.to.slot), all[WARP] = {};
    const T ones = i.number == 16 ? T(0xffff) : T(0xffffffff);
    for (size_t n = 0; n < i.list[0].size(); n++) {
        const uint32_t *a = w.lanes_of<uint32_t>(i.list[0][n].slot);
        for (int l = 0; l < WARP; l++)
            all[l] |= (T(a[l]) & ones) << n * size_t(i.number);
    }
    each(lanes, [&](int l) { d[l] = all[l]; });
}
template <class T> void unpack(warp &w, const instruction &i, uint32_t lanes) {
    const T *a = w.lanes_of<T>(i.from[0].slot);
    const uint32_t ones = i.number == 16 ? 0xffff : 0xffffffff;
    for (size_t n = 0; n < i.list[0].size(); n++) {
        if (i.list[0][n].slot < 0) continue; // "_"
        uint32_t *d = w.lanes_of<uint32_t>(i.list[0][n].slot);
        const int by = int(n) * i.number;
        each(lanes, [=](int l) { d[l] = uint32_t(a[l] >> by) & ones; });
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
            i.run = bits_of(t) == 64 ? (packs ? pack<uint64_t> : unpack<uint64_t>) : (packs ? pack<uint32_t> : unpack<uint32_t>);
        } else {
            i.to = target(r, to, t);
            i.from[0] = source(r, from, t);
            i.run = bits_of(t) == 64 ? mov<uint64_t> : mov<uint32_t>;
        }
        return true;
    }
    if (op == "cvta") {
        const bool to_space = s.has("to");
        i.to = target(r, s.operands.at(0), t);
        i.from[0] = source(r, s.operands.at(1), t);
        i.number = to_space;
        if (s.has("shared")) i.run = cvta_shared;
        else if (s.has("global") || s.has("local") || s.has("param")) i.run = mov<uint64_t>;
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
        i.run = i.value == type::F16X2 ? cvt_pair<true> : cvt_pair<false>;
        return true;
    }
    if (i.flags & SAT_FINITE) return false;
    i.from[0] = source(r, s.operands.at(1), t, true);
    // What rounds twice here is left out.
    if ((i.value == type::F16 || i.value == type::BF16) && t != type::F32) return false;
    if (is_float(i.value) && !is_float(t) && i.value != type::F32 && i.value != type::F64) return false;
    const bool as_usual = i.to.bits == bits_of(i.value) && i.from[0].bits == bits_of(t); // registers of other widths
    if (as_usual && (i.run = frequent(i.value, t, i.flags)) != nullptr) return true;
    i.run = is_float(i.value) ? (is_float(t) ? cvt<true, true> : cvt<true, false>) : is_float(t) ? cvt<false, true> : cvt<false, false>;
    return true;
}

} // namespace ptx

// memory.cpp - ld, st and where their addresses lead: "State Spaces", "Data Movement and Conversion Instructions".
#include "tests/ptx/parse.h"

namespace ptx {

unsigned char *block::at(uint64_t address, size_t bytes, size_t alignment) {
    if (address % alignment != 0) fail("shared memory at %#llx, which is not aligned to %zu", (unsigned long long)address, alignment);
    if (address < SHARED_BEGIN || address + bytes > shared.size())
        fail("shared memory at %#llx, %zu bytes: there is %#x to %#zx", (unsigned long long)address, bytes, int(SHARED_BEGIN), shared.size());
    return shared.data() + address;
}

void block::note_store(warp &w, int lane, uint32_t address, size_t bytes) {
    if (dirty.empty()) return;
    if (w.writers.empty()) w.writers.assign(dirty.size(), 0);
    for (uint32_t g = address / GRANULE; g <= (address + bytes - 1) / GRANULE; g++) {
        if (!(dirty[g] >> w.number & 1)) w.unfenced.push_back(g);
        w.writers[g] |= 1u << lane;
        dirty[g] |= 1u << w.number;
    }
}

// "Async proxy": what threads wrote is seen by copies and products behind a proxy fence of the threads that wrote it.
void block::must_be_handed_over(uint32_t address, size_t bytes, const char *to_whom) {
    for (uint32_t g = address / GRANULE; g <= (address + bytes - 1) / GRANULE; g++)
        if (dirty[g] != 0) fail("%s at %#x, which threads wrote without a fence.proxy.async", to_whom, g * GRANULE);
}

// Kernels find memory by their arguments: what no argument points into is somebody else's.
static bool is_given(const launch &of, const extent &allocation) {
    for (size_t at = 0; at + 8 <= of.code->parameter_bytes; at += 8) {
        uint64_t value;
        memcpy(&value, of.parameters + at, sizeof value);
        if (allocation.begin <= value && value <= allocation.end) return true;
    }
    return false;
}

unsigned char *memory(warp &w, space where, uint64_t address, size_t bytes, size_t alignment, bool writes, extent &known, int lane) {
    const uint64_t local = uint64_t(w.local.data()), parameters = uint64_t(w.in->of->parameters);
    const extent of_lanes{local, local + w.local.size()}, of_launch{parameters, parameters + w.in->of->code->parameter_bytes};
    if (where == space::GENERIC) { // what has a window of its own, or is the warp's own, is no global memory
        where = (address & 0xff00000000000000) == SHARED_WINDOW              ? space::SHARED
                : of_lanes.holds(address, address + bytes)                   ? space::LOCAL
                : of_launch.holds(address, address + bytes) && !writes       ? space::PARAM
                                                                             : space::GLOBAL;
    }
    if (where == space::SHARED) {
        const uint32_t at = uint32_t(address);
        unsigned char *place = w.in->at(at, bytes, alignment);
        if (writes) w.in->note_store(w, lane, at, bytes);
        return place;
    }
    if (address % alignment != 0) fail("memory at %#llx, which is not aligned to %zu", (unsigned long long)address, alignment);
    if (where == space::GLOBAL) {
        if (!known.holds(address, address + bytes)) {
            known = allocation_at(address);
            if (!is_given(*w.in->of, known)) fail("global memory at %#llx, of an allocation that no argument points into", (unsigned long long)address);
        }
        if (!known.holds(address, address + bytes))
            fail("%zu bytes of global memory that begin %llu behind the beginning of an allocation of %llu", bytes,
                 (unsigned long long)(address - known.begin), (unsigned long long)(known.end - known.begin));
        return reinterpret_cast<unsigned char *>(address);
    }
    const extent &own = where == space::PARAM ? of_launch : of_lanes;
    if (!own.holds(address, address + bytes))
        fail("%zu bytes at %lld of %llu of %s", bytes, (long long)(address - own.begin), (unsigned long long)(own.end - own.begin),
             where == space::PARAM ? "parameters" : "local memory");
    return reinterpret_cast<unsigned char *>(address);
}

namespace {

bool extends_sign(type t) { return t == type::S8 || t == type::S16 || t == type::S32; }

// Where the lanes' addresses lead.
void places(warp &w, const instruction &i, uint32_t lanes, bool writes, unsigned char *at[WARP]) {
    uint64_t address[WARP];
    const uint64_t offset = uint64_t(i.offset[0]);
    if (i.from[0].bits == 64) {
        const uint64_t *a = w.lanes_of<uint64_t>(i.from[0].slot);
        for (int l = 0; l < WARP; l++)
            address[l] = a[l] + offset;
    } else {
        const uint32_t *a = w.lanes_of<uint32_t>(i.from[0].slot);
        for (int l = 0; l < WARP; l++)
            address[l] = a[l] + offset;
    }
    const size_t bytes = size_t(i.size) * size_t(i.count);
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
        const int l = __builtin_ctz(left);
        if (i.where == space::GLOBAL && address[l] % bytes == 0 && i.known.holds(address[l], address[l] + bytes))
            at[l] = reinterpret_cast<unsigned char *>(address[l]);
        else at[l] = memory(w, i.where, address[l], bytes, bytes, writes, i.known, l);
    }
}

// M: how a value lies in memory, which a register of 16 or 32 bits keeps in 32.
template <class M> void ld(warp &w, const instruction &i, uint32_t lanes) {
    using S = typename std::conditional<sizeof(M) == 8, uint64_t, uint32_t>::type;
    unsigned char *at[WARP];
    places(w, i, lanes, false, at);
    for (int n = 0; n < i.count; n++) {
        const operand &to = i.list[0][size_t(n)];
        if (to.slot < 0) continue;
        auto value = [&](int l) {
            M m;
            memcpy(&m, at[l] + size_t(n) * sizeof m, sizeof m);
            return m;
        };
        // A register may be wider than the value: zeros or signs are in front of it.
        if (to.bits == 64) {
            uint64_t *d = w.lanes_of<uint64_t>(to.slot);
            for (uint32_t left = lanes; left != 0; left &= left - 1)
                d[__builtin_ctz(left)] = uint64_t(value(__builtin_ctz(left)));
        } else {
            uint32_t *d = w.lanes_of<uint32_t>(to.slot);
            const uint32_t ones = to.bits == 16 ? 0xffff : 0xffffffff;
            for (uint32_t left = lanes; left != 0; left &= left - 1)
                d[__builtin_ctz(left)] = uint32_t(S(value(__builtin_ctz(left)))) & ones;
        }
    }
}
template <class M> void st(warp &w, const instruction &i, uint32_t lanes) {
    unsigned char *at[WARP];
    places(w, i, lanes, true, at);
    for (int n = 0; n < i.count; n++) {
        const operand &from = i.list[0][size_t(n)];
        for (uint32_t left = lanes; left != 0; left &= left - 1) {
            const int l = __builtin_ctz(left);
            const M value = M(from.bits == 64 ? w.lanes_of<uint64_t>(from.slot)[l] : w.lanes_of<uint32_t>(from.slot)[l]);
            memcpy(at[l] + size_t(n) * sizeof value, &value, sizeof value);
        }
    }
}
handler load_of(type t) {
    const bool sign = extends_sign(t);
    switch (bytes_of(t)) {
    case 1: return sign ? ld<int8_t> : ld<uint8_t>;
    case 2: return sign ? ld<int16_t> : ld<uint16_t>;
    case 4: return sign ? ld<int32_t> : ld<uint32_t>;
    default: return ld<uint64_t>;
    }
}
handler store_of(type t) {
    switch (bytes_of(t)) {
    case 1: return st<uint8_t>;
    case 2: return st<uint16_t>;
    case 4: return st<uint32_t>;
    default: return st<uint64_t>;
    }
}
void move_stored(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++)
        if (lanes >> l & 1) w.put(i.to, l, w.bits(i.from[0], l));
}

} // namespace

bool decode_memory(reader &r, const statement &s, instruction &i) {
    const std::string &op = s.parts[0];
    if (op != "ld" && op != "st") return false;
    i.value = s.last();
    i.where = space::GENERIC;
    for (size_t n = 1; n + 1 < s.parts.size(); n++) {
        const std::string &m = s.parts[n];
        if (m == "global") i.where = space::GLOBAL;
        else if (m == "shared") i.where = space::SHARED;
        else if (m == "local") i.where = space::LOCAL;
        else if (m == "param") i.where = space::PARAM;
        else if (m == "v2") i.count = 2;
        else if (m == "v4") i.count = 4;
        else if (m != "wb" && m != "nc") return false; // caches are not seen
    }
    if (i.value == type::NONE) return false;
    const bool loads = op == "ld";
    const std::string &place = s.operands.at(loads ? 0 : 1), &where = s.operands.at(loads ? 1 : 0);
    i.size = bytes_of(i.value);
    i.list[0] = braces(r, place, i.value, loads, true);
    if (i.list[0].size() != size_t(i.count)) fail("%zu operands of %d", i.list[0].size(), i.count);
    if (i.where == space::PARAM && parameter_of_call(r, where, loads ? &i.from[0] : &i.to)) {
        (loads ? i.to : i.from[0]) = i.list[0][0];
        i.run = move_stored;
        return true;
    }
    if (i.where == space::PARAM && !loads) return false;
    i.from[0] = address(r, where, &i.offset[0], i.where == space::SHARED);
    i.run = loads ? load_of(i.value) : store_of(i.value);
    return true;
}

} // namespace ptx

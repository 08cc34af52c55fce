// memory.cpp - ld, st and where their addresses lead: "State Spaces", "Data Movement and Conversion Instructions".
#include "tests/ptx/parse.h"

namespace ptx {

unsigned char *block::at(uint64_t address, size_t bytes, size_t alignment) {
    if (address % alignment != 0) fail("shared memory at %#llx, which is not aligned to %zu", (unsigned long long)address, alignment);
    if (address < SHARED_BEGIN || address + bytes > shared.size())
        fail("shared memory at %#llx, %zu bytes: there is %#x to %#zx", (unsigned long long)address, bytes, int(SHARED_BEGIN), shared.size());
    return shared.data() + address;
}

void block::note_store(warp &w, uint32_t address, size_t bytes) {
    for (uint32_t g = address / GRANULE; g <= (address + bytes - 1) / GRANULE; g++) {
        if (dirty[g] >> w.number & 1) continue;
        dirty[g] |= 1u << w.number;
        w.unfenced.push_back(g);
    }
}

// "Async proxy": what threads wrote is seen by copies and products behind a proxy fence of the threads that wrote it.
void block::must_be_handed_over(uint32_t address, size_t bytes, const char *to_whom) {
    for (uint32_t g = address / GRANULE; g <= (address + bytes - 1) / GRANULE; g++)
        if (dirty[g] != 0) fail("%s at %#x, which threads wrote without a fence.proxy.async", to_whom, g * GRANULE);
}

unsigned char *memory(warp &w, space where, uint64_t address, size_t bytes, size_t alignment, bool writes) {
    if (where == space::GENERIC) where = (address & 0xff00000000000000) == SHARED_WINDOW ? space::SHARED : space::GLOBAL;
    if (where == space::SHARED) {
        const uint32_t at = uint32_t(address);
        unsigned char *place = w.in->at(at, bytes, alignment);
        if (writes) w.in->note_store(w, at, bytes);
        return place;
    }
    if (address % alignment != 0) fail("memory at %#llx, which is not aligned to %zu", (unsigned long long)address, alignment);
    if (address < 4096 || (address & 0xff00000000000000) != 0) fail("memory at %#llx, which is no address", (unsigned long long)address);
    return reinterpret_cast<unsigned char *>(address);
}

namespace {

bool extends_sign(type t) { return t == type::S8 || t == type::S16 || t == type::S32; }

void ld(warp &w, const instruction &i, uint32_t lanes) {
    const int size = i.size;
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const unsigned char *at = memory(w, i.where, w.bits(i.from[0], l) + uint64_t(i.offset[0]), size_t(size) * i.count, size_t(size) * i.count, false);
        for (int n = 0; n < i.count; n++) {
            uint64_t value = 0;
            memcpy(&value, at + n * size, size_t(size));
            if (extends_sign(i.value) && value >> (8 * size - 1)) value |= ~0ull << 8 * size;
            w.put(i.list[0][n], l, value);
        }
    }
}
void st(warp &w, const instruction &i, uint32_t lanes) {
    const int size = i.size;
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        unsigned char *at = memory(w, i.where, w.bits(i.from[0], l) + uint64_t(i.offset[0]), size_t(size) * i.count, size_t(size) * i.count, true);
        for (int n = 0; n < i.count; n++) {
            const uint64_t value = w.bits(i.list[0][n], l);
            memcpy(at + n * size, &value, size_t(size));
        }
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
    i.run = loads ? ld : st;
    return true;
}

} // namespace ptx

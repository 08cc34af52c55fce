// async.cpp - copies and barriers beside the threads: cp.async, mbarrier, cp.async.bulk.tensor, fence.proxy.async. "Data Movement:
// Asynchronous copy", "Parallel Synchronization: mbarrier", "Tensor Copies", "Memory Consistency Model: Proxies".
//
// A copy may come at any moment between its start and a wait for it: timing::EARLY is the first of them, LATE the last; until then what
// it overwrites holds NaN.
#include "tests/ptx/parse.h"
#include "tests/ptx/tensor_memory.h"

#include "tests/emulator/driver/fake_tensor_map.h"

#include <algorithm>

namespace ptx {

// ---- cp.async: groups of a thread -----------------------------------------------------------------------------------------

static void copy_lane(warp &w, const thread_copy &c, int l) {
    unsigned char *to = w.in->at(c.to[l], size_t(c.bytes), size_t(c.bytes));
    memset(to, 0, size_t(c.bytes));
    if (c.size[l] > 0) memcpy(to, reinterpret_cast<const void *>(c.from[l]), c.size[l]);
    w.in->note_store(w, l, c.to[l], size_t(c.bytes)); // of the generic proxy
}

void finish_copies(warp &w, uint32_t lanes, uint32_t left) {
    for (auto c = w.copies.begin(); c != w.copies.end();) {
        for (int l = 0; l < WARP; l++) {
            if (!(c->lanes & lanes) || !(c->lanes >> l & 1) || !(lanes >> l & 1) || c->group[l] + left >= w.copy_group[l]) continue;
            copy_lane(w, *c, l);
            c->lanes &= ~(1u << l);
        }
        c = c->lanes == 0 ? w.copies.erase(c) : c + 1;
    }
}

namespace {

void start_copy(warp &w, const instruction &i, uint32_t lanes) {
    thread_copy c{};
    c.bytes = i.number;
    c.lanes = lanes;
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        c.to[l] = uint32_t(w.bits(i.from[0], l) + uint64_t(i.offset[0]));
        c.from[l] = w.bits(i.from[1], l) + uint64_t(i.offset[1]);
        c.size[l] = i.from[2].slot < 0 ? uint32_t(c.bytes) : uint32_t(w.bits(i.from[2], l));
        c.group[l] = w.copy_group[l];
        if (c.size[l] > uint32_t(c.bytes)) fail("cp.async of %u bytes where %d are copied", c.size[l], c.bytes);
        memset(w.in->at(c.to[l], size_t(c.bytes), size_t(c.bytes)), 0xff, size_t(c.bytes));
        if (c.size[l] > 0) memory(w, space::GLOBAL, c.from[l], c.size[l], size_t(c.bytes), false, i.known, l);
    }
    const bool now = w.in->when == timing::EARLY || (w.in->when == timing::RANDOM && (w.in->draw() & 1));
    for (int l = 0; now && l < WARP; l++)
        if (lanes >> l & 1) copy_lane(w, c, l);
    if (!now && lanes != 0) w.copies.push_back(c);
}
void commit_copies(warp &w, const instruction &, uint32_t lanes) {
    for (int l = 0; l < WARP; l++)
        w.copy_group[l] += lanes >> l & 1;
}
void wait_copies(warp &w, const instruction &i, uint32_t lanes) { finish_copies(w, lanes, uint32_t(i.number)); }

// ---- mbarrier -------------------------------------------------------------------------------------------------------------

uint32_t address_of(warp &w, const instruction &i, int which, int l) { return uint32_t(w.bits(i.from[which], l) + uint64_t(i.offset[which])); }

barrier_object &barrier_at(warp &w, uint32_t address) {
    w.in->at(address, 8, 8);
    const auto found = w.in->barriers.find(address);
    if (found == w.in->barriers.end()) fail("no mbarrier at %#x", address);
    return found->second;
}

void barrier_init(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint32_t at = address_of(w, i, 0, l), count = uint32_t(w.bits(i.from[1], l));
        if (count == 0 || count > (1 << 20) - 1) fail("an mbarrier of %u arrivals", count);
        w.in->at(at, 8, 8);
        w.in->note_store(w, l, at, 8);
        w.in->barriers[at] = {count, count, 0, 0};
    }
}
void barrier_arrive(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint32_t at = address_of(w, i, 0, l);
        barrier_object &b = barrier_at(w, at);
        if (i.flags & EXPECTS) b.bytes += int64_t(w.bits(i.from[1], l));
        if (b.bytes > (1 << 20) - 1) fail("an mbarrier that waits for %lld bytes", (long long)b.bytes);
        if (--b.missing < 0) fail("an mbarrier with more arrivals than its phase has");
        if (w.in->tensor != nullptr) w.in->tensor->arrives(w.number, at);
        w.in->settle(at, b);
    }
}
// Tests whether the phase of that parity is complete: the one before the current one.
void barrier_test(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t &d = *w.lanes_of<uint32_t>(i.to.slot);
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint32_t at = address_of(w, i, 0, l);
        const bool complete = (barrier_at(w, at).phase ^ 1) == (w.bits(i.from[1], l) & 1);
        if (complete && w.in->tensor != nullptr) w.in->tensor->hears(w.number, at);
        d = (d & ~(1u << l)) | uint32_t(complete) << l;
    }
}

// ---- tensor copies --------------------------------------------------------------------------------------------------------

const fake_tensor_map &map_at(warp &w, uint64_t address) {
    if (address % 64 != 0) fail("a tensor map at %#llx, which is not aligned to 64", (unsigned long long)address);
    extent unknown;
    const auto *map = reinterpret_cast<const fake_tensor_map *>(memory(w, space::GENERIC, address, 128, 64, false, unknown, 0));
    if (map->magic != FAKE_TENSOR_MAP) fail("no tensor map");
    return *map;
}

// All of the matrix is one allocation's: a copy takes no more than is the matrix's.
void must_lie_in_memory(const fake_tensor_map &map, extent &known) {
    const uint64_t end = map.base + (map.rows - 1) * map.stride + map.columns * 2;
    if (!known.holds(map.base, end)) known = allocation_at(map.base);
    if (!known.holds(map.base, end)) fail("a tensor map of %llu bytes from %#llx, which are no allocation's", (unsigned long long)(end - map.base), (unsigned long long)map.base);
}

void start_tensor_copy(warp &w, const instruction &i, uint32_t lanes) {
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const tensor_copy c{address_of(w, i, 0, l), address_of(w, i, 2, l), w.bits(i.from[1], l), int32_t(w.bits(i.list[0][0], l)),
                            int32_t(w.bits(i.list[0][1], l))};
        const fake_tensor_map &map = map_at(w, c.map);
        must_lie_in_memory(map, i.known);
        if (c.to % 128 != 0) fail("a tensor copy to %#x, which is not aligned to 128", c.to);
        const size_t bytes = size_t(map.box_columns * map.box_rows) * 2;
        unsigned char *to = w.in->at(c.to, bytes, 128);
        w.in->must_be_handed_over(c.to, bytes, "a tensor copy writes");
        w.in->must_be_handed_over(c.barrier, 8, "a tensor copy arrives at a barrier");
        barrier_at(w, c.barrier);
        memset(to, 0xff, bytes);
        w.in->tensors.push_back(c);
        if (w.in->when == timing::EARLY || (w.in->when == timing::RANDOM && (w.in->draw() & 1))) w.in->land(w.in->tensors.size() - 1);
    }
}

// "along the base causality path": it hands over what the lanes that come to it wrote, or heard of at a barrier.
void proxy_fence(warp &w, const instruction &, uint32_t lanes) {
    size_t left = 0;
    for (const uint32_t g : w.unfenced) {
        if ((w.writers[g] &= ~lanes) != 0) w.unfenced[left++] = g;
        else w.in->dirty[g] &= ~(1u << w.number);
    }
    w.unfenced.resize(left);
}
void nothing(warp &, const instruction &, uint32_t) {}

} // namespace

void block::settle(uint32_t address, barrier_object &b) {
    if (b.missing != 0 || b.bytes != 0) return;
    if (tensor != nullptr) tensor->complete(address);
    b.phase ^= 1;
    b.missing = b.expected;
}

// Rows of 64 numbers, zeros outside of the matrix; CU_TENSOR_MAP_SWIZZLE_128B: of an address, bits 4 to 6 are xored with bits 7 to 9.
void block::land(size_t which) {
    const tensor_copy c = tensors[which];
    tensors.erase(tensors.begin() + long(which));
    const auto &map = *reinterpret_cast<const fake_tensor_map *>(c.map);
    if (map.box_columns != 64) fail("a box of %llu columns", (unsigned long long)map.box_columns);
    for (uint64_t row = 0; row < map.box_rows; row++) {
        const int64_t y = c.y + int64_t(row);
        uint16_t numbers[64] = {};
        if (y >= 0 && y < int64_t(map.rows)) {
            const char *from = reinterpret_cast<const char *>(map.base) + uint64_t(y) * map.stride;
            const int64_t first = c.x < 0 ? -int64_t(c.x) : 0, end = std::min<int64_t>(64, int64_t(map.columns) - c.x);
            if (first < end) memcpy(numbers + first, from + (c.x + first) * 2, size_t(end - first) * 2);
        }
        for (uint32_t unit = 0; unit < 128; unit += 16) {
            const uint32_t plain = c.to + uint32_t(row * 128) + unit;
            memcpy(shared.data() + (plain ^ (plain >> 7 & 7) << 4), reinterpret_cast<const char *>(numbers) + unit, 16);
        }
    }
    barrier_object &b = barriers.at(c.barrier);
    b.bytes -= int64_t(map.box_columns * map.box_rows) * 2;
    settle(c.barrier, b);
}

bool decode_async(reader &r, const statement &s, instruction &i) {
    const std::string all = s.opcode();
    auto begins = [&](const char *with) { return all.compare(0, strlen(with), with) == 0; };
    if (all == "cp.async.commit_group") {
        i.run = commit_copies;
    } else if (all == "cp.async.wait_group") {
        i.number = int(literal(s.operands.at(0)));
        i.run = wait_copies;
    } else if (begins("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes")) {
        i.from[0] = address(r, s.operands.at(0), &i.offset[0], true);
        const std::string &map = s.operands.at(1);
        const size_t comma = map.find(','), open = map.find('{'), close = map.find('}');
        if (comma == std::string::npos || open == std::string::npos || close == std::string::npos) return false;
        i.from[1] = source(r, map.substr(1, comma - 1), type::U64);
        i.list[0] = braces(r, map.substr(open, close - open + 1), type::S32);
        i.from[2] = address(r, s.operands.at(2), &i.offset[2], true);
        if (i.list[0].size() != 2) return false;
        i.run = start_tensor_copy;
    } else if (all == "cp.async.cg.shared.global" || all == "cp.async.ca.shared.global") {
        i.from[0] = address(r, s.operands.at(0), &i.offset[0], true);
        i.from[1] = address(r, s.operands.at(1), &i.offset[1], false);
        i.number = int(literal(s.operands.at(2)));
        if (s.has("cg") && i.number != 16) fail("cp.async.cg copies 16 bytes, not %d", i.number);
        if (i.number != 4 && i.number != 8 && i.number != 16) fail("cp.async copies 4, 8 or 16 bytes, not %d", i.number);
        if (s.operands.size() > 3) i.from[2] = source(r, s.operands[3], type::U32);
        i.run = start_copy;
    } else if (all == "mbarrier.init.shared::cta.b64") {
        i.from[0] = address(r, s.operands.at(0), &i.offset[0], true);
        i.from[1] = source(r, s.operands.at(1), type::U32);
        i.run = barrier_init;
    } else if (begins("mbarrier.arrive") && s.parts.back() == "b64" && s.operands.at(0) == "_") {
        i.flags = s.has("expect_tx") ? uint32_t(EXPECTS) : 0;
        if (!s.has("release") || s.operands.size() != (s.has("expect_tx") ? 3u : 2u)) return false;
        i.from[0] = address(r, s.operands.at(1), &i.offset[0], true);
        if (s.has("expect_tx")) i.from[1] = source(r, s.operands.at(2), type::U32);
        i.run = barrier_arrive;
    } else if (all == "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64") {
        i.to = target(r, s.operands.at(0), type::PRED);
        i.from[0] = address(r, s.operands.at(1), &i.offset[0], true);
        i.from[1] = source(r, s.operands.at(2), type::U32);
        i.kind = instruction::TRY_WAIT;
        i.run = barrier_test;
    } else if (all == "fence.proxy.async.shared::cta") {
        i.run = proxy_fence;
    } else if (begins("setmaxnreg.")) { // how many registers there are, ptxas minds
        i.together = true;
        i.run = nothing;
    } else {
        return false;
    }
    return true;
}

} // namespace ptx

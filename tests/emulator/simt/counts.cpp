#include "tests/emulator/simt/counts.h"

#ifdef SIMT_COUNT
#include "tests/emulator/simt/scheduler.h"
#include "tests/emulator/simt/shared_memory.h"

#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <tuple>
#include <vector>

namespace simt {
namespace {

enum { BANKS = 32, SECTOR = 32 };

struct access {
    uintptr_t place, at;
    uint32_t epoch, nth;
    uint16_t bytes;
    uint8_t lane, kind;
    bool shared;
};
struct loss { // of one line
    uint64_t actual, ideal;
};

uintptr_t memory;
size_t memory_bytes;
std::vector<bool> touched[2]; // sectors of the device's memory that this launch read, wrote
simt_counts counted[SIMT_MOST_COUNTS];
int launches;
bool open; // the last of them
std::vector<access> log_of[MOST_THREADS / WARP];
std::map<uintptr_t, loss> losses; // of the launch, by place

// Cycles of the lanes of one phase.
unsigned cycles_of(const access *const *lanes, size_t count) {
    unsigned most = 0;
    uintptr_t words[BANKS][BANKS]; // of every bank, those that are asked for
    unsigned filled[BANKS] = {};
    for (size_t i = 0; i < count; i++)
        for (uintptr_t word = lanes[i]->at / 4; word <= (lanes[i]->at + lanes[i]->bytes - 1) / 4; word++) {
            uintptr_t *of_bank = words[word % BANKS];
            unsigned &n = filled[word % BANKS];
            if (std::find(of_bank, of_bank + n, word) == of_bank + n) of_bank[n++] = word;
            most = std::max(most, n);
        }
    return most;
}

void count_shared(const std::vector<const access *> &lanes) {
    const int kind = lanes[0]->kind;
    const unsigned of_phase = lanes[0]->bytes > 8 ? 8 : lanes[0]->bytes > 4 ? 16 : 32;
    unsigned phases = 0, cycles = 0;
    for (size_t i = 0; i < lanes.size();) {
        size_t end = i;
        while (end < lanes.size() && lanes[end]->lane / of_phase == lanes[i]->lane / of_phase)
            end++;
        phases++;
        cycles += cycles_of(&lanes[i], end - i);
        i = end;
    }
    simt_counts &c = counted[launches - 1];
    c.phases[kind] += phases;
    c.conflicts[kind] += cycles - phases;
    losses[lanes[0]->place].ideal += phases;
    losses[lanes[0]->place].actual += cycles;
}

void count_global(const std::vector<const access *> &lanes) {
    std::vector<std::pair<uintptr_t, uintptr_t>> spans;
    for (const access *a : lanes)
        spans.emplace_back(a->at, a->at + a->bytes);
    std::sort(spans.begin(), spans.end());
    const bool writes = lanes[0]->kind == SIMT_STORE;
    uintptr_t seen = 0, next_sector = 0; // bytes below, sectors below
    uint64_t bytes = 0, sectors = 0;
    for (auto [from, to] : spans) {
        if (to > seen) bytes += to - std::max(from, seen);
        seen = std::max(seen, to);
        for (uintptr_t s = std::max(from / SECTOR, next_sector); s <= (to - 1) / SECTOR; s++) {
            sectors++;
            next_sector = s + 1;
            touched[writes][s - memory / SECTOR] = true;
        }
    }
    auto &side = writes ? counted[launches - 1].written : counted[launches - 1].read;
    side.sectors += sectors;
    side.ideal += (bytes + SECTOR - 1) / SECTOR;
    losses[lanes[0]->place].actual += sectors;
    losses[lanes[0]->place].ideal += (bytes + SECTOR - 1) / SECTOR;
}

// A warp's accesses between two meetings, as instructions.
void count_warp(std::vector<access> &log) {
    auto key = [](const access &a) { return std::make_tuple(a.epoch, a.place, a.kind); };
    std::stable_sort(log.begin(), log.end(), [&](const access &a, const access &b) { return key(a) < key(b); });
    for (size_t begin = 0, end; begin < log.size(); begin = end) {
        uint32_t times[WARP] = {};
        for (end = begin; end < log.size() && key(log[end]) == key(log[begin]); end++)
            log[end].nth = times[log[end].lane]++;
        std::sort(log.begin() + long(begin), log.begin() + long(end), [](const access &a, const access &b) {
            return std::make_pair(a.nth, a.lane) < std::make_pair(b.nth, b.lane);
        });
        for (size_t i = begin; i < end;) {
            std::vector<const access *> lanes[2]; // of the device's memory, of shared memory
            const uint32_t nth = log[i].nth;
            for (; i < end && log[i].nth == nth; i++)
                lanes[log[i].shared].push_back(&log[i]);
            if (!lanes[0].empty()) count_global(lanes[0]);
            if (!lanes[1].empty()) count_shared(lanes[1]);
        }
    }
    log.clear();
}

uint64_t bytes_of(std::vector<bool> &sectors) {
    const uint64_t bytes = uint64_t(std::count(sectors.begin(), sectors.end(), true)) * SECTOR;
    std::fill(sectors.begin(), sectors.end(), false);
    return bytes;
}

void close_launch() {
    if (!open) return;
    counted[launches - 1].read.bytes = bytes_of(touched[0]);
    counted[launches - 1].written.bytes = bytes_of(touched[1]);
    open = false;
}

} // namespace

void count_access(int kind, const void *place, const void *at, unsigned bytes) {
    const uintptr_t address = uintptr_t(at);
    const bool shared = is_shared(at);
    if (!shared && address - memory >= memory_bytes) return; // a stack, parameters of the kernel
    log_of[current->number / WARP].push_back({uintptr_t(place), address, current->meetings, 0, uint16_t(bytes),
                                              uint8_t(current->number % WARP), uint8_t(kind), shared});
}

void count_launch(const char *name) {
    close_launch();
    if (launches == SIMT_MOST_COUNTS) launches = 0; // nobody asked
    counted[launches++] = simt_counts{};
    counted[launches - 1].name = name;
    open = true;
    losses.clear();
}

void count_block() {
    for (std::vector<access> &log : log_of)
        count_warp(log);
}

} // namespace simt

void simt_count_memory(const void *base, size_t bytes) {
    simt::memory = uintptr_t(base);
    simt::memory_bytes = bytes;
    for (auto &sectors : simt::touched)
        sectors.assign(bytes / simt::SECTOR + 1, false);
}

int simt_take_counts(simt_counts *counts, int most) {
    simt::close_launch();
    const int there = simt::launches;
    std::copy(simt::counted, simt::counted + std::min(there, most), counts);
    simt::launches = 0;
    return there;
}

void simt_show_worst(void) {
    std::vector<std::pair<uintptr_t, simt::loss>> worst(simt::losses.begin(), simt::losses.end());
    std::sort(worst.begin(), worst.end(),
              [](auto &a, auto &b) { return a.second.actual - a.second.ideal > b.second.actual - b.second.ideal; });
    for (size_t i = 0; i < worst.size() && i < 8; i++) {
        Dl_info info;
        const uintptr_t base = dladdr(reinterpret_cast<void *>(worst[i].first), &info) ? uintptr_t(info.dli_fbase) : 0;
        fprintf(stderr, "  %#zx: %llu instead of %llu\n", size_t(worst[i].first - base - 1),
                (unsigned long long)worst[i].second.actual, (unsigned long long)worst[i].second.ideal);
    }
}

// ---- what the compiler calls: the names of ThreadSanitizer's runtime, which is not linked -----------------------------------
#define PLACE __builtin_return_address(0)
#define FT_SIMT_CALLED(size)                                                                                           \
    extern "C" void __tsan_read##size(void *at) { simt::count_access(SIMT_LOAD, PLACE, at, size); }                    \
    extern "C" void __tsan_write##size(void *at) { simt::count_access(SIMT_STORE, PLACE, at, size); }
FT_SIMT_CALLED(1)
FT_SIMT_CALLED(2)
FT_SIMT_CALLED(4)
FT_SIMT_CALLED(8)
FT_SIMT_CALLED(16)
#undef FT_SIMT_CALLED
#define FT_SIMT_CALLED(size)                                                                                           \
    extern "C" void __tsan_unaligned_read##size(void *at) { simt::count_access(SIMT_LOAD, PLACE, at, size); }          \
    extern "C" void __tsan_unaligned_write##size(void *at) { simt::count_access(SIMT_STORE, PLACE, at, size); }
FT_SIMT_CALLED(2)
FT_SIMT_CALLED(4)
FT_SIMT_CALLED(8)
FT_SIMT_CALLED(16)
#undef FT_SIMT_CALLED

// A structure that is copied as a whole: word by word, each an instruction of its own.
static void count_range(int kind, const char *place, const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4)
        simt::count_access(kind, place, at + i, unsigned(std::min(bytes - i, size_t(4))));
}
extern "C" void __tsan_read_range(void *at, size_t bytes) { count_range(SIMT_LOAD, (const char *)PLACE, (const char *)at, bytes); }
extern "C" void __tsan_write_range(void *at, size_t bytes) { count_range(SIMT_STORE, (const char *)PLACE, (const char *)at, bytes); }
extern "C" void __tsan_init() {}
#endif

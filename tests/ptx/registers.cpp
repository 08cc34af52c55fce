// registers.cpp - registers that are never alive at the same time share a place in a warp's file: nvcc writes every
// value to a register of its own, thousands of them, and a file that no cache holds is slow. What is read before it was
// written on some way keeps a place of its own, which is NaN; so do registers of wgmma, which products use behind the
// threads' back. Lanes that have parted do not disturb each other: what a lane has in a place of one kind is its own.
#include "tests/ptx/parse.h"

#include <algorithm>
#include <map>

namespace ptx {
namespace {

struct uses {
    std::vector<int> reads, writes; // candidates by number
    bool writes_all = true;         // whatever lanes come: nothing of before is left
};

bool begins(const instruction &i, const char *with) {
    const size_t from = i.guard.slot < 0 ? 0 : i.text.find_first_of(" \t") + 1;
    return i.text.compare(from, strlen(with), with) == 0;
}

struct interval {
    int number, begin, end;
};

} // namespace

void share_registers(kernel &k, const std::vector<std::pair<int, int>> &registers) {
    const int count = int(registers.size()), length = int(k.code.size());
    std::vector<int> number(k.image.size() / WARP, -1);
    for (int n = 0; n < count; n++)
        number[size_t(registers[size_t(n)].first)] = n;
    std::vector<bool> own(size_t(count), false);
    std::vector<uses> all(static_cast<size_t>(length));
    std::vector<bool> leads(size_t(length) + 1, false);
    leads[0] = true;
    for (int at = 0; at < length; at++) {
        const instruction &i = k.code[size_t(at)];
        if (i.kind == instruction::CALL || i.kind == instruction::RETURN)
            return; // where they come back to is not seen here
        uses &u = all[size_t(at)];
        auto add = [&](std::vector<int> &to, const operand &o) {
            if (o.slot >= 0 && number[size_t(o.slot)] >= 0) to.push_back(number[size_t(o.slot)]);
        };
        const bool list_is_written = begins(i, "ld.") || begins(i, "ldmatrix.") || begins(i, "mma.") || begins(i, "tcgen05.ld") ||
                                     begins(i, "shfl.") || (begins(i, "mov.") && i.to.slot < 0);
        add(u.reads, i.guard), add(u.reads, i.named), add(u.writes, i.to);
        for (const operand &o : i.from)
            add(u.reads, o);
        for (int n = 0; n < 3; n++)
            for (const operand &o : i.list[n])
                add(n == 0 && list_is_written ? u.writes : u.reads, o);
        u.writes_all = i.guard.slot < 0;
        if (begins(i, "wgmma.mma"))
            for (const int n : u.reads)
                own[size_t(n)] = true;
        if (i.target >= 0) leads[size_t(i.target)] = true;
        if (i.kind == instruction::BRANCH || i.kind == instruction::EXIT) leads[size_t(at) + 1] = true;
    }

    // What is alive where a block of instructions begins and ends.
    struct block_ {
        int begin, end;
        std::vector<int> next;
        std::vector<uint64_t> used, made, in, out;
    };
    std::vector<block_> blocks;
    std::vector<int> block_at(size_t(length) + 1, -1);
    const size_t words = size_t(count + 63) / 64;
    for (int at = 0; at < length; at++) {
        if (leads[size_t(at)]) {
            block_at[size_t(at)] = int(blocks.size());
            blocks.push_back({at,
                              at,
                              {},
                              std::vector<uint64_t>(words),
                              std::vector<uint64_t>(words),
                              std::vector<uint64_t>(words),
                              std::vector<uint64_t>(words)});
        }
        block_ &b = blocks.back();
        b.end = at;
        for (const int n : all[size_t(at)].reads)
            if (!(b.made[size_t(n) / 64] >> n % 64 & 1)) b.used[size_t(n) / 64] |= 1ull << n % 64;
        for (const int n : all[size_t(at)].writes)
            if (all[size_t(at)].writes_all) b.made[size_t(n) / 64] |= 1ull << n % 64;
    }
    for (block_ &b : blocks) {
        const instruction &last = k.code[size_t(b.end)];
        if (last.kind == instruction::BRANCH) b.next.push_back(block_at[size_t(last.target)]);
        const bool leaves = (last.kind == instruction::BRANCH || last.kind == instruction::EXIT) && last.guard.slot < 0;
        if (!leaves && b.end + 1 < length) b.next.push_back(block_at[size_t(b.end) + 1]);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t n = blocks.size(); n-- > 0;) {
            block_ &b = blocks[n];
            for (size_t word = 0; word < words; word++) {
                for (const int next : b.next)
                    b.out[word] |= blocks[size_t(next)].in[word];
                const uint64_t in = b.used[word] | (b.out[word] & ~b.made[word]);
                changed |= in != b.in[word];
                b.in[word] = in;
            }
        }
    }

    // From where to where each is alive, in the order of the text.
    std::vector<interval> alive;
    for (int n = 0; n < count; n++)
        alive.push_back({n, length, -1});
    auto at_place = [&alive](int n, int place) {
        interval &i = alive[size_t(n)];
        i.begin = std::min(i.begin, place), i.end = std::max(i.end, place);
    };
    for (const block_ &b : blocks) {
        for (int n = 0; n < count; n++) {
            if (b.in[size_t(n) / 64] >> n % 64 & 1) at_place(n, b.begin);
            if (b.out[size_t(n) / 64] >> n % 64 & 1) at_place(n, b.end);
        }
        for (int at = b.begin; at <= b.end; at++) {
            for (const int n : all[size_t(at)].reads)
                at_place(n, at);
            for (const int n : all[size_t(at)].writes)
                at_place(n, at);
        }
    }
    for (int n = 0; n < count; n++)
        own[size_t(n)] = own[size_t(n)] || (blocks[0].in[size_t(n) / 64] >> n % 64 & 1);

    // Places: those of everything else as they come, then those that are shared. A result's is never one of its
    // sources'.
    std::vector<int> place(number.size(), -1);
    std::vector<uint32_t> image;
    auto take = [&](int slot, int units) {
        const size_t at = image.size() / WARP;
        image.insert(image.end(), k.image.begin() + long(slot) * WARP, k.image.begin() + (long(slot) + units) * WARP);
        return int(at);
    };
    for (size_t slot = 0; slot < number.size();
         slot++) { // neighbours stay neighbours: constants of 64 bits have two units
        const bool is_second = slot > 0 && number[slot - 1] >= 0 && registers[size_t(number[slot - 1])].second == 64;
        if (number[slot] < 0 && !is_second) place[slot] = take(int(slot), 1);
    }
    for (int n = 0; n < count; n++)
        if (own[size_t(n)])
            place[size_t(registers[size_t(n)].first)] =
                take(registers[size_t(n)].first, registers[size_t(n)].second == 64 ? 2 : 1);
    std::sort(alive.begin(), alive.end(), [](const interval &a, const interval &b) { return a.begin < b.begin; });
    std::multimap<int, int> ends; // numbers, by the end of what they are used for
    std::vector<int> free_[3];    // of 32 bits a lane, of 64, of one
    auto kind = [](int bits) { return bits == 64 ? 1 : bits == 1 ? 2 : 0; };
    for (const interval &i : alive) {
        const auto &r = registers[size_t(i.number)];
        if (own[size_t(i.number)] || i.end < 0) continue;
        while (!ends.empty() && ends.begin()->first < i.begin) {
            const auto &gone = registers[size_t(ends.begin()->second)];
            free_[kind(gone.second)].push_back(place[size_t(gone.first)]);
            ends.erase(ends.begin());
        }
        auto &unused = free_[kind(r.second)];
        if (unused.empty()) unused.push_back(take(r.first, r.second == 64 ? 2 : 1));
        place[size_t(r.first)] = unused.back();
        unused.pop_back();
        ends.insert({i.end, i.number});
    }

    auto moved = [&place](int &slot) {
        if (slot >= 0) slot = place[size_t(slot)];
    };
    for (instruction &i : k.code) {
        moved(i.guard.slot), moved(i.named.slot), moved(i.to.slot), moved(i.link);
        for (operand &o : i.from)
            moved(o.slot);
        for (auto &list : i.list)
            for (operand &o : list)
                moved(o.slot);
    }
    for (auto slots : {k.tid, k.ntid, k.ctaid, k.nctaid})
        for (int d = 0; d < 3; d++)
            moved(slots[d]);
    for (int &slot : k.dynamic_shared)
        moved(slot);
    for (int &slot : k.local)
        moved(slot);
    for (auto &p : k.parameter_address)
        moved(p.first);
    k.image = std::move(image);
}

} // namespace ptx

// wgmma.cpp - products of warpgroups on sm_90a: "Asynchronous Warpgroup Level Matrix Instructions".
//
// A product reads its operands at any moment until its group is waited for, and its sums are nobody's until then. LATE and RANDOM
// reckon at the wait, each warp its own 16 rows, EARLY at once; until the wait the registers of the sums hold NaN.
#include "tests/ptx/parse.h"
#include "tests/ptx/swizzled.h"

#include <algorithm>
#include <cmath>

namespace ptx {
namespace {

constexpr uint32_t UNREADY = 0x7fffdead;

void check(uint64_t descriptor) {
    if (descriptor >> 62 != 1) fail("a matrix descriptor that is not swizzled by 128 bytes");
    if (descriptor >> 49 & 7) fail("a matrix descriptor with a base offset");
}

// The warp's 16 rows of the product, added to what gathers. (fma: as in mma of warp.cpp.)
void reckon(warp &w, const product &p) {
    const instruction &i = *p.what;
    const int columns = i.number;
    const bool is_half = i.source == type::F16, left_by_columns = i.flags & 1, right_by_columns = i.flags & 2;
    double a[16][16], b[16][256];
    if (i.list[1].empty()) {
        const swizzled left(p.left, left_by_columns, is_half, "wgmma reads");
        const int first = w.number % 4 * 16;
        float eight[8];
        for (int n = 0; n < 32; n++) {
            const int row = left_by_columns ? n / 16 * 8 : n / 2, k = left_by_columns ? n % 16 : n % 2 * 8;
            left.eight(*w.in, first + row, k, eight);
            for (int e = 0; e < 8; e++)
                (left_by_columns ? a[row + e][k] : a[row][k + e]) = double(eight[e]);
        }
    } else {
        for (int part = 0; part < 4; part++) { // as for mma.m16n8k16
            const uint32_t *two = w.lanes_of<uint32_t>(i.list[1][size_t(part)].slot);
            for (int l = 0; l < WARP; l++)
                for (int e = 0; e < 2; e++) {
                    const uint16_t h = uint16_t(two[l] >> 16 * e);
                    a[l / 4 + (part & 1) * 8][l % 4 * 2 + (part & 2) * 4 + e] = double(is_half ? of_f16(h) : of_bf16(h));
                }
        }
    }
    const swizzled right(p.right, right_by_columns, is_half, "wgmma reads");
    for (int c = 0; c < columns; c += right_by_columns ? 8 : 1)
        for (int k = 0; k < 16; k += right_by_columns ? 1 : 8) {
            float eight[8];
            right.eight(*w.in, c, k, eight);
            for (int e = 0; e < 8; e++)
                (right_by_columns ? b[k][c + e] : b[k + e][c]) = double(eight[e]);
        }
    std::vector<uint32_t> &d = w.summing.at(i.list[0][0].slot).values;
    for (int row = 0; row < 16; row++) // d[e] of lane l: row l / 4 (+ 8 for e % 4 >= 2), column 8 (e / 4) + 2 (l % 4) + e % 2
        for (int c = 0; c < columns; c += 8) {
            uint32_t *const even = &d[size_t(c / 8 * 4 + (row >= 8 ? 2 : 0)) * WARP + size_t(row % 8 * 4)], *const odd = even + WARP;
            double sum[8];
            for (int e = 0; e < 8; e++)
                sum[e] = p.adds ? double(bit_cast<float>((e & 1 ? odd : even)[e / 2])) : 0.0;
            for (int k = 0; k < 16; k++)
                for (int e = 0; e < 8; e++)
                    sum[e] = std::fma(a[row][k], b[k][c + e], sum[e]);
            for (int e = 0; e < 8; e++)
                (e & 1 ? odd : even)[e / 2] = bit_cast<uint32_t>(float(sum[e]));
        }
}

// "between a register access by a thread in the warpgroup and any wgmma.mma_async that accesses the same registers": of a left operand that
// somebody reads too, nothing can come.
void must_be_fenced(warp &w, const std::vector<operand> &registers, bool are_sums) {
    const char *what = are_sums ? "registers of the sums" : "registers of the left operand";
    for (const operand &o : registers) {
        if (w.dated[size_t(o.slot)] > w.fenced) fail("wgmma with %s that were written behind the last wgmma.fence", what);
        if (are_sums && w.seen[size_t(o.slot)] > w.fenced) fail("wgmma with %s that were read behind the last wgmma.fence", what);
    }
}

void start(warp &w, const instruction &i, uint32_t lanes) {
    if (lanes != EVERY_LANE) fail("wgmma without all lanes");
    if (w.fenced == 0) fail("wgmma without a wgmma.fence");
    product p{&i, 0, w.same_in_all(i.from[1], lanes, "a descriptor"), false};
    check(p.right);
    if (i.list[1].empty()) check(p.left = w.same_in_all(i.from[0], lanes, "a descriptor"));
    const uint32_t adds = w.predicate(i.from[2]);
    if (adds != 0 && adds != EVERY_LANE) fail("a predicate that differs between the lanes of a warp");
    p.adds = adds != 0;
    must_be_fenced(w, i.list[1], false);
    const int first = i.list[0][0].slot;
    if (w.summing.find(first) == w.summing.end()) {
        must_be_fenced(w, i.list[0], true);
        sums &s = w.summing[first];
        for (const operand &o : i.list[0]) {
            uint32_t *values = w.lanes_of<uint32_t>(o.slot);
            s.values.insert(s.values.end(), values, values + WARP);
            std::fill(values, values + WARP, UNREADY);
        }
        s.open = 0;
    } else if (w.summing[first].values.size() != i.list[0].size() * WARP) {
        fail("wgmma of another shape to sums in flight");
    }
    w.summing[first].open++;
    w.products++;
    if (w.in->when == timing::EARLY) reckon(w, p);
    w.open_group.push_back(p);
}

void fence(warp &w, const instruction &, uint32_t) { w.fenced = w.now; }
void commit(warp &w, const instruction &, uint32_t) {
    w.groups.push_back(w.open_group);
    w.open_group.clear();
}
void wait(warp &w, const instruction &i, uint32_t) { finish_products(w, size_t(i.number)); }

} // namespace

void finish_products(warp &w, size_t left) {
    while (w.groups.size() > left) {
        for (const product &p : w.groups.front()) {
            if (w.in->when != timing::EARLY) reckon(w, p);
            const auto found = w.summing.find(p.what->list[0][0].slot);
            if (--found->second.open != 0) continue;
            for (size_t e = 0; e < p.what->list[0].size(); e++) {
                uint32_t *values = w.lanes_of<uint32_t>(p.what->list[0][e].slot);
                for (int l = 0; l < WARP; l++) {
                    if (values[l] != UNREADY) fail("a register of sums was written while a product was in flight");
                    values[l] = found->second.values[e * WARP + size_t(l)];
                }
            }
            w.summing.erase(found);
        }
        w.groups.pop_front();
    }
}

bool decode_wgmma(reader &r, const statement &s, instruction &i) {
    if (s.parts[0] != "wgmma") return false;
    const std::string all = s.opcode();
    i.together = true;
    if (all == "wgmma.fence.sync.aligned") {
        i.run = fence;
    } else if (all == "wgmma.commit_group.sync.aligned") {
        i.run = commit;
    } else if (all == "wgmma.wait_group.sync.aligned") {
        i.number = int(literal(s.operands.at(0)));
        i.run = wait;
    } else if (all.compare(0, 31, "wgmma.mma_async.sync.aligned.m6") == 0 && s.parts.size() == 8) {
        const std::string &shape = s.parts[4];
        if (sscanf(shape.c_str(), "m64n%dk16", &i.number) != 1 || s.parts[5] != "f32" || s.parts[6] != s.parts[7]) return false;
        i.source = s.last();
        if (i.source != type::F16 && i.source != type::BF16) return false;
        i.list[0] = braces(r, s.operands.at(0), type::F32, true);
        if (i.list[0].size() != size_t(i.number) / 2) fail("%zu sums", i.list[0].size());
        const bool in_registers = s.operands.at(1)[0] == '{';
        if (in_registers) i.list[1] = braces(r, s.operands[1], type::B32);
        else i.from[0] = source(r, s.operands[1], type::B64);
        i.from[1] = source(r, s.operands.at(2), type::B64);
        i.from[2] = source(r, s.operands.at(3), type::PRED);
        // Signs of a and b, and how they lie; an operand in registers has no such word.
        if (literal(s.operands.at(4)) != 1 || literal(s.operands.at(5)) != 1 || s.operands.size() != (in_registers ? 7u : 8u)) return false;
        const int64_t left = in_registers ? 0 : literal(s.operands[6]), right = literal(s.operands.back());
        i.flags = uint32_t(left) | uint32_t(right) << 1;
        i.run = start;
    } else {
        return false;
    }
    return true;
}

} // namespace ptx

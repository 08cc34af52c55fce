// warp.cpp - what the lanes of a warp do together: shfl, vote, ldmatrix, mma. "Parallel Synchronization and Communication
// Instructions", "Warp Level Matrix Multiply-Accumulate Instructions".
#include "tests/ptx/parse.h"

namespace ptx {

uint64_t warp::same_in_all(const operand &o, uint32_t lanes, const char *what) {
    uint64_t value = 0;
    bool first = true;
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        if (!first && bits(o, l) != value) fail("%s differs between the lanes of a warp", what);
        value = bits(o, l);
        first = false;
    }
    return value;
}

namespace {

void nothing(warp &, const instruction &, uint32_t) {}

// The text gives bounds of segments in c: bits 0 to 4 clamp, bits 8 to 12 the mask.
template <char MODE> void shfl(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t values[WARP], found = 0;
    for (int l = 0; l < WARP; l++)
        values[l] = uint32_t(w.bits(i.from[0], l));
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const int b = int(w.bits(i.from[1], l) & 31);
        const uint32_t c = uint32_t(w.bits(i.from[2], l));
        const int clamp = c & 31, segment = c >> 8 & 31;
        const int most = (l & segment) | (clamp & ~segment), least = l & segment;
        int j;
        bool good;
        if (MODE == 'u') j = l - b, good = j >= most;
        else if (MODE == 'd') j = l + b, good = j <= most;
        else if (MODE == 'b') j = l ^ b, good = j <= most;
        else j = least | (b & ~segment), good = j <= most;
        if (!good) j = l;
        if (!(lanes >> j & 1)) fail("shfl.sync from lane %d, which does not take part", j);
        w.put(i.to, l, values[j]);
        found |= uint32_t(good) << l;
    }
    if (i.list[0].empty()) return;
    uint32_t &p = *w.lanes_of<uint32_t>(i.list[0][0].slot);
    p = (p & ~lanes) | (found & lanes);
}

void vote(warp &w, const instruction &i, uint32_t lanes) {
    const uint32_t votes = w.predicate(i.from[0]) & lanes;
    if (i.number == 'b') {
        for (int l = 0; l < WARP; l++)
            if (lanes >> l & 1) w.put(i.to, l, votes);
        return;
    }
    const bool result = i.number == 'y' ? votes != 0 : votes == lanes;
    uint32_t &d = *w.lanes_of<uint32_t>(i.to.slot);
    d = (d & ~lanes) | (result ? lanes : 0);
}

// Lanes 8q to 8q + 7 name the rows of matrix q; lane T gets two neighbours of row T / 4, of a transposed one of column T / 4.
void ldmatrix(warp &w, const instruction &i, uint32_t) {
    for (size_t q = 0; q < i.list[0].size(); q++) {
        uint16_t rows[8][8];
        for (int r = 0; r < 8; r++)
            memcpy(rows[r], w.in->at(uint32_t(w.bits(i.from[0], int(8 * q) + r) + uint64_t(i.offset[0])), 16, 16), 16);
        for (int t = 0; t < WARP; t++) {
            const int g = t / 4, e = t % 4 * 2;
            const uint16_t low = i.flags & TRANSPOSED ? rows[e][g] : rows[g][e], high = i.flags & TRANSPOSED ? rows[e + 1][g] : rows[g][e + 1];
            w.put(i.list[0][q], t, uint32_t(high) << 16 | low);
        }
    }
}

// m16n8k16: "Matrix Fragments for mma.m16n8k16 with floating point type".
template <bool IS_HALF> void mma(warp &w, const instruction &i, uint32_t) {
    float a[16][16], b[16][8];
    double c[16][8];
    auto number = [](uint64_t h) { return IS_HALF ? of_f16(uint16_t(h)) : of_bf16(uint16_t(h)); };
    for (int l = 0; l < WARP; l++) {
        const int g = l / 4, t = l % 4;
        for (int e = 0; e < 8; e++) {
            const int row = (e / 2) % 2 == 0 ? g : g + 8, col = 2 * t + e % 2 + (e >= 4 ? 8 : 0);
            a[row][col] = number(w.bits(i.list[1][size_t(e / 2)], l) >> 16 * (e % 2));
        }
        for (int e = 0; e < 4; e++)
            b[2 * t + e % 2 + (e >= 2 ? 8 : 0)][g] = number(w.bits(i.list[2][size_t(e / 2)], l) >> 16 * (e % 2));
        for (int e = 0; e < 4; e++)
            c[g + (e >= 2 ? 8 : 0)][2 * t + e % 2] = bit_cast<float>(w.lanes_of<uint32_t>(i.from[size_t(e)].slot)[l]);
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < 8; col++)
                c[row][col] += double(a[row][k]) * double(b[k][col]);
    for (int l = 0; l < WARP; l++)
        for (int e = 0; e < 4; e++)
            w.put(i.list[0][size_t(e)], l, bit_cast<uint32_t>(float(c[l / 4 + (e >= 2 ? 8 : 0)][2 * (l % 4) + e % 2])));
}

} // namespace

bool decode_warp(reader &r, const statement &s, instruction &i) {
    const std::string &op = s.parts[0], all = s.opcode();
    i.together = true;
    if (op == "shfl" && s.parts.size() == 4 && s.has("sync") && s.last() == type::B32) {
        const size_t bar = s.operands.at(0).find('|');
        i.to = target(r, s.operands[0].substr(0, bar), type::B32);
        if (bar != std::string::npos) i.list[0] = {target(r, s.operands[0].substr(bar + 1), type::PRED)};
        for (size_t n = 0; n < 3; n++)
            i.from[n] = source(r, s.operands.at(n + 1), type::B32);
        i.named = source(r, s.operands.at(4), type::B32);
        i.run = s.has("bfly") ? shfl<'b'> : s.has("idx") ? shfl<'i'> : s.has("up") ? shfl<'u'> : shfl<'d'>;
    } else if (op == "vote" && s.parts.size() == 4 && s.has("sync")) {
        const bool ballot = s.has("ballot");
        i.to = target(r, s.operands.at(0), ballot ? type::B32 : type::PRED);
        i.from[0] = source(r, s.operands.at(1), type::PRED);
        i.named = source(r, s.operands.at(2), type::B32);
        i.run = vote;
        i.number = ballot ? 'b' : s.has("any") ? 'y' : 'l';
        if (!ballot && !s.has("any") && !s.has("all")) return false;
    } else if (all == "bar.warp.sync") {
        i.named = source(r, s.operands.at(0), type::B32);
        i.run = nothing;
    } else if (all == "bar.sync" && s.operands.size() == 1 && s.operands[0] == "0") {
        i.kind = instruction::BARRIER;
        i.together = false;
    } else if (all.compare(0, 28, "ldmatrix.sync.aligned.m8n8.x") == 0 && s.has("shared") && s.last() == type::B16) {
        i.list[0] = braces(r, s.operands.at(0), type::B32, true);
        i.from[0] = address(r, s.operands.at(1), &i.offset[0], true);
        i.flags = s.has("trans") ? uint32_t(TRANSPOSED) : 0;
        i.run = ldmatrix;
    } else if (all.compare(0, 36, "mma.sync.aligned.m16n8k16.row.col.f3") == 0) {
        const bool is_half = all == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
        if (!is_half && all != "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") return false;
        i.list[0] = braces(r, s.operands.at(0), type::F32, true);
        i.list[1] = braces(r, s.operands.at(1), type::B32);
        i.list[2] = braces(r, s.operands.at(2), type::B32);
        const auto c = braces(r, s.operands.at(3), type::F32);
        if (i.list[0].size() != 4 || i.list[1].size() != 4 || i.list[2].size() != 2 || c.size() != 4) fail("operands of another shape");
        for (size_t e = 0; e < 4; e++)
            i.from[e] = c[e];
        i.run = is_half ? mma<true> : mma<false>;
    } else {
        i.together = false;
        return false;
    }
    return true;
}

} // namespace ptx

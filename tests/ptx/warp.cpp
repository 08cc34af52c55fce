// warp.cpp - what the lanes of a warp do together: shfl, vote, ldmatrix, mma. "Parallel Synchronization and Communication
// Instructions", "Warp Level Matrix Multiply-Accumulate Instructions".
#include "tests/ptx/parse.h"

#include <cmath>

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

void together(warp &w, const instruction &, uint32_t lanes) { w.hear(lanes); }

// The text gives bounds of segments in c: bits 0 to 4 clamp, bits 8 to 12 the mask.
template <char MODE> void shfl(warp &w, const instruction &i, uint32_t lanes) {
    uint32_t values[WARP], found = 0;
    memcpy(values, w.lanes_of<uint32_t>(i.from[0].slot), sizeof values);
    const uint32_t *by = w.lanes_of<uint32_t>(i.from[1].slot), *bounds = w.lanes_of<uint32_t>(i.from[2].slot);
    uint32_t *to = w.lanes_of<uint32_t>(i.to.slot);
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const int b = int(by[l] & 31);
        const uint32_t c = bounds[l];
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
        to[l] = values[j];
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
        uint32_t *d = w.lanes_of<uint32_t>(i.list[0][q].slot);
        if (!(i.flags & TRANSPOSED)) {
            memcpy(d, rows, sizeof rows); // the row's bytes, four lanes to a row
            continue;
        }
        for (int t = 0; t < WARP; t++)
            d[t] = uint32_t(rows[t % 4 * 2 + 1][t / 4]) << 16 | rows[t % 4 * 2][t / 4];
    }
}

// m16n8k16: "Matrix Fragments for mma.m16n8k16 with floating point type". A product of two numbers of 16 bits is a number of 64, so that fma
// rounds no less than adding it does.
template <bool IS_HALF> void mma(warp &w, const instruction &i, uint32_t) {
    double a[16][16], b[16][8];
    auto number = [](uint32_t h) { return double(IS_HALF ? of_f16(uint16_t(h)) : of_bf16(uint16_t(h))); };
    for (int part = 0; part < 4; part++) {
        const uint32_t *two = w.lanes_of<uint32_t>(i.list[1][size_t(part)].slot);
        for (int l = 0; l < WARP; l++) {
            double *at = &a[l / 4 + (part & 1) * 8][l % 4 * 2 + (part & 2) * 4];
            at[0] = number(two[l]), at[1] = number(two[l] >> 16);
        }
    }
    for (int part = 0; part < 2; part++) {
        const uint32_t *two = w.lanes_of<uint32_t>(i.list[2][size_t(part)].slot);
        for (int l = 0; l < WARP; l++) {
            const int k = l % 4 * 2 + part * 8;
            b[k][l / 4] = number(two[l]), b[k + 1][l / 4] = number(two[l] >> 16);
        }
    }
    const float *c[4];
    float *d[4];
    for (size_t e = 0; e < 4; e++)
        c[e] = w.lanes_of<float>(i.from[e].slot), d[e] = w.lanes_of<float>(i.list[0][e].slot);
    float results[4][WARP]; // (a register of the result may be one of the sources)
    for (int row = 0; row < 16; row++) {
        double sum[8];
        const int half = row / 8 * 2, first = row % 8 * 4;
        for (int col = 0; col < 8; col++)
            sum[col] = double(c[half + col % 2][first + col / 2]);
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < 8; col++)
                sum[col] = std::fma(a[row][k], b[k][col], sum[col]);
        for (int col = 0; col < 8; col++)
            results[half + col % 2][first + col / 2] = float(sum[col]);
    }
    for (int e = 0; e < 4; e++)
        memcpy(d[e], results[e], sizeof results[e]);
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
        i.run = together;
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

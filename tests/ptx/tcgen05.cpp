// tcgen05.cpp - tensor memory and its products on sm_100a: "TensorCore 5th Generation Family Instructions".
//
// A product reads its operands at any moment until the arrival of a commit behind it: EARLY makes it at once, LATE when nobody can go on without,
// RANDOM either. A load's registers are nobody's until wait::ld. Known: one block's own tensor cores (cta_group::1), kind::f16 of both types into fp32,
// 128 rows, both operands in shared memory swizzled by 128 bytes, loads and stores of 32 lanes by 32 bits.
#include "tests/ptx/parse.h"
#include "tests/ptx/swizzled.h"
#include "tests/ptx/tensor_memory.h"

#include <cmath>

namespace ptx {

// ---- who knows what -------------------------------------------------------------------------------------------------------

void tensor_memory::arrives(int warp, uint32_t barrier) {
    tensor_clock &gathers = barriers[barrier].first;
    of_warp &w = warps[size_t(warp)];
    gathers.learn(w.heard);
    gathers[size_t(warp)] = std::max(gathers[size_t(warp)], w.told);
}
void tensor_memory::hears(int warp, uint32_t barrier) { warps[size_t(warp)].heard.learn(barriers[barrier].second); }
void tensor_memory::all_meet() {
    tensor_clock all;
    for (size_t n = 0; n < warps.size(); n++) {
        all.learn(warps[n].heard);
        all[n] = std::max(all[n], warps[n].told);
    }
    for (of_warp &w : warps)
        w.heard = all;
}
const char *tensor_memory::left_open() const {
    if (!products.empty() || !commits.empty()) return "the block ended with products or a commit of tensor memory in flight";
    if (!pieces.empty()) return "the block ended with tensor memory that was not given back";
    for (const of_warp &w : warps)
        if (!w.loads.empty()) return "the block ended with a load of tensor memory that was not waited for";
    return nullptr;
}

namespace {

constexpr uint32_t UNREADY = 0x7fffdead;

tensor_memory &memory_of(warp &w) {
    if (w.in->tensor == nullptr) fail("tensor memory of a kernel that has none");
    return *w.in->tensor;
}
tensor_memory::of_warp &mine(warp &w) { return memory_of(w).warps[size_t(w.number)]; }

int only_lane(uint32_t lanes) {
    if (__builtin_popcount(lanes) != 1) fail("tcgen05 by %d threads of a warp, where one is to ask", __builtin_popcount(lanes));
    return __builtin_ctz(lanes);
}
void by_all(uint32_t lanes) {
    if (lanes != EVERY_LANE) fail("tcgen05 without all lanes");
}

// What all of these lanes know of others.
tensor_clock known_by(warp &w, uint32_t lanes) {
    tensor_memory::of_warp &m = mine(w);
    tensor_clock least = m.counts[size_t(__builtin_ctz(lanes))];
    each(lanes, [&](int l) {
        for (size_t n = 0; n < DOERS; n++)
            least[n] = std::min(least[n], m.counts[size_t(l)][n]);
    });
    return least;
}

void must_be_allocated(const tensor_memory &t, uint32_t first, uint32_t count) {
    for (const auto &p : t.pieces)
        if (p.begin <= first && first + count <= p.begin + p.count) return;
    fail("%u columns of tensor memory from %u on, which nobody has allocated", count, first);
}
bool in_flight(const tensor_product &p, uint32_t first, uint32_t count) {
    const uint32_t begin = p.to & 0xffff, columns = p.how >> 17 << 3 & 0x1f8;
    return first < begin + columns && begin < first + count;
}

// May a warp that knows that much of others touch these columns of a quarter? `writes`: also those who read them must be known to be done.
void check(const tensor_memory &t, int own, const tensor_clock &known, uint32_t first, uint32_t count, int quarter, bool writes, const char *what) {
    const auto &m = t.warps[size_t(own)];
    const uint32_t stored = m.open_store != 0 ? m.open_store - 1 : m.deeds, loaded = m.open_load != 0 ? m.open_load - 1 : m.deeds;
    for (uint32_t c = first; c < first + count; c++) {
        const auto &column = t.columns[c * QUARTERS + size_t(quarter)];
        if (column.writer >= 0 && (column.writer == own ? stored : known[size_t(column.writer)]) < column.written) {
            if (column.writer == PRODUCTS) fail("%s column %u of tensor memory, of whose product it does not know that it is done", what, c);
            fail("%s column %u of tensor memory, of whose store by warp %d it does not know that it is done", what, c, column.writer);
        }
        for (size_t n = 0; writes && n < MOST_WARPS; n++)
            if (column.read[n] > (int(n) == own ? loaded : known[n])) fail("%s column %u of tensor memory, of whose load by warp %zu it does not know that it is done", what, c, n);
    }
}

// ---- allocation -----------------------------------------------------------------------------------------------------------

uint32_t columns_of(warp &w, const instruction &i, int which, uint32_t lanes) {
    const uint32_t count = uint32_t(w.same_in_all(i.from[which], lanes, "a number of columns"));
    if (count < 32 || count > TENSOR_COLUMNS || (count & (count - 1)) != 0) fail("%u columns of tensor memory, not a power of two from 32 to 512", count);
    return count;
}
void allocate(warp &w, const instruction &i, uint32_t lanes) {
    by_all(lanes);
    tensor_memory &t = memory_of(w);
    if (t.given_up) fail("tcgen05.alloc behind relinquish_alloc_permit");
    const uint32_t count = columns_of(w, i, 1, lanes);
    uint32_t begin = TENSOR_COLUMNS - count; // not at 0, as where another block came first
    for (const auto &p : t.pieces)
        if (p.begin < begin + count) begin = p.begin - count;
    if (begin > TENSOR_COLUMNS) fail("%u columns of tensor memory more than there are", count);
    t.pieces.push_back({begin, count});
    const uint32_t deed = ++mine(w).deeds;
    for (uint32_t c = begin * QUARTERS; c < (begin + count) * QUARTERS; c++)
        t.columns[c].writer = w.number, t.columns[c].written = deed;
    const uint32_t to = uint32_t(w.same_in_all(i.from[0], lanes, "an address") + uint64_t(i.offset[0]));
    memcpy(w.in->at(to, 4, 4), &begin, 4);
    w.in->note_store(w, 0, to, 4);
}
void give_back(warp &w, const instruction &i, uint32_t lanes) {
    by_all(lanes);
    tensor_memory &t = memory_of(w);
    const uint32_t begin = uint32_t(w.same_in_all(i.from[0], lanes, "an address")), count = columns_of(w, i, 1, lanes);
    const auto found = std::find_if(t.pieces.begin(), t.pieces.end(), [=](const tensor_memory::piece &p) { return p.begin == begin && p.count == count; });
    if (found == t.pieces.end()) fail("%u columns of tensor memory from %#x on are given back, which nobody has allocated so", count, begin);
    for (const tensor_product &p : t.products)
        if (in_flight(p, begin, count)) fail("tensor memory is given back while a product is in flight");
    for (int quarter = 0; quarter < QUARTERS; quarter++)
        check(t, w.number, known_by(w, lanes), begin, count, quarter, true, "gives back");
    t.pieces.erase(found);
}
void give_up(warp &w, const instruction &, uint32_t lanes) {
    by_all(lanes);
    memory_of(w).given_up = true;
}

// ---- loads, stores, fences ------------------------------------------------------------------------------------------------

// "a warp can access only a quarter of the lanes": those that its number in its warpgroup says.
uint32_t place(warp &w, const instruction &i, uint32_t lanes, const char *what, bool writes) {
    by_all(lanes);
    tensor_memory &t = memory_of(w);
    const uint32_t address = uint32_t(w.same_in_all(i.from[0], lanes, "an address of tensor memory") + uint64_t(i.offset[0])), first = address & 0xffff, count = uint32_t(i.number);
    if (address >> 16 != uint32_t(w.number % QUARTERS) * WARP) fail("%s lane %u of tensor memory, which is not this warp's", what, address >> 16);
    must_be_allocated(t, first, count);
    for (const tensor_product &p : t.products)
        if (in_flight(p, first, count)) fail("%s columns of tensor memory from %u on that a product in flight writes", what, first);
    check(t, w.number, known_by(w, lanes), first, count, w.number % QUARTERS, writes, what);
    return first;
}
void load(warp &w, const instruction &i, uint32_t lanes) {
    const uint32_t first = place(w, i, lanes, "loads", false), from = uint32_t(w.number % QUARTERS) * WARP;
    tensor_memory &t = memory_of(w);
    auto &m = mine(w);
    m.deeds++;
    if (m.open_load == 0) m.open_load = m.deeds;
    tensor_memory::of_warp::load l{&i, {}};
    for (uint32_t c = 0; c < uint32_t(i.number); c++) {
        t.columns[(first + c) * QUARTERS + size_t(w.number % QUARTERS)].read[size_t(w.number)] = m.deeds;
        const uint32_t *cells = &t.cells[size_t(first + c) * TENSOR_LANES + from];
        l.values.insert(l.values.end(), cells, cells + WARP);
        uint32_t *to = w.lanes_of<uint32_t>(i.list[0][c].slot);
        if (w.in->when == timing::EARLY) memcpy(to, cells, WARP * sizeof *to);
        else std::fill(to, to + WARP, UNREADY);
    }
    m.loads.push_back(std::move(l));
}
void store(warp &w, const instruction &i, uint32_t lanes) {
    const uint32_t first = place(w, i, lanes, "stores to", true), to = uint32_t(w.number % QUARTERS) * WARP;
    tensor_memory &t = memory_of(w);
    auto &m = mine(w);
    m.deeds++;
    if (m.open_store == 0) m.open_store = m.deeds;
    for (uint32_t c = 0; c < uint32_t(i.number); c++) {
        auto &column = t.columns[(first + c) * QUARTERS + size_t(w.number % QUARTERS)];
        column.writer = w.number;
        column.written = m.deeds;
        column.read.fill(0);
        memcpy(&t.cells[size_t(first + c) * TENSOR_LANES + to], w.lanes_of<uint32_t>(i.list[0][c].slot), WARP * sizeof(uint32_t));
    }
}
void wait_loads(warp &w, const instruction &, uint32_t lanes) {
    by_all(lanes);
    auto &m = mine(w);
    for (const auto &l : m.loads)
        for (size_t c = 0; c < l.what->list[0].size(); c++) {
            uint32_t *to = w.lanes_of<uint32_t>(l.what->list[0][c].slot);
            for (int n = 0; n < WARP; n++) // (a register that is never read may be another's by now)
                if (to[n] == UNREADY) to[n] = l.values[c * WARP + size_t(n)];
        }
    m.loads.clear();
    m.open_load = 0;
}
void wait_stores(warp &w, const instruction &, uint32_t lanes) {
    by_all(lanes);
    mine(w).open_store = 0;
}
void fence_before(warp &w, const instruction &, uint32_t lanes) {
    if (lanes == w.alive) mine(w).told = mine(w).done(); // (deeds are the whole warp's)
}
void fence_after(warp &w, const instruction &, uint32_t lanes) {
    auto &m = mine(w);
    for (int l = 0; l < WARP; l++)
        if (lanes >> l & 1) m.counts[size_t(l)] = m.heard;
}

// ---- products -------------------------------------------------------------------------------------------------------------

struct matrix : swizzled {
    matrix(uint64_t descriptor, bool columns, bool half) : swizzled(descriptor, columns, half, "tcgen05.mma reads") {
        if (descriptor >> 61 != 2) fail("a matrix descriptor of tcgen05 that is not swizzled by 128 bytes");
        if ((descriptor >> 46 & 7) != 1) fail("a matrix descriptor without the constant of tcgen05 in bits 46 to 48");
        if (descriptor >> 49 & 0xfff) fail("a matrix descriptor with a base offset, or with bits that are to be 0");
        if (descriptor >> 14 & 3 || descriptor >> 30 & 3) fail("a matrix descriptor with bits that are to be 0");
    }
    void read(block &b, int rows, std::vector<double> &to) const { // [16][rows]
        to.resize(size_t(16 * rows));
        float some[8];
        for (int mn = 0; mn < rows; mn += by_columns ? 8 : 1)
            for (int k = 0; k < 16; k += by_columns ? 1 : 8) {
                eight(b, mn, k, some);
                for (int e = 0; e < 8; e++)
                    to[size_t(by_columns ? k * rows + mn + e : (k + e) * rows + mn)] = double(some[e]);
            }
    }
};

// "Instruction descriptor" of .kind::f16.
struct shape {
    int rows, columns;
    bool is_half, left_by_columns, right_by_columns;
    explicit shape(uint32_t d)
        : rows(int(d >> 24 & 31) << 4), columns(int(d >> 17 & 63) << 3), is_half((d >> 7 & 7) == 0), left_by_columns(d >> 15 & 1), right_by_columns(d >> 16 & 1) {
        if (d & 0xf || d >> 6 & 1 || d >> 23 & 1 || d >> 29) fail("an instruction descriptor %#x with sparsity, saturation, a shift or bits that are to be 0", d);
        if ((d >> 4 & 3) != 1) fail("an instruction descriptor %#x whose sums are not fp32", d);
        if ((d >> 7 & 7) > 1 || (d >> 10 & 7) != (d >> 7 & 7)) fail("an instruction descriptor %#x of other types, or of two", d);
        if (d >> 13 & 3) fail("an instruction descriptor %#x that negates", d);
        if (rows != TENSOR_LANES) fail("a product of %d rows, which this machine does not know", rows);
        if (columns < 16 || columns > 256 || columns % 16 != 0) fail("a product of 128 rows and %d columns", columns);
    }
};

void reckon(block &b, tensor_product &p) {
    if (p.made) return;
    p.made = true;
    const shape s(p.how);
    std::vector<double> left, right;
    matrix(p.left, s.left_by_columns, s.is_half).read(b, s.rows, left);
    matrix(p.right, s.right_by_columns, s.is_half).read(b, s.columns, right);
    std::vector<uint32_t> &cells = b.tensor->cells;
    for (int c = 0; c < s.columns; c++) {
        uint32_t *to = &cells[(size_t(p.to & 0xffff) + size_t(c)) * TENSOR_LANES];
        double sum[TENSOR_LANES];
        for (int r = 0; r < TENSOR_LANES; r++)
            sum[r] = p.adds ? double(bit_cast<float>(to[r])) : 0.0;
        for (int k = 0; k < 16; k++) {
            const double with = right[size_t(k * s.columns + c)], *of = &left[size_t(k) * TENSOR_LANES];
            for (int r = 0; r < TENSOR_LANES; r++)
                sum[r] = std::fma(of[r], with, sum[r]);
        }
        for (int r = 0; r < TENSOR_LANES; r++)
            to[r] = bit_cast<uint32_t>(float(sum[r]));
    }
}

void multiply(warp &w, const instruction &i, uint32_t lanes) {
    const int lane = only_lane(lanes);
    tensor_memory &t = memory_of(w);
    const tensor_product p{&i, w.bits(i.from[1], lane), w.bits(i.from[2], lane), uint32_t(w.bits(i.from[0], lane) + uint64_t(i.offset[0])), uint32_t(w.bits(i.from[3], lane)),
                           (w.predicate(i.list[1][0]) >> lane & 1) != 0, false, w.number, lane, false};
    const shape s(p.how);
    const uint32_t first = p.to & 0xffff, count = uint32_t(s.columns);
    if (p.to >> 16 != 0) fail("a product of 128 rows from lane %u on", p.to >> 16);
    must_be_allocated(t, first, count);
    bool adds_to_one = false; // in flight: "pipelined", where accumulator and shape are the same
    for (const tensor_product &o : t.products) {
        if (!in_flight(o, first, count)) continue;
        if (o.to != p.to || (o.how ^ p.how) >> 17 != 0 || o.warp != w.number || o.lane != lane) fail("a product over sums of another shape, or of another thread, in flight");
        adds_to_one = true;
    }
    for (int quarter = 0; quarter < QUARTERS && !adds_to_one; quarter++) {
        // What this thread's own products wrote, the next may add to without having been told; what other warps loaded or stored it must know of.
        tensor_clock known = known_by(w, lanes);
        known[PRODUCTS] = t.landed[PRODUCTS];
        check(t, w.number, known, first, count, quarter, true, "a product writes");
    }
    std::vector<double> unused; // what it reads must have been handed over when it is asked for
    matrix(p.left, s.left_by_columns, s.is_half).read(*w.in, s.rows, unused);
    matrix(p.right, s.right_by_columns, s.is_half).read(*w.in, s.columns, unused);
    t.products.push_back(p);
    const bool all_made = std::all_of(t.products.begin(), t.products.end() - 1, [](const tensor_product &o) { return o.made; });
    if (w.in->when == timing::EARLY || (w.in->when == timing::RANDOM && all_made && (w.in->draw() & 1))) reckon(*w.in, t.products.back());
}
void commit(warp &w, const instruction &i, uint32_t lanes) {
    const int lane = only_lane(lanes);
    tensor_memory &t = memory_of(w);
    const uint32_t barrier = uint32_t(w.bits(i.from[0], lane) + uint64_t(i.offset[0]));
    w.in->at(barrier, 8, 8);
    if (w.in->barriers.count(barrier) == 0) fail("no mbarrier at %#x", barrier);
    w.in->must_be_handed_over(barrier, 8, "a commit arrives at a barrier");
    for (const tensor_product &p : t.products)
        if (p.warp != w.number || p.lane != lane) fail("products of several threads in flight, which this machine does not know");
    t.commits.push_back({barrier, t.products.size(), w.number, lane});
    while (w.in->when == timing::EARLY && !t.commits.empty())
        t.land(*w.in);
}

} // namespace

void tensor_memory::land(block &b) {
    const tensor_commit c = commits.front();
    commits.pop_front();
    for (size_t n = 0; n < c.products; n++) {
        tensor_product &p = products.front();
        reckon(b, p);
        const uint32_t begin = p.to & 0xffff, count = uint32_t(shape(p.how).columns), deed = landed[PRODUCTS] + 1;
        products.pop_front();
        for (uint32_t column_of = begin * QUARTERS; column_of < (begin + count) * QUARTERS; column_of++) {
            columns[column_of].writer = PRODUCTS, columns[column_of].written = deed;
            columns[column_of].read.fill(0);
        }
    }
    landed[PRODUCTS]++;
    for (tensor_commit &other : commits)
        other.products -= c.products;
    barriers[c.barrier].first.learn(landed);
    barrier_object &arrives_at = b.barriers.at(c.barrier);
    if (--arrives_at.missing < 0) fail("a commit to an mbarrier that has all arrivals of its phase");
    b.settle(c.barrier, arrives_at);
}

bool decode_tcgen05(reader &r, const statement &s, instruction &i) {
    if (s.parts[0] != "tcgen05") return false;
    const std::string all = s.opcode();
    auto whole = [&](const char *what) { return all == what; };
    if (whole("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32")) {
        i.together = true;
        i.from[0] = address(r, s.operands.at(0), &i.offset[0], true);
        i.from[1] = source(r, s.operands.at(1), type::U32);
        i.run = allocate;
    } else if (whole("tcgen05.dealloc.cta_group::1.sync.aligned.b32")) {
        i.together = true;
        i.from[0] = source(r, s.operands.at(0), type::U32);
        i.from[1] = source(r, s.operands.at(1), type::U32);
        i.run = give_back;
    } else if (whole("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")) {
        i.together = true;
        i.run = give_up;
    } else if (whole("tcgen05.fence::before_thread_sync")) {
        i.run = fence_before;
    } else if (whole("tcgen05.fence::after_thread_sync")) {
        i.run = fence_after;
    } else if (whole("tcgen05.wait::ld.sync.aligned") || whole("tcgen05.wait::st.sync.aligned")) {
        i.together = true;
        i.run = all[14] == 'l' ? wait_loads : wait_stores;
    } else if (sscanf(all.c_str(), "tcgen05.ld.sync.aligned.32x32b.x%d.b32", &i.number) == 1 || sscanf(all.c_str(), "tcgen05.st.sync.aligned.32x32b.x%d.b32", &i.number) == 1) {
        const bool loads = s.parts[1] == "ld";
        if (s.parts.size() != 7 || s.parts[6] != "b32" || i.number < 1 || i.number > 128 || (i.number & (i.number - 1)) != 0) return false;
        i.together = true;
        i.from[0] = address(r, s.operands.at(loads ? 1 : 0), &i.offset[0], true);
        i.list[0] = braces(r, s.operands.at(loads ? 0 : 1), type::B32, loads);
        if (i.list[0].size() != size_t(i.number)) fail("%zu registers of %d", i.list[0].size(), i.number);
        i.run = loads ? load : store;
    } else if (whole("tcgen05.mma.cta_group::1.kind::f16")) {
        if (s.operands.size() != 5 || s.operands[1][0] == '[') return false; // left operands in tensor memory: not known
        i.from[0] = address(r, s.operands[0], &i.offset[0], true);
        i.from[1] = source(r, s.operands[1], type::B64);
        i.from[2] = source(r, s.operands[2], type::B64);
        i.from[3] = source(r, s.operands[3], type::B32);
        i.list[1] = {source(r, s.operands[4], type::PRED)};
        i.run = multiply;
    } else if (whole("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64")) {
        i.from[0] = address(r, s.operands.at(0), &i.offset[0], true);
        i.run = commit;
    } else {
        return false;
    }
    return true;
}

} // namespace ptx

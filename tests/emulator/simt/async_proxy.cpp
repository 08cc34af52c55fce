#include "tests/emulator/simt/async_proxy.h"
#include "tests/emulator/simt/control.h"
#include "tests/emulator/simt/shared_memory.h"
#include "tests/emulator/simt/tensor_memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace simt {

bool async_used;
static uint64_t all_arrivals; // of threads, since the program began
static bool brings_once;      // a fault: what comes to an mbarrier behind its first phase is not there

namespace {

enum { WARPS = 16, BARRIERS = 32, PIECE = 16, PIECES = MOST_SHARED / PIECE, FIRST_ADDRESS = 1024 };

struct knowledge {
    uint32_t of_warp[WARPS];       // deeds of that warp up to this time of its own
    uint32_t of_barrier[BARRIERS]; // phases of it that are complete
};
void learn(knowledge &k, const knowledge &other) {
    for (int i = 0; i < WARPS; i++)
        k.of_warp[i] = std::max(k.of_warp[i], other.of_warp[i]);
    for (int i = 0; i < BARRIERS; i++)
        k.of_barrier[i] = std::max(k.of_barrier[i], other.of_barrier[i]);
}

struct copy {
    unsigned char *tile;
    fake_tensor_map map;
    int column, row;
};
struct barrier {
    const void *at;
    unsigned arrivals, missing; // of a phase; of this one
    uint64_t expected, brought; // bytes
    unsigned phase;             // the first that is not complete
    unsigned by, since;         // who initialised it, and when
    bool done;                  // with ft_mbarrier_init_done
    knowledge gathered, published;
    std::vector<copy> copies; // of this phase
    unsigned commits;         // of tensor memory's products, which arrive when they are asked for
    std::vector<unsigned> waiting;
};

struct piece { // of shared memory
    enum { NOBODY, A_COPY, STORES } kind;
    unsigned writer, number; // barrier and phase + 1; or warp and its time
    uint32_t read[WARPS];    // when a warp read it last; 0: not since it was written
    uint16_t reading[WARPS]; // products that have not been waited for
};
struct reading {
    unsigned group, piece;
};
struct left_in_registers {
    const unsigned *at;
    unsigned words[4], group;
};
struct product {
    float *to;
    unsigned group;
    std::vector<float> sums;
};

unsigned threads;
size_t bytes;
knowledge knows[WARPS];
std::vector<barrier> barriers;
piece pieces[PIECES];
alignas(16) unsigned char view[MOST_SHARED]; // as tensor cores and copies see shared memory
std::vector<reading> readings[WARPS];
uint64_t issued[WARPS];
struct {
    std::vector<product> products;
    std::vector<left_in_registers> lefts;
    unsigned group;
    bool fenced;
} lanes[WARPS * WARP];

unsigned warp_of_current() { return current->number / WARP; }
uint32_t now() { return knows[warp_of_current()].of_warp[warp_of_current()]; }

SIMT_NO_TSAN bool same(const unsigned char *a, const unsigned char *b) {
    for (int i = 0; i < PIECE; i++)
        if (a[i] != b[i]) return false;
    return true;
}
SIMT_NO_TSAN void take_over(unsigned char *to, const unsigned char *from) {
    for (int i = 0; i < PIECE; i++)
        to[i] = from[i];
}

unsigned piece_of(const void *at, site where, const char *what) {
    const size_t offset = size_t(static_cast<const unsigned char *>(at) - block.dynamic_shared);
    if (offset >= bytes) fault(where, "%s outside of dynamic shared memory", what);
    return unsigned(offset / PIECE);
}

// ---- who may do what ----------------------------------------------------------------------------------------------------

void check_writer(const piece &p, site where, const char *what) {
    const unsigned warp = warp_of_current();
    const knowledge &k = knows[warp];
    if (p.kind == piece::A_COPY && k.of_barrier[p.writer] < p.number)
        fault(where, "%s bytes of a tensor copy whose barrier this warp has not waited for", what);
    if (p.kind == piece::STORES && p.writer != warp && k.of_warp[p.writer] < p.number)
        fault(where, "%s what warp %u stored, and nothing orders the two", what, p.writer);
}
void check_readers(const piece &p, site where, const char *what) {
    const unsigned warp = warp_of_current();
    for (unsigned w = 0; w < (threads + WARP - 1) / WARP; w++) {
        if (p.reading[w] > 0) fault(where, "%s bytes that a product of warp %u still reads", what, w);
        if (w != warp && p.read[w] > knows[warp].of_warp[w])
            fault(where, "%s bytes that warp %u has read, and nothing orders the two", what, w);
    }
}
void written(piece &p, decltype(piece::kind) kind, unsigned writer, unsigned number) {
    memset(&p, 0, sizeof p);
    p.kind = kind;
    p.writer = writer;
    p.number = number;
}

// ---- barriers -----------------------------------------------------------------------------------------------------------

barrier &barrier_at(const void *at, site where) {
    for (barrier &b : barriers) {
        if (b.at != at) continue;
        if (b.by != warp_of_current() && knows[warp_of_current()].of_warp[b.by] < b.since)
            fault(where, "an mbarrier that warp %u initialised, without __syncthreads since", b.by);
        return b;
    }
    fault(where, "this mbarrier was not initialised");
}

SIMT_NO_TSAN void land(const copy &c) {
    for (unsigned r = 0; r < c.map.box_rows; r++)
        for (unsigned i = 0; i < c.map.box_columns; i++) {
            const int64_t row = int64_t(c.row) + r, column = int64_t(c.column) + i;
            const bool inside = row >= 0 && column >= 0 && uint64_t(row) < c.map.rows && uint64_t(column) < c.map.columns;
            const uint16_t x =
                inside ? reinterpret_cast<const uint16_t *>(c.map.base + uint64_t(row) * c.map.stride)[column] : uint16_t(0);
            const unsigned at = swizzled(shared_address(c.tile) + r * 128 + i * 2) - FIRST_ADDRESS;
            *reinterpret_cast<uint16_t *>(block.dynamic_shared + at) = x;
            *reinterpret_cast<uint16_t *>(view + at) = x;
        }
}

void land_commits(const barrier &b, site where);

// Completes its phase if nothing is missing any more.
void settle(barrier &b, site where) {
    if (b.commits > 0) land_commits(b, where);
    if (b.brought > b.expected && b.missing == 0)
        fault(where, "copies bring %llu bytes to an mbarrier that expects %llu", (unsigned long long)b.brought,
              (unsigned long long)b.expected);
    if (b.missing > 0 || b.brought < b.expected) return;
    for (const copy &c : b.copies)
        land(c);
    b.copies.clear();
    b.phase++;
    b.gathered.of_barrier[&b - barriers.data()] = b.phase;
    b.published = b.gathered;
    b.missing = b.arrivals;
    b.expected = b.brought = 0;
    for (unsigned lane : b.waiting)
        wake(lane);
    b.waiting.clear();
}

// Of each phase's end nobody hears before it is asked for: what arrives with it is late.
void settle_if_asked(barrier &b, site where) {
    if (!b.waiting.empty()) settle(b, where);
}

// ---- tensor memory ------------------------------------------------------------------------------------------------------

struct commit {
    barrier *arrives;
    size_t products; // the first ones in flight
    unsigned warp, group;
    uint32_t time;
    knowledge known; // to the thread that asked: its products came after
};
std::vector<commit> commits;
piece columns[TENSOR_COLUMNS][4]; // of a quarter of the lanes each: books as of 16 bytes of shared memory

// The oldest commits, until this barrier has none.
void land_commits(const barrier &b, site where) {
    while (b.commits > 0) {
        const commit c = commits.front();
        commits.erase(commits.begin());
        for (size_t i = 0; i < c.products; i++) {
            const tensor_product p = tensor_take_product();
            for (unsigned column = p.first; column < p.first + p.count; column++)
                for (piece &quarter : columns[column])
                    written(quarter, piece::A_COPY, unsigned(c.arrives - barriers.data()), c.arrives->phase + 1);
        }
        for (commit &other : commits)
            other.products -= c.products;
        auto &all = readings[c.warp];
        for (const reading &r : all) {
            if (r.group > c.group) continue;
            if (!same(block.dynamic_shared + r.piece * PIECE, view + r.piece * PIECE)) fault(where, "bytes were stored to while a product read them");
            pieces[r.piece].reading[c.warp]--;
            pieces[r.piece].read[c.warp] = c.time;
        }
        all.erase(std::remove_if(all.begin(), all.end(), [=](const reading &r) { return r.group <= c.group; }), all.end());
        barrier &to = *c.arrives;
        to.commits--;
        if (to.missing == 0) fault(where, "a commit to an mbarrier whose phase has all of its arrivals");
        to.missing--;
        learn(to.gathered, c.known);
        settle_if_asked(to, where);
    }
}

unsigned tile_pieces(const fake_tensor_map &map) { return unsigned(map.box_rows * map.box_columns * 2 / PIECE); }

} // namespace

// With the first barrier, or the first bytes that are handed over where the block's barriers order everything.
static void open_books(site where) {
    if (async_used) return;
    async_used = true;
    memset(knows, 0, sizeof knows);
    for (unsigned w = 0; w < WARPS; w++)
        knows[w].of_warp[w] = 1;
    memset(pieces, 0, sizeof pieces);
    memset(view, 0xff, sizeof view);
    barriers.clear();
    barriers.reserve(BARRIERS);
    commits.clear();
    tensor_begin_block();
    memset(issued, 0, sizeof issued);
    for (auto &r : readings)
        r.clear();
    for (unsigned i = 0; i < threads && i < WARPS * WARP; i++) {
        lanes[i].products.clear();
        lanes[i].lefts.clear();
        lanes[i].group = 0;
        lanes[i].fenced = false;
    }
    if (threads > WARPS * WARP) fault(where, "more than %d warps with mbarriers", int(WARPS));
}

void barrier_init(const void *at, unsigned arrivals, site where) {
    unseen books;
    open_books(where);
    piece_of(at, where, "an mbarrier");
    if (uintptr_t(at) % 8 != 0) fault(where, "an mbarrier that is not aligned to 8 bytes");
    if (arrivals == 0 || barriers.size() == BARRIERS) fault(where, "an mbarrier for no arrivals, or more than %d", int(BARRIERS));
    for (const barrier &b : barriers)
        if (b.at == at) fault(where, "this mbarrier is initialised already");
    barrier b = {};
    b.at = at;
    b.arrivals = b.missing = arrivals;
    b.by = warp_of_current();
    b.since = now();
    barriers.push_back(b);
}

void barrier_init_done() {
    for (barrier &b : barriers)
        if (b.by == warp_of_current()) b.done = true;
}

void barrier_arrive(const void *at, unsigned expected, site where) {
    unseen books;
    all_arrivals++;
    barrier &b = barrier_at(at, where);
    settle(b, where);
    if (b.missing == 0) fault(where, "arrives at an mbarrier whose phase has all of its arrivals, and waits for bytes");
    order_release(&b);
    knowledge &mine = knows[warp_of_current()];
    learn(b.gathered, mine);
    mine.of_warp[warp_of_current()]++;
    b.missing--;
    b.expected += expected;
    settle_if_asked(b, where);
}

void barrier_wait(const void *at, unsigned parity, site where) {
    for (bool first = true;; first = false) {
        {
            unseen books;
            barrier &b = barrier_at(at, where);
            if (first) settle(b, where);
            if ((b.phase & 1) != parity) {
                learn(knows[warp_of_current()], b.published);
                order_acquire(&b);
                return;
            }
            b.waiting.push_back(current->number);
        }
        sleep(where, "an mbarrier whose phase is never complete");
    }
}

void async_fence(const void *from, size_t size, site where) {
    struct record {
        const void *from;
        size_t bytes;
    } mine{from, size};
    collective(~0u, where, mine, [=](record **all) {
        unseen books;
        for (int i = 1; i < WARP; i++)
            if (all[i]->from != all[0]->from || all[i]->bytes != all[0]->bytes)
                fault(where, "lanes of a warp name different bytes in ft_async_fence");
        if (size == 0) return;
        open_books(where);
        const unsigned first = piece_of(from, where, "ft_async_fence"),
                       last = piece_of(static_cast<const unsigned char *>(from) + size - 1, where, "ft_async_fence");
        for (unsigned i = first; i <= last; i++) {
            if (same(block.dynamic_shared + i * PIECE, view + i * PIECE)) continue;
            check_writer(pieces[i], where, "stores over");
            check_readers(pieces[i], where, "stores over");
            take_over(view + i * PIECE, block.dynamic_shared + i * PIECE);
            written(pieces[i], piece::STORES, warp_of_current(), now());
        }
    });
}

void async_brings_once(bool does) { brings_once = does; }

void tensor_copy(void *tile, const fake_tensor_map &map, int column, int row, const void *at, site where) {
    unseen books;
    if (map.magic != FAKE_TENSOR_MAP) fault(where, "a tensor copy without a map of cuTensorMapEncodeTiled");
    barrier &b = barrier_at(at, where);
    if (!b.done) fault(where, "a tensor copy names an mbarrier before ft_mbarrier_init_done");
    settle(b, where);
    const unsigned first = piece_of(tile, where, "a tensor copy"), count = tile_pieces(map);
    if (uintptr_t(tile) % 128 != 0) fault(where, "a tensor copy to a tile that is not aligned to 128 bytes");
    if ((first + count) * PIECE > bytes) fault(where, "a tensor copy outside of dynamic shared memory");
    if (map.box_columns != 64) fault(where, "a swizzled tile that is not 64 columns wide");
    for (unsigned i = first; i < first + count; i++) {
        if (!same(block.dynamic_shared + i * PIECE, view + i * PIECE))
            fault(where, "a tensor copy over bytes that were stored to, without ft_async_fence");
        check_writer(pieces[i], where, "copies over");
        check_readers(pieces[i], where, "copies over");
        written(pieces[i], piece::A_COPY, unsigned(&b - barriers.data()), b.phase + 1);
        fill_bytes(block.dynamic_shared + i * PIECE, 0xff, PIECE);
        fill_bytes(view + i * PIECE, 0xff, PIECE);
    }
    if (!brings_once || b.phase == 0) b.copies.push_back({static_cast<unsigned char *>(tile), map, column, row});
    b.brought += count * PIECE;
    settle_if_asked(b, where);
}

// ---- products -----------------------------------------------------------------------------------------------------------

unsigned shared_address(const void *shared) {
    return unsigned(static_cast<const unsigned char *>(shared) - block.dynamic_shared) + FIRST_ADDRESS;
}

SIMT_NO_TSAN uint16_t async_read(unsigned address, site where) {
    unseen books;
    if (address < FIRST_ADDRESS || address + 2 > FIRST_ADDRESS + bytes) fault(where, "a product reads outside of dynamic shared memory");
    const unsigned at = address - FIRST_ADDRESS, i = at / PIECE, warp = warp_of_current();
    auto &mine = readings[warp];
    // (most reads are beside the one before)
    if (mine.empty() || mine.back().piece != i || mine.back().group != lanes[current->number].group) {
        piece &p = pieces[i];
        if (p.kind == piece::NOBODY) fault(where, "a product reads bytes that nobody has brought");
        check_writer(p, where, "a product reads");
        if (!same(block.dynamic_shared + i * PIECE, view + i * PIECE))
            fault(where, "a product reads bytes that were stored to, without ft_async_fence");
        p.reading[warp]++;
        mine.push_back({lanes[current->number].group, i});
    }
    return *reinterpret_cast<const uint16_t *>(view + at);
}

void product_fence() { lanes[current->number].fenced = true; }

float *product_begin(float *sums, unsigned count, site where) {
    unseen books;
    auto &mine = lanes[current->number];
    if (!async_used) fault(where, "a product, and nobody has brought anything: no mbarrier, no ft_async_fence");
    if (!mine.fenced) fault(where, "a product without ft_wgmma_fence since registers were touched");
    if (current->number % WARP == 0) issued[warp_of_current()]++;
    for (product &p : mine.products)
        if (p.to == sums) {
            p.group = mine.group;
            return p.sums.data();
        }
    mine.products.push_back({sums, mine.group, std::vector<float>(sums, sums + count)});
    memset(static_cast<void *>(sums), 0xff, count * sizeof *sums);
    return mine.products.back().sums.data();
}

void product_reads(const unsigned (&left)[4]) {
    unseen books;
    auto &mine = lanes[current->number];
    mine.lefts.push_back({left, {left[0], left[1], left[2], left[3]}, mine.group});
}

// What the registers of one group's products need be told says nothing of the next: each has a fence of its own.
void product_commit() {
    lanes[current->number].group++;
    lanes[current->number].fenced = false;
}

void product_wait(const float *sums, unsigned newest, site where) {
    auto &mine = lanes[current->number];
    const unsigned groups = mine.group;
    struct record {
    } nothing;
    collective(~0u, where, nothing, [=](record **) {
        unseen books;
        const unsigned warp = warp_of_current();
        auto open = [=](unsigned group) { return group + newest >= groups; };
        auto &all = readings[warp];
        for (const reading &r : all) {
            if (open(r.group)) continue;
            if (!same(block.dynamic_shared + r.piece * PIECE, view + r.piece * PIECE))
                fault(where, "bytes were stored to while a product read them");
            pieces[r.piece].reading[warp]--;
            pieces[r.piece].read[warp] = now();
        }
        all.erase(std::remove_if(all.begin(), all.end(), [=](const reading &r) { return !open(r.group); }), all.end());
    });
    unseen books;
    auto &lefts = mine.lefts;
    auto done = [=](const left_in_registers &l) { return l.group + newest < groups; };
    for (const left_in_registers &l : lefts)
        if (done(l) && memcmp(l.at, l.words, sizeof l.words) != 0)
            fault(where, "registers of a left operand changed while a product read them");
    lefts.erase(std::remove_if(lefts.begin(), lefts.end(), done), lefts.end());
    auto &products = mine.products;
    for (size_t i = 0; i < products.size();) {
        if (products[i].group + newest >= groups || products[i].to != sums) {
            i++;
            continue;
        }
        memcpy(products[i].to, products[i].sums.data(), products[i].sums.size() * sizeof(float));
        products.erase(products.begin() + long(i));
    }
    mine.fenced = false;
}

void async_note_load(const void *at, site where) {
    unseen books;
    const size_t offset = size_t(static_cast<const unsigned char *>(at) - block.dynamic_shared);
    if (offset >= bytes) return;
    piece &p = pieces[offset / PIECE];
    if (p.kind == piece::A_COPY) check_writer(p, where, "ldmatrix reads");
    p.read[warp_of_current()] = now();
}

// ---- tensor memory ------------------------------------------------------------------------------------------------------

void tensor_allocate(unsigned count, unsigned *to, site where) {
    struct record {
    } nothing;
    collective(~0u, where, nothing, [=](record **) {
        unseen books;
        open_books(where);
        *to = tensor_take_columns(count, where);
        for (unsigned c = *to; c < *to + count; c++)
            for (piece &quarter : columns[c])
                written(quarter, piece::STORES, warp_of_current(), now());
    });
}

void tensor_free(unsigned count, unsigned from, site where) {
    struct record {
    } nothing;
    collective(~0u, where, nothing, [=](record **) {
        unseen books;
        tensor_give_columns(count, from, where);
        for (unsigned c = from; c < from + count; c++)
            for (const piece &quarter : columns[c]) {
                check_writer(quarter, where, "gives back tensor memory of");
                check_readers(quarter, where, "gives back tensor memory of");
            }
    });
}

static unsigned tensor_lane(unsigned address, unsigned count, site where) {
    const unsigned quarter = warp_of_current() % 4;
    if (address >> 16 != quarter * WARP) fault(where, "lane %u of tensor memory, which is not this warp's", address >> 16);
    tensor_must_be_still(address & 0xffff, count, where);
    return quarter;
}

void tensor_load(float *x, unsigned count, unsigned from, site where) {
    unseen books;
    const unsigned quarter = tensor_lane(from, count, where);
    for (unsigned i = 0; i < count; i++) {
        piece &p = columns[(from & 0xffff) + i][quarter];
        check_writer(p, where, "loads from tensor memory");
        p.read[warp_of_current()] = now();
        x[i] = tensor_cells[(from & 0xffff) + i][current->number % 128];
    }
}

void tensor_store(const float *x, unsigned count, unsigned to, site where) {
    unseen books;
    const unsigned quarter = tensor_lane(to, count, where);
    for (unsigned i = 0; i < count; i++) {
        piece &p = columns[(to & 0xffff) + i][quarter];
        check_writer(p, where, "stores to tensor memory over");
        check_readers(p, where, "stores to tensor memory over");
        if (current->number % WARP == WARP - 1) written(p, piece::STORES, warp_of_current(), now()); // (lanes of its own, each)
        tensor_cells[(to & 0xffff) + i][current->number % 128] = x[i];
    }
}

void tensor_multiply(unsigned to, uint64_t a, uint64_t b, unsigned kind, bool add, site where) {
    if (tensor_queue_product(to, a, b, kind, add, where)) return; // to the sums of one in flight
    unseen books;
    const unsigned count = kind >> 17 << 3 & 0x1f8;
    for (unsigned c = to; c < to + count; c++)
        for (const piece &quarter : columns[c]) {
            if (quarter.kind != piece::A_COPY) check_writer(quarter, where, "a product writes tensor memory over"); // (one product over another has an order)
            check_readers(quarter, where, "a product writes tensor memory over");
        }
}

void tensor_commit(const void *at, site where) {
    unseen books;
    barrier &b = barrier_at(at, where);
    if (!b.done) fault(where, "a commit names an mbarrier before ft_mbarrier_init_done");
    knowledge &mine = knows[warp_of_current()];
    commits.push_back({&b, tensor_products(), warp_of_current(), lanes[current->number].group++, mine.of_warp[warp_of_current()], mine});
    mine.of_warp[warp_of_current()]++;
    b.commits++;
    settle_if_asked(b, where);
}

// ---- blocks -------------------------------------------------------------------------------------------------------------

void async_begin_block(unsigned of_block, size_t dynamic_bytes) {
    async_used = false;
    threads = of_block;
    bytes = dynamic_bytes;
}

const char *async_end_block() {
    unseen books;
    if (!async_used) return nullptr;
    if (tensor_left_open() != nullptr) return tensor_left_open();
    for (const barrier &b : barriers)
        if (!b.copies.empty()) return "ended with a tensor copy that nobody waited for";
    for (unsigned i = 0; i < threads; i++)
        if (!lanes[i].products.empty()) return "ended with products that nobody waited for";
    for (unsigned w = 0; w < (threads + WARP - 1) / WARP; w++)
        if (issued[w] != issued[w / 4 * 4]) return "had a product that not all warps of a warpgroup issued";
    return nullptr;
}

void async_all_meet() {
    if (!async_used) return;
    unseen books;
    knowledge all = knows[0];
    for (const knowledge &k : knows)
        learn(all, k);
    for (unsigned w = 0; w < WARPS; w++) {
        knows[w] = all;
        knows[w].of_warp[w]++;
    }
}

} // namespace simt

uint64_t simt_arrivals(void) { return simt::all_arrivals; }

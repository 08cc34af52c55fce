// tensor_memory.h - tensor memory of a block on sm_100a, what is in flight there, and who knows what of it.
//
// Knowledge. Deeds on tensor memory are asynchronous to the threads that ask for them: a load or store of a warp is done at its wait::ld or wait::st,
// a product at the arrival of its commit. A warp's done deeds are told by arrivals and barriers behind its fence::before_thread_sync; what a warp
// has heard counts behind its fence::after_thread_sync. A commit tells of its products, and is itself behind such a fence.
#ifndef FT_PTX_TENSOR_MEMORY_H
#define FT_PTX_TENSOR_MEMORY_H

#include "tests/ptx/machine.h"

#include <algorithm>
#include <array>

namespace ptx {

enum { TENSOR_LANES = 128, TENSOR_COLUMNS = 512, QUARTERS = 4, PRODUCTS = MOST_WARPS, DOERS = MOST_WARPS + 1 }; // of tensor cores, as one more than the warps

// How many deeds of each are known.
struct tensor_clock : std::array<uint32_t, DOERS> {
    tensor_clock() { fill(0); }
    void learn(const tensor_clock &other) {
        for (size_t n = 0; n < size(); n++)
            (*this)[n] = std::max((*this)[n], other[n]);
    }
};

struct tensor_product { // tcgen05.mma
    const instruction *what;
    uint64_t left, right; // descriptors
    uint32_t to, how;     // tensor memory; the instruction descriptor
    bool adds, made;
    int warp, lane;       // that asked for it
    bool committed;
};
struct tensor_commit {
    uint32_t barrier;
    size_t products; // the first ones in flight that it waits for
    int warp, lane;
};

struct tensor_memory {
    std::vector<uint32_t> cells; // [TENSOR_COLUMNS][TENSOR_LANES]
    struct column {              // of a quarter of the lanes
        int writer = -1;         // a warp, or PRODUCTS
        uint32_t written = 0;    // which of its deeds
        std::array<uint32_t, MOST_WARPS> read;
        column() { read.fill(0); }
    };
    std::vector<column> columns; // [TENSOR_COLUMNS][QUARTERS]
    struct piece {
        uint32_t begin, count;
    };
    std::vector<piece> pieces; // allocated
    std::deque<tensor_product> products;
    std::deque<tensor_commit> commits;
    bool given_up = false; // the permit to allocate
    tensor_clock landed;   // of PRODUCTS alone
    struct of_warp {
        uint32_t deeds = 0, told = 0;             // asked for; told of to whoever hears
        uint32_t open_load = 0, open_store = 0;   // the first that has not been waited for
        uint32_t done() const {
            if (open_load == 0 || open_store == 0) return open_load + open_store == 0 ? deeds : open_load + open_store - 1;
            return std::min(open_load, open_store) - 1;
        }
        tensor_clock heard;
        std::array<tensor_clock, WARP> counts; // of each lane: what it has heard, at its last fence
        struct load {
            const instruction *what;
            std::vector<uint32_t> values;
        };
        std::vector<load> loads; // that have not been waited for
    };
    std::vector<of_warp> warps;
    std::map<uint32_t, std::pair<tensor_clock, tensor_clock>> barriers; // of an mbarrier: gathers, published

    tensor_memory() : cells(TENSOR_COLUMNS * TENSOR_LANES, 0xffffffff), columns(TENSOR_COLUMNS * QUARTERS), warps(MOST_WARPS) {}
    void arrives(int warp, uint32_t barrier);
    void hears(int warp, uint32_t barrier);
    void all_meet();                        // at bar.sync
    void land(block &b);                    // the first commit
    void complete(uint32_t barrier) { barriers[barrier].second = barriers[barrier].first; }
    const char *left_open() const; // at the block's end
};

} // namespace ptx
#endif

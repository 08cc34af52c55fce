// machine.h - a machine for nvcc's PTX: registers of warps, shared memory and what runs beside the threads of a block.
//
// Written from NVIDIA's "Parallel Thread Execution ISA" (sections are named where a meaning is not plain), not from the twins of
// tests/emulator/simt: two readings of one text that must give the same numbers.
//
// Addresses: global, local, param and generic ones are those of the host; of shared memory they are counted from SHARED_BEGIN on,
// and generic ones of it have SHARED_WINDOW above. A register is 32 lanes of 32 bits, or of 64: two units of a warp's file.
#ifndef FT_PTX_MACHINE_H
#define FT_PTX_MACHINE_H

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace ptx {

enum { WARP = 32, MOST_WARPS = 32, SHARED_BEGIN = 1024, GRANULE = 16 };
constexpr uint64_t SHARED_WINDOW = 0xA500000000000000;
constexpr uint32_t EVERY_LANE = 0xffffffff;

// What a kernel did that the hardware would not let pass, or not do as meant.
struct fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum class type { U8, S8, B8, U16, S16, B16, U32, S32, B32, U64, S64, B64, F16, BF16, F32, F64, F16X2, BF16X2, PRED, NONE };
enum class space { GENERIC, GLOBAL, SHARED, LOCAL, PARAM };

// Addresses from `begin` up to `end`.
struct extent {
    uint64_t begin = 0, end = 0;
    bool holds(uint64_t from, uint64_t to) const { return begin <= from && to <= end; }
};

struct operand {
    int slot = -1;     // unit of the warp's file; -1: none, or "_"
    int bits = 0;      // of the register: 1, 16, 32, 64
    bool is_not = false; // of a predicate
};

struct warp;
struct instruction;
using handler = void (*)(warp &, const instruction &, uint32_t lanes);

struct instruction {
    enum kind_ { PLAIN, BRANCH, EXIT, RETURN, CALL, BARRIER, TRY_WAIT };
    handler run = nullptr;
    kind_ kind = PLAIN;
    bool acts = false;     // others may see that it was there
    bool together = false; // lanes must come to it together:
    bool moves = false, is_store = false, writes_list = false; // mov; st, of the registers in list[0]; these are written
    operand named;         // these; none: all of the warp
    operand guard;
    int target = -1, link = -1; // of a branch or call; the slot where a function keeps the way back
    operand to, from[4];
    std::vector<operand> list[3]; // operands in braces, in the order of the text
    int64_t offset[3] = {};       // beside addresses, in the order of the text
    space where = space::GENERIC;
    type value = type::NONE, source = type::NONE;
    int count = 1;      // of a vector
    int size = 0;       // of a value in memory, in bytes
    int number = 0;     // what a handler wants to know beyond
    uint32_t flags = 0; // of modifiers
    mutable extent known; // the allocation that it came to last, in this launch
    int line = 0;
    std::string file, text;
};

enum : uint32_t { SATURATE = 1, TO_ZERO = 2, TO_NEAREST = 4, SAT_FINITE = 8, TRANSPOSED = 16, EXPECTS = 32 };

struct parameter {
    std::string name;
    size_t offset, bytes;
};

struct kernel {
    std::string name;
    std::vector<instruction> code;
    std::vector<parameter> parameters;
    size_t parameter_bytes = 0, static_shared = 0, local_bytes = 0;
    std::vector<uint32_t> image; // a warp's file at its begin: constants, and registers that nobody wrote
    int tid[3], ntid[3], ctaid[3], nctaid[3], dynamic_shared[2]; // slots, or -1; the last ones of 32 and 64 bits
    std::vector<int> local;                                   // slots of 64 bits: where a lane's local memory begins
    std::vector<std::pair<int, size_t>> parameter_address;    // slots of 64 bits, and offsets
    bool has_products = false;                                // wgmma: writes of registers are dated
    bool has_tensor_memory = false;                           // tcgen05
    bool has_proxy = false;                                   // products of shared memory or tensor copies: stores are kept until a fence hands them over
};

// Where a launch stands: what all blocks share.
struct launch {
    const kernel *code;
    uint32_t grid[3], threads[3];
    size_t dynamic_shared;
    const unsigned char *parameters; // code->parameter_bytes
};

enum class timing { LATE, EARLY, RANDOM };

// ---- copies and products in flight ---------------------------------------------------------------------------------------

struct thread_copy { // cp.async of a warp
    uint32_t lanes, group[WARP];
    uint32_t to[WARP], size[WARP];
    uint64_t from[WARP];
    int bytes;
};

struct barrier_object { // mbarrier: "Parallel Synchronization and Communication Instructions: mbarrier"
    int64_t expected, missing, bytes;
    uint32_t phase;
};

struct tensor_copy {
    uint32_t to, barrier;
    uint64_t map;
    int32_t x, y;
};

struct product { // wgmma.mma_async
    const instruction *what;
    uint64_t left, right; // descriptors
    bool adds;
};

// Registers of a sum that products in flight add to: the values gather here, and the registers hold NaN meanwhile.
struct sums {
    std::vector<uint32_t> values;
    unsigned open;
};

struct block;
struct tensor_memory; // tensor_memory.h

struct warp {
    block *in;
    int number;
    std::vector<uint32_t> file;
    std::vector<uint64_t> dated, seen; // when a slot was written, and when it was read, where products ask
    uint64_t now = 0, fenced = 0;
    uint32_t alive = 0, waiting = 0; // lanes; those that wait for others of the warp
    uint32_t pc[WARP];
    uint32_t spun_at = 0; // the test of a barrier that failed last
    uint32_t spun = 0;    // lanes that tested in vain, since others of the warp have not: these go first
    bool as_one = true;  // all living lanes stand at pc[0], which is theirs
    enum { RUNS, AT_BARRIER, SPINS, DONE } state = RUNS;
    std::vector<unsigned char> local; // of all lanes

    std::deque<thread_copy> copies;
    uint32_t copy_group[WARP] = {};
    std::deque<std::vector<product>> groups;
    std::vector<product> open_group;
    std::map<int, sums> summing; // by the first register's slot
    std::vector<uint32_t> unfenced; // granules of shared memory that it wrote, and no fence of the lanes that did
    std::vector<uint32_t> writers;  // of each granule: lanes of whose stores the others have not heard by a barrier
    void hear(uint32_t lanes) {     // a barrier of these: a fence of any of them counts for all
        for (const uint32_t g : unfenced)
            if ((writers[g] & ~lanes) == 0) writers[g] = 0;
    }
    uint64_t products = 0;

    template <class T> T *lanes_of(int slot) { return reinterpret_cast<T *>(file.data() + size_t(slot) * WARP); }
    uint32_t predicate(const operand &o) { return o.is_not ? ~file[size_t(o.slot) * WARP] : file[size_t(o.slot) * WARP]; }
    // A register's bits in a lane, extended by zeros, whatever its width; and the same written.
    uint64_t bits(const operand &o, int lane) {
        if (o.bits == 64) return lanes_of<uint64_t>(o.slot)[lane];
        return o.bits == 1 ? predicate(o) >> lane & 1 : lanes_of<uint32_t>(o.slot)[lane];
    }
    void put(const operand &o, int lane, uint64_t value) {
        if (o.slot < 0) return;
        if (o.bits == 64) lanes_of<uint64_t>(o.slot)[lane] = value;
        else lanes_of<uint32_t>(o.slot)[lane] = o.bits == 16 ? uint16_t(value) : uint32_t(value);
    }
    uint64_t same_in_all(const operand &o, uint32_t lanes, const char *what);
};

// f(lane) of those lanes; all of them in a loop that the compiler may take several at a time. A result's slot is none of the sources', or the
// same, so that lanes do not depend on each other.
template <class F> inline __attribute__((always_inline)) void each(uint32_t lanes, const F &f) {
    if (lanes == EVERY_LANE) {
#pragma GCC ivdep
        for (int l = 0; l < WARP; l++)
            f(l);
        return;
    }
    for (; lanes != 0; lanes &= lanes - 1)
        f(__builtin_ctz(lanes));
}

struct block {
    const launch *of;
    uint32_t index[3];
    std::vector<unsigned char> shared; // from address 0 on, so that addresses are places
    std::vector<uint32_t> dirty;       // granules: warps whose stores no fence has handed to the asynchronous proxy
    std::vector<warp> warps;
    std::map<uint32_t, barrier_object> barriers;
    std::deque<tensor_copy> tensors;
    std::shared_ptr<tensor_memory> tensor; // where the kernel has it
    timing when;
    uint64_t random;

    uint64_t draw() { // xorshift
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        return random;
    }
    // Bytes of shared memory, or a fault.
    unsigned char *at(uint64_t address, size_t bytes, size_t alignment);
    void note_store(warp &w, int lane, uint32_t address, size_t bytes); // where something asks for it
    void must_be_handed_over(uint32_t address, size_t bytes, const char *to_whom);
    void land(size_t which); // a tensor copy
    void settle(uint32_t address, barrier_object &b);
};

// Memory of a lane: where an address of that space lies on the host, checked. `known`: an allocation that may be the one;
// becomes it.
unsigned char *memory(warp &w, space where, uint64_t address, size_t bytes, size_t alignment, bool writes, extent &known,
                      int lane);

// ---- bounds of global memory (bounds.cpp) ----------------------------------------------------------------------------------

// The allocation around an address, or a fault: of the fake driver where a test has one, else of the test's own heap (heap.cpp). What a
// test has on its stack or among its constants is bounded by that.
extent allocation_at(uint64_t address);
void begin_bounds(); // of a launch

// Copies of a lane's groups but the newest `left`, brought to where they go.
void finish_copies(warp &w, uint32_t lanes, uint32_t left);
void finish_products(warp &w, size_t left);

// Runs all blocks. Throws a fault.
void run(const launch &what, int order, uint64_t seed, timing when);

// ---- numbers -------------------------------------------------------------------------------------------------------------

template <class T, class F> inline T bit_cast(F from) {
    static_assert(sizeof(T) == sizeof(F), "bits");
    T to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline float of_bf16(uint16_t h) { return bit_cast<float>(uint32_t(h) << 16); }
// IEEE's half precision, 1 sign, 5 bits of exponent, 10 of fraction, in the places of a float: what its exponent is short of is a factor.
inline float of_f16(uint16_t h) {
    const uint32_t places = uint32_t(h & 0x7fff) << 13, sign = uint32_t(h & 0x8000) << 16;
    const float magnitude = (h & 0x7c00) == 0x7c00 ? bit_cast<float>(places | 0x7f800000) : bit_cast<float>(places) * 0x1p112f;
    return bit_cast<float>(bit_cast<uint32_t>(magnitude) | sign);
}
// To the nearest, ties to even. Every NaN is the canonical one: 0x7fff.
inline uint16_t to_bf16(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline uint16_t to_f16(float x) {
    const uint32_t sign = bit_cast<uint32_t>(x) >> 16 & 0x8000, bits = bit_cast<uint32_t>(x) & 0x7fffffff;
    const uint32_t even = bits >> 13 & 1, normal = (bits - (112u << 23) + 0xfff + even) >> 13;
    // Below the least normal number, 2^-14: steps of 2^-24 are the last places of numbers from 0.5 on.
    const uint32_t small = bit_cast<uint32_t>(bit_cast<float>(bits) + 0.5f) - 0x3f000000;
    const uint32_t result = bits >= 0x477ff000 ? 0x7c00 : bits < 0x38800000 ? small : normal; // from 65520 on: infinity
    return bits > 0x7f800000 ? 0x7fff : uint16_t(sign | result);
}

} // namespace ptx
#endif

#include "tests/emulator/simt/tensor_memory.h"
#include "tests/emulator/simt/fragment.h"

#include <cstring>
#include <list>
#include <vector>

namespace simt {

float tensor_cells[TENSOR_COLUMNS][128];

namespace {

struct queued : tensor_product {
    std::vector<float> left, right; // [16][rows]
};
struct span {
    unsigned first, count;
};
std::list<queued> products;
std::vector<span> taken;

bool meet(unsigned a, unsigned of_a, unsigned b, unsigned of_b) { return a < b + of_b && b < a + of_a; }

// 16 terms of an operand, of each row or column of the product.
void read(std::vector<float> &to, uint64_t descriptor, unsigned rows, bool by_columns, bool is_half, site where) {
    const unsigned start = unsigned(descriptor & 0x3fff) << 4, leading = unsigned(descriptor >> 16 & 0x3fff) << 4, stride = unsigned(descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 46 != (2u << 15 | 1)) fault(where, "a descriptor that is not tcgen05's of tiles swizzled by 128 bytes");
    to.resize(16 * rows);
    for (unsigned i = 0; i < 16 * rows; i++) {
        const unsigned row = by_columns ? i % rows : i / 16, term = by_columns ? i / rows : i % 16; // as they lie
        const unsigned outer = by_columns ? term : row, inner = by_columns ? row : term;
        const uint16_t bits = async_read(swizzled(start + outer / 8 * stride + outer % 8 * 128 + inner / 64 * leading + inner % 64 * 2), where);
        to[term * rows + row] = is_half ? half_of<__half>(bits, 0) : half_of<__nv_bfloat16>(bits, 0);
    }
}

} // namespace

void tensor_begin_block() {
    products.clear();
    taken.clear();
    memset(static_cast<void *>(tensor_cells), 0xff, sizeof tensor_cells);
}
const char *tensor_left_open() {
    if (!products.empty()) return "ended with products in tensor memory that nobody waited for";
    return taken.empty() ? nullptr : "ended with tensor memory that was not given back";
}

unsigned tensor_take_columns(unsigned count, site where) {
    if (count < 32 || count > TENSOR_COLUMNS || (count & (count - 1)) != 0) fault(where, "%u columns of tensor memory, not a power of two from 32 on", count);
    unsigned end = TENSOR_COLUMNS; // from behind: an address of 0 is a special case
    for (const span &s : taken)
        end = s.first < end ? s.first : end;
    if (end < count) fault(where, "%u columns of tensor memory more than there are", count);
    taken.push_back({end - count, count});
    return end - count;
}
void tensor_give_columns(unsigned count, unsigned from, site where) {
    for (size_t i = 0; i < taken.size(); i++)
        if (taken[i].first == from && taken[i].count == count) {
            tensor_must_be_still(from, count, where);
            taken.erase(taken.begin() + long(i));
            return;
        }
    fault(where, "%u columns of tensor memory from %#x on are given back, which nobody has taken", count, from);
}
void tensor_must_be_still(unsigned first, unsigned count, site where) {
    bool is_taken = false;
    for (const span &s : taken)
        is_taken = is_taken || (s.first <= first && first + count <= s.first + s.count);
    if (!is_taken) fault(where, "%u columns of tensor memory from %u on, which nobody has allocated", count, first);
    for (const queued &p : products)
        if (meet(p.first, p.count, first, count)) fault(where, "columns of tensor memory that a product in flight writes");
}

size_t tensor_products() { return products.size(); }

bool tensor_queue_product(unsigned to, uint64_t a, uint64_t b, unsigned kind, bool add, site where) {
    const unsigned count = kind >> 17 << 3 & 0x1f8;
    bool adds_to_one = false;
    for (const queued &p : products) {
        if (!meet(p.first, p.count, to, count)) continue;
        if (p.first != to || p.count != count) fault(where, "a product over sums of another shape in flight");
        adds_to_one = true;
    }
    if (!adds_to_one) tensor_must_be_still(to, count, where);
    products.push_back({{to, count, a, b, kind, add}, {}, {}}); // first, for a fault leaves this stack as it is: what is only there is lost
    queued &p = products.back();
    const bool is_half = (kind >> 7 & 7) == 0;
    read(p.left, a, 128, kind >> 15 & 1, is_half, where);
    read(p.right, b, count, kind >> 16 & 1, is_half, where);
    return adds_to_one;
}

tensor_product tensor_take_product() {
    const queued p = products.front();
    products.pop_front();
    for (unsigned c = 0; c < p.count; c++)
        for (unsigned row = 0; row < 128; row++) {
            float sum = p.add ? tensor_cells[p.first + c][row] : 0.0f;
            for (unsigned k = 0; k < 16; k++)
                sum += p.left[k * 128 + row] * p.right[k * p.count + c];
            tensor_cells[p.first + c][row] = sum;
        }
    return p;
}

} // namespace simt

// tensor_memory.h - what lies in tensor memory and which products are in flight there; async_proxy.cpp keeps the books of who may.
#ifndef FT_SIMT_TENSOR_MEMORY_H
#define FT_SIMT_TENSOR_MEMORY_H

#include "tests/emulator/simt/async_proxy.h"

namespace simt {

// ---- for the twins (tcgen05.h), in async_proxy.cpp

void tensor_allocate(unsigned columns, unsigned *to, site where);
void tensor_free(unsigned columns, unsigned from, site where);
void tensor_load(float *x, unsigned count, unsigned from, site where);
void tensor_store(const float *x, unsigned count, unsigned to, site where);
void tensor_multiply(unsigned to, uint64_t a, uint64_t b, unsigned kind, bool add, site where);
void tensor_commit(const void *barrier, site where);

// ---- for async_proxy.cpp

enum { TENSOR_COLUMNS = 512 };
extern float tensor_cells[TENSOR_COLUMNS][128];

struct tensor_product {
    unsigned first, count; // columns
    uint64_t a, b;
    unsigned kind;
    bool add;
};

void tensor_begin_block();
const char *tensor_left_open();
unsigned tensor_take_columns(unsigned count, site where);
void tensor_give_columns(unsigned count, unsigned from, site where);
void tensor_must_be_still(unsigned first, unsigned count, site where); // allocated, and no product in flight writes there
size_t tensor_products();                                              // in flight
// Its operands are read now, in the books: nobody may change them until it is done. True: it adds to sums of one in flight.
bool tensor_queue_product(unsigned to, uint64_t a, uint64_t b, unsigned kind, bool add, site where);
tensor_product tensor_take_product(); // the oldest, made

} // namespace simt
#endif

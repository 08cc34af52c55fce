// async_proxy.h - what of sm_90 runs beside the threads: barriers that count bytes, copies of the copy engine, products of
// warpgroups. All of it arrives as late as it may, and who may touch which bytes is kept for every 16 of them.
//
// The books. Of every 16 bytes of dynamic shared memory: who wrote them last (a copy that completes a phase of a barrier, or a
// warp's stores that a fence handed over), and which warps have read them since, or still do. Of every warp: which phases of
// barriers and which deeds of other warps it knows of. Arriving at a barrier hands over what a warp knows, waiting takes it, and
// __syncthreads does both. Reading bytes whose writer a warp does not know of, or writing some whose readers it does not know of, is
// a fault, in whatever order the threads ran.
// Tensor cores and copies see another memory than stores do: a second one here, which ft_async_fence brings up to date for the bytes
// that it names. Where both differ under a product, a fence is missing. A left operand in shared memory counts as read whole by each warp.
//
// Not seen: which lane of a warp knows what, ordinary loads but ldmatrix, and a fence that one warp lacks where another names the same
// bytes later.
#ifndef FT_SIMT_ASYNC_PROXY_H
#define FT_SIMT_ASYNC_PROXY_H

#include "tests/emulator/driver/fake_tensor_map.h"
#include "tests/emulator/simt/scheduler.h"

#include <cstddef>
#include <cstdint>

namespace simt {

// ---- for the twins ------------------------------------------------------------------------------------------------------

void barrier_init(const void *barrier, unsigned arrivals, site where);
void barrier_init_done();
void barrier_arrive(const void *barrier, unsigned bytes, site where); // bytes: that its phase expects beyond
void barrier_wait(const void *barrier, unsigned parity, site where);
void async_fence(const void *from, size_t bytes, site where); // all lanes of a warp
void async_brings_once(bool does); // a fault (control.h)
void tensor_copy(void *tile, const fake_tensor_map &map, int column, int row, const void *barrier, site where);

unsigned shared_address(const void *shared); // as the hardware counts them; of dynamic shared memory
// 16-bit number at an address as tensor cores see it, read by the warp that runs; and where it is with rows swizzled by 128 bytes.
uint16_t async_read(unsigned address, site where);
inline unsigned swizzled(unsigned address) { return address ^ (address >> 7 & 7) << 4; }

// Products, by each of the lanes. product_begin: where the sums are gathered until a product_wait that names them brings them to `sums`,
// which are NaN meanwhile: also when another wait was long enough, for the compiler of a chip's code may read them in front of it.
// A left operand in registers is to be the same when its group has been waited for.
void product_fence();
void product_reads(const unsigned (&left)[4]);
float *product_begin(float *sums, unsigned count, site where);
void product_commit();
void product_wait(const float *sums, unsigned newest, site where);

// An ordinary read of 16 bytes, by ldmatrix.
extern bool async_used;
void async_note_load(const void *at, site where);

// ---- for the scheduler --------------------------------------------------------------------------------------------------

void async_begin_block(unsigned threads, size_t dynamic_bytes);
const char *async_end_block(); // nullptr, or what was left open
void async_all_meet();         // at __syncthreads

} // namespace simt
#endif

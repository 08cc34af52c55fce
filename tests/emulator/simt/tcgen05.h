// tcgen05.h - tensor memory and its products on the host, in the books of async_proxy.h. Products are made when their commit is asked for. Not
// seen: the fences around a thread's waits, and what a load or store is before its wait (tests/ptx sees both).
#ifndef FT_SIMT_TCGEN05_H
#define FT_SIMT_TCGEN05_H

#include "tests/emulator/simt/tensor_memory.h"

template <int COLUMNS> inline void ft_tensor_allocate(unsigned *to, simt::site where = simt::site::here()) { simt::tensor_allocate(COLUMNS, to, where); }
template <int COLUMNS> inline void ft_tensor_free(unsigned from, simt::site where = simt::site::here()) { simt::tensor_free(COLUMNS, from, where); }
inline void ft_tensor_told() {}
inline void ft_tensor_heard() {}
inline void ft_tensor_load(float *x, unsigned from, simt::site where = simt::site::here()) { simt::tensor_load(x, 32, from, where); }
inline void ft_tensor_store(unsigned to, const float *x, simt::site where = simt::site::here()) { simt::tensor_store(x, 32, to, where); }
template <int N> inline void ft_tensor_loaded(float (&)[N]) {}
inline void ft_tensor_stored() {}
template <class T, int N, bool COLUMNS> inline void ft_tcgen05(unsigned to, uint64_t a, uint64_t b, bool add, simt::site where = simt::site::here()) {
    simt::tensor_multiply(to, a, b, ft_tcgen05_kind<T, N, COLUMNS>(), add, where);
}
inline void ft_tcgen05_commit(ft_mbarrier *arrives, simt::site where = simt::site::here()) { simt::tensor_commit(arrives, where); }

#endif

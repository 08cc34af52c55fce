// mbarrier.h - barriers that count arrivals and bytes on the host, in the books of async_proxy.h.
#ifndef FT_SIMT_MBARRIER_H
#define FT_SIMT_MBARRIER_H

#include "tests/emulator/simt/async_proxy.h"

inline unsigned ft_shared_address(const void *shared) { return simt::shared_address(shared); }
inline void ft_mbarrier_init(ft_mbarrier *b, unsigned arrivals, simt::site where = simt::site::here()) {
    simt::barrier_init(b, arrivals, where);
}
inline void ft_mbarrier_init_done() { simt::barrier_init_done(); }
inline void ft_mbarrier_arrive(ft_mbarrier *b, simt::site where = simt::site::here()) { simt::barrier_arrive(b, 0, where); }
inline void ft_mbarrier_arrive_expect(ft_mbarrier *b, unsigned bytes, simt::site where = simt::site::here()) {
    simt::barrier_arrive(b, bytes, where);
}
inline void ft_mbarrier_wait(ft_mbarrier *b, unsigned parity, simt::site where = simt::site::here()) {
    simt::barrier_wait(b, parity, where);
}
inline void ft_async_fence(const void *from, size_t bytes, simt::site where = simt::site::here()) {
    simt::async_fence(from, bytes, where);
}
inline void ft_async_fence(const void *a, size_t of_a, const void *b, size_t of_b, const void *c, size_t of_c, simt::site where = simt::site::here()) {
    simt::async_fence(a, of_a, where);
    simt::async_fence(b, of_b, where);
    simt::async_fence(c, of_c, where);
}
// What setmaxnreg accepts; registers themselves have no limit here.
template <int REGISTERS> inline void ft_registers_give() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "setmaxnreg");
}
template <int REGISTERS> inline void ft_registers_take() { ft_registers_give<REGISTERS>(); }

#endif

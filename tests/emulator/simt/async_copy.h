// async_copy.h - cp.async on the host. The bytes arrive as late as they may, in the wait, and the destination is NaN
// meanwhile: a missing wait shows, and so does a buffer that is refilled while others still read it.
#ifndef FT_SIMT_ASYNC_COPY_H
#define FT_SIMT_ASYNC_COPY_H

#include "tests/emulator/simt/counts.h"
#include "tests/emulator/simt/scheduler.h"

#include <cstdint>
#include <vector_functions.h>

namespace simt {

SIMT_COUNTED_HERE inline void copy_async(void *to, const void *from, bool valid, site where) {
    lane &me = *current;
    if ((uintptr_t(to) & 15) != 0 || (uintptr_t(from) & 15) != 0) fault(where, "cp.async of 16 bytes, not aligned to 16");
    if (me.first_copy + me.copy_count >= lane::MOST_COPIES) {
        if (me.copy_count == lane::MOST_COPIES) fault(where, "more than %d copies in flight", int(lane::MOST_COPIES));
        for (unsigned i = 0; i < me.copy_count; i++) // to the front
            me.copies[i] = me.copies[me.first_copy + i];
        me.first_copy = 0;
    }
    me.where = where;
#ifdef SIMT_COUNT
    count_access(SIMT_COPY, __builtin_return_address(0), to, 16);
    if (valid) count_access(SIMT_LOAD, __builtin_return_address(0), from, 16);
#endif
    me.copies[me.first_copy + me.copy_count++] = {to, from, valid, me.copy_group};
    // A store that ThreadSanitizer sees: the copy may write at once.
    *static_cast<uint4 *>(to) = make_uint4(~0u, ~0u, ~0u, ~0u);
}

SIMT_COUNTED_HERE inline void wait_for_copies(unsigned newest) {
    lane &me = *current;
    while (me.copy_count > 0 && me.copies[me.first_copy].group + newest < me.copy_group) {
        const pending_copy &c = me.copies[me.first_copy++];
        me.copy_count--;
        *static_cast<uint4 *>(c.to) = c.valid ? *static_cast<const uint4 *>(c.from) : make_uint4(0, 0, 0, 0);
    }
    if (me.copy_count == 0) me.first_copy = 0;
}

} // namespace simt

inline void ft_copy_async16(void *shared, const void *global, simt::site where = simt::site::here()) {
    simt::copy_async(shared, global, true, where);
}
inline void ft_copy_async16_or_zero(void *shared, const void *global, bool valid, simt::site where = simt::site::here()) {
    simt::copy_async(shared, global, valid, where);
}
inline void ft_copy_async_commit() { simt::current->copy_group++; }
template <int NEWEST> inline void ft_copy_async_wait() { simt::wait_for_copies(NEWEST); }

#endif

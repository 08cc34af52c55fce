// tensor_copy.h - the copy engine on the host: boxes of the fake driver's maps, in the books of async_proxy.h.
#ifndef FT_SIMT_TENSOR_COPY_H
#define FT_SIMT_TENSOR_COPY_H

#include "tests/emulator/simt/async_proxy.h"

#include <cstring>

inline void ft_tensor_copy(void *tile, const ft_cu_tensor_map &map, int column, int row, ft_mbarrier *arrives,
                           simt::site where = simt::site::here()) {
    fake_tensor_map content;
    memcpy(&content, &map, sizeof content);
    simt::tensor_copy(tile, content, column, row, arrives, where);
}

#endif

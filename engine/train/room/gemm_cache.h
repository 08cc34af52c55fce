// gemm_cache.h - measured algorithms of matrix products, kept for later runs (device.gemm_tuning = auto): a file for
// every chip, driver, cuBLASLt and model, $XDG_CACHE_HOME/ftengine/gemm/HASH.json, as gemm_tuning.h has it and with
//
//     "model": "9f0c...", "sizes": [{"tokens": 4096, "sequences": 8, "products": [0, 1, 2, ...]}, ...], "sha256": "..."
//
// A size of micro-batch names the products that it asks for: a run takes those of its own sizes and no others, so that
// what other runs have measured meanwhile changes nothing of it. What was measured once is never measured again, nor
// replaced. A file that is damaged, by its sum, is as none.
#ifndef FT_GEMM_CACHE_H
#define FT_GEMM_CACHE_H

#include "base/arena.h"
#include "base/json/json.h"
#include "kernels/ops/device.h"
#include "kernels/ops/gemm_choice.h"

#include <stdbool.h>

typedef struct ft_gemm_cache {
    const ft_device *device;
    const char *model;       // by the caller: all that decides about shapes beside the size
    const char *path, *lock; // NULL: there is no place for caches
    int held;                // descriptor of the lock; -1: not locked
    json_t *root;
    ft_gemm_choice *choices;
    size_t count;
    bool told; // that the file is damaged
    ft_arena arena;
} ft_gemm_cache;

// What is there. Close it in any case.
ft_status ft_gemm_cache_open(const ft_device *device, const char *model, ft_gemm_cache *cache);
void ft_gemm_cache_close(ft_gemm_cache *cache);
bool ft_gemm_cache_has(const ft_gemm_cache *cache, int64_t tokens, int64_t sequences);
// Nobody else measures for this file until it is closed, and what others have measured is there. Waits for whoever
// does, and says so. FT_FAILED or FT_INVALID: nothing can be kept there; a stop's status: it was stopped while it
// waited.
ft_status ft_gemm_cache_lock(ft_gemm_cache *cache);
// Has the device know what was measured, and measure what was not.
ft_status ft_gemm_cache_measure(ft_gemm_cache *cache, ft_device *device);
// What the device was asked for since is that of this size: on the disk when this returns. A kill leaves the file as it
// was before.
ft_status ft_gemm_cache_add(ft_gemm_cache *cache, const ft_device *device, int64_t tokens, int64_t sequences);
// Has the device use the products of these sizes, which are there, in the file's order.
ft_status ft_gemm_cache_use(const ft_gemm_cache *cache, ft_device *device, const int64_t (*sizes)[2], size_t count);

#endif

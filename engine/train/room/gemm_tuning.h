// gemm_tuning.h - the file of measured algorithms for matrix products on a GPU (device.gemm_tuning), as JSON:
//
//     {"format_version": 1, "chip": "NVIDIA H200, sm_90", "cublaslt": 130001, "products": [
//       {"m": 4096, "n": 1024, "k": 1024, "lda": 1024, ..., "types": ["bf16", "bf16", "bf16"], "align": [256, 256, 256],
//        "transposed": [false, true], "accumulate": false, "bias": "in place", "algorithm": "2a00...", "microseconds": 11.2,
//        "first_microseconds": 14.9}, ...]}
//
// Of a product with what follows it in one op (kernels/ops/product_activation.h) there is a row of its own, with "epilogue": "activation",
// "activation": "gelu", and as algorithm "own" or "in two", whichever was faster; format_version is 2 then. Of one that is multiplied by the slope
// of an activation (product_slope.h) the epilogue is "slope"; format_version is 3 then. Of one whose sum with a residual goes into a norm (product_norm.h) it is
// "norm", with "sum": "16 bits", for the type of the sum, and ", dropout" where there is some; format_version is 4 then.
//
// It belongs to one kind of chip and one release of cuBLASLt, and is refused elsewhere; "driver" is only told. Shapes that are not in it are the
// heuristic's, as without a file. A run's result depends on the choices: their hash is in run.json and in checkpoints.
//
// device.gemm_tuning = auto: the choices come from a cache of such files (gemm_cache.h), and what a run has taken of it is a file of this
// form in its directory, which a resumed run takes whatever the cache has by then (../products.c).
#ifndef FT_GEMM_TUNING_H
#define FT_GEMM_TUNING_H

#include "base/json/json.h"
#include "engine/config/config.h"
#include "kernels/ops/device.h"
#include "kernels/ops/gemm_choice.h"

enum { FT_TUNING_HASH = 65 };

bool ft_gemm_tuning_is_auto(const ft_config *config);

// Has `device` use config->device.gemm_tuning. sha256: of the file, "" without one; also for a device that is no GPU, where it
// is said that nothing uses it. FT_INVALID: the file is none, or of another chip or library. Of `auto` nothing: it is chosen later.
ft_status ft_gemm_tuning_apply(const ft_config *config, ft_device *device, char sha256[FT_TUNING_HASH]);
// The file that a run with `auto` has in its directory, as ft_gemm_tuning_apply; absent: it has none. Of another chip or library: a warning, and
// no product uses it, but it stays the run's.
ft_status ft_gemm_tuning_own(const char *path, ft_device *device, char sha256[FT_TUNING_HASH]);
// Writes what the device has measured, or taken up, atomically. *products: how many.
ft_status ft_gemm_tuning_save(const ft_device *device, const char *path, size_t *products);


// The list "products". FT_INVALID names the place in `path`; free() the choices.
ft_status ft_gemm_products_read(const json_t *list, const char *path, ft_gemm_choice **choices, size_t *count);
json_t *ft_gemm_product_json(const ft_gemm_choice *choice); // NULL: no memory

#endif

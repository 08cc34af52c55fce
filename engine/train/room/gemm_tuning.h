// gemm_tuning.h - the file of measured algorithms for matrix products on a GPU (device.gemm_tuning), as JSON:
//
//     {"format_version": 1, "chip": "NVIDIA H200, sm_90", "cublaslt": 130001, "products": [
//       {"m": 4096, "n": 1024, "k": 1024, "lda": 1024, ..., "types": ["bf16", "bf16", "bf16"], "align": [256, 256, 256],
//        "transposed": [false, true], "accumulate": false, "bias": "in place", "algorithm": "2a00...", "microseconds": 11.2,
//        "first_microseconds": 14.9}, ...]}
//
// It belongs to one kind of chip and one release of cuBLASLt, and is refused elsewhere. Shapes that are not in it are the
// heuristic's, as without a file. A run's result depends on the choices: their hash is in run.json and in checkpoints.
#ifndef FT_GEMM_TUNING_H
#define FT_GEMM_TUNING_H

#include "engine/config/config.h"
#include "kernels/ops/device.h"

enum { FT_TUNING_HASH = 65 };

// Has `device` use config->device.gemm_tuning. sha256: of the file, "" without one; also for a device that is no GPU, where it
// is said that nothing uses it. FT_INVALID: the file is none, or of another chip or library.
ft_status ft_gemm_tuning_apply(const ft_config *config, ft_device *device, char sha256[FT_TUNING_HASH]);
// Writes what the device has measured, atomically. *products: how many.
ft_status ft_gemm_tuning_save(const ft_device *device, const char *path, size_t *products);

#endif

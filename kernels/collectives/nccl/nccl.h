// nccl.h - NVIDIA's collectives, opened when several GPUs are to work together, and a group of ranks (collectives.h)
// over them. Like cuBLASLt: nothing of it is linked or needed to build, its few types and numbers stand here as its
// binary interface has them (2.18 and later).
//
//     FT_TRY(ft_nccl_open(channels, &nccl));
//     FT_TRY(ft_nccl_group_join(nccl, device, control, channels, &group)); // all ranks
//     ft_group_close(group);
//     ft_group_close(control);
//     ft_nccl_close(nccl);
//
// Sums are pinned to one algorithm, protocol and number of channels, so that the same ranks give the same bits again;
// they are in no order that is ours. What ranks say to each other beside - identities, barriers, who has failed - goes
// through `control`, a group of the same ranks that needs no device (shared_memory.h). NCCL waits for ever for a rank
// that is gone; so nothing here waits for NCCL without looking at `control` meanwhile, and when that has ended the
// communicator is aborted.
#ifndef FT_NCCL_H
#define FT_NCCL_H

#include "kernels/collectives/collectives.h"
#include "kernels/cuda/driver/device.h"
#include "kernels/cuda/driver/vendor_library.h"

#include <stddef.h>
#include <stdint.h>

// ---- the library's types

typedef struct ft_nccl_comm_object *ft_nccl_comm;
typedef struct ft_nccl_id {
    char bytes[128];
} ft_nccl_id; // passed by value

// As 2.18 has it; a later library takes its defaults for what it has more.
typedef struct ft_nccl_config {
    size_t size;
    uint32_t magic, version;
    int blocking, cga_cluster_size, least_ctas, most_ctas;
    const char *network;
    int split_share;
} ft_nccl_config;
_Static_assert(offsetof(ft_nccl_config, blocking) == 16 && offsetof(ft_nccl_config, most_ctas) == 28 &&
                   offsetof(ft_nccl_config, network) == 32 && offsetof(ft_nccl_config, split_share) == 40 &&
                   sizeof(ft_nccl_config) == 48,
               "as the library has it");

enum {
    FT_NCCL_SUCCESS = 0,
    FT_NCCL_CUDA_ERROR = 1,
    FT_NCCL_REMOTE_ERROR = 6,
    FT_NCCL_IN_PROGRESS = 7,

    FT_NCCL_U8 = 1, // types
    FT_NCCL_I32 = 2,
    FT_NCCL_I64 = 4,
    FT_NCCL_F16 = 6,
    FT_NCCL_F32 = 7,
    FT_NCCL_F64 = 8,
    FT_NCCL_BF16 = 9,
    FT_NCCL_SUM = 0,

    FT_NCCL_CONFIG_VERSION = 21800,
    FT_NCCL_MINIMUM_VERSION = 21800,
};
#define FT_NCCL_CONFIG_MAGIC 0xcafebeefu

// ---- the library

typedef struct ft_nccl {
    ft_vendor_library library;
    int version; // 22307 is 2.23.7
    const char *(*error_string)(int result);
    const char *(*last_error)(ft_nccl_comm comm);
#define FT_NCCL_CALL(field, symbol, parameters) int(*field) parameters;
#include "kernels/collectives/nccl/nccl.def"
#undef FT_NCCL_CALL
} ft_nccl;

enum { FT_NCCL_CHANNELS = 64 }; // at most
// Of the device, that the library takes for a channel of a ring: buffers of every protocol, both ways, rounded as its
// source does.
enum { FT_NCCL_CHANNEL_BYTES = 12 << 20 };

// Where it is looked for, in this order: the file FTENGINE_NCCL names; the loader's own paths; pip's nvidia packages of
// the virtual environment, the user and the system. Sets the variables NCCL_ALGO, NCCL_PROTO, NCCL_NVLS_ENABLE,
// NCCL_MIN_CTAS and NCCL_MAX_CTAS, which win over all that a file or a configuration says of sums. FT_NO_DEVICE says
// what is missing; *nccl is then NULL.
ft_status ft_nccl_open(int channels, ft_nccl **nccl);
void ft_nccl_close(ft_nccl *nccl); // NULL is fine; the library's code stays mapped

// A collective of control's ranks: joins `device` with theirs. The device, a CUDA device, `control` and `nccl` outlive
// the group. Nobody forks afterwards without exec.
ft_status ft_nccl_group_join(const ft_nccl *nccl, ft_device *device, ft_group *control, int channels, ft_group **group);

#endif

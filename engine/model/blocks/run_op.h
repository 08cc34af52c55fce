// run_op.h - one op on views, with its scratch. Internal to the blocks.
#ifndef FT_RUN_OP_H
#define FT_RUN_OP_H

#include "engine/model/blocks/layers.h"
#include "kernels/ops/backend.h"

// Runs `op` with scratch of the size that the largest micro-batch needs: `largest` are the same arguments with the
// capacity for rows. Scratch never shrinks with more rows; an op that breaks this is caught here, not by an overrun.
#define RUN_WITH_WORKSPACE(pass, op, args, largest)                                                                    \
    do {                                                                                                               \
        ft_device *device_ = (pass)->model->device;                                                                    \
        size_t need_ = ft_##op##_workspace(&device_->target, &(args));                                                 \
        size_t bytes_ = ft_##op##_workspace(&device_->target, &(largest));                                             \
        if (need_ > bytes_) return ft_fail(FT_FAILED, #op, "scratch of %zu bytes exceeds the planned %zu", need_, bytes_); \
        void *scratch_ = NULL;                                                                                         \
        if (bytes_ > 0) FT_TRY(ft_memory_alloc((pass)->model->memory, bytes_, FT_MEM_WORKSPACE, #op " scratch", &scratch_)); \
        (args).workspace = (ft_workspace){scratch_, bytes_};                                                           \
        ft_status status_ = FT_RUN(device_, op, &(args));                                                              \
        ft_memory_free((pass)->model->memory, scratch_);                                                               \
        return status_;                                                                                                \
    } while (0)

#endif

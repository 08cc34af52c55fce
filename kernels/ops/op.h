// op.h - what every op's arguments are made of: views, scratch, dropout, the device-side state of a step.
//
// Rules for all ops. Arguments are a struct of views; outputs never alias inputs unless the contract says so. "written"
// means =, "accumulated" means +=. Scratch is a pure function of (target, argument shapes): ft_<op>_workspace() with the
// same shapes (data pointers may be NULL) gives the bytes, and args->workspace must hold at least as many. Shapes that
// disagree are FT_FAILED with the op's name; they are programming errors, never the user's. ft_<op>_check() says so: do the
// arguments fit together, and is the scratch large enough? Every back end asks it before it computes, the plan back end does
// nothing else. It looks at shapes and whether pointers are NULL, never at what they point to.
//
// Types. H is the type of an op's rows: fp32, bf16 or fp16, the same for all views of an op of which its contract says
// nothing else. What is summed over many rows (gradients of parameters), weights of norms, statistics and losses are fp32 in every
// precision; so is what is summed from layer to layer (residuals, gradients of rows), but for a norm that is told otherwise (layernorm.h). Whatever H is, an op computes in fp32 and
// rounds a result once, to the nearest (ties to even), when it is stored; beyond the largest fp16 number that is infinity.
#ifndef FT_OP_H
#define FT_OP_H

#include "base/status.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_device ft_device; // device.h

// What scratch sizes may depend on besides shapes. An input of every plan.
typedef enum ft_backend_kind { FT_BACKEND_CPU = 0, FT_BACKEND_CUDA = 1 } ft_backend_kind;
typedef struct ft_target {
    ft_backend_kind backend; // whose scratch rules; a planned device has those of the one it stands for
    int threads;             // CPU threads
    int sm_count, compute_capability; // CUDA chips; 0 on the CPU
    size_t page_bytes;
} ft_target;

typedef struct ft_workspace {
    void *data; // aligned to 256 bytes; NULL when bytes == 0
    size_t bytes;
} ft_workspace;

// Values that change from step to step. Device data, written by the host before the step is queued.
typedef struct ft_step_state {
    uint64_t seed;       // of dropout
    uint32_t step;       // optimizer step, from 0; part of the dropout key
    float learning_rate;
    float loss_factor;   // 1 / examples of the effective batch
    float loss_scale;    // by which gradients are larger than they are, so that fp16 can hold small ones: a power of two.
                         // Losses' gradients are multiplied by it, gradient_norm and adamw divide by it. 1: not scaled
    uint32_t reserved[2];
} ft_step_state;

// Outcome of the gradient norm and the counter of applied updates. Device data, written by ops; part of a checkpoint.
typedef struct ft_update_state {
    uint64_t count;      // updates applied so far (Adam's t)
    double norm;         // global gradient norm before clipping, of the gradients as they are without the loss scale
    double correction1, correction2;
    float clip;
    uint32_t finite;     // 0: this step was skipped
    float loss_scale;    // of the next step, where it is dynamic (adamw.h): copied to ft_step_state.loss_scale by whoever
                         // queues that step, device to device
    uint32_t finite_steps; // in a row since it last changed
    uint64_t skipped;    // steps skipped so far
    uint32_t stopped;    // 1: no step counts any more (adamw.h)
    uint32_t reserved;
} ft_update_state;

// Dropout of rows [T,N] (see philox.h). probability 0 = none, and then no pointer is read.
typedef struct ft_dropout {
    float probability;
    uint32_t layer, site;
    const ft_step_state *step;   // device
    const int32_t *slot;         // [T] which sequence of the effective batch a row belongs to, device
    const int32_t *position;     // [T] the row's position in its sequence, device
} ft_dropout;

// Dropout of attention scores. probability 0 = none.
typedef struct ft_score_dropout {
    float probability;
    uint32_t layer, site;
    const ft_step_state *step;   // device
    const int32_t *sequence_slot; // [sequences], device
} ft_score_dropout;

#endif

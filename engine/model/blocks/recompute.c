// recompute.c - what inside of a layer is made again in the backward pass (memory.recompute_activation and recompute_layernorm).
//
// Of a token a layer of width H and 4 H inside keeps, in numbers of fp32: qkv 3 H, a, s1, y1, s2 and the next x one H each, h 4 H;
// 12 H. What could be kept or made again, and what a byte less costs:
//   act(h), 4 H   is written once more by the pass over h that the backward pass makes in any case: one byte moved a byte saved.
//                 It is made again unless memory.recompute_activation says otherwise
//   y1 and x, H   each is a norm's output: one pass over its sum reads H and writes H, two bytes moved a byte saved. Dropping
//                 both leaves 10 H: this is memory.recompute_layernorm
//   s1, s2        could be had back from y1 and x, (y - beta) / gamma, but not to the bit, and not where gamma is 0
//   a whole layer saves all but x for a second forward pass, 24 H^2 operations and the scores: for H = 768 on one core at 60e9
//                 operations and 10e9 bytes a second 0.24 ms for 34 KB, where the norms give back 6 KB for 1.2 us and act(h) 12 KB for
//                 as much. Hence this order: act(h), norms, layers (train.gradient_checkpointing)
// The bits are those of the first computation: a norm's output comes from its sum as it was stored, by the same op in the same
// order, its mean and rstd included. In 16 bits that does not hold: a sum is rounded where it is kept, its norm was not computed
// from the rounded one, and keeping it in fp32 would take what the dropped output gave. The same with act(h), which is not that of the
// rounded h. There act(h) is always made again, and outputs of norms are kept.
#include "engine/model/blocks/recompute.h"

ft_status ft_recompute_check(const ft_config *o) {
    if ((o->memory.offload & FT_OFFLOAD_ACTIVATIONS) != 0 && o->train.gradient_checkpointing == 0) {
        ft_fail(FT_INVALID, "memory.offload", "%s offloads the inputs of layers that are computed again, and train.gradient_checkpointing is off",
                ft_offload_name(o->memory.offload));
        ft_hint("set train.gradient_checkpointing=auto or on, or memory.offload=%s", ft_offload_name(o->memory.offload & ~(unsigned)FT_OFFLOAD_ACTIVATIONS));
        return FT_INVALID;
    }
    if (!ft_precision_is_half(o->train.precision)) return FT_OK;
    if (o->memory.recompute_layernorm == FT_RECOMPUTE_TRUE) {
        ft_fail(FT_INVALID, "memory.recompute_layernorm", "true is for train.precision=fp32: in 16 bits a norm's output cannot be had again to the bit");
        ft_hint("set memory.recompute_layernorm=auto; train.gradient_checkpointing=on saves memory in every precision");
        return FT_INVALID;
    }
    if (o->memory.recompute_activation != FT_RECOMPUTE_FALSE) return FT_OK;
    ft_fail(FT_INVALID, "memory.recompute_activation", "false is for train.precision=fp32: in 16 bits the activation is always computed again");
    ft_hint("set memory.recompute_activation=auto");
    return FT_INVALID;
}

bool ft_offloads_inputs(const ft_config *o, const ft_device *device) {
    return (o->memory.offload & FT_OFFLOAD_ACTIVATIONS) != 0 && ft_device_queues(device);
}

// Who asks for the inputs of layers on the host asks for the recomputation that leaves nothing else to keep.
int64_t ft_checkpoint_every(const ft_config *o, const ft_device *device) {
    const int64_t every = o->train.gradient_checkpointing;
    return every != FT_AUTO ? every : ft_offloads_inputs(o, device) ? 1 : 0;
}

int ft_model_checkpoints(const ft_model *m) {
    const int trained = m->layers - m->first_trained_layer;
    return m->checkpoint_every > 0 && trained > 0 ? (trained - 1) / m->checkpoint_every : 0; // the last segment is kept as it is
}

void ft_model_set_recomputation(ft_model *m, const ft_config *o) {
    m->checkpoint_every = (int32_t)ft_checkpoint_every(o, m->device);
    m->inputs.on = ft_offloads_inputs(o, m->device);
    m->keeps_activation = !ft_precision_is_half(o->train.precision) && o->memory.recompute_activation != FT_RECOMPUTE_TRUE;
    m->rebuilds_norms = o->memory.recompute_layernorm == FT_RECOMPUTE_TRUE;
}

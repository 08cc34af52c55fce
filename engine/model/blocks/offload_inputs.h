// offload_inputs.h - inputs of recomputed layers in memory of the host (memory.offload = activations), for a device that has
// memory of its own.
//
// With train.gradient_checkpointing a micro-batch keeps the rows in front of every segment of layers from its forward to its
// backward pass. Here they travel: on the copying stream to pinned memory of the host while the segment is computed, and back
// while the segment above it is computed again and backward. The last of them stays, for it is read first. So the device holds
// two at most beside what is being computed, whatever the number of layers:
//
//   computing   segment 0 | segment 1, free 0 | segment 2, free 1 ... | last | back 2 | back 1 | back 0
//   copying        down 0 |      down 1       |                              |  up 1  |  up 0
//
// They are fp32 in every precision (layers.h) and come back as they went: the same bits. Bytes over the link: tokens x hidden x 4
// each way for every segment but the last two. Their places on the device are those of the arena, given out in the order of
// computing: what is freed there has gone (ft_input_sent), and what comes waits until its place is free (ft_input_fetch).
#ifndef FT_OFFLOAD_INPUTS_H
#define FT_OFFLOAD_INPUTS_H

#include "engine/model/blocks/recompute.h"

// Memory of the host for the inputs of layers, where they are offloaded (offload_inputs.h): as often as micro-batches or
// recomputation change. Without it they stay on the device.
ft_status ft_model_hold_inputs(ft_model *model, ft_capacity train);
void ft_model_release_inputs(ft_model *model);

#endif

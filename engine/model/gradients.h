// gradients.h - where the gradients of a step live: [trainable] fp32, in the order of parameters.h.
//
// Where a step has several micro-batches they add up in a buffer that is kept. Where every step of a run is one micro-batch nothing
// has to outlive the step, and they take room in its arena: at its begin, one part behind the other, each from when the backward
// pass comes to its layer. By then more activations of the layers above are gone, but for the smallest micro-batches, so that only
// gradients of the first layers to come are there at the peak (BERT base, 32 x 128: 50 MB of 438). Their bits are the same: each part is cleared when it comes.
//
//     ft_gradients_clear(p);                   before the micro-batches
//     ft_gradients_reach(p, index);            inside FT_SCOPE_TRAIN: parameter `index` and all in front of it may be written
//     ft_gradients_share(p);                   inside a later scope of the step: what was left there is read
//
// The parts go with their scope (ft_memory_alloc_at); between the scopes of a step nothing else runs in the arena.
#ifndef FT_GRADIENTS_H
#define FT_GRADIENTS_H

#include "engine/model/parameters.h"

// in_steps: inside the arena; else they are kept, and cleared. Again only after their release.
ft_status ft_gradients_hold(ft_parameters *p, bool in_steps);
void ft_gradients_release(ft_parameters *p); // none held is fine

// All of these do nothing where it is not theirs to do: `clear` in the arena, the others where gradients are kept.
ft_status ft_gradients_clear(const ft_parameters *p);
void ft_gradients_begin(ft_parameters *p); // FT_SCOPE_TRAIN: none is there yet
ft_status ft_gradients_reach(ft_parameters *p, int index);
ft_status ft_gradients_reach_depth(ft_parameters *p, int depth); // all that are no deeper (ft_parameter.depth)
ft_status ft_gradients_share(ft_parameters *p);

#endif

// gradients.h - where the gradients of a step live: [trainable] fp32, in the order of parameters.h.
//
// Where a step has several micro-batches they add up in a buffer that is kept. Where every step of a run is one micro-batch nothing
// has to outlive the step, and they take room in its arena: at its begin, one part behind the other, each from when the backward
// pass comes to its layer. By then more activations of the layers above are gone, but for the smallest micro-batches, so that only
// gradients of the first layers to come are there at the peak (BERT base, 32 x 128: 50 MB of 438). Their bits are the same: each part is cleared when it comes.
//
//     ft_gradients_clear(p);                   before the micro-batches
//     ft_gradients_begin(p);                   inside FT_SCOPE_TRAIN: none is there yet
//     ft_gradients_reach(p, point);            there: what the backward pass writes from this point on may be written
//     ft_gradients_leave(p);                   at its end
//     ft_gradients_share(p, point);            inside a later scope of the step: what was left there is read
//
// The parts go with their scope (ft_memory_alloc_at); between the scopes of a step nothing else runs in the arena.
//
// Ranks that share memory and add up by themselves (distributed.reduction = ring) have a slot each, side by side. A rank clears its own as
// the backward pass of its first micro-batch comes to it, and all are summed into the first one (gradient_sums.h), which the update reads.
//
// Points count what the backward pass comes to: the halves of the head, of every layer from the last to the first, of the embeddings, and
// the end of the step. A parameter is first written at a point (`arrives`), and last at the same or, where several blocks read it, at a later one
// (`completes`): a table tied to the head, or DeBERTa's keys and queries, which project the relative positions of all micro-batches at
// the end of the step too. So completion is known by parameter and not by depth, and come_to in gradients.c is where it becomes true: whoever
// sends gradients away while others are computed begins there. Where gradients are dealt out among ranks, each piece of them
// is there from its arrival until it was sent (gradient_parts.h).
#ifndef FT_GRADIENTS_H
#define FT_GRADIENTS_H

#include "engine/model/state/parameters.h"
#include "engine/model/state/points.h"

// in_steps: inside the arena; else they are kept, and cleared. Again only after their release.
ft_status ft_gradients_hold(ft_parameters *p, bool in_steps);
void ft_gradients_release(ft_parameters *p); // none held is fine
int64_t ft_gradient_slot(const ft_parameters *p); // elements from slot to slot
float *ft_gradients_summed(const ft_parameters *p); // where the sums of all ranks are, for the update: the first slot; else the gradients

// All of these do nothing where it is not theirs to do: `clear` in the arena, the others where gradients are kept.
ft_status ft_gradients_clear(ft_parameters *p);
void ft_gradients_begin(ft_parameters *p);
// Points never go back within a micro-batch. What completes before `point` is complete, of this micro-batch; in a later scope, of the step.
ft_status ft_gradients_reach(ft_parameters *p, int point);
ft_status ft_gradients_leave(ft_parameters *p);
ft_status ft_gradients_share(ft_parameters *p, int point);
// Behind a step's micro-batches: what of a slot none of them came to is 0.
ft_status ft_gradients_settle(ft_parameters *p);
// The sums of all ranks are there: before the update.
ft_status ft_gradients_keep(ft_parameters *p);
// In place of a step's micro-batches where they have no loss: all gradients are 0, for the scopes that follow in the step. Opens a scope.
ft_status ft_gradients_none(ft_parameters *p);

// When the backward pass of a planned device comes where (ft_plan_seconds): noted for whoever sets ft_parameters.notes, as long as there is room.
typedef struct ft_backward_notes {
    int count, capacity;
    struct ft_backward_note {
        int point;
        double seconds;
    } *list;
} ft_backward_notes;
// At the point that the backward pass has come to, nothing more will be added to the gradient of the parameter.
bool ft_gradient_is_complete(const ft_parameters *p, int index);
// Absent for a frozen parameter, or where no gradients are held.
ft_tensor ft_parameter_gradient(const ft_parameters *p, int index);

#endif

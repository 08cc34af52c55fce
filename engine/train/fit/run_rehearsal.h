// run_rehearsal.h - a run rehearsed on a plan device, which computes nothing: what memory and what time it takes.
//
// A rehearsal is another room, and another step, over the same job: data, task and rows are those of the job and only read.
#ifndef FT_RUN_REHEARSAL_H
#define FT_RUN_REHEARSAL_H

#include "engine/train/step/step.h"

typedef struct ft_rehearsal {
    ft_room room; // on a plan device: room.memory is its meter
    ft_step step;
} ft_rehearsal;

// Every stage of a run of `config` after it was opened, once, in its largest sizes: the allocator is free of history at the end of
// each, so that a thousand of them need no more. `config` may differ from the job's in memory's settings alone. `device`, a plan
// device, is taken over; limit: of reserved bytes. FT_NO_MEMORY: it does not fit. Close the rehearsal in any case.
ft_status ft_rehearse(const ft_job *job, const ft_config *config, ft_device *device, size_t limit, ft_rehearsal *rehearsal);
// The same on a plan device like that of `room`, whose steps are taken over where `config` is the one in force there.
ft_status ft_rehearse_again(const ft_room *room, const ft_config *config, size_t limit, ft_rehearsal *rehearsal);
// What an optimizer step of the job's data would take, once it was rehearsed: kernels/devices/cost.h. products (may be NULL): of it, the
// matrix products.
ft_status ft_rehearsal_price(ft_rehearsal *rehearsal, double *seconds, double *products);
// The same by what is kept busy meanwhile.
ft_status ft_rehearsal_work(ft_rehearsal *rehearsal, double *seconds, ft_plan_work *work);
// The same once more, with a note of when the gradients of the step's last micro-batch come to which point (engine/model/gradients/gradients.h);
// *seconds: of such a step, as above. The last note is where the update begins.
ft_status ft_rehearsal_backward(ft_rehearsal *rehearsal, struct ft_backward_notes *notes, double *seconds);
ft_status ft_rehearsal_close(ft_rehearsal *rehearsal); // FT_FAILED on a leak

#endif

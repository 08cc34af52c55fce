// rehearsal.h - the stages of a run in their largest sizes, once, whatever the device computes.
//
// Two uses. ft_lay_out_steps runs them on a plan device to record what a step asks for, and lays the tensors out in an
// arena of the real run. A rehearsed run (run_rehearsal.h) goes through them on a plan device to read the meter.
#ifndef FT_REHEARSAL_H
#define FT_REHEARSAL_H

#include "engine/generate/generator.h"
#include "engine/train/room/room.h"

typedef struct ft_step_sizes {
    ft_capacity train, predict; // largest micro-batches; tokens == 0: there are none
    ft_capacity trunk;          // the same of the pass that makes features (trunk_pass.h)
    ft_generator_sizes generator; // of texts that are gone on with; slots == 0: there are none
    bool features;              // train and predict are of features
    bool whole_steps;           // every step is one micro-batch: gradients live in the arena
    int64_t rows;               // that are read of the largest effective batch
    int64_t tokens;             // of it, on all ranks
    ft_loss loss;               // of the task
    const ft_word_rows *word_rows; // the rows of the word table that are there; NULL: all
    struct ft_trunk *trunk_of;     // as ft_room.trunk
    bool head_alone;               // as ft_room.head_alone
} ft_step_sizes;
ft_step_sizes ft_room_sizes(const ft_room *room); // of the steps and evaluations that are planned there

// A step of one micro-batch: through forward and backward, and an update. `batch` is bound to device memory for
// sizes->train; losses, step and update as in the training loop.
ft_status ft_rehearse_step(ft_model *model, const ft_config *config, const ft_step_sizes *sizes, ft_batch *batch, float *losses,
                           const ft_step_state *step, ft_update_state *update);
// What of that a step does once, however many micro-batches it has.
ft_status ft_rehearse_step_without_batches(ft_model *model, const ft_config *config, const ft_step_sizes *sizes, float *losses,
                                           const ft_step_state *step, ft_update_state *update);
// Records the scopes of a run of these sizes on a plan device like memory's own, and has `memory` adopt them.
ft_status ft_lay_out_steps(ft_memory *memory, const ft_model_config *model_config, const ft_config *config, int32_t labels,
                           const ft_step_sizes *sizes);

#endif

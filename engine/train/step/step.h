// step.h - what optimizer steps hold: batches on their way, losses, graphs, and how far training has come.
#ifndef FT_TRAIN_STEP_H
#define FT_TRAIN_STEP_H

#include "engine/metrics/metrics.h"
#include "engine/train/room/room.h"
#include "engine/train/step/batch_buffers.h"
#include "engine/train/step/graphs.h"
#include "engine/train/step/steps.h"

// What a checkpoint carries besides the tensors: enough to go on with the same bits.
typedef struct ft_train_state {
    int64_t step;             // optimizer steps done
    int64_t tokens;           // real tokens trained on
    double loss_sum;          // of the steps since the last logged line
    int64_t loss_steps;
    double learning_rate, gradient_norm; // of the last step
    double last_loss;
    int64_t skipped_steps;    // of those, the ones that overflowed fp16 and changed nothing
    double loss_scale;        // of the next step
    double best_value;        // of eval.metric
    int64_t best_step;        // -1: not evaluated yet
    double best_metrics[FT_METRIC_COUNT]; // all metrics of the best evaluation; NaN where one does not exist
    int64_t bad_evaluations;  // in a row without improvement
    bool stopped_early;
    bool evaluation_pending;  // stopped during the evaluation that belongs to this step
    int64_t metrics_bytes;    // length of metrics.jsonl
    double seconds_total, seconds_train, seconds_eval;
} ft_train_state;

typedef struct ft_step {
    ft_room *room;
    ft_batch_buffers buffers;
    ft_step_state *step_state;
    ft_update_state *update_state;
    float *losses;             // [effective batch]
    float *batch_losses;       // [plan.capacity.reads], where there are graphs: of one micro-batch, on their way to the above
    ft_step_graphs graphs;
    ft_steps steps;            // queued and not yet booked
    int32_t *order;            // of the present epoch
    int64_t order_epoch;
    double queueing_seconds;   // of this session, in which the host queued steps; it was not waiting for a batch's slot in them
    ft_train_state state;
} ft_step;

// build.c. Nothing is on the device yet, no step is done. `room` need not be open: it is pointed to.
void ft_step_init(ft_step *step, ft_room *room, const ft_config *config);
// What of the device a run holds: its state (weights, moments, scalars of a step), and its layout (gradients, batch buffers and the
// steps' arena). Makes what is not there; a part that fails leaves nothing of itself behind.
ft_status ft_step_build_state(ft_step *step);
ft_status ft_step_build_layout(ft_step *step); // of room->plan and room->eval_capacity, on a state that is there
void ft_step_drop_layout(ft_step *step);
void ft_step_drop_state(ft_step *step);
// Moves the state into memory of the host, from where the next ft_step_build_state takes it. FT_NO_MEMORY: the host has not so
// much; everything is as it was.
ft_status ft_step_carry_state(ft_step *step);
void ft_step_close(ft_step *step); // before its room is

#endif

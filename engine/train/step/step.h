// step.h - what optimizer steps hold: batches on their way, losses, graphs, and how far training has come.
#ifndef FT_TRAIN_STEP_H
#define FT_TRAIN_STEP_H

#include "engine/metrics/metrics.h"
#include "engine/model/gradients/chain.h"
#include "engine/model/gradients/gradient_sums.h"
#include "engine/model/gradients/word_sums.h"
#include "engine/train/room/room.h"
#include "engine/train/step/batch_buffers.h"
#include "engine/train/step/step_words.h"

// ---- steps on their way (steps.h)
enum { FT_STEPS_ON_THE_WAY = 3 };

// One step on its way. Memory of the host that the device copies from and to, and what the host must remember of it.
typedef struct ft_step_on_its_way {
    void *block;             // of all arrays below
    ft_step_state *state;    // goes up
    ft_update_state *update; // comes down
    float *losses;           // [plan.step_rows], comes down
    int32_t *signals;        // [ranks], goes up and comes down; NULL: no ranks are apart
    int32_t *words;          // [words.room], goes up; NULL: the word table is not summed by rows
    ft_event *done;          // both have come
    int64_t rows, tokens;    // losses that there are; tokens of the step
    double weight;           // what the sum of the losses is divided by
    double learning_rate;
} ft_step_on_its_way;

typedef struct ft_steps {
    ft_step_on_its_way way[FT_STEPS_ON_THE_WAY];
    int room, first, count; // of them: how many there may be; the oldest and how many there are
    bool held;              // the next one lacks memory: it is queued when none is on its way any more
} ft_steps;

// ---- what of a step was recorded (graphs.h)
enum { FT_STEP_GRAPHS = 64 };

typedef enum ft_step_part { FT_STEP_BEGIN = 0, FT_STEP_BATCH, FT_STEP_END, FT_STEP_UPDATE } ft_step_part;

// Sizes of a micro-batch are those with its filling. filler: is there any (0 or 1)? How long it is lies in the slot: in the shape it
// would make one of almost every micro-batch of mixed lengths. rows: losses of the effective batch, for the update.
typedef struct ft_step_shape {
    int32_t part, slot, sequences, tokens, longest, reads, most_reads, filler;
    int64_t rows;
} ft_step_shape;

typedef struct ft_step_graph {
    ft_step_shape shape;
    ft_graph *graph; // NULL: the shape was seen, no more
    uint64_t used;   // on the clock below
    int64_t seen;
    size_t bytes;    // by which the device's free memory fell
} ft_step_graph;

typedef struct ft_step_graphs {
    bool on;
    bool ended;      // by a failure, for the rest of the run
    int most;        // FT_STEP_GRAPHS
    ft_step_graph held[FT_STEP_GRAPHS], seen[FT_STEP_GRAPHS];
    int held_count, seen_count;
    uint64_t clock;
    size_t bytes;    // of those held
    int64_t recorded, replayed, queued, evicted; // over the run; queued: call by call
    int most_held;
    size_t most_bytes;
} ft_step_graphs;

// ---- all of it

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
    void *pictures;            // room for pictures that are changed ahead of the step; NULL: none are
    ft_picture_feed *feed;     // that fills it; NULL: nobody takes pictures, as in a rehearsal
    ft_step_state *step_state;
    ft_update_state *update_state;
    float *losses;             // [plan.step_rows]
    float *batch_losses;       // [plan.capacity.reads], where there are graphs: of one micro-batch, on their way to the above
    ft_step_graphs graphs;
    ft_chain chain;            // of several ranks: whose turn it is to add to the gradients
    ft_gradient_sums sums;     // of ranks with gradients of their own: these on their way to each other
    int32_t *signals;          // [ranks], of ranks that are apart: what each was asked to stop by
    ft_word_sums words;        // of these: the rows of the word table that are summed; room 0: all are
    ft_step_words seen_words;  // on the host, which finds them; of a rehearsal nothing
    ft_steps steps;            // queued and not yet booked
    int32_t *order;            // of the present epoch
    int64_t order_epoch;
    double queueing_seconds;   // of this session, in which the host queued steps; it was not waiting for a batch's slot in them
    ft_train_state state;
} ft_step;

// Are pictures changed ahead of steps, and how?
bool ft_step_feeds(const ft_room *room, ft_picture_feed_request *request);
// build.c. Nothing is on the device yet, no step is done. `room` need not be open: it is pointed to.
void ft_step_init(ft_step *step, ft_room *room, const ft_config *config);
// What of the device a run holds: its state (weights, moments, scalars of a step), and its layout (gradients, batch buffers and the
// steps' arena). Makes what is not there; a part that fails leaves nothing of itself behind.
ft_status ft_step_build_state(ft_step *step);
ft_status ft_step_build_layout(ft_step *step); // of room->plan and room->eval_capacity, on a state that is there
void ft_step_drop_layout(ft_step *step);
void ft_step_drop_state(ft_step *step);
// Where the head alone is trained and its features are there: the state goes, and the next one has no frozen layers (room->head_alone). Before the
// first step, and nothing where numbers of the trunk are saved otherwise than they are read.
void ft_step_leave_trunk(ft_step *step);
// Moves the state into memory of the host, from where the next ft_step_build_state takes it. FT_NO_MEMORY: the host has not so
// much; everything is as it was.
ft_status ft_step_carry_state(ft_step *step);
void ft_step_close(ft_step *step); // before its room is

#endif

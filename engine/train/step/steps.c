#include "engine/train/step/steps.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/model/gradients/chain.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/state/shards.h"
#include "engine/train/job/schedule.h"
#include "engine/train/room/observer.h"
#include "engine/train/room/ranks.h"
#include "engine/train/step/graphs.h"
#include "engine/train/step/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 }; // of what is copied

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

// ---- memory -------------------------------------------------------------------------------------------------------------

static ft_status create_way(ft_step *step, int64_t rows, ft_step_on_its_way *w) {
    ft_room *room = step->room;
    const size_t state = aligned(sizeof *w->state), update = aligned(sizeof *w->update);
    const size_t losses = aligned((size_t)rows * sizeof(float)), signals = room->plan.apart ? aligned((size_t)room->plan.ranks * sizeof *w->signals) : 0;
    const size_t words = aligned((size_t)step->words.room * sizeof *w->words), bytes = state + update + losses + signals + words;
    if (ft_device_queues(room->device)) FT_TRY(ft_memory_alloc_pinned(room->memory, bytes, "what a step comes to", &w->block));
    else if ((w->block = ft_calloc(1, bytes, "what a step comes to")) == NULL) return FT_NO_MEMORY;
    w->state = w->block;
    w->update = (ft_update_state *)((char *)w->block + state);
    w->losses = (float *)((char *)w->block + state + update);
    if (signals > 0) w->signals = (int32_t *)((char *)w->block + state + update + losses);
    if (words > 0) w->words = (int32_t *)((char *)w->block + state + update + losses + signals);
    return room->device->functions->event_create(room->device, &w->done);
}

// Where a loss scale has steps skipped, the learning rate of a step depends on what came of the one before.
ft_status ft_steps_create(ft_step *step, int64_t rows) {
    ft_room *room = step->room;
    step->steps.room = ft_device_queues(room->device) && !ft_update_scales_loss(room->config) ? FT_STEPS_ON_THE_WAY : 1;
    for (int i = 0; i < step->steps.room; i++) FT_TRY(create_way(step, rows, &step->steps.way[i]));
    return FT_OK;
}

void ft_steps_free(ft_step *step) {
    ft_room *room = step->room;
    for (int i = 0; i < step->steps.room; i++) {
        ft_step_on_its_way *w = &step->steps.way[i];
        if (ft_device_queues(room->device)) ft_memory_free_pinned(room->memory, w->block);
        else free(w->block);
        room->device->functions->event_destroy(room->device, w->done);
    }
    step->steps = (ft_steps){.room = 0};
}

// ---- queueing -----------------------------------------------------------------------------------------------------------

// What the sum of the losses of a step is divided by: its rows that are labelled, or the weights of their classes (so that a class
// counts more, and not the step). Where a step has none, its loss is 0.
static double weight_of(const ft_step *step, int64_t first, int64_t last) {
    const ft_job *job = step->room->job;
    const ft_dataset *data = &job->split[FT_SPLIT_TRAIN].data;
    const bool weighted = job->loss.class_weight != NULL && data->label != NULL && !job->loss.mixes; // as torch has it of labels that are shares
    double sum = 0;
    if (ft_task_has_spans(job->task)) return (double)(last - first); // two losses a sequence, of which each counts half
    for (int64_t i = first; i < last; i++) {
        const int64_t sequence = step->order[i], reads = ft_dataset_reads(data, sequence);
        const int64_t row = data->first_read != NULL ? data->first_read[sequence] : ft_dataset_example(data, sequence);
        for (int64_t k = 0; k < reads; k++) sum += weighted ? (double)job->loss.class_weight[data->label[row + k]] : 1;
    }
    return sum > 0 ? sum : 1;
}

static double learning_rate_of(const ft_room *room, int64_t step) {
    const ft_config *c = room->config;
    const ft_schedule schedule = ft_schedule_of(c, room->plan.warmup_steps, room->plan.total_steps);
    return c->train.learning_rate * ft_schedule_factor(&schedule, step);
}

// Of one optimizer step: sequences [first, last) of the epoch's order, and how many rows of theirs have a loss.
typedef struct step_work {
    int64_t step, first, last, tokens, rows;
    int64_t batches; // micro-batches that it has; where ranks have gradients of their own
    bool computed;   // one of them had a loss, on this rank
    double weight, learning_rate;
} step_work;

static ft_step_on_its_way *next_way(ft_steps *s) { return &s->way[(s->first + s->count) % s->room]; }

// Of ranks with gradients of their own: what this one adds to the sums of the step, but for what its micro-batches come to.
static ft_status begin_sums(ft_step *step) {
    ft_room *room = step->room;
    const ft_device_functions *f = room->device->functions;
    int32_t *signals = next_way(&step->steps)->signals;
    const size_t bytes = (size_t)room->plan.ranks * sizeof *signals;
    ft_gradient_sums_begin(&step->sums);
    if (signals != NULL) {
        memset(signals, 0, bytes);
        signals[room->rank] = ft_stop_asked();
        FT_TRY(f->upload(room->device, step->signals, signals, bytes));
    }
    return f->fill(room->device, step->losses, 0, (size_t)room->plan.step_rows * sizeof *step->losses);
}

// Which rows of the word table have a gradient in this step, on whatever rank.
static ft_status find_words(ft_step *step, const step_work *w) {
    ft_room *room = step->room;
    const ft_job *job = room->job;
    int32_t *rows = next_way(&step->steps)->words;
    if (rows == NULL) return FT_OK;
    step->words.count = ft_step_words_find(&step->seen_words, &job->split[FT_SPLIT_TRAIN].data, step->order, w->first, w->last, job->word_rows, rows, step->words.room);
    if (step->words.count > step->words.room) return FT_OK; // the table is summed as it is
    return room->device->functions->upload(room->device, step->words.rows, rows, (size_t)step->words.count * sizeof *rows);
}

// Every loss is of one rank, and 0 on the others: the sum is what that one has, to the bit. Likewise signals of ranks that are apart; others
// say them where all wait for all.
static ft_status sum_what_is_told(ft_step *step, const step_work *w) {
    const ft_range told[] = {{step->losses, w->rows, FT_F32}, {step->signals, step->room->plan.ranks, FT_I32}};
    return ft_group_all_reduce_all(step->sums.group, told, step->signals != NULL ? 2 : 1);
}

// Behind all micro-batches: what the end of the step adds nothing to is summed while that goes on. The order is the same on all ranks, wherever
// one of them is with its gradients. Ranks that share memory wait for each other behind that end alone.
static ft_status sum_batches(ft_step *step, const step_work *w) {
    if (step->sums.in_slots) return FT_OK;
    FT_TRY(ft_gradient_sums_leave(&step->sums, &step->room->model.parameters));
    return sum_what_is_told(step, w);
}

static ft_status sum_rest(ft_step *step, const step_work *w) {
    ft_room *room = step->room;
    FT_TRY(ft_gradient_sums_finish(&step->sums, &room->model.parameters));
    if (step->sums.in_slots) FT_TRY(sum_what_is_told(step, w));
    FT_TRY(ft_group_join(step->sums.group));
    return ft_gradients_keep(&room->model.parameters);
}

// Brings the values of this step to the device, clears the gradients and computes what all micro-batches share.
static ft_status begin(ft_step *step, const step_work *w) {
    ft_room *room = step->room;
    const ft_device_functions *f = room->device->functions;
    ft_step_state *state = next_way(&step->steps)->state;
    *state = (ft_step_state){.seed = (uint64_t)room->config->train.seed,
                             .step = (uint32_t)w->step,
                             .learning_rate = (float)w->learning_rate,
                             .loss_factor = (float)(1 / w->weight),
                             .loss_scale = 1};
    FT_TRY(f->upload(room->device, step->step_state, state, sizeof *state));
    if (room->model.parameters.sums != NULL) FT_TRY(begin_sums(step));
    FT_TRY(find_words(step, w));
    FT_TRY(ft_step_graphs_queue(step, (ft_step_shape){.part = FT_STEP_BEGIN}));
    if (room->model.parameters.chain != NULL) ft_chain_open_step(room->model.parameters.chain);
    return FT_OK;
}

// The present batch, whose losses, one a row that is read, belong to the places from `losses` on; *count: how many these are.
static ft_status train_batch(ft_step *step, float *losses, int64_t *count) {
    ft_room *room = step->room;
    const ft_batch *b = &step->buffers.device;
    *count = b->reads - (b->filler > 0 ? FT_FILLER_READS : 0);
    if (*count == 0) return FT_OK; // nothing of it is labelled: it teaches nothing
    if (step->batch_losses == NULL)
        return ft_model_train_batch(&room->model, b, room->plan.capacity, step->step_state, ft_vector(losses, *count, FT_F32));
    FT_TRY(ft_step_graphs_queue(step, (ft_step_shape){.part = FT_STEP_BATCH, .slot = step->buffers.present, .sequences = b->sequences,
                                                      .tokens = b->tokens, .longest = b->longest, .reads = b->reads,
                                                      .most_reads = b->most_reads, .filler = b->filler > 0}));
    return room->device->functions->copy(room->device, losses, step->batch_losses, (size_t)*count * sizeof *losses);
}

// A loss of 0, as of a row, for a step in which no row is labelled, and gradients of 0.
static ft_status no_loss(ft_step *step, step_work *w) {
    w->rows = 1;
    FT_TRY(ft_gradients_none(&step->room->model.parameters));
    return step->room->device->functions->fill(step->room->device, step->losses, 0, sizeof *step->losses);
}

// What all of them count of a micro-batch that another rank computes.
static int64_t reads_of(const ft_dataset *data, const int32_t *order, int64_t first, int64_t count) {
    int64_t reads = 0;
    for (int64_t i = first; i < first + count; i++) reads += ft_dataset_reads(data, order[i]);
    return reads;
}

// Behind all micro-batches, on whatever rank: what a step does once.
static ft_status end_of_batches(ft_step *step, const step_work *w, int64_t batches, int64_t rows) {
    ft_parameters *p = &step->room->model.parameters;
    ft_chain *chain = p->chain;
    FT_TRY(ft_gradients_settle(p));
    if (chain != NULL) FT_TRY(ft_chain_finish(chain, batches, ft_vector(step->losses, rows, FT_F32)));
    if (p->sums != NULL) FT_TRY(sum_batches(step, w));
    FT_TRY(ft_step_graphs_queue(step, (ft_step_shape){.part = FT_STEP_END}));
    if (p->sums != NULL) return sum_rest(step, w);
    return chain != NULL ? ft_chain_close_step(chain, batches) : FT_OK;
}

// The micro-batch of sequences [at, at + count), the index-th of the step, whose losses belong to the places from `losses` on.
static ft_status compute(ft_step *step, step_work *w, int64_t at, int64_t count, int64_t index, float *losses, int64_t *read) {
    ft_room *room = step->room;
    const ft_dataset *data = &room->job->split[FT_SPLIT_TRAIN].data;
    ft_chain *chain = room->model.parameters.chain;
    const bool sums = room->model.parameters.sums != NULL, mine = sums ? ft_gradient_sums_is_mine(&step->sums, index) : chain == NULL || ft_chain_is_mine(chain, index);
    if (!mine) return *read = reads_of(data, step->order, at, count), FT_OK;
    if (step->feed != NULL) FT_TRY(ft_picture_feed_take(step->feed, step->order_epoch, step->order, room->plan.sequences, at, count));
    FT_TRY(ft_batch_buffers_load(&step->buffers, data, step->order, at, count, (int32_t)(at - w->first)));
    step->queueing_seconds -= step->buffers.waited;
    if (chain != NULL) ft_chain_begin(chain, index, at + count == w->last);
    if (sums && index >= w->batches - room->plan.ranks) ft_gradient_sums_go(&step->sums);
    FT_TRY(train_batch(step, losses, read));
    w->computed = w->computed || *read > 0;
    return chain != NULL ? ft_chain_end(chain, ft_vector(step->losses, losses - step->losses, FT_F32), *read) : FT_OK;
}

static int64_t count_batches(ft_step_cut cut, int64_t first) {
    int64_t batches = 0;
    for (; first < cut.last; batches++) first += ft_step_cut_next(&cut, first);
    return batches;
}

// From cleared gradients to those of the whole effective batch: until then a step has changed nothing, and can begin again.
static ft_status gradients_of(ft_step *step, void *context) {
    step_work *w = context;
    ft_room *room = step->room;
    const ft_dataset *data = &room->job->split[FT_SPLIT_TRAIN].data;
    float *losses = step->losses;
    w->tokens = w->rows = 0;
    w->computed = false;
    FT_TRY(begin(step, w));
    ft_step_cut cut = ft_run_plan_cut(&room->plan, data, step->order, w->first, w->last);
    if (room->model.parameters.sums != NULL) w->batches = count_batches(cut, w->first);
    int64_t batches = 0;
    for (int64_t at = w->first; at < w->last; batches++) {
        int64_t count = ft_step_cut_next(&cut, at), read;
        FT_TRY(compute(step, w, at, count, batches, losses, &read));
        for (int64_t i = at; i < at + count; i++) w->tokens += ft_dataset_tokens(data, step->order[i]);
        ft_run_alive(room->memory, step->state.step, room->plan.total_steps, false);
        losses += read;
        w->rows += read;
        at += count;
    }
    const int64_t rows = w->rows;
    if (rows == 0) FT_TRY(no_loss(step, w));
    else if (room->model.parameters.sums != NULL && !w->computed) FT_TRY(ft_gradients_none(&room->model.parameters)); // others have
    return end_of_batches(step, w, batches, rows);
}

// Sends what the step came to on its way home.
static ft_status end(ft_step *step, const step_work *w) {
    ft_room *room = step->room;
    const ft_device_functions *f = room->device->functions;
    ft_step_on_its_way *way = next_way(&step->steps);
    way->rows = w->rows;
    way->tokens = w->tokens;
    way->weight = w->weight;
    way->learning_rate = w->learning_rate;
    FT_TRY(f->download(room->device, way->losses, step->losses, (size_t)way->rows * sizeof(float)));
    FT_TRY(f->download(room->device, way->update, step->update_state, sizeof *way->update));
    if (room->group != NULL) FT_TRY(f->download(room->device, way->signals, step->signals, (size_t)room->plan.ranks * sizeof *way->signals));
    FT_TRY(f->event_record(room->device, way->done, FT_STREAM_COMPUTE));
    step->steps.count++;
    // Every rank has updated its part: the weights are those of the next step. Where each updates all, what others were asked comes with the sums.
    return room->ranks != NULL && room->group == NULL ? ft_ranks_agree(room->ranks) : FT_OK;
}

ft_status ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run) {
    ft_room *room = step->room;
    step_work w = {.step = step->state.step + step->steps.count};
    const ft_dataset *data = &step->room->job->split[FT_SPLIT_TRAIN].data;
    int64_t epoch;
    ft_run_plan_step(&room->plan, w.step, &epoch, &w.first, &w.last);
    if (epoch != step->order_epoch) {
        ft_picture_feed_pause(step->feed); // it reads the order
        FT_TRY(ft_epoch_order(room->plan.order_seed, epoch, data->sequences, step->order));
        step->order_epoch = epoch;
    }
    w.weight = weight_of(step, w.first, w.last);
    w.learning_rate = learning_rate_of(room, w.step - step->state.skipped_steps); // they do not advance it
    step->steps.held = false;
    if (step->steps.count == 0) {
        FT_TRY(climb(run, gradients_of, &w));
    } else {
        ft_status status = gradients_of(step, &w);
        // The ladder may move the run to another device, and what it did is noted behind the steps before it.
        if (status == FT_NO_MEMORY && room->ranks == NULL) return step->steps.held = true, FT_OK;
        FT_TRY(status);
    }
    FT_TRY(ft_step_graphs_queue(step, (ft_step_shape){.part = FT_STEP_UPDATE, .rows = w.rows}));
    if (room->model.parameters.deals && room->group != NULL) FT_TRY(ft_shards_spread(&room->model.parameters));
    return end(step, &w);
}

// ---- booking ------------------------------------------------------------------------------------------------------------

static ft_status diverged(const ft_step *step, double loss, const ft_update_state *update) {
    ft_room *room = step->room;
    if (ft_update_scales_loss(room->config))
        ft_fail(FT_DIVERGED, NULL, "training diverged at step %lld: fp16 overflows at a loss scale of %g, loss %g",
                (long long)step->state.step + 1, (double)update->loss_scale * 2, loss);
    else
        ft_fail(FT_DIVERGED, NULL, "training diverged at step %lld: loss %g, gradient norm %g",
                (long long)step->state.step + 1, loss, update->norm);
    ft_hint("the state before this step is kept in checkpoints/; a smaller train.learning_rate or train.max_grad_norm usually helps%s",
            ft_update_scales_loss(room->config) ? ", and train.precision=bf16 does not overflow" : "");
    return FT_DIVERGED;
}

// The first rank's before another's.
static int first_signal(const int32_t *signals, int ranks) {
    int rank = 0;
    while (rank < ranks - 1 && signals[rank] == 0) rank++;
    return signals[rank];
}

// A step that overflowed changed nothing; the next is scaled less. It counts, and its loss, where it has one, is as good as any.
static void book_skipped(ft_step *step, const ft_update_state *update) {
    step->state.skipped_steps++;
    ft_detail("step %lld   skipped: its gradients overflow fp16; the loss scale is %g now", (long long)step->state.step + 1,
              (double)update->loss_scale);
}

ft_status ft_steps_book(ft_step *step) {
    ft_room *room = step->room;
    ft_steps *s = &step->steps;
    const ft_step_on_its_way *w = &s->way[s->first];
    FT_TRY(ft_memory_wait(room->memory, w->done));
    if (room->group != NULL) ft_stop_agreed(first_signal(w->signals, room->plan.ranks));
    ft_step_graphs_record(step);
    double sum = 0;
    for (int64_t i = 0; i < w->rows; i++) sum += w->losses[i]; // in slot order, whatever the micro-batches were
    const double loss = sum / w->weight;
    const bool taken = isfinite(loss) && w->update->finite;
    step->state.learning_rate = w->learning_rate;
    if (!taken && !(ft_update_scales_loss(room->config) && w->update->loss_scale >= FT_LEAST_LOSS_SCALE)) {
        s->count = 0;
        return diverged(step, loss, w->update);
    }
    s->first = (s->first + 1) % s->room;
    s->count--;
    if (taken) step->state.gradient_norm = w->update->norm;
    else book_skipped(step, w->update);
    if (taken) FT_TRY(ft_absent_rows_step(&room->model.absent, (float)w->learning_rate));
    step->state.loss_scale = (double)w->update->loss_scale;
    step->state.step++;
    step->state.tokens += w->tokens;
    if (!isfinite(loss)) return FT_OK;
    step->state.last_loss = loss;
    step->state.loss_sum += loss;
    step->state.loss_steps++;
    return FT_OK;
}

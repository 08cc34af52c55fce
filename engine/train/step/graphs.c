#include "engine/train/step/graphs.h"

#include "base/log.h"
#include "engine/model/gradients/gradient_parts.h"
#include "engine/model/gradients/gradients.h"
#include "engine/train/room/device_graphs.h"
#include "engine/train/step/update.h"
#include "kernels/devices/devices.h"

#include <string.h>

enum { SEEN_BEFORE = 2 }; // so often a shape was queued when it is recorded

// ---- the parts of a step ------------------------------------------------------------------------------------------------

static ft_status queue_begin(ft_step *step) {
    ft_room *room = step->room;
    FT_TRY(ft_update_scale_step(room->device, room->config, step->update_state, step->step_state));
    FT_TRY(ft_gradients_clear(&room->model.parameters));
    return ft_model_begin_step(&room->model, room->plan.capacity, step->step_state);
}

// The batch by its shape alone: a recording must not depend on what lies in the slot just now.
static ft_status queue_batch(ft_step *step, const ft_step_shape *s) {
    ft_room *room = step->room;
    ft_batch batch = step->buffers.slot[s->slot].device;
    batch.sequences = s->sequences;
    batch.tokens = s->tokens;
    batch.longest = s->longest;
    batch.reads = s->reads;
    batch.most_reads = s->most_reads;
    batch.filler = s->filler;
    return ft_model_train_batch(&room->model, &batch, room->plan.capacity, step->step_state,
                                ft_vector(step->batch_losses, s->reads, FT_F32));
}

static ft_status queue(ft_step *step, const ft_step_shape *s) {
    ft_room *room = step->room;
    switch ((ft_step_part)s->part) {
    case FT_STEP_BEGIN: return queue_begin(step);
    case FT_STEP_BATCH: return queue_batch(step, s);
    case FT_STEP_END: return ft_model_end_step(&room->model, room->plan.capacity, step->step_state);
    case FT_STEP_UPDATE: break;
    }
    return ft_update_run(&room->model.parameters, room->config, ft_vector(step->losses, s->rows, FT_F32),
                         step->step_state, step->update_state);
}

// ---- finding and forgetting ---------------------------------------------------------------------------------------------

static ft_step_graph *find(ft_step_graph *list, int count, const ft_step_shape *shape) {
    for (int i = 0; i < count; i++)
        if (memcmp(&list[i].shape, shape, sizeof *shape) == 0) return &list[i];
    return NULL;
}

static ft_step_graph *oldest(ft_step_graph *list, int count) {
    ft_step_graph *found = list;
    for (int i = 1; i < count; i++)
        if (list[i].used < found->used) found = &list[i];
    return found;
}

static void notice(ft_step_graphs *g, const ft_step_shape *shape) {
    ft_step_graph *entry = find(g->seen, g->seen_count, shape);
    if (entry == NULL) {
        entry = g->seen_count < FT_STEP_GRAPHS ? &g->seen[g->seen_count++] : oldest(g->seen, g->seen_count);
        *entry = (ft_step_graph){.shape = *shape};
    }
    entry->seen++;
    entry->used = ++g->clock;
}

static void destroy(ft_step *step, ft_step_graph *entry) {
    ft_room *room = step->room;
    ft_step_graphs *g = &step->graphs;
    room->device->functions->graph_destroy(room->device, entry->graph);
    g->bytes -= entry->bytes;
    *entry = g->held[--g->held_count];
}

void ft_step_graphs_drop(ft_step *step) {
    ft_step_graphs *g = &step->graphs;
    while (g->held_count > 0) destroy(step, &g->held[0]);
    g->seen_count = 0;
    g->on = false;
}

// ---- queueing and recording ---------------------------------------------------------------------------------------------

// For the rest of the run. Those held are destroyed between two steps, where it does no harm to wait.
static void give_up(ft_step_graphs *g, const char *what) {
    ft_warn("device.graphs: a step could not be %s, and goes on call by call: %s", what, ft_error_message());
    ft_error_clear();
    g->on = false;
    g->ended = true;
}

ft_status ft_step_graphs_queue(ft_step *step, ft_step_shape shape) {
    ft_room *room = step->room;
    ft_step_graphs *g = &step->graphs;
    const bool clears = !room->model.parameters.gradients_in_steps ||
                        ft_update_scales_loss(room->config); // what a begin has for the device
    const bool nothing = !ft_model_holds_positions(&room->model) &&
                         (shape.part == FT_STEP_END || (shape.part == FT_STEP_BEGIN && !clears));
    const bool streams = (shape.part == FT_STEP_UPDATE &&
                          ft_parameters_state_on_host(&room->model.parameters)) || // beside, which no graph records
                         (shape.part == FT_STEP_BATCH && room->model.inputs.count > 0) ||
                         (shape.part == FT_STEP_BATCH && ft_gradient_parts_deal(&room->model.parameters)) || // which sends
                         (shape.part != FT_STEP_UPDATE && room->model.parameters.window.on);
    if (!g->on || nothing || streams) return queue(step, &shape);
    ft_step_graph *entry = find(g->held, g->held_count, &shape);
    if (entry == NULL) {
        notice(g, &shape);
        g->queued++;
        return queue(step, &shape);
    }
    ft_status status = room->device->functions->graph_run(room->device, entry->graph);
    if (status == FT_NO_MEMORY) { // the driver's, for the launch: nothing of it was queued
        give_up(g, "run by its graph");
        g->queued++;
        return queue(step, &shape);
    }
    FT_TRY(status);
    entry->used = ++g->clock;
    g->replayed++;
    if (shape.part == FT_STEP_BEGIN || shape.part == FT_STEP_END)
        ft_model_mark_step(&room->model, room->plan.capacity, shape.part == FT_STEP_BEGIN);
    return FT_OK;
}

static ft_status record(ft_step *step, const ft_step_shape *shape, ft_step_graph *entry) {
    ft_room *room = step->room;
    const ft_device_functions *f = room->device->functions;
    const size_t before = ft_device_free_bytes(room->device);
    FT_TRY(f->graph_begin(room->device));
    ft_model_mark_step(&room->model, room->plan.capacity, shape->part != FT_STEP_BEGIN); // as where the part stands in a step
    ft_status status = queue(step, shape);
    ft_model_mark_step(&room->model, room->plan.capacity, false);
    ft_error error; // of what could not be recorded, which says more than that there is no graph
    if (status != FT_OK) ft_error_save(&error);
    ft_status ended = f->graph_end(room->device, &entry->graph);
    if (status != FT_OK) {
        if (ended == FT_OK) f->graph_destroy(room->device, entry->graph);
        ft_error_restore(&error);
        return status;
    }
    FT_TRY(ended);
    const size_t after = ft_device_free_bytes(room->device);
    entry->shape = *shape;
    entry->used = ++step->graphs.clock;
    entry->bytes = after < before ? before - after : 0;
    return FT_OK;
}

static ft_status record_one(ft_step *step, const ft_step_shape *shape) {
    ft_step_graphs *g = &step->graphs;
    ft_step_graph made = {.graph = NULL};
    for (; g->held_count >= g->most; g->evicted++) destroy(step, oldest(g->held, g->held_count));
    FT_TRY(record(step, shape, &made));
    g->held[g->held_count++] = made;
    g->bytes += made.bytes;
    g->recorded++;
    if (g->held_count > g->most_held) g->most_held = g->held_count;
    if (g->bytes > g->most_bytes) g->most_bytes = g->bytes;
    for (; g->bytes > FT_STEP_GRAPHS_BYTES && g->held_count > 1; g->evicted++) destroy(step, oldest(g->held, g->held_count));
    return FT_OK;
}

void ft_step_graphs_record(ft_step *step) {
    ft_step_graphs *g = &step->graphs;
    for (int i = 0; g->on && i < g->seen_count; i++) {
        if (g->seen[i].seen < SEEN_BEFORE) continue;
        const ft_step_shape shape = g->seen[i].shape;
        g->seen[i--] = g->seen[--g->seen_count];
        if (record_one(step, &shape) != FT_OK) give_up(g, "recorded");
    }
    if (g->ended) ft_step_graphs_drop(step);
}

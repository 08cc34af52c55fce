// build.c - what of the device a run holds, made and taken apart in two parts. The state - weights, moments, the
// scalars of a step - lives as long as the run. The layout - gradients, batch buffers, projections of positions, places on the host for inputs
// of layers, and the arena of a step -
// is of the sizes of the largest micro-batch, and may be made anew in others between two steps: no result lives in it.
#include "engine/model/gradients.h"
#include "engine/model/staging.h"
#include "engine/train/trainer.h"
#include "engine/train/update.h"

#include <stdlib.h>
#include <string.h>

// The rows that stay in the file are looked at once, as those are that are loaded.
static ft_status read_absent_rows(ft_trainer *t) {
    ft_staging staging;
    ft_status status = ft_staging_open(t->room.memory, &staging);
    if (status == FT_OK) status = ft_absent_rows_digest(&t->room.model.absent, &staging);
    ft_staging_close(&staging);
    return status;
}

static ft_status fill_weights(ft_trainer *t) {
    const ft_config *c = t->room.config;
    if (t->room.carried.values != NULL) return FT_OK; // they come with the moments
    if (t->job.without_weights) {
        ft_staging staging; // loading and drawing hold this much
        FT_TRY(ft_staging_open(t->room.memory, &staging));
        ft_staging_close(&staging);
        return FT_OK;
    }
    if (c->model.init == FT_INIT_RANDOM)
        return ft_model_draw(&t->room.model, t->job.model_config.initializer_range, (uint64_t)c->train.seed);
    FT_TRY(ft_model_load(&t->room.model, t->job.model_dir, t->job.model_config.initializer_range,
                         (uint64_t)c->train.seed, &t->room.arena, &t->room.load_report));
    return read_absent_rows(t);
}

static ft_status make_model(ft_trainer *t) {
    const ft_config *c = t->room.config;
    ft_memory_set_phase(t->room.memory, FT_PHASE_LOAD);
    FT_TRY(ft_model_create_with(t->room.memory, &t->job.model_config, c, t->job.labels.count, t->job.word_rows, &t->room.model));
    FT_TRY(ft_model_keep_master(&t->room.model));
    FT_TRY(ft_model_set_loss(&t->room.model, &t->job.loss));
    t->room.model.ignore_mismatched_sizes = c->model.ignore_mismatched_sizes;
    FT_TRY(fill_weights(t));
    return ft_model_prepare_training(&t->room.model, c->train.weight_decay);
}

static int64_t largest_step(const ft_run_plan *p) { return p->effective_batch < p->sequences ? p->effective_batch : p->sequences; }

static ft_status make_scalars(ft_trainer *t) {
    void *data;
    FT_TRY(ft_memory_alloc(t->room.memory, sizeof *t->step.step_state, FT_MEM_DATA, "step state", &data));
    t->step.step_state = data;
    FT_TRY(ft_memory_alloc(t->room.memory, sizeof *t->step.update_state, FT_MEM_OPTIMIZER, "update state", &data));
    t->step.update_state = data;
    const ft_update_state first = ft_update_first(t->room.config);
    FT_TRY(t->room.device->functions->upload(t->room.device, t->step.update_state, &first, sizeof first));
    FT_TRY(t->room.device->functions->sync(t->room.device)); // `first` goes out of scope
    FT_TRY(ft_memory_alloc(t->room.memory, (size_t)largest_step(&t->room.plan) * sizeof(float), FT_MEM_DATA, "losses", &data));
    t->step.losses = data;
    return FT_OK;
}

// Of the host, once: what it holds outlives a move to another device.
static ft_status make_order(ft_trainer *t) {
    if (t->step.order == NULL)
        t->step.order = ft_calloc((size_t)t->job.split[FT_SPLIT_TRAIN].data.sequences + 1, sizeof *t->step.order,
                                  "the order of an epoch");
    return t->step.order != NULL ? FT_OK : FT_NO_MEMORY;
}

// ---- between two devices ------------------------------------------------------------------------------------------------

// The parts of the state, one behind the other in memory of the host. Gradients are made anew by every step.
typedef ft_status transfer(ft_memory *memory, void *to, const void *from, size_t bytes);

static ft_status transfer_array(ft_trainer *t, transfer *copy, bool back, char **host, void *data, size_t bytes) {
    if (bytes > 0) FT_TRY(copy(t->room.memory, back ? data : *host, back ? *host : data, bytes));
    *host += bytes;
    return FT_OK;
}

static size_t state_bytes(const ft_store *store, ft_store_state state) {
    return store->state[state] != NULL ? (size_t)store->count * ft_store_state_size(store, state) : 0;
}

static ft_status transfer_state(ft_trainer *t, transfer *copy, bool back) {
    const ft_parameters *p = &t->room.model.parameters;
    char *host = (char *)t->room.carried.values;
    for (int i = 0; i < p->store_count; i++)
        for (ft_store_state s = 0; s < FT_STATES; s++)
            FT_TRY(transfer_array(t, copy, back, &host, p->stores[i].state[s], state_bytes(&p->stores[i], s)));
    FT_TRY(transfer_array(t, copy, back, &host, p->block, ft_parameters_weight_bytes(p)));
    ft_update_state *update = &t->room.carried.update;
    FT_TRY(copy(t->room.memory, back ? (void *)t->step.update_state : (void *)update,
                back ? update : t->step.update_state, sizeof *update));
    return t->room.device->functions->sync(t->room.device);
}

ft_status ft_trainer_carry_state(ft_trainer *t) {
    const ft_parameters *p = &t->room.model.parameters;
    if (!t->room.state_built || t->room.carried.values != NULL) return FT_OK; // nothing is there, or it never arrived
    size_t bytes = ft_parameters_weight_bytes(p);
    for (int i = 0; i < p->store_count; i++)
        for (ft_store_state s = 0; s < FT_STATES; s++) bytes += state_bytes(&p->stores[i], s);
    t->room.carried.values = ft_calloc(bytes, 1, "weights and moments between two devices");
    if (t->room.carried.values == NULL) return FT_NO_MEMORY;
    ft_status status = transfer_state(t, ft_memory_download, false);
    if (status == FT_OK) return t->room.carried.absent = ft_absent_rows_detach(&t->room.model.absent), FT_OK;
    free(t->room.carried.values);
    t->room.carried.values = NULL;
    return status;
}

static ft_status receive_state(ft_trainer *t) {
    if (t->room.carried.values == NULL) return FT_OK;
    FT_TRY(transfer_state(t, ft_memory_upload, true));
    ft_absent_rows_attach(&t->room.model.absent, &t->room.carried.absent);
    free(t->room.carried.values);
    t->room.carried.values = NULL;
    return FT_OK;
}

// ---- the two parts ------------------------------------------------------------------------------------------------------

ft_status ft_trainer_build_state(ft_trainer *t) {
    if (t->room.state_built) return FT_OK;
    ft_status status = make_model(t);
    if (status == FT_OK) status = make_scalars(t);
    if (status == FT_OK) status = ft_steps_create(t, largest_step(&t->room.plan));
    if (status == FT_OK) status = make_order(t);
    if (status == FT_OK) status = receive_state(t);
    if (status == FT_OK) return t->room.state_built = true, FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_trainer_drop_state(t);
    ft_error_restore(&error);
    return status;
}

void ft_trainer_drop_state(ft_trainer *t) {
    if (t->room.memory != NULL) {
        ft_steps_free(t);
        ft_memory_free(t->room.memory, t->step.step_state);
        ft_memory_free(t->room.memory, t->step.update_state);
        ft_memory_free(t->room.memory, t->step.losses);
    }
    t->step.step_state = NULL;
    t->step.update_state = NULL;
    t->step.losses = NULL;
    ft_model_free(&t->room.model);
    t->room.state_built = false;
    if (t->room.memory != NULL) ft_memory_trim(t->room.memory);
}

// Their memory is there wherever they are wanted, so that a plan has it; graphs are on where the device has them.
static ft_status make_graphs(ft_trainer *t) {
    void *data;
    if (!ft_step_graphs_wanted(t->room.config, t->room.device)) return FT_OK;
    FT_TRY(ft_memory_alloc(t->room.memory, (size_t)t->room.plan.capacity.sequences * sizeof(float), FT_MEM_DATA,
                           "losses of a micro-batch", &data));
    t->step.batch_losses = data;
    t->step.buffers.bucket = t->room.plan.bucket;
    t->step.graphs.most = FT_STEP_GRAPHS;
    t->step.graphs.on = t->room.device->functions->graph_begin != NULL && !t->step.graphs.ended;
    return FT_OK;
}

ft_status ft_trainer_build_layout(ft_trainer *t) {
    if (t->room.laid_out) return FT_OK;
    ft_model_set_recomputation(&t->room.model, t->room.config);
    ft_step_sizes sizes = ft_trainer_sizes(t);
    ft_status status = ft_gradients_hold(&t->room.model.parameters, t->room.plan.whole_steps);
    if (status == FT_OK) status = ft_model_hold_positions(&t->room.model, t->room.plan.capacity, t->room.eval_capacity);
    if (status == FT_OK) status = ft_model_hold_inputs(&t->room.model, t->room.plan.capacity);
    if (status == FT_OK) status = ft_batch_buffers_create(&t->room.model, t->room.plan.capacity, true, &t->step.buffers);
    if (status == FT_OK) status = make_graphs(t);
    if (status == FT_OK) status = ft_lay_out_steps(t->room.memory, &t->job.model_config, t->room.config, t->job.labels.count, &sizes);
    if (status == FT_OK) return t->room.laid_out = true, FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_trainer_drop_layout(t);
    ft_error_restore(&error);
    return status;
}

void ft_trainer_drop_layout(ft_trainer *t) {
    if (t->room.memory == NULL) return;
    ft_step_graphs_drop(t);
    ft_memory_free(t->room.memory, t->step.batch_losses);
    t->step.batch_losses = NULL;
    if (t->room.model.memory != NULL) ft_gradients_release(&t->room.model.parameters);
    ft_model_release_positions(&t->room.model);
    ft_model_release_inputs(&t->room.model);
    ft_batch_buffers_free(&t->step.buffers);
    ft_memory_drop_layout(t->room.memory);
    ft_memory_trim(t->room.memory);
    t->room.laid_out = false;
}

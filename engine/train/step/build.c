// build.c - what of the device a run holds, made and taken apart in two parts. The state - weights, moments, the
// scalars of a step - lives as long as the run. The layout - gradients, batch buffers, projections of positions, places on the host for inputs
// of layers, and the arena of a step -
// is of the sizes of the largest micro-batch, and may be made anew in others between two steps: no result lives in it.
#include "engine/model/adapter_files.h"
#include "engine/model/elsewhere.h"
#include "engine/model/spec/adapter_config.h"
#include "engine/model/state/builder.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/state/pack.h"
#include "engine/model/state/staging.h"
#include "engine/model/state/trunk.h"
#include "engine/train/room/device_graphs.h"
#include "base/log.h"
#include "base/spill.h"
#include "engine/train/step/graphs.h"
#include "engine/train/step/rehearsal.h"
#include "engine/train/step/steps.h"
#include "engine/train/step/update.h"

#include <stdlib.h>
#include <string.h>

// The rows that stay in the file are looked at once, as those are that are loaded.
static ft_status read_absent_rows(ft_room *room) {
    ft_staging staging;
    ft_status status = ft_staging_open(room->memory, &staging);
    if (status == FT_OK) status = ft_absent_rows_digest(&room->model.absent, &staging);
    ft_staging_close(&staging);
    return status;
}

// adapter.path: of the same modules, ranks and scales.
static ft_status begin_with_adapter(ft_room *room) {
    const char *path = room->config->adapter.path;
    if (room->config->adapter.type == FT_ADAPTER_NONE || path[0] == '\0') return FT_OK;
    FT_TRY(ft_adapter_config_agrees(path, room->config, &room->job->model_config, room->model.modules->count, room->model.modules->names));
    return ft_model_load_adapter(&room->model, path);
}

static void tell_mapped(const ft_room *room) {
    const ft_parameters *p = &room->model.parameters;
    char text[24];
    if (p->mapped_bytes > 0) ft_info("weights    %s frozen are read where their file lies, in memory that all runs of this host share", ft_bytes_text(p->mapped_bytes, text));
    else if (p->copied != NULL && ft_offloads_trunk(room->config, room->device)) ft_info("weights    frozen layers are a copy of this process alone: %s", p->copied);
}

// Weights of norms are in one store, trained or not; rows of a trained table that only evaluations read decay in the frozen one.
static bool is_carried(const ft_room *room, int store) {
    const ft_parameters *p = &room->model.parameters;
    const bool decays = p->table >= 0 && p->list[p->table].trainable && room->job->word_rows != NULL;
    return room->job->files == NULL || decays || p->stores[store].trainable || store == p->wide_store;
}

// Where the model's file is open, what is frozen is not carried from device to device: it is read again, or where it lies.
static ft_status load_frozen(ft_room *room) {
    ft_load_report report;
    ft_arena arena = {0};
    const ft_status status = ft_model_load(&room->model, room->job->model_dir, room->job->model_config.initializer_range, (uint64_t)room->config->train.seed, &arena, &report);
    ft_arena_free(&arena);
    ft_weights_close(room->model.absent.file); // the rows that are not here come with what is carried
    room->model.absent.file = NULL;
    return status;
}

static ft_status fill_weights(ft_room *room) {
    const ft_config *c = room->config;
    if (room->carried.values != NULL) return !is_carried(room, FT_STORE_FROZEN) && !room->rehearses ? load_frozen(room) : FT_OK; // they come with the moments
    if (ft_memory_is_guest(room->memory)) return FT_OK; // rank 0 does it for all
    if (room->rehearses) {
        ft_staging staging; // loading and drawing hold this much
        FT_TRY(ft_staging_open(room->memory, &staging));
        ft_staging_close(&staging);
        return FT_OK;
    }
    if (c->model.init == FT_INIT_RANDOM)
        return ft_model_draw(&room->model, room->job->model_config.initializer_range, (uint64_t)c->train.seed);
    FT_TRY(ft_model_load(&room->model, room->job->model_dir, room->job->model_config.initializer_range,
                         (uint64_t)c->train.seed, &room->arena, &room->load_report));
    tell_mapped(room);
    FT_TRY(begin_with_adapter(room));
    return read_absent_rows(room);
}

// What is saved of layers that are not there: from where they came.
static ft_status find_elsewhere(ft_room *room) {
    const ft_config *c = room->config;
    const char *dir = c->model.init == FT_INIT_RANDOM ? NULL : room->job->model_dir;
    if (!room->head_alone || room->rehearses || room->elsewhere != NULL) return FT_OK;
    return ft_elsewhere_open(dir, room->job->model_config.initializer_range, (uint64_t)c->train.seed, &room->elsewhere);
}

static ft_status make_model(ft_room *room) {
    const ft_config *c = room->config;
    ft_memory_set_phase(room->memory, FT_PHASE_LOAD);
    FT_TRY(find_elsewhere(room));
    FT_TRY(ft_model_create_with(room->memory, &room->job->model_config, c, room->job->labels.count, room->job->word_rows, room->trunk, room->head_alone,
                                &room->model));
    room->model.elsewhere = room->elsewhere;
    FT_TRY(ft_model_keep_master(&room->model));
    FT_TRY(ft_model_set_loss(&room->model, &room->job->loss));
    room->model.ignore_mismatched_sizes = c->model.ignore_mismatched_sizes;
    FT_TRY(fill_weights(room));
    if (room->trunk != NULL && !room->rehearses) room->trunk->filled = true, room->model.member = ft_pack_present();
    return ft_model_prepare_training(&room->model, c->train.weight_decay);
}

// Where the gradient of the word table is summed by rows: which these are.
static ft_status make_words(ft_step *step) {
    ft_room *room = step->room;
    ft_parameters *p = &room->model.parameters;
    void *data;
    step->words.room = ft_word_sums_room(p, room->plan.step_tokens);
    if (step->words.room == 0) return FT_OK;
    FT_TRY(ft_memory_alloc(room->memory, (size_t)step->words.room * sizeof *step->words.rows, FT_MEM_COMMUNICATION, "which words a step has", &data));
    step->words.rows = data;
    step->words.count = step->words.room;
    p->words = &step->words;
    return room->rehearses ? FT_OK : ft_step_words_open(p->list[p->table].rows, &step->seen_words);
}

static ft_status make_scalars(ft_step *step) {
    ft_room *room = step->room;
    void *data;
    FT_TRY(ft_memory_alloc(room->memory, sizeof *step->step_state, FT_MEM_DATA, "step state", &data));
    step->step_state = data;
    FT_TRY(ft_memory_alloc(room->memory, sizeof *step->update_state, FT_MEM_OPTIMIZER, "update state", &data));
    step->update_state = data;
    const ft_update_state first = ft_update_first(room->config);
    FT_TRY(room->device->functions->upload(room->device, step->update_state, &first, sizeof first));
    FT_TRY(room->device->functions->sync(room->device)); // `first` goes out of scope
    FT_TRY(ft_memory_alloc_sums(room->memory, (size_t)room->plan.step_rows * sizeof(float), FT_MEM_DATA, "losses", &data));
    step->losses = data;
    if (!room->plan.apart) return FT_OK;
    FT_TRY(ft_memory_alloc(room->memory, (size_t)room->plan.ranks * sizeof *step->signals, FT_MEM_COMMUNICATION, "signals of all ranks", &data));
    step->signals = data;
    return make_words(step);
}

// Of the host, once: what it holds outlives a move to another device.
static ft_status make_order(ft_step *step) {
    if (step->room->rehearses) return FT_OK; // which takes no sequence in particular
    if (step->order == NULL)
        step->order = ft_spill_calloc((size_t)step->room->job->split[FT_SPLIT_TRAIN].data.sequences + 1, sizeof *step->order,
                                  "the order of an epoch");
    return step->order != NULL ? FT_OK : FT_NO_MEMORY;
}

// ---- between two devices ------------------------------------------------------------------------------------------------

// The parts of the state, one behind the other in memory of the host. Gradients are made anew by every step.
typedef ft_status transfer(ft_memory *memory, void *to, const void *from, size_t bytes);

static ft_status transfer_array(ft_step *step, transfer *copy, bool back, char **host, void *data, size_t bytes) {
    if (bytes > 0) FT_TRY(copy(step->room->memory, back ? data : *host, back ? *host : data, bytes));
    *host += bytes;
    return FT_OK;
}

static size_t state_bytes(const ft_store *store, ft_store_state state) {
    return store->state[state] != NULL ? ft_store_state_bytes(store, state) : 0;
}

static size_t carried_bytes(const ft_room *room, int store) {
    return is_carried(room, store) ? ft_store_weight_bytes(&room->model.parameters.stores[store]) : 0;
}

static ft_status transfer_state(ft_step *step, transfer *copy, bool back) {
    ft_room *room = step->room;
    const ft_parameters *p = &room->model.parameters;
    char *host = (char *)room->carried.values;
    for (int i = 0; i < p->store_count; i++)
        for (ft_store_state s = 0; s < FT_STATES; s++)
            FT_TRY(transfer_array(step, copy, back, &host, p->stores[i].state[s], state_bytes(&p->stores[i], s)));
    for (int i = 0; i < p->store_count; i++)
        FT_TRY(transfer_array(step, copy, back, &host, p->stores[i].weights, carried_bytes(room, i)));
    ft_update_state *update = &room->carried.update;
    FT_TRY(copy(room->memory, back ? (void *)step->update_state : (void *)update,
                back ? update : step->update_state, sizeof *update));
    return room->device->functions->sync(room->device);
}

ft_status ft_step_carry_state(ft_step *step) {
    ft_room *room = step->room;
    const ft_parameters *p = &room->model.parameters;
    if (!room->state_built || room->carried.values != NULL) return FT_OK; // nothing is there, or it never arrived
    size_t bytes = 0;
    for (int i = 0; i < p->store_count; i++) bytes += carried_bytes(room, i);
    for (int i = 0; i < p->store_count; i++)
        for (ft_store_state s = 0; s < FT_STATES; s++) bytes += state_bytes(&p->stores[i], s);
    room->carried.values = ft_calloc(bytes, 1, "weights and moments between two devices");
    if (room->carried.values == NULL) return FT_NO_MEMORY;
    ft_status status = transfer_state(step, ft_memory_download, false);
    if (status == FT_OK) return room->carried.absent = ft_absent_rows_detach(&room->model.absent), FT_OK;
    free(room->carried.values);
    room->carried.values = NULL;
    return status;
}

static ft_status receive_state(ft_step *step) {
    ft_room *room = step->room;
    if (room->carried.values == NULL) return FT_OK;
    FT_TRY(transfer_state(step, ft_memory_upload, true));
    ft_absent_rows_attach(&room->model.absent, &room->carried.absent);
    free(room->carried.values);
    room->carried.values = NULL;
    return FT_OK;
}

// ---- the two parts ------------------------------------------------------------------------------------------------------

ft_status ft_step_build_state(ft_step *step) {
    ft_room *room = step->room;
    if (room->state_built) return FT_OK;
    ft_status status = make_model(room);
    if (status == FT_OK) status = make_scalars(step);
    if (status == FT_OK) status = ft_steps_create(step, room->plan.step_rows);
    if (status == FT_OK) status = make_order(step);
    if (status == FT_OK) status = receive_state(step);
    if (status == FT_OK && room->ranks != NULL) status = ft_ranks_agree(room->ranks); // the weights are there
    if (status == FT_OK) return room->state_built = true, FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_step_drop_state(step);
    ft_error_restore(&error);
    return status;
}

void ft_step_drop_state(ft_step *step) {
    ft_room *room = step->room;
    if (room->memory != NULL) {
        ft_steps_free(step);
        ft_memory_free(room->memory, step->step_state);
        ft_memory_free(room->memory, step->update_state);
        ft_memory_free(room->memory, step->losses);
        ft_memory_free(room->memory, step->signals);
        ft_memory_free(room->memory, step->words.rows);
    }
    ft_step_words_close(&step->seen_words);
    step->words = (ft_word_sums){.room = 0};
    step->step_state = NULL;
    step->update_state = NULL;
    step->losses = NULL;
    step->signals = NULL;
    ft_model_free(&room->model);
    room->state_built = false;
    if (room->memory != NULL) ft_memory_trim(room->memory);
}

// Numbers of few bits, and those that have the host for their home, are saved as they are kept: they stay.
static bool may_leave_trunk(const ft_room *room) {
    const ft_config *c = room->config;
    return room->job->features.on && (c->model.storage == FT_KEEP_AS_READ || c->model.storage == FT_KEEP_AUTO) && room->trunk == NULL &&
           !ft_offloads_trunk(c, room->device);
}

void ft_step_leave_trunk(ft_step *step) {
    ft_room *room = step->room;
    if (room->head_alone || !may_leave_trunk(room)) return;
    ft_step_drop_state(step);
    room->head_alone = true;
}

// Their memory is there wherever they are wanted, so that a plan has it; graphs are on where the device has them.
static ft_status make_graphs(ft_step *step) {
    ft_room *room = step->room;
    void *data;
    if (!ft_step_graphs_wanted(room->config, room->device)) return FT_OK;
    FT_TRY(ft_memory_alloc(room->memory, (size_t)room->plan.capacity.reads * sizeof(float), FT_MEM_DATA,
                           "losses of a micro-batch", &data));
    step->batch_losses = data;
    step->buffers.bucket = room->plan.bucket;
    step->graphs.most = FT_STEP_GRAPHS;
    step->graphs.on = room->device->functions->graph_begin != NULL && !step->graphs.ended;
    return FT_OK;
}

static ft_status make_feed(ft_step *step) {
    ft_room *room = step->room;
    ft_picture_feed_request request;
    if (!ft_step_feeds(room, &request)) return FT_OK;
    FT_TRY(ft_memory_alloc_staging(room->memory, ft_picture_feed_bytes(&request), "pictures ahead of the step", &step->pictures));
    if (room->rehearses) return FT_OK;
    FT_TRY(ft_picture_feed_open(&request, step->pictures, &step->feed));
    step->buffers.feed = step->feed;
    return FT_OK;
}

bool ft_step_feeds(const ft_room *room, ft_picture_feed_request *request) {
    const ft_job *job = room->job;
    const bool changes = ft_augment_changes(&job->augment) || ft_augment_mixes(&job->augment);
    *request = (ft_picture_feed_request){.augment = job->augment,
                                         .height = (int32_t)job->model_config.picture.height,
                                         .width = (int32_t)job->model_config.picture.width,
                                         .seed = (uint64_t)room->config->train.seed,
                                         .batch = room->config->train.batch_size,
                                         .most = room->plan.capacity.sequences,
                                         .workers = ft_picture_workers(room->config, ft_device_queues(room->device) ? FT_BESIDE_GPU : FT_BESIDE_CPU),
                                         .data = &job->split[FT_SPLIT_TRAIN].data};
    return changes && ft_model_config_reads_pictures(&job->model_config) && !job->features.on;
}

ft_status ft_step_build_layout(ft_step *step) {
    ft_room *room = step->room;
    const ft_job *job = room->job;
    if (room->laid_out) return FT_OK;
    ft_model_set_recomputation(&room->model, room->config);
    ft_model_read_features(&room->model, job->features.on);
    ft_step_sizes sizes = ft_room_sizes(room);
    ft_status status = ft_gradients_hold(&room->model.parameters, room->plan.whole_steps);
    const bool sums = room->group != NULL || (room->ranks != NULL && ft_memory_ranks_of(room->memory).sums);
    if (status == FT_OK && sums) status = ft_gradient_sums_open(&step->sums, &room->model.parameters);
    if (status == FT_OK && sums) {
        room->model.parameters.sums = &step->sums;
    } else if (status == FT_OK && room->ranks != NULL) {
        if (step->chain.group == NULL) ft_chain_open(&step->chain, &room->model.parameters); // once: its points never fall
        room->model.parameters.chain = &step->chain;
    }
    if (status == FT_OK) status = ft_model_hold_positions(&room->model, room->plan.capacity, room->eval_capacity);
    if (status == FT_OK && room->model.parameters.chain != NULL) status = ft_chain_hold(&step->chain, &room->model.parameters);
    if (status == FT_OK && room->model.parameters.chain != NULL && room->ranks->group->hosts > 1) status = ft_model_add_chain_parts(&room->model, &step->chain.parts);
    if (status == FT_OK) status = ft_model_hold_inputs(&room->model, room->plan.capacity);
    if (status == FT_OK) status = ft_batch_buffers_create(&room->model, room->plan.capacity, true, &step->buffers);
    if (status == FT_OK) status = make_feed(step);
    if (status == FT_OK) status = make_graphs(step);
    if (status == FT_OK) status = ft_lay_out_steps(room->memory, &job->model_config, room->config, job->labels.count, &sizes);
    if (status == FT_OK) return room->laid_out = true, FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_step_drop_layout(step);
    ft_error_restore(&error);
    return status;
}

void ft_step_drop_layout(ft_step *step) {
    ft_room *room = step->room;
    if (room->memory == NULL) return;
    ft_step_graphs_drop(step);
    ft_memory_free(room->memory, step->batch_losses);
    step->batch_losses = NULL;
    if (room->model.memory != NULL) ft_gradients_release(&room->model.parameters);
    room->model.parameters.sums = NULL;
    ft_gradient_sums_close(&step->sums);
    ft_model_release_positions(&room->model);
    ft_model_release_inputs(&room->model);
    ft_picture_feed_close(step->feed);
    ft_memory_free_staging(room->memory, step->pictures);
    step->feed = NULL;
    step->pictures = NULL;
    ft_batch_buffers_free(&step->buffers);
    ft_memory_drop_layout(room->memory);
    ft_memory_trim(room->memory);
    room->laid_out = false;
}

// ---- from beginning to end ----------------------------------------------------------------------------------------------

void ft_step_init(ft_step *step, ft_room *room, const ft_config *config) {
    *step = (ft_step){.room = room, .order_epoch = -1};
    step->state.best_step = -1;
    step->state.loss_scale = (double)ft_update_first(config).loss_scale;
}

void ft_step_close(ft_step *step) {
    ft_step_drop_layout(step);
    ft_step_drop_state(step);
    ft_chain_close(&step->chain);
    ft_spill_free(step->order);
    step->order = NULL;
}

// encoder.c - a whole micro-batch: embeddings, layers (with recomputation), head; and back. A convolution behind layer 0
// counts as part of that layer.
//
// Recomputation (train.gradient_checkpointing = k): only the input of every k-th layer is kept. The backward pass takes
// the segments of k layers from the last to the first, runs each forward again, now keeping everything, and then
// backward. The last segment is kept in the forward pass itself: its backward comes next, so that costs no memory. In 16 bits
// what is kept of such an input is its fp32 form alone (layers.h): the other is its rounding, or its norm, and so all bits come again. With
// train.residual = 16bit the rows are kept, and beside them the stream, if there is one: rows are not the norm of what was rounded. What is
// kept may travel to the host and back (offload_inputs.h).
#include "engine/model/blocks/block.h"
#include "engine/model/blocks/cache.h"
#include "engine/model/blocks/convolution.h"
#include "engine/model/blocks/position_bias.h"
#include "engine/model/blocks/relative.h"
#include "engine/model/model.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/state/pack.h"

#include <string.h>

static void tap(const ft_pass *pass, int layer, ft_tensor hidden) {
    if (pass->model->tap != NULL) pass->model->tap(pass->model->tap_context, layer, hidden);
}

// Everything a micro-batch keeps between forward and backward. input[l] is the input of layer l; input[layers] the
// encoder's output (rows that are read).
typedef struct training_state {
    ft_tensor *input;
    ft_tensor wide;        // of the layer that is next (layers.h)
    ft_tensor stream;      // its gradient on the way back, where norms stand in front of blocks
    ft_tensor *checkpoint; // what `wide` was in front of layer l, where recomputation begins
    ft_layer_saved *saved;
    ft_convolution_saved convolution;
    ft_embeddings_saved embedding;
    ft_head_saved head;
} training_state;

static ft_status embed(ft_pass *pass, bool keep, training_state *t) {
    FT_TRY(ft_embeddings_forward(pass, keep, &t->embedding, &t->input[0], &t->wide));
    tap(pass, -1, t->input[0]);
    return FT_OK;
}

// The output of the encoder as the batch brings it. A copy: some families drop in it.
static ft_status take_features(ft_pass *pass, ft_tensor *x) {
    const ft_model *m = pass->model;
    FT_TRY(ft_pass_tensor(pass, FT_ROWS_READ, m->read_width, FT_MEM_ACTIVATIONS, -1, "features", x));
    return m->device->functions->copy(m->device, x->data, pass->batch->feature, (size_t)x->rows * ft_model_feature_bytes(m));
}

static bool convolves(const ft_pass *pass, int layer) { return layer == 0 && pass->model->convolution != NULL; }

// Layers [first, end), from input[first]. With `keep` their activations and inputs stay, else only input[end] and, where there
// is no checkpoint of it, input[first]. next: the layer behind them, as ft_layer_enter has it.
static ft_status run_layers(ft_pass *pass, training_state *t, int first, int end, bool keep, int next) {
    for (int l = first; l < end; l++) {
        FT_TRY(ft_layer_enter(pass, l, l + 1 < end ? l + 1 : next));
        FT_TRY(ft_layer_forward(pass, l, t->input[l], &t->wide, keep, &t->saved[l], &t->input[l + 1]));
        if (convolves(pass, l)) FT_TRY(ft_convolution_forward(pass, t->input[l], t->wide, keep, &t->convolution, &t->input[l + 1]));
        if (ft_layer_is_last(pass, l)) ft_pass_free(pass, &t->wide);
        tap(pass, l, t->input[l + 1]);
        const bool again = pass->model->rebuilds_norms && !convolves(pass, l - 1); // from the sum in layer l - 1
        const bool unread = !convolves(pass, l) && !ft_block_reads_input(pass->model, l, 0); // on the way back
        const bool remade = t->checkpoint[first].data != NULL && pass->model->row_dtype == FT_F32; // from there, to the bit
        if ((l > first || remade) && (!keep || again)) ft_pass_free(pass, &t->input[l]);
        if (keep && unread) ft_pass_free(pass, &t->input[l]);
    }
    return FT_OK;
}

// What segment n keeps of its input.
static ft_tensor *kept(const ft_pass *pass, const training_state *t, int n) {
    const ft_model *m = pass->model;
    return (ft_pass_has_wide(pass) ? t->checkpoint : t->input) + m->first_trained_layer + n * m->checkpoint_every;
}

// Segment n, which will be run again: its layers leave nothing but what it began with.
static ft_status run_segment(ft_pass *pass, training_state *t, int n, int first, int end) {
    const ft_device_functions *device = pass->model->device->functions;
    if (ft_pass_has_wide(pass)) {
        ft_tensor *wide = &t->checkpoint[first];
        FT_TRY(ft_pass_wide_tensor(pass, FT_ROWS_TOKENS, t->wide.cols, "checkpoint of the stream", wide));
        FT_TRY(device->copy(pass->model->device, wide->data, t->wide.data, (size_t)(wide->rows * wide->cols) * ft_dtype_size(wide->dtype)));
    }
    if (ft_input_travels(pass, n)) FT_TRY(ft_input_send(pass, n, *kept(pass, t, n)));
    FT_TRY(run_layers(pass, t, first, end, false, end));
    return ft_input_travels(pass, n - 1) ? ft_input_sent(pass, n - 1, kept(pass, t, n - 1)) : FT_OK;
}

// Runs it again, and now keeps everything. Its output is there no longer, or is not needed again.
static ft_status run_segment_again(ft_pass *pass, training_state *t, int n, int first, int end) {
    if (ft_input_travels(pass, n)) FT_TRY(ft_input_fetched(pass, n));
    if (ft_input_travels(pass, n - 1)) FT_TRY(ft_input_fetch(pass, n - 1, kept(pass, t, n - 1)));
    if (ft_pass_has_wide(pass)) {
        t->wide = t->checkpoint[first];
        t->checkpoint[first] = ft_absent();
        if (t->input[first].data == NULL) FT_TRY(ft_layer_input_of_stream(pass, first, t->wide, &t->input[first]));
    }
    FT_TRY(run_layers(pass, t, first, end, true, end - 2 >= pass->model->first_trained_layer ? end - 2 : -1));
    ft_pass_free(pass, &t->wide);
    ft_pass_free(pass, &t->input[end]);
    return FT_OK;
}

static ft_status backward_layers(ft_pass *pass, training_state *t, int first, int end, ft_tensor *dy) {
    ft_model *m = pass->model;
    const int below = first > m->first_trained_layer ? first - m->checkpoint_every : 0; // what is next: the segment below, or another micro-batch
    for (int l = end - 1; l >= first; l--) {
        FT_TRY(ft_layer_enter(pass, l, l > first ? l - 1 : below));
        bool want_dx = l > m->first_trained_layer || m->embeddings_trained;
        ft_tensor dx;
        FT_TRY(ft_gradients_reach(&m->parameters, ft_backward_point(m->layers - l, 0))); // and the convolution
        if (convolves(pass, l)) FT_TRY(ft_convolution_backward(pass, t->input[l], &t->convolution, *dy));
        FT_TRY(ft_layer_backward(pass, l, &t->input[l], &t->saved[l], dy, &t->stream, want_dx, &dx));
        if (convolves(pass, l)) FT_TRY(ft_convolution_input_gradient(pass, &t->convolution, dx));
        ft_pass_free(pass, &t->input[l]);
        *dy = dx;
    }
    return FT_OK;
}

// Forward, to the rows that the head reads.
static ft_status train_layers(ft_pass *pass, training_state *t, int segments) {
    const ft_model *m = pass->model;
    const int from = m->first_trained_layer, every = m->checkpoint_every;
    if (m->reads_features) return take_features(pass, &t->input[m->layers]);
    FT_TRY(embed(pass, m->embeddings_trained, t));
    // Frozen layers keep nothing.
    FT_TRY(run_layers(pass, t, 0, from, false, from < m->layers ? from : 0));
    if (from > 0) ft_pass_free(pass, &t->input[0]);
    for (int n = 0; n < segments; n++) FT_TRY(run_segment(pass, t, n, from + n * every, from + (n + 1) * every));
    return run_layers(pass, t, from + segments * every, m->layers, true, -1);
}

// The head and its loss, and back to the gradient of what it read.
static ft_status train_head(ft_pass *pass, training_state *t, ft_tensor losses, bool want_dx, ft_tensor *dx) {
    ft_model *m = pass->model;
    ft_tensor logits, *x = &t->input[m->layers];
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, m->labels, FT_MEM_ACTIVATIONS, -1, "logits", &logits));
    FT_TRY(ft_head_forward(pass, *x, true, &t->head, logits));
    FT_TRY(ft_pass_loss(pass, logits, losses));
    ft_memory_set_phase(m->memory, FT_PHASE_BACKWARD);
    FT_TRY(ft_gradients_reach(&m->parameters, ft_backward_point(0, 0)));
    FT_TRY(ft_head_backward(pass, *x, &t->head, logits, want_dx, dx));
    ft_pass_free(pass, &logits);
    ft_pass_free(pass, x);
    return FT_OK;
}

static ft_status train_language(ft_pass *pass, training_state *t, ft_tensor losses, bool want_dx, ft_tensor *dx) {
    ft_model *m = pass->model;
    ft_memory_set_phase(m->memory, FT_PHASE_BACKWARD);
    FT_TRY(ft_gradients_reach(&m->parameters, ft_backward_point(0, 0)));
    return ft_language_train(pass, &t->input[m->layers], losses, want_dx, dx);
}

static ft_status train(ft_pass *pass, training_state *t, ft_tensor losses) {
    ft_model *m = pass->model;
    const int from = m->first_trained_layer, layers = m->layers;
    const int every = m->checkpoint_every;
    const int segments = ft_model_checkpoints(m); // and one more
    const int last_segment = from + segments * every;
    ft_memory_set_phase(m->memory, FT_PHASE_FORWARD);
    FT_TRY(train_layers(pass, t, segments));
    ft_tensor dx;
    const bool into_encoder = from < layers || m->embeddings_trained;
    FT_TRY((m->vocabulary > 0 ? train_language : train_head)(pass, t, losses, into_encoder, &dx));
    if (!into_encoder) return FT_OK;
    FT_TRY(ft_pass_retype(pass, m->ends_whole ? FT_ROWS_TOKENS : FT_ROWS_READ, m->row_dtype, "rounded gradient of rows", &dx));
    FT_TRY(backward_layers(pass, t, last_segment, layers, &dx));
    for (int n = segments - 1; n >= 0; n--) {
        const int first = from + n * every, end = first + every;
        FT_TRY(run_segment_again(pass, t, n, first, end)); // input[end] was freed with its backward
        FT_TRY(backward_layers(pass, t, first, end, &dx));
    }
    if (!m->embeddings_trained) return FT_OK;
    FT_TRY(ft_gradients_reach(&m->parameters, ft_backward_point(layers + 1, 0)));
    return ft_embeddings_backward(pass, &t->embedding, &dx, &t->stream);
}

static ft_pass pass_of(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step) {
    return (ft_pass){.model = model,
                     .batch = batch,
                     .capacity = capacity,
                     .step = step,
                     .relative = ft_relative_window_of(model, capacity.longest)};
}

// Of what layers share between micro-batches, where they are run.
static ft_status check_pass(const ft_pass *pass) { return pass->model->reads_features ? FT_OK : ft_relative_check(pass); }

static ft_status allocate_state(const ft_model *m, ft_arena *arena, training_state *t) {
    memset(t, 0, sizeof *t);
    t->input = ft_arena_alloc(arena, (size_t)(m->layers + 1) * sizeof *t->input);
    t->checkpoint = ft_arena_alloc(arena, (size_t)m->layers * sizeof *t->checkpoint);
    t->saved = ft_arena_alloc(arena, (size_t)m->layers * sizeof *t->saved);
    t->head.input = ft_arena_alloc(arena, (size_t)m->head_count * sizeof *t->head.input);
    t->head.h = ft_arena_alloc(arena, (size_t)m->head_count * sizeof *t->head.h);
    return t->input && t->checkpoint && t->saved && t->head.input && t->head.h ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_model_train_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step,
                               ft_tensor losses) {
    ft_arena arena = {0};
    training_state state;
    ft_pass pass = pass_of(model, batch, capacity, step);
    ft_status status = check_pass(&pass);
    if (status == FT_OK) status = allocate_state(model, &arena, &state);
    if (status == FT_OK) status = ft_memory_scope_begin(model->memory, FT_SCOPE_TRAIN);
    if (status == FT_OK) {
        ft_pack_begin_pass(model->member, model->device);
        ft_gradients_begin(&model->parameters);
        status = train(&pass, &state, losses);
        if (status == FT_OK) status = ft_gradients_leave(&model->parameters);
        status = ft_pack_end_pass(model->member, model->device, status);
        if (status != FT_OK) ft_inputs_abandon(model);
        status = ft_memory_scope_end(model->memory, status);
    }
    ft_arena_free(&arena);
    return status;
}

static ft_status predict_layers(ft_pass *pass, training_state *t) {
    const ft_model *m = pass->model;
    if (m->reads_features) return take_features(pass, &t->input[m->layers]);
    FT_TRY(embed(pass, false, t));
    FT_TRY(run_layers(pass, t, 0, m->layers, false, 0));
    ft_pass_free(pass, &t->input[0]);
    return FT_OK;
}

static ft_status to_logits(ft_pass *pass, training_state *t, ft_tensor logits) {
    const ft_model *m = pass->model;
    if (m->vocabulary > 0) return ft_language_judge(pass, t->input[m->layers], ft_vector(logits.data, logits.rows, FT_F32));
    return ft_head_forward(pass, t->input[pass->model->layers], false, &t->head, logits);
}

static ft_status to_rows(ft_pass *pass, training_state *t, ft_tensor rows) { return ft_head_rows(pass, t->input[pass->model->layers], rows); }

static ft_status to_next(ft_pass *pass, training_state *t, ft_tensor logits) { return ft_language_next(pass, t->input[pass->model->layers], logits); }

// A micro-batch without gradients, up to `end`.
static ft_status predict(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_cache *cache,
                         ft_status (*end)(ft_pass *pass, training_state *t, ft_tensor out), ft_tensor out) {
    ft_arena arena = {0};
    training_state state;
    ft_pass pass = pass_of(model, batch, capacity, NULL);
    pass.cache = cache;
    const ft_scope scope = cache != NULL && cache->steps ? FT_SCOPE_NEXT : FT_SCOPE_PREDICT;
    ft_status status = check_pass(&pass);
    if (status == FT_OK) status = allocate_state(model, &arena, &state);
    if (status == FT_OK) status = ft_memory_scope_begin(model->memory, scope);
    if (status == FT_OK) {
        status = predict_layers(&pass, &state);
        if (status == FT_OK) status = end(&pass, &state, out);
        if (status == FT_OK) ft_pass_free(&pass, &state.input[model->layers]);
        status = ft_memory_scope_end(model->memory, status);
    }
    ft_arena_free(&arena);
    return status;
}

ft_status ft_model_predict_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, ft_tensor logits) {
    return predict(model, batch, capacity, NULL, to_logits, logits);
}

ft_status ft_model_features_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, ft_tensor rows) {
    return predict(model, batch, capacity, NULL, to_rows, rows);
}

ft_status ft_model_next_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_cache *cache, ft_tensor logits) {
    return predict(model, batch, capacity, cache, to_next, logits);
}

// ---- around the micro-batches -------------------------------------------------------------------------------------------
// Where layers are not run there is nothing that they share.

ft_status ft_model_hold_positions(ft_model *m, ft_capacity train, ft_capacity predict) {
    if (m->reads_features) return FT_OK;
    FT_TRY(ft_position_bias_hold(m, train.longest > 0));
    return ft_relative_hold(m, train, predict);
}
ft_status ft_model_add_chain_parts(const ft_model *m, ft_chain_parts *parts) {
    FT_TRY(ft_position_bias_add_parts(m, parts));
    return ft_relative_add_parts(m, parts);
}
void ft_model_release_positions(ft_model *m) {
    ft_relative_release(m);
    ft_position_bias_release(m);
}
bool ft_model_holds_positions(const ft_model *m) {
    return (m->relative != NULL && m->relative->projected != NULL) || (m->position_bias != NULL && m->position_bias->sums != NULL);
}

ft_status ft_model_begin_step(ft_model *m, ft_capacity capacity, const ft_step_state *step) {
    ft_memory_set_phase(m->memory, FT_PHASE_FORWARD);
    if (m->reads_features) return FT_OK;
    FT_TRY(ft_position_bias_begin(m));
    return ft_relative_begin(m, capacity, step);
}

ft_status ft_model_end_step(ft_model *m, ft_capacity capacity, const ft_step_state *step) {
    if (m->reads_features) return FT_OK;
    FT_TRY(ft_position_bias_end(m, capacity, step));
    return ft_relative_end(m, capacity, step);
}
void ft_model_mark_step(ft_model *m, ft_capacity capacity, bool begun) {
    if (!m->reads_features) ft_relative_mark(m, capacity, begun);
}

ft_status ft_model_begin_prediction(ft_model *m, ft_capacity capacity) {
    return m->reads_features ? FT_OK : ft_relative_begin(m, capacity, NULL);
}
void ft_model_end_prediction(ft_model *m) { (void)ft_relative_end(m, (ft_capacity){.tokens = 0}, NULL); }

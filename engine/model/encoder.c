// encoder.c - a whole micro-batch: embeddings, layers (with recomputation), head; and back.
//
// Recomputation (train.gradient_checkpointing = k): only the input of every k-th layer is kept. The backward pass takes
// the segments of k layers from the last to the first, runs each forward again, now keeping everything, and then
// backward. The last segment is kept in the forward pass itself: its backward comes next, so that costs no memory.
#include "engine/model/layers.h"

#include <string.h>

typedef struct embedding_saved {
    ft_tensor sum, mean, rstd;
} embedding_saved;

static ft_status tokens(ft_pass *pass, int64_t cols, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, FT_ROWS_TOKENS, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

static void tap(const ft_pass *pass, int layer, ft_tensor hidden) {
    if (pass->model->tap != NULL) pass->model->tap(pass->model->tap_context, layer, hidden);
}

// x = dropout(LN(word + position + type)); BERT's positions count from 0, single texts have type 0.
static ft_status embed(ft_pass *pass, bool keep, embedding_saved *s, ft_tensor *x) {
    ft_model *m = pass->model;
    const ft_parameters *p = &m->parameters;
    *s = (embedding_saved){.sum = ft_absent()};
    FT_TRY(tokens(pass, m->hidden, "embedding sum", &s->sum));
    FT_TRY(tokens(pass, 1, "embedding norm mean", &s->mean));
    FT_TRY(tokens(pass, 1, "embedding norm rstd", &s->rstd));
    s->mean = ft_vector(s->mean.data, s->mean.rows, FT_F32);
    s->rstd = ft_vector(s->rstd.data, s->rstd.rows, FT_F32);
    FT_TRY(ft_pass_embedding_forward(pass, (ft_embedding_forward_args){.word_ids = pass->batch->ids,
                                                                       .position_ids = pass->batch->token_position,
                                                                       .type_ids = pass->batch->token_type,
                                                                       .word = ft_parameter_weight(p, m->word),
                                                                       .position = ft_parameter_weight(p, m->position),
                                                                       .type = ft_parameter_weight(p, m->token_type),
                                                                       .out = s->sum}));
    FT_TRY(tokens(pass, m->hidden, "embedding output", x));
    FT_TRY(ft_pass_layernorm_forward(pass, FT_ROWS_TOKENS,
                                     (ft_layernorm_forward_args){.x = s->sum,
                                                                 .gamma = ft_parameter_weight(p, m->embedding_gamma),
                                                                 .beta = ft_parameter_weight(p, m->embedding_beta),
                                                                 .epsilon = m->epsilon,
                                                                 .s = s->sum,
                                                                 .y = *x,
                                                                 .mean = s->mean,
                                                                 .rstd = s->rstd}));
    if (!keep) {
        ft_pass_free(pass, &s->sum);
        ft_pass_free(pass, &s->mean);
        ft_pass_free(pass, &s->rstd);
    }
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS,
                                ft_pass_dropout(pass, FT_ROWS_TOKENS, m->hidden_dropout, 0, FT_SITE_EMBEDDING), *x, *x));
    tap(pass, -1, *x);
    return FT_OK;
}

static ft_status embed_backward(ft_pass *pass, embedding_saved *s, ft_tensor *dx) {
    ft_model *m = pass->model;
    const ft_parameters *p = &m->parameters;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS,
                                ft_pass_dropout(pass, FT_ROWS_TOKENS, m->hidden_dropout, 0, FT_SITE_EMBEDDING), *dx, *dx));
    FT_TRY(ft_pass_layernorm_backward(pass, FT_ROWS_TOKENS,
                                      (ft_layernorm_backward_args){.dy = *dx,
                                                                   .s = s->sum,
                                                                   .mean = s->mean,
                                                                   .rstd = s->rstd,
                                                                   .gamma = ft_parameter_weight(p, m->embedding_gamma),
                                                                   .ds = *dx,
                                                                   .dgamma = ft_parameter_gradient(p, m->embedding_gamma),
                                                                   .dbeta = ft_parameter_gradient(p, m->embedding_beta)}));
    ft_pass_free(pass, &s->sum);
    ft_pass_free(pass, &s->mean);
    ft_pass_free(pass, &s->rstd);
    const struct {
        const int32_t *ids;
        int table;
        int32_t padding;
    } tables[3] = {{pass->batch->token_type, m->token_type, -1},
                   {pass->batch->token_position, m->position, -1},
                   {pass->batch->ids, m->word, m->padding_id}};
    for (int i = 0; i < 3; i++)
        FT_TRY(ft_pass_embedding_backward(pass, (ft_embedding_backward_args){.ids = tables[i].ids,
                                                                             .dout = *dx,
                                                                             .table_gradient = ft_parameter_gradient(p, tables[i].table),
                                                                             .padding_id = tables[i].padding}));
    ft_pass_free(pass, dx);
    return FT_OK;
}

// Everything a micro-batch keeps between forward and backward. input[l] is the input of layer l; input[layers] the
// encoder's output (pooled rows).
typedef struct training_state {
    ft_tensor *input;
    ft_layer_saved *saved;
    embedding_saved embedding;
    ft_head_saved head;
} training_state;

// Layers [first, end), from input[first]. With `keep` their activations and inputs stay, else only input[end].
static ft_status run_layers(ft_pass *pass, training_state *t, int first, int end, bool keep) {
    for (int l = first; l < end; l++) {
        FT_TRY(ft_layer_forward(pass, l, t->input[l], keep, &t->saved[l], &t->input[l + 1]));
        tap(pass, l, t->input[l + 1]);
        if (!keep && l > first) ft_pass_free(pass, &t->input[l]);
    }
    return FT_OK;
}

static ft_status backward_layers(ft_pass *pass, training_state *t, int first, int end, ft_tensor *dy) {
    ft_model *m = pass->model;
    for (int l = end - 1; l >= first; l--) {
        bool want_dx = l > m->first_trained_layer || m->embeddings_trained;
        ft_tensor dx;
        FT_TRY(ft_layer_backward(pass, l, t->input[l], &t->saved[l], dy, want_dx, &dx));
        ft_pass_free(pass, &t->input[l]);
        *dy = dx;
    }
    return FT_OK;
}

static ft_status train(ft_pass *pass, training_state *t, ft_tensor losses) {
    ft_model *m = pass->model;
    const int from = m->first_trained_layer, layers = m->layers;
    const int every = m->checkpoint_every > 0 ? m->checkpoint_every : layers > from ? layers - from : 1;
    ft_memory_set_phase(m->memory, FT_PHASE_FORWARD);
    FT_TRY(embed(pass, m->embeddings_trained, &t->embedding, &t->input[0]));
    // Frozen layers keep nothing.
    FT_TRY(run_layers(pass, t, 0, from, false));
    if (from > 0) ft_pass_free(pass, &t->input[0]);
    int last_segment = from; // first layer of the last segment
    while (last_segment + every < layers) last_segment += every;
    for (int s = from; s < last_segment; s += every) FT_TRY(run_layers(pass, t, s, s + every, false));
    FT_TRY(run_layers(pass, t, last_segment, layers, true));

    ft_tensor logits, dx;
    FT_TRY(ft_pass_tensor(pass, FT_ROWS_POOLED, m->labels, FT_MEM_ACTIVATIONS, -1, "logits", &logits));
    FT_TRY(ft_head_forward(pass, t->input[layers], true, &t->head, logits));
    FT_TRY(ft_pass_cross_entropy(pass, (ft_cross_entropy_args){.logits = logits,
                                                               .labels = pass->batch->label,
                                                               .step = pass->step,
                                                               .losses = losses,
                                                               .dlogits = logits}));
    ft_memory_set_phase(m->memory, FT_PHASE_BACKWARD);
    bool into_encoder = from < layers || m->embeddings_trained;
    FT_TRY(ft_head_backward(pass, t->input[layers], &t->head, logits, into_encoder, &dx));
    ft_pass_free(pass, &logits);
    ft_pass_free(pass, &t->input[layers]);
    if (!into_encoder) return FT_OK;
    for (int s = last_segment, end = layers; s >= from; end = s, s -= every) {
        if (s != last_segment) {
            // The forward left input[s + every]; it was freed with the backward of that segment.
            FT_TRY(run_layers(pass, t, s, end, true));
            ft_pass_free(pass, &t->input[end]);
        }
        FT_TRY(backward_layers(pass, t, s, end, &dx));
    }
    if (m->embeddings_trained) FT_TRY(embed_backward(pass, &t->embedding, &dx));
    return FT_OK;
}

static ft_pass pass_of(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step) {
    return (ft_pass){.model = model,
                     .batch = batch,
                     .capacity = capacity,
                     .step = step,
                     .pooled_position = batch->pooled_position,
                     .one_each = batch->one_each};
}

static ft_status allocate_state(const ft_model *m, ft_arena *arena, training_state *t) {
    memset(t, 0, sizeof *t);
    t->input = ft_arena_alloc(arena, (size_t)(m->layers + 1) * sizeof *t->input);
    t->saved = ft_arena_alloc(arena, (size_t)m->layers * sizeof *t->saved);
    t->head.input = ft_arena_alloc(arena, (size_t)m->head_count * sizeof *t->head.input);
    t->head.h = ft_arena_alloc(arena, (size_t)m->head_count * sizeof *t->head.h);
    return t->input && t->saved && t->head.input && t->head.h ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_model_train_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step,
                               ft_tensor losses) {
    ft_arena arena = {0};
    training_state state;
    ft_pass pass = pass_of(model, batch, capacity, step);
    ft_status status = allocate_state(model, &arena, &state);
    if (status == FT_OK) status = ft_memory_scope_begin(model->memory, FT_SCOPE_TRAIN);
    if (status == FT_OK) status = ft_memory_scope_end(model->memory, train(&pass, &state, losses));
    ft_arena_free(&arena);
    return status;
}

static ft_status predict(ft_pass *pass, training_state *t, ft_tensor logits) {
    ft_model *m = pass->model;
    FT_TRY(embed(pass, false, &t->embedding, &t->input[0]));
    FT_TRY(run_layers(pass, t, 0, m->layers, false));
    ft_pass_free(pass, &t->input[0]);
    FT_TRY(ft_head_forward(pass, t->input[m->layers], false, &t->head, logits));
    ft_pass_free(pass, &t->input[m->layers]);
    return FT_OK;
}

ft_status ft_model_predict_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, ft_tensor logits) {
    ft_arena arena = {0};
    training_state state;
    ft_pass pass = pass_of(model, batch, capacity, NULL);
    ft_status status = allocate_state(model, &arena, &state);
    if (status == FT_OK) status = ft_memory_scope_begin(model->memory, FT_SCOPE_PREDICT);
    if (status == FT_OK) status = ft_memory_scope_end(model->memory, predict(&pass, &state, logits));
    ft_arena_free(&arena);
    return status;
}

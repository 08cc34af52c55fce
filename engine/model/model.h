// model.h - an encoder of BERT's kind with a classification head: parameters, forward and backward of one packed micro-batch.
//
//     ft_model_create(...)            registers the parameters and allocates the weights
//     ft_model_load / ft_model_draw   fills them (model_files.h)
//     ft_model_prepare_training(...)  gradients and optimizer state
//     ft_model_hold_positions(...)    memory of what a step computes once for all its micro-batches
//     ft_model_begin_step(...)        that
//     ft_model_train_batch(...)       adds the gradients of one micro-batch, writes its losses
//     ft_model_end_step(...)          gradients are complete
//     ft_model_begin_prediction(...), ft_model_predict_batch(...), ft_model_end_prediction(...)    logits
//
// Families differ as families.h says; what follows is common to all.
// Mathematics: post-norm encoder, x = LN(x + drop(Wo att(x))), x = LN(x + drop(W2 act(W1 x))); some rows are read;
// head: act(pooler) -> drop -> (hidden layer -> act -> drop)* -> classifier. The last layer computes keys and values
// for all tokens and everything else for the rows that are read only (ft_batch.read_row). Dropout is a function of the token
// (philox.h), so recomputation and any split into micro-batches give the same bits; gradients accumulate.
#ifndef FT_MODEL_H
#define FT_MODEL_H

#include "engine/model/blocks/cache.h"
#include "engine/model/blocks/offload_inputs.h"
#include "engine/model/blocks/recompute.h"
#include "engine/model/gradients/chain_parts.h"
#include "engine/model/state/net.h"

// label_count: outputs of the classifier. `options` gives head, freezing, dropout and checkpointing.
ft_status ft_model_create(ft_memory *memory, const ft_model_config *config, const ft_config *options, int32_t label_count,
                          ft_model *model);
// The same with those rows of the word table alone that `word_rows` holds, which must outlive the model; NULL: all rows. trunk: that lends
// it the frozen numbers (state/trunk.h), and outlives it; NULL: they are its own. head_alone: of a trunk that is fixed those numbers are not there
// (parameters.h), and the model reads features alone.
ft_status ft_model_create_with(ft_memory *memory, const ft_model_config *config, const ft_config *options, int32_t label_count,
                               const ft_word_rows *word_rows, struct ft_trunk *trunk, bool head_alone, ft_model *model);
// Is the word table trained with these options?
bool ft_model_trains_words(const ft_model_config *config, const ft_config *options);
// Of the embeddings and the layers, how many drop nothing, nothing of them being trained (train.frozen_dropout).
int ft_model_quiet_parts(const ft_model *model);
// The weights will be trained: before they are loaded or drawn. Only in 16 bits there is anything to do.
ft_status ft_model_keep_master(ft_model *model);
// What training makes small; once, before batches are made for the model. Without it: cross-entropy.
ft_status ft_model_set_loss(ft_model *model, const ft_loss *loss);
ft_status ft_model_prepare_training(ft_model *model, double weight_decay);
void ft_model_free(ft_model *model); // {0} is fine
// What decides about bits and is not seen in the shapes of the parameters: a checkpoint must agree with it. NULL: no memory.
json_t *ft_model_identity(const ft_model *model);

// What the relative positions of a model need between the micro-batches of a step, or of a pass of prediction: memory for
// their projections in all layers and, for training, of their gradients in the trained ones, 2 to 4 times layers * rows *
// hidden floats, rows <= 2 * span. Once, for the largest micro-batches of either kind (tokens and longest 0: there are none).
// Families without relative positions need nothing and may be given nothing.
ft_status ft_model_hold_positions(ft_model *model, ft_capacity train, ft_capacity predict);
// What micro-batches add to there, for ranks on several hosts (gradients/chain.h).
ft_status ft_model_add_chain_parts(const ft_model *model, ft_chain_parts *parts);
void ft_model_release_positions(ft_model *model);
bool ft_model_holds_positions(const ft_model *model);

// Around the micro-batches of one optimizer step: what depends on weights, step and layer, but on no text. `capacity` is that of
// all its micro-batches. A step that was begun may be begun anew; one that failed need not be ended.
ft_status ft_model_begin_step(ft_model *model, ft_capacity capacity, const ft_step_state *step);
ft_status ft_model_end_step(ft_model *model, ft_capacity capacity, const ft_step_state *step);
// For whoever replays what these two queued (step/graphs.h): the model's own mind of whether a step was begun. Queues nothing.
void ft_model_mark_step(ft_model *model, ft_capacity capacity, bool begun);
// The same without dropout and gradients, around a pass over texts with the weights as they are.
ft_status ft_model_begin_prediction(ft_model *model, ft_capacity capacity);
void ft_model_end_prediction(ft_model *model);

// Nothing but the head is trained and all else drops nothing: of a sequence it is the same in every epoch, whatever else comes with it.
bool ft_model_trunk_is_fixed(const ft_config *options);
// What the head reads of a sequence, in the model's type.
size_t ft_model_feature_bytes(const ft_model *model);
// Of a model that reads pictures: numbers of a patch (0: it reads texts); does it train the bias of patches, or a vector in front of them?
int64_t ft_model_patch_numbers(const ft_model *model);
bool ft_model_trains_patch_vectors(const ft_model *model);
// From here on batches bring that (ft_batch.feature), or tokens again: between steps and passes, before batches are made for the model.
void ft_model_read_features(ft_model *model, bool reads);
// Inside a pass, of a model that reads tokens: rows [batch->reads, hidden] of the model's type, device, written.
ft_status ft_model_features_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, ft_tensor rows);

// Inside a step. `batch` holds device pointers. losses: [batch->reads] fp32 device, written. Gradients are accumulated.
ft_status ft_model_train_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step,
                               ft_tensor losses);
// Inside a pass. logits: [batch->reads, labels] fp32 device, written. No dropout.
ft_status ft_model_predict_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, ft_tensor logits);
// Inside a pass, of a language model: what comes behind the rows that are read, one a text. logits: [batch->reads, vocabulary] fp32 device,
// written. What the cache says of the micro-batch is the caller's to set (blocks/cache.h).
ft_status ft_model_next_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_cache *cache, ft_tensor logits);

#endif

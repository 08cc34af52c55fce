// embed.h - a pass over a data set that puts out a vector a text.
#ifndef FT_EMBED_H
#define FT_EMBED_H

#include "engine/data/input.h"
#include "engine/embed/head.h"
#include "engine/model/model.h"
#include "engine/train/step/pass.h"

// Of a data set whose texts are one sequence each: every row of theirs is read, as heads that need them have it (ft_head_needs_rows).
ft_status ft_embed_read_all(ft_dataset *data);

// Tokens of a text that are those of a prompt in front of it: its own, with the special ones in front of a text. input: of texts.
ft_status ft_embed_prompt_tokens(const ft_input *input, const char *prompt, int64_t *tokens);

// Takes the vector of an example, [head->width], in order.
typedef ft_status ft_vector_sink(void *context, int64_t example, const float *vector);

// Memory is laid out for `capacity`, at least ft_eval_capacity(data, limits). The model ends whole where the head needs more than first
// rows. progress may be NULL.
ft_status ft_embed_dataset(ft_model *model, ft_vector_head *head, const ft_dataset *data, ft_batch_limits limits, ft_capacity capacity,
                           ft_vector_sink *sink, void *context, ft_predict_progress progress, void *watcher);

#endif

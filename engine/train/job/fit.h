// fit.h - what an input and a model allow together; for training and prediction alike.
#ifndef FT_FIT_H
#define FT_FIT_H

#include "engine/config/config.h"
#include "engine/data/input.h"
#include "engine/model/spec/model_config.h"
#include "engine/tasks/tasks.h"

// FT_INVALID when the tokenizer knows ids that the embedding table has no row for. path: the model, for the message.
ft_status ft_fit_vocabulary(const ft_input *input, const ft_model_config *config, const char *path);

// FT_INVALID when pairs of texts have a token type that the model's table has no row for. path: as above.
ft_status ft_fit_types(const ft_dataset *data, const ft_model_config *config, const char *path);

// FT_INVALID for a task that there is no head for on a decoder, or on an encoder.
ft_status ft_fit_task(const ft_task_spec *task, const ft_model_config *config);

// FT_INVALID where the row that a decoder's classifier reads is none: an empty text, or one that ends in the padding token, which transformers
// passes over. path: the data, for the message.
ft_status ft_fit_last_tokens(const ft_dataset *data, const ft_model_config *config, const char *path);

// The longest sequence: `asked` (data.max_length), else `trained` (of a saved model's ftengine.json), else what the
// Pictures come in another size than the model's: its table of positions gets other rows (ft_model_config_set_picture). path: for messages.
ft_status ft_fit_picture(const ft_input *input, ft_model_config *config, const char *path);
// input's files say, at most 512. FT_AUTO: not given. FT_INVALID when more is asked for than the model has positions.
ft_status ft_fit_max_length(const ft_input *input, const ft_model_config *config, int64_t asked, int64_t trained, int *length);

#endif

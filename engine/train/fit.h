// fit.h - what a tokenizer and a model allow together; for training and prediction alike.
#ifndef FT_FIT_H
#define FT_FIT_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"
#include "engine/model/model_config.h"
#include "engine/text/tokenizer.h"

// The tokenizer of a directory, by the rules that model.tokenizer_rules or a saved model names.
ft_status ft_fit_open_tokenizer(const char *directory, ft_rules_option rules, ft_tokenizer **tokenizer);

// data.truncation: `asked`; where it is "auto", `trained` (of a saved model's ftengine.json, or "head").
ft_status ft_fit_truncation(const char *asked, const char *trained, ft_long_text *rule);

// FT_INVALID when the tokenizer knows ids that the embedding table has no row for. path: the model, for the message.
ft_status ft_fit_vocabulary(const ft_tokenizer *tokenizer, const ft_model_config *config, const char *path);

// FT_INVALID when pairs of texts have a token type that the model's table has no row for. path: as above.
ft_status ft_fit_types(const ft_dataset *data, const ft_model_config *config, const char *path);

// The longest sequence: `asked` (data.max_length), else `trained` (of a saved model's ftengine.json), else what the
// tokenizer says, at most 512. FT_AUTO: not given. FT_INVALID when more is asked for than the model has positions.
ft_status ft_fit_max_length(const ft_tokenizer *tokenizer, const ft_model_config *config, int64_t asked, int64_t trained, int *length);

#endif

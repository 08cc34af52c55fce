// trained.h - which parameters are trained, by their names: train.parameters. What model.freeze and model.freeze_layers freeze is frozen
// in any case, and the head is trained in any case: model.c.
//
// A pattern is a run of parts of a name, the parts being separated by dots, with * and ? as in a shell: "encoder.layer.11", "LayerNorm",
// "query.weight", "layer.1?.output". It may begin and end at any dot.
#ifndef FT_MODEL_TRAINED_H
#define FT_MODEL_TRAINED_H

#include "engine/config/config.h"

// Is the parameter of the trunk one of those?
bool ft_trained_by_name(const ft_config *options, const char *name);
// Nothing but the head is.
bool ft_trained_is_probe(const ft_config *options);
// FT_INVALID: a word that stands alone does not, or a pattern is of none of the `count` names.
ft_status ft_trained_check(const ft_config *options, int count, const char *(*name_at)(const void *context, int index), const void *context);

// Does the pattern stand for a run of parts of `name`?
bool ft_name_matches(const char *pattern, size_t length, const char *name);

#endif

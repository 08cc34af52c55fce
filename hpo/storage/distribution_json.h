// distribution_json.h - distributions as the text that Optuna keeps beside every parameter:
//     {"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}
#ifndef FT_HPO_DISTRIBUTION_JSON_H
#define FT_HPO_DISTRIBUTION_JSON_H

#include "hpo/search/history/distribution.h"

// Reads what any Optuna since 1.0 wrote; the old class names become what they mean today. Choices live in `arena`.
// Lists with equal choices are taken: Optuna stores them, and the second is only never looked up. Choices that are
// lists or objects are refused.
ft_status ft_distribution_from_json(const char *text, const char *where, ft_arena *arena, ft_distribution *out);
// *text is free()d by the caller.
ft_status ft_distribution_to_json(const ft_distribution *distribution, char **text);

#endif

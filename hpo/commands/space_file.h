// space_file.h - a search space of another program's, for `ftengine study ask --space FILE`:
//
//     {"kind": {"name": "CategoricalDistribution", "attributes": {"choices": ["svm", "forest"]}},
//      "C":    {"name": "FloatDistribution", "attributes": {"low": 0.01, "high": 100, "log": true}, "when": {"kind": ["svm"]}}}
//
// An object of distributions as Optuna writes them. `when` is ours: the parameter is drawn in trials where each of these,
// choices or whole numbers in front of it, has one of the values, and in no others.
#ifndef FT_HPO_SPACE_FILE_H
#define FT_HPO_SPACE_FILE_H

#include "hpo/space/space.h"

// Rules by the names of the file, in its order. FT_INVALID with the file and the parameter.
ft_status ft_space_file_read(const char *file, ft_space *space);
ft_status ft_space_file_parse(const char *text, size_t length, const char *file, ft_space *space); // file: for messages

#endif

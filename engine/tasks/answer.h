// answer.h - what a model says about one text, and pieces of how it is written.
#ifndef FT_ANSWER_H
#define FT_ANSWER_H

#include "base/json/json.h"

#include <stddef.h>

typedef struct ft_answer {
    int outputs;
    const char *const *names;  // [outputs]
    const char *separator;     // of several names in one cell
    const double *threshold;   // see decision.h; NULL: 1/2, the largest
    const double *probability; // [outputs], where they are classes
    const double *value;       // [outputs] logits
} ft_answer;

// {name: value} of all outputs.
json_t *ft_answer_by_name(const ft_answer *answer, const double *values, bool *failed);

#endif

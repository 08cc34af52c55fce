// answer.h - what a model says about one text, and pieces of how it is written.
#ifndef FT_ANSWER_H
#define FT_ANSWER_H

#include "base/arena.h"
#include "base/json/json.h"

#include <stddef.h>

typedef struct ft_answer {
    int outputs;
    const char *const *names;  // [outputs]
    const char *const *keys;   // [outputs] the names as JSON text (ft_answer_keys); NULL: some are the same, or nobody writes JSON
    const char *separator;     // of several names in one cell
    const double *threshold;   // see decision.h; NULL: 1/2, the largest
    const double *probability; // [outputs], where they are classes
    const double *value;       // [outputs] logits
} ft_answer;

// What all lines of a file share: `"name":` of every output, in the arena. NULL where two have one name: a JSON object has it once.
ft_status ft_answer_keys(const char *const *names, int outputs, ft_arena *arena, const char *const **keys);
// {name: value} of all outputs, with 9 digits, as text: a line may have thousands, and no tree is made of them. Failed writes are left
// in ferror(out).
ft_status ft_answer_write_by_name(const ft_answer *answer, const double *values, FILE *out);

#endif

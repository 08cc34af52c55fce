// sentence_files.h - what sentence-transformers' files beside a model say: how the rows of a text become one vector.
//
//     modules.json                         which modules, in which directories
//     config_sentence_transformers.json    prompts
//     sentence_bert_config.json            max_seq_length, do_lower_case; in the directory of the model
//     1_Pooling/config.json                the poolings, by the names of today or of before version 6
//     2_Dense/config.json, 2_Normalize     what is done with the vector
#ifndef FT_SENTENCE_FILES_H
#define FT_SENTENCE_FILES_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ft_pooling {
    FT_POOL_CLS,
    FT_POOL_MAX,
    FT_POOL_MEAN,
    FT_POOL_MEAN_SQRT, // the sum by the root of the number of rows
    FT_POOL_WEIGHTED,  // the mean where row i counts i + 1 times
    FT_POOL_LAST,
    FT_POOLINGS
} ft_pooling;

typedef enum ft_dense_activation { FT_DENSE_IDENTITY, FT_DENSE_TANH, FT_DENSE_RELU, FT_DENSE_GELU, FT_DENSE_SIGMOID, FT_DENSE_SILU } ft_dense_activation;

// Of the vector: a dense layer, or else it is made of length 1.
typedef struct ft_vector_step {
    bool dense;
    const char *directory; // of the layer's weights
    int64_t inputs, outputs;
    bool bias;
    ft_dense_activation activation;
} ft_vector_step;

enum { FT_MOST_VECTOR_STEPS = 8 };
typedef struct ft_sentence_files {
    bool found;              // there is a modules.json
    const char *transformer; // the directory of the model itself
    ft_pooling pooling[FT_POOLINGS]; // side by side in the vector
    int poolings;
    int64_t width;       // of a row, as the pooling has it; 0: it does not say
    bool without_prompt; // its tokens are left out of the poolings
    ft_vector_step step[FT_MOST_VECTOR_STEPS];
    int steps;
    int64_t max_length; // 0: it does not say
    bool lower_case;    // texts, whatever the tokenizer does
    int prompts;
    const char **prompt_name, **prompt; // [prompts]
    const char *usual_prompt;           // by default; NULL: none
} ft_sentence_files;

// Of a directory. Where there is no modules.json, nothing is found, and that is no error. Strings live in the arena. FT_INVALID with
// file and key: a module, a pooling or an activation that is not known here, with those that are.
ft_status ft_sentence_files_load(const char *directory, ft_arena *arena, ft_sentence_files *files);
// "mean", or several separated by commas. FT_INVALID: option is where.
ft_status ft_poolings_parse(const char *text, const char *option, ft_sentence_files *files);

#endif

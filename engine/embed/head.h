// head.h - the rows of a text to its vector, on the host.
#ifndef FT_EMBED_HEAD_H
#define FT_EMBED_HEAD_H

#include "engine/embed/sentence_files.h"

typedef struct ft_dense {
    float *weight; // [inputs, outputs]: transposed, so that outputs stand side by side
    float *bias;   // [outputs]
} ft_dense;

typedef struct ft_vector_head {
    const ft_sentence_files *files; // outlives it
    int64_t hidden, width;          // of a row; of the vector
    int64_t prompt_tokens;          // of each text left out of the poolings, in front; 0: none
    ft_dense dense[FT_MOST_VECTOR_STEPS];
    double *room[2]; // a vector on its way, of the largest step
} ft_vector_head;

// Are more rows of a text wanted than its first, or than their mean?
bool ft_head_needs_rows(const ft_sentence_files *files);
bool ft_head_needs_mean(const ft_sentence_files *files);

// Reads the weights of dense layers. FT_INVALID: they do not fit one another or the model, whose rows have `hidden` numbers. Close it also
// when it fails.
ft_status ft_vector_head_open(const ft_sentence_files *files, int64_t hidden, ft_vector_head *head);
void ft_vector_head_close(ft_vector_head *head); // {0} is fine

// vector [width] of rows [count, hidden], count >= 1; where the head needs no rows, of the one row that the device made (count 1).
// FT_DIVERGED: a number of it is not finite.
ft_status ft_vector_head_run(ft_vector_head *head, const float *rows, int64_t count, float *vector);

#endif

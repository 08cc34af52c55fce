// word_rows.h - which rows of the word table a run can read. Its texts are tokenised before it starts, so that this is
// known: a tenth of the table, often. Only these rows live on the device, in this order:
//
//     0 .. trained     rows that training reads, with gradient and moments      in the order of their ids
//     trained .. held  rows that only evaluations read: weights alone           in the order of their ids
//
// Batches bring rows instead of ids (batch.h). All other rows stay in the file they come from; what training makes of them
// is in absent_rows.h. Rows in the order of ids: the gradients of a table are summed in it (embedding.h), so their bits are
// those of the whole table.
#ifndef FT_WORD_ROWS_H
#define FT_WORD_ROWS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_word_rows {
    int32_t rows;          // of the whole table
    int32_t trained, held;
    int32_t *row_of;       // [rows] where the row of an id is; -1: absent
    int32_t *id_of;        // [held]
    int32_t *blocks;       // [ft_norm_blocks(rows) + 1] of the trained rows, as adamw.h has it
} ft_word_rows;

// Every id is absent until it is marked; ids lie in [0, rows). Then ft_word_rows_number gives the rows their places.
ft_status ft_word_rows_open(int64_t rows, ft_word_rows *word_rows);
void ft_word_rows_mark(ft_word_rows *word_rows, const int32_t *ids, int64_t count, bool trains);
ft_status ft_word_rows_number(ft_word_rows *word_rows);
void ft_word_rows_free(ft_word_rows *word_rows); // {0} is fine

#endif

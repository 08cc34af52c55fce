// word_sums.h - the gradient of the word table of ranks that are apart, summed by the rows that occur.
//
// It is complete last of all, so that nothing hides its sum, and it is the largest one by far: of DeBERTa-v3-base 394
// MB. But a row has a gradient only where its word is in a text of the step, on whatever rank, and every rank knows the
// texts of all. So those rows are gathered, in the order of the table, summed, and added to a table that was cleared
// meanwhile; the others are 0 on every rank. Where more than three quarters of the vocabulary occur, which is known
// before the step begins, the table is summed as it is.
//
// The rows have a place behind the gradients in the arena of the steps, from when they are gathered until they are put
// back; gradients that are dealt out have them in memory of the micro-batch (gradient_parts.h).
//
//     words->count = ...; words->rows    before the micro-batches
//     ft_word_sums_gather(p, &part);     inside of no scope, the table being complete: what is to be summed
//     ft_word_sums_clear(p, table);      when that is queued
//     ft_word_sums_hold(p);              inside of every scope from then on
//     ft_word_sums_put(p);               behind ft_group_join, inside of none
#ifndef FT_WORD_SUMS_H
#define FT_WORD_SUMS_H

#include "engine/model/gradients/buckets.h"

typedef struct ft_word_sums {
    int64_t room;  // rows at most; 0: never by rows
    int32_t *rows; // [room] device: of the step, ascending
    int64_t count; // of these; more than room: they are not there, and the table is summed as it is
    float *sums;   // [room, columns] device, while they are on their way
} ft_word_sums;

// For so many tokens in a step: 0 where the ranks of p->memory share theirs, or something else adds to the table.
// p->memory knows its ranks, and p its table.
int64_t ft_word_sums_room(const ft_parameters *p, int64_t tokens);
static inline bool ft_word_sums_hold_room(const ft_parameters *p) { return p->words != NULL && p->words->room > 0; }
// In the present step.
static inline bool ft_word_sums_go_by_row(const ft_parameters *p) {
    return ft_word_sums_hold_room(p) && p->words->count <= p->words->room;
}
size_t ft_word_sums_bytes(const ft_parameters *p); // of the rows
float *
ft_word_sums_table(const ft_parameters *p); // where the gradient of the table begins, of gradients that are kept whole

ft_status ft_word_sums_gather(ft_parameters *p, ft_range *part);
ft_status ft_word_sums_clear(const ft_parameters *p, float *table);
ft_status ft_word_sums_hold(const ft_parameters *p);
ft_status ft_word_sums_put(ft_parameters *p); // nothing where the step does not go by rows
// Of a table at `table`, and rows that have memory: queued, and nothing more.
ft_status ft_word_sums_gather_rows(const ft_parameters *p, float *table, ft_range *part);
ft_status ft_word_sums_put_rows(const ft_parameters *p, float *table);

#endif

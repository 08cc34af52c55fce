// step_words.h - which rows of the word table the texts of an optimizer step have, on whatever rank they are: all ranks
// have all texts. What the gradient of the table is summed by (engine/model/gradients/word_sums.h).
#ifndef FT_STEP_WORDS_H
#define FT_STEP_WORDS_H

#include "engine/data/dataset.h"
#include "engine/model/state/word_rows.h"
#include "engine/train/room/room.h"

// What of the vocabulary was seen: a bit a row, all 0 between two questions.
typedef struct ft_step_words {
    int64_t rows;
    uint64_t *seen;
} ft_step_words;

ft_status ft_step_words_open(int64_t rows, ft_step_words *words);
void ft_step_words_close(ft_step_words *words); // {0} is fine
// How many rows sequences [first, last) of an order have; list (may be NULL) gets the first `room` of them, ascending.
// word_rows: where the rows are that a run holds; NULL: a row's number is the id.
int64_t ft_step_words_find(ft_step_words *words, const ft_dataset *data, const int32_t *order, int64_t first,
                           int64_t last, const ft_word_rows *word_rows, int32_t *list, int64_t room);

// On average in the first `steps` steps of a run, of its texts; `rows`: those of its table.
ft_status ft_step_words_count(const ft_room *room, int64_t steps, int64_t rows, int64_t *in_step);

#endif

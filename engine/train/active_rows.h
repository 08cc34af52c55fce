// active_rows.h - memory.active_vocabulary: which rows of the word table live on the device in this run.
#ifndef FT_ACTIVE_ROWS_H
#define FT_ACTIVE_ROWS_H

#include "engine/train/trainer.h"

// Once the texts are tokens and the model's numbers are known: t->word_rows, or NULL where all rows stay, and
// t->word_rows_save.
ft_status ft_trainer_choose_rows(ft_trainer *t);

#endif

// places.h - of the documents of every query, at which place each is.
#ifndef FT_PLACES_H
#define FT_PLACES_H

#include "engine/data/dataset.h"
#include "engine/metrics/logits.h"

typedef struct ft_places {
    int32_t *query, *rank; // [examples] of base/spill.h: from 0; from 1, equal scores in the order of the file. NULL: there are no queries
} ft_places;

// By the only output. Free it also on failure.
ft_status ft_places_find(const ft_dataset *data, ft_logits *logits, ft_places *places);
void ft_places_free(ft_places *places); // {0} is fine

#endif

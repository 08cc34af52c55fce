// token_ids.h - a growing list of token ids: what every kind of tokenizer writes to.
#ifndef FT_TOKEN_IDS_H
#define FT_TOKEN_IDS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_token_ids {
    int32_t *ids; // grown with realloc; free() it
    size_t count, capacity;
} ft_token_ids;

// Room for `more` behind those that are there.
ft_status ft_token_ids_reserve(ft_token_ids *ids, size_t more);

#endif

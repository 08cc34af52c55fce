#include "engine/text/token_ids.h"

#include "base/arena.h"

ft_status ft_token_ids_reserve(ft_token_ids *out, size_t more) {
    if (out->capacity - out->count >= more) return FT_OK;
    size_t capacity = out->count + out->count / 2 + more + 32;
    int32_t *ids = ft_realloc(out->ids, capacity, sizeof *ids, "token ids");
    if (ids == NULL) return FT_NO_MEMORY;
    out->ids = ids, out->capacity = capacity;
    return FT_OK;
}

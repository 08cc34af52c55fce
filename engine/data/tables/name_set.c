#include "engine/data/tables/name_set.h"

#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// FNV-1a
static uint64_t hash_of(const char *name) {
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h ^ h >> 29;
}

// Where it is, or belongs; there is a free slot.
static size_t slot_of(const char *const *slot, size_t slots, const char *name) {
    size_t at = hash_of(name) & (slots - 1);
    while (slot[at] != NULL && strcmp(slot[at], name) != 0) at = (at + 1) & (slots - 1);
    return at;
}

const char *ft_name_set_find(const ft_name_set *set, const char *name) {
    return set->slots > 0 ? set->slot[slot_of(set->slot, set->slots, name)] : NULL;
}

static ft_status grow(ft_name_set *set) {
    const size_t slots = set->slots > 0 ? 2 * set->slots : 64;
    const char **slot = ft_calloc(slots, sizeof *slot, "names");
    if (slot == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < set->slots; i++)
        if (set->slot[i] != NULL) slot[slot_of(slot, slots, set->slot[i])] = set->slot[i];
    free(set->slot);
    set->slot = slot;
    set->slots = slots;
    return FT_OK;
}

ft_status ft_name_set_add(ft_name_set *set, const char *name) {
    if (2 * (set->count + 1) > set->slots) FT_TRY(grow(set));
    set->slot[slot_of(set->slot, set->slots, name)] = name;
    set->count++;
    return FT_OK;
}

void ft_name_set_free(ft_name_set *set) {
    free(set->slot);
    *set = (ft_name_set){0};
}

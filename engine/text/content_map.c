#include "engine/text/content_map.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

// FNV-1a
static uint64_t hash_of(const char *text) {
    uint64_t h = 0xCBF29CE484222325u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001B3u;
    return h ^ h >> 29;
}

// Where it is, or belongs; there is a free slot.
static struct ft_content_slot *slot_of(const ft_content_map *map, const char *content) {
    size_t at = hash_of(content) & (map->slots - 1);
    while (map->slot[at].content != NULL && strcmp(map->slot[at].content, content) != 0)
        at = (at + 1) & (map->slots - 1);
    return &map->slot[at];
}

int32_t ft_content_map_find(const ft_content_map *map, const char *content) {
    const struct ft_content_slot *found = map->slots > 0 ? slot_of(map, content) : NULL;
    return found != NULL && found->content != NULL ? found->index : -1;
}

static ft_status grow(ft_content_map *map) {
    ft_content_map larger = {.slots = map->slots > 0 ? 2 * map->slots : 64, .count = map->count};
    larger.slot = ft_calloc(larger.slots, sizeof *larger.slot, "added tokens");
    if (larger.slot == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < map->slots; i++)
        if (map->slot[i].content != NULL) *slot_of(&larger, map->slot[i].content) = map->slot[i];
    free(map->slot);
    *map = larger;
    return FT_OK;
}

ft_status ft_content_map_add(ft_content_map *map, const char *content, int32_t index) {
    if (2 * (map->count + 1) > map->slots) FT_TRY(grow(map));
    *slot_of(map, content) = (struct ft_content_slot){content, index};
    map->count++;
    return FT_OK;
}

void ft_content_map_free(ft_content_map *map) {
    free(map->slot);
    *map = (ft_content_map){0};
}

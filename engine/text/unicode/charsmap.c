#include "engine/text/unicode/charsmap.h"

#include "base/utf8.h"
#include "engine/text/unicode/text_classes.h"

#include <string.h>

// A unit of the trie: label in the low byte, bit 8: an entry ends here, the rest (bit 9: shifted by 8) where children
// are.
static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6); }

// What the shortest entry that starts `text` becomes; NULL if there is none. A hostile file may point anywhere: what
// lies outside counts as no entry.
static const char *find(const ft_charsmap *map, const char *text, size_t length) {
    if (map->unit_count == 0) return NULL;
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < length && text[i] != '\0'; i++) {
        at ^= (unsigned char)text[i];
        if (at >= map->unit_count) return NULL;
        uint32_t unit = map->units[at];
        if ((unit & ((1u << 31) | 0xFF)) != (unsigned char)text[i]) return NULL;
        at ^= offset_of(unit);
        if (unit >> 8 & 1) {
            if (at >= map->unit_count) return NULL;
            size_t value = map->units[at] & ~(1u << 31);
            bool inside = value < map->strings_length && ((unsigned char)map->strings[value] & 0xC0) != 0x80;
            return inside ? map->strings + value : NULL;
        }
    }
    return NULL;
}

ft_status ft_charsmap_open(ft_arena *arena, const void *data, size_t size, const char *where, ft_charsmap *map) {
    uint32_t trie;
    *map = (ft_charsmap){0};
    for (int c = 0; c < 128; c++)
        map->ascii[c] = (signed char)c;
    if (size == 0) return FT_OK; // no map: text passes unchanged
    if (size < sizeof trie) return ft_fail(FT_INVALID, where, "the character map is cut short (%zu bytes)", size);
    memcpy(&trie, data, sizeof trie);
    if (trie > size - sizeof trie || trie % sizeof *map->units != 0)
        return ft_fail(FT_INVALID, where, "the character map's table (%u bytes) does not fit into its %zu bytes",
                       (unsigned)trie, size);
    char *copy = ft_arena_alloc(arena, size);
    if (copy == NULL) return FT_NO_MEMORY;
    memcpy(copy, data, size);
    map->data = copy, map->size = size;
    map->units = (const uint32_t *)(const void *)(copy + sizeof trie), map->unit_count = trie / sizeof *map->units;
    map->strings = copy + sizeof trie + trie, map->strings_length = size - sizeof trie - trie;
    if (map->strings_length > 0 && map->strings[map->strings_length - 1] != '\0')
        return ft_fail(FT_INVALID, where, "the character map is cut short: its last string has no end");
    if (ft_utf8_valid_prefix(map->strings, map->strings_length) != map->strings_length)
        return ft_fail(FT_INVALID, where, "the character map holds text that is not valid UTF-8");
    for (int c = 0; c < 128; c++) {
        char text = (char)c;
        const char *to = find(map, &text, 1);
        if (to == NULL) continue;
        map->ascii[c] = to[0] != '\0' && to[1] == '\0' && (unsigned char)to[0] < 128 ? (signed char)to[0] : -1;
    }
    return FT_OK;
}

static ft_status put(ft_text_buffer *out, const char *text, size_t length) {
    if (length == 0) return FT_OK;
    FT_TRY(ft_text_reserve(out, length));
    memcpy(out->data + out->count, text, length);
    out->count += length;
    return FT_OK;
}

ft_status ft_charsmap_apply(const ft_charsmap *map, const char *text, size_t length, ft_text_buffer *out,
                            bool *kept_start) {
    enum { SHORT = 6 }; // clusters of fewer bytes are looked up as a whole
    for (size_t at = 0, next; at < length; at = next) {
        size_t from = out->count, end = at;
        FT_TRY(ft_text_reserve(out, length - at));
        // ASCII between ASCII is a cluster of its own, unless it is CR LF.
        while (end < length && (signed char)text[end] >= 0 && (end + 1 == length || (signed char)text[end + 1] >= 0) &&
               map->ascii[(int)text[end]] >= 0 && text[end] != '\r')
            out->data[out->count++] = (char)map->ascii[(int)text[end++]];
        next = end;
        if (end > at) continue;
        next = at + ft_grapheme(text + at, length - at);
        const char *to = next - at < SHORT ? find(map, text + at, next - at) : NULL;
        if (to != NULL)
            FT_TRY(put(out, to, strlen(to)));
        else
            for (size_t i = at, j; i < next; i = j) {
                const unsigned char *p = (const unsigned char *)text + i;
                (void)ft_utf8_next(&p);
                j = (size_t)(p - (const unsigned char *)text);
                to = find(map, text + i, j - i);
                FT_TRY(to != NULL ? put(out, to, strlen(to)) : put(out, text + i, j - i));
            }
        if (at == 0 && out->count == from) *kept_start = false;
    }
    return FT_OK;
}

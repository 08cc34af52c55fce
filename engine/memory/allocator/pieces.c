// pieces.c - which pages of a range came as one, and so go back as one: a mark on every page but the first of a large
// piece (kernels/ops/range_pieces.h). The table ends with the last page that was ever committed; on devices without
// pieces there is none.
#include "base/arena.h"
#include "engine/memory/allocator/internal.h"
#include "kernels/ops/range_pieces.h"

#include <string.h>

ft_status ft_pieces_spare(const ft_allocator *a, ft_segment *segment, size_t end) {
    const size_t pages = end / segment->page;
    if (a->piece == 0 || pages <= segment->table) return FT_OK;
    unsigned char *grown = ft_realloc(segment->inside, pages, 1, "the allocator's pieces");
    if (grown == NULL) return FT_NO_MEMORY;
    memset(grown + segment->table, 0, pages - segment->table);
    segment->inside = grown;
    segment->table = pages;
    return FT_OK;
}

void ft_pieces_commit(const ft_allocator *a, ft_segment *segment, size_t offset, size_t bytes) {
    const size_t large = ft_range_in_pieces(a->piece, segment->page, bytes);
    for (size_t at = 0; at < large; at += segment->page)
        segment->inside[(offset + at) / segment->page] = at % a->piece != 0;
}

void ft_pieces_decommit(ft_segment *segment, size_t offset, size_t bytes) {
    if (segment->table > 0) memset(segment->inside + offset / segment->page, 0, bytes / segment->page);
}

bool ft_pieces_cut(const ft_segment *segment, size_t page) { return page < segment->table && segment->inside[page]; }

size_t ft_pieces_up(const ft_segment *segment, size_t offset) {
    size_t page = ft_round_up(offset, segment->page) / segment->page;
    while (ft_pieces_cut(segment, page))
        page++;
    return page * segment->page;
}

size_t ft_pieces_down(const ft_segment *segment, size_t offset) {
    size_t page = offset / segment->page;
    while (ft_pieces_cut(segment, page))
        page--;
    return page * segment->page;
}

// large.c - a table of a file that is larger than memory may be: read in pieces, its texts kept in scratch files. Labels and ids, of which
// most are the same as others, are kept once.
#include "base/sha256.h"
#include "base/spill.h"
#include "engine/data/tables/blocks.h"
#include "engine/data/tables/name_set.h"
#include "engine/data/tables/records.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 20, NAMES_KEPT_ONCE = 1 << 16 };

// Texts lie behind each other in chunks that do not move.
struct ft_chunks {
    char **chunk; // [count]
    int count, room;
    size_t used, size; // of the last
};

typedef struct reading {
    ft_table *table;
    ft_name_set names;
} reading;

void ft_table_free_chunks(ft_table *table) {
    struct ft_chunks *c = table->chunks;
    if (c == NULL) return;
    for (int i = 0; i < c->count; i++) ft_spill_free(c->chunk[i]);
    free(c->chunk);
    free(c);
    table->chunks = NULL;
}

static ft_status add_chunk(struct ft_chunks *c, size_t bytes) {
    if (c->count == c->room) {
        const int room = 2 * c->room + 16;
        char **larger = ft_realloc(c->chunk, (size_t)room, sizeof *larger, "texts");
        if (larger == NULL) return FT_NO_MEMORY;
        c->chunk = larger;
        c->room = room;
    }
    if (c->count > 0) ft_spill_settle(c->chunk[c->count - 1]);
    c->size = bytes > CHUNK ? bytes : CHUNK;
    c->used = 0;
    c->chunk[c->count] = ft_spill_calloc(c->size, 1, "texts");
    if (c->chunk[c->count] == NULL) return FT_NO_MEMORY;
    c->count++;
    return FT_OK;
}

// A copy with a NUL behind it.
static ft_status keep(ft_table *table, const char *text, size_t length, const char **kept) {
    struct ft_chunks *c = table->chunks;
    if (c->count == 0 || c->size - c->used <= length) FT_TRY(add_chunk(c, length + 1));
    char *to = c->chunk[c->count - 1] + c->used;
    memcpy(to, text, length);
    to[length] = '\0';
    c->used += length + 1;
    *kept = to;
    return FT_OK;
}

static ft_status keep_name(reading *r, const char *name, const char **kept) {
    *kept = ft_name_set_find(&r->names, name);
    if (*kept != NULL) return FT_OK;
    FT_TRY(keep(r->table, name, strlen(name), kept));
    return r->names.count < NAMES_KEPT_ONCE ? ft_name_set_add(&r->names, *kept) : FT_OK;
}

static ft_status take_row(reading *r, const ft_table *piece, int64_t from, const ft_selection *chosen, const char *file) {
    ft_table *t = r->table;
    const int64_t row = t->rows;
    if (row == INT32_MAX) return ft_fail_at(file, piece->line[from], 0, "more than 2147483647 rows");
    FT_TRY(ft_table_room_for_row(t, chosen));
    t->line[row] = piece->line[from];
    FT_TRY(keep(t, piece->text[from], piece->text_length[from], &t->text[row]));
    t->text_length[row] = piece->text_length[from];
    if (t->pair != NULL) {
        FT_TRY(keep(t, piece->pair[from], piece->pair_length[from], &t->pair[row]));
        t->pair_length[row] = piece->pair_length[from];
    }
    if (t->label != NULL) FT_TRY(keep_name(r, piece->label[from], &t->label[row]));
    if (t->id != NULL) FT_TRY(keep_name(r, piece->id[from], &t->id[row]));
    t->rows++;
    return FT_OK;
}

// What was read does not change any more.
static void send_to_disk(ft_table *t) {
    const size_t rows = (size_t)t->rows;
    struct ft_chunks *c = t->chunks;
    if (c->count > 0) ft_spill_written(c->chunk[c->count - 1], c->used);
    ft_spill_written(t->text, rows * sizeof *t->text);
    ft_spill_written(t->text_length, rows * sizeof *t->text_length);
    ft_spill_written(t->pair, rows * sizeof *t->pair);
    ft_spill_written(t->pair_length, rows * sizeof *t->pair_length);
    ft_spill_written(t->label, rows * sizeof *t->label);
    ft_spill_written(t->id, rows * sizeof *t->id);
    ft_spill_written(t->line, rows * sizeof *t->line);
}

static ft_status take_piece(reading *r, const ft_table *piece, const ft_blocks *b) {
    static const ft_selection plain = {.pair = FT_NO_COLUMN, .id = FT_NO_COLUMN}; // of lines that are texts
    const ft_selection *chosen = b->layout.columns > 0 ? &b->layout.chosen : &plain;
    r->table->format = piece->format;
    r->table->delimiter = piece->delimiter;
    r->table->label_lists = r->table->label_lists || piece->label_lists;
    for (int64_t i = 0; i < piece->rows; i++) FT_TRY(take_row(r, piece, i, chosen, ft_source_display(b->path)));
    send_to_disk(r->table);
    return FT_OK;
}

static ft_status read_pieces(reading *r, ft_blocks *b) {
    for (bool found = true;;) {
        ft_table piece;
        FT_TRY(ft_blocks_next(b, &piece, &found));
        if (!found) return FT_OK;
        ft_status status = take_piece(r, &piece, b);
        ft_table_free(&piece);
        FT_TRY(status);
    }
}

static ft_status read_all(reading *r, ft_blocks *b, const ft_table_request *request) {
    ft_table *table = r->table;
    unsigned char digest[32];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    b->hash = &hash;
    FT_TRY(read_pieces(r, b));
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, table->sha256);
    if (b->layout.columns > 0) FT_TRY(ft_table_name_columns(table, &b->layout));
    else table->text_column = "text";
    return ft_table_check_rows(table, ft_source_display(b->path), request);
}

ft_status ft_table_read_large(const char *path, const ft_table_request *request, size_t piece, ft_table *table) {
    memset(table, 0, sizeof *table);
    reading r = {.table = table};
    ft_blocks blocks;
    ft_status status = ft_blocks_open(path, request, piece, &blocks);
    table->chunks = status == FT_OK ? ft_calloc(1, sizeof *table->chunks, "texts") : NULL;
    if (status == FT_OK && table->chunks == NULL) status = FT_NO_MEMORY;
    if (status == FT_OK) status = read_all(&r, &blocks, request);
    ft_arena_join(&table->arena, &blocks.layout.arena); // the names of the columns
    ft_blocks_close(&blocks);
    ft_name_set_free(&r.names);
    if (status != FT_OK) ft_table_free(table);
    return status;
}

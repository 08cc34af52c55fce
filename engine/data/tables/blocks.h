// blocks.h - a file of texts a piece after the other, for who answers while he reads: the rows are those of ft_table_read, in memory
// that does not grow with the file.
//
// What is packed, or in UTF-16, is decoded as it is read (decode.h); a mistake in a row is then found before damage behind it. Windows-1252 is told from broken UTF-8 by the first piece that is not
// ASCII. A Parquet file is read as JSON lines (parquet.h), unless it comes from a pipe. A pipe is not waited for: what has come is a piece as soon as it ends behind a row.
#ifndef FT_BLOCKS_H
#define FT_BLOCKS_H

#include "engine/data/tables/parquet.h"
#include "engine/data/tables/source.h"
#include "engine/data/tables/table.h"

typedef struct ft_blocks {
    const char *path; // "-" is standard input
    ft_table_request request;
    ft_table_layout layout;
    ft_encoding encoding;
    int file;
    bool conll;  // it must be had whole, as SQuAD's JSON: its rows do not end with a line
    bool ended;  // everything was read, and decoded
    bool known;  // looked at its first bytes
    struct ft_block_stage {
        ft_decoder *decoder;
        char *data; // [at, length) came in and was not taken
        size_t at, length, capacity;
        bool last;  // nothing comes behind
    } stage[2]; // unpacks; makes UTF-8 of UTF-16
    int stages;
    ft_parquet *parquet; // what is read instead of the file; NULL: it is none
    char *data;  // [length] was read and not handed out yet
    size_t length, capacity;
    size_t bytes;       // about so many are a piece; the caller may change it. SIZE_MAX: all of them
    int64_t rows;       // and no more of these, as its lines tell; 0: any number. The caller sets it
    struct ft_sha256_state *hash; // takes the bytes as they lie on the disk; NULL: nobody wants it
    int64_t read;       // bytes, as they lie on the disk
    int64_t done, size; // of these handed out, or, of what is decoded, read; of the file, 0: nobody knows
} ft_blocks;

// FT_INVALID: there is no such file. Close it also then.
ft_status ft_blocks_open(const char *path, const ft_table_request *request, size_t bytes, ft_blocks *blocks);
// The next rows; *found false: there are none left. The names of the columns live until close, all else with the table. Errors are those
// of ft_table_read.
ft_status ft_blocks_next(ft_blocks *blocks, ft_table *table, bool *found);
// Whoever spent so many seconds on the last piece has a larger one next time, as long as people need not wait for it: the larger, the less
// it costs to begin one. The first is of FT_FIRST_PIECE bytes.
enum { FT_FIRST_PIECE = 1 << 16, FT_LARGEST_PIECE = 1 << 19 };
void ft_blocks_pace(ft_blocks *blocks, double seconds);
void ft_blocks_close(ft_blocks *blocks);

#endif

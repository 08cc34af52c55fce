// parquet.h - a Parquet file as JSON lines, an object a row, made by DuckDB (duckdb_library.h) as they are asked for:
// lists, structs and numbers come as the same rows in a file of JSON lines would, and the line of a mistake is the
// number of its row.
#ifndef FT_PARQUET_H
#define FT_PARQUET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

// Do these first bytes of a file say so?
bool ft_is_parquet(const char *data, size_t length);
bool ft_file_is_parquet(const char *path); // false also of what cannot be read, and of a pipe

typedef struct ft_parquet ft_parquet;
// file: open for reading, and for as long as this is. Columns of bytes (BLOB) are left out. FT_INVALID with `name`: it
// is damaged, or there is no DuckDB (then with the commands that help). FT_FAILED: DuckDB was named and cannot be used.
ft_status ft_parquet_open(int file, const char *name, ft_parquet **parquet);
// Some of what follows, at most `room` bytes; *ended, and then none: there is no more. FT_INVALID: it is damaged.
ft_status ft_parquet_read(ft_parquet *parquet, char *out, size_t room, size_t *got, bool *ended);
const char *ft_parquet_left_out(const ft_parquet *parquet); // the names of these columns; NULL: there are none
// JSON lines from the beginning, as many bytes of them as there is room for; 0: none, for whatever reason, and no
// error.
size_t ft_parquet_peek(const char *path, char *out, size_t room);
void ft_parquet_close(ft_parquet *parquet); // NULL is fine

#endif

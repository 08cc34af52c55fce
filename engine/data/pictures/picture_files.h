// picture_files.h - the bytes of the pictures that the rows of a table name, whenever they are wanted.
//
//     FT_TRY(ft_picture_files_open(source, &table, &files));       // the table may go then
//     FT_TRY(ft_picture_files_read(files, row, &bytes));           // in any thread
//     ... ft_picture_decode(bytes.bytes, bytes.length, ft_picture_files_where(files, row, where), &picture)
//     ft_picture_bytes_free(&bytes);
#ifndef FT_PICTURE_FILES_H
#define FT_PICTURE_FILES_H

#include "engine/data/tables/table.h"

enum { FT_PICTURE_WHERE = 4096 };

typedef struct ft_picture_files ft_picture_files; // read-only once it is open

typedef struct ft_picture_bytes {
    const void *bytes;
    size_t length;
    bool mapped; // else of the heap
} ft_picture_bytes;

// source: what the table was read from. Names are copied, large lists of them into files (base/spill.h). No picture is looked at.
ft_status ft_picture_files_open(const char *source, const ft_table *table, ft_picture_files **files);
void ft_picture_files_close(ft_picture_files *files); // NULL is fine
size_t ft_picture_files_host_bytes(const ft_picture_files *files); // NULL: 0
int64_t ft_picture_files_count(const ft_picture_files *files);
// As the table has it. It lives as long as the files.
const char *ft_picture_files_name(const ft_picture_files *files, int64_t row);
// Where that lies, for messages: a path, or an archive and who is meant in it.
const char *ft_picture_files_where(const ft_picture_files *files, int64_t row, char where[FT_PICTURE_WHERE]);
// FT_INVALID: it cannot be read, or is not what it was. *bytes is {0} then.
ft_status ft_picture_files_read(const ft_picture_files *files, int64_t row, ft_picture_bytes *bytes);
void ft_picture_bytes_free(ft_picture_bytes *bytes); // {0} is fine

#endif

// source.h - what data.train and its like may name of pictures, as a table of names and labels: a file of paths, a folder.
#ifndef FT_PICTURE_SOURCE_H
#define FT_PICTURE_SOURCE_H

#include "engine/data/tables/table.h"

// Is it a file (or standard input) whose rows name pictures, which tables/ reads, and not a folder?
bool ft_picture_source_is_file(const char *source);
// The table of any of them; request->pictures. Errors: those of table.h and folder.h.
ft_status ft_picture_source_read(const char *source, const ft_table_request *request, ft_table *table);

#endif

// source.h - what data.train and its like may name of pictures, as a table of names and labels: a file of paths, a folder, a split of a well-known
// set, archives of samples.
#ifndef FT_PICTURE_SOURCE_H
#define FT_PICTURE_SOURCE_H

#include "engine/data/tables/table.h"

// Is it a file (or standard input) whose rows name pictures, which tables/ reads, and none of the others?
bool ft_picture_source_is_file(const char *source);
// The table of any of them; request->pictures. Errors: those of table.h, folder.h, known_sets.h and shards.h.
ft_status ft_picture_source_read(const char *source, const ft_table_request *request, ft_table *table);

// Which column of a file has the paths of pictures, or else the texts: data.image or data.text_column; "": by usual names. FT_INVALID: both, and they
// differ; or data.image where texts are read (`model` is who reads, for the message).
ft_status ft_picture_column(const ft_config *config, bool pictures, const char *model, const char **column);

// What stands in front of the table's names, with its '/'; "" for the working directory. In the arena; NULL with the error set.
const char *ft_picture_source_folder(const char *source, ft_arena *arena);

#endif

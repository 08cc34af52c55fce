// folder.h - a folder of pictures as a table: paths and classes.
#ifndef FT_FOLDER_H
#define FT_FOLDER_H

#include "engine/data/tables/table.h"

// A folder a class, as torchvision's ImageFolder and datasets' imagefolder have it: root/CLASS/.../FILE, classes and files in the order of their
// bytes, files by the suffixes of pictures in any case (.jpg .jpeg .png .webp; those of formats that cannot be read are listed too, and refused
// when they are read). Where no labels are asked for, pictures may lie in the folder itself. Names that begin with a dot are left out.
// The table's columns are file_name, relative to the folder, and label; its digest is of that list. FT_INVALID with the folder: nothing in it, an
// empty class, files beside classes, or a folder of splits (train, val, test), which are told.
ft_status ft_folder_read(const char *path, const ft_table_request *request, ft_table *table);

// Has it the suffix of a picture, one that can be read or another?
bool ft_is_picture_name(const char *name);

// What stands in front of relative names in a file, a folder or standard input ("-"): the folder, or that of the file, with its '/'; "" for the
// working directory. In the arena; NULL with the error set.
const char *ft_folder_of(ft_arena *arena, const char *source);

#endif

#include "engine/data/pictures/source.h"

#include "base/files.h"
#include "engine/data/pictures/folder.h"

bool ft_picture_source_is_file(const char *source) { return !ft_path_is_directory(source); }

ft_status ft_picture_source_read(const char *source, const ft_table_request *request, ft_table *table) {
    return ft_picture_source_is_file(source) ? ft_table_read(source, request, table) : ft_folder_read(source, request, table);
}

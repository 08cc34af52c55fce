#include "engine/data/pictures/source.h"

#include "base/files.h"
#include "engine/data/pictures/folder.h"
#include "engine/data/pictures/known_sets.h"
#include "engine/data/pictures/shards.h"

#include <string.h>

// The split of "DIRECTORY#SPLIT"; else NULL.
static const char *split_of(const char *source, ft_arena *arena, const char **directory) {
    const char *split = ft_data_path_split(source, arena, directory);
    ft_error_clear(); // a name with '#' that is nothing is looked for as a file
    return split;
}

bool ft_picture_source_is_file(const char *source) {
    ft_arena arena = {0};
    const char *directory;
    const bool other = ft_path_is_directory(source) || ft_shards_are(source) || split_of(source, &arena, &directory) != NULL;
    ft_arena_free(&arena);
    return !other;
}

const char *ft_picture_source_folder(const char *source, ft_arena *arena) {
    const char *directory;
    if (ft_shards_are(source)) return ft_arena_strndup(arena, source, ft_shards_folder(source));
    return ft_folder_of(arena, split_of(source, arena, &directory) != NULL ? directory : source);
}

ft_status ft_picture_column(const ft_config *config, bool pictures, const char *model, const char **column) {
    const char *image = config->data.image, *text = config->data.text_column;
    *column = image[0] != '\0' ? image : text;
    if (image[0] == '\0') return FT_OK;
    if (!pictures) {
        ft_fail(FT_INVALID, "data.image", "this is for pictures, and %s reads texts", model);
        ft_hint("data.text_column names the column of texts");
        return FT_INVALID;
    }
    if (text[0] == '\0' || strcmp(image, text) == 0) return FT_OK;
    ft_fail(FT_INVALID, "data.image", "the pictures are in the column \"%s\", and data.text_column says \"%s\"", image, text);
    ft_hint("of pictures data.image alone is enough");
    return FT_INVALID;
}

static ft_status read_set(const char *directory, const char *split, const ft_table_request *request, ft_table *table) {
    const ft_known_set *set = ft_known_set_at(directory);
    if (set != NULL && (split != NULL || request->need != FT_LABEL_IGNORED)) return ft_known_set_read(set, directory, split, request, table);
    if (split == NULL) return ft_folder_read(directory, request, table);
    ft_fail(FT_INVALID, directory, "this folder is no set that has a split \"%.40s\"", split);
    ft_hint("flowers102 and CUB-200-2011 have splits, as they are downloaded; elsewhere each has a folder or a file");
    return FT_INVALID;
}

ft_status ft_picture_source_read(const char *source, const ft_table_request *request, ft_table *table) {
    ft_arena arena = {0};
    const char *directory, *split = split_of(source, &arena, &directory);
    ft_status status;
    if (split != NULL) status = read_set(directory, split, request, table);
    else if (ft_path_is_directory(source)) status = read_set(source, NULL, request, table);
    else status = (ft_shards_are(source) ? ft_shards_read : ft_table_read)(source, request, table);
    ft_arena_free(&arena);
    return status;
}

// data_path.h - what data.train and its like may name beside a file: a split of a well-known set of pictures as it is downloaded, DIRECTORY#SPLIT,
// and the shards of an archive, A-{000..012}.tar.
#ifndef FT_DATA_PATH_H
#define FT_DATA_PATH_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ft_known_set_kind { FT_KNOWN_FLOWERS, FT_KNOWN_BIRDS } ft_known_set_kind;

typedef struct ft_known_set {
    ft_known_set_kind kind;
    const char *name;
    const char *marks[3]; // one of these files says that a directory is such a set; ends with NULL
    const char *needs[6]; // files and directories that it then has; ends with NULL
    bool validates;       // it has a validation split beside train and test
} ft_known_set;

// The set that lies in a directory; NULL: none, or there is no such directory.
const ft_known_set *ft_known_set_at(const char *directory);
// "DIRECTORY#SPLIT" of a directory that is there: the split, and the directory in the arena; NULL, with *directory NULL: the path is none of that
// form, or (then an error is set) there is no memory.
const char *ft_data_path_split(const char *path, ft_arena *arena, const char **directory);

// Paths of training, validation and test data: a well-known set in the first gives its other splits to those that are empty (no validation
// where it is `cut` from the training data), and its split of the same name to those that name it without one. FT_INVALID, at the option: it has
// no such split.
enum { FT_DATA_PATHS = 3 };
ft_status ft_data_paths_complete(const char *paths[FT_DATA_PATHS], bool cut, ft_arena *arena);

// How many files "{000..012}" in a path comes to, all of them in it multiplied, the last counting fastest; 1: there is none.
// FT_INVALID: braces that are no such range, or come to more than a million.
ft_status ft_shard_count(const char *path, int64_t *count);
// The name of one of them, from 0, in the arena.
ft_status ft_shard_path(const char *path, int64_t shard, ft_arena *arena, const char **name);

// Is there something at it? Of shards the first is looked for.
bool ft_data_path_exists(const char *path);

#endif

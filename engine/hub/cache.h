// cache.h - the cache of models that huggingface_hub keeps, read and written in its layout, so that either program
// finds what the other fetched:
//
//     <cache>/models--ORG--NAME/blobs/<checksum>                  contents
//                               snapshots/<commit>/config.json    links to them, ../../blobs/<checksum>
//                               refs/main                         the commit that a branch or tag was at when fetched
//     <cache>/.locks/models--ORG--NAME/<checksum>.lock            held (flock) while a content is fetched
//
// <cache> is HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub. Nothing here touches the network.
#ifndef FT_HUB_CACHE_H
#define FT_HUB_CACHE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct ft_hub_name {
    const char *repo;     // "microsoft/deberta-v3-base", "bert-base-uncased"
    const char *revision; // a branch, a tag or a commit; "main" when none was given
} ft_hub_name;

// NAME or NAME@REVISION. FT_INVALID for what the hub would not take as a name, and for revisions that are no names of
// files (they become some in refs/).
ft_status ft_hub_name_parse(const char *text, ft_arena *arena, ft_hub_name *name);

// NULL with the error set (out of memory, no home directory).
char *ft_hub_home(ft_arena *arena);  // HF_HOME or its default
char *ft_hub_cache(ft_arena *arena); // <cache>
char *ft_hub_repo_directory(ft_arena *arena, const char *repo);

// The directory that model.path means: an absolute path itself where it exists; a name, "microsoft/deberta-v3-base@main", its
// snapshot in the cache. (The options make what exists absolute, and leave names.) *directory is NULL where there is neither;
// that is no error. A snapshot counts when it has config.json (other programs may have fetched a tokenizer alone).
ft_status ft_hub_find(const char *path, ft_arena *arena, const char **directory);
// The error for a path that ft_hub_find found nothing for: FT_INVALID, with what to type.
ft_status ft_hub_not_found(const char *path);
// The same for a directory without weights, which may be a snapshot whose fetching has not ended.
ft_status ft_hub_no_weights(const char *path, const char *directory);

#endif

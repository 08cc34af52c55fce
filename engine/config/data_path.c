#include "engine/config/data_path.h"

#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- well-known sets --------------------------------------------------------------------------------------------------------

static const ft_known_set sets[] = {
    {FT_KNOWN_FLOWERS, "flowers102", {"setid.mat", "imagelabels.mat"}, {"jpg", "imagelabels.mat", "setid.mat"}, true},
    {FT_KNOWN_BIRDS,
     "CUB-200-2011",
     {"train_test_split.txt", "image_class_labels.txt"},
     {"images", "images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"},
     false},
};
enum { SETS = sizeof sets / sizeof sets[0] };

static bool holds(const char *directory, const char *name) {
    ft_arena arena = {0};
    const char *path = ft_path_join(&arena, directory, name);
    const bool there = path != NULL && ft_path_exists(path);
    ft_arena_free(&arena);
    return there;
}

const ft_known_set *ft_known_set_at(const char *directory) {
    if (directory[0] == '\0' || !ft_path_is_directory(directory)) return NULL;
    for (int i = 0; i < SETS; i++)
        for (const char *const *mark = sets[i].marks; *mark != NULL; mark++)
            if (holds(directory, *mark)) return &sets[i];
    return NULL;
}

const char *ft_data_path_split(const char *path, ft_arena *arena, const char **directory) {
    const char *mark = strrchr(path, '#');
    *directory = NULL;
    if (mark == NULL || mark == path || strchr(mark, '/') != NULL || ft_path_exists(path)) return NULL;
    const char *in_front = ft_arena_strndup(arena, path, (size_t)(mark - path));
    if (in_front == NULL || !ft_path_is_directory(in_front)) return NULL;
    *directory = in_front;
    return mark + 1;
}

// ---- the splits of a run ----------------------------------------------------------------------------------------------------

static const char *const split_names[FT_DATA_PATHS] = {"train", "validation", "test"};

static bool has_split(const ft_known_set *set, int split) { return split != 1 || set->validates; }

static ft_status no_split(const ft_known_set *set, const char *directory, int split) {
    char option[32];
    snprintf(option, sizeof option, "data.%s", split_names[split]);
    ft_fail(FT_INVALID, option, "%s has no %s split (%s)", set->name, split_names[split], directory);
    ft_hint("data.validation_split=0.1 holds out a tenth of data.train");
    return FT_INVALID;
}

ft_status ft_data_paths_complete(const char *paths[FT_DATA_PATHS], bool cut, ft_arena *arena) {
    const char *whole = paths[0];
    const ft_known_set *training = ft_known_set_at(whole);
    for (int split = 0; split < FT_DATA_PATHS; split++) {
        const bool absent = paths[split][0] == '\0';
        const ft_known_set *set = absent ? training : ft_known_set_at(paths[split]);
        if (set == NULL || (absent && (!has_split(set, split) || (split == 1 && cut)))) continue;
        if (!has_split(set, split)) return no_split(set, paths[split], split);
        paths[split] = ft_arena_format(arena, "%s#%s", absent ? whole : paths[split], split_names[split]);
        if (paths[split] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

// ---- shards -----------------------------------------------------------------------------------------------------------------

enum { MOST_SHARDS = 1000000, MOST_DIGITS = 9 };

typedef struct range {
    const char *begin, *end; // the brace, and what is behind it
    int64_t from, count;
    int width; // digits, with zeros in front; 0: as many as it takes
} range;

// The next {A..B} from `at` on; begin NULL: there is none.
static ft_status next_range(const char *path, const char *at, range *r) {
    const char *begin = strchr(at, '{');
    *r = (range){.begin = begin};
    if (begin == NULL) return FT_OK;
    const size_t first = strspn(begin + 1, "0123456789");
    const char *dots = begin + 1 + first, *last = dots + 2;
    const size_t second = strncmp(dots, "..", 2) == 0 ? strspn(last, "0123456789") : 0;
    if (first == 0 || second == 0 || first > MOST_DIGITS || second > MOST_DIGITS || last[second] != '}') {
        ft_fail(FT_INVALID, path, "braces in the name of an archive that are no range");
        ft_hint("shards are named like train-{000..012}.tar");
        return FT_INVALID;
    }
    r->end = last + second + 1;
    r->from = strtol(begin + 1, NULL, 10);
    r->count = strtol(last, NULL, 10) - r->from + 1;
    if ((begin[1] == '0' && first > 1) || (last[0] == '0' && second > 1)) r->width = (int)(first > second ? first : second);
    if (r->count < 1) return ft_fail(FT_INVALID, path, "a range that ends before it begins: %.*s", (int)(r->end - begin), begin);
    return FT_OK;
}

ft_status ft_shard_count(const char *path, int64_t *count) {
    range r = {.end = path};
    *count = 1;
    for (;;) {
        FT_TRY(next_range(path, r.end, &r));
        if (r.begin == NULL) return FT_OK;
        *count *= r.count;
        if (*count > MOST_SHARDS) return ft_fail(FT_INVALID, path, "more than %d shards", MOST_SHARDS);
    }
}

ft_status ft_shard_path(const char *path, int64_t shard, ft_arena *arena, const char **name) {
    int64_t inner; // how many the ranges behind this one come to
    range r = {.end = path};
    const char *done = "";
    FT_TRY(ft_shard_count(path, &inner));
    for (const char *at = path;; at = r.end) {
        FT_TRY(next_range(path, at, &r));
        *name = r.begin == NULL ? ft_arena_format(arena, "%s%s", done, at) : NULL;
        if (r.begin == NULL) return *name != NULL ? FT_OK : FT_NO_MEMORY;
        inner /= r.count;
        done = ft_arena_format(arena, "%s%.*s%0*lld", done, (int)(r.begin - at), at, r.width, (long long)(r.from + shard / inner));
        if (done == NULL) return FT_NO_MEMORY;
        shard %= inner;
    }
}

bool ft_data_path_exists(const char *path) {
    ft_arena arena = {0};
    const char *directory, *first;
    bool there = ft_path_exists(path) || ft_data_path_split(path, &arena, &directory) != NULL;
    if (!there && strchr(path, '{') != NULL) {
        there = ft_shard_path(path, 0, &arena, &first) == FT_OK && ft_path_exists(first);
        ft_error_clear();
    }
    ft_arena_free(&arena);
    return there;
}

#include "engine/data/pictures/folder.h"

#include "base/files.h"
#include "engine/data/pictures/listing.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEEPEST = 32 };

const char *ft_folder_of(ft_arena *arena, const char *source) {
    if (strcmp(source, "-") == 0) return "";
    if (ft_path_is_directory(source)) return ft_arena_format(arena, "%s/", source);
    const char *slash = strrchr(source, '/');
    return slash != NULL ? ft_arena_strndup(arena, source, (size_t)(slash - source) + 1) : "";
}

bool ft_is_picture_name(const char *name) {
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png", ".webp", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".gif"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return true;
    return false;
}

// ---- the names in one directory ---------------------------------------------------------------------------------------------

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }
static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static ft_status list(const char *path, struct dirent ***names, int *count) {
    *count = scandir(path, names, visible, by_bytes);
    return *count >= 0 ? FT_OK : ft_fail_errno(FT_INVALID, errno, path, "cannot read the folder");
}
static void free_list(struct dirent **names, int count) {
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
}

// ---- the list ---------------------------------------------------------------------------------------------------------------

typedef struct listing {
    ft_listing list;
    const char *root;
    const char *label; // of what is listed now; NULL: none
} listing;

// relative "": the root. Directories below it are gone through where they have a class already.
static ft_status walk(listing *l, const char *relative, int depth, bool below);

static ft_status walk_entry(listing *l, const char *relative, const char *name, int depth, bool below) {
    char here[PATH_MAX], whole[2 * PATH_MAX];
    struct stat about;
    if (snprintf(here, sizeof here, "%s%s%s", relative, relative[0] != '\0' ? "/" : "", name) >= (int)sizeof here)
        return ft_fail(FT_INVALID, l->root, "a path in this folder is longer than %d bytes", PATH_MAX - 1);
    snprintf(whole, sizeof whole, "%s/%s", l->root, here);
    if (stat(whole, &about) != 0) return ft_fail_errno(FT_INVALID, errno, whole, "cannot be looked at");
    if (S_ISDIR(about.st_mode)) return below ? walk(l, here, depth + 1, below) : FT_OK;
    return S_ISREG(about.st_mode) && ft_is_picture_name(name) ? ft_listing_add(&l->list, here, l->label) : FT_OK;
}

static ft_status walk(listing *l, const char *relative, int depth, bool below) {
    char whole[2 * PATH_MAX];
    struct dirent **names;
    int count;
    if (depth > DEEPEST) return ft_fail(FT_INVALID, l->root, "folders in it are more than %d deep", DEEPEST);
    snprintf(whole, sizeof whole, "%s/%s", l->root, relative);
    FT_TRY(list(whole, &names, &count));
    ft_status status = FT_OK;
    for (int i = 0; i < count && status == FT_OK; i++) status = walk_entry(l, relative, names[i]->d_name, depth, below);
    free_list(names, count);
    return status;
}

static bool is_folder(const char *root, const char *name) {
    char whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", root, name);
    return ft_path_is_directory(whole);
}

// A folder of splits is none of classes.
static ft_status refuse_splits(const listing *l, struct dirent **names, int count) {
    const char *train = NULL, *other = NULL;
    for (int i = 0; i < count; i++) {
        if (!is_folder(l->root, names[i]->d_name)) continue;
        if (strcasecmp(names[i]->d_name, "train") == 0) train = names[i]->d_name;
        else if (strcasecmp(names[i]->d_name, "test") == 0 || strncasecmp(names[i]->d_name, "val", 3) == 0) other = names[i]->d_name;
        else return FT_OK;
    }
    if (train == NULL || other == NULL) return FT_OK;
    ft_fail(FT_INVALID, l->root, "this folder has one for %s and one for %s, not for classes", train, other);
    ft_hint("data.train=%s/%s data.validation=%s/%s", l->root, train, l->root, other);
    return FT_INVALID;
}

static ft_status walk_classes(listing *l, struct dirent **names, int count) {
    for (int i = 0; i < count; i++) {
        if (!is_folder(l->root, names[i]->d_name)) continue;
        const int64_t before = l->list.files;
        l->label = names[i]->d_name;
        FT_TRY(walk(l, names[i]->d_name, 1, true));
        if (l->list.files == before) return ft_fail(FT_INVALID, l->root, "there is no picture in its folder \"%.100s\"", names[i]->d_name);
    }
    return FT_OK;
}

static ft_status list_folder(listing *l, const ft_table_request *request) {
    struct dirent **names;
    int count;
    if (request->need == FT_LABEL_IGNORED) return walk(l, "", 0, true);
    FT_TRY(list(l->root, &names, &count));
    ft_status status = refuse_splits(l, names, count);
    if (status == FT_OK) status = walk_classes(l, names, count);
    free_list(names, count);
    if (status != FT_OK || l->list.labelled) return status;
    if (request->need == FT_LABEL_OPTIONAL) return walk(l, "", 0, false);
    ft_fail(FT_INVALID, l->root, "there are no folders of classes in it");
    ft_hint("a folder a class, named like it; or a CSV or JSON lines file with the columns file_name and label");
    return FT_INVALID;
}

ft_status ft_folder_read(const char *path, const ft_table_request *request, ft_table *table) {
    listing l = {.root = path};
    FT_TRY(ft_listing_open(path, &l.list));
    return ft_listing_end(&l.list, list_folder(&l, request), request, false, table);
}

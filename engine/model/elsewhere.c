#include "engine/model/elsewhere.h"

#include "base/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct ft_elsewhere_file {
    const char *path;
    struct stat facts;
} ft_elsewhere_file;

static bool is_noted(const ft_elsewhere *e, const char *path) {
    for (int i = 0; i < e->count; i++)
        if (strcmp(e->was[i].path, path) == 0) return true;
    return false;
}

// Tensors are in the order of their names: files come in no order.
static ft_status note_files(ft_elsewhere *e) {
    const int tensors = ft_weights_count(e->file);
    e->was = ft_arena_alloc(&e->arena, ((size_t)tensors + 1) * sizeof *e->was);
    if (e->was == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < tensors; i++) {
        const char *path = ft_weights_path(e->file, i);
        ft_elsewhere_file *one = &e->was[e->count];
        if (is_noted(e, path) || stat(path, &one->facts) != 0) continue; // gone, but mapped
        one->path = path;
        e->count++;
    }
    return FT_OK;
}

ft_status ft_elsewhere_open(const char *directory, double initializer_range, uint64_t seed, ft_elsewhere **elsewhere) {
    ft_elsewhere *e = *elsewhere = ft_calloc(1, sizeof *e, "where a trunk is");
    if (e == NULL) return FT_NO_MEMORY;
    e->initializer_range = initializer_range;
    e->seed = seed;
    ft_status status = directory != NULL ? ft_weights_open(directory, &e->file) : FT_OK;
    if (status == FT_OK && e->file != NULL) status = note_files(e);
    if (status == FT_OK) return FT_OK;
    ft_elsewhere_close(e);
    *elsewhere = NULL;
    return status;
}

void ft_elsewhere_close(ft_elsewhere *e) {
    if (e == NULL) return;
    ft_weights_close(e->file);
    ft_arena_free(&e->arena);
    free(e);
}

static bool was_written(const struct stat *was, const struct stat *is) {
    if (was->st_dev != is->st_dev || was->st_ino != is->st_ino)
        return false; // another file, and the mapped one is as it was
    return was->st_size != is->st_size || was->st_mtim.tv_sec != is->st_mtim.tv_sec ||
           was->st_mtim.tv_nsec != is->st_mtim.tv_nsec;
}

ft_status ft_elsewhere_check(const ft_elsewhere *e) {
    for (int i = 0; e != NULL && i < e->count; i++) {
        struct stat is;
        if (stat(e->was[i].path, &is) != 0 || !was_written(&e->was[i].facts, &is)) continue;
        ft_fail(FT_FAILED, e->was[i].path,
                "the file was written over while a run used it: the layers that its head is saved with are lost");
        ft_hint("with data.feature_cache=off a run needs the file of its model only when it starts");
        return FT_FAILED;
    }
    return FT_OK;
}

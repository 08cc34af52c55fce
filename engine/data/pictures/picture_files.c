#include "engine/data/pictures/picture_files.h"

#include "base/files.h"
#include "base/heap.h"
#include "base/spill.h"
#include "engine/data/pictures/shards.h"
#include "engine/data/pictures/source.h"
#include "engine/data/pictures/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct place {
    int64_t shard, offset, size;
} place;

struct ft_picture_files {
    ft_arena arena;
    const char *source;    // archives are named by it
    const char *directory; // that relative names begin in, with its '/'; "": the working directory
    int64_t count;
    char *names;   // one behind the other, each with its NUL
    int64_t *name; // [count] where each begins
    place *place;  // [count] in archives; NULL: they are files
};

// ---- names ------------------------------------------------------------------------------------------------------------------

static ft_status copy_names(ft_picture_files *f, const ft_table *table) {
    size_t bytes = 1, at = 0;
    for (int64_t i = 0; i < table->rows; i++) {
        if (memchr(table->text[i], '\0', table->text_length[i]) != NULL) return ft_fail(FT_INVALID, table->text[i], "a NUL byte in the name of a picture");
        bytes += table->text_length[i] + 1;
    }
    f->names = ft_spill_calloc(bytes, 1, "the names of pictures");
    f->name = ft_spill_calloc((size_t)table->rows + 1, sizeof *f->name, "the names of pictures");
    if (f->names == NULL || f->name == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < table->rows; i++) {
        f->name[i] = (int64_t)at;
        memcpy(f->names + at, table->text[i], table->text_length[i]);
        at += table->text_length[i] + 1;
    }
    f->count = table->rows;
    ft_spill_settle(f->names);
    ft_spill_settle(f->name);
    return FT_OK;
}

// ---- places in archives -----------------------------------------------------------------------------------------------------

typedef struct finding {
    ft_picture_files *files;
    int64_t found;
} finding;

// The rows of a table are in the order of the archives, though some may be in another table.
static ft_status take_place(void *context, const ft_sample *sample) {
    finding *in = context;
    ft_picture_files *f = in->files;
    if (in->found == f->count || strcmp(ft_picture_files_name(f, in->found), sample->name) != 0) return FT_OK;
    f->place[in->found++] = (place){.shard = sample->shard, .offset = sample->offset, .size = sample->size};
    return FT_OK;
}

static ft_status find_places(ft_picture_files *f) {
    finding in = {.files = f};
    f->place = ft_spill_calloc((size_t)f->count + 1, sizeof *f->place, "the places of pictures");
    if (f->place == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_shards_walk(f->source, false, take_place, &in));
    if (in.found < f->count) return ft_fail(FT_INVALID, f->source, "the archive was changed meanwhile: %s is gone", ft_picture_files_name(f, in.found));
    ft_spill_settle(f->place);
    return FT_OK;
}

// ---- interface ------------------------------------------------------------------------------------------------------

static ft_status open_files(ft_picture_files *f, const char *source, const ft_table *table) {
    f->source = ft_arena_strdup(&f->arena, source);
    f->directory = ft_picture_source_folder(source, &f->arena);
    if (f->source == NULL || f->directory == NULL) return FT_NO_MEMORY;
    FT_TRY(copy_names(f, table));
    return ft_shards_are(source) ? find_places(f) : FT_OK;
}

ft_status ft_picture_files_open(const char *source, const ft_table *table, ft_picture_files **files) {
    ft_picture_files *f = *files = ft_calloc(1, sizeof *f, "the files of pictures");
    if (f == NULL) return FT_NO_MEMORY;
    const ft_status status = open_files(f, source, table);
    if (status == FT_OK) return FT_OK;
    ft_picture_files_close(f);
    *files = NULL;
    return status;
}

void ft_picture_files_close(ft_picture_files *f) {
    if (f == NULL) return;
    ft_spill_free(f->names);
    ft_spill_free(f->name);
    ft_spill_free(f->place);
    ft_arena_free(&f->arena);
    free(f);
}

size_t ft_picture_files_host_bytes(const ft_picture_files *f) {
    return f != NULL ? ft_spill_host_bytes(f->names) + ft_spill_host_bytes(f->name) + ft_spill_host_bytes(f->place) : 0;
}

int64_t ft_picture_files_count(const ft_picture_files *f) { return f->count; }
const char *ft_picture_files_name(const ft_picture_files *f, int64_t row) { return f->names + f->name[row]; }

const char *ft_picture_files_where(const ft_picture_files *f, int64_t row, char where[FT_PICTURE_WHERE]) {
    const char *name = ft_picture_files_name(f, row);
    snprintf(where, FT_PICTURE_WHERE, "%s%s", name[0] == '/' ? "" : f->directory, name);
    return where;
}

// ---- bytes ------------------------------------------------------------------------------------------------------------------

static ft_status read_place(const ft_picture_files *f, const place *p, ft_picture_bytes *bytes) {
    ft_arena arena = {0};
    const char *path;
    int file = -1;
    void *room = ft_calloc((size_t)p->size + 1, 1, "a picture in an archive");
    ft_status status = room != NULL ? ft_shards_path(f->source, p->shard, &arena, &path) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_open_input(path, &file);
    if (status == FT_OK) status = ft_tar_bytes(file, path, p->offset, p->size, room);
    if (file >= 0) close(file);
    ft_arena_free(&arena);
    if (status == FT_OK) *bytes = (ft_picture_bytes){.bytes = room, .length = (size_t)p->size};
    else free(room);
    return status;
}

ft_status ft_picture_files_read(const ft_picture_files *f, int64_t row, ft_picture_bytes *bytes) {
    char path[FT_PICTURE_WHERE];
    if (f->place != NULL) {
        *bytes = (ft_picture_bytes){.bytes = NULL};
        return read_place(f, &f->place[row], bytes);
    }
    *bytes = (ft_picture_bytes){.mapped = true};
    return ft_map_file(ft_picture_files_where(f, row, path), &bytes->bytes, &bytes->length);
}

void ft_picture_bytes_free(ft_picture_bytes *bytes) {
    if (bytes->mapped) ft_unmap_file(bytes->bytes, bytes->length);
    else free((void *)(uintptr_t)bytes->bytes);
    *bytes = (ft_picture_bytes){.bytes = NULL};
}

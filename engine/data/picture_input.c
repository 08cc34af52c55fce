// picture_input.c - pictures as an input: files, decoded and resized once, when the data set is built. The texts of a table are their paths.
#include "engine/data/broken_pictures.h"
#include "engine/data/order/folds.h"
#include "engine/data/picture_fill.h"
#include "engine/data/picture_set.h"
#include "engine/data/picture_threads.h"

#include "base/files.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/spill.h"
#include "engine/data/input.h"
#include "engine/data/pictures/picture_files.h"
#include "engine/data/pictures/source.h"

#include <stdlib.h>
#include <string.h>

typedef struct pictures {
    ft_picture_rules rules;
    int32_t patch, tokens;
    int workers;
    bool scaled; // data.scaled_decoding
    char digest[65];
} pictures;

static ft_status open_rules(const ft_input_request *request, void **own) {
    pictures *p = ft_calloc(1, sizeof *p, "an input");
    if (p == NULL) return FT_NO_MEMORY;
    *own = p;
    p->patch = request->patch;
    p->tokens = request->tokens;
    p->workers = request->workers;
    p->scaled = request->scaled;
    FT_TRY(ft_picture_rules_load(request->directory, &p->rules));
    return ft_sha256(&p->rules, sizeof p->rules, p->digest); // it was all zero before
}

static ft_input_sizes sizes(const void *own) {
    const pictures *p = own;
    return (ft_input_sizes){.longest = p->tokens + (p->rules.height / p->patch) * (p->rules.width / p->patch), .height = p->rules.height, .width = p->rules.width};
}

static const char *digest(const void *own) { return ((const pictures *)own)->digest; }

static const char *const *files(const void *own) {
    static const char *const names[] = {FT_PICTURE_RULES_FILE, NULL};
    return (void)own, names;
}

// ---- a data set -----------------------------------------------------------------------------------------------------------

typedef struct reading {
    const pictures *by;
    const ft_input_wanted *wanted;
    ft_picture_set *set;
    pthread_mutex_t lock; // of what several threads find out
    bool *done;           // [rows]
    int64_t low;          // rows from the first on that are
    bool listed;          // in a file, which a message names
} reading;

static ft_status decode(const pictures *p, const ft_picture_files *files, int64_t row, const char *where, ft_picture *picture) {
    ft_picture_bytes bytes;
    int32_t width = 0, height = 0;
    if (p->scaled) ft_picture_rules_least(&p->rules, &width, &height);
    FT_TRY(ft_picture_files_read(files, row, &bytes));
    const ft_status status = ft_picture_decode_scaled(bytes.bytes, bytes.length, where, width, height, picture);
    ft_picture_bytes_free(&bytes);
    return status;
}

// What a decoder has beside the picture is at most twice that (a progressive JPEG's coefficients), and so is what comes after it.
static size_t heap_of(const ft_picture_rules *rules, const ft_picture *picture) {
    enum { OF_A_DECODER = 64 << 10 };
    return 3 * FT_PICTURE_CHANNELS * (size_t)picture->width * (size_t)picture->height + (size_t)FT_PICTURE_CHANNELS * (size_t)picture->height * (size_t)rules->width + OF_A_DECODER;
}

static ft_status read_picture(const pictures *p, const ft_picture_files *files, int64_t row, uint8_t *out, size_t *heap) {
    char where[FT_PICTURE_WHERE];
    ft_picture picture = {.pixels = NULL};
    ft_picture_files_where(files, row, where);
    FT_TRY(decode(p, files, row, where, &picture));
    *heap = heap_of(&p->rules, &picture);
    const ft_status status = ft_picture_prepare(&p->rules, &picture, where, out);
    ft_picture_free(&picture);
    return status;
}

static ft_status read_row(void *context, int64_t row) {
    reading *r = context;
    const ft_input_wanted *w = r->wanted;
    ft_picture_set *set = r->set;
    char where[512];
    size_t heap = 0;
    const ft_status status = read_picture(r->by, set->files, row, set->pixels + (size_t)row * ft_picture_set_bytes(set), &heap);
    if (status == FT_INVALID && r->listed) ft_hint("it is named in %s", ft_table_where(w->table, w->path, row, where));
    set->key[row] = (int32_t)w->table->line[row];
    pthread_mutex_lock(&r->lock);
    if (heap > set->largest) set->largest = heap;
    r->done[row] = true;
    while (r->low < w->table->rows && r->done[r->low]) r->low++;
    ft_spill_written(set->pixels, (size_t)r->low * ft_picture_set_bytes(set));
    pthread_mutex_unlock(&r->lock);
    return status;
}

static ft_status read_all(const pictures *p, const ft_input_wanted *w, ft_picture_set *set) {
    reading r = {.by = p, .wanted = w, .set = set, .listed = ft_picture_source_is_file(w->path)};
    FT_TRY(ft_picture_files_open(w->path, w->table, &set->files));
    r.done = ft_calloc((size_t)w->table->rows + 1, sizeof *r.done, "which pictures were read");
    if (r.done == NULL) return FT_NO_MEMORY;
    pthread_mutex_init(&r.lock, NULL);
    const ft_status status = ft_pictures_each(p->workers, w->table->rows, "reading pictures", read_row, &r);
    pthread_mutex_destroy(&r.lock);
    free(r.done);
    ft_spill_settle(set->pixels);
    ft_spill_settle(set->key);
    return status;
}

static ft_status new_set(const pictures *p, int64_t examples, ft_picture_set **out) {
    ft_picture_set *set = *out = ft_calloc(1, sizeof *set, "a set of pictures");
    if (set == NULL) return FT_NO_MEMORY;
    *set = (ft_picture_set){.height = p->rules.height, .width = p->rules.width, .patch = p->patch, .tokens = p->tokens, .rules = p->rules};
    set->pixels = ft_spill_calloc((size_t)examples, ft_picture_set_bytes(set), "pictures");
    set->key = ft_spill_calloc((size_t)examples, sizeof *set->key, "the lines of pictures");
    return set->pixels != NULL && set->key != NULL ? FT_OK : FT_NO_MEMORY;
}

// ---- those that are broken ------------------------------------------------------------------------------------------------

typedef struct looking {
    const pictures *by;
    const ft_picture_files *files;
    size_t bytes; // of a picture in the model's size
    bool *broken; // [rows]
    pthread_mutex_t lock;
    ft_broken_pictures *list;
} looking;

// Of a picture that is broken the message of that; other failures, as for want of memory, are failures.
static ft_status note_broken(looking *l, int64_t row) {
    l->broken[row] = true;
    pthread_mutex_lock(&l->lock);
    ft_broken_picture *of = &l->list->list[l->list->count];
    *of = (ft_broken_picture){.row = row, .name = ft_arena_format(&l->list->arena, "%s", ft_picture_files_name(l->files, row)),
                              .error = ft_arena_format(&l->list->arena, "%s", ft_error_message())};
    const bool there = of->name != NULL && of->error != NULL;
    l->list->count += there;
    pthread_mutex_unlock(&l->lock);
    ft_error_clear();
    return there ? FT_OK : FT_NO_MEMORY;
}

static ft_status look_at(void *context, int64_t row) {
    looking *l = context;
    size_t heap;
    uint8_t *out = ft_calloc(1, l->bytes, "a picture");
    if (out == NULL) return FT_NO_MEMORY;
    const ft_status status = read_picture(l->by, l->files, row, out, &heap);
    free(out);
    return status == FT_INVALID ? note_broken(l, row) : status;
}

static int by_row(const void *a, const void *b) {
    const ft_broken_picture *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

static ft_status look_at_all(const pictures *p, ft_table *table, const char *path, looking *l) {
    ft_picture_files *files = NULL;
    l->broken = ft_calloc((size_t)table->rows + 1, sizeof *l->broken, "broken pictures");
    l->list->list = ft_calloc((size_t)table->rows + 1, sizeof *l->list->list, "broken pictures");
    if (l->broken == NULL || l->list->list == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_picture_files_open(path, table, &files));
    l->files = files;
    ft_status status = ft_pictures_each(p->workers, table->rows, "looking at pictures", look_at, l);
    ft_picture_files_close(files);
    if (status != FT_OK || l->list->count == 0) return status;
    qsort(l->list->list, (size_t)l->list->count, sizeof *l->list->list, by_row);
    ft_table_leave_out(table, l->broken);
    return FT_OK;
}

ft_status ft_picture_input_leave_out(const ft_input *input, ft_table *table, const char *path, ft_broken_pictures *list) {
    const pictures *p = input->own;
    looking l = {.by = p, .bytes = (size_t)p->rules.width * (size_t)p->rules.height * FT_PICTURE_CHANNELS, .list = list};
    *list = (ft_broken_pictures){.count = 0};
    pthread_mutex_init(&l.lock, NULL);
    const ft_status status = look_at_all(p, table, path, &l);
    pthread_mutex_destroy(&l.lock);
    free(l.broken);
    for (int64_t i = 0; status == FT_OK && i < list->count; i++) ft_warn("%s: %s: left out", list->list[i].name, list->list[i].error);
    if (status == FT_OK && list->count > 0)
        ft_warn("%s: %lld of %lld pictures cannot be read and are left out (data.broken_pictures=skip)", path, (long long)list->count, (long long)(table->rows + list->count));
    if (status != FT_OK) ft_broken_pictures_free(list);
    return status;
}

void ft_broken_pictures_free(ft_broken_pictures *list) {
    free(list->list);
    ft_arena_free(&list->arena);
    *list = (ft_broken_pictures){.count = 0};
}

// ---- a data set, built ----------------------------------------------------------------------------------------------------

// Of the list and of what it names.
static void digest_of(const ft_table *table, const ft_picture_set *set, ft_dataset *data) {
    ft_sha256_state hash;
    unsigned char digest[32];
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, table->sha256, sizeof table->sha256);
    for (int64_t i = 0; i < data->examples; i++) ft_sha256_add(&hash, ft_picture_set_at(set, i), ft_picture_set_bytes(set));
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, data->sha256);
}

static ft_status build(const void *own, const ft_input_wanted *w, ft_dataset *data, bool *from_cache) {
    const pictures *p = own;
    ft_picture_set *set;
    *data = (ft_dataset){.examples = 0};
    if (from_cache != NULL) *from_cache = false;
    ft_status status = new_set(p, w->table->rows, &set);
    if (status == FT_OK) status = read_all(p, w, set);
    if (status != FT_OK || set == NULL) {
        ft_picture_set_free(set);
        return status;
    }
    status = ft_picture_set_own(set, w->table->rows, data);
    if (status == FT_OK) status = ft_dataset_take_labels(data, w->labels, w->table, w->path);
    if (status == FT_OK) digest_of(w->table, set, data);
    if (status != FT_OK) ft_dataset_free(data);
    return status;
}

// ---- a batch --------------------------------------------------------------------------------------------------------------

static int64_t length(const ft_dataset *data, int64_t sequence) { return (void)sequence, ft_picture_set_rows(data->pictures); }

const ft_input_kind ft_picture_input = {.name = "pictures",
                                        .open = open_rules,
                                        .close = free,
                                        .sizes = sizes,
                                        .digest = digest,
                                        .files = files,
                                        .build = build,
                                        .length = length,
                                        .fill = ft_picture_fill};

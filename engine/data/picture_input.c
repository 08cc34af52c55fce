// picture_input.c - pictures as an input: files, decoded and resized once, when the data set is built. The texts of a table are their paths.
#include "engine/data/batch.h"
#include "engine/data/picture_set.h"

#include "base/files.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/pace.h"
#include "base/sha256.h"
#include "base/spill.h"
#include "base/stop.h"
#include "engine/data/input.h"
#include "engine/data/pictures/picture_files.h"
#include "kernels/half.h"

#include <stdlib.h>
#include <string.h>

typedef struct pictures {
    ft_picture_rules rules;
    int32_t patch, tokens;
    char digest[65];
} pictures;

static ft_status open_rules(const ft_input_request *request, void **own) {
    pictures *p = ft_calloc(1, sizeof *p, "an input");
    if (p == NULL) return FT_NO_MEMORY;
    *own = p;
    p->patch = request->patch;
    p->tokens = request->tokens;
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

static ft_status read_picture(const pictures *p, const ft_picture_files *files, int64_t row, uint8_t *out) {
    char where[FT_PICTURE_WHERE];
    ft_picture_bytes bytes;
    ft_picture picture;
    FT_TRY(ft_picture_files_read(files, row, &bytes));
    ft_picture_files_where(files, row, where);
    ft_status status = ft_picture_decode(bytes.bytes, bytes.length, where, &picture);
    ft_picture_bytes_free(&bytes);
    FT_TRY(status);
    status = ft_picture_prepare(&p->rules, &picture, where, out);
    ft_picture_free(&picture);
    return status;
}

static ft_status read_row(const pictures *p, const ft_input_wanted *w, const ft_picture_set *set, int64_t row) {
    char where[512];
    const ft_status status = read_picture(p, set->files, row, set->pixels + (size_t)row * ft_picture_set_bytes(set));
    if (status == FT_INVALID && !ft_path_is_directory(w->path)) ft_hint("it is named in %s", ft_table_where(w->table, w->path, row, where));
    return status;
}

static ft_status read_all(const pictures *p, const ft_input_wanted *w, ft_picture_set *set) {
    const size_t bytes = ft_picture_set_bytes(set);
    FT_TRY(ft_picture_files_open(w->path, w->table, &set->files));
    for (int64_t row = 0; row < w->table->rows; row++) {
        FT_TRY(read_row(p, w, set, row));
        ft_spill_written(set->pixels, (size_t)(row + 1) * bytes);
        if (ft_stop_signal() != 0) return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped while pictures were read");
        if (row % 64 == 0) ft_status_line("reading pictures %lld / %lld", (long long)row, (long long)w->table->rows);
    }
    ft_status_line("%s", "");
    ft_spill_settle(set->pixels);
    return FT_OK;
}

static ft_status new_set(const pictures *p, int64_t examples, ft_picture_set **out) {
    ft_picture_set *set = *out = ft_calloc(1, sizeof *set, "a set of pictures");
    if (set == NULL) return FT_NO_MEMORY;
    *set = (ft_picture_set){.height = p->rules.height, .width = p->rules.width, .patch = p->patch, .tokens = p->tokens};
    memcpy(set->value, p->rules.value, sizeof set->value);
    set->pixels = ft_spill_calloc((size_t)examples, ft_picture_set_bytes(set), "pictures");
    return set->pixels != NULL ? FT_OK : FT_NO_MEMORY;
}

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

// A patch as (channel, row, column).
static void fill_floats(const ft_picture_set *set, const uint8_t *corner, float *out) {
    const size_t stride = (size_t)set->width * FT_PICTURE_CHANNELS;
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++)
        for (int32_t y = 0; y < set->patch; y++) {
            const uint8_t *pixel = corner + (size_t)y * stride + c;
            for (int32_t x = 0; x < set->patch; x++, pixel += FT_PICTURE_CHANNELS) *out++ = set->value[c][*pixel];
        }
}

static void fill_halves(const ft_picture_set *set, uint16_t (*value)[256], const uint8_t *corner, uint16_t *out) {
    const size_t stride = (size_t)set->width * FT_PICTURE_CHANNELS;
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++)
        for (int32_t y = 0; y < set->patch; y++) {
            const uint8_t *pixel = corner + (size_t)y * stride + c;
            for (int32_t x = 0; x < set->patch; x++, pixel += FT_PICTURE_CHANNELS) *out++ = value[c][*pixel];
        }
}

// In front of the patches a row's id says which vector it is; patches have 0 (model/blocks/patches.h).
static void fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row) {
    const ft_picture_set *set = data->pictures;
    const ft_dtype type = batch->format.patch_type;
    const size_t bytes = (size_t)ft_picture_set_numbers(set) * ft_dtype_size(type);
    const uint8_t *pixels = ft_picture_set_at(set, ft_dataset_example(data, sequence));
    uint16_t halves[FT_PICTURE_CHANNELS][256];
    char *out = (char *)batch->patch + (size_t)row * bytes;
    for (int c = 0; c < FT_PICTURE_CHANNELS && ft_is_half(type); c++) ft_narrow(type, set->value[c], halves[c], 256);
    for (int32_t i = 0; i < set->tokens; i++, row++, out += bytes) {
        batch->ids[row] = i + 1;
        batch->token_type[row] = 0;
        memset(out, 0, bytes);
    }
    for (int32_t y = 0; y < set->height; y += set->patch)
        for (int32_t x = 0; x < set->width; x += set->patch, row++, out += bytes) {
            const uint8_t *corner = pixels + ((size_t)y * (size_t)set->width + (size_t)x) * FT_PICTURE_CHANNELS;
            batch->ids[row] = batch->token_type[row] = 0;
            if (type == FT_F32) fill_floats(set, corner, (float *)(void *)out);
            else fill_halves(set, halves, corner, (uint16_t *)(void *)out);
        }
}

const ft_input_kind ft_picture_input = {.name = "pictures",
                                        .open = open_rules,
                                        .close = free,
                                        .sizes = sizes,
                                        .digest = digest,
                                        .files = files,
                                        .build = build,
                                        .length = length,
                                        .fill = fill};

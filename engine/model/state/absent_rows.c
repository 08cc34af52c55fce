#include "engine/model/state/absent_rows.h"

#include "base/sha256.h"
#include "kernels/half.h"
#include "kernels/ops/backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ft_parameter *table_of(const ft_absent_rows *rows) { return &rows->parameters->list[rows->parameters->table]; }
static ft_device *device_of(const ft_absent_rows *rows) { return ft_memory_device(rows->parameters->memory); }

ft_status ft_absent_rows_prepare(ft_absent_rows *rows) {
    if (rows->word_rows == NULL || rows->parameters->table_range.weight_decay == 0) return FT_OK;
    void *data;
    FT_TRY(ft_memory_alloc(rows->parameters->memory, FT_DECAY_FACTORS * sizeof(float), FT_MEM_OPTIMIZER, "decay of rows", &data));
    rows->device_factors = data;
    return FT_OK;
}

void ft_absent_rows_free(ft_absent_rows *rows) {
    if (rows->device_factors != NULL) ft_memory_free(rows->parameters->memory, rows->device_factors);
    ft_weights_close(rows->file);
    free(rows->factors);
    memset(rows, 0, sizeof *rows);
}

ft_absent_rows ft_absent_rows_detach(ft_absent_rows *rows) {
    ft_absent_rows host = *rows;
    host.device_factors = NULL;
    rows->file = NULL;
    rows->factors = NULL;
    rows->count = rows->capacity = 0;
    return host;
}

void ft_absent_rows_attach(ft_absent_rows *rows, ft_absent_rows *detached) {
    ft_absent_rows here = *detached;
    here.word_rows = rows->word_rows;
    here.parameters = rows->parameters;
    here.device_factors = rows->device_factors;
    if (here.drawing.parameter != NULL) here.drawing.parameter = table_of(rows);
    *rows = here;
    memset(detached, 0, sizeof *detached);
}

// ---- where the values come from -----------------------------------------------------------------------------------------

static void loaded(ft_absent_rows *rows) {
    rows->in_source = rows->in_held = rows->count;
    rows->sha256[0] = '\0';
}

void ft_absent_rows_from_file(ft_absent_rows *rows, ft_weights *file, int tensor) {
    const char *path = ft_weights_path(file, tensor);
    ft_weights_close(rows->file);
    rows->file = file;
    rows->tensor = tensor;
    if (stat(path, &rows->file_was) != 0) memset(&rows->file_was, 0, sizeof rows->file_was); // gone, but still mapped
    loaded(rows);
}

void ft_absent_rows_from_drawing(ft_absent_rows *rows, ft_drawing drawing) {
    ft_weights_close(rows->file);
    rows->file = NULL;
    rows->drawing = drawing;
    loaded(rows);
}

static ft_status first_values(const ft_absent_rows *rows, int64_t first, int64_t count, float *out) {
    if (rows->file == NULL) return ft_draw_part((void *)&rows->drawing, first, count, out);
    return ft_weights_part_to_f32(rows->file, rows->tensor, first, count, out);
}

// Of the whole table as it lies in the file, all of which must be finite.
static ft_status digest_of(const ft_absent_rows *rows, ft_staging *staging, char sha256[65]) {
    const ft_parameter *table = table_of(rows);
    ft_sha256_state hash;
    unsigned char digest[32];
    ft_sha256_begin(&hash);
    for (int64_t first = 0; first < table->count; first += FT_STAGING_FLOATS) {
        int64_t count = table->count - first < FT_STAGING_FLOATS ? table->count - first : FT_STAGING_FLOATS;
        FT_TRY(first_values(rows, first, count, staging->data));
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(staging->data[i]))
                return ft_fail(FT_INVALID, ft_weights_path(rows->file, rows->tensor),
                               "tensor %s holds a value that is not finite at element %lld", ft_weights_at(rows->file, rows->tensor)->name,
                               (long long)(first + i));
        ft_sha256_add(&hash, staging->data, (size_t)count * sizeof(float));
    }
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, sha256);
    return FT_OK;
}

ft_status ft_absent_rows_digest(ft_absent_rows *rows, ft_staging *staging) {
    if (rows->word_rows == NULL || rows->file == NULL) return FT_OK;
    return digest_of(rows, staging, rows->sha256);
}

// A file that was replaced or removed is still mapped as it was; one that was written over is not, but may hold the same (a
// copy or a touch that gave it another time).
static ft_status check_file(ft_absent_rows *rows, ft_staging *staging) {
    struct stat is;
    const struct stat *was = &rows->file_was;
    char sha256[65];
    if (rows->file == NULL || stat(ft_weights_path(rows->file, rows->tensor), &is) != 0) return FT_OK;
    if (is.st_dev != was->st_dev || is.st_ino != was->st_ino) return FT_OK;
    const bool same_size = is.st_size == was->st_size;
    if (same_size && is.st_mtim.tv_sec == was->st_mtim.tv_sec && is.st_mtim.tv_nsec == was->st_mtim.tv_nsec) return FT_OK;
    if (same_size && rows->sha256[0] != '\0' && digest_of(rows, staging, sha256) == FT_OK && strcmp(sha256, rows->sha256) == 0) {
        rows->file_was = is;
        return FT_OK;
    }
    ft_fail(FT_FAILED, ft_weights_path(rows->file, rows->tensor),
            "the file was written over while a run used it: its rows of %s that training does not read are lost", table_of(rows)->name);
    ft_hint("with memory.active_vocabulary=off a run needs the file of its model only when it starts");
    return FT_FAILED;
}

// ---- what training makes of them ----------------------------------------------------------------------------------------

static ft_status grow(ft_absent_rows *rows, int64_t count) {
    if (count <= rows->capacity) return FT_OK;
    int64_t capacity = 2 * rows->capacity > count ? 2 * rows->capacity : count + 1024;
    float *grown = ft_realloc(rows->factors, (size_t)capacity, sizeof *grown, "the weight decay of the steps");
    if (grown == NULL) return FT_NO_MEMORY;
    rows->factors = grown;
    rows->capacity = capacity;
    return FT_OK;
}

ft_status ft_absent_rows_step(ft_absent_rows *rows, float learning_rate) {
    if (rows->device_factors == NULL) return FT_OK;
    const ft_adamw_range *range = &rows->parameters->table_range;
    FT_TRY(grow(rows, rows->count + 1));
    rows->factors[rows->count++] = ft_adamw_keep(learning_rate, range->lr_scale, range->weight_decay);
    return FT_OK;
}

ft_status ft_absent_rows_restore(ft_absent_rows *rows, int64_t count) {
    FT_TRY(grow(rows, count));
    rows->count = count;
    return FT_OK;
}

// data[0 .. n) on the device through the factors from `from` on.
static ft_status decay(const ft_absent_rows *rows, float *data, int64_t n, int64_t from) {
    ft_device *device = device_of(rows);
    for (int64_t count; from < rows->count; from += count) {
        count = rows->count - from < FT_DECAY_FACTORS ? rows->count - from : FT_DECAY_FACTORS;
        FT_TRY(device->functions->upload(device, rows->device_factors, rows->factors + from, (size_t)count * sizeof(float)));
        const ft_decay_args args = {.parameter = ft_vector(data, n, FT_F32), .factors = rows->device_factors, .count = count};
        FT_TRY(FT_RUN(device, decay, &args));
    }
    return FT_OK;
}

// ---- a window of the table ----------------------------------------------------------------------------------------------

ft_status ft_row_window_open(ft_absent_rows *rows, ft_memory *memory, ft_row_window *window) {
    *window = (ft_row_window){.scratch = NULL};
    FT_TRY(ft_staging_open(memory, &window->staging));
    FT_TRY(check_file(rows, &window->staging));
    if (rows->device_factors == NULL || !ft_device_queues(ft_memory_device(memory))) return FT_OK;
    return ft_memory_alloc(memory, FT_STAGING_FLOATS * sizeof(float), FT_MEM_WORKSPACE, "a window of absent rows", &window->scratch);
}

void ft_row_window_close(ft_row_window *window) {
    if (window->staging.memory != NULL) ft_memory_free(window->staging.memory, window->scratch);
    ft_staging_close(&window->staging);
    window->scratch = NULL;
}

// The first `count` numbers of the window, once first values, through all factors.
static ft_status decay_window(const ft_absent_rows *rows, const ft_row_window *window, int64_t count) {
    ft_device *device = device_of(rows);
    const size_t bytes = (size_t)count * sizeof(float);
    float *data = window->staging.data;
    if (rows->in_source == rows->count) return FT_OK;
    if (window->scratch == NULL) return decay(rows, data, count, rows->in_source);
    FT_TRY(device->functions->upload(device, window->scratch, data, bytes));
    FT_TRY(decay(rows, window->scratch, count, rows->in_source));
    FT_TRY(device->functions->download(device, data, window->scratch, bytes));
    return device->functions->sync(device);
}

// ---- the rows that only evaluations read --------------------------------------------------------------------------------

// Their weights in fp32 go on from where they are.
static ft_status decay_held(const ft_absent_rows *rows, int64_t n) {
    const ft_parameter *table = table_of(rows);
    ft_device *device = device_of(rows);
    float *weights = ft_parameter_weight(rows->parameters, rows->parameters->table).data;
    FT_TRY(decay(rows, weights + table->trained * table->cols, n, rows->in_held));
    return device->functions->sync(device); // the factors may move when more come
}

typedef struct making {
    const ft_absent_rows *rows;
    const ft_row_window *window;
} making;

// Elements of these rows from their first values on, for ft_staging_upload: `out` is the window.
static ft_status make_part(void *context, int64_t first, int64_t count, float *out) {
    const making *m = context;
    const ft_parameter *table = table_of(m->rows);
    for (int64_t at = first; at < first + count;) {
        int64_t row = table->trained + at / table->cols, col = at % table->cols, left = first + count - at;
        int64_t piece = table->cols - col < left ? table->cols - col : left;
        FT_TRY(first_values(m->rows, m->rows->word_rows->id_of[row] * table->cols + col, piece, out + (at - first)));
        at += piece;
    }
    return decay_window(m->rows, m->window, count);
}

// Those in 16 bits are rounded from fp32, which is kept nowhere: they are made anew. The window is opened also when there is
// nothing to do, so that every evaluation holds what the plan says.
static ft_status make_held(ft_absent_rows *rows, int64_t n) {
    const ft_parameter *table = table_of(rows);
    ft_row_window window;
    ft_status status = ft_row_window_open(rows, rows->parameters->memory, &window);
    if (status == FT_OK && rows->in_held < rows->count) {
        ft_staged to = {.tensor = ft_parameter_weight(rows->parameters, rows->parameters->table), .first = table->trained * table->cols};
        status = ft_staging_upload(&window.staging, to, n, make_part, &(making){rows, &window});
    }
    ft_row_window_close(&window);
    return status;
}

ft_status ft_absent_rows_refresh(ft_absent_rows *rows) {
    if (rows->device_factors == NULL) return FT_OK;
    const ft_parameter *table = table_of(rows);
    const int64_t n = (table->held - table->trained) * table->cols;
    // Of several ranks the first does it for all: they begin an evaluation together (pass.c).
    if (n > 0 && !ft_memory_is_guest(rows->parameters->memory)) FT_TRY(rows->parameters->dtype == FT_F32 ? decay_held(rows, n) : make_held(rows, n));
    rows->in_held = rows->count;
    return FT_OK;
}

// ---- the whole table ----------------------------------------------------------------------------------------------------

// A table that is not trained is rounded: so is what of it is on a device and is saved from there.
static void round_window(const ft_absent_rows *rows, float *data, int64_t count) {
    if (!table_of(rows)->trainable) ft_staging_round(rows->parameters->dtype, data, count);
}

// Trained rows that follow each other in the table come together.
static int64_t neighbours(const ft_absent_rows *rows, int64_t id, int64_t last) {
    const ft_word_rows *w = rows->word_rows;
    int64_t end = id + 1;
    while (end < last && w->row_of[end] >= 0 && w->row_of[end] < w->trained) end++;
    return end - id;
}

ft_status ft_absent_rows_read(ft_absent_rows *rows, ft_row_window *window, int64_t first, int64_t count) {
    const ft_word_rows *w = rows->word_rows;
    const ft_parameter *table = table_of(rows);
    ft_staged trained = ft_parameter_stored(rows->parameters, rows->parameters->table);
    const int64_t cols = table->cols, end = first + count, last = (end + cols - 1) / cols;
    bool absent = false;
    for (int64_t id = first / cols; id < last; id++) absent = absent || w->row_of[id] < 0 || w->row_of[id] >= w->trained;
    if (absent) {
        FT_TRY(first_values(rows, first, count, window->staging.data));
        FT_TRY(decay_window(rows, window, count));
        round_window(rows, window->staging.data, count);
    }
    for (int64_t id = first / cols, together; id < last; id += together) { // over them the trained ones
        together = 1;
        if (w->row_of[id] < 0 || w->row_of[id] >= w->trained) continue;
        together = neighbours(rows, id, last);
        int64_t from = id * cols > first ? id * cols : first, to = (id + together) * cols < end ? (id + together) * cols : end;
        trained.first = w->row_of[id] * cols + (from - id * cols);
        FT_TRY(ft_staging_download(&window->staging, trained, to - from, from - first));
    }
    return FT_OK;
}

#include "engine/model/model_files.h"

#include "base/files.h"
#include "engine/files/safetensors.h"
#include "engine/files/weights.h"
#include "engine/model/blocks/patches.h"
#include "engine/model/elsewhere.h"
#include "engine/model/position_grid.h"
#include "engine/model/state/kept.h"
#include "engine/model/state/row_norms.h"
#include "engine/model/state/staging.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the rows of the word table that are on the device --------------------------------------------------------------------

typedef struct gathering {
    const ft_word_rows *word_rows;
    int64_t cols;
    int64_t first;            // of the elements that are there, where the gathering begins
    ft_staging_source source; // of the whole table
    void *context;
} gathering;

static ft_status gather_part(void *context, int64_t first, int64_t count, float *out) {
    const gathering *g = context;
    for (int64_t at = first; at < first + count;) {
        int64_t row = (g->first + at) / g->cols, col = (g->first + at) % g->cols, left = first + count - at;
        int64_t piece = g->cols - col < left ? g->cols - col : left;
        FT_TRY(g->source(g->context, g->word_rows->id_of[row] * g->cols + col, piece, out + (at - first)));
        at += piece;
    }
    return FT_OK;
}

static ft_status upload_rows(ft_model *m, ft_staging *staging, ft_staging_source source, void *context) {
    const ft_parameter *table = &m->parameters.list[m->word];
    gathering g = {.word_rows = m->absent.word_rows, .cols = table->cols, .source = source, .context = context};
    FT_TRY(ft_staging_upload(staging, ft_parameter_stored(&m->parameters, m->word), table->trained * table->cols, gather_part, &g));
    g.first = table->trained * table->cols; // the others are rounded
    ft_staged others = {.tensor = ft_parameter_home(&m->parameters, m->word), .first = g.first};
    return ft_staging_upload(staging, others, (table->held - table->trained) * table->cols, gather_part, &g);
}

// ---- drawing ----------------------------------------------------------------------------------------------------------

static ft_drawing drawing_of(const ft_model *m, int index, double initializer_range, uint64_t seed) {
    const ft_parameter *p = &m->parameters.list[index];
    bool padded = index == m->word || (index == m->position && m->position_padding >= 0);
    if (m->family->draws_by_width && p->head && p->rows > 0)
        initializer_range = index == m->pooler.weight ? initializer_range / sqrt(2.0 * m->layers) : 1 / sqrt((double)p->cols);
    ft_drawing d = ft_drawing_of(p, initializer_range, seed, padded ? m->padding_id : -1);
    if (m->family->draws_by_width) d.cut = 2;
    d.waves = index == m->position && m->sinusoidal_positions;
    return d;
}

static ft_status draw_parameter(ft_model *m, int index, double initializer_range, uint64_t seed, ft_staging *staging) {
    const ft_parameter *p = &m->parameters.list[index];
    const bool rows = index == m->word && m->absent.word_rows != NULL;
    if (p->drawn.kind == FT_DRAWN_NORMS) return ft_draw_row_norms(staging, &m->parameters, index);
    ft_drawing d = drawing_of(m, index, initializer_range, seed);
    if (rows) ft_absent_rows_from_drawing(&m->absent, d);
    if (ft_parameter_is_absent(&m->parameters, index)) return FT_OK;
    if (ft_kept_quantised(&m->parameters, index)) return ft_kept_upload(staging, &m->parameters, index, ft_draw_part, &d);
    if (rows) return upload_rows(m, staging, ft_draw_part, &d);
    return ft_staging_upload(staging, ft_parameter_stored(&m->parameters, index), p->count, ft_draw_part, &d);
}

ft_status ft_model_draw(ft_model *model, double initializer_range, uint64_t seed) {
    ft_staging staging;
    FT_TRY(ft_staging_open(model->memory, &staging));
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < model->parameters.count; i++)
        if (!ft_parameter_is_lent(&model->parameters, i)) status = draw_parameter(model, i, initializer_range, seed, &staging);
    ft_staging_close(&staging);
    return status;
}

// ---- loading ----------------------------------------------------------------------------------------------------------

// Most usual first.
int ft_model_files_find(const ft_weights *weights, const ft_family *family, const char *name) {
    size_t prefixed = strlen(family->prefix);
    const bool has_prefix = strncmp(name, family->prefix, prefixed) == 0;
    const char *bare = has_prefix ? name + prefixed : name;
    char other[256] = "";
    if (has_prefix && family->old_prefix != NULL) snprintf(other, sizeof other, "%s%s", family->old_prefix, bare);
    for (int prefix = 0; prefix < 3; prefix++) {
        const char *base = prefix == 0 ? name : prefix == 1 ? bare : other;
        int found = ft_weights_find(weights, base);
        if (found >= 0) return found;
        const char *norm = strstr(base, "LayerNorm.");
        if (norm == NULL) continue;
        char old[256];
        bool is_weight = strcmp(norm, "LayerNorm.weight") == 0;
        snprintf(old, sizeof old, "%.*sLayerNorm.%s", (int)(norm - base), base, is_weight ? "gamma" : "beta");
        found = ft_weights_find(weights, old);
        if (found >= 0) return found;
    }
    return -1;
}

static void shape_text(const int64_t *shape, int rank, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
}

static ft_status check_shape(const ft_model *m, const ft_weights *weights, int index, const ft_parameter *p) {
    const ft_safetensor *t = ft_weights_at(weights, index);
    int64_t want[FT_PARAMETER_RANK];
    int rank = ft_parameter_shape(p, want);
    if (t->rank == rank && memcmp(t->shape, want, (size_t)rank * sizeof *want) == 0) return FT_OK;
    char have_text[128], want_text[64];
    shape_text(t->shape, t->rank, have_text, sizeof have_text);
    shape_text(want, rank, want_text, sizeof want_text);
    ft_fail(FT_INVALID, ft_weights_path(weights, index), "tensor %s has shape [%s], the model needs [%s]", t->name, have_text, want_text);
    if (p->head && t->rank == rank && t->shape[0] != want[0])
        ft_hint("the file's head was trained for %lld outputs, this task has %d; model.ignore_mismatched_sizes = true draws a new one",
                (long long)t->shape[0], m->labels);
    else if (p->head)
        ft_hint("the file's head is another than model.head.hidden asks for; model.ignore_mismatched_sizes = true draws a new one");
    return FT_INVALID;
}

typedef struct loading {
    const ft_weights *weights;
    int index;
    int64_t from; // element of the tensor that is the first of the piece
} loading;

static ft_status load_part(void *context, int64_t first, int64_t count, float *out) {
    const loading *l = context;
    first += l->from;
    FT_TRY(ft_weights_part_to_f32(l->weights, l->index, first, count, out));
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return ft_fail(FT_INVALID, ft_weights_path(l->weights, l->index), "tensor %s holds a value that is not finite at element %lld",
                           ft_weights_at(l->weights, l->index)->name, (long long)(first + i));
    return FT_OK;
}

// What is read where it lies is looked at once, as all that is loaded.
static ft_status check_mapped(const ft_parameter *p, const ft_weights *weights, int found, ft_staging *staging) {
    for (int64_t first = 0, n; first < p->count; first += n) {
        n = p->count - first < FT_STAGING_FLOATS ? p->count - first : FT_STAGING_FLOATS;
        FT_TRY(load_part(&(loading){weights, found, 0}, first, n, staging->data));
    }
    return FT_OK;
}

typedef struct kept_loading {
    loading from;
    const ft_parameter *parameter;
} kept_loading;

// In the order of memory.
static ft_status load_kept_part(void *context, int64_t first, int64_t count, float *out) {
    kept_loading *l = context;
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done;
        const int64_t element = ft_parameter_source(l->parameter, first + done, &n);
        FT_TRY(load_part(&l->from, element, n, out + done));
    }
    return FT_OK;
}

static ft_status load_parameter(ft_model *m, int index, const ft_weights *weights, int found, ft_staging *staging) {
    const ft_parameter *p = &m->parameters.list[index];
    const ft_packed *packed = ft_weights_packed(weights, found);
    if (p->mapped != NULL) return check_mapped(p, weights, found, staging);
    if (packed != NULL && ft_kept_takes(&m->parameters, index, packed)) return ft_kept_upload_packed(staging, &m->parameters, index, packed);
    if (ft_kept_quantised(&m->parameters, index))
        return ft_kept_upload(staging, &m->parameters, index, load_kept_part, &(kept_loading){{weights, found, 0}, p});
    ft_staged to = ft_parameter_stored(&m->parameters, index);
    if (index == m->word && m->absent.word_rows != NULL) return upload_rows(m, staging, load_part, &(loading){weights, found, 0});
    for (int64_t done = 0, count; done < p->count; done += count) {
        count = p->count - done;
        to.first = ft_parameter_place(p, done, &count);
        FT_TRY(ft_staging_upload(staging, to, count, load_part, &(loading){weights, found, done}));
    }
    return FT_OK;
}

// ---- positions of pictures of another size --------------------------------------------------------------------------------

static bool is_other_grid(const ft_model *m, int index, const ft_weights *weights, int found, ft_position_grid *grid) {
    const ft_parameter *p = &m->parameters.list[index];
    const ft_safetensor *t = ft_weights_at(weights, found);
    if (m->patches == NULL || index != m->position || t->rank != 3 || t->shape[0] != 1 || t->shape[2] != p->cols || t->shape[1] == p->rows) return false;
    return ft_position_grid_of(t->shape[1], m->patches->vectors - 1, grid);
}

static ft_status take_part(void *context, int64_t first, int64_t count, float *out) {
    memcpy(out, (const float *)context + first, (size_t)count * sizeof *out);
    return FT_OK;
}

static ft_status load_other_grid(ft_model *m, int index, const ft_weights *weights, int found, ft_position_grid grid, ft_staging *staging) {
    const ft_parameter *p = &m->parameters.list[index];
    const int64_t have = (grid.tokens + grid.height * grid.width) * p->cols;
    float *from = ft_calloc((size_t)have, sizeof *from, "positions of a file"), *to = ft_calloc((size_t)p->count, sizeof *to, "positions of a model");
    ft_status status = from != NULL && to != NULL ? load_part(&(loading){weights, found, 0}, 0, have, from) : FT_NO_MEMORY;
    if (status == FT_OK) {
        ft_position_grid_resize(from, grid, to, (ft_position_grid){grid.tokens, m->patches->height, m->patches->width}, p->cols);
        status = ft_staging_upload(staging, ft_parameter_stored(&m->parameters, index), p->count, take_part, to);
    }
    free(from);
    free(to);
    return status;
}

// In words that live on.
static const char *form_of(const ft_packed *packed) {
    static const char *const forms[] = {"nf4", "fp4", "int8"};
    for (size_t i = 1; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(packed->type, forms[i]) == 0) return forms[i];
    return packed->nested ? "nf4_double" : forms[0];
}

static ft_status load_all(ft_model *m, const ft_weights *weights, double range, uint64_t seed, ft_staging *staging,
                          ft_arena *arena, ft_load_report *report) {
    int tensors = ft_weights_count(weights);
    bool *used = ft_arena_alloc(arena, (size_t)tensors + 1);
    report->drawn = ft_arena_alloc(arena, (size_t)m->parameters.count * sizeof *report->drawn);
    report->ignored = ft_arena_alloc(arena, ((size_t)tensors + 1) * sizeof *report->ignored);
    if (used == NULL || report->drawn == NULL || report->ignored == NULL) return FT_NO_MEMORY;
    bool new_layer = false; // the weight just handled was drawn because the file's has another shape
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *p = &m->parameters.list[i];
        if (p->adapter) {
            FT_TRY(draw_parameter(m, i, range, seed, staging));
            continue;
        }
        int found = ft_model_files_find(weights, m->family, p->name);
        if (new_layer && p->rows == 0) found = -1; // its bias belongs to the old weight
        new_layer = false;
        if (found >= 0 && p->head && m->ignore_mismatched_sizes && check_shape(m, weights, found, p) != FT_OK) {
            ft_error_clear();
            found = -1;
            new_layer = p->rows > 0;
        }
        if (found < 0) {
            if (!p->head)
                return ft_fail(FT_INVALID, ft_weights_list_path(weights), "tensor %s is missing", p->name);
            FT_TRY(draw_parameter(m, i, range, seed, staging));
            report->drawn[report->drawn_count++] = p->name;
            continue;
        }
        ft_position_grid grid;
        const bool other = is_other_grid(m, i, weights, found, &grid);
        if (!other) FT_TRY(check_shape(m, weights, found, p));
        if (ft_parameter_is_lent(&m->parameters, i) || ft_parameter_is_absent(&m->parameters, i)) {
        } else if (other) FT_TRY(load_other_grid(m, i, weights, found, grid, staging));
        else FT_TRY(load_parameter(m, i, weights, found, staging));
        used[found] = true;
        const ft_packed *packed = ft_weights_packed(weights, found);
        if (packed != NULL && p->factor && !p->trainable && !ft_kept_takes(&m->parameters, i, packed))
            report->unpacked = form_of(packed);
    }
    for (int k = 0; k < tensors; k++) {
        if (used[k]) continue;
        const char *name = ft_arena_strdup(arena, ft_weights_at(weights, k)->name);
        if (name == NULL) return FT_NO_MEMORY;
        report->ignored[report->ignored_count++] = name;
    }
    return FT_OK;
}

ft_status ft_model_find_pooler(const char *model_dir, ft_model_config *config) {
    ft_weights *weights;
    char name[128];
    bool exist;
    FT_TRY(ft_weights_exist(model_dir, &exist));
    if (!exist || config->family->pooler == NULL || config->mean_head || (config->token_head && !config->family->token_pooler)) return FT_OK;
    FT_TRY(ft_weights_open(model_dir, &weights));
    snprintf(name, sizeof name, "%s.weight", config->family->pooler);
    config->pooler_is_drawn = ft_model_files_find(weights, config->family, name) < 0;
    ft_weights_close(weights);
    return FT_OK;
}

ft_status ft_model_load(ft_model *model, const char *model_dir, double initializer_range, uint64_t seed, ft_arena *arena,
                        ft_load_report *report) {
    memset(report, 0, sizeof *report);
    ft_weights *weights;
    FT_TRY(ft_weights_open(model_dir, &weights));
    ft_staging staging;
    ft_memory_set_phase(model->memory, FT_PHASE_LOAD);
    ft_status status = ft_staging_open(model->memory, &staging);
    if (status == FT_OK) status = load_all(model, weights, initializer_range, seed, &staging, arena, report);
    if (status == FT_OK && model->absent.word_rows != NULL) { // it stays open for the rows that are not on the device
        int table = ft_model_files_find(weights, model->family, model->parameters.list[model->word].name);
        ft_absent_rows_from_file(&model->absent, weights, table);
        weights = NULL;
    }
    ft_staging_close(&staging);
    ft_weights_close(weights);
    return status;
}

// ---- saving -----------------------------------------------------------------------------------------------------------

typedef struct weights_source {
    ft_model *model;
    const int *index; // of the parameters in the file
    ft_row_window window;
    ft_save_watch *watch;
    void *watcher;
    int64_t done, total; // bytes
} weights_source;

// What is not there, as it would be saved from there, in the order of files.
static ft_status fetch_elsewhere(weights_source *s, int index, int64_t first, int64_t count) {
    ft_model *m = s->model;
    const ft_parameter *p = &m->parameters.list[index];
    const ft_weights *file = m->elsewhere->file;
    float *out = s->window.staging.data;
    if (file != NULL) {
        const int found = ft_model_files_find(file, m->family, p->name);
        if (found < 0) return ft_fail(FT_FAILED, ft_weights_list_path(file), "tensor %s is missing", p->name);
        FT_TRY(load_part(&(loading){file, found, 0}, first, count, out));
    } else {
        ft_drawing d = drawing_of(m, index, m->elsewhere->initializer_range, m->elsewhere->seed);
        for (int64_t done = 0, n; done < count; done += n) {
            n = count - done;
            const int64_t at = ft_parameter_place(p, first + done, &n);
            FT_TRY(ft_draw_part(&d, at, n, out + done));
        }
    }
    ft_staging_round(m->parameters.dtype, out, count);
    return FT_OK;
}

static ft_status fetch_weight(void *context, int number, size_t offset, size_t bytes, const void **data) {
    weights_source *s = context;
    const int index = s->index[number];
    const ft_parameter *p = &s->model->parameters.list[index];
    const bool kept = ft_kept_quantised(&s->model->parameters, index), absent = ft_parameter_is_absent(&s->model->parameters, index);
    ft_staged from = kept || absent ? (ft_staged){.first = 0} : ft_parameter_stored(&s->model->parameters, index);
    int64_t first = (int64_t)(offset / sizeof(float)), total = (int64_t)(bytes / sizeof(float));
    *data = s->window.staging.data;
    if (s->watch != NULL) s->watch(s->watcher, s->done, s->total);
    s->done += (int64_t)bytes;
    if (index == s->model->word && s->model->absent.word_rows != NULL)
        return ft_absent_rows_read(&s->model->absent, &s->window, first, total);
    if (absent) return fetch_elsewhere(s, index, first, total);
    for (int64_t done = 0, count; done < total; done += count) {
        count = total - done;
        from.first = ft_parameter_place(p, first + done, &count);
        FT_TRY(kept ? ft_kept_download(&s->window.staging, &s->model->parameters, index, from.first, count, done)
                    : ft_staging_download(&s->window.staging, from, count, done));
    }
    return FT_OK;
}

static ft_status write_weights(weights_source *source, const char *path, FILE *out, ft_arena *arena) {
    ft_model *m = source->model;
    int count = 0;
    ft_safetensor *tensors = ft_arena_alloc(arena, (size_t)m->parameters.count * sizeof *tensors);
    int *index = ft_arena_alloc(arena, (size_t)m->parameters.count * sizeof *index);
    if (tensors == NULL || index == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < m->parameters.count; i++) {
        const ft_parameter *p = &m->parameters.list[i];
        if (p->adapter) continue;
        tensors[count] = (ft_safetensor){.name = p->name, .dtype = FT_F32, .bytes = (size_t)p->count * sizeof(float)};
        tensors[count].rank = ft_parameter_shape(p, tensors[count].shape);
        source->total += (int64_t)tensors[count].bytes;
        index[count++] = i;
    }
    source->index = index;
    ft_status status;
    FT_TRY_GOTO(ft_row_window_open(&m->absent, m->memory, &source->window), done);
    static const char *const metadata[] = {"format", "pt", NULL};
    status = ft_safetensors_write_from(out, path, count, tensors, metadata, (size_t)FT_STAGING_FLOATS * sizeof(float), fetch_weight,
                                       source);
done:
    ft_row_window_close(&source->window);
    return status;
}

ft_status ft_model_save_weights(ft_model *model, const char *directory, ft_save_watch *watch, void *context) {
    weights_source source = {.model = model, .watch = watch, .watcher = context};
    ft_arena arena = {0};
    ft_atomic_file file = {0};
    char *path = ft_path_join(&arena, directory, "model.safetensors");
    ft_status status = path == NULL ? FT_NO_MEMORY : ft_elsewhere_check(model->elsewhere);
    if (status == FT_OK) status = ft_atomic_open(&file, path);
    if (status == FT_OK) status = write_weights(&source, path, file.stream, &arena);
    if (status == FT_OK) status = ft_atomic_commit(&file);
    else ft_atomic_abort(&file);
    ft_arena_free(&arena);
    return status;
}

#include "engine/model/quantised_files.h"

#include "base/files.h"
#include "engine/files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Tensors of a matrix, in the order in which they stand in the file: codes first, for they are made with all the others.
typedef enum part_kind { CODES, SCALES, GROUPS, SCALE_MAP, VALUES, STATE, ROW_ORDER, NUMBERS } part_kind;
enum { MOST_PARTS = 6, STATE_BYTES = 256 };

typedef struct entry {
    int index; // registry
    part_kind part;
} entry;

typedef struct saving {
    const ft_model *model;
    ft_quantisation format;
    entry *entries;
    ft_safetensor *tensors;
    int count;
    ft_arena *arena;
    float *values;         // of one parameter, in the order of its file
    unsigned char *matrix; // the same, quantised
    char state[STATE_BYTES];
} saving;

static bool is_quantised(const ft_parameter *p) { return p->factor && !p->head && !p->adapter && p->rows > 0 && p->taps == 0 && !p->column; }

// ---- which tensors ------------------------------------------------------------------------------------------------------------

static ft_status add(saving *s, int index, part_kind part, const char *suffix, ft_dtype dtype, int rank, int64_t rows, int64_t cols) {
    const ft_parameter *p = &s->model->parameters.list[index];
    const bool beside_module = part == ROW_ORDER || (part == SCALES && s->format == FT_INT8);
    const int length = (int)(strlen(p->name) - (beside_module ? strlen(".weight") : 0));
    ft_safetensor *t = &s->tensors[s->count];
    *t = (ft_safetensor){.name = ft_arena_format(s->arena, "%.*s%s", length, p->name, suffix), .dtype = dtype, .rank = rank, .shape = {rows, cols}};
    t->bytes = ft_dtype_size(dtype) * (size_t)((rank > 0 ? rows : 1) * (rank > 1 ? cols : 1));
    s->entries[s->count++] = (entry){index, part};
    return t->name != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status add_matrix(saving *s, int index) {
    const ft_parameter *p = &s->model->parameters.list[index];
    const ft_quantised_layout l = ft_quantised_layout_of(s->format, p->rows, p->cols);
    const bool twice = s->format == FT_NF4_DOUBLE;
    if (s->format == FT_INT8) {
        FT_TRY(add(s, index, CODES, "", FT_U8, 2, p->rows, p->cols));
        s->tensors[s->count - 1].dtype_name = "I8";
        FT_TRY(add(s, index, SCALES, ".SCB", FT_F32, 1, l.scale_count, 0));
        return add(s, index, ROW_ORDER, ".weight_format", FT_U8, 0, 0, 0);
    }
    FT_TRY(add(s, index, CODES, "", FT_U8, 2, (p->count + 1) / 2, 1));
    FT_TRY(add(s, index, SCALES, ".absmax", twice ? FT_U8 : FT_F32, 1, l.scale_count, 0));
    if (twice) FT_TRY(add(s, index, GROUPS, ".nested_absmax", FT_F32, 1, l.group_count, 0));
    if (twice) FT_TRY(add(s, index, SCALE_MAP, ".nested_quant_map", FT_F32, 1, FT_NF4_MAP, 0));
    FT_TRY(add(s, index, VALUES, ".quant_map", FT_F32, 1, 16, 0));
    return add(s, index, STATE, ".quant_state.bitsandbytes__nf4", FT_U8, 1, STATE_BYTES, 0);
}

static ft_status add_plain(saving *s, int index) {
    const ft_parameter *p = &s->model->parameters.list[index];
    FT_TRY(add(s, index, NUMBERS, "", FT_F32, 0, 0, 0));
    ft_safetensor *t = &s->tensors[s->count - 1];
    int64_t shape[FT_PARAMETER_RANK];
    t->rank = ft_parameter_shape(p, shape);
    memcpy(t->shape, shape, (size_t)t->rank * sizeof *shape);
    t->bytes = (size_t)p->count * sizeof(float);
    return FT_OK;
}

// ---- their bytes ----------------------------------------------------------------------------------------------------------------

static void read_values(const saving *s, int index) {
    const ft_parameter *p = &s->model->parameters.list[index];
    const float *from = ft_parameter_weight(&s->model->parameters, index).data;
    for (int64_t done = 0, n; done < p->count; done += n) {
        n = p->count - done;
        const int64_t place = ft_parameter_place(p, done, &n);
        memcpy(s->values + done, from + place, (size_t)n * sizeof(float));
    }
}

// Filled up with blanks: how long it is has been said before the mean was known.
static void write_state(saving *s, const ft_parameter *p, const ft_quantised_layout *l) {
    char nested[128] = "";
    if (s->format == FT_NF4_DOUBLE) {
        float mean;
        memcpy(&mean, s->matrix + l->mean, sizeof mean);
        snprintf(nested, sizeof nested, ", \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", \"nested_offset\": %.9g", FT_NF4_GROUP, (double)mean);
    }
    memset(s->state, ' ', sizeof s->state);
    char json[STATE_BYTES];
    const int length = snprintf(json, sizeof json, "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": \"float32\", \"shape\": [%lld, %lld]%s}", FT_NF4_BLOCK,
                                (long long)p->rows, (long long)p->cols, nested);
    memcpy(s->state, json, (size_t)length);
}

static ft_status fetch(void *context, int number, size_t offset, size_t bytes, const void **data) {
    saving *s = context;
    const entry *e = &s->entries[number];
    const ft_parameter *p = &s->model->parameters.list[e->index];
    const ft_quantised_layout l = ft_quantised_layout_of(s->format, p->rows, p->cols);
    static const unsigned char by_rows;
    (void)bytes;
    if (e->part == NUMBERS || e->part == CODES) read_values(s, e->index);
    if (e->part == CODES && ft_quantise(s->format, p->rows, p->cols, s->values, s->matrix) != FT_OK)
        return ft_fail(FT_INVALID, p->name, "a weight is not finite: it cannot be stored in few bits");
    if (e->part == STATE) write_state(s, p, &l);
    const void *const parts[] = {[CODES] = s->matrix + l.codes, [SCALES] = s->matrix + l.scales, [GROUPS] = s->matrix + l.groups, [SCALE_MAP] = s->matrix + l.map,
                                 [VALUES] = ft_nf4_values, [STATE] = s->state, [ROW_ORDER] = &by_rows, [NUMBERS] = s->values};
    *data = (const char *)parts[e->part] + offset;
    return FT_OK;
}

static ft_status write_all(saving *s, const char *path, FILE *out) {
    static const char *const metadata[] = {"format", "pt", NULL};
    const ft_parameters *p = &s->model->parameters;
    size_t values = 0, matrix = 0;
    s->entries = ft_arena_alloc(s->arena, (size_t)p->count * MOST_PARTS * sizeof *s->entries);
    s->tensors = ft_arena_alloc(s->arena, (size_t)p->count * MOST_PARTS * sizeof *s->tensors);
    if (s->entries == NULL || s->tensors == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->adapter) continue;
        FT_TRY(is_quantised(q) ? add_matrix(s, i) : add_plain(s, i));
        const size_t as_matrix = is_quantised(q) ? ft_quantised_layout_of(s->format, q->rows, q->cols).bytes : 0;
        if ((size_t)q->count * sizeof(float) > values) values = (size_t)q->count * sizeof(float);
        if (as_matrix > matrix) matrix = as_matrix;
    }
    s->values = ft_calloc(1, values + 1, "a weight");
    s->matrix = s->values != NULL ? ft_calloc(1, matrix + 1, "a weight of few bits") : NULL;
    if (s->matrix == NULL) return FT_NO_MEMORY;
    return ft_safetensors_write_from(out, path, s->count, s->tensors, metadata, 0, fetch, s);
}

ft_status ft_model_save_quantised(const ft_model *m, ft_quantisation format, const char *directory) {
    ft_arena arena = {0};
    ft_atomic_file file = {0};
    saving s = {.model = m, .format = format, .arena = &arena};
    if (m->dtype != FT_F32 || m->device->place[0] != '\0' || m->parameters.kept_store >= 0)
        return ft_fail(FT_FAILED, directory, "internal: weights are quantised from fp32 on the CPU");
    char *path = ft_path_join(&arena, directory, "model.safetensors");
    ft_status status = path == NULL ? FT_NO_MEMORY : ft_atomic_open(&file, path);
    if (status == FT_OK) status = write_all(&s, path, file.stream);
    if (status == FT_OK) status = ft_atomic_commit(&file);
    else ft_atomic_abort(&file);
    free(s.values);
    free(s.matrix);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_model_set_quantised(const ft_model *m, ft_quantisation format, ft_model_config *config) {
    const ft_parameters *p = &m->parameters;
    ft_arena arena = {0};
    const char **skipped = ft_arena_alloc(&arena, ((size_t)p->count + 1) * sizeof *skipped);
    int count = 0;
    ft_status status = skipped != NULL ? FT_OK : FT_NO_MEMORY;
    for (int i = 0; i < p->count && status == FT_OK; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->adapter || q->rows == 0 || !q->head) continue;
        skipped[count] = ft_arena_format(&arena, "%.*s", (int)(strlen(q->name) - strlen(".weight")), q->name);
        if (skipped[count++] == NULL) status = FT_NO_MEMORY;
    }
    if (status == FT_OK) status = ft_model_config_set_quantised(config, format == FT_INT8 ? 8 : 4, format == FT_NF4_DOUBLE, count, skipped);
    ft_arena_free(&arena);
    return status;
}

#include "engine/files/bitsandbytes.h"

#include "base/json/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = FT_PACKED_NAME };
static const char state_prefix[] = ".quant_state.bitsandbytes__";
static const char *const beside_weight[] = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
static const char *const beside_int8[] = {".SCB", ".weight_format"};

typedef struct finder {
    const ft_weights *weights;
    int index;        // of the matrix
    const char *name; // its
    const char *path;
} finder;

static float float_at(const unsigned char *from, int64_t index) {
    float value;
    memcpy(&value, from + (size_t)index * sizeof value, sizeof value);
    return value;
}

// ---- what belongs to a matrix ---------------------------------------------------------------------------------------------

// The name without ".weight".
static int module_length(const char *name) {
    const size_t length = strlen(name), end = strlen(".weight");
    return length > end && strcmp(name + length - end, ".weight") == 0 ? (int)(length - end) : -1;
}

static bool ends_so(const char *name, const char *suffix, int *length) {
    const size_t all = strlen(name), end = strlen(suffix);
    *length = (int)(all - end);
    return all > end && strcmp(name + all - end, suffix) == 0;
}

bool ft_packed_part_of(const char *name, char matrix[FT_PACKED_NAME]) {
    const char *state = strstr(name, state_prefix), *behind = "";
    int length = state != NULL ? (int)(state - name) : 0;
    bool is = state != NULL;
    for (size_t i = 0; i < sizeof beside_weight / sizeof beside_weight[0] && !is; i++) is = ends_so(name, beside_weight[i], &length);
    for (size_t i = 0; i < sizeof beside_int8 / sizeof beside_int8[0] && !is; i++)
        if ((is = ends_so(name, beside_int8[i], &length))) behind = ".weight";
    return is && snprintf(matrix, FT_PACKED_NAME, "%.*s%s", length, name, behind) < FT_PACKED_NAME;
}

static const ft_safetensor *beside(const finder *f, int length, const char *suffix) {
    char name[LONGEST];
    snprintf(name, sizeof name, "%.*s%s", length, f->name, suffix);
    const int found = ft_weights_find(f->weights, name);
    return found >= 0 ? ft_weights_at(f->weights, found) : NULL;
}

// A tensor of one type and so many elements, back to back.
static ft_status need(const finder *f, int length, const char *suffix, const char *type, int64_t count, const unsigned char **data) {
    const ft_safetensor *t = beside(f, length, suffix);
    if (t == NULL) return ft_fail(FT_INVALID, f->path, "tensor %.*s%s is missing: %s is quantised by bitsandbytes", length, f->name, suffix, f->name);
    const int64_t have = t->dtype == FT_SAFETENSOR_OTHER ? -1 : (int64_t)(t->bytes / ft_dtype_size(t->dtype));
    if (strcmp(t->dtype_name, type) != 0 || have != count || t->strides != NULL)
        return ft_fail(FT_INVALID, f->path, "tensor %s: %s of %lld elements, %s needs %s of %lld", t->name, t->dtype_name, (long long)have, f->name, type,
                       (long long)count);
    *data = t->data;
    return FT_OK;
}

// ---- 4 bits -----------------------------------------------------------------------------------------------------------------

// The bytes of a view are not all there: what is read as it lies must be no view.
static ft_status check_dense(const finder *f, const ft_safetensor *t) {
    if (t->strides == NULL) return FT_OK;
    return ft_fail(FT_INVALID, f->path, "tensor %s is a view of other data, which what bitsandbytes writes never is", t->name);
}

// The first tensor behind the matrix whose name goes on so; names are sorted.
static const ft_safetensor *find_state(const finder *f) {
    char start[LONGEST];
    const size_t length = (size_t)snprintf(start, sizeof start, "%s%s", f->name, state_prefix);
    for (int i = f->index + 1; i < ft_weights_count(f->weights); i++) {
        const ft_safetensor *t = ft_weights_at(f->weights, i);
        if (strncmp(t->name, f->name, strlen(f->name)) != 0) break;
        if (strncmp(t->name, start, length) == 0) return t;
    }
    return NULL;
}

typedef struct quant_state {
    const char *type;
    int64_t block, group, rows, cols;
    double mean;
    bool nested;
} quant_state;

static ft_status check_state(const finder *f, const ft_safetensor *t, const quant_state *s, const char *type) {
    static const char *const types[] = {"nf4", "fp4"};
    const char *suffix = t->name + strlen(f->name) + strlen(state_prefix);
    bool known = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) known |= strcmp(type, types[i]) == 0;
    if (!known || strcmp(type, suffix) != 0) {
        ft_fail(FT_INVALID, f->path, "tensor %s: the quant_type \"%.40s\" of bitsandbytes is not known", t->name, known ? suffix : type);
        ft_hint("nf4 and fp4 are read, and int8");
        return FT_INVALID;
    }
    if (s->block != FT_PACKED_BLOCK || (s->nested && s->group != FT_PACKED_GROUP))
        return ft_fail(FT_INVALID, f->path, "tensor %s: a scale for %lld %s, only those for %d are read", t->name, (long long)(s->block != FT_PACKED_BLOCK ? s->block : s->group),
                       s->block != FT_PACKED_BLOCK ? "numbers" : "scales", s->block != FT_PACKED_BLOCK ? FT_PACKED_BLOCK : FT_PACKED_GROUP);
    if (!isfinite((float)s->mean)) return ft_fail(FT_INVALID, f->path, "tensor %s: nested_offset is not finite", t->name);
    return FT_OK;
}

static ft_status read_state(const finder *f, const ft_safetensor *t, ft_arena *arena, quant_state *s) {
    char where[LONGEST + 64];
    json_t *root;
    const char *type = NULL;
    snprintf(where, sizeof where, "%s", t->name);
    FT_TRY(check_dense(f, t));
    FT_TRY(ft_json_parse(t->data, t->bytes, where, &root));
    const json_t *shape = json_object_get(root, "shape"), *rows = json_array_get(shape, 0), *cols = json_array_get(shape, 1);
    s->nested = json_object_get(root, "nested_blocksize") != NULL;
    s->rows = json_integer_value(rows), s->cols = json_integer_value(cols);
    ft_status status = ft_json_string(root, where, "quant_type", "", &type);
    if (status == FT_OK) status = ft_json_int(root, where, "blocksize", 0, 0, INT32_MAX, &s->block);
    if (status == FT_OK) status = ft_json_int(root, where, "nested_blocksize", 0, 0, INT32_MAX, &s->group);
    if (status == FT_OK) status = ft_json_number(root, where, "nested_offset", 0, &s->mean);
    if (status == FT_OK) status = check_state(f, t, s, type);
    if (status == FT_OK && (json_array_size(shape) != 2 || s->rows < 1 || s->cols < 1 || s->rows > INT32_MAX || s->cols > INT32_MAX))
        status = ft_fail(FT_INVALID, f->path, "tensor %s: \"shape\" must be two sizes", t->name);
    if (status == FT_OK && (s->type = ft_arena_strdup(arena, type)) == NULL) status = FT_NO_MEMORY;
    json_decref(root);
    return status;
}

static ft_status find_4_bits(const finder *f, const ft_safetensor *codes, const ft_safetensor *state, ft_arena *arena, ft_packed *p) {
    quant_state s;
    const unsigned char *values;
    const int length = (int)strlen(f->name);
    if (state == NULL)
        return ft_fail(FT_INVALID, f->path, "tensor %s%snf4 is missing: %s is quantised by bitsandbytes", f->name, state_prefix, f->name);
    FT_TRY(read_state(f, state, arena, &s));
    FT_TRY(check_dense(f, codes));
    const int64_t count = s.rows * s.cols;
    *p = (ft_packed){.type = s.type, .nested = s.nested, .rows = s.rows, .cols = s.cols, .codes = codes->data, .mean = (float)s.mean};
    if ((int64_t)codes->bytes != (count + 1) / 2)
        return ft_fail(FT_INVALID, f->path, "tensor %s holds %zu bytes, [%lld, %lld] in 4 bits has %lld", f->name, codes->bytes, (long long)s.rows,
                       (long long)s.cols, (long long)((count + 1) / 2));
    p->scale_count = (count + FT_PACKED_BLOCK - 1) / FT_PACKED_BLOCK;
    p->group_count = s.nested ? (p->scale_count + FT_PACKED_GROUP - 1) / FT_PACKED_GROUP : 0;
    FT_TRY(need(f, length, ".absmax", s.nested ? "U8" : "F32", p->scale_count, &p->scales));
    FT_TRY(need(f, length, ".quant_map", "F32", 16, &values));
    memcpy(p->values, values, sizeof p->values);
    if (!s.nested) return FT_OK;
    FT_TRY(need(f, length, ".nested_absmax", "F32", p->group_count, &p->groups));
    return need(f, length, ".nested_quant_map", "F32", FT_PACKED_MAP, &p->map);
}

// ---- 8 bits -----------------------------------------------------------------------------------------------------------------

static ft_status find_8_bits(const finder *f, const ft_safetensor *codes, int module, ft_packed *p) {
    const unsigned char *format = NULL;
    FT_TRY(check_dense(f, codes));
    *p = (ft_packed){.type = "int8", .rows = codes->shape[0], .cols = codes->shape[1], .codes = codes->data, .scale_count = codes->shape[0]};
    FT_TRY(need(f, module, ".SCB", "F32", p->scale_count, &p->scales));
    if (beside(f, module, ".weight_format") != NULL) FT_TRY(need(f, module, ".weight_format", "U8", 1, &format));
    if (format != NULL && *format != 0) {
        ft_fail(FT_INVALID, f->path, "tensor %.*s.weight_format is %d: the codes of %s are in an order of some GPU, and only rows are read", module, f->name, *format, f->name);
        ft_hint("bitsandbytes from 0.43 on saves rows");
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_packed_find(const ft_weights *weights, int index, ft_arena *arena, ft_packed **packed) {
    const ft_safetensor *t = ft_weights_at(weights, index);
    const finder f = {weights, index, t->name, ft_weights_path(weights, index)};
    const int module = module_length(t->name);
    *packed = NULL;
    if (module < 0 || strlen(t->name) > 256 || t->rank != 2) return FT_OK;
    const ft_safetensor *state = find_state(&f);
    const bool in_4_bits = state != NULL || beside(&f, (int)strlen(t->name), ".absmax") != NULL;
    if (!in_4_bits && strcmp(t->dtype_name, "I8") != 0) return FT_OK;
    ft_packed *p = ft_arena_alloc(arena, sizeof *p);
    if (p == NULL) return FT_NO_MEMORY;
    FT_TRY(in_4_bits ? find_4_bits(&f, t, state, arena, p) : find_8_bits(&f, t, module, p));
    *packed = p;
    return FT_OK;
}

// ---- numbers ------------------------------------------------------------------------------------------------------------------

static float scale_of(const ft_packed *p, int64_t block) {
    if (!p->nested) return float_at(p->scales, block);
    const float scaled = float_at(p->map, p->scales[block]) * float_at(p->groups, block / FT_PACKED_GROUP);
    return scaled + p->mean;
}

void ft_packed_numbers(const ft_packed *p, int64_t first, int64_t count, float *out) {
    const bool in_8_bits = strcmp(p->type, "int8") == 0;
    const int64_t of_scale = in_8_bits ? p->cols : FT_PACKED_BLOCK;
    float scale = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i;
        if (i == 0 || at % of_scale == 0) scale = scale_of(p, at / of_scale);
        const unsigned char code = in_8_bits ? p->codes[at] : p->codes[at / 2];
        out[i] = in_8_bits ? (float)(int8_t)code * scale * (1.0f / 127.0f) : p->values[at % 2 == 0 ? code >> 4 : code & 15] * scale;
    }
}

bool ft_packed_is_finite(const ft_packed *p) {
    for (int64_t i = 0; i < p->scale_count; i++)
        if (!isfinite(scale_of(p, i))) return false;
    return true;
}

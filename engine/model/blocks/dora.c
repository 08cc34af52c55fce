#include "engine/model/blocks/dora.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/adapter.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/run_op.h"

bool ft_dora_on(const ft_linear *l) { return ft_adapter_on(l) && l->adapters[0].magnitude >= 0; }

// ---- one adapter of a layer ---------------------------------------------------------------------------------------------

// What it is for the parts of the layer that it reaches.
typedef struct scaled {
    const ft_adapter *adapter;
    ft_linear of;               // those parts
    ft_tensor w;                // their rows
    ft_tensor magnitude, norm;  // [outputs of those] fp32
    ft_dropout dropout;
    void *norms;                // of all its parts, for the caller to free
} scaled;

// Of a vector for all parts of the adapter.
static ft_tensor numbers_of(const scaled *s, const ft_linear *l, ft_tensor all) {
    if (all.data == NULL) return all;
    const ft_linear whole = ft_linear_parts(l, s->adapter->first, s->adapter->parts);
    return ft_linear_columns(&whole, s->of.first, s->of.parts, ft_vector(all.data, whole.outputs, all.dtype));
}

static ft_tensor rows_in(const ft_linear *l, const ft_linear *parts, ft_tensor all) {
    const ft_tensor columns = ft_linear_columns(l, parts->first, parts->parts, ft_matrix(all.data, 1, all.rows, all.dtype));
    const int64_t before = ((char *)columns.data - (char *)all.data) / (int64_t)ft_dtype_size(all.dtype);
    return ft_rows(all, before, columns.cols);
}

static ft_status norms(ft_pass *pass, ft_row_norm_args args) {
    RUN_WITH_WORKSPACE(pass, row_norm, args, args);
}

// false: it reaches none. Close it in any case.
static bool reaches(const ft_linear *l, const ft_adapter *a, scaled *s) {
    const int first = a->first > l->first ? a->first : l->first;
    const int end = a->first + a->parts < l->first + l->parts ? a->first + a->parts : l->first + l->parts;
    *s = (scaled){.adapter = a, .norms = NULL};
    if (end <= first) return false;
    s->of = ft_linear_parts(l, first, end - first);
    return true;
}

static ft_status open_scaled(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, scaled *s) {
    const ft_parameters *p = &pass->model->parameters;
    const ft_adapter *a = s->adapter;
    s->w = rows_in(l, &s->of, w);
    s->dropout = ft_adapter_dropout(pass, kind, a);
    s->magnitude = numbers_of(s, l, ft_parameter_weight(p, a->magnitude));
    FT_TRY(ft_memory_alloc(pass->model->memory, (size_t)s->of.outputs * sizeof(float), FT_MEM_WORKSPACE, "norms of adapted rows", &s->norms));
    s->norm = ft_vector(s->norms, s->of.outputs, FT_F32);
    const ft_linear whole = ft_linear_parts(l, a->first, a->parts);
    const ft_tensor b = rows_in(&whole, &s->of, ft_parameter_weight(p, a->b));
    return norms(pass, (ft_row_norm_args){.w = s->w, .a = ft_parameter_weight(p, a->a), .b = b, .scale = a->scale, .out = s->norm});
}
static void close_scaled(ft_pass *pass, scaled *s) {
    ft_memory_free(pass->model->memory, s->norms);
    s->norms = NULL;
}

// The adapters of a layer, one after the other; every one is closed behind its turn, and where it failed.
#define EACH_SCALED(pass, kind, l, w, s, work)                                                                         \
    do {                                                                                                               \
        for (int i_ = 0; i_ < (l)->adapter_count; i_++) {                                                              \
            scaled s;                                                                                                  \
            if (!reaches(l, &(l)->adapters[i_], &s)) continue;                                                         \
            ft_status status_ = open_scaled(pass, kind, l, w, &s);                                                     \
            if (status_ == FT_OK) status_ = work;                                                                      \
            close_scaled(pass, &s);                                                                                    \
            FT_TRY(status_);                                                                                           \
        }                                                                                                              \
    } while (0)

// ---- its products -------------------------------------------------------------------------------------------------------

static ft_status product(ft_pass *pass, ft_rows_kind kind, ft_gemm_args args) {
    ft_gemm_args largest = args;
    largest.a.rows = largest.c.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

// [rows, cols] of that type.
static ft_status temporary(ft_pass *pass, ft_rows_kind kind, int64_t cols, ft_dtype dtype, const char *name, ft_tensor *out) {
    if (dtype == FT_F32) return ft_pass_float_tensor(pass, kind, cols, FT_MEM_ACTIVATIONS, -1, name, out);
    return ft_pass_tensor(pass, kind, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

// ---- forward ------------------------------------------------------------------------------------------------------------

static ft_status forward_dropped(ft_pass *pass, ft_rows_kind kind, const scaled *s, ft_tensor x, ft_tensor y) {
    ft_tensor own, t;
    FT_TRY(ft_adapter_dropped(pass, kind, s->dropout, x, &own));
    FT_TRY(temporary(pass, kind, s->of.outputs, y.dtype, "adapter product", &t));
    FT_TRY(product(pass, kind, (ft_gemm_args){.a = own, .b = s->w, .c = t, .trans_b = true}));
    ft_pass_free(pass, &own);
    FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = t, .shift = -2, .accumulate = true, .y = y})); // y -= t
    FT_TRY(ft_adapter_forward(pass, kind, &s->of, x, t));
    FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = t, .magnitude = s->magnitude, .norm = s->norm, .accumulate = true, .y = y}));
    ft_pass_free(pass, &t);
    return FT_OK;
}

static ft_status forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const scaled *s, ft_tensor x, ft_tensor bias, ft_tensor y) {
    const ft_tensor to = ft_linear_columns(l, s->of.first, s->of.parts, y);
    const ft_tensor own = bias.data == NULL ? bias : ft_linear_columns(l, s->of.first, s->of.parts, bias);
    if (s->dropout.probability > 0) return forward_dropped(pass, kind, s, x, to);
    FT_TRY(ft_adapter_forward(pass, kind, &s->of, x, to));
    return ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = to, .magnitude = s->magnitude, .norm = s->norm, .bias = own, .y = to});
}

ft_status ft_dora_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor x, ft_tensor bias, ft_tensor y) {
    EACH_SCALED(pass, kind, l, w, s, forward(pass, kind, l, &s, x, bias, y));
    return FT_OK;
}

// ---- backward -----------------------------------------------------------------------------------------------------------

// to = g times dy of the parts.
static ft_status scale_part(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const scaled *s, ft_tensor dy, ft_tensor to) {
    return ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = ft_linear_columns(l, s->of.first, s->of.parts, dy), .magnitude = s->magnitude, .norm = s->norm,
                                                    .y = ft_linear_columns(l, s->of.first, s->of.parts, to)});
}

// dh is made here: g dy, and dy of parts without an adapter.
static ft_status make_dh(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor dy, ft_tensor *dh) {
    FT_TRY(temporary(pass, kind, l->outputs, dy.dtype, "adapter product gradient", dh));
    for (int n = l->first; n < l->first + l->parts; n++) {
        const ft_linear part = ft_linear_parts(l, n, 1);
        if (!ft_adapter_on(&part))
            FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = ft_linear_columns(l, n, 1, dy), .y = ft_linear_columns(l, n, 1, *dh)}));
    }
    EACH_SCALED(pass, kind, l, w, s, scale_part(pass, kind, l, &s, dy, *dh));
    return FT_OK;
}

// dx += drop((g - 1) dy W) + drop(dz A) of the parts
static ft_status input_dropped(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const scaled *s, ft_tensor dy, ft_tensor dx) {
    const ft_tensor of = ft_linear_columns(l, s->of.first, s->of.parts, dy);
    ft_tensor t, masked;
    FT_TRY(temporary(pass, kind, s->of.outputs, dy.dtype, "adapter product gradient", &t));
    FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = of, .magnitude = s->magnitude, .norm = s->norm, .shift = -1, .y = t}));
    FT_TRY(temporary(pass, kind, dx.cols, dx.dtype, "adapter input gradient", &masked));
    FT_TRY(product(pass, kind, (ft_gemm_args){.a = t, .b = s->w, .c = masked}));
    FT_TRY(ft_adapter_add_dropped(pass, kind, s->dropout, masked, dx));
    ft_pass_free(pass, &masked);
    FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = of, .magnitude = s->magnitude, .norm = s->norm, .y = t}));
    FT_TRY(ft_adapter_input_gradient(pass, kind, &s->of, t, dx));
    ft_pass_free(pass, &t);
    return FT_OK;
}

ft_status ft_dora_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor dy, bool accumulate, ft_tensor dx) {
    if (ft_adapter_dropout(pass, kind, &l->adapters[0]).probability > 0) {
        FT_TRY(product(pass, kind, (ft_gemm_args){.a = dy, .b = w, .c = dx, .accumulate = accumulate}));
        EACH_SCALED(pass, kind, l, w, s, input_dropped(pass, kind, l, &s, dy, dx));
        return FT_OK;
    }
    ft_tensor dh;
    FT_TRY(make_dh(pass, kind, l, w, dy, &dh));
    FT_TRY(product(pass, kind, (ft_gemm_args){.a = dh, .b = w, .c = dx, .accumulate = accumulate}));
    FT_TRY(ft_adapter_input_gradient(pass, kind, l, dh, dx));
    ft_pass_free(pass, &dh);
    return FT_OK;
}

// dm += sum over rows of dy h / n
static ft_status magnitude_gradient(ft_pass *pass, ft_rows_kind kind, const scaled *s, ft_tensor dy, ft_tensor x) {
    ft_tensor own = ft_absent(), h, each;
    if (s->dropout.probability > 0) FT_TRY(ft_adapter_dropped(pass, kind, s->dropout, x, &own));
    FT_TRY(temporary(pass, kind, s->of.outputs, dy.dtype, "adapter product", &h));
    FT_TRY(product(pass, kind, (ft_gemm_args){.a = own.data != NULL ? own : x, .b = s->w, .c = h, .trans_b = true}));
    ft_pass_free(pass, &own);
    FT_TRY(ft_adapter_forward(pass, kind, &s->of, x, h));
    FT_TRY(temporary(pass, kind, s->of.outputs, FT_F32, "adapter magnitudes", &each));
    FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = h, .times = dy, .norm = s->norm, .y = each}));
    ft_pass_free(pass, &h);
    const ft_tensor all = ft_parameter_gradient(&pass->model->parameters, s->adapter->magnitude);
    FT_TRY(ft_pass_column_sum(pass, kind, each, numbers_of(s, &s->of, all)));
    ft_pass_free(pass, &each);
    return FT_OK;
}

static ft_status weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const scaled *s, ft_tensor dy, ft_tensor x) {
    const ft_tensor of = ft_linear_columns(l, s->of.first, s->of.parts, dy);
    ft_tensor dh;
    FT_TRY(magnitude_gradient(pass, kind, s, of, x));
    FT_TRY(temporary(pass, kind, s->of.outputs, dy.dtype, "adapter product gradient", &dh));
    FT_TRY(ft_pass_column_scale(pass, kind, (ft_column_scale_args){.x = of, .magnitude = s->magnitude, .norm = s->norm, .y = dh}));
    FT_TRY(ft_adapter_weight_gradient(pass, kind, &s->of, dh, x));
    ft_pass_free(pass, &dh);
    return FT_OK;
}

ft_status ft_dora_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor dy, ft_tensor x) {
    EACH_SCALED(pass, kind, l, w, s, weight_gradient(pass, kind, l, &s, dy, x));
    return FT_OK;
}

static ft_status split_magnitude(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor dy, ft_tensor x, ft_tensor *dh) {
    EACH_SCALED(pass, kind, l, w, s, magnitude_gradient(pass, kind, &s, dy, x));
    return make_dh(pass, kind, l, w, dy, dh);
}

ft_status ft_dora_split_gradient(ft_pass *pass, const ft_linear *l, ft_tensor w, ft_tensor dread, ft_tensor read_x, ft_tensor drest, ft_tensor x) {
    const ft_linear front = ft_linear_parts(l, 0, 1), rest = ft_linear_parts(l, 1, l->parts - 1);
    ft_tensor dfront, dback;
    FT_TRY(split_magnitude(pass, FT_ROWS_READ, &front, rows_in(l, &front, w), dread, read_x, &dfront));
    FT_TRY(split_magnitude(pass, FT_ROWS_TOKENS, &rest, rows_in(l, &rest, w), drest, x, &dback));
    FT_TRY(ft_adapter_split_gradient(pass, l, dfront, read_x, dback, x));
    ft_pass_free(pass, &dback);
    ft_pass_free(pass, &dfront);
    return FT_OK;
}

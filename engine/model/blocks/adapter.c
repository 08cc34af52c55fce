#include "engine/model/blocks/adapter.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/run_op.h"
#include "engine/model/blocks/together.h"

// What an adapter does for a layer that may be some of its parts.
typedef struct reach {
    const ft_adapter *adapter;
    int first, count; // parts of the layer
} reach;

static bool reaches(const ft_linear *l, const ft_adapter *a, reach *r) {
    const int first = a->first > l->first ? a->first : l->first;
    const int end = a->first + a->parts < l->first + l->parts ? a->first + a->parts : l->first + l->parts;
    *r = (reach){a, first, end - first};
    return end > first;
}

bool ft_adapter_on(const ft_linear *l) {
    reach r;
    for (int i = 0; i < l->adapter_count; i++)
        if (reaches(l, &l->adapters[i], &r)) return true;
    return false;
}

bool ft_adapter_is_shared(const ft_linear *l) { return l->adapter_count > 0 && l->adapters[0].parts > 1; }

// ---- where its numbers are ----------------------------------------------------------------------------------------------

// Some adapters, one behind the other, whose A are one matrix.
typedef struct stack {
    reach part[FT_MOST_ADAPTERS];
    int count;
    int64_t rank; // of all
    float scale;
    ft_dropout dropout;
} stack;

// An adapter's own number stands where others have their layer's; the table of relative positions, whose rows count from 0 like the
// tokens of the first sequence, has masks of its own.
ft_dropout ft_adapter_dropout(const ft_pass *pass, ft_rows_kind kind, const ft_adapter *a) {
    return ft_pass_dropout(pass, kind, a->dropout, a->number, kind == FT_ROWS_RELATIVE ? FT_SITE_ADAPTER_TABLE : FT_SITE_ADAPTER);
}

// The next adapters from *at on that are one product; false: there are no more.
static bool next_stack(const ft_pass *pass, ft_rows_kind kind, const ft_linear *l, int *at, stack *s) {
    *s = (stack){.count = 0};
    for (; *at < l->adapter_count; ++*at) {
        const ft_adapter *a = &l->adapters[*at];
        reach r;
        if (!reaches(l, a, &r)) continue;
        const ft_dropout dropout = ft_adapter_dropout(pass, kind, a);
        const bool same_mask = s->count > 0 && a->number == s->part[0].adapter->number; // adapter.dropout_mask
        if (s->count > 0 && ((dropout.probability > 0 && !same_mask) || a->scale != s->scale)) return true;
        s->part[s->count++] = r;
        s->rank += a->rank;
        s->scale = a->scale;
        s->dropout = dropout;
    }
    return s->count > 0;
}

static ft_tensor stacked(ft_tensor first, const stack *s, int64_t inputs) {
    return first.data == NULL ? first : ft_matrix(first.data, s->rank, inputs, first.dtype);
}
static ft_tensor a_of(const ft_pass *pass, const stack *s, const ft_linear *l) {
    return stacked(ft_parameter_weight(&pass->model->parameters, s->part[0].adapter->a), s, l->inputs);
}
static ft_tensor da_of(const ft_pass *pass, const stack *s, const ft_linear *l) {
    return stacked(ft_parameter_gradient(&pass->model->parameters, s->part[0].adapter->a), s, l->inputs);
}

// Rows of B, or of its gradient, for the parts that are reached.
static ft_tensor rows_of(const ft_linear *l, const reach *r, ft_tensor b) {
    const ft_linear whole = ft_linear_parts(l, r->adapter->first, r->adapter->parts);
    const ft_tensor columns = ft_linear_columns(&whole, r->first, r->count, ft_matrix(b.data, 1, b.rows, b.dtype));
    const int64_t before = ((char *)columns.data - (char *)b.data) / (int64_t)ft_dtype_size(b.dtype);
    return ft_rows(b, before, columns.cols);
}
static ft_tensor b_of(const ft_pass *pass, const ft_linear *l, const reach *r) {
    return rows_of(l, r, ft_parameter_weight(&pass->model->parameters, r->adapter->b));
}
static ft_tensor db_of(const ft_pass *pass, const ft_linear *l, const reach *r) {
    return rows_of(l, r, ft_parameter_gradient(&pass->model->parameters, r->adapter->b));
}

// Of z or dz: those of part n of the stack.
static ft_tensor ranks_of(const stack *s, int n, ft_tensor z) {
    int64_t before = 0;
    for (int i = 0; i < n; i++) before += s->part[i].adapter->rank;
    return ft_columns(z, before, s->part[n].adapter->rank);
}

// ---- its products -------------------------------------------------------------------------------------------------------

// Over rows: of A, and of C or of B.
static ft_status product(ft_pass *pass, ft_rows_kind kind, ft_gemm_args args) {
    ft_gemm_args largest = args;
    const int64_t rows = ft_pass_capacity(pass, kind);
    largest.a.rows = rows;
    if (args.trans_a) largest.b.rows = rows;
    else largest.c.rows = rows;
    // One launch for the adapters of all runs, where the launch is what such a product costs.
    if (ft_device_queues(pass->model->device) && ft_together_on(pass, kind)) return ft_together_multiply(pass, args, &largest);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

static ft_status temporary(ft_pass *pass, ft_rows_kind kind, int64_t cols, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, kind, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

ft_status ft_adapter_dropped(ft_pass *pass, ft_rows_kind kind, ft_dropout dropout, ft_tensor x, ft_tensor *out) {
    FT_TRY(temporary(pass, kind, x.cols, "adapter input", out));
    return ft_pass_dropout_rows(pass, kind, dropout, x, *out);
}

// x'; `own` is its memory where there is dropout, for the caller to free.
static ft_status dropped(ft_pass *pass, ft_rows_kind kind, const stack *s, ft_tensor x, ft_tensor *own, ft_tensor *out) {
    *own = ft_absent();
    *out = x;
    if (s->dropout.probability <= 0) return FT_OK;
    FT_TRY(ft_adapter_dropped(pass, kind, s->dropout, x, own));
    *out = *own;
    return FT_OK;
}

static ft_status make_z(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const stack *s, ft_tensor x, ft_tensor *z) {
    FT_TRY(temporary(pass, kind, s->rank, "adapter rows", z));
    return product(pass, kind, (ft_gemm_args){.a = x, .b = a_of(pass, s, l), .c = *z, .trans_b = true, .scale = s->scale});
}

static ft_status make_dz(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const stack *s, ft_tensor dy, ft_tensor *dz) {
    FT_TRY(temporary(pass, kind, s->rank, "adapter row gradient", dz));
    for (int n = 0; n < s->count; n++) {
        const reach *r = &s->part[n];
        const ft_tensor of = ft_linear_columns(l, r->first, r->count, dy);
        FT_TRY(product(pass, kind, (ft_gemm_args){.a = of, .b = b_of(pass, l, r), .c = ranks_of(s, n, *dz), .scale = s->scale}));
    }
    return FT_OK;
}

ft_status ft_adapter_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor y) {
    stack s;
    for (int at = 0; next_stack(pass, kind, l, &at, &s);) {
        ft_tensor own, read, z;
        FT_TRY(dropped(pass, kind, &s, x, &own, &read));
        FT_TRY(make_z(pass, kind, l, &s, read, &z));
        ft_pass_free(pass, &own);
        for (int n = 0; n < s.count; n++) {
            const reach *r = &s.part[n];
            const ft_tensor to = ft_linear_columns(l, r->first, r->count, y);
            FT_TRY(product(pass, kind, (ft_gemm_args){.a = ranks_of(&s, n, z), .b = b_of(pass, l, r), .c = to, .trans_b = true, .accumulate = true}));
        }
        ft_pass_free(pass, &z);
    }
    return FT_OK;
}

ft_status ft_adapter_add_dropped(ft_pass *pass, ft_rows_kind kind, ft_dropout dropout, ft_tensor x, ft_tensor y) {
    ft_dropout_args args = {.dropout = dropout, .x = x, .y = y, .accumulate = true}, largest = args;
    largest.x.rows = largest.y.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, dropout, args, largest);
}

// dx += drop(dz A)
static ft_status add_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const stack *s, ft_tensor dz, ft_tensor dx) {
    ft_gemm_args args = {.a = dz, .b = a_of(pass, s, l), .c = dx, .accumulate = true};
    if (s->dropout.probability <= 0) return product(pass, kind, args);
    ft_tensor masked;
    if (dx.dtype == FT_F32) FT_TRY(ft_pass_float_tensor(pass, kind, dx.cols, FT_MEM_ACTIVATIONS, -1, "adapter input gradient", &masked));
    else FT_TRY(temporary(pass, kind, dx.cols, "adapter input gradient", &masked));
    args.c = masked;
    args.accumulate = false;
    FT_TRY(product(pass, kind, args));
    FT_TRY(ft_adapter_add_dropped(pass, kind, s->dropout, masked, dx));
    ft_pass_free(pass, &masked);
    return FT_OK;
}

ft_status ft_adapter_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor dx) {
    stack s;
    for (int at = 0; next_stack(pass, kind, l, &at, &s);) {
        ft_tensor dz;
        FT_TRY(make_dz(pass, kind, l, &s, dy, &dz));
        FT_TRY(add_input_gradient(pass, kind, l, &s, dz, dx));
        ft_pass_free(pass, &dz);
    }
    return FT_OK;
}

// z is made for it, of x', and freed.
static ft_status b_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const stack *s, ft_tensor dy, ft_tensor x) {
    ft_tensor z;
    FT_TRY(make_z(pass, kind, l, s, x, &z));
    for (int n = 0; n < s->count; n++) {
        const reach *r = &s->part[n];
        const ft_tensor of = ft_linear_columns(l, r->first, r->count, dy);
        FT_TRY(product(pass, kind, (ft_gemm_args){.a = of, .b = ranks_of(s, n, z), .c = db_of(pass, l, r), .trans_a = true, .accumulate = true}));
    }
    ft_pass_free(pass, &z);
    return FT_OK;
}

static ft_status a_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, const stack *s, ft_tensor dz, ft_tensor x) {
    return product(pass, kind, (ft_gemm_args){.a = dz, .b = x, .c = da_of(pass, s, l), .trans_a = true, .accumulate = true});
}

ft_status ft_adapter_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x) {
    stack s;
    for (int at = 0; next_stack(pass, kind, l, &at, &s);) {
        ft_tensor own, read, dz;
        FT_TRY(dropped(pass, kind, &s, x, &own, &read));
        FT_TRY(b_gradient(pass, kind, l, &s, dy, read));
        FT_TRY(make_dz(pass, kind, l, &s, dy, &dz));
        FT_TRY(a_gradient(pass, kind, l, &s, dz, read));
        ft_pass_free(pass, &dz);
        ft_pass_free(pass, &own);
    }
    return FT_OK;
}

ft_status ft_adapter_split_gradient(ft_pass *pass, const ft_linear *l, ft_tensor dread, ft_tensor read_x, ft_tensor drest, ft_tensor x) {
    const ft_linear front = ft_linear_parts(l, 0, 1), rest = ft_linear_parts(l, 1, l->parts - 1);
    stack s, all; // of the front, of the rest: one adapter both times
    int at = 0, other = 0;
    ft_tensor own, read, dz_read, dz;
    if (!next_stack(pass, FT_ROWS_READ, &front, &at, &s) || !next_stack(pass, FT_ROWS_TOKENS, &rest, &other, &all)) return FT_OK;
    FT_TRY(dropped(pass, FT_ROWS_READ, &s, read_x, &own, &read));
    FT_TRY(b_gradient(pass, FT_ROWS_READ, &front, &s, dread, read));
    ft_pass_free(pass, &own);
    FT_TRY(make_dz(pass, FT_ROWS_READ, &front, &s, dread, &dz_read));
    FT_TRY(dropped(pass, FT_ROWS_TOKENS, &all, x, &own, &read));
    FT_TRY(b_gradient(pass, FT_ROWS_TOKENS, &rest, &all, drest, read));
    FT_TRY(make_dz(pass, FT_ROWS_TOKENS, &rest, &all, drest, &dz));
    FT_TRY(ft_pass_scatter_add(pass, pass->batch->read_row, dz_read, dz));
    FT_TRY(a_gradient(pass, FT_ROWS_TOKENS, l, &all, dz, read));
    ft_pass_free(pass, &dz);
    ft_pass_free(pass, &dz_read);
    ft_pass_free(pass, &own);
    return FT_OK;
}

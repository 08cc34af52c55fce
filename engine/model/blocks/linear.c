#include "engine/model/blocks/linear.h"

#include "engine/model/blocks/run_op.h"

// Outputs of all parts in front of part n.
static int64_t outputs_before(const ft_linear *l, int n) { return n == 0 ? 0 : l->lead + (n - 1) * l->width; }

ft_linear ft_linear_parts(const ft_linear *l, int first, int count) {
    ft_linear some = *l;
    some.outputs = outputs_before(l, first + count) - outputs_before(l, first);
    some.first = first;
    some.parts = count;
    return some;
}

// ---- where its numbers are ----------------------------------------------------------------------------------------------

// From a view of the first part, or of all: of the parts that are the layer's.
static ft_tensor rows_of(const ft_linear *l, ft_tensor first) {
    if (first.data == NULL) return first;
    const int64_t before = outputs_before(l, l->first);
    return ft_rows(ft_matrix(first.data, before + l->outputs, l->inputs, first.dtype), before, l->outputs);
}
static ft_tensor numbers_of(const ft_linear *l, ft_tensor first) {
    if (first.data == NULL) return first;
    const int64_t before = outputs_before(l, l->first);
    return ft_columns(ft_vector(first.data, before + l->outputs, first.dtype), before, l->outputs);
}

static ft_tensor weight_of(const ft_pass *pass, const ft_linear *l) {
    return rows_of(l, ft_parameter_weight(&pass->model->parameters, l->weight));
}

ft_tensor ft_linear_bias(const ft_pass *pass, const ft_linear *l) {
    return l->bias < 0 ? ft_absent() : numbers_of(l, ft_parameter_weight(&pass->model->parameters, l->bias));
}

ft_tensor ft_linear_dbias(const ft_pass *pass, const ft_linear *l) {
    return l->bias < 0 ? ft_absent() : numbers_of(l, ft_parameter_gradient(&pass->model->parameters, l->bias));
}

// ---- its products -------------------------------------------------------------------------------------------------------

ft_status ft_linear_product(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor bias, ft_tensor y) {
    ft_gemm_args args = {.a = x, .b = weight_of(pass, l), .c = y, .trans_b = true, .bias = bias}, largest = args;
    largest.a.rows = largest.c.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

ft_status ft_linear_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor y) {
    return ft_linear_product(pass, kind, l, x, ft_linear_bias(pass, l), y);
}

ft_status ft_linear_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, bool accumulate, ft_tensor dx) {
    ft_gemm_args args = {.a = dy, .b = weight_of(pass, l), .c = dx, .accumulate = accumulate}, largest = args;
    largest.a.rows = largest.c.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

ft_status ft_linear_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x) {
    ft_tensor dweight = rows_of(l, ft_parameter_gradient(&pass->model->parameters, l->weight));
    if (dweight.data == NULL) return FT_OK;
    ft_gemm_args args = {.a = dy, .b = x, .c = dweight, .trans_a = true, .accumulate = true}, largest = args;
    largest.a.rows = largest.b.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

static ft_status add_rows(ft_pass *pass, ft_rows_kind kind, ft_tensor dy, ft_tensor dbias) {
    ft_column_sum_args args = {.x = dy, .out = dbias}, largest = args;
    largest.x.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, column_sum, args, largest);
}

// Parts with a bias that stand side by side are summed at once.
ft_status ft_linear_bias_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy) {
    const ft_tensor dbias = ft_linear_dbias(pass, l);
    const int64_t before = outputs_before(l, l->first);
    if (dbias.data == NULL) return FT_OK;
    for (int from = 0, end; from < l->parts; from = end + 1) {
        for (end = from; end < l->parts && (l->unbiased >> (l->first + end) & 1) == 0;) end++;
        if (end == from) continue;
        const int64_t first = outputs_before(l, l->first + from) - before;
        const int64_t count = outputs_before(l, l->first + end) - before - first;
        FT_TRY(add_rows(pass, kind, ft_columns(dy, first, count), ft_columns(dbias, first, count)));
    }
    return FT_OK;
}

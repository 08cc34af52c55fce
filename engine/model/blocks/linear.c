#include "engine/model/blocks/linear.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/adapter.h"
#include "engine/model/blocks/dora.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/blocks/run_op.h"
#include "engine/model/blocks/together.h"

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

ft_tensor ft_linear_columns(const ft_linear *l, int first, int count, ft_tensor y) {
    const ft_linear parts = ft_linear_parts(l, first, count);
    return ft_columns(y, outputs_before(l, first) - outputs_before(l, l->first), parts.outputs);
}
static ft_tensor columns_of(const ft_linear *l, int n, ft_tensor y) { return ft_linear_columns(l, n, 1, y); }

// The parameter that begins with the layer's first part, or with the first of all.
static int index_of(const ft_linear *l, int first) { return first < 0 || !l->apart ? first : first + l->first; }

// The same of the weight, which may stand in a file.
static int weight_of(const ft_linear *l) { return l->scattered && !l->apart ? l->weight + l->first : index_of(l, l->weight); }

// Its parts are products of their own: `part` is one after the other.
#define EACH_PART(l, n, part)                                                                                          \
    for (int n = (l)->first; n < (l)->first + (l)->parts; n++)                                                         \
        for (ft_linear part = ft_linear_parts(l, n, 1), *once_ = &part; once_ != NULL; once_ = NULL)
static bool comes_apart(const ft_linear *l) { return l->apart && l->parts > 1; }
static bool is_scattered(const ft_linear *l) { return l->scattered && !l->apart && l->parts > 1; }

// From a view of the first part, or of all: of the parts that are the layer's.
static ft_tensor rows_of(const ft_linear *l, ft_tensor first) {
    if (first.data == NULL || l->apart) return first;
    const int64_t before = outputs_before(l, l->first);
    return ft_rows(ft_matrix(first.data, before + l->outputs, l->inputs, first.dtype), before, l->outputs);
}
static ft_tensor numbers_of(const ft_linear *l, ft_tensor first) {
    if (first.data == NULL || l->apart) return first;
    const int64_t before = outputs_before(l, l->first);
    return ft_columns(ft_vector(first.data, before + l->outputs, first.dtype), before, l->outputs);
}

// A weight as products read it: where it stands, or of one that is kept in another form (parameters.h) what was made of it.
typedef struct factor {
    ft_tensor rows; // of the layer's parts
    void *made;     // NULL: nothing was
} factor;

static ft_status dequantise(ft_pass *pass, ft_tensor x, ft_tensor y) {
    ft_dequantise_args args = {.format = pass->model->parameters.storage.format, .x = x, .y = y}, largest = args;
    RUN_WITH_WORKSPACE(pass, dequantise, args, largest);
}

static ft_status make_factor(ft_pass *pass, int index, ft_tensor to) {
    const ft_tensor kept = ft_parameter_weight(&pass->model->parameters, index);
    return kept.dtype == FT_U8 ? dequantise(pass, kept, to) : ft_pass_cast(pass, kept, to);
}

static ft_status make_parts(ft_pass *pass, const ft_linear *l, int index, bool each, ft_tensor to) {
    if (!each) return make_factor(pass, index, to);
    const int64_t before = outputs_before(l, l->first);
    for (int n = l->first; n < l->first + l->parts; n++) {
        const int64_t first = outputs_before(l, n), end = outputs_before(l, n + 1);
        FT_TRY(make_factor(pass, index + n, ft_rows(to, first - before, end - first)));
    }
    return FT_OK;
}

// Close it in any case.
static ft_status open_factor(ft_pass *pass, const ft_linear *l, factor *f) {
    const ft_parameters *p = &pass->model->parameters;
    const int index = index_of(l, l->weight);
    const bool each = l->each && !l->apart;
    if (l->scattered) return *f = (factor){.rows = ft_parameter_weight(p, weight_of(l))}, FT_OK;
    *f = (factor){.made = NULL};
    if (!p->list[index].kept) return f->rows = rows_of(l, ft_parameter_weight(p, index)), FT_OK;
    const int64_t rows = each ? l->outputs : p->list[index].rows;
    const size_t bytes = (size_t)(rows * l->inputs) * ft_dtype_size(pass->model->dtype);
    FT_TRY(ft_memory_alloc(pass->model->memory, bytes, FT_MEM_WORKSPACE, "a weight for its product", &f->made));
    const ft_tensor all = ft_matrix(f->made, rows, l->inputs, pass->model->dtype);
    f->rows = each ? all : rows_of(l, all);
    return make_parts(pass, l, index, each, all);
}
static void close_factor(ft_pass *pass, factor *f) { ft_memory_free(pass->model->memory, f->made); }

ft_tensor ft_linear_bias(const ft_pass *pass, const ft_linear *l) {
    return l->bias < 0 ? ft_absent() : numbers_of(l, ft_parameter_weight(&pass->model->parameters, index_of(l, l->bias)));
}

ft_tensor ft_linear_dbias(const ft_pass *pass, const ft_linear *l) {
    return l->bias < 0 ? ft_absent() : numbers_of(l, ft_parameter_gradient(&pass->model->parameters, index_of(l, l->bias)));
}

bool ft_linear_reads_input(const ft_model *m, const ft_linear *l) {
    const ft_parameter *q = &m->parameters.list[l->weight];
    for (int n = 0; n < (l->each ? l->parts : 1); n++)
        if (q[l->each ? l->first + n : 0].trainable) return true;
    return ft_adapter_on(l);
}

// ---- its products -------------------------------------------------------------------------------------------------------

static ft_status multiply(ft_pass *pass, ft_rows_kind kind, ft_gemm_args args) {
    ft_gemm_args largest = args;
    largest.a.rows = largest.c.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

// Of the frozen weight `l` has, maybe with other runs that have it too. On the CPU they share what lies in memory once; a device that queues
// takes what each has made of packed weights.
static ft_status multiply_frozen(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_gemm_args args) {
    const ft_parameter *w = &pass->model->parameters.list[weight_of(l)];
    const bool shared = !w->trainable && (!w->kept || ft_device_queues(pass->model->device));
    ft_gemm_args largest = args;
    if (!shared || !ft_together_on(pass, kind)) return multiply(pass, kind, args);
    largest.a.rows = largest.c.rows = ft_pass_capacity(pass, kind);
    return ft_together_multiply(pass, args, &largest);
}

// A weight that is multiplied as it is kept, in 8 bits. DoRA's norms ask for numbers.
static bool is_multiplied_as_kept(const ft_pass *pass, const ft_linear *l) {
    const ft_parameters *p = &pass->model->parameters;
    return p->storage.multiplied && p->list[weight_of(l)].kept && !ft_dora_on(l);
}

static ft_status multiply_codes(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor bias, ft_tensor y) {
    const ft_parameters *p = &pass->model->parameters;
    const bool each = l->each && !l->apart;
    const int index = index_of(l, l->weight);
    ft_int8_product_args args = {.x = x, .y = y, .bias = bias, .parts = each ? l->parts : 1}, largest;
    if (args.parts > FT_INT8_MOST_PARTS) return ft_fail(FT_FAILED, "int8_product", "a layer of %d parts", args.parts);
    for (int i = 0; i < args.parts; i++) {
        const int at = each ? index + l->first + i : index;
        const int64_t first = each || l->apart ? 0 : outputs_before(l, l->first), outputs = each ? outputs_before(l, l->first + i + 1) - outputs_before(l, l->first + i) : l->outputs;
        args.part[i] = (ft_int8_part){ft_parameter_weight(p, at), p->list[at].rows, first, outputs};
    }
    largest = args;
    largest.x.rows = largest.y.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, int8_product, args, largest);
}

static ft_status trunk_product(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor bias, ft_tensor y) {
    factor w;
    if (is_scattered(l)) {
        EACH_PART(l, n, part)
            FT_TRY(trunk_product(pass, kind, &part, x, bias.data != NULL ? columns_of(l, n, bias) : bias, columns_of(l, n, y)));
        return FT_OK;
    }
    if (is_multiplied_as_kept(pass, l)) return multiply_codes(pass, kind, l, x, bias, y);
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK) status = multiply_frozen(pass, kind, l, (ft_gemm_args){.a = x, .b = w.rows, .c = y, .trans_b = true, .bias = bias});
    if (status == FT_OK && ft_dora_on(l)) status = ft_dora_forward(pass, kind, l, w.rows, x, bias, y);
    close_factor(pass, &w);
    return status;
}

ft_status ft_linear_product(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor bias, ft_tensor y) {
    FT_TRY(trunk_product(pass, kind, l, x, bias, y));
    return ft_dora_on(l) ? FT_OK : ft_adapter_forward(pass, kind, l, x, y);
}

ft_status ft_linear_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor y) {
    if (comes_apart(l)) {
        EACH_PART(l, n, part) FT_TRY(ft_linear_forward(pass, kind, &part, x, columns_of(l, n, y)));
        return FT_OK;
    }
    return ft_linear_product(pass, kind, l, x, ft_linear_bias(pass, l), y);
}

// (Frozen weights of several runs are multiplied together instead.)
bool ft_linear_may_activate(const ft_pass *pass, ft_rows_kind kind, const ft_linear *l) {
    const ft_model *m = pass->model;
    return ft_product_activation_may(&m->device->target, m->dtype) && !comes_apart(l) && !is_scattered(l) && !is_multiplied_as_kept(pass, l) &&
           !ft_dora_on(l) && !ft_adapter_on(l) && !ft_together_on(pass, kind);
}

static ft_status run_activated(ft_pass *pass, ft_rows_kind kind, ft_product_activation_args args) {
    ft_product_activation_args largest = args;
    largest.x.rows = largest.y.rows = ft_pass_capacity(pass, kind);
    if (args.h.data != NULL) largest.h.rows = largest.y.rows;
    RUN_WITH_WORKSPACE(pass, product_activation, args, largest);
}

ft_status ft_linear_activated(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_activation act, ft_tensor h, ft_tensor y) {
    factor w;
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK)
        status = run_activated(pass, kind, (ft_product_activation_args){.kind = act, .x = x, .w = w.rows, .bias = ft_linear_bias(pass, l),
                                                                        .h = h.data != y.data ? h : ft_absent(), .y = y});
    close_factor(pass, &w);
    return status;
}

static ft_status run_slope(ft_pass *pass, ft_rows_kind kind, ft_product_slope_args args) {
    ft_product_slope_args largest = args;
    largest.dout.rows = largest.h.rows = largest.dx.rows = ft_pass_capacity(pass, kind);
    if (args.y.data != NULL) largest.y.rows = largest.h.rows;
    RUN_WITH_WORKSPACE(pass, product_slope, args, largest);
}

ft_status ft_linear_slope(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_activation_backward_args behind) {
    factor w;
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK)
        status = run_slope(pass, kind, (ft_product_slope_args){.kind = behind.kind, .dout = dy, .w = w.rows, .h = behind.h, .dx = behind.dx, .y = behind.y,
                                                               .dbias = behind.dbias});
    close_factor(pass, &w);
    return status;
}

static ft_status run_normed(ft_pass *pass, ft_rows_kind kind, ft_product_norm_args args) {
    ft_product_norm_args largest = args;
    largest.x.rows = ft_pass_capacity(pass, kind);
    largest.norm = ft_norm_largest(pass, kind, args.norm);
    RUN_WITH_WORKSPACE(pass, product_norm, args, largest);
}

ft_status ft_linear_normed(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, const ft_norm *norm, const ft_norm_saved *saved,
                           ft_layernorm_forward_args behind) {
    factor w;
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK)
        status = run_normed(pass, kind, (ft_product_norm_args){.x = x, .w = w.rows, .norm = ft_norm_args(pass, norm, saved, behind)});
    close_factor(pass, &w);
    return status;
}

// Part after part dx is one chain of sums, as in one product (gemm.h).
static ft_status trunk_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, bool accumulate, ft_tensor dx) {
    factor w;
    if (is_scattered(l)) {
        EACH_PART(l, n, part) FT_TRY(trunk_input_gradient(pass, kind, &part, columns_of(l, n, dy), accumulate || n > l->first, dx));
        return FT_OK;
    }
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK && ft_dora_on(l)) status = ft_dora_input_gradient(pass, kind, l, w.rows, dy, accumulate, dx);
    else if (status == FT_OK) status = multiply_frozen(pass, kind, l, (ft_gemm_args){.a = dy, .b = w.rows, .c = dx, .accumulate = accumulate});
    close_factor(pass, &w);
    return status;
}

ft_status ft_linear_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, bool accumulate, ft_tensor dx) {
    if (comes_apart(l)) {
        EACH_PART(l, n, part) FT_TRY(ft_linear_input_gradient(pass, kind, &part, columns_of(l, n, dy), accumulate || n > l->first, dx));
        return FT_OK;
    }
    FT_TRY(trunk_input_gradient(pass, kind, l, dy, accumulate, dx));
    return ft_dora_on(l) ? FT_OK : ft_adapter_input_gradient(pass, kind, l, dy, dx);
}

static ft_status trunk_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x) {
    ft_tensor dweight = rows_of(l, ft_parameter_gradient(&pass->model->parameters, index_of(l, l->weight)));
    if (dweight.data == NULL) return FT_OK;
    ft_gemm_args args = {.a = dy, .b = x, .c = dweight, .trans_a = true, .accumulate = true}, largest = args;
    largest.a.rows = largest.b.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gemm, args, largest);
}

static ft_status dora_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x) {
    factor w;
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK) status = ft_dora_weight_gradient(pass, kind, l, w.rows, dy, x);
    close_factor(pass, &w);
    return status;
}

ft_status ft_linear_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x) {
    if (comes_apart(l)) {
        EACH_PART(l, n, part) FT_TRY(ft_linear_weight_gradient(pass, kind, &part, columns_of(l, n, dy), x));
        return FT_OK;
    }
    FT_TRY(trunk_weight_gradient(pass, kind, l, dy, x));
    return ft_dora_on(l) ? dora_weight_gradient(pass, kind, l, dy, x) : ft_adapter_weight_gradient(pass, kind, l, dy, x);
}

bool ft_linear_shares_adapter(const ft_linear *l) { return ft_adapter_is_shared(l); }

ft_status ft_linear_split_gradient(ft_pass *pass, const ft_linear *l, ft_tensor dread, ft_tensor read_x, ft_tensor drest, ft_tensor x) {
    if (!ft_dora_on(l)) return ft_adapter_split_gradient(pass, l, dread, read_x, drest, x);
    factor w;
    ft_status status = open_factor(pass, l, &w);
    if (status == FT_OK) status = ft_dora_split_gradient(pass, l, w.rows, dread, read_x, drest, x);
    close_factor(pass, &w);
    return status;
}

static ft_status add_rows(ft_pass *pass, ft_rows_kind kind, ft_tensor dy, ft_tensor dbias) {
    ft_column_sum_args args = {.x = dy, .out = dbias}, largest = args;
    largest.x.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, column_sum, args, largest);
}

// Parts with a bias that stand side by side are summed at once.
ft_status ft_linear_bias_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy) {
    if (comes_apart(l)) {
        EACH_PART(l, n, part) FT_TRY(ft_linear_bias_gradient(pass, kind, &part, columns_of(l, n, dy)));
        return FT_OK;
    }
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

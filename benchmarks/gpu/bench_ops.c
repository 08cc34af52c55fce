// bench_ops.c - the ops of one training step with their shapes, as the program queues them, on a card that is not there.
//
//     bench_ops CARD [CONFIG.ini ...] [section.key=value ...]          CARD: as in `ftengine plan --gpu`
//
// `ftengine plan` runs the trainer on a back end that computes nothing. Here the linker (--wrap) gives that back end a table of
// ops which writes down what it is asked for, from where a step begins to behind its update. Prints one JSON document: the planned
// memory, and every kind of call in the step with its number, operations and bytes by kernels/devices/cost.h, and for matrix products and
// attention the shape. Of the steps that a plan rehearses the one with most calls is it. predict_steps.py makes times of it.
#include "base/log.h"
#include "benchmarks/config_arguments.h"
#include "engine/plan/plan.h"
#include "engine/train/step/update.h"
#include "kernels/devices/cost.h"

#include <stdio.h>
#include <string.h>

enum { KINDS = 256 };
typedef struct call {
    const char *op;
    const char *rows_type, *out_type;
    long long behind;   // of an activation or a norm in one op with its product: that one's depth; else 0
    long long shape[3]; // a product: rows, columns, depth; attention: rows of queries and keys, longest; else rows, columns
    int heads, head_dim, window, transposed_a, transposed_b, accumulates, tables, dropout;
    double flops, bytes, scratch;
} call;
typedef struct step {
    struct {
        call call;
        long number;
    } kinds[KINDS];
    int count;
    long calls;
    bool full; // more kinds than there is room for
} step;
static step now, kept;
static bool inside_step;
static const ft_op_table *ops;
static const ft_device_functions *host_functions, *device_functions;

// Everything in a call that tells it from another one. Its bytes are compared: what is not set is zero.
static bool same(const call *a, const call *b) {
    return strcmp(a->op, b->op) == 0 && strcmp(a->rows_type, b->rows_type) == 0 && strcmp(a->out_type, b->out_type) == 0 &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 && a->heads == b->heads && a->head_dim == b->head_dim && a->window == b->window &&
           a->transposed_a == b->transposed_a && a->transposed_b == b->transposed_b && a->accumulates == b->accumulates && a->behind == b->behind &&
           a->tables == b->tables && a->dropout == b->dropout && a->flops == b->flops && a->bytes == b->bytes && a->scratch == b->scratch;
}

static void note(call c) {
    if (!inside_step) return;
    now.calls++;
    for (int i = 0; i < now.count; i++) {
        if (same(&now.kinds[i].call, &c)) {
            now.kinds[i].number++;
            return;
        }
    }
    if (now.count == KINDS) {
        now.full = true;
        return;
    }
    now.kinds[now.count].call = c;
    now.kinds[now.count++].number = 1;
}

static call of_rows(const char *op, ft_tensor rows, ft_tensor out) {
    return (call){.op = op, .rows_type = ft_dtype_name(rows.dtype), .out_type = ft_dtype_name(out.dtype), .shape = {rows.rows, rows.cols}};
}

static call of_attention(const char *op, const ft_attention_shape *s, ft_tensor q, ft_tensor k, int tables) {
    call c = of_rows(op, q, q);
    c.shape[1] = k.rows, c.shape[2] = s->max_keys;
    c.heads = s->heads, c.head_dim = s->head_dim, c.window = s->window, c.tables = tables;
    c.dropout = s->dropout.probability > 0;
    return c;
}

static int there(ft_tensor t) { return t.data != NULL; }

static call of_gemm(const ft_gemm_args *a) {
    call c = of_rows("gemm", a->a, a->c);
    c.shape[0] = a->c.rows, c.shape[1] = a->c.cols, c.shape[2] = a->trans_a ? a->a.rows : a->a.cols;
    c.transposed_a = a->trans_a, c.transposed_b = a->trans_b, c.accumulates = a->accumulate;
    return c;
}
static call of_segment_product(const ft_segment_product_args *a) {
    call c = of_gemm(a->product[0]);
    c.op = "segment_product", c.shape[0] = 0;
    for (int i = 0; i < a->count; i++) c.shape[0] += a->product[i]->c.rows;
    return c;
}
#define ROWS(name, rows, out) \
    static call of_##name(const ft_##name##_args *a) { return of_rows(#name, a->rows, a->out); }
ROWS(column_sum, x, out)
ROWS(embedding_forward, out, word)
static call of_embedding_backward(const ft_embedding_backward_args *a) {
    call c = of_rows("embedding_backward", a->dout, a->table_gradient);
    c.shape[2] = a->table_gradient.rows;
    return c;
}
// `out` is the type of what adds up from layer to layer (train.residual).
static call of_layernorm_forward(const ft_layernorm_forward_args *a) { return of_rows("layernorm_forward", a->x, there(a->residual) ? a->residual : a->stream); }
ROWS(layernorm_backward, s, dy)
ROWS(activation_forward, x, y)
ROWS(activation_backward, h, dx)
// The two ops that it is unless something else was measured; of the latter is told behind a product over how many terms it stands.
static call of_two(const ft_gemm_args *product, ft_workspace workspace, int64_t terms, call second, ft_cost rest) {
    const ft_cost of_product = ft_gemm_cost(product);
    call first = of_gemm(product);
    first.flops = of_product.flops, first.bytes = of_product.bytes, first.scratch = (double)workspace.bytes;
    note(first);
    second.flops = rest.flops, second.bytes = rest.bytes, second.behind = terms;
    return second;
}
static call of_product_activation(const ft_product_activation_args *a) {
    const ft_gemm_args product = ft_product_activation_product(a);
    const ft_activation_forward_args rest = ft_product_activation_rest(a);
    return of_two(&product, a->workspace, a->x.cols, of_activation_forward(&rest), ft_activation_forward_cost(&rest));
}
static call of_product_slope(const ft_product_slope_args *a) {
    const ft_gemm_args product = ft_product_slope_product(a);
    const ft_activation_backward_args rest = ft_product_slope_rest(a);
    return of_two(&product, a->workspace, a->dout.cols, of_activation_backward(&rest), ft_activation_backward_cost(&rest));
}
static call of_product_norm(const ft_product_norm_args *a) {
    const ft_gemm_args product = ft_product_norm_product(a);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(a);
    return of_two(&product, a->workspace, a->x.cols, of_layernorm_forward(&rest), ft_layernorm_forward_cost(&rest));
}
static call of_attention_forward(const ft_attention_forward_args *a) { return of_attention("attention_forward", &a->shape, a->q, a->k, 0); }
static call of_attention_backward(const ft_attention_backward_args *a) { return of_attention("attention_backward", &a->shape, a->q, a->k, 0); }
static call of_disentangled_attention_forward(const ft_disentangled_attention_forward_args *a) {
    return of_attention("disentangled_attention_forward", &a->shape.attention, a->q, a->k, there(a->pos_key) + there(a->pos_query));
}
static call of_disentangled_attention_backward(const ft_disentangled_attention_backward_args *a) {
    return of_attention("disentangled_attention_backward", &a->shape.attention, a->q, a->k, there(a->pos_key) + there(a->pos_query));
}
static call of_talking_attention_forward(const ft_talking_attention_forward_args *a) {
    return of_attention("talking_attention_forward", &a->shape.attention, a->q, a->k, there(a->pos_key) + there(a->pos_query));
}
static call of_talking_attention_backward(const ft_talking_attention_backward_args *a) {
    return of_attention("talking_attention_backward", &a->shape.attention, a->q, a->k, there(a->pos_key) + there(a->pos_query));
}
ROWS(gated_forward, x, y)
ROWS(gated_backward, h, dx)
ROWS(rope, x, x)
ROWS(sequence_mean_forward, x, y)
ROWS(sequence_mean_backward, dy, dx)
ROWS(dropout, x, y)
ROWS(gather_rows, y, y)
ROWS(scatter_rows_add, x, y)
ROWS(unfold, x, y)
ROWS(fold_add, y, x)
ROWS(cross_entropy, logits, losses)
ROWS(weighted_cross_entropy, logits, losses)
ROWS(binary_cross_entropy, logits, losses)
ROWS(span_cross_entropy, logits, losses)
ROWS(squared_error, logits, losses)
ROWS(cast, x, y)
ROWS(dequantise, y, y)
ROWS(int8_product, x, y)
ROWS(row_norm, w, b)
ROWS(column_scale, x, y)
static call of_gradient_norm(const ft_gradient_norm_args *a) {
    call c = of_rows("gradient_norm", a->gradient, a->gradient);
    c.shape[1] = a->gradient.cols + (a->table_rows > 0 ? a->table.rows * a->table.cols : 0);
    return c;
}
static call of_adamw(const ft_adamw_args *a) {
    call c = of_rows("adamw", a->parameter, a->parameter);
    c.shape[1] = 0;
    for (int32_t i = 0; i < a->range_count; i++) c.shape[1] += a->ranges[i].count;
    return c;
}
ROWS(decay, parameter, parameter)

#define FT_OP(name, what)                                                                                                                  \
    static ft_status noted_##name(ft_device *device, const ft_##name##_args *a) {                                                          \
        call c = of_##name(a);                                                                                                             \
        ft_cost cost = ft_##name##_cost(a);                                                                                                \
        if (c.behind == 0) c.flops = cost.flops, c.bytes = cost.bytes, c.scratch = (double)a->workspace.bytes;                             \
        note(c);                                                                                                                           \
        return ops->name(device, a);                                                                                                       \
    }
#include "kernels/ops/ops.def"
#undef FT_OP
static const ft_op_table noted = {
#define FT_OP(name, what) .name = noted_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};

static const ft_device_functions *real_functions(const ft_device *device) {
    return device->functions->host_alloc != NULL ? device_functions : host_functions;
}
static void note_bytes(const char *op, size_t bytes) {
    note((call){.op = op, .rows_type = "bytes", .out_type = "bytes", .shape = {1, (long long)bytes}, .bytes = (double)bytes});
}
static ft_status noted_fill(ft_device *device, void *data, int byte, size_t bytes) {
    note_bytes("fill", bytes);
    return real_functions(device)->fill(device, data, byte, bytes);
}
static ft_status noted_copy(ft_device *device, void *to, const void *from, size_t bytes) {
    note_bytes("copy", 2 * bytes); // read and written
    return real_functions(device)->copy(device, to, from, bytes);
}

// The linker's names for what is wrapped and for what stands in its place.
ft_status __real_ft_plan_open(const char *name, ft_target target, size_t total_bytes, ft_device **device);
ft_status __wrap_ft_plan_open(const char *name, ft_target target, size_t total_bytes, ft_device **device);
ft_status __wrap_ft_plan_open(const char *name, ft_target target, size_t total_bytes, ft_device **device) {
    static ft_device_functions of_host, of_own_memory;
    FT_TRY(__real_ft_plan_open(name, target, total_bytes, device));
    const bool own = (*device)->functions->host_alloc != NULL;
    const ft_device_functions **real = own ? &device_functions : &host_functions;
    ft_device_functions *with_notes = own ? &of_own_memory : &of_host;
    *real = (*device)->functions;
    *with_notes = **real;
    with_notes->fill = noted_fill, with_notes->copy = noted_copy;
    ops = (*device)->ops;
    (*device)->ops = &noted, (*device)->functions = with_notes;
    return FT_OK;
}

ft_status __real_ft_model_begin_step(ft_model *model, ft_capacity capacity, const ft_step_state *state);
ft_status __wrap_ft_model_begin_step(ft_model *model, ft_capacity capacity, const ft_step_state *state);
ft_status __wrap_ft_model_begin_step(ft_model *model, ft_capacity capacity, const ft_step_state *state) {
    memset(&now, 0, sizeof now);
    inside_step = true;
    return __real_ft_model_begin_step(model, capacity, state);
}

ft_status __real_ft_update_run(const ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *state,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(const ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *state,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(const ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *state,
                               ft_update_state *update) {
    ft_status status = __real_ft_update_run(p, config, losses, state, update);
    if (inside_step && now.calls > kept.calls) kept = now;
    inside_step = false;
    return status;
}

static void print(const ft_card *card, const ft_plan *plan) {
    printf("{\"card\": \"%s\", \"fits\": %s, \"planned_bytes\": %zu, \"allocated_bytes\": %zu, \"trained\": %lld,\n", card->name,
           plan->fits && !plan->autofit.chosen ? "true" : "false", plan->memory.peak_reserved, plan->memory.peak_allocated,
           (long long)plan->trained_parameters);
    printf(" \"tokens\": %lld, \"texts\": %lld, \"calls\": %ld, \"ops\": [", (long long)plan->train.tokens, (long long)plan->train.sequences,
           kept.calls);
    for (int i = 0; i < kept.count; i++) {
        const call *c = &kept.kinds[i].call;
        printf("%s\n  {\"op\": \"%s\", \"number\": %ld, \"type\": \"%s\", \"out\": \"%s\", \"shape\": [%lld, %lld, %lld], \"flops\": %.17g, "
               "\"bytes\": %.17g, \"scratch\": %.17g, \"heads\": %d, \"head_dim\": %d, \"window\": %d, \"tables\": %d, \"dropout\": %d, \"transposed\": [%d, %d], \"accumulates\": %d, \"behind\": %lld}",
               i > 0 ? "," : "", c->op, kept.kinds[i].number, c->rows_type, c->out_type, c->shape[0], c->shape[1], c->shape[2], c->flops, c->bytes, c->scratch,
               c->heads, c->head_dim, c->window, c->tables, c->dropout, c->transposed_a, c->transposed_b, c->accumulates, c->behind);
    }
    printf("\n]}\n");
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_ops CARD [CONFIG.ini ...] [section.key=value ...]\n");
        return 2;
    }
    ft_config config = {0};
    ft_plan plan;
    ft_plan_request request = {.labels = 3};
    ft_log_set_level(FT_LOG_QUIET);
    ft_status status = ft_card_find(argv[1], &request.card);
    if (status == FT_OK) status = bench_load_config(&config, argc - 2, argv + 2);
    if (status == FT_OK) status = ft_plan_run(&config, &request, &plan);
    if (status != FT_OK) ft_log_error();
    else if (kept.calls == 0 || kept.full) fprintf(stderr, "bench_ops: %ld calls of %d kinds were seen\n", kept.calls, kept.count);
    else print(request.card, &plan);
    ft_config_free(&config);
    return status != FT_OK || kept.calls == 0 || kept.full;
}

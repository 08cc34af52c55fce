#include "kernels/devices/cost.h"

static double elements(ft_tensor t) { return t.data != NULL ? (double)t.rows * (double)t.cols : 0; }
static double bytes(ft_tensor t) { return elements(t) * (double)ft_dtype_size(t.dtype); }
static double both_ways(ft_tensor t) { return 2 * bytes(t); } // accumulated: read and written

ft_cost ft_gemm_cost(const ft_gemm_args *a) {
    double k = (double)(a->trans_a ? a->a.rows : a->a.cols);
    double c = a->accumulate ? both_ways(a->c) : bytes(a->c);
    // A gradient of weights has its rows in k: the kernel is as busy with them.
    double rows = a->trans_a ? k : (double)a->c.rows;
    ft_cost cost = {2 * k * elements(a->c), bytes(a->a) + bytes(a->b) + c, rows};
    for (int i = 0; i < a->more_count; i++) {
        const ft_tensor more = a->more[i].c;
        cost.flops += 2 * k * elements(more);
        cost.bytes += bytes(a->more[i].a) + (a->accumulate ? both_ways(more) : bytes(more));
        cost.rows += (double)more.rows;
    }
    return cost;
}

// A matrix that several products have is read once.
ft_cost ft_segment_product_cost(const ft_segment_product_args *a) {
    ft_cost all = {0, 0, 0};
    for (int i = 0; i < a->count; i++) {
        const ft_gemm_args *g = a->product[i];
        const ft_cost one = ft_gemm_cost(g);
        const bool again = i > 0 && g->b.data == a->product[i - 1]->b.data;
        all.flops += one.flops;
        all.bytes += one.bytes - (again ? bytes(g->b) : 0);
        all.rows += one.rows;
    }
    return all;
}

ft_cost ft_column_sum_cost(const ft_column_sum_args *a) { return (ft_cost){elements(a->x), bytes(a->x) + both_ways(a->out), 0}; }

ft_cost ft_embedding_forward_cost(const ft_embedding_forward_args *a) {
    int tables = 1 + (a->position.data != NULL) + (a->type.data != NULL);
    return (ft_cost){tables * elements(a->out), (1 + tables) * bytes(a->out), 0};
}

ft_cost ft_embedding_backward_cost(const ft_embedding_backward_args *a) {
    return (ft_cost){elements(a->dout), bytes(a->dout) + both_ways(a->dout), 0}; // as many rows of the table at most
}

ft_cost ft_layernorm_forward_cost(const ft_layernorm_forward_args *a) {
    return (ft_cost){8 * elements(a->x), bytes(a->x) + bytes(a->residual) + bytes(a->s) + bytes(a->y) + bytes(a->wide) + bytes(a->stream), 0};
}

ft_cost ft_layernorm_backward_cost(const ft_layernorm_backward_args *a) {
    return (ft_cost){12 * elements(a->dy), bytes(a->dy) + bytes(a->s) + bytes(a->past) + bytes(a->ds) + bytes(a->dx), 0};
}

// exp, erf or tanh: about twenty operations an element.
ft_cost ft_activation_forward_cost(const ft_activation_forward_args *a) {
    return (ft_cost){20 * elements(a->x), bytes(a->x) + bytes(a->h) + bytes(a->y), 0};
}

// Of a product and what stands behind it the two ops, which run unless a kernel of our own was measured to be faster (plan.c plans each).
static ft_cost of_two(ft_cost product, ft_cost rest) {
    return (ft_cost){product.flops + rest.flops, product.bytes + rest.bytes, product.rows};
}

ft_cost ft_product_activation_cost(const ft_product_activation_args *a) {
    const ft_gemm_args product = ft_product_activation_product(a);
    const ft_activation_forward_args rest = ft_product_activation_rest(a);
    return of_two(ft_gemm_cost(&product), ft_activation_forward_cost(&rest));
}

ft_cost ft_activation_backward_cost(const ft_activation_backward_args *a) {
    return (ft_cost){30 * elements(a->h), bytes(a->h) + bytes(a->dy) + bytes(a->dx) + bytes(a->y), 0};
}

ft_cost ft_product_slope_cost(const ft_product_slope_args *a) {
    const ft_gemm_args product = ft_product_slope_product(a);
    const ft_activation_backward_args rest = ft_product_slope_rest(a);
    return of_two(ft_gemm_cost(&product), ft_activation_backward_cost(&rest));
}

ft_cost ft_product_norm_cost(const ft_product_norm_args *a) {
    const ft_gemm_args product = ft_product_norm_product(a);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(a);
    return of_two(ft_gemm_cost(&product), ft_layernorm_forward_cost(&rest));
}

ft_cost ft_gated_forward_cost(const ft_gated_forward_args *a) { return (ft_cost){21 * elements(a->y), bytes(a->x) + bytes(a->y), 0}; }

ft_cost ft_gated_backward_cost(const ft_gated_backward_args *a) {
    return (ft_cost){33 * elements(a->dy), bytes(a->h) + bytes(a->dy) + bytes(a->dx) + bytes(a->y), 0};
}

ft_cost ft_rope_cost(const ft_rope_args *a) { return (ft_cost){3 * elements(a->x), both_ways(a->x), 0}; }

// Score pairs of all heads, times the width of a head: 2 operations each of these for every product of that size.
static double pairs(const ft_attention_shape *s, ft_tensor q, ft_tensor k) {
    double keys = (double)(s->max_keys < k.rows ? s->max_keys : k.rows), band = (s->causal ? 1.0 : 2.0) * s->window + 1;
    if (s->causal) keys = (keys + 1) / 2; // on the average
    return elements(q) * (s->window > 0 && band < keys ? band : keys);
}

ft_cost ft_attention_forward_cost(const ft_attention_forward_args *a) {
    return (ft_cost){4 * pairs(&a->shape, a->q, a->k), bytes(a->q) + bytes(a->k) + bytes(a->v) + bytes(a->out), 0};
}

// Five products instead of two: scores again, dP, dQ, dK, dV.
ft_cost ft_attention_backward_cost(const ft_attention_backward_args *a) {
    return (ft_cost){10 * pairs(&a->shape, a->q, a->k),
                     2 * (bytes(a->q) + bytes(a->k) + bytes(a->v)) + bytes(a->out) + bytes(a->dout), 0};
}

// Each table adds a product of the queries' (keys') rows with its rows; of the backward pass two.
static double position_pairs(const ft_attention_shape *s, ft_tensor rows, ft_tensor table) {
    return elements(rows) * (table.data != NULL ? (double)table.rows : 0);
}

ft_cost ft_disentangled_attention_forward_cost(const ft_disentangled_attention_forward_args *a) {
    const ft_attention_shape *s = &a->shape.attention;
    double positions = position_pairs(s, a->q, a->pos_key) + position_pairs(s, a->k, a->pos_query);
    return (ft_cost){4 * pairs(s, a->q, a->k) + 2 * positions,
                     bytes(a->q) + bytes(a->k) + bytes(a->v) + bytes(a->out) + bytes(a->pos_key) + bytes(a->pos_query), 0};
}

ft_cost ft_disentangled_attention_backward_cost(const ft_disentangled_attention_backward_args *a) {
    const ft_attention_shape *s = &a->shape.attention;
    double positions = position_pairs(s, a->q, a->pos_key) + position_pairs(s, a->k, a->pos_query);
    return (ft_cost){10 * pairs(s, a->q, a->k) + 6 * positions,
                     2 * (bytes(a->q) + bytes(a->k) + bytes(a->v)) + bytes(a->out) + bytes(a->dout) + bytes(a->pos_key) +
                         bytes(a->pos_query) + both_ways(a->dpos_key) + both_ways(a->dpos_query), 0};
}

// Beside what disentangled attention does, heads x heads operations a pair for each of the mixings, of the backward pass six.
static double mixings(const ft_attention_shape *s, ft_tensor q, ft_tensor k, int count) {
    return 2.0 * count * s->heads / s->head_dim * pairs(s, q, k);
}

ft_cost ft_talking_attention_forward_cost(const ft_talking_attention_forward_args *a) {
    const ft_attention_shape *s = &a->shape.attention;
    double positions = position_pairs(s, a->q, a->pos_key) + position_pairs(s, a->k, a->pos_query);
    return (ft_cost){4 * pairs(s, a->q, a->k) + 2 * positions + mixings(s, a->q, a->k, 2),
                     bytes(a->q) + bytes(a->k) + bytes(a->v) + bytes(a->out) + bytes(a->pos_key) + bytes(a->pos_query), 0};
}

ft_cost ft_talking_attention_backward_cost(const ft_talking_attention_backward_args *a) {
    const ft_attention_shape *s = &a->shape.attention;
    double positions = position_pairs(s, a->q, a->pos_key) + position_pairs(s, a->k, a->pos_query);
    return (ft_cost){10 * pairs(s, a->q, a->k) + 6 * positions + mixings(s, a->q, a->k, 6),
                     2 * (bytes(a->q) + bytes(a->k) + bytes(a->v)) + bytes(a->dout) + bytes(a->pos_key) + bytes(a->pos_query) +
                         both_ways(a->dpos_key) + both_ways(a->dpos_query), 0};
}

ft_cost ft_dropout_cost(const ft_dropout_args *a) { return (ft_cost){10 * elements(a->x), bytes(a->x) + bytes(a->y), 0}; }
ft_cost ft_gather_rows_cost(const ft_gather_rows_args *a) { return (ft_cost){0, both_ways(a->y), 0}; }
ft_cost ft_scatter_rows_add_cost(const ft_scatter_rows_add_args *a) { return (ft_cost){elements(a->x), 3 * bytes(a->x), 0}; }
ft_cost ft_sequence_mean_forward_cost(const ft_sequence_mean_forward_args *a) {
    return (ft_cost){elements(a->x), bytes(a->x) + bytes(a->y), 0};
}
ft_cost ft_sequence_mean_backward_cost(const ft_sequence_mean_backward_args *a) {
    return (ft_cost){elements(a->dx), bytes(a->dx) + bytes(a->dy), 0};
}
ft_cost ft_unfold_cost(const ft_unfold_args *a) { return (ft_cost){0, bytes(a->x) + bytes(a->y), 0}; }
ft_cost ft_fold_add_cost(const ft_fold_add_args *a) { return (ft_cost){elements(a->y), bytes(a->y) + both_ways(a->x), 0}; }
ft_cost ft_cross_entropy_cost(const ft_cross_entropy_args *a) {
    return (ft_cost){20 * elements(a->logits), bytes(a->logits) + bytes(a->dlogits), 0};
}
ft_cost ft_weighted_cross_entropy_cost(const ft_weighted_cross_entropy_args *a) {
    return (ft_cost){60 * elements(a->logits), bytes(a->logits) + bytes(a->dlogits), 0};
}
ft_cost ft_binary_cross_entropy_cost(const ft_binary_cross_entropy_args *a) {
    return (ft_cost){60 * elements(a->logits), 2 * bytes(a->logits) + bytes(a->dlogits), 0};
}
ft_cost ft_span_cross_entropy_cost(const ft_span_cross_entropy_args *a) {
    return (ft_cost){30 * elements(a->logits), 2 * bytes(a->logits) + bytes(a->dlogits), 0};
}
ft_cost ft_squared_error_cost(const ft_squared_error_args *a) {
    return (ft_cost){5 * elements(a->logits), 2 * bytes(a->logits) + bytes(a->dlogits), 0};
}
ft_cost ft_cast_cost(const ft_cast_args *a) { return (ft_cost){elements(a->x), bytes(a->x) + bytes(a->y), 0}; }
ft_cost ft_dequantise_cost(const ft_dequantise_args *a) { return (ft_cost){2 * elements(a->y), bytes(a->x) + bytes(a->y), 0}; }
// Multiply-adds of 8 bits count as a quarter of one each: as many go into a register.
ft_cost ft_int8_product_cost(const ft_int8_product_args *a) {
    const double weights = elements(a->y) > 0 ? (double)a->y.cols * (double)a->x.cols : 0;
    return (ft_cost){elements(a->x) * (double)a->y.cols / 2, bytes(a->x) + weights + bytes(a->y), (double)a->x.rows};
}

ft_cost ft_row_norm_cost(const ft_row_norm_args *a) {
    return (ft_cost){2 * elements(a->w) * (double)(a->a.rows + 2), bytes(a->w) + bytes(a->a) + bytes(a->b) + bytes(a->out), 0};
}
ft_cost ft_column_scale_cost(const ft_column_scale_args *a) {
    return (ft_cost){4 * elements(a->x), bytes(a->x) + bytes(a->times) + (a->accumulate ? both_ways(a->y) : bytes(a->y)), 0};
}
ft_cost ft_gradient_norm_cost(const ft_gradient_norm_args *a) {
    double table = a->table_rows > 0 ? elements(a->table) : 0, n = elements(a->gradient) + table;
    return (ft_cost){2 * n, n * sizeof(float), 0};
}

ft_cost ft_decay_cost(const ft_decay_args *a) {
    return (ft_cost){elements(a->parameter) * (double)a->count, both_ways(a->parameter), 0};
}

ft_cost ft_adamw_cost(const ft_adamw_args *a) {
    double n = 0;
    for (int32_t i = 0; i < a->range_count; i++) n += (double)a->ranges[i].count;
    double copy = a->compute.data != NULL ? (double)ft_dtype_size(a->compute.dtype) : 0;
    return (ft_cost){15 * n, n * (7 * sizeof(float) + copy), 0}; // reads four arrays (or pairs), writes three and the copy
}

// A CPU thread: 60e9 operations a second in matrix products (between AVX2 and AVX-512 on server cores), 10e9 bytes. Half
// of the peak at 26 rows: measured steps of MiniLM reached 64% of the probed peak at 352 tokens and 73% at 4,096.
// A CUDA chip, a multiprocessor: 0.6e12 operations a second (fp32 accumulation on tensor cores of 16-bit inputs are a
// multiple of it, the same for every choice), 2e10 bytes; it fills at some hundred rows. Its link carries 32e9 bytes a second
// each way (PCIe 4 with 16 lanes), of which large copies reach two thirds.
ft_rates ft_rates_of(const ft_target *target) {
    if (target->backend == FT_BACKEND_CUDA) {
        double units = target->sm_count > 0 ? target->sm_count : 1;
        return (ft_rates){.flops = 0.6e12 * units, .bytes = 2e10 * units, .half_rows = 256, .op_seconds = 3e-6, .link = 2e10};
    }
    double threads = target->threads > 0 ? target->threads : 1;
    return (ft_rates){.flops = 60e9 * threads, .bytes = 10e9 * (threads < 8 ? threads : 8), .half_rows = 26, .op_seconds = 2e-6};
}

double ft_cpu_bytes_of(int threads) {
    return ft_rates_of(&(ft_target){.backend = FT_BACKEND_CPU, .threads = threads}).bytes;
}

int ft_cost_threads(const ft_target *target) { return target->backend == FT_BACKEND_CPU ? target->threads : 0; }

double ft_cost_computing(ft_cost c, ft_rates r) {
    return c.flops / (c.rows > 0 ? r.flops * c.rows / (c.rows + r.half_rows) : r.flops);
}

double ft_cost_moving(ft_cost c, ft_rates r) { return c.bytes / r.bytes; }

double ft_cost_seconds(ft_cost c, ft_rates r) {
    const double computing = ft_cost_computing(c, r), moving = ft_cost_moving(c, r);
    return (computing > moving ? computing : moving) + r.op_seconds;
}

#include "tests/emulator/pieces/count_cases.h"

#include "kernels/cuda/attention/path.h"
#include "kernels/philox.h"
#include "tests/emulator/simt/counts.h"

#include <string.h>
#include <sys/mman.h>

// MANY: what tiles of rows have their full size for (geometry.h).
enum { ROWS = 160, MANY = 65 * 64, COLS = 768, WIDE = 3072, FLAT = 1 << 16, VOCABULARY = 300, MEMORY = 256 << 20 };

static unsigned char *memory;
static size_t used;

void count_memory_begin(void) {
    if (memory == NULL) {
        memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        simt_count_memory(memory, MEMORY);
    }
    memset(memory, 0, used);
    used = 0;
}

static void *take(size_t bytes) {
    void *taken = memory + used;
    used += (bytes + 255) / 256 * 256;
    return taken;
}
static ft_tensor matrix(int64_t rows, int64_t cols, ft_dtype dtype) {
    return ft_matrix(take((size_t)(rows * cols) * ft_dtype_size(dtype)), rows, cols, dtype);
}
static ft_tensor vector(int64_t n, ft_dtype dtype) { return matrix(1, n, dtype); }
static int32_t *numbers(int64_t n, int32_t first, int32_t step, int32_t below) {
    int32_t *all = take((size_t)n * sizeof *all);
    for (int64_t i = 0; i < n; i++)
        all[i] = (int32_t)((first + i * step) % below);
    return all;
}
static ft_step_state *a_step(void) {
    ft_step_state *step = take(sizeof *step);
    *step = (ft_step_state){.seed = 7, .step = 3, .learning_rate = 1e-4f, .loss_factor = 1, .loss_scale = 1};
    return step;
}
static ft_dropout row_dropout(int64_t rows) {
    return (ft_dropout){0.1f, 1, FT_SITE_FFN_OUTPUT, a_step(), numbers(rows, 0, 1, 3), numbers(rows, 0, 1, 64)};
}

#define RUN(op, args_)                                                                                                 \
    do {                                                                                                               \
        ft_##op##_args run_ = (args_);                                                                                 \
        run_.workspace.bytes = ft_##op##_workspace(&device->target, &run_);                                            \
        run_.workspace.data = take(run_.workspace.bytes);                                                              \
        return FT_RUN(device, op, &run_);                                                                              \
    } while (0)

// ---- attention: sequences of two whole tiles, and of one and a part ---------------------------------------------------------

enum { PLAIN = 1000, SEQUENCES = 2, HEADS = 2, LONGEST = 128, SECOND = 77, TOKENS = LONGEST + SECOND };
enum { OWNER_LONGEST = 2 * LONGEST, OWNER_TOKENS = OWNER_LONGEST + SECOND }; // an owner has slabs behind the first 128 keys

static ft_attention_shape attention_shape_of(int head_dim, int longest) {
    int32_t *begins = take((SEQUENCES + 1) * sizeof *begins);
    begins[1] = longest;
    begins[2] = longest + SECOND;
    return (ft_attention_shape){.heads = HEADS,
                                .head_dim = head_dim,
                                .sequences = SEQUENCES,
                                .max_queries = longest,
                                .max_keys = longest,
                                .cu_queries = begins,
                                .cu_keys = begins,
                                .scale = 0.125f,
                                .dropout = {0.1f, 1, FT_SITE_ATTENTION, a_step(), numbers(SEQUENCES, 0, 1, 9)}};
}
static ft_attention_shape attention_shape(int head_dim) { return attention_shape_of(head_dim, LONGEST); }
static ft_dtype type_of(int parameter) { return parameter >= PLAIN ? FT_F32 : FT_BF16; }

static ft_status attention_forward(ft_device *device, int parameter) {
    const int head_dim = parameter % PLAIN, hidden = HEADS * head_dim;
    const ft_dtype type = type_of(parameter);
    ft_tensor qkv = matrix(TOKENS, 3 * hidden, type);
    ft_attention_forward_args args = {.shape = attention_shape(head_dim),
                                      .q = ft_columns(qkv, 0, hidden),
                                      .k = ft_columns(qkv, hidden, hidden),
                                      .v = ft_columns(qkv, 2 * hidden, hidden),
                                      .out = matrix(TOKENS, hidden, type),
                                      .lse = matrix(TOKENS, HEADS, FT_F32)};
    RUN(attention_forward, args);
}

static ft_status backward_of(ft_device *device, int head_dim, ft_dtype type, int longest) {
    const int hidden = HEADS * head_dim, tokens = longest + SECOND;
    ft_tensor qkv = matrix(tokens, 3 * hidden, type), gradients = matrix(tokens, 3 * hidden, type);
    ft_attention_backward_args args = {.shape = attention_shape_of(head_dim, longest),
                                       .q = ft_columns(qkv, 0, hidden),
                                       .k = ft_columns(qkv, hidden, hidden),
                                       .v = ft_columns(qkv, 2 * hidden, hidden),
                                       .out = matrix(tokens, hidden, type),
                                       .lse = matrix(tokens, HEADS, FT_F32),
                                       .dout = matrix(tokens, hidden, type),
                                       .dq = ft_columns(gradients, 0, hidden),
                                       .dk = ft_columns(gradients, hidden, hidden),
                                       .dv = ft_columns(gradients, 2 * hidden, hidden)};
    RUN(attention_backward, args);
}
static ft_status attention_backward(ft_device *device, int parameter) {
    return backward_of(device, parameter % PLAIN, type_of(parameter), LONGEST);
}
static ft_status attention_owner(ft_device *device, int head_dim) {
    if (setenv(FT_ATTENTION_PATH_NAME, "owner", 1) != 0) return ft_fail_memory(0, "a name in the environment");
    const ft_status status = backward_of(device, head_dim, FT_BF16, OWNER_LONGEST);
    unsetenv(FT_ATTENTION_PATH_NAME);
    return status;
}

static ft_disentangled_shape disentangled_shape(int head_dim) {
    static const ft_relative_rule v3 = {256, 512};
    ft_disentangled_shape shape = {.attention = attention_shape(head_dim), .reach = ft_relative_reach(v3, LONGEST)};
    int32_t *slots = take((2 * (size_t)shape.reach + 1) * sizeof *slots);
    ft_relative_slots(v3, shape.reach, slots);
    shape.slots = slots;
    return shape;
}
enum { TABLE_ROWS = 512 };

static ft_status disentangled_forward(ft_device *device, int parameter) {
    const int head_dim = parameter % PLAIN, hidden = HEADS * head_dim;
    const ft_dtype type = type_of(parameter);
    ft_tensor qkv = matrix(TOKENS, 3 * hidden, type);
    ft_disentangled_attention_forward_args args = {.shape = disentangled_shape(head_dim),
                                                   .q = ft_columns(qkv, 0, hidden),
                                                   .k = ft_columns(qkv, hidden, hidden),
                                                   .v = ft_columns(qkv, 2 * hidden, hidden),
                                                   .pos_key = matrix(TABLE_ROWS, hidden, type),
                                                   .pos_query = matrix(TABLE_ROWS, hidden, type),
                                                   .out = matrix(TOKENS, hidden, type),
                                                   .lse = matrix(TOKENS, HEADS, FT_F32)};
    RUN(disentangled_attention_forward, args);
}

static ft_status disentangled_backward(ft_device *device, int parameter) {
    const int head_dim = parameter % PLAIN, hidden = HEADS * head_dim;
    const ft_dtype type = type_of(parameter);
    ft_tensor qkv = matrix(TOKENS, 3 * hidden, type), gradients = matrix(TOKENS, 3 * hidden, type);
    ft_disentangled_attention_backward_args args = {.shape = disentangled_shape(head_dim),
                                                    .q = ft_columns(qkv, 0, hidden),
                                                    .k = ft_columns(qkv, hidden, hidden),
                                                    .v = ft_columns(qkv, 2 * hidden, hidden),
                                                    .pos_key = matrix(TABLE_ROWS, hidden, type),
                                                    .pos_query = matrix(TABLE_ROWS, hidden, type),
                                                    .out = matrix(TOKENS, hidden, type),
                                                    .lse = matrix(TOKENS, HEADS, FT_F32),
                                                    .dout = matrix(TOKENS, hidden, type),
                                                    .dq = ft_columns(gradients, 0, hidden),
                                                    .dk = ft_columns(gradients, hidden, hidden),
                                                    .dv = ft_columns(gradients, 2 * hidden, hidden),
                                                    .dpos_key = matrix(TABLE_ROWS, hidden, FT_F32),
                                                    .dpos_query = matrix(TABLE_ROWS, hidden, FT_F32)};
    RUN(disentangled_attention_backward, args);
}

// ---- rows; `parameter` is their type, beside it NARROW: what adds up from layer to layer has it too ------------------------------------------------------------------------------------------

enum { NARROW = 256 };
static ft_status layernorm_forward(ft_device *device, int parameter) {
    const bool narrow = (parameter & NARROW) != 0;
    const int type = parameter & ~NARROW;
    ft_layernorm_forward_args args = {.x = matrix(ROWS, COLS, (ft_dtype)type),
                                      .bias = vector(COLS, (ft_dtype)type),
                                      .residual = matrix(ROWS, COLS, narrow ? (ft_dtype)type : FT_F32),
                                      .gamma = vector(COLS, FT_F32),
                                      .beta = vector(COLS, FT_F32),
                                      .epsilon = 1e-12f,
                                      .dropout = row_dropout(ROWS),
                                      .s = matrix(ROWS, COLS, (ft_dtype)type),
                                      .y = matrix(ROWS, COLS, (ft_dtype)type),
                                      .wide = type == FT_F32 || narrow ? ft_absent() : matrix(ROWS, COLS, FT_F32),
                                      .mean = vector(ROWS, FT_F32),
                                      .rstd = vector(ROWS, FT_F32)};
    RUN(layernorm_forward, args);
}
static ft_status layernorm_backward(ft_device *device, int parameter) {
    const int type = parameter & ~NARROW;
    const ft_dtype added = parameter & NARROW ? (ft_dtype)type : FT_F32;
    ft_layernorm_backward_args args = {.dy = matrix(MANY, COLS, added),
                                       .s = matrix(MANY, COLS, (ft_dtype)type),
                                       .mean = vector(MANY, FT_F32),
                                       .rstd = vector(MANY, FT_F32),
                                       .gamma = vector(COLS, FT_F32),
                                       .dropout = row_dropout(MANY),
                                       .ds = matrix(MANY, COLS, added),
                                       .dx = matrix(MANY, COLS, (ft_dtype)type),
                                       .dgamma = vector(COLS, FT_F32),
                                       .dbeta = vector(COLS, FT_F32),
                                       .dbias = vector(COLS, FT_F32)};
    RUN(layernorm_backward, args);
}
static ft_status activation_forward(ft_device *device, int type) {
    ft_activation_forward_args args = {.kind = FT_ACT_GELU,
                                       .x = matrix(ROWS, WIDE, (ft_dtype)type),
                                       .bias = vector(WIDE, (ft_dtype)type),
                                       .h = matrix(ROWS, WIDE, (ft_dtype)type),
                                       .y = matrix(ROWS, WIDE, (ft_dtype)type)};
    RUN(activation_forward, args);
}
static ft_status activation_backward(ft_device *device, int type) {
    ft_activation_backward_args args = {.kind = FT_ACT_GELU,
                                        .h = matrix(MANY, COLS, (ft_dtype)type),
                                        .dy = matrix(MANY, COLS, (ft_dtype)type),
                                        .dx = matrix(MANY, COLS, (ft_dtype)type),
                                        .y = matrix(MANY, COLS, (ft_dtype)type),
                                        .dbias = vector(COLS, FT_F32)};
    RUN(activation_backward, args);
}
static ft_status column_sum(ft_device *device, int type) {
    ft_column_sum_args args = {.x = matrix(MANY, COLS, (ft_dtype)type), .out = vector(COLS, FT_F32)};
    RUN(column_sum, args);
}
static ft_status embedding_forward(ft_device *device, int type) {
    ft_embedding_forward_args args = {.word_ids = numbers(ROWS, 5, 37, VOCABULARY),
                                      .position_ids = numbers(ROWS, 0, 1, 64),
                                      .type_ids = numbers(ROWS, 0, 0, 2),
                                      .word = matrix(VOCABULARY, COLS, (ft_dtype)type),
                                      .position = matrix(64, COLS, (ft_dtype)type),
                                      .type = matrix(2, COLS, (ft_dtype)type),
                                      .out = matrix(ROWS, COLS, (ft_dtype)type)};
    RUN(embedding_forward, args);
}
static ft_status embedding_backward(ft_device *device, int type) {
    const int32_t *ids = numbers(ROWS, 5, 37, VOCABULARY / 4);
    int32_t *order = take(ROWS * sizeof *order), *space = take(ROWS * sizeof *space);
    ft_embedding_order(ids, ROWS, order, space);
    ft_embedding_backward_args args = {.ids = ids,
                                       .order = order,
                                       .dout = matrix(ROWS, COLS, (ft_dtype)type),
                                       .table_gradient = matrix(VOCABULARY, COLS, FT_F32),
                                       .padding_id = -1};
    RUN(embedding_backward, args);
}
static ft_status dropout(ft_device *device, int type) {
    ft_dropout_args args = {
        .dropout = row_dropout(ROWS), .x = matrix(ROWS, COLS, (ft_dtype)type), .y = matrix(ROWS, COLS, (ft_dtype)type)};
    RUN(dropout, args);
}
static ft_status gather_rows(ft_device *device, int type) {
    ft_gather_rows_args args = {.index = numbers(ROWS, 3, 7, ROWS),
                                .x = matrix(ROWS, COLS, (ft_dtype)type),
                                .y = matrix(ROWS, COLS, (ft_dtype)type)};
    RUN(gather_rows, args);
}
static ft_status scatter_rows_add(ft_device *device, int type) {
    ft_scatter_rows_add_args args = {
        .index = numbers(ROWS, 3, 7, ROWS), .x = matrix(ROWS, COLS, (ft_dtype)type), .y = matrix(ROWS, COLS, FT_F32)};
    RUN(scatter_rows_add, args);
}
static ft_status unfold(ft_device *device, int type) {
    int32_t *begins = take(2 * sizeof *begins);
    begins[1] = ROWS;
    ft_unfold_args args = {.sequences = 1,
                           .taps = 3,
                           .cu_seqlens = begins,
                           .x = matrix(ROWS, COLS, (ft_dtype)type),
                           .y = matrix(ROWS, 3 * COLS, (ft_dtype)type)};
    RUN(unfold, args);
}

// ---- flat buffers ---------------------------------------------------------------------------------------------------------------

static ft_status narrow(ft_device *device, int type) {
    ft_cast_args args = {.x = vector(FLAT, FT_F32), .y = vector(FLAT, (ft_dtype)type)};
    RUN(cast, args);
}
static ft_status widen(ft_device *device, int type) {
    ft_cast_args args = {.x = vector(FLAT, (ft_dtype)type), .y = vector(FLAT, FT_F32)};
    RUN(cast, args);
}
static ft_status dequantise(ft_device *device, int format) {
    const size_t bytes = ft_quantised_layout_of((ft_quantisation)format, ROWS, COLS).bytes;
    ft_dequantise_args args = {.format = (ft_quantisation)format, .x = vector((int64_t)bytes, FT_U8), .y = matrix(ROWS, COLS, FT_BF16)};
    RUN(dequantise, args);
}
static ft_status adamw(ft_device *device, int type) {
    static const ft_adamw_range ranges[] = {{0, FLAT / 2, 0.01f, 1, NULL}, {FLAT / 2, FLAT / 2, 0, 1, NULL}};
    ft_update_state *update = take(sizeof *update);
    *update = (ft_update_state){.count = 1, .correction1 = 0.1, .correction2 = 0.001, .clip = 1, .finite = 1};
    ft_adamw_args args = {.parameter = vector(FLAT, (ft_dtype)type),
                          .tail = type == FT_BF16 ? vector(FLAT, FT_BF16).data : NULL,
                          .gradient = vector(FLAT, FT_F32),
                          .m = vector(FLAT, FT_F32),
                          .v = vector(FLAT, FT_F32),
                          .ranges = ranges,
                          .range_count = 2,
                          .hyper = {0.9, 0.999, 1e-8, 1.0},
                          .step = a_step(),
                          .update = update};
    RUN(adamw, args);
}
static ft_status gradient_norm(ft_device *device, int parameter) {
    enum { TABLE = 128 };
    ft_gradient_norm_args args = {.gradient = vector(FLAT, FT_F32),
                                  .table = matrix(TABLE, COLS, FT_F32),
                                  .table_rows = TABLE,
                                  .hyper = {0.9, 0.999, 1e-8, 1.0},
                                  .step = a_step(),
                                  .update = take(sizeof(ft_update_state))};
    RUN(gradient_norm, args);
}
static ft_status decay(ft_device *device, int parameter) {
    ft_decay_args args = {.parameter = vector(FLAT, FT_F32), .factors = take(4 * sizeof(float)), .count = 4};
    RUN(decay, args);
}

#define ROWS_OF(op, elements)                                                                                          \
    {#op ".fp32", COUNT_FULL_SECTORS, op, FT_F32, elements}, { #op ".bf16", COUNT_FULL_SECTORS, op, FT_BF16, elements }
#define HEADS_OF(op, dim)                                                                                              \
    { #op ".bf16." #dim, COUNT_NO_CONFLICTS, op, dim, (int64_t)TOKENS *HEADS *dim }

const count_case count_cases[] = {
    HEADS_OF(attention_forward, 32),
    HEADS_OF(attention_forward, 64),
    HEADS_OF(attention_forward, 96),
    HEADS_OF(attention_forward, 128),
    HEADS_OF(attention_backward, 32),
    HEADS_OF(attention_backward, 64),
    HEADS_OF(attention_backward, 96),
    HEADS_OF(attention_backward, 128),
    {"attention_owner.bf16.32", COUNT_NO_CONFLICTS, attention_owner, 32, (int64_t)OWNER_TOKENS *HEADS * 32},
    {"attention_owner.bf16.64", COUNT_NO_CONFLICTS, attention_owner, 64, (int64_t)OWNER_TOKENS *HEADS * 64},
    HEADS_OF(disentangled_forward, 32),
    HEADS_OF(disentangled_forward, 64),
    HEADS_OF(disentangled_forward, 96),
    HEADS_OF(disentangled_forward, 128),
    HEADS_OF(disentangled_backward, 32),
    HEADS_OF(disentangled_backward, 64),
    HEADS_OF(disentangled_backward, 96),
    HEADS_OF(disentangled_backward, 128),
    {"attention_forward.fp32.64", COUNT_NO_TARGET, attention_forward, PLAIN + 64, (int64_t)TOKENS *HEADS * 64},
    {"attention_backward.fp32.64", COUNT_NO_TARGET, attention_backward, PLAIN + 64, (int64_t)TOKENS *HEADS * 64},
    ROWS_OF(layernorm_forward, ROWS *COLS),
    ROWS_OF(layernorm_backward, MANY *COLS),
    {"layernorm_forward_16bit.bf16", COUNT_FULL_SECTORS, layernorm_forward, NARROW | FT_BF16, ROWS *COLS},
    {"layernorm_backward_16bit.bf16", COUNT_FULL_SECTORS, layernorm_backward, NARROW | FT_BF16, MANY *COLS},
    ROWS_OF(activation_forward, ROWS *WIDE),
    ROWS_OF(activation_backward, MANY *COLS),
    ROWS_OF(column_sum, MANY *COLS),
    ROWS_OF(embedding_forward, ROWS *COLS),
    ROWS_OF(embedding_backward, ROWS *COLS),
    ROWS_OF(dropout, ROWS *COLS),
    ROWS_OF(gather_rows, ROWS *COLS),
    ROWS_OF(scatter_rows_add, ROWS *COLS),
    ROWS_OF(unfold, ROWS *COLS),
    {"cast.fp32_to_bf16", COUNT_FULL_SECTORS, narrow, FT_BF16, FLAT},
    {"cast.bf16_to_fp32", COUNT_FULL_SECTORS, widen, FT_BF16, FLAT},
    {"dequantise.nf4", COUNT_FULL_SECTORS, dequantise, FT_NF4, ROWS *COLS},
    {"dequantise.nf4_double", COUNT_NO_TARGET, dequantise, FT_NF4_DOUBLE, ROWS *COLS},
    {"dequantise.int8", COUNT_FULL_SECTORS, dequantise, FT_INT8, ROWS *COLS},
    ROWS_OF(adamw, FLAT),
    {"gradient_norm", COUNT_FULL_SECTORS, gradient_norm, 0, FLAT},
    {"decay", COUNT_FULL_SECTORS, decay, 0, FLAT},
};
const int count_case_count = sizeof count_cases / sizeof count_cases[0];

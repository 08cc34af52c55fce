// gemm.c - the op gemm on cuBLASLt. A row-major matrix is the transpose of a column-major one at the same place, so
// C = op(A) op(B) is asked for as C' = op(B)' op(A)': the operands change places and nothing is copied.
#include "kernels/cuda/gemm.h"
#include "kernels/arena.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/kernels.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 }; // of shapes remembered: a run has a few dozen per token count

// cuBLASLt's kernels read a bias in pieces of 16 bytes, and no preference tells them that it begins elsewhere (as that
// of the keys may, behind the queries'): such a one is copied to the end of the workspace first.
enum { BIAS_ALIGNMENT = 16 };
enum { BIAS_NONE, BIAS_IN_PLACE, BIAS_COPIED };

// Everything that the choice of an algorithm depends on. Compared as bytes: no padding, set as a whole.
typedef struct gemm_key {
    int64_t m, n, k;                            // of the row-major product
    int64_t lda, ldb, ldc;                      // strides
    int32_t a, b, c;                            // ft_dtype
    int32_t align_a, align_b, align_c;          // of the addresses, in bytes, at most 256
    int32_t trans_a, trans_b, accumulate, bias; // bias: where it is
} gemm_key;

typedef struct gemm_plan {
    gemm_key key;
    bool ready;
    ft_lt_desc desc;
    ft_lt_layout a, b, c; // of our A, B and C
    ft_lt_algorithm algorithm;
} gemm_plan;

struct ft_cuda_gemms {
    const ft_cublaslt *lt;
    ft_lt_handle handle;
    gemm_plan plan[SLOTS];
};

// ---- plans ------------------------------------------------------------------------------------------------------

static void forget(const ft_cublaslt *lt, gemm_plan *p) {
    if (p->a != NULL) (void)lt->layout_destroy(p->a);
    if (p->b != NULL) (void)lt->layout_destroy(p->b);
    if (p->c != NULL) (void)lt->layout_destroy(p->c);
    if (p->desc != NULL) (void)lt->desc_destroy(p->desc);
    *p = (gemm_plan){.ready = false};
}

static ft_lt_type type_of(ft_dtype dtype) {
    return dtype == FT_BF16 ? FT_LT_BF16 : dtype == FT_F16 ? FT_LT_F16 : FT_LT_F32;
}

static int32_t alignment(const void *data) {
    uintptr_t lowest = (uintptr_t)data & -(uintptr_t)data;
    return lowest == 0 || lowest > 256 ? 256 : (int32_t)lowest;
}

static gemm_key key_of(const ft_gemm_args *g) {
    gemm_key key;
    memset(&key, 0, sizeof key);
    key.m = g->c.rows;
    key.n = g->c.cols;
    key.k = g->trans_a ? g->a.rows : g->a.cols;
    key.lda = g->a.stride;
    key.ldb = g->b.stride;
    key.ldc = g->c.stride;
    key.a = g->a.dtype;
    key.b = g->b.dtype;
    key.c = g->c.dtype;
    key.align_a = alignment(g->a.data);
    key.align_b = alignment(g->b.data);
    key.align_c = alignment(g->c.data);
    key.trans_a = g->trans_a;
    key.trans_b = g->trans_b;
    key.accumulate = g->accumulate;
    key.bias = g->bias.data == NULL                            ? BIAS_NONE
               : (uintptr_t)g->bias.data % BIAS_ALIGNMENT == 0 ? BIAS_IN_PLACE
                                                               : BIAS_COPIED;
    return key;
}

static uint64_t hash(const gemm_key *key) { // FNV-1a
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *key; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h ^ h >> 32;
}

static ft_status describe(const ft_cublaslt *lt, const ft_gemm_args *g, gemm_plan *p) {
    const int transposed = FT_LT_TRANSPOSED, epilogue = FT_LT_EPILOGUE_BIAS, bias_type = (int)type_of(g->c.dtype);
    FT_TRY(FT_LT(lt, desc_create, &p->desc, FT_LT_COMPUTE_F32, FT_LT_F32));
    // Their first operand is our B.
    if (g->trans_b) FT_TRY(FT_LT(lt, desc_set, p->desc, FT_LT_DESC_TRANSA, &transposed, sizeof transposed));
    if (g->trans_a) FT_TRY(FT_LT(lt, desc_set, p->desc, FT_LT_DESC_TRANSB, &transposed, sizeof transposed));
    if (g->bias.data != NULL) {
        FT_TRY(FT_LT(lt, desc_set, p->desc, FT_LT_DESC_EPILOGUE, &epilogue, sizeof epilogue));
        FT_TRY(FT_LT(lt, desc_set, p->desc, FT_LT_DESC_BIAS_TYPE, &bias_type, sizeof bias_type));
        FT_TRY(FT_LT(lt, desc_set, p->desc, FT_LT_DESC_BIAS_POINTER, &g->bias.data, sizeof g->bias.data));
    }
    const ft_tensor *t[] = {&g->a, &g->b, &g->c};
    ft_lt_layout *layout[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++)
        FT_TRY(FT_LT(lt, layout_create, layout[i], type_of(t[i]->dtype), (uint64_t)t[i]->cols, (uint64_t)t[i]->rows,
                     t[i]->stride));
    return FT_OK;
}

// Of the workspace, what is cuBLASLt's.
static size_t product_workspace(const gemm_key *key) {
    const size_t bias = key->bias == BIAS_COPIED ? (size_t)key->n * ft_dtype_size((ft_dtype)key->c) : 0;
    return FT_CUDA_GEMM_WORKSPACE - ft_cuda_aligned(bias);
}

static ft_status prefer(const ft_cublaslt *lt, ft_lt_preference preference, const gemm_key *key) {
    const uint64_t workspace = product_workspace(key);
    const uint32_t reduction = FT_LT_REDUCTION_COMPUTE_TYPE; // no split K is always welcome
    const struct {
        ft_lt_preference_attribute attribute;
        uint32_t bytes;
    } alignments[] = {{FT_LT_PREFER_ALIGNMENT_A, (uint32_t)key->align_b},
                      {FT_LT_PREFER_ALIGNMENT_B, (uint32_t)key->align_a},
                      {FT_LT_PREFER_ALIGNMENT_C, (uint32_t)key->align_c},
                      {FT_LT_PREFER_ALIGNMENT_D, (uint32_t)key->align_c}};
    FT_TRY(FT_LT(lt, preference_set, preference, FT_LT_PREFER_WORKSPACE, &workspace, sizeof workspace));
    FT_TRY(FT_LT(lt, preference_set, preference, FT_LT_PREFER_REDUCTION, &reduction, sizeof reduction));
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        FT_TRY(FT_LT(lt, preference_set, preference, alignments[i].attribute, &alignments[i].bytes, sizeof(uint32_t)));
    return FT_OK;
}

static ft_status choose(ft_cuda_gemms *gemms, gemm_plan *p) {
    const ft_cublaslt *lt = gemms->lt;
    ft_lt_preference preference = NULL;
    ft_lt_choice choice = {.status = FT_LT_NOT_SUPPORTED};
    int found = 0;
    FT_TRY(FT_LT(lt, preference_create, &preference));
    ft_status status = prefer(lt, preference, &p->key);
    if (status == FT_OK)
        status = FT_LT(lt, heuristic, gemms->handle, p->desc, p->b, p->a, p->c, p->c, preference, 1, &choice, &found);
    (void)lt->preference_destroy(preference);
    FT_TRY(status);
    if (found < 1 || choice.status != FT_LT_SUCCESS || choice.workspace_bytes > product_workspace(&p->key))
        return ft_fail(FT_FAILED, "gemm", "cuBLASLt has no algorithm for %s [%lld,%lld] x %s [%lld,%lld]",
                       ft_dtype_name((ft_dtype)p->key.a), (long long)p->key.m, (long long)p->key.k,
                       ft_dtype_name((ft_dtype)p->key.b), (long long)p->key.k, (long long)p->key.n);
    p->algorithm = choice.algorithm;
    return FT_OK;
}

static ft_status find_plan(ft_cuda_gemms *gemms, const ft_gemm_args *g, gemm_plan **plan) {
    gemm_key key = key_of(g);
    gemm_plan *p = &gemms->plan[hash(&key) % SLOTS];
    *plan = p;
    if (p->ready && memcmp(&p->key, &key, sizeof key) == 0) return FT_OK;
    forget(gemms->lt, p);
    p->key = key;
    ft_status status = describe(gemms->lt, g, p);
    if (status == FT_OK) status = choose(gemms, p);
    if (status != FT_OK)
        forget(gemms->lt, p);
    else
        p->ready = true;
    return status;
}

// ---- the op -----------------------------------------------------------------------------------------------------

// C = 0 or bias, where K is 0: rare, so row by row with what the driver has.
static ft_status without_terms(ft_cuda *cuda, const ft_gemm_args *g) {
    size_t element = ft_dtype_size(g->c.dtype), bytes = (size_t)g->c.cols * element;
    if (g->accumulate && g->bias.data != NULL)
        return ft_fail(FT_FAILED, "gemm", "a bias cannot be added to C without a product");
    for (int64_t row = 0; row < g->c.rows && !g->accumulate; row++) {
        char *to = (char *)g->c.data + (size_t)(row * g->c.stride) * element;
        FT_TRY(g->bias.data != NULL ? ft_cuda_copy(&cuda->device, to, g->bias.data, bytes)
                                    : ft_cuda_fill(&cuda->device, to, 0, bytes));
    }
    return FT_OK;
}

ft_status ft_cuda_gemm(ft_device *device, const ft_gemm_args *g) {
    static const float one = 1, zero = 0;
    ft_cuda *cuda = ft_cuda_of(device);
    ft_cuda_gemms *gemms = cuda->kernels->gemms;
    gemm_plan *p;
    if (g->c.rows == 0 || g->c.cols == 0) return FT_OK;
    if ((g->trans_a ? g->a.rows : g->a.cols) == 0) return without_terms(cuda, g);
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(find_plan(gemms, g, &p));
    const size_t workspace = product_workspace(&p->key);
    void *bias = g->bias.data;
    if (p->key.bias == BIAS_COPIED) {
        bias = (char *)g->workspace.data + workspace;
        FT_TRY(ft_cuda_copy(device, bias, g->bias.data, (size_t)g->c.cols * ft_dtype_size(g->bias.dtype)));
    }
    if (bias != NULL) FT_TRY(FT_LT(gemms->lt, desc_set, p->desc, FT_LT_DESC_BIAS_POINTER, &bias, sizeof bias));
    return FT_LT(gemms->lt, matmul, gemms->handle, p->desc, &one, g->b.data, p->b, g->a.data, p->a,
                 g->accumulate ? &one : &zero, g->c.data, p->c, g->c.data, p->c, &p->algorithm, g->workspace.data,
                 workspace, cuda->stream);
}

// ---- opening ----------------------------------------------------------------------------------------------------

ft_status ft_cuda_gemms_open(const ft_cublaslt *lt, ft_cuda_gemms **out) {
    *out = NULL;
    ft_cuda_gemms *gemms = ft_calloc(1, sizeof *gemms, "plans of matrix products");
    if (gemms == NULL) return FT_NO_MEMORY;
    gemms->lt = lt;
    ft_status status = FT_LT(lt, create, &gemms->handle);
    if (status != FT_OK) {
        free(gemms);
        return status;
    }
    *out = gemms;
    return FT_OK;
}

void ft_cuda_gemms_close(ft_cuda_gemms *gemms) {
    if (gemms == NULL) return;
    for (int i = 0; i < SLOTS; i++)
        forget(gemms->lt, &gemms->plan[i]);
    (void)gemms->lt->destroy(gemms->handle);
    free(gemms);
}

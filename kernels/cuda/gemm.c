// gemm.c - the op gemm on cuBLASLt. A row-major matrix is the transpose of a column-major one at the same place, so
// C = op(A) op(B) is asked for as C' = op(B)' op(A)': the operands change places and nothing is copied.
#include "kernels/cuda/gemm.h"
#include "base/arena.h"
#include "kernels/ops/geometry.h"
#include "kernels/cuda/opened.h"
#include "kernels/cuda/ops.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 }; // of shapes remembered: a run has a few dozen per token count

// cuBLASLt's kernels read a bias in pieces of 16 bytes, and no preference tells them that it begins elsewhere (as that
// of the keys may, behind the queries'): such a one is copied to the end of the workspace first.
enum { BIAS_ALIGNMENT = 16 };

typedef struct gemm_plan {
    ft_gemm_shape key;
    bool ready;
    ft_gemm_call call;
    ft_lt_algorithm algorithm;
} gemm_plan;

struct ft_cuda_gemms {
    const ft_cublaslt *lt;
    ft_lt_handle handle;
    ft_gemm_tuning *tuning; // NULL: the heuristic chooses
    gemm_plan plan[SLOTS];
};

// ---- plans ------------------------------------------------------------------------------------------------------

static void forget(const ft_cublaslt *lt, gemm_plan *p) {
    if (p->call.a != NULL) (void)lt->layout_destroy(p->call.a);
    if (p->call.b != NULL) (void)lt->layout_destroy(p->call.b);
    if (p->call.c != NULL) (void)lt->layout_destroy(p->call.c);
    if (p->call.desc != NULL) (void)lt->desc_destroy(p->call.desc);
    *p = (gemm_plan){.ready = false};
}

static ft_lt_type type_of(ft_dtype dtype) {
    return dtype == FT_BF16 ? FT_LT_BF16 : dtype == FT_F16 ? FT_LT_F16 : FT_LT_F32;
}

static int32_t alignment(const void *data) {
    uintptr_t lowest = (uintptr_t)data & -(uintptr_t)data;
    return lowest == 0 || lowest > 256 ? 256 : (int32_t)lowest;
}

ft_gemm_shape ft_cuda_gemm_shape(const ft_gemm_args *g) {
    ft_gemm_shape key;
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
    key.bias = g->bias.data == NULL                            ? FT_GEMM_NO_BIAS
               : (uintptr_t)g->bias.data % BIAS_ALIGNMENT == 0 ? FT_GEMM_BIAS_IN_PLACE
                                                               : FT_GEMM_BIAS_COPIED;
    return key;
}

uint64_t ft_cuda_gemm_hash(const ft_gemm_shape *key) { // FNV-1a
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *key; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h ^ h >> 32;
}

static ft_status describe(const ft_cublaslt *lt, const ft_gemm_args *g, ft_gemm_call *p) {
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
static size_t product_workspace(const ft_gemm_shape *key) {
    const size_t bias = key->bias == FT_GEMM_BIAS_COPIED ? (size_t)key->n * ft_dtype_size((ft_dtype)key->c) : 0;
    return FT_CUDA_GEMM_WORKSPACE - ft_cuda_aligned(bias);
}

static ft_status prefer(const ft_cublaslt *lt, ft_lt_preference preference, const ft_gemm_shape *key) {
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

static ft_status offer(ft_cuda_gemms *gemms, const gemm_plan *p, int wanted, ft_lt_choice *offered, int *found) {
    const ft_cublaslt *lt = gemms->lt;
    const ft_gemm_call *c = &p->call;
    ft_lt_preference preference = NULL;
    *found = 0;
    FT_TRY(FT_LT(lt, preference_create, &preference));
    ft_status status = prefer(lt, preference, &p->key);
    if (status == FT_OK)
        status = FT_LT(lt, heuristic, gemms->handle, c->desc, c->b, c->a, c->c, c->c, preference, wanted, offered, found);
    (void)lt->preference_destroy(preference);
    FT_TRY(status);
    int usable = 0;
    for (int i = 0; i < *found; i++)
        if (offered[i].status == FT_LT_SUCCESS && offered[i].workspace_bytes <= p->call.workspace)
            offered[usable++] = offered[i];
    *found = usable;
    if (usable > 0) return FT_OK;
    return ft_fail(FT_FAILED, "gemm", "cuBLASLt has no algorithm for %s [%lld,%lld] x %s [%lld,%lld]",
                   ft_dtype_name((ft_dtype)p->key.a), (long long)p->key.m, (long long)p->key.k,
                   ft_dtype_name((ft_dtype)p->key.b), (long long)p->key.k, (long long)p->key.n);
}

static ft_status choose(ft_device *device, ft_cuda_gemms *gemms, gemm_plan *p) {
    ft_lt_choice offered[FT_GEMM_CANDIDATES] = {{.status = FT_LT_NOT_SUPPORTED}};
    bool found = false;
    int count;
    if (gemms->tuning != NULL)
        FT_TRY(ft_gemm_tuning_find(gemms->tuning, gemms->lt, gemms->handle, &p->call, &p->key, &p->algorithm, &found));
    if (found) return FT_OK;
    const bool measures = gemms->tuning != NULL && ft_gemm_tuning_measures(gemms->tuning);
    FT_TRY(offer(gemms, p, measures ? FT_GEMM_CANDIDATES : 1, offered, &count));
    p->algorithm = offered[0].algorithm;
    if (!measures) return FT_OK;
    return ft_gemm_tuning_measure(gemms->tuning, device, gemms->handle, &p->call, &p->key, offered, count, &p->algorithm);
}

static ft_status find_plan(ft_device *device, ft_cuda_gemms *gemms, const ft_gemm_args *g, gemm_plan **plan) {
    ft_gemm_shape key = ft_cuda_gemm_shape(g);
    gemm_plan *p = &gemms->plan[ft_cuda_gemm_hash(&key) % SLOTS];
    *plan = p;
    if (p->ready && memcmp(&p->key, &key, sizeof key) == 0) return FT_OK;
    forget(gemms->lt, p);
    p->key = key;
    ft_status status = describe(gemms->lt, g, &p->call);
    p->call.args = g;
    p->call.workspace = product_workspace(&key);
    p->call.copies_bias = key.bias == FT_GEMM_BIAS_COPIED;
    if (status == FT_OK) status = choose(device, gemms, p);
    p->call.args = NULL; // the caller's
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

ft_status ft_cuda_gemm_queue(ft_device *device, ft_lt_handle handle, const ft_gemm_call *c, const ft_lt_algorithm *algorithm) {
    static const float one = 1, zero = 0;
    const ft_cublaslt *lt = ft_cuda_of(device)->kernels->lt;
    const ft_gemm_args *g = c->args;
    const float *alpha = g->scale != 0 ? &g->scale : &one; // read before the call returns
    void *bias = g->bias.data;
    if (c->copies_bias) {
        bias = (char *)g->workspace.data + c->workspace;
        FT_TRY(ft_cuda_copy(device, bias, g->bias.data, (size_t)g->c.cols * ft_dtype_size(g->bias.dtype)));
    }
    if (bias != NULL) FT_TRY(FT_LT(lt, desc_set, c->desc, FT_LT_DESC_BIAS_POINTER, &bias, sizeof bias));
    return FT_LT(lt, matmul, handle, c->desc, alpha, g->b.data, c->b, g->a.data, c->a, g->accumulate ? &one : &zero,
                 g->c.data, c->c, g->c.data, c->c, algorithm, g->workspace.data, c->workspace,
                 ft_cuda_of(device)->stream);
}

// Rows that lie elsewhere are products of their own, in the bits that they have alone.
static ft_status each_part(ft_device *device, const ft_gemm_args *g) {
    for (int i = -1; i < g->more_count; i++) {
        const ft_gemm_args one = ft_gemm_part(g, i);
        FT_TRY(ft_cuda_gemm(device, &one));
    }
    return FT_OK;
}

ft_status ft_cuda_gemm(ft_device *device, const ft_gemm_args *g) {
    if (g->more_count > 0) return each_part(device, g);
    ft_cuda *cuda = ft_cuda_of(device);
    ft_cuda_gemms *gemms = cuda->kernels->gemms;
    gemm_plan *p;
    if (g->c.rows == 0 || g->c.cols == 0) return FT_OK;
    if ((g->trans_a ? g->a.rows : g->a.cols) == 0) return without_terms(cuda, g);
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(find_plan(device, gemms, g, &p));
    ft_gemm_call call = p->call;
    call.args = g;
    return ft_cuda_gemm_queue(device, gemms->handle, &call, &p->algorithm);
}

void ft_cuda_gemms_forget(ft_device *device) {
    ft_cuda_gemms *gemms = ft_cuda_of(device)->kernels->gemms;
    for (int i = 0; i < SLOTS; i++)
        forget(gemms->lt, &gemms->plan[i]);
    ft_gemm_tuning_free(gemms->tuning);
    gemms->tuning = NULL;
    memset(ft_cuda_of(device)->kernels->ways, 0, sizeof ft_cuda_of(device)->kernels->ways);
}

ft_gemm_tuning **ft_cuda_gemms_tuning(ft_device *device) { return &ft_cuda_of(device)->kernels->gemms->tuning; }

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
    ft_gemm_tuning_free(gemms->tuning);
    free(gemms);
}

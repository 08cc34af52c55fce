// fake_cublaslt.c - a libcublasLt over host memory. It reads the same descriptors as the real one - layouts, leading
// dimensions, batches, transposition, epilogue, alpha and beta - and refuses what that one refuses; products are queued
// on the streams of the fake driver. An algorithm is good for the very call that it was asked for and nothing else.
#include "tests/emulator/driver/fake_cublaslt.h"

#include "kernels/cuda/cublaslt.h"
#include "tests/emulator/driver/fake_state.h"
#include "tests/emulator/driver/lt_twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusName(int status);
#define FT_CUBLASLT_CALL(field, symbol, parameters) int symbol parameters;
#include "kernels/cuda/cublaslt.def"
#undef FT_CUBLASLT_CALL

enum {
    OK = FT_LT_SUCCESS,
    NOT_INITIALIZED_LT = 1,
    BAD = 7, // CUBLAS_STATUS_INVALID_VALUE
    EXECUTION_FAILED = 13,
    UNSUPPORTED = FT_LT_NOT_SUPPORTED,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_STRIDE = 6,
    EPILOGUE_DEFAULT = 1,
    REDUCTION_ALL = 7,
    ALIGNMENTS = 4, // of A, B, C, D
    MAGIC = 0x17AC,
};

struct ft_lt_handle_object {
    int alive;
};
struct ft_lt_desc_object {
    ft_lt_compute compute;
    ft_lt_type scale;
    int32_t transposed[2]; // A, B
    uint32_t epilogue;
    const void *bias;
    int32_t bias_type; // -1: D's
    void *twin;        // NVIDIA's own, where there is one (lt_twin.h)
};
struct ft_lt_layout_object {
    ft_lt_type type;
    uint64_t rows, cols;
    int64_t leading;
    int32_t batches;
    int64_t batch_stride;
    void *twin;
};
struct ft_lt_preference_object {
    uint64_t workspace;
    uint32_t reduction, alignment[ALIGNMENTS];
    void *twin;
};

static fake_lt_books books;
static fake_lt_mood mood;
static bool swapped_transpose;
static struct {
    const char *call;
    uint64_t skip, times;
    int status;
} plan;

fake_lt_books fake_lt_read(void) { return books; }
void fake_lt_set_mood(fake_lt_mood m) { mood = m; }
void fake_lt_swap_transpose(int swapped) { swapped_transpose = swapped != 0; }

void fake_lt_reset(void) {
    books.heuristics = books.products = books.misuses = 0;
    memset(books.by_algorithm, 0, sizeof books.by_algorithm);
    plan.times = 0;
    mood = FAKE_LT_HELPFUL;
    swapped_transpose = false;
}

void fake_lt_refuse(const char *call, uint64_t nth, uint64_t times, int status) {
    plan.call = call;
    plan.skip = nth - 1;
    plan.times = times;
    plan.status = status;
}

__attribute__((destructor)) static void report(void) { // as that of emulated_module.c
    const char *path = getenv("FAKE_REPORT");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    fprintf(file, "cublasLt %llu misuses, %zu left\n", (unsigned long long)books.misuses,
            books.handles + books.descs + books.layouts + books.preferences);
    const uint64_t *n = books.by_algorithm;
    fprintf(file, "cublasLt products by algorithm: %llu %llu %llu %llu\n", (unsigned long long)n[0], (unsigned long long)n[1],
            (unsigned long long)n[2], (unsigned long long)n[3]);
    if (lt_twin_calls() > 0) fprintf(file, "the real cublasLt took %llu calls\n", lt_twin_calls());
    fclose(file);
}

static int begin(const char *call) {
    if (plan.times == 0 || strcmp(plan.call, call) != 0) return OK;
    if (plan.skip > 0) return plan.skip--, OK;
    return plan.times--, plan.status;
}
#define LT_BEGIN                                                                                                       \
    do {                                                                                                               \
        int begun = begin(__func__);                                                                                   \
        if (begun != OK) return begun;                                                                                 \
    } while (0)
#define LT_DEMAND(condition, status)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) return books.misuses++, (status);                                                            \
    } while (0)

// ---- the library, handles ---------------------------------------------------------------------------------------

size_t cublasLtGetVersion(void) { return 130001; }

const char *cublasLtGetStatusName(int status) {
    switch (status) {
    case OK: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED_LT: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case FT_LT_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case BAD: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case UNSUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return NULL;
    }
}

// What NVIDIA's own library says to the same call.
static int twin_said(int status) {
    if (status != OK) {
        books.misuses++;
        fprintf(stderr, "the real cublasLt answers %d\n", status);
    }
    return status;
}

static void *make(size_t bytes, size_t *count) {
    void *made = calloc(1, bytes);
    if (made == NULL) fake_fatal("no memory");
    ++*count;
    return made;
}

static int unmake(void *made, size_t *count) {
    LT_DEMAND(made != NULL && *count > 0, BAD);
    free(made);
    --*count;
    return OK;
}

int cublasLtCreate(ft_lt_handle *handle) {
    LT_BEGIN;
    LT_DEMAND(fake_current != NULL && fake_current->retained > 0, NOT_INITIALIZED_LT); // it belongs to a context
    *handle = make(sizeof **handle, &books.handles);
    (*handle)->alive = MAGIC;
    return OK;
}
int cublasLtDestroy(ft_lt_handle handle) { return unmake(handle, &books.handles); }

int cublasLtMatmulDescCreate(ft_lt_desc *desc, ft_lt_compute compute, ft_lt_type scale) {
    LT_BEGIN;
    LT_DEMAND(compute == FT_LT_COMPUTE_F32 && scale == FT_LT_F32, BAD); // what we have an interpreter for
    *desc = make(sizeof **desc, &books.descs);
    **desc =
        (struct ft_lt_desc_object){.compute = compute, .scale = scale, .epilogue = EPILOGUE_DEFAULT, .bias_type = -1};
    return twin_said(lt_twin_desc(&(*desc)->twin, compute, scale));
}
int cublasLtMatmulDescDestroy(ft_lt_desc desc) {
    const int twin = desc != NULL ? lt_twin_drop(LT_TWIN_DESC, desc->twin) : OK;
    return unmake(desc, &books.descs) == OK ? twin_said(twin) : BAD;
}

int cublasLtMatrixLayoutCreate(ft_lt_layout *layout, ft_lt_type type, uint64_t rows, uint64_t cols, int64_t leading) {
    LT_BEGIN;
    *layout = make(sizeof **layout, &books.layouts);
    **layout = (struct ft_lt_layout_object){.type = type, .rows = rows, .cols = cols, .leading = leading, .batches = 1};
    return twin_said(lt_twin_layout(&(*layout)->twin, type, rows, cols, leading));
}
int cublasLtMatrixLayoutDestroy(ft_lt_layout layout) {
    const int twin = layout != NULL ? lt_twin_drop(LT_TWIN_LAYOUT, layout->twin) : OK;
    return unmake(layout, &books.layouts) == OK ? twin_said(twin) : BAD;
}

int cublasLtMatrixLayoutSetAttribute(ft_lt_layout layout, unsigned attribute, const void *value, size_t bytes);
int cublasLtMatrixLayoutSetAttribute(ft_lt_layout layout, unsigned attribute, const void *value, size_t bytes) {
    LT_DEMAND(layout != NULL && value != NULL, BAD);
    LT_DEMAND(attribute == LAYOUT_BATCH_COUNT || attribute == LAYOUT_BATCH_STRIDE, BAD);
    LT_DEMAND(bytes == (attribute == LAYOUT_BATCH_COUNT ? sizeof layout->batches : sizeof layout->batch_stride), BAD);
    memcpy(attribute == LAYOUT_BATCH_COUNT ? (void *)&layout->batches : (void *)&layout->batch_stride, value, bytes);
    return OK;
}

int cublasLtMatmulPreferenceCreate(ft_lt_preference *preference) {
    LT_BEGIN;
    *preference = make(sizeof **preference, &books.preferences);
    **preference = (struct ft_lt_preference_object){.reduction = REDUCTION_ALL, .alignment = {256, 256, 256, 256}};
    return twin_said(lt_twin_preference(&(*preference)->twin));
}
int cublasLtMatmulPreferenceDestroy(ft_lt_preference preference) {
    const int twin = preference != NULL ? lt_twin_drop(LT_TWIN_PREFERENCE, preference->twin) : OK;
    return unmake(preference, &books.preferences) == OK ? twin_said(twin) : BAD;
}

// ---- attributes -------------------------------------------------------------------------------------------------

int cublasLtMatmulDescSetAttribute(ft_lt_desc desc, ft_lt_desc_attribute attribute, const void *value, size_t bytes) {
    LT_BEGIN;
    LT_DEMAND(desc != NULL && value != NULL, BAD);
    struct {
        void *to;
        size_t bytes;
    } where = {NULL, 0};
    switch (attribute) {
    case FT_LT_DESC_TRANSA: where.to = &desc->transposed[0], where.bytes = sizeof desc->transposed[0]; break;
    case FT_LT_DESC_TRANSB: where.to = &desc->transposed[1], where.bytes = sizeof desc->transposed[1]; break;
    case FT_LT_DESC_EPILOGUE: where.to = &desc->epilogue, where.bytes = sizeof desc->epilogue; break;
    case FT_LT_DESC_BIAS_POINTER: where.to = &desc->bias, where.bytes = sizeof desc->bias; break;
    case FT_LT_DESC_BIAS_TYPE: where.to = &desc->bias_type, where.bytes = sizeof desc->bias_type; break;
    default: break;
    }
    LT_DEMAND(where.to != NULL && bytes == where.bytes, BAD);
    memcpy(where.to, value, bytes);
    return twin_said(lt_twin_set(LT_TWIN_DESC, desc->twin, attribute, value, bytes));
}

int cublasLtMatmulPreferenceSetAttribute(ft_lt_preference preference, ft_lt_preference_attribute attribute,
                                         const void *value, size_t bytes) {
    LT_BEGIN;
    LT_DEMAND(preference != NULL && value != NULL, BAD);
    if (attribute == FT_LT_PREFER_WORKSPACE) {
        LT_DEMAND(bytes == sizeof preference->workspace, BAD);
        memcpy(&preference->workspace, value, bytes);
    } else if (attribute == FT_LT_PREFER_REDUCTION) {
        LT_DEMAND(bytes == sizeof(uint32_t), BAD);
        memcpy(&preference->reduction, value, bytes);
    } else {
        LT_DEMAND(bytes == sizeof(uint32_t), BAD);
        LT_DEMAND(attribute >= FT_LT_PREFER_ALIGNMENT_A && attribute <= FT_LT_PREFER_ALIGNMENT_D, BAD);
        memcpy(&preference->alignment[attribute - FT_LT_PREFER_ALIGNMENT_A], value, bytes);
    }
    return twin_said(lt_twin_set(LT_TWIN_PREFERENCE, preference->twin, attribute, value, bytes));
}

// ---- does it fit together? --------------------------------------------------------------------------------------

typedef struct problem { // D[m,n] = A[m,k] B[k,n], columns contiguous
    uint64_t m, n, k;
} problem;

static int check_layout(ft_lt_layout l) {
    LT_DEMAND(l != NULL && l->rows > 0 && l->cols > 0 && l->leading >= (int64_t)l->rows && l->batches > 0, BAD);
    LT_DEMAND(l->type == FT_LT_F32 || l->type == FT_LT_BF16 || l->type == FT_LT_F16, BAD);
    return OK;
}

static int check(ft_lt_desc desc, ft_lt_layout a, ft_lt_layout b, ft_lt_layout c, ft_lt_layout d, problem *p) {
    ft_lt_layout all[] = {a, b, c, d};
    LT_DEMAND(desc != NULL, BAD);
    for (int i = 0; i < 4; i++) {
        int status = check_layout(all[i]);
        if (status != OK) return status;
        LT_DEMAND(all[i]->batches == a->batches, BAD);
    }
    p->m = desc->transposed[0] ? a->cols : a->rows;
    p->k = desc->transposed[0] ? a->rows : a->cols;
    p->n = desc->transposed[1] ? b->rows : b->cols;
    LT_DEMAND((desc->transposed[1] ? b->cols : b->rows) == p->k, BAD);
    LT_DEMAND(c->rows == p->m && c->cols == p->n && d->rows == p->m && d->cols == p->n, BAD);
    LT_DEMAND(a->type == b->type && c->type == d->type && (d->type == a->type || d->type == FT_LT_F32), UNSUPPORTED);
    LT_DEMAND(desc->epilogue == EPILOGUE_DEFAULT || desc->epilogue == FT_LT_EPILOGUE_BIAS, UNSUPPORTED);
    bool biased = desc->epilogue == FT_LT_EPILOGUE_BIAS;
    LT_DEMAND(!biased || desc->bias != NULL, BAD);
    LT_DEMAND(!biased || desc->bias_type == -1 || (ft_lt_type)desc->bias_type == d->type, UNSUPPORTED);
    return OK;
}

// What an algorithm remembers of the call that it is for.
typedef struct promise {
    uint64_t magic, shape, workspace, number; // number: of the algorithm
    uint32_t alignment[ALIGNMENTS];
} promise;
// What a product takes on the fake clock. The first is what the heuristic believes in, the third is what is.
enum { ALGORITHMS = 4 };
static const double milliseconds[ALGORITHMS] = {0.5, 0.75, 0.25, 1.0};
_Static_assert(sizeof(promise) <= sizeof(ft_lt_algorithm), "an algorithm holds a promise");

// FAKE_LT_FASTEST=N: the N-th takes what the third does, and the other way round.
static double milliseconds_of(uint64_t number) {
    const char *text = getenv("FAKE_LT_FASTEST");
    const uint64_t fastest = text != NULL ? strtoull(text, NULL, 10) : 2;
    return milliseconds[number == fastest ? 2 : number == 2 ? fastest % ALGORITHMS : number];
}

// FAKE_LT_HOLD=FILE: the last algorithm, which nobody runs but to measure it, waits while FILE is there; FILE.reached says that it does.
static void hold(uint64_t number) {
    const char *file = getenv("FAKE_LT_HOLD");
    char reached[4096];
    if (file == NULL || number != ALGORITHMS - 1 || access(file, F_OK) != 0) return;
    snprintf(reached, sizeof reached, "%s.reached", file);
    FILE *made = fopen(reached, "w");
    if (made != NULL) fclose(made);
    while (access(file, F_OK) == 0)
        usleep(10000);
}

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 1099511628211u; }
static uint64_t shape_of(ft_lt_desc desc, ft_lt_layout a, ft_lt_layout b, ft_lt_layout d) {
    uint64_t h = mix(mix(mix(7, desc->transposed[0]), (uint64_t)desc->transposed[1]), desc->epilogue);
    ft_lt_layout all[] = {a, b, d};
    for (int i = 0; i < 3; i++)
        h = mix(mix(mix(mix(h, all[i]->type), all[i]->rows), all[i]->cols), (uint64_t)all[i]->leading);
    return h;
}

int cublasLtMatmulAlgoGetHeuristic(ft_lt_handle handle, ft_lt_desc desc, ft_lt_layout a, ft_lt_layout b, ft_lt_layout c,
                                   ft_lt_layout d, ft_lt_preference preference, int wanted, ft_lt_choice choices[],
                                   int *found) {
    LT_BEGIN;
    problem p;
    LT_DEMAND(handle != NULL && handle->alive == MAGIC && preference != NULL && wanted > 0 && choices != NULL &&
                  found != NULL,
              BAD);
    books.heuristics++;
    *found = 0;
    int status = check(desc, a, b, c, d, &p);
    if (status != OK) return status;
    if (mood == FAKE_LT_FINDS_NOTHING) return UNSUPPORTED;
    // Long sums are split where the workspace holds the parts, as the real one likes to.
    bool split = p.k > 256 && (preference->reduction & FT_LT_REDUCTION_COMPUTE_TYPE) != 0;
    promise made = {
        .magic = MAGIC, .shape = shape_of(desc, a, b, d), .workspace = split ? 4 * p.m * p.n * sizeof(float) : 0};
    if (made.workspace > preference->workspace) made.workspace = 0;
    if (mood == FAKE_LT_WANTS_MORE) made.workspace = preference->workspace + 1;
    memcpy(made.alignment, preference->alignment, sizeof made.alignment);
    for (; *found < wanted && *found < ALGORITHMS; ++*found) {
        made.number = (uint64_t)*found;
        choices[*found] = (ft_lt_choice){.workspace_bytes = made.workspace, .status = OK, .waves = 1};
        memcpy(&choices[*found].algorithm, &made, sizeof made);
    }
    return OK;
}

int cublasLtMatmulAlgoCheck(ft_lt_handle handle, ft_lt_desc desc, ft_lt_layout a, ft_lt_layout b, ft_lt_layout c, ft_lt_layout d,
                            const ft_lt_algorithm *algorithm, ft_lt_choice *choice) {
    LT_BEGIN;
    problem p;
    promise made;
    LT_DEMAND(handle != NULL && handle->alive == MAGIC && algorithm != NULL && choice != NULL, BAD);
    int status = check(desc, a, b, c, d, &p);
    if (status != OK) return status;
    memcpy(&made, algorithm, sizeof made);
    if (made.magic != MAGIC || made.shape != shape_of(desc, a, b, d) || made.number >= ALGORITHMS) return UNSUPPORTED;
    *choice = (ft_lt_choice){.algorithm = *algorithm, .workspace_bytes = made.workspace, .status = OK, .waves = 1};
    return OK;
}

// ---- products ---------------------------------------------------------------------------------------------------

typedef struct product { // as it was when it was queued
    struct ft_lt_desc_object desc;
    struct ft_lt_layout_object a_layout, b_layout, c_layout, d_layout;
    problem p;
    float alpha, beta;
    const char *a, *b, *c;
    char *d, *workspace;
    size_t workspace_bytes;
    uint64_t algorithm;
    int device;
} product;

static size_t size_of(ft_lt_type type) { return type == FT_LT_F32 ? 4 : 2; }

static double get(const char *data, ft_lt_type type, uint64_t at) {
    if (type == FT_LT_F32) {
        float x;
        memcpy(&x, data + 4 * at, 4);
        return (double)x;
    }
    uint16_t half;
    memcpy(&half, data + 2 * at, 2);
    if (type == FT_LT_BF16) {
        uint32_t bits = (uint32_t)half << 16;
        float x;
        memcpy(&x, &bits, 4);
        return (double)x;
    }
    _Float16 x;
    memcpy(&x, &half, 2);
    return (double)x;
}

static void put(char *data, ft_lt_type type, uint64_t at, float x) {
    if (type == FT_LT_F32) {
        memcpy(data + 4 * at, &x, 4);
    } else if (type == FT_LT_BF16) {
        uint32_t bits;
        memcpy(&bits, &x, 4);
        bits = x == x ? bits + 0x7FFF + (bits >> 16 & 1) : 0x7FFF0000; // to nearest, ties to even; NaN stays NaN
        uint16_t half = (uint16_t)(bits >> 16);
        memcpy(data + 2 * at, &half, 2);
    } else {
        _Float16 half = (_Float16)x;
        memcpy(data + 2 * at, &half, 2);
    }
}

static bool usable(const product *w, const char *data, const struct ft_lt_layout_object *l) {
    uint64_t elements =
        (l->cols - 1) * (uint64_t)l->leading + l->rows + (uint64_t)(l->batches - 1) * (uint64_t)l->batch_stride;
    return fake_usable(data, elements * size_of(l->type), w->device);
}

// Products of 16-bit numbers are exact in fp32, their sums are not: they are added as tensor cores add them, in fp32.
// (In which order those do is not known: nobody may rely on the bits.) Those of fp32 are exact here.
static double dot(const product *w, const char *a, uint64_t a_step, const char *b, uint64_t b_step) {
    const ft_lt_type a_type = w->a_layout.type, b_type = w->b_layout.type;
    double exact = 0;
    float sum = 0;
    for (uint64_t k = 0; k < w->p.k; k++) {
        const double term = get(a, a_type, k * a_step) * get(b, b_type, k * b_step);
        exact += term;
        sum += (float)term;
    }
    return a_type == FT_LT_F32 ? exact : (double)sum;
}

static void multiply(const product *w, uint64_t batch) {
    const struct ft_lt_layout_object *a = &w->a_layout, *b = &w->b_layout, *c = &w->c_layout, *d = &w->d_layout;
    const uint64_t a0 = batch * (uint64_t)a->batch_stride, b0 = batch * (uint64_t)b->batch_stride;
    const bool a_transposed = (w->desc.transposed[0] != 0) != (swapped_transpose && a->rows == a->cols);
    const uint64_t a_row = a_transposed ? (uint64_t)a->leading : 1, a_k = a_transposed ? 1 : (uint64_t)a->leading;
    const uint64_t b_col = w->desc.transposed[1] ? 1 : (uint64_t)b->leading,
                   b_k = w->desc.transposed[1] ? (uint64_t)b->leading : 1;
    for (uint64_t j = 0; j < w->p.n; j++)
        for (uint64_t i = 0; i < w->p.m; i++) {
            double sum = dot(w, w->a + (a0 + i * a_row) * size_of(a->type), a_k,
                             w->b + (b0 + j * b_col) * size_of(b->type), b_k);
            sum *= (double)w->alpha;
            // What C holds is not looked at when beta is 0: it may be anything.
            if (w->beta != 0)
                sum += (double)w->beta *
                       get(w->c, c->type, batch * (uint64_t)c->batch_stride + i + j * (uint64_t)c->leading);
            if (w->desc.epilogue == FT_LT_EPILOGUE_BIAS) sum += get(w->desc.bias, d->type, i);
            put(w->d, d->type, batch * (uint64_t)d->batch_stride + i + j * (uint64_t)d->leading, (float)sum);
        }
}

static bool run_product(void *job) {
    const product *w = job;
    if (!usable(w, w->a, &w->a_layout) || !usable(w, w->b, &w->b_layout) || !usable(w, w->d, &w->d_layout))
        return false;
    if (w->beta != 0 && !usable(w, w->c, &w->c_layout)) return false;
    if (w->desc.epilogue == FT_LT_EPILOGUE_BIAS &&
        !fake_usable(w->desc.bias, w->p.m * size_of(w->d_layout.type), w->device))
        return false;
    if (w->workspace_bytes > 0) {
        if (!fake_usable(w->workspace, w->workspace_bytes, w->device)) return false;
        memset(w->workspace, 0xFF, w->workspace_bytes); // NaNs for whoever believes that it is theirs
    }
    for (int32_t batch = 0; batch < w->d_layout.batches; batch++)
        multiply(w, (uint64_t)batch);
    hold(w->algorithm);
    fake_advance_clock(milliseconds_of(w->algorithm));
    return true;
}

static bool aligned(const void *data, uint32_t to) { return (uintptr_t)data % to == 0; }

int cublasLtMatmul(ft_lt_handle handle, ft_lt_desc desc, const void *alpha, const void *a, ft_lt_layout a_layout,
                   const void *b, ft_lt_layout b_layout, const void *beta, const void *c, ft_lt_layout c_layout,
                   void *d, ft_lt_layout d_layout, const ft_lt_algorithm *algorithm, void *workspace,
                   size_t workspace_bytes, ft_cu_stream stream) {
    LT_BEGIN;
    problem p;
    promise made;
    LT_DEMAND(handle != NULL && handle->alive == MAGIC && alpha != NULL && beta != NULL && a != NULL && b != NULL &&
                  d != NULL,
              BAD);
    int status = check(desc, a_layout, b_layout, c_layout, d_layout, &p);
    if (status != OK) return status;
    LT_DEMAND(algorithm != NULL,
              BAD); // the real one would ask its heuristic: every call, with a workspace of its own mind
    memcpy(&made, algorithm, sizeof made);
    LT_DEMAND(made.magic == MAGIC && made.number < ALGORITHMS && made.shape == shape_of(desc, a_layout, b_layout, d_layout), BAD);
    LT_DEMAND(workspace_bytes >= made.workspace && (made.workspace == 0 || workspace != NULL), BAD);
    LT_DEMAND(workspace == NULL || aligned(workspace, 16), BAD);
    LT_DEMAND(c != d || (c_layout->leading == d_layout->leading && c_layout->type == d_layout->type), BAD);
    LT_DEMAND(aligned(a, made.alignment[0]) && aligned(b, made.alignment[1]) && aligned(c, made.alignment[2]) &&
                  aligned(d, made.alignment[3]),
              UNSUPPORTED);
    // The real one does not ask: its kernels fault.
    LT_DEMAND(desc->epilogue != FT_LT_EPILOGUE_BIAS || aligned(desc->bias, 16), EXECUTION_FAILED);
    LT_DEMAND(fake_current != NULL && fake_current->retained > 0, NOT_INITIALIZED_LT);
    product *w = malloc(sizeof *w);
    if (w == NULL) fake_fatal("no memory");
    *w = (product){.desc = *desc,
                   .a_layout = *a_layout,
                   .b_layout = *b_layout,
                   .c_layout = *c_layout,
                   .d_layout = *d_layout,
                   .p = p,
                   .a = a,
                   .b = b,
                   .c = c,
                   .d = d,
                   .workspace = workspace,
                   .workspace_bytes = made.workspace,
                   .algorithm = made.number,
                   .device = fake_current->device};
    memcpy(&w->alpha, alpha, sizeof w->alpha);
    memcpy(&w->beta, beta, sizeof w->beta);
    books.products++;
    books.by_algorithm[made.number]++;
    if (fake_launch(stream, run_product, free, w) == 0) return OK;
    free(w);
    return EXECUTION_FAILED;
}

#include "kernels/devices/product_check.h"

#include "base/arena.h"
#include "kernels/cuda/opened.h"
#include "kernels/cuda/product.h"
#include "kernels/devices/verdict.h"
#include "kernels/half.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/geometry.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERSION = 4 }; // of what is checked: another one forgets all verdicts
static const char good[] = "good";

// Two tiles of rows and two of columns, neither filled; four stages of terms, the last of which is not. One block computes them
// all: as on real shapes it goes from tile to tile, with the epilogue of one beside the products of the next.
enum { ROWS = 200, COLUMNS = 264, TERMS = 232, ROOM = 1 << 20 };
static const ft_dtype dtypes[] = {FT_BF16, FT_F16};

typedef struct places {
    unsigned char *x, *w, *bias, *h, *y, *dx, *dbias, *sums, *stream, *gamma, *rows, *step;
    size_t x_bytes, w_bytes, bias_bytes, out_bytes, dbias_bytes, sums_bytes, stream_bytes, gamma_bytes, rows_bytes;
} places;

static places place_all(unsigned char *first) {
    places p = {.x_bytes = ROWS * TERMS * sizeof(uint16_t),
                .w_bytes = COLUMNS * TERMS * sizeof(uint16_t),
                .bias_bytes = COLUMNS * sizeof(uint16_t),
                .out_bytes = ROWS * COLUMNS * sizeof(uint16_t),
                .dbias_bytes = COLUMNS * sizeof(float),
                .sums_bytes = (size_t)ft_cuda_slope_sums(ROWS) * COLUMNS * sizeof(float),
                .stream_bytes = ROWS * COLUMNS * sizeof(float),
                .gamma_bytes = COLUMNS * sizeof(float),
                .rows_bytes = 2 * ROWS * sizeof(int32_t)};
    p.x = first;
    p.w = p.x + ft_cuda_aligned(p.x_bytes);
    p.bias = p.w + ft_cuda_aligned(p.w_bytes);
    p.h = p.bias + ft_cuda_aligned(p.bias_bytes);
    p.y = p.h + ft_cuda_aligned(p.out_bytes);
    p.dx = p.y + ft_cuda_aligned(p.out_bytes);
    p.dbias = p.dx + ft_cuda_aligned(p.out_bytes);
    p.sums = p.dbias + ft_cuda_aligned(p.dbias_bytes);
    p.stream = p.sums + ft_cuda_aligned(p.sums_bytes);
    p.gamma = p.stream + ft_cuda_aligned(p.stream_bytes);
    p.rows = p.gamma + ft_cuda_aligned(p.gamma_bytes);
    p.step = p.rows + ft_cuda_aligned(p.rows_bytes);
    return p;
}

// What is drawn, as it lies on the host: x, w, bias behind one another, then h and y that come back. Of the way back x is the gradient, w has its
// columns as rows, and h is what came forward: dx, dbias and y again come back.
typedef struct numbers {
    uint16_t x[ROWS][TERMS], w[COLUMNS][TERMS], bias[COLUMNS], h[ROWS][COLUMNS], y[ROWS][COLUMNS];
    uint16_t w_back[TERMS][COLUMNS], dx[ROWS][COLUMNS], again[ROWS][COLUMNS];
    float dbias[COLUMNS];
    // of a norm behind the product: slots and positions; what it is added to, of either type, and the sum in its place; s and y
    float gamma[COLUMNS];
    int32_t rows[2][ROWS];
    union {
        float floats[ROWS][COLUMNS];
        uint16_t halves[ROWS][COLUMNS];
    } past, sum;
    uint16_t s[ROWS][COLUMNS], normed[ROWS][COLUMNS];
} numbers;
static const ft_step_state a_step = {.seed = 0x123456789ABCDEF0u, .step = 7};
static const float epsilon = 1e-5f;
static ft_dropout dropout_by(const void *step, const int32_t *rows) {
    return (ft_dropout){.probability = 0.1f, .layer = 3, .site = FT_SITE_FFN_OUTPUT, .step = step, .slot = rows, .position = rows + ROWS};
}

static void draw(ft_dtype dtype, uint16_t *out, size_t count, float size, uint64_t *state) {
    for (size_t i = 0; i < count; i++) {
        const float number = size * (float)((double)(ft_splitmix64(++*state) >> 40) * 0x1p-23 - 1.0);
        ft_narrow(dtype, &number, &out[i], 1);
    }
}
static double number_of(ft_dtype dtype, uint16_t bits) {
    float x;
    ft_widen(dtype, &bits, &x, 1);
    return (double)x;
}

// By one block, and not more: as many as there are multiprocessors, at most.
#define BY_ONE_BLOCK(op, cuda, args)                                                                                   \
    do {                                                                                                               \
        const int multiprocessors = (cuda)->device.target.sm_count;                                                    \
        (cuda)->device.target.sm_count = 1;                                                                            \
        const ft_status status_of_op = (cuda)->kernels->module.table->ops.op(&(cuda)->device, args);                   \
        (cuda)->device.target.sm_count = multiprocessors;                                                              \
        FT_TRY(status_of_op);                                                                                          \
    } while (0)

static ft_status run(ft_cuda *cuda, ft_dtype dtype, const places *p, numbers *n) {
    ft_device *d = &cuda->device;
    const ft_product_activation_args args = {.kind = FT_ACT_GELU,
                                             .x = ft_matrix(p->x, ROWS, TERMS, dtype),
                                             .w = ft_matrix(p->w, COLUMNS, TERMS, dtype),
                                             .bias = ft_vector(p->bias, COLUMNS, dtype),
                                             .h = ft_matrix(p->h, ROWS, COLUMNS, dtype),
                                             .y = ft_matrix(p->y, ROWS, COLUMNS, dtype)};
    FT_TRY(d->functions->upload(d, p->x, n->x, p->x_bytes));
    FT_TRY(d->functions->upload(d, p->w, n->w, p->w_bytes));
    FT_TRY(d->functions->upload(d, p->bias, n->bias, p->bias_bytes));
    FT_TRY(d->functions->fill(d, p->h, 0xFF, p->out_bytes)); // NaN, before it is written
    FT_TRY(d->functions->fill(d, p->y, 0xFF, p->out_bytes));
    BY_ONE_BLOCK(product_activation, cuda, &args);
    FT_TRY(d->functions->download(d, n->h, p->h, p->out_bytes));
    FT_TRY(d->functions->download(d, n->y, p->y, p->out_bytes));
    return d->functions->sync(d);
}

static ft_status run_back(ft_cuda *cuda, ft_dtype dtype, const places *p, numbers *n) {
    ft_device *d = &cuda->device;
    const ft_product_slope_args args = {.kind = FT_ACT_GELU,
                                        .dout = ft_matrix(p->x, ROWS, TERMS, dtype),
                                        .w = ft_matrix(p->w, TERMS, COLUMNS, dtype),
                                        .h = ft_matrix(p->h, ROWS, COLUMNS, dtype),
                                        .dx = ft_matrix(p->dx, ROWS, COLUMNS, dtype),
                                        .y = ft_matrix(p->y, ROWS, COLUMNS, dtype),
                                        .dbias = ft_vector(p->dbias, COLUMNS, FT_F32),
                                        .workspace = {p->sums, p->sums_bytes}};
    FT_TRY(d->functions->upload(d, p->w, n->w_back, p->w_bytes));
    FT_TRY(d->functions->fill(d, p->dx, 0xFF, p->out_bytes));
    FT_TRY(d->functions->fill(d, p->y, 0xFF, p->out_bytes));
    FT_TRY(d->functions->fill(d, p->sums, 0xFF, p->sums_bytes));
    FT_TRY(d->functions->fill(d, p->dbias, 0, p->dbias_bytes));
    BY_ONE_BLOCK(product_slope, cuda, &args);
    FT_TRY(d->functions->download(d, n->dx, p->dx, p->out_bytes));
    FT_TRY(d->functions->download(d, n->again, p->y, p->out_bytes));
    FT_TRY(d->functions->download(d, n->dbias, p->dbias, p->dbias_bytes));
    return d->functions->sync(d);
}

// adds: the type of the sum, which takes the place of what it is added to.
static ft_status run_norm(ft_cuda *cuda, ft_dtype dtype, ft_dtype adds, const places *p, numbers *n) {
    ft_device *d = &cuda->device;
    const size_t stream_bytes = (size_t)ROWS * COLUMNS * ft_dtype_size(adds);
    const ft_tensor stream = ft_matrix(p->stream, ROWS, COLUMNS, adds);
    const ft_product_norm_args args = {.x = ft_matrix(p->x, ROWS, TERMS, dtype),
                                       .w = ft_matrix(p->w, COLUMNS, TERMS, dtype),
                                       .norm = {.x = ft_matrix(p->h, ROWS, COLUMNS, dtype),
                                                .bias = ft_vector(p->bias, COLUMNS, dtype),
                                                .residual = stream,
                                                .gamma = ft_vector(p->gamma, COLUMNS, FT_F32),
                                                .epsilon = epsilon,
                                                .dropout = dropout_by(p->step, (const int32_t *)p->rows),
                                                .s = ft_matrix(p->h, ROWS, COLUMNS, dtype),
                                                .y = ft_matrix(p->y, ROWS, COLUMNS, dtype),
                                                .stream = stream}};
    FT_TRY(d->functions->upload(d, p->w, n->w, p->w_bytes));
    FT_TRY(d->functions->upload(d, p->gamma, n->gamma, p->gamma_bytes));
    FT_TRY(d->functions->upload(d, p->rows, n->rows, p->rows_bytes));
    FT_TRY(d->functions->upload(d, p->step, &a_step, sizeof a_step));
    FT_TRY(d->functions->upload(d, p->stream, &n->past, stream_bytes));
    FT_TRY(d->functions->fill(d, p->h, 0xFF, p->out_bytes));
    FT_TRY(d->functions->fill(d, p->y, 0xFF, p->out_bytes));
    BY_ONE_BLOCK(product_norm, cuda, &args);
    FT_TRY(d->functions->download(d, &n->sum, p->stream, stream_bytes));
    FT_TRY(d->functions->download(d, n->s, p->h, p->out_bytes));
    FT_TRY(d->functions->download(d, n->normed, p->y, p->out_bytes));
    return d->functions->sync(d);
}

// Every number against double precision: h, and y by the h that is there. `what` is "" where they are right.
static void judge(ft_dtype dtype, const numbers *n, char what[FT_VERDICT_TEXT]) {
    const double unit = dtype == FT_BF16 ? 0x1p-8 : 0x1p-11; // half one in the last place
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            double sum = number_of(dtype, n->bias[j]), size = fabs(sum);
            for (int k = 0; k < TERMS; k++) {
                const double term = number_of(dtype, n->x[i][k]) * number_of(dtype, n->w[j][k]);
                sum += term;
                size += fabs(term);
            }
            const double h = number_of(dtype, n->h[i][j]), y = number_of(dtype, n->y[i][j]), want = h * erfc(-h * sqrt(0.5)) / 2;
            const bool right = fabs(h - sum) <= 1.01 * unit * fabs(sum) + 1e-5 * size;
            if (right && fabs(y - want) <= 1.01 * unit * fabs(want) + 1e-5) continue;
            snprintf(what, FT_VERDICT_TEXT, "%s of %s at row %d, column %d is %.5g, not %.5g", right ? "gelu" : "the product", ft_dtype_name(dtype), i, j,
                     right ? y : h, right ? want : sum);
            return;
        }
}

// dx, which is rounded twice, and the sums of it beside what is there; y is made again to the bit.
static void judge_back(ft_dtype dtype, const numbers *n, char what[FT_VERDICT_TEXT]) {
    const double unit = dtype == FT_BF16 ? 0x1p-8 : 0x1p-11;
    for (int j = 0; j < COLUMNS; j++) {
        double sum_of_column = 0, squares = 0;
        for (int i = 0; i < ROWS; i++) {
            double sum = 0, size = 0;
            for (int k = 0; k < TERMS; k++) {
                const double term = number_of(dtype, n->x[i][k]) * number_of(dtype, n->w_back[k][j]);
                sum += term;
                size += fabs(term);
            }
            const double h = number_of(dtype, n->h[i][j]), slope = erfc(-h * sqrt(0.5)) / 2 + h * exp(-h * h / 2) * 0.3989422804014327;
            const double dx = number_of(dtype, n->dx[i][j]), want = sum * slope, may = 2.02 * unit * fabs(want) + 1e-5 * (size + fabs(sum));
            sum_of_column += dx; // each rounded once, some up and some down: together far less than a row
            squares += dx * dx;
            if (fabs(dx - want) <= may && n->again[i][j] == n->y[i][j]) continue;
            snprintf(what, FT_VERDICT_TEXT, "%s of %s at row %d, column %d is %.5g, not %.5g", fabs(dx - want) <= may ? "gelu again" : "the product by gelu's slope",
                     ft_dtype_name(dtype), i, j, fabs(dx - want) <= may ? number_of(dtype, n->again[i][j]) : dx,
                     fabs(dx - want) <= may ? number_of(dtype, n->y[i][j]) : want);
            return;
        }
        if (fabs((double)n->dbias[j] - sum_of_column) <= 4 * unit * sqrt(squares) + 1e-5) continue;
        snprintf(what, FT_VERDICT_TEXT, "the sum of column %d of %s is %.5g, not %.5g", j, ft_dtype_name(dtype), (double)n->dbias[j], sum_of_column);
        return;
    }
}

static double number_at(ft_dtype adds, const void *numbers_of, int i, int j) {
    const size_t at = (size_t)i * COLUMNS + (size_t)j;
    return adds == FT_F32 ? (double)((const float *)numbers_of)[at] : number_of(adds, ((const uint16_t *)numbers_of)[at]);
}

// The sum, of a product that is rounded; s, which is it rounded; and y by the sum that is there.
static void judge_norm(ft_dtype dtype, ft_dtype adds, const numbers *n, char what[FT_VERDICT_TEXT]) {
    const double unit = dtype == FT_BF16 ? 0x1p-8 : 0x1p-11;
    const ft_dropout dropout = dropout_by(&a_step, n->rows[0]);
    const uint64_t key = ft_dropout_key(a_step.seed, a_step.step, dropout.layer, dropout.site);
    const uint32_t threshold = ft_dropout_threshold(dropout.probability);
    for (int i = 0; i < ROWS; i++) {
        double total = 0, squares = 0;
        for (int j = 0; j < COLUMNS; j++) {
            double product = 0, size = 0;
            for (int k = 0; k < TERMS; k++) {
                const double term = number_of(dtype, n->x[i][k]) * number_of(dtype, n->w[j][k]);
                product += term;
                size += fabs(term);
            }
            const uint32_t bits = ft_dropout_bits_row(key, (uint32_t)n->rows[0][i], (uint32_t)n->rows[1][i], (uint32_t)j);
            const double factor = bits < threshold ? 0 : (double)ft_dropout_scale(threshold), past = number_at(adds, &n->past, i, j);
            const double want = (product + number_of(dtype, n->bias[j])) * factor + past, is = number_at(adds, &n->sum, i, j), s = number_of(dtype, n->s[i][j]);
            const double may = 1.01 * unit * fabs(product) * factor + (adds == FT_F32 ? 0 : 1.01 * unit * fabs(want)) + 1e-5 * (size + fabs(want));
            total += is;
            if (fabs(is - want) <= may && fabs(s - is) <= 1.01 * unit * fabs(is)) continue;
            snprintf(what, FT_VERDICT_TEXT, "the sum with a residual of %s in %s at row %d, column %d is %.5g, not %.5g", ft_dtype_name(dtype), ft_dtype_name(adds), i, j,
                     fabs(is - want) <= may ? s : is, want);
            return;
        }
        const double mean = total / COLUMNS;
        for (int j = 0; j < COLUMNS; j++) squares += (number_at(adds, &n->sum, i, j) - mean) * (number_at(adds, &n->sum, i, j) - mean);
        const double rstd = 1 / sqrt(squares / COLUMNS + (double)epsilon);
        for (int j = 0; j < COLUMNS; j++) {
            const double y = number_of(dtype, n->normed[i][j]), want = (number_at(adds, &n->sum, i, j) - mean) * rstd * (double)n->gamma[j];
            if (fabs(y - want) <= 1.01 * unit * fabs(want) + 1e-5 * (1 + fabs((double)n->gamma[j]))) continue;
            snprintf(what, FT_VERDICT_TEXT, "the norm of %s of a sum in %s at row %d, column %d is %.5g, not %.5g", ft_dtype_name(dtype), ft_dtype_name(adds), i, j, y, want);
            return;
        }
    }
}

// What a sum is added to, and the rest of a norm's numbers.
static void draw_norm(ft_dtype adds, numbers *n, uint64_t *state) {
    if (adds != FT_F32) draw(adds, &n->past.halves[0][0], ROWS * COLUMNS, 2, state);
    for (int i = 0; i < ROWS; i++) {
        n->rows[0][i] = i / 37, n->rows[1][i] = i % 37;
        for (int j = 0; adds == FT_F32 && j < COLUMNS; j++)
            n->past.floats[i][j] = 2 * (float)((double)(ft_splitmix64(++*state) >> 40) * 0x1p-23 - 1.0);
    }
    for (int j = 0; j < COLUMNS; j++) n->gamma[j] = 0.5f + (float)(j % 16) / 8;
}

static ft_status check_norms(ft_cuda *cuda, ft_dtype dtype, const places *p, numbers *n, uint64_t *state, char what[FT_VERDICT_TEXT]) {
    const ft_dtype types[] = {dtype, FT_F32};
    for (size_t i = 0; i < sizeof types / sizeof *types && what[0] == '\0'; i++) {
        draw_norm(types[i], n, state);
        FT_TRY(run_norm(cuda, dtype, types[i], p, n));
        judge_norm(dtype, types[i], n, what);
    }
    return FT_OK;
}

static ft_status check_all(ft_cuda *cuda, char what[FT_VERDICT_TEXT]) {
    ft_device *d = &cuda->device;
    void *on_device = NULL;
    uint64_t state = 1;
    numbers *n = ft_calloc(1, sizeof *n, "the results of a check");
    if (n == NULL) return FT_NO_MEMORY;
    ft_status status = d->functions->buffer_alloc(d, ROOM, &on_device);
    const places p = place_all(on_device);
    for (size_t i = 0; status == FT_OK && i < sizeof dtypes / sizeof *dtypes && what[0] == '\0'; i++) {
        draw(dtypes[i], &n->x[0][0], ROWS * TERMS, 1, &state);
        draw(dtypes[i], &n->w[0][0], COLUMNS * TERMS, 0.25f, &state);
        draw(dtypes[i], n->bias, COLUMNS, 1, &state);
        draw(dtypes[i], &n->w_back[0][0], COLUMNS * TERMS, 0.25f, &state);
        status = run(cuda, dtypes[i], &p, n);
        if (status == FT_OK) judge(dtypes[i], n, what);
        if (status == FT_OK && what[0] == '\0') status = run_back(cuda, dtypes[i], &p, n);
        if (status == FT_OK && what[0] == '\0') judge_back(dtypes[i], n, what);
        if (status == FT_OK && what[0] == '\0') status = check_norms(cuda, dtypes[i], &p, n, &state, what);
    }
    if (on_device != NULL) d->functions->buffer_free(d, on_device, ROOM);
    free(n);
    return status;
}

static void remark(ft_cuda *cuda, const ft_verdict *v, const char *why) {
    snprintf(cuda->product_remark, sizeof cuda->product_remark, "products with an epilogue of our own are left alone on %s, cuBLASLt and a pass compute them: %s%s%.*s%s",
             cuda->name, why, v->path[0] != '\0' ? " (" : "", 120, v->path, v->path[0] != '\0' ? ")" : "");
}

// Of a check that was refused: an outcome like any other where the device works on, else an error.
static ft_status refused(ft_cuda *cuda, ft_verdict *v, ft_status status) {
    ft_error error;
    char what[FT_VERDICT_TEXT];
    ft_error_save(&error);
    snprintf(what, sizeof what, "its check failed: %.150s", ft_error_message());
    const bool memory = status == FT_NO_MEMORY; // says nothing of the kernels
    ft_verdict_write(v, memory ? "" : what);
    if (memory || cuda->device.functions->sync(&cuda->device) == FT_OK) {
        remark(cuda, v, what);
        ft_error_clear();
        return FT_OK;
    }
    ft_error_restore(&error);
    ft_hint("this was the check of our own products with an epilogue; a run from here on goes without, as with FTENGINE_PRODUCTS=cublaslt");
    return status;
}

static void subject_of(const ft_cuda *cuda, char *out, size_t size) {
    const ft_cuda_module *module = &cuda->kernels->module;
    struct stat file = {.st_size = 0};
    (void)stat(module->path, &file);
    snprintf(out, size, "%d %s %s driver %d %s module %s %lld %lld.%09ld", VERSION, cuda->device.place, cuda->device.description,
             cuda->driver->version, cuda->driver->release, module->path, (long long)file.st_size, (long long)file.st_mtim.tv_sec,
             file.st_mtim.tv_nsec);
}

ft_status ft_cuda_product_check(ft_cuda *cuda) {
    char subject[1200], what[FT_VERDICT_TEXT] = "";
    ft_verdict v;
    if (cuda->device.planned || cuda->checked_products || cuda->products != FT_PRODUCTS_MEASURED) return FT_OK;
    if (!ft_cuda_has_own_products(cuda, cuda->kernels->module.table->targets)) return FT_OK;
    cuda->checked_products = true;
    subject_of(cuda, subject, sizeof subject);
    ft_verdict_open(&v, "product", subject);
    if (v.text[0] == '\0') {
        ft_verdict_write(&v, FT_VERDICT_BEGUN);
        ft_status status = check_all(cuda, what);
        if (status != FT_OK) {
            status = refused(cuda, &v, status);
            ft_verdict_close(&v);
            return status;
        }
        snprintf(v.text, sizeof v.text, "%s", what[0] != '\0' ? what : good);
        ft_verdict_write(&v, v.text);
    }
    cuda->own_products = strcmp(v.text, good) == 0;
    if (strcmp(v.text, FT_VERDICT_BEGUN) == 0) remark(cuda, &v, FT_VERDICT_NEVER_ENDED);
    else if (!cuda->own_products) remark(cuda, &v, v.text);
    ft_verdict_close(&v);
    return FT_OK;
}

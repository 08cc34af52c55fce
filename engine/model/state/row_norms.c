#include "engine/model/state/row_norms.h"

#include "engine/model/state/kept.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Elements [first, first + count), in the order of memory, to staging->data.
static ft_status fetch(ft_staging *staging, const ft_parameters *p, int index, int64_t first, int64_t count) {
    if (ft_kept_quantised(p, index)) return ft_kept_download(staging, p, index, first, count, 0);
    ft_staged from = ft_parameter_stored(p, index);
    from.first = first;
    return ft_staging_download(staging, from, count, 0);
}

// All of a small one, to memory that the caller frees.
static ft_status fetch_all(ft_staging *staging, const ft_parameters *p, int index, float **out) {
    const int64_t total = p->list[index].count;
    if ((*out = ft_calloc((size_t)total, sizeof **out, "an adapter's matrix")) == NULL) return FT_NO_MEMORY;
    for (int64_t done = 0, count; done < total; done += count) {
        count = total - done < FT_STAGING_FLOATS ? total - done : FT_STAGING_FLOATS;
        FT_TRY(fetch(staging, p, index, done, count));
        memcpy(*out + done, staging->data, (size_t)count * sizeof **out);
    }
    return FT_OK;
}

// w of row i from column `from` on becomes w + s b A.
static void add_low(const ft_drawn *drawn, const float *a, const float *b, int64_t rank, int64_t cols, int64_t row, int64_t from, int64_t count, float *w) {
    for (int64_t j = 0; b != NULL && j < count; j++) {
        double sum = 0;
        for (int64_t k = 0; k < rank; k++) sum += (double)b[row * rank + k] * (double)a[k * cols + from + j];
        w[j] += (float)(drawn->size * sum);
    }
}

static ft_status sum_rows(ft_staging *staging, const ft_parameters *p, int index, const float *a, const float *b, double *squares) {
    const ft_drawn *drawn = &p->list[index].drawn;
    const int64_t cols = p->list[drawn->weight].cols, rank = p->list[drawn->a].rows, total = p->list[drawn->weight].count;
    for (int64_t done = 0, count; done < total; done += count) {
        count = total - done < FT_STAGING_FLOATS ? total - done : FT_STAGING_FLOATS;
        FT_TRY(fetch(staging, p, drawn->weight, done, count));
        for (int64_t at = 0, n; at < count; at += n) {
            const int64_t row = (done + at) / cols, from = (done + at) % cols;
            n = cols - from < count - at ? cols - from : count - at;
            add_low(drawn, a, b, rank, cols, row, from, n, staging->data + at);
            for (int64_t j = 0; j < n; j++) squares[row] += (double)staging->data[at + j] * (double)staging->data[at + j];
        }
    }
    return FT_OK;
}

static ft_status give_roots(void *context, int64_t first, int64_t count, float *out) {
    const double *squares = context;
    for (int64_t i = 0; i < count; i++) out[i] = (float)sqrt(squares[first + i]);
    return FT_OK;
}

ft_status ft_draw_row_norms(ft_staging *staging, const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    float *a = NULL, *b = NULL;
    double *squares = ft_calloc((size_t)q->rows, sizeof *squares, "lengths of rows");
    ft_status status = squares != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && q->drawn.b >= 0) status = fetch_all(staging, p, q->drawn.a, &a);
    if (status == FT_OK && q->drawn.b >= 0) status = fetch_all(staging, p, q->drawn.b, &b);
    if (status == FT_OK) status = sum_rows(staging, p, index, a, b, squares);
    if (status == FT_OK) status = ft_staging_upload(staging, ft_parameter_stored(p, index), q->rows, give_roots, squares);
    free(squares);
    free(b);
    free(a);
    return status;
}

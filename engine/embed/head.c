#include "engine/embed/head.h"

#include "engine/files/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Without a prompt of its own a text is pooled from its first row on.
bool ft_head_needs_mean(const ft_sentence_files *f) { return f->poolings == 1 && f->pooling[0] == FT_POOL_MEAN && !f->without_prompt; }
bool ft_head_needs_rows(const ft_sentence_files *f) {
    return !ft_head_needs_mean(f) && !(f->poolings == 1 && f->pooling[0] == FT_POOL_CLS && !f->without_prompt);
}

// ---- poolings -------------------------------------------------------------------------------------------------------------

static void weigh(const float *rows, int64_t first, int64_t count, int64_t hidden, bool by_place, double *sum, double *weights) {
    memset(sum, 0, (size_t)hidden * sizeof *sum);
    *weights = 0;
    for (int64_t i = first; i < count; i++) {
        const double weight = by_place ? (double)(i + 1) : 1;
        for (int64_t k = 0; k < hidden; k++) sum[k] += weight * (double)rows[i * hidden + k];
        *weights += weight;
    }
}

static void largest(const float *rows, int64_t first, int64_t count, int64_t hidden, double *out) {
    for (int64_t k = 0; k < hidden; k++) out[k] = rows[first * hidden + k];
    for (int64_t i = first + 1; i < count; i++)
        for (int64_t k = 0; k < hidden; k++)
            if ((double)rows[i * hidden + k] > out[k]) out[k] = rows[i * hidden + k];
}

static void pool(ft_pooling pooling, const float *rows, int64_t first, int64_t count, int64_t hidden, double *out) {
    double weights;
    const int64_t row = pooling == FT_POOL_LAST ? count - 1 : first;
    switch (pooling) {
    case FT_POOL_MAX: largest(rows, first, count, hidden, out); return;
    case FT_POOL_MEAN:
    case FT_POOL_MEAN_SQRT:
    case FT_POOL_WEIGHTED:
        weigh(rows, first, count, hidden, pooling == FT_POOL_WEIGHTED, out, &weights);
        if (pooling == FT_POOL_MEAN_SQRT) weights = sqrt(weights);
        for (int64_t k = 0; k < hidden; k++) out[k] /= weights;
        return;
    default:
        for (int64_t k = 0; k < hidden; k++) out[k] = rows[row * hidden + k];
    }
}

// ---- steps ----------------------------------------------------------------------------------------------------------------

static double activate(ft_dense_activation activation, double x) {
    switch (activation) {
    case FT_DENSE_TANH: return tanh(x);
    case FT_DENSE_RELU: return x > 0 ? x : 0;
    case FT_DENSE_GELU: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case FT_DENSE_SIGMOID: return 1 / (1 + exp(-x));
    case FT_DENSE_SILU: return x / (1 + exp(-x));
    default: return x;
    }
}

static void run_dense(const ft_vector_step *step, const ft_dense *dense, const double *x, double *y) {
    for (int64_t o = 0; o < step->outputs; o++) y[o] = dense->bias[o];
    for (int64_t i = 0; i < step->inputs; i++)
        for (int64_t o = 0; o < step->outputs; o++) y[o] += x[i] * (double)dense->weight[i * step->outputs + o];
    for (int64_t o = 0; o < step->outputs; o++) y[o] = activate(step->activation, y[o]);
}

static void make_unit(double *x, int64_t width) {
    double squares = 0;
    for (int64_t k = 0; k < width; k++) squares += x[k] * x[k];
    const double length = sqrt(squares) > 1e-12 ? sqrt(squares) : 1e-12;
    for (int64_t k = 0; k < width; k++) x[k] /= length;
}

ft_status ft_vector_head_run(ft_vector_head *h, const float *rows, int64_t count, float *vector) {
    const ft_sentence_files *f = h->files;
    const bool made = !ft_head_needs_rows(f);
    // A text that was cut within its prompt has no rows of its own: the prompt's stand for it.
    const int64_t first = h->prompt_tokens < count ? h->prompt_tokens : 0;
    double *x = h->room[0], *y = h->room[1];
    for (int i = 0; i < f->poolings; i++) pool(made ? FT_POOL_CLS : f->pooling[i], rows, made ? 0 : first, count, h->hidden, x + i * h->hidden);
    int64_t width = f->poolings * h->hidden;
    for (int i = 0; i < f->steps; i++) {
        if (!f->step[i].dense) {
            make_unit(x, width);
            continue;
        }
        run_dense(&f->step[i], &h->dense[i], x, y);
        width = f->step[i].outputs;
        double *before = x;
        x = y;
        y = before;
    }
    for (int64_t k = 0; k < width; k++) {
        vector[k] = (float)x[k];
        if (!isfinite(vector[k])) return ft_fail(FT_DIVERGED, NULL, "number %lld of a vector is not finite", (long long)k);
    }
    return FT_OK;
}

// ---- dense layers ---------------------------------------------------------------------------------------------------------

static ft_status find(const ft_weights *w, const char *name, int64_t rows, int64_t columns, int *index) {
    *index = ft_weights_find(w, name);
    if (*index < 0) return ft_fail(FT_INVALID, ft_weights_list_path(w), "there is no tensor %s", name);
    const ft_safetensor *t = ft_weights_at(w, *index);
    const bool fits = columns > 0 ? t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns : t->rank == 1 && t->shape[0] == rows;
    if (fits) return FT_OK;
    return ft_fail(FT_INVALID, ft_weights_path(w, *index), "tensor %s: its shape is not that of config.json", name);
}

static ft_status read_dense(const ft_vector_step *step, const ft_weights *w, ft_dense *dense) {
    int weight, bias = -1;
    FT_TRY(find(w, "linear.weight", step->outputs, step->inputs, &weight));
    if (step->bias) FT_TRY(find(w, "linear.bias", step->outputs, 0, &bias));
    dense->weight = ft_calloc((size_t)step->inputs * (size_t)step->outputs, sizeof *dense->weight, "a dense layer");
    dense->bias = ft_calloc((size_t)step->outputs, sizeof *dense->bias, "a dense layer");
    float *row = ft_calloc((size_t)step->inputs, sizeof *row, "a dense layer");
    ft_status status = dense->weight != NULL && dense->bias != NULL && row != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && bias >= 0) status = ft_weights_part_to_f32(w, bias, 0, step->outputs, dense->bias);
    for (int64_t o = 0; status == FT_OK && o < step->outputs; o++) {
        status = ft_weights_part_to_f32(w, weight, o * step->inputs, step->inputs, row);
        for (int64_t i = 0; i < step->inputs; i++) dense->weight[i * step->outputs + o] = row[i];
    }
    free(row);
    return status;
}

static ft_status open_dense(const ft_vector_step *step, ft_dense *dense) {
    ft_weights *weights;
    FT_TRY(ft_weights_open(step->directory, &weights));
    const ft_status status = read_dense(step, weights, dense);
    ft_weights_close(weights);
    return status;
}

ft_status ft_vector_head_open(const ft_sentence_files *f, int64_t hidden, ft_vector_head *h) {
    *h = (ft_vector_head){.files = f, .hidden = hidden, .width = f->poolings * hidden};
    if (f->width != 0 && f->width != hidden)
        return ft_fail(FT_INVALID, f->transformer, "its pooling is of rows of %lld numbers, the model's have %lld", (long long)f->width, (long long)hidden);
    int64_t widest = h->width;
    for (int i = 0; i < f->steps; i++) {
        const ft_vector_step *step = &f->step[i];
        if (!step->dense) continue;
        if (step->inputs != h->width)
            return ft_fail(FT_INVALID, step->directory, "in_features is %lld, what comes in has %lld numbers", (long long)step->inputs, (long long)h->width);
        FT_TRY(open_dense(step, &h->dense[i]));
        h->width = step->outputs;
        if (h->width > widest) widest = h->width;
    }
    for (int i = 0; i < 2; i++) {
        h->room[i] = ft_calloc((size_t)widest, sizeof *h->room[i], "a vector");
        if (h->room[i] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

void ft_vector_head_close(ft_vector_head *h) {
    for (int i = 0; i < FT_MOST_VECTOR_STEPS; i++) {
        free(h->dense[i].weight);
        free(h->dense[i].bias);
    }
    free(h->room[0]);
    free(h->room[1]);
    *h = (ft_vector_head){.files = NULL};
}

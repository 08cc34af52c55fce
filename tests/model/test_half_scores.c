// BERT and DeBERTa in fp16 with queries and keys so large that their products leave the range of fp16: what computes scores in fp16 and
// divides them afterwards has infinities there, and then NaN. Here scores are scaled first and stay in fp32.
#include "tests/fixtures/model_fixture.h"

#include "engine/train/job/run_plan.h"
#include "kernels/half.h"

enum { LARGEST_FP16 = 65504 };

// Queries and keys of every layer times `factor`: the first two thirds of a block.
static void scale_projections(fixture *f, double factor) {
    ft_model *m = &f->model;
    for (int l = 0; l < m->layers; l++) {
        ft_tensor block[2] = {ft_parameter_weight(&m->parameters, m->layer[l].qkv.weight), ft_parameter_weight(&m->parameters, m->layer[l].qkv.bias)};
        const int64_t counts[2] = {2 * m->hidden * m->hidden, 2 * m->hidden};
        for (int b = 0; b < 2; b++)
            for (int64_t i = 0; i < counts[b]; i++) {
                uint16_t *x = (uint16_t *)block[b].data + i;
                *x = ft_to_fp16((float)(ft_from_fp16(*x) * factor));
            }
    }
}

// The same weights, those of fp16 in fp32.
static void copy_weights(const fixture *from, fixture *to) {
    const ft_parameters *p = &from->model.parameters, *q = &to->model.parameters;
    assert_int_equal(p->count, q->count);
    for (int i = 0; i < p->count; i++) {
        const ft_tensor narrow = ft_parameter_weight(p, i), wide = ft_parameter_weight(q, i);
        const int64_t n = narrow.rows * narrow.cols;
        assert_int_equal(n, wide.rows * wide.cols);
        if (narrow.dtype == FT_F32) memcpy(wide.data, narrow.data, (size_t)n * sizeof(float)); // of a norm
        else ft_widen(FT_F16, narrow.data, wide.data, n);
    }
}

typedef struct embedded {
    float *rows; // [tokens, hidden] of layer 0's input
} embedded;

static void keep_embeddings(void *context, int layer, ft_tensor hidden) {
    embedded *e = context;
    if (layer >= 0) return;
    e->rows = malloc((size_t)(hidden.rows * hidden.cols) * sizeof(float));
    for (int64_t r = 0; r < hidden.rows; r++)
        memcpy(e->rows + r * hidden.cols, (const float *)hidden.data + r * hidden.stride, (size_t)hidden.cols * sizeof(float));
}

static ft_status logits_of(fixture *f, float *logits) {
    ft_batch_limits all = {0, 0};
    return predict_fixture(f, all, logits);
}

// The largest |<Q_i, K_j>| of layer 0, before any scaling, and the largest |Q| and |K|.
static double largest_product(fixture *f, double *largest) {
    ft_model *m = &f->model;
    const int64_t h = m->hidden, d = m->heads.width, tokens = f->data.tokens;
    embedded e = {NULL};
    float logits[256];
    m->tap = keep_embeddings;
    m->tap_context = &e;
    OK(logits_of(f, logits));
    m->tap = NULL;
    const float *w = ft_parameter_weight(&m->parameters, m->layer[0].qkv.weight).data, *b = ft_parameter_weight(&m->parameters, m->layer[0].qkv.bias).data;
    double *qk = calloc((size_t)(tokens * 2 * h), sizeof *qk), most = 0;
    *largest = 0;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t o = 0; o < 2 * h; o++) {
            double sum = b[o];
            for (int64_t c = 0; c < h; c++) sum += (double)e.rows[t * h + c] * w[o * h + c];
            qk[t * 2 * h + o] = sum;
            *largest = fmax(*largest, fabs(sum));
        }
    for (int64_t s = 0; s < f->data.examples; s++)
        for (int64_t i = f->data.offset[s]; i < f->data.offset[s + 1]; i++)
            for (int64_t j = f->data.offset[s]; j < f->data.offset[s + 1]; j++)
                for (int64_t head = 0; head < m->heads.count; head++) {
                    double sum = 0;
                    for (int64_t c = head * d; c < (head + 1) * d; c++) sum += qk[i * 2 * h + c] * qk[j * 2 * h + h + c];
                    most = fmax(most, fabs(sum));
                }
    free(qk);
    free(e.rows);
    return most;
}

static void check(void **state) {
    static const char *const fp16[] = {"train.precision=fp16", NULL};
    const char *name = *state;
    fixture half, full;
    open_fixture(&half, name, 2, NULL, fp16);
    open_fixture(&full, name, 2, NULL, NULL);
    copy_weights(&half, &full);
    double largest, product = largest_product(&full, &largest);
    scale_projections(&half, sqrt(4.0 * LARGEST_FP16 / product));
    copy_weights(&half, &full);
    product = largest_product(&full, &largest);
    assert_true(product > 2.0 * LARGEST_FP16); // a score in fp16 is infinite ...
    assert_true(largest < LARGEST_FP16 / 8);   // ... of queries and keys that are far from it
    int64_t n = full.data.examples, values = n * full.model.labels;
    float *want = calloc((size_t)values, sizeof *want), *got = calloc((size_t)values, sizeof *got), losses[64];
    OK(logits_of(&full, want));
    OK(logits_of(&half, got));
    double error = 0;
    for (int64_t i = 0; i < values; i++) {
        if (!isfinite(got[i])) fail_msg("%s: logit %lld is %g", name, (long long)i, got[i]);
        error += fabs((double)got[i] - want[i]) / (double)values;
    }
    // Where two of such scores are nearly the same, rounding queries decides which one the softmax takes: few do.
    if (!(error <= 0.05)) fail_msg("%s: logits differ by %.3g on average", name, error);
    print_message("%-20s products to %.3g of queries and keys to %.3g; logits differ by %.2g on average\n", name, product, largest, error);
    gradients_of(&half, NULL, 0, n, (ft_batch_limits){0, 3}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, losses);
    for (int64_t i = 0; i < n; i++) assert_true(isfinite(losses[i]));
    float *gradients = host_gradients(&half);
    for (int64_t i = 0; i < half.model.parameters.trainable; i++)
        if (!isfinite(gradients[i])) fail_msg("%s: gradient %lld is %g", name, (long long)i, gradients[i]);
    assert_true(norm_of(gradients, half.model.parameters.trainable) > 0);
    free(gradients), free(want), free(got);
    close_fixture(&half);
    close_fixture(&full);
}

#define MODEL(name) {name, check, NULL, NULL, (void *)(uintptr_t)name}

int main(void) {
    const struct CMUnitTest tests[] = {MODEL("bert_gelu"), MODEL("deberta_v1"), MODEL("deberta_v2_unshared"), MODEL("deberta_v3")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

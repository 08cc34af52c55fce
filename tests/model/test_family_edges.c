// DeBERTa v1, v2 and v3 on sequences that end around the edges of buckets and tables, ModernBERT around those of windows and tiles, against transformers' float64 numbers
// (tests/vectors/make_family_vectors.py): logits, hidden rows, losses, gradients.
#include "tests/fixtures/seeded_weights.h"

#include "engine/train/job/run_plan.h"

static const char *const models[] = {"edges_v3", "edges_v2", "edges_v1", "edges_modernbert"};
enum { MODELS = sizeof models / sizeof models[0], PROJECTIONS = 8 };

static void open_edges(fixture *f, const char *name) {
    char model[512], path[600];
    snprintf(model, sizeof model, "%s/%s", FT_TEST_VECTORS, name);
    snprintf(path, sizeof path, "%s/expect.safetensors", model);
    open_seeded(f, model, path, 0, 3);
    OK(ft_model_prepare_training(&f->model, 0));
    OK(ft_gradients_hold(&f->model.parameters, false));
}

typedef struct seen {
    fixture *f;
    const int32_t *rows;
    int64_t count;
    const float *want;
    bool done;
} seen;

static void check_rows(void *context, int layer, ft_tensor hidden) {
    seen *s = context;
    if (layer != 0) return;
    for (int64_t i = 0; i < s->count; i++)
        assert_close("layer.0", (const float *)hidden.data + s->rows[i] * hidden.stride, s->want + i * hidden.cols, hidden.cols, 1e-5);
    s->done = true;
}

static void test_forward(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_edges(&f, models[m]);
        int64_t n;
        float *want = expected(&f, "logits", &n), *got = calloc((size_t)n, sizeof *got), *hidden = expected(&f, "layer.0", NULL);
        seen s = {.f = &f, .want = hidden};
        int32_t *rows = expected_ints(&f, "rows", &s.count);
        s.rows = rows;
        f.model.tap = check_rows;
        f.model.tap_context = &s;
        ft_batch_limits all = {0, 0};
        OK(predict_fixture(&f, all, got));
        assert_true(s.done);
        assert_close("logits", got, want, n, 1e-5);
        free(want), free(got), free(hidden), free(rows);
        close_fixture(&f);
    }
}

// The squared norm of `error`, from its products with vectors of independent elements of variance 1.
static double estimated_norm(const fixture *f, const ft_parameter *p, const float *gradient) {
    char name[256];
    snprintf(name, sizeof name, "projection.%s", p->name);
    float *want = expected(f, name, NULL);
    double sum = 0;
    for (int k = 0; k < PROJECTIONS; k++) {
        double product = 0;
        snprintf(name, sizeof name, "%s#%d", p->name, k);
        uint64_t key = fnv1a64(name);
        for (int64_t done = 0, count; done < p->count; done += count) {
            count = p->count - done;
            int64_t place = ft_parameter_place(p, done, &count);
            for (int64_t i = 0; i < count; i++) product += sqrt(3) * drawn(key, done + i) * gradient[place + i];
        }
        sum += (product - want[k]) * (product - want[k]) / PROJECTIONS;
    }
    free(want);
    return sqrt(sum);
}

static float norm_in_file(const fixture *f, const ft_parameter *p) {
    char name[256];
    snprintf(name, sizeof name, "norm.%s", p->name);
    float *norm = expected(f, name, NULL), value = *norm;
    free(norm);
    return value;
}

static int layer_of(const char *name) {
    int layer;
    const char *at = strstr(name, ".layer");
    return at != NULL && (sscanf(at, ".layer.%d.", &layer) == 1 || sscanf(at, ".layers.%d.", &layer) == 1) ? layer : strstr(name, "embeddings") != NULL ? -1 : -2;
}

static void check_gradients(const fixture *f, const char *model, const float *gradients) {
    const ft_parameters *p = &f->model.parameters;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        double scale = 0, norm = norm_in_file(f, q); // the largest norm of this layer
        for (int k = 0; k < p->count; k++)
            if (layer_of(p->list[k].name) == layer_of(q->name)) scale = fmax(scale, norm_in_file(f, &p->list[k]));
        double bound = 1e-5 * fmax(norm, 1e-3 * scale);
        if (strstr(q->name, ".pos_key_proj.bias") != NULL) bound = 1e-6 * scale; // zero in exact arithmetic
        double error = estimated_norm(f, q, gradients + q->offset);
        if (!(error <= bound)) fail_msg("%s, gradient of %s: error %.3g, allowed %.3g", model, q->name, error, bound);
    }
}

static void test_gradients(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_edges(&f, models[m]);
        int64_t n;
        float *want = expected(&f, "losses", &n), *got = calloc((size_t)n, sizeof *got);
        ft_step_state step = {.loss_factor = 1.0f / (float)n, .loss_scale = 1};
        // 1,400 tokens at a time: micro-batches of several sequences and of one.
        gradients_of(&f, NULL, 0, n, (ft_batch_limits){1400, 0}, step, got);
        assert_close("losses", got, want, n, 1e-5);
        float *gradients = host_gradients(&f);
        check_gradients(&f, models[m], gradients);
        // Every sequence as a run of its own, which reaches no further into the table than itself.
        int64_t count = f.model.parameters.trainable;
        memset(gradients, 0, (size_t)count * sizeof *gradients);
        for (int64_t i = 0; i < n; i++) {
            float loss;
            gradients_of(&f, NULL, i, i + 1, (ft_batch_limits){0, 0}, step, &loss);
            assert_true(loss == got[i]);
            float *one = host_gradients(&f);
            for (int64_t k = 0; k < count; k++) gradients[k] += one[k];
            free(one);
        }
        check_gradients(&f, models[m], gradients);
        free(gradients), free(got), free(want);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward), cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

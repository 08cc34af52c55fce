// The encoder against transformers' float64 numbers (tests/vectors/make_model_vectors.py): hidden states, logits, losses,
// gradients, 30 or 50 steps of AdamW; and against itself: the same bits for any micro-batch, recomputation, thread count
// and instruction set, dropout included.
// ctest: tsan=run tsan_part=2
// ctest: wrap=ft_gradients_reach,ft_gradients_share
#include "engine/model/blocks/position_bias.h"
#include "engine/model/blocks/relative.h"
#include "kernels/ops/backend.h"
#include "tests/fixtures/model_fixture.h"

#include "engine/train/job/run_plan.h"

static const char *const models[] = {"bert_gelu", "bert_gelu_new", "bert_relu", "bert_old_names", "roberta", "xlm_roberta", "distilbert",
                                     "electra", "electra_even", "deberta_v3", "deberta_v2_unshared", "deberta_v2_c2p",
                                     "deberta_v2_p2c", "deberta_v2_plain", "deberta_v2_conv",
                                     "deberta_v2_conv_groups", "deberta_v2_conv_one", "deberta_v1", "deberta_v1_c2p",
                                     "deberta_v1_p2c", "deberta_v1_talking", "deberta_v1_talking_c2p", "deberta_v1_talking_p2c",
                                     "deberta_v1_talking_plain", "modernbert", "modernbert_cls", "modernbert_one", "camembert", "data2vec_text", "ernie",
                                     "albert", "albert_groups", "nomic_bert", "gte", "gte_types", "mpnet", "rembert", "xlm_roberta_xl", "eurobert", "eurobert_mean", "eurobert_bos", "qwen2",
                                     "qwen2_sliding", "llama", "llama_biases", "qwen3", "vit", "deit", "dinov2"};
enum { MODELS = sizeof models / sizeof models[0] };

typedef struct seen {
    fixture *f;
    int layers;
} seen;

static void check_hidden(void *context, int layer, ft_tensor hidden) {
    seen *s = context;
    const fixture *f = s->f;
    char name[32];
    snprintf(name, sizeof name, layer < 0 ? "embeddings" : "layer.%d", layer);
    float *want = expected(f, name, NULL);
    bool pooled = layer == f->model.layers - 1 && !f->model.ends_whole;
    for (int64_t row = 0; row < hidden.rows; row++) {
        const int64_t *offset = f->data.offset; // of a sequence; pooled rows are its first token, or its last
        const int64_t token = !pooled ? row : f->model.last_pooling ? offset[row + 1] - 1 : offset[row];
        assert_close(name, (const float *)hidden.data + row * hidden.stride, want + token * hidden.cols, hidden.cols, 1e-5);
    }
    s->layers++;
    free(want);
}

static ft_status predict_all(fixture *f, ft_batch_limits limits, float *logits) {
    return predict_fixture(f, limits, logits);
}

static void test_forward(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_fixture(&f, models[m], 2, NULL, NULL);
        seen s = {&f, 0};
        f.model.tap = check_hidden;
        f.model.tap_context = &s;
        int64_t n;
        float *want = expected(&f, "logits", &n), *got = calloc((size_t)n, sizeof *got);
        OK(predict_all(&f, (ft_batch_limits){0, 0}, got));
        assert_int_equal(s.layers, f.model.layers + 1);
        assert_close("logits", got, want, n, 1e-5);
        f.model.tap = NULL;
        // One text at a time: the same bits.
        float *alone = calloc((size_t)n, sizeof *alone);
        OK(predict_all(&f, (ft_batch_limits){0, 1}, alone));
        assert_memory_equal(alone, got, (size_t)n * sizeof *got);
        free(alone);
        free(got);
        free(want);
        close_fixture(&f);
    }
}

// The row of the first and the last distance that each has, as transformers 5.24 computes them (in fp32, with logarithms); the texts here are short.
static void test_rows_of_distances(void **state) {
    static const int32_t rows[][2] = {{0, 0},   {1, 1},   {7, 7},   {8, 8},   {11, 8},  {12, 9},  {15, 9},  {16, 10}, {22, 10},   {23, 11},
                                      {31, 11}, {32, 12}, {45, 12}, {46, 13}, {63, 13}, {64, 14}, {90, 14}, {91, 15}, {5000, 15}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(ft_position_bias_slot(rows[i][0]), rows[i][1]);
        if (rows[i][0] > 0) assert_int_equal(ft_position_bias_slot(-rows[i][0]), 16 + rows[i][1]);
    }
}

static void test_losses_and_gradients(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_fixture(&f, models[m], 2, NULL, NULL);
        int64_t n;
        float *want = expected(&f, "losses", &n), *got = calloc((size_t)n, sizeof *got);
        gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 0}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, got);
        assert_close("losses", got, want, n, 1e-5);
        check_fixture_gradients(&f);
        free(got);
        free(want);
        close_fixture(&f);
    }
}

// Gradients and losses of one setting, dropout on, as one block of bytes.
static float *bits_of(const char *model, int threads, const char *isa, const char *const *overrides, ft_batch_limits limits, size_t *bytes) {
    fixture f;
    open_fixture(&f, model, threads, isa, overrides);
    float losses[64];
    int64_t n = f.data.examples;
    assert_true(n <= 64);
    gradients_of(&f, NULL, 0, n, limits, (ft_step_state){.seed = 7, .step = 3, .loss_factor = 1.0f / (float)n, .loss_scale = 1}, losses);
    size_t gradient = (size_t)f.model.parameters.trainable * sizeof(float);
    float *g = host_gradients(&f), *out = malloc(gradient + (size_t)n * sizeof(float));
    memcpy(out, g, gradient);
    memcpy((char *)out + gradient, losses, (size_t)n * sizeof(float));
    free(g);
    *bytes = gradient + (size_t)n * sizeof(float);
    close_fixture(&f);
    return out;
}

// Do layers share weights? Their one gradient gets what a micro-batch adds layer by layer, and so the order of its sum, and its last bits, are
// those of the micro-batches.
static bool shares_weights(const char *model) {
    fixture f;
    open_fixture(&f, model, 1, NULL, NULL);
    const bool shares = f.config.layer_groups > 0;
    close_fixture(&f);
    return shares;
}

static bool has_one_layer(const char *model) {
    fixture f;
    open_fixture(&f, model, 1, NULL, NULL);
    bool one = f.model.layers == 1;
    close_fixture(&f);
    return one;
}

static void test_same_bits(void **state) {
    static const char *const plain[] = {DROPOUT, NULL};
    static const char *const every1[] = {DROPOUT, "train.gradient_checkpointing=on", NULL};
    static const char *const every2[] = {DROPOUT, "train.gradient_checkpointing=2", NULL};
    static const char *const kept[] = {DROPOUT, "memory.recompute_activation=false", NULL};
    static const char *const norms[] = {DROPOUT, "memory.recompute_layernorm=true", NULL};
    static const char *const norms2[] = {DROPOUT, "memory.recompute_layernorm=true", "memory.recompute_activation=false",
                                         "train.gradient_checkpointing=2", NULL};
    static const struct {
        const char *what;
        int threads;
        const char *isa;
        const char *const *overrides;
        ft_batch_limits limits;
    } cases[] = {{"again", 2, NULL, plain, {0, 0}},          {"one thread", 1, NULL, plain, {0, 0}},
                 {"three threads", 3, NULL, plain, {0, 0}},  {"five sequences", 2, NULL, plain, {0, 5}},
                 {"one sequence", 2, NULL, plain, {0, 1}},   {"64 tokens", 2, NULL, plain, {64, 0}},
                 {"checkpointing", 2, NULL, every1, {0, 0}}, {"every second layer", 2, NULL, every2, {0, 7}},
                 {"activations kept", 2, NULL, kept, {0, 0}}, {"norms made again", 2, NULL, norms, {0, 7}},
                 {"norms made again, every second layer", 2, NULL, norms2, {0, 0}},
                 {"portable code", 2, "portable", plain, {0, 0}}, {"AVX2", 2, "avx2", plain, {0, 0}}};
    for (int m = 0; m < MODELS; m++) {
        size_t bytes;
        const bool one_layer = has_one_layer(models[m]), shares = shares_weights(models[m]);
        float *reference = bits_of(models[m], 2, NULL, plain, (ft_batch_limits){0, 0}, &bytes);
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            if (one_layer && (cases[c].overrides == every2 || cases[c].overrides == norms2)) continue;
            if (cases[c].isa != NULL && strcmp(cases[c].isa, "avx2") == 0 && !__builtin_cpu_supports("avx2")) continue;
            size_t other_bytes;
            float *other = bits_of(models[m], cases[c].threads, cases[c].isa, cases[c].overrides, cases[c].limits, &other_bytes);
            assert_int_equal(bytes, other_bytes);
            if (shares && (cases[c].limits.max_tokens > 0 || cases[c].limits.max_sequences > 0)) {
                const int64_t n = (int64_t)(bytes / sizeof *other);
                assert_true(distance(other, reference, n) <= 1e-6 * norm_of(reference, n));
            } else if (memcmp(reference, other, bytes) != 0) {
                size_t i = 0;
                while (reference[i] == other[i]) i++;
                fail_msg("%s, %s: value %zu is %.9g, expected %.9g", models[m], cases[c].what, i, other[i], reference[i]);
            }
            free(other);
        }
        // Dropout is really on, and another step drops others.
        static const char *const none[] = {NULL};
        size_t none_bytes;
        float *without = bits_of(models[m], 2, NULL, none, (ft_batch_limits){0, 0}, &none_bytes);
        assert_memory_not_equal(reference, without, bytes);
        free(without);
        free(reference);
    }
}

// The same of 16 bits, where every sum over sequences is in fp32.
static void test_same_bits_half(void **state) {
    static const char *const half_models[] = {"bert_gelu", "deberta_v1", "deberta_v1_talking", "deberta_v2_conv", "deberta_v2_conv_one", "deberta_v3", "electra", "modernbert", "modernbert_cls", "deit", "dinov2"};
    static const char *const plain[] = {DROPOUT, "train.precision=bf16", NULL};
    static const char *const every1[] = {DROPOUT, "train.precision=bf16", "train.gradient_checkpointing=on", NULL};
    static const char *const every2[] = {DROPOUT, "train.precision=bf16", "train.gradient_checkpointing=2", NULL};
    static const char *const narrow[] = {DROPOUT, "train.precision=bf16", "train.residual=16bit", NULL};
    static const char *const narrow1[] = {DROPOUT, "train.precision=bf16", "train.residual=16bit", "train.gradient_checkpointing=on", NULL};
    static const char *const narrow2[] = {DROPOUT, "train.precision=bf16", "train.residual=16bit", "train.gradient_checkpointing=2", NULL};
    static const struct {
        int threads;
        const char *const *overrides, *const *against;
        ft_batch_limits limits;
    } cases[] = {{1, plain, plain, {0, 0}},  {2, plain, plain, {0, 1}},   {3, plain, plain, {64, 0}},   {2, every1, plain, {0, 5}},   {1, every2, plain, {0, 7}},
                 {3, narrow, narrow, {0, 1}}, {2, narrow1, narrow, {0, 5}}, {1, narrow2, narrow, {0, 7}}};
    for (size_t m = 0; m < sizeof half_models / sizeof half_models[0]; m++) {
        const bool one_layer = has_one_layer(half_models[m]);
        size_t bytes, other_bytes;
        float *reference = NULL;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            if (one_layer && (cases[c].overrides == every2 || cases[c].overrides == narrow2)) continue;
            if (c == 0 || cases[c].against != cases[c - 1].against) {
                float *before = reference;
                reference = bits_of(half_models[m], 2, NULL, cases[c].against, (ft_batch_limits){0, 0}, &bytes);
                assert_true(norm_of(reference, (int64_t)(bytes / sizeof *reference)) > 0);
                if (before != NULL) assert_memory_not_equal(before, reference, bytes);
                free(before);
            }
            float *other = bits_of(half_models[m], cases[c].threads, NULL, cases[c].overrides, cases[c].limits, &other_bytes);
            assert_int_equal(bytes, other_bytes);
            if (memcmp(reference, other, bytes) != 0) fail_msg("%s in bf16: case %zu has other bits", half_models[m], c);
            free(other);
        }
        free(reference);
    }
}

// In every family the gradients in 16 bits are those in fp32, but for rounding.
static void test_half_beside_fp32(void **state) {
    enum { FORMS = 5 };
    static const struct {
        const char *const words[3];
        double most;
    } forms[FORMS] = {{{"train.precision=fp32", NULL}, 0},
                      {{"train.precision=bf16", NULL}, 0.04},
                      {{"train.precision=fp16", NULL}, 0.003}, // the largest: llama's in fp16, 0.0026, where a number is rounded by up to 0.0005
                      {{"train.precision=bf16", "train.residual=16bit", NULL}, 0.04},
                      {{"train.precision=fp16", "train.residual=16bit", NULL}, 0.01}}; // albert_groups, 0.0087: a unit of its ReLU comes to the other side of 0; of the others 0.0025
    for (int m = 0; m < MODELS; m++) {
        size_t bytes;
        float *of[FORMS];
        for (int p = 0; p < FORMS; p++) of[p] = bits_of(models[m], 2, NULL, forms[p].words, (ft_batch_limits){0, 3}, &bytes);
        const int64_t n = (int64_t)(bytes / sizeof *of[0]);
        for (int p = 1; p < FORMS; p++) {
            double off = distance(of[p], of[0], n) / norm_of(of[0], n);
            if (!(off > 0 && off <= forms[p].most))
                fail_msg("%s, %s %s: off by %.3g", models[m], forms[p].words[0], forms[p].words[1] != NULL ? forms[p].words[1] : "", off);
        }
        for (int p = 0; p < FORMS; p++) free(of[p]);
    }
}

// Weights of norms are fp32 for ops in every precision: to the bit those of the file, with a master copy and without.
static void test_norms_are_exact(void **state) {
    static const char *const half[] = {"train.precision=bf16", "model.freeze_layers=1", NULL};
    for (int trained = 0; trained < 2; trained++) {
        fixture exact, f;
        open_fixture(&exact, "bert_gelu", 1, NULL, NULL);
        open_fixture(&f, "bert_gelu", 1, NULL, half);
        if (trained) {
            ft_load_report report;
            OK(ft_model_keep_master(&f.model));
            OK(ft_model_load(&f.model, FT_TEST_VECTORS "/bert_gelu", 0.02, 1, &f.arena, &report));
        }
        int norms = 0;
        for (int i = 0; i < f.model.parameters.count; i++) {
            const ft_tensor got = ft_parameter_weight(&f.model.parameters, i), want = ft_parameter_weight(&exact.model.parameters, i);
            const bool norm = strstr(f.model.parameters.list[i].name, "LayerNorm") != NULL;
            assert_int_equal(got.dtype, norm ? FT_F32 : FT_BF16);
            if (norm) assert_memory_equal(got.data, want.data, (size_t)want.cols * sizeof(float));
            norms += norm;
        }
        assert_int_equal(norms, 2 + 4 * f.model.layers);
        close_fixture(&f);
        close_fixture(&exact);
    }
}

// Of all numbers, but for the keys' in a bias of queries, keys and values: they have no gradient either, and are noise after the steps.
static double distance_but_keys(const ft_parameter *q, const float *a, const float *b) {
    const char *dot = strrchr(q->name, '.');
    const bool fused = strcmp(dot, ".bias") == 0 && (strstr(q->name, "qkv_proj.") != NULL || strstr(q->name, "Wqkv.") != NULL);
    if (!fused) return distance(a, b, q->count);
    const int64_t part = q->count / 3;
    return hypot(distance(a, b, part), distance(a + 2 * part, b + 2 * part, part));
}

static void test_steps(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_fixture(&f, models[m], 2, NULL, NULL);
        follow_training(&f, models[m], 1e-5, 2e-5);
        for (int i = 0; i < f.model.parameters.count; i++) {
            const ft_parameter *q = &f.model.parameters.list[i];
            float *want = expected_parameter(&f, "after", q);
            double error = distance_but_keys(q, ft_parameter_weight(&f.model.parameters, i).data, want);
            if (!fixture_has_no_gradient(&f, q->name) && !(error <= 3e-5 * norm_of(want, q->count)))
                fail_msg("%s after all steps: %s differs by %.3g of %.3g", models[m], q->name, error, norm_of(want, q->count));
            free(want);
        }
        int64_t n;
        float *want = expected(&f, "after.logits", &n), *got = calloc((size_t)n, sizeof *got);
        OK(predict_all(&f, (ft_batch_limits){0, 0}, got));
        assert_close("logits after all steps", got, want, n, 1e-4);
        free(got), free(want);
        close_fixture(&f);
    }
}

// ---- when gradients are complete (--wrap, asked for above) -------------------------------------------------------

enum { MOST_PARAMETERS = 512 };
static struct {
    bool on;
    float *complete[MOST_PARAMETERS]; // what a gradient was when it became complete
    int last;                         // point of the backward pass where one did
} watch;

static void look(const ft_parameters *p, int point) {
    assert_true(p->count <= MOST_PARAMETERS);
    for (int i = 0; watch.on && i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (!q->trainable || watch.complete[i] != NULL || !ft_gradient_is_complete(p, i)) continue;
        watch.complete[i] = malloc((size_t)q->count * sizeof(float));
        memcpy(watch.complete[i], ft_parameter_gradient(p, i).data, (size_t)q->count * sizeof(float));
        watch.last = point;
    }
}

ft_status __real_ft_gradients_reach(ft_parameters *p, int point);
ft_status __wrap_ft_gradients_reach(ft_parameters *p, int point);
ft_status __wrap_ft_gradients_reach(ft_parameters *p, int point) {
    ft_status status = __real_ft_gradients_reach(p, point);
    look(p, point);
    return status;
}

ft_status __real_ft_gradients_share(ft_parameters *p, int point);
ft_status __wrap_ft_gradients_share(ft_parameters *p, int point);
ft_status __wrap_ft_gradients_share(ft_parameters *p, int point) {
    ft_status status = __real_ft_gradients_share(p, point);
    look(p, point);
    return status;
}

// A gradient that is complete does not change any more; and those of layers are, but for what the end of a step writes, when the
// backward pass comes to the embeddings.
static void test_complete_gradients(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        float losses[64];
        open_fixture(&f, models[m], 2, NULL, (const char *const[]){DROPOUT, NULL});
        const ft_parameters *p = &f.model.parameters;
        watch.on = true;
        gradients_of(&f, NULL, 0, f.data.examples, (ft_batch_limits){0, 0}, (ft_step_state){.loss_factor = 1, .loss_scale = 1}, losses);
        watch.on = false;
        int complete = 0, shared = 0;
        for (int i = 0; i < p->count; i++) {
            const ft_parameter *q = &p->list[i];
            if (watch.complete[i] == NULL) {
                assert_true(q->completes >= ft_backward_point(f.model.layers + 1, 0));
                shared += ft_backward_block(q->arrives) <= f.model.layers;
                continue;
            }
            if (memcmp(watch.complete[i], ft_parameter_gradient(p, i).data, (size_t)q->count * sizeof(float)) != 0)
                fail_msg("%s: the gradient of %s was written when it was complete", models[m], q->name);
            free(watch.complete[i]);
            watch.complete[i] = NULL;
            complete++;
        }
        assert_true(complete > p->count / 2);
        const bool at_end = f.model.relative != NULL || f.model.position_bias != NULL;
        assert_int_equal(watch.last, ft_backward_point(f.model.layers + (at_end ? 2 : 1), 0));
        if (f.model.relative == NULL) assert_int_equal(shared, 0);
        else assert_true(shared > 0);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),        cmocka_unit_test(test_rows_of_distances), cmocka_unit_test(test_losses_and_gradients),
        cmocka_unit_test(test_same_bits),      cmocka_unit_test(test_steps),      cmocka_unit_test(test_same_bits_half),
        cmocka_unit_test(test_half_beside_fp32), cmocka_unit_test(test_norms_are_exact), cmocka_unit_test(test_complete_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

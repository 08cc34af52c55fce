// Adapters against PEFT (tests/vectors/make_adapter_vectors.py): logits, losses, gradients, 50 steps, merged models, files that come back as
// they were. Wrong: another scale, an adapter of another layer, rows of B in another order, a gradient that a shared A gets twice.
// ctest: cost=20
#include "tests/fixtures/adapter_fixture.h"

#include "base/files.h"

#include <unistd.h>

static const char *const cases[] = {"bert_qv", "bert_rslora", "bert_all", "bert_expression", "bert_bias_all", "bert_saved", "bert_layers", "bert_patterns",
                                    "roberta_qv", "roberta_all", "distilbert", "electra_all", "albert_all", "deberta_v1", "deberta_v1_all", "deberta_v3_qv",
                                    "deberta_v3_all", "deberta_v2_unshared", "bert_dora", "bert_dora_all", "roberta_dora", "distilbert_dora",
                                    "electra_dora", "deberta_v1_dora", "deberta_v3_dora", "deberta_v2_dora", "modernbert_dora", "modernbert_all", "eurobert_all",
                                    "mpnet_all", "rembert_all", "xlm_roberta_xl_all"};
enum { CASES = sizeof cases / sizeof cases[0] };

static void assert_near(const char *what, const char *of, const float *got, const float *want, int64_t n, double tolerance) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs((double)got[i] - (double)want[i]));
    if (!(worst <= tolerance)) fail_msg("%s: %s differ by %.3g", what, of, worst);
}

static void check_logits(fixture *f, const char *name, const char *key, double tolerance) {
    int64_t n;
    float *want = expected(f, key, &n), *got = calloc((size_t)n, sizeof *got);
    OK(predict_fixture(f, (ft_batch_limits){0, 0}, got));
    if (strcmp(key, "after.logits") == 0) // 50 steps: of the largest
        for (int64_t i = 0; i < n; i++) tolerance = fmax(tolerance, 1e-4 * fabs((double)want[i]));
    assert_near(name, key, got, want, n, tolerance);
    free(want), free(got);
}

static void test_logits_and_gradients(void **state) {
    for (int c = 0; c < CASES; c++)
        for (int sequences = 0; sequences < 4; sequences += 3) {
            fixture f;
            open_adapter(&f, cases[c], 2, NULL);
            check_logits(&f, cases[c], "logits", 1e-5);
            float losses[64];
            const int64_t n = f.data.examples;
            gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, sequences}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, losses);
            float *want_losses = expected(&f, "losses", NULL);
            assert_near(cases[c], "losses", losses, want_losses, n, 1e-5);
            free(want_losses);
            double largest = 0;
            int trained = 0;
            for (int pass = 0; pass < 2; pass++)
                for (int i = 0; i < f.model.parameters.count; i++) {
                    const ft_parameter *q = &f.model.parameters.list[i];
                    if (!q->trainable) continue;
                    float *want = expected_gradient(&f, q);
                    if (pass == 0) largest = fmax(largest, norm_of(want, q->count));
                    else {
                        const double error = distance(ft_parameter_gradient(&f.model.parameters, i).data, want, q->count);
                        const double zero = strstr(q->name, ".key.bias") != NULL ? 1e-6 : 0; // analytically: a softmax does not see it
                        if (!(error <= fmax(zero, 2e-5 * fmax(norm_of(want, q->count), 1e-3 * largest))))
                            fail_msg("%s: the gradient of %s is off by %.3g of %.3g", cases[c], q->name, error, norm_of(want, q->count));
                        trained++;
                    }
                    free(want);
                }
            int64_t grads = 0;
            for (int i = 0; i < ft_safetensors_count(f.expect); i++) grads += strncmp(ft_safetensors_at(f.expect, i)->name, "grad.", 5) == 0;
            assert_int_equal(trained, grads); // and nothing else is trained
            close_adapter(&f);
        }
}

// The same bits whatever the micro-batches and the threads, with dropout in front of adapters: in the last layer a shared A has rows of
// two kinds.
static void test_same_bits(void **state) {
    static const char *const dropping[] = {"adapter.dropout=0.3", NULL}, *const half[] = {"adapter.dropout=0.2", "train.precision=bf16", NULL},
                 *const narrow[] = {"adapter.dropout=0.2", "train.precision=bf16", "train.residual=16bit", NULL},
                 *const shared[] = {"adapter.dropout=0.3", "adapter.dropout_mask=shared", NULL};
    static const char *const models[] = {"bert_all", "deberta_v1_all", "deberta_v3_all", "bert_bias_all", "bert_dora_all", "deberta_v1_dora", "deberta_v3_dora"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (int p = 0; p < 5; p++) {
            float *whole = NULL;
            for (int way = 0; way < 4; way++) {
                fixture f;
                open_adapter(&f, models[m], way == 0 ? 1 : 2, p == 0 ? NULL : p == 1 ? dropping : p == 2 ? half : p == 3 ? narrow : shared);
                float losses[64];
                const int64_t n = f.data.examples;
                const ft_step_state step = {.seed = 3, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
                gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, way == 0 ? 0 : way}, step, losses);
                float *got = host_gradients(&f);
                if (whole == NULL) whole = got;
                else if (memcmp(whole, got, (size_t)f.model.parameters.trainable * sizeof *got) != 0) fail_msg("%s, way %d: other gradients", models[m], way);
                else free(got);
                close_adapter(&f);
            }
            free(whole);
        }
}

// A frozen model of few bits: as bitsandbytes makes numbers of them, in PEFT's float64.
static const char *const few_bits[][2] = {{"bert_dora_nf4", "model.storage=nf4"}, {"deberta_v3_dora_int8", "model.storage=int8"}, {"bert_qv_nf4", "model.storage=nf4"}};
enum { FEW_BITS = sizeof few_bits / sizeof few_bits[0] };

static void test_fifty_steps(void **state) {
    for (int c = 0; c < CASES + FEW_BITS; c++) {
        fixture f, base;
        const char *name = c < CASES ? cases[c] : few_bits[c - CASES][0], *storage[] = {c < CASES ? NULL : few_bits[c - CASES][1], NULL};
        open_adapter(&f, name, 2, storage);
        if (c >= CASES) check_logits(&f, name, "logits", 1e-5);
        base.expect = adapter_base_expect(name);
        int64_t steps, batches;
        float *losses = expected(&f, "train.losses", &steps);
        int32_t *order = expected_ints(&base, "train.batches", NULL), *cu = expected_ints(&base, "train.batch_cu", &batches);
        void *device_update;
        OK(ft_memory_alloc(f.memory, sizeof(ft_update_state), FT_MEM_OPTIMIZER, "update", &device_update));
        memset(device_update, 0, sizeof(ft_update_state));
        for (int64_t k = 0; k < steps; k++) {
            const int64_t b = k % (batches - 1), n = cu[b + 1] - cu[b];
            float got[64];
            gradients_of(&f, order, cu[b], cu[b + 1], (ft_batch_limits){0, 2}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, got);
            double mean = 0;
            for (int64_t i = 0; i < n; i++) mean += got[i] / (double)n;
            ft_update_state outcome;
            update(&f, 1e-3f, n, &outcome, device_update);
            if (!(fabs(mean - losses[k]) <= 1e-4 * fmax(1, losses[k]))) fail_msg("%s step %lld: loss %.9g, expected %.9g", name, (long long)k, mean, losses[k]);
        }
        ft_memory_free(f.memory, device_update);
        check_logits(&f, name, "after.logits", 1e-4);
        free(losses), free(order), free(cu);
        ft_safetensors_close(base.expect);
        close_adapter(&f);
    }
}

// The mean loss with dropout in front of adapters, `by` times the direction away from here; gradients are held behind it.
static double loss_at(fixture *f, const float *direction, double by) {
    ft_parameters *p = &f->model.parameters;
    const int64_t n = f->data.examples;
    float losses[64], *w = p->stores[0].weights, *here = malloc((size_t)p->trainable * sizeof *here);
    memcpy(here, w, (size_t)p->trainable * sizeof *here);
    for (int64_t i = 0; direction != NULL && i < p->trainable; i++) w[i] += (float)(by * (double)direction[i]);
    memset(p->gradients, 0, (size_t)p->trainable * sizeof(float));
    gradients_of(f, NULL, 0, n, (ft_batch_limits){0, 3}, (ft_step_state){.seed = 3, .loss_factor = 1.0f / (float)n, .loss_scale = 1}, losses);
    memcpy(w, here, (size_t)p->trainable * sizeof *here);
    free(here);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)losses[i] / (double)n;
    return sum;
}

// Magnitudes become the lengths of their rows, in double precision.
static void set_magnitudes(fixture *f) {
    const ft_parameters *p = &f->model.parameters;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->drawn.kind != FT_DRAWN_NORMS) continue;
        char name[320];
        snprintf(name, sizeof name, "%.*slora_B.weight", (int)(strlen(q->name) - strlen("lora_magnitude_vector")), q->name);
        const int b = ft_parameters_find(p, name);
        assert_true(b >= 0);
        const float *w = ft_parameter_weight(p, q->drawn.weight).data, *low = ft_parameter_weight(p, q->drawn.a).data, *high = ft_parameter_weight(p, b).data;
        const int64_t cols = p->list[q->drawn.a].cols, rank = p->list[q->drawn.a].rows;
        for (int64_t r = 0; r < q->rows; r++) {
            double squares = 0;
            for (int64_t c = 0; c < cols; c++) {
                double v = 0;
                for (int64_t k = 0; k < rank; k++) v += (double)high[r * rank + k] * (double)low[k * cols + c];
                v = (double)w[r * cols + c] + q->drawn.size * v;
                squares += v * v;
            }
            ((float *)ft_parameter_weight(p, i).data)[r] = (float)sqrt(squares);
        }
    }
}

static void forget_magnitudes(const ft_linear *l) {
    for (int i = 0; i < l->adapter_count; i++) ((ft_adapter *)l->adapters)[i].magnitude = -1;
}

// With dropout, PEFT's y = x W^T + b + (g - 1) x' W^T + g s x' A^T B^T: where magnitudes are the lengths of their rows it is that of the adapter
// without magnitudes; and where they are not, losses change along the gradient as that says, of all but A and B (n is a constant for it).
// (Wrong: another mask on the way back, g for g - 1, a base product that drops.)
static void test_dropped_magnitudes(void **state) {
    static const char *const models[] = {"bert_dora_all", "deberta_v3_dora"}, *const dropping[] = {"adapter.dropout=0.3", NULL};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        fixture f;
        open_adapter(&f, models[m], 2, dropping);
        const ft_parameters *p = &f.model.parameters;
        loss_at(&f, NULL, 0);
        float *direction = calloc((size_t)p->trainable, sizeof *direction);
        double square = 0;
        for (int i = 0; i < p->count; i++) {
            const ft_parameter *q = &p->list[i];
            if (!q->trainable || strstr(q->name, ".lora_A.") != NULL || strstr(q->name, ".lora_B.") != NULL) continue;
            memcpy(direction + q->offset, (float *)p->gradients + q->offset, (size_t)q->count * sizeof *direction);
            for (int64_t k = 0; k < q->count; k++) square += (double)direction[q->offset + k] * (double)direction[q->offset + k];
        }
        const double by = 5e-3 / sqrt(square), slope = (loss_at(&f, direction, by) - loss_at(&f, direction, -by)) / (2 * by);
        if (!(fabs(slope - square) <= 2e-3 * square)) fail_msg("%s: the loss changes by %.6g along a gradient of %.6g", models[m], slope, square);
        free(direction);
        set_magnitudes(&f);
        const double with = loss_at(&f, NULL, 0);
        for (int layer = 0; layer < f.model.layers; layer++) {
            const ft_layer_parameters *l = &f.model.layer[layer];
            forget_magnitudes(&l->qkv), forget_magnitudes(&l->output), forget_magnitudes(&l->up), forget_magnitudes(&l->down);
        }
        forget_magnitudes(&f.model.pooler);
        const double without = loss_at(&f, NULL, 0);
        if (!(fabs(with - without) <= 2e-6)) fail_msg("%s: loss %.9g, without magnitudes %.9g", models[m], with, without);
        close_adapter(&f);
    }
}

// ---- masks ------------------------------------------------------------------------------------------------------------------------

enum { MASK_TEXTS = 8, MASK_WIDTH = 1024 }; // elements of a mask here

// What the adapter drops of so many rows: 0, or what is kept counts for more.
static void draw_mask(fixture *f, uint32_t number, float *out) {
    static const ft_step_state step = {.seed = 11, .step = 2};
    int32_t slot[MASK_TEXTS], position[MASK_TEXTS];
    float *ones = malloc(MASK_TEXTS * MASK_WIDTH * sizeof *ones);
    for (int i = 0; i < MASK_TEXTS; i++) slot[i] = i, position[i] = 3;
    for (int i = 0; i < MASK_TEXTS * MASK_WIDTH; i++) ones[i] = 1;
    ft_dropout_args args = {.dropout = {.probability = 0.25f, .layer = number, .site = FT_SITE_ADAPTER, .step = &step, .slot = slot, .position = position},
                            .x = ft_matrix(ones, MASK_TEXTS, MASK_WIDTH, FT_F32),
                            .y = ft_matrix(out, MASK_TEXTS, MASK_WIDTH, FT_F32)};
    OK(FT_RUN(f->device, dropout, &args));
    free(ones);
}

static double shares(const float *a, const float *b) { // of elements that are kept in both
    int both = 0;
    for (int i = 0; i < MASK_TEXTS * MASK_WIDTH; i++) both += a[i] != 0 && b[i] != 0;
    return both / (double)(MASK_TEXTS * MASK_WIDTH);
}

// PEFT makes a dropout for every module that it adapts: as many masks as its file has A's. Of shared masks there is one for Q, K and V. Both keep
// three of four elements, two masks of their own nine of sixteen together.
// (Wrong: layers that share a mask, Q and V with one where three are asked for, a mask that keeps another part.)
static void test_masks(void **state) {
    static const struct {
        const char *name, *mask;
        int masks;
    } rows[] = {{"bert_all", "adapter.dropout_mask=each", 12},   {"bert_all", "adapter.dropout_mask=shared", 8},
                {"bert_qv", "adapter.dropout_mask=each", 4},     {"bert_qv", "adapter.dropout_mask=shared", 2},
                {"albert_all", "adapter.dropout_mask=each", 0},  {"albert_all", "adapter.dropout_mask=shared", 0},
                {"deberta_v1_all", "adapter.dropout_mask=each", 0}};
    float *mask[64];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const char *overrides[] = {"adapter.dropout=0.25", rows[r].mask, NULL};
        fixture f;
        int count = 0, in_file = 0;
        uint32_t numbers[64];
        open_adapter(&f, rows[r].name, 1, overrides);
        for (int layer = 0; layer < f.model.layers; layer++) {
            const ft_layer_parameters *l = &f.model.layer[layer];
            const ft_linear *const linear[] = {&l->qkv, &l->output, &l->up, &l->down};
            for (size_t k = 0; k < 4; k++)
                for (int i = 0; i < linear[k]->adapter_count; i++) {
                    bool known = false;
                    for (int n = 0; n < count && !known; n++) known = numbers[n] == linear[k]->adapters[i].number;
                    if (!known) numbers[count++] = linear[k]->adapters[i].number;
                }
        }
        for (int i = 0; i < f.model.parameters.count; i++)
            in_file += strstr(f.model.parameters.list[i].name, "encoder.layer.") != NULL && strstr(f.model.parameters.list[i].name, ".lora_A.") != NULL;
        if (rows[r].masks > 0) assert_int_equal(count, rows[r].masks);
        if (rows[r].masks > 0 && strstr(rows[r].mask, "each") != NULL) assert_int_equal(count, in_file);
        for (int n = 0; n < count; n++) {
            draw_mask(&f, numbers[n], mask[n] = malloc(MASK_TEXTS * MASK_WIDTH * sizeof(float)));
            assert_true(fabs(shares(mask[n], mask[n]) - 0.75) < 0.03); // six deviations
            for (int other = 0; other < n; other++) assert_true(fabs(shares(mask[n], mask[other]) - 0.5625) < 0.035);
        }
        for (int n = 0; n < count; n++) free(mask[n]);
        close_adapter(&f);
    }
}

static void split(const ft_linear *l, const ft_parameters *p) {
    for (int i = 1; i < l->adapter_count; i += 2) {
        ft_adapter *a = (ft_adapter *)&l->adapters[i];
        float *b = ft_parameter_weight(p, a->b).data;
        a->scale *= 2;
        for (int64_t k = 0; k < p->list[a->b].count; k++) b[k] *= 0.5f;
    }
}

// With one mask the A of Q, K and V are one product: the losses are those of three products, which adapters of other scales have. And the loss
// changes along its gradient as that says. (Wrong: columns of another part, a mask that counts columns of all, another mask on the way back.)
static void test_shared_mask(void **state) {
    static const char *const models[] = {"bert_all", "deberta_v3_all", "electra_all", "bert_dora_all", "albert_all"};
    static const char *const overrides[] = {"adapter.dropout=0.3", "adapter.dropout_mask=shared", NULL};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        fixture f;
        open_adapter(&f, models[m], 2, overrides);
        const ft_parameters *p = &f.model.parameters;
        const bool dora = strstr(models[m], "dora") != NULL; // whose norms are constants for the gradient
        const double whole = loss_at(&f, NULL, 0);
        float *direction = malloc((size_t)p->trainable * sizeof *direction);
        memcpy(direction, p->gradients, (size_t)p->trainable * sizeof *direction);
        const double size = norm_of(direction, p->trainable), by = 2e-3 / size;
        const double slope = (loss_at(&f, direction, by) - loss_at(&f, direction, -by)) / (2 * by);
        if (!dora && !(fabs(slope - size * size) <= 3e-3 * size * size)) fail_msg("%s: the loss changes by %.6g along a gradient of %.6g", models[m], slope, size * size);
        free(direction);
        for (int layer = 0; layer < f.model.layers && strcmp(models[m], "albert_all") != 0; layer++) split(&f.model.layer[layer].qkv, p);
        const double parts = loss_at(&f, NULL, 0);
        if (!(fabs(whole - parts) <= 2e-6)) fail_msg("%s: loss %.9g as one product, %.9g as several", models[m], whole, parts);
        close_adapter(&f);
    }
}

// Written and read again nothing changes; merged, the plain model has the logits.
static void test_files(void **state) {
    char dir[] = "/tmp/ft_adapters_XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (int c = 0; c < CASES; c++) {
        fixture f;
        open_adapter(&f, cases[c], 1, NULL);
        char path[128], first[65], second[65], original[700], config[128];
        snprintf(path, sizeof path, "%s/" FT_ADAPTER_WEIGHTS, dir);
        snprintf(config, sizeof config, "%s/" FT_ADAPTER_CONFIG, dir);
        snprintf(original, sizeof original, "%s/adapters/%s", FT_TEST_VECTORS, cases[c]);
        OK(ft_model_save_adapter(&f.model, dir));
        OK(ft_adapter_config_save(config, &f.options, &f.config, "base", f.model.modules->count, f.model.modules->names));
        OK(ft_sha256_file(path, first));
        const int64_t trained = f.model.parameters.real_trainable;
        close_adapter(&f);
        open_adapter_of(&f, cases[c], dir, 1, NULL); // by its own configuration
        assert_int_equal(f.model.parameters.real_trainable, trained);
        check_logits(&f, cases[c], "logits", 1e-5);
        OK(ft_model_save_adapter(&f.model, dir));
        OK(ft_sha256_file(path, second));
        assert_string_equal(first, second);
        OK(ft_model_merge_adapters(&f.model, &f.config, &f.options));
        check_logits(&f, cases[c], "merged.logits", 1e-5);
        close_adapter(&f);
    }
    OK(ft_remove_tree(dir));
}

// Of every family there is, with adapters of all its linear layers: merged, the model has the logits that it had with them.
// (Wrong: a family whose rows stand in another order than its adapters', a layer that is passed over.)
static void test_merged_families(void **state) {
    static const char *const families[] = {"bert_gelu", "roberta", "xlm_roberta", "camembert", "distilbert", "electra", "electra_even", "albert", "albert_groups",
                                           "deberta_v1", "deberta_v1_c2p", "deberta_v1_p2c", "deberta_v2_c2p", "deberta_v2_conv", "deberta_v2_p2c",
                                           "deberta_v2_plain", "deberta_v2_unshared", "deberta_v3", "modernbert", "modernbert_cls", "data2vec_text", "ernie",
                                           "nomic_bert", "gte", "gte_types", "mpnet", "rembert", "xlm_roberta_xl", "eurobert", "eurobert_bos", "eurobert_mean"};
    for (size_t i = 0; i < 2 * sizeof families / sizeof families[0]; i++) {
        const char *name = families[i / 2], *overrides[] = {i % 2 == 0 ? "adapter.type=lora" : "adapter.type=dora", "adapter.r=3", "adapter.alpha=5", "adapter.targets=all-linear",
                                                           "adapter.init=false", NULL};
        char dir[512];
        ft_model_config config;
        snprintf(dir, sizeof dir, "%s/%s", FT_TEST_VECTORS, name);
        OK(ft_model_config_load(dir, &config));
        const bool refused = config.family->other_modules; // test_refusals
        ft_model_config_free(&config);
        if (refused) continue;
        fixture f;
        open_fixture(&f, name, 1, NULL, overrides);
        const int64_t n = ft_dataset_rows(&f.data) * f.model.labels;
        float *plain = calloc((size_t)n, sizeof *plain), *merged = calloc((size_t)n, sizeof *merged);
        OK(predict_fixture(&f, (ft_batch_limits){0, 0}, plain));
        OK(ft_model_merge_adapters(&f.model, &f.config, &f.options));
        for (int k = 0; k < f.model.parameters.count; k++) // nothing of them is left
            if (strstr(f.model.parameters.list[k].name, ".lora_B.") != NULL) assert_true(norm_of(ft_parameter_weight(&f.model.parameters, k).data, f.model.parameters.list[k].count) == 0);
        OK(predict_fixture(&f, (ft_batch_limits){0, 0}, merged));
        double largest = 1;
        for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs((double)plain[k]));
        assert_near(name, overrides[0], merged, plain, n, 1e-5 * largest);
        free(plain), free(merged);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits_and_gradients), cmocka_unit_test(test_same_bits), cmocka_unit_test(test_fifty_steps),
                                       cmocka_unit_test(test_dropped_magnitudes), cmocka_unit_test(test_masks), cmocka_unit_test(test_shared_mask),
                                       cmocka_unit_test(test_files), cmocka_unit_test(test_merged_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

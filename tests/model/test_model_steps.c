// What a step of an encoder does and takes: nothing for frozen tensors, projections of positions once, no memory that the step before had not;
// heads of our own, and saves that are watched. (Its numbers: test_model.c.)
// ctest: tsan=run tsan_part=2
#include "engine/model/blocks/relative.h"
#include "tests/fixtures/model_fixture.h"

// Frozen tensors have no gradient, and the others get the same bits as without freezing.
static void check_freezing(const char *model, const char *override, const char *const *prefixes) {
    static const char *const dropout[] = {DROPOUT, NULL};
    const char *overrides[] = {DROPOUT, override, NULL};
    fixture all, f;
    open_fixture(&all, model, 2, NULL, dropout);
    open_fixture(&f, model, 2, NULL, overrides);
    float losses[64], frozen_losses[64];
    int64_t n = all.data.examples;
    ft_step_state step = {.seed = 5, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
    gradients_of(&all, NULL, 0, n, (ft_batch_limits){0, 0}, step, losses);
    gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 6}, step, frozen_losses);
    assert_memory_equal(losses, frozen_losses, (size_t)n * sizeof *losses);
    int trained = 0;
    for (int i = 0; i < f.model.parameters.count; i++) {
        const ft_parameter *q = &f.model.parameters.list[i];
        const char *name = strchr(q->name, '.'); // behind "bert."
        bool frozen = false;
        for (int k = 0; prefixes[k] != NULL; k++) frozen |= name != NULL && strncmp(name + 1, prefixes[k], strlen(prefixes[k])) == 0;
        if (frozen == q->trainable) fail_msg("%s, %s: %s is %s", model, override, q->name, frozen ? "trained" : "frozen");
        ft_tensor gradient = ft_parameter_gradient(&f.model.parameters, i);
        assert_int_equal(frozen, gradient.data == NULL);
        if (frozen) continue;
        trained++;
        int other = ft_parameters_find(&all.model.parameters, q->name);
        if (memcmp(gradient.data, ft_parameter_gradient(&all.model.parameters, other).data, (size_t)q->count * sizeof(float)) != 0)
            fail_msg("%s, %s: the gradient of %s differs", model, override, q->name);
    }
    assert_true(trained > 0);
    close_fixture(&all);
    close_fixture(&f);
}

static void test_freezing(void **state) {
    static const char *const models_frozen[] = {"bert_gelu", "deberta_v1", "deberta_v2_unshared", "deberta_v3"};
    static const struct {
        const char *override;
        const char *prefixes[5]; // of frozen parameters
    } cases[] = {{"model.freeze=embeddings", {"embeddings.", "encoder.rel_embeddings", "encoder.LayerNorm"}},
                 {"model.freeze_layers=1", {"embeddings.", "encoder.rel_embeddings", "encoder.LayerNorm", "encoder.layer.0."}},
                 {"model.freeze=encoder", {"embeddings.", "encoder."}}};
    for (size_t m = 0; m < sizeof models_frozen / sizeof models_frozen[0]; m++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) check_freezing(models_frozen[m], cases[c].override, cases[c].prefixes);
}

// ---- relative positions ---------------------------------------------------------------------------------------------

static const ft_op_table *real_ops;
static const float *counted_weight; // of the projection whose products are counted, [hidden, hidden]
static int products;
static ft_status count_gemm(ft_device *device, const ft_gemm_args *args) {
    products += args->b.data == counted_weight && args->b.rows == args->b.cols && args->trans_b;
    return real_ops->gemm(device, args);
}

// PK and PQ of a layer are computed once a step, however many micro-batches it has and what is computed again; in a pass of
// prediction once.
static void test_positions_once(void **state) {
    static const char *const checkpointing[] = {"train.gradient_checkpointing=on", NULL};
    static const char *const relative[] = {"deberta_v1", "deberta_v2_unshared", "deberta_v3"};
    for (size_t m = 0; m < sizeof relative / sizeof relative[0]; m++) {
        fixture f;
        open_fixture(&f, relative[m], 2, NULL, checkpointing);
        assert_true(f.data.examples > 3);
        float losses[64], logits[256];
        real_ops = f.device->ops;
        ft_op_table counting = *real_ops;
        counting.gemm = count_gemm;
        f.device->ops = &counting;
        const ft_linear *pos_key = &f.model.relative->layer[0].key; // of deberta_v3 the layer's own key
        counted_weight = ft_parameter_weight(&f.model.parameters, pos_key->weight + pos_key->first).data;
        for (int sequences = 0; sequences < 3; sequences++) {
            products = 0;
            gradients_of(&f, NULL, 0, f.data.examples, (ft_batch_limits){0, sequences}, (ft_step_state){.loss_factor = 1, .loss_scale = 1}, losses);
            assert_int_equal(products, 1);
            products = 0;
            OK(predict_fixture(&f, (ft_batch_limits){0, sequences}, logits));
            assert_int_equal(products, 1);
        }
        f.device->ops = real_ops;
        close_fixture(&f);
    }
}

// A micro-batch outside a step, or one longer than the step was begun for, is an error and reads nothing.
static void test_step_must_begin(void **state) {
    fixture f;
    open_fixture(&f, "deberta_v3", 1, NULL, NULL);
    const ft_capacity capacity = {.tokens = 2, .sequences = 1, .longest = 2, .reads = 1, .most_reads = 1},
                      longer = {.tokens = 6, .sequences = 1, .longest = 6, .reads = 1, .most_reads = 1};
    float logits[64];
    ft_batch batch = {.sequences = 1, .tokens = 2, .longest = 2};
    const ft_tensor out = ft_matrix(logits, 1, f.model.labels, FT_F32);
    assert_int_equal(ft_model_begin_prediction(&f.model, capacity), FT_FAILED); // nothing is held
    OK(ft_model_hold_positions(&f.model, (ft_capacity){.tokens = 0}, capacity));
    assert_int_equal(ft_model_predict_batch(&f.model, &batch, capacity, out), FT_FAILED);
    OK(ft_model_begin_prediction(&f.model, capacity));
    assert_int_equal(ft_model_predict_batch(&f.model, &batch, longer, out), FT_FAILED);
    assert_int_equal(ft_model_begin_prediction(&f.model, longer), FT_FAILED);
    ft_model_end_prediction(&f.model);
    assert_int_equal(ft_model_predict_batch(&f.model, &batch, capacity, out), FT_FAILED);
    assert_string_equal(ft_error_where(), "position projections");
    assert_int_equal(ft_model_begin_step(&f.model, capacity, &(ft_step_state){.loss_factor = 1}), FT_FAILED); // no room for gradients
    close_fixture(&f);
}

// Heads of our own: their gradients, and those of a layer below them, against central differences of the loss.
static void check_head(ft_head_pooling pooling, const char *const *overrides, const char *const *names) {
    fixture f;
    memset(&f, 0, sizeof f);
    open_fixture(&f, "bert_gelu", 2, NULL, NULL); // for its data
    ft_config options = {0};
    OK(ft_config_load(&options, 0, NULL, 2, overrides));
    ft_model_free(&f.model);
    if (pooling == FT_HEAD_MEAN) OK(ft_model_config_set_mean(&f.config, "model.head.pooling"));
    OK(ft_model_create(f.memory, &f.config, &options, 3, &f.model));
    assert_int_equal(ft_parameters_find(&f.model.parameters, "bert.pooler.dense.weight") >= 0, pooling != FT_HEAD_MEAN);
    OK(ft_model_draw(&f.model, 0.3, 11));
    OK(ft_model_prepare_training(&f.model, 0));
    OK(ft_gradients_hold(&f.model.parameters, false));
    float losses[64];
    int64_t n = f.data.examples;
    ft_step_state step = {.loss_factor = 1.0f, .loss_scale = 1};
    gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 0}, step, losses);
    float *analytic = host_gradients(&f);
    for (size_t k = 0; names[k] != NULL; k++) {
        int index = ft_parameters_find(&f.model.parameters, names[k]);
        assert_true(index >= 0);
        const ft_parameter *q = &f.model.parameters.list[index];
        float *w = ft_parameter_weight(&f.model.parameters, index).data;
        for (int64_t e = 0; e < q->count; e += q->count / 3 + 1) {
            const float h = 2e-3f, old = w[e];
            double sum[2];
            for (int side = 0; side < 2; side++) {
                w[e] = side ? old + h : old - h;
                gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 0}, step, losses);
                sum[side] = 0;
                for (int64_t i = 0; i < n; i++) sum[side] += losses[i];
            }
            w[e] = old;
            double numeric = (sum[1] - sum[0]) / (2.0 * h), exact = analytic[f.model.parameters.stores[q->store].first + q->offset + e];
            if (!(fabs(numeric - exact) <= 2e-3 * fmax(1, fabs(exact)))) fail_msg("%s[%lld]: %.6g, difference quotient %.6g", names[k], (long long)e, exact, numeric);
        }
    }
    free(analytic);
    ft_config_free(&options);
    close_fixture(&f);
}

static void test_own_heads(void **state) {
    static const char *const layers[] = {"model.head.hidden=7,5", "model.head.activation=gelu"}, *const mean[] = {"model.head.hidden=", "model.head.activation=relu"},
                      *const both[] = {"model.head.hidden=6", "model.head.activation=tanh"};
    check_head(FT_HEAD_AUTO, layers, (const char *const[]){"head.hidden.0.weight", "head.hidden.0.bias", "head.hidden.1.weight", "head.hidden.1.bias",
                                                           "classifier.weight", "classifier.bias", "bert.pooler.dense.weight", NULL});
    check_head(FT_HEAD_MEAN, mean, (const char *const[]){"classifier.weight", "classifier.bias", "bert.encoder.layer.1.output.LayerNorm.weight",
                                                         "bert.encoder.layer.1.output.dense.bias", NULL});
    check_head(FT_HEAD_MEAN, both, (const char *const[]){"head.hidden.0.weight", "classifier.weight", "bert.encoder.layer.1.output.LayerNorm.bias", NULL});
}

// The second step takes nothing more from the device than the first.
static void test_memory_is_steady(void **state) {
    fixture f;
    open_fixture(&f, "bert_gelu", 2, NULL, NULL);
    float losses[64];
    int64_t n = f.data.examples;
    ft_step_state step = {.loss_factor = 1.0f, .loss_scale = 1};
    gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 4}, step, losses);
    ft_memory_counters first = ft_memory_read(f.memory);
    gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 4}, step, losses);
    ft_memory_counters second = ft_memory_read(f.memory);
    assert_int_equal(first.peak_reserved, second.peak_reserved);
    assert_int_equal(first.allocated, second.allocated);
    size_t sum = 0;
    for (int k = 0; k < FT_MEM_CATEGORIES; k++) sum += second.at_peak[k];
    assert_int_equal(sum, second.peak_allocated);
    close_fixture(&f);
}

typedef struct watched {
    int calls;
    int64_t last, total;
} watched;

static void watch_save(void *context, int64_t done, int64_t total) {
    watched *w = context;
    assert_true(w->calls == 0 ? done == 0 : done > w->last);
    assert_true(done < total && (w->calls == 0 || total == w->total));
    w->calls++, w->last = done, w->total = total;
}

// Somebody who watches a save hears of every piece of it, and of nothing after the last.
static void test_a_save_can_be_watched(void **state) {
    fixture f;
    char dir[] = "/tmp/ft_model_XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    open_fixture(&f, "bert_gelu", 1, NULL, NULL);
    watched w = {.calls = 0};
    OK(ft_model_save_weights(&f.model, dir, watch_save, &w));
    assert_true(w.calls >= f.model.parameters.count);
    assert_int_equal(w.total, f.model.parameters.real_total * (int64_t)sizeof(float));
    OK(ft_model_save_weights(&f.model, dir, NULL, NULL));
    close_fixture(&f);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freezing),  cmocka_unit_test(test_positions_once),   cmocka_unit_test(test_step_must_begin),
        cmocka_unit_test(test_own_heads), cmocka_unit_test(test_memory_is_steady), cmocka_unit_test(test_a_save_can_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

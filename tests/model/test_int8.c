// train.precision=int8: models of every kind predict with products of 8 bits. The logits are about those of fp32, and the same bits for other
// instruction sets, threads and micro-batches. Wrong: rows of Q, K and V in another's place, a step of another output, a layer that is left
// in fp32, a head that is not.
#include "tests/fixtures/model_fixture.h"

static const char *const models[] = {"bert_gelu",  "roberta",         "distilbert", "electra",  "albert",     "mpnet", "deberta_v1", "deberta_v1_talking",
                                     "deberta_v3", "deberta_v2_conv", "modernbert", "gte",      "nomic_bert", "vit",   "dinov2",     "qwen3"};

static float *logits_of(fixture *f, ft_batch_limits limits, int64_t *count) {
    *count = ft_dataset_rows(&f->data) * f->model.labels;
    float *logits = malloc((size_t)*count * sizeof *logits);
    assert_non_null(logits);
    OK(predict_fixture(f, limits, logits));
    return logits;
}

static float *predicted(const char *model, const char *precision, int threads, const char *isa, ft_batch_limits limits, int64_t *count) {
    const char *overrides[] = {precision, NULL};
    fixture f;
    open_fixture(&f, model, threads, isa, overrides);
    int kept = 0;
    for (int i = 0; i < f.model.parameters.count; i++) {
        const ft_parameter *q = &f.model.parameters.list[i];
        kept += q->kept;
        if (f.model.parameters.storage.multiplied && q->kept != (q->factor && ft_parameters_in_layer(&f.model.parameters, i))) fail_msg("%s: %s", model, q->name);
    }
    assert_int_equal(kept > 0, f.model.parameters.storage.multiplied);
    float *logits = logits_of(&f, limits, count);
    close_fixture(&f);
    return logits;
}

static void test_models(void **state) {
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int64_t n, same;
        float *want = predicted(models[m], "train.precision=fp32", 1, NULL, (ft_batch_limits){0, 0}, &n);
        float *got = predicted(models[m], "train.precision=int8", 1, NULL, (ft_batch_limits){0, 0}, &same);
        float *other = predicted(models[m], "train.precision=int8", 3, "portable", (ft_batch_limits){0, 1}, &same);
        assert_int_equal(n, same);
        const double off = distance(got, want, n) / norm_of(want, n);
        if (!(off > 0 && off < 0.06)) fail_msg("%s: logits are off by %.3g of their norm", models[m], off);
        if (memcmp(got, other, (size_t)n * sizeof *got) != 0) fail_msg("%s: other bits in plain C, one text after the other", models[m]);
        free(want), free(got), free(other);
    }
}

static void test_refusals(void **state) {
    const char *overrides[] = {"train.precision=int8", "model.storage=nf4"};
    fixture f = {0};
    OK(ft_config_load(&f.options, 0, NULL, 2, overrides));
    OK(ft_cpu_open(1, NULL, &f.device));
    OK(ft_memory_create(f.device, 0, &f.memory));
    OK(ft_model_config_load(FT_TEST_VECTORS "/bert_gelu", &f.config));
    assert_int_equal(ft_model_create(f.memory, &f.config, &f.options, 2, &f.model), FT_INVALID);
    assert_string_equal(ft_error_where(), "model.storage");
    ft_error_clear();
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The real MiniLM against transformers' float64 numbers: hidden states of every layer and logits within 1e-5. Runs where
// FT_MINILM names the model's directory (its weights are not committed) or `make quickstart` has put it in models/.
#include "tests/fixtures/model_fixture.h"

#include "base/files.h"
#include "engine/train/job/run_plan.h"

static void check_samples(void *context, int layer, ft_tensor hidden) {
    const fixture *f = context;
    char name[40];
    snprintf(name, sizeof name, layer < 0 ? "embeddings.first8" : "layer.%d.first8", layer);
    float *first = expected(f, name, NULL);
    snprintf(name, sizeof name, layer < 0 ? "embeddings.norms" : "layer.%d.norms", layer);
    float *norms = expected(f, name, NULL);
    bool pooled = layer == f->model.layers - 1;
    for (int64_t row = 0; row < hidden.rows; row++) {
        int64_t token = pooled ? f->data.offset[row] : row;
        const float *got = (const float *)hidden.data + row * hidden.stride;
        assert_close(name, got, first + 8 * token, 8, 1e-5);
        double norm = norm_of(got, hidden.cols);
        if (!(fabs(norm - norms[token]) <= 1e-5 * norms[token])) fail_msg("%s: norm of row %lld is %.9g, expected %.9g", name, (long long)row, norm, norms[token]);
    }
    free(first);
    free(norms);
}

static void set_parameter(fixture *f, const char *name) {
    int64_t n;
    float *value = expected(f, name, &n);
    int index = ft_parameters_find(&f->model.parameters, name);
    assert_true(index >= 0 && f->model.parameters.list[index].count == n);
    memcpy(ft_parameter_weight(&f->model.parameters, index).data, value, (size_t)n * sizeof *value);
    free(value);
}

static const char *directory(void) {
    const char *named = getenv("FT_MINILM"), *fetched = FT_SOURCE_DIR "/models/all-MiniLM-L6-v2";
    if (named != NULL && named[0] != '\0') return named;
    return ft_path_exists(FT_SOURCE_DIR "/models/all-MiniLM-L6-v2/model.safetensors") ? fetched : NULL;
}

static void test_hidden_states_and_logits(void **state) {
    const char *dir = directory();
    if (dir == NULL) skip();
    fixture f;
    memset(&f, 0, sizeof f);
    OK(ft_config_load(&f.options, 0, NULL, 0, NULL));
    OK(ft_cpu_open(2, NULL, &f.device));
    OK(ft_memory_create(f.device, 0, &f.memory));
    OK(ft_model_config_load(dir, &f.config));
    OK(ft_model_create(f.memory, &f.config, &f.options, 3, &f.model));
    ft_load_report report;
    OK(ft_model_load(&f.model, dir, 0.02, 1, &f.arena, &report));
    assert_int_equal(report.drawn_count, 2); // the classifier
    OK(ft_safetensors_open(FT_TEST_VECTORS "/minilm/expect.safetensors", &f.expect));
    set_parameter(&f, "classifier.weight");
    set_parameter(&f, "classifier.bias");
    int64_t bounds, n;
    int32_t *cu = expected_ints(&f, "cu_seqlens", &bounds);
    f.data.examples = f.data.sequences = bounds - 1;
    f.data.input = &ft_text_input;
    f.data.offset = ft_spill_calloc((size_t)bounds, sizeof *f.data.offset, "a test");
    for (int64_t i = 0; i < bounds; i++) f.data.offset[i] = cu[i];
    free(cu);
    f.data.ids = spilled_ints(&f, "input_ids", &f.data.tokens);
    f.model.tap = check_samples;
    f.model.tap_context = &f;
    float *want = expected(&f, "logits", &n), *got = calloc((size_t)n, sizeof *got);
    ft_batch_limits limits = {0, 0};
    OK(predict_fixture(&f, limits, got));
    assert_close("logits", got, want, n, 1e-5);
    free(got);
    free(want);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hidden_states_and_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// model.storage: a model whose frozen weights are kept in 4, 8 or 16 bits has the bits, forward and back, of a model that was given the
// same numbers in the precision of products; and it writes these numbers to its files. Wrong: rows of Q, K and V in another's place, a
// scale of another block, a head of DeBERTa v1 that is not where it stands in memory, a trained weight that lost bits.
#include "tests/fixtures/model_fixture.h"

#include <unistd.h>

#define OF(names) "train.parameters=classifier, " names

// Beside frozen ones in the same layer: a part of Q, K and V, and the last product.
static const struct {
    const char *name, *trained;
} models[] = {{"bert_gelu", OF("layer.1.output.dense, layer.1.attention.self.query")},
              {"distilbert", OF("layer.1.ffn.lin2, layer.1.attention.k_lin")},
              {"electra", OF("layer.1.output.dense")},
              {"deberta_v1", OF("layer.1.output.dense")},
              {"deberta_v2_unshared", OF("layer.1.output.dense, layer.1.attention.self.value_proj")},
              {"deberta_v3", OF("layer.1.output.dense, layer.0.attention.self.query_proj")}};
static const char *const forms[] = {"model.storage=nf4", "model.storage=nf4_double", "model.storage=int8", "model.storage=bf16", "model.storage=fp16"};
static const double off[] = {0.12, 0.12, 0.012, 0.004, 0.001}; // by how much of a matrix's norm its numbers are off at most

static void compare(fixture *kept, fixture *plain, const char *model, const char *form) {
    float losses[64], want[64];
    const int64_t n = kept->data.examples;
    const ft_step_state step = {.seed = 5, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
    gradients_of(kept, NULL, 0, n, (ft_batch_limits){0, 3}, step, losses);
    gradients_of(plain, NULL, 0, n, (ft_batch_limits){0, 0}, step, want);
    if (memcmp(losses, want, (size_t)n * sizeof *losses) != 0) fail_msg("%s, %s: loss %.9g, should be %.9g", model, form, (double)losses[0], (double)want[0]);
    for (int i = 0; i < kept->model.parameters.count; i++) {
        const ft_parameter *q = &kept->model.parameters.list[i];
        const ft_tensor got = ft_parameter_gradient(&kept->model.parameters, i), other = ft_parameter_gradient(&plain->model.parameters, i);
        assert_int_equal(got.data != NULL, other.data != NULL);
        if (got.data != NULL && memcmp(got.data, other.data, (size_t)q->count * sizeof(float)) != 0)
            fail_msg("%s, %s: the gradient of %s differs", model, form, q->name);
    }
}

// Loads the file into `plain`, whose weights were those that `kept` was made of: every matrix is about what it was, and what is not kept is
// what it was.
static void load_file(fixture *plain, const fixture *kept, const char *dir, double tolerance) {
    ft_parameters *p = &plain->model.parameters;
    float **before = calloc((size_t)p->count, sizeof *before);
    for (int i = 0; i < p->count; i++) {
        const ft_tensor w = ft_parameter_weight(p, i);
        if (w.dtype == FT_F32) before[i] = memcpy(malloc((size_t)p->list[i].count * sizeof(float)), w.data, (size_t)p->list[i].count * sizeof(float));
    }
    ft_load_report report;
    OK(ft_model_load(&plain->model, dir, 0.02, 1, &plain->arena, &report));
    assert_int_equal(report.drawn_count, 0);
    for (int i = 0; i < p->count; i++) {
        if (before[i] == NULL) continue;
        const float *now = ft_parameter_weight(p, i).data;
        const int64_t n = p->list[i].count;
        const double far = distance(now, before[i], n), most = kept->model.parameters.list[i].kept ? tolerance * norm_of(before[i], n) : 0;
        if (far > most) fail_msg("%s is off by %.3g, %.3g is allowed", p->list[i].name, far, most);
        free(before[i]);
    }
    free(before);
}

static void check(int number, size_t f, const char *precision) {
    const char *form = forms[f];
    const char *model = models[number].name;
    char dir[] = "/tmp/ft-storage-XXXXXX", path[64];
    const char *with[] = {models[number].trained, precision, form, NULL}, *without[] = {models[number].trained, precision, NULL};
    fixture kept, plain;
    open_fixture(&kept, model, 2, NULL, with);
    open_fixture(&plain, model, 2, NULL, without);
    int count = 0;
    for (int i = 0; i < kept.model.parameters.count; i++) count += kept.model.parameters.list[i].kept;
    assert_true(count >= 6);
    assert_true(ft_parameters_weight_bytes(&kept.model.parameters) < ft_parameters_weight_bytes(&plain.model.parameters));
    assert_non_null(mkdtemp(dir));
    OK(ft_model_save_weights(&kept.model, dir, NULL, NULL));
    load_file(&plain, &kept, dir, off[f]);
    compare(&kept, &plain, model, form);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(unlink(path) + rmdir(dir), 0);
    close_fixture(&kept);
    close_fixture(&plain);
}

static void test_numbers_of_its_file(void **state) {
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check((int)m, i, "train.precision=fp32");
}

static void test_numbers_of_its_file_in_16_bits(void **state) {
    for (size_t i = 0; i < 3; i++) {
        check(0, i, "train.precision=bf16");
        check(3, i, "train.precision=fp16");
    }
}

static void test_refusals(void **state) {
    static const struct {
        const char *overrides[3], *says;
    } wrong[] = {{{"model.storage=nf4", NULL}, "nothing is frozen"},
                 {{"model.storage=bf16", "train.precision=fp16", NULL}, "only that of the precision"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fixture f = {0};
        int count = 0;
        while (wrong[i].overrides[count] != NULL) count++;
        OK(ft_config_load(&f.options, 0, NULL, count, wrong[i].overrides));
        OK(ft_cpu_open(1, NULL, &f.device));
        OK(ft_memory_create(f.device, 0, &f.memory));
        OK(ft_model_config_load(FT_TEST_VECTORS "/bert_gelu", &f.config));
        assert_int_equal(ft_model_create(f.memory, &f.config, &f.options, 2, &f.model), FT_INVALID);
        assert_string_equal(ft_error_where(), "model.storage");
        if (strstr(ft_error_message(), wrong[i].says) == NULL) fail_msg("%s", ft_error_message());
        ft_error_clear();
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_its_file),
        cmocka_unit_test(test_numbers_of_its_file_in_16_bits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

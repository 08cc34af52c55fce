// train.parameters: what is trained has the bits of its gradient that it has when all is trained, what is frozen has none, and less is
// kept for less. Wrong: a layer or a block that is not gone back to, an input that was let go and is read, a group of Q, K and V that
// no longer stands together.
#include "tests/fixtures/model_fixture.h"

#include "engine/model/spec/trained.h"

typedef struct choice {
    const char *parameters;
    const char *trained[4]; // parts of names of the trunk that are; the head is in any case
    const char *freeze;     // another option; NULL: none
} choice;

static const choice choices[] = {
    {"classifier", {NULL}, "train.frozen_dropout=on"},
    {"biases", {".bias", "_bias"}, NULL},
    {"encoder.layer.1, layer.1", {".layer.1."}, NULL},
    {"layer.1.output, ffn, output_layer_norm", {".layer.1.output.", ".ffn.", ".output_layer_norm."}, NULL},
    {"attention.*.query, attention.self.query_proj, q_lin, attention.self.in_proj", {".query.", ".query_proj", "q_lin", ".in_proj"}, NULL},
    {"*.key, key, key_proj, k_lin", {".key.", ".key_proj", "k_lin"}, "model.freeze_layers=1"},
    {"LayerNorm, *layer_norm", {"LayerNorm", "layer_norm"}, NULL},
    {"intermediate, lin1", {".intermediate.", "lin1"}, "train.gradient_checkpointing=on"},
    {"layer.0.output.dense, layer.0.ffn.lin2", {".layer.0.output.dense", ".layer.0.ffn.lin2"}, "memory.recompute_layernorm=true"},
    {"word_embeddings", {"word_embeddings"}, NULL},
    {"layers.1.mlp, layers.2", {".layers.1.mlp.", ".layers.2."}, NULL},
    {"layers.1.attn.Wqkv, mlp_norm", {".layers.1.attn.Wqkv", ".mlp_norm."}, NULL},
    {"layers.0.mlp.Wo, final_norm", {".layers.0.mlp.Wo", ".final_norm."}, "train.gradient_checkpointing=on"},
    {"layer.1.intermediate.dense.bias, layer.1.attention.?elf.value*, *.ffn.lin1.bias",
     {".layer.1.intermediate.dense.bias", ".layer.1.attention.self.value", ".ffn.lin1.bias"}, NULL},
};

static bool is_head(const fixture *f, const ft_parameter *q) { return ft_backward_block(q->arrives) == 0; }

static bool is_chosen(const fixture *f, const choice *c, const ft_parameter *q) {
    bool chosen = is_head(f, q);
    for (int k = 0; k < 4 && c->trained[k] != NULL; k++) chosen |= strstr(q->name, c->trained[k]) != NULL;
    if (c->freeze != NULL && strcmp(c->freeze, "model.freeze_layers=1") == 0 && strstr(q->name, ".layer.0.") != NULL) return false;
    return chosen;
}

static void check(const char *model, const choice *c, const char *precision, const char *residual) {
    const bool half = strcmp(precision, "train.precision=fp32") != 0;
    if (half && c->freeze != NULL && strstr(c->freeze, "layernorm") != NULL) return; // of fp32 alone
    const char *whole[] = {DROPOUT, precision, residual, NULL};
    fixture all, f;
    open_fixture(&all, model, 2, NULL, whole);
    // A family may lack what a pattern of the table is for: then that pattern is left out.
    char kept[200] = "train.parameters=";
    const char *at = c->parameters;
    for (size_t length; *at != '\0'; at += length + strspn(at + length, ", ")) {
        length = strcspn(at, ",");
        bool word = (strncmp(at, "classifier", length) == 0 && length == 10) || (strncmp(at, "biases", length) == 0 && length == 6);
        for (int i = 0; i < all.model.parameters.count && !word; i++) word = ft_name_matches(at, length, all.model.parameters.list[i].name);
        if (word) snprintf(kept + strlen(kept), sizeof kept - strlen(kept), "%.*s,", (int)length, at);
    }
    const char *overrides[] = {DROPOUT, precision, residual, kept, c->freeze, NULL};
    if (kept[strlen("train.parameters=")] == '\0') {
        close_fixture(&all);
        return;
    }
    open_fixture(&f, model, 2, NULL, overrides);
    float losses[64], part_losses[64];
    const int64_t n = all.data.examples;
    const ft_step_state step = {.seed = 5, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
    gradients_of(&all, NULL, 0, n, (ft_batch_limits){0, 0}, step, losses);
    gradients_of(&f, NULL, 0, n, (ft_batch_limits){0, 3}, step, part_losses);
    assert_memory_equal(losses, part_losses, (size_t)n * sizeof *losses);
    for (int i = 0; i < f.model.parameters.count; i++) {
        const ft_parameter *q = &f.model.parameters.list[i];
        const bool chosen = is_chosen(&f, c, q);
        if (chosen != q->trainable) fail_msg("%s, %s: %s is %s", model, c->parameters, q->name, chosen ? "frozen" : "trained");
        const ft_tensor gradient = ft_parameter_gradient(&f.model.parameters, i);
        assert_int_equal(chosen, gradient.data != NULL);
        if (!chosen) continue;
        const int other = ft_parameters_find(&all.model.parameters, q->name);
        const float *of_all = ft_parameter_gradient(&all.model.parameters, other).data;
        // Of bf16 a product may be split at multiples of 32 alone (kernels/ops/gemm.h). Where queries stand beside keys and values, gradients of their
        // inputs are one product, else three; and no width here is such a multiple (test_apart has one that is).
        if (half ? !(distance(gradient.data, of_all, q->count) <= 2e-2 * norm_of(of_all, q->count) + 1e-6)
                 : memcmp(gradient.data, of_all, (size_t)q->count * sizeof(float)) != 0)
            fail_msg("%s, %s, %s: the gradient of %s differs", model, c->parameters, precision, q->name);
    }
    close_fixture(&all);
    close_fixture(&f);
}

static void test_gradients(void **state) {
    static const char *const models[] = {"bert_gelu", "distilbert", "electra", "deberta_v1", "deberta_v2_conv", "deberta_v2_unshared", "deberta_v3",
                                         "modernbert"};
    static const char *const forms[][2] = {{"train.precision=fp32", "train.residual=fp32"},
                                           {"train.precision=bf16", "train.residual=fp32"},
                                           {"train.precision=bf16", "train.residual=16bit"}};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (size_t c = 0; c < sizeof choices / sizeof choices[0]; c++)
            for (size_t p = 0; p < sizeof forms / sizeof forms[0]; p++) check(models[m], &choices[c], forms[p][0], forms[p][1]);
}

// Where widths are multiples of 32, products of bf16 may come apart: a model of no vectors' shape, with drawn weights.
static void open_drawn(fixture *f, const char *const *overrides) {
    static const char text[] = "{\"model_type\": \"bert\", \"vocab_size\": %lld, \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
                               "\"intermediate_size\": 96, \"max_position_embeddings\": %lld, \"type_vocab_size\": 2, \"hidden_act\": \"gelu\"}";
    open_fixture(f, "bert_gelu", 2, NULL, overrides);
    char config[512];
    snprintf(config, sizeof config, text, (long long)f->config.vocab_size, (long long)f->config.max_position_embeddings);
    const int32_t labels = (int32_t)f->config.num_labels;
    ft_model_free(&f->model);
    ft_model_config_free(&f->config);
    OK(ft_model_config_parse(config, strlen(config), "config.json", &f->config));
    OK(ft_model_create(f->memory, &f->config, &f->options, labels, &f->model));
    OK(ft_model_draw(&f->model, 0.2, 3));
    OK(ft_model_prepare_training(&f->model, 0.01));
    OK(ft_gradients_hold(&f->model.parameters, false));
}

static void test_apart(void **state) {
    static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16"};
    for (size_t p = 0; p < 2; p++) {
        fixture all, some;
        float losses[64], others[64];
        int compared = 0;
        open_drawn(&all, (const char *const[]){DROPOUT, precisions[p], NULL});
        open_drawn(&some, (const char *const[]){DROPOUT, precisions[p], "train.parameters=attention.*.query", NULL});
        const int64_t n = all.data.examples;
        const ft_step_state step = {.seed = 5, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
        gradients_of(&all, NULL, 0, n, (ft_batch_limits){0, 0}, step, losses);
        gradients_of(&some, NULL, 0, n, (ft_batch_limits){0, 3}, step, others);
        assert_memory_equal(losses, others, (size_t)n * sizeof *losses);
        for (int i = 0; i < some.model.parameters.count; i++) {
            const ft_parameter *q = &some.model.parameters.list[i];
            if (!q->trainable) continue;
            const int other = ft_parameters_find(&all.model.parameters, q->name);
            if (memcmp(ft_parameter_gradient(&some.model.parameters, i).data, ft_parameter_gradient(&all.model.parameters, other).data,
                       (size_t)q->count * sizeof(float)) != 0)
                fail_msg("%s: the gradient of %s differs", precisions[p], q->name);
            compared++;
        }
        assert_true(compared >= 4); // weights and biases of two layers, and the head
        close_fixture(&all);
        close_fixture(&some);
    }
}

// The probe of a frozen trunk: its losses are those without dropout but the head's.
static void test_quiet(void **state) {
    static const char *const models[] = {"bert_gelu", "deberta_v2_conv", "deberta_v3"};
    static const char *const quiet[] = {"model.hidden_dropout=0", "model.attention_dropout=0", "model.classifier_dropout=0.25", "train.parameters=classifier", NULL};
    static const struct {
        const char *options[3];
        bool same;
    } cases[] = {{{"train.parameters=classifier"}, true},
                 {{"train.parameters=classifier", "train.frozen_dropout=on"}, false},
                 {{"model.freeze=encoder"}, false}, // as it always was
                 {{"model.freeze=encoder", "train.frozen_dropout=off"}, true},
                 {{"train.parameters=layer.1", "train.frozen_dropout=off"}, false}};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            const char *dropping[] = {DROPOUT, cases[c].options[0], cases[c].options[1], NULL};
            fixture a, b;
            open_fixture(&a, models[m], 1, NULL, quiet);
            open_fixture(&b, models[m], 1, NULL, dropping);
            float losses[64], other[64];
            const int64_t n = a.data.examples;
            const ft_step_state step = {.seed = 5, .loss_factor = 1.0f / (float)n, .loss_scale = 1};
            gradients_of(&a, NULL, 0, n, (ft_batch_limits){0, 0}, step, losses);
            gradients_of(&b, NULL, 0, n, (ft_batch_limits){0, 0}, step, other);
            const bool same = memcmp(losses, other, (size_t)n * sizeof *losses) == 0;
            if (same != cases[c].same) fail_msg("%s, %s: dropout is %s", models[m], cases[c].options[0], same ? "off" : "on");
            close_fixture(&a);
            close_fixture(&b);
        }
}

static void test_names(void **state) {
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {{"encoder.layer.1", "bert.encoder.layer.1.output.dense.weight", true},
                 {"encoder.layer.1", "bert.encoder.layer.11.output.dense.weight", false},
                 {"layer.1?", "bert.encoder.layer.11.output.dense.weight", true},
                 {"dense", "bert.encoder.layer.1.output.dense.weight", true},
                 {"dens", "bert.encoder.layer.1.output.dense.weight", false},
                 {"*.bias", "a.bias", true},
                 {"a.bias", "a.bias", true},
                 {"*", "a.bias", true},
                 {"b", "a.bias", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (ft_name_matches(cases[i].pattern, strlen(cases[i].pattern), cases[i].name) != cases[i].matches)
            fail_msg("%s and %s", cases[i].pattern, cases[i].name);
}

static void test_refused(void **state) {
    static const struct {
        const char *model, *parameters, *message, *hint;
    } cases[] = {{"bert_gelu", "LayerNrm", "no parameter of this model is called LayerNrm", "did you mean LayerNorm?"},
                 {"bert_gelu", "all, biases", "all and auto stand alone", NULL},
                 {"bert_gelu", "", "nothing is named", NULL},
                 {"deberta_v1", "q_bias", "are one vector here", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char parameters[80], path[400];
        snprintf(parameters, sizeof parameters, "train.parameters=%s", cases[i].parameters);
        snprintf(path, sizeof path, "%s/%s", FT_TEST_VECTORS, cases[i].model);
        fixture f = {0};
        const char *overrides[] = {parameters};
        OK(ft_config_load(&f.options, 0, NULL, 1, overrides));
        OK(ft_cpu_open(1, NULL, &f.device));
        OK(ft_memory_create(f.device, 0, &f.memory));
        OK(ft_model_config_load(path, &f.config));
        assert_int_equal(ft_model_create(f.memory, &f.config, &f.options, 2, &f.model), FT_INVALID);
        if (strstr(ft_error_message(), cases[i].message) == NULL) fail_msg("%s: %s", cases[i].parameters, ft_error_message());
        assert_string_equal(ft_error_where(), "train.parameters");
        if (cases[i].hint != NULL) assert_string_equal(ft_error_hint(0), cases[i].hint);
        ft_model_free(&f.model);
        OK(ft_memory_destroy(f.memory));
        ft_device_close(f.device);
        ft_model_config_free(&f.config);
        ft_config_free(&f.options);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_apart), cmocka_unit_test(test_quiet), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

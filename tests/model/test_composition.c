// What models are composed of. Compositions that no family has and that the blocks compute all the same: linear layers without biases, heads that together are
// wider than the rows. Beside a model in the usual form, of the same mathematics: its biases are 0, or the wide heads' other columns are.
#include "tests/fixtures/model_fixture.h"

typedef struct composition {
    const char *model;
    unsigned unbiased; // set of ft_layer_linear
    int64_t wider;     // columns that a head has more
} composition;

static const composition cases[] = {
    {"bert_gelu", .unbiased = FT_LINEAR_QKV | FT_LINEAR_OUTPUT | FT_LINEAR_UP | FT_LINEAR_DOWN},
    {"roberta", .unbiased = FT_LINEAR_UP},
    {"deberta_v3", .unbiased = FT_LINEAR_QKV | FT_LINEAR_DOWN}, // its keys and queries project the relative positions too
    {"deberta_v2_unshared", .unbiased = FT_LINEAR_POS_KEY | FT_LINEAR_POS_QUERY | FT_LINEAR_OUTPUT},
    {"deberta_v1", .unbiased = FT_LINEAR_QKV},
    {"distilbert", .wider = 5},
    {"electra", .unbiased = FT_LINEAR_DOWN, .wider = 2},
    {"deberta_v3", .wider = 3},
    {"deberta_v2_unshared", .wider = 1},
    {"deberta_v1", .wider = 2},
};

static const char *const without_dropout[] = {"model.hidden_dropout=0", "model.attention_dropout=0", "model.classifier_dropout=0", NULL};

// With weights of zeros.
static void open_composed(fixture *f, ft_family *family, const composition *c) {
    open_fixture(f, c->model, 2, NULL, without_dropout);
    ft_model_free(&f->model);
    *family = *f->config.family;
    f->config.family = family;
    f->config.unbiased |= c->unbiased;
    f->config.head_width += c->wider;
    OK(ft_model_create(f->memory, &f->config, &f->options, (int32_t)f->config.num_labels, &f->model));
    OK(ft_model_prepare_training(&f->model, 0));
    OK(ft_gradients_hold(&f->model.parameters, false));
}

// Where number (row, col) of `usual` stands in `other`, whose heads are wider.
static int64_t place_in(const ft_parameter *usual, const ft_parameter *other, int64_t row, int64_t col, int64_t width, int64_t wide) {
    if (other->rows != usual->rows) row = row / width * wide + row % width;
    if (other->cols != usual->cols) col = col / width * wide + col % width;
    return row * other->cols + col;
}

static int64_t rows_of(const ft_parameter *p) { return p->rows > 0 ? p->rows : 1; }

// The weights of `usual` go to `other`; what `other` lacks becomes 0 in `usual`.
static void share_weights(fixture *usual, fixture *other) {
    ft_parameters *from = &usual->model.parameters, *to = &other->model.parameters;
    const int64_t width = usual->model.heads.width, wide = other->model.heads.width;
    for (int i = 0; i < from->count; i++) {
        const ft_parameter *p = &from->list[i];
        float *weight = ft_parameter_weight(from, i).data;
        const int found = ft_parameters_find(to, p->name);
        if (found < 0) memset(weight, 0, (size_t)p->count * sizeof *weight);
        float *out = found < 0 ? NULL : ft_parameter_weight(to, found).data;
        for (int64_t k = 0; found >= 0 && k < rows_of(p) * p->cols; k++)
            out[place_in(p, &to->list[found], k / p->cols, k % p->cols, width, wide)] = weight[k];
    }
}

// What is there in both is the same, and what is in `other` alone is 0.
static void compare_gradients(fixture *usual, fixture *other, const char *name) {
    const ft_parameters *from = &usual->model.parameters, *to = &other->model.parameters;
    const int64_t width = usual->model.heads.width, wide = other->model.heads.width;
    float *want = host_gradients(usual), *got = host_gradients(other);
    const double scale = norm_of(want, from->trainable);
    for (int i = 0; i < to->count; i++) {
        const ft_parameter *q = &to->list[i], *p = &from->list[ft_parameters_find(from, q->name)];
        double error = 0, all = 0, shared = 0;
        for (int64_t k = 0; k < rows_of(p) * p->cols; k++) {
            const float a = want[p->offset + k], b = got[q->offset + place_in(p, q, k / p->cols, k % p->cols, width, wide)];
            error += ((double)a - b) * ((double)a - b);
            shared += (double)b * b;
        }
        for (int64_t k = 0; k < rows_of(q) * q->cols; k++) all += (double)got[q->offset + k] * got[q->offset + k];
        if (!(sqrt(error) <= 1e-6 * scale)) fail_msg("%s: gradient of %s: %.3g of %.3g", name, q->name, sqrt(error), scale);
        if (!(fabs(all - shared) <= 1e-12 * all)) fail_msg("%s: gradient of %s where a wide head has zeros", name, q->name);
    }
    free(want), free(got);
}

static void test_compositions(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const composition *c = &cases[i];
        fixture usual, other;
        ft_family family;
        float losses[2][64];
        open_fixture(&usual, c->model, 2, NULL, without_dropout);
        open_composed(&other, &family, c);
        share_weights(&usual, &other);
        const int64_t columns = usual.model.hidden, n = usual.data.examples;
        assert_int_equal(usual.model.layer[0].output.inputs, columns);
        assert_int_equal(other.model.layer[0].output.inputs, columns + c->wider * usual.model.heads.count);
        other.model.heads.scale = usual.model.heads.scale;
        assert_true(n <= 64);
        const ft_step_state step = {.loss_factor = 1.0f / (float)n, .loss_scale = 1};
        gradients_of(&usual, NULL, 0, n, (ft_batch_limits){0, 3}, step, losses[0]);
        gradients_of(&other, NULL, 0, n, (ft_batch_limits){0, 3}, step, losses[1]);
        assert_close(c->model, losses[1], losses[0], n, 1e-6);
        compare_gradients(&usual, &other, c->model);
        close_fixture(&other);
        close_fixture(&usual);
    }
}

// ---- layers that share weights ----------------------------------------------------------------------------------------------

static int64_t elements_of(const fixture *f, const char *part) {
    int64_t sum = 0;
    for (int i = 0; i < f->model.parameters.count; i++)
        if (strstr(f->model.parameters.list[i].name, part) != NULL) sum += f->model.parameters.list[i].count;
    return sum;
}

// Shared weights are one set with one gradient, which memory shows: as many numbers as one
// layer has, whatever their count. What is frozen with some of the layers that share is refused; all of a group may be.
static void test_shared_weights(void **state) {
    static const char *const group[] = {"model.freeze_layers=4", NULL},
                      *const probe[] = {"train.parameters=albert_layer_groups.0.albert_layers.1", "train.frozen_dropout=off", "model.hidden_dropout=0.5", NULL};
    fixture f;
    open_fixture(&f, "albert", 1, NULL, NULL);
    const int64_t h = f.model.hidden, i = f.model.intermediate;
    assert_int_equal(f.model.layers, 3);
    assert_int_equal(elements_of(&f, "albert_layers"), 4 * h * h + 2 * h * i + 9 * h + i); // of one layer
    int64_t padding = 64 * f.model.parameters.count; // a group begins at a multiple of 64
    assert_true(f.model.parameters.trainable >= f.model.parameters.real_total && f.model.parameters.trainable < f.model.parameters.real_total + padding);
    for (int l = 0; l < 3; l++) assert_int_equal(f.model.layer[l].qkv.weight, f.model.layer[2].qkv.weight);
    close_fixture(&f);

    open_fixture(&f, "albert_groups", 1, NULL, group); // layers 0 to 3 are its first group, twice two
    assert_int_equal(f.model.first_trained_layer, 4);
    for (int p = 0; p < f.model.parameters.count; p++) {
        const ft_parameter *q = &f.model.parameters.list[p];
        assert_int_equal(q->trainable, strstr(q->name, "albert_layer_groups.0.") == NULL && strstr(q->name, "embeddings.") == NULL && strstr(q->name, "mapping_in") == NULL);
    }
    close_fixture(&f);
    open_fixture(&f, "albert_groups", 1, NULL, probe);
    assert_int_equal(f.model.first_trained_layer, 1); // of layers 1 and 3, which are the same, the lower one
    static const bool quiet[] = {true, true, false, true, false, true, true}; // the embeddings, then layers
    assert_memory_equal(f.model.quiet, quiet, sizeof quiet);
    ft_config options = f.options;
    options.model.freeze_layers = 1;
    ft_model other;
    assert_int_equal(ft_model_create(f.memory, &f.config, &options, 2, &other), FT_INVALID);
    assert_string_equal(ft_error_where(), "model.freeze_layers");
    assert_string_equal(ft_error_message(), "layers 0 and 2 have the same weights in this model: both are frozen, or neither");
    ft_model_free(&other);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compositions), cmocka_unit_test(test_shared_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

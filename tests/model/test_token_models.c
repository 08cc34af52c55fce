// Token classification and question answering against transformers' float64 numbers (tests/vectors/make_token_vectors.py,
// questions/make_question_model_vectors.py): logits of the tokens that are read, losses, gradients and fifty steps of every family's head, and the same bits for any micro-batch, thread count, recomputation and instruction set.
// Catches: a pooler or the other head's dropout or name in front of the classifier, rows of another sequence or position, a loss that is
// divided by texts, gradients that reach rows without a label, and a micro-batch without any.
// ctest: tsan=run tsan_part=2
#include "tests/fixtures/model_fixture.h"

static const char *const models[] = {"tokens/bert_gelu", "tokens/roberta", "tokens/xlm_roberta", "tokens/distilbert", "tokens/electra", "tokens/albert",
                                     "tokens/deberta_v1", "tokens/deberta_v3", "tokens/modernbert", "tokens/mpnet", "questions/bert_gelu", "questions/roberta",
                                     "questions/distilbert", "questions/electra", "questions/albert", "questions/deberta_v1", "questions/deberta_v3",
                                     "questions/modernbert", "tokens/rembert", "tokens/xlm_roberta_xl", "tokens/eurobert"};
enum { MODELS = sizeof models / sizeof models[0] };

static void open_tokens(fixture *f, int m, int threads, const char *isa, const char *const *overrides) {
    open_fixture(f, models[m], threads, isa, overrides);
    assert_true(f->config.token_head && f->config.span_head == (strncmp(models[m], "questions", 9) == 0));
}

// Every tensor of the file is a parameter, and the other way round.
static void test_files(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_tokens(&f, m, 1, NULL, NULL);
        char dir[512];
        ft_load_report report;
        snprintf(dir, sizeof dir, "%s/%s", FT_TEST_VECTORS, models[m]);
        OK(ft_model_load(&f.model, dir, 0.02, 1, &f.arena, &report));
        if (report.drawn_count > 0) fail_msg("%s: %s is drawn", models[m], report.drawn[0]);
        if (report.ignored_count > 0) fail_msg("%s: %s is ignored", models[m], report.ignored[0]);
        assert_int_equal(f.model.pooler.weight >= 0, strstr(models[m], "modernbert") != NULL);
        close_fixture(&f);
    }
}

static void test_logits(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_tokens(&f, m, 2, NULL, NULL);
        int64_t n;
        float *want = expected(&f, "logits", &n), *got = calloc((size_t)n, sizeof *got), *alone = calloc((size_t)n, sizeof *alone);
        OK(predict_fixture(&f, (ft_batch_limits){0, 0}, got));
        assert_close(models[m], got, want, n, 1e-5);
        OK(predict_fixture(&f, (ft_batch_limits){0, 1}, alone));
        assert_memory_equal(alone, got, (size_t)n * sizeof *got);
        free(alone), free(got), free(want);
        close_fixture(&f);
    }
}

static bool shifts_softmax(const fixture *f, const char *name) {
    if (f->config.span_head && strncmp(name, ft_model_config_classifier(&f->config), strlen(ft_model_config_classifier(&f->config))) == 0)
        return strstr(name, ".bias") != NULL; // the same for all rows of a sequence
    char last[64]; // norm, which the classifier reads: likewise
    snprintf(last, sizeof last, "layer.%lld.output", (long long)f->config.num_hidden_layers - 1);
    if (f->config.span_head && strstr(name, "orm.bias") != NULL &&
        (strstr(name, last) != NULL || strstr(name, "full_layer") != NULL || strstr(name, "output_layer_norm") != NULL))
        return true;
    if (strstr(name, ".key_proj.bias") != NULL || strstr(name, ".encoder.LayerNorm.bias") != NULL) return !f->config.relative.p2c;
    return strstr(name, ".key.bias") != NULL || strstr(name, ".k_lin.bias") != NULL || strstr(name, ".attn.k.bias") != NULL || strstr(name, ".pos_key_proj.bias") != NULL;
}

static void test_gradients(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_tokens(&f, m, 2, NULL, NULL);
        const ft_parameters *p = &f.model.parameters;
        int64_t n;
        float losses[MOST_ROWS], *want = expected(&f, "losses", &n);
        assert_true(n <= MOST_ROWS && n == ft_dataset_rows(&f.data));
        gradients_of(&f, NULL, 0, f.data.sequences, (ft_batch_limits){0, 5}, (ft_step_state){.loss_factor = 1.0f / (float)(f.config.span_head ? f.data.sequences : n), .loss_scale = 1}, losses);
        assert_close("losses", losses, want, n, 1e-5);
        free(want);
        float *got = host_gradients(&f);
        double scale = 0;
        for (int i = 0; i < p->count; i++) {
            want = expected_parameter(&f, "grad", &p->list[i]);
            scale = fmax(scale, norm_of(want, p->list[i].count));
            free(want);
        }
        for (int i = 0; i < p->count; i++) {
            const ft_parameter *q = &p->list[i];
            want = expected_parameter(&f, "grad", q);
            const double bound = shifts_softmax(&f, q->name) ? 1e-6 * scale : 1e-5 * fmax(norm_of(want, q->count), 1e-3 * scale);
            const double error = distance(got + q->offset, want, q->count);
            if (!(error <= bound)) fail_msg("%s: gradient of %s: error %.3g, allowed %.3g", models[m], q->name, error, bound);
            free(want);
        }
        free(got);
        close_fixture(&f);
    }
}

// The classifier's bias has no gradient but rounding, which AdamW makes steps of, and no say in a softmax over rows: where it went is not compared.
static void without_shift(float *got, const float *want, int64_t n) {
    for (int c = 0; c < FT_SPAN_OUTPUTS; c++) {
        double shift = 0;
        for (int64_t i = c; i < n; i += FT_SPAN_OUTPUTS) shift += ((double)got[i] - want[i]) / (double)(n / FT_SPAN_OUTPUTS);
        for (int64_t i = c; i < n; i += FT_SPAN_OUTPUTS) got[i] = (float)(got[i] - shift);
        assert_true(fabs(shift) < 0.05);
    }
}

static void test_fifty_steps(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        int64_t n;
        open_tokens(&f, m, 2, NULL, NULL);
        follow_training(&f, models[m], 2e-5, 5e-5);
        float *want = expected(&f, "after.logits", &n), *got = calloc((size_t)n, sizeof *got);
        OK(predict_fixture(&f, (ft_batch_limits){0, 0}, got));
        if (f.config.span_head) without_shift(got, want, n);
        assert_close("logits after 50 steps", got, want, n, 2e-4);
        free(got), free(want);
        close_fixture(&f);
    }
}

// Dropout on.
static float *bits_of(int m, int threads, const char *isa, const char *const *overrides, ft_batch_limits limits, size_t *bytes) {
    fixture f;
    open_tokens(&f, m, threads, isa, overrides);
    return bits_of_fixture(&f, limits, bytes);
}

static void test_same_bits(void **state) {
    static const char *const plain[] = {DROPOUT, NULL}, *const half[] = {DROPOUT, "train.precision=bf16", NULL};
    static const char *const again[] = {DROPOUT, "train.gradient_checkpointing=on", "memory.recompute_layernorm=true", NULL};
    static const char *const half_again[] = {DROPOUT, "train.precision=bf16", "train.gradient_checkpointing=on", NULL};
    static const char *const narrow[] = {DROPOUT, "train.precision=bf16", "train.residual=16bit", NULL};
    static const char *const narrow_again[] = {DROPOUT, "train.precision=bf16", "train.residual=16bit", "train.gradient_checkpointing=on", NULL};
    static const struct {
        const char *what;
        int threads;
        const char *isa;
        const char *const *overrides, *const *against;
        ft_batch_limits limits;
    } cases[] = {{"one thread", 1, NULL, plain, plain, {0, 0}},  {"five sequences", 2, NULL, plain, plain, {0, 5}},
                 {"one sequence", 3, NULL, plain, plain, {0, 1}}, {"recomputation", 2, NULL, again, plain, {0, 7}},
                 {"portable code", 2, "portable", plain, plain, {64, 0}}, {"bf16, one sequence", 2, NULL, half, half, {0, 1}},
                 {"bf16, recomputation", 2, NULL, half_again, half, {0, 0}}, {"16 bits between layers, recomputation", 2, NULL, narrow_again, narrow, {0, 3}}};
    static const int some[] = {0, 3, 7, 8, 10, 16, 17, 19, 20}; // one of every way in which the head reads its rows, and of positions
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        const int m = some[k];
        size_t bytes, other_bytes;
        float *reference = NULL;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            if (c == 0 || cases[c].against != cases[c - 1].against) {
                free(reference);
                reference = bits_of(m, 2, NULL, cases[c].against, (ft_batch_limits){0, 0}, &bytes);
            }
            float *other = bits_of(m, cases[c].threads, cases[c].isa, cases[c].overrides, cases[c].limits, &other_bytes);
            if (bytes != other_bytes || memcmp(reference, other, bytes) != 0) fail_msg("%s: other bits with %s", models[m], cases[c].what);
            free(other);
        }
        free(reference);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_logits), cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_fifty_steps), cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

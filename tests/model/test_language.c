// Language models against transformers' and PEFT's float64 numbers (tests/vectors/causal_lm): losses of the tokens that count, gradients, fifty
// steps, with the head's weight of its own or tied to the word table, and adapters beside; and the same bits for any number of rows whose
// logits exist at once, any micro-batch (but of a tied weight that is trained), thread count, recomputation and instruction set.
// Catches: a token that sees what is behind it or another text, a label of the wrong row, a loss that is divided by texts, a chunk
// that is counted twice or left out, half of a tied gradient, and a text of which nothing counts.
// ctest: tsan=run tsan_part=2
#include "tests/fixtures/adapter_fixture.h"

static const char *const models[] = {"causal_lm/qwen2", "causal_lm/qwen2_tied", "causal_lm/qwen2_sliding", "causal_lm/llama", "causal_lm/qwen3", "causal_lm/lora_qwen2", "causal_lm/lora_qwen3", "causal_lm/lora_llama"};
enum { MODELS = sizeof models / sizeof models[0] };

static bool has_adapter(int m) { return strstr(models[m], "lora_") != NULL; }

static void open_language(fixture *f, int m, int threads, const char *isa, const char *const *overrides) {
    char adapter[64];
    snprintf(adapter, sizeof adapter, "../%s", models[m]);
    if (has_adapter(m)) open_adapter(f, adapter, threads, overrides);
    else open_fixture(f, models[m], threads, isa, overrides);
    assert_true(f->config.language_head && f->model.vocabulary == 97 && f->model.labels == 1);
}

// Every tensor of the file is a parameter, and the other way round; of a tied model there is no tensor of the head.
static void test_files(void **state) {
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        char dir[512];
        ft_load_report report;
        if (has_adapter(m)) continue;
        open_language(&f, m, 1, NULL, NULL);
        snprintf(dir, sizeof dir, "%s/%s", FT_TEST_VECTORS, models[m]);
        OK(ft_model_load(&f.model, dir, 0.02, 1, &f.arena, &report));
        if (report.drawn_count > 0) fail_msg("%s: %s is drawn", models[m], report.drawn[0]);
        if (report.ignored_count > 0) fail_msg("%s: %s is ignored", models[m], report.ignored[0]);
        assert_int_equal(f.model.head[0].weight == f.model.word, f.config.tied);
        assert_int_equal(ft_parameters_find(&f.model.parameters, "lm_head.weight") >= 0, !f.config.tied);
        close_fixture(&f);
    }
}

static void test_losses(void **state) {
    static const char *const rows[][2] = {{"memory.loss_rows=1", NULL}, {"memory.loss_rows=7", NULL}, {"memory.loss_rows=1000", NULL}};
    for (int m = 0; m < MODELS; m++)
        for (int r = 0; r < 3; r++) {
            fixture f;
            open_language(&f, m, 2, NULL, rows[r]);
            int64_t n;
            float *want = expected(&f, "losses", &n), *got = calloc((size_t)n, sizeof *got), *alone = calloc((size_t)n, sizeof *alone);
            OK(predict_fixture(&f, (ft_batch_limits){0, 0}, got));
            assert_close(models[m], got, want, n, 1e-5);
            OK(predict_fixture(&f, (ft_batch_limits){0, 1}, alone));
            assert_memory_equal(alone, got, (size_t)n * sizeof *got);
            free(alone), free(got), free(want);
            close_fixture(&f);
        }
}

static float *gradient_in_file(const fixture *f, int m, const ft_parameter *q) { return has_adapter(m) ? expected_gradient(f, q) : expected_parameter(f, "grad", q); }

static void test_gradients(void **state) {
    static const char *const rows[] = {"memory.loss_rows=9", NULL};
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        open_language(&f, m, 2, NULL, rows);
        const ft_parameters *p = &f.model.parameters;
        int64_t n, files = 0;
        float losses[MOST_ROWS], *want = expected(&f, "losses", &n);
        assert_true(n <= MOST_ROWS && n == ft_dataset_rows(&f.data));
        gradients_of(&f, NULL, 0, f.data.sequences, (ft_batch_limits){0, 5}, (ft_step_state){.loss_factor = 1.0f / (float)n, .loss_scale = 1}, losses);
        assert_close("losses", losses, want, n, 1e-5);
        free(want);
        double scale = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < p->count; i++) {
                const ft_parameter *q = &p->list[i];
                if (!q->trainable) continue;
                want = gradient_in_file(&f, m, q);
                if (pass == 0) scale = fmax(scale, norm_of(want, q->count)), files++;
                else {
                    const double bound = 1e-5 * fmax(norm_of(want, q->count), 1e-3 * scale);
                    const double error = distance(ft_parameter_gradient(p, i).data, want, q->count);
                    if (!(error <= bound)) fail_msg("%s: gradient of %s: error %.3g, allowed %.3g", models[m], q->name, error, bound);
                }
                free(want);
            }
        for (int i = 0; i < ft_safetensors_count(f.expect); i++) files -= strncmp(ft_safetensors_at(f.expect, i)->name, "grad.", 5) == 0;
        assert_int_equal(files, 0); // and nothing else is trained
        close_fixture(&f);
    }
}

static void test_fifty_steps(void **state) {
    static const char *const rows[] = {"memory.loss_rows=20", NULL};
    for (int m = 0; m < MODELS; m++) {
        fixture f;
        int64_t n;
        open_language(&f, m, 2, NULL, rows);
        follow_training(&f, models[m], 2e-5, 5e-5);
        float *want = expected(&f, "after.losses", &n), *got = calloc((size_t)n, sizeof *got);
        OK(predict_fixture(&f, (ft_batch_limits){0, 0}, got));
        assert_close("losses after 50 steps", got, want, n, 2e-4);
        free(got), free(want);
        close_fixture(&f);
    }
}

static float *bits_of(int m, int threads, const char *isa, const char *const *overrides, ft_batch_limits limits, size_t *bytes) {
    fixture f;
    open_language(&f, m, threads, isa, overrides);
    return bits_of_fixture(&f, limits, bytes);
}

// A tied weight has one gradient, to which every micro-batch adds as a head and then as a table: another split adds in another order.
static bool is_cut(ft_batch_limits limits) { return limits.max_tokens > 0 || limits.max_sequences > 0; }
static bool adds_in_turns(int m) { return strstr(models[m], "_tied") != NULL; }

#define ATTENTION_DROPOUT "model.attention_dropout=0.3"

static void test_same_bits(void **state) {
    static const char *const plain[] = {ATTENTION_DROPOUT, "memory.loss_rows=100000", NULL}, *const half[] = {ATTENTION_DROPOUT, "train.precision=bf16", "memory.loss_rows=100000", NULL};
    static const char *const one[] = {ATTENTION_DROPOUT, "memory.loss_rows=1", NULL}, *const some[] = {ATTENTION_DROPOUT, "memory.loss_rows=33", NULL};
    static const char *const again[] = {ATTENTION_DROPOUT, "train.gradient_checkpointing=on", "memory.recompute_layernorm=true", "memory.loss_rows=8", NULL};
    static const char *const half_again[] = {ATTENTION_DROPOUT, "train.precision=bf16", "train.gradient_checkpointing=on", "memory.loss_rows=8", NULL};
    static const char *const narrow[] = {ATTENTION_DROPOUT, "train.precision=bf16", "train.residual=16bit", "memory.loss_rows=100000", NULL};
    static const char *const narrow_again[] = {ATTENTION_DROPOUT, "train.precision=bf16", "train.residual=16bit", "train.gradient_checkpointing=on", "memory.loss_rows=8", NULL};
    static const struct {
        const char *what;
        int threads;
        const char *isa;
        const char *const *overrides, *const *against;
        ft_batch_limits limits;
    } cases[] = {{"one thread", 1, NULL, plain, plain, {0, 0}},    {"a row at a time", 2, NULL, one, plain, {0, 0}},
                 {"33 rows at a time", 2, NULL, some, plain, {0, 0}}, {"33 rows of five sequences", 2, NULL, some, plain, {0, 5}},
                 {"one sequence", 3, NULL, plain, plain, {0, 1}},   {"recomputation", 2, NULL, again, plain, {0, 7}},
                 {"portable code", 2, "portable", plain, plain, {64, 0}}, {"bf16, one sequence", 2, NULL, half, half, {0, 1}},
                 {"bf16, recomputation", 2, NULL, half_again, half, {0, 0}}, {"16 bits between layers, recomputation", 2, NULL, narrow_again, narrow, {0, 0}}};
    for (int m = 0; m < MODELS; m++) {
        size_t bytes, other_bytes;
        float *reference = NULL;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            if (c == 0 || cases[c].against != cases[c - 1].against) {
                free(reference);
                reference = bits_of(m, 2, NULL, cases[c].against, (ft_batch_limits){0, 0}, &bytes);
            }
            float *other = bits_of(m, cases[c].threads, cases[c].isa, cases[c].overrides, cases[c].limits, &other_bytes);
            const int64_t n = (int64_t)(bytes / sizeof *other);
            assert_int_equal(bytes, other_bytes);
            if (memcmp(reference, other, bytes) != 0 && !(adds_in_turns(m) && is_cut(cases[c].limits) && distance(other, reference, n) <= (c < 7 ? 1e-6 : 1e-4) * norm_of(reference, n)))
                fail_msg("%s: other bits with %s", models[m], cases[c].what);
            free(other);
        }
        free(reference);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_losses), cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_fifty_steps), cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

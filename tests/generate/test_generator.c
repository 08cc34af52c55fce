// Completions of small random decoders against transformers' generate (tests/vectors/causal_lm/generated.safetensors):
// 200 greedy tokens of four prompts, of every family, with heads of their own and tied, windows, and adapters beside;
// all at once or one by one, with fewer slots than prompts, prompts read in pieces, any number of threads, in either
// layout of memory, in 16 bits; logits of the cached pass against the whole one; where a text ends; planned bytes.
// Catches: a key that is kept in front of its angle, a position that begins anew, a slot that another text had before,
// a window that is off by one, a text that sees its neighbour's keys, a completion that depends on who is beside it,
// memory that no plan has.
// ctest: asan_part=0
#include "tests/fixtures/model_fixture.h"

#include "engine/config/options.h"
#include "engine/generate/generator.h"
#include "engine/model/adapter_files.h"
#include "engine/model/spec/adapter_config.h"
#include "engine/train/step/rehearsal.h"

static const char *const models[] = {"qwen2", "qwen2_tied", "qwen2_sliding", "llama",
                                     "qwen3", "lora_qwen2", "lora_qwen3",    "lora_llama"};
enum { MODELS = sizeof models / sizeof models[0], PROMPTS = 4, NEW = 200, POSITIONS = 256, WORDS = 97, LONGEST = 40 };

typedef struct writer {
    fixture f; // expect: generated.safetensors
    ft_prompt prompt[PROMPTS];
    int32_t *ids, *cu;
    int32_t written[PROMPTS][NEW + 1];
    int count[PROMPTS];
    ft_finish finish[PROMPTS];
} writer;

// The models have 40 positions in their files, which only bound a text: angles of others are no others.
static void open_writer(writer *w, int m, int threads, const char *const *overrides) {
    memset(w, 0, sizeof *w);
    fixture *f = &w->f;
    char dir[600], path[700];
    const char *base = models[m];
    const bool adapter = strncmp(base, "lora_", 5) == 0;
    snprintf(path, sizeof path, "%s/causal_lm/%s", FT_TEST_VECTORS, models[m]);
    OK(ft_config_load(&f->options, 0, NULL, 0, NULL));
    if (adapter) OK(ft_adapter_config_load(path, &f->options, &base));
    for (int i = 0; overrides != NULL && overrides[i] != NULL; i++)
        OK(ft_config_apply_override(&f->options, overrides[i]));
    snprintf(dir, sizeof dir, "%s/%s%s", FT_TEST_VECTORS, adapter ? "" : "causal_lm/", base);
    OK(ft_cpu_open(threads, NULL, &f->device));
    OK(ft_memory_create(f->device, 0, &f->memory));
    OK(ft_model_config_load(dir, &f->config));
    f->config.max_position_embeddings = POSITIONS;
    f->config.pooler_is_drawn = false;
    ft_model_config_set_language(&f->config);
    OK(ft_model_create(f->memory, &f->config, &f->options, 1, &f->model));
    ft_load_report report;
    OK(ft_model_load(&f->model, dir, 0.02, 1, &f->arena, &report));
    if (adapter) OK(ft_model_load_adapter(&f->model, path));
    snprintf(path, sizeof path, "%s/causal_lm/generated.safetensors", FT_TEST_VECTORS);
    OK(ft_safetensors_open(path, &f->expect));
    int64_t bounds;
    w->ids = expected_ints(f, "prompts", NULL);
    w->cu = expected_ints(f, "prompts_cu", &bounds);
    assert_int_equal(bounds, PROMPTS + 1);
    for (int i = 0; i < PROMPTS; i++)
        w->prompt[i] = (ft_prompt){.ids = w->ids + w->cu[i], .count = w->cu[i + 1] - w->cu[i], .row = (uint64_t)i};
}

static void close_writer(writer *w) {
    free(w->ids);
    free(w->cu);
    ft_model_free(&w->f.model);
    OK(ft_memory_destroy(w->f.memory));
    ft_device_close(w->f.device);
    ft_model_config_free(&w->f.config);
    ft_config_free(&w->f.options);
    ft_safetensors_close(w->f.expect);
    ft_arena_free(&w->f.arena);
}

static ft_status take(void *context, int64_t index, int32_t token, ft_finish finish) {
    writer *w = context;
    assert_true(index >= 0 && index < PROMPTS && w->finish[index] == FT_GOES_ON && w->count[index] < NEW);
    w->finish[index] = finish;
    if (finish != FT_FINISH_STOP) w->written[index][w->count[index]++] = token;
    return FT_OK;
}

// Prompts [first, first + count).
static void write_some(writer *w, const ft_generator_sizes *sizes, const ft_generator_options *options, int first,
                       int count) {
    ft_generator g;
    ft_status status = ft_generator_open(&w->f.model, sizes, &g);
    memset(w->count, 0, sizeof w->count);
    memset(w->finish, 0, sizeof w->finish);
    if (status == FT_OK) status = ft_generator_run(&g, w->prompt + first, count, options, take, w);
    OK(ft_generator_close(&g, status));
}

static const ft_generator_options greedy = {.sampling = {.top_p = 1}, .max_new_tokens = NEW};
static const ft_generator_sizes all_at_once = {
    .slots = PROMPTS, .room = LONGEST + NEW - 1, .tokens = 100, .longest = LONGEST};

static void assert_written(const writer *w, int m, int index, int prompt, const int32_t *want, int count,
                           ft_finish finish) {
    if (w->count[index] != count || w->finish[index] != finish)
        fail_msg("%s, prompt %d: %d tokens, %s, expected %d", models[m], prompt, w->count[index],
                 ft_finish_name(w->finish[index]), count);
    for (int i = 0; i < count; i++)
        if (w->written[index][i] != want[i])
            fail_msg("%s, prompt %d: token %d is %d, expected %d", models[m], prompt, i, w->written[index][i], want[i]);
}

static void test_greedy(void **state) {
    for (int m = 0; m < MODELS; m++) {
        writer w;
        open_writer(&w, m, 1, NULL);
        int32_t *want = expected_ints(&w.f, models[m], NULL);
        write_some(&w, &all_at_once, &greedy, 0, PROMPTS);
        for (int i = 0; i < PROMPTS; i++)
            assert_written(&w, m, i, i, want + i * NEW, NEW, FT_FINISH_LENGTH);
        free(want);
        close_writer(&w);
    }
}

// Fewer slots than prompts, prompts read one by one, one thread, a room that is just enough: the same tokens.
static void test_alone_and_crowded(void **state) {
    static const ft_generator_sizes sizes[] = {
        {.slots = 1, .room = LONGEST + NEW - 1, .tokens = LONGEST, .longest = LONGEST},
        {.slots = 2, .room = POSITIONS, .tokens = LONGEST, .longest = LONGEST},
        {.slots = 5, .room = LONGEST + NEW - 1, .tokens = 48, .longest = LONGEST}};
    static const int some[] = {0, 2, 3, 5, 6}; // windows, adapters and Llama's angles among them
    for (int n = 0; n < 5; n++)
        for (int k = 0; k < 3; k++) {
            const int m = some[n];
            writer w;
            open_writer(&w, m, 1 + k, NULL);
            int32_t *want = expected_ints(&w.f, models[m], NULL);
            write_some(&w, &sizes[k], &greedy, 0, PROMPTS);
            for (int i = 0; i < PROMPTS; i++)
                assert_written(&w, m, i, i, want + i * NEW, NEW, FT_FINISH_LENGTH);
            write_some(&w, &sizes[k], &greedy, 3, 1); // another call, another text in the slot
            assert_written(&w, m, 0, 3, want + 3 * NEW, NEW, FT_FINISH_LENGTH);
            free(want);
            close_writer(&w);
        }
}

// A token that ends a text is none of it, wherever it comes; a text that has no room left ends; short ones make room
// for others.
static void test_ends(void **state) {
    writer w;
    open_writer(&w, 0, 1, NULL);
    int32_t *want = expected_ints(&w.f, models[0], NULL);
    for (int k = 0; k < 40; k += 3) {
        const int32_t ends[] = {WORDS - 1, want[k]}; // of the first text the k-th token, or an earlier one like it
        ft_generator_options options = greedy;
        ft_generator_sizes sizes = all_at_once;
        options.ends = ends;
        options.end_count = 2;
        options.max_new_tokens = 50;
        sizes.slots = 1 + k % 4;
        write_some(&w, &sizes, &options, 0, PROMPTS);
        for (int i = 0; i < PROMPTS; i++) {
            int n = 0;
            while (n < 50 && want[i * NEW + n] != ends[0] && want[i * NEW + n] != ends[1])
                n++;
            assert_written(&w, 0, i, i, want + i * NEW, n, n < 50 ? FT_FINISH_STOP : FT_FINISH_LENGTH);
        }
    }
    const ft_generator_sizes narrow = {.slots = 2, .room = LONGEST + 3, .tokens = 64, .longest = LONGEST};
    write_some(&w, &narrow, &greedy, 0, PROMPTS);
    for (int i = 0; i < PROMPTS; i++) {
        const int room = LONGEST + 3 - w.prompt[i].count + 1; // the last token is read by nobody
        assert_written(&w, 0, i, i, want + i * NEW, room < NEW ? room : NEW, FT_FINISH_LENGTH);
    }
    free(want);
    close_writer(&w);
}

typedef struct logit_sink {
    writer *w;
    ft_generator *g;
    float last[PROMPTS][WORDS];
} logit_sink;

static ft_status keep_logits(void *context, int64_t index, int32_t token, ft_finish finish) {
    logit_sink *s = context;
    for (int32_t n = 0; n < s->g->sizes.slots; n++) // with as many slots as prompts each has the slot of its number
        if (s->g->order[n] == index) memcpy(s->last[index], s->g->home + (size_t)n * WORDS, sizeof s->last[index]);
    return take(s->w, index, token, finish);
}

// Of the last step, against transformers' cached ones (float64); and of a micro-batch that has the whole text, without
// a cache's help.
static void test_logits(void **state) {
    for (int m = 0; m < MODELS; m++) {
        writer w;
        ft_generator g;
        open_writer(&w, m, 1, NULL);
        char name[64];
        snprintf(name, sizeof name, "%s.logits", models[m]);
        float *want = expected(&w.f, name, NULL);
        logit_sink s = {.w = &w, .g = &g};
        ft_status status = ft_generator_open(&w.f.model, &all_at_once, &g);
        if (status == FT_OK) status = ft_generator_run(&g, w.prompt, PROMPTS, &greedy, keep_logits, &s);
        OK(ft_generator_close(&g, status));
        for (int i = 0; i < PROMPTS; i++)
            assert_close(name, s.last[i], want + i * WORDS, WORDS, 2e-5);
        // The same texts whole, as prompts.
        int32_t text[PROMPTS][POSITIONS];
        ft_prompt whole[PROMPTS];
        for (int i = 0; i < PROMPTS; i++) {
            memcpy(text[i], w.prompt[i].ids, (size_t)w.prompt[i].count * sizeof(int32_t));
            memcpy(text[i] + w.prompt[i].count, w.written[i], (NEW - 1) * sizeof(int32_t));
            whole[i] = (ft_prompt){.ids = text[i], .count = w.prompt[i].count + NEW - 1, .row = (uint64_t)i};
        }
        const ft_generator_sizes sizes = {
            .slots = PROMPTS, .room = POSITIONS, .tokens = PROMPTS * POSITIONS, .longest = LONGEST + NEW - 1};
        ft_generator_options once = greedy;
        once.max_new_tokens = 1;
        memset(w.count, 0, sizeof w.count);
        memset(w.finish, 0, sizeof w.finish);
        logit_sink t = {.w = &w, .g = &g};
        status = ft_generator_open(&w.f.model, &sizes, &g);
        if (status == FT_OK) status = ft_generator_run(&g, whole, PROMPTS, &once, keep_logits, &t);
        OK(ft_generator_close(&g, status));
        for (int i = 0; i < PROMPTS; i++)
            assert_close("cached and whole", s.last[i], t.last[i], WORDS, 1e-5);
        free(want);
        close_writer(&w);
    }
}

// In 16 bits a text is the same alone and among others, and begins as in fp32.
static void test_half(void **state) {
    static const char *const types[][2] = {{"train.precision=bf16", NULL}, {"train.precision=fp16", NULL}};
    for (int m = 0; m < MODELS; m += 2) // windows, norms of heads and adapters among them
        for (int k = 0; k < 2; k++) {
            writer w;
            open_writer(&w, m, 1, types[k]);
            int32_t together[PROMPTS][NEW], *want = expected_ints(&w.f, models[m], NULL);
            ft_generator_options options = greedy;
            options.max_new_tokens = 25;
            write_some(&w, &all_at_once, &options, 0, PROMPTS);
            int same = 0;
            for (int i = 0; i < PROMPTS; i++) {
                memcpy(together[i], w.written[i], sizeof together[i]);
                same += w.written[i][0] == want[i * NEW];
            }
            for (int i = 0; i < PROMPTS; i++) {
                const ft_generator_sizes alone = {
                    .slots = 1, .room = LONGEST + NEW - 1, .tokens = LONGEST, .longest = LONGEST};
                write_some(&w, &alone, &options, i, 1);
                assert_written(&w, m, 0, i, together[i], 25, FT_FINISH_LENGTH);
            }
            if (same < PROMPTS - 1)
                fail_msg("%s in %s: %d of %d texts begin as in fp32", models[m], types[k][0], same, PROMPTS);
            free(want);
            close_writer(&w);
        }
}

// Laid out in an arena: the peak of a run is that of its rehearsal on a plan device, to the byte, and the tokens are
// the same.
static void test_planned(void **state) {
    static const char *const types[][2] = {{NULL}, {"train.precision=bf16", NULL}};
    for (int m = 0; m < MODELS; m++)
        for (int k = 0; k < 2; k++) {
            writer w;
            open_writer(&w, m, 1, types[k]);
            const ft_generator_sizes some = {.slots = 3, .room = LONGEST + NEW - 1, .tokens = 50, .longest = LONGEST};
            const ft_step_sizes sizes = {.loss = w.f.model.loss, .generator = some};
            ft_generator_options options = greedy;
            options.max_new_tokens = 20;
            write_some(&w, &some, &options, 0, PROMPTS);
            int32_t before[PROMPTS][NEW + 1];
            memcpy(before, w.written, sizeof before);
            fixture p = {.config = w.f.config, .options = w.f.options}; // the plan
            OK(ft_plan_open("a test", w.f.device->target, SIZE_MAX / 4, &p.device));
            OK(ft_memory_create(p.device, 0, &p.memory));
            OK(ft_model_create(p.memory, &p.config, &p.options, 1, &p.model));
            OK(ft_lay_out_steps(p.memory, &p.config, &p.options, 1, &sizes));
            OK(ft_generator_rehearse(&p.model, &some));
            const ft_memory_counters planned = ft_memory_read(p.memory);
            ft_model_free(&p.model);
            OK(ft_memory_destroy(p.memory));
            ft_device_close(p.device);

            fixture r = {.config = w.f.config, .options = w.f.options}; // the run, in memory of its own
            OK(ft_cpu_open(1, NULL, &r.device));
            OK(ft_memory_create(r.device, 0, &r.memory));
            ft_model kept = w.f.model;
            OK(ft_model_create(r.memory, &r.config, &r.options, 1, &w.f.model));
            ft_load_report report;
            char dir[600], adapter[700];
            const char *base = models[m];
            const bool has_adapter = strncmp(base, "lora_", 5) == 0;
            ft_config named;
            snprintf(adapter, sizeof adapter, "%s/causal_lm/%s", FT_TEST_VECTORS, models[m]);
            OK(ft_config_load(&named, 0, NULL, 0, NULL));
            if (has_adapter) OK(ft_adapter_config_load(adapter, &named, &base));
            snprintf(dir, sizeof dir, "%s/%s%s", FT_TEST_VECTORS, has_adapter ? "" : "causal_lm/", base);
            OK(ft_model_load(&w.f.model, dir, 0.02, 1, &r.arena, &report));
            if (has_adapter) OK(ft_model_load_adapter(&w.f.model, adapter));
            ft_config_free(&named);
            OK(ft_lay_out_steps(r.memory, &r.config, &r.options, 1, &sizes));
            write_some(&w, &some, &options, 0, PROMPTS);
            const ft_memory_counters metered = ft_memory_read(r.memory);
            assert_memory_equal(before, w.written, sizeof before);
            assert_int_equal(metered.arena_bytes, planned.arena_bytes);
            assert_int_equal(metered.phase_peak[FT_PHASE_EVAL], planned.phase_peak[FT_PHASE_EVAL]);
            // The cache is in it.
            const size_t cache = (size_t)w.f.model.layers * 3 * (LONGEST + NEW - 1) * 2 *
                                 (size_t)ft_key_columns(&w.f.model.heads) * ft_dtype_size(w.f.model.dtype);
            assert_true(planned.phase_peak[FT_PHASE_EVAL] > cache && planned.arena_bytes > cache);
            ft_model_free(&w.f.model);
            w.f.model = kept;
            OK(ft_memory_destroy(r.memory));
            ft_device_close(r.device);
            ft_arena_free(&r.arena);
            close_writer(&w);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy), cmocka_unit_test(test_alone_and_crowded),
                                       cmocka_unit_test(test_ends),   cmocka_unit_test(test_logits),
                                       cmocka_unit_test(test_half),   cmocka_unit_test(test_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

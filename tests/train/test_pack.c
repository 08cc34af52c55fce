// Runs that train beside one frozen model in one process, a thread each (engine/model/state/pack.h): every file has the bits that it has
// alone, whatever their ranks, targets, dropout, seeds, lengths of batches and of runs are; what each takes is what was planned for it; and
// they do meet at the products of frozen weights. Found by it: rows of a product that go to another run, one run's dropout or step for
// another's, a frozen number that a run writes to, gradients or moments that two runs share, a product that counts for a run that is gone.
// ctest: tsan=run cost=20
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/context.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/model/state/pack.h"
#include "engine/model/state/trunk.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

#include <pthread.h>

static char scratch[64];

// What members have of their own: ranks, targets, dropout, seeds, batches (in several micro-batches too), an end of their own, DoRA, an evaluation
// at every step.
static const char *const members[][10] = {
    {"adapter.r=4", "adapter.dropout=0.1", "train.seed=1", "train.batch_size=6", "train.max_steps=7", "train.learning_rate=1e-3", NULL},
    {"adapter.r=2", "adapter.targets=all-linear", "train.seed=2", "train.batch_size=3", "train.max_steps=5", "train.learning_rate=1e-2", NULL},
    {"adapter.r=8", "adapter.dropout=0.3", "adapter.targets=all-linear", "train.seed=3", "train.batch_size=9", "train.micro_batch=4",
     "train.max_steps=4", "eval.strategy=steps", "eval.steps=1", NULL},
    {"adapter.type=dora", "adapter.r=3", "train.seed=4", "train.batch_size=5", "train.max_steps=6", "model.hidden_dropout=0", NULL},
    {"adapter.r=4", "adapter.layers=1", "train.seed=5", "train.batch_size=8", "train.max_steps=5", "train.gradient_checkpointing=on", NULL},
};
enum { MEMBERS = sizeof members / sizeof *members };

typedef struct member_run {
    ft_pack *pack; // NULL: alone
    const tiny_run *base;
    const char *precision;
    int number;
    char dir[160];
    ft_status status;
    ft_error error;
} member_run;

static void silent(void *owner, const char *text) {}

static void configure(const member_run *r, ft_config *config) {
    tiny_run t = *r->base;
    set(&t, "train.precision=%s", r->precision);
    set(&t, "output.dir=%s", r->dir);
    for (int i = 0; members[r->number][i] != NULL; i++) set(&t, "%s", members[r->number][i]);
    load_tiny_run(&t, config);
}

static void *train(void *argument) {
    member_run *r = argument;
    ft_context context;
    ft_config config;
    ft_pack_member *member = NULL;
    ft_context_init(&context);
    context.sink.line = silent;
    ft_context *before = ft_context_enter(&context);
    configure(r, &config);
    r->status = r->pack != NULL ? ft_pack_join(r->pack, &member) : FT_OK;
    if (r->status == FT_OK) r->status = ft_train(&config, NULL);
    ft_error_save(&r->error);
    if (member != NULL) ft_pack_leave(member);
    ft_config_free(&config);
    ft_context_enter(before);
    ft_context_free(&context);
    return NULL;
}

static void check_run(const member_run *r) {
    if (r->status != FT_OK) fail_msg("%s: %s (%s)", r->dir, r->error.message, r->error.where);
}

static json_t *load_json(const char *dir, const char *name) {
    char path[256];
    json_t *json = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (ft_json_load(path, &json) != FT_OK) fail_msg("%s", ft_error_message());
    return json;
}

static char *read_all(const char *dir, const char *name, size_t *size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (f == NULL) fail_msg("%s is missing", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*size + 1);
    assert_int_equal(fread(text, 1, *size, f), *size);
    text[*size] = '\0';
    fclose(f);
    return text;
}

// Rates are not compared.
static void forget_rates(char *text) {
    for (char *at = text; (at = strstr(at, "\"tokens_per_second\":")) != NULL;)
        for (at += 20; *at != '\0' && *at != ',' && *at != '}'; at++) *at = '#';
}

static void assert_same_file(const char *a, const char *b, const char *name) {
    size_t size_a, size_b;
    char *x = read_all(a, name, &size_a), *y = read_all(b, name, &size_b);
    forget_rates(x);
    forget_rates(y);
    const bool text = strcmp(name, "metrics.jsonl") == 0; // whose rates have other lengths
    if (text) {
        char *s = x, *d = x;
        for (; *s; s++) if (*s != '#') *d++ = *s;
        *d = '\0', size_a = (size_t)(d - x);
        for (s = d = y; *s; s++) if (*s != '#') *d++ = *s;
        *d = '\0', size_b = (size_t)(d - y);
    }
    if (size_a != size_b || memcmp(x, y, size_a) != 0) fail_msg("%s of %s and %s differ", name, a, b);
    free(x);
    free(y);
}

static int64_t number_at(json_t *run, const char *part, const char *key) {
    return (int64_t)json_integer_value(json_object_get(json_object_get(run, part), key));
}

static void check_memory(const member_run *packed) {
    json_t *a = load_json(packed->dir, "run.json");
    static const char *const peaks[] = {"peak_reserved_bytes", "peak_allocated_bytes"};
    for (int i = 0; i < 2; i++) {
        assert_true(number_at(a, "memory", peaks[i]) > 0);
        assert_int_equal(number_at(a, "memory", peaks[i]), number_at(a, "planned", peaks[i]));
    }
    json_decref(a);
}

static const ft_family *family_called(const char *type) {
    for (int i = 0; i < ft_family_count(); i++)
        if (strcmp(ft_family_at(i)->model_type, type) == 0) return ft_family_at(i);
    fail_msg("no family %s", type);
    return NULL;
}

// A model with weights in files: a run of one step from random ones.
static void make_base(tiny_run *t, const char *family, int number) {
    ft_config config;
    *t = (tiny_run){.state = (uint64_t)number + 7, .family = family_called(family)};
    snprintf(t->dir, sizeof t->dir, "%s/%s-%d", scratch, family, number);
    char model[160];
    snprintf(model, sizeof model, "%s/model", t->dir);
    assert_int_equal(mkdir(t->dir, 0700), 0);
    assert_int_equal(mkdir(model, 0700), 0);
    write_model(t, 2, 2, 48, 40);
    FILE *f = file_in(t, "model/vocab.txt");
    fprintf(f, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int i = 0; i < TINY_WORDS; i++) fprintf(f, "w%d\n", i);
    fclose(f);
    f = file_in(t, "model/tokenizer_config.json");
    fprintf(f, "{\"tokenizer_class\": \"BertTokenizer\"}\n");
    fclose(f);
    write_texts(t, "train.tsv", 60, 30, 3);
    write_texts(t, "dev.tsv", 20, 30, 3);
    set(t, "model.path=%s/model", t->dir);
    set(t, "model.init=random");
    set(t, "data.train=%s/train.tsv", t->dir);
    set(t, "data.validation=%s/dev.tsv", t->dir);
    set(t, "data.cache_dir=none");
    set(t, "data.max_length=32");
    set(t, "device.threads=%d", number == 0 ? 2 : 1);
    set(t, "train.max_steps=1");
    set(t, "memory.timeline=false");
    set(t, "eval.strategy=no");
    const int common = t->count;
    set(t, "output.dir=%s/base", t->dir);
    load_tiny_run(t, &config);
    if (ft_train(&config, NULL) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    t->count = common;
    set(t, "model.path=%s/base/model", t->dir);
    set(t, "model.init=pretrained");
    set(t, "adapter.type=lora");
    set(t, "eval.strategy=epoch");
    set(t, "train.logging_steps=1");
    set(t, "train.frozen_dropout=on");
}

static void compare(const char *family, const char *precision, int number) {
    tiny_run base;
    member_run alone[MEMBERS], packed[MEMBERS];
    pthread_t threads[MEMBERS];
    ft_pack *pack;
    make_base(&base, family, number);
    assert_int_equal(ft_pack_create(&pack), FT_OK);
    for (int i = 0; i < MEMBERS; i++) {
        alone[i] = packed[i] = (member_run){.base = &base, .precision = precision, .number = i};
        packed[i].pack = pack;
        snprintf(alone[i].dir, sizeof alone[i].dir, "%s/alone-%d", base.dir, i);
        snprintf(packed[i].dir, sizeof packed[i].dir, "%s/packed-%d", base.dir, i);
        train(&alone[i]);
        check_run(&alone[i]);
    }
    for (int i = 0; i < MEMBERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, train, &packed[i]), 0);
    for (int i = 0; i < MEMBERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    const ft_pack_counts counts = ft_pack_counted(pack);
    ft_pack_destroy(pack);
    for (int i = 0; i < MEMBERS; i++) {
        check_run(&packed[i]);
        assert_same_file(alone[i].dir, packed[i].dir, "adapter/adapter_model.safetensors");
        assert_same_file(alone[i].dir, packed[i].dir, "metrics.jsonl");
        assert_same_file(alone[i].dir, packed[i].dir, "predictions.jsonl");
        check_memory(&packed[i]);
    }
    assert_true(counts.products > 2 * counts.calls); // which only weights at one place do
}

static void runs_of_a_pack_have_the_bits_that_they_have_alone(void **state) {
    static const struct {
        const char *family, *precision;
    } cases[] = {{"bert", "fp32"}, {"deberta-v2", "fp32"}, {"roberta", "bf16"}, {"deberta-v2", "bf16"}, {"modernbert", "fp32"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!FT_SANITIZED || i < 3) compare(cases[i].family, cases[i].precision, (int)i);
}

static int open_scratch(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/ftengine-pack-XXXXXX");
    return mkdtemp(scratch) == NULL;
}
static int close_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_a_pack_have_the_bits_that_they_have_alone)};
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}

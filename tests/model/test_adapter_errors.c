// What cannot be with adapters and frozen models of few bits: one error each, that says what and where, with the nearest name where a name is wrong.
// Wrong: a rank that makes an adapter larger than its layer, a target that is passed over in silence, an adapter of another model that loads in
// part, a model of 4 bits whose weights would be trained.
#include "tests/fixtures/adapter_fixture.h"

#include "base/files.h"
#include "engine/model/spec/adapter_config.h"

#include <unistd.h>

typedef struct bad {
    const char *overrides[4];
    const char *where, *says, *hint; // hint NULL: of no matter
} bad;

#define LORA "adapter.type=lora"
static const bad options[] = {
    {{LORA, "adapter.targets=qeury, value"}, "adapter.targets", "no linear layer of this model is called qeury", "did you mean query?"},
    {{LORA, "adapter.targets=query, output.dens"}, "adapter.targets", "is called output.dens", "did you mean output.dense?"},
    {{LORA, "adapter.targets=all-linear", "adapter.exclude=valeu"}, "adapter.exclude", "is called valeu", "did you mean value?"},
    {{LORA, "adapter.targets=.*nothing.*"}, "adapter.targets", "is no linear layer of this model", "linear layers of this model are called"},
    {{LORA, "adapter.targets=.*(query"}, "adapter.targets", "is no regular expression", NULL},
    {{LORA, "adapter.exclude=.*(query"}, "adapter.exclude", "is no regular expression", NULL},
    {{LORA, "adapter.r=999"}, "adapter.r", "rank 999 is larger than a side of bert.encoder.layer.1.attention.self.", NULL},
    {{"adapter.type=dora", "adapter.r=999"}, "adapter.r", "rank 999 is larger than a side", NULL},
    {{LORA, "adapter.rank_pattern=value=999"}, "adapter.rank_pattern", "rank 999 is larger than a side of bert.encoder.layer.1.attention.self.value", NULL},
    {{LORA, "adapter.rank_pattern=value"}, "adapter.rank_pattern", "value is not NAME=NUMBER", NULL},
    {{LORA, "adapter.rank_pattern=value=0"}, "adapter.rank_pattern", "value=0 is not NAME=NUMBER, a number from 1", NULL},
    {{LORA, "adapter.alpha_pattern=value=0"}, "adapter.alpha_pattern", "value=0 is not NAME=NUMBER", NULL},
    {{LORA, "adapter.layers=0, 7"}, "adapter.layers", "there is no layer 7, the model has 2", NULL},
    {{LORA, "adapter.modules_to_save=.*pooler"}, "adapter.modules_to_save", "names, or the ends of names", NULL},
    {{LORA, "model.freeze_layers=1"}, "model.freeze_layers", "the model is frozen where there are adapters", "adapter.layers"},
    {{LORA, "model.freeze=encoder"}, "model.freeze", "the model is frozen where there are adapters", NULL},
    {{LORA, "train.parameters=biases"}, "train.parameters", "with an adapter it is auto or adapter, got biases", "adapter.modules_to_save"},
    {{"train.parameters=adapter"}, "train.parameters", "there is no adapter", NULL},
    {{"train.parameters=classifer"}, "train.parameters", "classifer", NULL},
    {{"model.storage=nf4"}, "model.storage", "nothing is frozen", "adapter.type=lora"},
    {{"model.storage=int8", "train.parameters=all"}, "model.storage", "nothing is frozen", NULL},
    {{LORA, "model.storage=bf16", "train.precision=fp16"}, "model.storage", "only that of the precision", NULL},
};

static void expect(const char *what, ft_status status, const bad *b) {
    if (status != FT_INVALID) fail_msg("%s: status %d", what, status);
    if (strstr(ft_error_where(), b->where) == NULL || strstr(ft_error_message(), b->says) == NULL) fail_msg("%s: \"%s\" (%s), expected \"%s\" (%s)", what, ft_error_message(), ft_error_where(), b->says, b->where);
    bool hinted = b->hint == NULL;
    for (int i = 0; i < ft_error_hint_count() && !hinted; i++) hinted = strstr(ft_error_hint(i), b->hint) != NULL;
    if (!hinted) fail_msg("%s: no hint says \"%s\"", what, b->hint);
    ft_error_clear();
}

static void test_options(void **state) {
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        fixture f = {0};
        int count = 0;
        while (count < 4 && options[i].overrides[count] != NULL) count++;
        OK(ft_config_load(&f.options, 0, NULL, count, options[i].overrides));
        OK(ft_cpu_open(1, NULL, &f.device));
        OK(ft_memory_create(f.device, 0, &f.memory));
        OK(ft_model_config_load(FT_TEST_VECTORS "/bert_gelu", &f.config));
        expect(options[i].overrides[count - 1], ft_model_create(f.memory, &f.config, &f.options, 2, &f.model), &options[i]);
        close_fixture(&f);
    }
    static const bad values[] = {{{"adapter.alpha=0"}, "adapter.alpha", "above 0", NULL},  {{"adapter.r=0"}, "adapter.r", "at least 1", NULL},
                                 {{"adapter.dropout=1"}, "adapter.dropout", "below 1", NULL}, {{"adapter.init=pissa"}, "adapter.init", "pissa", NULL},
                                 {{"adapter.type=loar"}, "adapter.type", "loar", "did you mean lora?"}, {{"adapter.dropout_mask=one"}, "adapter.dropout_mask", "each or shared", NULL},
                                 {{"model.storage=nf5"}, "model.storage", "nf5", NULL}, {{"adapter.lora_alpha=3"}, "", "unknown option", "called adapter.alpha here"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ft_config o;
        const ft_status status = ft_config_load(&o, 0, NULL, 1, values[i].overrides);
        if (strstr(ft_error_message(), values[i].where) == NULL) fail_msg("\"%s\" does not name %s", ft_error_message(), values[i].where);
        const bad without = {.where = "", .says = values[i].says, .hint = values[i].hint};
        expect(values[i].overrides[0], status, &without);
    }
}

// Adapters on a model that they were not trained on.
static void test_another_base(void **state) {
    static const struct {
        const char *adapter, *base, *says;
    } rows[] = {{"bert_qv", "roberta", "tensor base_model.model.classifier.out_proj.weight is missing"},
                {"roberta_all", "bert_gelu", "no linear layer of this model is called roberta.encoder.layer.1."},
                {"bert_layers", "bert_gelu", NULL}, // its own
                {"distilbert", "bert_gelu", "no linear layer of this model is called q_lin"},
                {"deberta_v3_qv", "deberta_v1", "no linear layer of this model is called"},
                {"bert_all", "electra", "no linear layer of this model is called bert.encoder.layer.1."}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f = {0};
        const char *of;
        char adapter[600], base[600];
        snprintf(adapter, sizeof adapter, "%s/adapters/%s", FT_TEST_VECTORS, rows[i].adapter);
        snprintf(base, sizeof base, "%s/%s", FT_TEST_VECTORS, rows[i].base);
        OK(ft_config_load(&f.options, 0, NULL, 0, NULL));
        OK(ft_adapter_config_load(adapter, &f.options, &of));
        OK(ft_cpu_open(1, NULL, &f.device));
        OK(ft_memory_create(f.device, 0, &f.memory));
        OK(ft_model_config_load(base, &f.config));
        ft_status status = ft_model_create(f.memory, &f.config, &f.options, (int32_t)f.config.num_labels, &f.model);
        ft_load_report report;
        f.model.ignore_mismatched_sizes = true;
        if (status == FT_OK) OK(ft_model_load(&f.model, base, 0.02, 1, &f.arena, &report));
        if (status == FT_OK) status = ft_model_load_adapter(&f.model, adapter);
        if (rows[i].says == NULL) OK(status);
        else expect(rows[i].adapter, status, &(bad){.where = "", .says = rows[i].says});
        close_fixture(&f);
    }
}

// adapter_config.json of somebody: what it says is looked at when it is read, for its words are compared with those of the options.
static void test_files(void **state) {
    static const struct {
        const char *rest, *says;
    } cases[] = {
        {"\"rank_pattern\": {\"%s\": 4}", "adapter.rank_pattern: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa... is too long"},
        {"\"alpha_pattern\": {\"%s\": 4}", "adapter.alpha_pattern: aaaa"},
        {"\"rank_pattern\": {\"a(\": 4}", "adapter.rank_pattern: a( is no regular expression"},
        {"\"rank_pattern\": {\"\": 4}", "is not NAME=NUMBER"},
        {"\"rank_pattern\": {\"query\": 1e300}", "is not NAME=NUMBER"},
        {"\"target_modules\": \"(query\"", "adapter.targets: ((query) is no regular expression"},
    };
    char dir[] = "/tmp/ft_adapter_XXXXXX", path[128], longest[3000];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char rest[4000], text[4200];
        const char *of;
        ft_config read;
        snprintf(rest, sizeof rest, cases[i].rest, longest);
        const int length = snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", %s}", rest);
        OK(ft_atomic_write(path, text, (size_t)length));
        OK(ft_config_defaults(&read));
        expect(cases[i].rest, ft_adapter_config_load(dir, &read, &of), &(bad){.where = "adapter_config.json", .says = cases[i].says});
        ft_config_free(&read);
    }
    OK(ft_remove_tree(dir));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_options), cmocka_unit_test(test_another_base)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

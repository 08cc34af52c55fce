// The built-in numbers of well-known models: every file is sound, its parameter count is the published one, and names
// are found the way that options hand them over.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "engine/hub/known_models.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>

// Parameters of the encoder, with the pooler where the family has one: what transformers' base class counts
// (tests/vectors/check_known_models.py), and what model cards and papers round.
static const struct {
    const char *name;
    int64_t parameters;
} published[] = {
    {"Alibaba-NLP/gte-modernbert-base", 149014272},
    {"Alibaba-NLP/gte-multilingual-base", 305368320},
    {"BAAI/bge-base-en-v1.5", 109482240},
    {"BAAI/bge-large-en-v1.5", 335141888},
    {"BAAI/bge-m3", 567754752},
    {"BAAI/bge-reranker-base", 278043648},
    {"BAAI/bge-reranker-large", 559890432},
    {"BAAI/bge-reranker-v2-m3", 567754752},
    {"BAAI/bge-small-en-v1.5", 33360000},
    {"EuroBERT/EuroBERT-2.1B", 2107590912},
    {"EuroBERT/EuroBERT-210m", 211766016},
    {"EuroBERT/EuroBERT-610m", 607874688},
    {"Qwen/Qwen2.5-0.5B", 494032768}, // less the head of a language model, where that has a weight of its own
    {"Qwen/Qwen2.5-1.5B", 1543714304},
    {"Qwen/Qwen2.5-3B", 3085938688},
    {"Qwen/Qwen2.5-7B", 7070619136},
    {"albert/albert-base-v2", 11683584},
    {"albert/albert-large-v2", 17683968},
    {"albert/albert-xlarge-v2", 58724864},
    {"albert/albert-xxlarge-v2", 222595584},
    {"almanach/camembert-base", 110621952},
    {"almanach/camembert-large", 336661504},
    {"answerdotai/ModernBERT-base", 149014272},
    {"answerdotai/ModernBERT-large", 394781696},
    {"bert-base-cased", 108310272},
    {"bert-base-multilingual-cased", 177853440},
    {"bert-base-uncased", 109482240},
    {"bert-large-cased", 333579264},
    {"bert-large-uncased", 335141888},
    {"distilbert-base-cased", 65190912},
    {"distilbert-base-uncased", 66362880},
    {"distilroberta-base", 82118400},
    {"facebook/data2vec-text-base", 124645632},
    {"facebook/deit-base-distilled-patch16-224", 85800192}, // of pictures: less the pooler, which no classifier has, and what hides patches
    {"facebook/deit-base-patch16-224", 85798656},
    {"facebook/deit-small-patch16-224", 21665664},
    {"facebook/deit-tiny-patch16-224", 5524416},
    {"facebook/dinov2-base", 86579712},
    {"facebook/dinov2-large", 304367616},
    {"facebook/dinov2-small", 22056192},
    {"facebook/xlm-roberta-xl", 3482485760},
    {"facebook/xlm-roberta-xxl", 10712735744},
    {"google/electra-base-discriminator", 108891648},
    {"google/electra-base-generator", 33511168},
    {"google/electra-large-discriminator", 334092288},
    {"google/electra-large-generator", 50999552},
    {"google/electra-small-discriminator", 13483008},
    {"google/electra-small-generator", 13483008},
    {"google/rembert", 575920384},
    {"google/vit-base-patch16-224", 85798656},
    {"google/vit-base-patch16-224-in21k", 85798656},
    {"google/vit-base-patch16-384", 86090496},
    {"google/vit-base-patch32-224-in21k", 87455232},
    {"google/vit-large-patch16-224", 303301632},
    {"google/vit-large-patch16-224-in21k", 303301632},
    {"intfloat/e5-base-v2", 109482240},
    {"intfloat/e5-large-v2", 335141888},
    {"intfloat/e5-small-v2", 33360000},
    {"intfloat/multilingual-e5-base", 278043648},
    {"intfloat/multilingual-e5-large", 559890432},
    {"intfloat/multilingual-e5-small", 117653760},
    {"jhu-clsp/mmBERT-base", 306939648},
    {"jhu-clsp/mmBERT-small", 140493696},
    {"meta-llama/Llama-3.1-8B", 7504924672},
    {"microsoft/MiniLM-L12-H384-uncased", 33360000},
    {"microsoft/deberta-base", 138601728},
    {"microsoft/deberta-large", 405163008},
    {"microsoft/deberta-v2-xlarge", 884593152},
    {"microsoft/deberta-v2-xxlarge", 1564549632},
    {"microsoft/deberta-v3-base", 183831552},
    {"microsoft/deberta-v3-large", 434012160},
    {"microsoft/deberta-v3-small", 141304320},
    {"microsoft/deberta-v3-xsmall", 70682112},
    {"microsoft/mdeberta-v3-base", 278218752},
    {"microsoft/mpnet-base", 109486464},
    {"nomic-ai/nomic-embed-text-v1", 136731648},
    {"nomic-ai/nomic-embed-text-v1.5", 136731648},
    {"prajjwal1/bert-medium", 41373184},
    {"prajjwal1/bert-mini", 11170560},
    {"prajjwal1/bert-small", 28763648},
    {"prajjwal1/bert-tiny", 4385920},
    {"roberta-base", 124645632},
    {"roberta-large", 355359744},
    {"sentence-transformers/all-MiniLM-L12-v2", 33360000},
    {"sentence-transformers/all-MiniLM-L6-v2", 22713216},
    {"sentence-transformers/all-mpnet-base-v2", 109486464},
    {"sentence-transformers/paraphrase-MiniLM-L6-v2", 22713216},
    {"sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", 117653760},
    {"thenlper/gte-base", 109482240},
    {"thenlper/gte-large", 335141888},
    {"thenlper/gte-small", 33360000},
    {"xlm-roberta-base", 278043648},
    {"xlm-roberta-large", 559890432},
};
enum { PUBLISHED = sizeof published / sizeof published[0] };

static json_t *parse(const ft_known_model *model) {
    json_t *json;
    if (ft_json_parse(model->json, strlen(model->json), model->name, &json) != FT_OK)
        fail_msg("%s: %s (%s)", model->name, ft_error_message(), ft_error_where());
    return json;
}

// What the engine itself registers, less the classifier of two classes.
static int64_t count_by_engine(const char *name) {
    ft_device *device;
    ft_memory *memory;
    ft_model_config config;
    ft_config options;
    ft_model model = {0};
    assert_int_equal(ft_plan_open("cpu", ft_cpu_target(1), SIZE_MAX / 4, &device), FT_OK);
    assert_int_equal(ft_memory_create(device, 0, &memory), FT_OK);
    assert_int_equal(ft_config_load(&options, 0, NULL, 0, NULL), FT_OK);
    if (ft_model_config_load(name, &config) != FT_OK || ft_model_create(memory, &config, &options, 2, &model) != FT_OK)
        fail_msg("%s: %s (%s)", name, ft_error_message(), ft_error_where());
    int64_t count = model.parameters.real_total - 2 * model.hidden - 2;
    if (config.family->first_and_mean) count -= 2 * model.hidden; // whose classifier reads two rows
    if (config.family->causal) count += 2; // whose classifier has no bias, and nothing in front
    // RoBERTa's base class has a pooler of the size of the layer that stands in the head; these have none.
    bool no_pooler = config.family->rotary != FT_ROTARY_BY_LAYER || strcmp(config.model_type, "distilbert") == 0 || strcmp(config.model_type, "electra") == 0 ||
                     strncmp(config.model_type, "deberta", strlen("deberta")) == 0;
    if (no_pooler && !config.family->causal) count -= model.hidden * model.hidden + model.hidden;
    // ModernBERT's layer in the head, without a bias, and the norm behind it.
    if (strcmp(config.model_type, "modernbert") == 0) count -= model.hidden * model.hidden + model.hidden;
    ft_model_free(&model);
    assert_int_equal(ft_memory_destroy(memory), FT_OK);
    ft_device_close(device);
    ft_model_config_free(&config);
    ft_config_free(&options);
    return count;
}

static void test_parameter_counts(void **state) {
    (void)state;
    assert_int_equal(ft_known_model_count(), PUBLISHED);
    for (int i = 0; i < PUBLISHED; i++) {
        const ft_known_model *model = ft_known_model_find(published[i].name);
        if (model == NULL) fail_msg("%s is not built in", published[i].name);
        int64_t found = count_by_engine(model->name);
        if (found != published[i].parameters)
            fail_msg("%s: %lld parameters, published are %lld", model->name, (long long)found,
                     (long long)published[i].parameters);
    }
}

// Where the numbers come from is said, and a revision is a whole commit or honestly unknown.
static void test_sources(void **state) {
    (void)state;
    int revisions = 0;
    for (int i = 0; i < ft_known_model_count(); i++) {
        const ft_known_model *model = ft_known_model_at(i);
        json_t *json = parse(model);
        const char *source = json_string_value(json_object_get(json, "_source"));
        if (source == NULL || strstr(source, model->name) == NULL)
            fail_msg("%s: its _source does not name it", model->name);
        const json_t *revision = json_object_get(json, "_revision");
        if (revision == NULL) fail_msg("%s has no _revision", model->name);
        if (!json_is_null(revision)) {
            const char *text = json_string_value(revision);
            if (text == NULL || strlen(text) != 40 || strspn(text, "0123456789abcdef") != 40)
                fail_msg("%s: _revision is no commit", model->name);
            revisions++;
        }
        json_decref(json);
    }
    assert_true(revisions >= 15); // those of configs/models/README.md
}

static void finds(const char *path, const char *name) {
    const ft_known_model *found = ft_known_model_find(path);
    const char *got = found != NULL ? found->name : "(none)", *want = name != NULL ? name : "(none)";
    if (strcmp(got, want) != 0) fail_msg("%s is taken for %s, not for %s", path, got, want);
}

static void test_names(void **state) {
    (void)state;
    finds("bert-base-uncased", "bert-base-uncased");
    finds("/some/where/bert-base-uncased", "bert-base-uncased");
    finds("/some/where/google-bert/bert-base-uncased", "bert-base-uncased");
    finds("microsoft/deberta-v3-base", "microsoft/deberta-v3-base");
    finds("/some/where/microsoft/deberta-v3-base", "microsoft/deberta-v3-base");
    finds("/models/deberta-v3-base", "microsoft/deberta-v3-base"); // nobody else has a model of this name
    finds("/models/my-bert-base-uncased", NULL);
    finds("base-uncased", NULL);
    finds("/some/where/bert-base-uncased/old", NULL);
    finds("", NULL);
    assert_string_equal(ft_known_model_nearest("/here/bert-base-uncaesd"), "bert-base-uncased");
    assert_string_equal(ft_known_model_nearest("/here/microsoft/deberta-v3-bse"), "microsoft/deberta-v3-base");
    assert_null(ft_known_model_nearest("/here/a-model-of-our-own"));
}

static void test_loading(void **state) {
    (void)state;
    ft_model_config config;
    assert_int_equal(ft_model_config_load("/no/such/place/bert-large-cased", &config), FT_OK);
    assert_int_equal(config.num_hidden_layers, 24);
    assert_int_equal(config.num_labels, 2);
    ft_model_config_free(&config);

    assert_int_equal(ft_model_config_load("/no/such/place/bert-lrage-cased", &config), FT_INVALID);
    assert_string_equal(ft_error_hint(0), "did you mean bert-large-cased?");
    // What exists is never replaced by built-in numbers.
    char directory[] = "/tmp/known_models_XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/bert-base-cased", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(ft_model_config_load(path, &config), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "this is a file"));
    remove(path);
    remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameter_counts),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

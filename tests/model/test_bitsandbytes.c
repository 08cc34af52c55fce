// Models that bitsandbytes quantised (tests/vectors/quantised): their logits whatever form is kept, the file's own bytes where model.storage is
// the file's form, the same bytes written again, and one error for each way in which such a file can be damaged. Wrong: bytes that were
// made anew (double scales differ then), high and low codes changed, scales of another matrix, a part taken for a tensor of the model.
#include "tests/fixtures/model_fixture.h"

#include "base/files.h"
#include "engine/files/bitsandbytes.h"
#include "engine/files/weights.h"
#include "engine/model/quantised_files.h"
#include "engine/model/state/kept.h"

#include <unistd.h>

static const struct {
    const char *name, *storage;
    ft_quantisation format;
    bool written_alike; // scales of 8 bits are made of scales that were of 8 bits: others
} forms[] = {{"nf4", "model.storage=nf4", FT_NF4, true},
             {"nf4_double", "model.storage=nf4_double", FT_NF4_DOUBLE, false},
             {"int8", "model.storage=int8", FT_INT8, true},
             {"fp4", NULL, FT_QUANTISATIONS, false}};
enum { FORMS = sizeof forms / sizeof forms[0] };

static const char *directory_of(int form) {
    static char path[600];
    snprintf(path, sizeof path, "%s/quantised/%s", FT_TEST_VECTORS, forms[form].name);
    return path;
}

static void open_form(fixture *f, int form, const char *const *overrides) {
    char name[64];
    snprintf(name, sizeof name, "quantised/%s", forms[form].name);
    open_fixture(f, name, 2, NULL, overrides);
}

static void check_logits(const fixture *of, fixture *f, const char *what, double tolerance) {
    int64_t n;
    float *want = expected(of, "logits", &n), *got = calloc((size_t)n, sizeof *got);
    OK(predict_fixture(f, (ft_batch_limits){0, 2}, got));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance)) fail_msg("%s: logit %d is %.9g, expected %.9g", what, (int)i, (double)got[i], (double)want[i]);
    free(want), free(got);
}

// Every kept matrix holds the bytes of the file. Returns how many there are.
static int check_bytes(const fixture *f, int form) {
    ft_weights *w;
    int kept = 0;
    OK(ft_weights_open(directory_of(form), &w));
    for (int i = 0; i < f->model.parameters.count; i++) {
        const ft_parameter *q = &f->model.parameters.list[i];
        if (!q->kept) continue;
        const ft_packed *p = ft_weights_packed(w, ft_weights_find(w, q->name));
        const ft_quantised_layout l = ft_quantised_layout_of(forms[form].format, q->rows, q->cols);
        const char *bytes = ft_parameter_weight(&f->model.parameters, i).data;
        assert_non_null(p);
        assert_memory_equal(bytes + l.codes, p->codes, ft_quantised_code_bytes(forms[form].format, q->count));
        assert_memory_equal(bytes + l.scales, p->scales, (size_t)l.scale_count * (p->nested ? 1 : sizeof(float)));
        if (p->nested) {
            assert_memory_equal(bytes + l.groups, p->groups, (size_t)l.group_count * sizeof(float));
            assert_memory_equal(bytes + l.map, p->map, FT_NF4_MAP * sizeof(float));
            assert_memory_equal(bytes + l.mean, &p->mean, sizeof p->mean);
        }
        kept++;
    }
    ft_weights_close(w);
    return kept;
}

static void test_bytes_and_logits(void **state) {
    for (int i = 0; i < FORMS; i++) {
        const char *keeps[] = {"train.parameters=classifier", forms[i].storage, NULL};
        fixture f;
        open_form(&f, i, NULL); // as numbers
        check_logits(&f, &f, forms[i].name, 1e-5);
        close_fixture(&f);
        if (forms[i].storage == NULL) continue;
        open_form(&f, i, keeps);
        check_logits(&f, &f, forms[i].storage, 1e-5);
        assert_int_equal(check_bytes(&f, i), 6);
        close_fixture(&f);
    }
    const char *other[] = {"train.parameters=classifier", "model.storage=int8", NULL};
    fixture f;
    open_form(&f, 3, other); // made anew of the numbers
    check_logits(&f, &f, "fp4 as int8", 0.3);
    close_fixture(&f);
}

// Rows of a file that stand elsewhere here: blocks of scales must stay whole, or the bytes are not taken.
static void test_rows_in_another_order(void **state) {
    static const struct {
        int heads;
        bool swapped;
        int64_t rows, cols;
        bool takes[3]; // nf4, nf4_double, int8
    } cases[] = {{0, false, 6, 7, {true, true, true}},      {2, false, 12, 32, {true, false, true}},     {2, false, 12, 16, {false, false, true}},
                 {2, false, 1536, 64, {true, true, true}}, {0, true, 4, 96, {true, false, true}},      {0, true, 2, 40, {false, false, true}},
                 {0, true, 512, 64, {true, true, true}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 3; k++) {
            ft_parameter q = {.name = "w", .rows = cases[i].rows, .cols = cases[i].cols, .count = cases[i].rows * cases[i].cols, .heads = cases[i].heads,
                              .swapped = cases[i].swapped, .kept = true};
            ft_parameters p = {.list = &q, .count = 1, .storage = {FT_STORAGE_QUANTISED, .format = (ft_quantisation)k}};
            ft_packed packed = {.type = k == FT_INT8 ? "int8" : "nf4", .nested = k == FT_NF4_DOUBLE, .rows = q.rows, .cols = q.cols};
            memcpy(packed.values, ft_nf4_values, sizeof packed.values);
            if (ft_kept_takes(&p, 0, &packed) != cases[i].takes[k]) fail_msg("case %zu, format %d", i, k);
            packed.values[3] += 1e-3f;
            assert_true(!ft_kept_takes(&p, 0, &packed) || k == FT_INT8);
        }
}

// What stands in a written file is what transformers wrote, tensor by tensor, but for the classifier and the pooler, which keep their numbers.
static void check_written(int form, const char *dir) {
    char path[700];
    ft_safetensors *ours, *theirs;
    int compared = 0;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    OK(ft_safetensors_open(path, &ours));
    snprintf(path, sizeof path, "%s/model.safetensors", directory_of(form));
    OK(ft_safetensors_open(path, &theirs));
    for (int i = 0; i < ft_safetensors_count(ours); i++) {
        const ft_safetensor *a = ft_safetensors_at(ours, i), *b = ft_safetensors_find(theirs, a->name);
        if (strncmp(a->name, "classifier.weight", 17) == 0 || strncmp(a->name, "bert.pooler.dense.weight", 24) == 0) continue;
        if (b == NULL) fail_msg("%s: %s is none of transformers' tensors", forms[form].name, a->name);
        assert_string_equal(a->dtype_name, b->dtype_name);
        assert_int_equal(a->rank, b->rank);
        if (strstr(a->name, "quant_state") != NULL) continue; // text
        assert_int_equal(a->bytes, b->bytes);
        if (!forms[form].written_alike && (strstr(a->name, "absmax") != NULL || strstr(a->name, "nested_quant_map") != NULL)) continue; // quantised.c
        if (memcmp(a->data, b->data, a->bytes) != 0) fail_msg("%s: %s differs", forms[form].name, a->name);
        compared++;
    }
    assert_true(compared > 20);
    ft_safetensors_close(ours);
    ft_safetensors_close(theirs);
}

static void test_written(void **state) {
    char dir[] = "/tmp/ft_bitsandbytes_XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    for (int i = 0; i < FORMS - 1; i++) {
        fixture f, again = {0};
        open_form(&f, i, NULL);
        OK(ft_model_save_quantised(&f.model, forms[i].format, dir));
        OK(ft_model_set_quantised(&f.model, forms[i].format, &f.config));
        OK(ft_model_config_save(&f.config, path, 3, f.config.label_names, 0.1, 0.1, 0.1, NULL, "single_label_classification"));
        check_written(i, dir);
        OK(ft_model_config_load(dir, &again.config)); // and it opens
        const json_t *said = json_object_get(again.config.json, "quantization_config");
        assert_int_equal(json_is_true(json_object_get(said, "load_in_8bit")), forms[i].format == FT_INT8);
        assert_int_equal(json_is_true(json_object_get(said, "bnb_4bit_use_double_quant")), forms[i].format == FT_NF4_DOUBLE);
        assert_int_equal(json_array_size(json_object_get(said, "llm_int8_skip_modules")), 2);
        ft_model_config_free(&again.config);
        ft_load_report report;
        OK(ft_model_load(&f.model, dir, 0.02, 1, &f.arena, &report));
        assert_int_equal(report.drawn_count + report.ignored_count, 0);
        check_logits(&f, &f, "written", forms[i].written_alike ? 1e-5 : 0.02);
        close_fixture(&f);
    }
    OK(ft_remove_tree(dir));
}

// ---- damaged files ----------------------------------------------------------------------------------------------------------------

typedef struct damage {
    const char *form, *tensor, *change, *says;
} damage;

enum { MOST = 128 };

// Writes the form's file with one tensor changed: "-": left out; "name=X": called so; "cut": without its last row; "nan": begins with one;
// else the two words "FROM>TO" in its text, of one length.
static void write_damaged(const damage *d, const char *dir) {
    char path[700], names[MOST][320];
    ft_safetensors *file;
    ft_safetensor tensors[MOST];
    snprintf(path, sizeof path, "%s/quantised/%s/model.safetensors", FT_TEST_VECTORS, d->form);
    OK(ft_safetensors_open(path, &file));
    int count = 0, hits = 0;
    char *changed = NULL;
    for (int i = 0; i < ft_safetensors_count(file); i++) {
        ft_safetensor t = *ft_safetensors_at(file, i);
        if (strcmp(t.name, d->tensor) == 0) {
            hits++;
            if (strcmp(d->change, "-") == 0) continue;
            changed = malloc(t.bytes + 1);
            memcpy(changed, t.data, t.bytes);
            changed[t.bytes] = '\0';
            t.data = changed;
            const char *to = strchr(d->change, '>');
            if (strncmp(d->change, "name=", 5) == 0) t.name = d->change + 5;
            else if (strcmp(d->change, "cut") == 0) t.bytes -= t.bytes / (size_t)t.shape[0], t.shape[0]--;
            else if (strcmp(d->change, "nan") == 0) memset(changed, 0xff, 4);
            else if (strcmp(d->change, "one") == 0) changed[0] = 1;
            else {
                char from[64];
                snprintf(from, sizeof from, "%.*s", (int)(to - d->change), d->change);
                char *at = strstr(changed, from);
                assert_non_null(at);
                memcpy(at, to + 1, strlen(to + 1));
            }
        }
        snprintf(names[count], sizeof names[count], "%s", t.name);
        t.name = names[count];
        tensors[count++] = t;
    }
    assert_int_equal(hits, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    OK(ft_safetensors_write(out, path, count, tensors, NULL));
    assert_int_equal(fclose(out), 0);
    free(changed);
    ft_safetensors_close(file);
}

static void test_damaged(void **state) {
#define QUERY "bert.encoder.layer.0.attention.self.query"
#define STATE ".weight.quant_state.bitsandbytes__"
    static const damage cases[] = {
        {"nf4", QUERY ".weight.absmax", "-", "tensor " QUERY ".weight.absmax is missing"},
        {"nf4", QUERY ".weight.quant_map", "-", "quant_map is missing"},
        {"nf4", QUERY STATE "nf4", "-", "bitsandbytes__nf4 is missing"},
        {"nf4", QUERY STATE "nf4", "name=" QUERY STATE "nf5", "the quant_type \"nf5\" of bitsandbytes is not known"},
        {"nf4", QUERY STATE "nf4", "\"nf4\">\"nf3\"", "the quant_type \"nf3\" of bitsandbytes is not known"},
        {"nf4", QUERY STATE "nf4", "64,>32,", "a scale for 32 numbers, only those for 64 are read"},
        {"nf4", QUERY STATE "nf4", "[64, 64]>[64, 32]", "holds 2048 bytes, [64, 32] in 4 bits has 1024"},
        {"nf4", QUERY STATE "nf4", "[64, 64]>[32,128]", "has shape [32, 128], the model needs [64, 64]"},
        {"nf4", QUERY STATE "nf4", "[64, 64]>[4096  ]", "\"shape\" must be two sizes"},
        {"nf4", QUERY STATE "nf4", "{>[", "quant_state"},
        {"nf4", QUERY ".weight.absmax", "cut", "F32 of 63 elements, " QUERY ".weight needs F32 of 64"},
        {"nf4", QUERY ".weight.absmax", "nan", "not finite"},
        {"nf4", QUERY ".weight", "cut", "holds 2047 bytes"},
        {"nf4_double", QUERY ".weight.nested_absmax", "-", "nested_absmax is missing"},
        {"nf4_double", QUERY ".weight.nested_quant_map", "cut", "of 255 elements"},
        {"nf4_double", QUERY STATE "nf4", "256,>512,", "a scale for 512 scales, only those for 256 are read"},
        {"nf4_double", QUERY ".weight.nested_absmax", "nan", "not finite"},
        {"int8", QUERY ".SCB", "-", "tensor " QUERY ".SCB is missing"},
        {"int8", QUERY ".SCB", "cut", "F32 of 63 elements"},
        {"int8", QUERY ".SCB", "nan", "not finite"},
        {"int8", QUERY ".weight_format", "one", "weight_format is 1: the codes"},
    };
    char dir[] = "/tmp/ft_bitsandbytes_XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (int keeps = 0; keeps < 2; keeps++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            char storage[64];
            snprintf(storage, sizeof storage, "model.storage=%s", cases[i].form);
            const char *overrides[] = {"train.parameters=classifier", keeps ? storage : NULL, NULL};
            char name[64];
            snprintf(name, sizeof name, "quantised/%s", cases[i].form);
            fixture f;
            open_fixture(&f, name, 1, NULL, overrides);
            write_damaged(&cases[i], dir);
            ft_load_report report;
            const ft_status status = ft_model_load(&f.model, dir, 0.02, 1, &f.arena, &report);
            if (status != FT_INVALID) fail_msg("%s of %s: status %d", cases[i].change, cases[i].tensor, status);
            if (strstr(ft_error_message(), cases[i].says) == NULL && strstr(ft_error_where(), cases[i].says) == NULL)
                fail_msg("%s of %s: \"%s\" (%s) does not say \"%s\"", cases[i].change, cases[i].tensor, ft_error_message(), ft_error_where(), cases[i].says);
            ft_error_clear();
            close_fixture(&f);
        }
    OK(ft_remove_tree(dir));
    ft_model_config c;
    static const char other[] = "{\"model_type\": \"bert\", \"vocab_size\": 9, \"quantization_config\": {\"quant_method\": \"gptq\"}}";
    assert_int_equal(ft_model_config_parse(other, strlen(other), "config.json", &c), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "quant_method \"gptq\" cannot be read"));
    ft_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes_and_logits), cmocka_unit_test(test_rows_in_another_order), cmocka_unit_test(test_written),
                                       cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

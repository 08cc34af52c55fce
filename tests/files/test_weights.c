// Weights of a directory: the same tensors from every form in which people have them, and indexes that lie are refused.
#include "base/files.h"
#include "engine/files/weights.h"
#include "torch_archive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TORCH FT_TEST_VECTORS "/torch_files/"
#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

static char directory[64];

static int set_up(void **state) {
    strcpy(directory, "/tmp/test_weights_XXXXXX");
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int tear_down(void **state) { return ft_remove_tree(directory) == FT_OK ? 0 : -1; }

static const char *inside(const char *name) {
    static char path[2][256];
    static int next;
    next = !next;
    snprintf(path[next], sizeof path[next], "%s/%s", directory, name);
    return path[next];
}

static void put(const char *name, const char *from) { OK(ft_copy_file(from, inside(name))); }
static void text(const char *name, const char *content) { OK(ft_atomic_write(inside(name), content, strlen(content))); }
static void drop(const char *name) { assert_int_equal(unlink(inside(name)), 0); }

// The tensor of this name comes from this file and is the one that was saved.
static void check(const ft_weights *w, const char *name, const char *file) {
    ft_safetensors *expect;
    OK(ft_safetensors_open(TORCH "expect.safetensors", &expect));
    const ft_safetensor *want = ft_safetensors_find(expect, name);
    int found = ft_weights_find(w, name);
    assert_true(found >= 0 && want != NULL);
    assert_string_equal(ft_weights_at(w, found)->name, name);
    assert_string_equal(ft_weights_path(w, found), inside(file));
    int64_t n = (int64_t)(want->bytes / sizeof(float));
    float *a = calloc((size_t)n + 1, sizeof *a), *b = calloc((size_t)n + 1, sizeof *b);
    OK(ft_safetensor_to_f32(expect, want, a, n));
    OK(ft_weights_part_to_f32(w, found, 0, n, b));
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    free(a);
    free(b);
    ft_safetensors_close(expect);
}

static ft_weights *opened(int count, const char *list) {
    ft_weights *w;
    OK(ft_weights_open(directory, &w));
    assert_int_equal(ft_weights_count(w), count);
    assert_string_equal(ft_weights_list_path(w), inside(list));
    for (int i = 1; i < count; i++)
        assert_true(strcmp(ft_weights_at(w, i - 1)->name, ft_weights_at(w, i)->name) < 0);
    assert_int_equal(ft_weights_find(w, "no such tensor"), -1);
    return w;
}

static void refused(const char *what, const char *where) {
    ft_weights *w = (ft_weights *)&w;
    assert_int_equal(ft_weights_open(directory, &w), FT_INVALID);
    assert_null(w);
    if (strstr(ft_error_message(), what) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), what);
    if (strstr(ft_error_where(), where) == NULL) fail_msg("\"%s\" does not name \"%s\"", ft_error_where(), where);
}

// From the least wanted form to the most wanted one: each is taken as soon as it is there.
static bool weights_are_there(void) {
    bool found;
    assert_int_equal(ft_weights_exist(directory, &found), FT_OK);
    return found;
}

static void test_forms(void **state) {
    assert_false(weights_are_there());
    refused("no weights", directory);
    text("tf_model.h5", "");
    refused("no weights", directory);
    assert_non_null(strstr(ft_error_hint(0), "tf_model.h5 cannot be read"));

    put("a.bin", TORCH "plain.bin");
    put("b.bin", TORCH "legacy.bin");
    text("pytorch_model.bin.index.json",
         "{\"weight_map\": {\"weight\": \"a.bin\", \"cut\": \"b.bin\", \"f16\": \"b.bin\", \"bias\": \"a.bin\"}}");
    assert_true(weights_are_there());
    ft_weights *w = opened(4, "pytorch_model.bin.index.json");
    check(w, "weight", "a.bin"), check(w, "bias", "a.bin"), check(w, "cut", "b.bin"), check(w, "f16", "b.bin");
    ft_weights_close(w);

    put("pytorch_model.bin", TORCH "views.bin");
    w = opened(18, "pytorch_model.bin");
    check(w, "transposed", "pytorch_model.bin");
    ft_weights_close(w);

    put("one.safetensors", TORCH "expect.safetensors");
    text("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {\"row\": \"one.safetensors\"}}");
    w = opened(1, "model.safetensors.index.json");
    check(w, "row", "one.safetensors");
    ft_weights_close(w);

    put("model.safetensors", TORCH "expect.safetensors");
    w = opened(14, "model.safetensors");
    check(w, "row", "model.safetensors");
    ft_weights_close(w);
}

static void test_hostile_indexes(void **state) {
    drop("model.safetensors");
#define INDEX "model.safetensors.index.json"
    static const struct {
        const char *index, *what, *where;
    } wrong[] = {
        {"{", "", INDEX ":1"},
        {"[]", "\"weight_map\" must be an object", INDEX},
        {"{\"weight_map\": []}", "\"weight_map\" must be an object", INDEX},
        {"{\"weight_map\": {\"row\": 1}}", "must be the name of a file", INDEX},
        {"{\"weight_map\": {\"row\": \"\"}}", "not the name of a file beside the index", INDEX},
        {"{\"weight_map\": {\"row\": \"../one.safetensors\"}}", "not the name of a file beside the index", INDEX},
        {"{\"weight_map\": {\"row\": \"/etc/passwd\"}}", "not the name of a file beside the index", INDEX},
        {"{\"weight_map\": {\"row\": \"..\"}}", "not the name of a file beside the index", INDEX},
        {"{\"weight_map\": {\"row\": \"two.safetensors\"}}", "", "two.safetensors"},
        {"{\"weight_map\": {\"row\": \"a.bin\"}}", "not a safetensors file", "a.bin"},
        {"{\"weight_map\": {\"now\": \"one.safetensors\"}}", "tensor now is missing, which the index places here",
         "one.safetensors"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        text(INDEX, wrong[i].index);
        refused(wrong[i].what, wrong[i].where);
    }
    text(INDEX, "{\"weight_map\": {}}");
    ft_weights_close(opened(0, INDEX));
}

// Matrices of bitsandbytes in a file of torch.save, whose tensors may be views: of one byte as many as they say. Read as they lie they
// would reach behind the file.
#define TEXT(name, length) "X" length "\x00\x00\x00" name
#define VIEW(type, elements, shape, strides)                                                                                                     \
    "ctorch._utils\n_rebuild_tensor_v2\n((" TEXT("storage", "\x07") "ctorch\n" type "\n" TEXT("0", "\x01") TEXT("cpu", "\x03") elements            \
    "tQK\x00" shape strides "\x89}tR"
#define PICKLE(first, second) "\x80\x02}(" first second "u."
#define STATE "w.weight.quant_state.bitsandbytes__nf4"

static void test_packed_views(void **state) {
    static const char sixteen[16] = "{}";
#define ROW(literal, what) {literal, sizeof literal - 1, what}
    static const struct {
        const char *pickle;
        size_t size;
        const char *what;
    } cases[] = {
        ROW(PICKLE(TEXT("w.weight", "\x08") VIEW("CharStorage", "K\x10", "K\x04M\x00\x10\x86", "K\x00K\x00\x86"),
                   TEXT("w.SCB", "\x05") VIEW("FloatStorage", "K\x04", "K\x04\x85", "K\x01\x85")),
            "tensor w.weight is a view of other data"),
        ROW(PICKLE(TEXT("w.weight", "\x08") VIEW("CharStorage", "K\x10", "K\x04K\x02\x86", "K\x01K\x04\x86"), // the other way round
                   TEXT("w.SCB", "\x05") VIEW("FloatStorage", "K\x04", "K\x04\x85", "K\x01\x85")),
            "tensor w.weight is a view of other data"),
        ROW(PICKLE(TEXT("w.weight", "\x08") VIEW("ByteStorage", "K\x10", "K\x08K\x01\x86", "K\x01K\x01\x86"),
                   TEXT(STATE, "\x26") VIEW("ByteStorage", "K\x10", "J\x00\x00\x00\x10\x85", "K\x00\x85")),
            "tensor " STATE " is a view of other data"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const archive_entry entries[] = {{"a/data.pkl", cases[i].pickle, cases[i].size, 0, 0}, {"a/data/0", sixteen, 16, 0, 0}};
        write_archive(inside("pytorch_model.bin"), entries, 2);
        refused(cases[i].what, "pytorch_model.bin");
    }
    drop("pytorch_model.bin");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed_views), cmocka_unit_test(test_forms), cmocka_unit_test(test_hostile_indexes)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

// Texts to go on with, prompts with completions and chats as a data set, against TRL and transformers
// (tests/vectors/language/make_language_vectors.py): ids, which tokens are learned, and at which rows; and every way a file can
// be wrong; what is found in the token cache, and what is not believed there.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "engine/data/batch.h"
#include "engine/data/input.h"
#include "engine/data/token_cache.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTORS FT_TEST_VECTORS "/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const ft_labels LABELS = {.count = 2000, .kind = FT_LABELS_NEXT_TOKENS};

static ft_status open_input(const char *model, const char *template, bool all, bool tail, ft_input *input) {
    char directory[512], file[512];
    snprintf(directory, sizeof directory, VECTORS "decoder_tokenizers/%s", model);
    snprintf(file, sizeof file, VECTORS "chat/%s", template != NULL ? template : "");
    return ft_input_open(
        &ft_language_input,
        &(ft_input_request){
            .directory = directory, .truncation = tail ? "tail" : "head", .learn_all = all, .chat_template = template != NULL ? file : NULL},
        input);
}

// The data set of a text of JSON lines.
static ft_status build(const ft_input *input, const char *text, const char *name, int max_length, ft_dataset *data) {
    ft_table table;
    char *copy = malloc(strlen(text) + 2);
    assert_non_null(copy);
    strcpy(copy, text);
    ft_error_clear();
    *data = (ft_dataset){0};
    FT_TRY(ft_table_parse(copy, strlen(copy), SIZE_MAX / 4, name, &(ft_table_request){.text = "", .language = true}, &table));
    const ft_status status =
        ft_input_build(input, &(ft_input_wanted){.table = &table, .path = name, .max_length = max_length, .labels = &LABELS}, data, NULL);
    ft_table_free(&table);
    return status;
}

static bool same(const json_t *list, const int32_t *numbers, int64_t count, int32_t more) {
    if ((int64_t)json_array_size(list) != count) return false;
    for (int64_t i = 0; i < count; i++)
        if (json_integer_value(json_array_get(list, (size_t)i)) != numbers[i] + more) return false;
    return true;
}

static void print_ids(const char *name, const int32_t *ids, int64_t count, int32_t more) {
    print_error("  %s:", name);
    for (int64_t i = 0; i < count; i++)
        print_error(" %d", ids[i] + more);
    print_error("\n");
}

static bool run_case(const json_t *one) {
    const json_t *learned = json_object_get(one, "learned");
    ft_input input;
    ft_dataset d;
    char *row = json_dumps(json_object_get(one, "row"), JSON_COMPACT);
    assert_int_equal(open_input(json_string_value(json_object_get(one, "model")), json_string_value(json_object_get(one, "template")),
                                json_is_true(json_object_get(one, "all")), json_is_true(json_object_get(one, "tail")), &input),
                     FT_OK);
    ft_status status = build(&input, row, "rows.jsonl", (int)json_integer_value(json_object_get(one, "max_length")), &d);
    bool good = status == FT_OK;
    if (status == FT_OK) {
        good = same(json_object_get(one, "ids"), d.ids, d.tokens, 0) && same(learned, d.read_position, d.first_read[1], 1);
        for (int64_t i = 0; i < d.first_read[1]; i++)
            good = good && d.label[i] == d.ids[d.read_position[i] + 1];
        if (!good) print_ids("got ids", d.ids, d.tokens, 0), print_ids("learned", d.read_position, d.first_read[1], 1);
    } else if (json_array_size(learned) == 0) { // nothing to learn in the whole file
        good = strstr(ft_error_message(), "no token to learn") != NULL;
    }
    if (!good) {
        char *line = json_dumps(one, JSON_COMPACT);
        print_error("%s\n%s: %s\n", line, ft_error_where(), ft_error_message());
        free(line);
    }
    ft_dataset_free(&d);
    ft_input_close(&input);
    free(row);
    return good;
}

static void test_vectors(void **state) {
    FILE *in = fopen(VECTORS "language/cases.jsonl", "r");
    char *line = NULL;
    size_t room = 0;
    int cases = 0, different = 0;
    assert_non_null(in);
    for (; getline(&line, &room, in) > 0; cases++) {
        json_t *one = json_loads(line, 0, NULL);
        assert_non_null(one);
        different += !run_case(one);
        json_decref(one);
    }
    free(line);
    fclose(in);
    if (different > 0) fail_msg("%d of %d cases differ", different, cases);
    assert_int_equal(cases, 300);
}

// ---- the token cache ------------------------------------------------------------------------------------------------------

static char scratch[] = "/tmp/ft-language-XXXXXX";
static int make_scratch(void **state) { return mkdtemp(scratch) == NULL; }
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static bool build_cached(const ft_input *input, const char *text, size_t length, const char *name, int max_length, const char *cache, ft_dataset *data) {
    ft_table table;
    bool from_cache;
    char *copy = malloc(length + 2);
    assert_non_null(copy);
    memcpy(copy, text, length + 1);
    *data = (ft_dataset){0};
    assert_int_equal(ft_table_parse(copy, length, SIZE_MAX / 4, name, &(ft_table_request){.text = "", .language = true}, &table), FT_OK);
    const ft_input_wanted wanted = {.table = &table, .path = name, .max_length = max_length, .labels = &LABELS, .cache_dir = cache};
    if (ft_input_build(input, &wanted, data, &from_cache) != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
    ft_table_free(&table);
    return from_cache;
}

static void assert_equal_sets(const ft_dataset *a, const ft_dataset *b) {
    const int64_t reads = a->first_read[a->sequences];
    assert_true(a->examples == b->examples && a->sequences == b->sequences && a->tokens == b->tokens && a->longest == b->longest && a->truncated == b->truncated);
    assert_true(a->moved == b->moved && a->first_moved == b->first_moved && reads == b->first_read[b->sequences]);
    assert_memory_equal(a->ids, b->ids, (size_t)a->tokens * sizeof *a->ids);
    assert_memory_equal(a->offset, b->offset, (size_t)(a->sequences + 1) * sizeof *a->offset);
    assert_memory_equal(a->first_read, b->first_read, (size_t)(a->sequences + 1) * sizeof *a->first_read);
    assert_memory_equal(a->first_row, b->first_row, (size_t)(a->examples + 1) * sizeof *a->first_row);
    assert_memory_equal(a->read_position, b->read_position, (size_t)reads * sizeof *a->read_position);
    assert_memory_equal(a->label, b->label, (size_t)reads * sizeof *a->label);
}

// What is found is what was made, and is not found for anything else: other texts, limits, ends that are cut, templates, tokens to learn, columns.
static void test_cache(void **state) {
    static const char rows[] = "{\"prompt\": \"the movie\", \"completion\": \" was great\"}\n{\"prompt\": \"x \", \"completion\": \"y\"}\n{\"prompt\": \"x\", \"completion\": \"\"}\n",
                      other[] = "{\"prompt\": \"the movie\", \"completion\": \" was greaT\"}\n", texts[] = "{\"text\": \"the movie was great\"}\n", csv[] = "text\nthe movie was great\n";
    static const struct {
        const char *text, *name, *template;
        bool all, tail;
        int max_length;
    } kinds[] = {{rows, "a.jsonl", NULL, false, false, 64}, {rows, "a.jsonl", NULL, true, false, 64}, {rows, "a.jsonl", NULL, false, true, 64}, {rows, "a.jsonl", NULL, false, false, 3},
                 {rows, "a.jsonl", "qwen3.jinja", false, false, 64}, {other, "a.jsonl", NULL, false, false, 64}, {texts, "a.jsonl", NULL, false, false, 64}, {csv, "a.csv", NULL, false, false, 64}};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < COUNT(kinds); i++) {
            ft_input input;
            ft_dataset d, plain;
            assert_int_equal(open_input("qwen", kinds[i].template, kinds[i].all, kinds[i].tail, &input), FT_OK);
            assert_int_equal(build_cached(&input, kinds[i].text, strlen(kinds[i].text), kinds[i].name, kinds[i].max_length, scratch, &d), pass);
            assert_false(build_cached(&input, kinds[i].text, strlen(kinds[i].text), kinds[i].name, kinds[i].max_length, NULL, &plain));
            assert_equal_sets(&d, &plain);
            if (i == 0) assert_int_equal(d.moved, 1);
            ft_dataset_free(&d);
            ft_dataset_free(&plain);
            ft_input_close(&input);
        }
}

// Files that a checksum fits, and that no data set could have been.
static void test_forged_cache(void **state) {
    int32_t ids[] = {3, 4, 5, 6, 7}, position[] = {0, 1, 0}, label[] = {4, 5, 7};
    int64_t offset[] = {0, 3, 5}, first[] = {0, 2, 3};
    const ft_dataset good = {.examples = 2, .sequences = 2, .tokens = 5, .longest = 3, .ids = ids, .offset = offset, .first_read = first, .first_row = first,
                             .read_position = position, .label = label, .moved = 1, .first_moved = 1};
    const ft_token_cache_want want = {.key = "k", .examples = 2, .vocabulary = 10, .reads = true};
    for (int damage = 0; damage < 12; damage++) {
        int32_t positions[] = {0, 1, 0}, labels[] = {4, 5, 7};
        int64_t firsts[] = {0, 2, 3};
        ft_dataset forged = good, read = {0};
        ft_token_cache_want wanted = want;
        forged.read_position = positions, forged.label = labels, forged.first_read = firsts;
        switch (damage) {
        case 1: labels[1] = 6; break;
        case 2: positions[1] = 2; break;  // the last token, which nothing follows
        case 3: positions[0] = -1; break;
        case 4: positions[0] = 1, labels[0] = 5; break; // twice
        case 5: firsts[1] = 4; break;
        case 6: firsts[0] = 1; break;
        case 7: firsts[1] = -1; break;
        case 8: forged.moved = 3; break;
        case 9: forged.first_moved = 2; break;
        case 10: wanted.reads = false; break;
        case 11: wanted.vocabulary = 7; break;
        default: break;
        }
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_int_equal(ft_token_cache_write(file, &want, &forged), FT_OK);
        const long size = ftell(file);
        rewind(file);
        const ft_status status = ft_token_cache_read(file, (uint64_t)size, &wanted, &read);
        if (status != (damage == 0 ? FT_OK : FT_INVALID)) fail_msg("damage %d: %d", damage, (int)status);
        if (damage == 0) assert_equal_sets(&read, &good);
        else assert_true(read.ids == NULL && read.label == NULL && read.first_read == NULL && read.read_position == NULL);
        ft_dataset_free(&read);
        fclose(file);
    }
}

// Of many tokens nothing is in memory: all of it lies in the cache's file, from the first run on.
static void test_mapped_cache(void **state) {
    enum { ROWS = 400, WORDS = 2400 };
    char *text = malloc((size_t)ROWS * (WORDS * 2 + 32) + 1);
    size_t at = 0;
    ft_input input;
    assert_non_null(text);
    for (int row = 0; row < ROWS; row++) {
        at += (size_t)sprintf(text + at, "{\"text\": \"%d", row);
        for (int i = 0; i < WORDS; i++) text[at++] = ' ', text[at++] = (char)('a' + (i * (row + 1) + i / 100) % 26);
        at += (size_t)sprintf(text + at, "\"}\n");
    }
    assert_int_equal(open_input("qwen", NULL, false, false, &input), FT_OK);
    for (int pass = 0; pass < 2; pass++) {
        ft_dataset d, plain;
        assert_int_equal(build_cached(&input, text, at, "large.jsonl", 0, scratch, &d), pass);
        if (!d.file_mapped || !d.reads_in_file || ft_dataset_host_bytes(&d) != 0) fail_msg("pass %d: %d, %d, %zu bytes of the heap, %lld tokens, a file of %zu", pass, d.file_mapped, d.reads_in_file, ft_dataset_host_bytes(&d), (long long)d.tokens, d.file_bytes);
        if (pass == 1) {
            assert_false(build_cached(&input, text, at, "large.jsonl", 0, NULL, &plain));
            assert_equal_sets(&d, &plain);
            ft_dataset_free(&plain);
        }
        ft_dataset_free(&d);
    }
    ft_input_close(&input);
    free(text);
}

// Rows of a batch: those that are read, with the tokens behind them as labels.
static void test_batch(void **state) {
    ft_input input;
    ft_dataset d;
    ft_batch batch;
    assert_int_equal(open_input("qwen", NULL, false, false, &input), FT_OK);
    assert_int_equal(
        build(&input, "{\"prompt\": \"the movie\", \"completion\": \" was great\"}\n{\"prompt\": \"x\", \"completion\": \"\"}\n", "p.jsonl", 64, &d),
        FT_OK);
    assert_int_equal(d.sequences, 2);
    assert_int_equal(d.examples, 2);
    const int32_t reads = (int32_t)d.first_read[2];
    const ft_batch_format format = {.sequences = 2, .tokens = (int32_t)d.tokens, .reads = reads, .most_reads = reads, .position_padding = -1};
    void *storage = calloc(1, ft_batch_bytes(&format));
    ft_batch_bind(&batch, storage, &format);
    assert_int_equal(ft_batch_fill(&batch, &d, NULL, 0, 2, 0), FT_OK);
    assert_int_equal(batch.reads, reads);
    assert_int_equal(batch.tokens, d.tokens);
    for (int32_t i = 0; i < batch.reads; i++)
        assert_int_equal(batch.label[i], batch.ids[batch.read_row[i] + 1]);
    for (int32_t i = 1; i < batch.reads; i++)
        assert_true(batch.read_row[i] > batch.read_row[i - 1]);
    assert_string_equal(ft_input_sizes_of(&input).windows ? "windows" : "one", "one");
    free(storage);
    ft_dataset_free(&d);
    ft_input_close(&input);
}

// A text may begin with any character, and is no list by that.
static void test_odd_texts(void **state) {
    ft_input input;
    ft_dataset d;
    assert_int_equal(open_input("qwen", "qwen3.jinja", false, false, &input), FT_OK);
    assert_int_equal(build(&input, "{\"text\": \"\\u001f[x\"}\n{\"text\": \"[{\\\"role\\\": 1}]\"}\n{\"text\": \"\"}\n{\"text\": \"x\\u001f\"}\n", "odd.jsonl", 64, &d), FT_OK);
    assert_int_equal(d.sequences, 4);
    ft_dataset_free(&d);
    assert_int_equal(build(&input, "text\n\xFF[x\n", "odd.csv", 64, &d), FT_OK); // no UTF-8
    ft_dataset_free(&d);
    ft_input_close(&input);
}

static void test_digests(void **state) {
    static const struct {
        const char *template, *variables;
        bool all;
    } kinds[] = {{NULL, NULL, false},
                 {NULL, NULL, true},
                 {"qwen3.jinja", NULL, false},
                 {"qwen3.jinja", "{\"enable_thinking\": false}", false},
                 {"qwen2_5.jinja", NULL, false}};
    char digest[COUNT(kinds)][65], file[512];
    for (size_t i = 0; i < COUNT(kinds); i++) {
        ft_input input;
        snprintf(file, sizeof file, VECTORS "chat/%s", kinds[i].template != NULL ? kinds[i].template : "");
        const ft_input_request request = {.directory = VECTORS "decoder_tokenizers/qwen",
                                          .truncation = "head",
                                          .learn_all = kinds[i].all,
                                          .chat_template = kinds[i].template != NULL ? file : "",
                                          .chat_variables = kinds[i].variables};
        assert_int_equal(ft_input_open(&ft_language_input, &request, &input), FT_OK);
        memcpy(digest[i], ft_input_digest(&input), 65);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(digest[i], digest[k]);
        ft_input_close(&input);
    }
}

static void test_refusals(void **state) {
    static const struct {
        const char *template, *text, *where, *message, *hint;
    } cases[] = {
        {NULL, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n", "f.jsonl:1", "the model has no chat template", "data.chat_template"},
        {"qwen3.jinja",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
         "\"b\"}]}\n{\"messages\": []}\n",
         "f.jsonl:2", "must be a list of messages, not empty", "{\"messages\":"},
        {"qwen3.jinja", "{\"messages\": [{\"content\": \"a\"}]}", "f.jsonl:1", "message 1 is no object with a \"role\"", NULL},
        {"qwen3.jinja", "{\"messages\": \"hello\"}", "f.jsonl:1", "no list of messages here", NULL},
        {"qwen3.jinja", "{\"messages\": {\"role\": \"user\"}}", "f.jsonl:1", "must be a list of messages", NULL},
        {"qwen2_5.jinja", "{\"messages\": [{\"role\": \"user\"}]}", "line 2", "is undefined", "f.jsonl:1"},
        {"qwen3.jinja", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": \"x\"}", "f.jsonl:1", "\"tools\" is no JSON list",
         NULL},
        {"qwen3.jinja", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "f.jsonl", "no token to learn", NULL},
        {NULL, "{\"prompt\": \"a\", \"completion\": [{\"role\": \"assistant\", \"content\": \"b\"}]}", "f.jsonl:1",
         "two texts, or two lists of messages", NULL},
        {NULL, "{\"prompt\": \"a\"}", "f.jsonl:1", "no completion column", "data.text_pair"},
        {NULL, "{\"prompt\": \"a\", \"completion\": \"b\", \"tools\": []}", "f.jsonl:1", "\"tools\" beside \"prompt\"", NULL},
        {NULL, "{\"label\": \"a\"}", "f.jsonl:1", "no text column", NULL},
        {NULL, "{\"text\": \"a\"}\n{\"text\": \"b\n", "f.jsonl:2", "", "JSON lines have one object a line"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ft_input input;
        ft_dataset d;
        assert_int_equal(open_input("qwen", cases[i].template, false, false, &input), FT_OK);
        assert_int_equal(build(&input, cases[i].text, "f.jsonl", 64, &d), FT_INVALID);
        bool hinted = cases[i].hint == NULL;
        for (int k = 0; k < ft_error_hint_count(); k++)
            hinted = hinted || strstr(ft_error_hint(k), cases[i].hint) != NULL;
        if (strstr(ft_error_where(), cases[i].where) == NULL || strstr(ft_error_message(), cases[i].message) == NULL || !hinted)
            fail_msg("%s\n%s: %s (%s)", cases[i].text, ft_error_where(), ft_error_message(), ft_error_hint_count() > 0 ? ft_error_hint(0) : "");
        ft_input_close(&input);
    }
    // What a template does not let be told: a turn that is other text where others follow, without an end.
    static const struct {
        const char *request_truncation, *variables, *where, *message;
    } requests[] = {{"windows", NULL, "data.truncation", "the head or the tail"},
                    {"head", "[1]", "data.chat_variables", "no JSON object"},
                    {"head", "{", "data.chat_variables", ""}};
    for (size_t i = 0; i < COUNT(requests); i++) {
        ft_input input;
        ft_error_clear();
        assert_int_equal(ft_input_open(&ft_language_input,
                                       &(ft_input_request){.directory = VECTORS "decoder_tokenizers/qwen",
                                                           .truncation = requests[i].request_truncation,
                                                           .chat_variables = requests[i].variables},
                                       &input),
                         FT_INVALID);
        if (strstr(ft_error_where(), requests[i].where) == NULL || strstr(ft_error_message(), requests[i].message) == NULL)
            fail_msg("%s: %s", ft_error_where(), ft_error_message());
        ft_input_close(&input);
    }
}

int main(void) {
    ft_log_set_level(FT_LOG_QUIET);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_cache), cmocka_unit_test(test_forged_cache), cmocka_unit_test(test_mapped_cache), cmocka_unit_test(test_batch), cmocka_unit_test(test_odd_texts), cmocka_unit_test(test_digests),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

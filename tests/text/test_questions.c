// Questions and passages against transformers (tests/vectors/questions): ids of every window, and where in the passage each token stands.
// Catches: a window that begins elsewhere, a question with the white space in front, offsets of bytes or of the normalised text, of composed,
// dropped and reordered characters, of a space that the tokenizer put in front, and of tokens that are bytes of a character.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/json/json.h"
#include "engine/text/questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char scratch[] = "/tmp/ft-questions-XXXXXX";

static void assert_ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
}

static void put(const char *name, const char *text, size_t length) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static void copy(const char *from, const char *name) {
    char path[512], *data;
    size_t length;
    snprintf(path, sizeof path, FT_TEST_VECTORS "/%s", from);
    assert_ok(ft_read_file(path, 0, &data, &length));
    put(name, data, length);
    free(data);
}

static ft_tokenizer *open_tokenizer(const char *name) {
    static const struct {
        const char *name, *config, *files[2][2];
    } all[] = {
        {"bert", "{\"tokenizer_class\": \"BertTokenizer\"}", {{"tokenizer_wordpiece/vocab.txt", "vocab.txt"}}},
        {"bert-cased", "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": false}", {{"tokenizer_wordpiece/vocab.txt", "vocab.txt"}}},
        {"roberta", "{\"tokenizer_class\": \"RobertaTokenizer\"}",
         {{"tokenizer_families/bpe_vocab.json", "vocab.json"}, {"tokenizer_families/bpe_merges.txt", "merges.txt"}}},
        {"xlm-roberta", "{\"tokenizer_class\": \"XLMRobertaTokenizer\"}", {{"tokenizer_families/xlm_roberta.spm", "sentencepiece.bpe.model"}}},
        {"deberta-v2", "{\"tokenizer_class\": \"DebertaV2Tokenizer\"}", {{"tokenizer_families/deberta.spm", "spm.model"}}},
        {"modernbert", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", {{"questions/tokenizer_modernbert/tokenizer.json", "tokenizer.json"}}}};
    ft_tokenizer *tokenizer = NULL;
    assert_ok(ft_remove_tree(scratch));
    assert_ok(ft_make_directories(scratch));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) != 0) continue;
        for (int k = 0; k < 2 && all[i].files[k][0] != NULL; k++) copy(all[i].files[k][0], all[i].files[k][1]);
        put("tokenizer_config.json", all[i].config, strlen(all[i].config));
        assert_ok(ft_tokenizer_open_rules(scratch, FT_RULES_TRANSFORMERS, &tokenizer));
    }
    assert_non_null(tokenizer);
    return tokenizer;
}

// Characters in front of a byte.
static int64_t characters(const char *text, int32_t bytes) {
    int64_t count = 0;
    for (int32_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static void check_line(const ft_tokenizer *t, const json_t *line, int number, int *wrong, int *offsets) {
    const char *question = json_string_value(json_object_get(line, "question")), *context = json_string_value(json_object_get(line, "context"));
    const json_t *windows = json_object_get(line, "windows"), *places = json_object_get(line, "offsets");
    ft_question_tokens got = {.ids = {0}};
    const ft_long_text rule = {.kind = FT_LONG_WINDOWS, .overlap = (int32_t)json_integer_value(json_object_get(line, "stride"))};
    assert_ok(ft_tokenizer_encode_question(t, question, strlen(question), context, strlen(context),
                                           (int)json_integer_value(json_object_get(line, "max_length")), &rule, &got));
    if (got.lengths.count != json_array_size(windows)) fail_msg("line %d: %zu windows, not %zu", number, got.lengths.count, json_array_size(windows));
    size_t at = 0;
    for (size_t w = 0; w < got.lengths.count; w++) {
        const json_t *ids = json_array_get(windows, w), *of = json_array_get(places, w);
        if ((size_t)got.lengths.ids[w] != json_array_size(ids)) fail_msg("line %d window %zu: %d ids, not %zu", number, w, got.lengths.ids[w], json_array_size(ids));
        for (size_t i = 0; i < json_array_size(ids); i++, at++) {
            if (got.ids.ids[at] != json_integer_value(json_array_get(ids, i))) fail_msg("line %d window %zu: id %zu is %d", number, w, i, got.ids.ids[at]);
            const json_t *place = json_array_get(of, i);
            if ((got.begin.ids[at] < 0) != json_is_null(place)) fail_msg("line %d window %zu token %zu: whose is it?", number, w, i);
            if (got.begin.ids[at] < 0) continue;
            const int64_t begin = characters(context, got.begin.ids[at]), end = characters(context, got.end.ids[at]);
            const int64_t want = json_integer_value(json_array_get(place, 0)), want_end = json_integer_value(json_array_get(place, 1));
            ++*offsets;
            if ((begin == want && end == want_end) || (want == want_end && begin == end)) continue; // of white space nobody asks where it is
            if (++*wrong <= 20)
                fprintf(stderr, "line %d window %zu token %zu (%s): [%lld, %lld), should be [%lld, %lld)\n", number, w, i,
                        ft_tokenizer_token(t, got.ids.ids[at]), (long long)begin, (long long)end, (long long)want, (long long)want_end);
        }
    }
    ft_question_tokens_free(&got);
}

static void test_windows_and_offsets(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/questions/windows.jsonl", "r");
    assert_non_null(f);
    char *text = NULL, name[32] = "";
    size_t capacity = 0;
    ft_tokenizer *tokenizer = NULL;
    int number = 0, wrong = 0, offsets = 0;
    for (ssize_t length; (length = getline(&text, &capacity, f)) > 0;) {
        json_t *line;
        assert_ok(ft_json_parse(text, (size_t)length, "windows.jsonl", &line));
        const char *own = json_string_value(json_object_get(line, "tokenizer"));
        if (strcmp(own, name) != 0) {
            ft_tokenizer_close(tokenizer);
            tokenizer = open_tokenizer(own);
            snprintf(name, sizeof name, "%s", own);
        }
        check_line(tokenizer, line, ++number, &wrong, &offsets);
        json_decref(line);
    }
    ft_tokenizer_close(tokenizer);
    free(text);
    fclose(f);
    assert_true(number > 300 && offsets > 10000);
    assert_int_equal(wrong, 0);
}

static void test_what_does_not_fit(void **state) {
    static const struct {
        const char *question;
        int max_length, overlap;
        const char *message, *hint;
    } cases[] = {{"a b c d e f", 9, 0, "leaves 0 of data.max_length = 9", "data.max_length = 10 is the least"},
                 {"a b", 9, 4, "leaves 4 of data.max_length = 9", "windows(3) would do"},
                 {"a b", 9, 3, NULL, NULL},
                 {"a b", 6, -1, NULL, NULL}};
    ft_tokenizer *t = open_tokenizer("bert");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_question_tokens got = {.ids = {0}};
        const ft_long_text rule = {.kind = FT_LONG_WINDOWS, .overlap = cases[i].overlap};
        static const char passage[] = ". . . . . . . . . . . .";
        const ft_status status = ft_tokenizer_encode_question(t, cases[i].question, strlen(cases[i].question), passage, sizeof passage - 1,
                                                              cases[i].max_length, &rule, &got);
        if (cases[i].message == NULL) {
            assert_ok(status);
        } else {
            assert_int_equal(status, FT_INVALID);
            if (strstr(ft_error_message(), cases[i].message) == NULL || strstr(ft_error_hint(0), cases[i].hint) == NULL)
                fail_msg("%s / %s", ft_error_message(), ft_error_hint(0));
            ft_error_clear();
        }
        ft_question_tokens_free(&got);
    }
    ft_tokenizer_close(t);
}

static int make_scratch(void **state) { return mkdtemp(scratch) == NULL; }
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows_and_offsets), cmocka_unit_test(test_what_does_not_fit)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

// Words and their tokens against transformers (tests/vectors/make_word_vectors.py): ids of every window, and which rows are the words'. And
// the words of plain text. Catches: a word tokenised without its space, a window that is cut or begins elsewhere, a word that is lost or read
// twice where windows overlap, one that is read where it has less of the text around it, and offsets that count bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/json/json.h"
#include "engine/text/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch[] = "/tmp/ft-words-XXXXXX";

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
        const char *name, *class, *files[2][2];
    } all[] = {{"bert", "BertTokenizer", {{"tokenizer_wordpiece/vocab.txt", "vocab.txt"}}},
               {"roberta", "RobertaTokenizer", {{"tokenizer_families/bpe_vocab.json", "vocab.json"}, {"tokenizer_families/bpe_merges.txt", "merges.txt"}}},
               {"xlm-roberta", "XLMRobertaTokenizer", {{"tokenizer_families/xlm_roberta.spm", "sentencepiece.bpe.model"}}},
               {"deberta-v2", "DebertaV2Tokenizer", {{"tokenizer_families/deberta.spm", "spm.model"}}}};
    ft_tokenizer *tokenizer = NULL;
    assert_ok(ft_remove_tree(scratch));
    assert_ok(ft_make_directories(scratch));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) != 0) continue;
        char config[128];
        for (int k = 0; k < 2 && all[i].files[k][0] != NULL; k++) copy(all[i].files[k][0], all[i].files[k][1]);
        put("tokenizer_config.json", config, (size_t)snprintf(config, sizeof config, "{\"tokenizer_class\": \"%s\"}", all[i].class));
        assert_ok(ft_tokenizer_open_rules(scratch, FT_RULES_TRANSFORMERS, &tokenizer));
    }
    assert_non_null(tokenizer);
    return tokenizer;
}

static int32_t number(const json_t *lists, size_t window, size_t at) {
    return (int32_t)json_integer_value(json_array_get(json_array_get(lists, window), at));
}

static size_t length_of(const json_t *lists, size_t window) { return json_array_size(json_array_get(lists, window)); }

// How many tokens of the text stand between a token of a window and the nearer end of the window, ends of the text being far away.
static int64_t around(const json_t *of, size_t window, size_t at, size_t windows) {
    const int64_t left = (int64_t)at, right = (int64_t)length_of(of, window) - 1 - (int64_t)at, far = 1 << 20;
    const int64_t before = window == 0 ? far : left, behind = window + 1 == windows ? far : right;
    return before < behind ? before : behind;
}

static void check_reads(const json_t *line, const ft_word_tokens *t, bool every) {
    const json_t *of = json_object_get(line, "words_of");
    const size_t windows = json_array_size(of);
    size_t read = 0, tokens = 0;
    int32_t last_word = -1;
    // Tokens that the windows have, each once: the first window's and what every other one has behind what it shares.
    const size_t stride = (size_t)json_integer_value(json_object_get(line, "stride"));
    for (size_t w = 0; w < windows; w++) {
        const size_t shared = w > 0 ? stride : 0;
        for (size_t i = 1 + shared; i + 1 < length_of(of, w); i++) {
            tokens += every || number(of, w, i) != last_word;
            last_word = number(of, w, i);
        }
    }
    if (t->position.count != tokens) fail_msg("%s: %zu reads, expected %zu", json_dumps(line, 0), t->position.count, tokens);
    for (size_t w = 0; w < windows; w++)
        for (int32_t k = 0; k < t->reads.ids[w]; k++, read++) {
            const size_t at = (size_t)t->position.ids[read];
            assert_int_equal(t->word.ids[read], number(of, w, at));
            if (read > 0 && !every) assert_true(t->word.ids[read] > t->word.ids[read - 1]);
            if (read > 0 && every) assert_true(t->word.ids[read] >= t->word.ids[read - 1]);
            // In the window before it would stand `step` further to the right.
            const size_t step = w > 0 ? length_of(of, w - 1) - 2 - stride : 0;
            if (w > 0 && at + step + 1 < length_of(of, w - 1)) assert_true(around(of, w, at, windows) + 1 >= around(of, w - 1, at + step, windows));
        }
    assert_int_equal(read, tokens);
}

static void test_transformers(void **state) {
    char *line = NULL, name[32] = "";
    size_t room = 0;
    int lines = 0;
    ft_tokenizer *tokenizer = NULL;
    ft_word_list words = {0};
    ft_word_tokens t = {0};
    FILE *file = fopen(FT_TEST_VECTORS "/words.jsonl", "r");
    assert_non_null(file);
    for (ssize_t length; (length = getline(&line, &room, file)) > 0; lines++) {
        json_t *root;
        assert_ok(ft_json_parse(line, (size_t)length, "words.jsonl", &root));
        const char *wanted = json_string_value(json_object_get(root, "tokenizer"));
        if (strcmp(name, wanted) != 0) {
            ft_tokenizer_close(tokenizer);
            snprintf(name, sizeof name, "%s", wanted);
            tokenizer = open_tokenizer(name);
        }
        const json_t *list = json_object_get(root, "words"), *windows = json_object_get(root, "windows");
        char *text = calloc(1, 1 << 16);
        for (size_t i = 0; i < json_array_size(list); i++) sprintf(text + strlen(text), "%s%c", json_string_value(json_array_get(list, i)), FT_WORD_END);
        assert_ok(ft_words_find(text, strlen(text), &words));
        assert_int_equal(words.count, json_array_size(list));
        const ft_long_text rule = {.kind = FT_LONG_WINDOWS, .overlap = (int32_t)json_integer_value(json_object_get(root, "stride"))};
        const int most = (int)json_integer_value(json_object_get(root, "max_length"));
        for (int every = 0; every < 2; every++) {
            assert_ok(ft_tokenizer_encode_words(tokenizer, text, &words, most, &rule, every, &t));
            if (t.lengths.count != json_array_size(windows)) fail_msg("%s, line %d: %zu windows, expected %zu", name, lines + 1, t.lengths.count, json_array_size(windows));
            size_t at = 0;
            for (size_t w = 0; w < t.lengths.count; w++) {
                for (size_t i = 0; i < length_of(windows, w); i++, at++)
                    if (t.ids.ids[at] != number(windows, w, i))
                        fail_msg("%s, line %d, window %zu: id %zu is %d, expected %d", name, lines + 1, w, i, t.ids.ids[at], number(windows, w, i));
            }
            assert_int_equal(at, t.ids.count);
            check_reads(root, &t, every);
        }
        free(text);
        json_decref(root);
    }
    assert_int_equal(lines, 220);
    ft_tokenizer_close(tokenizer);
    ft_word_tokens_free(&t);
    free(words.word);
    free(line);
    fclose(file);
}

// What is cut has no row; both ends stay where the middle goes.
static void test_cut(void **state) {
    static const struct {
        ft_long_text_kind kind;
        int32_t words[6], positions[6];
        int count;
    } cases[] = {{FT_LONG_HEAD, {0, 1, 2, 3}, {1, 2, 3, 4}, 4}, {FT_LONG_TAIL, {4, 5, 6, 7}, {1, 2, 3, 4}, 4},
                 {FT_LONG_HEAD_TAIL, {0, 5, 6, 7}, {1, 2, 3, 4}, 4}};
    static const char text[] = "a\x1F" "b\x1F" "c\x1F" "d\x1F" "e\x1F" "f\x1F" "g\x1F" "h\x1F";
    ft_tokenizer *tokenizer = open_tokenizer("bert");
    ft_word_list words = {0};
    ft_word_tokens t = {0};
    assert_ok(ft_words_find(text, strlen(text), &words));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_ok(ft_tokenizer_encode_words(tokenizer, text, &words, 6, &(ft_long_text){.kind = cases[c].kind, .overlap = -1}, false, &t));
        assert_false(t.whole);
        assert_int_equal(t.word.count, cases[c].count);
        assert_memory_equal(t.word.ids, cases[c].words, (size_t)cases[c].count * sizeof(int32_t));
        assert_memory_equal(t.position.ids, cases[c].positions, (size_t)cases[c].count * sizeof(int32_t));
    }
    ft_word_tokens_free(&t);
    free(words.word);
    ft_tokenizer_close(tokenizer);
}

// Each word as "first-last:bytes", offsets of characters.
static void test_plain_text(void **state) {
    static const struct {
        const char *text, *words;
        size_t length;
    } cases[] = {{"", "", 0},
                 {"  \t\n", "", 0},
                 {"Ada Lovelace.", "0-3:Ada 4-12:Lovelace 12-13:. ", 0},
                 {"São Paulo, ß", "0-3:São 4-9:Paulo 9-10:, 11-12:ß ", 0},
                 {"don't U.S.", "0-3:don 3-4:' 4-5:t 6-7:U 7-8:. 8-9:S 9-10:. ", 0},
                 {"東京abc x_1", "0-1:東 1-2:京 2-5:abc 6-9:x_1 ", 0},
                 {"हिन्दी a\u0301b", "0-6:हिन्दी 7-10:a\u0301b ", 0},
                 {"🙂🙂 ok", "0-1:🙂 1-2:🙂 3-5:ok ", 0},
                 {"a\xFF" "b\xC3", "0-1:a 1-2:\xFF 2-3:b 3-4:\xC3 ", 0},
                 {"a\0b", "0-1:a 1-2: 2-3:b ", 3},
                 {"New\x1F" "York\x1F\x1F" "é\x1F", "0-3:New 4-8:York 9-9: 10-11:é ", 0},
                 {"Sea S", "0-3:Sea 4-5:S ", 0}};
    ft_word_list words = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t length = cases[c].length > 0 ? cases[c].length : strlen(cases[c].text);
        char got[512] = "";
        assert_ok(ft_words_find(cases[c].text, length, &words));
        for (size_t i = 0; i < words.count; i++) {
            const ft_word *w = &words.word[i];
            snprintf(got + strlen(got), sizeof got - strlen(got), "%lld-%lld:%.*s ", (long long)w->first, (long long)w->last, (int)(w->end - w->begin),
                     cases[c].text + w->begin);
        }
        assert_string_equal(got, cases[c].words);
    }
    free(words.word);
}

static int set_up(void **state) { return mkdtemp(scratch) == NULL; }
static int tear_down(void **state) { return ft_remove_tree(scratch) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transformers), cmocka_unit_test(test_cut), cmocka_unit_test(test_plain_text)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

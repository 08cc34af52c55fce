// Texts with more tokens than fit: what stays by each rule, with tokens counted by hand, in the frames of BERT and RoBERTa; and
// windows against the tokenizers library's (tests/vectors/make_long_text_vectors.py).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "engine/text/long_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char scratch[] = "/tmp/ft-long-text-XXXXXX";
static ft_tokenizer *bert, *roberta;
static const ft_long_text HEAD = {FT_LONG_HEAD, -1}, TAIL = {FT_LONG_TAIL, -1}, HEAD_TAIL = {FT_LONG_HEAD_TAIL, -1};

static void assert_ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
}

static ft_long_text windows(int overlap) { return (ft_long_text){FT_LONG_WINDOWS, overlap}; }

static void open_with(const char *post_processor, ft_tokenizer **t) {
    char path[64];
    snprintf(path, sizeof path, "%s/tokenizer.json", scratch);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"U\","
          "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"S\":0,\"C\":1,\"U\":2",
          f);
    for (int i = 0; i < 26; i++) fprintf(f, ",\"%c\":%d", 'a' + i, 3 + i);
    fprintf(f, "}},\"post_processor\":{\"type\":\"%s\",\"sep\":[\"S\",0],\"cls\":[\"C\",1]}}", post_processor);
    assert_int_equal(fclose(f), 0);
    assert_ok(ft_tokenizer_open(scratch, t));
}

static int set_up(void **state) {
    if (mkdtemp(scratch) == NULL) return 1;
    open_with("BertProcessing", &bert);
    open_with("RobertaProcessing", &roberta);
    return 0;
}

static int tear_down(void **state) {
    ft_tokenizer_close(bert);
    ft_tokenizer_close(roberta);
    return ft_remove_tree(scratch) != FT_OK;
}

// The letters of both texts, as "a b c"; NULL: none.
static const char *spread(const char *letters, char out[64]) {
    char *to = out;
    for (const char *from = letters; from != NULL && *from != '\0'; from++) to += sprintf(to, "%s%c", to > out ? " " : "", *from);
    *to = '\0';
    return letters != NULL ? out : NULL;
}

// Sequences as words of letters: C and S are the special tokens.
static const char *sequences(const ft_tokenizer *t, const char *a, const char *b, int max_length, ft_long_text rule, bool *whole,
                             char out[512], char types_out[512]) {
    char texts[2][64];
    const char *first = spread(a, texts[0]), *second = spread(b, texts[1]);
    ft_token_ids ids = {0}, types = {0}, lengths = {0};
    assert_ok(ft_tokenizer_encode_long(t, first, strlen(first), second, second != NULL ? strlen(second) : 0, max_length, &rule, &ids,
                                       &types, &lengths, whole));
    assert_int_equal(ids.count, types.count);
    char *to = out, *type = types_out;
    size_t at = 0;
    for (size_t i = 0; i < lengths.count; i++) {
        if (i > 0) *to++ = ' ', *type++ = ' ';
        for (int32_t k = 0; k < lengths.ids[i]; k++, at++) {
            *to++ = ids.ids[at] < 3 ? "SCU"[ids.ids[at]] : (char)('a' + ids.ids[at] - 3);
            *type++ = (char)('0' + types.ids[at]);
        }
        if (max_length > 0) assert_true(lengths.ids[i] <= max_length);
    }
    *to = *type = '\0';
    assert_int_equal(at, ids.count);
    free(ids.ids);
    free(types.ids);
    free(lengths.ids);
    return out;
}

static void gives(const ft_tokenizer *t, const char *a, const char *b, int max_length, ft_long_text rule, const char *expected,
                  const char *expected_types) {
    char out[512], types[512];
    bool whole;
    assert_string_equal(sequences(t, a, b, max_length, rule, &whole, out, types), expected);
    if (expected_types != NULL) assert_string_equal(types, expected_types);
    const int specials = b == NULL ? 2 : t == bert ? 3 : 4;
    assert_int_equal(whole, max_length <= 0 || strlen(a) + (b != NULL ? strlen(b) : 0) + (size_t)specials <= (size_t)max_length);
}

static void test_single_texts(void **state) {
    // Room for 8 of 12: 2 from the beginning and 6 from the end.
    gives(bert, "abcdefghijkl", NULL, 10, HEAD, "CabcdefghS", "0000000000");
    gives(bert, "abcdefghijkl", NULL, 10, TAIL, "CefghijklS", "0000000000");
    gives(bert, "abcdefghijkl", NULL, 10, HEAD_TAIL, "CabghijklS", "0000000000");
    gives(roberta, "abcdefghijkl", NULL, 10, HEAD_TAIL, "CabghijklS", "0000000000");
    gives(bert, "abcde", NULL, 3, HEAD_TAIL, "CeS", NULL); // a quarter of one is none
    // Exactly as long as fits, one more, and without a limit.
    const ft_long_text rules[] = {HEAD, TAIL, HEAD_TAIL, windows(3)};
    for (int i = 0; i < 4; i++) {
        gives(bert, "abcdefgh", NULL, 10, rules[i], "CabcdefghS", NULL);
        gives(bert, "abcdefghi", NULL, 0, rules[i], "CabcdefghiS", NULL);
        gives(bert, "", NULL, 10, rules[i], "CS", NULL);
    }
    gives(bert, "abcdefghi", NULL, 10, TAIL, "CbcdefghiS", NULL);
    // Windows of 8 that share 3: from a, f and k; the last one ends where the text does.
    gives(bert, "abcdefghijkl", NULL, 10, windows(3), "CabcdefghS CfghijklS", "0000000000 000000000");
    gives(bert, "abcdefghijklmn", NULL, 10, windows(3), "CabcdefghS CfghijklmS CklmnS", NULL);
    gives(roberta, "abcdefghijklmn", NULL, 10, windows(3), "CabcdefghS CfghijklmS CklmnS", NULL);
    gives(bert, "abcdefghijklmn", NULL, 10, windows(-1), "CabcdefghS CghijklmnS", NULL); // a quarter of 8 is shared
    gives(bert, "abcdef", NULL, 4, windows(0), "CabS CcdS CefS", NULL);
    gives(bert, "abcd", NULL, 4, windows(1), "CabS CbcS CcdS", NULL);
}

static void test_pairs(void **state) {
    // Room for 7 of 3 and 9: the longer one keeps 4.
    gives(bert, "abc", "lmnopqrst", 10, HEAD, "CabcSlmnoS", "0000011111");
    gives(bert, "abc", "lmnopqrst", 10, TAIL, "CabcSqrstS", "0000011111");
    gives(bert, "abc", "lmnopqrst", 10, HEAD_TAIL, "CabcSlrstS", "0000011111");
    gives(bert, "lmnopqrst", "abc", 10, TAIL, "CqrstSabcS", "0000001111");
    // Two of 9: both are cut, 3 and 4.
    gives(bert, "abcdefghi", "lmnopqrst", 10, TAIL, "CghiSqrstS", NULL);
    gives(bert, "abcdefghi", "lmnopqrst", 10, HEAD_TAIL, "CahiSlrstS", NULL);
    // Windows are of the longer one, of equally long ones of the second; the other stands in each.
    gives(bert, "abc", "lmnopqrst", 10, windows(1), "CabcSlmnoS CabcSopqrS CabcSrstS", "0000011111 0000011111 000001111");
    gives(bert, "lmnopqrst", "abc", 10, windows(1), "ClmnoSabcS CopqrSabcS CrstSabcS", "0000001111 0000001111 000001111");
    gives(bert, "abcde", "lmnop", 10, windows(0), "CabcSlmnoS CabcSpS", NULL);
    // RoBERTa has two tokens between the texts and one type.
    gives(roberta, "abc", "lmnopqrst", 11, windows(1), "CabcSSlmnoS CabcSSopqrS CabcSSrstS", "00000000000 00000000000 0000000000");
    gives(roberta, "abc", "", 11, windows(1), "CabcSSS", NULL);
}

static void test_as_the_library(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/long_text.txt", "r");
    assert_non_null(f);
    int first, second, length, stride, lines = 0;
    char expected[512], out[512], types[512];
    while (fscanf(f, "%d %d %d %d : %511[^\n]", &first, &second, &length, &stride, expected) == 5) {
        char a[27] = "", b[27] = "";
        for (int i = 0; i < first; i++) a[i] = (char)('a' + i);
        for (int i = 0; i < second; i++) b[i] = (char)('z' - i);
        bool whole;
        sequences(bert, a, second >= 0 ? b : NULL, length, windows(stride), &whole, out, types);
        assert_string_equal(out, expected);
        assert_int_equal(whole, strchr(expected, ' ') == NULL);
        lines++;
    }
    assert_true(feof(f) && lines > 200);
    fclose(f);
}

static void refuses_rule(const char *text) {
    ft_long_text rule;
    assert_int_equal(ft_long_text_parse(text, "data.truncation", &rule), FT_INVALID);
    assert_string_equal(ft_error_where(), "data.truncation");
    assert_non_null(strstr(ft_error_message(), "head, tail, head_tail, windows"));
}

static void test_rules(void **state) {
    static const struct {
        const char *text;
        ft_long_text_kind kind;
        int overlap;
    } good[] = {{"head", FT_LONG_HEAD, -1},          {"tail", FT_LONG_TAIL, -1},           {"head_tail", FT_LONG_HEAD_TAIL, -1},
                {"windows", FT_LONG_WINDOWS, -1},    {"windows(0)", FT_LONG_WINDOWS, 0},   {"windows(64)", FT_LONG_WINDOWS, 64},
                {"windows ( 7 )", FT_LONG_WINDOWS, 7}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ft_long_text rule;
        assert_ok(ft_long_text_parse(good[i].text, "here", &rule));
        assert_int_equal(rule.kind, good[i].kind);
        assert_int_equal(rule.overlap, good[i].overlap);
    }
    static const char *const bad[] = {"",           "heads",        "Head",        "windows(",   "windows()",          "windows(-1)",
                                      "windows(1",  "windows(1)x",  "windows(1.5)", "window(3)", "windows(1048577)",   "tail(3)",
                                      "windows 64", "windows(3 4)", "windows(99999999999999999999)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuses_rule(bad[i]);
}

static void refuses_overlap(ft_long_text rule, const ft_tokenizer *t, const char *pair, int max_length, const char *message) {
    ft_token_ids ids = {0}, lengths = {0};
    bool whole;
    assert_int_equal(ft_long_text_check(&rule, t, pair != NULL, max_length), FT_INVALID);
    assert_string_equal(ft_error_where(), "data.truncation");
    if (strstr(ft_error_message(), message) == NULL) fail_msg("lacks %s: %s", message, ft_error_message());
    assert_int_equal(ft_tokenizer_encode_long(t, "a b c d e f g h i", 17, pair, pair != NULL ? strlen(pair) : 0, max_length, &rule,
                                              &ids, NULL, &lengths, &whole),
                     FT_INVALID);
    assert_int_equal(ids.count + lengths.count, 0);
    free(ids.ids);
    free(lengths.ids);
}

static void test_overlaps(void **state) {
    assert_ok(ft_long_text_check(&HEAD, bert, false, 2));
    ft_long_text rule = windows(3);
    assert_ok(ft_long_text_check(&rule, bert, false, 6));
    assert_ok(ft_long_text_check(&rule, bert, false, 0));
    refuses_overlap(rule, bert, NULL, 5, "at most 2 tokens");
    assert_ok(ft_long_text_check(&rule, bert, true, 10)); // room for 7, of which one text has at most 3
    refuses_overlap(rule, bert, "l m n o p q r s t", 9, "at most 2 tokens");
    refuses_overlap(windows(-1), bert, NULL, 2, "at most 0 tokens"); // room for none
    refuses_overlap(windows(-1), roberta, "l", 4, "at most 0 tokens");
    ft_token_ids ids = {0}, lengths = {0};
    bool whole;
    assert_int_equal(ft_tokenizer_encode_long(bert, "a", 1, NULL, 0, 1, &TAIL, &ids, NULL, &lengths, &whole), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "no room for the 2 special tokens"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_texts), cmocka_unit_test(test_pairs),    cmocka_unit_test(test_as_the_library),
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_overlaps),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

// Byte-level BPE, Unigram and the steps around them against the reference libraries: vectors of
// tests/vectors/make_tokenizer_family_vectors.py; pairs, truncation, and every way their files can be wrong. FT_TOKENIZER_EXPECT names another
// expect.bin, of more lines (its --lines).
// ctest: asan_part=2
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "engine/text/tokenizer_parts.h"
#include "tests/text/tokenizer_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VECTORS FT_TEST_VECTORS "/tokenizer_families/"
enum { BLOCK = 16 };

static void assert_ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
}

// ---- scratch directories -------------------------------------------------------------------------------------------
static char scratch[] = "/tmp/ft-tokenizer-XXXXXX";

static void write_file(const char *name, const void *data, size_t length) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state) { return mkdtemp(scratch) == NULL; }
static int tear_down(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static void clear_scratch(void) {
    assert_ok(ft_remove_tree(scratch));
    assert_ok(ft_make_directories(scratch));
}

// ---- the stand-ins of variants.json --------------------------------------------------------------------------------
static char *read_vector(const char *name, size_t *length) {
    char path[256], *data;
    snprintf(path, sizeof path, VECTORS "%s", name);
    assert_ok(ft_read_file(path, 0, &data, length));
    return data;
}

static json_t *base64(const char *data, size_t length) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(length / 3 * 4 + 5), *to = text;
    assert_non_null(text);
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < length ? (unsigned char)data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *to++ = i + k <= length ? DIGITS[bits >> (18 - 6 * k) & 63] : '=';
    }
    json_t *out = json_stringn(text, (size_t)(to - text));
    free(text);
    return out;
}

static json_t *from_spm(const char *name, bool charsmap) {
    char path[256];
    ft_arena arena = {0};
    ft_spm spm;
    snprintf(path, sizeof path, VECTORS "%s.spm", name);
    assert_ok(ft_spm_read(path, &arena, &spm));
    json_t *out = charsmap ? base64(spm.charsmap, spm.charsmap_length) : json_array();
    for (size_t i = 0; !charsmap && i < spm.count; i++)
        json_array_append_new(out, json_pack("[s, f]", spm.pieces[i].text, (double)spm.pieces[i].score));
    free(spm.pieces);
    ft_arena_free(&arena);
    return out;
}

static json_t *merge_lines(void) {
    size_t length;
    char *data = read_vector("bpe_merges.txt", &length), *rest = data, *line;
    json_t *out = json_array();
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0' && strncmp(line, "#version", 8) != 0) json_array_append_new(out, json_string(line));
    free(data);
    return out;
}

static json_t *expand(json_t *value) { // a new reference
    const char *text = json_string_value(value), *key;
    size_t i;
    json_t *item;
    if (text != NULL && strncmp(text, "@charsmap ", 10) == 0) return from_spm(text + 10, true);
    if (text != NULL && strncmp(text, "@pieces ", 8) == 0) return from_spm(text + 8, false);
    if (text != NULL && strcmp(text, "@bpe_merges") == 0) return merge_lines();
    if (text != NULL && strncmp(text, "@gemma ", 7) == 0) {
        json_t *all = json_load_file(VECTORS "gemma.json", 0, NULL), *part = json_incref(json_object_get(all, text + 7));
        json_decref(all);
        return part;
    }
    if (text != NULL && strcmp(text, "@bpe_vocab") == 0) return json_load_file(VECTORS "bpe_vocab.json", 0, NULL);
    json_t *out = json_is_object(value) ? json_object() : json_is_array(value) ? json_array() : json_incref(value);
    if (json_is_object(value)) json_object_foreach(value, key, item) json_object_set_new(out, key, expand(item));
    if (json_is_array(value)) json_array_foreach(value, i, item) json_array_append_new(out, expand(item));
    return out;
}

static void place(json_t *files) {
    const char *name;
    json_t *value;
    clear_scratch();
    json_object_foreach(files, name, value) {
        size_t length;
        char *data;
        if (json_is_string(value))
            data = read_vector(json_string_value(value) + 1, &length);
        else {
            json_t *whole = expand(value);
            data = json_dumps(whole, JSON_COMPACT);
            json_decref(whole);
            assert_non_null(data);
            length = strlen(data);
        }
        write_file(name, data, length);
        free(data);
    }
}

// ---- vectors -------------------------------------------------------------------------------------------------------
static uint32_t hash_part(uint32_t h, const int32_t *numbers, size_t count) {
    int32_t size = (int32_t)count;
    for (size_t i = 0; i <= count; i++) {
        uint32_t number = (uint32_t)(i == 0 ? size : numbers[i - 1]);
        for (int shift = 0; shift < 32; shift += 8)
            h = (h ^ (number >> shift & 0xFF)) * 0x01000193;
    }
    return h;
}

static uint32_t next_word(FILE *f) {
    unsigned char b[4];
    assert_int_equal(fread(b, 1, 4, f), 4);
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

// Line `index`, in the same of eight ways as run() of the vectors' script.
static uint32_t hash_line(const ft_tokenizer *t, bool mixed, int index, const text_line *line, const text_line *next,
                          uint32_t h, ft_token_ids *ids, ft_token_ids *types) {
    int turn = mixed ? index % 8 : 0, limit = 6 + index / 8 % 60;
    bool pair = turn == 2 || turn == 3 || turn == 7, cut = turn == 1 || turn == 3 || turn == 5 || turn == 7;
    ids->count = types->count = 0;
    ft_status status = ft_tokenizer_encode_pair(
        t, line->text, line->length, pair ? next->text : NULL, pair ? next->length : 0, cut ? limit : 0,
        turn == 7 ? FT_TRUNCATE_ONLY_FIRST : FT_TRUNCATE_LONGEST_FIRST, ids, types);
    if (status == FT_OK) return hash_part(hash_part(h, ids->ids, ids->count), types->ids, types->count);
    assert_int_equal(turn, 7); // the second text alone is too long
    assert_int_equal(status, FT_INVALID);
    assert_int_equal(ids->count + types->count, 0);
    const int32_t refused = -1;
    return hash_part(h, &refused, 1);
}

static int run_variant(json_t *variant, FILE *expected) {
    static text_line lines[2];
    const char *name = json_string_value(json_object_get(variant, "name"));
    bool mixed = strcmp(json_string_value(json_object_get(variant, "lines")), "mixed") == 0;
    bool newer = strcmp(json_string_value(json_object_get(variant, "rules")), "transformers") == 0;
    int blocks = (int)next_word(expected), different = 0;
    ft_tokenizer *t;
    ft_token_ids ids = {0}, types = {0};
    place(json_object_get(variant, "files"));
    ft_error_clear();
    if (ft_tokenizer_open_rules(scratch, newer ? FT_RULES_TRANSFORMERS : FT_RULES_FILES, &t) != FT_OK)
        fail_msg("%s: %s: %s", name, ft_error_where(), ft_error_message());
    void (*make)(text_line *, int) = mixed ? mixed_line : code_points_line;
    make(&lines[0], 0);
    for (int block = 0; block < blocks; block++) {
        uint32_t h = 0x811C9DC5;
        for (int i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
            make(&lines[(i + 1) % 2], i + 1);
            h = hash_line(t, mixed, i, &lines[i % 2], &lines[(i + 1) % 2], h, &ids, &types);
        }
        if (h != next_word(expected) && different++ < 5)
            print_error("%s: some line of %d to %d differs\n", name, block * BLOCK, (block + 1) * BLOCK - 1);
    }
    free(ids.ids);
    free(types.ids);
    ft_tokenizer_close(t);
    if (different > 0) fail_msg("%s: %d of %d blocks of lines differ", name, different, blocks);
    return mixed ? blocks * BLOCK : 0;
}

static void test_vectors(void **state) {
    json_t *variants = json_load_file(VECTORS "variants.json", 0, NULL);
    const char *other = getenv("FT_TOKENIZER_EXPECT");
    FILE *expected = fopen(other != NULL ? other : VECTORS "expect.bin", "rb");
    assert_non_null(variants);
    assert_non_null(expected);
    assert_int_equal(next_word(expected), json_array_size(variants));
    for (size_t i = 0; i < json_array_size(variants); i++) {
        int lines = run_variant(json_array_get(variants, i), expected);
        assert_true(lines == 0 || lines >= 20000);
        if (other != NULL && lines > 0) print_message("%s: %d lines\n", json_string_value(json_object_get(json_array_get(variants, i), "name")), lines);
    }
    assert_true(json_array_size(variants) >= 37);
    assert_int_equal(fgetc(expected), EOF);
    fclose(expected);
    json_decref(variants);
}

// ---- small ones, to read -------------------------------------------------------------------------------------------
#define UNIGRAM                                                                                                        \
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\xE2\x96\x81\",-2],[\"a\",-1]"           \
    ",[\"\xE2\x96\x81\x61\",-1.5],[\"b\",-3],[\"ab\",-3.5],[\"<s>\",0],[\"</s>\",0]]}"
#define METASPACE "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}"
#define ROBERTA ",\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",6],\"sep\":[\"</s>\",7]}"

static void expect_pair(const char *first, const char *second, int limit, ft_truncation how, size_t count,
                        const int32_t *expected) {
    ft_tokenizer *t;
    ft_token_ids ids = {0}, types = {0};
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_ok(ft_tokenizer_encode_pair(t, first, strlen(first), second, second != NULL ? strlen(second) : 0, limit, how,
                                       &ids, &types));
    assert_int_equal(ids.count, count);
    assert_int_equal(types.count, count);
    assert_memory_equal(ids.ids, expected, count * sizeof *expected);
    free(ids.ids);
    free(types.ids);
    ft_tokenizer_close(t);
}

static void test_pairs(void **state) {
    clear_scratch();
    write_file("tokenizer.json", "{" UNIGRAM "," METASPACE ROBERTA "}",
               sizeof "{" UNIGRAM "," METASPACE ROBERTA "}" - 1);
    expect_pair("a b", NULL, 0, FT_TRUNCATE_LONGEST_FIRST, 5, (const int32_t[]){6, 3, 1, 4, 7});
    expect_pair("a", "b", 0, FT_TRUNCATE_LONGEST_FIRST, 7, (const int32_t[]){6, 3, 7, 7, 1, 4, 7});
    expect_pair("a", "", 0, FT_TRUNCATE_LONGEST_FIRST, 5, (const int32_t[]){6, 3, 7, 7, 7});
    // Two of 10, room for 7: 3 and 4. 20 and 2, room for 5: 3 and 2.
    static const char ten[] = "a a a a a a a a a a", twenty[] = "a a a a a a a a a a a a a a a a a a a a";
    expect_pair(ten, ten, 11, FT_TRUNCATE_LONGEST_FIRST, 11, (const int32_t[]){6, 3, 3, 3, 7, 7, 3, 3, 3, 3, 7});
    expect_pair(twenty, "a a", 9, FT_TRUNCATE_LONGEST_FIRST, 9, (const int32_t[]){6, 3, 3, 3, 7, 7, 3, 3, 7});
    expect_pair(ten, "a a", 9, FT_TRUNCATE_ONLY_FIRST, 9, (const int32_t[]){6, 3, 3, 3, 7, 7, 3, 3, 7});
    expect_pair("a a", ten, 9, FT_TRUNCATE_ONLY_SECOND, 9, (const int32_t[]){6, 3, 3, 7, 7, 3, 3, 3, 7});
    ft_tokenizer *t;
    ft_token_ids ids = {0}, types = {0};
    assert_ok(ft_tokenizer_open(scratch, &t));
    static const ft_truncation hows[] = {FT_TRUNCATE_ONLY_FIRST, FT_TRUNCATE_ONLY_SECOND};
    static const char *const messages[] = {"the second text alone has 10 ids", "the first text alone has 10 ids"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            ft_tokenizer_encode_pair(t, ten, sizeof ten - 1, ten, sizeof ten - 1, 14, hows[i], &ids, &types),
            FT_INVALID);
        assert_non_null(strstr(ft_error_message(), messages[i]));
    }
    assert_int_equal(ft_tokenizer_encode_pair(t, "a", 1, "b", 1, 3, FT_TRUNCATE_LONGEST_FIRST, &ids, NULL), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "no room for the 4 special tokens"));
    assert_int_equal(ids.count + types.count, 0);
    // Of equal scores the way found first wins; unknown characters in a row are one token.
    assert_ok(ft_tokenizer_encode(t, "xyz ab", 6, 0, &ids));
    static const int32_t expected[] = {6, 1, 0, 3, 4, 7};
    assert_int_equal(ids.count, 6);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    free(ids.ids);
    ft_tokenizer_close(t);
}

// A word of a megabyte: time and memory stay in proportion.
static void test_long_words(void **state) {
    enum { LENGTH = 1 << 20 };
    static char text[LENGTH];
    json_t *variants = json_load_file(VECTORS "variants.json", 0, NULL);
    size_t i;
    json_t *variant;
    assert_non_null(variants);
    for (int k = 0; k < LENGTH; k++)
        text[k] = "therunning"[k % 10];
    json_array_foreach(variants, i, variant) {
        ft_tokenizer *t;
        ft_token_ids ids = {0}, cut = {0};
        const char *name = json_string_value(json_object_get(variant, "name"));
        if (strcmp(name, "roberta") != 0 && strcmp(name, "deberta-v2") != 0) continue;
        place(json_object_get(variant, "files"));
        assert_ok(ft_tokenizer_open(scratch, &t));
        assert_ok(ft_tokenizer_encode(t, text, LENGTH, 0, &ids));
        assert_ok(ft_tokenizer_encode(t, text, 1000, 0, &cut));
        assert_true(ids.count > LENGTH / 10);
        assert_memory_equal(ids.ids, cut.ids,
                            (cut.count - 20) * sizeof *ids.ids); // the end of the short one may differ
        free(ids.ids);
        free(cut.ids);
        ft_tokenizer_close(t);
    }
    json_decref(variants);
}

static void test_digests(void **state) {
    static const char *const files[] = {
        "{" UNIGRAM "," METASPACE "}",
        "{" UNIGRAM "," METASPACE ROBERTA "}",
        "{" UNIGRAM ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"split\":false}}",
        "{" UNIGRAM
        ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"first\"}}",
        "{" UNIGRAM "," METASPACE ",\"normalizer\":{\"type\":\"NFC\"}}",
        "{" UNIGRAM "," METASPACE ",\"normalizer\":{\"type\":\"NFKC\"}}",
        "{" UNIGRAM "," METASPACE ",\"normalizer\":{\"type\":\"Strip\"}}",
        "{" UNIGRAM "," METASPACE ",\"normalizer\":{\"type\":\"Strip\",\"strip_left\":false}}",
        "{" UNIGRAM "," METASPACE
        ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}}",
        "{" UNIGRAM "," METASPACE
        ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"b\"}}",
    };
    char digests[COUNT(files)][65];
    for (size_t i = 0; i < COUNT(files); i++) {
        ft_tokenizer *t;
        clear_scratch();
        write_file("tokenizer.json", files[i], strlen(files[i]));
        assert_ok(ft_tokenizer_open(scratch, &t));
        snprintf(digests[i], sizeof digests[i], "%s", ft_tokenizer_digest(t));
        ft_tokenizer_close(t);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(digests[i], digests[k]);
    }
}

// The rules differ where they should, and a token cache of one does not serve the other.
static void test_rules(void **state) {
    json_t *config = json_pack("{s:{s:s},s:s}", "tokenizer_config.json", "tokenizer_class", "DebertaV2Tokenizer",
                               "spm.model", "@deberta.spm");
    ft_tokenizer *t[2];
    place(config);
    json_decref(config);
    for (int i = 0; i < 2; i++) {
        ft_token_ids ids = {0};
        assert_ok(ft_tokenizer_open_rules(scratch, (ft_tokenizer_rules)i, &t[i]));
        assert_ok(ft_tokenizer_encode(t[i], "\xEF\xBD\x81", 3, 0, &ids)); // a full-width letter, mapped or unknown
        assert_int_equal(ids.ids[ids.count - 2] == 3, i);
        free(ids.ids);
        assert_string_equal(ft_tokenizer_files(t[i])[1], "spm.model");
        assert_string_equal(ft_tokenizer_token(t[i], ft_tokenizer_vocabulary(t[i]) - 1), "[MASK]");
        assert_int_equal(ft_tokenizer_padding_id(t[i]), 0);
    }
    assert_string_not_equal(ft_tokenizer_digest(t[0]), ft_tokenizer_digest(t[1]));
    ft_tokenizer_close(t[0]);
    ft_tokenizer_close(t[1]);
}

// ---- errors --------------------------------------------------------------------------------------------------------
#define BPE(extra)                                                                                                     \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}" extra                                          \
    "},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}"
#define MARKS "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}"
#define CHARACTERS(splitter) "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":" splitter "}"
#define NORMAL(value) "{" UNIGRAM "," METASPACE ",\"normalizer\":" value "}"
#define SPLIT(value) "{" UNIGRAM ",\"pre_tokenizer\":" value "}"
#define POST(value) "{" UNIGRAM "," METASPACE ",\"post_processor\":" value "}"
#define VOCAB "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"a\":4,\"b\":5,\"ab\":6,\"<mask>\":7}"

static void expect_refusal(const char *name, const char *where, const char *message) {
    ft_tokenizer *t = (ft_tokenizer *)&t;
    ft_error_clear();
    ft_status status = ft_tokenizer_open(scratch, &t);
    if (status != FT_INVALID || t != NULL || strstr(ft_error_message(), message) == NULL ||
        strstr(ft_error_where(), where) == NULL)
        fail_msg("%s: status %d, where \"%s\", message \"%s\"", name, status, ft_error_where(), ft_error_message());
}

static void test_refusals(void **state) {
    static const struct {
        const char *file, *where, *message;
    } cases[] = {
        {BPE(""), ": model", "\"merges\" must be a list"},
        {BPE(",\"merges\":[\"a c\"]"), ": model", "merge 0 needs \"c\", which the vocabulary does not have"},
        {BPE(",\"merges\":[\"b a\"]"), ": model", "merge 0 needs \"ba\""},
        {BPE(",\"merges\":[\"a b\",\"ab\"]"), ": model", "merge 1 must be two tokens"},
        {BPE(",\"merges\":[[\"a\",3]]"), ": model", "merge 0 must be two tokens"},
        {BPE(",\"merges\":[[\"a\",\"\"]]"), ": model", "merge 0 needs \"\""},
        {BPE(",\"merges\":[],\"unk_token\":\"x\""), "/tokenizer.json", "no \"x\" (unk_token)"},
        {BPE(",\"merges\":[],\"byte_fallback\":true"), ": model", "\"byte_fallback\" true with a ByteLevel pre_tokenizer is not"},
        {BPE(",\"merges\":[],\"dropout\":0.1"), ": model", "\"dropout\" is not supported"},
        {BPE(",\"merges\":[],\"end_of_word_suffix\":\"</w>\""), ": model", "\"end_of_word_suffix\" \"</w>\" is not"},
        {CHARACTERS("{\"type\":\"Sequence\",\"pretokenizers\":[" MARKS "," MARKS "]}"), ": pre_tokenizer", "BPE needs ByteLevel, Metaspace, Split"},
        {CHARACTERS("{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"Contiguous\"}"), ": pre_tokenizer", "behavior Contiguous, is not supported"},
        {CHARACTERS("{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"invert\":true}"), ": pre_tokenizer", "behavior Isolated, inverted, is not"},
        {CHARACTERS("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a+\"}}"), ": pre_tokenizer", "the pattern \"a+\""},
        {"{\"model\":{\"type\":\"WordLevel\"}}", ": model",
         "WordLevel is not supported; supported: WordPiece, BPE, Unigram"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", ": model", "\"vocab\" must be a list of 1 to"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", ": model",
         "piece 0 must be a text and a score"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", ": model", "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", ": model", "\"unk_id\" is missing"},
        {NORMAL("{\"type\":\"Nmt\"}"), ": normalizer", "Nmt is not supported; supported: BertNormalizer, Precompiled"},
        {NORMAL("{\"type\":\"Sequence\"}"), ": normalizer", "\"normalizers\" must be a list"},
        {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}"), ": normalizer", "not base64"},
        {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA==\"}"), ": normalizer", "cut short (1 bytes)"},
        {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"//////8A\"}"), ": normalizer", "does not fit"},
        {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAGE=\"}"), ": normalizer",
         "last string has no end"},
        {NORMAL("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAP8A\"}"), ": normalizer", "not valid UTF-8"},
        {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":\"\"}"), ": normalizer",
         "\"x+\" is not"},
        {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"), ": normalizer", "not empty"},
        {NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"), ": normalizer", "\"content\" is missing"},
        {NORMAL("{\"type\":\"Strip\",\"strip_left\":1}"), ": normalizer", "strip_left"},
        {SPLIT("{\"type\":\"Digits\"}"), ": pre_tokenizer", "Digits is not supported; supported: BertPreTokenizer"},
        {SPLIT("{\"type\":\"Sequence\",\"pretokenizers\":[]}"), ": pre_tokenizer", "an empty Sequence"},
        {SPLIT("{\"type\":\"WhitespaceSplit\"}"), ": pre_tokenizer", "Unigram needs Metaspace"},
        {SPLIT("{\"type\":\"Punctuation\",\"behavior\":\"Removed\"}"), ": pre_tokenizer", "behavior Removed is not"},
        {SPLIT("{\"type\":\"Metaspace\",\"replacement\":\"_\"}"), ": pre_tokenizer",
         "replacement \"_\" is not supported"},
        {SPLIT("{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"x\"}"), ": pre_tokenizer",
         "prepend_scheme \"x\" is not supported"},
        {POST("{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",99]}"), ": post_processor",
         "one of the vocabulary's 8"},
        {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}}],\"pair\":[{\"Sequence\":{"
              "\"id\":\"A\"}}]}"),
         ": post_processor", "\"pair\" does not hold both texts"},
        {POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}"), ": post_processor",
         "\"single\" must hold the text (Sequence A) once"},
        {POST("{\"type\":\"Sequence\",\"processors\":[{\"type\":\"Sequence\"}]}"), ": post_processor",
         "a Sequence within"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        clear_scratch();
        write_file("tokenizer.json", cases[i].file, strlen(cases[i].file));
        expect_refusal(cases[i].file, cases[i].where, cases[i].message);
    }
}

static void test_importers(void **state) {
    static const struct {
        const char *merges, *config, *where, *message;
    } cases[] = {
        {NULL, NULL, "", "the merges.txt that goes with it is not"},
        {"#version: 0.2\na b\nab\n", NULL, "/merges.txt:3", "two tokens with one space between"},
        {"a b\n\na b\n", NULL, "/merges.txt:2", "two tokens with one space between"},
        {"a  b\n", NULL, "/merges.txt:1", "two tokens with one space between"},
        {"a c\n", NULL, "/merges.txt:1", "needs \"c\""},
        {"a b\n", "{\"tokenizer_class\":\"DebertaTokenizer\"}", "/vocab.json", "no \"[CLS]\" (cls_token)"},
        {"a b\n", "{\"tokenizer_class\":\"BertTokenizer\"}", "", "no vocab.txt and no tokenizer.json"},
        {"a b\n", "{\"tokenizer_class\":\"DebertaV2TokenizerFast\"}", "",
         "no SentencePiece model and no tokenizer.json"},
        {"a b\n", "{\"add_prefix_space\":1}", "/tokenizer_config.json", "add_prefix_space"},
    };
    ft_tokenizer *t;
    ft_token_ids ids = {0};
    clear_scratch();
    write_file("vocab.json", VOCAB, sizeof VOCAB - 1);
    write_file("merges.txt", "a b\r\n", 5); // without a version, with a carriage return
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_ok(ft_tokenizer_encode(t, "ab b<mask>", 10, 0, &ids)); // the space has no byte: it vanishes
    static const int32_t expected[] = {0, 6, 5, 7, 2};
    assert_int_equal(ids.count, COUNT(expected));
    assert_memory_equal(ids.ids, expected, sizeof expected);
    assert_int_equal(ft_tokenizer_padding_id(t), 1);
    free(ids.ids);
    ft_tokenizer_close(t);
    for (size_t i = 0; i < COUNT(cases); i++) {
        clear_scratch();
        write_file("vocab.json", VOCAB, sizeof VOCAB - 1);
        if (cases[i].merges != NULL) write_file("merges.txt", cases[i].merges, strlen(cases[i].merges));
        if (cases[i].config != NULL) write_file("tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        expect_refusal(cases[i].message, cases[i].where, cases[i].message);
    }
    // A class whose unknown piece is by number, and a file with fewer pieces.
    clear_scratch();
    static const char one[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0]]}}",
                      albert[] = "{\"tokenizer_class\":\"AlbertTokenizer\"}";
    write_file("tokenizer.json", one, sizeof one - 1);
    write_file("tokenizer_config.json", albert, sizeof albert - 1);
    assert_int_equal(ft_tokenizer_open_rules(scratch, FT_RULES_TRANSFORMERS, &t), FT_INVALID);
    if (strstr(ft_error_message(), "piece 1 stands for what is unknown, and there are 1 pieces") == NULL) fail_msg("%s", ft_error_message());
    // config.json names the model where tokenizer_config.json names no class.
    clear_scratch();
    write_file("vocab.json", VOCAB, sizeof VOCAB - 1);
    write_file("config.json", "{\"model_type\":\"deberta\"}", 24);
    write_file("merges.txt", "a b\n", 4);
    expect_refusal("model_type", "/vocab.json", "no \"[CLS]\" (cls_token)");
}

// A SentencePiece model cut at every place, and with every byte of its head turned over: refused, or opened whole.
static void test_cut_spm(void **state) {
    size_t length;
    char *data = read_vector("xlm_roberta.spm", &length);
    int opened = 0, refused = 0;
    clear_scratch();
    for (size_t cut = 0; cut < length; cut += cut < 200 ? 1 : 97) {
        ft_tokenizer *t;
        write_file("sentencepiece.bpe.model", data, cut);
        ft_error_clear();
        if (ft_tokenizer_open(scratch, &t) == FT_OK)
            ft_tokenizer_close(t), opened++;
        else {
            assert_null(t);
            assert_true(strlen(ft_error_message()) > 0);
            refused++;
        }
    }
    assert_true(refused > 200);
    for (size_t i = 0; i < 300; i++) {
        ft_tokenizer *t;
        data[i] ^= 0x55;
        write_file("sentencepiece.bpe.model", data, length);
        data[i] ^= 0x55;
        if (ft_tokenizer_open(scratch, &t) == FT_OK) ft_tokenizer_close(t);
    }
    free(data);
    static const struct {
        const char *bytes;
        size_t length;
        const char *message;
    } cases[] = {
        {"", 0, "it has no pieces"},
        {"\x0A\x05\x0A\x01", 4, "a field longer than the file"},
        {"\x0A\x80", 2, "it ends inside a number"},
        {"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12, "a number without end"},
        {"\x0B", 1, "a field of unknown form"},
        {"\x08\x01", 2, "written in the wrong form"},
        {"\x0A\x03\x0A\x01\xFF", 5, "not valid UTF-8"},
        {"\x0A\x05\x15\x00\x00\xC0\x7F", 7, "a score that is not a number"},
        {"\x0A\x02\x18\x09", 4, "a piece of unknown type"},
        {"\x12\x02\x18\x02", 4, "BPE SentencePiece models are not supported; supported: Unigram"},
        {"\x12\x03\x98\x02\x01", 5, "byte_fallback is not supported"},
        {"\x1A\x02\x18\x00", 4, "add_dummy_prefix false is not supported"},
        {"\x0A\x03\x0A\x01\x61\x12\x03\xC0\x02\x07", 10, "unk_id 7 is none of the model's 1 pieces"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, "a pointer of Git LFS"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_file("sentencepiece.bpe.model", cases[i].bytes, cases[i].length);
        if (strstr(cases[i].message, "Git LFS") == NULL)
            expect_refusal(cases[i].message, "/sentencepiece.bpe.model", cases[i].message);
        else {
            expect_refusal(cases[i].message, "/sentencepiece.bpe.model", "not a SentencePiece model");
            assert_non_null(strstr(ft_error_hint(0), cases[i].message));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),   cmocka_unit_test(test_pairs),   cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_digests),   cmocka_unit_test(test_rules),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_importers), cmocka_unit_test(test_cut_spm),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

// The WordPiece tokenizer against the reference library: vectors of tests/vectors/make_tokenizer_vectors.py, whose
// lines are made here by the same generator; then every way a model directory can be wrong.
// ctest: tsan=run
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/utf8.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode/unicode.h"

#include <ctype.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VECTORS FT_TEST_VECTORS "/tokenizer_wordpiece/"

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

static void clear_scratch(void) {
    static const char *const names[] = {"vocab.txt", "tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "added_tokens.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", scratch, names[i]);
        unlink(path);
    }
}

static void write_json(const char *name, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT);
    assert_non_null(text);
    write_file(name, text, strlen(text));
    free(text);
}

static int set_up(void **state) { return mkdtemp(scratch) == NULL; }
static int tear_down(void **state) {
    clear_scratch();
    return rmdir(scratch);
}

// ---- the lines of the vectors --------------------------------------------------------------------------------------
static const char *const SPECIAL[] = {"[SEP]", "[CLS]", "[MASK]", "[PAD]",      "[UNK]",
                                      "[sep]", "[SEP",  "##ing",  "[CLS][SEP]", "[ SEP ]"};
static const uint32_t RANGES[][2] = {{0x20, 0x250},     {0x300, 0x370},    {0x370, 0x590},     {0x590, 0x900},
                                     {0x900, 0xE80},    {0xE80, 0x2000},   {0x2000, 0x2E80},   {0x2E80, 0xAC00},
                                     {0xAC00, 0xD7A4},  {0xE000, 0x10000}, {0x10000, 0x20000}, {0x1F300, 0x1FB00},
                                     {0xE0000, 0xE0100}};
static const uint32_t MARKS[] = {0x1D165, 0x16FF0, 0x302E,  0x302F, 0x903, 0x1D16D, 0x301, 0x93C, 0x1133B,
                                 0x20D0,  0x10F46, 0x1E2EC, 0x01,   0x00,  0x1AC0,  0x323, 0x941};
static const char *const MIXED[] = {"\u0130",
                                    "\u03a3",
                                    "\u03c2",
                                    "\u00df",
                                    "\ufb01",
                                    "\u4e2d",
                                    "\ud55c",
                                    "\uac01",
                                    "\U0001F600",
                                    "e\u0301",
                                    "\u212b",
                                    "\u3000",
                                    "\u00a0",
                                    "\xC2\x85",
                                    "\u200b",
                                    "\ufffd",
                                    "\U0001F469\u200d\U0001F467",
                                    "\U0002B820",
                                    "\u166d"};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static uint64_t draw_state;
static uint32_t below(uint64_t n) { // splitmix64
    uint64_t z = draw_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) % n);
}

static char line[8192];
static size_t line_length;
static void put(uint32_t code) { line_length += ft_utf8_put(code, line + line_length); }
static void put_text(const char *text) {
    memcpy(line + line_length, text, strlen(text));
    line_length += strlen(text);
}

static void random_line(int index) {
    line_length = 0;
    draw_state = (uint64_t)index * 1000003 + 17;
    for (uint32_t n = 1 + below(40); n > 0; n--) {
        uint32_t kind = below(12), k;
        if (kind < 4) {
            for (k = 1 + below(10); k > 0; k--) {
                uint32_t letter = 97 + below(26);
                put(below(8) == 0 ? letter - 32 : letter);
            }
        } else if (kind == 4)
            put(' ');
        else if (kind == 5)
            put_text(SPECIAL[below(COUNT(SPECIAL))]);
        else if (kind == 6) {
            const uint32_t *range = RANGES[below(COUNT(RANGES))];
            put(range[0] + below(range[1] - range[0]));
        } else if (kind == 7) {
            for (k = 1 + below(4); k > 0; k--)
                line[line_length++] = (char)below(256);
        } else if (kind == 8) {
            for (k = 1 + below(4); k > 0; k--)
                put(MARKS[below(COUNT(MARKS))]);
        } else if (kind == 9)
            put_text(MIXED[below(COUNT(MIXED))]);
        else if (kind == 10)
            put(' '), put(33 + below(94));
        else if (below(10) == 0) {
            uint32_t letter = below(2) == 0 ? 'x' : 0xE9;
            for (k = 90 + below(20); k > 0; k--)
                put(letter);
        } else
            put_text("##");
    }
}

static void code_point_line(int index) {
    line_length = 0;
    for (uint32_t c = 64 * (uint32_t)index; c < 64 * (uint32_t)index + 64; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        put('a'), put(c), put('b'), put(' '), put(c), put(' '), put(c), put(c), put('e'), put(c), put(0x301), put(' ');
    }
}

static uint32_t hash_ids(const ft_token_ids *ids) {
    uint32_t h = 0x811C9DC5;
    for (size_t i = 0; i < ids->count; i++)
        for (int shift = 0; shift < 32; shift += 8)
            h = (h ^ ((uint32_t)ids->ids[i] >> shift & 0xFF)) * 0x01000193;
    return h;
}

static json_t *load_list(const char *path) {
    json_error_t error;
    json_t *list = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (list == NULL) fail_msg("%s:%d: %s", path, error.line, error.text);
    assert_true(json_array_size(list) > 0);
    return list;
}

static uint32_t next_word(FILE *f) {
    unsigned char b[4];
    assert_int_equal(fread(b, 1, 4, f), 4);
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

// The vocabulary of the vectors as vocab.txt, or inside a given tokenizer.json.
static void place_vocabulary(json_t *file) {
    char *text;
    size_t length;
    assert_ok(ft_read_file(VECTORS "vocab.txt", 0, &text, &length));
    if (file == NULL)
        write_file("vocab.txt", text, length);
    else {
        json_t *vocabulary = json_object();
        int id = 0;
        for (char *at = strtok(text, "\n"); at != NULL; at = strtok(NULL, "\n"))
            json_object_set_new(vocabulary, at, json_integer(id++));
        json_object_set_new(json_object_get(file, "model"), "vocab", vocabulary);
        write_json("tokenizer.json", file);
    }
    free(text);
}

// One variant of the vectors; returns how many lines were compared.
static int run_variant(const json_t *variant, FILE *expected) {
    const char *name = json_string_value(json_object_get(variant, "name")), *minilm = getenv("FT_MINILM");
    bool pretrained = json_is_true(json_object_get(variant, "minilm"));
    bool random_lines = strcmp(json_string_value(json_object_get(variant, "lines")), "random") == 0;
    int limit = (int)json_integer_value(json_object_get(variant, "max_length")), count = (int)next_word(expected),
        different = 0;
    if (pretrained && minilm == NULL) {
        assert_int_equal(fseek(expected, 4L * count, SEEK_CUR), 0);
        return 0;
    }
    clear_scratch();
    json_t *config = json_object_get(variant, "config");
    if (config != NULL) write_json("tokenizer_config.json", config);
    if (!pretrained) place_vocabulary(json_object_get(variant, "tokenizer"));
    ft_tokenizer *t;
    assert_ok(ft_tokenizer_open(pretrained ? minilm : scratch, &t));
    ft_token_ids ids = {0};
    for (int i = 0; i < count; i++) {
        if (random_lines)
            random_line(i);
        else
            code_point_line(i);
        ids.count = 0;
        assert_ok(ft_tokenizer_encode(t, line, line_length, limit, &ids));
        if (hash_ids(&ids) == next_word(expected)) continue;
        if (different++ < 5) print_error("%s: line %d differs\n", name, i);
    }
    free(ids.ids);
    ft_tokenizer_close(t);
    if (different > 0) fail_msg("%s: %d of %d lines differ", name, different, count);
    return count;
}

static void test_vectors(void **state) {
    json_t *variants = load_list(VECTORS "variants.json");
    FILE *expected = fopen(VECTORS "expect.bin", "rb");
    assert_non_null(expected);
    assert_int_equal(next_word(expected), json_array_size(variants));
    int compared = 0;
    for (size_t i = 0; i < json_array_size(variants); i++)
        compared += run_variant(json_array_get(variants, i), expected);
    assert_int_equal(fgetc(expected), EOF);
    fclose(expected);
    json_decref(variants);
    assert_true(compared >= 8 * 12000 + 3 * 0x110000 / 64);
}

// The same ids in full, so that a failure above can be read.
static void test_readable(void **state) {
    FILE *f = fopen(VECTORS "readable.txt", "r");
    assert_non_null(f);
    clear_scratch();
    place_vocabulary(NULL);
    ft_tokenizer *t;
    assert_ok(ft_tokenizer_open(scratch, &t));
    ft_token_ids ids = {0};
    static char expected[32768], got[32768];
    int lines = 0;
    for (; fgets(expected, sizeof expected, f) != NULL; lines++) {
        random_line(lines);
        ids.count = 0;
        assert_ok(ft_tokenizer_encode(t, line, line_length, 0, &ids));
        size_t n = 0;
        for (size_t i = 0; i < ids.count; i++)
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%d", i > 0 ? " " : "", ids.ids[i]);
        snprintf(got + n, sizeof got - n, "\n");
        if (strcmp(got, expected) != 0) fail_msg("line %d\n  is  %s  not %s", lines, got, expected);
    }
    assert_int_equal(lines, 200);
    fclose(f);
    free(ids.ids);
    ft_tokenizer_close(t);
}

static void compare_ids(const char *name, size_t text, const ft_token_ids *ids, const json_t *expected) {
    bool same = ids->count == json_array_size(expected);
    for (size_t i = 0; same && i < ids->count; i++)
        same = ids->ids[i] == (int32_t)json_integer_value(json_array_get(expected, i));
    if (!same) fail_msg("%s: the ids of text %zu differ", name, text);
}

static void test_directories(void **state) {
    json_t *cases = load_list(VECTORS "files.json");
    ft_token_ids ids = {0};
    for (size_t c = 0; c < json_array_size(cases); c++) {
        json_t *one = json_array_get(cases, c), *texts = json_object_get(one, "texts"), *value;
        const char *name = json_string_value(json_object_get(one, "name")), *file;
        clear_scratch();
        json_object_foreach(json_object_get(one, "files"), file, value) {
            if (json_is_string(value))
                write_file(file, json_string_value(value), json_string_length(value));
            else
                write_json(file, value);
        }
        ft_tokenizer *t;
        if (ft_tokenizer_open(scratch, &t) != FT_OK) fail_msg("%s: %s: %s", name, ft_error_where(), ft_error_message());
        for (size_t i = 0; i < json_array_size(texts); i++) {
            const json_t *text = json_array_get(texts, i);
            ids.count = 0;
            assert_ok(ft_tokenizer_encode(t, json_string_value(text), json_string_length(text), 0, &ids));
            compare_ids(name, i, &ids, json_array_get(json_object_get(one, "ids"), i));
            ids.count = 0;
            assert_ok(ft_tokenizer_encode(t, json_string_value(text), json_string_length(text), 6, &ids));
            compare_ids(name, i, &ids, json_array_get(json_object_get(one, "ids_6"), i));
        }
        ft_tokenizer_close(t);
    }
    assert_true(json_array_size(cases) >= 50);
    free(ids.ids);
    json_decref(cases);
}

// ---- errors --------------------------------------------------------------------------------------------------------
#define BASE "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n"
#define MODEL(extra)                                                                                                   \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","                  \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"a\":1" extra "}}"
#define SPLIT ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"
#define ADDED(token, flags) "{\"added_tokens_decoder\":{\"8\":{\"content\":\"" token "\"" flags "}}}"

static void test_refusals(void **state) {
    static const struct {
        const char *vocabulary, *tokenizer, *config, *added, *where, *message;
    } cases[] = {
        {NULL, NULL, "{}", NULL, "", "no vocab.txt and no tokenizer.json"},
        {"[PAD]\n[CLS]\n[SEP]\n", NULL, NULL, NULL, "/vocab.txt", "no \"[UNK]\" (unk_token)"},
        {"[PAD]\n[UNK]\n[SEP]\n", NULL, NULL, NULL, "/vocab.txt", "no \"[CLS]\" (cls_token)"},
        {"[PAD]\n[UNK]\n[CLS]\n", NULL, NULL, NULL, "/vocab.txt", "no \"[SEP]\" (sep_token)"},
        {"", NULL, NULL, NULL, "/vocab.txt", "no \"[UNK]\""},
        {BASE, NULL, "{\"cls_token\":\"<s>\"}", NULL, "/vocab.txt", "no \"<s>\" (cls_token)"},
        {BASE, NULL, "{\"sep_token\":null}", NULL, "/tokenizer_config.json", "sep_token must not be null"},
        {BASE "a\n", NULL, NULL, NULL, "/vocab.txt:9", "token \"a\" stands already on line 6"},
        {BASE "c\n\nc \n", NULL, NULL, NULL, "/vocab.txt:11", "token \"c\" stands already on line 9"},
        {BASE "x\xFF\n", NULL, NULL, NULL, "/vocab.txt:9", "not valid UTF-8"},
        {"\xEF\xBB\xBF" BASE, NULL, NULL, NULL, "/vocab.txt:1", "byte order mark"},
        {BASE, NULL, "{\n\"a\": 1,\n b}", NULL, "/tokenizer_config.json:3:", "not valid JSON"},
        {BASE, NULL, "{\"a\":1,\n\"a\":2}", NULL, "/tokenizer_config.json:2:", "duplicate key"},
        {BASE, NULL, "[]", NULL, "/tokenizer_config.json", "must hold a JSON object"},
        {BASE, NULL, "{\"do_lower_case\":\"yes\"}", NULL, "/tokenizer_config.json", "do_lower_case"},
        {BASE, NULL, "{\"model_max_length\":\"512\"}", NULL, "/tokenizer_config.json", "model_max_length"},
        {BASE, NULL, "{\"truncation_side\":\"left\"}", NULL, "/tokenizer_config.json", "\"left\" is not supported"},
        {BASE, NULL, "{\"split_special_tokens\":true}", NULL, "/tokenizer_config.json", "split_special_tokens"},
        {BASE, NULL, "{\"tokenizer_class\":\"RobertaTokenizer\"}", NULL, "", "no vocab.json and no tokenizer.json"},
        {BASE, NULL, "{\"tokenizer_class\":\"T5Tokenizer\"}", NULL, "/tokenizer_config.json",
         "T5Tokenizer is not supported; supported: BertTokenizer"},
        {BASE, NULL, "{\"tokenizer_class\":\"TokenizersBackend\"}", NULL, "/tokenizer_config.json",
         "needs tokenizer.json"},
        {BASE, NULL, "{\"mask_token\":5}", NULL, "/tokenizer_config.json: mask_token", "must be a string or an object"},
        {BASE, NULL, "{\"mask_token\":{\"lstrip\":true}}", NULL, "/tokenizer_config.json: mask_token",
         "\"content\" is missing"},
        {BASE, NULL, "{\"mask_token\":\"\"}", NULL, "/tokenizer_config.json: mask_token", "must not be empty"},
        {BASE, NULL, "{\"extra_special_tokens\":3}", NULL, "/tokenizer_config.json: extra_special_tokens",
         "must be a list"},
        {BASE, NULL, "{\"added_tokens_decoder\":[]}", NULL, "/tokenizer_config.json: added_tokens_decoder",
         "from ids to tokens"},
        {BASE, NULL, "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", NULL, ": added_tokens_decoder",
         "must be a whole number"},
        {BASE, NULL, ADDED("b", ""), NULL, ": added_tokens_decoder", "\"b\" is recorded with id 8, but is token 6"},
        {BASE, NULL, ADDED("\\u0301", ""), NULL, "", "empty once normalised"},
        {BASE, NULL, NULL, "{\"[Y]\":19}", "/added_tokens.json: [Y]", "recorded with id 19, but is token 8"},
        {BASE, NULL, NULL, "{\"[Y]\":\"8\"}", "/added_tokens.json: [Y]", "must be a whole number"},
        {BASE, "{}", NULL, NULL, "/tokenizer.json: model", "missing"},
        {NULL, "{\"model\":{\"type\":\"WordLevel\"}}", NULL, NULL, "/tokenizer.json: model",
         "WordLevel is not supported; supported: WordPiece, BPE, Unigram"},
        {NULL, "{\"model\":{\"type\":\"BPE\"}}", "{\"tokenizer_class\":\"BertTokenizer\"}", NULL,
         "/tokenizer.json: model", "BPE is not what BertTokenizer has, which is WordPiece"},
        {NULL, "{\"model\":{\"vocab\":{}}}", NULL, NULL, "/tokenizer.json: model", "\"unk_token\" is missing"},
        {NULL, "{" MODEL(",\"b\":1") SPLIT "}", NULL, NULL, ": model.vocab", "\"a\" and \"b\" have the same id 1"},
        {NULL, "{" MODEL(",\"b\":1.5") SPLIT "}", NULL, NULL, ": model.vocab",
         "the id of \"b\" must be a whole number"},
        {NULL, "{" MODEL(",\"b\":1e12") SPLIT "}", NULL, NULL, ": model.vocab",
         "the id of \"b\" must be a whole number"},
        {NULL, "{" MODEL(",\n\"a\":2") SPLIT "}", NULL, NULL, "/tokenizer.json:2:", "duplicate key"},
        {NULL, "{" MODEL("") "}", NULL, NULL, ": pre_tokenizer",
         "null is not supported; supported: BertPreTokenizer, WhitespaceSplit"},
        {NULL, "{" MODEL("") ",\"pre_tokenizer\":{\"type\":\"Whitespace\"}}", NULL, NULL, ": pre_tokenizer",
         "Whitespace is not supported"},
        {NULL, "{" MODEL("") SPLIT ",\"normalizer\":{\"type\":\"Nmt\"}}", NULL, NULL, ": normalizer",
         "Nmt is not supported"},
        {NULL, "{" MODEL("") SPLIT ",\"normalizer\":{}}", NULL, NULL, ": normalizer",
         "without a type is not supported"},
        {NULL, "{" MODEL("") SPLIT ",\"post_processor\":{\"type\":\"XProcessing\"}}", NULL, NULL, ": post_processor",
         "XProcessing is not supported; supported: BertProcessing, RobertaProcessing"},
        {NULL, "{" MODEL("") SPLIT ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",2]}}", NULL, NULL,
         ": post_processor", "must be one of the vocabulary's 2"},
        {NULL, "{" MODEL("") SPLIT ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}}", NULL, NULL,
         ": post_processor", "does not hold the text"},
        {NULL, "{" MODEL("") SPLIT ",\"added_tokens\":[{\"content\":\"z\"}]}", NULL, NULL, ": added_tokens",
         "must be a whole number"},
        {NULL, "{" MODEL("") SPLIT ",\"added_tokens\":[{\"content\":\"z\",\"id\":7}]}", NULL, NULL, ": added_tokens",
         "is token 2 here"},
        {NULL, "{" MODEL("") SPLIT "}", "{}", NULL, "/tokenizer.json", "no \"[CLS]\" (cls_token)"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        clear_scratch();
        if (cases[i].vocabulary != NULL) write_file("vocab.txt", cases[i].vocabulary, strlen(cases[i].vocabulary));
        if (cases[i].tokenizer != NULL) write_file("tokenizer.json", cases[i].tokenizer, strlen(cases[i].tokenizer));
        if (cases[i].config != NULL) write_file("tokenizer_config.json", cases[i].config, strlen(cases[i].config));
        if (cases[i].added != NULL) write_file("added_tokens.json", cases[i].added, strlen(cases[i].added));
        ft_tokenizer *t = (ft_tokenizer *)&t;
        ft_error_clear();
        ft_status status = ft_tokenizer_open(scratch, &t);
        if (status != FT_INVALID || t != NULL || strstr(ft_error_message(), cases[i].message) == NULL ||
            strstr(ft_error_where(), cases[i].where) == NULL || strstr(ft_error_where(), scratch) == NULL)
            fail_msg("case %zu: status %d, where \"%s\", message \"%s\"", i, status, ft_error_where(),
                     ft_error_message());
    }
    ft_tokenizer *t;
    assert_int_equal(ft_tokenizer_open("/nonexistent/model", &t), FT_INVALID);
    ft_tokenizer_close(NULL);
}

// Vocabularies that are made to be slow: tokens whose children leave places in the trie that nothing fits into, and as many added tokens as
// models of speech have. Of a hundred times as many each would take ten thousand times as long.
static void test_large(void **state) {
    enum { LETTERS = 40, ADDED = 30000 };
    static const char ends[] = "013";
    char *text = malloc(ADDED * 64 + LETTERS * LETTERS * LETTERS * 15 + 100), *at = text;
    ft_tokenizer *t;
    ft_token_ids ids = {0};
    assert_non_null(text);
    at += sprintf(at, "%s", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int i = 0; i < LETTERS * LETTERS * LETTERS * 3; i++)
        at += sprintf(at, "%c%c%c%c\n", 48 + i / 3 % LETTERS, 48 + i / 3 / LETTERS % LETTERS, 48 + i / 3 / LETTERS / LETTERS, ends[i % 3]);
    clear_scratch();
    write_file("vocab.txt", text, (size_t)(at - text));
    const double began = ft_now();
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_int_equal(ft_tokenizer_vocabulary(t), 5 + LETTERS * LETTERS * LETTERS * 3);
    assert_string_equal(ft_tokenizer_token(t, 7), "0003");
    ft_tokenizer_close(t);

    at = text + sprintf(text, "{\"added_tokens_decoder\": {");
    for (int i = 0; i < ADDED; i++) at += sprintf(at, "%s\"%d\": {\"content\": \"<|s_%d|>\", \"special\": true}", i > 0 ? "," : "", 5 + i, i);
    at += sprintf(at, "}}");
    clear_scratch();
    write_file("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", 31);
    write_file("tokenizer_config.json", text, (size_t)(at - text));
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_ok(ft_tokenizer_encode(t, "<|s_0|><|s_29999|>", 18, 0, &ids));
    static const int32_t expected[] = {2, 5, 5 + ADDED - 1, 3};
    assert_int_equal(ids.count, COUNT(expected));
    assert_memory_equal(ids.ids, expected, sizeof expected);
    ft_tokenizer_close(t);
    free(ids.ids);
    free(text);
    if (ft_now() - began > 10) fail_msg("it took %.1f s", ft_now() - began); // 0.6 s on two busy cores; 22 s when each looked through all others
}

// ---- the rest of the contract --------------------------------------------------------------------------------------
static void test_accessors(void **state) {
    static const char config[] = "{\"model_max_length\":1000000000000000019884624838656}",
                      short_config[] = "{\"model_max_length\":512}";
    char digest[65];
    ft_tokenizer *t;
    clear_scratch();
    write_file("vocab.txt", "[UNK]\n\n[CLS]\n[SEP]\n[PAD]\na\n", 27);
    write_file("tokenizer_config.json", config, sizeof config - 1);
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_int_equal(ft_tokenizer_max_length(t), 0);
    assert_int_equal(ft_tokenizer_padding_id(t), 4);
    assert_int_equal(ft_tokenizer_vocabulary(t), 7); // [MASK] is numbered on, as the reference does
    assert_string_equal(ft_tokenizer_token(t, 6), "[MASK]");
    assert_string_equal(ft_tokenizer_token(t, 1), "");
    assert_null(ft_tokenizer_token(t, 7));
    assert_null(ft_tokenizer_token(t, -1));
    assert_string_equal(ft_tokenizer_files(t)[0], "vocab.txt");
    assert_string_equal(ft_tokenizer_files(t)[1], "tokenizer_config.json");
    assert_null(ft_tokenizer_files(t)[2]);
    snprintf(digest, sizeof digest, "%s", ft_tokenizer_digest(t));
    assert_int_equal(strlen(digest), 64);
    ft_tokenizer_close(t);

    write_file("tokenizer_config.json", short_config, sizeof short_config - 1); // says nothing about ids
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_int_equal(ft_tokenizer_max_length(t), 512);
    assert_string_equal(ft_tokenizer_digest(t), digest);
    ft_tokenizer_close(t);

    static const char *const differing[] = {
        "{\"do_lower_case\":false}", "{\"strip_accents\":false}", "{\"tokenize_chinese_chars\":false}",
        "{\"mask_token\":{\"content\":\"[MASK]\",\"lstrip\":true}}", "{\"cls_token\":\"a\"}"};
    for (size_t i = 0; i < COUNT(differing); i++) {
        write_file("tokenizer_config.json", differing[i], strlen(differing[i]));
        assert_ok(ft_tokenizer_open(scratch, &t));
        assert_string_not_equal(ft_tokenizer_digest(t), digest);
        ft_tokenizer_close(t);
    }
}

static void test_appends(void **state) {
    clear_scratch();
    write_file("vocab.txt", BASE, sizeof BASE - 1);
    ft_tokenizer *t;
    ft_token_ids ids = {0};
    assert_ok(ft_tokenizer_open(scratch, &t));
    assert_ok(ft_tokenizer_encode(t, "a", 1, 0, &ids));
    assert_ok(ft_tokenizer_encode(t, "a abb q", 7, 5, &ids));
    static const int32_t expected[] = {2, 5, 3, 2, 5, 5, 7, 3};
    assert_int_equal(ids.count, COUNT(expected));
    assert_memory_equal(ids.ids, expected, sizeof expected);
    assert_int_equal(ft_tokenizer_encode(t, "a", 1, 1, &ids), FT_INVALID);
    assert_int_equal(ids.count, COUNT(expected)); // a failing call appends nothing
    assert_ok(ft_tokenizer_encode(t, "a", 1, 2, &ids));
    assert_int_equal(ids.count, COUNT(expected) + 2);
    // Long texts are normalised in stretches, which must not show: a word across every boundary, and none lost.
    static char text[3 * 20000];
    for (int i = 0; i < 20000; i++)
        memcpy(text + 3 * i, "ab ", 3);
    for (size_t cut = 0; cut < 3; cut++) {
        ids.count = 0;
        assert_ok(ft_tokenizer_encode(t, text + cut, sizeof text - cut, 0, &ids));
        assert_int_equal(ids.count, 2 + 2 * 20000 - cut);
        for (size_t i = 4; i + 1 < ids.count; i++)
            assert_int_equal(ids.ids[i], (i + cut) % 2 == 1 ? 5 : 7); // a, ##b
    }
    free(ids.ids);
    ft_tokenizer_close(t);
}

typedef struct worker {
    const ft_tokenizer *t;
    uint64_t sum;
} worker;
static void *encode_many(void *argument) {
    worker *w = argument;
    ft_token_ids ids = {0};
    for (int i = 0; i < 2000; i++) {
        static const char text[] = "Abb \xC3\xA9 [SEP] \xFF\xE1\x84 b\xCC\x81 \xE4\xB8\xAD";
        ids.count = 0;
        if (ft_tokenizer_encode(w->t, text, sizeof text - 1, i % 20 + 2, &ids) != FT_OK) return NULL;
        for (size_t k = 0; k < ids.count; k++)
            w->sum = w->sum * 31 + (uint64_t)ids.ids[k];
    }
    free(ids.ids);
    return w;
}

static void test_threads(void **state) {
    clear_scratch();
    write_file("vocab.txt", BASE, sizeof BASE - 1);
    ft_tokenizer *t;
    assert_ok(ft_tokenizer_open(scratch, &t));
    worker workers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){t, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
        assert_true(workers[i].sum == workers[0].sum && workers[i].sum != 0);
    }
    ft_tokenizer_close(t);
}

// The table was made by asking a tokenizer, in which "S" was an added token and seemed to be no word.
static void test_word_characters(void **state) {
    for (uint32_t c = 1; c < 128; c++) assert_int_equal(ft_char_is_word(c), isalnum((int)c) != 0 || c == '_');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readable), cmocka_unit_test(test_vectors),   cmocka_unit_test(test_directories),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_large), cmocka_unit_test(test_accessors), cmocka_unit_test(test_appends),
        cmocka_unit_test(test_threads),  cmocka_unit_test(test_word_characters),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

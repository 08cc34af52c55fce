// Tokenizers of Qwen2.5, Qwen3 and Llama 3, and BPE over characters as Llama 2 and Gemma have it, against the reference libraries, ids and text again: vectors of
// tests/vectors/decoder_tokenizers/make_decoder_tokenizer_vectors.py; roles, and what cannot be decoded.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "engine/text/tokenizer.h"
#include "tests/text/tokenizer_lines.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VECTORS FT_TEST_VECTORS "/decoder_tokenizers/"
enum { LINES = 6000, LINES_OF_CHARACTERS = 2400, BLOCK = 16, PARTS = 4 };

static char scratch[] = "/tmp/ft-decoder-XXXXXX";
static int set_up(void **state) { return mkdtemp(scratch) == NULL; }
static int tear_down(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static void assert_ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
}

static void write_text(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

// Special tokens around every fourth line, as framed() of the vectors' script has them. free() the text.
static char *framed_line(int index, size_t *length) {
    static text_line line;
    static const char *const around[4][2] = {{"", ""},
                                             {"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"},
                                             {"", ""},
                                             {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|></think> <tool_call>"}};
    mixed_line(&line, index);
    const char *front = around[index % 4][0], *behind = around[index % 4][1];
    *length = strlen(front) + line.length + strlen(behind);
    char *text = malloc(*length + 1);
    assert_non_null(text);
    memcpy(text, front, strlen(front));
    memcpy(text + strlen(front), line.text, line.length);
    memcpy(text + strlen(front) + line.length, behind, strlen(behind));
    return text;
}

static uint32_t hash(uint32_t h, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        h = (h ^ bytes[i]) * 0x01000193;
    return h;
}

static uint32_t hash_ids(uint32_t h, const ft_token_ids *ids) {
    for (size_t i = 0; i <= ids->count; i++) {
        const uint32_t number = i == 0 ? (uint32_t)ids->count : (uint32_t)ids->ids[i - 1];
        const unsigned char bytes[4] = {number & 255, number >> 8 & 255, number >> 16 & 255, number >> 24};
        h = hash(h, bytes, 4);
    }
    return h;
}

static uint32_t hash_text(uint32_t h, const ft_tokenizer *t, const int32_t *ids, size_t count, bool skip, ft_decoded *out) {
    out->length = 0;
    assert_ok(ft_tokenizer_decode(t, ids, count, skip, out));
    assert_int_equal(out->text[out->length], '\0');
    return hash(hash(h, out->text, out->length), "\n", 1);
}

// One line: its ids, their text with and without special tokens, and the text of ids drawn at random.
static void add_line(const ft_tokenizer *t, int index, uint32_t hashes[PARTS]) {
    size_t length;
    char *text = framed_line(index, &length);
    ft_token_ids ids = {0};
    ft_decoded out = {0};
    int32_t odd[12];
    assert_ok(ft_tokenizer_encode(t, text, length, 0, &ids));
    draw_state = (uint64_t)index * 7919 + 5;
    const size_t count = (size_t)below(12);
    for (size_t i = 0; i < count; i++)
        odd[i] = (int32_t)below((uint64_t)ft_tokenizer_vocabulary(t));
    hashes[0] = hash_ids(hashes[0], &ids);
    hashes[1] = hash_text(hashes[1], t, ids.ids, ids.count, false, &out);
    hashes[2] = hash_text(hashes[2], t, ids.ids, ids.count, true, &out);
    hashes[3] = hash_text(hashes[3], t, odd, count, false, &out);
    free(out.text);
    free(ids.ids);
    free(text);
}

static void run_directory(const char *directory, int lines, FILE *expected) {
    static const char *const parts[PARTS] = {"ids", "text", "text without special tokens", "text of odd ids"};
    int different[PARTS] = {0};
    ft_tokenizer *t;
    assert_ok(ft_tokenizer_open(directory, &t));
    for (int block = 0; block < lines; block += BLOCK) {
        uint32_t hashes[PARTS] = {0x811C9DC5, 0x811C9DC5, 0x811C9DC5, 0x811C9DC5};
        for (int i = block; i < block + BLOCK; i++)
            add_line(t, i, hashes);
        for (int k = 0; k < PARTS; k++) {
            unsigned char b[4];
            assert_int_equal(fread(b, 1, 4, expected), 4);
            const uint32_t wanted = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
            if (hashes[k] != wanted && different[k]++ < 2)
                print_error("%s: %s of some line of %d to %d\n", directory, parts[k], block, block + BLOCK - 1);
        }
    }
    ft_tokenizer_close(t);
    for (int k = 0; k < PARTS; k++)
        if (different[k] > 0) fail_msg("%s: %s of %d blocks differ", directory, parts[k], different[k]);
}

// Qwen's vocabulary and merges without a tokenizer.json.
static void place_files_alone(void) {
    json_t *file = json_load_file(VECTORS "qwen/tokenizer.json", 0, NULL), *model = json_object_get(file, "model"), *merge;
    char path[256], *data;
    size_t i;
    assert_non_null(file);
    snprintf(path, sizeof path, "%s/vocab.json", scratch);
    assert_int_equal(json_dump_file(json_object_get(model, "vocab"), path, 0), 0);
    snprintf(path, sizeof path, "%s/merges.txt", scratch);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs("#version: 0.2\n", out);
    json_array_foreach(json_object_get(model, "merges"), i, merge) {
        if (json_is_string(merge))
            fprintf(out, "%s\n", json_string_value(merge));
        else
            fprintf(out, "%s %s\n", json_string_value(json_array_get(merge, 0)), json_string_value(json_array_get(merge, 1)));
    }
    assert_int_equal(fclose(out), 0);
    json_decref(file);
    assert_ok(ft_read_file(VECTORS "qwen/tokenizer_config.json", 0, &data, &i));
    write_text("tokenizer_config.json", data);
    free(data);
}

static void test_vectors(void **state) {
    FILE *expected = fopen(VECTORS "expect.bin", "rb");
    assert_non_null(expected);
    run_directory(VECTORS "qwen", LINES, expected);
    run_directory(VECTORS "llama3", LINES, expected);
    place_files_alone();
    run_directory(scratch, LINES, expected);
    assert_int_equal(fgetc(expected), EOF);
    fclose(expected);
}

// As variant() of the vectors' script has it.
static void placed_variant(const char *name) {
    json_t *file = json_load_file(VECTORS "llama2/tokenizer.json", 0, NULL);
    char path[256], *data;
    size_t length;
    assert_non_null(file);
    assert_ok(ft_remove_tree(scratch));
    assert_ok(ft_make_directories(scratch));
    if (strcmp(name, "gemma") == 0) {
        assert_int_equal(json_array_remove(json_object_get(json_object_get(file, "normalizer"), "normalizers"), 0), 0);
        assert_int_equal(json_array_remove(json_object_get(json_object_get(file, "decoder"), "decoders"), 3), 0);
    } else {
        json_t *step = json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", "\xE2\x96\x81", "prepend_scheme", "first", "split", 1);
        json_object_set_new(file, "normalizer", json_null());
        json_object_set(file, "pre_tokenizer", step);
        json_object_set_new(file, "decoder", step);
        json_object_set_new(json_object_get(file, "model"), "byte_fallback", json_false());
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", scratch);
    assert_int_equal(json_dump_file(file, path, 0), 0);
    json_decref(file);
    assert_ok(ft_read_file(VECTORS "llama2/tokenizer_config.json", 0, &data, &length));
    write_text("tokenizer_config.json", data);
    free(data);
}

static void test_characters(void **state) {
    FILE *expected = fopen(VECTORS "expect_characters.bin", "rb");
    assert_non_null(expected);
    run_directory(VECTORS "llama2", LINES_OF_CHARACTERS, expected);
    placed_variant("gemma");
    run_directory(scratch, LINES_OF_CHARACTERS, expected);
    placed_variant("metaspace");
    run_directory(scratch, LINES_OF_CHARACTERS, expected);
    assert_int_equal(fgetc(expected), EOF);
    fclose(expected);
}

// Decoders that are no such sequence are refused by name; texts may become ids all the same.
static void test_other_decoders(void **state) {
    static const char *const others[] = {
        "null", "{\"type\": \"ByteLevel\"}", "{\"type\": \"Metaspace\", \"replacement\": \"_\"}", "{\"type\": \"Sequence\", \"decoders\": []}",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"_\"}, \"content\": \" \"}]}",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xE2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xE2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 1}]}"};
    placed_variant("gemma");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char path[256];
        ft_tokenizer *t;
        ft_token_ids ids = {0};
        ft_decoded out = {0};
        snprintf(path, sizeof path, "%s/tokenizer.json", scratch);
        json_t *file = json_load_file(path, 0, NULL), *decoder = json_loads(others[i], JSON_DECODE_ANY, NULL);
        assert_true(file != NULL && decoder != NULL);
        json_object_set_new(file, "decoder", decoder);
        assert_int_equal(json_dump_file(file, path, 0), 0);
        json_decref(file);
        assert_ok(ft_tokenizer_open(scratch, &t));
        assert_ok(ft_tokenizer_encode(t, "a film", 6, 0, &ids));
        assert_int_equal(ft_tokenizer_decode(t, ids.ids, ids.count, false, &out), FT_INVALID);
        if (strstr(ft_error_message(), "of tokenizer.json is not supported; supported: Metaspace") == NULL) fail_msg("%zu: %s", i, ft_error_message());
        ft_tokenizer_close(t);
        free(ids.ids);
        free(out.text);
    }
}

static void test_roles(void **state) {
    ft_tokenizer *t;
    ft_token_ids ids = {0};
    assert_ok(ft_tokenizer_open(VECTORS "qwen", &t));
    assert_int_equal(ft_tokenizer_role_id(t, "bos_token"), -1);
    assert_string_equal(ft_tokenizer_token(t, ft_tokenizer_role_id(t, "eos_token")), "<|im_end|>");
    assert_string_equal(ft_tokenizer_token(t, ft_tokenizer_role_id(t, "pad_token")), "<|endoftext|>");
    assert_int_equal(ft_tokenizer_role_id(t, "no_token"), -1);
    assert_true(ft_tokenizer_is_special(t, ft_tokenizer_role_id(t, "eos_token")));
    assert_false(ft_tokenizer_is_special(t, 5));
    assert_int_equal(ft_tokenizer_special_end(t, "hi<|im_end|>", 12), 10);
    assert_int_equal(ft_tokenizer_special_end(t, "hi<|im_end|>\n", 13), 0);
    assert_int_equal(ft_tokenizer_special_end(t, "</think>", 8), 0); // added, not special
    ft_tokenizer_close(t);
    assert_ok(ft_tokenizer_open(VECTORS "llama3", &t));
    assert_ok(ft_tokenizer_encode(t, "a", 1, 0, &ids));
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], ft_tokenizer_role_id(t, "bos_token"));
    ids.count = 0;
    assert_ok(ft_tokenizer_encode_bare(t, "a", 1, &ids));
    assert_int_equal(ids.count, 1);
    ids.ids[0] = 1 << 20;
    ft_decoded out = {0};
    assert_int_equal(ft_tokenizer_decode(t, ids.ids, 1, false, &out), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "1048576 is no token"));
    free(out.text);
    free(ids.ids);
    ft_tokenizer_close(t);
}

// The digits of a word are part of what a token cache is found by.
static void test_digests(void **state) {
    static const char *const digits[2] = {"{1,3}", ""};
    char file[2000], digest[2][65];
    assert_ok(ft_remove_tree(scratch));
    assert_ok(ft_make_directories(scratch));
    for (int i = 0; i < 2; i++) {
        ft_tokenizer *t;
        snprintf(file, sizeof file,
                 "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"1\":1},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
                 "\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                 "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}%s| "
                 "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
                 "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}}",
                 digits[i]);
        write_text("tokenizer.json", file);
        write_text("tokenizer_config.json", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}");
        assert_ok(ft_tokenizer_open(scratch, &t));
        memcpy(digest[i], ft_tokenizer_digest(t), 65);
        ft_decoded out = {0}; // a file without a decoder
        assert_int_equal(ft_tokenizer_decode(t, (const int32_t[]){0}, 1, false, &out), FT_INVALID);
        assert_non_null(strstr(ft_error_message(), "decoder null of tokenizer.json is not supported; supported: ByteLevel"));
        ft_tokenizer_close(t);
    }
    assert_string_not_equal(digest[0], digest[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_characters), cmocka_unit_test(test_other_decoders), cmocka_unit_test(test_roles), cmocka_unit_test(test_digests)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

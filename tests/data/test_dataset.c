// Data sets: tokenising, labels, and the token cache. The tokenizer is a stand-in that counts how often it is asked:
// one token a byte between two specials, so that expected ids can be read off the text.
#include "base/files.h"
#include "engine/data/token_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 256, LAST = 257, VOCABULARY = 258 };

struct ft_tokenizer {
    const char *digest;
    int calls, fail_at; // fail_at: the call that fails, from 1
    bool silent;        // gives no tokens
};

ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, size_t length, int max_length,
                              ft_token_ids *out) {
    ft_tokenizer *self = (ft_tokenizer *)tokenizer;
    if (++self->calls == self->fail_at) return ft_fail(FT_INVALID, NULL, "the tokenizer does not like this");
    if (self->silent) return FT_OK;
    if (max_length > 0 && length > (size_t)max_length - 2) length = (size_t)max_length - 2;
    if (out->capacity < out->count + length + 2) {
        out->capacity = 2 * (out->count + length + 2);
        out->ids = realloc(out->ids, out->capacity * sizeof *out->ids);
        assert_non_null(out->ids);
    }
    out->ids[out->count++] = FIRST;
    for (size_t i = 0; i < length; i++)
        out->ids[out->count++] = (unsigned char)text[i];
    out->ids[out->count++] = LAST;
    return FT_OK;
}

// Both texts whole, types 0 and 1; limits are the real tokenizer's business.
ft_status ft_tokenizer_encode_pair(const ft_tokenizer *tokenizer, const char *text, size_t length, const char *pair,
                                   size_t pair_length, int max_length, ft_truncation truncation, ft_token_ids *out,
                                   ft_token_ids *types) {
    assert_int_equal(truncation, FT_TRUNCATE_LONGEST_FIRST);
    for (int part = 0; part < 2; part++) {
        size_t before = out->count;
        FT_TRY(ft_tokenizer_encode(tokenizer, part == 0 ? text : pair, part == 0 ? length : pair_length, 0, out));
        for (size_t i = before; types != NULL && i < out->count; i++) {
            if (types->count == types->capacity) {
                types->capacity = 2 * types->capacity + 8;
                types->ids = realloc(types->ids, types->capacity * sizeof *types->ids);
                assert_non_null(types->ids);
            }
            types->ids[types->count++] = part;
        }
    }
    return FT_OK;
}

// Windows of max_length - 2 bytes without an overlap; an overlap of 99 is refused.
ft_status ft_long_text_check(const ft_long_text *rule, const ft_tokenizer *tokenizer, bool paired, int max_length) {
    return rule->overlap == 99 ? ft_fail(FT_INVALID, "data.truncation", "too much") : FT_OK;
}

ft_status ft_tokenizer_encode_long(const ft_tokenizer *tokenizer, const char *text, size_t length, const char *pair,
                                   size_t pair_length, int max_length, const ft_long_text *rule, ft_token_ids *out,
                                   ft_token_ids *types, ft_token_ids *lengths, bool *whole) {
    assert_true(rule->kind == FT_LONG_WINDOWS && pair == NULL && types == NULL);
    size_t room = (size_t)max_length - 2, at = 0;
    *whole = length <= room;
    do {
        size_t part = length - at < room ? length - at : room;
        FT_TRY(ft_tokenizer_encode(tokenizer, text + at, part, 0, out));
        lengths->ids = realloc(lengths->ids, (lengths->count + 1) * sizeof *lengths->ids);
        assert_non_null(lengths->ids);
        lengths->ids[lengths->count++] = (int32_t)part + 2;
        lengths->capacity = lengths->count;
        at += part;
    } while (at < length);
    return FT_OK;
}

int ft_tokenizer_vocabulary(const ft_tokenizer *tokenizer) { return VOCABULARY; }
const char *ft_tokenizer_digest(const ft_tokenizer *tokenizer) { return tokenizer->digest; }

static const char *const NAMES[] = {"0", "1"};
static const ft_labels LABELS = {.count = 2, .names = (const char **)NAMES};
static char scratch[] = "/tmp/test_dataset_XXXXXX";

static ft_table table_of(const char *content, size_t length) {
    char *data = malloc(length + 1);
    assert_non_null(data);
    memcpy(data, content, length);
    ft_table table;
    assert_int_equal(ft_table_parse(data, length, length, "t.tsv", &(ft_table_request){.text = "", .label = ""}, &table), FT_OK);
    return table;
}

#define TABLE(content) table_of(content, sizeof(content) - 1)

static ft_table usual(void) { return TABLE("text\tlabel\nabc\t1\n\t0\nabcdef\t0\nx\0y\t1\n"); }

// A new directory below the scratch directory, not yet made.
static const char *new_directory(void) {
    static char path[128];
    static int number;
    snprintf(path, sizeof path, "%s/%d/tokens", scratch, number++);
    return path;
}

static char *only_file(const char *directory) {
    static char path[400];
    int files = 0;
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        files++;
    }
    closedir(entries);
    assert_int_equal(files, 1); // and no temporary left over
    return path;
}

static void check_usual(const ft_dataset *data) {
    const int32_t ids[] = {FIRST, 'a', 'b',  'c',   LAST, FIRST, LAST, FIRST, 'a',
                           'b',   'c', LAST, FIRST, 'x',  0,     'y',  LAST};
    const int64_t offset[] = {0, 5, 7, 12, 17};
    const int32_t label[] = {1, 0, 0, 1};
    assert_int_equal(data->examples, 4);
    assert_int_equal(data->tokens, 17);
    assert_memory_equal(data->ids, ids, sizeof ids);
    assert_memory_equal(data->offset, offset, sizeof offset);
    assert_memory_equal(data->label, label, sizeof label);
    assert_int_equal(data->longest, 5);
    assert_int_equal(data->truncated, 1); // "abcdef"; "abc" and "x\0y" fit exactly
}

// What is written to standard error while `stop` has not been called.
static int saved_error = -1;
static FILE *captured;
static void capture(void) {
    fflush(stderr);
    captured = tmpfile();
    assert_non_null(captured);
    saved_error = dup(STDERR_FILENO);
    assert_true(dup2(fileno(captured), STDERR_FILENO) >= 0);
}
static const char *stop(void) {
    static char text[4096];
    fflush(stderr);
    assert_true(dup2(saved_error, STDERR_FILENO) >= 0);
    close(saved_error);
    rewind(captured);
    text[fread(text, 1, sizeof text - 1, captured)] = '\0';
    fclose(captured);
    return text;
}

static void tokenises(void **state) {
    ft_tokenizer tokenizer = {.digest = "d"};
    ft_table table = usual();
    ft_dataset data;
    bool from_cache = true;
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, NULL, &data, &from_cache), FT_OK);
    assert_false(from_cache);
    check_usual(&data);
    assert_string_equal(data.sha256, table.sha256);
    ft_dataset_free(&data);
    ft_dataset_free(&data);

    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 0, NULL, NULL, NULL, &data, NULL), FT_OK);
    assert_int_equal(data.tokens, 20); // without a limit
    assert_int_equal(data.longest, 8);
    assert_int_equal(data.truncated, 0);
    assert_null(data.label);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

static ft_table pairs_of(const char *content) {
    size_t length = strlen(content);
    char *data = malloc(length + 1);
    assert_non_null(data);
    memcpy(data, content, length);
    ft_table table;
    const ft_table_request request = {.text = "", .pair = "other", .label = ""};
    assert_int_equal(ft_table_parse(data, length, length, "t.tsv", &request, &table), FT_OK);
    return table;
}

static void pairs(void **state) {
    const char *directory = new_directory();
    for (int round = 0; round < 2; round++) {
        ft_tokenizer tokenizer = {.digest = "d"};
        ft_table table = pairs_of("text\tother\tlabel\na\tbc\t1\n\td\t0\n");
        ft_dataset data;
        bool from_cache;
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 0, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
        assert_int_equal(from_cache, round);
        const int32_t ids[] = {FIRST, 'a', LAST, FIRST, 'b', 'c', LAST, FIRST, LAST, FIRST, 'd', LAST};
        const uint8_t types[] = {0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1};
        assert_int_equal(data.tokens, 12);
        assert_memory_equal(data.ids, ids, sizeof ids);
        assert_memory_equal(data.types, types, sizeof types);
        assert_int_equal(data.offset[1], 7);
        ft_dataset_free(&data);
        ft_table_free(&table);
    }
    // Where one text ends and the next begins is part of the key, and that there are pairs at all.
    ft_tokenizer tokenizer = {.digest = "d"};
    static const char *const others[] = {"text\tother\tlabel\nab\tc\t1\n\td\t0\n", "text\tother\tlabel\na\tbc\t1\nd\t\t0\n"};
    for (int i = 0; i < 3; i++) {
        ft_table table = i < 2 ? pairs_of(others[i]) : TABLE("text\tother\tlabel\na\tbc\t1\n\td\t0\n");
        ft_dataset data;
        bool from_cache;
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 0, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
        assert_false(from_cache);
        assert_int_equal(data.types != NULL, i < 2);
        ft_dataset_free(&data);
        ft_table_free(&table);
    }
}

static void bad_rows(void **state) {
    ft_tokenizer tokenizer = {.digest = "d", .fail_at = 3};
    ft_table table = usual();
    ft_dataset data;
    ft_error_clear();
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 9, NULL, NULL, NULL, &data, NULL), FT_INVALID);
    assert_string_equal(ft_error_where(), "t.tsv:4");
    assert_null(data.ids);
    assert_null(data.offset);
    tokenizer = (ft_tokenizer){.digest = "d", .silent = true};
    assert_int_equal(ft_dataset_build(&table, "-", &tokenizer, 9, NULL, NULL, NULL, &data, NULL), FT_INVALID);
    assert_string_equal(ft_error_where(), "<stdin>:2");
    ft_table_free(&table);

    table = TABLE("text\tlabel\na\t0\nb\t2\n");
    tokenizer = (ft_tokenizer){.digest = "d"};
    assert_int_equal(ft_dataset_build(&table, "v.tsv", &tokenizer, 9, NULL, &LABELS, NULL, &data, NULL), FT_INVALID);
    assert_string_equal(ft_error_where(), "v.tsv:3");
    assert_int_equal(tokenizer.calls, 0); // known before the long work
    assert_null(data.label);
    ft_table_free(&table);
}

static void cache_hit_does_not_tokenise(void **state) {
    ft_tokenizer tokenizer = {.digest = "d"};
    ft_table table = usual();
    const char *directory = new_directory();
    for (int round = 0; round < 3; round++) {
        ft_dataset data;
        bool from_cache;
        tokenizer.calls = 0;
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache),
                         FT_OK);
        check_usual(&data);
        assert_int_equal(from_cache, round > 0);
        assert_int_equal(tokenizer.calls > 0, round == 0);
        ft_dataset_free(&data);
    }
    only_file(directory);
    ft_table_free(&table);
}

// Whether the cache of `directory` serves this table, tokenizer and limit.
static bool served(const char *directory, ft_table table, const char *digest, int max_length) {
    ft_tokenizer tokenizer = {.digest = digest};
    ft_dataset data;
    bool from_cache;
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, max_length, NULL, NULL, directory, &data, &from_cache),
                     FT_OK);
    assert_int_equal(from_cache, tokenizer.calls == 0);
    ft_dataset_free(&data);
    ft_table_free(&table);
    return from_cache;
}

static void what_the_key_depends_on(void **state) {
    const char *directory = new_directory();
    assert_false(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "d", 9));
    assert_true(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "d", 9));
    assert_true(served(directory, TABLE("idx\ttext\tlabel\r\n7\tab\tx\r\n8\tc\ty"), "d", 9)); // labels do not matter
    assert_false(served(directory, TABLE("text\tlabel\na\t0\nbc\t1\n"), "d", 9));             // where a text ends does
    assert_false(served(directory, TABLE("text\tlabel\nabc\t0\n"), "d", 9));
    assert_false(served(directory, TABLE("text\tlabel\nc\t0\nab\t1\n"), "d", 9));
    assert_false(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n\t1\n"), "d", 9));
    assert_false(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "e", 9));
    assert_false(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "d", 8));
    assert_false(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "d", 0));
    assert_true(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "d", -1)); // no limit either
    assert_true(served(directory, TABLE("text\tlabel\nab\t0\nc\t1\n"), "d", 9));
}

// Damages the only file of a cache, builds again, and looks that the result is right, the damage was told and
// mended.
static void damage(const char *directory, void (*how)(const char *path, long size), long size_argument) {
    ft_tokenizer tokenizer = {.digest = "d"};
    ft_table table = usual();
    ft_dataset data;
    bool from_cache;
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
    ft_dataset_free(&data);
    char *path = only_file(directory);
    how(path, size_argument);
    capture();
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
    const char *told = stop();
    assert_false(from_cache);
    check_usual(&data);
    ft_dataset_free(&data);
    if (strstr(told, "warning") == NULL || strstr(told, path) == NULL) fail_msg("no warning: %s", told);
    assert_string_equal(ft_error_message(), "");

    capture();
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
    assert_string_equal(stop(), "");
    assert_true(from_cache);
    check_usual(&data);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

static void flip(const char *path, long at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 0x10, file);
    fclose(file);
}
static void shorten(const char *path, long size) { assert_int_equal(truncate(path, size), 0); }
static void lengthen(const char *path, long more) {
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    for (long i = 0; i < more; i++)
        fputc(0, file);
    fclose(file);
}
static void replace(const char *path, long unused) { assert_int_equal(ft_atomic_write(path, "hello", 5), FT_OK); }

enum { HEADER = 120, SIZE = HEADER + 5 * 8 + 17 * 4 + 32 };

static void damaged_files(void **state) {
    const char *directory = new_directory(); // one for all: what costs time here is fsync
    for (long at = 0; at < SIZE; at++)
        damage(directory, flip, at);
    for (long size = 0; size < SIZE; size += 7)
        damage(directory, shorten, size);
    damage(directory, shorten, SIZE - 1);
    damage(directory, lengthen, 1);
    damage(directory, lengthen, 4);
    damage(directory, lengthen, 8);
    damage(directory, replace, 0);
}

// A pipe of that name must not be waited for, neither to read nor to write.
static void something_else_by_that_name(void **state) {
    ft_tokenizer tokenizer = {.digest = "d"};
    ft_table table = usual();
    const char *directory = new_directory();
    ft_dataset data;
    bool from_cache;
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
    ft_dataset_free(&data);
    char *path = only_file(directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    capture();
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
    assert_non_null(strstr(stop(), "is no regular file"));
    struct stat facts;
    assert_true(stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode)); // not ours to replace
    assert_false(from_cache);
    check_usual(&data);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

// A right checksum does not excuse numbers that would lead outside the arrays.
static void forged_files(void **state) {
    int64_t offset[] = {0, 2, 5};
    int32_t ids[] = {FIRST, LAST, FIRST, 'a', LAST};
    const ft_dataset good = {.examples = 2, .sequences = 2, .tokens = 5, .ids = ids, .offset = offset, .longest = 3, .truncated = 1};
    ft_token_cache_want want = {.examples = 2, .vocabulary = VOCABULARY, .max_length = 3};
    memset(want.key, 'k', 64);
    for (int forgery = 0; forgery <= 10; forgery++) {
        ft_dataset forged = good;
        int64_t forged_offset[] = {0, 2, 5};
        int32_t forged_ids[] = {FIRST, LAST, FIRST, 'a', LAST};
        forged.offset = forged_offset;
        forged.ids = forged_ids;
        ft_token_cache_want read_want = want;
        switch (forgery) {
        case 1: forged_offset[1] = 6; break;
        case 2: forged_offset[1] = -1; break;
        case 3: forged_offset[0] = 1; break;
        case 4: forged_offset[1] = 0; break; // an example of no tokens
        case 5: forged_offset[1] = INT64_MIN; break;
        case 6: forged_ids[2] = VOCABULARY; break;
        case 7: forged_ids[2] = -1; break;
        case 8: forged.longest = 2; break;
        case 9: forged.truncated = 3; break;
        case 10: read_want.max_length = 2; break;
        default: break;
        }
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_int_equal(ft_token_cache_write(file, &want, &forged), FT_OK);
        uint64_t size = (uint64_t)ftell(file);
        rewind(file);
        ft_dataset read = {0};
        ft_status status = ft_token_cache_read(file, size, &read_want, &read);
        fclose(file);
        if (status != (forgery == 0 ? FT_OK : FT_INVALID)) fail_msg("forgery %d: status %d", forgery, status);
        assert_int_equal(read.ids != NULL, forgery == 0);
        if (forgery == 0) assert_memory_equal(read.ids, ids, sizeof ids);
        ft_dataset_free(&read);
    }
}

// ---- windows --------------------------------------------------------------------------------------------------------

static void check_windows(const ft_dataset *data) {
    const int32_t ids[] = {FIRST, 'a', 'b', 'c', LAST, FIRST, LAST, FIRST, 'a', 'b', 'c', LAST,
                           FIRST, 'd', 'e', 'f', LAST, FIRST, 'x', 0, 'y', LAST};
    const int64_t offset[] = {0, 5, 7, 12, 17, 22};
    const int32_t example[] = {0, 1, 2, 2, 3}, label[] = {1, 0, 0, 1};
    assert_int_equal(data->examples, 4);
    assert_int_equal(data->sequences, 5);
    assert_int_equal(data->tokens, 22);
    assert_memory_equal(data->ids, ids, sizeof ids);
    assert_memory_equal(data->offset, offset, sizeof offset);
    assert_memory_equal(data->example, example, sizeof example);
    assert_memory_equal(data->label, label, sizeof label);
    assert_int_equal(data->longest, 5);
    assert_int_equal(data->truncated, 1);
    assert_int_equal(ft_dataset_example(data, 3), 2);
}

// Cached under a key of its own, by rule and overlap; where every text is one window there is no list of whose it is.
static void windows(void **state) {
    const char *directory = new_directory();
    const ft_long_text rules[] = {{FT_LONG_WINDOWS, 1}, {FT_LONG_WINDOWS, 2}, {FT_LONG_HEAD, -1}, {FT_LONG_WINDOWS, 1}};
    for (int i = 0; i < 4; i++) {
        ft_tokenizer tokenizer = {.digest = "d"};
        ft_table table = usual();
        ft_dataset data;
        bool from_cache;
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, &rules[i], &LABELS, directory, &data, &from_cache), FT_OK);
        assert_int_equal(from_cache, i == 3);
        assert_int_equal(tokenizer.calls == 0, i == 3);
        if (i == 2) check_usual(&data);
        else check_windows(&data);
        assert_int_equal(data.example == NULL, i == 2);
        ft_dataset_free(&data);
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 8, &rules[i], &LABELS, directory, &data, &from_cache), FT_OK);
        assert_true(data.example == NULL && data.sequences == 4 && data.truncated == 0);
        assert_int_equal(from_cache, i == 3);
        ft_dataset_free(&data);
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, &(ft_long_text){FT_LONG_WINDOWS, 99}, &LABELS, directory,
                                          &data, NULL),
                         FT_INVALID);
        assert_null(data.ids);
        ft_table_free(&table);
    }
}

static void forged_windows(void **state) {
    int64_t offset[] = {0, 2, 4, 6, 8};
    int32_t ids[8] = {0};
    for (int forgery = 0; forgery <= 6; forgery++) {
        int32_t example[] = {0, 0, 1, 2};
        ft_dataset forged = {.examples = 3, .sequences = 4, .tokens = 8, .ids = ids, .offset = offset, .longest = 2, .example = example};
        ft_token_cache_want want = {.examples = 3, .vocabulary = VOCABULARY, .windows = true};
        memset(want.key, 'k', 64);
        switch (forgery) {
        case 1: example[1] = -1; break;
        case 2: example[3] = 3; break; // one is skipped
        case 3: example[2] = example[3] = 2; break;
        case 4: example[3] = 1; break; // the last one has none
        case 5: example[0] = 1; break;
        case 6: want.windows = false; break; // another rule has one sequence each
        default: break;
        }
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_int_equal(ft_token_cache_write(file, &want, &forged), FT_OK);
        uint64_t size = (uint64_t)ftell(file);
        rewind(file);
        ft_dataset read = {0};
        ft_status status = ft_token_cache_read(file, size, &want, &read);
        fclose(file);
        if (status != (forgery == 0 ? FT_OK : FT_INVALID)) fail_msg("forgery %d: status %d", forgery, status);
        if (forgery == 0) assert_memory_equal(read.example, example, sizeof example);
        else assert_true(read.example == NULL && read.ids == NULL);
        ft_dataset_free(&read);
    }
}

// Where a cache cannot be: below a file. (Permissions would not stop a test that runs as root.)
static void unwritable_directory(void **state) {
    char file[64], below[80];
    snprintf(file, sizeof file, "%s/file", scratch);
    snprintf(below, sizeof below, "%s/tokens", file);
    assert_int_equal(ft_atomic_write(file, "x", 1), FT_OK);
    ft_tokenizer tokenizer = {.digest = "d"};
    ft_table table = usual();
    ft_dataset data;
    bool from_cache;
    capture();
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, below, &data, &from_cache), FT_OK);
    const char *told = stop();
    if (strstr(told, "warning") == NULL || strstr(told, below) == NULL) fail_msg("no warning: %s", told);
    assert_false(from_cache);
    assert_string_equal(ft_error_message(), "");
    check_usual(&data);
    ft_dataset_free(&data);
    ft_table_free(&table);
}

static void full_disk(void **state) {
    FILE *full = fopen("/dev/full", "wb");
    if (full == NULL) skip();
    setvbuf(full, NULL, _IONBF, 0);
    int64_t offset[] = {0, 1};
    int32_t ids[] = {1};
    const ft_dataset data = {.examples = 1, .sequences = 1, .tokens = 1, .ids = ids, .offset = offset, .longest = 1};
    const ft_token_cache_want want = {.key = "k", .examples = 1};
    assert_int_equal(ft_token_cache_write(full, &want, &data), FT_FAILED);
    fclose(full);
}

static void concurrent_writers(void **state) {
    enum { WRITERS = 6, ROUNDS = 15 };
    const char *directory = new_directory();
    pid_t child[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        child[w] = fork();
        assert_true(child[w] >= 0);
        if (child[w] != 0) continue;
        int right = 0;
        for (int round = 0; round < ROUNDS; round++) {
            ft_tokenizer tokenizer = {.digest = "d"};
            ft_table table = usual();
            ft_dataset data;
            bool from_cache;
            if (ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, &from_cache) == FT_OK)
                right += data.tokens == 17 && data.offset[4] == 17 && data.ids[16] == LAST;
            if (round % 3 == w % 3) { // make the others write again
                ft_arena arena = {0};
                ft_token_cache_want want;
                ft_token_cache_want_of(&table, &tokenizer, 5, &(ft_long_text){0}, &want);
                unlink(ft_arena_format(&arena, "%s/%s.tokens", directory, want.key));
                ft_arena_free(&arena);
            }
            ft_dataset_free(&data);
            ft_table_free(&table);
        }
        _exit(right == ROUNDS ? 0 : 1);
    }
    for (int w = 0; w < WRITERS; w++) {
        int result;
        assert_int_equal(waitpid(child[w], &result, 0), child[w]);
        assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    }
    ft_tokenizer tokenizer = {.digest = "d"};
    ft_table table = usual();
    ft_dataset data;
    assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 5, NULL, &LABELS, directory, &data, NULL), FT_OK);
    check_usual(&data);
    ft_dataset_free(&data);
    ft_table_free(&table);
    only_file(directory);
}

// Tokens that are too many for the heap lie in the cache's file from the first run on. Catches: arrays that begin elsewhere in a mapped
// file than they were written, a file that is believed without its checksum, scratch files that stay beside it, a mapping that is freed
// as if it were of the heap.
static void mapped(void **state) {
    enum { ROWS = 5, LENGTH = 600000 };
    const char *directory = new_directory();
    static char content[ROWS * (LENGTH + 8) + 32];
    size_t at = (size_t)sprintf(content, "text\tlabel\n");
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < LENGTH + row; i++) content[at++] = (char)('a' + (i * (row + 1) + i / 1000) % 26);
        at += (size_t)sprintf(content + at, "\t%d\n", row % 2);
    }
    for (int pass = 0; pass < 4; pass++) { // tokenised, from the cache, from a damaged one, from that which was written anew
        ft_tokenizer tokenizer = {.digest = "d"};
        ft_table table = table_of(content, at);
        ft_dataset data, plain;
        bool from_cache;
        capture();
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 0, NULL, &LABELS, directory, &data, &from_cache), FT_OK);
        assert_true((strstr(stop(), "checksum") != NULL) == (pass == 2));
        assert_int_equal(from_cache, pass % 2);
        assert_true(data.file_mapped && ft_dataset_host_bytes(&data) < 1000);
        if (pass == 3) assert_int_equal(unlink(only_file(directory)), 0); // what is mapped stays
        assert_int_equal(ft_dataset_build(&table, "t.tsv", &tokenizer, 0, NULL, &LABELS, NULL, &plain, NULL), FT_OK);
        assert_true(plain.file == NULL);
        assert_int_equal(data.tokens, plain.tokens);
        assert_memory_equal(data.ids, plain.ids, (size_t)plain.tokens * sizeof *plain.ids);
        assert_memory_equal(data.offset, plain.offset, (ROWS + 1) * sizeof *plain.offset);
        ft_dataset_free(&data);
        if (pass == 1) flip(only_file(directory), 4000000);
        ft_dataset_free(&plain);
        ft_table_free(&table);
    }
}

static void cache_directory(void **state) {
    ft_arena arena = {0};
    const char *directory;
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    assert_int_equal(ft_cache_directory("", &arena, &directory), FT_OK);
    assert_string_equal(directory, "/x/ftengine/tokens");
    assert_int_equal(ft_cache_directory(NULL, &arena, &directory), FT_OK);
    assert_string_equal(directory, "/x/ftengine/tokens");
    assert_int_equal(ft_cache_directory("none", &arena, &directory), FT_OK);
    assert_null(directory);
    assert_int_equal(ft_cache_directory("/given", &arena, &directory), FT_OK);
    assert_string_equal(directory, "/given");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(ft_cache_directory("", &arena, &directory), FT_OK);
    assert_string_equal(directory, "/h/.cache/ftengine/tokens");
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(ft_cache_directory("", &arena, &directory), FT_OK);
    assert_string_equal(directory, "/h/.cache/ftengine/tokens");
    unsetenv("HOME");
    assert_int_equal(ft_cache_directory("", &arena, &directory), FT_OK);
    assert_null(directory);
    ft_arena_free(&arena);
}

static int make_scratch(void **state) { return mkdtemp(scratch) == NULL; }
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenises),
        cmocka_unit_test(pairs),
        cmocka_unit_test(bad_rows),
        cmocka_unit_test(cache_hit_does_not_tokenise),
        cmocka_unit_test(what_the_key_depends_on),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(something_else_by_that_name),
        cmocka_unit_test(forged_files),
        cmocka_unit_test(windows),
        cmocka_unit_test(forged_windows),
        cmocka_unit_test(unwritable_directory),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(concurrent_writers),
        cmocka_unit_test(mapped),
        cmocka_unit_test(cache_directory),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

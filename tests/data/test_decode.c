// Packed files and UTF-16 that are read in pieces give the table, or the mistake, of the file read whole, in memory that does not grow with
// them.
#include "base/files.h"
#include "engine/data/tables/blocks.h"
#include "engine/memory/process.h"
#include "tests/fixtures/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static const ft_table_request REQUEST = {.text = "", .label = ""};
static char directory[] = "/tmp/test_decode_XXXXXX";
typedef struct bytes {
    char data[1 << 16];
    size_t length;
} bytes;

// ---- files --------------------------------------------------------------------------------------------------------------

// Characters of one, two, three and four bytes in UTF-8; the last are two units of UTF-16.
static const uint32_t EXTRA[] = {'e', 0xE9, 0x20AC, 0x1F600};

static void put(bytes *b, const char *data, size_t length) {
    assert_true(b->length + length <= sizeof b->data);
    memcpy(b->data + b->length, data, length);
    b->length += length;
}

static void put_character(bytes *b, uint32_t c, int coding, bool lone) {
    char out[8];
    if (coding == 0) { // UTF-8, where a lone surrogate is what a reader makes of it
        if (lone) c = 0xFFFD;
        const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const int lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
        out[0] = (char)((uint32_t)lead[n] | c);
        put(b, out, n);
        return;
    }
    uint32_t unit[2] = {c, 0};
    const int units = c >= 0x10000 ? 2 : 1;
    if (units == 2) unit[0] = 0xD800 + ((c - 0x10000) >> 10), unit[1] = 0xDC00 + ((c - 0x10000) & 0x3FF);
    if (lone) unit[0] = 0xD83D;
    for (int u = 0; u < units; u++) {
        const char low = (char)(unit[u] & 0xFF), high = (char)(unit[u] >> 8);
        put(b, (char[]){coding == 1 ? low : high, coding == 1 ? high : low}, 2);
    }
}

// rows of texts in UTF-8 (0), UTF-16 LE (1) or BE (2)
static bytes *table(int coding, bool mark, int rows) {
    bytes *b = calloc(1, sizeof *b);
    assert_non_null(b);
    if (mark) put_character(b, 0xFEFF, coding, false);
    for (const char *c = "text\tlabel\n"; *c != '\0'; c++) put_character(b, (uint32_t)*c, coding, false);
    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < 5 + i % 7; k++) put_character(b, EXTRA[(i + k) % 4], coding, false);
        if (i % 11 == 3) put_character(b, 0xFFFD, coding, true);
        for (const char *c = i % 2 == 0 ? "\tx\n" : "\ty\n"; *c != '\0'; c++) put_character(b, (uint32_t)*c, coding, false);
    }
    return b;
}

static bytes *gzip(const bytes *in) {
    bytes *b = calloc(1, sizeof *b);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in->data, .avail_in = (uInt)in->length, .next_out = (Bytef *)b->data, .avail_out = sizeof b->data};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b->length = sizeof b->data - z.avail_out;
    deflateEnd(&z);
    return b;
}

static bytes *zstd(const bytes *in) {
    bytes *b = calloc(1, sizeof *b);
    b->length = ZSTD_compress(b->data, sizeof b->data, in->data, in->length, 3);
    assert_false(ZSTD_isError(b->length));
    return b;
}

// ---- whole and in pieces ------------------------------------------------------------------------------------------------

// plain: what the table must be, in UTF-8; NULL: whatever the file read whole is.
static void judge(const char *what, const bytes *b, const bytes *plain) {
    char path[64];
    snprintf(path, sizeof path, "%s/t.tsv", directory);
    assert_int_equal(ft_atomic_write(path, b->data, b->length), FT_OK);
    ft_table whole, cut, right;
    const ft_status expected = ft_table_read(path, &REQUEST, &whole);
    char message[600], where[600];
    snprintf(message, sizeof message, "%s", ft_error_message()), snprintf(where, sizeof where, "%s", ft_error_where());
    if (plain != NULL) {
        char *copy = malloc(plain->length + 1);
        memcpy(copy, plain->data, plain->length);
        assert_int_equal(expected, FT_OK);
        assert_int_equal(ft_table_parse(copy, plain->length, plain->length, "t.tsv", &REQUEST, &right), FT_OK);
        assert_int_equal(right.rows, whole.rows);
        for (int64_t i = 0; i < whole.rows; i++) assert_string_equal(whole.text[i], right.text[i]);
        ft_table_free(&right);
    }
    static const size_t pieces[] = {1, 100, 1 << 20};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        ft_error_clear();
        const ft_status status = ft_table_read_large(path, &REQUEST, pieces[p], &cut);
        if (status != expected) fail_msg("%s in pieces of %zu: %d, not %d: %s", what, pieces[p], status, expected, ft_error_message());
        if (status != FT_OK) {
            if (strcmp(ft_error_message(), message) != 0 || strcmp(ft_error_where(), where) != 0)
                fail_msg("%s in pieces of %zu: %s (%s), not %s (%s)", what, pieces[p], ft_error_message(), ft_error_where(), message, where);
            continue;
        }
        assert_string_equal(cut.sha256, whole.sha256);
        assert_int_equal(cut.rows, whole.rows);
        for (int64_t i = 0; i < cut.rows; i++) {
            assert_int_equal(cut.line[i], whole.line[i]);
            assert_int_equal(cut.text_length[i], whole.text_length[i]);
            assert_memory_equal(cut.text[i], whole.text[i], cut.text_length[i]);
            assert_string_equal(cut.label[i], whole.label[i]);
        }
        ft_table_free(&cut);
    }
    if (expected == FT_OK) ft_table_free(&whole);
    ft_error_clear();
}

// Catches: surrogates that are cut between two pieces, a mark that becomes a part of the first column's name, UTF-16 in a packed file,
// members and frames behind the first, the hash of what was unpacked instead of the file.
static void codings(void **state) {
    for (int coding = 0; coding < 3; coding++)
        for (int mark = 0; mark < 2; mark++)
            for (int rows = 1; rows < 300; rows = 3 * rows + 1) {
                bytes *b = table(coding, mark, rows), *plain = table(0, false, rows), *g = gzip(b), *z = zstd(b);
                judge("bytes", b, plain);
                judge("gzip", g, plain);
                judge("Zstandard", z, plain);
                if (coding == 0 && mark == 0) {
                    put(g, g->data, g->length), put(plain, plain->data, plain->length);
                    judge("two members", g, plain);
                    put(g, "\0\0\0\0\0", 5);
                    judge("padding", g, plain);
                    put(z, z->data, z->length);
                    judge("two frames", z, plain);
                }
                free(b), free(plain), free(g), free(z);
            }
}

// Catches: damage that ends a table early without a word, or that is told otherwise than of a file read whole.
static void damage(void **state) {
    bytes *plain = table(0, false, 200), *wide = table(1, true, 3), *even = table(1, false, 3), *packed[] = {gzip(plain), zstd(plain)};
    for (int k = 0; k < 2; k++) {
        const bytes good = *packed[k];
        for (size_t length = 5; length < good.length; length += 37) {
            packed[k]->length = length;
            judge("cut", packed[k], NULL);
        }
        *packed[k] = good;
        put(packed[k], "rubbish behind it", 17);
        judge("rubbish", packed[k], NULL);
        *packed[k] = good;
        packed[k]->data[good.length - 6] ^= 0x20; // of the checksum, or the last bits
        judge("a bit", packed[k], NULL);
    }
    wide->length--;
    judge("half a unit", wide, NULL);
    even->length--;
    judge("half a unit, and no mark", even, NULL);
    bytes *empty = calloc(1, sizeof *empty), *nothing = gzip(empty);
    judge("nothing", nothing, NULL);
    judge("only a mark", &(bytes){"\xFF\xFE", 2}, NULL);
    judge("ragged", &(bytes){"text\tlabel\na\tb\tc\n", 17}, NULL);
    free(plain), free(wide), free(even), free(packed[0]), free(packed[1]), free(empty), free(nothing);
}

// 60 MB that are packed into less than one: at most a few pieces of them are in memory. Catches: a packed text that is had whole.
static void bounded(void **state) {
    enum { ROWS = 600000 };
    char path[64], row[160];
    snprintf(path, sizeof path, "%s/large.tsv.gz", directory);
    gzFile out = gzopen(path, "wb1");
    assert_non_null(out);
    gzputs(out, "text\tlabel\n");
    for (int i = 0; i < ROWS; i++) {
        const int length = snprintf(row, sizeof row, "%d the same words again and again, so that there is much to unpack and little to read here\tx\n", i);
        assert_int_equal(gzwrite(out, row, (unsigned)length), length);
    }
    assert_int_equal(gzclose(out), Z_OK);
    const size_t before = ft_process_held(getpid());
    size_t most = before;
    int64_t rows = 0;
    ft_blocks blocks;
    assert_int_equal(ft_blocks_open(path, &REQUEST, 1 << 20, &blocks), FT_OK);
    for (bool found = true; found;) {
        ft_table piece;
        assert_int_equal(ft_blocks_next(&blocks, &piece, &found), FT_OK);
        rows += piece.rows;
        const size_t now = ft_process_held(getpid());
        if (now > most) most = now;
        assert_true(blocks.done <= blocks.size);
        if (found) ft_table_free(&piece);
    }
    assert_int_equal(rows, ROWS);
    assert_int_equal(blocks.done, blocks.size);
    ft_blocks_close(&blocks);
    if (!FT_SANITIZED && most - before > (16 << 20)) // a sanitizer keeps for a while what was freed
        fail_msg("%zu bytes more are held", most - before);
}

static int make(void **state) {
    ft_atomic_wait_for_disk(false);
    return mkdtemp(directory) == NULL;
}
static int sweep(void **state) { return ft_remove_tree(directory) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(codings), cmocka_unit_test(damage), cmocka_unit_test(bounded)};
    return cmocka_run_group_tests(tests, make, sweep);
}

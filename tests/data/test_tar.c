// Members of tar archives that are put together here, header by header; and what is refused. (Archives of Python's tarfile: data/test_picture_sources.sh.)
#include "engine/data/pictures/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 512, MOST = 1 << 16 };

typedef struct archive {
    char bytes[MOST];
    size_t length;
} archive;

static void add_header(archive *a, const char *name, char kind, const char *size) {
    char *h = a->bytes + a->length;
    unsigned sum = 0;
    memset(h, 0, BLOCK);
    memcpy(h, name, strlen(name)); // at most 100
    memcpy(h + 124, size, strlen(size));
    h[156] = kind;
    memcpy(h + 257, "ustar\0" "00", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++) sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    a->length += BLOCK;
}

static void add(archive *a, const char *name, char kind, const char *data) {
    char size[32];
    snprintf(size, sizeof size, "%011zo", strlen(data));
    add_header(a, name, kind, size);
    memset(a->bytes + a->length, 0, (strlen(data) + BLOCK - 1) / BLOCK * BLOCK);
    memcpy(a->bytes + a->length, data, strlen(data));
    a->length += (strlen(data) + BLOCK - 1) / BLOCK * BLOCK;
}

static void end(archive *a) {
    memset(a->bytes + a->length, 0, 2 * BLOCK);
    a->length += 2 * BLOCK;
}

// Its members as "name:size name:size", or the message.
static ft_status list(const archive *a, char *out, size_t room) {
    char path[64];
    ft_tar tar;
    ft_tar_member member;
    const int fd = memfd_create("tar", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, a->bytes, a->length) == (ssize_t)a->length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ft_error_clear();
    ft_status status = ft_tar_open(path, &tar);
    out[0] = '\0';
    for (bool found = true; status == FT_OK;) {
        status = ft_tar_next(&tar, &member, &found);
        if (status != FT_OK || !found) break;
        char *data = malloc((size_t)member.size + 1);
        assert_non_null(data);
        assert_int_equal(ft_tar_bytes(tar.file, path, member.offset, member.size, data), FT_OK);
        data[member.size] = '\0';
        snprintf(out + strlen(out), room - strlen(out), "%s%s=%s", out[0] != '\0' ? " " : "", member.name, data);
        free(data);
    }
    ft_tar_close(&tar);
    close(fd);
    if (status != FT_OK) snprintf(out, room, "%s", ft_error_message());
    return status;
}

static void holds(const archive *a, const char *expected) {
    char got[MOST];
    if (list(a, got, sizeof got) != FT_OK || strcmp(got, expected) != 0) fail_msg("\"%s\", not \"%s\"", got, expected);
}

static void refused(const archive *a, const char *told) {
    char got[MOST];
    const ft_status status = list(a, got, sizeof got);
    if (status != FT_INVALID || strstr(got, told) == NULL) fail_msg("status %d: \"%s\" does not say \"%s\"", (int)status, got, told);
    assert_non_null(strstr(ft_error_where(), "/proc/self/fd/"));
}

static void members(void **state) {
    archive a = {.length = 0};
    add(&a, "./", '5', "");
    add(&a, "./a.jpg", '0', "first");
    add(&a, "dir/", '5', "");
    add(&a, "dir/b.cls", '\0', "");
    add(&a, "old/", '\0', "");           // a directory as the old tar has it
    add(&a, "c.png", '7', "contiguous");
    add(&a, "x", 'g', "14 comment=hi\n"); // about all
    add(&a, "././@LongLink", 'L', "a/name/that/came/in/front");
    add(&a, "cut", '0', "long");
    add(&a, "x", 'x', "23 path=posix/name.jpg\n11 mtime=1\n");
    add(&a, "cut", '0', "pax");
    end(&a);
    holds(&a, "a.jpg=first dir/b.cls= c.png=contiguous a/name/that/came/in/front=long posix/name.jpg=pax");
}

// The prefix of POSIX; and sizes that are numbers, not digits.
static void fields(void **state) {
    archive a = {.length = 0};
    const char big[] = "\x80\0\0\0\0\0\0\0\0\0\0\3";
    add(&a, "name.jpg", '0', "abc");
    memcpy(a.bytes + 124, big, 12);
    memcpy(a.bytes + 345, "in/front", 8);
    memset(a.bytes + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += (unsigned char)a.bytes[i];
    snprintf(a.bytes + 148, 8, "%06o", sum);
    end(&a);
    holds(&a, "in/front/name.jpg=abc");
}

static void what_is_refused(void **state) {
    static const struct {
        const char *name, *told;
        char kind;
    } cases[] = {
        {"a.jpg", "a link", '1'},          {"a.jpg", "a link", '2'},          {"a.jpg", "sparse", 'S'},           {"a.jpg", "a device or a pipe", '3'},
        {"a.jpg", "a device or a pipe", '6'}, {"a.jpg", "unknown kind", 'Q'}, {"../a.jpg", "leaves the archive", '0'}, {"a/../../b.jpg", "leaves the archive", '0'},
        {"/etc/a.jpg", "leaves the archive", '0'}, {"a/..", "leaves the archive", '0'}, {".//../a.jpg", "leaves the archive", '0'}, {"./", "without a name", '0'}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        archive a = {.length = 0};
        add(&a, "before.jpg", '0', "x");
        add(&a, cases[i].name, cases[i].kind, "");
        end(&a);
        refused(&a, cases[i].told);
    }
    archive sparse = {.length = 0};
    add(&sparse, "x", 'x', "22 GNU.sparse.major=1\n");
    add(&sparse, "a.jpg", '0', "x");
    end(&sparse);
    refused(&sparse, "sparse");
    archive records = {.length = 0};
    add(&records, "x", 'x', "99 path=a\n");
    add(&records, "a.jpg", '0', "x");
    end(&records);
    refused(&records, "damaged");
    archive packed = {.bytes = "\x1F\x8B\b\0\0\0\0\0", .length = 8};
    refused(&packed, "packed");
    archive text = {.length = 3 * BLOCK};
    memset(text.bytes, 'x', text.length);
    refused(&text, "not a tar archive");
    archive nothing = {.length = 0};
    refused(&nothing, "empty file");
}

static void cut(void **state) {
    archive a = {.length = 0};
    add(&a, "a.jpg", '0', "first");
    add(&a, "b.jpg", '0', "second");
    const size_t all = a.length;
    end(&a);
    for (size_t length = 1; length < all + BLOCK; length += 13) {
        a.length = length;
        refused(&a, length < 6 || length < BLOCK ? "not a tar archive" : "truncated");
    }
    a.length = all;
    refused(&a, "without its end mark");
    a.length = all + BLOCK; // one block of zeros is an end, as GNU tar takes it
    holds(&a, "a.jpg=first b.jpg=second");
    a.bytes[10] ^= 1; // the sum does not fit
    refused(&a, "not a tar archive");
    a.bytes[10] ^= 1;
    a.bytes[2 * BLOCK + 10] ^= 1;
    refused(&a, "damaged archive: there is no header at byte 1024");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(members), cmocka_unit_test(fields), cmocka_unit_test(what_is_refused), cmocka_unit_test(cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

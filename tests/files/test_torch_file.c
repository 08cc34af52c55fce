// pytorch_model.bin: what torch.save wrote reads back, to the bit; damaged and hostile files are refused with their
// place.
#include "base/files.h"
#include "engine/files/torch_file.h"
#include "torch_archive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define VECTORS FT_TEST_VECTORS "/torch_files/"
#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

static char path[64];

static int set_up(void **state) {
    strcpy(path, "/tmp/test_torch_XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state) { return unlink(path); }

// ---- what torch wrote -----------------------------------------------------------------------------------------------

static int64_t elements_of(const ft_safetensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

// A tensor and its parts, from every place, equal what was saved dense.
static void same_values(const ft_safetensor *have, const ft_safetensors *expect, const ft_safetensor *want) {
    int64_t n = elements_of(want);
    assert_int_equal(have->rank, want->rank);
    for (int i = 0; i < want->rank; i++)
        assert_int_equal(have->shape[i], want->shape[i]);
    float *a = calloc((size_t)n + 1, sizeof *a), *b = calloc((size_t)n + 1, sizeof *b);
    OK(ft_safetensor_to_f32(expect, want, a, n));
    for (int64_t first = 0; first <= n; first++)
        for (int64_t count = 0; count <= n - first && count < 20; count++) {
            OK(ft_tensor_part_to_f32(path, have, first, count, b));
            assert_memory_equal(a + first, b, (size_t)count * sizeof *a);
        }
    OK(ft_tensor_part_to_f32(path, have, 0, n, b));
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    assert_int_equal(ft_tensor_part_to_f32(path, have, 1, n, b), FT_INVALID);
    free(a);
    free(b);
}

static void check_file(const char *name, int tensors, int reals) {
    ft_torch_file *f;
    ft_safetensors *expect;
    char whole[512];
    snprintf(whole, sizeof whole, VECTORS "%s", name);
    OK(ft_torch_open(whole, &f));
    OK(ft_safetensors_open(VECTORS "expect.safetensors", &expect));
    assert_int_equal(ft_torch_count(f), tensors);
    int seen = 0;
    for (int i = 0; i < ft_torch_count(f); i++) {
        const ft_safetensor *have = ft_torch_at(f, i), *want = ft_safetensors_find(expect, have->name);
        assert_ptr_equal(ft_torch_find(f, have->name), have);
        float one;
        if (want != NULL)
            same_values(have, expect, want), seen++;
        else
            assert_int_equal(ft_tensor_part_to_f32(path, have, 0, 1, &one), FT_INVALID);
    }
    assert_int_equal(seen, reals);
    assert_null(ft_torch_find(f, "no such tensor"));
    ft_safetensors_close(expect);
    ft_torch_close(f);
}

static void test_reference_files(void **state) {
    check_file("plain.bin", 2, 2);
    check_file("views.bin", 18, 12);
    check_file("protocol4.bin", 18, 12);
    check_file("legacy.bin", 18, 12);
}

static void test_views(void **state) {
    ft_torch_file *f;
    OK(ft_torch_open(VECTORS "views.bin", &f));
    const ft_safetensor *a = ft_torch_find(f, "f32"), *b = ft_torch_find(f, "tied"), *row = ft_torch_find(f, "row");
    assert_ptr_equal(a->data, b->data);
    assert_ptr_equal(row->data, (const float *)a->data + 2 * 18 + 3 * 3);
    assert_null(a->strides);
    assert_null(row->strides);
    assert_non_null(ft_torch_find(f, "transposed")->strides);
    assert_int_equal(ft_torch_find(f, "stretched")->bytes, 48);
    assert_string_equal(ft_torch_find(f, "bool")->dtype_name, "BOOL");
    assert_int_equal(ft_torch_find(f, "i16")->dtype, FT_SAFETENSOR_OTHER);
    ft_torch_close(f);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

static void assert_refused(const char *file, const char *what, const char *where) {
    ft_torch_file *f = (ft_torch_file *)&f;
    assert_int_equal(ft_torch_open(file, &f), FT_INVALID);
    assert_null(f);
    if (strstr(ft_error_message(), what) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), what);
    if (strstr(ft_error_where(), where) == NULL) fail_msg("\"%s\" does not name \"%s\"", ft_error_where(), where);
    assert_int_equal(strncmp(ft_error_where(), file, strlen(file)), 0);
}

// A pickle in an archive, beside one storage "0" of 16 bytes.
static void in_archive(const void *pickle, size_t size) {
    static const char sixteen[16] = "0123456789abcde";
    const archive_entry entries[] = {{"a/data.pkl", pickle, size, 0, 0}, {"a/data/0", sixteen, 16, 0, 0}};
    write_archive(path, entries, 2);
}

// The pickle of {"w": tensor}; the numbers are opcodes of one value each.
#define STORAGE(type, key, elements)                                                                                   \
    "(X\x07\x00\x00\x00storagectorch\n" type "\nX\x01\x00\x00\x00" key "X\x03\x00\x00\x00"                             \
    "cpu" elements "tQ"
#define TENSOR(storage, first, shape, strides)                                                                         \
    "\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(" storage first shape strides "\x89}tRs."
#define FOUR STORAGE("FloatStorage", "0", "K\x04")
#define IN_ARCHIVE(literal) in_archive(literal, sizeof literal - 1)
#define REFUSED(literal, what) (IN_ARCHIVE(literal), assert_refused(path, what, "data.pkl, byte "))
#define OUTSIDE "does not lie in its data"

static void test_hostile_tensors(void **state) {
    ft_torch_file *f;
    IN_ARCHIVE(TENSOR(FOUR, "K\x00", "K\x02K\x02\x86", "K\x02K\x01\x86"));
    OK(ft_torch_open(path, &f));
    assert_memory_equal(ft_torch_find(f, "w")->data, "0123", 4);
    ft_torch_close(f);
    // A stride that is never stepped may be anything.
    IN_ARCHIVE(TENSOR(FOUR, "K\x03", "K\x01K\x01\x86", "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7FK\x01\x86"));
    OK(ft_torch_open(path, &f));
    float one;
    OK(ft_tensor_part_to_f32(path, ft_torch_find(f, "w"), 0, 1, &one));
    ft_torch_close(f);

    REFUSED(TENSOR(FOUR, "K\x00", "K\x05\x85", "K\x01\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x01", "K\x04\x85", "K\x01\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x05", "K\x00\x85", "K\x01\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "J\xFF\xFF\xFF\xFF", "K\x01\x85", "K\x01\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x00", "J\xFF\xFF\xFF\xFF\x85", "K\x01\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x00", "K\x02\x85", "J\xFF\xFF\xFF\xFF\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x00", "K\x03\x85", "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x85"), OUTSIDE);
    // Stretched to more elements than a size can count.
    REFUSED(TENSOR(FOUR, "K\x00", "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7FK\x03\x86", "K\x00K\x00\x86"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x00", "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x85", "K\x00\x85"), OUTSIDE);
    REFUSED(TENSOR(FOUR, "K\x00", "K\x02\x85", "K\x02K\x01\x86"), "in a way that is not PyTorch's");
    REFUSED(TENSOR(FOUR, "N", "K\x02\x85", "K\x01\x85"), "in a way that is not PyTorch's");
    REFUSED(TENSOR(FOUR, "K\x00", "(K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01t",
                   "(K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01t"),
            "more than 8 dimensions");
    REFUSED(TENSOR(STORAGE("FloatStorage", "0", "K\x03"), "K\x00", "K\x01\x85", "K\x01\x85"),
            "another size than the pickle says");
    REFUSED(TENSOR(STORAGE("FloatStorage", "0", "J\xFF\xFF\xFF\xFF"), "K\x00", "K\x01\x85", "K\x01\x85"),
            "impossible size");
    REFUSED(TENSOR(STORAGE("FloatStorage", "0", "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"), "K\x00", "K\x01\x85",
                   "K\x01\x85"),
            "impossible size");
    REFUSED(TENSOR(STORAGE("FloatStorage", "7", "K\x04"), "K\x00", "K\x01\x85", "K\x01\x85"), "not in the archive");
    REFUSED(TENSOR(STORAGE("Storage", "0", "K\x04"), "K\x00", "K\x01\x85", "K\x01\x85"), "asks for torch.Storage");
    REFUSED(TENSOR("K\x01", "K\x00", "K\x01\x85", "K\x01\x85"), "described in a way that is not PyTorch's");
    REFUSED("\x80\x02]N"
            "a.",
            "no dictionary of tensors");
    REFUSED("\x80\x02}X\x05\x00\x00\x00modelN"
            "s.",
            "holds no tensors");
    REFUSED("\x80\x02}K\x01Ns.", "name of a tensor is no text");
    REFUSED("\x80\x02}X\x02\x00\x00\x00w\0Ns.", "holds a NUL");
    REFUSED("\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_parameter\n)Rs.", "a parameter without a tensor");
    REFUSED("\x80\x02}X\x01\x00\x00\x00wctorch\nFloatStorage\n)Rs.", "it is no tensor");
}

static void test_hostile_archives(void **state) {
    static const char pickle[] = TENSOR(FOUR, "K\x00", "K\x01\x85", "K\x01\x85");
    static const char sixteen[16];
#define PICKLE "a/data.pkl", pickle, sizeof pickle - 1
    const archive_entry no_pickle[] = {{"a/data/0", sixteen, 16, 0, 0}},
                        bare[] = {{"data.pkl", pickle, sizeof pickle - 1, 0, 0}},
                        packed[] = {{PICKLE, 8, 0}, {"a/data/0", sixteen, 16, 0, 0}},
                        secret[] = {{PICKLE, 0, 1}, {"a/data/0", sixteen, 16, 0, 0}},
                        twice[] = {{PICKLE, 0, 0}, {"a/data/0", sixteen, 16, 0, 0}, {"a/data/0", sixteen, 16, 0, 0}},
                        big[] = {{PICKLE, 0, 0}, {"a/data/0", sixteen, 16, 0, 0}, {"a/byteorder", "big", 3, 0, 0}};
    write_archive(path, no_pickle, 1), assert_refused(path, "without data.pkl", "");
    write_archive(path, bare, 1), assert_refused(path, "without data.pkl", "");
    write_archive(path, packed, 2), assert_refused(path, "is compressed", ", byte ");
    write_archive(path, secret, 2), assert_refused(path, "is encrypted", ", byte ");
    write_archive(path, twice, 3), assert_refused(path, "two entries of the same name", ", byte ");
    write_archive(path, big, 3), assert_refused(path, "most significant byte first", "");
    OK(ft_atomic_write(path, "version https://git-lfs.github.com/spec/v1\n", 43));
    assert_refused(path, "not a file of torch.save", "");
    OK(ft_atomic_write(path, "", 0));
    assert_refused(path, "not a file of torch.save", "");
    assert_refused("/tmp", "directory", "");
    assert_refused("/no/such/file", "", "");
    assert_refused(VECTORS "code.bin", "nothing was run", "data.pkl, byte ");
}

// Opens what lies in `path`, and reads what an opened file promises.
static ft_status try_file(const char *file) {
    ft_torch_file *f;
    ft_status status = ft_torch_open(file, &f);
    if (status != FT_OK) return status;
    for (int i = 0; i < ft_torch_count(f); i++) {
        float out[64];
        const ft_safetensor *t = ft_torch_at(f, i);
        int64_t n = elements_of(t), count = n < 64 ? n : 64;
        ft_tensor_part_to_f32(file, t, n - count, count, out);
    }
    ft_torch_close(f);
    return FT_OK;
}

// Every prefix of a file is refused. Every byte of it changed in several ways: read or refused, never a crash, and what
// is read lies in the file (the sanitizers look). In memory: a disk would take seconds.
static void damage(const char *name) {
    char *data, shown[64];
    size_t size;
    OK(ft_read_file(name, 0, &data, &size));
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(shown, sizeof shown, "/proc/self/fd/%d", fd);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(try_file(shown), FT_INVALID);
        assert_int_equal(pwrite(fd, data + cut, 1, (off_t)cut), 1);
    }
    assert_int_equal(try_file(shown), FT_OK);
    static const unsigned char flips[] = {0x01, 0x80, 0xFF};
    for (size_t at = 0; at < size; at++)
        for (size_t k = 0; k < sizeof flips; k++) {
            char changed = (char)(data[at] ^ flips[k]);
            assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
            ft_status status = try_file(shown);
            assert_true(status == FT_OK || status == FT_INVALID);
            assert_int_equal(pwrite(fd, data + at, 1, (off_t)at), 1);
        }
    close(fd);
    free(data);
}

static void test_damage(void **state) {
    damage(VECTORS "plain.bin");
    damage(VECTORS "legacy.bin");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference_files), cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_hostile_tensors), cmocka_unit_test(test_hostile_archives),
                                       cmocka_unit_test(test_damage)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

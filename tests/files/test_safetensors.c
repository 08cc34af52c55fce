// safetensors: what is written reads back, hostile and damaged files are refused with a reason, conversions are exact.
#include "base/files.h"
#include "engine/files/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

static int set_up(void **state) {
    strcpy(path, "/tmp/test_safetensors_XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state) { return unlink(path); }

// A file with this header and so many bytes 0, 1, 2, ... of data.
static void write_raw(uint64_t claimed, const char *header, size_t data) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fwrite(&claimed, sizeof claimed, 1, out);
    fputs(header, out);
    for (size_t i = 0; i < data; i++)
        putc((int)i, out);
    assert_int_equal(fclose(out), 0);
}

static ft_safetensors *opened(const char *header, size_t data) {
    write_raw(strlen(header), header, data);
    ft_safetensors *file;
    OK(ft_safetensors_open(path, &file));
    return file;
}

static void assert_refused(const char *what) {
    ft_safetensors *file = (ft_safetensors *)&file;
    assert_int_equal(ft_safetensors_open(path, &file), FT_INVALID);
    assert_null(file);
    if (strstr(ft_error_message(), what) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), what);
    assert_int_equal(strncmp(ft_error_where(), path, strlen(path)), 0);
}

static void refused(const char *header, size_t data, const char *what) {
    write_raw(strlen(header), header, data);
    assert_refused(what);
}

static void test_read(void **state) {
    // Offsets in another order than the header, an empty tensor between others, a scalar, types known by name only.
    ft_safetensors *f = opened("{\"late\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
                               "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
                               "\"__metadata__\":{\"format\":\"pt\",\"n\":\"1\"},"
                               "\"early\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8],\"future\":[]},"
                               "\"odd\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[16,19]}}    ",
                               19);
    static const char *const order[] = {"early", "none", "late", "odd"};
    assert_int_equal(ft_safetensors_count(f), 4);
    for (int i = 0; i < 4; i++) {
        const ft_safetensor *t = ft_safetensors_at(f, i);
        assert_string_equal(t->name, order[i]);
        assert_ptr_equal(ft_safetensors_find(f, order[i]), t);
    }
    const ft_safetensor *late = ft_safetensors_find(f, "late"), *early = ft_safetensors_find(f, "early");
    assert_int_equal(late->rank, 0);
    assert_int_equal(late->dtype, FT_I64);
    assert_int_equal(late->bytes, 8);
    assert_memory_equal(late->data, "\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", 8);
    assert_int_equal(early->rank, 2);
    assert_int_equal(early->shape[0] * 10 + early->shape[1], 22);
    assert_int_equal(ft_safetensors_find(f, "none")->shape[1], 0);
    assert_int_equal(ft_safetensors_find(f, "odd")->dtype, FT_SAFETENSOR_OTHER);
    assert_string_equal(ft_safetensors_find(f, "odd")->dtype_name, "F6_E2M3");
    assert_null(ft_safetensors_find(f, "__metadata__"));
    assert_null(ft_safetensors_find(f, "earl"));
    assert_string_equal(ft_safetensors_metadata(f, "format"), "pt");
    assert_null(ft_safetensors_metadata(f, "other"));
    assert_string_equal(ft_safetensors_path(f), path);
    ft_safetensors_close(f);
    f = opened("{}", 0);
    assert_int_equal(ft_safetensors_count(f), 0);
    assert_null(ft_safetensors_find(f, "x"));
    assert_null(ft_safetensors_metadata(f, "x"));
    ft_safetensors_close(f);
    ft_safetensors_close(NULL);
}

static void test_broken_start(void **state) {
    OK(ft_atomic_write(path, "", 0));
    assert_refused("not a safetensors file");
    OK(ft_atomic_write(path, "1234567", 7));
    assert_refused("not a safetensors file");
    write_raw(UINT64_MAX, "{}", 0);
    assert_refused("header would have 18446744073709551615");
    write_raw(100 * 1000 * 1000 + 1, "{}", 0);
    assert_refused("header would have 100000001");
    write_raw(3, "{}", 0);
    assert_refused("cut off in its header of 3");
    write_raw(2, "{}", 1);
    assert_refused("the last 1 bytes belong to no tensor");
    write_raw(0, "", 0);
    assert_refused("not valid JSON");
    refused("[]", 0, "must be a JSON object");
    refused("{\"a\":}", 0, "not valid JSON");
    ft_safetensors *file;
    assert_int_equal(ft_safetensors_open("/tmp", &file), FT_INVALID);
    assert_int_equal(ft_safetensors_open("/dev/null", &file), FT_INVALID);
    assert_int_equal(ft_safetensors_open("/no/such/file", &file), FT_INVALID);
    assert_string_equal(ft_error_where(), "/no/such/file");
}

#define ONE(entry) "{\"t\":{" entry "}}"

static void test_broken_entries(void **state) {
    refused("{\"t\":[]}", 0, "tensor t: its entry must be an object");
    refused("{\"t\":null}", 0, "tensor t: its entry must be an object");
    refused(ONE("\"shape\":[1],\"data_offsets\":[0,4]"), 4, "tensor t: \"dtype\"");
    refused(ONE("\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "tensor t: unknown dtype \"F31\"");
    refused(ONE("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, "tensor t: \"shape\"");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), 4, "dimension 0 of its shape");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1,1.0],\"data_offsets\":[0,4]"), 4, "dimension 1 of its shape");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, "9 dimensions");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1]"), 4, "\"data_offsets\"");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, "\"data_offsets\"");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]"), 4, "\"data_offsets\"");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]"), 4, "\"data_offsets\"");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551620]"), 4, "\"data_offsets\"");
    refused("{\"__metadata__\":[]}", 0, "\"__metadata__\" must be an object");
    refused("{\"__metadata__\":{\"k\":1}}", 0, "\"k\" must be a string");
    refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"t\":{\"dtype\":\"U8\",\"shape\":[1],"
            "\"data_offsets\":[1,2]}}",
            2, "duplicate");
}

static void test_broken_places(void **state) {
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]"), 4, "do not lie in the 4 bytes");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), 4, "do not lie in the 4 bytes");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"), 7,
            "offsets 0 to 8 do not lie in the 7 bytes");
    assert_int_equal(ft_error_hint_count(), 1); // cut off
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775800,9223372036854775804]"), 4,
            "do not lie");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4, "need 8 bytes, its offsets hold 4");
    refused(ONE("\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "need 2 bytes, its offsets hold 4");
    refused(ONE("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]"), 2, "need 2 bytes"); // half a byte
    refused(ONE("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0, "impossibly large");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"), 0,
            "impossibly large"); // in bits
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]"), 5, "1 bytes before it belong to no tensor");
    refused(ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 5, "the last 1 bytes");
    const char *two = "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[%d,%d]},"
                      "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const struct {
        int begin;
        size_t data;
        const char *what;
    } rows[] = {
        {0, 4, "overlaps tensor"}, {3, 7, "tensor b: overlaps tensor a"}, {5, 9, "tensor b: 1 bytes before it"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char header[200];
        snprintf(header, sizeof header, two, rows[i].begin, rows[i].begin + 4);
        refused(header, rows[i].data, rows[i].what);
    }
}

// Every prefix of a good file is refused, and nothing is read behind its end.
static void test_every_truncation(void **state) {
    char *data;
    size_t length;
    OK(ft_read_file(FT_TEST_VECTORS "/bert_relu/model.safetensors", 0, &data, &length));
    for (size_t n = 0; n < length; n += n < 200 ? 1 : 997) {
        OK(ft_atomic_write(path, data, n));
        assert_refused("");
    }
    OK(ft_atomic_write(path, data, length));
    ft_safetensors *file;
    OK(ft_safetensors_open(path, &file));
    ft_safetensors_close(file);
    free(data);
}

// ---- conversion ---------------------------------------------------------------------------------------------------

static void test_half_precision(void **state) {
    static const struct {
        uint16_t f16;
        float value;
    } rows[] = {{0x0000, 0.0f},     {0x8000, -0.0f},           {0x3C00, 1.0f},
                {0xC000, -2.0f},    {0x3555, 0.333251953125f}, {0x7BFF, 65504.0f},
                {0x0400, 0x1p-14f}, {0x0001, 0x1p-24f},        {0x83FF, -0x1.FF8p-15f},
                {0x7C00, INFINITY}, {0xFC00, -INFINITY},       {0x2E66, 0.0999755859375f}};
    enum { N = sizeof rows / sizeof rows[0] };
    uint16_t halves[N + 1];
    for (int i = 0; i < N; i++)
        halves[i] = rows[i].f16;
    halves[N] = 0x7E01; // not a number
    ft_safetensor t = {.name = "t",
                       .dtype = FT_F16,
                       .rank = 1,
                       .shape = {N + 1},
                       .data = halves,
                       .bytes = sizeof halves,
                       .dtype_name = "F16"};
    float out[N + 1];
    ft_safetensors *file = opened("{}", 0);
    OK(ft_safetensor_to_f32(file, &t, out, N + 1));
    for (int i = 0; i < N; i++)
        assert_memory_equal(&out[i], &rows[i].value, sizeof *out);
    assert_true(isnan(out[N]));
    ft_safetensors_close(file);
}

// Every f16 value, by another route: significand times power of two.
static void test_every_half(void **state) {
    ft_safetensors *file = opened("{}", 0);
    for (unsigned bits = 0; bits < 1 << 16; bits++) {
        uint16_t half = (uint16_t)bits;
        ft_safetensor t = {.name = "t", .dtype = FT_F16, .data = &half, .bytes = 2, .dtype_name = "F16"};
        float out;
        OK(ft_safetensor_to_f32(file, &t, &out, 1));
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31)
            assert_true(fraction ? isnan(out) : isinf(out));
        else
            assert_true(fabs(out) == value);
        assert_int_equal(signbit(out) != 0, bits >> 15);
    }
    ft_safetensors_close(file);
}

static void test_conversions(void **state) {
    // bf16 1.5 and -0.0078125 at an odd address, then f64
    char header[] = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},\"d\":{\"dtype\":\"F64\","
                    "\"shape\":[1],\"data_offsets\":[4,12]},"
                    "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[12,16]},\"w\":{\"dtype\":\"U16\","
                    "\"shape\":[1],\"data_offsets\":[16,18]}}";
    uint64_t length = sizeof header - 1;
    const uint16_t bf16[] = {0x3FC0, 0xBC00};
    const double d = -1.0 / 3;
    const int32_t i = 7;
    FILE *out = fopen(path, "wb");
    fwrite(&length, 8, 1, out);
    fputs(header, out);
    fwrite(bf16, 4, 1, out);
    fwrite(&d, 8, 1, out);
    fwrite(&i, 4, 1, out);
    fwrite(&i, 2, 1, out);
    fclose(out);
    ft_safetensors *f;
    OK(ft_safetensors_open(path, &f));
    float got[2];
    OK(ft_safetensor_to_f32(f, ft_safetensors_find(f, "b"), got, 2));
    assert_true(got[0] == 1.5f && got[1] == -0.0078125f);
    OK(ft_safetensor_to_f32(f, ft_safetensors_find(f, "d"), got, 1));
    assert_true(got[0] == (float)d);
    assert_int_equal(ft_safetensor_to_f32(f, ft_safetensors_find(f, "b"), got, 3), FT_INVALID);
    assert_string_equal(ft_error_message(), "tensor b: 2 elements, 3 are needed");
    assert_string_equal(ft_error_where(), path);
    assert_int_equal(ft_safetensor_to_f32(f, ft_safetensors_find(f, "i"), got, 1), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "tensor i: dtype I32"));
    assert_int_equal(ft_safetensor_to_f32(f, ft_safetensors_find(f, "w"), got, 1), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "tensor w: dtype U16"));
    ft_safetensors_close(f);
}

// ---- writing ------------------------------------------------------------------------------------------------------

static const float weights[6] = {1, -2, 3.5f, 0x1p-140f, -0.0f, 6};
static const int64_t numbers[2] = {-1, INT64_MAX};
static const ft_safetensor sample[] = {
    {.name = "z.weight", .dtype = FT_F32, .rank = 2, .shape = {2, 3}, .data = weights, .bytes = sizeof weights},
    {.name = "a \"quoted\" n\xC3\xA4me",
     .dtype = FT_I64,
     .rank = 1,
     .shape = {2},
     .data = numbers,
     .bytes = sizeof numbers},
    {.name = "none", .dtype = FT_F16, .rank = 1, .shape = {0}, .data = NULL, .bytes = 0},
    {.name = "scalar", .dtype = FT_U8, .rank = 0, .data = "x", .bytes = 1},
};
enum { SAMPLE = sizeof sample / sizeof sample[0] };

static void write_sample(int count, const char *const *metadata) {
    ft_atomic_file file;
    OK(ft_atomic_open(&file, path));
    OK(ft_safetensors_write(file.stream, path, count, sample, metadata));
    OK(ft_atomic_commit(&file));
}

static void test_write_and_read(void **state) {
    static const char *const metadata[] = {"format", "pt", "made by", "ft\"engine", NULL};
    write_sample(SAMPLE, metadata);
    ft_safetensors *f;
    OK(ft_safetensors_open(path, &f));
    assert_int_equal(ft_safetensors_count(f), SAMPLE);
    for (int i = 0; i < SAMPLE; i++) {
        const ft_safetensor *t = ft_safetensors_find(f, sample[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, sample[i].dtype);
        assert_int_equal(t->rank, sample[i].rank);
        assert_memory_equal(t->shape, sample[i].shape, sizeof t->shape);
        assert_int_equal(t->bytes, sample[i].bytes);
        if (t->bytes > 0) assert_memory_equal(t->data, sample[i].data, t->bytes);
    }
    assert_string_equal(ft_safetensors_at(f, 0)->name, "z.weight"); // order is kept
    assert_string_equal(ft_safetensors_metadata(f, "made by"), "ft\"engine");
    ft_safetensors_close(f);
}

static void test_layout(void **state) { // to the byte
    write_sample(1, NULL);
    char *data;
    size_t length;
    OK(ft_read_file(path, 0, &data, &length));
    const char *header = "{\"z.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
    uint64_t padded;
    memcpy(&padded, data, sizeof padded);
    assert_int_equal(padded % 8, 0);
    assert_true(padded >= strlen(header) && padded < strlen(header) + 8);
    assert_memory_equal(data + 8, header, strlen(header));
    for (size_t i = strlen(header); i < padded; i++)
        assert_int_equal(data[8 + i], ' ');
    assert_int_equal(length, 8 + padded + sizeof weights);
    assert_memory_equal(data + 8 + padded, weights, sizeof weights);
    free(data);
}

static ft_status failing_source(void *context, int index, size_t offset, size_t bytes, const void **data) {
    if (index == 1) return ft_fail(FT_NO_DEVICE, NULL, "gone");
    *data = (const char *)weights + offset;
    return FT_OK;
}

static void test_write_errors(void **state) {
    FILE *full = fopen("/dev/full", "wb");
    assert_non_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(ft_safetensors_write(full, "m.safetensors", SAMPLE, sample, NULL), FT_FAILED);
    assert_string_equal(ft_error_where(), "m.safetensors");
    assert_non_null(strstr(ft_error_message(), "No space left"));
    fclose(full);
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_equal(ft_safetensors_write_from(out, "m", SAMPLE, sample, NULL, 0, failing_source, NULL), FT_NO_DEVICE);
    ft_safetensor wrong = sample[0];
    wrong.bytes -= 4;
    assert_int_equal(ft_safetensors_write(out, "m", 1, &wrong, NULL), FT_FAILED);
    const ft_safetensor twice[] = {sample[0], sample[0]};
    assert_int_equal(ft_safetensors_write(out, "m", 2, twice, NULL), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "two tensors are called z.weight"));
    fclose(out);
}

// Files that the safetensors library of Hugging Face wrote.
static void test_reference_files(void **state) {
    ft_safetensors *f;
    OK(ft_safetensors_open(FT_TEST_VECTORS "/bert_gelu/model.safetensors", &f));
    const ft_safetensor *t = ft_safetensors_find(f, "bert.embeddings.word_embeddings.weight");
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 97);
    assert_int_equal(t->shape[1], 36);
    assert_string_equal(ft_safetensors_metadata(f, "format"), "pt");
    ft_safetensors_close(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_read),          TEST(test_broken_start),     TEST(test_broken_entries),
        TEST(test_broken_places), TEST(test_every_truncation), TEST(test_half_precision),
        TEST(test_every_half),    TEST(test_conversions),      TEST(test_write_and_read),
        TEST(test_layout),        TEST(test_write_errors),     TEST(test_reference_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

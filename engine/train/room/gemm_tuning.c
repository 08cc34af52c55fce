#include "engine/train/room/gemm_tuning.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "kernels/devices/devices.h"
#include "kernels/ops/activation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_VERSION = 1, FORMAT_VERSION = PLAIN_VERSION + FT_GEMM_EPILOGUES - 1, MOST_ALIGNMENT = 256, MOST_PRODUCTS = 1 << 20 };

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
static const char *const biases[] = {"none", "in place", "copied"}; // ft_gemm_bias
static const char *const epilogues[] = {"none", "activation", "slope", "norm"}; // ft_gemm_epilogue
static const char *const sums[] = {"16 bits", "fp32", "16 bits, dropout", "fp32, dropout"}; // that a norm reads: FT_GEMM_SUM_FLOATS, FT_GEMM_SUM_DROPS
static const char *const ways[] = {"in two", "own"}; // of a product that has one

// ---- from the file ------------------------------------------------------------------------------------------------------

static ft_status bad(const char *path, size_t index, const char *what) {
    return ft_fail(FT_INVALID, path, "products[%zu]: %s", index, what);
}

static bool read_type(const json_t *text, int32_t *out) {
    for (size_t i = 0; json_is_string(text) && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(json_string_value(text), ft_dtype_name(types[i])) == 0) return *out = (int32_t)types[i], true;
    return false;
}

static bool read_alignment(const json_t *value, int32_t *out) {
    json_int_t n = json_integer_value(value); // 0 for what is no integer
    *out = (int32_t)n;
    return n >= 1 && n <= MOST_ALIGNMENT && (n & (n - 1)) == 0;
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static bool read_algorithm(const char *text, ft_gemm_algorithm *out) {
    unsigned char *bytes = (unsigned char *)out;
    if (strlen(text) != 2 * sizeof *out) return false;
    for (size_t i = 0; i < sizeof *out; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

// The number of a word in a list of them; `count`: it is not there.
static int32_t number_of(const char *word, const char *const *list, int32_t count) {
    int32_t i = 0;
    while (i < count && strcmp(word, list[i]) != 0) i++;
    return i;
}

static ft_status read_epilogue(const json_t *object, const char *path, size_t index, const char *algorithm, ft_gemm_choice *out) {
    const char *epilogue, *kind;
    FT_TRY(ft_json_string(object, path, "epilogue", "", &epilogue));
    out->shape.epilogue = number_of(epilogue, epilogues, FT_GEMM_EPILOGUES);
    if (out->shape.epilogue == FT_GEMM_EPILOGUES || out->shape.epilogue == FT_GEMM_NO_EPILOGUE)
        return bad(path, index, "epilogue is activation, slope or norm");
    if (out->shape.epilogue == FT_GEMM_NORM) {
        FT_TRY(ft_json_string(object, path, "sum", "", &kind));
        out->shape.kind = number_of(kind, sums, FT_GEMM_SUMS);
        if (out->shape.kind == FT_GEMM_SUMS) return bad(path, index, "sum is 16 bits or fp32, with dropout or without");
    } else {
        ft_activation activation;
        FT_TRY(ft_json_string(object, path, "activation", "", &kind));
        FT_TRY(ft_activation_from_name(kind, &activation));
        out->shape.kind = (int32_t)activation;
    }
    out->algorithm.data[0] = (uint64_t)number_of(algorithm, ways, 2);
    return out->algorithm.data[0] < 2 ? FT_OK : bad(path, index, "algorithm of a product with an epilogue is in two or own");
}

static ft_status read_product(const json_t *object, const char *path, size_t index, ft_gemm_choice *out) {
    ft_gemm_shape *s = &out->shape;
    const struct {
        const char *key;
        int64_t *value;
    } numbers[] = {{"m", &s->m}, {"n", &s->n}, {"k", &s->k}, {"lda", &s->lda}, {"ldb", &s->ldb}, {"ldc", &s->ldc}};
    memset(out, 0, sizeof *out);
    if (!json_is_object(object)) return bad(path, index, "is no object");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        FT_TRY(ft_json_int(object, path, numbers[i].key, 0, 1, INT64_MAX, numbers[i].value));
    const json_t *type = json_object_get(object, "types"), *align = json_object_get(object, "align"),
                 *transposed = json_object_get(object, "transposed");
    int32_t *const type_of[] = {&s->a, &s->b, &s->c}, *const align_of[] = {&s->align_a, &s->align_b, &s->align_c},
                                                      *const transposed_of[] = {&s->trans_a, &s->trans_b};
    for (size_t i = 0; i < 3; i++) {
        if (!read_type(json_array_get(type, i), type_of[i])) return bad(path, index, "types are three of fp32, bf16, fp16");
        if (!read_alignment(json_array_get(align, i), align_of[i])) return bad(path, index, "align is three powers of two up to 256");
    }
    for (size_t i = 0; i < 2; i++) {
        if (!json_is_boolean(json_array_get(transposed, i))) return bad(path, index, "transposed is a list of two truth values");
        *transposed_of[i] = json_is_true(json_array_get(transposed, i));
    }
    bool accumulate;
    const char *algorithm, *bias;
    FT_TRY(ft_json_bool(object, path, "accumulate", false, &accumulate));
    FT_TRY(ft_json_string(object, path, "bias", "", &bias));
    FT_TRY(ft_json_string(object, path, "algorithm", "", &algorithm));
    double best, first; // only told
    FT_TRY(ft_json_number(object, path, "microseconds", 0, &best));
    FT_TRY(ft_json_number(object, path, "first_microseconds", 0, &first));
    out->microseconds = (float)best;
    out->first_microseconds = (float)first;
    s->accumulate = accumulate;
    while (s->bias < 3 && strcmp(bias, biases[s->bias]) != 0) s->bias++;
    if (s->bias == 3) return bad(path, index, "bias is none, in place or copied");
    if (json_object_get(object, "epilogue") != NULL) return read_epilogue(object, path, index, algorithm, out);
    return read_algorithm(algorithm, &out->algorithm) ? FT_OK : bad(path, index, "algorithm is no 128 hexadecimal digits");
}

ft_status ft_gemm_products_read(const json_t *list, const char *path, ft_gemm_choice **choices, size_t *count) {
    *count = json_array_size(list);
    *choices = NULL;
    if (!json_is_array(list) || *count > MOST_PRODUCTS) return ft_fail(FT_INVALID, path, "products is no list of at most %d", MOST_PRODUCTS);
    *choices = ft_calloc(*count + 1, sizeof **choices, "tuned matrix products");
    if (*choices == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < *count; i++) FT_TRY(read_product(json_array_get(list, i), path, i, &(*choices)[i]));
    return FT_OK;
}

// The file must be of this chip and this library: elsewhere its algorithms are not the fastest, or mean something else.
static ft_status check_origin(const json_t *root, const char *path, const ft_device *device, bool own, bool *serves) {
    int64_t version, library;
    const char *chip;
    FT_TRY(ft_json_int(root, path, "format_version", 0, 0, INT32_MAX, &version));
    if (version < PLAIN_VERSION || version > FORMAT_VERSION)
        return ft_fail(FT_INVALID, path, "format_version %lld, this program reads %d to %d", (long long)version, PLAIN_VERSION, FORMAT_VERSION);
    FT_TRY(ft_json_string(root, path, "chip", "", &chip));
    FT_TRY(ft_json_int(root, path, "cublaslt", 0, 0, INT64_MAX, &library));
    const long long present = (long long)ft_gemms_library(device);
    *serves = strcmp(chip, device->description) == 0 && library == present;
    if (*serves) return FT_OK;
    if (own) {
        ft_warn("the run began with matrix products that were measured on %s with cuBLASLt %lld; on %s with %lld it goes on with what that proposes",
                chip[0] != '\0' ? chip : "?", (long long)library, device->description, present);
        return FT_OK;
    }
    ft_fail(FT_INVALID, path, "these products were measured on %s with cuBLASLt %lld, this is %s with %lld", chip[0] != '\0' ? chip : "?",
            (long long)library, device->description, present);
    ft_hint("measure them here: ftengine tune-gemm CONFIG.ini --output FILE");
    return FT_INVALID;
}

static ft_status take(const json_t *root, const char *path, ft_device *device, bool own) {
    bool serves;
    size_t count;
    ft_gemm_choice *choices;
    FT_TRY(check_origin(root, path, device, own, &serves));
    if (!serves) return FT_OK;
    ft_status status = ft_gemm_products_read(json_object_get(root, "products"), path, &choices, &count);
    if (status == FT_OK) status = ft_gemms_use(device, choices, count);
    if (status == FT_OK) ft_info("gemm       %zu tuned products  %s", count, path);
    if (status == FT_OK && ft_device_product_remark(device)[0] != '\0') ft_warn("%s", ft_device_product_remark(device)); // chosen, and not to be had
    free(choices);
    return status;
}

static ft_status hash_file(const char *path, char sha256[FT_TUNING_HASH]) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) return ft_fail(FT_INVALID, path, "device.gemm_tuning names a file that cannot be read");
    ft_sha256_state state;
    unsigned char block[4096], digest[32];
    size_t got;
    ft_sha256_begin(&state);
    while ((got = fread(block, 1, sizeof block, file)) > 0) ft_sha256_add(&state, block, got);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) return ft_fail(FT_INVALID, path, "device.gemm_tuning names a file that cannot be read");
    ft_sha256_end(&state, digest);
    ft_sha256_hex(digest, sha256);
    return FT_OK;
}

bool ft_gemm_tuning_is_auto(const ft_config *config) { return strcmp(config->device.gemm_tuning, "auto") == 0; }

ft_status ft_gemm_tuning_own(const char *path, ft_device *device, char sha256[FT_TUNING_HASH]) {
    json_t *root;
    sha256[0] = '\0';
    if (!ft_path_exists(path)) return FT_OK;
    FT_TRY(hash_file(path, sha256));
    FT_TRY(ft_json_load(path, &root));
    const ft_status status = ft_gemms_have(device) ? take(root, path, device, true) : FT_OK;
    json_decref(root);
    return status;
}

ft_status ft_gemm_tuning_apply(const ft_config *config, ft_device *device, char sha256[FT_TUNING_HASH]) {
    const char *path = config->device.gemm_tuning;
    json_t *root;
    sha256[0] = '\0';
    if (path[0] == '\0' || ft_gemm_tuning_is_auto(config)) return FT_OK;
    FT_TRY(hash_file(path, sha256));
    FT_TRY(ft_json_load(path, &root));
    ft_status status = FT_OK;
    if (ft_gemms_have(device)) status = take(root, path, device, false);
    else ft_warn("device.gemm_tuning is for GPUs: nothing uses it on %s", device->name);
    json_decref(root);
    return status;
}

// ---- into the file ------------------------------------------------------------------------------------------------------

json_t *ft_gemm_product_json(const ft_gemm_choice *c) {
    const ft_gemm_shape *s = &c->shape;
    const unsigned char *bytes = (const unsigned char *)&c->algorithm;
    char algorithm[2 * sizeof c->algorithm + 1];
    for (size_t i = 0; i < sizeof c->algorithm; i++) snprintf(algorithm + 2 * i, 3, "%02x", bytes[i]);
    const bool plain = s->epilogue == FT_GEMM_NO_EPILOGUE, of_sum = s->epilogue == FT_GEMM_NORM;
    const char *kind = plain ? NULL : of_sum ? sums[s->kind] : ft_activation_name((ft_activation)s->kind);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:[s, s, s], s:[i, i, i], s:[b, b], s:b, s:s, s:s, s:o, s:o, s:s*, s:s*}", "m", (json_int_t)s->m, "n",
                     (json_int_t)s->n, "k", (json_int_t)s->k, "lda", (json_int_t)s->lda, "ldb", (json_int_t)s->ldb, "ldc", (json_int_t)s->ldc,
                     "types", ft_dtype_name((ft_dtype)s->a), ft_dtype_name((ft_dtype)s->b), ft_dtype_name((ft_dtype)s->c), "align", s->align_a,
                     s->align_b, s->align_c, "transposed", s->trans_a, s->trans_b, "accumulate", s->accumulate, "bias", biases[s->bias], "algorithm",
                     plain ? algorithm : ways[c->algorithm.data[0] == FT_GEMM_OWN], "microseconds", ft_json_rounded(c->microseconds, 5), "first_microseconds",
                     ft_json_rounded(c->first_microseconds, 5), "epilogue", plain ? NULL : epilogues[s->epilogue], of_sum ? "sum" : "activation", kind);
}

ft_status ft_gemm_tuning_save(const ft_device *device, const char *path, size_t *products) {
    const ft_gemm_choice *choices = ft_gemms_choices(device, products);
    bool failed = false;
    int version = PLAIN_VERSION; // one more for every epilogue: an older program reads what it knows, and says so of the rest
    char driver[FT_GEMM_DRIVER];
    json_t *list = json_array();
    ft_gemms_driver(device, driver);
    for (size_t i = 0; i < *products; i++) {
        const int needed = PLAIN_VERSION + choices[i].shape.epilogue;
        if (needed > version) version = needed;
        ft_json_append(list, ft_gemm_product_json(&choices[i]), &failed);
    }
    json_t *root = json_pack("{s:i, s:o, s:o, s:I, s:o}", "format_version", version, "chip", ft_json_text(device->description), "driver",
                             ft_json_text(driver), "cublaslt", (json_int_t)ft_gemms_library(device), "products", list);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "tuned matrix products") : ft_json_save(path, root);
    json_decref(root);
    return status;
}

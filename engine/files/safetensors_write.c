#include "base/json/json.h"
#include "engine/files/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 8 };

static const char *file_dtype(ft_dtype dtype) {
    switch (dtype) {
    case FT_F32: return "F32";
    case FT_BF16: return "BF16";
    case FT_F16: return "F16";
    case FT_F64: return "F64";
    case FT_I32: return "I32";
    case FT_I64: return "I64";
    case FT_U8: return "U8";
    }
    return NULL;
}

// A mistake of the caller would otherwise be found by whoever reads the file.
static ft_status check(const ft_safetensor *t, const char *path, const char **dtype) {
    *dtype = t->dtype == FT_U8 && t->dtype_name != NULL ? t->dtype_name : file_dtype(t->dtype);
    size_t bytes = ft_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (size_t)t->shape[i];
    if (*dtype != NULL && bytes == t->bytes) return FT_OK;
    return ft_fail(FT_FAILED, path, "internal: tensor %.200s is given with %zu bytes and dtype %s", t->name, t->bytes,
                   ft_dtype_name(t->dtype));
}

static ft_status add_tensor(json_t *header, const ft_safetensor *t, const char *path, size_t *at) {
    const char *dtype;
    FT_TRY(check(t, path, &dtype));
    if (json_object_get(header, t->name) != NULL)
        return ft_fail(FT_FAILED, path, "internal: two tensors are called %.200s", t->name);
    json_t *shape = json_array();
    int failed = shape == NULL;
    for (int i = 0; i < t->rank; i++)
        failed |= json_array_append_new(shape, json_integer(t->shape[i]));
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)*at,
                              (json_int_t)(*at + t->bytes));
    failed |= json_object_set_new(header, t->name, entry);
    *at += t->bytes;
    return failed ? ft_fail_memory(0, "a safetensors header") : FT_OK;
}

static ft_status add_metadata(json_t *header, const char *const *metadata) {
    json_t *object = json_object();
    int failed = json_object_set_new(header, "__metadata__", object);
    for (int i = 0; !failed && metadata[i] != NULL; i += 2)
        failed |= json_object_set_new(object, metadata[i], json_string(metadata[i + 1]));
    return failed ? ft_fail_memory(0, "a safetensors header") : FT_OK;
}

static ft_status header_text(int count, const ft_safetensor *tensors, const char *const *metadata, const char *path,
                             char **text) {
    json_t *header = json_object();
    ft_status status = header != NULL ? FT_OK : ft_fail_memory(0, "a safetensors header");
    if (status == FT_OK && metadata != NULL) status = add_metadata(header, metadata);
    size_t at = 0;
    for (int i = 0; i < count && status == FT_OK; i++)
        status = add_tensor(header, &tensors[i], path, &at);
    *text = status == FT_OK ? ft_json_line(header) : NULL;
    if (status == FT_OK && *text == NULL) status = FT_NO_MEMORY;
    json_decref(header);
    return status;
}

static ft_status put(FILE *out, const char *path, const void *data, size_t bytes) {
    if (bytes == 0 || fwrite(data, 1, bytes, out) == bytes) return FT_OK;
    return ft_fail_errno(FT_FAILED, errno, path, "cannot write the file");
}

static ft_status write_header(FILE *out, const char *path, const char *text) {
    size_t length = strlen(text), padding = (ALIGNMENT - length % ALIGNMENT) % ALIGNMENT;
    uint64_t padded = length + padding;
    FT_TRY(put(out, path, &padded, sizeof padded));
    FT_TRY(put(out, path, text, length));
    return put(out, path, "        ", padding);
}

ft_status ft_safetensors_write_from(FILE *out, const char *path, int count, const ft_safetensor *tensors,
                                    const char *const *metadata, size_t piece, ft_safetensor_source fetch,
                                    void *context) {
    char *text;
    FT_TRY(header_text(count, tensors, metadata, path, &text));
    ft_status status = write_header(out, path, text);
    free(text);
    for (int i = 0; i < count && status == FT_OK; i++) {
        for (size_t at = 0, bytes; at < tensors[i].bytes && status == FT_OK; at += bytes) {
            const void *data;
            bytes = piece > 0 && tensors[i].bytes - at > piece ? piece : tensors[i].bytes - at;
            status = fetch(context, i, at, bytes, &data);
            if (status == FT_OK) status = put(out, path, data, bytes);
        }
    }
    return status;
}

static ft_status own_data(void *context, int index, size_t offset, size_t bytes, const void **data) {
    const ft_safetensor *tensors = context;
    *data = (const char *)tensors[index].data + offset;
    return FT_OK;
}

ft_status ft_safetensors_write(FILE *out, const char *path, int count, const ft_safetensor *tensors,
                               const char *const *metadata) {
    return ft_safetensors_write_from(out, path, count, tensors, metadata, 0, own_data, (void *)tensors);
}

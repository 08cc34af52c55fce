// Any bytes as a safetensors file; what is accepted must lie inside the file, tensor behind tensor, and convert.
#include "engine/files/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

// The file, in memory, but opened and mapped by path as a real one.
static int open_file(const uint8_t *input, size_t size, char *path, size_t room) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, input, size) == (ssize_t)size);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_tensor(const ft_safetensors *file, const ft_safetensor *t, const uint8_t *input) {
    check(t->rank >= 0 && t->rank <= 8 && t->dtype_name != NULL);
    check(ft_safetensors_find(file, t->name) == t);
    uint64_t elements = 1;
    for (int i = 0; i < t->rank; i++) {
        check(t->shape[i] >= 0);
        elements *= (uint64_t)t->shape[i];
    }
    size_t element = ft_dtype_size(t->dtype);
    check(element == 0 || elements * element == t->bytes);
    check(memcmp(t->data, input, t->bytes) == 0);
    float *out = malloc(elements * sizeof *out + 1);
    check(out != NULL);
    bool real = t->dtype == FT_F32 || t->dtype == FT_BF16 || t->dtype == FT_F16 || t->dtype == FT_F64;
    check((ft_safetensor_to_f32(file, t, out, (int64_t)elements) == FT_OK) == real);
    check(ft_safetensor_to_f32(file, t, out, (int64_t)elements + 1) == FT_INVALID);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char path[64];
    int fd = open_file(input, size, path, sizeof path);
    ft_safetensors *file;
    ft_status status = ft_safetensors_open(path, &file);
    close(fd);
    if (status != FT_OK) {
        check(status == FT_INVALID && file == NULL && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
        return 0;
    }
    uint64_t header;
    memcpy(&header, input, sizeof header);
    size_t at = sizeof header + header;
    for (int i = 0; i < ft_safetensors_count(file); i++) {
        const ft_safetensor *t = ft_safetensors_at(file, i);
        check(at + t->bytes <= size);
        if (t->bytes < 1 << 20) check_tensor(file, t, input + at);
        at += t->bytes;
    }
    check(at == size);
    ft_safetensors_metadata(file, "format");
    ft_safetensors_close(file);
    return 0;
}

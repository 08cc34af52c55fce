// Any bytes as a pytorch_model.bin: what is accepted must lie in the file, with its strides, and convert.
#include "engine/files/torch_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static void check_tensor(const ft_torch_file *file, const ft_safetensor *t) {
    check(t->rank >= 0 && t->rank <= 8 && t->dtype_name != NULL && t->name != NULL);
    check(ft_torch_find(file, t->name) == t);
    uint64_t elements = 1;
    for (int i = 0; i < t->rank; i++) {
        check(t->shape[i] >= 0);
        elements *= (uint64_t)t->shape[i];
    }
    size_t element = ft_dtype_size(t->dtype);
    check(element == 0 || elements * element == t->bytes);
    float out[64];
    uint64_t count = elements < 64 ? elements : 64;
    bool real = t->dtype == FT_F32 || t->dtype == FT_BF16 || t->dtype == FT_F16 || t->dtype == FT_F64;
    check((ft_tensor_part_to_f32("fuzz", t, 0, (int64_t)count, out) == FT_OK) == real);
    check((ft_tensor_part_to_f32("fuzz", t, (int64_t)(elements - count), (int64_t)count, out) == FT_OK) == real);
    check(ft_tensor_part_to_f32("fuzz", t, 1, (int64_t)elements, out) == FT_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, input, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ft_torch_file *file;
    ft_status status = ft_torch_open(path, &file);
    close(fd);
    if (status != FT_OK) {
        check(status == FT_INVALID && file == NULL && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
        return 0;
    }
    for (int i = 0; i < ft_torch_count(file); i++)
        check_tensor(file, ft_torch_at(file, i));
    ft_torch_close(file);
    return 0;
}

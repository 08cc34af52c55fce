// Any bytes as model.safetensors.index.json beside one small file: tensors of that file, or a refusal; never another file. What looks like
// weights themselves is model.safetensors or pytorch_model.bin, whose matrices may be bitsandbytes'.
#include "base/files.h"
#include "engine/files/bitsandbytes.h"
#include "engine/files/weights.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static char directory[] = "/dev/shm/ft-fuzz-weights-XXXXXX";

static void write_file(const char *name, const void *data, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *out = fopen(path, "wb");
    check(out != NULL && fwrite(data, 1, size, out) == size && fclose(out) == 0);
}

static void clean_up(void) { ft_remove_tree(directory); }

static void set_up(void) {
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                 "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[4,8]}}";
    char file[256] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    check(mkdtemp(directory) != NULL);
    atexit(clean_up);
    write_file("one", file, 8 + sizeof header - 1 + 8);
}

static void check_index(const ft_weights *weights) {
    for (int i = 0; i < ft_weights_count(weights); i++) {
        float out[2];
        const char *name = ft_weights_at(weights, i)->name;
        check(strcmp(name, "a") == 0 || strcmp(name, "b") == 0);
        check(ft_weights_find(weights, name) == i && strcmp(strrchr(ft_weights_path(weights, i), '/'), "/one") == 0);
        check(ft_weights_part_to_f32(weights, i, 0, name[0] == 'a' ? 1 : 2, out) == FT_OK);
    }
}

// The first and the last numbers of each tensor.
static void check_weights(const ft_weights *weights) {
    for (int i = 0; i < ft_weights_count(weights); i++) {
        const ft_safetensor *t = ft_weights_at(weights, i);
        float out[64];
        int64_t elements = 1;
        for (int d = 0; d < t->rank; d++) elements *= t->shape[d];
        const int64_t count = elements < 64 ? elements : 64;
        const bool numbers = ft_weights_packed(weights, i) != NULL || t->dtype == FT_F32 || t->dtype == FT_BF16 ||
                             t->dtype == FT_F16 || t->dtype == FT_F64;
        check(ft_weights_find(weights, t->name) == i);
        check((ft_weights_part_to_f32(weights, i, 0, count, out) == FT_OK) == numbers);
        check((ft_weights_part_to_f32(weights, i, elements - count, count, out) == FT_OK) == numbers);
        if (ft_weights_packed(weights, i) != NULL) (void)ft_packed_is_finite(ft_weights_packed(weights, i));
    }
}

// By what it begins with.
static const char *name_of(const uint8_t *input, size_t size) {
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin"};
    if (size >= 4 && (memcmp(input, "PK", 2) == 0 || input[0] == 0x80)) return names[2];
    return size > 8 && input[8] == '{' && input[1] <= 0x20 ? names[1] : names[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static bool ready;
    if (!ready) set_up();
    ready = true;
    const char *name = name_of(input, size);
    write_file(name, input, size);
    ft_weights *weights;
    ft_status status = ft_weights_open(directory, &weights);
    if (status == FT_OK) {
        (strstr(name, "index") != NULL ? check_index : check_weights)(weights);
        ft_weights_close(weights);
    } else {
        check(status == FT_INVALID && weights == NULL && ft_error_message()[0] != '\0' && ft_error_where()[0] != '\0');
    }
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
    return 0;
}

// Any bytes as model.safetensors.index.json beside one small file: tensors of that file, or a refusal; never another
// file.
#include "base/files.h"
#include "engine/files/weights.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static bool ready;
    if (!ready) set_up();
    ready = true;
    write_file("model.safetensors.index.json", input, size);
    ft_weights *weights;
    ft_status status = ft_weights_open(directory, &weights);
    if (status != FT_OK) {
        check(status == FT_INVALID && weights == NULL && strncmp(ft_error_where(), directory, strlen(directory)) == 0);
        return 0;
    }
    for (int i = 0; i < ft_weights_count(weights); i++) {
        float out[2];
        const char *name = ft_weights_at(weights, i)->name;
        check(strcmp(name, "a") == 0 || strcmp(name, "b") == 0);
        check(ft_weights_find(weights, name) == i && strcmp(strrchr(ft_weights_path(weights, i), '/'), "/one") == 0);
        check(ft_weights_part_to_f32(weights, i, 0, name[0] == 'a' ? 1 : 2, out) == FT_OK);
    }
    ft_weights_close(weights);
    return 0;
}

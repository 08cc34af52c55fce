// Any bytes as tokenizer.json, or (up to a NUL) tokenizer_config.json and then tokenizer.json: opened or refused with a
// message; what opens must encode within its own vocabulary.
#include "engine/text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/dev/shm/ft-fuzz-json-XXXXXX", file[64], config[64];
static void remove_scratch(void) {
    unlink(file);
    unlink(config);
    rmdir(directory);
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
    FILE *f = fopen(path, "wb");
    if (f == NULL) abort();
    fwrite(data, 1, size, f);
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (file[0] == '\0') {
        if (mkdtemp(directory) == NULL) abort();
        snprintf(file, sizeof file, "%s/tokenizer.json", directory);
        snprintf(config, sizeof config, "%s/tokenizer_config.json", directory);
        atexit(remove_scratch);
    }
    const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = split != NULL ? (size_t)(split - data) : 0;
    unlink(config);
    if (split != NULL) write_file(config, data, first);
    write_file(file, split != NULL ? split + 1 : data, split != NULL ? size - first - 1 : size);
    ft_tokenizer *t;
    if (ft_tokenizer_open(directory, &t) != FT_OK) {
        if (t != NULL || ft_error_message()[0] == '\0') abort();
        return 0;
    }
    ft_token_ids ids = {0};
    if (ft_tokenizer_encode(t, (const char *)data, size, 0, &ids) != FT_OK) abort();
    for (size_t i = 0; i < ids.count; i++)
        if (ft_tokenizer_token(t, ids.ids[i]) == NULL) abort();
    free(ids.ids);
    ft_tokenizer_close(t);
    return 0;
}

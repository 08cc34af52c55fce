// Any bytes as vocab.txt: opened or refused with a message; what opens must encode within its own vocabulary.
#include "engine/text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/dev/shm/ft-fuzz-vocab-XXXXXX", path[64];
static void remove_scratch(void) {
    unlink(path);
    rmdir(directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (path[0] == '\0') {
        if (mkdtemp(directory) == NULL) abort();
        snprintf(path, sizeof path, "%s/vocab.txt", directory);
        atexit(remove_scratch);
    }
    // The special tokens in front, or hardly any input would open; an odd first byte leaves them out.
    static const char special[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    FILE *f = fopen(path, "wb");
    if (f == NULL) abort();
    if (size == 0 || data[0] % 2 == 0) fwrite(special, 1, sizeof special - 1, f);
    fwrite(data, 1, size, f);
    fclose(f);
    ft_tokenizer *t;
    const ft_status opened = ft_tokenizer_open(directory, &t);
    if (opened != FT_OK) {
        if (opened != FT_INVALID || t != NULL || ft_error_message()[0] == '\0') abort(); // memory there is
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

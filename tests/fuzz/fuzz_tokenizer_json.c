// Any bytes as tokenizer.json; or, with a NUL behind each of up to three files in front of it, as tokenizer_config.json,
// special_tokens_map.json, added_tokens.json and then tokenizer.json: opened or refused with a message; what opens must encode
// within its own vocabulary, and what it can decode is UTF-8.
#include "base/utf8.h"
#include "engine/text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// In the order in which they stand in the input; the last one is always there.
enum { FILES = 4 };
static const char *const NAMES[FILES] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                         "tokenizer.json"};
static char directory[] = "/dev/shm/ft-fuzz-json-XXXXXX", paths[FILES][80];
static void remove_scratch(void) {
    for (int i = 0; i < FILES; i++)
        unlink(paths[i]);
    rmdir(directory);
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
    FILE *f = fopen(path, "wb");
    if (f == NULL) abort();
    fwrite(data, 1, size, f);
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (paths[0][0] == '\0') {
        if (mkdtemp(directory) == NULL) abort();
        for (int i = 0; i < FILES; i++)
            snprintf(paths[i], sizeof paths[i], "%s/%s", directory, NAMES[i]);
        atexit(remove_scratch);
    }
    size_t at = 0;
    for (int i = 0; i < FILES - 1; i++) {
        const uint8_t *end = at < size ? memchr(data + at, 0, size - at) : NULL;
        unlink(paths[i]);
        if (end == NULL) continue;
        size_t length = (size_t)(end - data) - at;
        if (length > 0) write_file(paths[i], data + at, length); // empty: this file is not there
        at += length + 1;
    }
    write_file(paths[FILES - 1], data + at, size - at);
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
    if (ft_tokenizer_decodes(t) == FT_OK) {
        ft_decoded text = {0};
        if (ft_tokenizer_decode(t, ids.ids, ids.count, false, &text) != FT_OK) abort();
        if (ft_utf8_valid_prefix(text.text, text.length) != text.length || text.text[text.length] != '\0') abort();
        free(text.text);
    }
    ft_token_ids pair = {0}, types = {0};
    const ft_status status = ft_tokenizer_encode_pair(t, (const char *)data, size / 2, (const char *)data, size, 16,
                                                      FT_TRUNCATE_LONGEST_FIRST, &pair, &types);
    if (status == FT_OK ? pair.count > 16 || types.count != pair.count : status != FT_INVALID) abort(); // its special tokens alone may be more
    free(pair.ids);
    free(types.ids);
    free(ids.ids);
    ft_tokenizer_close(t);
    return 0;
}

// Any bytes as merges.txt, beside a vocabulary of single bytes and some joined ones; behind a NUL the text to encode.
// Opened or refused with a message; what opens must encode within its own vocabulary, truncated calls alike.
#include "engine/text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/dev/shm/ft-fuzz-merges-XXXXXX", vocabulary[64], merges[64];
static void remove_scratch(void) {
    unlink(vocabulary);
    unlink(merges);
    rmdir(directory);
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    if (f == NULL) abort();
    fwrite(data, 1, size, f);
    fclose(f);
}

static void start(void) {
    static const char tokens[] = "{\"<s>\":0,\"<pad>\":1,\"</"
                                 "s>\":2,\"<unk>\":3,\"<mask>\":4,\"a\":5,\"b\":6,\"c\":7,\"ab\":8,\"bc\":9,\"abc\":10,"
                                 "\"aa\":11,\"aaa\":12,\"aaaa\":13,\"\xC4\xA0\":14,\"\xC4\xA0\x61\":15,"
                                 "\"\xC4\xA0\xC4\xA0\":16,\"'\":17,\"s\":18,"
                                 "\"\xC3\x83\":19,\"\xC2\xA9\":20,\"\xC3\x83\xC2\xA9\":21,\"\xE4\xB8\xAD\":22}";
    if (mkdtemp(directory) == NULL) abort();
    snprintf(vocabulary, sizeof vocabulary, "%s/vocab.json", directory);
    snprintf(merges, sizeof merges, "%s/merges.txt", directory);
    write_file(vocabulary, tokens, sizeof tokens - 1);
    atexit(remove_scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (merges[0] == '\0') start();
    const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = split != NULL ? (size_t)(split - data) : size;
    const char *text = split != NULL ? (const char *)split + 1 : (const char *)data;
    size_t length = split != NULL ? size - first - 1 : size;
    write_file(merges, data, first);
    ft_tokenizer *t;
    const ft_status opened = ft_tokenizer_open(directory, &t);
    if (opened != FT_OK) {
        if (opened != FT_INVALID || t != NULL || ft_error_message()[0] == '\0') abort(); // memory there is
        return 0;
    }
    ft_token_ids ids = {0}, cut = {0}, types = {0};
    if (ft_tokenizer_encode(t, text, length, 0, &ids) != FT_OK) abort();
    for (size_t i = 0; i < ids.count; i++)
        if (ft_tokenizer_token(t, ids.ids[i]) == NULL) abort();
    if (ft_tokenizer_encode(t, text, length, 9, &cut) != FT_OK || cut.count > 9) abort();
    if (memcmp(ids.ids, cut.ids, (cut.count - 1) * sizeof *ids.ids) != 0) abort();
    cut.count = 0;
    if (ft_tokenizer_encode_pair(t, text, length, text, length / 2, 11, FT_TRUNCATE_LONGEST_FIRST, &cut, &types) !=
        FT_OK)
        abort();
    if (cut.count > 11 || types.count != cut.count) abort();
    free(ids.ids);
    free(cut.ids);
    free(types.ids);
    ft_tokenizer_close(t);
    return 0;
}

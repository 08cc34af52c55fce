// Any bytes as a file of the token cache. A checksum and a header would stop nearly every input at the door, so bits of
// the first byte mend them, and take the wanted count of examples from the input.
#include "engine/data/token_cache.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

enum { HEADER = 144, READS_AT = 120, KEY_AT = 16, EXAMPLES_AT = 80, PAIRED_AT = 116, CHECKSUM = 32, VOCABULARY = 1000 };

static void mend_header(uint8_t *file, const char *key, bool paired, bool reads) {
    const uint32_t marks[] = {FT_TOKEN_CACHE_VERSION, 0x01020304};
    memcpy(file, "FTTOKENS", 8);
    memcpy(file + 8, marks, sizeof marks);
    memcpy(file + KEY_AT, key, 64);
    memset(file + PAIRED_AT, 0, READS_AT - PAIRED_AT);
    file[PAIRED_AT] = paired;
    if (!reads) memset(file + READS_AT, 0xFF, sizeof(int64_t));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size < 2) return 0;
    unsigned how = input[0];
    size_t length = size - 1;
    uint8_t *file = malloc(length);
    check(file != NULL);
    memcpy(file, input + 1, length);

    ft_token_cache_want want = {.examples = 2, .vocabulary = VOCABULARY, .max_length = how & 2 ? 16 : 0, .paired = how & 16, .windows = how & 32, .reads = how & 64};
    memset(want.key, 'k', 64);
    if (length >= HEADER + CHECKSUM) {
        if (how & 8) mend_header(file, want.key, want.paired, want.reads);
        if (how & 4) memcpy(&want.examples, file + EXAMPLES_AT, sizeof want.examples);
        if (how & 1)
            check(EVP_Digest(file, length - CHECKSUM, file + length - CHECKSUM, NULL, EVP_sha256(), NULL) == 1);
    }
    FILE *stream = fmemopen(file, length, "rb");
    check(stream != NULL);
    ft_dataset data = {0};
    ft_status status = ft_token_cache_read(stream, length, &want, &data);
    fclose(stream);
    free(file);
    if (status != FT_OK) {
        check(status == FT_INVALID && data.ids == NULL && data.offset == NULL && data.types == NULL && data.example == NULL);
        return 0;
    }
    check(data.examples == want.examples && data.offset[0] == 0 && data.offset[data.sequences] == data.tokens);
    check(data.sequences == data.examples || (want.windows && data.sequences > data.examples));
    check((data.example != NULL) == (data.sequences > data.examples));
    for (int64_t i = 0; i < data.sequences; i++) {
        int64_t example = ft_dataset_example(&data, i), before = i > 0 ? ft_dataset_example(&data, i - 1) : 0;
        check(example >= before && example <= before + 1 && example < data.examples);
        int64_t tokens = data.offset[i + 1] - data.offset[i];
        check(tokens >= 1 && tokens <= data.longest);
        check(want.max_length == 0 || tokens <= want.max_length);
        for (int64_t t = data.offset[i]; t < data.offset[i + 1]; t++)
            check(data.ids[t] >= 0 && data.ids[t] < VOCABULARY);
    }
    check((data.types != NULL) == want.paired);
    check(ft_dataset_example(&data, data.sequences - 1) == data.examples - 1);
    ft_dataset_free(&data);
    return 0;
}

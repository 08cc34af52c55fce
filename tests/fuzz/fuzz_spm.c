// Any bytes as a SentencePiece model, as DeBERTa's and XLM-R's classes read it by both sets of rules: opened or refused
// with a message; what opens must encode within its own vocabulary. An odd last byte puts special tokens in front, or
// hardly any input would open.
#include "engine/text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KINDS = 2 };
static const char *const FILES[KINDS] = {"spm.model", "sentencepiece.bpe.model"};
static char directories[KINDS][40], paths[KINDS][80];
static void remove_scratch(void) {
    for (int i = 0; i < KINDS; i++) {
        unlink(paths[i]);
        rmdir(directories[i]);
    }
}

static void start(void) {
    for (int i = 0; i < KINDS; i++) {
        snprintf(directories[i], sizeof directories[i], "/dev/shm/ft-fuzz-spm-XXXXXX");
        if (mkdtemp(directories[i]) == NULL) abort();
        snprintf(paths[i], sizeof paths[i], "%s/%s", directories[i], FILES[i]);
    }
    atexit(remove_scratch);
}

static void try_rules(int kind, ft_tokenizer_rules rules, const char *text, size_t length) {
    ft_tokenizer *t;
    if (ft_tokenizer_open_rules(directories[kind], rules, &t) != FT_OK) {
        if (t != NULL || ft_error_message()[0] == '\0') abort();
        return;
    }
    ft_token_ids ids = {0}, cut = {0};
    if (ft_tokenizer_encode(t, text, length, 0, &ids) != FT_OK) abort();
    for (size_t i = 0; i < ids.count; i++)
        if (ft_tokenizer_token(t, ids.ids[i]) == NULL) abort();
    if (ft_tokenizer_encode(t, text, length, 9, &cut) != FT_OK || cut.count > 9) abort();
    if (memcmp(ids.ids, cut.ids, (cut.count - 1) * sizeof *ids.ids) != 0) abort();
    free(ids.ids);
    free(cut.ids);
    ft_tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char special[] =
        "\x0A\x09\x0A\x05[PAD]\x18\x03\x0A\x09\x0A\x05[CLS]\x18\x03\x0A\x09\x0A\x05[SEP]\x18\x03"
        "\x0A\x09\x0A\x05[UNK]\x18\x02\x0A\x0A\x0A\x03\xE2\x96\x81\x15\x00\x00\x80\xBF";
    if (paths[0][0] == '\0') start();
    for (int kind = 0; kind < KINDS; kind++) {
        FILE *f = fopen(paths[kind], "wb");
        if (f == NULL) abort();
        if (size > 0 && data[size - 1] % 2 == 1) fwrite(special, 1, sizeof special - 1, f);
        fwrite(data, 1, size, f);
        fclose(f);
        for (int rules = 0; rules < 2; rules++)
            try_rules(kind, (ft_tokenizer_rules)rules, (const char *)data, size);
    }
    return 0;
}

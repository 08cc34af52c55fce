// Any bytes as text, under seven tokenizers: four of WordPiece, two of them with added tokens that swallow white space
// and match normalised text, then byte-level BPE and two of Unigram. Ids must be in range, within the limit, the same
// when asked again, and a truncated call must give the start of the full one.
#include "engine/text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORD_PIECES = 4, KINDS = 7 };
static ft_tokenizer *tokenizers[KINDS];

static void write_file(const char *directory, const char *name, const char *text) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) abort();
    fwrite(text, 1, strlen(text), f);
    fclose(f);
}

#define FRAME ",\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",0],\"sep\":[\"</s>\",1]}}"
#define ADDED ",\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"lstrip\":true},{\"id\":1,\"content\":\"</s>\"}]"
#define UNIGRAM                                                                                                        \
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":2,\"vocab\":[[\"<s>\",0],[\"</"                                        \
    "s>\",0],[\"<unk>\",0],[\"\xE2\x96\x81\",-2],"                                                                     \
    "[\"\xE2\x96\x81\x61\",-1.5],[\"a\",-1],[\"b\",-3],[\"ab\",-4],[\"\xC3\xA9\",-2],[\"a\xE2\x96\x81\x62\",-2]]"      \
    "}" ADDED
static const char *const files[KINDS - WORD_PIECES] = {
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"<s>\":0,\"</"
    "s>\":1,\"<unk>\":2,\"a\":3,\"b\":4,\"ab\":5,"
    "\"\xC4\xA0\":6,\"\xC4\xA0\x61\":7,\"aa\":8,\"aaaa\":9,\"'\":10,\"s\":11,\"'s\":12},\"merges\":[\"a b\",\"\xC4\xA0 "
    "a\","
    "\"a a\",\"aa aa\",\"' s\"]},\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}" ADDED
        FRAME,
    "{" UNIGRAM
    ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"},{\"type\":\"NFKD\"},{\"type\":"
    "\"StripAccents\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" "
    "\"}]},\"pre_tokenizer\":{\"type\":"
    "\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"split\":false}" FRAME,
    "{" UNIGRAM
    ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s{2,}|[\\\\n\\\\r\\\\t]\"},\"content\":\" \"},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Punctuation\"},{\"type\":\"Metaspace\","
    "\"replacement\":"
    "\"\xE2\x96\x81\",\"prepend_scheme\":\"first\"}]}" FRAME,
};

static void open_all(void) {
    static const char vocabulary[] =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\nab\n##a\ne\n##e\n\xC3\xA9\n\xE4\xB8\xAD\n.\n\xE1\x84\x80\n"
        "##\xE1\x85\xA1\n##\xE3\x80\xAE\ni\n##\xCC\x87\n";
    static const char *const configs[WORD_PIECES] = {
        "{}",
        "{\"do_lower_case\":false,\"strip_accents\":true,\"tokenize_chinese_chars\":false}",
        "{\"strip_accents\":false,\"mask_token\":{\"content\":\"[MASK]\",\"lstrip\":true,\"rstrip\":true,"
        "\"normalized\":false},"
        "\"extra_special_tokens\":[{\"content\":\"zed\",\"single_word\":true,\"normalized\":true}]}",
        "{\"sep_token\":{\"content\":\"[SEP]\",\"normalized\":true,\"lstrip\":true},"
        "\"extra_special_tokens\":[{\"content\":\"\xC3\xA9\",\"rstrip\":true},{\"content\":\"  "
        "\",\"normalized\":false,\"lstrip\":true},"
        "{\"content\":\"y\",\"normalized\":false,\"rstrip\":true}]}",
    };
    char directory[] = "/dev/shm/ft-fuzz-text-XXXXXX", path[96];
    if (mkdtemp(directory) == NULL) abort();
    write_file(directory, "vocab.txt", vocabulary);
    for (int i = 0; i < WORD_PIECES; i++) {
        write_file(directory, "tokenizer_config.json", configs[i]);
        if (ft_tokenizer_open(directory, &tokenizers[i]) != FT_OK) abort();
    }
    snprintf(path, sizeof path, "%s/vocab.txt", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", directory);
    unlink(path);
    for (int i = WORD_PIECES; i < KINDS; i++) {
        write_file(directory, "tokenizer.json", files[i - WORD_PIECES]);
        if (ft_tokenizer_open(directory, &tokenizers[i]) != FT_OK) abort();
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    unlink(path);
    rmdir(directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (tokenizers[0] == NULL) open_all();
    if (size < 2) return 0;
    const ft_tokenizer *t = tokenizers[data[0] % KINDS];
    int limit = 2 + data[1] % 64;
    const char *text = (const char *)data + 2;
    ft_token_ids full = {0}, again = {0}, cut = {0};
    if (ft_tokenizer_encode(t, text, size - 2, 0, &full) != FT_OK) abort();
    if (ft_tokenizer_encode(t, text, size - 2, 0, &again) != FT_OK) abort();
    if (ft_tokenizer_encode(t, text, size - 2, limit, &cut) != FT_OK) abort();
    if (full.count != again.count || memcmp(full.ids, again.ids, full.count * sizeof *full.ids) != 0) abort();
    for (size_t i = 0; i < full.count; i++)
        if (ft_tokenizer_token(t, full.ids[i]) == NULL) abort();
    size_t expected = full.count < (size_t)limit ? full.count : (size_t)limit;
    if (cut.count != expected || memcmp(full.ids, cut.ids, (cut.count - 1) * sizeof *cut.ids) != 0) abort();
    if (cut.ids[cut.count - 1] != full.ids[full.count - 1]) abort();
    free(full.ids);
    free(again.ids);
    free(cut.ids);
    return 0;
}

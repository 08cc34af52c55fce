// tokenizer.h - text to token ids, identical to the reference (transformers' / tokenizers' BertTokenizer for
// WordPiece).
//
// One tokenizer is built from a model directory: vocab.txt, or tokenizer.json alone (what current transformers writes),
// with tokenizer_config.json for do_lower_case, strip_accents, tokenize_chinese_chars and special tokens.
// Immutable once opened; encode may be called from several threads.
#ifndef FT_TOKENIZER_H
#define FT_TOKENIZER_H

#include "kernels/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_tokenizer ft_tokenizer;

// FT_INVALID with the file (and line or key) for missing, malformed or unsupported files.
ft_status ft_tokenizer_open(const char *model_dir, ft_tokenizer **tokenizer);
void ft_tokenizer_close(ft_tokenizer *tokenizer); // NULL is fine

typedef struct ft_token_ids {
    int32_t *ids; // grown with realloc; free() it
    size_t count, capacity;
} ft_token_ids;

// Appends [CLS] text [SEP] to out->ids, truncated on the right so that at most max_length ids are appended
// (max_length <= 0: no truncation). `text` need not be valid UTF-8: each maximal ill-formed subsequence is U+FFFD.
ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, size_t length, int max_length,
                              ft_token_ids *out);

int ft_tokenizer_vocabulary(const ft_tokenizer *tokenizer);                // number of ids
const char *ft_tokenizer_token(const ft_tokenizer *tokenizer, int32_t id); // NULL out of range
int32_t ft_tokenizer_padding_id(const ft_tokenizer *tokenizer);
// model_max_length of tokenizer_config.json; 0 when absent or absurd (1e30).
int64_t ft_tokenizer_max_length(const ft_tokenizer *tokenizer);
// SHA-256 (hex) of everything that decides about ids: vocabulary, options, algorithm version. Part of the cache key.
const char *ft_tokenizer_digest(const ft_tokenizer *tokenizer);
// Files of the model directory that belong to the tokenizer and are to be copied beside a saved model; NULL-terminated.
const char *const *ft_tokenizer_files(const ft_tokenizer *tokenizer);

#endif

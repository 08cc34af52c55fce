// tokenizer.h - text to token ids, identical to the reference (the tokenizers library, or transformers' classes).
//
// One tokenizer is built from a model directory: tokenizer.json, or vocab.txt (WordPiece), vocab.json with merges.txt
// (byte-level BPE), spm.model or sentencepiece.bpe.model (Unigram); with tokenizer_config.json for options and special
// tokens. Which file decides about what: README.md. Immutable once opened; encode may be called from several threads.
#ifndef FT_TOKENIZER_H
#define FT_TOKENIZER_H

#include "base/status.h"
#include "engine/text/token_ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_tokenizer ft_tokenizer;

// Whose rules hold where transformers 5 does not do what the files of a RoBERTa, XLM-R or DeBERTa say (README.md).
typedef enum ft_tokenizer_rules {
    FT_RULES_FILES,        // the files', closest to how the models were trained
    FT_RULES_TRANSFORMERS, // those of the classes in transformers 5
} ft_tokenizer_rules;

// FT_INVALID with the file (and line or key) for missing, malformed or unsupported files.
ft_status ft_tokenizer_open(const char *model_dir, ft_tokenizer **tokenizer); // FT_RULES_FILES
ft_status ft_tokenizer_open_rules(const char *model_dir, ft_tokenizer_rules rules, ft_tokenizer **tokenizer);
// The same, and texts are lower-cased in front of all else, unless the files have them lower-cased.
ft_status ft_tokenizer_open_lower(const char *model_dir, ft_tokenizer_rules rules, bool lower_case, ft_tokenizer **tokenizer);
void ft_tokenizer_close(ft_tokenizer *tokenizer); // NULL is fine
bool ft_tokenizer_is_in(const char *model_dir);   // is there a vocabulary in any of these forms? Whether it is a good one, opening tells

// Appends [CLS] text [SEP] to out->ids, truncated on the right so that at most max_length ids are appended
// (max_length <= 0: no truncation). `text` need not be valid UTF-8: each maximal ill-formed subsequence is U+FFFD.
ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, size_t length, int max_length,
                              ft_token_ids *out);

// Which text of a pair is cut, always on the right. LONGEST_FIRST: ids go from the longer text until both fit (of two
// equally long ones the second keeps the odd id). The others fail, FT_INVALID, if the text they cut would be left
// empty.
typedef enum ft_truncation { FT_TRUNCATE_LONGEST_FIRST, FT_TRUNCATE_ONLY_FIRST, FT_TRUNCATE_ONLY_SECOND } ft_truncation;

// Appends a pair as the model was trained on them ([CLS] text [SEP] pair [SEP]), or one text if pair is NULL. types, if
// not NULL, gets the token type of every id. There is no mask: nothing is padded, so all that is appended is real.
ft_status ft_tokenizer_encode_pair(const ft_tokenizer *tokenizer, const char *text, size_t length, const char *pair,
                                   size_t pair_length, int max_length, ft_truncation truncation, ft_token_ids *out,
                                   ft_token_ids *types);

// The same without the special tokens around a text: for parts of one, and for chats, whose templates write theirs themselves.
ft_status ft_tokenizer_encode_bare(const ft_tokenizer *tokenizer, const char *text, size_t length, ft_token_ids *out);

// Appends the text of ids, as the tokenizers library decodes them: of byte-level BPE the bytes of tokens put together, a part that is not UTF-8 being
// U+FFFD; of BPE over characters (Llama 2, Gemma) their texts, U+2581 being a space, and bytes that stand in for a character, or U+FFFD each where they
// are none. *text ends with a NUL that does not count. skip_special: special tokens are nothing. FT_INVALID: an id of no token, or a
// tokenizer whose ids cannot be decoded (ft_tokenizer_decodes tells why).
typedef struct ft_decoded {
    char *text; // grown with realloc; free() it
    size_t length, capacity;
} ft_decoded;
ft_status ft_tokenizer_decode(const ft_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, ft_decoded *out);
// The same as bytes, before they are known to be UTF-8: for who writes them as they come.
ft_status ft_tokenizer_decode_bytes(const ft_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, ft_decoded *out);
ft_status ft_tokenizer_decodes(const ft_tokenizer *tokenizer); // FT_INVALID: it does not
// Are the bytes of several ids those of each, one behind the other? Else the first one's are others in front than anywhere else.
bool ft_tokenizer_decodes_apart(const ft_tokenizer *tokenizer);

// The token of a role ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"); -1: the files name none.
int32_t ft_tokenizer_role_id(const ft_tokenizer *tokenizer, const char *role);
// Does a special token stand behind every text ([SEP])?
bool ft_tokenizer_closes(const ft_tokenizer *tokenizer);
bool ft_tokenizer_is_special(const ft_tokenizer *tokenizer, int32_t id);
// Bytes of the longest special token that a text ends with; 0: with none.
size_t ft_tokenizer_special_end(const ft_tokenizer *tokenizer, const char *text, size_t length);

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

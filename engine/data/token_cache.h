// token_cache.h - tokenised texts on disk, found by content. One file a key, "<key>.tokens":
//
//   header | offsets int64 [sequences + 1] | where tokens are learned: first_read int64 [sequences + 1] | ids int32 [tokens] |
//   where tokens are learned: read_position int32 [reads], label int32 [reads] | where there are more sequences than examples: example of each,
//   int32 [sequences] | of pairs: token types uint8 [tokens] | SHA-256 of all bytes before (32 bytes)
//
// in the byte order of the machine, which the header tells. A large file is mapped and used where it lies, a small one is read. A file is believed only when its size, key, checksum and
// every number in it fit; so a reader may trust what comes out. Writers replace files whole: several may race, each of
// them writes the same content. Nothing is ever deleted here.
#ifndef FT_TOKEN_CACHE_H
#define FT_TOKEN_CACHE_H

#include "engine/data/dataset.h"

#include <stdio.h>

enum { FT_TOKEN_CACHE_VERSION = 5 };

// What a file has to hold to be of use.
typedef struct ft_token_cache_want {
    char key[65]; // hex: of the texts with their lengths, the tokenizer's digest, max_length and rule, the version
    int64_t examples;
    int32_t vocabulary; // ids lie below
    int max_length;     // <= 0: no truncation
    bool paired;        // there are token types
    bool windows;       // an example may have several sequences
    bool reads;         // of language: which tokens are learned is there too, and nothing of the two above
} ft_token_cache_want;

void ft_token_cache_want_of(const ft_table *table, const ft_tokenizer *tokenizer, int max_length, const ft_long_text *rule,
                            ft_token_cache_want *want);

// The same of language, whose texts become tokens by more than a tokenizer: digest [64] of all that decides.
void ft_token_cache_want_of_language(const ft_table *table, const char *digest, int32_t vocabulary, int max_length, const ft_long_text *rule,
                                     ft_token_cache_want *want);

// ids, offset, what is read and the counts of `dataset`, in place of what it had. size: of all of the stream, whose beginning it stands at. FT_INVALID
// with what is wrong: dataset is then as before.
ft_status ft_token_cache_read(FILE *stream, uint64_t size, const ft_token_cache_want *want, ft_dataset *dataset);
ft_status ft_token_cache_write(FILE *stream, const ft_token_cache_want *want, const ft_dataset *dataset);

// The same in a directory. A damaged file is a warning and *found = false; only FT_NO_MEMORY fails.
ft_status ft_token_cache_load(const char *directory, const ft_token_cache_want *want, ft_dataset *dataset, bool *found);
// Makes the directory. What goes wrong is a warning: the run does not need the cache.
void ft_token_cache_store(const char *directory, const ft_token_cache_want *want, const ft_dataset *dataset, bool *stored);

#endif

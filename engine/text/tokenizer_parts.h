// tokenizer_parts.h - the inside of a tokenizer, shared by the files that load it and the one that runs it.
#ifndef FT_TOKENIZER_PARTS_H
#define FT_TOKENIZER_PARTS_H

#include "engine/text/added_tokens.h"
#include "engine/text/normalize.h"
#include "engine/text/tokenizer.h"
#include "engine/text/trie.h"
#include "kernels/arena.h"

#include <jansson.h>

enum { FT_TEXT_MOST_IDS = 1 << 22 }; // no vocabulary is larger; keeps a wild id in a file from eating the memory

// The model's own pieces.
typedef struct ft_vocabulary {
    const char **token; // by id; "" where an id has no text (blank lines, holes)
    uint32_t *length;
    int32_t count, capacity; // ids 0 .. count-1
    int32_t size;            // distinct pieces: what the reference numbers new tokens from
    ft_trie words, pieces;   // pieces: behind the continuing prefix
} ft_vocabulary;

ft_status ft_vocabulary_read_lines(ft_vocabulary *vocabulary, ft_arena *arena, const char *path);
ft_status ft_vocabulary_read_json(ft_vocabulary *vocabulary, ft_arena *arena, const json_t *object, const char *path);
// Builds the tries; refuses duplicates. `where` is the file; lines: ids are its lines.
ft_status ft_vocabulary_finish(ft_vocabulary *vocabulary, const char *prefix, const char *where, bool lines);
// Gives an id (new or known) this text.
ft_status ft_vocabulary_set(ft_vocabulary *vocabulary, ft_arena *arena, int32_t id, const char *text, size_t length);
void ft_vocabulary_free(ft_vocabulary *vocabulary);

struct ft_tokenizer {
    ft_arena arena;
    ft_vocabulary vocabulary;
    ft_normalizer normalizer;
    const char *prefix; // of pieces inside a word
    int32_t unknown;
    int64_t longest_word; // in characters; beyond it a word is unknown
    ft_added_token *added;
    size_t added_count, added_capacity;
    ft_added_set raw, normalized;
    int32_t *before, *after; // special tokens around the text
    int before_count, after_count;
    int32_t padding;
    int64_t max_length;
    char digest[65];
    const char *files[6];
};

// The JSON files of a model directory; NULL where there is none (but for config). Paths are set in any case.
typedef struct ft_tokenizer_json {
    const char *vocabulary_path, *tokenizer_path, *config_path, *map_path, *added_path;
    json_t *tokenizer, *config, *map, *added; // config: empty where the file is missing
    bool has_config;
    bool as_is; // tokenizer.json decides about everything (else: BERT's class, rebuilt from tokenizer_config.json)
} ft_tokenizer_json;

ft_status ft_text_load_json(const char *path, json_t **root); // integers become reals: 1e30 is written as an integer
char *ft_text_where(ft_arena *arena, const char *path, const char *key); // "path: key"
// object[key]: a string that must be there.
ft_status ft_text_need_string(const json_t *object, const char *path, const char *key, const char **out);

// tokenizer_file.c: what tokenizer.json says. Model: vocabulary, prefix, limits; pipeline (as_is): normaliser and the
// rest.
ft_status ft_tokenizer_read_model(ft_tokenizer *tokenizer, const ft_tokenizer_json *json, const char **unknown);
ft_status ft_tokenizer_read_pipeline(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// special_tokens.c: named, added and extra tokens from all files, numbered as the reference does.
ft_status ft_tokenizer_read_tokens(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// The token of a role ("cls_token"), by tokenizer_config.json and special_tokens_map.json; the default is BERT's.
ft_status ft_tokenizer_role(const ft_tokenizer_json *json, ft_arena *arena, const char *role, const char **content);
// The id of a token, added ones first; -1 if there is none.
int32_t ft_tokenizer_find(const ft_tokenizer *tokenizer, const char *content);

#endif

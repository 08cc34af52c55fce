// tokenizer_parts.h - the inside of a tokenizer, shared by the files that load it and the one that runs it.
#ifndef FT_TOKENIZER_PARTS_H
#define FT_TOKENIZER_PARTS_H

#include "base/arena.h"
#include "engine/text/added_tokens.h"
#include "engine/text/byte_pairs.h"
#include "engine/text/content_map.h"
#include "engine/text/pipeline.h"
#include "engine/text/tokenizer.h"
#include "engine/text/trie.h"
#include "engine/text/unigram.h"

#include <jansson.h>

enum { FT_TEXT_MOST_IDS = 1 << 22 }; // no vocabulary is larger; keeps a wild id in a file from eating the memory

// ---- the model's own pieces ----------------------------------------------------------------------------------------
typedef struct ft_vocabulary {
    const char **token; // by id; "" where an id has no text (blank lines, holes)
    uint32_t *length;
    int32_t count, capacity; // ids 0 .. count-1
    int32_t size;            // distinct pieces: what the reference numbers new tokens from
    ft_trie words, pieces;   // words: all (while opening only, but for WordPiece); pieces: behind the continuing prefix
} ft_vocabulary;

ft_status ft_vocabulary_read_lines(ft_vocabulary *vocabulary, ft_arena *arena, const char *path);
// key: of the object, for messages ("model.vocab"; NULL: the file is the object).
ft_status ft_vocabulary_read_json(ft_vocabulary *vocabulary, ft_arena *arena, const json_t *object, const char *path,
                                  const char *key);
// Builds the tries; refuses duplicates. `where` is the file; lines: ids are its lines. prefix NULL: no pieces.
ft_status ft_vocabulary_finish(ft_vocabulary *vocabulary, const char *prefix, const char *where, bool lines);
// Gives an id (new or known) this text.
ft_status ft_vocabulary_set(ft_vocabulary *vocabulary, ft_arena *arena, int32_t id, const char *text, size_t length);
void ft_vocabulary_free(ft_vocabulary *vocabulary);

typedef enum ft_model_kind { FT_MODEL_WORD_PIECE, FT_MODEL_BYTE_PAIRS, FT_MODEL_UNIGRAM } ft_model_kind;

// ---- splitting into words ------------------------------------------------------------------------------------------
typedef enum ft_split_kind {
    FT_SPLIT_BERT,        // white space goes, punctuation characters are words
    FT_SPLIT_WHITE,       // white space goes
    FT_SPLIT_PUNCTUATION, // punctuation characters are pieces
    FT_SPLIT_LLAMA,       // Llama 3's pattern, or Qwen2's: pieces
    FT_SPLIT_TEXT,        // at every occurrence of a text
    FT_SPLIT_BYTE_LEVEL,  // GPT-2's pattern
    FT_SPLIT_METASPACE,   // a word begins with its space
} ft_split_kind;
typedef enum ft_prefix { FT_PREFIX_NEVER, FT_PREFIX_ALWAYS, FT_PREFIX_FIRST } ft_prefix;
// What becomes of the text that pieces are split at.
typedef enum ft_split_behavior { FT_SPLIT_REMOVED, FT_SPLIT_ISOLATED, FT_SPLIT_WITH_PREVIOUS, FT_SPLIT_WITH_NEXT } ft_split_behavior;
typedef struct ft_split {
    ft_split_kind kind;
    ft_prefix prefix; // BYTE_LEVEL, METASPACE: a space before a piece that begins without one
    bool divide;      // BYTE_LEVEL: by the pattern; METASPACE: at spaces; else the piece is one word
    int digits;       // LLAMA: the most of them in a word
    ft_split_behavior behavior; // TEXT
    const char *text;           // TEXT: not empty, in the tokenizer's arena
} ft_split;
enum { FT_MOST_SPLITS = 8 };

// ---- special tokens around the text --------------------------------------------------------------------------------
enum { FT_TEMPLATE_TEXT = -1, FT_TEMPLATE_PAIR = -2 };
typedef struct ft_template_item {
    int32_t id; // of a token, or FT_TEMPLATE_...
    int32_t type;
} ft_template_item;
typedef struct ft_template {
    ft_template_item *items;
    size_t count, specials; // specials: tokens among the items
} ft_template;
ft_status ft_template_add(ft_template *to, int32_t id, int32_t type);
// Two usual pairs of templates around one text or two: `first` text `last`, and then text `last` (BERT, of type 1) or
// `last` text `last` (RoBERTa, of type 0).
typedef enum ft_frame { FT_FRAME_BERT, FT_FRAME_ROBERTA } ft_frame;
ft_status ft_tokenizer_frame(ft_tokenizer *tokenizer, int32_t first, int32_t last, ft_frame frame);
ft_status ft_tokenizer_no_frame(ft_tokenizer *tokenizer); // no special tokens around the texts

enum { FT_ROLES = 7 }; // bos, eos, unk, sep, pad, cls, mask

// How ids become text (decode.c).
typedef struct ft_text_decoder {
    enum { FT_DECODE_BYTE_LEVEL, FT_DECODE_CHARACTERS } kind;
    // CHARACTERS: U+2581 is a space.
    bool first_bare;    // but not in the first token, where it is nothing (Metaspace)
    bool byte_fallback; // "<0x0A>" is a byte
    int64_t strip;      // so many spaces in front of all go
} ft_text_decoder;

struct ft_tokenizer {
    ft_arena arena;
    ft_vocabulary vocabulary;
    ft_model_kind kind;
    int32_t unknown; // -1: none (byte-level BPE)
    // WordPiece
    const char *prefix;   // of pieces inside a word
    int64_t longest_word; // in characters; beyond it a word is unknown
    // the others
    ft_byte_pairs byte_pairs;
    ft_unigram unigram;
    ft_pipeline normalizer;
    ft_split splits[FT_MOST_SPLITS];
    size_t split_count;
    bool stretches; // normaliser and splits may run on stretches of text that end before a space
    ft_added_token *added;
    size_t added_count, added_capacity;
    int32_t added_highest;    // the highest id among them
    ft_content_map added_map; // of their contents
    ft_added_set raw, normalized;
    ft_template single, pair;
    int32_t padding;
    int32_t role[FT_ROLES];     // id of bos, eos, unk, sep, pad, cls, mask; -1: the files name none
    const char *no_decoder;     // NULL: ids become text again; else what in the file stands against it
    ft_text_decoder decoder;
    int64_t max_length;
    char digest[65];
    const char *files[13];
};

// ---- opening -------------------------------------------------------------------------------------------------------
typedef enum ft_class_kind {
    FT_CLASS_FILE, // none: tokenizer.json decides about everything
    FT_CLASS_BERT,
    FT_CLASS_ROBERTA,
    FT_CLASS_XLM_ROBERTA,
    FT_CLASS_CAMEMBERT,
    FT_CLASS_ALBERT,
    FT_CLASS_MPNET,
    FT_CLASS_DEBERTA,
    FT_CLASS_DEBERTA_V2,
    FT_CLASS_QWEN2,
} ft_class_kind;
typedef struct ft_class {
    ft_class_kind kind;
    const char *name; // of the library's class, without "Fast"
    ft_model_kind model;
    const char *roles[FT_ROLES]; // defaults of bos, eos, unk, sep, pad, cls, mask
    bool mask_strips;            // as trained, the mask token swallows the space before it
} ft_class;

// The files of a model directory; NULL where there is none (but for config). Paths are set in any case.
typedef struct ft_tokenizer_json {
    const char *directory, *lines_path, *vocabulary_path, *merges_path, *pieces_path; // pieces_path: NULL where none is
    const char *tokenizer_path, *config_path, *map_path, *added_path;
    json_t *tokenizer, *config, *map, *added; // config: empty where the file is missing
    bool has_config, has_lines, has_vocabulary, has_merges;
    ft_tokenizer_rules rules;
    bool lower_case; // whatever the files say
    const ft_class *class;
    const struct ft_spm *spm; // NULL: not read, since another file decides
    bool as_is; // tokenizer.json decides about everything; else the class does, rebuilt from tokenizer_config.json
} ft_tokenizer_json;

ft_status ft_text_load_json(const char *path, json_t **root); // integers become reals: 1e30 is written as an integer
char *ft_text_where(ft_arena *arena, const char *path, const char *key); // "path: key"
// object[key]: a string that must be there.
ft_status ft_text_need_string(const json_t *object, const char *path, const char *key, const char **out);
const char *ft_text_type(const json_t *component); // its "type", or "null"
ft_status ft_text_unsupported(const char *where, const char *type, const char *supported);

// model_files.c: vocabulary and model, from whichever file has them.
ft_status ft_tokenizer_read_model(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// spm_file.c: a SentencePiece model.
typedef struct ft_spm_piece {
    const char *text; // in the arena
    uint32_t length;
    float score;
    int type; // FT_SPM_...
} ft_spm_piece;
enum { FT_SPM_NORMAL = 1, FT_SPM_UNKNOWN, FT_SPM_CONTROL, FT_SPM_USER_DEFINED, FT_SPM_UNUSED, FT_SPM_BYTE };
typedef struct ft_spm {
    ft_spm_piece *pieces; // free()
    size_t count, capacity;
    int32_t unknown;
    const char *charsmap; // in the arena
    size_t charsmap_length;
} ft_spm;
ft_status ft_spm_read(const char *path, ft_arena *arena, ft_spm *spm);

// pipeline_file.c: normaliser, pre-tokenizer and post-processor of tokenizer.json, run as it is.
ft_status ft_tokenizer_read_pipeline(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// decode.c: can ids become text again?
ft_status ft_tokenizer_read_decoder(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// class_rules.c: the same as a class of the library builds them.
ft_status ft_tokenizer_choose_class(ft_tokenizer_json *json, ft_arena *arena);
ft_status ft_tokenizer_build_class(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// The classes' pipelines need the map of a tokenizer.json's Precompiled normaliser; `map` stays empty without one.
ft_status ft_tokenizer_file_charsmap(const ft_tokenizer_json *json, ft_arena *arena, ft_charsmap *map);
ft_status ft_pipeline_add(ft_pipeline *pipeline, ft_arena *arena, const ft_rewrite *rewrite, const char *where);
ft_status ft_tokenizer_add_split(ft_tokenizer *tokenizer, ft_split split, const char *where);

// special_tokens.c: named, added and extra tokens from all files, numbered as the reference does.
ft_status ft_tokenizer_read_tokens(ft_tokenizer *tokenizer, const ft_tokenizer_json *json);
// The token of a role ("cls_token"), by tokenizer_config.json and special_tokens_map.json, else the class's.
ft_status ft_tokenizer_role(const ft_tokenizer_json *json, ft_arena *arena, const char *role, const char **content);
// The id of a token, added ones first; -1 if there is none. vocabulary: of the model's own pieces.
int32_t ft_tokenizer_find(const ft_tokenizer *tokenizer, const char *content);
int32_t ft_tokenizer_find_piece(const ft_tokenizer *tokenizer, const char *content);

// pieces.c: text without added tokens, normalised, to ids.
typedef struct ft_encoder {
    const ft_tokenizer *t;
    ft_token_ids *out;
    size_t limit; // out->count at which the rest of the text no longer matters
    ft_pipeline_scratch text;
    ft_text_buffer prefixed;
    ft_unigram_scratch unigram;
    struct ft_form_spans *spans; // NULL: nobody asks where tokens stand
} ft_encoder;
// first: the piece begins where the text does.
ft_status ft_encode_piece(ft_encoder *encoder, const char *text, size_t length, bool first);

// Where the tokens stand in the normalised text, for offsets.c. A word is a stretch of `origin`, whose first byte is byte origin_at of that
// text (-1: a space that was put in front of it).
typedef struct ft_form_spans {
    const char *origin;
    int64_t origin_at;
    ft_token_ids begin, end; // of every token that was appended
    ft_token_ids ends;       // of the word at hand
} ft_form_spans;

// encode.c, for long_text.c. The ids of one text, at least `most` of them if there are as many.
ft_status ft_encode_text(const ft_tokenizer *tokenizer, const char *text, size_t length, size_t most, ft_token_ids *out);
// Ids of the text, or of both, that max_length leaves beside the special tokens (<= 0: SIZE_MAX).
ft_status ft_encode_room(const ft_tokenizer *tokenizer, bool paired, int max_length, size_t *room);
// How many ids of each text of a pair stay, in place of how many there are.
ft_status ft_encode_share(size_t lengths[2], size_t room, ft_truncation how);

// digest.c
void ft_tokenizer_make_digest(ft_tokenizer *tokenizer);

#endif

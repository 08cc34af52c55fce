// model_files.c - the model of a tokenizer: pieces, merges and scores, from whichever file has them.
#include "base/files.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"
#include "engine/text/unicode/text_classes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_text_load_json(const char *path, json_t **root) {
    FT_TRY(ft_json_load(path, root));
    if (json_is_object(*root)) return FT_OK;
    json_decref(*root);
    *root = NULL;
    return ft_fail(FT_INVALID, path, "must hold a JSON object");
}

const char *ft_text_type(const json_t *component) {
    const char *type = json_string_value(json_object_get(component, "type"));
    return type != NULL ? type : json_is_object(component) ? "without a type" : "null";
}

ft_status ft_text_unsupported(const char *where, const char *type, const char *supported) {
    (void)ft_fail(FT_INVALID, where, "%s is not supported; supported: %s", type, supported);
    return FT_INVALID;
}

static ft_status no_unknown(const char *path, const char *unknown) {
    return ft_fail(FT_INVALID, path, "the vocabulary has no \"%s\" (unk_token)", unknown);
}

// ---- WordPiece -----------------------------------------------------------------------------------------------------
static ft_status read_word_pieces(ft_tokenizer *t, const ft_tokenizer_json *json, const json_t *model,
                                  const char *where) {
    const char *prefix, *unknown, *path = json->tokenizer_path;
    FT_TRY(ft_text_need_string(model, where, "unk_token", &unknown));
    FT_TRY(ft_text_need_string(model, where, "continuing_subword_prefix", &prefix));
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    double number = json_number_value(most);
    if (!json_is_number(most) || !(number >= 0 && number <= 9e15 && number == floor(number)))
        return ft_fail(FT_INVALID, where, "\"max_input_chars_per_word\" must be a whole number");
    FT_TRY(ft_vocabulary_read_json(&t->vocabulary, &t->arena, json_object_get(model, "vocab"), path, "model.vocab"));
    if (json->as_is) { // BERT's class takes the vocabulary alone
        t->prefix = ft_arena_strdup(&t->arena, prefix);
        if (t->prefix == NULL) return FT_NO_MEMORY;
        t->longest_word = (int64_t)number;
    }
    FT_TRY(ft_vocabulary_finish(&t->vocabulary, t->prefix, path, false));
    if (!json->as_is) return FT_OK;
    t->unknown = ft_tokenizer_find_piece(t, unknown);
    return t->unknown >= 0 ? FT_OK : no_unknown(path, unknown);
}

// ---- BPE ------------------------------------------------------------------------------------------------
typedef struct merge_list {
    ft_merge *items;
    size_t count, capacity;
    char *joined; // scratch for the token that two become
    size_t joined_capacity;
} merge_list;

// Both sides and what they become must be tokens.
static ft_status add_merge(const ft_tokenizer *t, merge_list *list, const char *where, const char *first,
                           size_t first_length, const char *second, size_t second_length) {
    const ft_trie *words = &t->vocabulary.words;
    size_t length = first_length + second_length;
    if (length > list->joined_capacity) {
        char *joined = ft_realloc(list->joined, 2 * length, 1, "merges");
        if (joined == NULL) return FT_NO_MEMORY;
        list->joined = joined, list->joined_capacity = 2 * length;
    }
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 1024;
        ft_merge *items = ft_realloc(list->items, capacity, sizeof *items, "merges");
        if (items == NULL) return FT_NO_MEMORY;
        list->items = items, list->capacity = capacity;
    }
    if (length > 0) {
        memcpy(list->joined, first, first_length);
        memcpy(list->joined + first_length, second, second_length);
    }
    ft_merge merge = {ft_trie_find(words, first, first_length), ft_trie_find(words, second, second_length),
                      ft_trie_find(words, list->joined, length)};
    const char *missing = merge.first < 0 ? first : merge.second < 0 ? second : list->joined;
    size_t missing_length = merge.first < 0 ? first_length : merge.second < 0 ? second_length : length;
    if (merge.first < 0 || merge.second < 0 || merge.result < 0)
        return ft_fail(FT_INVALID, where, "merge %zu needs \"%.*s\", which the vocabulary does not have", list->count,
                       missing_length < 100 ? (int)missing_length : 100, missing);
    list->items[list->count++] = merge;
    return FT_OK;
}

// Lines of two tokens with a space between; a first line may say "#version: ...".
static ft_status merges_of_lines(const ft_tokenizer *t, const char *path, const char *data, size_t length,
                                 merge_list *list) {
    char where[4200];
    size_t line = 1;
    for (size_t at = 0; at < length; line++) {
        const char *start = data + at, *end = memchr(start, '\n', length - at);
        size_t n = end != NULL ? (size_t)(end - start) : length - at;
        at += n + 1;
        if (n > 0 && start[n - 1] == '\r') n--;
        if (n >= 8 && memcmp(start, "#version", 8) == 0) continue;
        const char *space = n > 0 ? memchr(start, ' ', n) : NULL;
        bool last = at >= length;
        if (n == 0 && last) break;
        snprintf(where, sizeof where, "%s:%zu", path, line);
        size_t first = space != NULL ? (size_t)(space - start) : 0, second = space != NULL ? n - first - 1 : 0;
        if (first == 0 || second == 0 || memchr(space + 1, ' ', second) != NULL)
            return ft_fail(FT_INVALID, where, "a merge must be two tokens with one space between");
        FT_TRY(add_merge(t, list, where, start, first, space + 1, second));
    }
    return FT_OK;
}

static ft_status merges_of_file(const ft_tokenizer *t, const char *path, merge_list *list) {
    char *data;
    size_t length;
    FT_TRY(ft_read_file(path, (size_t)256 << 20, &data, &length));
    ft_status status = merges_of_lines(t, path, data, length, list);
    free(data);
    return status;
}

// "a b" (files until 2024) or ["a", "b"].
static ft_status merges_of_json(const ft_tokenizer *t, const json_t *merges, const char *where, merge_list *list) {
    if (!json_is_array(merges)) return ft_fail(FT_INVALID, where, "\"merges\" must be a list");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i), *first = json_array_get(merge, 0),
                     *second = json_array_get(merge, 1);
        if (json_is_string(merge)) {
            const char *text = json_string_value(merge), *space = strchr(text, ' ');
            if (space == NULL || strchr(space + 1, ' ') != NULL)
                return ft_fail(FT_INVALID, where, "merge %zu must be two tokens with one space between", i);
            FT_TRY(add_merge(t, list, where, text, (size_t)(space - text), space + 1, strlen(space + 1)));
        } else if (json_array_size(merge) == 2 && json_is_string(first) && json_is_string(second)) {
            FT_TRY(add_merge(t, list, where, json_string_value(first), json_string_length(first),
                             json_string_value(second), json_string_length(second)));
        } else
            return ft_fail(FT_INVALID, where, "merge %zu must be two tokens", i);
    }
    return FT_OK;
}

static ft_status build_pairs(ft_tokenizer *t, const merge_list *list) {
    return ft_byte_pairs_build(&t->byte_pairs, t->vocabulary.token, t->vocabulary.length, t->vocabulary.count,
                               list->items, list->count);
}

// Whether words reach the model as bytes (ByteLevel) or as the characters that they are.
static bool reads_bytes(const json_t *splitter) {
    if (strcmp(ft_text_type(splitter), "ByteLevel") == 0) return true;
    const json_t *list = json_object_get(splitter, "pretokenizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(ft_text_type(json_array_get(list, i)), "ByteLevel") == 0) return true;
    return false;
}

static ft_status read_byte_pairs(ft_tokenizer *t, const ft_tokenizer_json *json, const json_t *model,
                                 const char *where) {
    const char *path = json->tokenizer_path, *unknown = NULL, *text;
    FT_TRY(ft_vocabulary_read_json(&t->vocabulary, &t->arena, json_object_get(model, "vocab"), path, "model.vocab"));
    FT_TRY(ft_vocabulary_finish(&t->vocabulary, NULL, path, false));
    t->unknown = t->byte_pairs.unknown = -1;
    if (json->as_is) { // the classes take vocabulary and merges alone
        const json_t *dropout = json_object_get(model, "dropout");
        if (dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
            return ft_fail(FT_INVALID, where, "\"dropout\" is not supported; supported: null");
        t->byte_pairs.characters = !reads_bytes(json_object_get(json->tokenizer, "pre_tokenizer"));
        FT_TRY(ft_json_bool(model, where, "byte_fallback", false, &t->byte_pairs.byte_fallback));
        if (t->byte_pairs.byte_fallback && !t->byte_pairs.characters)
            return ft_fail(FT_INVALID, where, "\"byte_fallback\" true with a ByteLevel pre_tokenizer is not supported; supported: one of the two");
        static const char *const AFFIXES[] = {"continuing_subword_prefix", "end_of_word_suffix"};
        for (int i = 0; i < 2; i++) {
            FT_TRY(ft_json_string(model, where, AFFIXES[i], "", &text));
            if (text[0] != '\0')
                return ft_fail(FT_INVALID, where, "\"%s\" \"%s\" is not supported; supported: none", AFFIXES[i], text);
        }
        FT_TRY(ft_json_bool(model, where, "fuse_unk", false, &t->byte_pairs.fuse_unknown));
        FT_TRY(ft_json_bool(model, where, "ignore_merges", false, &t->byte_pairs.ignore_merges));
        FT_TRY(ft_json_string(model, where, "unk_token", NULL, &unknown));
        if (unknown != NULL) t->unknown = t->byte_pairs.unknown = ft_tokenizer_find_piece(t, unknown);
        if (unknown != NULL && t->unknown < 0) return no_unknown(path, unknown);
    }
    merge_list list = {0};
    ft_status status = merges_of_json(t, json_object_get(model, "merges"), where, &list);
    if (status == FT_OK) status = build_pairs(t, &list);
    free(list.items);
    free(list.joined);
    return status;
}

static ft_status read_pair_files(ft_tokenizer *t, const ft_tokenizer_json *json) {
    json_t *vocabulary;
    if (!json->has_merges)
        return ft_fail(FT_INVALID, json->directory, "vocab.json is there, but the merges.txt that goes with it is not");
    FT_TRY(ft_text_load_json(json->vocabulary_path, &vocabulary));
    ft_status status = ft_vocabulary_read_json(&t->vocabulary, &t->arena, vocabulary, json->vocabulary_path, NULL);
    json_decref(vocabulary);
    FT_TRY(status);
    FT_TRY(ft_vocabulary_finish(&t->vocabulary, NULL, json->vocabulary_path, false));
    t->unknown = t->byte_pairs.unknown = -1;
    merge_list list = {0};
    status = merges_of_file(t, json->merges_path, &list);
    if (status == FT_OK) status = build_pairs(t, &list);
    free(list.items);
    free(list.joined);
    return status;
}

// ---- Unigram -------------------------------------------------------------------------------------------------------
static ft_status build_unigram(ft_tokenizer *t, double *scores, int32_t unknown) {
    ft_vocabulary *v = &t->vocabulary;
    v->size = v->count;
    t->unknown = unknown;
    if (unknown >= v->count) {
        free(scores);
        return ft_fail(FT_INVALID, NULL, "piece %d stands for what is unknown, and there are %d pieces", unknown, v->count);
    }
    return ft_unigram_build(&t->unigram, v->token, v->length, scores, v->count, unknown);
}

static ft_status read_scored(ft_tokenizer *t, const json_t *list, const char *where, double *scores) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *piece = json_array_get(item, 0),
                     *score = json_array_get(item, 1);
        if (json_array_size(item) != 2 || !json_is_string(piece) || !json_is_number(score))
            return ft_fail(FT_INVALID, where, "piece %zu must be a text and a score", i);
        scores[i] = json_number_value(score);
        FT_TRY(ft_vocabulary_set(&t->vocabulary, &t->arena, (int32_t)i, json_string_value(piece),
                                 json_string_length(piece)));
    }
    return FT_OK;
}

// Which piece DeBERTa's class takes for what is unknown: the first of score 0 that reads like its unk_token.
static ft_status class_unknown(const ft_tokenizer *t, const ft_tokenizer_json *json, ft_arena *arena,
                               const double *scores, int64_t *unknown) {
    const ft_vocabulary *v = &t->vocabulary;
    const char *content;
    FT_TRY(ft_tokenizer_role(json, arena, "unk_token", &content));
    for (int32_t id = 0; content != NULL && id < v->count; id++)
        if (scores[id] == 0 && strcmp(v->token[id], content) == 0) return *unknown = id, FT_OK;
    return *unknown < v->count ? FT_OK : no_unknown(json->tokenizer_path, content != NULL ? content : "");
}

static ft_status read_unigram(ft_tokenizer *t, const ft_tokenizer_json *json, const json_t *model, const char *where) {
    const json_t *list = json_object_get(model, "vocab");
    size_t count = json_array_size(list);
    int64_t unknown;
    bool fallback;
    if (count == 0 || count > FT_TEXT_MOST_IDS)
        return ft_fail(FT_INVALID, where, "\"vocab\" must be a list of 1 to %d pieces", FT_TEXT_MOST_IDS);
    FT_TRY(ft_json_int(model, where, "unk_id", -1, 0, (int64_t)count - 1, &unknown));
    if (json->as_is) {
        FT_TRY(ft_json_bool(model, where, "byte_fallback", false, &fallback));
        if (fallback) return ft_fail(FT_INVALID, where, "\"byte_fallback\" true is not supported; supported: false");
        if (unknown < 0) return ft_fail(FT_INVALID, where, "\"unk_id\" is missing");
    } else if (json->class->kind == FT_CLASS_XLM_ROBERTA) {
        if (count < 4) return ft_fail(FT_INVALID, where, "\"vocab\" needs <s>, <pad>, </s> and <unk> in front");
        unknown = 3; // whatever the file says
    } else if (json->class->kind == FT_CLASS_ALBERT)
        unknown = 1;
    else if (json->class->kind == FT_CLASS_CAMEMBERT)
        unknown = 0; // unless there is one of this name
    else
        FT_TRY(ft_json_int(json->config, json->config_path, "unk_id", 1, 0, (int64_t)count - 1, &unknown));
    double *scores = ft_calloc(count, sizeof *scores, "scores");
    if (scores == NULL) return FT_NO_MEMORY;
    ft_status status = read_scored(t, list, where, scores);
    if (status == FT_OK && !json->as_is && (json->class->kind == FT_CLASS_DEBERTA_V2 || json->class->kind == FT_CLASS_CAMEMBERT))
        status = class_unknown(t, json, &t->arena, scores, &unknown);
    if (status != FT_OK) {
        free(scores);
        return status;
    }
    return build_unigram(t, scores, (int32_t)unknown);
}

// XLM-R and CamemBERT have their own tokens in front of what the model has behind its first ones, and a mask token behind all.
typedef struct front_tokens {
    int count, left_out; // of the model's pieces
    const char *token[5]; // the name of a role, or a piece by itself
    double score[5];
} front_tokens;

static const front_tokens *front_of(const ft_class *class) {
    static const front_tokens xlm_roberta = {4, 3, {"bos_token", "pad_token", "eos_token", "unk_token"}, {0}},
                              camembert = {5, 1, {"<s>NOTUSED", "pad_token", "</s>NOTUSED", "unk_token", "<unk>NOTUSED"}, {0, 0, 0, 0, -100}};
    return class->kind == FT_CLASS_XLM_ROBERTA ? &xlm_roberta : class->kind == FT_CLASS_CAMEMBERT ? &camembert : NULL;
}

// A piece that ends with a comma behind a digit: ALBERT's converter makes it so dear that digits and comma stay apart.
static bool is_number_with_comma(const ft_spm_piece *p) {
    if (p->length < 2 || p->text[p->length - 1] != ',') return false;
    size_t last = p->length - 2; // the character in front of it
    while (last > 0 && ((unsigned char)p->text[last] & 0xC0) == 0x80) last--;
    const unsigned char *at = (const unsigned char *)p->text + last;
    return ft_char_pattern(ft_utf8_next(&at)) == FT_PATTERN_NUMBER;
}

static ft_status set_spm_pieces(ft_tokenizer *t, const ft_tokenizer_json *json, const ft_spm *spm, double *scores) {
    const front_tokens *front = front_of(json->class);
    const bool apart = json->class->kind == FT_CLASS_ALBERT && json->rules == FT_RULES_FILES;
    int32_t next = 0;
    for (int i = 0; front != NULL && i < front->count; i++) {
        const char *content = front->token[i];
        if (content[0] != '<') FT_TRY(ft_tokenizer_role(json, &t->arena, front->token[i], &content));
        if (content == NULL) return ft_fail(FT_INVALID, json->config_path, "%s must not be null", front->token[i]);
        scores[next] = front->score[i];
        FT_TRY(ft_vocabulary_set(&t->vocabulary, &t->arena, next++, content, strlen(content)));
    }
    for (size_t i = front != NULL ? (size_t)front->left_out : 0; i < spm->count; i++) {
        scores[next] = (double)spm->pieces[i].score - (apart && is_number_with_comma(&spm->pieces[i]) ? 100 : 0);
        FT_TRY(ft_vocabulary_set(&t->vocabulary, &t->arena, next++, spm->pieces[i].text, spm->pieces[i].length));
    }
    if (front == NULL) return FT_OK;
    const char *mask;
    FT_TRY(ft_tokenizer_role(json, &t->arena, "mask_token", &mask));
    if (mask == NULL) return ft_fail(FT_INVALID, json->config_path, "mask_token must not be null");
    return ft_vocabulary_set(&t->vocabulary, &t->arena, next, mask, strlen(mask));
}

static ft_status read_spm(ft_tokenizer *t, const ft_tokenizer_json *json, const ft_spm *spm) {
    const bool shifted = front_of(json->class) != NULL;
    if (shifted && spm->count < 4) return ft_fail(FT_INVALID, json->pieces_path, "%zu pieces are too few", spm->count);
    double *scores = ft_calloc(spm->count + 6, sizeof *scores, "scores");
    if (scores == NULL) return FT_NO_MEMORY;
    ft_status status = set_spm_pieces(t, json, spm, scores);
    int64_t unknown = shifted ? 3 : spm->unknown;
    if (json->class->kind == FT_CLASS_ALBERT && json->rules == FT_RULES_TRANSFORMERS) unknown = 1; // whatever the file says
    if (status == FT_OK && json->class->kind == FT_CLASS_DEBERTA_V2 && json->rules == FT_RULES_TRANSFORMERS)
        status = class_unknown(t, json, &t->arena, scores, &unknown);
    if (status != FT_OK) {
        free(scores);
        return status;
    }
    return build_unigram(t, scores, (int32_t)unknown);
}

// ---- whichever file has it -----------------------------------------------------------------------------------------
static ft_status read_file_model(ft_tokenizer *t, const ft_tokenizer_json *json) {
    const json_t *model = json_object_get(json->tokenizer, "model");
    const char *where = ft_text_where(&t->arena, json->tokenizer_path, "model"), *type;
    if (where == NULL) return FT_NO_MEMORY;
    if (!json_is_object(model)) return ft_fail(FT_INVALID, where, "missing, or not an object");
    FT_TRY(ft_json_string(model, where, "type", NULL, &type));
    if (type == NULL) // files of 2019 and 2020 name no type
        type = json_is_array(json_object_get(model, "vocab")) ? "Unigram"
               : json_object_get(model, "merges") != NULL     ? "BPE"
                                                              : "WordPiece";
    static const char *const NAMES[] = {"WordPiece", "BPE", "Unigram"};
    int kind = 0;
    while (kind < 3 && strcmp(type, NAMES[kind]) != 0)
        kind++;
    if (kind == 3) return ft_text_unsupported(where, type, "WordPiece, BPE, Unigram");
    if (!json->as_is && kind != (int)json->class->model)
        return ft_fail(FT_INVALID, where, "%s is not what %s has, which is %s", type, json->class->name,
                       NAMES[json->class->model]);
    t->kind = (ft_model_kind)kind;
    if (t->kind == FT_MODEL_WORD_PIECE) return read_word_pieces(t, json, model, where);
    if (t->kind == FT_MODEL_BYTE_PAIRS) return read_byte_pairs(t, json, model, where);
    return read_unigram(t, json, model, where);
}

static ft_status missing(const ft_tokenizer_json *json, const char *files) {
    (void)ft_fail(FT_INVALID, json->directory, "no %s and no tokenizer.json in this directory", files);
    ft_hint("%s has its vocabulary there; is tokenizer_class (or model_type in config.json) right?", json->class->name);
    return FT_INVALID;
}

ft_status ft_tokenizer_read_model(ft_tokenizer *t, const ft_tokenizer_json *json) {
    t->prefix = "##", t->longest_word = 100, t->unknown = -1;
    if (json->tokenizer != NULL) return read_file_model(t, json);
    t->kind = json->class->model;
    switch (t->kind) {
    case FT_MODEL_WORD_PIECE:
        if (!json->has_lines) return missing(json, "vocab.txt");
        FT_TRY(ft_vocabulary_read_lines(&t->vocabulary, &t->arena, json->lines_path));
        return ft_vocabulary_finish(&t->vocabulary, t->prefix, json->lines_path, true);
    case FT_MODEL_BYTE_PAIRS: return json->has_vocabulary ? read_pair_files(t, json) : missing(json, "vocab.json");
    default: return json->spm != NULL ? read_spm(t, json, json->spm) : missing(json, "SentencePiece model");
    }
}

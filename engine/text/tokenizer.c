// tokenizer.c - opening a model directory's tokenizer, and running it.
#include "engine/text/tokenizer_parts.h"

#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/io/sha256.h"
#include "engine/text/unicode.h"
#include "engine/text/utf8.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- opening -------------------------------------------------------------------------------------------------------
static const char *const FILE_NAMES[] = {"vocab.txt", "tokenizer.json", "tokenizer_config.json",
                                         "special_tokens_map.json", "added_tokens.json"};
enum { FILE_COUNT = sizeof FILE_NAMES / sizeof FILE_NAMES[0] };

static ft_status load_files(ft_tokenizer *t, const char *directory, ft_tokenizer_json *json) {
    const char **paths[FILE_COUNT] = {&json->vocabulary_path, &json->tokenizer_path, &json->config_path,
                                      &json->map_path, &json->added_path};
    json_t **roots[FILE_COUNT] = {NULL, &json->tokenizer, &json->config, &json->map, &json->added};
    int found = 0;
    bool vocabulary = false;
    for (int i = 0; i < FILE_COUNT; i++) {
        *paths[i] = ft_path_join(&t->arena, directory, FILE_NAMES[i]);
        if (*paths[i] == NULL) return FT_NO_MEMORY;
        if (!ft_path_exists(*paths[i])) continue;
        t->files[found++] = FILE_NAMES[i];
        vocabulary = vocabulary || i < 2;
    }
    if (!vocabulary) {
        (void)ft_fail(FT_INVALID, directory, "no vocab.txt and no tokenizer.json in this directory");
        ft_hint("a model directory holds one of them beside config.json");
        return FT_INVALID;
    }
    for (int i = 1; i < FILE_COUNT; i++)
        if (ft_path_exists(*paths[i])) FT_TRY(ft_text_load_json(*paths[i], roots[i]));
    json->has_config = json->config != NULL;
    if (!json->has_config) json->config = json_object(); // so that every key has its default
    return json->config != NULL ? FT_OK : ft_fail_memory(64, "a tokenizer's configuration");
}

// Whose rules hold: those of BERT's class, which takes from tokenizer.json the vocabulary alone, or the file's own.
static ft_status choose_rules(ft_tokenizer_json *json) {
    static const char *const BERT[] = {"BertTokenizer",           "BertTokenizerFast", "DistilBertTokenizer",
                                       "DistilBertTokenizerFast", "ElectraTokenizer",  "ElectraTokenizerFast"};
    const char *name;
    json->as_is = !json->has_config && json->tokenizer != NULL;
    FT_TRY(ft_json_string(json->config, json->config_path, "tokenizer_class", NULL, &name));
    if (name == NULL) return FT_OK;
    for (size_t i = 0; i < sizeof BERT / sizeof BERT[0]; i++)
        if (strcmp(name, BERT[i]) == 0) return FT_OK;
    json->as_is = strcmp(name, "PreTrainedTokenizerFast") == 0 || strcmp(name, "TokenizersBackend") == 0;
    if (json->as_is && json->tokenizer != NULL) return FT_OK;
    if (json->as_is)
        return ft_fail(FT_INVALID, json->config_path, "tokenizer_class %s needs tokenizer.json beside it", name);
    return ft_fail(
        FT_INVALID, json->config_path,
        "tokenizer_class %s is not supported; supported: BertTokenizer, DistilBertTokenizer, ElectraTokenizer, "
        "PreTrainedTokenizerFast, TokenizersBackend",
        name);
}

// Settings of tokenizer_config.json that would change ids in ways this tokenizer does not know.
static ft_status refuse_settings(const ft_tokenizer_json *json) {
    const char *side;
    bool split;
    FT_TRY(ft_json_string(json->config, json->config_path, "truncation_side", "right", &side));
    FT_TRY(ft_json_bool(json->config, json->config_path, "split_special_tokens", false, &split));
    if (strcmp(side, "right") != 0)
        return ft_fail(FT_INVALID, json->config_path, "truncation_side \"%s\" is not supported; supported: \"right\"",
                       side);
    if (split)
        return ft_fail(FT_INVALID, json->config_path, "split_special_tokens true is not supported; supported: false");
    return FT_OK;
}

static ft_status need_role(const ft_tokenizer *t, ft_tokenizer_json *json, ft_arena *arena, const char *role,
                           bool vocabulary, int32_t *id) {
    const char *content, *source = json->tokenizer != NULL ? json->tokenizer_path : json->vocabulary_path;
    FT_TRY(ft_tokenizer_role(json, arena, role, &content));
    if (content == NULL) return ft_fail(FT_INVALID, json->config_path, "%s must not be null", role);
    // The reference would number a missing one on from the end, where the model has no embedding.
    *id = ft_trie_find(&t->vocabulary.words, content, strlen(content));
    if (*id < 0 && !vocabulary) *id = ft_tokenizer_find(t, content);
    if (*id >= 0) return FT_OK;
    (void)ft_fail(FT_INVALID, source, "the vocabulary has no \"%s\" (%s)", content, role);
    ft_hint("%s is the token for this role unless tokenizer_config.json names another by \"%s\"", content, role);
    return FT_INVALID;
}

static ft_status read_bert(ft_tokenizer *t, ft_tokenizer_json *json) {
    bool lower, strip, cjk;
    FT_TRY(ft_json_bool(json->config, json->config_path, "do_lower_case", true, &lower));
    FT_TRY(ft_json_bool(json->config, json->config_path, "strip_accents", lower, &strip));
    FT_TRY(ft_json_bool(json->config, json->config_path, "tokenize_chinese_chars", true, &cjk));
    t->normalizer = ft_normalizer_make(true, cjk, strip, lower);
    t->before = ft_calloc(1, sizeof *t->before, "special tokens");
    t->after = ft_calloc(1, sizeof *t->after, "special tokens");
    if (t->before == NULL || t->after == NULL) return FT_NO_MEMORY;
    FT_TRY(need_role(t, json, &t->arena, "unk_token", true, &t->unknown));
    FT_TRY(need_role(t, json, &t->arena, "cls_token", true, &t->before[0]));
    FT_TRY(need_role(t, json, &t->arena, "sep_token", true, &t->after[0]));
    t->before_count = t->after_count = 1;
    return FT_OK;
}

static ft_status build_sets(ft_tokenizer *t) {
    ft_trie_key *raw = ft_calloc(t->added_count + 1, 2 * sizeof *raw, "added tokens");
    if (raw == NULL) return FT_NO_MEMORY;
    ft_trie_key *normalized = raw + t->added_count + 1;
    ft_status status = FT_OK;
    for (size_t i = 0; i < t->added_count; i++) {
        const ft_added_token *token = &t->added[i];
        raw[i] = (ft_trie_key){token->content, token->length, token->normalized ? -1 : 0};
        normalized[i].value = -1;
        if (!token->normalized) continue;
        ft_text_buffer form = {0};
        status = ft_normalize(&t->normalizer, token->content, token->length, &form);
        if (status == FT_OK && form.count == 0)
            status = ft_fail(FT_INVALID, NULL, "added token \"%s\" is empty once normalised: it would match everywhere",
                             token->content);
        const char *text = status == FT_OK ? ft_arena_strndup(&t->arena, form.data, form.count) : NULL;
        if (status == FT_OK && text == NULL) status = FT_NO_MEMORY;
        if (status == FT_OK) normalized[i] = (ft_trie_key){text, form.count, 0};
        ft_text_release(&form);
        if (status != FT_OK) goto done;
    }
    FT_TRY_GOTO(ft_added_set_build(t->added, raw, t->added_count, &t->raw), done);
    FT_TRY_GOTO(ft_added_set_build(t->added, normalized, t->added_count, &t->normalized), done);
done:
    free(raw);
    return status;
}

// What is hashed is a listing of everything below, each item with its length, so that no two tokenizers share one.
static void hash_item(ft_sha256_state *hash, const void *data, size_t length) {
    uint64_t size = length;
    ft_sha256_add(hash, &size, sizeof size);
    ft_sha256_add(hash, data, length);
}

static void make_digest(ft_tokenizer *t) {
    static const char VERSION[] = "ftengine WordPiece 1, tables of tokenizers 0.23.3";
    unsigned char bytes[32];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    int64_t numbers[] = {t->normalizer.clean,
                         t->normalizer.space_cjk,
                         t->normalizer.strip_accents,
                         t->normalizer.lower_case,
                         t->unknown,
                         t->longest_word,
                         t->padding,
                         t->vocabulary.count};
    hash_item(&hash, VERSION, sizeof VERSION);
    hash_item(&hash, numbers, sizeof numbers);
    hash_item(&hash, t->prefix, strlen(t->prefix));
    hash_item(&hash, t->before, (size_t)t->before_count * sizeof *t->before);
    hash_item(&hash, t->after, (size_t)t->after_count * sizeof *t->after);
    for (int32_t id = 0; id < t->vocabulary.count; id++)
        hash_item(&hash, t->vocabulary.token[id], t->vocabulary.length[id]);
    for (size_t i = 0; i < t->added_count; i++) {
        const ft_added_token *a = &t->added[i];
        int64_t flags[] = {a->id, a->single_word, a->lstrip, a->rstrip, a->normalized, a->special};
        hash_item(&hash, a->content, a->length);
        hash_item(&hash, flags, sizeof flags);
    }
    ft_sha256_end(&hash, bytes);
    ft_sha256_hex(bytes, t->digest);
}

static ft_status open_all(ft_tokenizer *t, const char *directory, ft_tokenizer_json *json) {
    const char *unknown = NULL, *padding;
    FT_TRY(load_files(t, directory, json));
    FT_TRY(choose_rules(json));
    FT_TRY(refuse_settings(json));
    t->prefix = "##", t->longest_word = 100;
    bool lines = json->tokenizer == NULL;
    if (lines)
        FT_TRY(ft_vocabulary_read_lines(&t->vocabulary, &t->arena, json->vocabulary_path));
    else
        FT_TRY(ft_tokenizer_read_model(t, json, &unknown));
    FT_TRY(
        ft_vocabulary_finish(&t->vocabulary, t->prefix, lines ? json->vocabulary_path : json->tokenizer_path, lines));
    if (!json->as_is) FT_TRY(read_bert(t, json));
    FT_TRY(ft_tokenizer_read_tokens(t, json));
    if (json->as_is) {
        FT_TRY(ft_tokenizer_read_pipeline(t, json));
        t->unknown = ft_trie_find(&t->vocabulary.words, unknown, strlen(unknown));
        if (t->unknown < 0)
            return ft_fail(FT_INVALID, json->tokenizer_path, "the vocabulary has no \"%s\" (unk_token)", unknown);
    }
    FT_TRY(ft_tokenizer_role(json, &t->arena, "pad_token", &padding));
    if (padding == NULL)
        padding = json_string_value(json_object_get(json_object_get(json->tokenizer, "padding"), "pad_token"));
    t->padding = ft_tokenizer_find(t, padding != NULL ? padding : "[PAD]");
    if (t->padding < 0) t->padding = 0; // a tokenizer without padding: packed batches have none either
    double longest = 0;
    FT_TRY(ft_json_number(json->config, json->config_path, "model_max_length", 0, &longest));
    t->max_length = longest >= 1 && longest <= 1e9 ? (int64_t)longest : 0;
    FT_TRY(build_sets(t));
    make_digest(t);
    return FT_OK;
}

ft_status ft_tokenizer_open(const char *model_dir, ft_tokenizer **tokenizer) {
    ft_tokenizer_json json = {0};
    *tokenizer = NULL;
    ft_tokenizer *t = ft_calloc(1, sizeof *t, "a tokenizer");
    if (t == NULL) return FT_NO_MEMORY;
    ft_status status = open_all(t, model_dir, &json);
    json_decref(json.tokenizer);
    json_decref(json.config);
    json_decref(json.map);
    json_decref(json.added);
    if (status != FT_OK) {
        ft_error_where_default("%s", model_dir);
        ft_tokenizer_close(t);
        return status;
    }
    *tokenizer = t;
    return FT_OK;
}

void ft_tokenizer_close(ft_tokenizer *t) {
    if (t == NULL) return;
    ft_vocabulary_free(&t->vocabulary);
    ft_added_set_free(&t->raw);
    ft_added_set_free(&t->normalized);
    free(t->added);
    free(t->before);
    free(t->after);
    ft_arena_free(&t->arena);
    free(t);
}

int ft_tokenizer_vocabulary(const ft_tokenizer *t) { return t->vocabulary.count; }
const char *ft_tokenizer_token(const ft_tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocabulary.count ? t->vocabulary.token[id] : NULL;
}
int32_t ft_tokenizer_padding_id(const ft_tokenizer *t) { return t->padding; }
int64_t ft_tokenizer_max_length(const ft_tokenizer *t) { return t->max_length; }
const char *ft_tokenizer_digest(const ft_tokenizer *t) { return t->digest; }
const char *const *ft_tokenizer_files(const ft_tokenizer *t) { return t->files; }

// open.c - opening a model directory's tokenizer.
#include "engine/text/tokenizer_parts.h"

#include "base/files.h"
#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>

// ---- files ---------------------------------------------------------------------------------------------------------
static const char *const PIECES[] = {"spm.model", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model"};
static const char *const FILE_NAMES[] = {"vocab.txt",  "tokenizer.json",          "tokenizer_config.json", "vocab.json",
                                         "merges.txt", "special_tokens_map.json", "added_tokens.json"};
static const char CHAT[] = "chat_template.jinja";
enum { FILE_COUNT = sizeof FILE_NAMES / sizeof FILE_NAMES[0], PIECES_COUNT = sizeof PIECES / sizeof PIECES[0] };

static ft_status load_files(ft_tokenizer *t, const char *directory, ft_tokenizer_json *json) {
    const char **paths[FILE_COUNT] = {&json->lines_path,      &json->tokenizer_path, &json->config_path,
                                      &json->vocabulary_path, &json->merges_path,    &json->map_path,
                                      &json->added_path};
    json_t **roots[FILE_COUNT] = {NULL, &json->tokenizer, &json->config, NULL, NULL, &json->map, &json->added};
    bool *flags[FILE_COUNT] = {&json->has_lines, NULL, &json->has_config, &json->has_vocabulary, &json->has_merges};
    int found = 0;
    bool there[FILE_COUNT];
    json->directory = directory;
    for (int i = 0; i < FILE_COUNT; i++) {
        *paths[i] = ft_path_join(&t->arena, directory, FILE_NAMES[i]);
        if (*paths[i] == NULL) return FT_NO_MEMORY;
        there[i] = ft_path_exists(*paths[i]);
        if (there[i]) t->files[found++] = FILE_NAMES[i];
        if (flags[i] != NULL) *flags[i] = there[i];
    }
    for (int i = 0; i < PIECES_COUNT; i++) {
        const char *path = ft_path_join(&t->arena, directory, PIECES[i]);
        if (path == NULL) return FT_NO_MEMORY;
        if (!ft_path_exists(path)) continue;
        t->files[found++] = PIECES[i];
        if (json->pieces_path == NULL) json->pieces_path = path;
    }
    const char *chat = ft_path_join(&t->arena, directory, CHAT); // goes with a model; engine/chat reads it
    if (chat == NULL) return FT_NO_MEMORY;
    if (ft_path_exists(chat)) t->files[found++] = CHAT;
    if (!there[0] && !there[1] && !there[3] && json->pieces_path == NULL) {
        (void)ft_fail(FT_INVALID, directory,
                      "no vocab.txt and no tokenizer.json in this directory, nor vocab.json or a SentencePiece model");
        ft_hint("a model directory holds one of them beside config.json");
        return FT_INVALID;
    }
    for (int i = 0; i < FILE_COUNT; i++)
        if (there[i] && roots[i] != NULL) FT_TRY(ft_text_load_json(*paths[i], roots[i]));
    if (!json->has_config) json->config = json_object(); // so that every key has its default
    return json->config != NULL ? FT_OK : ft_fail_memory(64, "a tokenizer's configuration");
}

bool ft_tokenizer_is_in(const char *model_dir) {
    static const char *const vocabularies[] = {"vocab.txt", "tokenizer.json", "vocab.json"};
    ft_arena arena = {0};
    bool found = false;
    for (size_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0] + PIECES_COUNT && !found; i++) {
        const size_t own = sizeof vocabularies / sizeof vocabularies[0];
        const char *path = ft_path_join(&arena, model_dir, i < own ? vocabularies[i] : PIECES[i - own]);
        found = path != NULL && ft_path_exists(path);
    }
    ft_arena_free(&arena);
    return found;
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
        ft_pipeline_scratch scratch = {0};
        const char *form = "", *text = NULL;
        size_t count = 0;
        bool kept;
        status = ft_pipeline_run(&t->normalizer, token->content, token->length, &scratch, &form, &count, &kept);
        if (status == FT_OK && count == 0)
            status = ft_fail(FT_INVALID, NULL, "added token \"%s\" is empty once normalised: it would match everywhere",
                             token->content);
        if (status == FT_OK && (text = ft_arena_strndup(&t->arena, form, count)) == NULL) status = FT_NO_MEMORY;
        if (status == FT_OK) normalized[i] = (ft_trie_key){text, count, 0};
        ft_text_release(&scratch.buffers[0]);
        ft_text_release(&scratch.buffers[1]);
        if (status != FT_OK) goto done;
    }
    FT_TRY_GOTO(ft_added_set_build(t->added, raw, t->added_count, &t->raw), done);
    FT_TRY_GOTO(ft_added_set_build(t->added, normalized, t->added_count, &t->normalized), done);
done:
    free(raw);
    return status;
}

// Whether text may be cut before any space and the parts treated alone: BERT's normaliser keeps a space where it is,
// and what follows the first step are words.
static bool allows_stretches(const ft_tokenizer *t) {
    const ft_pipeline *p = &t->normalizer;
    bool plain = p->count == 0 || (p->count == 1 && p->rewrites[0].kind == FT_REWRITE_BERT);
    return plain && t->kind == FT_MODEL_WORD_PIECE &&
           (t->splits[0].kind == FT_SPLIT_BERT || t->splits[0].kind == FT_SPLIT_WHITE);
}

static ft_status read_padding(ft_tokenizer *t, const ft_tokenizer_json *json) {
    const char *padding;
    FT_TRY(ft_tokenizer_role(json, &t->arena, "pad_token", &padding));
    if (padding == NULL)
        padding = json_string_value(json_object_get(json_object_get(json->tokenizer, "padding"), "pad_token"));
    t->padding = ft_tokenizer_find(t, padding != NULL ? padding : "[PAD]");
    if (t->padding < 0 && padding == NULL) t->padding = ft_tokenizer_find(t, "<pad>");
    if (t->padding < 0) t->padding = 0; // a tokenizer without padding: packed batches have none either
    return FT_OK;
}

// One step more, in front.
static ft_status lower_case(ft_tokenizer *t, const char *directory) {
    ft_pipeline *p = &t->normalizer;
    for (size_t i = 0; i < p->count; i++)
        if (p->rewrites[i].kind == FT_REWRITE_LOWER || (p->rewrites[i].kind == FT_REWRITE_BERT && p->rewrites[i].bert.lower_case)) return FT_OK;
    const ft_rewrite lower = {.kind = FT_REWRITE_LOWER};
    FT_TRY(ft_pipeline_add(p, &t->arena, &lower, directory));
    memmove(p->rewrites + 1, p->rewrites, (p->count - 1) * sizeof *p->rewrites);
    p->rewrites[0] = lower;
    return FT_OK;
}

static ft_status open_all(ft_tokenizer *t, const char *directory, ft_tokenizer_json *json, ft_spm *spm) {
    FT_TRY(load_files(t, directory, json));
    FT_TRY(ft_tokenizer_choose_class(json, &t->arena));
    FT_TRY(refuse_settings(json));
    if (json->tokenizer == NULL && json->class->model == FT_MODEL_UNIGRAM && json->pieces_path != NULL) {
        FT_TRY(ft_spm_read(json->pieces_path, &t->arena, spm));
        json->spm = spm;
    }
    FT_TRY(ft_tokenizer_read_model(t, json));
    // A class frames texts with its vocabulary's own tokens, a file with any.
    if (!json->as_is) FT_TRY(ft_tokenizer_build_class(t, json));
    FT_TRY(ft_tokenizer_read_tokens(t, json));
    if (json->as_is) FT_TRY(ft_tokenizer_read_pipeline(t, json));
    if (json->lower_case) FT_TRY(lower_case(t, directory));
    FT_TRY(ft_tokenizer_read_decoder(t, json));
    FT_TRY(read_padding(t, json));
    double longest = 0;
    FT_TRY(ft_json_number(json->config, json->config_path, "model_max_length", 0, &longest));
    t->max_length = longest >= 1 && longest <= 1e9 ? (int64_t)longest : 0;
    t->stretches = allows_stretches(t);
    FT_TRY(build_sets(t));
    ft_tokenizer_make_digest(t);
    if (t->kind != FT_MODEL_WORD_PIECE) ft_trie_free(&t->vocabulary.words); // it served to find tokens by name
    return FT_OK;
}

ft_status ft_tokenizer_open_lower(const char *model_dir, ft_tokenizer_rules rules, bool lower_case, ft_tokenizer **tokenizer) {
    ft_tokenizer_json json = {.rules = rules, .lower_case = lower_case};
    ft_spm spm = {0};
    *tokenizer = NULL;
    ft_tokenizer *t = ft_calloc(1, sizeof *t, "a tokenizer");
    if (t == NULL) return FT_NO_MEMORY;
    ft_status status = open_all(t, model_dir, &json, &spm);
    json_decref(json.tokenizer);
    json_decref(json.config);
    json_decref(json.map);
    json_decref(json.added);
    free(spm.pieces);
    if (status != FT_OK) {
        ft_error_where_default("%s", model_dir);
        ft_tokenizer_close(t);
        return status;
    }
    *tokenizer = t;
    return FT_OK;
}

ft_status ft_tokenizer_open_rules(const char *model_dir, ft_tokenizer_rules rules, ft_tokenizer **tokenizer) {
    return ft_tokenizer_open_lower(model_dir, rules, false, tokenizer);
}

ft_status ft_tokenizer_open(const char *model_dir, ft_tokenizer **tokenizer) {
    return ft_tokenizer_open_rules(model_dir, FT_RULES_FILES, tokenizer);
}

void ft_tokenizer_close(ft_tokenizer *t) {
    if (t == NULL) return;
    ft_vocabulary_free(&t->vocabulary);
    ft_byte_pairs_free(&t->byte_pairs);
    ft_unigram_free(&t->unigram);
    ft_added_set_free(&t->raw);
    ft_added_set_free(&t->normalized);
    free(t->added);
    ft_content_map_free(&t->added_map);
    free(t->single.items);
    free(t->pair.items);
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

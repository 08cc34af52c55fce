// class_rules.c - the pipelines that the library's classes build themselves, and which class a directory belongs to.
#include "base/files.h"
#include "base/json/json.h"
#include "engine/text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

#define BERT_ROLES                                                                                                     \
    { NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" }
#define DEBERTA_ROLES                                                                                                  \
    { "[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" }
#define ROBERTA_ROLES                                                                                                  \
    { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" }
#define ALBERT_ROLES                                                                                                   \
    { "[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]" }
#define QWEN2_ROLES                                                                                                    \
    { NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>", NULL, NULL }
#define MPNET_ROLES                                                                                                    \
    { "<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>" }
static const ft_class CLASSES[] = {
    {FT_CLASS_BERT, "BertTokenizer", FT_MODEL_WORD_PIECE, BERT_ROLES, false},
    {FT_CLASS_BERT, "DistilBertTokenizer", FT_MODEL_WORD_PIECE, BERT_ROLES, false},
    {FT_CLASS_BERT, "ElectraTokenizer", FT_MODEL_WORD_PIECE, BERT_ROLES, false},
    {FT_CLASS_ROBERTA, "RobertaTokenizer", FT_MODEL_BYTE_PAIRS, ROBERTA_ROLES, true},
    {FT_CLASS_XLM_ROBERTA, "XLMRobertaTokenizer", FT_MODEL_UNIGRAM, ROBERTA_ROLES, true},
    {FT_CLASS_CAMEMBERT, "CamembertTokenizer", FT_MODEL_UNIGRAM, ROBERTA_ROLES, true},
    {FT_CLASS_ALBERT, "AlbertTokenizer", FT_MODEL_UNIGRAM, ALBERT_ROLES, true},
    {FT_CLASS_MPNET, "MPNetTokenizer", FT_MODEL_WORD_PIECE, MPNET_ROLES, true},
    {FT_CLASS_DEBERTA, "DebertaTokenizer", FT_MODEL_BYTE_PAIRS, DEBERTA_ROLES, true},
    {FT_CLASS_DEBERTA_V2, "DebertaV2Tokenizer", FT_MODEL_UNIGRAM, DEBERTA_ROLES, false},
    {FT_CLASS_QWEN2, "Qwen2Tokenizer", FT_MODEL_BYTE_PAIRS, QWEN2_ROLES, false},
    {FT_CLASS_FILE, "LlamaTokenizer", FT_MODEL_BYTE_PAIRS, {0}, false},
    {FT_CLASS_FILE, "GemmaTokenizer", FT_MODEL_BYTE_PAIRS, {0}, false},
    {FT_CLASS_FILE, "PreTrainedTokenizer", FT_MODEL_WORD_PIECE, {0}, false}, // "PreTrainedTokenizerFast"
    {FT_CLASS_FILE, "TokenizersBackend", FT_MODEL_WORD_PIECE, {0}, false},
};
enum { CLASS_COUNT = sizeof CLASSES / sizeof CLASSES[0] };

// What config.json says the model is, for directories whose tokenizer_config.json names no class.
static const struct {
    const char *type, *name;
} MODELS[] = {
    {"bert", "BertTokenizer"},           {"distilbert", "DistilBertTokenizer"},  {"electra", "ElectraTokenizer"},
    {"roberta", "RobertaTokenizer"},     {"xlm-roberta", "XLMRobertaTokenizer"}, {"deberta", "DebertaTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"}, {"modernbert", "TokenizersBackend"}, {"ernie", "BertTokenizer"},
    {"camembert", "CamembertTokenizer"}, {"data2vec-text", "RobertaTokenizer"}, {"albert", "AlbertTokenizer"},
    {"mpnet", "MPNetTokenizer"},
    {"xlm-roberta-xl", "XLMRobertaTokenizer"}, {"eurobert", "TokenizersBackend"},
    {"nomic_bert", "BertTokenizer"}, {"gte", "XLMRobertaTokenizer"},
    {"qwen2", "Qwen2Tokenizer"}, {"qwen3", "Qwen2Tokenizer"}, {"llama", "TokenizersBackend"}};

static const ft_class *find_class(const char *name) {
    for (int i = 0; i < CLASS_COUNT; i++) {
        size_t length = strlen(CLASSES[i].name);
        bool same = strncmp(name, CLASSES[i].name, length) == 0;
        if (same && (name[length] == '\0' || strcmp(name + length, "Fast") == 0)) return &CLASSES[i];
    }
    return NULL;
}

static ft_status class_of_model(const ft_tokenizer_json *json, ft_arena *arena, const char **name) {
    const char *path = ft_path_join(arena, json->directory, "config.json"), *type;
    json_t *config;
    if (path == NULL) return FT_NO_MEMORY;
    *name = NULL;
    if (!ft_path_exists(path)) return FT_OK;
    FT_TRY(ft_text_load_json(path, &config));
    ft_status status = ft_json_string(config, path, "model_type", NULL, &type);
    for (size_t i = 0; status == FT_OK && type != NULL && i < sizeof MODELS / sizeof MODELS[0]; i++)
        if (strcmp(MODELS[i].type, type) == 0) *name = MODELS[i].name;
    json_decref(config);
    return status;
}

// The class by the files that are there.
static const char *class_of_files(const ft_tokenizer_json *json) {
    if (json->has_lines || json->tokenizer != NULL) return "BertTokenizer";
    if (json->has_vocabulary) return "RobertaTokenizer";
    return strstr(json->pieces_path, "spm.model") != NULL ? "DebertaV2Tokenizer" : "XLMRobertaTokenizer";
}

// A tokenizer.json whose model is not BERT's says by itself that BERT's class is not meant.
static bool is_word_piece(const json_t *file) {
    const json_t *model = json_object_get(file, "model"), *type = json_object_get(model, "type");
    if (json_is_string(type)) return strcmp(json_string_value(type), "WordPiece") == 0;
    return !json_is_array(json_object_get(model, "vocab")) && json_object_get(model, "merges") == NULL;
}

static ft_status refuse_class(const ft_tokenizer_json *json, const char *name) {
    char list[400] = "";
    for (size_t i = 0, at = 0; i < CLASS_COUNT && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", strcmp(CLASSES[i].name, "PreTrainedTokenizer") == 0 ? "PreTrainedTokenizerFast" : CLASSES[i].name);
    return ft_fail(FT_INVALID, json->config_path, "tokenizer_class %s is not supported; supported: %s", name, list);
}

ft_status ft_tokenizer_choose_class(ft_tokenizer_json *json, ft_arena *arena) {
    const char *name, *guess = NULL;
    bool file = json->tokenizer != NULL;
    FT_TRY(ft_json_string(json->config, json->config_path, "tokenizer_class", NULL, &name));
    if (name == NULL) FT_TRY(class_of_model(json, arena, &guess));
    if (name == NULL && guess == NULL) guess = class_of_files(json);
    json->class = find_class(name != NULL ? name : guess);
    if (json->class == NULL) return refuse_class(json, name);
    if (json->class->kind == FT_CLASS_FILE) {
        if (!file)
            return ft_fail(FT_INVALID, json->config_path, "tokenizer_class %s needs tokenizer.json beside it", json->class->name);
        json->as_is = true;
    } else if (json->class->model == FT_MODEL_WORD_PIECE)
        // With a configuration, BERT's class decides; a lone tokenizer.json is the only one that says anything.
        json->as_is = file && (!json->has_config || (name == NULL && !is_word_piece(json->tokenizer)));
    else
        json->as_is = file && json->rules == FT_RULES_FILES;
    return FT_OK;
}

// ---- pipelines -----------------------------------------------------------------------------------------------------
static ft_status need_role(const ft_tokenizer *t, const ft_tokenizer_json *json, ft_arena *arena, const char *role,
                           int32_t *id) {
    const char *content, *source = json->tokenizer != NULL          ? json->tokenizer_path
                                   : t->kind == FT_MODEL_WORD_PIECE ? json->lines_path
                                   : t->kind == FT_MODEL_BYTE_PAIRS ? json->vocabulary_path
                                                                    : json->pieces_path;
    FT_TRY(ft_tokenizer_role(json, arena, role, &content));
    if (content == NULL) return ft_fail(FT_INVALID, json->config_path, "%s must not be null", role);
    // The reference would number a missing one on from the end, where the model has no embedding.
    *id = ft_tokenizer_find_piece(t, content);
    if (*id >= 0) return FT_OK;
    (void)ft_fail(FT_INVALID, source, "the vocabulary has no \"%s\" (%s)", content, role);
    ft_hint("%s is the token for this role unless tokenizer_config.json names another by \"%s\"", content, role);
    return FT_INVALID;
}

static ft_status make_frames(ft_tokenizer *t, const ft_tokenizer_json *json, const char *first, const char *last,
                             ft_frame frame) {
    int32_t cls, sep;
    FT_TRY(need_role(t, json, &t->arena, first, &cls));
    FT_TRY(need_role(t, json, &t->arena, last, &sep));
    return ft_tokenizer_frame(t, cls, sep, frame);
}

static ft_status rewrite(ft_tokenizer *t, ft_rewrite r) { return ft_pipeline_add(&t->normalizer, &t->arena, &r, NULL); }

static ft_status build_bert(ft_tokenizer *t, const ft_tokenizer_json *json) {
    bool lower, strip, cjk;
    FT_TRY(ft_json_bool(json->config, json->config_path, "do_lower_case", true, &lower));
    FT_TRY(ft_json_bool(json->config, json->config_path, "strip_accents", lower, &strip));
    FT_TRY(ft_json_bool(json->config, json->config_path, "tokenize_chinese_chars", true, &cjk));
    FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_BERT, .bert = ft_normalizer_make(true, cjk, strip, lower)}));
    FT_TRY(ft_tokenizer_add_split(t, (ft_split){.kind = FT_SPLIT_BERT}, NULL));
    FT_TRY(need_role(t, json, &t->arena, "unk_token", &t->unknown));
    return make_frames(t, json, "cls_token", "sep_token", json->class->kind == FT_CLASS_MPNET ? FT_FRAME_ROBERTA : FT_FRAME_BERT);
}

static ft_status build_byte_pairs(ft_tokenizer *t, const ft_tokenizer_json *json) {
    bool prefix, deberta = json->class->kind == FT_CLASS_DEBERTA, trained = json->rules == FT_RULES_FILES;
    FT_TRY(ft_json_bool(json->config, json->config_path, "add_prefix_space", false, &prefix));
    ft_split split = {.kind = FT_SPLIT_BYTE_LEVEL, .prefix = prefix ? FT_PREFIX_ALWAYS : FT_PREFIX_NEVER, .divide = true};
    FT_TRY(ft_tokenizer_add_split(t, split, NULL));
    // DeBERTa was trained on pairs as BERT has them; transformers 5 frames them as RoBERTa's.
    if (deberta && trained) return make_frames(t, json, "cls_token", "sep_token", FT_FRAME_BERT);
    return make_frames(t, json, "cls_token", "sep_token", FT_FRAME_ROBERTA);
}

// Qwen2's and Qwen3's, of vocab.json and merges.txt: nothing stands around a text.
static ft_status build_qwen2(ft_tokenizer *t, const ft_tokenizer_json *json) {
    bool prefix;
    FT_TRY(ft_json_bool(json->config, json->config_path, "add_prefix_space", false, &prefix));
    FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_FORM, .form = FT_NFC}));
    FT_TRY(ft_tokenizer_add_split(t, (ft_split){.kind = FT_SPLIT_LLAMA, .digits = 1}, NULL));
    FT_TRY(ft_tokenizer_add_split(t, (ft_split){.kind = FT_SPLIT_BYTE_LEVEL, .prefix = prefix ? FT_PREFIX_ALWAYS : FT_PREFIX_NEVER}, NULL));
    return ft_tokenizer_no_frame(t);
}

static ft_status class_charsmap(ft_tokenizer *t, const ft_tokenizer_json *json, ft_charsmap *map) {
    if (json->spm == NULL) return ft_tokenizer_file_charsmap(json, &t->arena, map);
    return ft_charsmap_open(&t->arena, json->spm->charsmap, json->spm->charsmap_length, json->pieces_path, map);
}

// The model's character map, and words that begin with their space.
static ft_status mapped_words(ft_tokenizer *t, const ft_tokenizer_json *json) {
    ft_rewrite map = {.kind = FT_REWRITE_CHARSMAP};
    bool prefix;
    FT_TRY(ft_json_bool(json->config, json->config_path, "add_prefix_space", true, &prefix));
    FT_TRY(class_charsmap(t, json, &map.charsmap));
    if (map.charsmap.size > 0) FT_TRY(rewrite(t, map));
    FT_TRY(ft_tokenizer_add_split(t, (ft_split){.kind = FT_SPLIT_WHITE}, NULL));
    ft_split split = {.kind = FT_SPLIT_METASPACE, .prefix = prefix ? FT_PREFIX_ALWAYS : FT_PREFIX_NEVER, .divide = true};
    return ft_tokenizer_add_split(t, split, NULL);
}

static ft_status build_xlm_roberta(ft_tokenizer *t, const ft_tokenizer_json *json) {
    FT_TRY(mapped_words(t, json));
    return make_frames(t, json, "bos_token", "eos_token", FT_FRAME_ROBERTA);
}

static ft_status build_albert(ft_tokenizer *t, const ft_tokenizer_json *json) {
    static const char *const QUOTES[] = {"``", "''"};
    bool lower, accents;
    FT_TRY(ft_json_bool(json->config, json->config_path, "do_lower_case", true, &lower));
    FT_TRY(ft_json_bool(json->config, json->config_path, "keep_accents", false, &accents));
    for (int i = 0; i < 2; i++)
        FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_REPLACE, .pattern = FT_REPLACE_TEXT, .from = QUOTES[i], .from_length = 2, .to = "\"", .to_length = 1}));
    if (!accents) {
        FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_FORM, .form = FT_NFKD}));
        FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_STRIP_ACCENTS}));
    }
    if (lower) FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_LOWER}));
    FT_TRY(mapped_words(t, json));
    return make_frames(t, json, "cls_token", "sep_token", FT_FRAME_BERT);
}

static ft_status build_deberta_v2(ft_tokenizer *t, const ft_tokenizer_json *json) {
    bool lower, punctuation, prefix;
    FT_TRY(ft_json_bool(json->config, json->config_path, "do_lower_case", false, &lower));
    FT_TRY(ft_json_bool(json->config, json->config_path, "split_by_punct", false, &punctuation));
    FT_TRY(ft_json_bool(json->config, json->config_path, "add_prefix_space", true, &prefix));
    ft_split split = {.kind = FT_SPLIT_METASPACE, .prefix = prefix ? FT_PREFIX_ALWAYS : FT_PREFIX_NEVER, .divide = true};
    if (lower) FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_LOWER}));
    ft_rewrite blanks = {.kind = FT_REWRITE_REPLACE, .from = "", .to = " ", .to_length = 1};
    if (json->rules == FT_RULES_FILES) {
        ft_rewrite map = {.kind = FT_REWRITE_CHARSMAP};
        FT_TRY(class_charsmap(t, json, &map.charsmap));
        FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_STRIP, .left = true, .right = true}));
        if (map.charsmap.size > 0) FT_TRY(rewrite(t, map));
        blanks.pattern = FT_REPLACE_SPACES;
        FT_TRY(rewrite(t, blanks));
    } else { // transformers 5 leaves the map out
        blanks.pattern = FT_REPLACE_BLANKS;
        FT_TRY(rewrite(t, blanks));
        FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_FORM, .form = FT_NFC}));
        FT_TRY(rewrite(t, (ft_rewrite){.kind = FT_REWRITE_STRIP, .right = true}));
        if (!prefix) split.prefix = FT_PREFIX_FIRST;
    }
    if (punctuation) FT_TRY(ft_tokenizer_add_split(t, (ft_split){.kind = FT_SPLIT_PUNCTUATION}, NULL));
    FT_TRY(ft_tokenizer_add_split(t, split, NULL));
    return make_frames(t, json, "cls_token", "sep_token", FT_FRAME_BERT);
}

ft_status ft_tokenizer_build_class(ft_tokenizer *t, const ft_tokenizer_json *json) {
    switch (json->class->kind) {
    case FT_CLASS_BERT:
    case FT_CLASS_MPNET: return build_bert(t, json);
    case FT_CLASS_ALBERT: return build_albert(t, json);
    case FT_CLASS_CAMEMBERT:
    case FT_CLASS_XLM_ROBERTA: return build_xlm_roberta(t, json);
    case FT_CLASS_DEBERTA_V2: return build_deberta_v2(t, json);
    case FT_CLASS_QWEN2: return build_qwen2(t, json);
    default: return build_byte_pairs(t, json);
    }
}

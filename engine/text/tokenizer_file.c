// tokenizer_file.c - tokenizer.json: the model in it and, where the file is run as it is, the pipeline around the
// model.
#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/text/tokenizer_parts.h"

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

char *ft_text_where(ft_arena *arena, const char *path, const char *key) {
    return ft_arena_format(arena, "%s: %s", path, key);
}

ft_status ft_text_need_string(const json_t *object, const char *path, const char *key, const char **out) {
    FT_TRY(ft_json_string(object, path, key, NULL, out));
    return *out != NULL ? FT_OK : ft_fail(FT_INVALID, path, "\"%s\" is missing", key);
}

// The type of a component, or "null".
static const char *type_of(const json_t *component) {
    const char *type = json_string_value(json_object_get(component, "type"));
    return type != NULL ? type : json_is_object(component) ? "without a type" : "null";
}

static ft_status unsupported(const char *where, const char *type, const char *supported) {
    (void)ft_fail(FT_INVALID, where, "%s is not supported; supported: %s", type, supported);
    return FT_INVALID;
}

ft_status ft_tokenizer_read_model(ft_tokenizer *t, const ft_tokenizer_json *json, const char **unknown) {
    const json_t *model = json_object_get(json->tokenizer, "model");
    const char *where = ft_text_where(&t->arena, json->tokenizer_path, "model"), *type, *prefix;
    if (where == NULL) return FT_NO_MEMORY;
    if (!json_is_object(model)) return ft_fail(FT_INVALID, where, "missing, or not an object");
    FT_TRY(ft_json_string(model, where, "type", "WordPiece", &type)); // files of 2019 and 2020 name no type
    if (strcmp(type, "WordPiece") != 0) return unsupported(where, type, "WordPiece");
    FT_TRY(ft_text_need_string(model, where, "unk_token", unknown));
    FT_TRY(ft_text_need_string(model, where, "continuing_subword_prefix", &prefix));
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    double number = json_number_value(most);
    if (!json_is_number(most) || !(number >= 0 && number <= 9e15 && number == floor(number)))
        return ft_fail(FT_INVALID, where, "\"max_input_chars_per_word\" must be a whole number");
    FT_TRY(ft_vocabulary_read_json(&t->vocabulary, &t->arena, json_object_get(model, "vocab"), json->tokenizer_path));
    if (!json->as_is) return FT_OK; // BERT's class takes the vocabulary alone
    t->prefix = ft_arena_strdup(&t->arena, prefix);
    t->longest_word = (int64_t)number;
    return t->prefix != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status append(ft_tokenizer *t, int32_t **ids, int *count, const json_t *id, const char *where) {
    double number = json_is_number(id) ? json_number_value(id) : -1;
    if (!(number >= 0 && number < t->vocabulary.count && number == floor(number)))
        return ft_fail(FT_INVALID, where, "the id of a special token must be one of the vocabulary's %d",
                       t->vocabulary.count);
    int32_t *grown = ft_realloc(*ids, (size_t)*count + 1, sizeof **ids, "special tokens");
    if (grown == NULL) return FT_NO_MEMORY;
    *ids = grown;
    grown[(*count)++] = (int32_t)number;
    return FT_OK;
}

static ft_status read_template(ft_tokenizer *t, const json_t *processor, const char *where) {
    const json_t *single = json_object_get(processor, "single"), *tokens = json_object_get(processor, "special_tokens");
    if (!json_is_array(single)) return ft_fail(FT_INVALID, where, "\"single\" must be a list");
    bool text = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i), *token = json_object_get(item, "SpecialToken");
        const char *id = json_string_value(json_object_get(token, "id"));
        if (token == NULL) {
            id = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
            if (id == NULL || strcmp(id, "A") != 0 || text)
                return ft_fail(FT_INVALID, where, "\"single\" must hold the text (Sequence A) once and special tokens");
            text = true;
            continue;
        }
        const json_t *ids = id != NULL ? json_object_get(json_object_get(tokens, id), "ids") : NULL;
        if (!json_is_array(ids))
            return ft_fail(FT_INVALID, where, "\"special_tokens\" has no ids for \"%s\"", id != NULL ? id : "");
        for (size_t k = 0; k < json_array_size(ids); k++)
            FT_TRY(append(t, text ? &t->after : &t->before, text ? &t->after_count : &t->before_count,
                          json_array_get(ids, k), where));
    }
    return text ? FT_OK : ft_fail(FT_INVALID, where, "\"single\" does not hold the text (Sequence A)");
}

static ft_status read_processor(ft_tokenizer *t, const ft_tokenizer_json *json) {
    const json_t *processor = json_object_get(json->tokenizer, "post_processor");
    const char *where = ft_text_where(&t->arena, json->tokenizer_path, "post_processor"), *type = type_of(processor);
    if (where == NULL) return FT_NO_MEMORY;
    if (processor == NULL || json_is_null(processor)) return FT_OK; // no special tokens around the text
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(t, processor, where);
    if (strcmp(type, "BertProcessing") != 0) return unsupported(where, type, "BertProcessing, TemplateProcessing");
    FT_TRY(append(t, &t->before, &t->before_count, json_array_get(json_object_get(processor, "cls"), 1), where));
    return append(t, &t->after, &t->after_count, json_array_get(json_object_get(processor, "sep"), 1), where);
}

ft_status ft_tokenizer_read_pipeline(ft_tokenizer *t, const ft_tokenizer_json *json) {
    const json_t *normalizer = json_object_get(json->tokenizer, "normalizer");
    const json_t *split = json_object_get(json->tokenizer, "pre_tokenizer");
    const char *where = ft_text_where(&t->arena, json->tokenizer_path, "normalizer");
    const char *split_where = ft_text_where(&t->arena, json->tokenizer_path, "pre_tokenizer");
    if (where == NULL || split_where == NULL) return FT_NO_MEMORY;
    t->normalizer = ft_normalizer_make(false, false, false, false);
    if (normalizer != NULL && !json_is_null(normalizer)) {
        if (strcmp(type_of(normalizer), "BertNormalizer") != 0)
            return unsupported(where, type_of(normalizer), "BertNormalizer, null");
        bool clean, cjk, strip, lower;
        FT_TRY(ft_json_bool(normalizer, where, "clean_text", true, &clean));
        FT_TRY(ft_json_bool(normalizer, where, "handle_chinese_chars", true, &cjk));
        FT_TRY(ft_json_bool(normalizer, where, "lowercase", true, &lower));
        FT_TRY(ft_json_bool(normalizer, where, "strip_accents", lower, &strip));
        t->normalizer = ft_normalizer_make(clean, cjk, strip, lower);
    }
    if (strcmp(type_of(split), "BertPreTokenizer") != 0)
        return unsupported(split_where, type_of(split), "BertPreTokenizer");
    return read_processor(t, json);
}

// pipeline_file.c - tokenizer.json run as it is: its normaliser, pre-tokenizer and post-processor.
#include "base/json/json.h"
#include "engine/text/tokenizer_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- normaliser ----------------------------------------------------------------------------------------------------
#define NORMALIZERS                                                                                                    \
    "BertNormalizer, Precompiled, Replace, Prepend, Strip, Lowercase, NFC, NFD, NFKC, NFKD, StripAccents, Sequence, null"

ft_status ft_pipeline_add(ft_pipeline *p, ft_arena *arena, const ft_rewrite *rewrite, const char *where) {
    if (p->rewrites == NULL) {
        p->rewrites = ft_arena_alloc(arena, FT_MOST_REWRITES * sizeof *p->rewrites);
        if (p->rewrites == NULL) return FT_NO_MEMORY;
    }
    if (p->count == FT_MOST_REWRITES) return ft_fail(FT_INVALID, where, "more than %d steps", FT_MOST_REWRITES);
    p->rewrites[p->count++] = *rewrite;
    return FT_OK;
}

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Bytes of base64 text with padding; -1 if it is none. `out` has room for 3/4 of the length.
static ptrdiff_t decode_base64(const char *text, size_t length, unsigned char *out) {
    size_t n = 0;
    if (length % 4 != 0) return -1;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t bits = 0;
        int padding = i + 4 == length ? (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=') : 0;
        for (int k = 0; k < 4; k++) {
            int digit = k >= 4 - padding ? 0 : base64_digit(text[i + (size_t)k]);
            if (digit < 0) return -1;
            bits = bits << 6 | (uint32_t)digit;
        }
        for (int k = 0; k < 3 - padding; k++)
            out[n++] = (unsigned char)(bits >> (16 - 8 * k));
    }
    return (ptrdiff_t)n;
}

static ft_status read_charsmap(const json_t *component, const char *where, ft_arena *arena, ft_charsmap *map) {
    const json_t *text = json_object_get(component, "precompiled_charsmap");
    if (!json_is_string(text)) return ft_fail(FT_INVALID, where, "\"precompiled_charsmap\" must be a text");
    size_t length = json_string_length(text);
    unsigned char *data = ft_calloc(length / 4 + 1, 3, "a character map");
    if (data == NULL) return FT_NO_MEMORY;
    ptrdiff_t size = decode_base64(json_string_value(text), length, data);
    ft_status status = size >= 0 ? ft_charsmap_open(arena, data, (size_t)size, where, map)
                                 : ft_fail(FT_INVALID, where, "\"precompiled_charsmap\" is not base64");
    free(data);
    return status;
}

static ft_status read_replace(const json_t *component, const char *where, ft_arena *arena, ft_rewrite *r) {
    const json_t *pattern = json_object_get(component, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String")),
               *expression = json_string_value(json_object_get(pattern, "Regex")), *content;
    FT_TRY(ft_text_need_string(component, where, "content", &content));
    if (text != NULL ? text[0] == '\0' : expression == NULL)
        return ft_fail(FT_INVALID, where, "\"pattern\" must hold \"String\" or \"Regex\", not empty");
    r->pattern = FT_REPLACE_TEXT;
    if (text == NULL && strcmp(expression, " {2,}") == 0)
        r->pattern = FT_REPLACE_SPACES;
    else if (text == NULL && strcmp(expression, "\\s{2,}|[\\n\\r\\t]") == 0)
        r->pattern = FT_REPLACE_BLANKS;
    else if (text == NULL)
        return ft_fail(FT_INVALID, where,
                       "Replace of the expression \"%s\" is not supported; supported: \" {2,}\", "
                       "\"\\s{2,}|[\\n\\r\\t]\", and plain text",
                       expression);
    r->from = ft_arena_strdup(arena, text != NULL ? text : "");
    r->to = ft_arena_strdup(arena, content);
    if (r->from == NULL || r->to == NULL) return FT_NO_MEMORY;
    r->from_length = strlen(r->from), r->to_length = strlen(r->to);
    return FT_OK;
}

static ft_status read_bert(const json_t *component, const char *where, ft_rewrite *r) {
    bool clean, cjk, strip, lower;
    FT_TRY(ft_json_bool(component, where, "clean_text", true, &clean));
    FT_TRY(ft_json_bool(component, where, "handle_chinese_chars", true, &cjk));
    FT_TRY(ft_json_bool(component, where, "lowercase", true, &lower));
    FT_TRY(ft_json_bool(component, where, "strip_accents", lower, &strip));
    r->bert = ft_normalizer_make(clean, cjk, strip, lower);
    return FT_OK;
}

static ft_status read_normalizer(ft_tokenizer *t, const json_t *component, const char *where, int depth) {
    static const struct {
        const char *type;
        ft_rewrite_kind kind;
        ft_normal_form form;
    } KNOWN[] = {
        {"BertNormalizer", FT_REWRITE_BERT, 0}, {"Precompiled", FT_REWRITE_CHARSMAP, 0},
        {"Replace", FT_REWRITE_REPLACE, 0},     {"Strip", FT_REWRITE_STRIP, 0},
        {"Lowercase", FT_REWRITE_LOWER, 0},     {"NFC", FT_REWRITE_FORM, FT_NFC},
        {"NFD", FT_REWRITE_FORM, FT_NFD},       {"NFKC", FT_REWRITE_FORM, FT_NFKC},
        {"NFKD", FT_REWRITE_FORM, FT_NFKD},     {"StripAccents", FT_REWRITE_STRIP_ACCENTS, 0},
        {"Prepend", FT_REWRITE_PREPEND, 0},
    };
    const char *type = ft_text_type(component);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(component, "normalizers");
        if (!json_is_array(list)) return ft_fail(FT_INVALID, where, "\"normalizers\" must be a list");
        if (depth == 4) return ft_fail(FT_INVALID, where, "a Sequence within a Sequence within a Sequence");
        for (size_t i = 0; i < json_array_size(list); i++)
            FT_TRY(read_normalizer(t, json_array_get(list, i), where, depth + 1));
        return FT_OK;
    }
    size_t i = 0, count = sizeof KNOWN / sizeof KNOWN[0];
    while (i < count && strcmp(type, KNOWN[i].type) != 0)
        i++;
    if (i == count) return ft_text_unsupported(where, type, NORMALIZERS);
    ft_rewrite r = {.kind = KNOWN[i].kind, .form = KNOWN[i].form};
    if (r.kind == FT_REWRITE_BERT) FT_TRY(read_bert(component, where, &r));
    if (r.kind == FT_REWRITE_CHARSMAP) FT_TRY(read_charsmap(component, where, &t->arena, &r.charsmap));
    if (r.kind == FT_REWRITE_REPLACE) FT_TRY(read_replace(component, where, &t->arena, &r));
    if (r.kind == FT_REWRITE_PREPEND) {
        FT_TRY(ft_text_need_string(component, where, "prepend", &r.to));
        if ((r.to = ft_arena_strdup(&t->arena, r.to)) == NULL) return FT_NO_MEMORY;
        r.to_length = strlen(r.to);
    }
    if (r.kind == FT_REWRITE_STRIP) {
        FT_TRY(ft_json_bool(component, where, "strip_left", true, &r.left));
        FT_TRY(ft_json_bool(component, where, "strip_right", true, &r.right));
    }
    return ft_pipeline_add(&t->normalizer, &t->arena, &r, where);
}

ft_status ft_tokenizer_file_charsmap(const ft_tokenizer_json *json, ft_arena *arena, ft_charsmap *map) {
    const json_t *normalizer = json_object_get(json->tokenizer, "normalizer"),
                 *list = json_object_get(normalizer, "normalizers");
    const char *where = ft_text_where(arena, json->tokenizer_path, "normalizer");
    if (where == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_charsmap_open(arena, NULL, 0, where, map));
    for (size_t i = 0; i < (list != NULL ? json_array_size(list) : 1); i++) { // the first one counts
        const json_t *component = list != NULL ? json_array_get(list, i) : normalizer;
        if (strcmp(ft_text_type(component), "Precompiled") == 0) return read_charsmap(component, where, arena, map);
    }
    return FT_OK;
}

// ---- pre-tokenizer -------------------------------------------------------------------------------------------------
#define SPLITTERS "BertPreTokenizer, WhitespaceSplit, Punctuation, Split, ByteLevel, Metaspace, Sequence"

ft_status ft_tokenizer_add_split(ft_tokenizer *t, ft_split split, const char *where) {
    if (t->split_count == FT_MOST_SPLITS) return ft_fail(FT_INVALID, where, "more than %d steps", FT_MOST_SPLITS);
    t->splits[t->split_count++] = split;
    return FT_OK;
}

static ft_status read_metaspace(const json_t *component, const char *where, ft_split *split) {
    static const char *const SCHEMES[] = {"never", "always", "first"};
    const char *mark, *scheme;
    bool add;
    FT_TRY(ft_text_need_string(component, where, "replacement", &mark));
    if (strcmp(mark, FT_SPACE_MARK) != 0)
        return ft_fail(FT_INVALID, where, "Metaspace with the replacement \"%s\" is not supported; supported: \"%s\"",
                       mark, FT_SPACE_MARK);
    FT_TRY(ft_json_bool(component, where, "split", true, &split->divide));
    FT_TRY(ft_json_bool(component, where, "add_prefix_space", true, &add)); // files until 2023
    FT_TRY(ft_json_string(component, where, "prepend_scheme", add ? "always" : "never", &scheme));
    for (int i = 0; i < 3; i++)
        if (strcmp(scheme, SCHEMES[i]) == 0) return split->prefix = (ft_prefix)i, FT_OK;
    return ft_fail(FT_INVALID, where, "prepend_scheme \"%s\" is not supported; supported: always, first, never",
                   scheme);
}

#define LLAMA_PATTERN(digits)                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static ft_status read_split(ft_tokenizer *t, const json_t *component, const char *where, ft_split *split) {
    static const char *const BEHAVIORS[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext"};
    const json_t *pattern = json_object_get(component, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String")),
               *expression = json_string_value(json_object_get(pattern, "Regex")), *behavior;
    bool invert;
    int i = 0;
    FT_TRY(ft_json_string(component, where, "behavior", "Isolated", &behavior));
    FT_TRY(ft_json_bool(component, where, "invert", false, &invert));
    while (i < 4 && strcmp(behavior, BEHAVIORS[i]) != 0)
        i++;
    if (text != NULL && text[0] != '\0' && i < 4 && !invert) {
        split->kind = FT_SPLIT_TEXT;
        split->behavior = (ft_split_behavior)i;
        split->text = ft_arena_strdup(&t->arena, text);
        return split->text != NULL ? FT_OK : FT_NO_MEMORY;
    }
    // All of a text is in words of the expression, so these two say the same.
    const bool words = expression != NULL && ((i == FT_SPLIT_ISOLATED && !invert) || (i == FT_SPLIT_REMOVED && invert));
    split->kind = FT_SPLIT_LLAMA;
    split->digits = words && strcmp(expression, LLAMA_PATTERN("{1,3}")) == 0 ? 3 : words && strcmp(expression, LLAMA_PATTERN("")) == 0 ? 1 : 0;
    if (split->digits > 0) return FT_OK;
    return ft_fail(FT_INVALID, where,
                   "Split of the pattern \"%s\", behavior %s%s, is not supported; supported: the expressions of Llama 3 and Qwen2, Isolated, and "
                   "plain text, Removed, Isolated, MergedWithPrevious or MergedWithNext",
                   text != NULL ? text : expression != NULL ? expression : "", behavior, invert ? ", inverted" : "");
}

static ft_status read_splitter(ft_tokenizer *t, const json_t *component, const char *where, int depth) {
    const char *type = ft_text_type(component), *behavior;
    ft_split split = {0};
    bool add;
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(component, "pretokenizers");
        if (!json_is_array(list)) return ft_fail(FT_INVALID, where, "\"pretokenizers\" must be a list");
        if (depth == 4) return ft_fail(FT_INVALID, where, "a Sequence within a Sequence within a Sequence");
        for (size_t i = 0; i < json_array_size(list); i++)
            FT_TRY(read_splitter(t, json_array_get(list, i), where, depth + 1));
        return FT_OK;
    }
    if (strcmp(type, "BertPreTokenizer") == 0)
        split.kind = FT_SPLIT_BERT;
    else if (strcmp(type, "WhitespaceSplit") == 0)
        split.kind = FT_SPLIT_WHITE;
    else if (strcmp(type, "Punctuation") == 0) {
        split.kind = FT_SPLIT_PUNCTUATION;
        FT_TRY(ft_json_string(component, where, "behavior", "Isolated", &behavior));
        if (strcmp(behavior, "Isolated") != 0)
            return ft_fail(FT_INVALID, where, "Punctuation with the behavior %s is not supported; supported: Isolated",
                           behavior);
    } else if (strcmp(type, "Split") == 0) {
        FT_TRY(read_split(t, component, where, &split));
    } else if (strcmp(type, "ByteLevel") == 0) {
        split.kind = FT_SPLIT_BYTE_LEVEL;
        FT_TRY(ft_json_bool(component, where, "add_prefix_space", true, &add));
        FT_TRY(ft_json_bool(component, where, "use_regex", true, &split.divide));
        split.prefix = add ? FT_PREFIX_ALWAYS : FT_PREFIX_NEVER;
    } else if (strcmp(type, "Metaspace") == 0) {
        split.kind = FT_SPLIT_METASPACE;
        FT_TRY(read_metaspace(component, where, &split));
    } else
        return ft_text_unsupported(where, type, SPLITTERS);
    return ft_tokenizer_add_split(t, split, where);
}

// Each model reads what one kind of last step writes: stand-ins for bytes, words with their space, or plain words.
static ft_status check_splits(const ft_tokenizer *t, const char *where) {
    static const char *const WANTED[] = {"WordPiece needs BertPreTokenizer, WhitespaceSplit or Punctuation",
                                         "BPE needs ByteLevel, Metaspace, Split", "Unigram needs Metaspace"};
    for (size_t i = 0; i < t->split_count; i++) {
        ft_split_kind kind = t->splits[i].kind;
        bool last = i + 1 == t->split_count, writes = kind >= FT_SPLIT_BYTE_LEVEL;
        bool fits = t->kind == FT_MODEL_WORD_PIECE ? !writes : t->kind == FT_MODEL_UNIGRAM ? kind == FT_SPLIT_METASPACE
                    : t->byte_pairs.characters     ? kind != FT_SPLIT_BYTE_LEVEL : kind == FT_SPLIT_BYTE_LEVEL;
        if (last ? !fits : writes)
            return ft_fail(FT_INVALID, where, "%s as the last step, and there only", WANTED[t->kind]);
    }
    return FT_OK;
}

// ---- post-processor ------------------------------------------------------------------------------------------------
ft_status ft_template_add(ft_template *to, int32_t id, int32_t type) {
    ft_template_item *items = ft_realloc(to->items, to->count + 1, sizeof *items, "special tokens");
    if (items == NULL) return FT_NO_MEMORY;
    to->items = items;
    items[to->count++] = (ft_template_item){id, type};
    to->specials += id >= 0;
    return FT_OK;
}

static ft_status read_id(const ft_tokenizer *t, const json_t *id, const char *where, int32_t *out) {
    double number = json_is_number(id) ? json_number_value(id) : -1;
    if (!(number >= 0 && number < t->vocabulary.count && number == floor(number)))
        return ft_fail(FT_INVALID, where, "the id of a special token must be one of the vocabulary's %d",
                       t->vocabulary.count);
    *out = (int32_t)number;
    return FT_OK;
}

static ft_status read_type(const json_t *item, const char *where, int32_t *out) {
    int64_t type;
    FT_TRY(ft_json_int(item, where, "type_id", 0, 0, 1 << 16, &type));
    *out = (int32_t)type;
    return FT_OK;
}

// One of the two templates: each text that belongs there once, and special tokens.
static ft_status read_template(ft_tokenizer *t, const json_t *processor, const char *key, const char *where,
                               ft_template *to) {
    const json_t *list = json_object_get(processor, key), *tokens = json_object_get(processor, "special_tokens");
    bool pair = to == &t->pair, seen[2] = {false, !pair};
    if (!json_is_array(list)) return ft_fail(FT_INVALID, where, "\"%s\" must be a list", key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *token = json_object_get(item, "SpecialToken"),
                     *text = json_object_get(item, "Sequence");
        const char *id = json_string_value(json_object_get(token != NULL ? token : text, "id"));
        int32_t type, number;
        FT_TRY(read_type(token != NULL ? token : text, where, &type));
        if (token == NULL) {
            int which = id == NULL ? 2 : strcmp(id, "A") == 0 ? 0 : strcmp(id, "B") == 0 ? 1 : 2;
            if (which == 2 || seen[which])
                return ft_fail(FT_INVALID, where, "\"%s\" must hold %s once and special tokens", key,
                               pair ? "the texts (Sequences A and B)" : "the text (Sequence A)");
            seen[which] = true;
            FT_TRY(ft_template_add(to, which == 0 ? FT_TEMPLATE_TEXT : FT_TEMPLATE_PAIR, type));
            continue;
        }
        const json_t *ids = id != NULL ? json_object_get(json_object_get(tokens, id), "ids") : NULL;
        if (!json_is_array(ids))
            return ft_fail(FT_INVALID, where, "\"special_tokens\" has no ids for \"%s\"", id != NULL ? id : "");
        if (json_array_size(ids) + to->count > 1000) return ft_fail(FT_INVALID, where, "\"%s\" is too long", key);
        for (size_t k = 0; k < json_array_size(ids); k++) {
            FT_TRY(read_id(t, json_array_get(ids, k), where, &number));
            FT_TRY(ft_template_add(to, number, type));
        }
    }
    if (!seen[0] || !seen[1])
        return ft_fail(FT_INVALID, where, "\"%s\" does not hold %s", key,
                       pair ? "both texts (Sequences A and B)" : "the text (Sequence A)");
    return FT_OK;
}

ft_status ft_tokenizer_no_frame(ft_tokenizer *t) {
    FT_TRY(ft_template_add(&t->single, FT_TEMPLATE_TEXT, 0));
    FT_TRY(ft_template_add(&t->pair, FT_TEMPLATE_TEXT, 0));
    return ft_template_add(&t->pair, FT_TEMPLATE_PAIR, 1);
}

ft_status ft_tokenizer_frame(ft_tokenizer *t, int32_t first, int32_t last, ft_frame frame) {
    bool roberta = frame == FT_FRAME_ROBERTA;
    const int32_t single[] = {first, FT_TEMPLATE_TEXT, last};
    for (int i = 0; i < 3; i++) {
        FT_TRY(ft_template_add(&t->single, single[i], 0));
        FT_TRY(ft_template_add(&t->pair, single[i], 0));
    }
    if (roberta) FT_TRY(ft_template_add(&t->pair, last, 0));
    FT_TRY(ft_template_add(&t->pair, FT_TEMPLATE_PAIR, !roberta));
    return ft_template_add(&t->pair, last, !roberta);
}

static ft_status read_processor(ft_tokenizer *t, const json_t *processor, const char *where, bool *done) {
    const char *type = ft_text_type(processor);
    if (strcmp(type, "ByteLevel") == 0) return FT_OK; // about offsets only
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(processor, "processors");
        if (!json_is_array(list)) return ft_fail(FT_INVALID, where, "\"processors\" must be a list");
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (strcmp(ft_text_type(json_array_get(list, i)), "Sequence") == 0)
                return ft_fail(FT_INVALID, where, "a Sequence within a Sequence");
            FT_TRY(read_processor(t, json_array_get(list, i), where, done));
        }
        return FT_OK;
    }
    if (*done) return ft_fail(FT_INVALID, where, "two processors that add special tokens");
    *done = true;
    if (strcmp(type, "TemplateProcessing") == 0) {
        FT_TRY(read_template(t, processor, "single", where, &t->single));
        if (json_object_get(processor, "pair") != NULL) return read_template(t, processor, "pair", where, &t->pair);
        FT_TRY(ft_template_add(&t->pair, FT_TEMPLATE_TEXT, 0));
        return ft_template_add(&t->pair, FT_TEMPLATE_PAIR, 1);
    }
    bool roberta = strcmp(type, "RobertaProcessing") == 0;
    if (!roberta && strcmp(type, "BertProcessing") != 0)
        return ft_text_unsupported(where, type,
                                   "BertProcessing, RobertaProcessing, TemplateProcessing, ByteLevel, "
                                   "Sequence");
    int32_t cls, sep;
    FT_TRY(read_id(t, json_array_get(json_object_get(processor, "cls"), 1), where, &cls));
    FT_TRY(read_id(t, json_array_get(json_object_get(processor, "sep"), 1), where, &sep));
    return ft_tokenizer_frame(t, cls, sep, roberta ? FT_FRAME_ROBERTA : FT_FRAME_BERT);
}

// ---- all of it -----------------------------------------------------------------------------------------------------
ft_status ft_tokenizer_read_pipeline(ft_tokenizer *t, const ft_tokenizer_json *json) {
    static const char *const KEYS[] = {"normalizer", "pre_tokenizer", "post_processor"};
    const json_t *parts[3];
    const char *where[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = json_object_get(json->tokenizer, KEYS[i]);
        where[i] = ft_text_where(&t->arena, json->tokenizer_path, KEYS[i]);
        if (where[i] == NULL) return FT_NO_MEMORY;
    }
    if (parts[0] != NULL && !json_is_null(parts[0])) FT_TRY(read_normalizer(t, parts[0], where[0], 0));
    const bool whole = t->kind == FT_MODEL_BYTE_PAIRS && (parts[1] == NULL || json_is_null(parts[1])); // a text is one word
    if (!whole) FT_TRY(read_splitter(t, parts[1], where[1], 0));
    if (t->split_count == 0 && !whole) return ft_fail(FT_INVALID, where[1], "an empty Sequence");
    FT_TRY(check_splits(t, where[1]));
    bool done = false;
    if (parts[2] != NULL && !json_is_null(parts[2])) FT_TRY(read_processor(t, parts[2], where[2], &done));
    return done ? FT_OK : ft_tokenizer_no_frame(t);
}

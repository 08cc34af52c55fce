// special_tokens.c - which tokens are cut out of the text and what ids they have.
//
// Four files may speak of them; who wins follows transformers 5.23 (README.md). Ids come from the vocabulary or are
// numbered on from its end, in the order of addition; an id that a file records must agree with that.
#include "engine/text/tokenizer_parts.h"

#include "base/json/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A token as some file describes it.
typedef struct wish {
    ft_added_token token;
    bool chose_normalized; // else: what is not special is matched in normalised text
    int32_t id;            // recorded; -1: none
    size_t order;          // in which it was pushed
    const char *where;
} wish;

typedef struct wishes {
    wish *items;
    size_t count, capacity;
    ft_content_map contents; // of those that were pushed by name
} wishes;

static ft_status push(wishes *list, const wish *w) {
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 16;
        wish *items = ft_realloc(list->items, capacity, sizeof *items, "added tokens");
        if (items == NULL) return FT_NO_MEMORY;
        list->items = items, list->capacity = capacity;
    }
    list->items[list->count] = *w;
    list->items[list->count].order = list->count;
    list->count++;
    return FT_OK;
}

static bool has(const wishes *list, const char *content) { return ft_content_map_find(&list->contents, content) >= 0; }

// A token is a string or an object with content and flags.
static ft_status parse(const json_t *value, const char *where, bool special, ft_arena *arena, wish *w) {
    *w = (wish){.id = -1, .where = where};
    const char *content = json_string_value(value);
    w->token.special = special;
    if (json_is_object(value)) {
        FT_TRY(ft_text_need_string(value, where, "content", &content));
        FT_TRY(ft_json_bool(value, where, "single_word", false, &w->token.single_word));
        FT_TRY(ft_json_bool(value, where, "lstrip", false, &w->token.lstrip));
        FT_TRY(ft_json_bool(value, where, "rstrip", false, &w->token.rstrip));
        FT_TRY(ft_json_bool(value, where, "special", special, &w->token.special));
        FT_TRY(ft_json_bool(value, where, "normalized", false, &w->token.normalized));
        w->chose_normalized = json_is_boolean(json_object_get(value, "normalized"));
    } else if (content == NULL)
        return ft_fail(FT_INVALID, where, "a token must be a string or an object with \"content\"");
    w->token.content = ft_arena_strdup(arena, content);
    w->token.length = strlen(content);
    return w->token.content != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status parse_id(double number, const char *where, int32_t *id) {
    if (!(number >= 0 && number < FT_TEXT_MOST_IDS && number == floor(number)))
        return ft_fail(FT_INVALID, where, "the id of an added token must be a whole number from 0 to %d",
                       FT_TEXT_MOST_IDS - 1);
    *id = (int32_t)number;
    return FT_OK;
}

static int by_id(const void *a, const void *b) {
    const wish *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->order > y->order) - (x->order < y->order);
}

// By id: a later description of the same id replaces the earlier one.
static void sort_by_id(wishes *list) {
    size_t kept = 0;
    if (list->count > 0) qsort(list->items, list->count, sizeof *list->items, by_id);
    for (size_t i = 0; i < list->count; i++) {
        if (kept > 0 && list->items[kept - 1].id == list->items[i].id) kept--;
        list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

// ---- roles ---------------------------------------------------------------------------------------------------------
static const char *const ROLES[FT_ROLES] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};
enum { MASK = FT_ROLES - 1 };

static bool is_role(const char *key) {
    for (int i = 0; i < FT_ROLES; i++)
        if (strcmp(ROLES[i], key) == 0) return true;
    return false;
}

// What the files say of a role, and in which file. special_tokens_map.json counts only where tokenizer_config.json has
// no added_tokens_decoder (files since 2023 have one).
static const json_t *role_value(const ft_tokenizer_json *json, const char *role, const char **path) {
    const json_t *value = NULL;
    if (json_object_get(json->config, "added_tokens_decoder") == NULL) value = json_object_get(json->map, role);
    *path = value != NULL ? json->map_path : json->config_path;
    return value != NULL ? value : json_object_get(json->config, role);
}

// found = false: no file has it and there is no default, or a file says null.
static ft_status role_wish(const ft_tokenizer_json *json, ft_arena *arena, int role, wish *w, bool *found) {
    const char *path;
    const json_t *value = role_value(json, ROLES[role], &path);
    const char *where = ft_text_where(arena, path, ROLES[role]);
    if (where == NULL) return FT_NO_MEMORY;
    *found = false;
    const char *usual = json->as_is ? NULL : json->class->roles[role];
    if (value == NULL && usual == NULL) return FT_OK;
    if (json_is_null(value)) return FT_OK;
    *found = true;
    if (value != NULL) {
        FT_TRY(parse(value, where, !json_is_object(value) || path == json->map_path, arena, w));
    } else {
        *w = (wish){.id = -1, .where = where, .token = {.content = usual, .special = true}};
        w->token.length = strlen(w->token.content);
    }
    // A role makes a token special, but does not by itself undo "normalized".
    if (!w->chose_normalized) w->token.normalized = false;
    w->chose_normalized = true;
    w->token.special = true;
    // What a file only names is the mask token as the model was trained with it.
    if (role == MASK && !json->as_is && json->rules == FT_RULES_FILES && !json_is_object(value))
        w->token.lstrip = json->class->mask_strips;
    return w->token.length > 0 ? FT_OK : ft_fail(FT_INVALID, where, "must not be empty");
}

ft_status ft_tokenizer_role(const ft_tokenizer_json *json, ft_arena *arena, const char *role, const char **content) {
    *content = NULL;
    for (int i = 0; i < FT_ROLES; i++) {
        if (strcmp(ROLES[i], role) != 0) continue;
        wish w;
        bool found;
        FT_TRY(role_wish(json, arena, i, &w, &found));
        if (found) *content = w.token.content;
    }
    return FT_OK;
}

int32_t ft_tokenizer_role_id(const ft_tokenizer *t, const char *role) {
    for (int i = 0; i < FT_ROLES; i++)
        if (strcmp(ROLES[i], role) == 0) return t->role[i];
    return -1;
}

static ft_status number_roles(ft_tokenizer *t, const ft_tokenizer_json *json) {
    for (int i = 0; i < FT_ROLES; i++) {
        const char *content;
        FT_TRY(ft_tokenizer_role(json, &t->arena, ROLES[i], &content));
        t->role[i] = content != NULL ? ft_tokenizer_find(t, content) : -1;
    }
    return FT_OK;
}

// ---- collecting ----------------------------------------------------------------------------------------------------
// Whether tokenizer_config.json lists this text among the extra tokens.
static bool is_extra(const ft_tokenizer_json *json, const char *content) {
    const json_t *tokens = json_object_get(json->config, "extra_special_tokens");
    if (tokens == NULL || json_array_size(tokens) == 0)
        tokens = json_object_get(json->config, "additional_special_tokens");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);
        const char *text = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
        if (text != NULL && strcmp(text, content) == 0) return true;
    }
    return false;
}

// Tokens with recorded ids: added_tokens_decoder, or else added_tokens.json and the list in tokenizer.json.
static ft_status collect_recorded(ft_tokenizer *t, const ft_tokenizer_json *json, wishes *list) {
    const json_t *decoder = json_object_get(json->config, "added_tokens_decoder");
    const char *where, *key;
    json_t *value;
    wish w;
    if (decoder != NULL) {
        if ((where = ft_text_where(&t->arena, json->config_path, "added_tokens_decoder")) == NULL) return FT_NO_MEMORY;
        if (!json_is_object(decoder)) return ft_fail(FT_INVALID, where, "must be an object from ids to tokens");
        json_object_foreach((json_t *)decoder, key, value) {
            char *end;
            double number = strtod(key, &end);
            FT_TRY(parse(value, where, false, &t->arena, &w));
            FT_TRY(parse_id(end != key && *end == '\0' ? number : -1, where, &w.id));
            FT_TRY(push(list, &w));
        }
        return FT_OK;
    }
    json_object_foreach(json->added, key, value) {
        if ((where = ft_text_where(&t->arena, json->added_path, key)) == NULL) return FT_NO_MEMORY;
        json_t *text = json_string(key);
        if (text == NULL) return ft_fail_memory(strlen(key), "added tokens");
        ft_status status = parse(text, where, false, &t->arena, &w);
        json_decref(text);
        FT_TRY(status);
        FT_TRY(parse_id(json_is_number(value) ? json_number_value(value) : -1, where, &w.id));
        w.token.special = is_extra(json, key);
        for (int i = 0; i < FT_ROLES; i++) {
            const char *content;
            FT_TRY(ft_tokenizer_role(json, &t->arena, ROLES[i], &content));
            if (content != NULL && strcmp(content, key) == 0) w.token.special = true;
        }
        FT_TRY(push(list, &w));
    }
    return FT_OK;
}

static ft_status collect_file(ft_tokenizer *t, const ft_tokenizer_json *json, wishes *list) {
    const json_t *tokens = json_object_get(json->tokenizer, "added_tokens");
    const char *where = ft_text_where(&t->arena, json->tokenizer_path, "added_tokens");
    if (where == NULL) return FT_NO_MEMORY;
    if (tokens == NULL || json_is_null(tokens)) return FT_OK;
    if (!json_is_array(tokens)) return ft_fail(FT_INVALID, where, "must be a list");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *value = json_array_get(tokens, i), *id = json_object_get(value, "id");
        wish w;
        if (!json_is_object(value)) return ft_fail(FT_INVALID, where, "must hold objects with \"id\" and \"content\"");
        FT_TRY(parse(value, where, false, &t->arena, &w));
        FT_TRY(parse_id(json_is_number(id) ? json_number_value(id) : -1, where, &w.id));
        FT_TRY(push(list, &w));
    }
    return FT_OK;
}

// Control and user-defined pieces of a SentencePiece model never are parts of words.
static ft_status collect_pieces(const ft_spm *spm, const char *where, wishes *list) {
    for (size_t i = 0; i < spm->count; i++) {
        const ft_spm_piece *piece = &spm->pieces[i];
        if (piece->type != FT_SPM_CONTROL && piece->type != FT_SPM_USER_DEFINED) continue;
        wish w = {.id = -1, .where = where, .chose_normalized = true};
        w.token =
            (ft_added_token){.content = piece->text, .length = piece->length, .special = piece->type == FT_SPM_CONTROL};
        FT_TRY(push(list, &w));
    }
    return FT_OK;
}

static ft_status push_named(wishes *named, const wish *w) {
    if (has(named, w->token.content)) return FT_OK;
    FT_TRY(ft_content_map_add(&named->contents, w->token.content, (int32_t)named->count));
    return push(named, w);
}

// Roles, then "..._token" keys beyond the roles.
static ft_status collect_named(ft_tokenizer *t, const ft_tokenizer_json *json, wishes *named) {
    for (int i = 0; i < FT_ROLES; i++) {
        wish w;
        bool found;
        FT_TRY(role_wish(json, &t->arena, i, &w, &found));
        if (found) FT_TRY(push_named(named, &w));
    }
    bool map_counts = json_object_get(json->config, "added_tokens_decoder") == NULL;
    const json_t *sources[2] = {map_counts ? json->map : NULL, json->config};
    const char *paths[2] = {json->map_path, json->config_path}, *key;
    for (int s = 0; s < 2; s++) {
        json_t *value;
        json_object_foreach((json_t *)sources[s], key, value) {
            size_t length = strlen(key);
            bool token = length > 6 && strcmp(key + length - 6, "_token") == 0 && !is_role(key);
            if (!token || !(json_is_string(value) || json_is_object(value))) continue;
            const char *where = ft_text_where(&t->arena, paths[s], key);
            wish w;
            if (where == NULL) return FT_NO_MEMORY;
            FT_TRY(parse(value, where, true, &t->arena, &w));
            w.token.special = true;
            if (w.token.length > 0) FT_TRY(push_named(named, &w));
        }
    }
    return FT_OK;
}

// special: objects of this list are special even if they do not say so (strings always are).
static ft_status collect_list(ft_tokenizer *t, const json_t *tokens, const char *path, const char *key, bool special,
                              wishes *named) {
    const char *where = ft_text_where(&t->arena, path, key);
    if (where == NULL) return FT_NO_MEMORY;
    if (tokens == NULL || json_is_null(tokens)) return FT_OK;
    if (json_is_object(tokens)) { // names to tokens
        const char *name;
        json_t *value;
        json_object_foreach((json_t *)tokens, name, value) {
            wish w;
            FT_TRY(parse(value, where, true, &t->arena, &w));
            if (w.token.length > 0) FT_TRY(push_named(named, &w));
        }
        return FT_OK;
    }
    if (!json_is_array(tokens)) return ft_fail(FT_INVALID, where, "must be a list of tokens");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        wish w;
        const json_t *value = json_array_get(tokens, i);
        FT_TRY(parse(value, where, special || json_is_string(value), &t->arena, &w));
        if (w.token.length > 0) FT_TRY(push_named(named, &w));
    }
    return FT_OK;
}

// Extra tokens: extra_special_tokens, of old additional_special_tokens; the map's only where the configuration has
// none.
static ft_status collect_extra(ft_tokenizer *t, const ft_tokenizer_json *json, wishes *named) {
    static const char *const NEW = "extra_special_tokens", *const OLD = "additional_special_tokens";
    const json_t *extra = json_object_get(json->config, NEW), *old = json_object_get(json->config, OLD);
    bool empty = extra == NULL || json_is_null(extra) || (json_is_array(extra) && json_array_size(extra) == 0) ||
                 (json_is_object(extra) && json_object_size(extra) == 0);
    if (empty && old != NULL)
        FT_TRY(collect_list(t, old, json->config_path, OLD, false, named));
    else if (extra != NULL)
        FT_TRY(collect_list(t, extra, json->config_path, NEW, false, named));
    if (json_object_get(json->config, "added_tokens_decoder") != NULL || json->map == NULL) return FT_OK;
    const json_t *map_extra = json_object_get(json->map, NEW);
    if (map_extra != NULL) return collect_list(t, map_extra, json->map_path, NEW, true, named);
    if (extra == NULL && old == NULL)
        return collect_list(t, json_object_get(json->map, OLD), json->map_path, OLD, true, named);
    return FT_OK;
}

// ---- numbering -----------------------------------------------------------------------------------------------------
static int32_t find_added(const ft_tokenizer *t, const char *content) {
    return ft_content_map_find(&t->added_map, content);
}

int32_t ft_tokenizer_find(const ft_tokenizer *t, const char *content) {
    int32_t index = find_added(t, content);
    return index >= 0 ? t->added[index].id : ft_tokenizer_find_piece(t, content);
}

int32_t ft_tokenizer_find_piece(const ft_tokenizer *t, const char *content) {
    if (t->kind == FT_MODEL_UNIGRAM) return ft_unigram_find(&t->unigram, content, strlen(content));
    return ft_trie_find(&t->vocabulary.words, content, strlen(content));
}

static ft_status add(ft_tokenizer *t, const wish *w) {
    ft_added_token token = w->token;
    if (!w->chose_normalized) token.normalized = !token.special;
    if (token.length == 0) return FT_OK; // the reference ignores these
    int32_t index = find_added(t, token.content);
    if (index >= 0) { // described again: new flags, the same id
        token.id = t->added[index].id;
        t->added[index] = token;
    } else {
        token.id = ft_tokenizer_find_piece(t, token.content);
        if (token.id < 0) {
            const int32_t highest = t->added_count > 0 ? t->added_highest : -1;
            token.id = highest >= t->vocabulary.size ? highest + 1 : t->vocabulary.size;
            if (token.id >= FT_TEXT_MOST_IDS)
                return ft_fail(FT_INVALID, w->where, "more than %d tokens", FT_TEXT_MOST_IDS);
        }
        if (t->added_count == t->added_capacity) {
            size_t capacity = 2 * t->added_capacity + 16;
            ft_added_token *added = ft_realloc(t->added, capacity, sizeof *added, "added tokens");
            if (added == NULL) return FT_NO_MEMORY;
            t->added = added, t->added_capacity = capacity;
        }
        FT_TRY(ft_content_map_add(&t->added_map, token.content, (int32_t)t->added_count));
        if (t->added_count == 0 || token.id > t->added_highest) t->added_highest = token.id;
        t->added[t->added_count++] = token;
        FT_TRY(ft_vocabulary_set(&t->vocabulary, &t->arena, token.id, token.content, token.length));
    }
    if (w->id < 0 || w->id == token.id) return FT_OK;
    (void)ft_fail(FT_INVALID, w->where, "\"%s\" is recorded with id %d, but is token %d here", token.content, w->id,
                  token.id);
    ft_hint("new tokens are numbered on from the vocabulary's end (%d), so this list belongs to another vocabulary",
            t->vocabulary.size);
    return FT_INVALID;
}

ft_status ft_tokenizer_read_tokens(ft_tokenizer *t, const ft_tokenizer_json *json) {
    wishes recorded = {0}, named = {0};
    ft_status status;
    // Run as it is, the file's own list comes first; the others then change flags or come behind.
    if (json->as_is || json->spm != NULL) {
        FT_TRY_GOTO(json->as_is ? collect_file(t, json, &recorded)
                                : collect_pieces(json->spm, json->pieces_path, &recorded),
                    done);
        for (size_t i = 0; i < recorded.count; i++)
            FT_TRY_GOTO(add(t, &recorded.items[i]), done);
        recorded.count = 0;
    }
    FT_TRY_GOTO(collect_recorded(t, json, &recorded), done);
    if (!json->as_is && json_object_get(json->config, "added_tokens_decoder") == NULL)
        FT_TRY_GOTO(collect_file(t, json, &recorded), done);
    FT_TRY_GOTO(collect_named(t, json, &named), done);
    sort_by_id(&recorded);
    for (size_t i = 0; i < recorded.count; i++) {
        wish w = recorded.items[i];
        if (has(&named, w.token.content)) w.token.special = true;
        FT_TRY_GOTO(add(t, &w), done);
    }
    FT_TRY_GOTO(collect_extra(t, json, &named), done);
    for (size_t i = 0; i < named.count; i++)
        if (find_added(t, named.items[i].token.content) < 0) FT_TRY_GOTO(add(t, &named.items[i]), done);
    status = number_roles(t, json);
done:
    free(recorded.items);
    free(named.items);
    ft_content_map_free(&named.contents);
    return status;
}

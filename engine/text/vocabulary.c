// vocabulary.c - word pieces and their ids, from the lines of vocab.txt or the object of tokenizer.json.
#include "base/files.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"
#include "engine/text/unicode/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ft_text_where(ft_arena *arena, const char *path, const char *key) {
    return ft_arena_format(arena, "%s: %s", path, key);
}

ft_status ft_text_need_string(const json_t *object, const char *path, const char *key, const char **out) {
    FT_TRY(ft_json_string(object, path, key, NULL, out));
    return *out != NULL ? FT_OK : ft_fail(FT_INVALID, path, "\"%s\" is missing", key);
}

ft_status ft_vocabulary_set(ft_vocabulary *v, ft_arena *arena, int32_t id, const char *text, size_t length) {
    if (id >= v->capacity) {
        int32_t capacity = id + id / 2 + 1024;
        const char **token = ft_realloc(v->token, (size_t)capacity, sizeof *token, "a vocabulary");
        if (token == NULL) return FT_NO_MEMORY;
        v->token = token;
        uint32_t *lengths = ft_realloc(v->length, (size_t)capacity, sizeof *lengths, "a vocabulary");
        if (lengths == NULL) return FT_NO_MEMORY;
        v->length = lengths, v->capacity = capacity;
    }
    for (; v->count <= id; v->count++)
        v->token[v->count] = "", v->length[v->count] = 0;
    v->token[id] = ft_arena_strndup(arena, text, length);
    if (v->token[id] == NULL) return FT_NO_MEMORY;
    v->length[id] = (uint32_t)length;
    return FT_OK;
}

// Bytes left of a line without the white space at its end, which the reference trims (carriage returns with it).
static size_t trimmed(const char *line, size_t length) {
    while (length > 0) {
        size_t start = length - 1;
        while (((unsigned char)line[start] & 0xC0) == 0x80)
            start--;
        const unsigned char *p = (const unsigned char *)line + start;
        if (!(ft_char_flags(ft_utf8_next(&p)) & FT_CHAR_WHITE)) break;
        length = start;
    }
    return length;
}

static ft_status read_lines(ft_vocabulary *v, ft_arena *arena, const char *path, const char *data, size_t length) {
    char where[4200];
    size_t valid = ft_utf8_valid_prefix(data, length);
    if (valid < length) {
        int line = 1;
        for (size_t i = 0; i < valid; i++)
            line += data[i] == '\n';
        snprintf(where, sizeof where, "%s:%d", path, line);
        return ft_fail(FT_INVALID, where, "not valid UTF-8");
    }
    snprintf(where, sizeof where, "%s:1", path);
    if (length >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) {
        (void)ft_fail(FT_INVALID, where, "begins with a byte order mark, which would become part of the first token");
        ft_hint("remove the first three bytes of the file");
        return FT_INVALID;
    }
    bool blank = false;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(data + at, '\n', length - at);
        size_t line = end != NULL ? (size_t)(end - data) - at : length - at;
        size_t kept = trimmed(data + at, line);
        if (v->count >= FT_TEXT_MOST_IDS) return ft_fail(FT_INVALID, path, "more than %d lines", FT_TEXT_MOST_IDS);
        FT_TRY(ft_vocabulary_set(v, arena, v->count, data + at, kept));
        v->size += kept > 0 || !blank; // to the reference all blank lines are one piece
        blank = blank || kept == 0;
        at += line + 1;
    }
    return FT_OK;
}

ft_status ft_vocabulary_read_lines(ft_vocabulary *v, ft_arena *arena, const char *path) {
    char *data;
    size_t length;
    FT_TRY(ft_read_file(path, (size_t)256 << 20, &data, &length));
    ft_status status = read_lines(v, arena, path, data, length);
    free(data);
    return status;
}

ft_status ft_vocabulary_read_json(ft_vocabulary *v, ft_arena *arena, const json_t *object, const char *path,
                                  const char *name) {
    const char *where = name != NULL ? ft_text_where(arena, path, name) : path, *key;
    if (where == NULL) return FT_NO_MEMORY;
    if (!json_is_object(object)) return ft_fail(FT_INVALID, where, "must be an object from tokens to ids");
    // Ids first claimed here, so that two tokens of one id are seen whatever their text.
    size_t size = json_object_size(object);
    unsigned char *claimed = ft_calloc(FT_TEXT_MOST_IDS / 8, 1, "a vocabulary");
    if (claimed == NULL) return FT_NO_MEMORY;
    ft_status status = FT_OK;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        double number = json_is_number(value) ? json_number_value(value) : -1;
        if (!(number >= 0 && number < FT_TEXT_MOST_IDS && number == floor(number))) {
            status = ft_fail(FT_INVALID, where, "the id of \"%s\" must be a whole number from 0 to %d", key,
                             FT_TEXT_MOST_IDS - 1);
            break;
        }
        int32_t id = (int32_t)number;
        if (claimed[id / 8] >> (id % 8) & 1) {
            status = ft_fail(FT_INVALID, where, "\"%s\" and \"%s\" have the same id %d", v->token[id], key, id);
            break;
        }
        claimed[id / 8] |= (unsigned char)(1u << (id % 8));
        status = ft_vocabulary_set(v, arena, id, key, strlen(key));
        if (status != FT_OK) break;
    }
    free(claimed);
    v->size = (int32_t)size;
    return status;
}

static int by_text(const void *a, const void *b) {
    const ft_trie_key *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    if (order == 0) order = (x->length > y->length) - (x->length < y->length);
    return order != 0 ? order : (x->value > y->value) - (x->value < y->value);
}

ft_status ft_vocabulary_finish(ft_vocabulary *v, const char *prefix, const char *where, bool lines) {
    ft_trie_key *keys = ft_calloc((size_t)v->count + 1, sizeof *keys, "a vocabulary");
    if (keys == NULL) return FT_NO_MEMORY;
    size_t count = 0, inside = 0, skip = prefix != NULL ? strlen(prefix) : 0;
    for (int32_t id = 0; id < v->count; id++)
        if (v->length[id] > 0) keys[count++] = (ft_trie_key){v->token[id], v->length[id], id};
    if (count > 0) qsort(keys, count, sizeof *keys, by_text);
    ft_status status = FT_OK;
    for (size_t i = 1; lines && i < count; i++) {
        if (keys[i].length != keys[i - 1].length || memcmp(keys[i].text, keys[i - 1].text, keys[i].length) != 0)
            continue;
        char line[4200];
        snprintf(line, sizeof line, "%s:%d", where, keys[i].value + 1);
        status =
            ft_fail(FT_INVALID, line, "token \"%s\" stands already on line %d", keys[i].text, keys[i - 1].value + 1);
        ft_hint("each line is one token; white space at the end of a line does not count");
        goto done;
    }
    FT_TRY_GOTO(ft_trie_build(keys, count, &v->words), done);
    if (prefix == NULL) goto done;
    for (size_t i = 0; i < count; i++) {
        if (keys[i].length <= skip || memcmp(keys[i].text, prefix, skip) != 0) continue;
        keys[inside++] = (ft_trie_key){keys[i].text + skip, keys[i].length - skip, keys[i].value};
    }
    status = ft_trie_build(keys, inside, &v->pieces);
done:
    free(keys);
    return status;
}

void ft_vocabulary_free(ft_vocabulary *v) {
    free((void *)v->token);
    free(v->length);
    ft_trie_free(&v->words);
    ft_trie_free(&v->pieces);
    *v = (ft_vocabulary){0};
}

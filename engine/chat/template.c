// template.c - finding a model's template.
#include "engine/chat/template.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "engine/chat/syntax.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

void ft_chat_template_free(ft_chat_template *t) {
    if (t == NULL) return;
    json_decref(t->constants);
    ft_arena_free(&t->arena);
    free(t);
}

static ft_status parse(ft_chat_template *t, const char *source, size_t length, const char *where) {
    t->constants = json_array();
    t->where = ft_arena_strdup(&t->arena, where);
    if (t->constants == NULL || t->where == NULL) return ft_fail_memory(0, "a chat template");
    if (length > MOST_BYTES) return ft_fail(FT_INVALID, where, "a chat template of more than %d bytes", MOST_BYTES);
    if (ft_utf8_valid_prefix(source, length) != length || memchr(source, '\0', length) != NULL)
        return ft_fail(FT_INVALID, where, "the chat template is not valid UTF-8 text");
    t->source = ft_arena_strndup(&t->arena, source, length);
    t->length = length;
    if (t->source == NULL) return FT_NO_MEMORY;
    return ft_chat_parse(t, source, length);
}

const char *ft_chat_template_source(const ft_chat_template *t, size_t *length) { return *length = t->length, t->source; }

ft_status ft_chat_template_parse(const char *source, size_t length, const char *where, ft_chat_template **out) {
    *out = NULL;
    ft_chat_template *t = ft_calloc(1, sizeof *t, "a chat template");
    if (t == NULL) return FT_NO_MEMORY;
    const ft_status status = parse(t, source, length, where);
    if (status != FT_OK) {
        ft_chat_template_free(t);
        return status;
    }
    *out = t;
    return FT_OK;
}

static ft_status open_file(const char *path, ft_chat_template **out) {
    char *data;
    size_t length;
    FT_TRY(ft_read_file(path, MOST_BYTES, &data, &length));
    const ft_status status = ft_chat_template_parse(data, length, path, out);
    free(data);
    return status;
}

// One template, or a list of {"name", "template"}.
static ft_status of_config(const json_t *config, const char *path, ft_chat_template **out) {
    const json_t *chat = json_object_get(config, "chat_template");
    if (chat == NULL || json_is_null(chat)) return FT_OK;
    for (size_t i = 0; i < json_array_size(chat); i++) {
        const json_t *one = json_array_get(chat, i), *name = json_object_get(one, "name");
        if (!json_is_string(name) || strcmp(json_string_value(name), "default") != 0) continue;
        chat = json_object_get(one, "template");
        break;
    }
    if (json_is_array(chat)) return ft_fail(FT_INVALID, path, "several chat templates, of which none is called \"default\"");
    if (!json_is_string(chat)) return ft_fail(FT_INVALID, path, "\"chat_template\" must be a text");
    return ft_chat_template_parse(json_string_value(chat), json_string_length(chat), path, out);
}

ft_status ft_chat_template_open(const char *model_dir, ft_chat_template **out) {
    ft_arena arena = {0};
    json_t *config = NULL;
    *out = NULL;
    const char *file = ft_path_join(&arena, model_dir, "chat_template.jinja"), *path = ft_path_join(&arena, model_dir, "tokenizer_config.json");
    ft_status status = file != NULL && path != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && ft_path_exists(file))
        status = open_file(file, out);
    else if (status == FT_OK && ft_path_exists(path)) {
        status = ft_json_load(path, &config);
        if (status == FT_OK) status = of_config(config, path, out);
        json_decref(config);
    }
    ft_arena_free(&arena);
    return status;
}

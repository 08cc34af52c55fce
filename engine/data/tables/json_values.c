// json_values.c - JSON that is no JSON lines: a list of objects or of texts, and objects that go over several lines. As
// `datasets` reads them.
#include "engine/data/tables/records.h"

#include "base/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Behind the object, list or string that begins here; NULL: it does not end.
static const char *value_end(const char *at, const char *end) {
    int64_t depth = 0;
    bool text = false;
    for (; at < end; at++) {
        if (text && *at == '\\') {
            at++;
            continue;
        }
        if (*at == '"')
            text = !text;
        else if (!text && (*at == '{' || *at == '['))
            depth++;
        else if (!text && (*at == '}' || *at == ']'))
            depth--;
        if (!text && depth <= 0) return at + 1;
    }
    return NULL;
}

static const char *begin_of(const char *data, size_t length) {
    const char *at = data, *end = data + length;
    while (at < end && is_blank(*at))
        at++;
    return at < end ? at : NULL;
}

bool ft_json_is_line(const char *data, size_t length) {
    const char *at = begin_of(data, length), *end = data + length;
    if (at == NULL || *at != '{') return false;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return value_end(at, stop != NULL ? stop : end) != NULL;
}

bool ft_json_is_list(const char *data, size_t length) {
    const char *at = begin_of(data, length), *end = data + length;
    if (at == NULL || *at != '[') return false;
    const char *member = begin_of(at + 1, (size_t)(end - at - 1));
    return member != NULL && strchr("{\"]", *member) != NULL;
}

bool ft_json_is_values(const char *data, size_t length) {
    const char *at = begin_of(data, length);
    if (at == NULL || (*at != '{' && *at != '[')) return false;
    return *at == '[' || (!ft_json_is_line(data, length) && value_end(at, data + length) != NULL);
}

// ---- one after the other ------------------------------------------------------------------------------------------

static void go_to(ft_records *r, const char *to) {
    for (; r->at < to; r->at++) {
        if (*r->at != '\n') continue;
        r->line++;
        r->line_start = r->at + 1;
    }
}

static void pass_blanks(ft_records *r) {
    char *to = r->at;
    while (to < r->end && is_blank(*to))
        to++;
    go_to(r, to);
}

static ft_status wrong(const ft_records *r, const char *what) {
    return ft_fail_at(r->file, r->line, r->at - r->line_start + 1, "%s", what);
}

// To the next one. *found false: there is none, and nothing else either.
static ft_status find(ft_records *r, bool *found) {
    pass_blanks(r);
    if (!r->in_list && r->values_read == 0 && r->at < r->end && *r->at == '[') {
        r->in_list = true;
        go_to(r, r->at + 1);
        pass_blanks(r);
    } else if (r->in_list && r->at < r->end && *r->at == ',') {
        go_to(r, r->at + 1);
        pass_blanks(r);
        if (r->at < r->end && *r->at == ']') return wrong(r, "a comma behind the last member of the list");
    } else if (r->in_list && r->at < r->end && *r->at != ']') {
        return wrong(r, "a comma is missing between two members of the list");
    }
    *found = r->at < r->end;
    if (!r->in_list) return FT_OK;
    if (!*found) return wrong(r, "this list is never closed");
    if (*r->at != ']') return FT_OK;
    go_to(r, r->at + 1);
    pass_blanks(r);
    *found = false;
    return r->at < r->end ? wrong(r, "text behind the end of the list") : FT_OK;
}

// The parser counts from the beginning of what it is given.
static ft_status at_its_place(const ft_records *r) {
    ft_error error;
    ft_error_save(&error);
    long long line = 0, column = 0;
    if (error.code != FT_INVALID || sscanf(error.where, ":%lld:%lld", &line, &column) < 1) return error.code;
    return ft_fail_at(r->file, r->line + (line > 0 ? line - 1 : 0),
                      line > 1 || column == 0 ? column : column + (r->at - r->line_start), "%s", error.message);
}

// A text of a list is the column "text", as datasets has it.
static ft_status parse_text(const ft_records *r, size_t length, json_t **object) {
    char *wrapped = malloc(length + 16);
    if (wrapped == NULL) return ft_fail_memory(length, "a text");
    const int bytes = snprintf(wrapped, length + 16, "{\"text\":%.*s}", (int)length, r->at);
    ft_status status = ft_json_parse(wrapped, (size_t)bytes, "", object);
    free(wrapped);
    return status;
}

ft_status ft_json_value_next(ft_records *r, json_t **object) {
    bool found;
    *object = NULL;
    FT_TRY(find(r, &found));
    if (!found) return FT_OK;
    if (*r->at != '{' && (*r->at != '"' || !r->in_list))
        return wrong(r,
                     r->in_list ? "a member of this list is neither an object nor a text" : "this is no JSON object");
    const char *stop = value_end(r->at, r->end);
    if (stop == NULL) return wrong(r, "this JSON value is never closed");
    if (stop - r->at > INT32_MAX / 2) return wrong(r, "a value of more than 1 GiB");
    const size_t length = (size_t)(stop - r->at);
    if ((*r->at == '{' ? ft_json_parse(r->at, length, "", object) : parse_text(r, length, object)) != FT_OK)
        return at_its_place(r);
    r->record_line = r->line;
    r->values_read++;
    go_to(r, stop);
    return FT_OK;
}

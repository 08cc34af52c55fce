// squad_records.c - SQuAD's JSON, of version 1.1 and 2.0, as records: data, paragraphs, qas. And answers as a cell.
#include "engine/data/tables/records.h"

#include "base/arena.h"
#include "base/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- answers ----------------------------------------------------------------------------------------------------------

static bool is_pair(const json_t *text, const json_t *start) {
    return json_is_string(text) && json_is_integer(start) && json_integer_value(start) >= 0 && json_integer_value(start) <= INT32_MAX &&
           strpbrk(json_string_value(text), "\x1E\x1F") == NULL;
}

static size_t put_pair(char *out, const json_t *text, const json_t *start) {
    return (size_t)sprintf(out, "%lld%c%s%c", (long long)json_integer_value(start), FT_SPAN_SEPARATOR, json_string_value(text), FT_LIST_SEPARATOR);
}

// The text and the start of one of them; false: there are no such.
static bool answer_at(const json_t *answers, size_t i, const json_t **text, const json_t **start) {
    const json_t *from = json_is_array(answers) ? json_array_get(answers, i) : answers;
    *text = json_object_get(from, "text");
    *start = json_object_get(from, "answer_start");
    if (!json_is_array(answers)) *text = json_array_get(*text, i), *start = json_array_get(*start, i);
    return is_pair(*text, *start);
}

static char *no_answers(const char *where) {
    ft_fail(FT_INVALID, where, "these are no answers: texts with the character of the context at which each begins");
    ft_hint("\"answers\": {\"text\": [\"Ada\"], \"answer_start\": [12]}; empty lists are no answer");
    return NULL;
}

char *ft_answers_cell(ft_arena *arena, const char *where, const json_t *answers) {
    const json_t *texts = json_object_get(answers, "text"), *starts = json_object_get(answers, "answer_start"), *text, *start;
    if (json_is_object(answers) && (!json_is_array(texts) || !json_is_array(starts) || json_array_size(texts) != json_array_size(starts)))
        return no_answers(where);
    if (!json_is_object(answers) && !json_is_array(answers) && !json_is_null(answers)) return no_answers(where);
    const size_t count = json_is_array(answers) ? json_array_size(answers) : json_array_size(texts);
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++) {
        if (!answer_at(answers, i, &text, &start)) return no_answers(where);
        bytes += json_string_length(text) + 24;
    }
    char *cell = ft_arena_alloc(arena, bytes), *at = cell;
    if (cell == NULL) return NULL;
    *at = '\0';
    for (size_t i = 0; i < count; i++) {
        answer_at(answers, i, &text, &start);
        at += put_pair(at, text, start);
    }
    return cell;
}

// ---- records ----------------------------------------------------------------------------------------------------------

enum { ID, TITLE, CONTEXT, QUESTION, ANSWERS, KEYS };

struct ft_squad {
    json_t *root;
    const json_t *articles, *paragraphs, *questions; // of the file, of the present article and paragraph
    size_t article, paragraph, question;             // the next of each
    char *title, *context;                           // of the present ones, in the arena
    int missed;                                      // ids that were not found in the file's text
};

void ft_squad_close(ft_records *r) {
    if (r->squad == NULL) return;
    json_decref(r->squad->root);
    free(r->squad);
    r->squad = NULL;
}

static ft_status no_squad(const ft_records *r, const char *what) {
    ft_fail(FT_INVALID, r->file, "%s", what);
    ft_hint("SQuAD's JSON is {\"data\": [{\"title\": ..., \"paragraphs\": [{\"context\": ..., \"qas\": [{\"id\": ..., \"question\": ..., "
            "\"answers\": [{\"text\": ..., \"answer_start\": ...}]}]}]}]}");
    return FT_INVALID;
}

static ft_status keep(ft_records *r, const json_t *text, char **out) {
    *out = ft_arena_strdup(r->arena, json_is_string(text) ? json_string_value(text) : "");
    return *out != NULL ? FT_OK : FT_NO_MEMORY;
}

// Moves on to a paragraph that has a question left; *found false: there is none.
static ft_status find_question(ft_records *r, bool *found) {
    struct ft_squad *s = r->squad;
    while (s->question >= json_array_size(s->questions)) {
        while (s->paragraph >= json_array_size(s->paragraphs)) {
            *found = s->article < json_array_size(s->articles);
            if (!*found) return FT_OK;
            const json_t *article = json_array_get(s->articles, s->article++);
            s->paragraphs = json_object_get(article, "paragraphs");
            s->paragraph = 0;
            if (!json_is_array(s->paragraphs)) return no_squad(r, "an article without \"paragraphs\"");
            FT_TRY(keep(r, json_object_get(article, "title"), &s->title));
        }
        const json_t *paragraph = json_array_get(s->paragraphs, s->paragraph++), *context = json_object_get(paragraph, "context");
        s->questions = json_object_get(paragraph, "qas");
        s->question = 0;
        if (!json_is_array(s->questions) || !json_is_string(context)) return no_squad(r, "a paragraph without \"context\" and \"qas\"");
        FT_TRY(keep(r, context, &s->context));
    }
    *found = true;
    return FT_OK;
}

ft_status ft_squad_record_keys(ft_records *r) {
    static const char *const keys[KEYS] = {"id", "title", "context", "question", "answers"};
    json_t *root;
    bool found;
    FT_TRY(ft_json_parse(r->at, (size_t)(r->end - r->at), r->file, &root));
    r->squad = ft_calloc(1, sizeof *r->squad, "questions");
    if (r->squad == NULL) {
        json_decref(root);
        return FT_NO_MEMORY;
    }
    r->squad->root = root;
    r->squad->articles = json_object_get(root, "data");
    if (!json_is_array(r->squad->articles)) return no_squad(r, "no list \"data\" of articles");
    FT_TRY(find_question(r, &found));
    // Of a test set nobody tells the answers.
    const bool answered = !found || json_object_get(json_array_get(r->squad->questions, 0), "answers") != NULL;
    const char **names = ft_arena_alloc(r->arena, sizeof keys);
    if (names == NULL) return FT_NO_MEMORY;
    memcpy(names, keys, sizeof keys);
    r->keys = names;
    r->key_count = answered ? KEYS : KEYS - 1;
    return FT_OK;
}

static const char *behind_blanks(const char *begin, const char *at) {
    while (at > begin && strchr(" \t\r\n", at[-1]) != NULL && at[-1] != '\0') at--;
    return at;
}

// Is what stands from `at` to `end` the value of "id"? A number has no quotes.
static bool is_id(const char *begin, const char *at, const char *end) {
    const bool text = at > begin && at[-1] == '"';
    if (text ? *end != '"' : strchr(" \t\r\n,}", *end) == NULL || *end == '\0') return false;
    at = behind_blanks(begin, at - text);
    if (at == begin || at[-1] != ':') return false;
    at = behind_blanks(begin, at - 1);
    return at - begin >= 4 && memcmp(at - 4, "\"id\"", 4) == 0;
}

// The line of an id, which stand in the order of the file. One that is written otherwise ("\u0031") is not found, and where many are not no
// more are looked for: each of them costs a look through all that is left.
static void find_line(ft_records *r, const char *id) {
    enum { MOST_MISSED = 16 };
    const size_t length = strlen(id);
    for (char *at = r->at; r->squad->missed < MOST_MISSED && (at = memmem(at, (size_t)(r->end - at), id, length)) != NULL; at++) {
        if (!is_id(r->at, at, at + length)) continue;
        for (const char *c = r->at; c < at; c++) r->line += *c == '\n';
        r->at = at;
        return;
    }
    r->squad->missed++;
}

static ft_status add(ft_records *r, char *text) { return ft_records_add(r, text, strlen(text), r->line, 0); }

static ft_status add_answers(ft_records *r, const char *id, const json_t *answers) {
    char where[512];
    snprintf(where, sizeof where, "%.300s:%lld, question %.100s", r->file, (long long)r->line, id);
    char *cell = answers == NULL ? ft_arena_strdup(r->arena, "") : ft_answers_cell(r->arena, where, answers);
    return cell != NULL ? add(r, cell) : ft_error_code();
}

ft_status ft_squad_record_next(ft_records *r, bool *found) {
    struct ft_squad *s = r->squad;
    FT_TRY(find_question(r, found));
    if (!*found) return FT_OK;
    const json_t *qa = json_array_get(s->questions, s->question++), *id = json_object_get(qa, "id"), *question = json_object_get(qa, "question");
    char number[24] = "", *text;
    if (json_is_integer(id)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(id));
    const char *name = json_is_string(id) ? json_string_value(id) : number;
    if (!json_is_string(question) || name[0] == '\0') return no_squad(r, "a question without \"id\" and \"question\"");
    find_line(r, name);
    r->count = 0;
    r->record_line = r->line;
    FT_TRY(keep(r, question, &text));
    char *own_id = ft_arena_strdup(r->arena, name);
    if (own_id == NULL) return FT_NO_MEMORY;
    FT_TRY(add(r, own_id));
    FT_TRY(add(r, s->title));
    FT_TRY(add(r, s->context));
    FT_TRY(add(r, text));
    return r->key_count == KEYS ? add_answers(r, name, json_object_get(qa, "answers")) : FT_OK;
}

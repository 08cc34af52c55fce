#include "engine/data/labels/tags.h"

#include "base/nearest.h"
#include "engine/data/tables/name_set.h"
#include "engine/data/tables/records.h"

#include <stdlib.h>
#include <string.h>

// ---- cells ----------------------------------------------------------------------------------------------------------

typedef struct member {
    const char *text; // no NUL behind it
    size_t length;
} member;

// The next member of a list; false behind the last.
static bool next_member(const char **at, member *m) {
    const char *stop = strchr(*at, FT_LIST_SEPARATOR);
    if (stop == NULL) return false;
    *m = (member){*at, (size_t)(stop - *at)};
    *at = stop + 1;
    return true;
}

static bool is_none(member m) {
    return m.length == 0 || (m.length == 1 && m.text[0] == '_') || (m.length == 4 && memcmp(m.text, "-100", 4) == 0);
}

typedef struct span {
    int64_t start, end;
    member label;
} span;

static bool read_span(member m, span *s) {
    const char *second = memchr(m.text, FT_SPAN_SEPARATOR, m.length);
    if (second == NULL) return false;
    const char *third = memchr(second + 1, FT_SPAN_SEPARATOR, m.length - (size_t)(second + 1 - m.text));
    if (third == NULL) return false;
    s->start = strtoll(m.text, NULL, 10);
    s->end = strtoll(second + 1, NULL, 10);
    s->label = (member){third + 1, m.length - (size_t)(third + 1 - m.text)};
    return true;
}

static bool is_spans(const char *cell) { return strchr(cell, FT_SPAN_SEPARATOR) != NULL; }

// An empty cell may be either. A column may have none but these.
static bool has_spans(const ft_table *table) {
    const char *column = table->label_column != NULL ? table->label_column : "";
    if (strcmp(column, "entities") == 0 || strcmp(column, "spans") == 0) return true;
    for (int64_t row = 0; row < table->rows; row++)
        if (is_spans(table->label[row])) return true;
    return false;
}

// Of a tag with its prefix.
enum { MOST_BYTES = 255 };

static size_t bytes_of(const char *prefix, member m) { return strlen(prefix) + m.length; }

static ft_status too_long(const char *prefix, member m, const char *where) {
    return ft_fail(FT_INVALID, where, "the tag \"%s%.40s...\" has %zu bytes: at most %d are allowed", prefix, m.text, bytes_of(prefix, m), MOST_BYTES);
}

// ---- which tags there are -------------------------------------------------------------------------------------------

typedef struct collecting {
    ft_arena *arena;
    ft_name_set seen;
    const char **name;
    size_t count, capacity;
} collecting;

static ft_status collect(collecting *c, const char *prefix, member m) {
    const char *name = ft_arena_format(c->arena, "%s%.*s", prefix, (int)m.length, m.text);
    if (name == NULL) return FT_NO_MEMORY;
    if (ft_name_set_find(&c->seen, name) != NULL) return FT_OK;
    if (c->count == c->capacity) {
        const size_t capacity = 2 * c->capacity + 64;
        const char **grown = ft_realloc(c->name, capacity, sizeof *grown, "tags");
        if (grown == NULL) return FT_NO_MEMORY;
        c->name = grown;
        c->capacity = capacity;
    }
    c->name[c->count++] = name;
    return ft_name_set_add(&c->seen, name);
}

// What is wrong with a span, and a tag of another table that is too long, is refused where it is assigned.
static ft_status collect_member(collecting *c, bool spans, member m) {
    span s;
    if (!spans) return is_none(m) ? FT_OK : collect(c, "", m);
    if (!read_span(m, &s)) return FT_OK;
    FT_TRY(collect(c, "B-", s.label));
    FT_TRY(collect(c, "I-", s.label));
    return collect(c, "", (member){"O", 1});
}

static size_t bytes_of_member(bool spans, member m) {
    span s;
    return !spans ? bytes_of("", m) : read_span(m, &s) ? bytes_of("B-", s.label) : 0;
}

static ft_status refuse_long(bool spans, member m, const char *where) {
    span s;
    return spans && read_span(m, &s) ? too_long("B-", s.label, where) : too_long("", m, where);
}

// The tag before it is most often the same: then nothing is to be looked up. path: of the file, NULL for another table.
static ft_status collect_table(collecting *c, const ft_table *table, const char *path) {
    char room[512];
    member m, before = {"", 0};
    for (int64_t row = 0; row < table->rows; row++) {
        const bool spans = is_spans(table->label[row]);
        for (const char *at = table->label[row]; next_member(&at, &m); before = m) {
            if (m.length == before.length && memcmp(m.text, before.text, m.length) == 0) continue;
            if (bytes_of_member(spans, m) <= MOST_BYTES) FT_TRY(collect_member(c, spans, m));
            else if (path != NULL) return refuse_long(spans, m, ft_table_where(table, path, row, room));
        }
    }
    return FT_OK;
}

ft_status ft_tags_labels(const ft_table *table, const ft_table *other, const char *path, ft_arena *arena, ft_labels *labels) {
    if (table->label == NULL) return ft_fail(FT_INVALID, path, "the file has no tags");
    collecting c = {.arena = &(ft_arena){0}};
    ft_status status = collect_table(&c, table, path);
    if (status == FT_OK && other != NULL && other->label != NULL) status = collect_table(&c, other, NULL);
    if (status == FT_OK && c.count == 0) {
        status = ft_fail(FT_INVALID, path, "no word has a tag");
        ft_hint("train.task = token_classification takes CoNLL's columns, or JSON lines with a list of words and one of tags, or a text and "
                "spans of it");
    }
    ft_table members = {.rows = (int64_t)c.count, .label = c.name};
    if (status == FT_OK) status = ft_labels_from_table(&members, arena, labels);
    labels->kind = FT_LABELS_TAGS;
    free(c.name);
    ft_name_set_free(&c.seen);
    ft_arena_free(c.arena);
    return status;
}

// ---- the tags of a row ----------------------------------------------------------------------------------------------

static int find_tag(const ft_tag_source *source, const char *prefix, member m) {
    char name[MOST_BYTES + 1];
    const int length = snprintf(name, sizeof name, "%s%.*s", prefix, (int)m.length, m.text);
    return length < (int)sizeof name ? ft_label_index_find(&source->index, name) : -1;
}

static ft_status unknown(const ft_labels *labels, const char *prefix, member m, const char *where) {
    char name[MOST_BYTES + 1];
    if (bytes_of(prefix, m) > MOST_BYTES) return too_long(prefix, m, where);
    snprintf(name, sizeof name, "%s%.*s", prefix, (int)m.length, m.text);
    ft_fail(FT_INVALID, where, "unknown tag \"%.100s\"", name);
    const char *near = ft_nearest(name, labels->count, labels->names);
    if (near != NULL) ft_hint("did you mean \"%.100s\"?", near);
    return FT_INVALID;
}

static ft_status tags_of_list(const ft_tag_source *source, const char *cell, const ft_word_list *words, const char *where, int32_t *tag) {
    size_t count = 0;
    member m, before = {"", 0};
    int32_t known = -1;
    for (const char *at = cell; next_member(&at, &m); before = m, count++) {
        if (count >= words->count) continue;
        if (before.length != m.length || memcmp(before.text, m.text, m.length) != 0) {
            known = is_none(m) ? -1 : find_tag(source, "", m);
            if (known < 0 && !is_none(m)) return unknown(source->labels, "", m, where);
        }
        tag[count] = known;
    }
    if (count == words->count) return FT_OK;
    return ft_fail(FT_INVALID, where, "%zu word%s and %zu tag%s", words->count, words->count == 1 ? "" : "s", count, count == 1 ? "" : "s");
}

static ft_status tag_span(const ft_tag_source *source, const span *s, const ft_word_list *words, const char *where, int32_t *tag) {
    const int begin = find_tag(source, "B-", s->label), inside = find_tag(source, "I-", s->label);
    const int length = (int)(s->label.length < 60 ? s->label.length : 60);
    if (begin < 0) return unknown(source->labels, "B-", s->label, where);
    bool any = false;
    for (size_t i = 0; i < words->count; i++) {
        if (words->word[i].first >= s->end || words->word[i].last <= s->start) continue;
        if (tag[i] >= 0)
            return ft_fail(FT_INVALID, where, "the span %lld to %lld (%.*s) and another one share a word: a word has one tag", (long long)s->start,
                           (long long)s->end, length, s->label.text);
        tag[i] = any && inside >= 0 ? inside : begin;
        any = true;
    }
    if (any) return FT_OK;
    ft_fail(FT_INVALID, where, "the span %lld to %lld (%.*s) holds no word", (long long)s->start, (long long)s->end, length, s->label.text);
    ft_hint("spans are of characters from 0, the end not included");
    return FT_INVALID;
}

// Characters of a text; of a list of words with spaces between them.
static int64_t characters(const ft_table *table, int64_t row) {
    int64_t count = 0;
    const char *text = table->text[row];
    const size_t length = table->text_length[row];
    for (size_t i = 0; i < length; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count - ft_text_is_words(text, length);
}

// Does one of its ends lie inside a word?
static bool cuts_a_word(const span *s, const ft_word_list *words) {
    for (size_t i = 0; i < words->count; i++) {
        const ft_word *w = &words->word[i];
        if ((s->start > w->first && s->start < w->last) || (s->end > w->first && s->end < w->last)) return true;
    }
    return false;
}

static ft_status tags_of_spans(ft_tag_source *source, int64_t row, const ft_word_list *words, const char *where, int32_t *tag) {
    const char *cell = source->table->label[row];
    const int64_t end = *cell != '\0' ? characters(source->table, row) : 0;
    member m;
    span s;
    for (size_t i = 0; i < words->count; i++) tag[i] = -1;
    for (const char *at = cell; next_member(&at, &m);) {
        if (!read_span(m, &s)) return ft_fail(FT_INVALID, where, "\"%.*s\" is no span", (int)(m.length < 60 ? m.length : 60), m.text);
        if (s.start < 0 || s.end <= s.start || s.end > end)
            return ft_fail(FT_INVALID, where, "the span %lld to %lld is none of this text, which has %lld characters", (long long)s.start,
                           (long long)s.end, (long long)end);
        FT_TRY(tag_span(source, &s, words, where, tag));
        source->spans_read++;
        source->spans_cutting += cuts_a_word(&s, words);
    }
    const int outside = find_tag(source, "", (member){"O", 1});
    for (size_t i = 0; i < words->count; i++)
        if (tag[i] < 0) tag[i] = outside;
    return FT_OK;
}

ft_status ft_tags_open(const ft_labels *labels, const ft_table *table, const char *path, ft_tag_source *source) {
    *source = (ft_tag_source){.labels = labels, .table = table, .path = path, .empty_is_spans = table->label != NULL && has_spans(table)};
    return ft_label_index_make(labels, &source->index);
}

void ft_tags_close(ft_tag_source *source) { ft_label_index_free(&source->index); }

ft_status ft_tags_of_row(ft_tag_source *source, int64_t row, const ft_word_list *words, int32_t *tag) {
    const ft_table *table = source->table;
    const char *cell = table->label[row];
    char room[512];
    const char *where = ft_table_where(table, source->path, row, room);
    const bool list = ft_text_is_words(table->text[row], table->text_length[row]);
    if (*cell != '\0' && strchr(cell, FT_LIST_SEPARATOR) == NULL) {
        ft_fail(FT_INVALID, where, "\"%.60s\" is neither a list of tags nor of spans", cell);
        ft_hint("JSON lines: \"tokens\": [\"Ada\", ...] with \"tags\": [\"B-PER\", ...], or \"text\": \"Ada ...\" with \"entities\": [[0, 3, \"PER\"]]");
        return FT_INVALID;
    }
    if (is_spans(cell) || (*cell == '\0' && (!list || source->empty_is_spans))) return tags_of_spans(source, row, words, where, tag);
    return tags_of_list(source, cell, words, where, tag);
}

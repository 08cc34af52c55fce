#include "engine/data/tables/formats.h"

#include "engine/data/tables/parquet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const struct {
    const char *name;
    ft_format format;
} names[] = {{"auto", FT_FORMAT_AUTO},
             {"tsv", FT_FORMAT_TSV},
             {"csv", FT_FORMAT_CSV},
             {"jsonl", FT_FORMAT_JSONL},
             {"text", FT_FORMAT_TEXT},
             {"conll", FT_FORMAT_CONLL},
             {"squad", FT_FORMAT_SQUAD}};
enum { NAMES = sizeof names / sizeof names[0] };

bool ft_format_from_name(const char *name, ft_format *format) {
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        *format = names[i].format;
        return true;
    }
    return false;
}

const char *ft_format_name(ft_format format) {
    for (int i = 0; i < NAMES; i++)
        if (names[i].format == format) return names[i].name;
    return "?";
}

// Does path[0 .. length) end in `end`? Then *length loses it.
static bool take_end(const char *path, size_t *length, const char *end) {
    size_t n = strlen(end);
    if (*length <= n || strncasecmp(path + *length - n, end, n) != 0) return false;
    *length -= n;
    return true;
}

ft_format ft_format_of_name(const char *path) {
    size_t length = strlen(path);
    if (!take_end(path, &length, ".gz") && !take_end(path, &length, ".zst")) take_end(path, &length, ".zstd");
    if (take_end(path, &length, ".tsv")) return FT_FORMAT_TSV;
    static const char *const conll[] = {".conll", ".conllu", ".conll2003", ".bio", ".iob", ".iob2"};
    for (size_t i = 0; i < sizeof conll / sizeof *conll; i++)
        if (take_end(path, &length, conll[i])) return FT_FORMAT_CONLL;
    if (take_end(path, &length, ".csv")) return FT_FORMAT_CSV;
    if (take_end(path, &length, ".jsonl") || take_end(path, &length, ".ndjson")) return FT_FORMAT_JSONL;
    return FT_FORMAT_AUTO;
}

static size_t first_line(const char *data, size_t length) {
    const char *end = length > 0 ? memchr(data, '\n', length) : NULL;
    return end != NULL ? (size_t)(end - data) : length;
}

ft_format ft_format_of_content(const char *data, size_t length) {
    size_t at = 0;
    while (at < length && (data[at] == ' ' || data[at] == '\n' || data[at] == '\r')) at++;
    if (at < length && (data[at] == '{' || data[at] == '[')) return FT_FORMAT_JSONL; // or a list of objects
    size_t line = first_line(data, length);
    if (line > 0 && memchr(data, '\t', line) != NULL) return FT_FORMAT_TSV;
    return line > 0 && (memchr(data, ',', line) != NULL || memchr(data, ';', line) != NULL) ? FT_FORMAT_CSV : FT_FORMAT_TSV;
}

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static bool follows(const char *data, size_t length, size_t *at, const char *marks) {
    for (; *marks != '\0'; marks++) {
        while (*at < length && is_blank(data[*at])) ++*at;
        if (*at >= length || data[(*at)++] != *marks) return false;
    }
    return true;
}

// A quote inside of a JSON string has a backslash: the name with its quotes and a colon behind it is a key. `value`: how what it names begins.
static bool has_key(const char *data, size_t length, const char *key, const char *value) {
    const size_t bytes = strlen(key);
    size_t at = 0;
    for (const char *found; (found = memmem(data + at, length - at, key, bytes)) != NULL;) {
        at = (size_t)(found - data) + bytes;
        if (follows(data, length, &at, ":") && follows(data, length, &at, value)) return true;
    }
    return false;
}

bool ft_content_is_squad(const char *data, size_t length) {
    size_t at = 0;
    while (at < length && is_blank(data[at])) at++;
    return at < length && data[at] == '{' && has_key(data, length, "\"paragraphs\"", "");
}

static bool has_questions(const char *data, size_t length) {
    return ft_content_is_squad(data, length) ||
           (has_key(data, length, "\"question\"", "") && has_key(data, length, "\"context\"", "") && has_key(data, length, "\"answers\"", ""));
}

// Lists of words and of tags, or spans: lists of lists, or of objects. Several labels of a text are a list of names.
static bool has_tags(const char *data, size_t length) {
    static const char *const lists[] = {"\"ner_tags\"", "\"tags\"", "\"pos_tags\"", "\"ner\""}, *const spans[] = {"\"entities\"", "\"spans\"", "\"label\"", "\"labels\""};
    const bool words = has_key(data, length, "\"tokens\"", "[") || has_key(data, length, "\"words\"", "[");
    for (size_t i = 0; words && i < sizeof lists / sizeof *lists; i++)
        if (has_key(data, length, lists[i], "[")) return true;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (has_key(data, length, spans[i], "[[") || has_key(data, length, spans[i], "[{")) return true;
    return false;
}

// B-PER and its like, of IOB, IOBES and BILOU.
static bool is_tag(const char *at, size_t length) {
    return (length == 1 && *at == 'O') || (length > 2 && at[1] == '-' && memchr("BIESLUM", at[0], 7) != NULL);
}

// Of a line without its end: how many columns it has, and whether the last one is a tag.
static int columns_of(const char *line, size_t length, bool *tag) {
    const bool tabs = memchr(line, '\t', length) != NULL;
    int columns = 0;
    *tag = false;
    for (size_t at = 0; at < length;) {
        const char *stop = memchr(line + at, tabs ? '\t' : ' ', length - at);
        const size_t bytes = stop != NULL ? (size_t)(stop - line) - at : length - at;
        if (tabs || bytes > 0) columns++;
        if (tabs || bytes > 0) *tag = is_tag(line + at, bytes);
        at += bytes + 1;
    }
    return columns;
}

bool ft_content_is_tagged(const char *data, size_t length) {
    int lines = 0, columns = 0;
    for (size_t at = 0, next; at < length; at = next) {
        const char *stop = memchr(data + at, '\n', length - at);
        if (stop == NULL) break; // there may be more of it
        next = (size_t)(stop - data) + 1;
        size_t bytes = next - 1 - at;
        while (bytes > 0 && is_blank(data[at + bytes - 1])) bytes--;
        if (bytes == 0 || (bytes >= 10 && memcmp(data + at, "-DOCSTART-", 10) == 0)) continue;
        bool tag;
        const int count = columns_of(data + at, bytes, &tag);
        if (count < 2 || !tag || (lines > 0 && count != columns)) return false;
        columns = count;
        lines++;
    }
    return lines >= 2;
}

static ft_task task_of_content(const char *data, size_t length, ft_format format) {
    const bool object = format == FT_FORMAT_JSONL || (format == FT_FORMAT_AUTO && ft_format_of_content(data, length) == FT_FORMAT_JSONL);
    if (object && has_questions(data, length)) return FT_TASK_QUESTION_ANSWERING;
    const bool tags = object ? has_tags(data, length) : (format == FT_FORMAT_AUTO || format == FT_FORMAT_TSV) && ft_content_is_tagged(data, length);
    return tags ? FT_TASK_TOKEN_CLASSIFICATION : FT_TASK_AUTO;
}

ft_task ft_file_task(const char *path, ft_format format) {
    enum { LOOK = 1 << 16 };
    if (format == FT_FORMAT_AUTO) format = ft_format_of_name(path);
    if (format == FT_FORMAT_CONLL) return FT_TASK_TOKEN_CLASSIFICATION;
    if (format == FT_FORMAT_SQUAD) return FT_TASK_QUESTION_ANSWERING;
    struct stat facts;
    const bool regular = stat(path, &facts) == 0 && S_ISREG(facts.st_mode); // what is read of a pipe is gone
    char *data = regular ? malloc(LOOK) : NULL;
    FILE *file = data != NULL ? fopen(path, "rbe") : NULL;
    size_t length = file != NULL ? fread(data, 1, LOOK, file) : 0;
    if (ft_is_parquet(data, length)) length = ft_parquet_peek(path, data, LOOK), format = FT_FORMAT_JSONL;
    const ft_task task = length > 0 ? task_of_content(data, length, format) : FT_TASK_AUTO;
    if (file != NULL) fclose(file);
    free(data);
    return task;
}

char ft_csv_delimiter(const char *data, size_t length) {
    static const char candidates[] = ",;\t|"; // of several that occur equally often, the first
    size_t line = first_line(data, length);
    char best = ',';
    int most = 0;
    for (const char *c = candidates; *c != '\0'; c++) {
        int count = 0;
        bool quoted = false;
        for (size_t i = 0; i < line; i++) {
            if (data[i] == '"') quoted = !quoted;
            count += !quoted && data[i] == *c;
        }
        if (count > most) most = count, best = *c;
    }
    return best;
}

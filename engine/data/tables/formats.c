#include "engine/data/tables/formats.h"

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
    if (at < length && (data[at] == '{' || data[at] == '[')) return FT_FORMAT_JSONL; // a list is refused there, with a hint
    size_t line = first_line(data, length);
    if (line > 0 && memchr(data, '\t', line) != NULL) return FT_FORMAT_TSV;
    return line > 0 && (memchr(data, ',', line) != NULL || memchr(data, ';', line) != NULL) ? FT_FORMAT_CSV : FT_FORMAT_TSV;
}

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// A quote inside of a JSON string has a backslash: the name with its quotes and a colon behind it is a key.
static bool has_key(const char *data, size_t length, const char *key) {
    const size_t bytes = strlen(key);
    size_t at = 0;
    for (const char *found; (found = memmem(data + at, length - at, key, bytes)) != NULL;) {
        at = (size_t)(found - data) + bytes;
        while (at < length && is_blank(data[at])) at++;
        if (at < length && data[at] == ':') return true;
    }
    return false;
}

bool ft_content_is_squad(const char *data, size_t length) {
    size_t at = 0;
    while (at < length && is_blank(data[at])) at++;
    return at < length && data[at] == '{' && has_key(data, length, "\"paragraphs\"");
}

bool ft_file_has_questions(const char *path) {
    enum { LOOK = 1 << 16 };
    struct stat facts;
    const bool regular = stat(path, &facts) == 0 && S_ISREG(facts.st_mode); // what is read of a pipe is gone
    char *data = regular ? malloc(LOOK) : NULL;
    FILE *file = data != NULL ? fopen(path, "rbe") : NULL;
    const size_t length = file != NULL ? fread(data, 1, LOOK, file) : 0;
    const bool object = ft_format_of_content(data, length) == FT_FORMAT_JSONL;
    const bool found = object && (ft_content_is_squad(data, length) || (has_key(data, length, "\"question\"") && has_key(data, length, "\"context\"") &&
                                                                        has_key(data, length, "\"answers\"")));
    if (file != NULL) fclose(file);
    free(data);
    return found;
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

// json.h - text to Jansson's values and back, and small helpers over them: errors with file:line and key, typed getters
// with the key in the message.
#ifndef FT_JSON_H
#define FT_JSON_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// Parses a file (UTF-8, duplicate keys refused, depth limited). FT_INVALID with file:line:column.
// An integer beyond int64 (the 1e30 that tokenizer files write out in digits) becomes a real number.
ft_status ft_json_load(const char *path, json_t **root);
ft_status ft_json_parse(const char *text, size_t length, const char *path_for_errors, json_t **root);
// Writes atomically, indented, keys in insertion order, shortest round-trip numbers, trailing newline.
ft_status ft_json_save(const char *path, const json_t *root);
// The same text to a stream; a failed write is left in ferror(out).
void ft_json_write(FILE *out, const json_t *root);
// One line without spaces and without its end; free() it. NULL with the error set when out of memory, also when `root`
// is NULL. (json_dumps leaves strings out in silence when an allocation fails.)
char *ft_json_line(const json_t *root);
// A copy whose values are shared; NULL with the error set. (json_copy leaves members out in the same way.)
json_t *ft_json_copy_object(const json_t *object);
// Calls `take` for every line of a JSON-lines file; an absent file has none. Whatever `take` returns ends the reading
// unless it is FT_OK. A last line without its end is being written, and passed over. FT_INVALID: a line is no JSON object.
typedef ft_status (*ft_take_line)(void *context, const json_t *line);
ft_status ft_json_lines_read(const char *path, ft_take_line take, void *context);
// The same a line at a time, of several files in turn: each is open only while it is read, if `several` says so.
typedef struct ft_json_lines {
    const char *path; // kept by reference
    bool several;
    FILE *in;         // NULL: between two lines
    int64_t at, number;
} ft_json_lines; // {.path = ...}: in front of the first line
// Room for a line, which may be that of many readers; free() its text.
typedef struct ft_json_line_room {
    char *text;
    size_t capacity;
} ft_json_line_room;
// *value: the next object, to be given back; NULL: there is none, or it is still being written.
ft_status ft_json_lines_next(ft_json_lines *lines, ft_json_line_room *room, json_t **value);
void ft_json_lines_close(ft_json_lines *lines);
// Sets object[key] and takes `value`; *failed becomes true when either is NULL or there is no memory. For building
// documents: put everything, then look at `failed` once.
void ft_json_put(json_t *object, const char *key, json_t *value, bool *failed);
void ft_json_append(json_t *array, json_t *value, bool *failed);
// A string; bytes that are no UTF-8 (a path may hold them) become '?'.
json_t *ft_json_text(const char *text);
// A real number with at most `digits` significant digits, for figures whose last bits mean nothing; null when not finite.
json_t *ft_json_rounded(double value, int digits);
// The shortest text that strtod turns into `value` again; always with a '.' or an exponent. value must be finite.
enum { FT_REAL_TEXT = 40 };
void ft_real_text(double value, char text[FT_REAL_TEXT]);
// The text of ft_json_rounded(value, digits), for who writes many numbers and no tree. 1 <= digits <= 17.
void ft_rounded_text(double value, int digits, char text[FT_REAL_TEXT]);

// Getters: absent key gives the default; a value of the wrong JSON type or out of range is FT_INVALID (path, key).
// null counts as absent. An integer is a number too, a number with a fraction or exponent is no integer.
ft_status ft_json_int(const json_t *object, const char *path, const char *key, int64_t fallback, int64_t low,
                      int64_t high, int64_t *out);
ft_status ft_json_number(const json_t *object, const char *path, const char *key, double fallback, double *out);
ft_status ft_json_bool(const json_t *object, const char *path, const char *key, bool fallback, bool *out);
ft_status ft_json_string(const json_t *object, const char *path, const char *key, const char *fallback,
                         const char **out);

#endif

// pyjson.h - JSON as Python's json module writes it, which Optuna's database is full of: any value may stand alone, and
// NaN, Infinity and -Infinity are words.
#ifndef FT_HPO_PYJSON_H
#define FT_HPO_PYJSON_H

#include "hpo/search/history/distribution.h"

#include <jansson.h>
#include <stdio.h>

// Parses one value. Jansson has no room for numbers that are not finite: they become objects with the word as only key.
ft_status ft_pyjson_parse(const char *text, const char *where, json_t **root);
// A number, finite or not; false when `value` is none.
bool ft_pyjson_number(const json_t *value, double *out);
// null, a boolean, a number or a text; false for lists and objects. Texts stay owned by `value`.
bool ft_pyjson_scalar(const json_t *value, ft_choice *out);

// Writers: as Python does it, in ASCII.
void ft_pyjson_write_text(FILE *out, const char *text);
void ft_pyjson_write_number(FILE *out, double value); // always with a point or an exponent: a float for Python
void ft_pyjson_write_scalar(FILE *out, const ft_choice *value);
void ft_pyjson_write_value(FILE *out, const json_t *value); // what ft_pyjson_parse has made

// A stream into a text on the heap: open, write, then close, which gives the text (free() it) or FT_NO_MEMORY.
typedef struct ft_text_stream {
    FILE *file;
    char *data;
    size_t length;
} ft_text_stream;
ft_status ft_text_open(ft_text_stream *stream);
ft_status ft_text_close(ft_text_stream *stream, char **text);
ft_status ft_pyjson_text(const json_t *value, char **text); // free() it

#endif

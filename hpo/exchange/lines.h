// lines.h - the lines of an exported study (exchange.h), one after the other, and what each says; for who stores them
// (import.c) and who only reads them (read.c). What is not as we write it is FT_INVALID with file:line.
#ifndef FT_HPO_EXCHANGE_LINES_H
#define FT_HPO_EXCHANGE_LINES_H

#include "hpo/search/history/trials.h"

#include <jansson.h>

typedef struct ft_lines {
    const char *path; // as people know it
    char *data, *at;  // the whole file, the next line
    int line;
    char where[512]; // file:line
} ft_lines;

enum { FT_LINES_OBJECTIVES = 64 };

// A file, "-" is standard input; also packed, with gzip or Zstandard. ft_lines_close() it, whatever comes of it.
ft_status ft_lines_open(const char *path, ft_lines *lines);
void ft_lines_close(ft_lines *lines);
// The next line that is not empty, an object; NULL at the end of the file. json_decref() it.
ft_status ft_lines_next(ft_lines *lines, json_t **line);
// After an error: it says where in the file, whoever found it.
void ft_lines_place_error(const ft_lines *lines);

// An error of the line that was read last.
ft_status ft_lines_bad(const ft_lines *lines, const char *key, const char *what);
// A number, or one of the words for those that JSON has none for.
bool ft_lines_number(const json_t *value, double *out);
// An object of the line; *out = NULL: it has none.
ft_status ft_lines_object(const ft_lines *lines, const json_t *line, const char *key, json_t **out);

// A line that begins a study. The name lives as long as the line.
ft_status ft_lines_study(const ft_lines *lines, const json_t *line, const char **name,
                         bool maximize[FT_LINES_OBJECTIVES], int *objectives);
// A trial: its number and how it ended, if it did; its values, of a study with so many objectives.
ft_status ft_lines_trial(const ft_lines *lines, const json_t *line, int64_t *number, ft_trial_state *state);
ft_status ft_lines_values(const ft_lines *lines, const json_t *line, ft_trial_state state, int objectives,
                          double values[FT_LINES_OBJECTIVES], int *count);
// Calls `take` with each parameter, and with each report.
typedef ft_status ft_lines_take_param(void *context, const char *name, const ft_distribution *distribution,
                                      double value);
typedef ft_status ft_lines_take_report(void *context, int64_t step, double value);
ft_status ft_lines_params(const ft_lines *lines, const json_t *line, ft_lines_take_param *take, void *context);
ft_status ft_lines_reports(const ft_lines *lines, const json_t *line, ft_lines_take_report *take, void *context);

#endif

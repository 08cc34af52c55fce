// exchange.h - a study as text: JSON lines that hold all of it and can be read back, and CSV for spreadsheets.
//
// JSON lines: first the study, then one line a trial, in order of number.
//     {"format_version": 1, "study": "a", "directions": ["maximize"], "metric_names": ["eval.accuracy"],
//      "user_attributes": {...}, "system_attributes": {...}}
//     {"number": 0, "state": "COMPLETE", "values": [0.93], "datetime_start": "2026-11-21 10:00:00.000000",
//      "datetime_complete": ..., "params": {"train.learning_rate": 3e-05}, "distributions": {...},
//      "intermediate_values": {"1": 0.9}, "constraints": {"0": -1.0}, "user_attributes": {...},
//      "system_attributes": {...}}
// Parameters are as people write them (a choice itself, not its index), distributions as in Optuna's database, times in
// UTC. JSON has no words for numbers that are not finite: among values, intermediate values, constraints and parameters
// they are the strings "NaN", "Infinity", "-Infinity", within attributes and distributions {"NaN": 0} and so on. Of
// failed trials, and of pruned ones with several objectives, values are left out: nobody reads them.
#ifndef FT_HPO_EXCHANGE_H
#define FT_HPO_EXCHANGE_H

#include "hpo/storage/storage.h"

#include <jansson.h>
#include <stdio.h>

// The two kinds of lines as values; json_decref() them. NULL only with an error.
ft_status ft_exchange_study(ft_stored *study, json_t **out);
ft_status ft_exchange_trial(ft_stored *study, int64_t number, json_t **out);
// A parameter's value as JSON: a number, or its choice. NULL when out of memory.
json_t *ft_exchange_value(const ft_distribution *distribution, double value);
// A number, or one of the three words.
json_t *ft_exchange_number(double value);

// "2026-11-21 10:00:00.000000" in UTC of microseconds since 1970, "" of -1.
enum { FT_EXCHANGE_TIME = 64 };
void ft_exchange_time(int64_t microseconds, char text[FT_EXCHANGE_TIME]);

// A failed write is left in ferror(out).
ft_status ft_export_jsonl(ft_stored *study, FILE *out);
// One line a trial behind a line of names: number, state, value (value_0, ...), datetime_start, datetime_complete,
// seconds, constraint_NAME, param_NAME, user_KEY. Empty: the trial has none. Quoted where needed (RFC 4180).
ft_status ft_export_csv(ft_stored *study, FILE *out);

// Reads JSON lines, also packed ones (gzip, Zstandard), into a new study of an open database, all or nothing; `name`
// NULL: the name in the file. Numbers, times and attributes stay as they are. `path` "-" is standard input. FT_INVALID
// with file:line for anything that is no such export, and when the name is taken.
ft_status ft_import_jsonl(const char *path, ft_storage *to, const char *name, ft_stored **out);

// Reads them into memory alone, without times and attributes, and calls `take` with each study: exports may stand one
// behind the other in a file, and trials may have been left out of it. What it is given lives for the call.
typedef ft_status ft_exchange_taker(void *context, const char *study, const ft_trials *trials);
ft_status ft_exchange_read(const char *path, ft_exchange_taker *take, void *context);

#endif

// formats.h - which format a data file has: by its name, else by its first line.
#ifndef FT_FORMATS_H
#define FT_FORMATS_H

#include "engine/config/config.h"

#include <stdbool.h>
#include <stddef.h>

// What the end of a path says, .gz and .zst left aside: .tsv, .csv, .jsonl and .ndjson, .conll, .bio, .iob2 and the like; FT_FORMAT_AUTO: nothing.
ft_format ft_format_of_name(const char *path);
// What UTF-8 bytes look like: JSON lines when they begin with '{', else by the first line: TSV when it has a tab, CSV when
// it has a comma or a semicolon, TSV of one column otherwise.
ft_format ft_format_of_content(const char *data, size_t length);
// Is it one JSON object with SQuAD's "paragraphs", and not JSON lines?
bool ft_content_is_squad(const char *data, size_t length);
// Is it CoNLL's columns with tags of entities: at least two lines, all of as many columns, of which the last one is "O" or a tag as "B-PER"?
bool ft_content_is_tagged(const char *data, size_t length);
// What a file is for, where `format`, its name or, of a file that is not packed, its beginning says so: question_answering of SQuAD's JSON and of JSON
// lines with "question", "context" and "answers"; token_classification of CoNLL's columns, and of JSON lines with words and a list of tags, or with
// spans. FT_TASK_AUTO: nothing does, or nothing can be read.
ft_task ft_file_task(const char *path, ft_format format);
// What separates the columns of a CSV file: the one of , ; tab | that its first line has most often outside quotes.
char ft_csv_delimiter(const char *data, size_t length);

// "tsv", "csv", "jsonl", "text", "conll", "squad", "auto" to a format; else false.
bool ft_format_from_name(const char *name, ft_format *format);
const char *ft_format_name(ft_format format);

#endif

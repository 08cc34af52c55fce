// table_request.h - what of a file of texts is wanted.
#ifndef FT_TABLE_REQUEST_H
#define FT_TABLE_REQUEST_H

#include "engine/config/config.h"

#include <stdbool.h>

typedef enum ft_table_label { FT_LABEL_REQUIRED, FT_LABEL_OPTIONAL, FT_LABEL_IGNORED } ft_table_label;

// What of a file is wanted. Columns: a header name, "" = found by usual names (text: sentence, text, review, question,
// content...; label: label, labels, class, category, target...). pair and id NULL: none; pair "" is none too.
typedef struct ft_table_request {
    ft_format format; // AUTO: by name, then by content; TEXT: every line is a text without a label
    bool plain;       // AUTO means plain text where neither name nor columns say otherwise
    const char *text, *pair, *label, *id; // label: one column, or several separated by commas
    ft_table_label need;
    bool words;         // of texts the words, with a tag each or spans: AUTO is JSON lines or CoNLL's columns (with `plain` also a text a line)
    bool questions;     // the text is a question, the second text the passage that answers it, the label its answers (answers.h): AUTO may be SQuAD's JSON too
    bool language;     // texts to go on with: "text", "prompt" and "completion", or "messages"; there are no labels, and AUTO may be plain text
    bool prompts;      // of these a prompt without its completion will do
    bool pictures;     // the text is the path of a picture (../pictures/source.h), of data.image in messages: other things than files will do too
    bool empty_labels; // an empty label is a label: none of the classes holds
} ft_table_request;

// Which columns that comes to.
enum { FT_NO_COLUMN = -1 };

typedef struct ft_selection {
    int text, pair, id;
    int label_count; // 0: none
    int *label;      // [label_count], in the arena
} ft_selection;

#endif

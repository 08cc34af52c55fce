// answers.h - the answers of a question: texts, and where in the passage each begins.
//
// In a file: SQuAD's JSON, or JSON lines whose "answers" are {"text": [...], "answer_start": [...]}, starts in characters (code points). A question
// may have several answers, which are as good as one another, or none.
#ifndef FT_ANSWERS_H
#define FT_ANSWERS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_answer_span {
    const char *text; // [length], no NUL behind it
    size_t length;
    int64_t begin, end; // bytes [begin, end) of the passage; end as many characters behind begin as the text has, or behind the passage
    bool there;         // the passage has the text there
} ft_answer_span;

// The next answer of a cell; false: there is none left.
bool ft_answers_next(const char **cell, const char *passage, size_t passage_length, ft_answer_span *answer);
// Is a cell one of answers?
bool ft_answers_are(const char *cell);

#endif

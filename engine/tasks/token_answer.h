// token_answer.h - what a model says about the words of one text, and how it is written: entities with the place of each in the text.
#ifndef FT_TOKEN_ANSWER_H
#define FT_TOKEN_ANSWER_H

#include "base/json/json.h"
#include "engine/data/tables/cells.h"
#include "engine/metrics/entities.h"
#include "engine/text/words.h"

// A word without a row (it was cut, or has no token) has no tag.
typedef struct ft_token_answer {
    const ft_tag_set *set;
    const char *const *names;   // [set->count] of the tags
    int64_t rows;
    const int32_t *word;        // [rows] which word of the text each is, ascending
    const double *probability;  // [rows, set->count]
    const char *text;           // as in a table: a list of words, or plain
    size_t length;
    const ft_word_list *words;
} ft_token_answer;

// Members "text" (of a list of words: them with spaces between) and "entities": [{label, start, end, text, score}], start and end in
// characters, score the mean probability of its words' tags. Entities are read leniently (entities.h), so those that the metrics without
// _strict count are those that are written.
ft_status ft_token_answer_put(const ft_token_answer *answer, json_t *line, bool *failed);
// A row of cells an entity: label, start, end, score, text, behind `id` (NULL: none). The heads of the columns: ft_token_answer_heads.
ft_status ft_token_answer_write(const ft_token_answer *answer, const char *id, ft_cell_writer *out);
extern const char *const ft_token_answer_heads[]; // NULL behind the last

// Without the text: "predicted", the tags of the rows, "scores", their probabilities, and in front of them "labels", what is true.
void ft_token_answer_put_tags(const ft_token_answer *answer, const int32_t *truth, json_t *line, bool *failed);

#endif

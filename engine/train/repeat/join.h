// join.h - what several runs say about one example, in one line of predictions.jsonl; and the places of documents by what they come to.
#ifndef FT_JOIN_H
#define FT_JOIN_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

// lines [count >= 1]: of one example, each of another run. One alone stays as it is. The result is given back by who asked; NULL: they do not go
// together, or *failed: there is no memory.
//
// Of words with tags: of every word the tag whose scores come to most, with the mean of these (0 of a run that says another one).
json_t *ft_join_words(const json_t *const *lines, int count, bool *failed);
// Of answers: those of one place have the mean of their scores (0 of a run that does not have it among its n best); the largest comes first and
// is said, no answer among them. As many as a run had at most.
json_t *ft_join_answers(const json_t *const *lines, int count, bool *failed);

// ---- the places of documents

typedef struct ft_join_place {
    double score;
    int64_t example; // in the order of the file
    int32_t query, rank;
    bool test;
} ft_join_place;

typedef struct ft_join_places {
    ft_join_place *place; // [count] (base/spill.h), by example
    int64_t count, capacity;
    int32_t **number;     // [runs + 1][of a run's query] its number in the joined file, -1: not met yet; the last are of the test set
    int32_t *known;       // [runs + 1] how many these are
    int runs;
    int32_t queries[2];   // that were met, of validation and test
} ft_join_places;         // {0} is empty

ft_status ft_join_places_open(int runs, ft_join_places *places);
// The next example: a document of query `query` as run `run` numbers them. The test set's queries are the same in all runs.
ft_status ft_join_places_add(ft_join_places *places, int run, bool test, int64_t query, double score);
// All are there: rank 1 has the largest score of its query, of equal ones the first.
void ft_join_places_rank(ft_join_places *places);
void ft_join_places_free(ft_join_places *places);

#endif

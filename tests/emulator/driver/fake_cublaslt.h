// fake_cublaslt.h - how a test looks into the library of fake_cublaslt.c and makes it fail. Tests link it: the program
// opens the same file by its path.
#ifndef FT_FAKE_CUBLASLT_H
#define FT_FAKE_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_lt_books {
    size_t handles, descs, layouts, preferences; // alive
    uint64_t heuristics, products;               // asked for
    uint64_t misuses;                            // calls that the documentation forbids
    uint64_t by_algorithm[4];                    // products: which of those that the heuristic names, from its first
} fake_lt_books;

fake_lt_books fake_lt_read(void);
void fake_lt_reset(void); // of the counts; what is alive stays
// From the nth call on (1: the next one) of that function, `times` calls give `status` and do nothing.
void fake_lt_refuse(const char *call, uint64_t nth, uint64_t times, int status);
// The heuristic finds no algorithm / one that wants more workspace than it was allowed.
typedef enum fake_lt_mood { FAKE_LT_HELPFUL, FAKE_LT_FINDS_NOTHING, FAKE_LT_WANTS_MORE } fake_lt_mood;
void fake_lt_set_mood(fake_lt_mood mood);
// A planted fault: products take their first operand as if it were transposed the other way.
void fake_lt_swap_transpose(int swapped);

#endif

// search_problems.h - what the search is tried on: standard functions, mixed and conditional spaces, constraints.
// search_quality.py has the same problems in Python; it compares both, space by space and value by value, before it
// measures anything.
#ifndef FT_BENCH_SEARCH_PROBLEMS_H
#define FT_BENCH_SEARCH_PROBLEMS_H

#include "hpo/search/sampler.h"

enum { MOST_CONSTRAINTS = 16, MOST_PARAMETERS = 16 };

// One trial that asks for its values as it goes, as an objective in Optuna does. After an error all answers are 0 and
// `status` holds it.
typedef struct asker {
    ft_sampler *sampler;
    ft_trials *trials;
    int64_t number;
    uint64_t instance; // which one of a random family
    ft_arena *arena;
    ft_status status;
    double constraints[MOST_CONSTRAINTS]; // <= 0 is feasible
    int constraint_count;
} asker;

double ask_float(asker *a, const char *name, double low, double high, bool log);
double ask_step(asker *a, const char *name, double low, double high, double step);
double ask_int(asker *a, const char *name, int low, int high, bool log);
int ask_choice(asker *a, const char *name, int count, const char *const *texts); // the index
void constrain(asker *a, double value);

typedef struct problem {
    const char *name, *kind; // standard, mixed, conditional, constrained
    double (*value)(asker *a);
    const char *what;
} problem;

extern const problem problems[];
extern const int problem_count;
// What settings were chosen on; never reported.
extern const problem training_problems[];
extern const int training_problem_count;

#endif

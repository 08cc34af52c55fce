// count_cases.h - every hot kernel of kernels/cuda at a shape that a model would give it, small: rows of whole tiles and a
// part of one, a width of 768.
#ifndef FT_COUNT_CASES_H
#define FT_COUNT_CASES_H

#include "kernels/ops/backend.h"

typedef enum count_target {
    COUNT_NO_CONFLICTS, // of ldmatrix: kernels on tensor cores
    COUNT_FULL_SECTORS, // at most 1.1 of what is needed: kernels bound by memory
    COUNT_NO_TARGET,    // not hot; only guarded
} count_target;

typedef struct count_case {
    const char *name;
    count_target target;
    ft_status (*run)(ft_device *device, int parameter);
    int parameter;    // of a kind that `run` knows
    int64_t elements; // that its bytes are divided by
} count_case;

extern const count_case count_cases[];
extern const int count_case_count;

// Memory that cases take and that counts are about: zeros for every case.
void count_memory_begin(void);

#endif

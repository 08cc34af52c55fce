// elsewhere.h - where the numbers of a frozen trunk are while nobody reads them (parameters.h: head_alone): in the
// files that they came from, which stay mapped, or drawn anew. A model that is saved takes them from there
// (model_files.h).
#ifndef FT_MODEL_ELSEWHERE_H
#define FT_MODEL_ELSEWHERE_H

#include "base/arena.h"
#include "engine/files/weights.h"

typedef struct ft_elsewhere {
    ft_weights *file; // mapped; NULL: the numbers are drawn
    double initializer_range;
    uint64_t seed;
    struct ft_elsewhere_file *was; // [count] its files, as they were when they were opened
    int count;
    ft_arena arena;
} ft_elsewhere;

// Of the model in `directory`; NULL: of one that is drawn. Errors: as ft_weights_open.
ft_status ft_elsewhere_open(const char *directory, double initializer_range, uint64_t seed, ft_elsewhere **elsewhere);
void ft_elsewhere_close(ft_elsewhere *elsewhere); // NULL is fine
// Before numbers are taken from there. FT_FAILED: a file was written over since. One that was replaced or removed is
// still mapped. NULL is fine.
ft_status ft_elsewhere_check(const ft_elsewhere *elsewhere);

#endif

// roll.h - the GPUs that there are now, asked by a process of its own: one that has opened the driver sees for as long
// as it lives what was there then, and a GPU that was lost may hang who asks for it.
#ifndef FT_ROLL_H
#define FT_ROLL_H

#include "base/json/json.h"

enum { FT_ROLL_GPUS = 64, FT_ROLL_NAME = 24, FT_ROLL_UUID = 48, FT_ROLL_WHY = 256 };

typedef struct ft_roll_gpu {
    char name[FT_ROLL_NAME]; // "cuda:0"
    char uuid[FT_ROLL_UUID];
    bool works;            // it can be opened
    char why[FT_ROLL_WHY]; // not
} ft_roll_gpu;

typedef struct ft_roll {
    int count;
    ft_roll_gpu gpu[FT_ROLL_GPUS];
} ft_roll;

// program: ftengine, of which `devices --json` is asked; NULL: the program that runs. FT_FAILED: it did not answer in
// so many seconds, or the work of this context is asked to stop.
ft_status ft_roll_call(const char *program, double seconds, ft_roll *roll);
// What that command prints. FT_INVALID: it is none of its documents.
ft_status ft_roll_read(const char *text, size_t length, ft_roll *roll);

#endif

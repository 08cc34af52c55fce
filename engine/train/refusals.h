// refusals.h - what a run remembers of memory that it was refused (ladder.h), for run.json and metrics.jsonl.
#ifndef FT_REFUSALS_H
#define FT_REFUSALS_H

#include <stddef.h>
#include <stdint.h>

enum { FT_LADDER_EVENTS = 32 };

typedef struct ft_ladder_event {
    int64_t step;           // optimizer steps done then
    char site[48];          // what was refused
    size_t bytes, reserved; // of the request; what the device had given until then
    char action[160];       // what was done about it: for people
} ft_ladder_event;

typedef struct ft_ladder {
    ft_ladder_event events[FT_LADDER_EVENTS]; // the first so many, for run.json
    int count;
    int64_t all;
} ft_ladder;

#endif

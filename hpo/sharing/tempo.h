// tempo.h - by how much a trial was slowed down, seen: how long its steps took while it had its device alone, and while
// others were there. What lies between two signs of life counts where both are of steps and the company was the same at
// both; an evaluation, a save that is followed by one, and the step in which somebody comes or goes are left out.
#ifndef FT_HPO_TEMPO_H
#define FT_HPO_TEMPO_H

#include <stdbool.h>
#include <stdint.h>

enum { FT_TEMPO_STEPS = 5 }; // fewer say nothing

typedef struct ft_tempo {
    // of the last sign of life
    bool known;
    double now;
    int64_t step;
    uint64_t company; // changes whenever somebody comes to the device or leaves it
    // all so far
    double alone, shared; // seconds
    int64_t alone_steps, shared_steps;
    double predicted; // sum over the shared steps of the slow-down that was predicted for them
} ft_tempo;

// A sign of life at `now`: of `step`, or -1: of something else. others: beside it now, whose slow-down is predicted as
// `slowdown`; 0: it is not.
void ft_tempo_note(ft_tempo *tempo, double now, int64_t step, uint64_t company, int others, double slowdown);
// Seconds of a step, NAN: not known.
double ft_tempo_alone(const ft_tempo *tempo);
double ft_tempo_shared(const ft_tempo *tempo);
// Mean over its shared steps; NAN: there were none that count.
double ft_tempo_predicted(const ft_tempo *tempo);

// What was seen, and what it is held against.
typedef enum ft_tempo_against {
    FT_AGAINST_NOTHING,    // not known
    FT_AGAINST_ITSELF,     // its own steps alone
    FT_AGAINST_PREDICTION, // the predicted step, times what steps of trials alone took beside what was predicted for
                           // them
} ft_tempo_against;
const char *ft_tempo_against_name(ft_tempo_against against); // "itself"; "unknown"
// predicted: seconds of its step alone; scale: as above; 0: not known. *seen: NAN where nothing is.
ft_tempo_against ft_tempo_seen(const ft_tempo *tempo, double predicted, double scale, double *seen);

#endif

// turns.h - in which order trials that wait for memory may try to reserve it. Only the order: whether there is room is the
// ledger's to say (engine/memory/ledger.h), at the moment of trying. No clock and no process is known here, so that
// benchmarks/search/bench_packing.c can replay hours of a study in a moment.
//
// The one that waits longest goes first. When there is no room for it, those behind it may try, so that small trials fill
// what a large one leaves. But one that was passed FT_TURNS_PASSED times is passed no more: what becomes free is kept for it.
#ifndef FT_HPO_TURNS_H
#define FT_HPO_TURNS_H

#include <stdbool.h>
#include <stdint.h>

enum { FT_TURNS_PASSED = 4, FT_TURNS_LIMIT = 256 };

typedef struct ft_turn {
    bool waits;
    double since;   // when it began to; any clock
    int passed;     // so many that came later went first
    uint64_t tried; // the room that was not enough: counts the moments at which there may have been more than before
} ft_turn;

// It waits from `now` on, and may try at once: a new wait, in which nobody has passed it yet.
void ft_turns_wait(ft_turn *turn, double now, uint64_t room);
// Who may try now: an index, -1: nobody.
int ft_turns_next(const ft_turn *turns, int count, uint64_t room);
// `who` waits for something else than room, and may not try now. Others go first, until it was passed FT_TURNS_PASSED times: then none that came
// later and wants the same device may, whatever room there is. there [count]: whether each would be where `who` will.
void ft_turns_hold(ft_turn *turns, int count, int who, const bool *there);
// `who` has got its memory, and waits no more.
void ft_turns_entered(ft_turn *turns, int count, int who);

#endif

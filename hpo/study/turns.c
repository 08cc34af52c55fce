#include "hpo/study/turns.h"

#include <math.h>

int ft_turns_next(const ft_turn *turns, int count, uint64_t room) {
    for (double after = -INFINITY;;) {
        int next = -1;
        for (int i = 0; i < count; i++)
            if (turns[i].waits && turns[i].since > after && (next < 0 || turns[i].since < turns[next].since)) next = i;
        if (next < 0 || turns[next].tried != room) return next;
        if (turns[next].passed >= FT_TURNS_PASSED) return -1;
        after = turns[next].since;
    }
}

void ft_turns_wait(ft_turn *turn, double now, uint64_t room) {
    *turn = (ft_turn){.waits = true, .since = now, .tried = room - 1};
}

void ft_turns_hold(ft_turn *turns, int count, int who, const bool *there) {
    turns[who].waits = false;
    for (int i = 0; i < count && turns[who].passed >= FT_TURNS_PASSED; i++)
        if (there[i] && turns[i].since > turns[who].since) turns[i].waits = false;
}

void ft_turns_entered(ft_turn *turns, int count, int who) {
    turns[who].waits = false;
    for (int i = 0; i < count; i++)
        if (turns[i].waits && turns[i].since < turns[who].since) turns[i].passed++;
}

#include "hpo/sharing/sharing.h"

#include "kernels/devices/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// ---- what a trial wants --------------------------------------------------------------------------------------------

static double at_most_1(double x) { return x < 1 ? x : 1; }

// What all cores together can move: as one trial on them is thought to (cost.h knows no more than eight threads), and
// at least 5e9 bytes a core and second, as servers with many cores have by the number of their channels (64 cores with
// 8 of DDR4-3200, 205e9; 96 with 12 of DDR5-4800, 460e9).
static double machine_rate(int cores) { return fmax(ft_cpu_bytes_of(cores), 5e9 * cores); }

// Its threads have their cores all the time. With few of them it cannot use all of the memory's speed.
static ft_demand on_cpu(const ft_step_price *p, int cores) {
    const double moving = p->work.moving / p->seconds, part = ft_cpu_bytes_of(p->threads) / machine_rate(cores);
    ft_demand d = {.turns = {0}};
    d.use[FT_USE_CORES] = (double)p->threads / cores;
    d.bound[FT_USE_CORES] = 1;
    d.use[FT_USE_MEMORY] = at_most_1(moving) * at_most_1(part);
    d.bound[FT_USE_MEMORY] = at_most_1(moving);
    d.share = at_most_1(d.use[FT_USE_CORES]);
    return d;
}

static ft_demand on_gpu(const ft_step_price *p, int cores, bool together) {
    const ft_plan_work *w = &p->work;
    const double starting = at_most_1(w->starting / p->seconds);
    ft_demand d = {.turns = {0}};
    d.turns[FT_TURN_LINK] = at_most_1(w->travelling / p->seconds);
    d.use[FT_USE_CORES] = starting / cores; // of one core, which starts the ops
    d.bound[FT_USE_CORES] = starting;
    if (together) {
        d.use[FT_USE_ARITHMETIC] = d.bound[FT_USE_ARITHMETIC] = at_most_1(w->computing / p->seconds);
        d.use[FT_USE_MEMORY] = d.bound[FT_USE_MEMORY] = at_most_1(w->moving / p->seconds);
    } else {
        d.turns[FT_TURN_DEVICE] = at_most_1(w->occupied / p->seconds);
    }
    d.share = fmax(d.turns[FT_TURN_DEVICE], fmax(d.use[FT_USE_ARITHMETIC], d.use[FT_USE_MEMORY]));
    return d;
}

ft_demand ft_demand_of(const ft_step_price *price, int cores, bool together) {
    const int some = cores > 0 ? cores : 1;
    return price->threads > 0 ? on_cpu(price, some) : on_gpu(price, some, together);
}

// ---- turns ---------------------------------------------------------------------------------------------------------

// What is in no queue; of what goes on beside something else nothing is left.
static double own_part(const ft_demand *d) {
    double all = 0;
    for (int r = 0; r < FT_TURN_KINDS; r++)
        all += d->turns[r];
    return all < 1 ? 1 - all : 0;
}

// How long a step of `d` is in each queue, in which it meets `queue`; returns how long it is in all.
static double stay(const ft_demand *d, const double queue[FT_TURN_KINDS], double times[FT_TURN_KINDS]) {
    double all = own_part(d);
    for (int r = 0; r < FT_TURN_KINDS; r++) {
        times[r] = d->turns[r] * (1 + queue[r]);
        all += times[r];
    }
    return all;
}

static void wait_for_turns(int count, const ft_demand *const *demands, double *slowdown) {
    // By set of trials, a bit for each: how many are in each queue. A set comes after its subsets.
    static const double nobody[FT_TURN_KINDS];
    double queue[1 << FT_SHARING_TURNS][FT_TURN_KINDS];
    const unsigned all = (1u << count) - 1;
    double times[FT_TURN_KINDS];
    for (unsigned set = 0; set <= all; set++) {
        for (int r = 0; r < FT_TURN_KINDS; r++)
            queue[set][r] = 0;
        for (int i = 0; i < count; i++) {
            if ((set >> i & 1) == 0) continue;
            const double step = stay(demands[i], queue[set & ~(1u << i)], times);
            for (int r = 0; r < FT_TURN_KINDS; r++)
                queue[set][r] += times[r] / step;
        }
    }
    for (int i = 0; i < count; i++)
        slowdown[i] = stay(demands[i], queue[all & ~(1u << i)], times) / stay(demands[i], nobody, times);
}

// Of those that have anything to wait for; false: they are too many.
static bool add_turns(int count, const ft_demand *demands, double *slowdown) {
    const ft_demand *those[FT_SHARING_TURNS] = {NULL};
    double waits[FT_SHARING_TURNS];
    int place[FT_SHARING_TURNS], n = 0;
    for (int i = 0; i < count; i++) {
        slowdown[i] = 1;
        if (own_part(&demands[i]) >= 1) continue;
        if (n == FT_SHARING_TURNS) return false;
        place[n] = i;
        those[n++] = &demands[i];
    }
    wait_for_turns(n, those, waits);
    for (int i = 0; i < n; i++)
        slowdown[place[i]] = waits[i];
    return true;
}

// ---- what is divided -----------------------------------------------------------------------------------------------

static double stretched(const ft_demand *d, int use, double x) { return 1 + d->bound[use] * (x - 1); }

static double used(int count, const ft_demand *demands, int use, double x) {
    double all = 0;
    for (int i = 0; i < count; i++)
        all += demands[i].use[use] / stretched(&demands[i], use, x);
    return all;
}

// It is more than there is at 1, and less the larger it is. At `most` no more is used than there is: each of them has
// its part there.
static double find_stretch(int count, const ft_demand *demands, int use) {
    enum { HALVINGS = 60 };
    double least = 1, most = 2;
    if (used(count, demands, use, 1) <= 1) return 1;
    while (used(count, demands, use, most) > 1 && most < 1e9)
        most *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (least + most) / 2;
        *(used(count, demands, use, middle) > 1 ? &least : &most) = middle;
    }
    return most;
}

// ---- both ----------------------------------------------------------------------------------------------------------

bool ft_sharing_slowdowns(int count, const ft_demand *demands, double *slowdown) {
    if (count > FT_SHARING_MOST || !add_turns(count, demands, slowdown)) return false;
    for (int use = 0; use < FT_USES; use++) {
        const double x = find_stretch(count, demands, use);
        for (int i = 0; i < count; i++)
            slowdown[i] = fmax(slowdown[i], stretched(&demands[i], use, x));
    }
    return true;
}

double ft_sharing_rate(int count, const double *slowdown) {
    double rate = 0;
    for (int i = 0; i < count; i++)
        rate += 1 / slowdown[i];
    return rate;
}

bool ft_sharing_pays(int count, const ft_demand *demands, double *adds) {
    double with[FT_SHARING_MOST], without[FT_SHARING_MOST];
    if (adds != NULL) *adds = NAN;
    if (!ft_sharing_slowdowns(count, demands, with) || !ft_sharing_slowdowns(count - 1, demands, without)) return false;
    const double more = ft_sharing_rate(count, with) - ft_sharing_rate(count - 1, without);
    if (adds != NULL) *adds = more;
    return more > FT_SHARING_WORTH;
}

bool ft_sharing_has_mps(void) {
    const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4096];
    snprintf(path, sizeof path, "%s/control",
             directory != NULL && directory[0] != '\0' ? directory : "/tmp/nvidia-mps");
    return access(path, F_OK) == 0;
}

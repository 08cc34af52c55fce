// sharing.h - by how much trials slow each other down on one device, predicted, and whether one more of them pays.
//
//     ft_demand demands[2] = {ft_demand_of(&price, cores, false), ...};
//     double slowdown[2];
//     if (ft_sharing_slowdowns(2, demands, slowdown)) ...   // 1.25: a step takes 1.25 times as long as alone
//
// A trial is what the cost model says of its step (ft_step_price): which part of it, alone, it keeps what busy. Two
// laws say what becomes of several, and the larger factor of a trial counts, as if a device had one bottleneck at a
// time:
//
// 1. What one has at a time - a GPU, on which kernels of different processes take turns, and its link to the host - is
// a queue.
//    Who comes meets what the others keep in the queue while they are without him, and waits for them (mean value
//    analysis of closed queues, M. Reiser and S. Lavenberg, Journal of the ACM 27(2), 1980, with one customer a class):
//        R(i, r, S) = d(i, r) * (1 + Q(r, S without i)),  T(i, S) = own(i) + sum over r of R(i, r, S),  Q(r, S) = sum
//        over i of R(i, r, S) / T(i, S)
//    where d(i, r) is i's part of a step in r, own(i) what is left of it. i is slowed down T(i, S) / T(i, {i}) times.
//    Of two: 1 + d(1) d(2).
// 2. What is divided - cores, arithmetic and memory of a GPU under MPS, memory of a CPU - nobody waits for until all
// together want more
//    than there is. Then all that use it become slower, each in the part of its step that has to do with it, by one
//    factor x, the least with which no more is used than there is (the law of utilisation, P. Denning and J. Buzen,
//    Computing Surveys 10(3), 1978):
//        slowdown(i) = 1 + bound(i, r) * (x - 1),  sum over i of use(i, r) / slowdown(i) = 1
//
// Assumed: steps have no rhythm in common; turns are short beside a step; evaluations and saves are as steps are;
// caches are not fought for; the machine is the study's own - other programs, and trials of other coordinators, are not
// known here. The rates behind the parts are round figures of a kind of chip. What was seen stands beside what was
// predicted (tempo.h); of GPUs nothing is measured yet.
#ifndef FT_HPO_SHARING_H
#define FT_HPO_SHARING_H

#include "engine/train/room/observer.h"

enum {
    FT_SHARING_TURNS = 12,
    FT_SHARING_MOST = 256
}; // trials that take turns, each of which doubles the work of a prediction; and trials at all
enum { FT_TURN_DEVICE, FT_TURN_LINK, FT_TURN_KINDS };
enum { FT_USE_CORES, FT_USE_ARITHMETIC, FT_USE_MEMORY, FT_USES };

// Of a step alone.
typedef struct ft_demand {
    double turns[FT_TURN_KINDS]; // what part of its time it has the device, the link
    double use[FT_USES];   // how much it uses of the machine's cores, the device's arithmetic and memory; all of it: 1
    double bound[FT_USES]; // what part of its time becomes longer where that is scarce
    double share; // the part of its device that it keeps busy: of a GPU time, of a CPU cores; for people
} ft_demand;

// cores: that all trials together have. together: kernels of several processes run beside each other
// (ft_sharing_has_mps).
ft_demand ft_demand_of(const ft_step_price *price, int cores, bool together);
// slowdown [count]: each 1 at least. False: more than FT_SHARING_TURNS take turns, or they are more than
// FT_SHARING_MOST.
bool ft_sharing_slowdowns(int count, const ft_demand *demands, double *slowdown);
// How many trials' work they do in the time that one takes alone: the sum of 1 / slowdown. (The weighted speedup of A.
// Snavely and D. Tullsen, ASPLOS 2000: trials an hour, of trials that take an hour alone, so that a short trial is
// worth no more than a long one.)
double ft_sharing_rate(int count, const double *slowdown);
// Whether the last one of these adds more than FT_SHARING_WORTH of a trial to what the others do. *adds (may be NULL):
// what it adds; NAN: they are too many to tell, and it does not pay.
#define FT_SHARING_WORTH 0.1
bool ft_sharing_pays(int count, const ft_demand *demands, double *adds);
// Is NVIDIA's MPS on for this user, as far as files tell (its control pipe in $CUDA_MPS_PIPE_DIRECTORY or
// /tmp/nvidia-mps)?
bool ft_sharing_has_mps(void);

#endif

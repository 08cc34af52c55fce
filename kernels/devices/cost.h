// cost.h - what an op has to do: floating-point operations and bytes moved, from its shapes alone.
//
//     ft_cost c = ft_gemm_cost(args);
//     double s = ft_cost_seconds(c, ft_rates_of(&device->target));
//
// The counts are the least an op could do: a multiply-add is two operations, every operand is read once and every result
// written once (accumulated ones are read too). Of attention only the shapes are known, not the lengths: all sequences of a
// packed batch count as the longest. The plan back end adds up what is queued on it (ft_plan_seconds), so that a step which
// was never run still has a price. For comparing ways to do one thing: the rates are
// round figures of a kind of chip, not this one's.
#ifndef FT_COST_H
#define FT_COST_H

#include "kernels/ops/backend.h"

typedef struct ft_cost {
    double flops, bytes;
    double rows; // of the left operand of a matrix product: few rows reach less of the peak. 0: not a matrix product
} ft_cost;

typedef struct ft_rates {
    double flops;        // a second, at many rows
    double bytes;        // a second
    double half_rows;    // rows at which a matrix product reaches half of `flops`
    double op_seconds;   // to start one op
    double link;         // bytes a second from the host to the device, and as many back; 0: its memory is the host's
} ft_rates;

#define FT_OP(name, what) ft_cost ft_##name##_cost(const ft_##name##_args *args);
#include "kernels/ops/ops.def"
#undef FT_OP

// A CPU with so many threads; a CUDA chip with so many multiprocessors.
ft_rates ft_rates_of(const ft_target *target);
// The same of a CPU, bytes alone.
double ft_cpu_bytes_of(int threads);
// Threads of the CPU that compute; 0: it is a GPU.
int ft_cost_threads(const ft_target *target);
// A planned device (ft_plan_open) counts by these from now on: by those of a known chip, say.
void ft_plan_set_rates(ft_device *device, ft_rates rates);
// The longer of computing and moving, and the start.
double ft_cost_seconds(ft_cost cost, ft_rates rates);
double ft_cost_computing(ft_cost cost, ft_rates rates); // of that, had it nothing to move
double ft_cost_moving(ft_cost cost, ft_rates rates);    // had it nothing to compute

#endif

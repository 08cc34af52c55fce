// adamw.h - the optimizer step over flat buffers, in two ops; both read and write only device data, so that a step can be
// queued (or captured in a graph) without the host knowing its outcome.
//
// The gradients are those of a loss that was multiplied by L = step->loss_scale; L is a power of two, so that dividing by
// it is exact.
// gradient_norm: sums squares in double over fixed chunks in order - of an embedding table, whose rows without a gradient
// may be absent, over blocks of rows by their numbers in the whole table, column by column, so that a row of zeros and an
// absent one give the same bits - then
//   update->norm = sqrt(sum) / L, update->clip = max_norm > 0 ? min(1, max_norm / (norm + 1e-6)) : 1   (PyTorch's clip_grad_norm_)
//   update->finite = isfinite(norm) and *losses_finite; when finite, update->count += 1 and the bias corrections
//   update->correction1 = 1 - beta1^count, update->correction2 = 1 - beta2^count (computed in double) follow;
//   else update->skipped += 1.
//   With growth_interval > 0 the loss scale is dynamic, as in PyTorch's GradScaler: a finite step adds one to
//   update->finite_steps, and when that is growth_interval, it becomes 0 and update->loss_scale doubles (unless that is
//   infinite); a step that is not halves update->loss_scale, and update->finite_steps is 0.
//   With `stops`, a step that is not finite sets update->stopped, and where that is set no step is finite or counted as
//   skipped: steps that were queued before anybody knew of it change nothing either.
// adamw: nothing at all when update->finite is 0. Else with g = grad * (clip / L), lr = step->learning_rate * range.lr_scale:
//   p *= 1 - lr * weight_decay;  m = m + (g - m)(1 - beta1);  v = v beta2 + g g (1 - beta2)
//   p -= (lr / correction1) * m / (sqrt(v) / sqrt(correction2) + epsilon)              (PyTorch's AdamW)
// Factors that are the same for all elements are computed in double, then rounded to float. How p lies in memory changes
// none of its bits: in fp32; or as pairs of 16 bits (split.h), whose first halves, in bf16, other ops read as they are; or
// in fp32 beside a copy in fp16 for other ops, which gets the new p, rounded to the nearest (ties to even). A range whose
// parameters other ops read in fp32 whatever the type (norms) has them in fp32 in a place of its own, and has no copy.
#ifndef FT_ADAMW_H
#define FT_ADAMW_H
#include "kernels/ops/op.h"
#include "kernels/philox.h"

#include <math.h>

// What weight decay leaves of a parameter in one step. Every back end and the replay of steps (decay.h) take it from here:
// fma is rounded once everywhere, where a compiler might or might not contract a product and a difference.
FT_HOST_DEVICE float ft_adamw_keep(float learning_rate, float lr_scale, float weight_decay) {
    return (float)fma(-((double)learning_rate * (double)lr_scale), (double)weight_decay, 1.0);
}

// Doubles as in PyTorch: 1 - beta2 of a beta2 rounded to float would be off by 1e-5 of itself.
typedef struct ft_adamw_hyper {
    double beta1, beta2, epsilon;
    double max_gradient_norm; // <= 0: no clipping
} ft_adamw_hyper;

// Of several ranks on the CPU that have the gradients in common each sums a part of the chunks and blocks, and all add up the same sums in the same
// order: the bits are those of one.
typedef struct ft_norm_shares {
    double *sums;               // [ft_norm_sums] that all ranks see; NULL: one rank sums all
    int rank, ranks;
    ft_status (*meet)(void *context); // all have written theirs
    void *context;
} ft_norm_shares;

// Of gradients that are not all there at once: the sums of those that are go to sums[first...], and nothing else happens;
// but the last time, when all of sums[0...] are there, those of this call too. Any order of calls gives the same bits.
typedef struct ft_norm_pieces {
    double *sums; // device; NULL: all gradients are there
    int64_t first;
    bool last;
} ft_norm_pieces;

typedef struct ft_gradient_norm_args {
    ft_tensor gradient;          // [n] fp32, flat: all but the table
    ft_tensor table;             // [rows, cols] fp32, dense: those rows of the whole table that are there; unused when
    int64_t table_rows;          // the whole table has 0 rows
    const int32_t *table_blocks; // [ft_norm_blocks(table_rows) + 1] device: the rows of block b, FT_NORM_ROWS of the whole
                                 // table, begin at table_blocks[b] of `table`. NULL: all rows are there
    const ft_tensor *losses;     // unused when NULL: [B] fp32 whose non-finite values also make the step non-finite
    ft_adamw_hyper hyper;
    const ft_step_state *step;   // device; NULL: L is 1
    int32_t growth_interval;     // 0: the loss scale is fixed, and update's is not touched
    ft_norm_shares shares;
    ft_norm_pieces pieces;       // one of the two at most
    bool stops;                  // at a step that is not finite; no: it is skipped, and the next one counts again
    ft_update_state *update;     // device; of pieces, but the last: unused
    ft_workspace workspace;      // none with sums of pieces
} ft_gradient_norm_args;

enum { FT_NORM_ROWS = 64 };
static inline int64_t ft_norm_blocks(int64_t table_rows) { return (table_rows + FT_NORM_ROWS - 1) / FT_NORM_ROWS; }
// Elements of the flat gradient whose squares one task sums; the sums are added in order. Fixed, so that the
// norm depends on neither threads nor instruction set, nor ranks.
enum { FT_NORM_CHUNK = 1 << 15 };
static inline int64_t ft_norm_sums(int64_t elements, int64_t table_rows) {
    return (elements + FT_NORM_CHUNK - 1) / FT_NORM_CHUNK + ft_norm_blocks(table_rows);
}
size_t ft_gradient_norm_workspace(const ft_target *target, const ft_gradient_norm_args *args);
ft_status ft_gradient_norm_check(const ft_target *target, const ft_gradient_norm_args *args);

typedef struct ft_adamw_range {
    int64_t first, count; // elements of the flat buffers
    float weight_decay, lr_scale;
    float *wide; // device, [count]: p of this range; NULL: it is in ft_adamw_args.parameter
} ft_adamw_range;

typedef struct ft_adamw_args {
    ft_tensor parameter;                 // [n] flat: fp32, or the first halves of pairs, bf16
    uint16_t *tail;                      // [n] device: the second halves; NULL with fp32
    ft_tensor compute;                   // [n] fp16, flat, the copy; optional, with fp32
    ft_tensor gradient, m, v;            // [n] fp32, flat
    const ft_adamw_range *ranges;        // host; disjoint, together at most [0, n)
    int32_t range_count;
    ft_adamw_hyper hyper;
    const ft_step_state *step;           // device
    const ft_update_state *update;       // device
    ft_workspace workspace;
} ft_adamw_args;
size_t ft_adamw_workspace(const ft_target *target, const ft_adamw_args *args);
ft_status ft_adamw_check(const ft_target *target, const ft_adamw_args *args);
#endif

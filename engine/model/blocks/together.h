// together.h - products that may be computed with those of other runs of the process (engine/model/state/pack.h). Internal to who multiplies
// by frozen weights and by adapters.
#ifndef FT_TOGETHER_H
#define FT_TOGETHER_H

#include "engine/model/blocks/layers.h"
#include "kernels/ops/gemm.h"

// Is it part of a training pass beside a trunk that others have too? Those over the table of relative positions are not: they have no rows of
// a batch.
bool ft_together_on(const ft_pass *pass, ft_rows_kind kind);
// The product, with scratch for `largest`, which has the same views with the capacity for rows.
ft_status ft_together_multiply(ft_pass *pass, ft_gemm_args args, const ft_gemm_args *largest);

#endif

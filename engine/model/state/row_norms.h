// row_norms.h - the first magnitudes of adapters (ft_drawn.kind NORMS): lengths of the rows of W + s B A, which are there already.
#ifndef FT_ROW_NORMS_H
#define FT_ROW_NORMS_H

#include "engine/model/state/parameters.h"

ft_status ft_draw_row_norms(ft_staging *staging, const ft_parameters *parameters, int index);

#endif

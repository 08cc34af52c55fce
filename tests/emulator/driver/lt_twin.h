// lt_twin.h - NVIDIA's own cuBLASLt beside the fake one, as far as it works without a device: whatever is described to the fake is described
// to it too, and read back. FAKE_LT_TWIN names its file; without that nothing happens and every function returns 0.
//
// Objects of ours that the real one has a twin of: NULL where there is no library. Statuses are the real library's; what it does not give back
// as it was given is CUBLAS_STATUS_INTERNAL_ERROR.
#ifndef FT_LT_TWIN_H
#define FT_LT_TWIN_H

#include "kernels/cuda/cublaslt.h"

typedef enum lt_twin_kind { LT_TWIN_DESC, LT_TWIN_LAYOUT, LT_TWIN_PREFERENCE } lt_twin_kind;

int lt_twin_desc(void **twin, ft_lt_compute compute, ft_lt_type scale);
int lt_twin_layout(void **twin, ft_lt_type type, uint64_t rows, uint64_t cols, int64_t leading);
int lt_twin_preference(void **twin);
int lt_twin_set(lt_twin_kind kind, void *twin, unsigned attribute, const void *value, size_t bytes);
int lt_twin_drop(lt_twin_kind kind, void *twin);
// Calls that the real one took; 0 without it.
unsigned long long lt_twin_calls(void);

#endif

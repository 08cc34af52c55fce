// matrix_units.h - units of a processor beside its vectors that take bf16, and whether this process may use them.
#ifndef FT_CPU_MATRIX_UNITS_H
#define FT_CPU_MATRIX_UNITS_H

#include <stdbool.h>

// CPUID says that it is there, XCR0 that the system keeps its registers.
bool ft_cpu_has_avx512_bf16(void);
// And Linux has been asked, once a process, to let it keep tiles: 8 KiB more a thread. It refuses where a signal's own stack is
// too small for them.
bool ft_cpu_has_amx_bf16(void);

#endif

// units.h - the units of a processor from what CPUID and XCR0 say; on 64-bit ARM from what the system says of it.
#ifndef FT_CPU_UNITS_READ_H
#define FT_CPU_UNITS_READ_H

#include "kernels/cpu_units.h"

#include <stdint.h>

typedef struct ft_cpuid {
    uint32_t ecx_1;                 // leaf 1
    uint32_t ebx_7, ecx_7, edx_7;   // leaf 7, subleaf 0
    uint32_t eax_7_1;               // subleaf 1
    uint64_t xcr0;                  // registers that the operating system saves; 0 where it does not say (OSXSAVE)
} ft_cpuid;

// tiles_granted: the kernel lets this process use AMX (it has to be asked).
ft_cpu_units ft_cpu_units_of(const ft_cpuid *id, bool tiles_granted);
// Of 64-bit ARM, which has NEON. Every program may use what is there.
ft_cpu_units ft_cpu_units_of_arm(bool dotprod, bool i8mm, bool bf16);
// Of this machine. Where the processor has tiles the kernel is asked for them; what it once granted it does not take back.
ft_cpu_units ft_cpu_units_here(void);

#endif

// module.h - the border between the program and the library of its CUDA kernels. The program never links CUDA: it opens
// libftengine_cuda.so (kernels/cuda/*.cu and the static CUDA runtime) when a CUDA device is, and asks it for one table.
#ifndef FT_CUDA_MODULE_H
#define FT_CUDA_MODULE_H

#include "kernels/cuda/driver/device.h"
#include "kernels/ops/backend.h"

// What the module calls back: errors live in the program.
typedef struct ft_cuda_module_host {
    ft_status (*fail)(ft_status code, const char *where, const char *message);
} ft_cuda_module_host;

typedef struct ft_cuda_module_table {
    uint64_t layout;     // ft_cuda_module_layout() of its sources
    int runtime;         // CUDA's release that it was built with: 13000 is 13.0; a driver of that major release runs it
    const char *targets; // "sm_80 sm_90a ptx_120", for people
    // Is there code for the device whose context is current? FT_NO_DEVICE if not.
    ft_status (*ready)(void);
    ft_op_table ops; // NULL: no kernel
} ft_cuda_module_table;

// The module's one exported function.
typedef const ft_cuda_module_table *ft_cuda_module_entry(const ft_cuda_module_host *host);
#define FT_CUDA_MODULE_ENTRY "ft_cuda_module_get"

// Both sides must have been built from the same structures: their sizes, mixed in the order of the list.
static inline uint64_t ft_cuda_module_layout(void) {
    const uint64_t sizes[] = {
#define FT_OP(name, what) sizeof(ft_##name##_args),
#include "kernels/ops/ops.def"
#undef FT_OP
        sizeof(ft_cuda), sizeof(ft_device), sizeof(ft_step_state), sizeof(ft_update_state),
        sizeof(ft_cuda_module_table)};
    uint64_t mixed = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        mixed = mixed * 1000003u + sizes[i];
    return mixed;
}

// ---- the program's side -----------------------------------------------------------------------------------------

typedef struct ft_cuda_module {
    void *library;
    char path[512];
    const ft_cuda_module_table *table;
} ft_cuda_module;

// Where it is looked for: the file FTENGINE_CUDA_MODULE names; beside libftengine.so, where that holds this code, then beside the program; ../lib
// and ../lib/ftengine from there. Of two modules a driver that knows CUDA 12 alone gets libftengine_cuda12.so. FT_NO_DEVICE says in one sentence what is missing: the file, a part of it, a newer driver.
ft_status ft_cuda_module_open(const ft_cuda_driver *driver, ft_cuda_module *module);
void ft_cuda_module_close(ft_cuda_module *module); // one that was never opened ({0}) is fine

#endif

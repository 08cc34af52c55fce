// vendor_library.h - finding a library of NVIDIA's that programs of other packages bring along: cuBLASLt, NCCL.
#ifndef FT_CUDA_VENDOR_LIBRARY_H
#define FT_CUDA_VENDOR_LIBRARY_H

#include "base/status.h"

typedef struct ft_vendor_library {
    const char *name; // for messages: "NCCL"
    void *handle;
    char path[256];
} ft_vendor_library;

// Tries return true when a file was opened. One that is there but cannot be loaded leaves its reason as the present error; clear it before
// the first try, and behind the last one where another was opened.
bool ft_vendor_try(ft_vendor_library *library, const char *path);        // a path, or a name for the loader
bool ft_vendor_try_newest(ft_vendor_library *library, const char *glob); // from the last in alphabetical order on
// below: paths in site-packages (or Debian's dist-packages) of the virtual environment, the user and the system.
bool ft_vendor_try_python(ft_vendor_library *library, const char *const *below, int count);
// The file that an environment variable names, if it does (*asked); FT_NO_DEVICE where that is not there or not good.
ft_status ft_vendor_asked(ft_vendor_library *library, const char *variable, bool *asked);
ft_status ft_vendor_symbol(const ft_vendor_library *library, const char *symbol, void *slot); // slot: a pointer to a function pointer
void ft_vendor_close(ft_vendor_library *library); // its code stays mapped

#endif

#include "kernels/collectives/mpi/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Beside a file, whose name is cut off.
static bool is_near(char *file, char path[static PATH_MAX]) {
    static const char *const below[] = {"", "/../lib", "/../lib/ftengine"};
    char *slash = strrchr(file, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        const int length = snprintf(path, PATH_MAX, "%s%s/" FT_MPI_MODULE_FILE, file, below[i]);
        if (length < PATH_MAX && access(path, R_OK) == 0) return true;
    }
    return false;
}

static ft_status find(char path[static PATH_MAX]) {
    const char *asked = getenv("FTENGINE_MPI_MODULE");
    char program[PATH_MAX], library[PATH_MAX];
    Dl_info own;
    if (asked != NULL && asked[0] != '\0') {
        if (access(asked, R_OK) == 0 && snprintf(path, PATH_MAX, "%s", asked) < PATH_MAX) return FT_OK;
        return ft_fail(FT_INVALID, asked, "FTENGINE_MPI_MODULE names a file that cannot be read");
    }
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    if (is_near(program, path)) return FT_OK;
    if (dladdr((void *)find, &own) != 0 && own.dli_fname != NULL && realpath(own.dli_fname, library) != NULL &&
        is_near(library, path))
        return FT_OK;
    ft_fail(FT_INVALID, "ranks",
            "ranks on several hosts need the module for MPI: " FT_MPI_MODULE_FILE " was not found in %s or its ../lib",
            program);
    ft_hint("build it where mpicc is (apt-get install libopenmpi-dev openmpi-bin, then cmake again), or set "
            "FTENGINE_MPI_MODULE to it");
    return FT_INVALID;
}

ft_status ft_mpi_library_open(const ft_mpi_module_table **table) {
    char path[PATH_MAX];
    FT_TRY(find(path));
    // Its parts look for each other's names among those of the process.
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (library == NULL) {
        const char *reason = dlerror();
        return ft_fail(FT_INVALID, path, "the module for MPI cannot be loaded: %s", reason != NULL ? reason : "?");
    }
    void *address = dlsym(library, FT_MPI_MODULE_ENTRY);
    ft_mpi_module_entry *entry;
    if (address == NULL) return ft_fail(FT_INVALID, path, "this is no module of ftengine's for MPI");
    memcpy(&entry, &address, sizeof entry);
    *table = entry();
    if ((*table)->layout == FT_MPI_MODULE_LAYOUT) return FT_OK;
    ft_fail(FT_INVALID, path, "this module for MPI was built from other sources than this program");
    ft_hint("build both together");
    return FT_INVALID;
}

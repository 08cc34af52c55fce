#include "kernels/cuda/driver/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Built by any toolkit; built by one of CUDA 12, where the first is of a later one (kernels/cuda/CMakeLists.txt).
static const char any_name[] = "libftengine_cuda.so", old_name[] = "libftengine_cuda12.so";

static ft_status fail(ft_status code, const char *where, const char *message) {
    return ft_fail(code, where, "%s", message);
}

// ---- finding it -------------------------------------------------------------------------------------------------

// True when there is such a file; its path is then in module->path.
static bool is_at(ft_cuda_module *module, const char *directory, const char *below, const char *name) {
    int length = snprintf(module->path, sizeof module->path, "%s%s/%s", directory, below, name);
    return length > 0 && (size_t)length < sizeof module->path && access(module->path, R_OK) == 0;
}

// Beside a file, and where `make install` puts it; the last is where pip does, seen from lib/python3.11/site-packages/ftengine.
// `names`: the first that is there at all. The file's name is cut off.
static bool is_near(ft_cuda_module *module, char *file, const char *const names[2]) {
    static const char *const below[] = {"", "/../lib", "/../lib/ftengine", "/../../../ftengine"};
    char *slash = strrchr(file, '/');
    if (slash != NULL) *slash = '\0';
    for (int n = 0; n < 2; n++)
        for (size_t i = 0; i < sizeof below / sizeof *below && file[0] != '\0'; i++)
            if (is_at(module, file, below[i], names[n])) return true;
    return false;
}

// A driver runs what was built by CUDA of its own major release, whichever minor one, or of an earlier one.
static ft_status find(const ft_cuda_driver *driver, ft_cuda_module *module) {
    const bool is_old = driver->version < 13000;
    const char *const names[2] = {is_old ? old_name : any_name, is_old ? any_name : old_name};
    const char *asked = getenv("FTENGINE_CUDA_MODULE");
    if (asked != NULL && asked[0] != '\0') {
        snprintf(module->path, sizeof module->path, "%s", asked);
        if (access(asked, R_OK) == 0) return FT_OK;
        return ft_fail(FT_NO_DEVICE, asked, "FTENGINE_CUDA_MODULE names a file that cannot be read");
    }
    // What holds this function: the program, or libftengine.so in another one, as Python.
    Dl_info own;
    char library[PATH_MAX] = "", program[PATH_MAX];
    const bool told = dladdr((void *)find, &own) != 0 && own.dli_fname != NULL && strchr(own.dli_fname, '/') != NULL; // a bare name is no place
    if (told && realpath(own.dli_fname, library) == NULL) library[0] = '\0';
    if (is_near(module, library, names)) return FT_OK;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    if (is_near(module, program, names)) return FT_OK;
    ft_fail(FT_NO_DEVICE, NULL, "the CUDA kernels are missing: %s was not found in %s or its ../lib", any_name, library[0] != '\0' ? library : program);
    ft_hint("build it where nvcc 12.4 or later is (cmake finds it in PATH, CUDACXX or /usr/local/cuda), or set "
            "FTENGINE_CUDA_MODULE to it");
    return FT_NO_DEVICE;
}

// ---- opening it -------------------------------------------------------------------------------------------------

static ft_status enter(const ft_cuda_driver *driver, ft_cuda_module *module) {
    static const ft_cuda_module_host host = {fail};
    void *address = dlsym(module->library, FT_CUDA_MODULE_ENTRY);
    if (address == NULL) return ft_fail(FT_NO_DEVICE, module->path, "this is no library of ftengine's CUDA kernels");
    ft_cuda_module_entry *entry;
    memcpy(&entry, &address, sizeof entry);
    const ft_cuda_module_table *table = entry(&host);
    if (table->layout != ft_cuda_module_layout()) {
        ft_fail(FT_NO_DEVICE, module->path, "these CUDA kernels were built from other sources than this program");
        ft_hint("build both together");
        return FT_NO_DEVICE;
    }
    if (driver->version < table->runtime / 1000 * 1000) {
        ft_fail(FT_NO_DEVICE, driver->path, "the NVIDIA driver%s%s supports CUDA %d.%d, but the kernels need %d.0",
                driver->release[0] != '\0' ? " " : "", driver->release, driver->version / 1000,
                driver->version % 1000 / 10, table->runtime / 1000);
        ft_hint("install release 580 of the driver or a later one, or build kernels for this one too: tools/cuda12.sh fetches an nvcc of CUDA 12 "
                "for cmake to find");
        return FT_NO_DEVICE;
    }
    module->table = table;
    return FT_OK;
}

ft_status ft_cuda_module_open(const ft_cuda_driver *driver, ft_cuda_module *module) {
    *module = (ft_cuda_module){.library = NULL};
    FT_TRY(find(driver, module));
    // The CUDA runtime in it registers with the process: once in, it stays.
    module->library = dlopen(module->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module->library == NULL) {
        const char *reason = dlerror();
        return ft_fail(FT_NO_DEVICE, module->path, "the CUDA kernels cannot be loaded: %s",
                       reason != NULL ? reason : "no reason given");
    }
    ft_status status = enter(driver, module);
    if (status != FT_OK) ft_cuda_module_close(module);
    return status;
}

void ft_cuda_module_close(ft_cuda_module *module) {
    if (module->library != NULL) (void)dlclose(module->library);
    *module = (ft_cuda_module){.library = NULL};
}

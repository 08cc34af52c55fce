// cublaslt.c - finding and opening cuBLASLt.
#include "kernels/cuda/cublaslt.h"
#include "base/arena.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FT_CUBLASLT_CALL(field, symbol, parameters) const char ft_cublaslt_symbol_##field[] = #symbol;
#include "kernels/cuda/cublaslt.def"
#undef FT_CUBLASLT_CALL

enum { NEWEST_MAJOR = 13, OLDEST_MAJOR = 12 };

ft_status ft_cublaslt_fail(const ft_cublaslt *lt, const char *call, int status) {
    const char *name = lt->status_name(status);
    return ft_fail(status == FT_LT_ALLOC_FAILED ? FT_NO_MEMORY : FT_FAILED, call, "cuBLASLt answers %s (%d)",
                   name != NULL ? name : "an unknown status", status);
}

// ---- where it may be --------------------------------------------------------------------------------------------

// True when the file was opened. A file that is there but cannot be loaded leaves its reason as the present error.
static bool try_file(ft_cublaslt *lt, const char *path) {
    lt->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); // its threads outlive every user of it
    if (lt->library == NULL) {
        const char *reason = dlerror();
        if (reason != NULL && strstr(reason, "No such file") == NULL)
            ft_fail(FT_NO_DEVICE, path, "cuBLASLt cannot be loaded: %s", reason);
        return false;
    }
    snprintf(lt->path, sizeof lt->path, "%s", path);
    return true;
}

static bool try_pattern(ft_cublaslt *lt, const char *pattern) {
    glob_t found = {0};
    bool opened = false;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i > 0 && !opened; i--) // the newest Python last in the list
            opened = try_file(lt, found.gl_pathv[i - 1]);
    globfree(&found);
    return opened;
}

// directory: the value of a variable, or a fixed one; NULL or "": nothing is tried.
static bool try_in(ft_cublaslt *lt, const char *directory, const char *below, int major) {
    char pattern[512];
    if (directory == NULL || directory[0] == '\0') return false;
    snprintf(pattern, sizeof pattern, "%s/%s/libcublasLt.so.%d", directory, below, major);
    return try_pattern(lt, pattern);
}

// pip has the library of CUDA 12 in nvidia/cublas/lib, that of CUDA 13 in nvidia/cu13/lib.
static bool try_python(ft_cublaslt *lt, const char *prefix, int major) {
    static const char *const below[] = {
        "lib/python3*/site-packages/nvidia/cu%d/lib", "lib/python3*/site-packages/nvidia/cublas/lib",
        "lib/python3*/dist-packages/nvidia/cu%d/lib", "lib/python3*/dist-packages/nvidia/cublas/lib"};
    char path[128];
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        const char *number = strstr(below[i], "%d");
        if (number == NULL)
            snprintf(path, sizeof path, "%s", below[i]);
        else
            snprintf(path, sizeof path, "%.*s%d%s", (int)(number - below[i]), below[i], major, number + 2);
        if (try_in(lt, prefix, path, major)) return true;
    }
    return false;
}

static bool try_everywhere(ft_cublaslt *lt, int major) {
    char name[32], user[400] = "";
    const char *home = getenv("HOME");
    snprintf(name, sizeof name, "libcublasLt.so.%d", major);
    if (home != NULL && home[0] != '\0') snprintf(user, sizeof user, "%s/.local", home);
    return try_file(lt, name) || try_in(lt, getenv("CUDA_HOME"), "lib64", major) ||
           try_in(lt, "/usr/local/cuda", "lib64", major) || try_in(lt, "/usr/local/cuda-*", "lib64", major) ||
           try_python(lt, getenv("VIRTUAL_ENV"), major) || try_python(lt, getenv("CONDA_PREFIX"), major) ||
           try_python(lt, user, major) || try_python(lt, "/usr/local", major) || try_python(lt, "/usr", major);
}

static ft_status find(const ft_cuda_driver *driver, ft_cublaslt *lt) {
    const char *asked = getenv("FTENGINE_CUBLASLT");
    int newest = driver->version / 1000 < NEWEST_MAJOR ? driver->version / 1000 : NEWEST_MAJOR;
    ft_error_clear();
    if (asked != NULL && asked[0] != '\0') {
        if (try_file(lt, asked)) return FT_OK;
        if (ft_error_code() == FT_OK) ft_fail(FT_NO_DEVICE, asked, "FTENGINE_CUBLASLT names a file that is not there");
        return ft_error_code();
    }
    for (int major = newest; major >= OLDEST_MAJOR; major--)
        if (try_everywhere(lt, major)) {
            ft_error_clear(); // of a copy that was passed over
            return FT_OK;
        }
    if (ft_error_code() != FT_OK) return ft_error_code();
    ft_fail(FT_NO_DEVICE, NULL, "NVIDIA's matrix products are missing: libcublasLt.so.%d was not found", newest);
    ft_hint("pip install nvidia-cublas-cu12 or nvidia-cublas, install the CUDA toolkit, or set FTENGINE_CUBLASLT to "
            "the file");
    return FT_NO_DEVICE;
}

// ---- opening ----------------------------------------------------------------------------------------------------

// POSIX has dlsym's pointer hold functions too.
static ft_status look_up(const ft_cublaslt *lt, const char *symbol, void *slot) {
    void *address = dlsym(lt->library, symbol);
    if (address == NULL) return ft_fail(FT_NO_DEVICE, lt->path, "this cuBLASLt has no function %s", symbol);
    memcpy(slot, &address, sizeof address);
    return FT_OK;
}

static ft_status load(const ft_cuda_driver *driver, ft_cublaslt *lt) {
    FT_TRY(find(driver, lt));
    FT_TRY(look_up(lt, "cublasLtGetVersion", &lt->get_version));
    FT_TRY(look_up(lt, "cublasLtGetStatusName", &lt->status_name));
#define FT_CUBLASLT_CALL(field, symbol, parameters) FT_TRY(look_up(lt, #symbol, &lt->field));
#include "kernels/cuda/cublaslt.def"
#undef FT_CUBLASLT_CALL
    lt->version = lt->get_version();
    return FT_OK;
}

ft_status ft_cublaslt_open(const ft_cuda_driver *driver, ft_cublaslt **out) {
    *out = NULL;
    ft_cublaslt *lt = ft_calloc(1, sizeof *lt, "cuBLASLt's functions");
    if (lt == NULL) return FT_NO_MEMORY;
    ft_status status = load(driver, lt);
    if (status != FT_OK) {
        ft_cublaslt_close(lt);
        return status;
    }
    *out = lt;
    return FT_OK;
}

void ft_cublaslt_close(ft_cublaslt *lt) {
    if (lt == NULL) return;
    if (lt->library != NULL) (void)dlclose(lt->library);
    free(lt);
}

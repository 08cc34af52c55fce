// cublaslt.c - finding and opening cuBLASLt.
#include "kernels/cuda/cublaslt.h"
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>

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

// directory: the value of a variable, or a fixed one; NULL or "": nothing is tried.
static bool try_in(ft_cublaslt *lt, const char *directory, int major) {
    char pattern[512];
    if (directory == NULL || directory[0] == '\0') return false;
    snprintf(pattern, sizeof pattern, "%s/lib64/libcublasLt.so.%d", directory, major);
    return ft_vendor_try_newest(&lt->library, pattern);
}

static bool try_everywhere(ft_cublaslt *lt, int major) {
    char name[32], new[64], old[64];
    snprintf(name, sizeof name, "libcublasLt.so.%d", major);
    // pip has the library of CUDA 12 in nvidia/cublas/lib, that of CUDA 13 in nvidia/cu13/lib.
    snprintf(new, sizeof new, "nvidia/cu%d/lib/%s", major, name);
    snprintf(old, sizeof old, "nvidia/cublas/lib/%s", name);
    return ft_vendor_try(&lt->library, name) || try_in(lt, getenv("CUDA_HOME"), major) || try_in(lt, "/usr/local/cuda", major) ||
           try_in(lt, "/usr/local/cuda-*", major) || ft_vendor_try_python(&lt->library, (const char *const[]){new, old}, 2);
}

static ft_status find(const ft_cuda_driver *driver, ft_cublaslt *lt) {
    int newest = driver->version / 1000 < NEWEST_MAJOR ? driver->version / 1000 : NEWEST_MAJOR;
    bool asked;
    FT_TRY(ft_vendor_asked(&lt->library, "FTENGINE_CUBLASLT", &asked));
    if (asked) return FT_OK;
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

static ft_status load(const ft_cuda_driver *driver, ft_cublaslt *lt) {
    lt->library.name = "cuBLASLt";
    FT_TRY(find(driver, lt));
    FT_TRY(ft_vendor_symbol(&lt->library, "cublasLtGetVersion", &lt->get_version));
    FT_TRY(ft_vendor_symbol(&lt->library, "cublasLtGetStatusName", &lt->status_name));
#define FT_CUBLASLT_CALL(field, symbol, parameters) FT_TRY(ft_vendor_symbol(&lt->library, #symbol, &lt->field));
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
    ft_vendor_close(&lt->library);
    free(lt);
}

// library.c - finding and opening NCCL.
#include "kernels/collectives/nccl/nccl.h"

#include "base/arena.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// True when the file was opened. A file that is there but cannot be loaded leaves its reason as the present error.
static bool try_file(ft_nccl *n, const char *path) {
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); // its threads outlive every user of it
    if (n->library == NULL) {
        const char *reason = dlerror();
        if (reason != NULL && strstr(reason, "No such file") == NULL)
            ft_fail(FT_NO_DEVICE, path, "NCCL cannot be loaded: %s", reason);
        return false;
    }
    snprintf(n->path, sizeof n->path, "%s", path);
    return true;
}

static bool try_python(ft_nccl *n, const char *prefix) {
    static const char *const packages[] = {"site", "dist"};
    bool opened = false;
    for (int p = 0; p < 2 && !opened && prefix != NULL && prefix[0] != '\0'; p++) {
        char pattern[512];
        glob_t found = {0};
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/%s-packages/nvidia/nccl/lib/libnccl.so.2", prefix,
                 packages[p]);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = found.gl_pathc; i > 0 && !opened; i--)
                opened = try_file(n, found.gl_pathv[i - 1]);
        globfree(&found);
    }
    return opened;
}

static ft_status find(ft_nccl *n) {
    const char *asked = getenv("FTENGINE_NCCL"), *home = getenv("HOME");
    char user[400] = "";
    ft_error_clear();
    if (asked != NULL && asked[0] != '\0') {
        if (try_file(n, asked)) return FT_OK;
        if (ft_error_code() == FT_OK) ft_fail(FT_NO_DEVICE, asked, "FTENGINE_NCCL names a file that is not there");
        return ft_error_code();
    }
    if (home != NULL && home[0] != '\0') snprintf(user, sizeof user, "%s/.local", home);
    if (try_file(n, "libnccl.so.2") || try_python(n, getenv("VIRTUAL_ENV")) || try_python(n, getenv("CONDA_PREFIX")) ||
        try_python(n, user) || try_python(n, "/usr/local") || try_python(n, "/usr")) {
        ft_error_clear(); // of a copy that was passed over
        return FT_OK;
    }
    if (ft_error_code() != FT_OK) return ft_error_code();
    ft_fail(FT_NO_DEVICE, NULL, "NVIDIA's collectives are missing: libnccl.so.2 was not found");
    ft_hint("pip install nvidia-nccl-cu12 or nvidia-nccl-cu13, or set FTENGINE_NCCL to the file");
    return FT_NO_DEVICE;
}

static ft_status look_up(const ft_nccl *n, const char *symbol, void *slot) {
    void *address = dlsym(n->library, symbol);
    if (address == NULL) return ft_fail(FT_NO_DEVICE, n->path, "this NCCL has no function %s", symbol);
    memcpy(slot, &address, sizeof address);
    return FT_OK;
}

// Read by the library when it is called for the first time.
static ft_status pin(int channels) {
    char number[12];
    snprintf(number, sizeof number, "%d", channels);
    const char *const settings[][2] = {{"NCCL_ALGO", "Ring"},
                                       {"NCCL_PROTO", "Simple"},
                                       {"NCCL_NVLS_ENABLE", "0"},
                                       {"NCCL_MIN_CTAS", number},
                                       {"NCCL_MAX_CTAS", number}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (setenv(settings[i][0], settings[i][1], 1) != 0) return ft_fail_memory(0, "the environment");
    return FT_OK;
}

static ft_status load(int channels, ft_nccl *n) {
    FT_TRY(pin(channels));
    FT_TRY(find(n));
    FT_TRY(look_up(n, "ncclGetErrorString", &n->error_string));
    FT_TRY(look_up(n, "ncclGetLastError", &n->last_error));
#define FT_NCCL_CALL(field, symbol, parameters) FT_TRY(look_up(n, #symbol, &n->field));
#include "kernels/collectives/nccl/nccl.def"
#undef FT_NCCL_CALL
    if (n->get_version(&n->version) != FT_NCCL_SUCCESS || n->version < FT_NCCL_MINIMUM_VERSION)
        return ft_fail(FT_NO_DEVICE, n->path, "NCCL %d.%d is too old: 2.18 is the first that is used",
                       n->version / 10000, n->version / 100 % 100);
    return FT_OK;
}

ft_status ft_nccl_open(int channels, ft_nccl **nccl) {
    *nccl = NULL;
    if (channels < 1 || channels > FT_NCCL_CHANNELS)
        return ft_fail(FT_INVALID, "NCCL", "1 to %d channels, not %d", FT_NCCL_CHANNELS, channels);
    ft_nccl *n = ft_calloc(1, sizeof *n, "NCCL's functions");
    if (n == NULL) return FT_NO_MEMORY;
    const ft_status status = load(channels, n);
    if (status == FT_OK) return *nccl = n, FT_OK;
    ft_nccl_close(n);
    return status;
}

void ft_nccl_close(ft_nccl *nccl) {
    if (nccl == NULL) return;
    if (nccl->library != NULL) (void)dlclose(nccl->library);
    free(nccl);
}

// library.c - finding and opening NCCL.
#include "kernels/collectives/nccl/nccl.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>

static ft_status find(ft_nccl *n) {
    static const char *const below[] = {"nvidia/nccl/lib/libnccl.so.2"};
    bool asked;
    FT_TRY(ft_vendor_asked(&n->library, "FTENGINE_NCCL", &asked));
    if (asked) return FT_OK;
    if (ft_vendor_try(&n->library, "libnccl.so.2") || ft_vendor_try_python(&n->library, below, 1)) {
        ft_error_clear(); // of a copy that was passed over
        return FT_OK;
    }
    if (ft_error_code() != FT_OK) return ft_error_code();
    ft_fail(FT_NO_DEVICE, NULL, "NVIDIA's collectives are missing: libnccl.so.2 was not found");
    ft_hint("pip install nvidia-nccl-cu12 or nvidia-nccl-cu13, or set FTENGINE_NCCL to the file");
    return FT_NO_DEVICE;
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
    n->library.name = "NCCL";
    FT_TRY(pin(channels));
    FT_TRY(find(n));
    FT_TRY(ft_vendor_symbol(&n->library, "ncclGetErrorString", &n->error_string));
    FT_TRY(ft_vendor_symbol(&n->library, "ncclGetLastError", &n->last_error));
#define FT_NCCL_CALL(field, symbol, parameters) FT_TRY(ft_vendor_symbol(&n->library, #symbol, &n->field));
#include "kernels/collectives/nccl/nccl.def"
#undef FT_NCCL_CALL
    if (n->get_version(&n->version) != FT_NCCL_SUCCESS || n->version < FT_NCCL_MINIMUM_VERSION)
        return ft_fail(FT_NO_DEVICE, n->library.path, "NCCL %d.%d is too old: 2.18 is the first that is used",
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
    ft_vendor_close(&nccl->library);
    free(nccl);
}

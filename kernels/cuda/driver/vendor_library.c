#include "kernels/cuda/driver/vendor_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ft_vendor_try(ft_vendor_library *l, const char *path) {
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); // its threads outlive every user of it
    if (l->handle == NULL) {
        const char *reason = dlerror();
        if (reason != NULL && strstr(reason, "No such file") == NULL)
            ft_fail(FT_NO_DEVICE, path, "%s cannot be loaded: %s", l->name, reason);
        return false;
    }
    snprintf(l->path, sizeof l->path, "%s", path);
    return true;
}

bool ft_vendor_try_newest(ft_vendor_library *l, const char *pattern) {
    glob_t found = {0};
    bool opened = false;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i > 0 && !opened; i--)
            opened = ft_vendor_try(l, found.gl_pathv[i - 1]);
    globfree(&found);
    return opened;
}

static bool try_prefix(ft_vendor_library *l, const char *prefix, const char *const *below, int count) {
    static const char *const packages[] = {"site", "dist"};
    char pattern[512];
    if (prefix == NULL || prefix[0] == '\0') return false;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < count; i++) {
            snprintf(pattern, sizeof pattern, "%s/lib/python3*/%s-packages/%s", prefix, packages[p], below[i]);
            if (ft_vendor_try_newest(l, pattern)) return true;
        }
    return false;
}

bool ft_vendor_try_python(ft_vendor_library *l, const char *const *below, int count) {
    const char *home = getenv("HOME");
    char user[400] = "";
    if (home != NULL && home[0] != '\0') snprintf(user, sizeof user, "%s/.local", home);
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), user, "/usr/local", "/usr"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (try_prefix(l, prefixes[i], below, count)) return true;
    return false;
}

ft_status ft_vendor_asked(ft_vendor_library *l, const char *variable, bool *asked) {
    const char *path = getenv(variable);
    *asked = path != NULL && path[0] != '\0';
    ft_error_clear();
    if (!*asked || ft_vendor_try(l, path)) return FT_OK;
    if (ft_error_code() == FT_OK) ft_fail(FT_NO_DEVICE, path, "%s names a file that is not there", variable);
    return ft_error_code();
}

// POSIX has dlsym's pointer hold functions too.
ft_status ft_vendor_symbol(const ft_vendor_library *l, const char *symbol, void *slot) {
    void *address = dlsym(l->handle, symbol);
    if (address == NULL) return ft_fail(FT_NO_DEVICE, l->path, "this %s has no function %s", l->name, symbol);
    memcpy(slot, &address, sizeof address);
    return FT_OK;
}

void ft_vendor_close(ft_vendor_library *l) {
    if (l->handle != NULL) (void)dlclose(l->handle);
    l->handle = NULL;
}

#include "engine/hub/curl_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// Debian has it with either of two libraries for TLS; both speak the same interface.
static void *open_library(char *why, size_t size) {
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    const char *reason = dlerror(); // which the next call overwrites
    snprintf(why, size, "%s", reason != NULL ? reason : "no reason given");
    return dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
}

ft_status ft_curl_load(const ft_curl **curl) {
    static ft_curl loaded;
    static void *library;
    *curl = &loaded;
    if (library != NULL) return FT_OK;
    char why[300];
    void *opened = open_library(why, sizeof why);
    if (opened == NULL) {
        ft_fail(FT_FAILED, "libcurl.so.4", "fetching a model needs libcurl, which cannot be loaded: %s", why);
        ft_hint("where it is missing: apt-get install libcurl4");
        return FT_FAILED;
    }
#define X(function)                                                                                                    \
    {                                                                                                                  \
        void *symbol = dlsym(opened, "curl_" #function);                                                               \
        if (symbol == NULL) return ft_fail(FT_FAILED, "libcurl.so.4", "this libcurl has no curl_" #function);          \
        memcpy(&loaded.function, &symbol, sizeof symbol); /* C has no cast from data to functions */                   \
    }
    FT_CURL_FUNCTIONS(X)
#undef X
    library = opened;
    return FT_OK;
}

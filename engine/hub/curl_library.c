#include "engine/hub/curl_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

// Debian has it with either of two libraries for TLS; both speak the same interface.
static void *open_library(void) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

ft_status ft_curl_load(const ft_curl **curl) {
    static ft_curl loaded;
    static void *library;
    *curl = &loaded;
    if (library != NULL) return FT_OK;
    void *opened = open_library();
    if (opened == NULL) {
        ft_fail(FT_FAILED, "libcurl.so.4", "libcurl is not installed, and fetching a model needs it");
        ft_hint("apt-get install libcurl4");
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

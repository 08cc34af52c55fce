#include "engine/hub/curl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
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

// Found out once a process and not changed after that: the library stays loaded.
typedef struct curl_library {
    ft_curl functions;
    const char *lacks; // a function that it does not have; NULL: none
    bool opened;
    char why[300]; // it could not be
} curl_library;
static curl_library found;

static void find_library(void) {
    void *library = open_library(found.why, sizeof found.why);
    found.opened = library != NULL;
    if (!found.opened) return;
#define X(function)                                                                                                    \
    {                                                                                                                  \
        void *symbol = dlsym(library, "curl_" #function);                                                              \
        if (symbol == NULL) found.lacks = "curl_" #function;                                                           \
        memcpy(&found.functions.function, &symbol, sizeof symbol); /* C has no cast from data to functions */          \
    }
    FT_CURL_FUNCTIONS(X)
#undef X
}

ft_status ft_curl_load(const ft_curl **curl) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library);
    *curl = &found.functions;
    if (!found.opened) {
        ft_fail(FT_FAILED, "libcurl.so.4", "talking to a server needs libcurl, which cannot be loaded: %s", found.why);
        ft_hint("where it is missing: apt-get install libcurl4");
        return FT_FAILED;
    }
    return found.lacks == NULL ? FT_OK : ft_fail(FT_FAILED, "libcurl.so.4", "this libcurl has no %s", found.lacks);
}

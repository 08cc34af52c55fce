#include "hpo/storage/pq_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// Found out once a process and not changed after that: the library stays loaded.
typedef struct pq_library {
    ft_pq functions;
    const char *lacks; // a function that it does not have; NULL: none
    bool opened;
    char why[300]; // it could not be
} pq_library;
static pq_library found;

static void find_library(void) {
    void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    found.opened = library != NULL;
    if (!found.opened) {
        const char *reason = dlerror();
        snprintf(found.why, sizeof found.why, "%s", reason != NULL ? reason : "no reason given");
        return;
    }
#define X(function)                                                                                                    \
    {                                                                                                                  \
        void *symbol = dlsym(library, "PQ" #function);                                                                 \
        if (symbol == NULL) found.lacks = "PQ" #function;                                                              \
        memcpy(&found.functions.function, &symbol, sizeof symbol); /* C has no cast from data to functions */          \
    }
    FT_PQ_FUNCTIONS(X)
#undef X
}

ft_status ft_pq_load(const ft_pq **pq) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library);
    *pq = &found.functions;
    if (!found.opened) {
        ft_fail(FT_FAILED, "libpq.so.5", "a study in PostgreSQL needs libpq, which cannot be loaded: %s", found.why);
        ft_hint("where it is missing: apt-get install libpq5");
        return FT_FAILED;
    }
    return found.lacks == NULL
               ? FT_OK
               : ft_fail(FT_FAILED, "libpq.so.5", "this libpq has no %s: version 14 or later is needed", found.lacks);
}

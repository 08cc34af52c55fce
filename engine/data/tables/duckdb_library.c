#include "engine/data/tables/duckdb_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Found out once a process and not changed after that: the library stays loaded.
typedef struct duckdb_library {
    ft_duckdb functions;
    const char *lacks; // a function that it does not have; NULL: none
    bool opened, named;
    char path[512], why[300]; // it could not be opened
} duckdb_library;
static duckdb_library found;

static void *try_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library == NULL ? dlerror() : NULL; // which the next call overwrites
    if (library == NULL) snprintf(found.why, sizeof found.why, "%s", reason != NULL ? reason : "no reason given");
    return library;
}

// _duckdb.cpython-311-x86_64-linux-gnu.so calls functions of the interpreter, which a program that is none has to bring
// along.
static bool load_python(const char *path) {
    const char *tag = strstr(path, ".cpython-3");
    char name[64];
    if (tag == NULL || strstr(found.why, "Py") == NULL) return false;
    snprintf(name, sizeof name, "libpython3.%d.so.1.0", atoi(tag + strlen(".cpython-3")));
    if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) != NULL) return true;
    const char *reason = dlerror();
    snprintf(found.why, sizeof found.why, "%s", reason != NULL ? reason : "no reason given");
    return false;
}

static void find_library(void) {
    const char *path = getenv("FTENGINE_DUCKDB");
    found.named = path != NULL && *path != '\0';
    snprintf(found.path, sizeof found.path, "%s", found.named ? path : "libduckdb.so");
    void *library = try_open(found.path);
    if (library == NULL && load_python(found.path)) library = try_open(found.path);
    found.opened = library != NULL;
    if (!found.opened) return;
#define X(function)                                                                                                    \
    {                                                                                                                  \
        void *symbol = dlsym(library, "duckdb_" #function);                                                            \
        if (symbol == NULL) found.lacks = "duckdb_" #function;                                                         \
        memcpy(&found.functions.function, &symbol, sizeof symbol); /* C has no cast from data to functions */          \
    }
    FT_DUCKDB_FUNCTIONS(X)
#undef X
}

ft_status ft_duckdb_load(const ft_duckdb **duckdb, bool *absent) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library);
    *duckdb = &found.functions;
    *absent = !found.opened && !found.named;
    if (*absent) return FT_OK;
    if (!found.opened) return ft_fail(FT_FAILED, "FTENGINE_DUCKDB", "DuckDB's library cannot be loaded: %s", found.why);
    if (found.lacks == NULL) return FT_OK;
    return ft_fail(FT_FAILED, found.named ? "FTENGINE_DUCKDB" : found.path,
                   "%s has no %s: it is no library of DuckDB 0.10 or later", found.path, found.lacks);
}

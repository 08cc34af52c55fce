#include "tests/emulator/driver/lt_twin.h"

#include "tests/emulator/driver/fake_state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERNAL_ERROR = 14, TYPE = 0, ROWS = 2, COLS = 3, LEADING = 4 }; // attributes of a layout as cublasLt.h numbers them

// Their calls, of every kind alike: (object, attribute, value, bytes[, written]).
typedef int setter(void *object, unsigned attribute, const void *value, size_t bytes);
typedef int getter(void *object, unsigned attribute, void *value, size_t bytes, size_t *written);
static struct {
    int (*desc_create)(void **desc, unsigned compute, unsigned scale);
    int (*layout_create)(void **layout, unsigned type, uint64_t rows, uint64_t cols, int64_t leading);
    int (*preference_create)(void **preference);
    setter *set[3];
    getter *get[3];
    int (*destroy[3])(void *object);
} real;
static bool there;
static unsigned long long calls;

static void look_up(void *library, const char *name, void *slot) {
    void *address = dlsym(library, name);
    if (address == NULL) fake_fatal("FAKE_LT_TWIN lacks a function");
    memcpy(slot, &address, sizeof address);
}

static void open_real(void) {
    static const char *const kinds[] = {"MatmulDesc", "MatrixLayout", "MatmulPreference"};
    const char *path = getenv("FAKE_LT_TWIN");
    if (path == NULL || path[0] == '\0') return;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND); // its own functions call each other, not the fake's
    if (library == NULL) fake_fatal(dlerror());
    look_up(library, "cublasLtMatmulDescCreate", &real.desc_create);
    look_up(library, "cublasLtMatrixLayoutCreate", &real.layout_create);
    look_up(library, "cublasLtMatmulPreferenceCreate", &real.preference_create);
    for (int kind = 0; kind < 3; kind++) {
        char name[64];
        snprintf(name, sizeof name, "cublasLt%sSetAttribute", kinds[kind]);
        look_up(library, name, &real.set[kind]);
        snprintf(name, sizeof name, "cublasLt%sGetAttribute", kinds[kind]);
        look_up(library, name, &real.get[kind]);
        snprintf(name, sizeof name, "cublasLt%sDestroy", kinds[kind]);
        look_up(library, name, &real.destroy[kind]);
    }
    there = true;
}

static bool opened(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_real);
    return there;
}

static int counted(int status) {
    if (status == 0) __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return status;
}

// What the real one has under an attribute is what it was given, and of that size.
static int read_back(lt_twin_kind kind, void *twin, unsigned attribute, const void *value, size_t bytes) {
    unsigned char have[16];
    size_t written = 0;
    if (bytes > sizeof have) return INTERNAL_ERROR;
    const int status = real.get[kind](twin, attribute, have, bytes, &written);
    if (status != 0) return status;
    return written == bytes && memcmp(have, value, bytes) == 0 ? counted(0) : INTERNAL_ERROR;
}

int lt_twin_desc(void **twin, ft_lt_compute compute, ft_lt_type scale) { return opened() ? counted(real.desc_create(twin, compute, scale)) : 0; }

int lt_twin_preference(void **twin) { return opened() ? counted(real.preference_create(twin)) : 0; }

int lt_twin_layout(void **twin, ft_lt_type type, uint64_t rows, uint64_t cols, int64_t leading) {
    if (!opened()) return 0;
    const uint32_t type_there = type;
    const struct {
        unsigned attribute;
        const void *value;
        size_t bytes;
    } parts[] = {{TYPE, &type_there, sizeof type_there}, {ROWS, &rows, sizeof rows}, {COLS, &cols, sizeof cols}, {LEADING, &leading, sizeof leading}};
    int status = counted(real.layout_create(twin, type, rows, cols, leading));
    for (size_t i = 0; status == 0 && i < sizeof parts / sizeof *parts; i++)
        status = read_back(LT_TWIN_LAYOUT, *twin, parts[i].attribute, parts[i].value, parts[i].bytes);
    return status;
}

int lt_twin_set(lt_twin_kind kind, void *twin, unsigned attribute, const void *value, size_t bytes) {
    if (twin == NULL) return 0;
    const int status = counted(real.set[kind](twin, attribute, value, bytes));
    return status != 0 ? status : read_back(kind, twin, attribute, value, bytes);
}

int lt_twin_drop(lt_twin_kind kind, void *twin) { return twin != NULL ? counted(real.destroy[kind](twin)) : 0; }

unsigned long long lt_twin_calls(void) { return __atomic_load_n(&calls, __ATOMIC_RELAXED); }

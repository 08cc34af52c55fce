// fake_driver.c - a libcuda.so.1 over host memory, for machines without a GPU. It is stricter than the real one where
// the documentation lets the real one choose: queued work runs when somebody waits for it and not before, neither
// freeing nor unmapping waits, and what the documentation calls undefined is an error and counted. Memory is one file
// without a name, so that a handle is the same bytes wherever it is mapped; addresses without access fault. For one
// thread.
#include "tests/emulator/fake_driver.h"

#include "kernels/cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef FAKE_LACKS_MEM_CREATE // a second library, for the error when a function is missing
#define cuMemCreate another_function
#endif
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int result, const char **name);
int cuGetErrorString(int result, const char **text);
#define FT_CUDA_CALL(field, symbol, parameters) int symbol parameters;
#include "kernels/cuda/driver.def"
#undef FT_CUDA_CALL

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    ILLEGAL_ADDRESS = 700,
    NOT_SUPPORTED = 801,
    DEVICES = 8,
    HOST_PAGE = 4096,
};

struct ft_cu_context_object {
    int device;
    size_t retained;
};

typedef struct work {
    struct work *next;
    char *to; // device or host, as `kind` has it
    const char *from;
    size_t bytes;
    unsigned char byte;
    enum { UPLOAD, DOWNLOAD, COPY, FILL } kind;
} work;

struct ft_cu_stream_object {
    struct ft_cu_stream_object *next;
    ft_cu_context context;
    work *first, **last;
};

// Everything that has a size and a place: buffers, reservations, handles (place: in the file), mappings.
typedef struct piece {
    struct piece *next;
    uint64_t at;
    size_t bytes;
    int device;
    struct piece *handle; // of a mapping
    size_t mapped;        // of a handle: mappings that use it
    bool released;        // of a handle: it lives on until nothing is mapped
    bool accessible;      // of a mapping
} piece;

static fake_settings set;
static fake_books books;
static bool initialised;
static int sticky; // the error that a device does not recover from
static struct ft_cu_context_object contexts[DEVICES];
static _Thread_local ft_cu_context current;
static struct ft_cu_stream_object *streams;
static piece *buffers, *reservations, *handles, *mappings;
static size_t used[DEVICES];
static int file = -1;
static uint64_t file_end;
static struct {
    char call[64];
    uint64_t skip, times;
    int result;
} plan;

static void fatal(const char *what) {
    fprintf(stderr, "fake driver: %s\n", what);
    abort();
}

// ---- pieces -----------------------------------------------------------------------------------------------------

static piece *piece_add(piece **list, piece value, size_t *count) {
    piece *p = malloc(sizeof *p);
    if (p == NULL) fatal("no memory");
    *p = value;
    p->next = *list;
    *list = p;
    ++*count;
    return p;
}

static void piece_drop(piece **list, piece *p, size_t *count) {
    while (*list != p)
        list = &(*list)->next;
    *list = p->next;
    free(p);
    --*count;
}

static piece *starting_at(piece *list, uint64_t at) {
    while (list != NULL && list->at != at)
        list = list->next;
    return list;
}

static piece *around(piece *list, uint64_t at, size_t bytes) {
    while (list != NULL && !(list->at <= at && bytes <= list->bytes && at - list->at <= list->bytes - bytes))
        list = list->next;
    return list;
}

static bool overlaps(const piece *list, uint64_t at, size_t bytes) {
    while (list != NULL && !(list->at < at + bytes && at < list->at + list->bytes))
        list = list->next;
    return list != NULL;
}

// Do mappings cover these bytes without a gap, and with access if that is asked?
static bool mapped(uint64_t at, size_t bytes, bool access) {
    while (bytes > 0) {
        piece *m = around(mappings, at, 1);
        if (m == NULL || (access && !m->accessible)) return false;
        size_t here = m->at + m->bytes - at;
        if (here >= bytes) return true;
        at += here;
        bytes -= here;
    }
    return true;
}

static bool usable(const void *data, size_t bytes) {
    uint64_t at = (uintptr_t)data;
    return around(buffers, at, bytes) != NULL || mapped(at, bytes, true);
}

// ---- control ----------------------------------------------------------------------------------------------------

fake_settings fake_defaults(void) {
    fake_settings s = {.name = "NVIDIA Fake 4096",
                       .version = 12020,
                       .devices = 1,
                       .capability = 80,
                       .multiprocessors = 108,
                       .virtual_memory = 1,
                       .memory = (size_t)64 << 20,
                       .granularity = (size_t)2 << 20};
    return s;
}

fake_books fake_read(void) { return books; }

void fake_refuse(const char *call, uint64_t nth, uint64_t times, int result) {
    snprintf(plan.call, sizeof plan.call, "%s", call != NULL ? call : "");
    plan.skip = nth - 1;
    plan.times = times;
    plan.result = result;
}

void fake_reset(const fake_settings *settings) {
    if (books.contexts + books.streams + books.buffers + books.reservations + books.handles + books.mappings > 0)
        fatal("reset while something is alive");
    if (settings->devices > DEVICES) fatal("too many devices");
    set = *settings;
    books = (fake_books){0};
    initialised = false;
    sticky = 0;
    plan.times = 0;
}

__attribute__((constructor)) static void set_up(void) {
    fake_settings s = fake_defaults();
    struct {
        const char *name;
        size_t *value;
    } fields[] = {{"version=", &s.version},
                  {"init_result=", &s.init_result},
                  {"devices=", &s.devices},
                  {"capability=", &s.capability},
                  {"multiprocessors=", &s.multiprocessors},
                  {"virtual_memory=", &s.virtual_memory},
                  {"memory=", &s.memory},
                  {"granularity=", &s.granularity}};
    const char *text = getenv("FAKE_CUDA");
    while (text != NULL && *text != '\0') {
        size_t i = 0;
        while (i < sizeof fields / sizeof *fields && strncmp(text, fields[i].name, strlen(fields[i].name)) != 0)
            i++;
        if (i == sizeof fields / sizeof *fields) fatal("FAKE_CUDA has a name that is not known");
        char *end;
        *fields[i].value = strtoull(text + strlen(fields[i].name), &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    fake_reset(&s);
}

// 0: go on. Else what the call returns.
static int begin(const char *call) {
    if (!initialised && strcmp(call, "cuInit") != 0 && strcmp(call, "cuDriverGetVersion") != 0)
        return books.misuses++, NOT_INITIALIZED;
    if (plan.times > 0 && (plan.call[0] == '\0' || strcmp(plan.call, call) == 0)) {
        if (plan.skip > 0)
            plan.skip--;
        else
            return plan.times--, plan.result;
    }
    return sticky;
}

static int begin_in_context(const char *call) {
    int result = begin(call);
    if (result != 0) return result;
    return current == NULL || current->retained == 0 ? (books.misuses++, INVALID_CONTEXT) : 0;
}

#define BEGIN                                                                                                          \
    do {                                                                                                               \
        int begun = begin(__func__);                                                                                   \
        if (begun != 0) return begun;                                                                                  \
    } while (0)
#define BEGIN_IN_CONTEXT                                                                                               \
    do {                                                                                                               \
        int begun = begin_in_context(__func__);                                                                        \
        if (begun != 0) return begun;                                                                                  \
    } while (0)
#define DEMAND(condition, result)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) return books.misuses++, (result);                                                            \
    } while (0)

// ---- the driver and its devices ---------------------------------------------------------------------------------

int cuInit(unsigned flags) {
    BEGIN;
    DEMAND(flags == 0, INVALID_VALUE);
    if (set.init_result != 0) return (int)set.init_result;
    if (set.devices == 0) return FT_CU_NO_DEVICE;
    initialised = true;
    return 0;
}

int cuDriverGetVersion(int *version) {
    BEGIN;
    *version = (int)set.version;
    return 0;
}

static const struct {
    int result;
    const char *name, *text;
} errors[] = {{0, "CUDA_SUCCESS", "no error"},
              {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
              {FT_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
              {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
              {FT_CU_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
              {FT_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
              {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
              {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
              {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
              {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
              {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
              {FT_CU_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
               "system has unsupported display driver / cuda driver combination"}};

static int find_error(int result) {
    int i = (int)(sizeof errors / sizeof *errors) - 1;
    while (i >= 0 && errors[i].result != result)
        i--;
    return i;
}

int cuGetErrorName(int result, const char **name) {
    int i = find_error(result);
    *name = i < 0 ? NULL : errors[i].name;
    return i < 0 ? INVALID_VALUE : 0;
}

int cuGetErrorString(int result, const char **text) {
    int i = find_error(result);
    *text = i < 0 ? NULL : errors[i].text;
    return i < 0 ? INVALID_VALUE : 0;
}

int cuDeviceGetCount(int *count) {
    BEGIN;
    *count = (int)set.devices;
    return 0;
}

static bool is_device(int device) { return device >= 0 && (size_t)device < set.devices; }

int cuDeviceGet(int *device, int ordinal) {
    BEGIN;
    DEMAND(is_device(ordinal), INVALID_DEVICE);
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    BEGIN;
    DEMAND(is_device(device), INVALID_DEVICE);
    DEMAND(size > 0, INVALID_VALUE);
    snprintf(name, (size_t)size, "%s", set.name);
    return 0;
}

int cuDeviceGetAttribute(int *value, unsigned attribute, int device) {
    BEGIN;
    DEMAND(is_device(device), INVALID_DEVICE);
    switch (attribute) {
    case FT_CU_ATTRIBUTE_MULTIPROCESSORS: *value = (int)set.multiprocessors; return 0;
    case FT_CU_ATTRIBUTE_PCI_BUS: *value = 0x3b + device; return 0;
    case FT_CU_ATTRIBUTE_PCI_DEVICE:
    case FT_CU_ATTRIBUTE_PCI_DOMAIN: *value = 0; return 0;
    case FT_CU_ATTRIBUTE_CAPABILITY_MAJOR: *value = (int)set.capability / 10; return 0;
    case FT_CU_ATTRIBUTE_CAPABILITY_MINOR: *value = (int)set.capability % 10; return 0;
    case FT_CU_ATTRIBUTE_VIRTUAL_MEMORY: *value = set.virtual_memory != 0; return 0;
    default: return books.misuses++, INVALID_VALUE;
    }
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    BEGIN;
    DEMAND(is_device(device), INVALID_DEVICE);
    *bytes = set.memory;
    return 0;
}

// ---- contexts and streams ---------------------------------------------------------------------------------------

int cuDevicePrimaryCtxRetain(ft_cu_context *context, int device) {
    BEGIN;
    DEMAND(is_device(device), INVALID_DEVICE);
    contexts[device].device = device;
    contexts[device].retained++;
    books.contexts++;
    *context = &contexts[device];
    return 0;
}

// After an error that the device does not recover from, everything goes with its context: nothing else takes it back.
static void lose_everything(void) {
    for (; streams != NULL; books.streams--) {
        ft_cu_stream stream = streams;
        streams = stream->next;
        for (work *w = stream->first, *next; w != NULL; w = next) {
            next = w->next;
            free(w);
        }
        free(stream);
    }
    for (; buffers != NULL; piece_drop(&buffers, buffers, &books.buffers))
        free((void *)(uintptr_t)buffers->at);
    while (mappings != NULL)
        piece_drop(&mappings, mappings, &books.mappings);
    while (handles != NULL)
        piece_drop(&handles, handles, &books.handles);
    for (; reservations != NULL; piece_drop(&reservations, reservations, &books.reservations))
        munmap((void *)(uintptr_t)reservations->at, reservations->bytes);
    memset(used, 0, sizeof used);
    books.used = 0;
}

// Neither injected nor lasting errors keep a context alive.
int cuDevicePrimaryCtxRelease_v2(int device) {
    DEMAND(is_device(device) && contexts[device].retained > 0, INVALID_CONTEXT);
    contexts[device].retained--;
    books.contexts--;
    if (sticky != 0 && books.contexts == 0) lose_everything();
    return 0;
}

int cuCtxSetCurrent(ft_cu_context context) {
    BEGIN;
    DEMAND(context == NULL || context->retained > 0, INVALID_CONTEXT);
    current = context;
    return 0;
}

int cuStreamCreate(ft_cu_stream *stream, unsigned flags) {
    BEGIN_IN_CONTEXT;
    DEMAND(flags <= FT_CU_STREAM_NON_BLOCKING, INVALID_VALUE);
    ft_cu_stream s = calloc(1, sizeof *s);
    if (s == NULL) fatal("no memory");
    s->context = current;
    s->last = &s->first;
    s->next = streams;
    streams = s;
    books.streams++;
    *stream = s;
    return 0;
}

static bool is_stream(ft_cu_stream stream) {
    ft_cu_stream s = streams;
    while (s != NULL && s != stream)
        s = s->next;
    return s != NULL && s->context == current;
}

static void run(const work *w) {
    bool good = (w->kind == DOWNLOAD || usable(w->to, w->bytes)) &&
                (w->kind == UPLOAD || w->kind == FILL || usable(w->from, w->bytes));
    if (!good)
        sticky = ILLEGAL_ADDRESS;
    else if (w->kind == FILL)
        memset(w->to, w->byte, w->bytes);
    else
        memcpy(w->to, w->from, w->bytes);
}

int cuStreamSynchronize(ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_stream(stream), INVALID_HANDLE);
    while (stream->first != NULL) {
        work *w = stream->first;
        stream->first = w->next;
        if (sticky == 0) run(w);
        free(w);
    }
    stream->last = &stream->first;
    return sticky;
}

int cuStreamDestroy_v2(ft_cu_stream stream) {
    DEMAND(is_stream(stream), INVALID_HANDLE); // neither injected nor sticky errors keep a stream alive
    DEMAND(stream->first == NULL, INVALID_HANDLE);
    ft_cu_stream *at = &streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
    books.streams--;
    return 0;
}

static int queue(ft_cu_stream stream, work value) {
    DEMAND(is_stream(stream), INVALID_HANDLE);
    DEMAND(value.bytes > 0 && value.to != NULL && (value.kind == FILL || value.from != NULL), INVALID_VALUE);
    work *w = malloc(sizeof *w);
    if (w == NULL) fatal("no memory");
    *w = value;
    w->next = NULL;
    *stream->last = w;
    stream->last = &w->next;
    return 0;
}

static void *pointer(ft_cu_address address) { return (void *)(uintptr_t)address; }

int cuMemcpyHtoDAsync_v2(ft_cu_address to, const void *from, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue(stream, (work){.kind = UPLOAD, .to = pointer(to), .from = from, .bytes = bytes});
}

int cuMemcpyDtoHAsync_v2(void *to, ft_cu_address from, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue(stream, (work){.kind = DOWNLOAD, .to = to, .from = pointer(from), .bytes = bytes});
}

int cuMemcpyDtoDAsync_v2(ft_cu_address to, ft_cu_address from, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue(stream, (work){.kind = COPY, .to = pointer(to), .from = pointer(from), .bytes = bytes});
}

int cuMemsetD8Async(ft_cu_address to, unsigned char byte, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue(stream, (work){.kind = FILL, .to = pointer(to), .byte = byte, .bytes = bytes});
}

// ---- buffers ----------------------------------------------------------------------------------------------------

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    BEGIN_IN_CONTEXT;
    *free_bytes = set.memory - used[current->device];
    *total = set.memory;
    return 0;
}

static int charge(int device, size_t bytes) {
    if (bytes > set.memory - used[device]) return FT_CU_OUT_OF_MEMORY;
    used[device] += bytes;
    books.used += bytes;
    return 0;
}

static void discharge(int device, size_t bytes) {
    used[device] -= bytes;
    books.used -= bytes;
}

int cuMemAlloc_v2(ft_cu_address *address, size_t bytes) {
    BEGIN_IN_CONTEXT;
    DEMAND(bytes > 0, INVALID_VALUE);
    int refused = charge(current->device, bytes);
    if (refused != 0) return refused;
    void *data = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (data == NULL) fatal("no memory");
    piece_add(&buffers, (piece){.at = (uintptr_t)data, .bytes = bytes, .device = current->device}, &books.buffers);
    *address = (uintptr_t)data;
    return 0;
}

int cuMemFree_v2(ft_cu_address address) {
    BEGIN_IN_CONTEXT;
    piece *p = starting_at(buffers, address);
    DEMAND(p != NULL && p->device == current->device, INVALID_VALUE);
    discharge(p->device, p->bytes);
    piece_drop(&buffers, p, &books.buffers);
    free(pointer(address));
    return 0;
}

// ---- virtual memory ---------------------------------------------------------------------------------------------

static bool whole(uint64_t value) { return value % set.granularity == 0; }

static bool is_place(ft_cu_location place) { return place.type == FT_CU_LOCATION_DEVICE && is_device(place.id); }

static bool is_kind(const ft_cu_memory *kind) {
    static const unsigned char zero[sizeof kind->flags];
    return kind->type == FT_CU_MEMORY_PINNED && kind->shareable == 0 && is_place(kind->location) &&
           kind->windows_attributes == NULL && memcmp(&kind->flags, zero, sizeof zero) == 0;
}

int cuMemGetAllocationGranularity(size_t *bytes, const ft_cu_memory *memory, unsigned which) {
    BEGIN;
    DEMAND(set.virtual_memory, NOT_SUPPORTED);
    DEMAND(is_kind(memory) && which <= 1, INVALID_VALUE);
    *bytes = set.granularity;
    return 0;
}

// Addresses without memory behind them, and without access.
static void *bare(void *at, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != NULL ? MAP_FIXED : 0);
    void *got = mmap(at, bytes, PROT_NONE, flags, -1, 0);
    return got == MAP_FAILED ? NULL : got;
}

int cuMemAddressReserve(ft_cu_address *base, size_t bytes, size_t alignment, ft_cu_address hint,
                        unsigned long long flags) {
    BEGIN;
    DEMAND(set.virtual_memory, NOT_SUPPORTED);
    DEMAND(bytes > 0 && bytes % HOST_PAGE == 0 && (alignment & (alignment - 1)) == 0 && hint == 0 && flags == 0,
           INVALID_VALUE);
    size_t unit = alignment > set.granularity ? alignment : set.granularity;
    char *begun = bare(NULL, bytes + unit);
    if (begun == NULL) return FT_CU_OUT_OF_MEMORY;
    size_t skip = (unit - (uintptr_t)begun % unit) % unit;
    if (skip > 0) munmap(begun, skip);
    munmap(begun + skip + bytes, unit - skip);
    piece_add(&reservations, (piece){.at = (uintptr_t)(begun + skip), .bytes = bytes}, &books.reservations);
    *base = (uintptr_t)(begun + skip);
    return 0;
}

int cuMemAddressFree(ft_cu_address base, size_t bytes) {
    BEGIN;
    piece *p = starting_at(reservations, base);
    DEMAND(p != NULL && p->bytes == bytes && !overlaps(mappings, base, bytes), INVALID_VALUE);
    munmap(pointer(base), bytes);
    piece_drop(&reservations, p, &books.reservations);
    return 0;
}

int cuMemCreate(ft_cu_handle *handle, size_t bytes, const ft_cu_memory *memory, unsigned long long flags) {
    BEGIN;
    DEMAND(set.virtual_memory, NOT_SUPPORTED);
    DEMAND(bytes > 0 && whole(bytes) && is_kind(memory) && flags == 0, INVALID_VALUE);
    int refused = charge(memory->location.id, bytes);
    if (refused != 0) return refused;
    if (file < 0) file = memfd_create("fake device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)(file_end + bytes)) != 0) fatal("no memory");
    piece *p =
        piece_add(&handles, (piece){.at = file_end, .bytes = bytes, .device = memory->location.id}, &books.handles);
    file_end += bytes;
    *handle = (uintptr_t)p;
    return 0;
}

static piece *find_handle(ft_cu_handle handle) {
    piece *p = handles;
    while (p != NULL && (p != pointer(handle) || p->released))
        p = p->next;
    return p;
}

static void drop_unused(piece *handle) {
    if (!handle->released || handle->mapped > 0) return;
    (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle->at, (off_t)handle->bytes);
    discharge(handle->device, handle->bytes);
    piece_drop(&handles, handle, &books.handles);
}

int cuMemRelease(ft_cu_handle handle) {
    BEGIN;
    piece *p = find_handle(handle);
    DEMAND(p != NULL, INVALID_VALUE);
    p->released = true;
    drop_unused(p);
    return 0;
}

int cuMemMap(ft_cu_address to, size_t bytes, size_t offset, ft_cu_handle handle, unsigned long long flags) {
    BEGIN;
    piece *p = find_handle(handle);
    DEMAND(p != NULL && whole(to) && bytes > 0 && whole(bytes) && offset == 0 && bytes <= p->bytes && flags == 0,
           INVALID_VALUE);
    DEMAND(around(reservations, to, bytes) != NULL && !overlaps(mappings, to, bytes), INVALID_VALUE);
    if (mmap(pointer(to), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, (off_t)p->at) == MAP_FAILED)
        fatal("cannot map");
    p->mapped++;
    piece_add(&mappings, (piece){.at = to, .bytes = bytes, .device = p->device, .handle = p}, &books.mappings);
    return 0;
}

int cuMemUnmap(ft_cu_address from, size_t bytes) {
    BEGIN;
    piece *p = starting_at(mappings, from);
    DEMAND(p != NULL && p->bytes == bytes, INVALID_VALUE);
    if (bare(pointer(from), bytes) == NULL) fatal("cannot unmap");
    piece *handle = p->handle;
    piece_drop(&mappings, p, &books.mappings);
    handle->mapped--;
    drop_unused(handle);
    return 0;
}

int cuMemSetAccess(ft_cu_address base, size_t bytes, const ft_cu_access *access, size_t count) {
    BEGIN;
    DEMAND(count == 1 && is_place(access->location) && access->rights == FT_CU_ACCESS_READ_WRITE, INVALID_VALUE);
    DEMAND(bytes > 0 && whole(base) && whole(bytes) && mapped(base, bytes, false), INVALID_VALUE);
    for (piece *p = mappings; p != NULL; p = p->next) // no mapping in part
        DEMAND(p->at + p->bytes <= base || p->at >= base + bytes || (p->at >= base && p->at + p->bytes <= base + bytes),
               INVALID_VALUE);
    if (mprotect(pointer(base), bytes, PROT_READ | PROT_WRITE) != 0) fatal("cannot give access");
    for (piece *p = mappings; p != NULL; p = p->next)
        if (p->at >= base && p->at < base + bytes) p->accessible = true;
    return 0;
}

// fake_memory.c - the memory of the fake driver: buffers on the host's heap, and virtual memory. Handles are places in
// one file without a name, so that a handle is the same bytes wherever it is mapped; addresses without access fault.
#include "tests/emulator/driver/fake_state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
static void forbid(const void *data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
static void allow(const void *data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
#else
static void forbid(const void *data, size_t bytes) {}
static void allow(const void *data, size_t bytes) {}
#endif

enum { HOST_PAGE = 4096, ZONE = 256 }; // ZONE: around every buffer, at least
static size_t zone_behind(size_t bytes) { return (bytes + ZONE - 1) / ZONE * ZONE - bytes + ZONE; }

// Everything that has a size and a place: buffers, reservations, handles (place: in the file), mappings.
typedef struct piece {
    struct piece *next;
    uint64_t at;
    size_t bytes;
    int device;
    struct piece *handle; // of a mapping
    size_t mapped;        // of a handle: mappings that use it
    bool released;        // of a handle: it lives on until nothing is mapped
    int access;           // of a mapping: 1 + the device that has access, 0: none
} piece;

static piece *buffers, *pinned, *reservations, *handles, *mappings;
static size_t used[FAKE_DEVICES];
static int file = -1;
static uint64_t file_end;

// ---- pieces -----------------------------------------------------------------------------------------------------

static piece *piece_add(piece **list, piece value, size_t *count) {
    piece *p = malloc(sizeof *p);
    if (p == NULL) fake_fatal("no memory");
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

// Do mappings cover these bytes without a gap, and with that access if not 0?
static bool mapped(uint64_t at, size_t bytes, int access) {
    while (bytes > 0) {
        piece *m = around(mappings, at, 1);
        if (m == NULL || (access != 0 && m->access != access)) return false;
        size_t here = m->at + m->bytes - at;
        if (here >= bytes) return true;
        at += here;
        bytes -= here;
    }
    return true;
}

bool fake_usable(const void *data, size_t bytes, int device) {
    uint64_t at = (uintptr_t)data;
    const piece *buffer = around(buffers, at, bytes);
    return buffer != NULL ? buffer->device == device : mapped(at, bytes, device + 1);
}

bool fake_allocation(uint64_t address, uint64_t *begin, uint64_t *end) {
    const piece *p = around(buffers, address, 1);
    if (p == NULL) p = around(pinned, address, 1);
    const bool is_mapped = p == NULL;
    if (is_mapped) p = around(mappings, address, 1);
    if (p == NULL || (is_mapped && p->access == 0)) return false;
    const int access = p->access;
    *begin = p->at, *end = p->at + p->bytes;
    while (is_mapped && (p = around(mappings, *begin - 1, 1)) != NULL && p->access == access)
        *begin = p->at;
    while (is_mapped && (p = around(mappings, *end, 1)) != NULL && p->access == access)
        *end = p->at + p->bytes;
    return true;
}

// ---- buffers ----------------------------------------------------------------------------------------------------

static size_t somebody_else; // bytes of device 0 that another program has

static size_t left_on(int device) {
    size_t gone = used[device] + (device == 0 ? somebody_else : 0);
    const size_t left = gone < fake_set.memory ? fake_set.memory - gone : 0;
    if (fake_set.limit == 0) return left;
    const size_t own = used[device] < fake_set.limit ? fake_set.limit - used[device] : 0;
    return own < left ? own : left;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    BEGIN_IN_CONTEXT;
    *free_bytes = left_on(fake_current->device);
    *total = fake_set.memory;
    return 0;
}

static int charge(int device, size_t bytes) {
    if (device == 0 && fake_set.taken > 0 && used[0] + bytes > fake_set.taken_from) somebody_else = fake_set.taken;
    if (bytes > left_on(device)) return FT_CU_OUT_OF_MEMORY;
    used[device] += bytes;
    fake_kept.used += bytes;
    return 0;
}

static void discharge(int device, size_t bytes) {
    used[device] -= bytes;
    fake_kept.used -= bytes;
}

int cuMemAlloc_v2(ft_cu_address *address, size_t bytes) {
    BEGIN_IN_CONTEXT;
    DEMAND(bytes > 0, INVALID_VALUE);
    int forbidden = fake_may_wait();
    if (forbidden != 0) return forbidden;
    int refused = charge(fake_current->device, bytes);
    if (refused != 0) return refused;
    char *whole_piece = aligned_alloc(ZONE, ZONE + (bytes + ZONE - 1) / ZONE * ZONE + ZONE);
    if (whole_piece == NULL) fake_fatal("no memory");
    // What nobody wrote is NaN in every format; what stands around a buffer stays as it is.
    memset(whole_piece, 0xff, ZONE + (bytes + ZONE - 1) / ZONE * ZONE + ZONE);
    forbid(whole_piece, ZONE);
    forbid(whole_piece + ZONE + bytes, zone_behind(bytes));
    piece_add(&buffers, (piece){.at = (uintptr_t)whole_piece + ZONE, .bytes = bytes, .device = fake_current->device},
              &fake_kept.buffers);
    *address = (uintptr_t)whole_piece + ZONE;
    return 0;
}

static void give_back(const piece *buffer) {
    char *data = pointer(buffer->at);
    allow(data - ZONE, ZONE);
    allow(data + buffer->bytes, zone_behind(buffer->bytes));
    size_t changed = 0;
    for (size_t i = 0; i < ZONE; i++)
        changed += (unsigned char)data[(long)i - ZONE] != 0xff;
    for (size_t i = 0; i < zone_behind(buffer->bytes); i++)
        changed += (unsigned char)data[buffer->bytes + i] != 0xff;
    if (changed > 0) fake_kept.overruns++, fake_kept.misuses++;
    free(data - ZONE);
}

int cuMemFree_v2(ft_cu_address address) {
    BEGIN_IN_CONTEXT;
    piece *p = starting_at(buffers, address);
    DEMAND(p != NULL && p->device == fake_current->device, INVALID_VALUE);
    int forbidden = fake_may_wait();
    if (forbidden != 0) return forbidden;
    discharge(p->device, p->bytes);
    give_back(p);
    piece_drop(&buffers, p, &fake_kept.buffers);
    return 0;
}

// ---- pinned memory of the host ----------------------------------------------------------------------------------

bool fake_pinned(const void *data, size_t bytes) { return around(pinned, (uintptr_t)data, bytes) != NULL; }

int cuMemHostAlloc(void **data, size_t bytes, unsigned flags) {
    BEGIN_IN_CONTEXT;
    DEMAND(bytes > 0 && flags == 0, INVALID_VALUE);
    int forbidden = fake_may_wait();
    if (forbidden != 0) return forbidden;
    *data = aligned_alloc(HOST_PAGE, (bytes + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE);
    if (*data == NULL) fake_fatal("no memory");
    memset(*data, 0xff, bytes);
    piece_add(&pinned, (piece){.at = (uintptr_t)*data, .bytes = bytes}, &fake_kept.pinned);
    return 0;
}

int cuMemFreeHost(void *data) {
    BEGIN_IN_CONTEXT;
    piece *p = starting_at(pinned, (uintptr_t)data);
    DEMAND(p != NULL && !fake_queued(data, p->bytes), INVALID_VALUE);
    int forbidden = fake_may_wait();
    if (forbidden != 0) return forbidden;
    piece_drop(&pinned, p, &fake_kept.pinned);
    free(data);
    return 0;
}

// ---- virtual memory ---------------------------------------------------------------------------------------------

static bool whole(uint64_t value) { return value % fake_set.granularity == 0; }

static bool is_place(ft_cu_location place) { return place.type == FT_CU_LOCATION_DEVICE && fake_is_device(place.id); }

static bool is_kind(const ft_cu_memory *kind) {
    static const unsigned char zero[sizeof kind->flags];
    return kind->type == FT_CU_MEMORY_PINNED && kind->shareable == 0 && is_place(kind->location) &&
           kind->windows_attributes == NULL && memcmp(&kind->flags, zero, sizeof zero) == 0;
}

int cuMemGetAllocationGranularity(size_t *bytes, const ft_cu_memory *memory, unsigned which) {
    BEGIN;
    DEMAND(fake_set.virtual_memory, NOT_SUPPORTED);
    DEMAND(is_kind(memory) && which <= 1, INVALID_VALUE);
    *bytes = fake_set.granularity;
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
    DEMAND(fake_set.virtual_memory, NOT_SUPPORTED);
    DEMAND(bytes > 0 && bytes % HOST_PAGE == 0 && (alignment & (alignment - 1)) == 0 && hint == 0 && flags == 0,
           INVALID_VALUE);
    size_t unit = alignment > fake_set.granularity ? alignment : fake_set.granularity;
    char *begun = bare(NULL, bytes + unit);
    if (begun == NULL) return FT_CU_OUT_OF_MEMORY;
    size_t skip = (unit - (uintptr_t)begun % unit) % unit;
    if (skip > 0) munmap(begun, skip);
    munmap(begun + skip + bytes, unit - skip);
    piece_add(&reservations, (piece){.at = (uintptr_t)(begun + skip), .bytes = bytes}, &fake_kept.reservations);
    *base = (uintptr_t)(begun + skip);
    return 0;
}

int cuMemAddressFree(ft_cu_address base, size_t bytes) {
    BEGIN;
    piece *p = starting_at(reservations, base);
    DEMAND(p != NULL && p->bytes == bytes && !overlaps(mappings, base, bytes), INVALID_VALUE);
    munmap(pointer(base), bytes);
    piece_drop(&reservations, p, &fake_kept.reservations);
    return 0;
}

// NaN in every format, as in new buffers.
static bool poison(uint64_t at, size_t bytes) {
    static unsigned char block[64 << 10];
    memset(block, 0xff, sizeof block);
    for (size_t done = 0; done < bytes;) {
        size_t left = bytes - done, count = left < sizeof block ? left : sizeof block;
        if (pwrite(file, block, count, (off_t)(at + done)) != (ssize_t)count) return false;
        done += count;
    }
    return true;
}

int cuMemCreate(ft_cu_handle *handle, size_t bytes, const ft_cu_memory *memory, unsigned long long flags) {
    BEGIN;
    DEMAND(fake_set.virtual_memory, NOT_SUPPORTED);
    DEMAND(bytes > 0 && whole(bytes) && is_kind(memory) && flags == 0, INVALID_VALUE);
    int refused = charge(memory->location.id, bytes);
    if (refused != 0) return refused;
    if (file < 0) file = memfd_create("fake device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)(file_end + bytes)) != 0 || !poison(file_end, bytes)) fake_fatal("no memory");
    piece *p =
        piece_add(&handles, (piece){.at = file_end, .bytes = bytes, .device = memory->location.id}, &fake_kept.handles);
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
    piece_drop(&handles, handle, &fake_kept.handles);
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
        fake_fatal("cannot map");
    p->mapped++;
    piece_add(&mappings, (piece){.at = to, .bytes = bytes, .device = p->device, .handle = p}, &fake_kept.mappings);
    return 0;
}

int cuMemUnmap(ft_cu_address from, size_t bytes) {
    BEGIN;
    piece *p = starting_at(mappings, from);
    DEMAND(p != NULL && p->bytes == bytes, INVALID_VALUE);
    if (bare(pointer(from), bytes) == NULL) fake_fatal("cannot unmap");
    piece *handle = p->handle;
    piece_drop(&mappings, p, &fake_kept.mappings);
    handle->mapped--;
    drop_unused(handle);
    return 0;
}

int cuMemSetAccess(ft_cu_address base, size_t bytes, const ft_cu_access *access, size_t count) {
    BEGIN;
    DEMAND(count == 1 && is_place(access->location) && access->rights == FT_CU_ACCESS_READ_WRITE, INVALID_VALUE);
    DEMAND(bytes > 0 && whole(base) && whole(bytes) && mapped(base, bytes, 0), INVALID_VALUE);
    for (piece *p = mappings; p != NULL; p = p->next) // no mapping in part
        DEMAND(p->at + p->bytes <= base || p->at >= base + bytes || (p->at >= base && p->at + p->bytes <= base + bytes),
               INVALID_VALUE);
    if (mprotect(pointer(base), bytes, PROT_READ | PROT_WRITE) != 0) fake_fatal("cannot give access");
    for (piece *p = mappings; p != NULL; p = p->next)
        if (p->at >= base && p->at < base + bytes) p->access = access->location.id + 1;
    return 0;
}

void fake_memory_lose(void) {
    somebody_else = 0;
    for (; buffers != NULL; piece_drop(&buffers, buffers, &fake_kept.buffers))
        give_back(buffers);
    for (; pinned != NULL; piece_drop(&pinned, pinned, &fake_kept.pinned))
        free(pointer(pinned->at));
    while (mappings != NULL)
        piece_drop(&mappings, mappings, &fake_kept.mappings);
    while (handles != NULL)
        piece_drop(&handles, handles, &fake_kept.handles);
    for (; reservations != NULL; piece_drop(&reservations, reservations, &fake_kept.reservations))
        munmap((void *)(uintptr_t)reservations->at, reservations->bytes);
    memset(used, 0, sizeof used);
    fake_kept.used = 0;
}

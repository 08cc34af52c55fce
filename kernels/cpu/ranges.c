// ranges.c - virtual ranges on the CPU: addresses first, memory behind them page by page. Pages are huge ones, for the
// reason given at cpu_buffer_alloc, and as large as those of a GPU, so that a CPU can stand for one.
#include "kernels/cpu/device.h"
#include "kernels/cpu/limits.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

enum { FT_RANGE_PAGE = 2 << 20 };

static ft_status refuse(size_t bytes, const char *what) {
    if (errno == ENOMEM) return ft_fail_memory(bytes, what); // of RLIMIT_AS, RLIMIT_DATA or the machine: there may be a remedy
    return ft_fail_errno(FT_FAILED, errno, NULL, "cannot get %zu bytes for a %s", bytes, what);
}

ft_status ft_cpu_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page) {
    *base = NULL;
    *page = FT_RANGE_PAGE;
    if (bytes > SIZE_MAX / 2) return ft_fail_memory(bytes, "range of the CPU device");
    size_t more = bytes + FT_RANGE_PAGE; // room to align
    char *begin = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) {
        // No place for so many addresses. Linux says ENOMEM, valgrind EINVAL, and EAGAIN where no more may be locked;
        // nothing else of these arguments can be wrong.
        if (errno == EINVAL || errno == EAGAIN) errno = ENOMEM;
        return refuse(bytes, "range of addresses of the CPU device");
    }
    size_t skip = (FT_RANGE_PAGE - (uintptr_t)begin % FT_RANGE_PAGE) % FT_RANGE_PAGE;
    if (skip > 0) (void)munmap(begin, skip);
    (void)munmap(begin + skip + bytes, FT_RANGE_PAGE - skip); // at least the page behind aligned addresses
    *base = begin + skip;
    return FT_OK;
}

ft_status ft_cpu_range_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    if (bytes > device->total_bytes) return ft_fail_memory(bytes, "range of the CPU device");
    char *begin = (char *)base + offset;
    if (mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0) return refuse(bytes, "range of the CPU device");
#ifdef MADV_HUGEPAGE // advice: no harm when refused, or where there is no such thing
    (void)madvise(begin, bytes, MADV_HUGEPAGE);
#endif
    return FT_OK;
}

void ft_cpu_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes) {
    char *begin = (char *)base + offset;
    (void)madvise(begin, bytes, MADV_DONTNEED);
    (void)mprotect(begin, bytes, PROT_NONE); // what still points here shall fault; the memory is gone all the same
}

void ft_cpu_range_release(ft_device *device, void *base, size_t bytes) { (void)munmap(base, bytes); }

size_t ft_cpu_range_room(ft_device *device) { return ft_available_addresses(); }

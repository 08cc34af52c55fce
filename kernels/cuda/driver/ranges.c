// ranges.c - virtual ranges of a CUDA device. Every piece of a commit (kernels/ops/range_pieces.h) has a handle of its
// own, because the driver unmaps nothing less than what was mapped at once. Whole pieces go back; nothing that stays is
// ever moved.
#include "base/arena.h"
#include "kernels/cuda/driver/device.h"
#include "kernels/ops/range_pieces.h"

#include <stdint.h>
#include <stdlib.h>

struct ft_cuda_range {
    ft_cuda_range *next;
    ft_cu_address base;
    size_t pages;
    ft_cu_handle
        handles[]; // of each page that of its piece, whose pages are those with the same; 0: nothing is committed there
};

static ft_cu_memory memory_kind(const ft_cuda *cuda) {
    return (ft_cu_memory){.type = FT_CU_MEMORY_PINNED, .location = {FT_CU_LOCATION_DEVICE, cuda->ordinal}};
}

ft_status ft_cuda_find_page(ft_cuda *cuda) {
    ft_cu_memory kind = memory_kind(cuda);
    FT_TRY(FT_CUDA(cuda->driver, granularity, &cuda->page, &kind, FT_CU_GRANULARITY_MINIMUM));
    if (cuda->page == 0) return ft_fail(FT_FAILED, cuda->name, "the driver says that pages have 0 bytes");
    return FT_OK;
}

static ft_cuda_range *find(const ft_cuda *cuda, const void *base) {
    ft_cuda_range *range = cuda->ranges;
    while (range != NULL && range->base != ft_cuda_address(base))
        range = range->next;
    return range;
}

// A caller that mixes up ranges must not reach memory that is none of its own.
static ft_status find_pages(const ft_cuda *cuda, const void *base, size_t offset, size_t bytes, ft_cuda_range **range) {
    *range = find(cuda, base);
    if (*range == NULL) return ft_fail(FT_FAILED, cuda->name, "%p is no reserved range", base);
    size_t all = (*range)->pages * cuda->page;
    if (offset % cuda->page != 0 || bytes % cuda->page != 0 || offset > all || bytes > all - offset)
        return ft_fail(FT_FAILED, cuda->name, "%zu bytes at %zu are no pages of a range of %zu bytes", bytes, offset,
                       all);
    return FT_OK;
}

ft_status ft_cuda_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page) {
    ft_cuda *cuda = ft_cuda_of(device);
    *base = NULL;
    *page = cuda->page;
    size_t pages = bytes / cuda->page + (bytes % cuda->page != 0);
    if (pages == 0 || pages > SIZE_MAX / 2 / cuda->page)
        return ft_fail(FT_NO_MEMORY, cuda->name, "no device has a range of %zu bytes", bytes);
    ft_cuda_range *range = ft_calloc(1, sizeof *range + pages * sizeof *range->handles, "pages of a CUDA range");
    if (range == NULL) return FT_NO_MEMORY;
    range->pages = pages;
    ft_status status = ft_cuda_enter(cuda);
    if (status == FT_OK)
        status = FT_CUDA(cuda->driver, address_reserve, &range->base, pages * cuda->page, cuda->page, 0, 0);
    if (status != FT_OK) {
        free(range);
        return status;
    }
    range->next = cuda->ranges;
    cuda->ranges = range;
    *base = (void *)(uintptr_t)range->base;
    return FT_OK;
}

static ft_status commit_piece(ft_cuda *cuda, ft_cuda_range *range, size_t first, size_t pages) {
    const ft_cuda_driver *driver = cuda->driver;
    const size_t bytes = pages * cuda->page;
    for (size_t page = first; page < first + pages; page++)
        if (range->handles[page] != 0)
            return ft_fail(FT_FAILED, cuda->name, "page %zu of a range is committed twice", page);
    ft_cu_memory kind = memory_kind(cuda);
    ft_cu_handle handle = 0;
    FT_TRY(FT_CUDA(driver, mem_create, &handle, bytes, &kind, 0));
    ft_status status = FT_CUDA(driver, mem_map, range->base + first * cuda->page, bytes, 0, handle, 0);
    if (status != FT_OK) {
        (void)driver->mem_release(handle); // the error stays that of the mapping
        return status;
    }
    for (size_t page = first; page < first + pages; page++)
        range->handles[page] = handle;
    return FT_OK;
}

// Does one piece lie on both sides of that page's start?
static bool cuts_piece(const ft_cuda_range *range, size_t page) {
    return page > 0 && page < range->pages && range->handles[page] != 0 &&
           range->handles[page] == range->handles[page - 1];
}

static size_t end_of_piece(const ft_cuda_range *range, size_t page) {
    do
        page++;
    while (cuts_piece(range, page));
    return page;
}

// A piece that cannot be unmapped stays in the table: it is still there.
static ft_status decommit_piece(ft_cuda *cuda, ft_cuda_range *range, size_t first) {
    const ft_cu_handle handle = range->handles[first];
    const size_t end = end_of_piece(range, first);
    FT_TRY(FT_CUDA(cuda->driver, mem_unmap, range->base + first * cuda->page, (end - first) * cuda->page));
    for (size_t page = first; page < end; page++)
        range->handles[page] = 0;
    return FT_CUDA(cuda->driver, mem_release, handle);
}

ft_status ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    ft_cuda_range *range;
    FT_TRY(find_pages(cuda, base, offset, bytes, &range));
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    const size_t piece = ft_range_piece(&device->target, cuda->page);
    const size_t first = offset / cuda->page, end = first + bytes / cuda->page;
    const size_t single =
        first + ft_range_in_pieces(piece, cuda->page, bytes) / cuda->page; // from here on page by page
    ft_status status = FT_OK;
    size_t done = first;
    while (done < end) {
        const size_t pages = done < single ? piece / cuda->page : 1;
        if ((status = commit_piece(cuda, range, done, pages)) != FT_OK) break;
        done += pages;
    }
    ft_cu_access access = {{FT_CU_LOCATION_DEVICE, cuda->ordinal}, FT_CU_ACCESS_READ_WRITE};
    if (status == FT_OK) status = FT_CUDA(cuda->driver, mem_set_access, range->base + offset, bytes, &access, 1);
    if (status == FT_OK) return FT_OK;
    ft_error error; // what refused, not what came of cleaning up
    ft_error_save(&error);
    for (size_t page = first, next; page < done; page = next) {
        next = end_of_piece(range, page);
        ft_cuda_keep(cuda, decommit_piece(cuda, range, page));
    }
    ft_error_restore(&error);
    return status;
}

static ft_status decommit(ft_cuda *cuda, void *base, size_t offset, size_t bytes) {
    ft_cuda_range *range;
    FT_TRY(find_pages(cuda, base, offset, bytes, &range));
    const size_t begin = offset / cuda->page, end = begin + bytes / cuda->page;
    if (cuts_piece(range, begin) || cuts_piece(range, end))
        return ft_fail(FT_FAILED, cuda->name, "%zu bytes at %zu of a range are no whole pieces", bytes, offset);
    ft_cuda_keep(cuda, ft_cuda_wait(cuda));
    for (size_t page = begin, next; page < end; page = next) {
        next = end_of_piece(range, page);
        if (range->handles[page] == 0)
            ft_cuda_keep(cuda, ft_fail(FT_FAILED, cuda->name, "page %zu of a range was not committed", page));
        else
            ft_cuda_keep(cuda, decommit_piece(cuda, range, page));
    }
    return FT_OK;
}

void ft_cuda_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes) {
    ft_error present;
    ft_error_save(&present);
    ft_cuda_keep(ft_cuda_of(device), decommit(ft_cuda_of(device), base, offset, bytes));
    ft_error_restore(&present);
}

static ft_status release(ft_cuda *cuda, void *base) {
    ft_cuda_range **at = &cuda->ranges;
    while (*at != NULL && (*at)->base != ft_cuda_address(base))
        at = &(*at)->next;
    ft_cuda_range *range = *at;
    if (range == NULL) return ft_fail(FT_FAILED, cuda->name, "%p is no reserved range", base);
    *at = range->next;
    ft_status status = ft_cuda_enter(cuda);
    if (status == FT_OK) status = FT_CUDA(cuda->driver, address_free, range->base, range->pages * cuda->page);
    free(range);
    return status;
}

void ft_cuda_range_release(ft_device *device, void *base, size_t bytes) {
    ft_error present;
    ft_error_save(&present);
    ft_cuda_keep(ft_cuda_of(device), release(ft_cuda_of(device), base));
    ft_error_restore(&present);
}

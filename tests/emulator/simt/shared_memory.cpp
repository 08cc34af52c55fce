#include "tests/emulator/simt/shared_memory.h"
#include "tests/emulator/simt/scheduler.h"

#include <cstdint>

namespace simt {
namespace {

constexpr size_t ZONE = 256;         // between two arrays and at the ends, at least
constexpr size_t ARENA = size_t(1) << 30;
enum { MOST_ARRAYS = 32 };

unsigned char *arena, *next_place, *base;
size_t used, dynamic;       // used: from base on, with zones
unsigned char *dynamic_end; // where the zone behind it begins
struct {
    const void *place;
    unsigned char *data;
    size_t bytes;
} arrays[MOST_ARRAYS];
unsigned array_count;
size_t array_bytes;

SIMT_NO_TSAN bool untouched(const unsigned char *from, const unsigned char *to) {
    while (from < to && *from == 0xff)
        from++;
    return from >= to;
}

} // namespace

unsigned char *shared_begin(size_t dynamic_bytes) {
    constexpr size_t STATIC_PART = STATIC_SHARED + (MOST_ARRAYS + 1) * 2 * ZONE;
    if (arena == nullptr) next_place = arena = static_cast<unsigned char *>(map_pages(ARENA));
    constexpr size_t DYNAMIC_PART = (STATIC_PART + ZONE + 1023) / 1024 * 1024; // as tensor copies want it aligned
    size_t need = (DYNAMIC_PART + dynamic_bytes + ZONE + 4095) / 4096 * 4096;
#ifdef SIMT_TSAN
    // Blocks on the GPU do not share their shared memory: new addresses, as long as there are any.
    if (next_place + need > arena + ARENA) {
        order_all_blocks();
        next_place = arena;
    }
#else
    next_place = arena;
#endif
    base = next_place;
    next_place += need;
    used = ZONE;
    array_count = 0;
    array_bytes = 0;
    dynamic = dynamic_bytes;
    unsigned char *dynamic_begin = base + DYNAMIC_PART;
    dynamic_end = dynamic_begin + dynamic_bytes;
    allow(base, need);
    fill_bytes(base, 0xff, ZONE);
    fill_bytes(dynamic_begin - ZONE, 0xff, dynamic_bytes + 2 * ZONE);
    forbid(base, need);
    allow(dynamic_begin, dynamic_bytes);
    return dynamic_begin;
}

void *shared_array(const void *place, size_t bytes, size_t alignment) {
    for (unsigned i = 0; i < array_count; i++)
        if (arrays[i].place == place) return arrays[i].data;
    site where = site::here();
    array_bytes += (bytes + 15) / 16 * 16;
    if (array_count == MOST_ARRAYS) fault(where, "more than %d shared arrays", MOST_ARRAYS);
    if (array_bytes > STATIC_SHARED) fault(where, "%zu bytes of shared arrays; the hardware has 48 KiB", array_bytes);
    if (alignment > ZONE) fault(where, "a shared array aligned to %zu bytes", alignment);
    if (array_bytes + dynamic > MOST_SHARED) fault(where, "%zu bytes of shared memory", array_bytes + dynamic);
    unsigned char *data = base + used;
    size_t with_zone = (bytes + ZONE - 1) / ZONE * ZONE + ZONE;
    used += with_zone;
    arrays[array_count++] = {place, data, bytes};
    allow(data, with_zone);
    fill_bytes(data, 0xff, with_zone);
    forbid(data + bytes, with_zone - bytes);
    return data;
}

bool is_shared(const void *at) { return at >= base && at < dynamic_end + ZONE; }

const char *shared_check() {
    const char *found = nullptr;
    allow(base, size_t(dynamic_end - base) + ZONE);
    for (unsigned i = 0; i < array_count; i++) {
        const unsigned char *end = i + 1 < array_count ? arrays[i + 1].data : base + used;
        if (!untouched(arrays[i].data + arrays[i].bytes, end)) found = "wrote past the end of a shared array";
    }
    if (!untouched(base, base + ZONE)) found = "wrote in front of its shared arrays";
    if (!untouched(dynamic_end, dynamic_end + ZONE)) found = "wrote past the end of its dynamic shared memory";
    if (!untouched(dynamic_end - dynamic - ZONE, dynamic_end - dynamic))
        found = "wrote in front of its dynamic shared memory";
    return found;
}

} // namespace simt

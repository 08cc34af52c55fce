// bounds.cpp - which bytes of global memory are an allocation's. A test has its device memory from the fake driver
// (tests/emulator/driver), or none: then an op reads and writes what the test has on the host, from malloc (heap.cpp),
// on its stack or among its constants.
#include "tests/ptx/heap.h"
#include "tests/ptx/machine.h"

#include <cstdio>
#include <dlfcn.h>
#include <link.h>

namespace ptx {
namespace {

using around = bool(uint64_t address, uint64_t *begin, uint64_t *end); // fake_allocation of fake_driver.h

around *of_driver; // fake_allocation, once somebody has the library open, which stays where it is
bool looked;       // in this launch

around *driver() {
    if (of_driver != nullptr || looked) return of_driver;
    looked = true;
    void *library = dlopen("libfake_driver.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    of_driver = reinterpret_cast<around *>(dlsym(library, "fake_allocation"));
    dlclose(library);
    if (of_driver == nullptr) fail("libfake_driver.so has no fake_allocation");
    return of_driver;
}

struct wanted {
    uint64_t address;
    extent found;
};
// Data of a program or a library.
int look_at(dl_phdr_info *info, size_t, void *p) {
    auto *w = static_cast<wanted *>(p);
    for (int n = 0; n < info->dlpi_phnum; n++) {
        const auto &part = info->dlpi_phdr[n];
        const extent here{info->dlpi_addr + part.p_vaddr, info->dlpi_addr + part.p_vaddr + part.p_memsz};
        if (part.p_type == PT_LOAD && here.holds(w->address, w->address + 1)) w->found = here;
    }
    return 0;
}
void look_at_stack(wanted *w) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) {
        unsigned long long begin, end;
        if (sscanf(line, "%llx-%llx", &begin, &end) != 2 || strstr(line, "[stack]") == nullptr) continue;
        if (const extent here{begin, end}; here.holds(w->address, w->address + 1)) w->found = here;
    }
    if (maps != nullptr) fclose(maps);
}

} // namespace

void begin_bounds() { looked = false; }

extent allocation_at(uint64_t address) {
    wanted w{address, {}};
    if (around *holds = driver()) {
        if (holds(address, &w.found.begin, &w.found.end)) return w.found;
    } else if (!heap_is_watched()) {
        fail("nobody watches the heap: LD_PRELOAD should name the machine, as SIMT_EXECUTOR does");
    } else {
        if (heap_block(address, &w.found.begin, &w.found.end)) return w.found;
        dl_iterate_phdr(look_at, &w);
        if (w.found.end == 0) look_at_stack(&w);
        if (w.found.end != 0) return w.found;
    }
    fail("global memory at %#llx, which is no allocation's", (unsigned long long)address);
}

} // namespace ptx

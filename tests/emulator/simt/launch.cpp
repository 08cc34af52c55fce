#include "tests/emulator/simt/launch.h"
#include "tests/emulator/simt/async_proxy.h"
#include "tests/emulator/simt/scheduler.h"
#include "tests/emulator/simt/shared_memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>

namespace simt {
namespace {

simt_queue_function *queue;
std::map<std::string, uint64_t> launches;

executor *other_executor() {
    static executor *found = [] {
        const char *path = getenv("SIMT_EXECUTOR");
        if (path == nullptr) return static_cast<executor *>(nullptr);
        void *library = dlopen(path, RTLD_NOW);
        void *function = library != nullptr ? dlsym(library, "simt_execute") : nullptr;
        if (function == nullptr) {
            fprintf(stderr, "simt: SIMT_EXECUTOR: %s\n", dlerror());
            exit(2);
        }
        return reinterpret_cast<executor *>(function);
    }();
    return found;
}

// A fault of launches by name: NAME, or NAME:N, which is counted from the first launch that finds the variable so.
struct named_fault {
    const char *variable;
    bool all_that_begin_so;
    std::string asked;
    unsigned long seen;

    bool is_of(const char *name) {
        const char *text = getenv(variable);
        if (asked != (text != nullptr ? text : "")) {
            asked = text != nullptr ? text : "";
            seen = 0;
        }
        const size_t colon = asked.find(':'), length = colon == std::string::npos ? asked.size() : colon;
        if (asked.empty() || asked.compare(0, length, name, all_that_begin_so ? strnlen(name, length) : strlen(name)) != 0) return false;
        return colon == std::string::npos || ++seen == strtoul(asked.c_str() + colon + 1, nullptr, 10);
    }
};
named_fault lost = {"SIMT_LOST", true, "", 0}, stale = {"SIMT_STALE", false, "", 0};

bool run_job(void *p) {
    auto *j = static_cast<job *>(p);
    launches[j->name]++;
    if (lost.is_of(j->name)) return true;
    async_brings_once(stale.is_of(j->name));
    if (executor *other = other_executor()) {
        char text[1024] = "";
        const bool good = other(*j, order_of_threads(), seed_of_threads(), text, sizeof text);
        if (!good) keep_fault(text);
        return good;
    }
    return run_grid(j->name, j->grid, j->threads, j->shared, j->call, j->arguments);
}

void drop_job(void *p) {
    auto *j = static_cast<job *>(p);
    j->drop(j->arguments);
    delete j;
}

// The limits that every CUDA chip of ours has.
const char *refusal(const job &j) {
    if (j.grid.x == 0 || j.grid.y == 0 || j.grid.z == 0) return "a grid without blocks";
    if (j.grid.x > 0x7fffffffu || j.grid.y > 65535 || j.grid.z > 65535) return "too many blocks";
    if (j.threads.x == 0 || j.threads.y == 0 || j.threads.z == 0) return "a block without threads";
    if (j.threads.x > 1024 || j.threads.y > 1024 || j.threads.z > 64 ||
        size_t(j.threads.x) * j.threads.y * j.threads.z > MOST_THREADS)
        return "too many threads a block";
    if (j.shared > (j.takes_maps ? MOST_SHARED : EVERY_SHARED)) return "more shared memory than every target has";
    return nullptr;
}

} // namespace

bool submit(const job &what, void *stream) {
    job *copy = new job(what);
    const char *why = refusal(what);
    char text[256];
    if (why != nullptr) {
        snprintf(text, sizeof text, "%s: launch of (%u,%u,%u) blocks of (%u,%u,%u) threads with %zu bytes: %s", what.name,
                 what.grid.x, what.grid.y, what.grid.z, what.threads.x, what.threads.y, what.threads.z, what.shared, why);
    } else if (queue == nullptr) {
        bool good = run_job(copy);
        drop_job(copy);
        return good;
    } else {
        int refused = queue(stream, run_job, drop_job, copy);
        if (refused == 0) return true;
        snprintf(text, sizeof text, "%s: the stream refused the launch with error %d", what.name, refused);
    }
    keep_fault(text);
    drop_job(copy);
    return false;
}

} // namespace simt

uint64_t simt_launches(const char *name) { return simt::launches[name]; }
void simt_set_queue(simt_queue_function *queue) { simt::queue = queue; }

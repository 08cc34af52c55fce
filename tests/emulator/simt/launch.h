// launch.h - a kernel with its arguments as a job that runs now or in a stream's turn.
#ifndef FT_SIMT_LAUNCH_H
#define FT_SIMT_LAUNCH_H

#include "tests/emulator/simt/control.h"

#include <cstddef>
#include <driver_types.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include <vector_types.h>

struct ft_cu_tensor_map; // of driver.h

namespace simt {

struct argument {
    const void *at;
    size_t bytes;
};

struct job {
    const char *name;
    dim3 grid, threads;
    size_t shared;
    bool takes_maps; // an argument is a tensor map: for sm_90 alone
    void (*call)(void *arguments); // one thread's call of the kernel
    void *arguments;
    void (*drop)(void *arguments);
    const void *kernel;                    // the function
    std::vector<argument> (*each)(void *); // of `arguments`
};

// Who runs jobs instead of the scheduler: the function simt_execute of the library that SIMT_EXECUTOR names (tests/ptx). False: a fault, and
// its text.
using executor = bool(const job &what, int order, uint64_t seed, char *fault, size_t room);

// Takes the job. False when it is refused, or ran at once and was at fault; simt_fault() says why.
bool submit(const job &what, void *stream);

template <class... P, class... A>
inline bool launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 threads, size_t shared, cudaStream_t stream,
                   A &&...arguments) {
    struct call {
        void (*kernel)(P...);
        std::tuple<P...> values; // copied now: the caller's variables are gone when the stream comes to it
    };
    job what{name, grid, threads, shared, (std::is_same<P, ft_cu_tensor_map>::value || ...),
             [](void *p) {
                 auto *c = static_cast<call *>(p);
                 std::apply(c->kernel, c->values);
             },
             new call{kernel, std::tuple<P...>(std::forward<A>(arguments)...)},
             [](void *p) { delete static_cast<call *>(p); },
             reinterpret_cast<const void *>(kernel),
             [](void *p) {
                 return std::apply([](const P &...value) { return std::vector<argument>{{&value, sizeof value}...}; },
                                   static_cast<call *>(p)->values);
             }};
    return submit(what, stream);
}

} // namespace simt
#endif

// gemm_tuning.c - algorithms of matrix products that were measured instead of guessed: a list of choices, searched by shape,
// and the clock that makes it. Which file they come from, or go to, is the caller's business.
#include "base/arena.h"
#include "base/stop.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/opened.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ft_gemm_tuning {
    bool measures;
    ft_gemm_choice *choices;
    size_t count, capacity;
};

static ft_status add(ft_gemm_tuning *tuning, const ft_gemm_choice *choice) {
    if (tuning->count == tuning->capacity) {
        size_t capacity = tuning->capacity > 0 ? 2 * tuning->capacity : 64;
        ft_gemm_choice *grown = ft_realloc(tuning->choices, capacity, sizeof *grown, "choices of matrix products");
        if (grown == NULL) return FT_NO_MEMORY;
        tuning->choices = grown;
        tuning->capacity = capacity;
    }
    tuning->choices[tuning->count++] = *choice;
    return FT_OK;
}

static ft_status get(ft_device *device, ft_gemm_tuning **tuning) {
    ft_gemm_tuning **at = ft_cuda_gemms_tuning(device);
    if (*at == NULL) *at = ft_calloc(1, sizeof **at, "choices of matrix products");
    *tuning = *at;
    return *at != NULL ? FT_OK : FT_NO_MEMORY;
}

void ft_gemm_tuning_free(ft_gemm_tuning *tuning) {
    if (tuning == NULL) return;
    free(tuning->choices);
    free(tuning);
}

// ---- what others ask ----------------------------------------------------------------------------------------------------

size_t ft_cuda_gemms_library(const ft_device *device) { return ft_cuda_of(ft_device_under(device))->kernels->lt->version; }

void ft_cuda_gemms_driver(const ft_device *device, char text[FT_GEMM_DRIVER]) {
    const ft_cuda_driver *driver = ft_cuda_of(ft_device_under(device))->driver;
    snprintf(text, FT_GEMM_DRIVER, "%d %s", driver->version, driver->release);
}

ft_status ft_cuda_gemms_use(ft_device *device, const ft_gemm_choice *choices, size_t count) {
    ft_gemm_tuning *tuning;
    FT_TRY(get(device, &tuning));
    for (size_t i = 0; i < count; i++) {
        ft_gemm_choice choice = choices[i];
        choice.asked = false;
        FT_TRY(add(tuning, &choice));
    }
    return FT_OK;
}

ft_status ft_cuda_gemms_measure(ft_device *device) {
    ft_gemm_tuning *tuning;
    FT_TRY(get(device, &tuning));
    tuning->measures = true;
    return FT_OK;
}

const ft_gemm_choice *ft_cuda_gemms_choices(const ft_device *device, size_t *count) {
    const ft_gemm_tuning *tuning = *ft_cuda_gemms_tuning((ft_device *)device);
    *count = tuning != NULL ? tuning->count : 0;
    return tuning != NULL ? tuning->choices : NULL;
}

// ---- what a product asks ------------------------------------------------------------------------------------------------

bool ft_gemm_tuning_measures(const ft_gemm_tuning *tuning) { return tuning->measures; }

// A shape is looked up once a run: the plans remember it.
ft_status ft_gemm_tuning_find(ft_gemm_tuning *tuning, const ft_cublaslt *lt, ft_lt_handle handle, const ft_gemm_call *call,
                              const ft_gemm_shape *shape, ft_lt_algorithm *algorithm, bool *found) {
    *found = false;
    for (size_t i = 0; i < tuning->count && !*found; i++) {
        ft_gemm_choice *c = &tuning->choices[i];
        if (memcmp(&c->shape, shape, sizeof *shape) != 0) continue;
        ft_lt_choice checked = {.status = FT_LT_NOT_SUPPORTED};
        int answer = lt->algorithm_check(handle, call->desc, call->b, call->a, call->c, call->c, &c->algorithm, &checked);
        if (answer != FT_LT_SUCCESS || checked.workspace_bytes > call->workspace)
            return ft_fail(FT_FAILED, "gemm", "the algorithm tuned for [%lld,%lld] x [%lld,%lld] is none of this cuBLASLt's",
                           (long long)shape->m, (long long)shape->k, (long long)shape->k, (long long)shape->n);
        *algorithm = c->algorithm;
        *found = c->asked = true;
    }
    return FT_OK;
}

// ---- the clock ----------------------------------------------------------------------------------------------------------

typedef struct stop_watch {
    ft_cu_event begin, end;
} stop_watch;

// A product by one algorithm.
typedef struct one_product {
    ft_lt_handle handle;
    const ft_gemm_call *call;
    const ft_lt_algorithm *algorithm;
} one_product;
static ft_status queue_product(ft_device *device, const void *what) {
    const one_product *p = what;
    return ft_cuda_gemm_queue(device, p->handle, p->call, p->algorithm);
}

// The best of some rounds: what disturbs only ever adds. The first one, which may load code, is not looked at.
// *refused: it cannot be queued, as cuBLASLt does not run an algorithm; the device is as it was.
static ft_status time_one(ft_device *device, ft_gemm_queue_function *queue, const void *what, const stop_watch *watch, float *best,
                          bool *refused) {
    ft_cuda *cuda = ft_cuda_of(device);
    *best = INFINITY;
    *refused = false;
    for (int round = 0; round <= FT_GEMM_ROUNDS; round++) {
        float milliseconds;
        FT_TRY(FT_CUDA(cuda->driver, event_record, watch->begin, cuda->stream));
        ft_status queued = queue(device, what);
        if (queued != FT_OK) return *refused = FT_CUDA(cuda->driver, stream_synchronize, cuda->stream) == FT_OK, queued;
        FT_TRY(FT_CUDA(cuda->driver, event_record, watch->end, cuda->stream));
        FT_TRY(FT_CUDA(cuda->driver, event_synchronize, watch->end));
        FT_TRY(FT_CUDA(cuda->driver, event_elapsed_time, &milliseconds, watch->begin, watch->end));
        if (round > 0 && milliseconds * 1e3f < *best) *best = milliseconds * 1e3f;
    }
    return FT_OK;
}

static ft_status time_all(ft_gemm_tuning *tuning, ft_device *device, ft_lt_handle handle, const ft_gemm_call *call,
                          const ft_gemm_shape *shape, const ft_lt_choice *offered, int count, const stop_watch *watch,
                          ft_lt_algorithm *algorithm) {
    ft_gemm_choice choice = {.shape = *shape, .asked = true};
    for (int i = 0; i < count; i++) {
        float microseconds;
        bool refused;
        const one_product product = {handle, call, &offered[i].algorithm};
        ft_status status = time_one(device, queue_product, &product, watch, &microseconds, &refused);
        if (i > 0 && refused) { // passed over: only the heuristic's first choice must run, as it does untuned
            ft_error_clear();
            continue;
        }
        FT_TRY(status);
        if (i == 0) choice.first_microseconds = microseconds;
        if (i > 0 && microseconds >= choice.microseconds) continue; // the earlier one of equals
        choice.microseconds = microseconds;
        choice.algorithm = offered[i].algorithm;
    }
    *algorithm = choice.algorithm;
    return add(tuning, &choice);
}

// Close it in any case.
static ft_status watch_open(const ft_cuda_driver *driver, stop_watch *watch) {
    *watch = (stop_watch){NULL, NULL};
    const int asked = ft_stop_signal(); // a shape takes less than a second, those of a run may take minutes
    if (asked != 0) return ft_fail(ft_stop_status(asked), NULL, "stopped while matrix products are measured");
    FT_TRY(FT_CUDA(driver, event_create, &watch->begin, 0));
    return FT_CUDA(driver, event_create, &watch->end, 0);
}
static void watch_close(const ft_cuda_driver *driver, stop_watch *watch) {
    if (watch->begin != NULL) (void)driver->event_destroy(watch->begin);
    if (watch->end != NULL) (void)driver->event_destroy(watch->end);
}

ft_status ft_gemm_tuning_measure(ft_gemm_tuning *tuning, ft_device *device, ft_lt_handle handle, const ft_gemm_call *call,
                                 const ft_gemm_shape *shape, const ft_lt_choice *offered, int count, ft_lt_algorithm *algorithm) {
    const ft_cuda_driver *driver = ft_cuda_of(device)->driver;
    stop_watch watch;
    ft_status status = watch_open(driver, &watch);
    if (status == FT_OK) status = time_all(tuning, device, handle, call, shape, offered, count, &watch, algorithm);
    watch_close(driver, &watch);
    return status;
}

// ---- products with an epilogue ------------------------------------------------------------------------------------------

void ft_gemm_tuning_find_way(ft_gemm_tuning *tuning, const ft_gemm_shape *shape, bool *own, bool *found) {
    *found = false;
    for (size_t i = 0; i < tuning->count && !*found; i++) {
        ft_gemm_choice *c = &tuning->choices[i];
        if (memcmp(&c->shape, shape, sizeof *shape) != 0) continue;
        *own = c->algorithm.data[0] == FT_GEMM_OWN;
        *found = c->asked = true;
    }
}

static ft_status time_ways(ft_device *device, ft_gemm_queue_function *in_two, ft_gemm_queue_function *in_one, const void *what,
                           const stop_watch *watch, ft_gemm_choice *choice) {
    float microseconds;
    bool refused;
    FT_TRY(time_one(device, in_two, what, watch, &choice->first_microseconds, &refused));
    choice->microseconds = choice->first_microseconds;
    ft_status status = time_one(device, in_one, what, watch, &microseconds, &refused);
    if (refused) return ft_error_clear(), FT_OK;
    FT_TRY(status);
    if (microseconds >= choice->microseconds) return FT_OK;
    choice->microseconds = microseconds;
    choice->algorithm.data[0] = FT_GEMM_OWN;
    return FT_OK;
}

ft_status ft_gemm_tuning_measure_way(ft_gemm_tuning *tuning, ft_device *device, const ft_gemm_shape *shape, ft_gemm_queue_function *in_two,
                                     ft_gemm_queue_function *in_one, const void *what, bool *own) {
    const ft_cuda_driver *driver = ft_cuda_of(device)->driver;
    ft_gemm_choice choice = {.shape = *shape, .asked = true};
    stop_watch watch;
    FT_TRY(in_two(device, what)); // whose product finds its own algorithm first
    ft_status status = watch_open(driver, &watch);
    if (status == FT_OK) status = time_ways(device, in_two, in_one, what, &watch, &choice);
    watch_close(driver, &watch);
    FT_TRY(status);
    *own = choice.algorithm.data[0] == FT_GEMM_OWN;
    return add(tuning, &choice);
}

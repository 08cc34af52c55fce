// runs.h - whole runs on an emulated CUDA device, for the tests of memory.offload: what they leave behind, how memory is
// refused to them, and what they may wait for (--wrap, see CMakeLists.txt).
#ifndef FT_OFFLOAD_RUNS_H
#define FT_OFFLOAD_RUNS_H

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/plan/plan.h"
#include "engine/train/step/step.h"
#include "engine/train/step/steps.h"
#include "kernels/cuda/driver/device.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/fixtures/tiny_run.h"

static int steps_to_stop; // until a Ctrl-C; 0: none
static bool queueing;     // a step: the host may wait for nothing

ft_status __real_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run) {
    if (steps_to_stop > 0 && --steps_to_stop == 0) ft_stop_ask(ft_context_now(), SIGINT);
    fake_forbid_waits(queueing = true);
    ft_status status = __real_ft_steps_queue(step, climb, run);
    fake_forbid_waits(queueing = false);
    return status;
}

// The device, or the host, has no memory for request number refuse_at; lasting: and for none behind it.
static int requests, refuse_at;
static bool of_host, lasting;
static inline bool refuses(bool host) {
    if (refuse_at == 0 || host != of_host) return false;
    requests++;
    return requests == refuse_at || (lasting && requests > refuse_at);
}

ft_status __real_ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data);
ft_status __wrap_ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data);
ft_status __wrap_ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data) {
    return refuses(true) ? ft_fail_memory(bytes, "pinned memory") : __real_ft_cuda_host_alloc(device, bytes, data);
}
ft_status __real_ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
ft_status __wrap_ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
ft_status __wrap_ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    return refuses(false) ? ft_fail_memory(bytes, "a page of the device") : __real_ft_cuda_range_commit(device, base, offset, bytes);
}

// What the host has left; 0: nobody knows, and nothing is refused for it.
static size_t host_bytes;
size_t __wrap_ft_cpu_available_bytes(void);
size_t __wrap_ft_cpu_available_bytes(void) { return host_bytes; }

// ---- one run ------------------------------------------------------------------------------------------------------------

static char scratch[64];
static int run_number;

typedef struct outcome {
    ft_status status;
    char dir[128];
    char model[65], state[65]; // digests of the saved model and of the last checkpoint's tensors; "": there is none
    fake_books books;
} outcome;

static inline void digest(const char *dir, const char *name, char out[65]) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    out[0] = '\0';
    if (ft_path_exists(path)) assert_int_equal(ft_sha256_file(path, out), FT_OK);
}

static inline void reset_driver(fake_schedule schedule, uint64_t seed) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = (size_t)1 << 30, s.schedule = schedule, s.seed = seed;
    fake_reset(&s);
}

// What all runs of a test have in common.
typedef struct run_base {
    const char *file;
    const char *const *options;
    const char *last_state; // of the run directory
} run_base;

// In `dir`, NULL: a new directory.
static inline outcome run_in(const run_base *base, const char *dir, const char *const *options) {
    outcome o = {.status = FT_OK};
    char output[160];
    if (dir != NULL) snprintf(o.dir, sizeof o.dir, "%s", dir);
    else snprintf(o.dir, sizeof o.dir, "%s/run%d", scratch, run_number++);
    snprintf(output, sizeof output, "output.dir=%s", o.dir);
    const char *all[40] = {output, "output.exists=resume", "device.name=cuda", "data.cache_dir=none"};
    int count = 4;
    for (const char *const *o_base = base->options; *o_base != NULL; o_base++) all[count++] = *o_base;
    for (; *options != NULL; options++) all[count++] = *options;
    ft_config config;
    if (ft_config_load(&config, base->file != NULL, &base->file, count, all) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    o.status = ft_train(&config, NULL);
    ft_config_free(&config);
    digest(o.dir, "model/model.safetensors", o.model);
    if (o.status == FT_OK) digest(o.dir, base->last_state, o.state);
    o.books = fake_read();
    return o;
}

static inline outcome run(const run_base *base, fake_schedule schedule, uint64_t seed, const char *const *options) {
    reset_driver(schedule, seed);
    return run_in(base, NULL, options);
}

static inline bool same(const outcome *a, const outcome *b) {
    return a->status == b->status && a->state[0] != '\0' && strcmp(a->model, b->model) == 0 && strcmp(a->state, b->state) == 0;
}

static inline size_t left(const fake_books *b) {
    return b->contexts + b->streams + b->events + b->graphs + b->buffers + b->pinned + b->reservations + b->handles + b->mappings;
}

static inline json_t *memory_of(const char *dir, const char *key) {
    char path[256];
    json_t *file;
    snprintf(path, sizeof path, "%s/run.json", dir);
    assert_int_equal(ft_json_load(path, &file), FT_OK);
    json_t *memory = json_incref(json_object_get(file, key));
    json_decref(file);
    json_object_del(memory, "outside_allocator_bytes");
    return memory;
}

#endif

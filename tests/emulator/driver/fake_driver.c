// fake_driver.c - a libcuda.so.1 over host memory, for machines without a GPU: its control, devices and contexts;
// fake_streams.c queues work, fake_memory.c is its memory. It is stricter than the real one where the documentation lets
// the real one choose: queued work runs in the least convenient order that streams and events allow, neither freeing nor
// unmapping waits, and what the documentation calls undefined is an error and counted. For one thread.
#include "tests/emulator/driver/fake_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_settings fake_set;
fake_books fake_kept;
int fake_sticky;
bool fake_waits_forbidden;
_Thread_local ft_cu_context fake_current;
static bool initialised;
static struct ft_cu_context_object contexts[FAKE_DEVICES];
static struct {
    char call[64];
    uint64_t skip, times;
    int result;
} plan;

void fake_fatal(const char *what) {
    fprintf(stderr, "fake driver: %s\n", what);
    abort();
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

fake_books fake_read(void) { return fake_kept; }

void fake_refuse(const char *call, uint64_t nth, uint64_t times, int result) {
    snprintf(plan.call, sizeof plan.call, "%s", call != NULL ? call : "");
    plan.skip = nth - 1;
    plan.times = times;
    plan.result = result;
}

void fake_reset(const fake_settings *settings) {
    if (fake_kept.contexts + fake_kept.streams + fake_kept.events + fake_kept.graphs + fake_kept.buffers + fake_kept.pinned +
            fake_kept.reservations + fake_kept.handles + fake_kept.mappings >
        0)
        fake_fatal("reset while something is alive");
    if (settings->devices > FAKE_DEVICES) fake_fatal("too many devices");
    fake_set = *settings;
    fake_kept = (fake_books){0};
    initialised = false;
    fake_sticky = 0;
    plan.times = 0;
    fake_waits_forbidden = false;
    fake_streams_reset();
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
                  {"slices=", &s.slices},
                  {"memory=", &s.memory},
                  {"limit=", &s.limit},
                  {"granularity=", &s.granularity},
                  {"taken=", &s.taken},
                  {"taken_from=", &s.taken_from},
                  {"schedule=", &s.schedule},
                  {"seed=", &s.seed},
                  {"map_columns=", &s.map_columns}};
    const char *text = getenv("FAKE_CUDA");
    while (text != NULL && *text != '\0') {
        size_t i = 0;
        while (i < sizeof fields / sizeof *fields && strncmp(text, fields[i].name, strlen(fields[i].name)) != 0)
            i++;
        if (i == sizeof fields / sizeof *fields) fake_fatal("FAKE_CUDA has a name that is not known");
        char *end;
        *fields[i].value = strtoull(text + strlen(fields[i].name), &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    fake_reset(&s);
    fake_broken_set_up();
}

// 0: go on. Else what the call returns.
int fake_begin(const char *call) {
    if (!initialised && strcmp(call, "cuInit") != 0 && strcmp(call, "cuDriverGetVersion") != 0)
        return fake_kept.misuses++, NOT_INITIALIZED;
    if (plan.times > 0 && (plan.call[0] == '\0' || strcmp(plan.call, call) == 0)) {
        if (plan.skip > 0)
            plan.skip--;
        else
            return plan.times--, plan.result;
    }
    return fake_sticky;
}

int fake_begin_in_context(const char *call) {
    int result = fake_begin(call);
    if (result != 0) return result;
    if (fake_current != NULL && (fake_sticky = fake_breaks(fake_current->device)) != 0) return fake_sticky;
    return fake_current == NULL || fake_current->retained == 0 ? (fake_kept.misuses++, INVALID_CONTEXT) : 0;
}

void fake_forbid_waits(bool forbidden) { fake_waits_forbidden = forbidden; }

int fake_wait(void) {
    fake_kept.waits++;
    return fake_may_wait();
}

int fake_may_wait(void) {
    int captured = fake_capture_breaks();
    if (captured != 0) return captured;
    if (!fake_waits_forbidden) return 0;
    fake_kept.misuses++;
    fake_kept.forbidden++;
    return WAIT_FORBIDDEN;
}

// ---- the driver and its devices ---------------------------------------------------------------------------------

int cuInit(unsigned flags) {
    BEGIN;
    DEMAND(flags == 0, INVALID_VALUE);
    if (fake_set.init_result != 0) return (int)fake_set.init_result;
    if (fake_set.devices == 0) return FT_CU_NO_DEVICE;
    initialised = true;
    return 0;
}

int cuDriverGetVersion(int *version) {
    BEGIN;
    *version = (int)fake_set.version;
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
              {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
              {FT_CU_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
              {FT_CU_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
              {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
              {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
              {WAIT_FORBIDDEN, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
              {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
              {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
              {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
              {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
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
    *count = (int)fake_set.devices;
    return 0;
}

bool fake_is_device(int device) { return device >= 0 && (size_t)device < fake_set.devices; }

int cuDeviceGet(int *device, int ordinal) {
    BEGIN;
    DEMAND(fake_is_device(ordinal), INVALID_DEVICE);
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    BEGIN;
    DEMAND(fake_is_device(device), INVALID_DEVICE);
    DEMAND(size > 0, INVALID_VALUE);
    snprintf(name, (size_t)size, "%s", fake_set.name);
    return 0;
}

// fake_nvml.c knows them, too. The bytes have the highest bit and are 0, which the text must show.
int cuDeviceGetUuid_v2(ft_cu_uuid *uuid, int device) {
    BEGIN;
    DEMAND(fake_is_device(device), INVALID_DEVICE);
    *uuid = (ft_cu_uuid){.bytes = {(char)0xfa, 0x0b}};
    uuid->bytes[14] = (char)(fake_set.slices ? 0x51 : 0);
    uuid->bytes[15] = (char)(0x3b + fake_physical(device));
    return 0;
}

int cuDeviceGetAttribute(int *value, unsigned attribute, int device) {
    BEGIN;
    DEMAND(fake_is_device(device), INVALID_DEVICE);
    switch (attribute) {
    case FT_CU_ATTRIBUTE_MULTIPROCESSORS: *value = (int)fake_set.multiprocessors; return 0;
    case FT_CU_ATTRIBUTE_PCI_BUS: *value = 0x3b + (fake_set.slices ? 0 : fake_physical(device)); return 0; // slices are of one GPU
    case FT_CU_ATTRIBUTE_PCI_DEVICE:
    case FT_CU_ATTRIBUTE_PCI_DOMAIN: *value = 0; return 0;
    case FT_CU_ATTRIBUTE_CAPABILITY_MAJOR: *value = (int)fake_set.capability / 10; return 0;
    case FT_CU_ATTRIBUTE_CAPABILITY_MINOR: *value = (int)fake_set.capability % 10; return 0;
    case FT_CU_ATTRIBUTE_VIRTUAL_MEMORY: *value = fake_set.virtual_memory != 0; return 0;
    default: return fake_kept.misuses++, INVALID_VALUE;
    }
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    BEGIN;
    DEMAND(fake_is_device(device), INVALID_DEVICE);
    *bytes = fake_set.memory;
    return 0;
}

// ---- contexts ---------------------------------------------------------------------------------------------------

int cuDevicePrimaryCtxRetain(ft_cu_context *context, int device) {
    BEGIN;
    DEMAND(fake_is_device(device), INVALID_DEVICE);
    if (fake_refuses(device)) return FT_CU_DEVICE_UNAVAILABLE;
    contexts[device].device = device;
    contexts[device].retained++;
    fake_kept.contexts++;
    *context = &contexts[device];
    return 0;
}

// After an error that the device does not recover from, everything goes with its context: nothing else takes it back.
// Neither injected nor lasting errors keep a context alive.
int cuDevicePrimaryCtxRelease_v2(int device) {
    DEMAND(fake_is_device(device) && contexts[device].retained > 0, INVALID_CONTEXT);
    contexts[device].retained--;
    fake_kept.contexts--;
    if (fake_sticky != 0 && fake_kept.contexts == 0) {
        fake_streams_lose();
        fake_memory_lose();
    }
    return 0;
}

int cuCtxSetCurrent(ft_cu_context context) {
    BEGIN;
    DEMAND(context == NULL || context->retained > 0, INVALID_CONTEXT);
    fake_current = context;
    return 0;
}

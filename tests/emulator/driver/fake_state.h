// fake_state.h - what the files of the fake driver share.
#ifndef FT_FAKE_STATE_H
#define FT_FAKE_STATE_H

#include "kernels/cuda/driver/driver.h"
#include "tests/emulator/driver/fake_driver.h"

#ifdef FAKE_LACKS_MEM_CREATE // a second library, for the error when a function is missing
#define cuMemCreate another_function
#endif
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int result, const char **name);
int cuGetErrorString(int result, const char **text);
#define FT_CUDA_CALL(field, symbol, parameters) int symbol parameters;
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    ILLEGAL_STATE = 401,
    NOT_READY = 600,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    WAIT_FORBIDDEN = CAPTURE_UNSUPPORTED,
    FAKE_DEVICES = 8,
};

struct ft_cu_context_object {
    int device;
    size_t retained;
};

extern fake_settings fake_set;
extern fake_books fake_kept;
extern int fake_sticky; // the error that a device does not recover from
extern bool fake_waits_forbidden;
extern _Thread_local ft_cu_context fake_current;

void fake_fatal(const char *what);
bool fake_is_device(int device);
// fake_broken.c: a device that breaks.
void fake_broken_set_up(void);
int fake_physical(int device);  // which one it is of those that there were
bool fake_refuses(int device);  // it cannot be opened
int fake_breaks(int device);    // in use: the error from now on, or 0
// 0: go on. Else what the call returns.
int fake_begin(const char *call);
int fake_begin_in_context(const char *call);
// Of every call that waits for the device, which is counted; of one that may wait. 0: go on. Else what the call returns.
int fake_wait(void);
int fake_may_wait(void);
// fake_memory.c: may that device read and write these bytes?
bool fake_usable(const void *data, size_t bytes, int device);
bool fake_pinned(const void *data, size_t bytes);
void fake_memory_lose(void); // gives everything back at once
// fake_streams.c
void fake_streams_reset(void);
void fake_streams_lose(void);
bool fake_queued(const void *data, size_t bytes); // does any queued copy touch these bytes?

static inline void *pointer(ft_cu_address address) { return (void *)(uintptr_t)address; }

#define BEGIN                                                                                                          \
    do {                                                                                                               \
        int begun = fake_begin(__func__);                                                                              \
        if (begun != 0) return begun;                                                                                  \
    } while (0)
#define BEGIN_IN_CONTEXT                                                                                               \
    do {                                                                                                               \
        int begun = fake_begin_in_context(__func__);                                                                   \
        if (begun != 0) return begun;                                                                                  \
    } while (0)
#define DEMAND(condition, result)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) return fake_kept.misuses++, (result);                                                        \
    } while (0)

#endif

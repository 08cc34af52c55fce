// fake_driver.h - how a test sets up the driver of fake_driver.c and looks into it. The functions are found with dlsym:
// a test opens the library by its path, as the program does.
//
// A program that knows nothing of fakes is set up by the environment: FAKE_CUDA="version=12020,devices=2,...", with the
// names of fake_settings that hold numbers.
#ifndef FT_FAKE_DRIVER_H
#define FT_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_settings {
    char name[64];
    size_t version, init_result, devices, capability, multiprocessors, virtual_memory, slices, memory, granularity;
    size_t limit; // what this process may have of a device, as under MPS: less is free then, the total stays; 0: none
    size_t taken, taken_from; // another program takes `taken` bytes of device 0 when more than `taken_from` would be in use
    size_t schedule, seed; // fake_schedule; of its random numbers
    size_t map_columns; // a fault: maps for the copy engine begin so many numbers (of 16 bits) too late
} fake_settings;

// When queued work runs, within what streams and events demand. A missing event, or memory of the host that is touched
// too early, gives wrong results under one of them at least.
typedef enum fake_schedule {
    FAKE_LAZY,        // when somebody waits for it: as late as it can be
    FAKE_EAGER,       // as soon as it is queued and what it waits for is done
    FAKE_RANDOM,      // any amount of any stream at any call
    FAKE_FIRST_EAGER, // the stream that was made first is eager, all others are lazy
    FAKE_FIRST_LAZY,  // the other way round
    FAKE_SCHEDULES,
} fake_schedule;

typedef struct fake_books {
    size_t contexts, streams, events, graphs, buffers, pinned, reservations, handles, mappings; // alive; a context counts
                                                                                                // once per retain
    size_t used;      // bytes of buffers and handles, on all devices
    uint64_t misuses; // calls that the driver's documentation forbids; and these three:
    uint64_t rewritten; // uploads whose memory on the host changed before they ran
    uint64_t overruns;  // buffers with something written in front of them or behind
    uint64_t forbidden; // calls that wait, while they are forbidden
    uint64_t waits;     // calls that wait for the device, allowed or not
    uint64_t drains;    // those of them that left it without any work that it had before
} fake_books;

// Back to a driver before cuInit. With something alive it aborts: the test that left it there is to blame.
typedef void fake_reset_function(const fake_settings *settings);
typedef fake_settings fake_defaults_function(void);
typedef fake_books fake_read_function(void);
// From the nth call on (1: the next one) of that function - of any, if NULL - `times` calls give `result` and do
// nothing. times == 0: no call fails.
typedef void fake_refuse_function(const char *call, uint64_t nth, uint64_t times, int result);
// Inside of a step nothing may wait for the device: while forbidden, calls that do or may are refused and counted. Taking
// and freeing memory may, and so may copies between the device and memory of the host that is not pinned. An event may be
// waited for if it has happened, or if work is queued that comes behind it: the device does not run dry meanwhile.
typedef void fake_forbid_waits_function(bool forbidden);
// A launch on a stream, from the emulator (simt_queue_function). The result is one of the driver's.
int fake_launch(void *stream, bool (*run)(void *job), void (*drop)(void *job), void *job);
// The clock that events of the fake driver read: work that takes time says so.
void fake_advance_clock(double milliseconds);
// The buffer, mapped memory or pinned memory of the host that holds the byte at an address, for a machine that asks which bytes a kernel may
// touch. False: there is none.
bool fake_allocation(uint64_t address, uint64_t *begin, uint64_t *end);
fake_reset_function fake_reset;
fake_defaults_function fake_defaults;
fake_read_function fake_read;
fake_refuse_function fake_refuse;
fake_forbid_waits_function fake_forbid_waits;

#endif

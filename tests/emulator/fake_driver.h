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
    size_t version, init_result, devices, capability, multiprocessors, virtual_memory, memory, granularity;
} fake_settings;

typedef struct fake_books {
    size_t contexts, streams, buffers, reservations, handles, mappings; // alive; a context counts once per retain
    size_t used;                                                        // bytes of buffers and handles, on all devices
    uint64_t misuses;                                                   // calls that the driver's documentation forbids
} fake_books;

// Back to a driver before cuInit. With something alive it aborts: the test that left it there is to blame.
typedef void fake_reset_function(const fake_settings *settings);
typedef fake_settings fake_defaults_function(void);
typedef fake_books fake_read_function(void);
// From the nth call on (1: the next one) of that function - of any, if NULL - `times` calls give `result` and do
// nothing. times == 0: no call fails.
typedef void fake_refuse_function(const char *call, uint64_t nth, uint64_t times, int result);
fake_reset_function fake_reset;
fake_defaults_function fake_defaults;
fake_read_function fake_read;
fake_refuse_function fake_refuse;

#endif

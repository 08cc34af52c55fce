// status.h - errors are values. Every function that can fail returns an ft_status; the message travels in a thread-local
// context beside it. Libraries never print and never exit; only main() maps a status to an exit code.
//
//     if (n < 1) return ft_fail(FT_INVALID, "train.batch_size", "must be at least 1, got %d", n);
//     FT_TRY(open_it(path, &it));
//
// The first failure wins: a caller may add hints or a WHERE that was empty, and need not repeat the message.
#ifndef FT_STATUS_H
#define FT_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

// The value is the exit code of the program (INTERFACE: exit codes).
typedef enum ft_status {
    FT_OK = 0,
    FT_FAILED = 1,      // failed while running (I/O, internal)
    FT_INVALID = 2,     // bad usage, configuration or input
    FT_NO_MEMORY = 3,   // does not fit, device or host
    FT_NO_DEVICE = 4,   // no suitable device in time
    FT_DIVERGED = 5,    // non-finite loss
    FT_INTERRUPTED = 130, // stopped by SIGINT after saving
    FT_TERMINATED = 143,  // stopped by SIGTERM after saving
} ft_status;

// Sets the error of this thread (message, where) and returns `code`. `where` is file:line, an option, a tensor, or NULL.
// Clears earlier hints. Never allocates: messages are cut at 1023 bytes.
ft_status ft_fail(ft_status code, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The same, with ": strerror(errnum)" behind the message; for failed system calls. ENOMEM becomes FT_NO_MEMORY, and of
// ENOSPC and EDQUOT the error knows that the disk is full.
ft_status ft_fail_errno(ft_status code, int errnum, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Out of host memory: "out of host memory (N bytes for WHAT)"; 0: nobody knows. Names RLIMIT_AS or RLIMIT_DATA if it explains it, as ft_fail_errno does of ENOMEM.
ft_status ft_fail_memory(unsigned long long bytes, const char *what);
// Adds a line "hint: ..." to the present error (at most 4 are kept).
void ft_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Gives the present error a WHERE if it has none yet.
void ft_error_where_default(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *ft_error_message(void); // "" when there is none
const char *ft_error_where(void);   // "" when there is none
int ft_error_hint_count(void);
const char *ft_error_hint(int index);
ft_status ft_error_code(void);
bool ft_error_disk_full(void); // nothing is wrong but that: with more room the same may well succeed
// Nothing is wrong but that another process keeps what is wanted locked. Whoever has met it says so of the present error.
void ft_error_is_locked(void);
bool ft_error_locked(void);
// A device is broken or gone, as its driver says, and not what was asked of it: another process may do the same work.
void ft_error_is_of_device(void);
bool ft_error_of_device(void);
void ft_error_clear(void);
// An error handed from one thread to another (workers): copy out, then set in the receiving thread.
typedef struct ft_error {
    ft_status code;
    bool disk_full, locked, device;
    char message[1024];
    char where[512];
    int hints;
    char hint[4][512];
} ft_error;
void ft_error_save(ft_error *out);
void ft_error_restore(const ft_error *in);

#define FT_TRY(expression)                                                                                             \
    do {                                                                                                               \
        ft_status ft_try_status_ = (expression);                                                                       \
        if (ft_try_status_ != FT_OK) return ft_try_status_;                                                            \
    } while (0)
// For functions with one cleanup label: sets `status` and jumps.
#define FT_TRY_GOTO(expression, label)                                                                                 \
    do {                                                                                                               \
        status = (expression);                                                                                         \
        if (status != FT_OK) goto label;                                                                               \
    } while (0)

#endif

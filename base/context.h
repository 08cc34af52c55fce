// context.h - on whose behalf a thread works: where its messages go, whether it is to stop, and what is remembered for it. All
// that would otherwise be a variable of the whole process, so that two users of the engine in one process do not meet.
//
//     ft_context mine;
//     ft_context_init(&mine);
//     ft_context *before = ft_context_enter(&mine);
//     ... train ...
//     ft_context_enter(before);
//     ft_context_free(&mine);
//
// A thread that entered none works in the program's own, which exists from the start; a thread that the engine starts works in
// that of its starter. Several threads may work in one at the same time. The present error (status.h) is the thread's, not
// the context's.
#ifndef FT_CONTEXT_H
#define FT_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

// What is said at all (log.h). SILENT: not even warnings, for work whose messages were or will be given by another run of it.
typedef enum ft_log_level { FT_LOG_SILENT = -1, FT_LOG_QUIET = 0, FT_LOG_NORMAL = 1, FT_LOG_VERBOSE = 2 } ft_log_level;

// Where messages go: a line at a time, without its end, from whatever thread says it. No sink: standard error.
typedef struct ft_log_sink {
    void (*line)(void *owner, const char *text);
    void *owner;
} ft_log_sink;

// What those above keep by context; what it is, only they know.
typedef enum ft_context_place { FT_CONTEXT_OBSERVER, FT_CONTEXT_WATCH, FT_CONTEXT_LAYOUTS, FT_CONTEXT_LOG_COPIES, FT_CONTEXT_PACK, FT_CONTEXT_RANKS, FT_CONTEXT_PLACES } ft_context_place;

// What a stage takes of the heap (heap.h).
typedef struct ft_heap_watch {
    atomic_size_t limit;      // 0: nobody watches
    atomic_size_t held, data; // when it began
    atomic_size_t most, unseen;
    const char *limit_name;
} ft_heap_watch;

typedef struct ft_context ft_context;
struct ft_context {
    ft_log_sink sink;          // set before somebody works in it; `line` NULL: none
    atomic_int level;          // ft_log_level
    atomic_bool line_open;     // a status line stands on the terminal
    atomic_int stop;           // stop.h: 0, or the signal that asked
    atomic_int asked;          // the same where several processes stop together, until they have agreed on it
    atomic_bool agrees;
    void (*begins)(ft_context *context); // as stop.h says; NULL: nobody sends signals
    atomic_bool without_disk;  // base/files.h: ft_atomic_wait_for_disk
    ft_heap_watch heap;
    FILE *results;             // where documents for programs go (ft_results); NULL: standard output
    const char *program;       // what is started as a worker of a study; NULL: the program that runs
    pthread_mutex_t lock;      // of what lies in `kept`
    struct {
        void *value;
        void (*forget)(void *value); // NULL: nothing to do
    } kept[FT_CONTEXT_PLACES];
};

// Messages as in a program that was not told otherwise, no stop, nothing kept.
void ft_context_init(ft_context *context);
// Forgets what is kept. No thread works in it any more, those included that the engine started in it and that sleep: whatever owns
// threads (a device of the CPU, by its pool) is closed before.
void ft_context_free(ft_context *context);
// The calling thread works in it from now on; NULL: in the program's. Returns what to enter afterwards.
ft_context *ft_context_enter(ft_context *context);
ft_context *ft_context_now(void); // never NULL
// Where a command of the present context writes its document (--json). Who calls commands from another program has them in memory.
FILE *ft_results(void);

#endif

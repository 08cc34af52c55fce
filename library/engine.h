// engine.h - inside libftengine: what an engine is.
#ifndef FT_LIBRARY_ENGINE_H
#define FT_LIBRARY_ENGINE_H

#include "base/context.h"
#include "base/status.h"
#include "engine/train/watch.h"
#include "library/ftengine.h"

#include <limits.h>

enum { FT_ERROR_TEXT = 4096 };

struct ftengine {
    ft_context context; // first: a stop that was asked for finds its engine by it
    ft_context *outer;  // of the thread that calls, from outside
    atomic_bool busy, stop;
    void (*line)(void *user, const char *text);
    void *line_user;
    int (*told)(void *user, const ftengine_progress *progress);
    void *told_user;
    ft_run_watch watch;
    ft_error error;
    char text[FT_ERROR_TEXT];
    char program[PATH_MAX];
};

// The thread works for the engine until ft_engine_leave, which keeps the error of `status` and returns its code. false: FTENGINE_BUSY.
bool ft_engine_enter(ftengine *engine);
int ft_engine_leave(ftengine *engine, ft_status status);
// FT_INVALID: one of them is NULL, or the list is and has any.
ft_status ft_library_check_words(int count, const char *const *words);
// FT_INVALID: fewer than none, or a NULL list of some.
ft_status ft_library_check_list(const char *what, int64_t count, const void *list);

#endif

#include "base/context.h"

#include <stddef.h>

static ft_context program = {.level = FT_LOG_NORMAL, .lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local ft_context *entered; // NULL: the program's

void ft_context_init(ft_context *context) {
    *context = (ft_context){.level = FT_LOG_NORMAL};
    pthread_mutex_init(&context->lock, NULL);
}

void ft_context_free(ft_context *context) {
    for (int i = 0; i < FT_CONTEXT_PLACES; i++)
        if (context->kept[i].forget != NULL) context->kept[i].forget(context->kept[i].value);
    pthread_mutex_destroy(&context->lock);
}

ft_context *ft_context_enter(ft_context *context) {
    ft_context *before = entered;
    entered = context;
    return before;
}

ft_context *ft_context_now(void) { return entered != NULL ? entered : &program; }

FILE *ft_results(void) {
    FILE *results = ft_context_now()->results;
    return results != NULL ? results : stdout;
}

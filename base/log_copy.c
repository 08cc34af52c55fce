#include "base/log_copy.h"

#include "base/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ft_log_copy {
    ft_log_copy *outer; // begun before
    int file;           // -1: not known yet
    bool ended;         // waits for an error
    char *kept;         // until it is known
    size_t length, capacity;
};

// ---- the copies of a context, under its lock ------------------------------------------------------------------------

static void **place_of(ft_context *context) { return &context->kept[FT_CONTEXT_LOG_COPIES].value; }

static void free_copy(ft_log_copy *copy) {
    if (copy->file >= 0) close(copy->file);
    free(copy->kept);
    free(copy);
}

static void forget(void *innermost) {
    for (ft_log_copy *at = innermost, *outer; at != NULL; at = outer) {
        outer = at->outer;
        free_copy(at);
    }
}

// Takes out `copy`, or with NULL those that have ended.
static void take_out(ft_context *context, const ft_log_copy *copy) {
    ft_log_copy *outer, *list = NULL, **end = &list;
    for (ft_log_copy *at = *place_of(context); at != NULL; at = outer) {
        outer = at->outer;
        if (copy != NULL ? at == copy : at->ended) {
            free_copy(at);
            continue;
        }
        *end = at;
        end = &at->outer;
    }
    *end = NULL;
    *place_of(context) = list;
}

ft_log_copy *ft_log_copy_begin(void) {
    ft_context *context = ft_context_now();
    ft_log_copy *copy = calloc(1, sizeof *copy);
    pthread_mutex_lock(&context->lock);
    take_out(context, NULL);
    if (copy != NULL) {
        copy->file = -1;
        copy->outer = *place_of(context);
        *place_of(context) = copy;
        context->kept[FT_CONTEXT_LOG_COPIES].forget = forget;
    }
    pthread_mutex_unlock(&context->lock);
    return copy;
}

void ft_log_copy_end(ft_log_copy *copy, bool well) {
    ft_context *context = ft_context_now();
    if (copy == NULL) return;
    pthread_mutex_lock(&context->lock);
    copy->ended = true;
    if (well) take_out(context, copy);
    pthread_mutex_unlock(&context->lock);
}

void ft_log_copy_told(void) {
    ft_context *context = ft_context_now();
    pthread_mutex_lock(&context->lock);
    take_out(context, NULL);
    pthread_mutex_unlock(&context->lock);
}

bool ft_log_copies(void) {
    ft_context *context = ft_context_now();
    pthread_mutex_lock(&context->lock);
    const bool any = *place_of(context) != NULL;
    pthread_mutex_unlock(&context->lock);
    return any;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// In one piece, so that the lines of two processes do not mix; what is missing then is missing.
static void put(ft_log_copy *copy, const char *text, size_t length) {
    if (copy->file >= 0) {
        ssize_t written = write(copy->file, text, length);
        (void)written;
        return;
    }
    if (copy->length + length > copy->capacity) {
        const size_t capacity = 2 * (copy->length + length);
        char *kept = realloc(copy->kept, capacity);
        if (kept == NULL) return;
        copy->kept = kept;
        copy->capacity = capacity;
    }
    memcpy(copy->kept + copy->length, text, length);
    copy->length += length;
}

void ft_log_copy_to(ft_log_copy *copy, const char *path) {
    ft_context *context = ft_context_now();
    if (copy == NULL) return;
    pthread_mutex_lock(&context->lock);
    if (copy->file < 0) copy->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (copy->file >= 0 && copy->length > 0) put(copy, copy->kept, copy->length);
    copy->length = 0;
    pthread_mutex_unlock(&context->lock);
}

void ft_log_copy_line(const char *text) {
    enum { TIME = 32 };
    ft_context *context = ft_context_now();
    const size_t length = strlen(text);
    char usual[1024], *line = length + TIME < sizeof usual ? usual : malloc(length + TIME);
    if (line == NULL) return;
    time_t now = time(NULL);
    struct tm parts;
    size_t used = 0;
    if (length > 0 && localtime_r(&now, &parts) != NULL) used = strftime(line, TIME, "%Y-%m-%d %H:%M:%S  ", &parts);
    memcpy(line + used, text, length);
    line[used + length] = '\n';
    pthread_mutex_lock(&context->lock);
    for (ft_log_copy *at = *place_of(context); at != NULL; at = at->outer)
        put(at, line, used + length + 1);
    pthread_mutex_unlock(&context->lock);
    if (line != usual) free(line);
}

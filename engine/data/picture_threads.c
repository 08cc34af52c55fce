#include "engine/data/picture_threads.h"

#include "base/context.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

ft_status ft_picture_threads_start(int count, void *(*run)(void *), void *context, pthread_t *threads, int *started) {
    pthread_attr_t small;
    sigset_t all, old;
    *started = 0;
    int error = pthread_attr_init(&small);
    if (error != 0) return ft_fail_errno(FT_FAILED, error, "data.workers", "cannot start threads that read pictures");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_attr_setstacksize(&small, FT_PICTURE_STACK_BYTES);
    while (error == 0 && *started < count) {
        error = pthread_create(&threads[*started], &small, run, context);
        *started += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&small);
    return error == 0 ? FT_OK
                      : ft_fail_errno(FT_FAILED, error, "data.workers",
                                      "only %d of %d threads that read pictures could be started", *started, count);
}

// ---- a list, once -------------------------------------------------------------------------------------------------

typedef struct list {
    ft_picture_work *work;
    void *context;
    ft_context *starter;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t count, next, done;
    int running;
    int64_t failed; // the smallest that did; `count`: none
    ft_error error;
} list;

// One more is taken and done; false: there is none.
static bool do_one(list *l) {
    pthread_mutex_lock(&l->lock);
    const bool there = l->next < l->count && l->failed == l->count && ft_stop_signal() == 0;
    const int64_t i = l->next;
    l->next += there;
    pthread_mutex_unlock(&l->lock);
    if (!there) return false;
    const ft_status status = l->work(l->context, i);
    pthread_mutex_lock(&l->lock);
    l->done++;
    if (status != FT_OK && i < l->failed) {
        l->failed = i;
        ft_error_save(&l->error);
    }
    pthread_mutex_unlock(&l->lock);
    return true;
}

static void *work_along(void *context) {
    list *l = context;
    ft_context_enter(l->starter);
    while (do_one(l)) {
    }
    pthread_mutex_lock(&l->lock);
    l->running--;
    pthread_cond_signal(&l->moved);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void tell(const list *l, const char *what, int64_t done) {
    ft_status_line("%s %lld / %lld", what, (long long)done, (long long)l->count);
}

// Tells how far it is, a few times a second.
static void wait_for_all(list *l, const char *what) {
    pthread_mutex_lock(&l->lock);
    while (l->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        (void)pthread_cond_timedwait(&l->moved, &l->lock, &until);
        const int64_t done = l->done;
        pthread_mutex_unlock(&l->lock);
        tell(l, what, done);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
}

static ft_status by_threads(list *l, int workers, const char *what) {
    int started;
    pthread_t *threads = ft_calloc((size_t)workers, sizeof *threads, "threads that read pictures");
    if (threads == NULL) return FT_NO_MEMORY;
    l->running = workers;
    const ft_status status = ft_picture_threads_start(workers, work_along, l, threads, &started);
    pthread_mutex_lock(&l->lock);
    l->running -= workers - started;
    if (status != FT_OK) l->next = l->count; // those that began end
    pthread_mutex_unlock(&l->lock);
    wait_for_all(l, what);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return status;
}

ft_status ft_pictures_each(int workers, int64_t count, const char *what, ft_picture_work *work, void *context) {
    list l = {.work = work, .context = context, .starter = ft_context_now(), .count = count, .failed = count};
    ft_status status = FT_OK;
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.moved, NULL);
    if (workers > 0)
        status = by_threads(&l, (int)(workers < count ? workers : count), what);
    else
        while (do_one(&l))
            if (l.done % 64 == 1) tell(&l, what, l.done);
    ft_status_line("%s", "");
    pthread_mutex_destroy(&l.lock);
    pthread_cond_destroy(&l.moved);
    if (status != FT_OK) return status;
    if (l.failed < count) {
        ft_error_restore(&l.error);
        return l.error.code;
    }
    if (ft_stop_signal() != 0)
        return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped while pictures were read");
    return FT_OK;
}

// picture_threads.h - threads that read pictures: started with signals blocked and a stack that decoders need, in the
// context of who starts them.
#ifndef FT_PICTURE_THREADS_H
#define FT_PICTURE_THREADS_H

#include "base/status.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { FT_PICTURE_STACK_BYTES = 1 << 20 };

// FT_FAILED when the system gives none; *started have begun then too.
ft_status ft_picture_threads_start(int count, void *(*run)(void *), void *context, pthread_t *threads, int *started);

// work(context, i) for every i in [0, count), by `workers` threads or, with 0, by this one. Of failures the one of the
// smallest i is the outcome, whatever the threads: behind one nothing is begun. what: "reading pictures", of the status
// line. A signal (stop.h) ends it with its status.
typedef ft_status ft_picture_work(void *context, int64_t i);
ft_status ft_pictures_each(int workers, int64_t count, const char *what, ft_picture_work *work, void *context);

#endif

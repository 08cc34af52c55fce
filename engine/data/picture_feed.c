#include "engine/data/picture_feed.h"

#include "base/context.h"
#include "base/heap.h"
#include "engine/data/picture_set.h"
#include "engine/data/picture_threads.h"
#include "engine/data/pictures/picture_files.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, AHEAD_OF_A_WORKER = 2, WORKERS_BESIDE_CPU = 1, WORKERS = 4 };

typedef enum place_state { PLACE_EMPTY, PLACE_READY, PLACE_FAILED } place_state;

typedef struct place {
    place_state state;
    ft_box erased;
} place;

struct ft_picture_feed {
    ft_picture_feed_request request;
    ft_picture_rules rules; // size and filter
    int64_t places;
    uint8_t *pixels, *rooms; // [places] and one a thread, each of `stride` bytes
    size_t stride;
    place *place;
    ft_context *starter;
    pthread_t *threads;
    int started;
    // Of the epoch; under `lock`, as the states of places are
    pthread_mutex_t lock;
    pthread_cond_t work, made;
    const int32_t *order;
    int64_t epoch, end; // pictures of it
    int64_t base, next; // the first whose place is in use; the first that nobody has begun
    int busy, named;    // threads in work; that have a room
    bool closing;
    int64_t failed; // the smallest index that `error` is about; -1: none
    ft_error error;
    int64_t taken; // the first of what was taken
};

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

// ---- sizes --------------------------------------------------------------------------------------------------------

int ft_picture_workers(const ft_config *config, ft_picture_work_beside what) {
    return config->data.workers != FT_AUTO ? (int)config->data.workers
           : what == FT_BESIDE_CPU         ? WORKERS_BESIDE_CPU
                                           : WORKERS;
}

static bool mixes(const ft_picture_feed_request *r) { return ft_augment_mixes(&r->augment); }

// What is taken at once, and with threads a micro-batch more.
static int64_t places_of(const ft_picture_feed_request *r) {
    const int64_t at_once = r->most + (mixes(r) ? 2 * (r->batch - 1) : 0);
    return at_once + (r->workers > 0 ? r->most + (int64_t)r->workers * AHEAD_OF_A_WORKER : 0);
}

static size_t stride_of(const ft_picture_feed_request *r) {
    return aligned((size_t)r->height * (size_t)r->width * FT_PICTURE_CHANNELS);
}
static int rooms_of(const ft_picture_feed_request *r) { return r->workers > 0 ? r->workers : 1; }

size_t ft_picture_feed_bytes(const ft_picture_feed_request *r) {
    return stride_of(r) * ((size_t)places_of(r) + (size_t)rooms_of(r)) + aligned((size_t)places_of(r) * sizeof(place));
}

size_t ft_picture_feed_heap_bytes(const ft_picture_feed_request *r) {
    return r->augment.crop && r->data != NULL && r->data->pictures != NULL
               ? (size_t)rooms_of(r) * r->data->pictures->largest
               : 0;
}

// ---- a picture ----------------------------------------------------------------------------------------------------

static ft_status read_whole(const ft_picture_set *set, int64_t example, ft_picture *picture) {
    char where[FT_PICTURE_WHERE];
    ft_picture_bytes bytes;
    *picture = (ft_picture){.pixels = NULL};
    FT_TRY(ft_picture_files_read(set->files, example, &bytes));
    const ft_status status =
        ft_picture_decode(bytes.bytes, bytes.length, ft_picture_files_where(set->files, example, where), picture);
    ft_picture_bytes_free(&bytes);
    return status;
}

// Picture i of an epoch into its place; room: of the thread.
static ft_status make(const ft_picture_feed *f, int64_t epoch, int64_t sequence, uint8_t *pixels, uint8_t *room,
                      ft_box *erased) {
    const ft_picture_feed_request *r = &f->request;
    const ft_picture_set *set = r->data->pictures;
    const int64_t example = ft_dataset_example(r->data, sequence);
    ft_picture whole = {.pixels = NULL};
    if (r->augment.crop)
        FT_TRY(read_whole(set, example, &whole));
    else
        memcpy(pixels, ft_picture_set_at(set, example), ft_picture_set_bytes(set));
    const ft_status status =
        ft_augment_picture(&r->augment, &f->rules, r->seed, epoch, set->key[example], &whole, pixels, room, erased);
    ft_picture_free(&whole);
    return status;
}

// Under the lock, which it gives up meanwhile: makes the next one.
static void make_next(ft_picture_feed *f, uint8_t *room) {
    const int64_t i = f->next++, sequence = f->order[i], epoch = f->epoch;
    place *p = &f->place[i % f->places];
    uint8_t *pixels = f->pixels + (size_t)(i % f->places) * f->stride;
    ft_box erased = {0};
    f->busy++;
    pthread_mutex_unlock(&f->lock);
    const ft_status status = make(f, epoch, sequence, pixels, room, &erased);
    pthread_mutex_lock(&f->lock);
    f->busy--;
    *p = (place){.state = status == FT_OK ? PLACE_READY : PLACE_FAILED, .erased = erased};
    if (status != FT_OK && (f->failed < 0 || i < f->failed)) {
        f->failed = i;
        ft_error_save(&f->error);
    }
    pthread_cond_signal(&f->made);
}

static bool has_work(const ft_picture_feed *f) {
    return f->next < f->end && f->next < f->base + f->places && f->failed < 0;
}

static void *work_along(void *context) {
    ft_picture_feed *f = context;
    ft_context_enter(f->starter);
    pthread_mutex_lock(&f->lock);
    uint8_t *room = f->rooms + (size_t)f->named++ * f->stride;
    for (;;) {
        while (!f->closing && !has_work(f))
            pthread_cond_wait(&f->work, &f->lock);
        if (f->closing) break;
        make_next(f, room);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

// ---- opened and closed --------------------------------------------------------------------------------------------

ft_status ft_picture_feed_open(const ft_picture_feed_request *request, void *block, ft_picture_feed **out) {
    const ft_picture_set *set = request->data->pictures;
    ft_picture_feed *f = *out = ft_calloc(1, sizeof *f, "a feed of pictures");
    if (f == NULL) return FT_NO_MEMORY;
    f->request = *request;
    f->rules = set->rules;
    f->places = places_of(request);
    f->stride = stride_of(request);
    f->pixels = block;
    f->rooms = f->pixels + (size_t)f->places * f->stride;
    f->place = (place *)(void *)(f->rooms + (size_t)rooms_of(request) * f->stride);
    memset(f->place, 0, (size_t)f->places * sizeof *f->place);
    f->starter = ft_context_now();
    f->epoch = f->failed = -1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->made, NULL);
    ft_status status = FT_OK;
    if (request->workers > 0) {
        f->threads = ft_calloc((size_t)request->workers, sizeof *f->threads, "threads that read pictures");
        status = f->threads != NULL ? ft_picture_threads_start(request->workers, work_along, f, f->threads, &f->started)
                                    : FT_NO_MEMORY;
    }
    if (status == FT_OK) return FT_OK;
    ft_picture_feed_close(f);
    *out = NULL;
    return status;
}

void ft_picture_feed_close(ft_picture_feed *f) {
    if (f == NULL) return;
    pthread_mutex_lock(&f->lock);
    f->closing = true;
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < f->started; i++)
        pthread_join(f->threads[i], NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->made);
    free(f->threads);
    free(f);
}

// ---- taken --------------------------------------------------------------------------------------------------------

// Nobody works, and nothing is begun until somebody takes.
static void pause_here(ft_picture_feed *f) {
    f->end = f->base = f->next = 0;
    while (f->busy > 0)
        pthread_cond_wait(&f->made, &f->lock);
    f->failed = -1;
    f->order = NULL;
}

void ft_picture_feed_pause(ft_picture_feed *f) {
    if (f == NULL) return;
    pthread_mutex_lock(&f->lock);
    pause_here(f);
    pthread_mutex_unlock(&f->lock);
}

static int64_t batch_of(const ft_picture_feed *f, int64_t i) { return i / f->request.batch; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// What a micro-batch needs: its pictures, and where they are mixed their batches.
static void widen(const ft_picture_feed *f, int64_t n, int64_t *first, int64_t *end) {
    if (!mixes(&f->request)) return;
    *first = batch_of(f, *first) * f->request.batch;
    *end = least((batch_of(f, *end - 1) + 1) * f->request.batch, n);
}

static void begin_at(ft_picture_feed *f, int64_t epoch, const int32_t *order, int64_t n, int64_t first) {
    const bool goes_on = epoch == f->epoch && order == f->order && first >= f->base && first <= f->next;
    if (!goes_on) {
        pause_here(f);
        f->next = first;
    }
    f->epoch = epoch;
    f->order = order;
    f->end = n;
    for (int64_t i = f->base; goes_on && i < first; i++)
        f->place[i % f->places].state = PLACE_EMPTY;
    if (!goes_on) memset(f->place, 0, (size_t)f->places * sizeof *f->place);
    f->base = first;
    pthread_cond_broadcast(&f->work);
}

static ft_status wait_for(ft_picture_feed *f, int64_t i) {
    const place *p = &f->place[i % f->places];
    while (f->started == 0 && f->next <= i)
        make_next(f, f->rooms);
    while (p->state == PLACE_EMPTY && (f->failed < 0 || i < f->failed))
        pthread_cond_wait(&f->made, &f->lock);
    if (p->state == PLACE_READY) return FT_OK;
    ft_error_restore(&f->error);
    return f->error.code;
}

ft_status ft_picture_feed_take(ft_picture_feed *f, int64_t epoch, const int32_t *order, int64_t n, int64_t first,
                               int64_t count) {
    int64_t from = first, end = first + count;
    widen(f, n, &from, &end);
    if (count < 1 || end > n || end - from > f->places)
        return ft_fail(FT_FAILED, NULL, "%lld pictures from %lld on of %lld were asked for, and there are %lld places",
                       (long long)count, (long long)first, (long long)n, (long long)f->places);
    ft_status status = FT_OK;
    pthread_mutex_lock(&f->lock);
    begin_at(f, epoch, order, n, from);
    for (int64_t i = from; i < end && status == FT_OK; i++)
        status = wait_for(f, i);
    f->taken = first;
    pthread_mutex_unlock(&f->lock);
    return status;
}

// ---- mixed --------------------------------------------------------------------------------------------------------

static int64_t partner(const ft_picture_feed *f, int64_t i) {
    const int64_t first = batch_of(f, i) * f->request.batch;
    return i > first ? i - 1 : least(first + f->request.batch, f->end) - 1;
}

static ft_mix mix_of(const ft_picture_feed *f, int64_t i) {
    if (!mixes(&f->request)) return (ft_mix){.share = 1};
    return ft_augment_mix(&f->request.augment, f->request.seed, f->epoch, batch_of(f, i), f->request.width,
                          f->request.height);
}

ft_fed_picture ft_picture_feed_at(const ft_picture_feed *f, int64_t i) {
    const int64_t own = f->taken + i, other = mixes(&f->request) ? partner(f, own) : own;
    return (ft_fed_picture){.pixels = f->pixels + (size_t)(own % f->places) * f->stride,
                            .other = f->pixels + (size_t)(other % f->places) * f->stride,
                            .erased = f->place[own % f->places].erased,
                            .other_erased = f->place[other % f->places].erased,
                            .mix = mix_of(f, own)};
}

void ft_picture_feed_label(const ft_picture_feed *f, ft_batch *batch, const ft_dataset *data) {
    if (batch->other_label == NULL || data->label == NULL) return;
    for (int32_t i = 0; i < batch->sequences; i++) {
        const int32_t at = batch->cu_reads[i]; // a picture is read once
        const int64_t own = f->taken + i;
        batch->other_label[at] = data->label[ft_dataset_example(data, f->order[partner(f, own)])];
        batch->share[at] = (float)mix_of(f, own).share;
    }
}

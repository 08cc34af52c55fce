// fake_streams.c - streams and events of the fake driver. Copies, fills and launches are queued; when they run is chosen
// to hurt (fake_schedule): nothing but the order within a stream, events, and waiting for them binds it.
#include "tests/emulator/driver/fake_work.h"

#include <stdlib.h>
#include <string.h>

static ft_cu_stream streams;
static ft_cu_event events;
static uint64_t random_state;
static double clock_ms; // stands still but for fake_advance_clock

// ---- work -------------------------------------------------------------------------------------------------------

static uint64_t digest_of(const char *data, size_t bytes) { // FNV-1a
    uint64_t digest = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ (unsigned char)data[i]) * 1099511628211u;
    return digest;
}

static bool touches(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    return a != NULL && (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static void forget_if_unused(ft_cu_event event) {
    if (!event->destroyed || event->users > 0) return;
    ft_cu_event *at = &events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    free(event);
}

static void finish(work *w) {
    if (w->drop != NULL) w->drop(w->job);
    if (w->event != NULL) {
        w->event->users--;
        forget_if_unused(w->event);
    }
    if (w->graph != NULL) fake_graph_count(w->graph, -1);
    free(w);
}

// Memory of the host that the device writes and reads again, in an order that events give: uploads in a queue have what a
// download brings as soon as it runs. What the host itself did to that memory until then still counts as a misuse.
static void download(const work *w) {
    for (int after = 0; after < 2; after++) {
        if (after) memcpy(w->to, w->from, w->bytes);
        for (ft_cu_stream s = streams; s != NULL; s = s->next)
            for (work *other = s->first; other != NULL; other = other->next) {
                if (other->kind != UPLOAD || other->recorded || !touches(other->from, other->bytes, w->to, w->bytes)) continue;
                if (after) other->digest = digest_of(other->from, other->bytes);
                else if (other->digest != digest_of(other->from, other->bytes)) fake_kept.rewritten++, fake_kept.misuses++;
            }
    }
}

void fake_run(const work *w, int device) {
    if (w->kind == RECORD) {
        if (w->version > w->event->done) w->event->done = w->version;
        w->event->time = clock_ms;
        return;
    }
    if (w->kind == WAIT || fake_sticky != 0) return;
    if (w->kind == REPLAY) {
        fake_graph_run(w->graph, device);
        return;
    }
    if (w->kind == LAUNCH) {
        if (!w->run(w->job)) fake_sticky = LAUNCH_FAILED;
        return;
    }
    bool good = (w->kind == DOWNLOAD || fake_usable(w->to, w->bytes, device)) &&
                (w->kind == UPLOAD || w->kind == FILL || fake_usable(w->from, w->bytes, device));
    if (!good) {
        fake_sticky = ILLEGAL_ADDRESS;
        return;
    }
    if (w->kind == FILL)
        memset(w->to, w->byte, w->bytes);
    else if (w->kind == DOWNLOAD)
        download(w);
    else
        memcpy(w->to, w->from, w->bytes);
    if (w->kind == UPLOAD && !w->recorded && digest_of(w->from, w->bytes) != w->digest) fake_kept.rewritten++, fake_kept.misuses++;
}

static bool blocked(const work *w) { return w->kind == WAIT && w->event->done < w->version; }

static void run_first(ft_cu_stream stream) {
    work *w = stream->first;
    stream->first = w->next;
    if (stream->first == NULL) stream->last = &stream->first;
    fake_run(w, stream->context->device);
    finish(w);
}

// Everything that must have run before this recording has, and no more. Recordings are queued before what waits for
// them, so this ends.
static void run_until_recorded(ft_cu_event event, uint64_t version) {
    for (ft_cu_stream s = streams; s != NULL && event->done < version; s = s->next) {
        const work *w = s->first;
        while (w != NULL && !(w->kind == RECORD && w->event == event && w->version == version))
            w = w->next;
        if (w == NULL) continue;
        while (event->done < version) {
            if (blocked(s->first))
                run_until_recorded(s->first->event, s->first->version);
            else
                run_first(s);
        }
    }
}

static void run_all_of(ft_cu_stream stream) {
    while (stream->first != NULL) {
        if (blocked(stream->first))
            run_until_recorded(stream->first->event, stream->first->version);
        else
            run_first(stream);
    }
}

// ---- when it runs -----------------------------------------------------------------------------------------------

static uint64_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 16;
}

static bool is_eager(ft_cu_stream stream) {
    bool made_first = stream->next == NULL;
    switch ((fake_schedule)fake_set.schedule) {
    case FAKE_EAGER: return true;
    case FAKE_FIRST_EAGER: return made_first;
    case FAKE_FIRST_LAZY: return !made_first;
    default: return false;
    }
}

// Called when work was queued.
static void progress(void) {
    if (fake_set.schedule == FAKE_RANDOM) {
        size_t count = 0;
        for (ft_cu_stream s = streams; s != NULL; s = s->next)
            count++;
        for (uint64_t steps = random_number() % 8; steps > 0; steps--) {
            ft_cu_stream s = streams;
            for (uint64_t skip = random_number() % count; skip > 0; skip--)
                s = s->next;
            if (s->first != NULL && !blocked(s->first)) run_first(s);
        }
        return;
    }
    for (bool more = true; more;) {
        more = false;
        for (ft_cu_stream s = streams; s != NULL; s = s->next)
            while (is_eager(s) && s->first != NULL && !blocked(s->first)) {
                run_first(s);
                more = true;
            }
    }
}

// ---- streams ----------------------------------------------------------------------------------------------------

ft_cu_stream fake_streams(void) { return streams; }

bool fake_is_stream(ft_cu_stream stream) {
    ft_cu_stream s = streams;
    while (s != NULL && s != stream)
        s = s->next;
    return s != NULL && s->context == fake_current;
}

int cuStreamCreate(ft_cu_stream *stream, unsigned flags) {
    BEGIN_IN_CONTEXT;
    DEMAND(flags <= FT_CU_STREAM_NON_BLOCKING, INVALID_VALUE);
    ft_cu_stream s = calloc(1, sizeof *s);
    if (s == NULL) fake_fatal("no memory");
    s->context = fake_current;
    s->last = &s->first;
    s->next = streams;
    streams = s;
    fake_kept.streams++;
    *stream = s;
    return 0;
}

static bool anything_queued(void) {
    ft_cu_stream s = streams;
    while (s != NULL && s->first == NULL)
        s = s->next;
    return s != NULL;
}

int cuStreamSynchronize(ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    DEMAND(fake_is_stream(stream), INVALID_HANDLE);
    int forbidden = fake_wait();
    if (forbidden != 0) return forbidden;
    const bool had_work = anything_queued();
    run_all_of(stream);
    if (had_work && !anything_queued()) fake_kept.drains++;
    return fake_sticky;
}

int cuStreamDestroy_v2(ft_cu_stream stream) {
    DEMAND(fake_is_stream(stream), INVALID_HANDLE); // neither injected nor sticky errors keep a stream alive
    DEMAND(stream->first == NULL && stream->captured == NULL, INVALID_HANDLE);
    ft_cu_stream *at = &streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
    fake_kept.streams--;
    return 0;
}

void fake_streams_lose(void) {
    fake_graphs_lose();
    for (; streams != NULL; fake_kept.streams--) {
        ft_cu_stream stream = streams;
        streams = stream->next;
        for (work *w = stream->first, *next; w != NULL; w = next) {
            next = w->next;
            finish(w);
        }
        free(stream);
    }
    for (ft_cu_event event = events, next; event != NULL; event = next) {
        next = event->next;
        free(event);
    }
    events = NULL;
    fake_kept.events = 0;
}

void fake_streams_reset(void) {
    random_state = 88172645463325252u ^ fake_set.seed * 0x9E3779B97F4A7C15u;
    if (fake_set.schedule >= FAKE_SCHEDULES) fake_fatal("no such schedule");
}

bool fake_queued(const void *data, size_t bytes) {
    for (ft_cu_stream s = streams; s != NULL; s = s->next)
        for (const work *w = s->first; w != NULL; w = w->next)
            if (touches(w->to, w->bytes, data, bytes) || touches(w->from, w->bytes, data, bytes)) return true;
    return false;
}

// ---- what is queued ---------------------------------------------------------------------------------------------

void fake_append(ft_cu_stream stream, work value) {
    if (stream->captured != NULL) {
        fake_graph_add(stream->captured, value);
        return;
    }
    work *w = malloc(sizeof *w);
    if (w == NULL) fake_fatal("no memory");
    *w = value;
    w->next = NULL;
    if (w->event != NULL) w->event->users++;
    if (w->graph != NULL) fake_graph_count(w->graph, +1);
    *stream->last = w;
    stream->last = &w->next;
    progress();
}

static int queue_bytes(ft_cu_stream stream, work value) {
    DEMAND(fake_is_stream(stream), INVALID_HANDLE);
    DEMAND(value.bytes > 0 && value.to != NULL && (value.kind == FILL || value.from != NULL), INVALID_VALUE);
    const void *host = value.kind == UPLOAD ? value.from : value.kind == DOWNLOAD ? value.to : NULL;
    if (host != NULL && !fake_pinned(host, value.bytes)) {
        int forbidden = fake_waits_forbidden || stream->captured != NULL ? fake_may_wait() : 0;
        if (forbidden != 0) return forbidden;
    }
    if (value.kind == UPLOAD) value.digest = digest_of(value.from, value.bytes);
    fake_append(stream, value);
    return 0;
}

int cuMemcpyHtoDAsync_v2(ft_cu_address to, const void *from, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue_bytes(stream, (work){.kind = UPLOAD, .to = pointer(to), .from = from, .bytes = bytes});
}

int cuMemcpyDtoHAsync_v2(void *to, ft_cu_address from, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue_bytes(stream, (work){.kind = DOWNLOAD, .to = to, .from = pointer(from), .bytes = bytes});
}

int cuMemcpyDtoDAsync_v2(ft_cu_address to, ft_cu_address from, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue_bytes(stream, (work){.kind = COPY, .to = pointer(to), .from = pointer(from), .bytes = bytes});
}

int cuMemsetD8Async(ft_cu_address to, unsigned char byte, size_t bytes, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    return queue_bytes(stream, (work){.kind = FILL, .to = pointer(to), .byte = byte, .bytes = bytes});
}

int fake_launch(void *stream, bool (*run_it)(void *job), void (*drop)(void *job), void *job) {
    int begun = fake_begin_in_context("cuLaunchKernel");
    if (begun != 0) return begun;
    if (stream == NULL && fake_capture_breaks() != 0) return CAPTURE_IMPLICIT; // which the default stream would wait for
    DEMAND(fake_is_stream(stream), INVALID_HANDLE); // the default stream is nobody's here
    fake_append(stream, (work){.kind = LAUNCH, .run = run_it, .drop = drop, .job = job});
    return 0;
}

// ---- events -----------------------------------------------------------------------------------------------------

static bool is_event(ft_cu_event event) {
    ft_cu_event e = events;
    while (e != NULL && e != event)
        e = e->next;
    return e != NULL && !e->destroyed && e->context == fake_current;
}

int cuEventCreate(ft_cu_event *event, unsigned flags) {
    BEGIN_IN_CONTEXT;
    DEMAND((flags & ~(unsigned)FT_CU_EVENT_DISABLE_TIMING) == 0, INVALID_VALUE);
    ft_cu_event e = calloc(1, sizeof *e);
    if (e == NULL) fake_fatal("no memory");
    e->context = fake_current;
    e->timed = (flags & FT_CU_EVENT_DISABLE_TIMING) == 0;
    e->next = events;
    events = e;
    fake_kept.events++;
    *event = e;
    return 0;
}

// What is queued with it stays: the event goes with the last of it.
int cuEventDestroy_v2(ft_cu_event event) {
    DEMAND(is_event(event), INVALID_HANDLE);
    event->destroyed = true;
    fake_kept.events--;
    forget_if_unused(event);
    return 0;
}

int cuEventRecord(ft_cu_event event, ft_cu_stream stream) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_event(event) && fake_is_stream(stream), INVALID_HANDLE);
    event->captured_in = stream->captured != NULL ? stream : NULL;
    if (event->captured_in != NULL) return 0; // the order within one stream needs no node
    fake_append(stream, (work){.kind = RECORD, .event = event, .version = ++event->recorded});
    return 0;
}

// Waits for the recording that was queued last; an event that never was holds nobody up.
int cuStreamWaitEvent(ft_cu_stream stream, ft_cu_event event, unsigned flags) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_event(event) && fake_is_stream(stream), INVALID_HANDLE);
    DEMAND(flags == FT_CU_EVENT_WAIT_DEFAULT, INVALID_VALUE);
    if (event->captured_in != NULL || stream->captured != NULL) { // no graph of ours has more than one stream
        DEMAND(event->captured_in == stream, (fake_capture_breaks(), CAPTURE_ISOLATION));
        return 0;
    }
    fake_append(stream, (work){.kind = WAIT, .event = event, .version = event->recorded});
    return 0;
}

int cuEventSynchronize(ft_cu_event event) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_event(event), INVALID_HANDLE);
    fake_kept.waits++;
    DEMAND(event->captured_in == NULL, (fake_capture_breaks(), CAPTURED_EVENT));
    if (event->done >= event->recorded) return fake_sticky;
    run_until_recorded(event, event->recorded);
    if (anything_queued()) return fake_sticky;
    fake_kept.drains++;
    int forbidden = fake_may_wait();
    return forbidden != 0 ? forbidden : fake_sticky;
}

// Whoever asks again and again sees the device go on, by a piece of work each time.
int cuEventQuery(ft_cu_event event) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_event(event), INVALID_HANDLE);
    DEMAND(event->captured_in == NULL, (fake_capture_breaks(), CAPTURED_EVENT));
    ft_cu_stream s = event->done < event->recorded ? streams : NULL;
    while (s != NULL && (s->first == NULL || blocked(s->first))) s = s->next;
    if (s != NULL) run_first(s);
    return event->done < event->recorded ? NOT_READY : fake_sticky;
}

void fake_advance_clock(double milliseconds) { clock_ms += milliseconds; }

int cuEventElapsedTime(float *milliseconds, ft_cu_event begin, ft_cu_event end) {
    BEGIN_IN_CONTEXT;
    DEMAND(is_event(begin) && is_event(end) && begin->timed && end->timed && begin->recorded > 0 && end->recorded > 0, INVALID_HANDLE);
    if (begin->done < begin->recorded || end->done < end->recorded) return NOT_READY;
    *milliseconds = (float)(end->time - begin->time);
    return 0;
}

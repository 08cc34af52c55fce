#include "engine/model/state/window.h"

#include <string.h>

enum { PLACE_ALIGN = 256 };

static size_t bytes_of(const ft_window *w, int layer) { return layer >= 0 && layer < w->layers ? w->layer[layer].bytes : 0; }

static int place_of(const ft_window *w, int layer) {
    for (int i = 0; i < w->count; i++)
        if (w->held[i] == layer) return i;
    return -1;
}

ft_status ft_window_open(ft_memory *memory, const char *host, int layers, const ft_window_layer *layer, ft_window *w) {
    ft_device *device = ft_memory_device(memory);
    *w = (ft_window){.on = true, .memory = memory, .host = host, .layer = layer, .layers = layers, .held = {-1, -1}};
    for (int i = 0; i < layers; i++) {
        if (layer[i].bytes > w->place) w->place = layer[i].bytes;
        if (layer[i].bytes > 0 && w->count < FT_WINDOW_PLACES) w->count++;
    }
    w->place = (w->place + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
    w->last = w->count - 1;
    void *places;
    FT_TRY(ft_memory_alloc(memory, (size_t)w->count * w->place, FT_MEM_WEIGHTS, "weights of two frozen layers", &places));
    w->places = places;
    if (host == NULL) {
        FT_TRY(ft_memory_alloc_pinned(memory, (size_t)w->count * w->place, "frozen layers on their way", &places));
        w->on_the_way = places;
    }
    FT_TRY(device->functions->event_create(device, &w->used));
    for (int i = 0; i < w->count; i++) FT_TRY(device->functions->event_create(device, &w->filled[i]));
    return FT_OK;
}

void ft_window_close(ft_window *w) {
    if (!w->on) return;
    ft_device *device = ft_memory_device(w->memory);
    ft_error present; // of a device that does nothing any more nothing is to be feared
    ft_error_save(&present);
    // What is computed from here on, in memory that is free now, finds done what was still on its way.
    if (w->used != NULL && device->functions->event_record(device, w->used, FT_STREAM_COPY) == FT_OK)
        (void)device->functions->stream_wait(device, FT_STREAM_COMPUTE, w->used);
    ft_error_restore(&present);
    device->functions->event_destroy(device, w->used);
    for (int i = 0; i < FT_WINDOW_PLACES; i++) device->functions->event_destroy(device, w->filled[i]);
    ft_memory_free(w->memory, w->places);
    ft_memory_free_pinned(w->memory, w->on_the_way);
    *w = (ft_window){.on = false};
}

// What goes up: where it lies, or read from its file, once what was there before has gone up.
static ft_status gather(ft_window *w, int layer, int place, const char **from) {
    ft_device *device = ft_memory_device(w->memory);
    const ft_window_layer *l = &w->layer[layer];
    if (w->host != NULL) return *from = w->host + l->first, FT_OK;
    char *to = w->on_the_way + (size_t)place * w->place;
    *from = to;
    FT_TRY(device->functions->event_sync(device, w->filled[place]));
    for (int i = 0; i < l->pieces && !device->planned; i++) memcpy(to + l->piece[i].at, l->piece[i].from, l->piece[i].bytes);
    return FT_OK;
}

// Into a place that nothing which is queued by now reads any more when it has run.
static ft_status send(ft_window *w, int layer, int place) {
    ft_device *device = ft_memory_device(w->memory);
    const ft_device_functions *f = device->functions;
    w->held[place] = -1;
    w->waited[place] = false;
    const char *from;
    FT_TRY(gather(w, layer, place, &from));
    FT_TRY(f->event_record(device, w->used, FT_STREAM_COMPUTE));
    FT_TRY(f->stream_wait(device, FT_STREAM_COPY, w->used));
    FT_TRY(f->upload_beside(device, w->places + (size_t)place * w->place, from, w->layer[layer].bytes));
    FT_TRY(f->event_record(device, w->filled[place], FT_STREAM_COPY));
    w->held[place] = layer;
    return FT_OK;
}

static int other(const ft_window *w) { return w->count - 1 - w->last; }

ft_status ft_window_enter(ft_window *w, int layer, int next) {
    ft_device *device = ft_memory_device(w->memory);
    if (bytes_of(w, layer) > 0) {
        int place = place_of(w, layer);
        if (place < 0) FT_TRY(send(w, layer, place = other(w)));
        if (!w->waited[place]) FT_TRY(device->functions->stream_wait(device, FT_STREAM_COMPUTE, w->filled[place]));
        w->waited[place] = true;
        w->last = place;
    }
    if (bytes_of(w, next) == 0 || place_of(w, next) >= 0) return FT_OK;
    return send(w, next, other(w));
}

char *ft_window_address(const ft_window *w, int layer) {
    const int place = place_of(w, layer);
    return place >= 0 && w->waited[place] ? w->places + (size_t)place * w->place : NULL;
}

#include "engine/model/offload.h"

#include "engine/model/parameters.h"

// A link works best with pieces of megabytes; of a small model there are still enough of them to overlap.
enum { MOST = 1 << 20, LEAST = 1 << 10, PIECES = 8 };

bool ft_offloads_optimizer(const ft_config *config, const ft_device *device) {
    return (config->memory.offload & FT_OFFLOAD_OPTIMIZER) != 0 && ft_device_queues(device);
}

const char *ft_offload_name(bool optimizer, bool inputs) {
    return optimizer ? inputs ? "all" : "optimizer" : inputs ? "activations" : "none";
}

const char *ft_offload_text(bool optimizer, bool inputs) {
    return optimizer ? inputs ? "AdamW's state and inputs of layers" : "AdamW's state" : inputs ? "inputs of layers" : "nothing";
}

// Elements of all chunks but the last: a multiple of LEAST, so that pieces begin where vectors do.
static int64_t chunk_of(const ft_parameters *p) {
    const int64_t share = (p->trainable / PIECES + LEAST - 1) / LEAST * LEAST;
    return share < LEAST ? LEAST : share > MOST ? MOST : share;
}

ft_status ft_offload_create(ft_parameters *p) {
    ft_device *device = ft_memory_device(p->memory);
    p->offload.ranges = ft_arena_alloc(&p->arena, (size_t)(p->range_count + 1) * sizeof *p->offload.ranges);
    if (p->offload.ranges == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < FT_OFFLOAD_SLOTS; i++) {
        FT_TRY(device->functions->event_create(device, &p->offload.filled[i]));
        FT_TRY(device->functions->event_create(device, &p->offload.used[i]));
    }
    return FT_OK;
}

void ft_offload_free(ft_parameters *p) {
    if (p->memory == NULL) return;
    ft_device *device = ft_memory_device(p->memory);
    for (int i = 0; i < FT_OFFLOAD_SLOTS; i++) {
        device->functions->event_destroy(device, p->offload.filled[i]);
        device->functions->event_destroy(device, p->offload.used[i]);
    }
    p->offload = (ft_offload){.ranges = NULL};
}

// ---- an update ----------------------------------------------------------------------------------------------------------

enum { M, V, EXACT, ARRAYS }; // the last: tails of weights, or their master copy; where there are any

typedef struct streaming {
    const ft_parameters *p;
    const ft_adamw_args *whole;
    ft_device *device;
    struct {
        char *host;
        int64_t size; // bytes of an element; 0: there is no such array
    } array[ARRAYS];
    char *slots; // [FT_OFFLOAD_SLOTS] times a chunk of every array, device
    int64_t chunk;
} streaming;

// Bytes of an element in all arrays before `array`.
static int64_t bytes_before(const streaming *s, int array) {
    int64_t bytes = 0;
    for (int k = 0; k < array; k++) bytes += s->array[k].size;
    return bytes;
}

static int slot_of(const streaming *s, int64_t first) { return (int)(first / s->chunk % FT_OFFLOAD_SLOTS); }

static char *place(const streaming *s, int64_t first, int array) {
    return s->slots + (slot_of(s, first) * bytes_before(s, ARRAYS) + bytes_before(s, array)) * s->chunk;
}

static int64_t length(const streaming *s, int64_t first) {
    return s->p->trainable - first < s->chunk ? s->p->trainable - first : s->chunk;
}

// Queues the way up of the chunk at `first`; nothing behind the end.
static ft_status bring(const streaming *s, int64_t first) {
    const ft_device_functions *f = s->device->functions;
    const int slot = slot_of(s, first);
    if (first >= s->p->trainable) return FT_OK;
    FT_TRY(f->stream_wait(s->device, FT_STREAM_COPY, s->p->offload.used[slot]));
    for (int k = 0; k < ARRAYS; k++) {
        const int64_t size = s->array[k].size;
        if (size > 0)
            FT_TRY(f->upload_beside(s->device, place(s, first, k), s->array[k].host + first * size, (size_t)(length(s, first) * size)));
    }
    return f->event_record(s->device, s->p->offload.filled[slot], FT_STREAM_COPY);
}

static ft_status send_back(const streaming *s, int64_t first) {
    const ft_device_functions *f = s->device->functions;
    for (int k = 0; k < ARRAYS; k++) {
        const int64_t size = s->array[k].size;
        if (size > 0) FT_TRY(f->download(s->device, s->array[k].host + first * size, place(s, first, k), (size_t)(length(s, first) * size)));
    }
    return f->event_record(s->device, s->p->offload.used[slot_of(s, first)], FT_STREAM_COMPUTE);
}

// What of the ranges lies in the chunk, counted from its beginning.
static int32_t clip_ranges(const streaming *s, int64_t first) {
    const int64_t end = first + length(s, first);
    int32_t count = 0;
    for (int32_t r = 0; r < s->whole->range_count; r++) {
        const ft_adamw_range *range = &s->whole->ranges[r];
        const int64_t from = range->first > first ? range->first : first;
        const int64_t to = range->first + range->count < end ? range->first + range->count : end;
        if (from >= to) continue;
        ft_adamw_range *part = &s->p->offload.ranges[count++];
        *part = *range;
        part->first = from - first;
        part->count = to - from;
        if (range->wide != NULL) part->wide = range->wide + (from - range->first);
    }
    return count;
}

static ft_tensor part(ft_tensor whole, int64_t first, int64_t count) {
    if (whole.data == NULL) return whole;
    return ft_vector((char *)whole.data + (size_t)first * ft_dtype_size(whole.dtype), count, whole.dtype);
}

static ft_status update_chunk(const streaming *s, int64_t first) {
    const int64_t n = length(s, first);
    ft_adamw_args args = *s->whole;
    void *scratch;
    args.m = ft_vector(place(s, first, M), n, FT_F32);
    args.v = ft_vector(place(s, first, V), n, FT_F32);
    args.parameter = s->p->master != NULL ? ft_vector(place(s, first, EXACT), n, FT_F32) : part(s->whole->parameter, first, n);
    if (s->p->tail != NULL) args.tail = (uint16_t *)(void *)place(s, first, EXACT);
    args.gradient = part(s->whole->gradient, first, n);
    args.compute = part(s->whole->compute, first, n);
    args.ranges = s->p->offload.ranges;
    args.range_count = clip_ranges(s, first);
    const size_t bytes = ft_adamw_workspace(&s->device->target, &args);
    FT_TRY(ft_memory_alloc(s->p->memory, bytes, FT_MEM_WORKSPACE, "adamw scratch", &scratch));
    args.workspace = (ft_workspace){scratch, bytes};
    FT_TRY(FT_RUN(s->device, adamw, &args));
    ft_memory_free(s->p->memory, scratch);
    return FT_OK;
}

ft_status ft_offload_update(const ft_parameters *p, const ft_adamw_args *adamw) {
    streaming s = {.p = p, .whole = adamw, .device = ft_memory_device(p->memory), .chunk = chunk_of(p)};
    const ft_device_functions *f = s.device->functions;
    void *slots;
    s.array[M].host = (char *)p->m, s.array[M].size = sizeof *p->m;
    s.array[V].host = (char *)p->v, s.array[V].size = sizeof *p->v;
    if (p->tail != NULL) s.array[EXACT].host = (char *)p->tail, s.array[EXACT].size = sizeof *p->tail;
    if (p->master != NULL) s.array[EXACT].host = (char *)p->master, s.array[EXACT].size = sizeof *p->master;
    const size_t bytes = (size_t)(FT_OFFLOAD_SLOTS * bytes_before(&s, ARRAYS) * s.chunk);
    FT_TRY(ft_memory_alloc(p->memory, bytes, FT_MEM_WORKSPACE, "adamw state on its way", &slots));
    s.slots = slots;
    // Nothing comes up before what is queued by now has run: it may use this memory, and the last update still sends down what
    // is fetched here.
    for (int i = 0; i < FT_OFFLOAD_SLOTS; i++) FT_TRY(f->event_record(s.device, p->offload.used[i], FT_STREAM_COMPUTE));
    FT_TRY(bring(&s, 0));
    for (int64_t first = 0; first < p->trainable; first += s.chunk) {
        FT_TRY(bring(&s, first + s.chunk));
        FT_TRY(f->stream_wait(s.device, FT_STREAM_COMPUTE, p->offload.filled[slot_of(&s, first)]));
        FT_TRY(update_chunk(&s, first));
        FT_TRY(send_back(&s, first));
    }
    ft_memory_free(p->memory, slots);
    return FT_OK;
}

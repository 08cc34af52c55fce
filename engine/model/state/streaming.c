// streaming.c - an update of a store whose state lies on the host, chunk after chunk (offload.h).
#include "engine/model/state/offload.h"

#include "engine/model/state/stores.h"
#include "kernels/ops/backend.h"

// A link works best with pieces of megabytes; of a small model there are still enough of them to overlap.
enum { MOST = 1 << 20, LEAST = 1 << 10, PIECES = 8 };

enum { EVERYTHING = FT_OFFLOAD_ALL | FT_OFFLOAD_TRUNK };

unsigned ft_offload_set(const ft_config *config, const ft_device *device) {
    return ft_device_queues(device) ? (unsigned)config->memory.offload & EVERYTHING : FT_OFFLOAD_NONE;
}

bool ft_offloads_optimizer(const ft_config *config, const ft_device *device) {
    return (ft_offload_set(config, device) & FT_OFFLOAD_OPTIMIZER) != 0;
}

bool ft_offloads_trunk(const ft_config *config, const ft_device *device) { return (ft_offload_set(config, device) & FT_OFFLOAD_TRUNK) != 0; }

unsigned ft_offload_set_of(bool optimizer, bool inputs, bool trunk) {
    return (optimizer ? FT_OFFLOAD_OPTIMIZER : 0u) | (inputs ? FT_OFFLOAD_ACTIVATIONS : 0u) | (trunk ? FT_OFFLOAD_TRUNK : 0u);
}

const char *ft_offload_name(unsigned set) {
    static const char *const names[EVERYTHING + 1] = {"none", "optimizer", "activations", "all", "trunk", "trunk+optimizer", "trunk+activations", "trunk+all"};
    return names[set & EVERYTHING];
}

const char *ft_offload_text(unsigned set) {
    static const char *const texts[EVERYTHING + 1] = {
        "nothing", "AdamW's state", "inputs of layers", "AdamW's state and inputs of layers", "frozen layers", "frozen layers and AdamW's state",
        "frozen layers and inputs of layers", "frozen layers, AdamW's state and inputs of layers"};
    return texts[set & EVERYTHING];
}

// Elements of all chunks but the last: a multiple of LEAST, so that pieces begin where vectors do.
static int64_t chunk_of(const ft_store *store) {
    const int64_t share = (store->count / PIECES + LEAST - 1) / LEAST * LEAST;
    return share < LEAST ? LEAST : share > MOST ? MOST : share;
}

ft_status ft_offload_create(ft_store *store, ft_arena *arena) {
    ft_device *device = ft_memory_device(store->owner);
    store->offload.ranges = ft_arena_alloc(arena, (size_t)(store->range_count + 1) * sizeof *store->offload.ranges);
    if (store->offload.ranges == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < FT_OFFLOAD_SLOTS; i++) {
        FT_TRY(device->functions->event_create(device, &store->offload.filled[i]));
        FT_TRY(device->functions->event_create(device, &store->offload.used[i]));
    }
    return FT_OK;
}

void ft_offload_free(ft_store *store) {
    ft_device *device = ft_memory_device(store->owner);
    for (int i = 0; i < FT_OFFLOAD_SLOTS; i++) {
        device->functions->event_destroy(device, store->offload.filled[i]);
        device->functions->event_destroy(device, store->offload.used[i]);
    }
    store->offload = (ft_offload){.ranges = NULL};
}

// ---- an update ----------------------------------------------------------------------------------------------------------

typedef struct streaming {
    const ft_store *store;
    const ft_adamw_args *whole;
    ft_device *device;
    char *slots; // [FT_OFFLOAD_SLOTS] times a chunk of every array of its state, device
    int64_t chunk;
} streaming;

static int64_t size_of(const streaming *s, int array) { return (int64_t)ft_store_state_size(s->store, (ft_store_state)array); }

// Bytes of an element in all arrays before `array`.
static int64_t bytes_before(const streaming *s, int array) {
    int64_t bytes = 0;
    for (int k = 0; k < array; k++) bytes += size_of(s, k);
    return bytes;
}

static char *host_of(const streaming *s, int64_t first, int array) { return (char *)s->store->state[array] + first * size_of(s, array); }

static int slot_of(const streaming *s, int64_t first) { return (int)(first / s->chunk % FT_OFFLOAD_SLOTS); }

static char *place(const streaming *s, int64_t first, int array) {
    return s->slots + (slot_of(s, first) * bytes_before(s, FT_STATES) + bytes_before(s, array)) * s->chunk;
}

static int64_t length(const streaming *s, int64_t first) {
    return s->store->count - first < s->chunk ? s->store->count - first : s->chunk;
}

// Queues the way up of the chunk at `first`; nothing behind the end.
static ft_status bring(const streaming *s, int64_t first) {
    const ft_device_functions *f = s->device->functions;
    const int slot = slot_of(s, first);
    if (first >= s->store->count) return FT_OK;
    FT_TRY(f->stream_wait(s->device, FT_STREAM_COPY, s->store->offload.used[slot]));
    for (int k = 0; k < FT_STATES; k++) {
        const int64_t size = size_of(s, k);
        if (size > 0)
            FT_TRY(f->upload_beside(s->device, place(s, first, k), host_of(s, first, k), (size_t)(length(s, first) * size)));
    }
    return f->event_record(s->device, s->store->offload.filled[slot], FT_STREAM_COPY);
}

static ft_status send_back(const streaming *s, int64_t first) {
    const ft_device_functions *f = s->device->functions;
    for (int k = 0; k < FT_STATES; k++) {
        const int64_t size = size_of(s, k);
        if (size > 0) FT_TRY(f->download(s->device, host_of(s, first, k), place(s, first, k), (size_t)(length(s, first) * size)));
    }
    return f->event_record(s->device, s->store->offload.used[slot_of(s, first)], FT_STREAM_COMPUTE);
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
        ft_adamw_range *part = &s->store->offload.ranges[count++];
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
    args.m = ft_vector(place(s, first, FT_STATE_M), n, FT_F32);
    args.v = ft_vector(place(s, first, FT_STATE_V), n, FT_F32);
    args.parameter = s->store->format.exact == FT_EXACT_BY_MASTER ? ft_vector(place(s, first, FT_STATE_EXACT), n, FT_F32) : part(s->whole->parameter, first, n);
    if (s->store->format.exact == FT_EXACT_BY_TAILS) args.tail = (uint16_t *)(void *)place(s, first, FT_STATE_EXACT);
    args.gradient = part(s->whole->gradient, first, n);
    args.compute = part(s->whole->compute, first, n);
    args.ranges = s->store->offload.ranges;
    args.range_count = clip_ranges(s, first);
    const size_t bytes = ft_adamw_workspace(&s->device->target, &args);
    FT_TRY(ft_memory_alloc(s->store->owner, bytes, FT_MEM_WORKSPACE, "adamw scratch", &scratch));
    args.workspace = (ft_workspace){scratch, bytes};
    FT_TRY(FT_RUN(s->device, adamw, &args));
    ft_memory_free(s->store->owner, scratch);
    return FT_OK;
}

ft_status ft_offload_update(const ft_store *store, const ft_adamw_args *adamw) {
    streaming s = {.store = store, .whole = adamw, .device = ft_memory_device(store->owner), .chunk = chunk_of(store)};
    const ft_device_functions *f = s.device->functions;
    void *slots;
    const size_t bytes = (size_t)(FT_OFFLOAD_SLOTS * bytes_before(&s, FT_STATES) * s.chunk);
    FT_TRY(ft_memory_alloc(store->owner, bytes, FT_MEM_WORKSPACE, "adamw state on its way", &slots));
    s.slots = slots;
    // Nothing comes up before what is queued by now has run: it may use this memory, and the last update still sends down what
    // is fetched here.
    for (int i = 0; i < FT_OFFLOAD_SLOTS; i++) FT_TRY(f->event_record(s.device, store->offload.used[i], FT_STREAM_COMPUTE));
    FT_TRY(bring(&s, 0));
    for (int64_t first = 0; first < store->count; first += s.chunk) {
        FT_TRY(bring(&s, first + s.chunk));
        FT_TRY(f->stream_wait(s.device, FT_STREAM_COMPUTE, store->offload.filled[slot_of(&s, first)]));
        FT_TRY(update_chunk(&s, first));
        FT_TRY(send_back(&s, first));
    }
    ft_memory_free(store->owner, slots);
    return FT_OK;
}

#include "engine/model/state/recorder.h"

#include "base/arena.h"
#include "kernels/ops/backend.h"

#include <stdlib.h>
#include <string.h>

typedef enum note_kind {
#define FT_OP(name, what) NOTE_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
    NOTE_COPY,
    NOTE_FILL
} note_kind;

typedef struct note {
    note_kind kind;
    bool meets;  // a product that others may have too
    size_t args; // where they begin
} note;

typedef struct copy_args {
    void *to;
    const void *from;
    size_t bytes;
} copy_args;
typedef struct fill_args {
    void *data;
    int byte;
    size_t bytes;
} fill_args;

typedef struct recorder {
    ft_device device;
    ft_device *under; // device.under
    ft_device_functions functions; // of those that `under` has
    bool notes, meets;
    note *list;
    int count, room, at; // at: the next one to be computed
    char *args;
    size_t used, size;
} recorder;

static recorder *recorder_of(const ft_device *device) { return (recorder *)device; }

// ---- notes --------------------------------------------------------------------------------------------------------------

enum { ALIGNMENT = 16, FIRST_NOTES = 256, FIRST_BYTES = 64 << 10 };

static ft_status grow(recorder *r, size_t bytes) {
    if (r->count == r->room) {
        const int room = r->room > 0 ? 2 * r->room : FIRST_NOTES;
        note *list = ft_realloc(r->list, (size_t)room, sizeof *list, "what a pass computes");
        if (list == NULL) return FT_NO_MEMORY;
        r->list = list, r->room = room;
    }
    if (r->used + bytes <= r->size) return FT_OK;
    const size_t size = 2 * r->size > r->used + bytes ? 2 * r->size : r->used + bytes + FIRST_BYTES;
    char *args = ft_realloc(r->args, size, 1, "what a pass computes");
    if (args == NULL) return FT_NO_MEMORY;
    r->args = args, r->size = size;
    return FT_OK;
}

static ft_status add(recorder *r, note_kind kind, const void *args, size_t bytes) {
    const size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    FT_TRY(grow(r, whole));
    memcpy(r->args + r->used, args, bytes);
    r->list[r->count++] = (note){.kind = kind, .meets = r->meets, .args = r->used};
    r->used += whole;
    return FT_OK;
}

static ft_status compute(recorder *r, const note *n) {
    const void *args = r->args + n->args;
    const copy_args *copy = args;
    const fill_args *fill = args;
    switch (n->kind) {
#define FT_OP(name, what)                                                                                              \
    case NOTE_##name: return FT_RUN(r->under, name, (const ft_##name##_args *)args);
#include "kernels/ops/ops.def"
#undef FT_OP
    case NOTE_COPY: return r->under->functions->copy(r->under, copy->to, copy->from, copy->bytes);
    case NOTE_FILL: break;
    }
    return r->under->functions->fill(r->under, fill->data, fill->byte, fill->bytes);
}

bool ft_recorder_done(const ft_device *device) { return recorder_of(device)->at == recorder_of(device)->count; }

const ft_gemm_args *ft_recorder_product(const ft_device *device) {
    const recorder *r = recorder_of(device);
    if (r->at == r->count || !r->list[r->at].meets) return NULL;
    return (const ft_gemm_args *)(const void *)(r->args + r->list[r->at].args);
}

void ft_recorder_pass_over(ft_device *device) {
    recorder *r = recorder_of(device);
    if (++r->at == r->count) ft_recorder_forget(device);
}

ft_status ft_recorder_run(ft_device *device) {
    recorder *r = recorder_of(device);
    FT_TRY(compute(r, &r->list[r->at]));
    ft_recorder_pass_over(device);
    return FT_OK;
}

void ft_recorder_forget(ft_device *device) {
    recorder *r = recorder_of(device);
    r->count = r->at = 0;
    r->used = 0;
}

void ft_recorder_begin(ft_device *device) { recorder_of(device)->notes = true; }
void ft_recorder_end(ft_device *device) { recorder_of(device)->notes = false; }

ft_status ft_recorder_multiply(ft_device *device, const ft_gemm_args *args) {
    recorder *r = recorder_of(device);
    r->meets = r->notes;
    const ft_status status = FT_RUN(device, gemm, args);
    r->meets = false;
    return status;
}

// What was noted so far, at once.
static ft_status settle(recorder *r) {
    while (r->at < r->count) FT_TRY(ft_recorder_run(&r->device));
    return FT_OK;
}

// ---- ops ----------------------------------------------------------------------------------------------------------------

#define FT_OP(name, what)                                                                                              \
    static ft_status note_##name(ft_device *device, const ft_##name##_args *args) {                                    \
        recorder *r = recorder_of(device);                                                                             \
        return r->notes ? add(r, NOTE_##name, args, sizeof *args) : FT_RUN(r->under, name, args);                      \
    }
#include "kernels/ops/ops.def"
#undef FT_OP

static const ft_op_table noting_ops = {
#define FT_OP(name, what) .name = note_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};

// ---- memory and streams, which are the other device's --------------------------------------------------------------------

static ft_status do_copy(ft_device *device, void *to, const void *from, size_t bytes) {
    recorder *r = recorder_of(device);
    return r->notes ? add(r, NOTE_COPY, &(copy_args){to, from, bytes}, sizeof(copy_args)) : r->under->functions->copy(r->under, to, from, bytes);
}
static ft_status do_fill(ft_device *device, void *data, int byte, size_t bytes) {
    recorder *r = recorder_of(device);
    return r->notes ? add(r, NOTE_FILL, &(fill_args){data, byte, bytes}, sizeof(fill_args)) : r->under->functions->fill(r->under, data, byte, bytes);
}

// Those that take something touch nothing that was noted.
static ft_status do_buffer_alloc(ft_device *device, size_t bytes, void **data) {
    ft_device *under = recorder_of(device)->under;
    return under->functions->buffer_alloc(under, bytes, data);
}
static ft_status do_event_create(ft_device *device, ft_event **event) {
    ft_device *under = recorder_of(device)->under;
    return under->functions->event_create(under, event);
}
static ft_status do_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page) {
    ft_device *under = recorder_of(device)->under;
    return under->functions->range_reserve(under, bytes, base, page);
}
static ft_status do_range_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    ft_device *under = recorder_of(device)->under;
    return under->functions->range_commit(under, base, offset, bytes);
}
static size_t do_range_room(ft_device *device) {
    ft_device *under = recorder_of(device)->under;
    return under->functions->range_room(under);
}
static ft_status do_host_alloc(ft_device *device, size_t bytes, void **data) {
    ft_device *under = recorder_of(device)->under;
    return under->functions->host_alloc(under, bytes, data);
}

// The others come behind what was noted.
#define BEHIND(name, parameters, arguments)                                                                            \
    static ft_status do_##name parameters {                                                                            \
        ft_device *under = recorder_of(device)->under;                                                                 \
        FT_TRY(settle(recorder_of(device)));                                                                           \
        return under->functions->name arguments;                                                                       \
    }
BEHIND(upload, (ft_device * device, void *to, const void *from, size_t bytes), (under, to, from, bytes))
BEHIND(download, (ft_device * device, void *to, const void *from, size_t bytes), (under, to, from, bytes))
BEHIND(upload_beside, (ft_device * device, void *to, const void *from, size_t bytes), (under, to, from, bytes))
BEHIND(download_beside, (ft_device * device, void *to, const void *from, size_t bytes), (under, to, from, bytes))
BEHIND(sync, (ft_device * device), (under))
BEHIND(event_record, (ft_device * device, ft_event *event, ft_stream_kind stream), (under, event, stream))
BEHIND(stream_wait, (ft_device * device, ft_stream_kind stream, ft_event *event), (under, stream, event))
BEHIND(event_sync, (ft_device * device, ft_event *event), (under, event))
BEHIND(event_query, (ft_device * device, ft_event *event, bool *happened), (under, event, happened))

// What gives memory back cannot fail towards its caller: a note that fails is not passed over, and fails again when it is its turn.
#define BEHIND_WHAT_IS_THERE(name, parameters, arguments)                                                              \
    static void do_##name parameters {                                                                                 \
        ft_device *under = recorder_of(device)->under;                                                                 \
        ft_error before;                                                                                               \
        ft_error_save(&before);                                                                                        \
        (void)settle(recorder_of(device));                                                                             \
        ft_error_restore(&before);                                                                                     \
        under->functions->name arguments;                                                                              \
    }
BEHIND_WHAT_IS_THERE(buffer_free, (ft_device * device, void *data, size_t bytes), (under, data, bytes))
BEHIND_WHAT_IS_THERE(event_destroy, (ft_device * device, ft_event *event), (under, event))
BEHIND_WHAT_IS_THERE(range_decommit, (ft_device * device, void *base, size_t offset, size_t bytes), (under, base, offset, bytes))
BEHIND_WHAT_IS_THERE(range_release, (ft_device * device, void *base, size_t bytes), (under, base, bytes))
BEHIND_WHAT_IS_THERE(host_free, (ft_device * device, void *data), (under, data))

static void recorder_close(ft_device *device) {
    recorder *r = recorder_of(device);
    free(r->list);
    free(r->args);
    free(r);
}

#define IF_THERE(name) .name = has->name != NULL ? do_##name : NULL
ft_status ft_recorder_open(ft_device *under, ft_device **device) {
    const ft_device_functions *has = under->functions;
    recorder *r = ft_calloc(1, sizeof *r, "a device of runs that train together");
    *device = NULL;
    if (r == NULL) return FT_NO_MEMORY;
    r->under = under;
    r->functions = (ft_device_functions){
        IF_THERE(buffer_alloc), IF_THERE(buffer_free), IF_THERE(upload), IF_THERE(download), IF_THERE(copy), IF_THERE(fill), IF_THERE(sync),
        IF_THERE(upload_beside), IF_THERE(download_beside), IF_THERE(event_create), IF_THERE(event_destroy), IF_THERE(event_record),
        IF_THERE(stream_wait), IF_THERE(event_sync), IF_THERE(event_query), IF_THERE(range_reserve), IF_THERE(range_commit), IF_THERE(range_decommit),
        IF_THERE(range_release), IF_THERE(range_room), IF_THERE(host_alloc), IF_THERE(host_free), .close = recorder_close}; // and no graphs
    r->device = *under;
    r->device.functions = &r->functions;
    r->device.ops = &noting_ops;
    r->device.under = under;
    *device = &r->device;
    return FT_OK;
}

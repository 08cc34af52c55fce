// device.h - a device, its memory and its two streams; its table of ops is in backend.h.
//
//     ft_device *device;
//     FT_TRY(ft_cpu_open(threads, NULL, &device));
//
// Memory: only engine/memory calls buffer_alloc / buffer_free. Ops and copies are queued on the device's compute stream in
// call order and may run later: host memory handed to a copy stays untouched until the host has waited, for everything
// (sync) or for an event behind the copy. Beside it stands a stream for copies from and to the host; what one stream shall find
// done by the other is said with events. The CPU backend runs everything at once. A device is used by one thread at a
// time.
#ifndef FT_DEVICE_H
#define FT_DEVICE_H

#include "kernels/ops/op.h"

typedef struct ft_op_table ft_op_table; // backend.h

// Ops, fills and all copies but upload_beside and download_beside are queued on FT_STREAM_COMPUTE.
typedef enum ft_stream_kind { FT_STREAM_COMPUTE = 0, FT_STREAM_COPY } ft_stream_kind;
typedef struct ft_event ft_event; // a point in a stream
typedef struct ft_graph ft_graph; // work to replay

typedef struct ft_device_functions {
    // Aligned to 256 bytes, contents undefined. FT_NO_MEMORY when there is none.
    ft_status (*buffer_alloc)(ft_device *device, size_t bytes, void **data);
    void (*buffer_free)(ft_device *device, void *data, size_t bytes);
    ft_status (*upload)(ft_device *device, void *to_device, const void *from_host, size_t bytes);
    ft_status (*download)(ft_device *device, void *to_host, const void *from_device, size_t bytes);
    ft_status (*copy)(ft_device *device, void *to, const void *from, size_t bytes); // device to device, no overlap
    ft_status (*fill)(ft_device *device, void *data, int byte, size_t bytes);
    ft_status (*sync)(ft_device *device); // waits for all queued work; reports its errors
    // As upload and download, on FT_STREAM_COPY: beside what is computed. from_host, to_host: of host_alloc.
    ft_status (*upload_beside)(ft_device *device, void *to_device, const void *from_host, size_t bytes);
    ft_status (*download_beside)(ft_device *device, void *to_host, const void *from_device, size_t bytes);
    // Events. record: the event is everything queued on that stream so far, and forgets what it was before. stream_wait:
    // what is queued on that stream from now on runs behind the event. event_sync: the host waits for it, and gets the
    // errors of work until then. event_query: the same without waiting; NULL where everything has happened when a call returns. An event
    // that never was recorded holds up nobody. All of a device's events are destroyed before it is closed.
    ft_status (*event_create)(ft_device *device, ft_event **event);
    void (*event_destroy)(ft_device *device, ft_event *event); // NULL is fine; what waits for it goes on waiting
    ft_status (*event_record)(ft_device *device, ft_event *event, ft_stream_kind stream);
    ft_status (*stream_wait)(ft_device *device, ft_stream_kind stream, ft_event *event);
    ft_status (*event_sync)(ft_device *device, ft_event *event);
    ft_status (*event_query)(ft_device *device, ft_event *event, bool *happened);
    // Graphs: work that is recorded once and then replayed as a whole, for the price of one launch. NULL where a device has
    // none. Between begin and end, what is queued on FT_STREAM_COMPUTE is recorded and does not run; nothing else is asked of
    // the device but ops, fills and copies on it. A replay reads and writes the same addresses, with what they hold by then:
    // all that changes from step to step is device data. The memory must be there as long as the graph. end: FT_FAILED, and
    // no graph, when something that cannot be recorded was called in between; it is called in any case. run: queued on
    // FT_STREAM_COMPUTE.
    ft_status (*graph_begin)(ft_device *device);
    ft_status (*graph_end)(ft_device *device, ft_graph **graph);
    ft_status (*graph_run)(ft_device *device, ft_graph *graph);
    void (*graph_destroy)(ft_device *device, ft_graph *graph); // waits for the device; NULL is fine
    // A range of addresses that gets memory piece by piece (cuMemAddressReserve / cuMemMap; mmap / mprotect). All NULL
    // where a device has none. Offsets and sizes are multiples of *page; whole pieces go back (range_pieces.h). Committed
    // contents are undefined; what was decommitted may be committed again. FT_NO_MEMORY when there is none.
    ft_status (*range_reserve)(ft_device *device, size_t bytes, void **base, size_t *page);
    ft_status (*range_commit)(ft_device *device, void *base, size_t offset, size_t bytes);
    void (*range_decommit)(ft_device *device, void *base, size_t offset, size_t bytes);
    void (*range_release)(ft_device *device, void *base, size_t bytes); // nothing is committed any more
    // Bytes of addresses that may still be reserved; SIZE_MAX: as many as anybody can want. NULL: as that.
    size_t (*range_room)(ft_device *device);
    // Memory of the host that copies run from and to without the host's waiting for them: zeros, aligned to 256 bytes, none
    // of the device's own. NULL where the device's memory is the host's.
    ft_status (*host_alloc)(ft_device *device, size_t bytes, void **data);
    void (*host_free)(ft_device *device, void *data);
    void (*close)(ft_device *device);
} ft_device_functions;

struct ft_device {
    const char *name;        // "cpu", ...
    char place[48];          // of its memory, the same for every process and number that the device has there; "": the host's
    char description[128];   // chip and instruction set, for people and run.json
    ft_target target;
    bool planned;            // nothing is computed, and addresses lead nowhere, those of host_alloc too (ft_plan_open)
    size_t total_bytes;      // memory of the device
    const ft_device_functions *functions;
    const ft_op_table *ops;
    ft_device *under; // of one that stands for another (engine/model/state/recorder.h), where its memory and its queues are; NULL: it is itself
};
static inline ft_device *ft_device_under(const ft_device *device) { return device->under != NULL ? device->under : (ft_device *)device; }

// Does its work wait in queues? Else everything has happened when a call returns, and nothing is gained by a second
// buffer.
static inline bool ft_device_queues(const ft_device *device) { return device->functions->host_alloc != NULL; }

// threads <= 0: the cores this process may use (affinity, cgroup quota, OMP_NUM_THREADS). isa: NULL = the best this
// machine has, else "portable", "avx2" or "avx512" (tests; an absent one is FT_INVALID).
ft_status ft_cpu_open(int threads, const char *isa, ft_device **device);
// What scratch on the CPU of this machine depends on, with so many threads (<= 0: as above).
ft_target ft_cpu_target(int threads);
// A device like the one that `target` describes, but nothing is computed and no memory is taken: ops check their
// arguments, addresses lead nowhere, downloads give zeros. For planning memory. `name` stands in messages.
ft_status ft_plan_open(const char *name, ft_target target, size_t total_bytes, ft_device **device);
// What all work queued on a planned device's FT_STREAM_COMPUTE so far would take, by cost.h, waiting for copies beside it
// included: a figure to compare plans by.
double ft_plan_seconds(const ft_device *device);
double ft_plan_product_seconds(const ft_device *device); // of them, those of matrix products
// The same by what is kept busy, in seconds. occupied + starting is what the ops take; moving goes on beside computing, and what is copied over
// the link beside both.
typedef struct ft_plan_work {
    double occupied;   // of every op the longer of computing and moving
    double computing;  // arithmetic
    double moving;     // between arithmetic and the device's memory
    double starting;   // ops are started
    double travelling; // copies to and from the host, where the device has memory of its own
} ft_plan_work;
ft_plan_work ft_plan_work_of(const ft_device *device);
void ft_device_close(ft_device *device); // NULL is fine

#endif

// memory.h - where every buffer of a run comes from: alloc(bytes, category, site), metered.
//
// Counters, as users of such engines know them: requested (the bytes asked for), allocated (rounded up to the
// allocator's granularity), reserved (taken from the device, in use or cached). Each has a current value and a peak;
// requested and allocated have one per category as well, with the categories and sites at the moment of the peak.
//
// Three lifetimes (DESIGN.md, idea 2). Run tensors (weights, state, batches) come from the caching allocator
// (allocator.h). Step and op tensors live inside a scope: a stretch of code whose requests are the same every time,
// because they have the size of the run's LARGEST micro-batch. A scope that was recorded beforehand (on the plan back
// end, where that costs nothing) has its tensors laid out in one arena (layout.h), the arena being a block of the
// allocator: the same addresses every step, and nothing is allocated inside a step. A scope without a recording is
// served by the allocator like everything else.
//
//     ft_memory_record(rehearsal); ... one scope of each kind on the plan back end ...
//     FT_TRY(ft_memory_adopt(memory, rehearsal));             // takes the arena
//     FT_TRY(ft_memory_scope_begin(memory, FT_SCOPE_TRAIN));  // alloc and free now hand out places
//     return ft_memory_scope_end(memory, train(...));
//
// A tensor in the arena counts as allocated while it lives; the arena as a whole counts as reserved.
// Host scratch of the CPU backend and staging buffers are buffers too. What is not: parsed files, names, the tokenised
// text (see data/), and what the host keeps of results: a loss an example of a step, logits of an evaluation.
// Memory of the host that an accelerator copies to and from is metered beside all of this: it is of no device.
// Thread-safe, but for scopes and destruction: a scope belongs to one thread.
#ifndef FT_MEMORY_H
#define FT_MEMORY_H

#include "engine/memory/allocator/allocator.h"
#include "engine/memory/counters.h"
#include "kernels/collectives/collectives.h"
#include "kernels/ops/device.h"

// Stretches of code with the same requests every time: a micro-batch of training and what a step does before its first and
// after its last one, a step without a micro-batch that has a loss, rows of the word table on their way to other ranks, the optimizer's update; what ranks have
// parts of, brought together; what a pass over a data set holds as long as
// it takes, a micro-batch of it and what comes before the first; a micro-batch of one token a text. The last three open inside the pass, and have their places above its own.
typedef enum ft_scope {
    FT_SCOPE_TRAIN = 0, FT_SCOPE_STEP_BEGIN, FT_SCOPE_NOTHING, FT_SCOPE_STEP_END, FT_SCOPE_WORDS, FT_SCOPE_UPDATE, FT_SCOPE_COLLECT, FT_SCOPE_PASS, FT_SCOPE_PREDICT,
    FT_SCOPE_PREDICT_BEGIN, FT_SCOPE_NEXT,
    FT_SCOPES
} ft_scope;

typedef struct ft_memory ft_memory;

typedef struct ft_memory_options {
    ft_allocator_options allocator;
    size_t guard_bytes; // tests: so many bytes behind every buffer are filled and looked at again when it is freed
} ft_memory_options;

// One place that asks for memory, at the peak of allocated bytes.
typedef struct ft_memory_use {
    char site[48];
    ft_memory_category category;
    size_t bytes;
} ft_memory_use;

// limit: the most that may be reserved, in bytes; 0 = the device's total.
ft_status ft_memory_create(ft_device *device, size_t limit, ft_memory **memory);
ft_status ft_memory_create_with(ft_device *device, const ft_memory_options *options, ft_memory **memory);
// Frees everything. A buffer still live is a leak: the first is named and FT_FAILED returned (everything is freed all the
// same). NULL is fine.
ft_status ft_memory_destroy(ft_memory *memory);

// Contents undefined, aligned to 256 bytes. `site` names the tensor ("layer 3 qkv") and is copied. bytes == 0 gives a
// unique non-NULL address. FT_NO_MEMORY: the error names size, site, limit, use by category and the largest holders;
// counters stay as they were. In a recorded scope a request that the recording does not have is FT_FAILED.
ft_status ft_memory_alloc(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data);
void ft_memory_free(ft_memory *memory, void *data); // NULL is fine

// In an open scope of a device with an arena, or of a recording: at a place of its own, `offset` bytes behind the arena's begin, until
// the scope ends. Scopes that ask for one place mean the same bytes: what one has left there the next one finds, if no other scope
// ran between them. Those of a scope do not overlap; offset and bytes are multiples of FT_MEMORY_PLACE. In a recording the address
// says nothing.
enum { FT_MEMORY_PLACE = 512 };
ft_status ft_memory_alloc_at(ft_memory *memory, size_t offset, size_t bytes, ft_memory_category category, const char *site, void **data);

// Memory of the host for copies to and from the device, contents zero. Where the device's memory is the host's it is
// asked for and metered like any other; else it is pinned.
ft_status ft_memory_alloc_staging(ft_memory *memory, size_t bytes, const char *site, void **data);
void ft_memory_free_staging(ft_memory *memory, void *data); // NULL is fine
// Memory of the host that copies run from and to beside the host, contents zero, where the device has memory of its own
// (ft_device_queues). It counts for no device, and is metered by itself. FT_NO_MEMORY: the host has not so much.
ft_status ft_memory_alloc_pinned(ft_memory *memory, size_t bytes, const char *site, void **data);
void ft_memory_free_pinned(ft_memory *memory, void *data); // NULL is fine
bool ft_memory_is_pinned(ft_memory *memory, const void *data); // an address inside of it
// ---- the ranks of a run (kernels/collectives)
// Where they share memory, what all ranks see is asked for by all, in the same order: zeros, once for all of them. It is metered by itself, by rank 0
// alone, and comes from neither allocator nor arena. Without ranks, and where each has a device of its own, these are ft_memory_alloc and a fill.
typedef struct ft_memory_ranks {
    int rank, ranks;         // of those of this host, who share memory
    ft_group *group;         // NULL: they are planned, or have not joined yet
    int run_rank, run_ranks; // of all; on one host the same
    ft_group *run;
    bool apart; // each has memory of its own, with everything in it
    bool sums;  // else, also of a rank that is alone on its host: each adds up by itself what its micro-batches come to (distributed.reduction = ring)
} ft_memory_ranks;
// Before anything is asked for; where they are apart, again when they have joined. run_ranks < 2: nothing.
void ft_memory_set_ranks(ft_memory *memory, ft_memory_ranks ranks);
ft_memory_ranks ft_memory_ranks_of(const ft_memory *memory); // ranks 1: there are none
static inline bool ft_memory_has_common(const ft_memory *memory) { return ft_memory_ranks_of(memory).ranks > 1 && !ft_memory_ranks_of(memory).apart; }
// Is it another rank of this host that has what is common for its own: fills it, reads it from files, counts it?
static inline bool ft_memory_is_guest(const ft_memory *memory) { return ft_memory_has_common(memory) && ft_memory_ranks_of(memory).rank > 0; }
// What micro-batches add to: do all ranks of the host add to the same? And is it another rank that does for all what is done once to it?
static inline bool ft_memory_has_common_sums(const ft_memory *memory) { return ft_memory_has_common(memory) && !ft_memory_ranks_of(memory).sums; }
static inline bool ft_memory_is_guest_of_sums(const ft_memory *memory) { return ft_memory_is_guest(memory) && !ft_memory_ranks_of(memory).sums; }
// Waits for an event of the device, before which there may be operations of the ranks: FT_FAILED where they have come to nothing, because
// one of them failed or is gone.
ft_status ft_memory_wait(ft_memory *memory, ft_event *event);
ft_status ft_memory_alloc_common(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data);
// Of these: as ft_memory_alloc_common, or each rank's own.
ft_status ft_memory_alloc_sums(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data);
// The same where ranks have memory in common.
ft_status ft_memory_share(ft_memory *memory, size_t bytes, ft_memory_category category, void **data);
// ft_memory_free gives it back, like all else.

// Copies between memory of the host and a tensor of the run, wherever that lies: to and from the device they are queued, as the
// device's own; with pinned memory they wait for what is queued, and have happened.
ft_status ft_memory_upload(ft_memory *memory, void *to, const void *from_host, size_t bytes);
ft_status ft_memory_download(ft_memory *memory, void *to_host, const void *from, size_t bytes);

// Before layouts are taken over: they are only asked whether they fit into an arena of `room` bytes. The search for a smaller
// one ends when they do, or cannot, so that arena_bytes says no more than that.
void ft_memory_ask(ft_memory *memory, size_t room);
// From now on the first run of each scope is recorded.
void ft_memory_record(ft_memory *memory);
// Lays out the scopes that `recorded` has and takes an arena for the largest of them; FT_NO_MEMORY as from
// ft_memory_alloc, with nothing adopted. Once, or again after ft_memory_drop_layout.
ft_status ft_memory_adopt(ft_memory *memory, const ft_memory *recorded);
// Gives the arena back and forgets what was adopted; no scope may be open. Without an arena: nothing.
void ft_memory_drop_layout(ft_memory *memory);
ft_status ft_memory_scope_begin(ft_memory *memory, ft_scope scope); // FT_FAILED inside any other but as said above
// `outcome` is how the stretch went. FT_OK: FT_FAILED when it asked or freed otherwise than recorded. A failure is passed
// on, after everything that the scope still held was freed: the books are then as they were when it began.
ft_status ft_memory_scope_end(ft_memory *memory, ft_status outcome);

// Gives cached segments back to the device. At the end of a stage (load, evaluation, save) this makes the allocator free
// of history: what follows needs the same memory whatever came before.
void ft_memory_trim(ft_memory *memory);

// What a plan of the same requests took: where addresses are limited, no more are asked for.
void ft_memory_expect(ft_memory *memory, const ft_memory_counters *planned);
void ft_memory_set_phase(ft_memory *memory, ft_memory_phase phase);
ft_memory_counters ft_memory_read(ft_memory *memory);
ft_device *ft_memory_device(ft_memory *memory);
size_t ft_memory_limit(const ft_memory *memory);
// The largest holders when peak_allocated was reached, largest first; at most `most`. Returns how many were written.
int ft_memory_holders_at_peak(ft_memory *memory, ft_memory_use *uses, int most);
// False when no request has been refused yet, or none since ft_memory_forget_refusal.
bool ft_memory_refused(ft_memory *memory, ft_memory_refusal *refusal);
void ft_memory_forget_refusal(ft_memory *memory);

// timeline.c: from here on, allocations and phases are noted (the first and the last few thousand, so that the file stays
// small) and can be written as a trace that ui.perfetto.dev and chrome://tracing open.
ft_status ft_memory_trace(ft_memory *memory);
size_t ft_memory_trace_bytes(void); // of the host, at most
void ft_memory_mark(ft_memory *memory, const char *name); // a named moment of the trace; nothing without a trace
ft_status ft_memory_trace_write(ft_memory *memory, const char *path); // atomically; FT_OK without a trace
// The run goes on in `memory`: the trace of `before`, in which no buffer is left, becomes the first part of its trace. Nothing
// where either has none.
void ft_memory_trace_continue(ft_memory *memory, ft_memory *before);

#endif

// pass.h - a pass over a data set without gradients: micro-batch after micro-batch, and of each the rows that it puts out on their way to
// the host. What becomes of them is predict.h (logits) or trunk_pass.h (what the head reads).
#ifndef FT_PASS_OVER_DATA_H
#define FT_PASS_OVER_DATA_H

#include "engine/train/step/batch_buffers.h"

// What a pass holds on the device, in a scope of its own: where the memory has a layout for it, in the arena of the steps. Close it also
// when opening failed; the outcome passes through, as in ft_memory_scope_end.
//
// Where the device works through queues, rows come home behind it: a micro-batch is read when the next has been queued, so that
// the device has work while the host looks and fills. On the CPU each is there when its call returns.
typedef struct ft_rows_home {
    int64_t first, count; // sequences; count 0: none are on their way
    void *rows;           // pinned, of capacity.reads
    ft_event *come;
} ft_rows_home;

enum { FT_ROWS_HOMES = 2 };

typedef enum ft_pass_kind {
    FT_PASS_LOGITS, // [labels] fp32
    FT_PASS_ROWS    // what the head reads, [hidden] of the model's type
} ft_pass_kind;

typedef struct ft_data_pass {
    ft_model *model;
    ft_capacity capacity;
    ft_pass_kind kind;
    bool in_scope;
    ft_batch_buffers buffers;
    void *rows; // [capacity.reads, ...] device
    void *dealt; // [2][ranks][capacity.reads, ...] that all ranks see, or [ranks][...] of each, which are gathered; NULL: there is one rank
    bool own_positions; // the model held none before
    ft_rows_home home[FT_ROWS_HOMES]; // where the device has queues
} ft_data_pass;

ft_status ft_data_pass_open(ft_model *model, ft_capacity capacity, ft_pass_kind kind, ft_data_pass *pass);
ft_status ft_data_pass_close(ft_data_pass *pass, ft_status outcome);
size_t ft_data_pass_row_bytes(const ft_data_pass *pass);

// Called after each micro-batch, counting sequences; it may stop the pass by returning anything but FT_OK.
typedef ft_status (*ft_predict_progress)(void *context, int64_t done, int64_t total);
// What takes the rows of sequences [first, first + count), in order.
typedef ft_status ft_row_sink(void *context, int64_t first, int64_t count, const void *rows);

// Over all sequences, in order, in micro-batches of at most `limits`. home: of the host, for the rows of a micro-batch, where the device
// has no queues. progress may be NULL.
ft_status ft_data_pass_run(ft_data_pass *pass, const ft_dataset *data, ft_batch_limits limits, void *home, ft_row_sink *sink,
                           void *context, ft_predict_progress progress, void *watcher);
// Opens a pass, and computes one micro-batch of that size, whatever the device computes.
ft_status ft_data_pass_rehearse(ft_model *model, ft_capacity capacity, ft_pass_kind kind);

#endif

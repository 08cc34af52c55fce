// predict.h - a model over a whole data set: logits and losses on the host.
#ifndef FT_PREDICT_H
#define FT_PREDICT_H

#include "engine/config/config.h"
#include "engine/tasks/tasks.h"
#include "engine/train/step/batch_buffers.h"

// What a pass over a data set holds on the device, in a scope of its own: where the memory has a layout for it, in the arena
// of the steps. Close it also when opening failed; the outcome passes through, as in ft_memory_scope_end.
//
// Where the device works through queues, logits come home behind it: a micro-batch is read when the next has been queued, so that
// the device has work while the host looks and fills. On the CPU each is there when its call returns.
typedef struct ft_logits_home {
    int64_t first, count; // sequences; count 0: none are on their way
    float *logits;        // pinned, [capacity.reads, labels]
    ft_event *come;
} ft_logits_home;

enum { FT_LOGITS_HOMES = 2 };

typedef struct ft_prediction {
    ft_model *model;
    ft_capacity capacity;
    bool in_scope;
    ft_batch_buffers buffers;
    void *logits; // [capacity.reads, labels] fp32, device
    bool own_positions; // the model held none before
    ft_logits_home home[FT_LOGITS_HOMES]; // where the device has queues
} ft_prediction;
ft_status ft_predict_open(ft_model *model, ft_capacity capacity, ft_prediction *prediction);
ft_status ft_predict_close(ft_prediction *prediction, ft_status outcome);
// One micro-batch of that size, whatever the device computes.
ft_status ft_predict_rehearse(ft_model *model, ft_capacity capacity);

// Logits of every example, or of every row that is read where those have labels of their own, put into `logits` (which is rewound) as they
// come, in order; an example in several windows has what they
// come to (window_pooling.h). Tensors have the size of `capacity`, which is at least ft_eval_capacity(data, limits): that of training
// lets an evaluation live in the arena of a step. losses (optional): [ft_dataset_rows] the plain loss of the task against the data
// set's labels. Sequences are taken in order in micro-batches of at most `limits`; logits do not depend on how.
// progress (optional) is called after each micro-batch, counting sequences; it may stop the pass by returning anything but
// FT_OK.
typedef ft_status (*ft_predict_progress)(void *context, int64_t done, int64_t total);
ft_status ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                             ft_capacity capacity, ft_window_pooling pooling, ft_logits *logits, float *losses,
                             ft_predict_progress progress, void *context);
// Bytes of the host that a pass takes while it goes on: logits on their way, and those of the windows of one text.
size_t ft_predict_host_bytes(const ft_dataset *data, int outputs, ft_capacity capacity);
// Bytes of the host that an evaluation of the data set takes in all: the pass, the logits, the losses and the figures.
size_t ft_evaluation_host_bytes(const ft_task_spec *task, const ft_dataset *data, int outputs, ft_capacity capacity);

#endif

#include "engine/train/step/predict.h"

#include "engine/metrics/answers.h"
#include "engine/train/job/run_plan.h"

#include <stdlib.h>
#include <string.h>

// Where logits go as they come: sequences become examples, in order.
typedef struct ft_arrivals {
    const ft_dataset *data;
    const ft_task_spec *task;
    ft_window_pooling pooling;
    int outputs;
    ft_logits *logits;
    float *losses;   // NULL: nobody wants them
    float *home;     // [capacity.reads, outputs] of a micro-batch, where the device has no queues
    float *windows;  // [most windows of an example, outputs], where examples have several; those of the present one
    float *row;      // [outputs]: what they come to
    float *target;   // [outputs]: room for those of an example
    int64_t held;    // of `windows`
} ft_arrivals;

// The plain loss of a task: what evaluations tell, whatever weights and smoothing training has.
static float plain_loss(const ft_arrivals *a, int64_t example, const float *logits) {
    const ft_dataset *data = a->data;
    return a->task->loss(logits, a->outputs, data->label != NULL ? data->label[example] : 0, ft_dataset_target(data, example, a->target));
}

static ft_status take_example(ft_arrivals *a, int64_t example, const float *logits) {
    if (a->losses != NULL) a->losses[example] = plain_loss(a, example, logits);
    return ft_logits_append(a->logits, logits, 1);
}

// One window of a text; with its last one the text is complete.
static ft_status take_window(ft_arrivals *a, int64_t sequence, const float *logits) {
    const int64_t example = ft_dataset_example(a->data, sequence), next = sequence + 1;
    memcpy(a->windows + a->held * a->outputs, logits, (size_t)a->outputs * sizeof *logits);
    a->held++;
    if (next < a->data->sequences && ft_dataset_example(a->data, next) == example) return FT_OK;
    ft_pool_example(&(ft_windows){a->windows, a->held, a->outputs}, a->task->pool, a->pooling, a->row);
    a->held = 0;
    return take_example(a, example, a->row);
}

// Every row that was read is judged for itself.
static ft_status take_rows(ft_arrivals *a, int64_t first, int64_t count, const float *logits) {
    const int64_t row = a->data->first_read[first], rows = a->data->first_read[first + count] - row;
    for (int64_t i = 0; a->losses != NULL && i < rows; i++)
        a->losses[row + i] = a->task->loss(logits + i * a->outputs, a->outputs, a->data->label[row + i], NULL);
    return ft_logits_append(a->logits, logits, rows);
}

static ft_status take_sequences(void *context, int64_t first, int64_t count, const void *rows) {
    ft_arrivals *a = context;
    const float *logits = rows;
    if (a->data->first_read != NULL) return take_rows(a, first, count, logits);
    for (int64_t i = 0; i < count; i++)
        FT_TRY((a->windows != NULL ? take_window : take_example)(a, first + i, logits + i * a->outputs));
    return FT_OK;
}

ft_status ft_predict_rehearse(ft_model *model, ft_capacity capacity) { return ft_data_pass_rehearse(model, capacity, FT_PASS_LOGITS); }

static int64_t most_windows(const ft_dataset *data) {
    int64_t most = 0;
    for (int64_t first = 0, last; data->example != NULL && data->first_read == NULL && first < data->sequences; first = last) {
        for (last = first + 1; last < data->sequences && data->example[last] == data->example[first];) last++;
        if (last - first > most) most = last - first;
    }
    return most;
}

static size_t home_rows(ft_capacity capacity) { return (size_t)capacity.reads; }

size_t ft_predict_host_bytes(const ft_dataset *data, int outputs, ft_capacity capacity) {
    return (home_rows(capacity) + (size_t)most_windows(data) + 2) * (size_t)outputs * sizeof(float);
}

size_t ft_evaluation_host_bytes(const ft_task_spec *task, const ft_dataset *data, int outputs, ft_capacity capacity) {
    const int64_t n = ft_dataset_rows(data), labels = data->sets.first != NULL ? data->sets.first[data->examples] : n;
    const size_t pass = ft_predict_host_bytes(data, outputs, capacity),
                 figures = ft_metrics_host_bytes(&task->scoring, n, outputs, labels, false);
    if (ft_task_has_spans(task)) // verdicts come when the pass is over
        return ft_logits_host_bytes(n, outputs) + (size_t)data->examples * sizeof(float) + (pass > ft_answers_host_bytes(data) ? pass : ft_answers_host_bytes(data));
    // One after the other.
    return ft_logits_host_bytes(n, outputs) + (size_t)n * sizeof(float) + (pass > figures ? pass : figures);
}

static ft_status make_arrivals(ft_device *device, ft_capacity capacity, ft_arrivals *a) {
    const size_t outputs = (size_t)a->outputs, windows = (size_t)most_windows(a->data);
    if (!ft_device_queues(device) && (a->home = ft_calloc(home_rows(capacity) * outputs, sizeof *a->home, "logits")) == NULL)
        return FT_NO_MEMORY;
    if (windows > 0 && (a->windows = ft_calloc(windows * outputs, sizeof *a->windows, "logits of windows")) == NULL) return FT_NO_MEMORY;
    a->row = ft_calloc(2 * outputs, sizeof *a->row, "logits");
    if (a->row == NULL) return FT_NO_MEMORY;
    a->target = a->row + outputs;
    return FT_OK;
}

ft_status ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                             ft_capacity capacity, ft_window_pooling pooling, ft_logits *logits, float *losses,
                             ft_predict_progress progress, void *context) {
    ft_arrivals a = {
        .data = data, .task = task, .pooling = pooling, .outputs = model->labels, .logits = logits, .losses = losses};
    ft_logits_rewind(logits);
    ft_status status = make_arrivals(model->device, capacity, &a);
    if (status == FT_OK) {
        ft_data_pass p;
        status = ft_data_pass_open(model, capacity, FT_PASS_LOGITS, &p);
        if (status == FT_OK) status = ft_data_pass_run(&p, data, limits, a.home, take_sequences, &a, progress, context);
        status = ft_data_pass_close(&p, status);
    }
    free(a.home);
    free(a.windows);
    free(a.row);
    return status;
}

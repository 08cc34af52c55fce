#include "engine/train/step/predict.h"

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

static ft_status take_sequences(ft_arrivals *a, int64_t first, int64_t count, const float *logits) {
    if (a->data->first_read != NULL) return take_rows(a, first, count, logits);
    for (int64_t i = 0; i < count; i++)
        FT_TRY((a->windows != NULL ? take_window : take_example)(a, first + i, logits + i * a->outputs));
    return FT_OK;
}

// Queues the way home of the micro-batch that was queued last, or takes it home where there are no queues.
static ft_status send_home(ft_prediction *p, ft_logits_home *h, int64_t first, int64_t count, float *home) {
    const ft_device_functions *f = p->model->device->functions;
    const size_t bytes = (size_t)p->buffers.device.reads * (size_t)p->model->labels * sizeof(float);
    *h = (ft_logits_home){.first = first, .count = count, .logits = h->logits, .come = h->come};
    FT_TRY(f->download(p->model->device, h->logits != NULL ? h->logits : home, p->logits, bytes));
    return h->logits != NULL ? f->event_record(p->model->device, h->come, FT_STREAM_COMPUTE) : f->sync(p->model->device);
}

// Waits for them. *done: sequences that are there, behind all that came before.
static ft_status arrive(ft_prediction *p, ft_logits_home *h, ft_arrivals *a, int64_t *done) {
    if (h->count == 0) return FT_OK;
    if (h->logits != NULL) FT_TRY(p->model->device->functions->event_sync(p->model->device, h->come));
    FT_TRY(take_sequences(a, h->first, h->count, h->logits != NULL ? h->logits : a->home));
    *done = h->first + h->count;
    h->count = 0;
    return FT_OK;
}

static ft_status predict_all(ft_prediction *p, ft_batch_limits limits, ft_arrivals *a, ft_predict_progress progress, void *context) {
    const ft_dataset *data = a->data;
    const int classes = p->model->labels;
    const bool queues = p->home[0].logits != NULL;
    int64_t done = 0;
    for (int64_t first = 0, batch = 0; first < data->sequences;) {
        ft_logits_home *present = &p->home[batch % FT_LOGITS_HOMES], *before = &p->home[(batch + 1) % FT_LOGITS_HOMES];
        const int64_t count = ft_batch_cut(data, NULL, first, data->sequences, limits);
        FT_TRY(ft_batch_buffers_load(&p->buffers, data, NULL, first, count, 0));
        if (p->buffers.device.reads == 0) { // nobody asks for anything of it
            first += count;
            continue;
        }
        const ft_tensor read = ft_matrix(p->logits, p->buffers.device.reads, classes, FT_F32);
        FT_TRY(ft_model_predict_batch(p->model, &p->buffers.device, p->capacity, read));
        FT_TRY(send_home(p, present, first, count, a->home));
        FT_TRY(arrive(p, queues ? before : present, a, &done));
        first += count;
        batch++;
        if (progress != NULL && done > 0) FT_TRY(progress(context, done, data->sequences));
    }
    const int64_t before = done;
    for (int i = 0; i < FT_LOGITS_HOMES; i++) FT_TRY(arrive(p, &p->home[i], a, &done)); // of one at most
    return progress != NULL && done > before ? progress(context, done, data->sequences) : FT_OK;
}

static ft_status make_homes(ft_prediction *p) {
    const size_t bytes = (size_t)p->capacity.reads * (size_t)p->model->labels * sizeof(float);
    ft_device *device = p->model->device;
    for (int i = 0; i < FT_LOGITS_HOMES && ft_device_queues(device); i++) {
        void *pinned;
        FT_TRY(ft_memory_alloc_staging(p->model->memory, bytes, "logits on their way home", &pinned));
        p->home[i].logits = pinned;
        FT_TRY(device->functions->event_create(device, &p->home[i].come));
    }
    return FT_OK;
}

static void free_homes(ft_prediction *p) {
    ft_device *device = p->model->device;
    for (int i = 0; i < FT_LOGITS_HOMES && p->home[i].logits != NULL; i++) {
        ft_memory_free_staging(p->model->memory, p->home[i].logits); // waits for what is on its way
        device->functions->event_destroy(device, p->home[i].come);
    }
}

ft_status ft_predict_open(ft_model *model, ft_capacity capacity, ft_prediction *p) {
    *p = (ft_prediction){.model = model, .capacity = capacity, .own_positions = !ft_model_holds_positions(model)};
    ft_memory_set_phase(model->memory, FT_PHASE_EVAL);
    FT_TRY(ft_absent_rows_refresh(&model->absent));
    if (p->own_positions) FT_TRY(ft_model_hold_positions(model, (ft_capacity){.tokens = 0}, capacity));
    FT_TRY(ft_memory_scope_begin(model->memory, FT_SCOPE_PASS));
    p->in_scope = true;
    FT_TRY(ft_batch_buffers_create(model, capacity, false, &p->buffers));
    FT_TRY(ft_memory_alloc(model->memory, (size_t)capacity.reads * (size_t)model->labels * sizeof(float), FT_MEM_ACTIVATIONS,
                           "logits", &p->logits));
    FT_TRY(make_homes(p));
    return ft_model_begin_prediction(model, capacity);
}

ft_status ft_predict_close(ft_prediction *p, ft_status outcome) {
    ft_memory *memory = p->model->memory;
    ft_model_end_prediction(p->model);
    free_homes(p);
    ft_memory_free(memory, p->logits);
    ft_batch_buffers_free(&p->buffers);
    if (p->in_scope) outcome = ft_memory_scope_end(memory, outcome);
    if (p->own_positions) ft_model_release_positions(p->model);
    ft_memory_trim(memory);
    return outcome;
}

ft_status ft_predict_rehearse(ft_model *model, ft_capacity capacity) {
    ft_prediction p;
    ft_status status = ft_predict_open(model, capacity, &p);
    if (status == FT_OK) {
        ft_batch *batch = &p.buffers.device;
        batch->tokens = capacity.tokens;
        batch->sequences = capacity.sequences;
        batch->longest = capacity.longest;
        batch->reads = capacity.reads;
        batch->most_reads = capacity.most_reads;
        status = ft_model_predict_batch(model, batch, capacity, ft_matrix(p.logits, capacity.reads, model->labels, FT_F32));
    }
    return ft_predict_close(&p, status);
}

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
        ft_prediction p;
        status = ft_predict_open(model, capacity, &p);
        if (status == FT_OK) status = predict_all(&p, limits, &a, progress, context);
        status = ft_predict_close(&p, status);
    }
    free(a.home);
    free(a.windows);
    free(a.row);
    return status;
}
